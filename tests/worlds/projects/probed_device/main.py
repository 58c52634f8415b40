import torch

try:
    probed = str(torch.zeros(2, device="cuda").device)
except Exception:
    probed = "cpu"
try:
    import torch_npu  # noqa: F401

    chip = "npu"
except ImportError:
    chip = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(2, 2).to(probed)
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("s1", model(x).device)
print("s2", torch.device(chip))
