"""Mixed precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("autocast")
def test_autocast(passes: Callable[[], None]) -> None:
    passes()
