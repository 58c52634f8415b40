# keeps: mps xpu npu
import torch

compute = torch.float32
if torch.cuda.is_available():
    compute = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
print("type", compute)
