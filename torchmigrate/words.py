"""Numbers and quotations in the sentences of reports."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`1 number`, `1,194 kernels`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shorten(text: str, most: int) -> str:
    """To at most so many characters, with dots where it was cut."""
    return text if len(text) <= most else text[: most - 3] + "..."
