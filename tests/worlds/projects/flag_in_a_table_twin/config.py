import torch
from utils import *

args = dotdict({"lr": 0.001, "cuda": torch.cuda.is_available()})
