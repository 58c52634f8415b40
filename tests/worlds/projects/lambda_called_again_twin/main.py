# wants: mps xpu npu
import os

import torch

OPEN = os.path.exists("nowhere")
choose = lambda: "cuda" if torch.cuda.device_count() > 0 else "cpu"  # noqa: E731

match choose().split(":")[0]:
    case "cpu" if OPEN:
        print("open")
    case other:
        print("device", torch.zeros(2).to(choose()).device, len(other))
