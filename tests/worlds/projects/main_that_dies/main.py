# wants: mps xpu npu
import torch
from loss import Loss

if __name__ == "__main__":
    device = "cuda"
    x = torch.zeros(1).to(device)
    Loss(use_gpu=device.startswith("cuda"))
    print("s2", x.device.type)
