import torch

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
for number, name in enumerate(DEVICES):
    print(f"device{number}", torch.zeros(2, device=name).device)
