import torch

if torch.cuda.is_available():
    torch.cuda.set_device(0)
for name, there in (("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available()), ("cpu", True)):
    if there:
        break
print("data", torch.zeros(2, device=name).device)
