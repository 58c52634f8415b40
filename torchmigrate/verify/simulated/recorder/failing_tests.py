"""A pytest plugin: the exceptions of failing tests, which pytest keeps to itself."""

from __future__ import annotations

from typing import Any

from . import process_report


def pytest_exception_interact(node: Any, call: Any) -> None:
    """pytest's hook for an exception that a test did not expect."""
    process_report.remember(call.excinfo.value, f"in test {getattr(node, 'nodeid', '')}")
