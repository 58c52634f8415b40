# wants: mps
import torch


def main():
    x = torch.zeros(2, device="cuda" if torch.cuda.is_available() else "cpu")
    if x.get_device() >= 0:
        print("s1", torch.zeros(2).cuda().device.type)
    match ("cuda:0" if torch.cuda.is_available() else "cpu").split(":")[0]:
        case "cuda" if torch.cuda.is_available():
            print("s2", torch.device("cuda"))
        case other:
            pass


main()
