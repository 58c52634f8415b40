# keeps: mps
# input:
# input: --half
import argparse

import torch
from devices import pick

parser = argparse.ArgumentParser()
parser.add_argument("--half", action="store_true")
args = parser.parse_args()
device = pick()
model = torch.nn.Linear(2, 2).to(device)
with torch.autocast("cuda", dtype=torch.float16, enabled=args.half):
    out = model(torch.ones(2, device=device))
    print("new", out.device.type, torch.is_autocast_enabled(device))
