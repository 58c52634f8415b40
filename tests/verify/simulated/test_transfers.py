"""Copies between host and device, and what the host sees of those that it has not waited for."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("transfers")
def test_transfers(passes: Callable[[], None]) -> None:
    passes()
