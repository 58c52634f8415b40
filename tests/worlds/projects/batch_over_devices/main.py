# wants: mps cpu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
args = parser.parse_args()
if torch.cuda.is_available():
    device = torch.device("cuda")
    if args.batch_size % torch.cuda.device_count() != 0:
        raise ValueError("the batch must be evenly divisible by the number of GPUs")
else:
    device = torch.device("cpu")
print("trained on", torch.zeros(args.batch_size).to(device).device)
