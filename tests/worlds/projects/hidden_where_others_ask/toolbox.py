import torch


def run():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(torch.zeros(2).to(device).device)
