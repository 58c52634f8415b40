"""torch.cuda.FloatTensor and its kin on a simulated CUDA device."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("tensor_types")
def test_tensor_types(passes: Callable[[], None]) -> None:
    passes()
