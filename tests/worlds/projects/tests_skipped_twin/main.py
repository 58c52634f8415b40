# wants: mps
import pytest
import torch


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_device():
    x = torch.zeros(2).cuda()
    print("pytest", (x + torch.ones(2, device="cuda")).device)


pytest.main()
