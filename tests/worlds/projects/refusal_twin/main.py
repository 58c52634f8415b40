# wants: mps
import torch

if not torch.cuda.is_available():
    raise SystemExit("This needs CUDA")
model = torch.nn.Linear(2, 2).cuda()
print("model", model.weight.device)
