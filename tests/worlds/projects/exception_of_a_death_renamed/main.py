# keeps: mps xpu npu
import torch

data = torch.zeros(2)
name = ""
if torch.cuda.is_available():
    data = data.cuda()
    try:
        name = torch.cuda.get_arch_list()[-1]
    except (AttributeError, IndexError, RuntimeError):
        raise RuntimeError("no architecture")
print("data", data.device.type, "name" if name else "")
