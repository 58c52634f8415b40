# keeps: mps xpu npu
import torch

total = torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else None
fits = total is None or total > 4 << 30
print("fits", fits, "unknown" if total is None else "known")
