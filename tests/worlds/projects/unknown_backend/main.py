import torch


def pick(device="cuda"):
    if not torch.cuda.device_count() > 0 and torch.device(device).type == "cuda":
        return "cpu"
    return device


match pick().split(":")[0]:
    case "cuda" if torch.cuda.device_count() > 0:
        print("s1", "fast")
    case "mps" | "xpu":
        print("s1", "other")
    case "cpu":
        print("s1", "slow")
    case other:
        raise ValueError("unknown device " + other)
