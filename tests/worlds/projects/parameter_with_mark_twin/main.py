# wants: mps
import pytest
import torch


@pytest.mark.parametrize("device", ["cuda" if torch.cuda.is_available() else "cpu"])
def test_sum(device):
    print(torch.ones(2, device=device).device)


pytest.main()
