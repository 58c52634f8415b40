import torch


def maker():
    device = "cuda:0" if torch.cuda.device_count() > 0 else "xpu" if torch.xpu.is_available() else "cpu"

    def inner():
        return device

    return inner


inner = maker()
model = torch.nn.Linear(2, 2).to(inner())
x = torch.ones(2)
if torch.cuda.is_available():
    x = x.cuda()
print("s1", model(x).device)


def is_cuda_available():
    return torch.cuda.is_available()


other = torch.nn.Linear(2, 2)
other = other.cuda() if is_cuda_available() else other
