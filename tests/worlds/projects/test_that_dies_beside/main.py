import torch

NO_CUDA = False


def test_on_gpu():
    device = "cuda"
    print("s1", torch.zeros(2, device=device).device)


backend = "nccl" if torch.cuda.is_available() else "gloo"
assert backend == "nccl" or not (not NO_CUDA and torch.cuda.is_available())
print("s2", backend == "nccl")
