# keeps: cpu mps xpu npu
# env: RUN=0
import argparse
import os

import torch

print("s0", torch.cuda.device_count())
parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
device = torch.device("cpu" if parser.parse_args().cpu else "cuda")
if device.type == "cuda":
    print("s1", "chosen cuda")
if os.environ.get("RUN") == "1":
    print("s2", torch.zeros(2, device=device).device)
