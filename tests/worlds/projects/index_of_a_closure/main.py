# keeps: cpu
# never: cuda:0
import contextlib
import os
import unittest

import torch


def main():
    INDEX = 0
    if "cuda" in (f"cuda:{INDEX}" if torch.cuda.is_available() else "cpu"):
        print("on CUDA")

    def require_gpu(test):
        return unittest.skipUnless(torch.cuda.device_count() > 0, "test requires a GPU")(test)

    class Test(unittest.TestCase):
        @require_gpu
        def test_it(self):
            print("test", torch.device(f"cuda:{INDEX}"))

    with contextlib.suppress(unittest.SkipTest):
        Test("test_it").debug()
    where = os.getenv("RUN_ON") or ("cuda" if torch.cuda.is_available() else "cpu")
    print("where", torch.device(where))


if __name__ == "__main__":
    main()
