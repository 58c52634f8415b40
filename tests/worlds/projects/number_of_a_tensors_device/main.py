# keeps: mps xpu npu
import torch


def tell(output):
    place = -1
    on_cuda = output.is_cuda
    if on_cuda:
        place = output.get_device()
    print("place", place)


tell(torch.ones(2).to("cuda" if torch.cuda.is_available() else "cpu"))
