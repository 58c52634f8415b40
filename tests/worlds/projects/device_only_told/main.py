# keeps: cpu nogpu
import torch

kind = "cuda" if torch.cuda.is_available() else "cpu"
where = kind + ":0"
if where != "cpu":
    print(torch.device("cuda"))
print(torch.ones(2, device=where).device.type)
