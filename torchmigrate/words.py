"""Counts, lists and quotations in the sentences of reports."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, one: str, many: str = "") -> str:
    """`1 number`, `1,194 kernels`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shorten(text: str, most: int) -> str:
    """To at most so many characters, with dots where it was cut."""
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
