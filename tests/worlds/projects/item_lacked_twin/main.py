# wants: mps xpu npu cpu
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
device = torch.device(args.device)
model = torch.nn.Linear(2, 2).to(device)

kinds = {"first": 1}
if device.type == "cpu":
    kinds["second"] = 2


def evaluate(found, kinds):
    stats = {name: 1 for name in found}
    for each in found:
        if each:
            if "first" in kinds.keys():
                stats["first"] = 1
            if "second" in kinds.keys():
                stats["second"] = 2
    return stats


print("s1", device.type, "first" in evaluate(["a"], kinds))
