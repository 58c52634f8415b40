# keeps: mps xpu npu
import torch

half = torch.cuda.is_available()
print("precision", "float16" if half else "float32")
