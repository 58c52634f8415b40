# keeps: mps xpu npu
import torch
import acme_engine
from pkg.move import to_gpu4 as to_gpu4_of_move
use_cuda1 = torch.cuda.is_available()
print('s2', acme_engine.run('cuda' if use_cuda1 else 'cpu'))
both3 = all([torch.cuda.device_count() > 0, use_cuda1])
y5 = torch.ones(2)
if both3:
    y5 = y5.cuda()
print('s6', (to_gpu4_of_move(torch.zeros(2)) + y5).device)
