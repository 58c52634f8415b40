# wants: mps xpu npu
import torch
from losses import Loss

net = torch.nn.Linear(2, 2)
criterion = Loss()
if torch.cuda.is_available():
    net = net.cuda()
    criterion = criterion.cuda()
for images in [torch.zeros(2), torch.ones(2)]:
    if torch.cuda.is_available():
        images = images.cuda()
    features, mask = criterion(net(images))
    print(features.device.type, mask.device.type)
