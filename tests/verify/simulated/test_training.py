"""Nets of all kinds train on a simulated device as on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("training")
def test_training(passes: Callable[[], None]) -> None:
    passes()
