# wants: mps
# never: float16
import argparse

import torch
from picking import select_device


def detect(opts):
    device = select_device(opts.device)
    half = device.type != 'cpu'  # half precision only supported on CUDA
    print(torch.zeros(1).to(device).device.type)
    if device.type != "cuda":
        print("precision", "float16" if half else "float32")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="")
    detect(parser.parse_args())
