# keeps: cpu
# never: cuda:0
import contextlib
import unittest

import torch

INDEX = 0
match ("cuda:%d" % INDEX if torch.cuda.is_available() else "cpu").split(":")[0]:
    case "cuda" if torch.cuda.is_available():
        print("s1", torch.device("cuda"))
    case "mps" | "xpu":
        print("s1", "other")
    case "cpu":
        print("s1", "host")
    case other:
        raise ValueError("unknown device " + other)


def require_gpu3(test):
    return unittest.skipUnless(torch.cuda.is_available(), "test requires a GPU")(test)


class Test2(unittest.TestCase):
    @require_gpu3
    def test_it(self):
        print("s4", torch.device("cuda:%d" % INDEX))


with contextlib.suppress(unittest.SkipTest):
    Test2("test_it").debug()
Tensor5 = torch.cuda.FloatTensor if torch.cuda.device_count() > 0 else torch.FloatTensor
print("s6", Tensor5(2).device)
