# keeps: cpu
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
paths = {"cpu": "slow"}
if device == "cuda":
    paths["cuda"] = "fast"

print("s1", device, paths[device])
