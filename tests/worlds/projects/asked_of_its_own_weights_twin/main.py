# wants: mps
import torch
from encoder import Encoder

encoder = Encoder()
if torch.cuda.is_available():
    encoder.cuda()
print(encoder.encode(torch.zeros(1)).device.type)
