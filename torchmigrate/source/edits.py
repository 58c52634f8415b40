"""Edits of a text, offsets across them, and queries for spans; all offsets are bytes of the UTF-8 text."""

from __future__ import annotations

import bisect
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace bytes [start, end) by `text`; start == end inserts."""

    start: int
    end: int
    text: str


def compose(buffer: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits to `buffer`; raises ValueError if two overlap, which `diagnostics.finding.choose` avoids."""
    out: list[bytes] = []
    position = 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise ValueError(f"overlapping edits at byte {edit.start}")
        out += (buffer[position : edit.start], edit.text.encode())
        position = edit.end
    out.append(buffer[position:])
    return b"".join(out)


@dataclass(slots=True)
class Occupied:
    """The accepted edits, sorted; equal ones count once, different insertions at one offset collide."""

    starts: list[int] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    known: set[Edit] = field(default_factory=set)

    def add(self, edits: Iterable[Edit]) -> bool:
        """Accept all of `edits` and return True, or none of them and return False if one collides."""
        fresh = sorted({*edits} - self.known)
        if any(map(self._collides, fresh)) or any(_overlap(a, b) for a, b in itertools.pairwise(fresh)):
            return False
        for edit in fresh:
            at = bisect.bisect_left(self.edits, edit)
            self.edits.insert(at, edit)
            self.starts.insert(at, edit.start)
        self.known.update(fresh)
        return True

    def _collides(self, edit: Edit) -> bool:
        at = bisect.bisect_left(self.starts, edit.start)
        near = self.edits[max(0, at - 1) : at + 2]
        return any(_overlap(edit, other) for other in near)


def _overlap(a: Edit, b: Edit) -> bool:
    return (a.start < b.end and b.start < a.end) or a.start == b.start


def original_offset(edits: Sequence[Edit], offset: int) -> int:
    """Translate an offset of the edited text to the text before `edits` (sorted); new text is its edit's start."""
    shift = 0
    for edit in edits:
        length = len(edit.text.encode())
        if edit.start + shift + length > offset:
            return min(offset - shift, edit.end) if edit.start + shift > offset else edit.start
        shift += length - (edit.end - edit.start)
    return offset - shift


def flatten(passes: Sequence[Sequence[Edit]], length: int) -> list[Edit]:
    """Combine edits that were applied pass after pass to edits on the original text of `length` bytes."""
    segments: list[tuple[int, int] | bytes] = [(0, length)]  # a span of the original text, or new text
    for edits in passes:
        segments = _apply_to_segments(segments, sorted(set(edits)))
    out: list[Edit] = []
    position, text = 0, b""
    for segment in (*segments, (length, length)):
        if isinstance(segment, bytes):
            text += segment
            continue
        if text or segment[0] > position:
            out.append(Edit(position, segment[0], text.decode()))
        position, text = segment[1], b""
    return out


def _apply_to_segments(
    segments: Sequence[tuple[int, int] | bytes], edits: Sequence[Edit]
) -> list[tuple[int, int] | bytes]:
    """Apply the edits of one pass to a text that consists of segments."""
    starts = [*itertools.accumulate(map(_size, segments), initial=0)]
    out: list[tuple[int, int] | bytes] = []
    position = 0
    for edit in edits:
        out += [*_slice_segments(segments, starts, position, edit.start), edit.text.encode()]
        position = edit.end
    return [*out, *_slice_segments(segments, starts, position, starts[-1])]


def _slice_segments(
    segments: Sequence[tuple[int, int] | bytes], starts: Sequence[int], start: int, end: int
) -> Iterator[tuple[int, int] | bytes]:
    """Yield the parts of the segments between two offsets of the text that they make up; `starts` are theirs."""
    for at in range(bisect_right(starts, start) - 1, bisect_left(starts, end)):
        segment = segments[at]
        a, b = max(start - starts[at], 0), min(end, starts[at + 1]) - starts[at]
        if a < b:
            yield segment[a:b] if isinstance(segment, bytes) else (segment[0] + a, segment[0] + b)


def _size(segment: tuple[int, int] | bytes) -> int:
    return len(segment) if isinstance(segment, bytes) else segment[1] - segment[0]


Span = tuple[int, int]
T = TypeVar("T")


class Inside:
    """An index of spans that finds those within a given span."""

    def __init__(self, spans: Iterable[Span]) -> None:
        ordered = sorted(set(spans))
        self._starts = [start for start, _ in ordered]
        # for each span, among it and all later ones: the two that end first
        self._nearest: list[list[Span]] = []
        nearest: list[Span] = []
        for span in reversed(ordered):
            nearest = sorted((span, *nearest), key=lambda s: s[1])[:2]
            self._nearest.append(nearest)
        self._nearest.reverse()

    def find(self, start: int, end: int) -> list[Span]:
        """Return at most two of the spans that lie within [start, end); callers need no more."""
        at = bisect_left(self._starts, start)
        return [s for s in self._nearest[at] if s[1] <= end] if at < len(self._starts) else []


class Touching(Generic[T]):
    """An index of spans with values that finds those that overlap a given one or stand right beside it."""

    def __init__(self, spans: Iterable[tuple[Span, T]]) -> None:
        self._spans = sorted(spans, key=lambda item: item[0])
        self._furthest = [*itertools.accumulate((span[1] for span, _ in self._spans), max)]

    def __bool__(self) -> bool:
        return bool(self._spans)

    def find(self, start: int, end: int) -> Iterator[tuple[Span, T]]:
        """Yield the spans in the order of the text, with their values."""
        at = bisect_left(self._furthest, start)
        while at < len(self._spans) and self._spans[at][0][0] <= end:
            if self._spans[at][0][1] >= start:
                yield self._spans[at]
            at += 1


class Around(Generic[T]):
    """An index of spans with values that finds a span which contains a given one."""

    def __init__(self, spans: Iterable[tuple[Span, T]]) -> None:
        self._starts: list[int] = []
        # per span: of it and all earlier ones, the end and value of the one that ends last
        self._widest: list[tuple[int, T]] = []
        for (start, end), value in sorted(spans, key=lambda item: item[0][0]):
            if not self._widest or end > self._widest[-1][0]:
                self._starts.append(start)
                self._widest.append((end, value))

    def find(self, start: int, end: int) -> T | None:
        """Return the value of a span that contains [start, end), or None."""
        at = bisect_right(self._starts, start) - 1
        return self._widest[at][1] if at >= 0 and self._widest[at][0] >= end else None
