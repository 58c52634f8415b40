# input: --num-gpus 2
import argparse

import torch


def check(num_gpus):
    if torch.cuda.is_available():
        assert num_gpus <= torch.cuda.device_count(), "Cannot use more GPU devices than available"
    else:
        assert num_gpus < 8, "too many"


parser = argparse.ArgumentParser()
parser.add_argument("--num-gpus", type=int, default=1)
check(parser.parse_args().num_gpus)
print("device", torch.zeros(2, device="cuda" if torch.cuda.is_available() else "cpu").device.type)
