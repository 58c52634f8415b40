"""torch.nn.DataParallel on simulated CUDA devices; on the others it fails as it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("data_parallel")
def test_data_parallel(passes: Callable[[], None]) -> None:
    passes()
