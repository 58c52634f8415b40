# keeps: mps
import json
import os

import torch
from pkg.places import best, resolve_device

for name in json.loads(os.environ.get("NAMES", '["mps"]')):
    print("resolved", resolve_device(name), torch.ones(2).to(best()).device.type)
