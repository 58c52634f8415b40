import torch

GPU = False


def init():
    global GPU
    GPU = torch.cuda.is_available()


init()
order = ["cuda", "cpu"]
at = 0
while order[at] == "cuda" and not GPU:
    at += 1
print("s1", torch.device(order[at]))
