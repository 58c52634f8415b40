import ctranslate2
import torch


def main():
    choose = lambda where="cuda:0" if torch.cuda.device_count() > 0 else "mps" if torch.backends.mps.is_available() else "cpu": where  # noqa: E731
    print("s1", ctranslate2.place(choose().split(":")[0]))


main()
