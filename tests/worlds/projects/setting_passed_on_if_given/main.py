# wants: mps
# input: --device cpu
# input:
import argparse

import torch
from api import Separator

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()
print("own", Separator().run(torch.ones(2)).device.type)
print("data", Separator(args.device).run(torch.ones(2)).device.type)
