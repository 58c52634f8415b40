# keeps: mps xpu npu
import ctranslate2
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
half = device.type != "cpu"
print("precision", "float16" if half else "float32", ctranslate2.place(device.type))
