import ctranslate2
import torch

INDEX = 0
kind = "cuda" if torch.cuda.is_available() else "cpu"
where = "%s:%d" % (kind, INDEX)
print("s1", ctranslate2.place(where.split(":")[0]))
