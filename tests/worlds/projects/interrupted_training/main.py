# keeps: mps xpu npu
import torch

use_cuda = torch.cuda.is_available()


def train(x):
    if use_cuda:
        print("copies", len(torch.nn.parallel.replicate(torch.nn.Linear(2, 2), [0])))
    print("device", x.device)


try:
    train(torch.ones(2))
except KeyboardInterrupt:
    print("interrupted")
