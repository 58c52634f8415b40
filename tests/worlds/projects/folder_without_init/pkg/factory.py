from pkg.net import Net


def build(device):
    return Net(device)
