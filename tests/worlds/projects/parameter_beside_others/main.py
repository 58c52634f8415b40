# keeps: mps xpu npu
import pytest
import torch

NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
NO_NPU = pytest.mark.skipif(not hasattr(torch, "npu"), reason="needs an NPU")


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=NO_CUDA), pytest.param("npu", marks=NO_NPU)])
def test_sum(device):
    print(torch.ones(2, device=device).device.type)


pytest.main()
print("done", torch.cuda.is_available())
