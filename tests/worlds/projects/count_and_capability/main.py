# keeps: mps xpu npu
import torch

fast = torch.cuda.device_count() > 0 and torch.cuda.get_device_capability(0)[0] >= 8
print("fast", fast)
