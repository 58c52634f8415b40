# wants: mps xpu npu
import torch

count = torch.cuda.device_count()
x = torch.zeros(2, device="cuda:%d" % (count - 1) if count else "cpu")
print("device", torch.zeros(2, device="cuda" if x.is_cuda else "cpu").device)
print("made", (torch.device("cuda") if x.is_cuda else torch.device("cpu")).type)
