import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2


if __name__ == "__main__":
    print("demo", Net()(torch.ones(2).cuda()).device)
