# keeps: mps xpu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
index = parser.parse_args([]).gpu
first = argparse.ArgumentParser()
first.add_argument("--device", default=f"cuda:{index}" if torch.cuda.is_available() and index >= 0 else "cpu")
second = argparse.ArgumentParser()
second.add_argument("--device", default="cuda", choices=["cpu", "cuda", "mps"])
chosen = second.parse_args([])
if not torch.cuda.is_available():
    if chosen.device.startswith("cuda"):
        pass
    chosen.device = "cpu"
print("first", torch.zeros(2, device=first.parse_args([]).device).device)
print("second", torch.device(chosen.device))
