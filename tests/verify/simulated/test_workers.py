"""DataLoader workers and other processes that a program starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("workers")
def test_workers(passes: Callable[[], None]) -> None:
    passes()
