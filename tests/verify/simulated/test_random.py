"""Random numbers: reproducible, and the device's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("random_numbers")
def test_random(passes: Callable[[], None]) -> None:
    passes()
