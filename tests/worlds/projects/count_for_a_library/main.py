# keeps: mps xpu
import faiss
import torch

count = torch.cuda.device_count()
print(faiss.index(8, gpu=count))
