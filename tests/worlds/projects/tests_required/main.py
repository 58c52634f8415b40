import contextlib
import unittest

import torch
from package.testing import require_torch_gpu


class Cases(unittest.TestCase):
    def setUp(self):
        if not torch.cuda.is_available():
            self.skipTest("needs CUDA")

    def test_moved(self):
        print("moved", torch.zeros(2).to("cuda:0").device)

    @require_torch_gpu
    def test_required(self):
        print("required", torch.zeros(2, device="cuda").device)


for name in ("test_moved", "test_required"):
    with contextlib.suppress(unittest.SkipTest):
        case = Cases(name)
        case.setUp()
        getattr(case, name)()
