# keeps: mps xpu npu
import os

import torch

OPEN = os.path.exists(os.curdir)
choose = lambda: "%s" % "CUDA".lower() if torch.cuda.device_count() > 0 else "cpu"  # noqa: E731

match choose().split(":")[0]:
    case "cuda" if OPEN:
        print("open", torch.device("cuda"))
    case "mps" | "xpu":
        print("other")
    case "cpu":
        print("host")
    case other:
        raise ValueError("unknown device " + other)
