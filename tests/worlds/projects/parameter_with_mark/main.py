import pytest
import torch

NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_CUDA)])
def test_sum(device):
    print(torch.ones(2, device=device).device)


pytest.main()
