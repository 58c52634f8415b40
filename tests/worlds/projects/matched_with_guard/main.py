import torch

choose = lambda gpu=torch.cuda.is_available(): "cuda" if gpu else "cpu"  # noqa: E731
match choose().split(":")[0]:
    case "cuda" if torch.cuda.is_available():
        print("s1", "fast")
    case "mps" | "xpu":
        print("s1", "other")
    case "cpu":
        print("s1", "host")
    case other:
        raise ValueError("unknown device " + other)
print("s2", torch.zeros(2, device=choose()).device)
