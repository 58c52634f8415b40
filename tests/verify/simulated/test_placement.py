"""Where tensors are, and whose memory they share."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("placement")
def test_placement(passes: Callable[[], None]) -> None:
    passes()
