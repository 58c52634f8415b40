# wants: mps
# env: SLOW=1
import os

import pytest
import torch

cuda_only = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
slow_only = pytest.mark.skipif(not os.environ.get("SLOW"), reason="needs time")
either = cuda_only if os.environ.get("SLOW") else slow_only


@either
@pytest.mark.parametrize("flag", [True, False])
def test_it(flag):
    x = torch.ones(2)
    if flag:
        x = x.to("cuda")
    else:
        x = x + 1
    print("pytest", x.device)


pytest.main()
