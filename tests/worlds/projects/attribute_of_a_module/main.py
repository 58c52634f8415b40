import os

import torch

setattr(os, "gpu", torch.cuda.device_count() > 0)  # noqa: B010
if getattr(os, "gpu") and torch.cuda.get_device_properties(0).major >= 8:  # noqa: B009
    print("s1", "new")
else:
    print("s1", "old")
