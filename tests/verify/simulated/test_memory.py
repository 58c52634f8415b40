"""Memory of a simulated device: exact statistics, a capacity, poison."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("memory")
def test_memory(passes: Callable[[], None]) -> None:
    passes()
