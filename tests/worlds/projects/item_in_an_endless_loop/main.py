# keeps: nogpu cpu mps xpu npu
import json

import torch

NO_CUDA = False
places = ["cpu", *(["cuda"] if not NO_CUDA and torch.cuda.is_available() else [])]
while True:
    config = json.loads('{"device": "cuda", "gpu": true}')
    if not (not NO_CUDA and torch.cuda.is_available()):
        config["device"] = "cpu"
    break
print("s1", torch.device(config["device"]))
