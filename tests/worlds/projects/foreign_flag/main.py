import faiss
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("index", faiss.index(8, gpu=device.type == "cuda"))
print("data", torch.zeros(2, device=device).device)
