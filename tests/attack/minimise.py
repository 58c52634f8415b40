"""The least of an input that still fails: lines, then pieces of lines, taken out as long as it does."""

from __future__ import annotations

import re
from collections.abc import Callable

_WORDS = re.compile(rb"\w+|\s+|[^\w\s]")


def minimise(raw: bytes, fails: Callable[[bytes], bool], most: int = 2_000) -> bytes:
    """`most`: how often `fails` is asked."""
    budget = [most]

    def still(parts: list[bytes]) -> bool:
        budget[0] -= 1
        return budget[0] > 0 and fails(b"".join(parts))

    for split in (lambda t: t.splitlines(keepends=True), _WORDS.findall):
        raw = b"".join(_less(split(raw), still))
    return raw


def _less(parts: list[bytes], still: Callable[[list[bytes]], bool]) -> list[bytes]:
    size = max(1, len(parts) // 2)
    while size:
        at = 0
        while at < len(parts):
            shorter = parts[:at] + parts[at + size :]
            if still(shorter):
                parts = shorter
            else:
                at += size
        size //= 2
    return parts
