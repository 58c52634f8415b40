# wants: mps
import types

import torch

options = types.SimpleNamespace(gpu=torch.cuda.is_available())
print("s1", torch.zeros(2, device="cuda" if options.gpu else "cpu").device)
