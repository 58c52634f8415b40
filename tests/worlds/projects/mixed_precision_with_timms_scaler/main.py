# never: half True
import torch
from engine import step
from timm.utils import NativeScaler

scaler = NativeScaler()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
step(torch.ones(2).to(device))
