# wants: mps
import torch


def run(index):
    device = "cuda:" + str(index) if torch.cuda.is_available() else "cpu"
    with torch.autocast(device_type=device.split(":")[0], dtype=torch.bfloat16, enabled=False):
        print("x", torch.ones(2).to(device).device.type)


run(0)
