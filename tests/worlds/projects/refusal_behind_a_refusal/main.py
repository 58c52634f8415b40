# keeps: mps xpu npu
import argparse

import torch


def evaluate(opts):
    use_cuda = torch.cuda.is_available() and not opts.no_cuda
    if use_cuda:
        count = torch.cuda.device_count()
        assert count >= opts.least, "one for each part"
        results = [torch.zeros(1).to("cuda:{}".format(i)) for i in range(count)]
    else:
        device = torch.device("cuda:0" if use_cuda else "cpu")
        results = [torch.zeros(1).to(device)]
    print(results[0].device)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=int, default=2)
    parser.add_argument("--no_cuda", action="store_true")
    evaluate(parser.parse_args())
