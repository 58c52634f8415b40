# wants: mps xpu npu
import torch

use_cuda = torch.cuda.is_available()


def train(x):
    if use_cuda:
        x = x.to("cuda")
    print("device", x.device)


try:
    train(torch.ones(2))
except KeyboardInterrupt:
    print("interrupted")
