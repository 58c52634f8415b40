# wants: mps
# input: --size small
import argparse

import torch
from library import work

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--size", default="large")
args = parser.parse_args().__dict__
work(args)
