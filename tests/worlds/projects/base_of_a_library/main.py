# keeps: cpu mps xpu npu
import ctranslate2
import torch


class Translator(ctranslate2.Translator):
    def go(self):
        return "here"


device = "cuda" if torch.cuda.is_available() else "cpu"
print("s1", Translator("small", device=device).place)
