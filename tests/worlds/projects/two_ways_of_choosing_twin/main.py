# wants: mps
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(2, 2).to(device)
images = torch.ones(2)
if torch.cuda.is_available():
    images = images.cuda(0, non_blocking=True)
print("output", model(images).device)
