import torch

print("s1", torch.ones(2).to("cuda:0" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu").device)
move = (lambda t: t.cuda()) if torch.cuda.device_count() > 0 else lambda t: t
print("s2", move(torch.zeros(2)).device)
