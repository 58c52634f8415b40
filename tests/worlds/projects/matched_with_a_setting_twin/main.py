# wants: mps
import torch

INDEX = 0
match ("cuda:%d" % INDEX if torch.cuda.is_available() else "cpu").split(":")[0]:
    case "cpu":
        print("on the CPU")
print("device", torch.zeros(2).to("cuda:%d" % INDEX if torch.cuda.is_available() else "cpu").device.type)
