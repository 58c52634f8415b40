"""Spans within spans: each question in logarithmic time, as a file may hold thousands of guards."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Generic, TypeVar

Span = tuple[int, int]
T = TypeVar("T")


class Inside:
    """Spans, to be asked which of them lie within another."""

    def __init__(self, spans: Iterable[Span]) -> None:
        ordered = sorted(set(spans))
        self._starts = [start for start, _ in ordered]
        self._nearest: list[list[Span]] = []  # of each and those after it, the two that end first
        nearest: list[Span] = []
        for span in reversed(ordered):
            nearest = sorted((span, *nearest), key=lambda s: s[1])[:2]
            self._nearest.append(nearest)
        self._nearest.reverse()

    def find(self, start: int, end: int) -> list[Span]:
        """At most two: what is asked is whether there is one, or one beside a certain other."""
        at = bisect_left(self._starts, start)
        return [s for s in self._nearest[at] if s[1] <= end] if at < len(self._starts) else []


class Around(Generic[T]):
    """Spans and what they stand for, to be asked which of them holds another."""

    def __init__(self, spans: Iterable[tuple[Span, T]]) -> None:
        self._starts: list[int] = []
        self._widest: list[tuple[int, T]] = []  # of each and those before it, the one that ends last
        for (start, end), value in sorted(spans, key=lambda item: item[0][0]):
            if not self._widest or end > self._widest[-1][0]:
                self._starts.append(start)
                self._widest.append((end, value))

    def find(self, start: int, end: int) -> T | None:
        at = bisect_right(self._starts, start) - 1
        return self._widest[at][1] if at >= 0 and self._widest[at][0] >= end else None
