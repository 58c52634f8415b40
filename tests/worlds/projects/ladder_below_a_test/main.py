import torch


def test_on_cuda():
    assert torch.zeros(2, device="cuda").is_cuda


model = torch.nn.Linear(2, 2).to(
    "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
)
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print(model(x).device)
