# input: --no_cuda
# input:
import torch
from torch import nn

from model import make_parallel
from opts import parse_opts


def main_worker(index, opt):
    if index >= 0 and opt.device.type == "cuda":
        opt.device = torch.device(f"cuda:{index}")
    model = make_parallel(nn.Linear(3, 4), opt.device)
    criterion = nn.Linear(4, 2).to(opt.device)
    print(criterion(model(torch.ones(3).to(opt.device))).device.type)


if __name__ == "__main__":
    opt = parse_opts()
    opt.device = torch.device("cpu" if opt.no_cuda else "cuda")
    main_worker(opt.rank, opt)
