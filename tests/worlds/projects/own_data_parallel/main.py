# keeps: mps xpu npu
import torch
from parallel import Parallel

print("data", Parallel(torch.nn.Linear(2, 2))(torch.ones(2)).device.type)
