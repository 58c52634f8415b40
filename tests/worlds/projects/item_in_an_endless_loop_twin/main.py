# wants: mps xpu npu
import torch

while True:
    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"
    break
print("s1", torch.device(device))
