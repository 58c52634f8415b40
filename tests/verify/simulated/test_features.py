"""Operators of many kinds, compilers, profilers."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.checks("features")
def test_features(passes: Callable[[], None]) -> None:
    passes()
