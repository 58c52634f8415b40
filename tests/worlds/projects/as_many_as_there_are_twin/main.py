# wants: mps
# input:
import argparse

import torch


def build(num_gpus):
    if torch.cuda.is_available():
        assert num_gpus <= torch.cuda.device_count(), "Cannot use more GPU devices than available"
    else:
        assert num_gpus == 0, "Cuda is not available. Please set `NUM_GPUS: 0 for running on CPUs."
    model = torch.nn.Linear(3, 3)
    if num_gpus:
        model = model.cuda(device=torch.cuda.current_device())
    return model


parser = argparse.ArgumentParser()
parser.add_argument("--num-gpus", type=int, default=1)
args = parser.parse_args()
model = build(args.num_gpus)
x = torch.rand(2, 3)
if args.num_gpus:
    x = x.cuda()
print("device", model(x).device)
