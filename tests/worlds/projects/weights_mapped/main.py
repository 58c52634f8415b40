import torch

where = None if torch.cuda.is_available() else "cpu"
print("data", torch.load("cuda.pt", map_location=where)["w"].device)
