"""Every operator of torch's own tests: on a simulated device it gives the CPU's results and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("expecttest")  # which torch.testing._internal imports


@pytest.mark.checks("opinfo")
def test_opinfo(passes: Callable[[], None]) -> None:
    passes()
