# wants: mps
import torch

INDEX = 0
kind = "cuda" if torch.cuda.is_available() else "cpu"
where = "%s:%d" % (kind, INDEX)
print("s1", torch.zeros(2, device=where.split(":")[0]).device)
