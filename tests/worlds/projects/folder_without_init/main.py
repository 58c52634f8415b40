import pkg.factory
import torch


def main():
    made = pkg.factory.build("cuda" if torch.cuda.is_available() else "cpu")
    print("s1", {"cuda": 1, "cpu": 2, "mps": 3, "xpu": 4}[str(made.device).split(":")[0]] > 0)
    print("s2", torch.zeros(2, device=made.device).device)


if __name__ == "__main__":
    main()
