# wants: mps
import argparse

import torch


def select(size):
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        if count > 1 and size:
            assert size % count == 0, "the batch size %d is no multiple of the GPU count %d" % (size, count)
        return torch.device("cuda:0")
    return torch.device("cpu")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=12)
    print(torch.zeros(1).to(select(parser.parse_args().size)).device.type)
