# keeps: mps xpu npu
import torch

dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
print("data", torch.zeros(2, dtype=dtype).dtype)
