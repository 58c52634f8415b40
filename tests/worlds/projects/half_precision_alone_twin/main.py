# wants: mps
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
data = torch.zeros(2, dtype=dtype, device=device)
print("data", data.device.type, data.dtype)
