# wants: mps xpu npu
import torch
from engine import step

scaler = torch.cuda.amp.GradScaler()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
step(torch.ones(2).to(device))
