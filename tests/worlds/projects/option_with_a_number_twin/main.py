# wants: mps
# wants: npu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
device = torch.device(f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(2, 2).to(device)
if device.type != "cpu":
    torch.cuda.synchronize(device)
print("s1", model(torch.ones(2).to(device)).device)
