import torch

if torch.cuda.is_available():
    state = torch.load("cuda.pt")
else:
    state = torch.load("cuda.pt", map_location="cpu")
print("s1", state["w"].device)
