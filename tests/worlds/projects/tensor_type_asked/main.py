import torch

NO_CUDA = False
x = torch.zeros(2, device="cuda" if not NO_CUDA and torch.cuda.device_count() > 0 else "mps" if torch.backends.mps.is_available() else "cpu")
print("s1", (x + (torch.ones(2).cuda() if x.type() == "torch.cuda.FloatTensor" else torch.ones(2))).device)
