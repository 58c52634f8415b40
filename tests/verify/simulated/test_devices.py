"""Two simulated devices, and those that are not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("devices")
def test_devices(passes: Callable[[], None]) -> None:
    passes()
