import torch

NO_CUDA = False
one = lambda gpu=not NO_CUDA and torch.cuda.is_available(): "cuda" if gpu else "cpu"  # noqa: E731
two = lambda where="cuda:0" if not NO_CUDA and torch.cuda.device_count() > 0 else "cpu": where  # noqa: E731
print("s1", torch.device(one()))
print("s2", torch.zeros(2, device=two()).device)
