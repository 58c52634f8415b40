import torch

try:
    import torch_npu  # noqa: F401

    chip = "npu"
except ImportError:
    chip = "cuda" if torch.cuda.device_count() > 0 else "cpu"
model = torch.nn.Linear(2, 2).to(chip)
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("s1", model(x).device)
