import unittest

import torch


def require_torch_gpu(test_case):
    """Skip a test where there is no GPU."""
    return unittest.skipUnless(torch.cuda.is_available(), "test requires a GPU")(test_case)
