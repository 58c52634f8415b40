"""Streams, events and the current device."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("streams")
def test_streams(passes: Callable[[], None]) -> None:
    passes()
