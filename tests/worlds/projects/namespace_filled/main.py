import types

import torch

options = types.SimpleNamespace(gpu=torch.cuda.is_available())
total = torch.cuda.get_device_properties(0).total_memory if options.gpu else 0
print("s1", total > 1 << 30)
