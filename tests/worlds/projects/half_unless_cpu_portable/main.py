# keeps: mps xpu npu
# input: --device mps
# input:
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="")
opts = parser.parse_args()
if opts.device:
    device = torch.device(opts.device)
else:
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
half = device.type != "cpu"
print(torch.zeros(1, device="cpu").device.type, "float16" if half else "float32")
