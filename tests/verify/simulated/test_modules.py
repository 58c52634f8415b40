"""torch.cuda, torch.xpu, torch.mps, torch.mtia and torch.npu."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("modules")
def test_modules(passes: Callable[[], None]) -> None:
    passes()
