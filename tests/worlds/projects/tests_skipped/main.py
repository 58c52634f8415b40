import pytest
import torch

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@needs_cuda
@pytest.mark.parametrize("device", ["cuda"])
def test_device(device):
    print("pytest", torch.zeros(2, device=device).device)


pytest.main()
