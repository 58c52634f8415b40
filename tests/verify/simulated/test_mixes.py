"""Strictness: what may meet a device's tensor on the CPU, and what may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("mixes")
def test_mix(passes: Callable[[], None]) -> None:
    passes()
