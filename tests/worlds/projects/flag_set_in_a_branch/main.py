# keeps: mps xpu npu
import ctranslate2
import torch


def run():
    if torch.cuda.is_available():
        use_cuda = True
    else:
        use_cuda = False
    if use_cuda:
        print("placed", ctranslate2.place("cuda"))
    print("seen", use_cuda)


run()
