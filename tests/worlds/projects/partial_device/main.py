import functools

import torch

placed = functools.partial(torch.device, "cuda" if torch.cuda.device_count() > 0 else "mps" if torch.backends.mps.is_available() else "cpu")
print("s1", placed().type)
