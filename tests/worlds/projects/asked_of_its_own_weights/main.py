# keeps: mps xpu npu
import torch
from encoder import Encoder

encoder = Encoder()
if torch.cuda.is_available():
    encoder.cuda()
elif torch.backends.mps.is_available():
    encoder.to("mps")
print(encoder.encode(torch.zeros(1)).device.type)
