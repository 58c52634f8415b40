"""Offsets across edits: where a place of an edited text was before, and what several passes do in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from torchmigrate.edits import Edit, Finding


def shifted(findings: Iterable[Finding], edit: Edit, line: int) -> Iterator[Finding]:
    """Findings of a text after `edit`, which stands on this line, inserted whole lines or a part of that one."""
    lines, size = edit.text.count("\n") or edit.text.count("\r"), len(edit.text.encode())
    for f in findings:
        if f.start < edit.start:
            yield f
            continue
        moved = replace(f, start=f.start + size, end=f.end + size, line=f.line + lines, end_line=f.end_line + lines)
        if not lines:
            first, last = (len(edit.text) * (at == line) for at in (f.line, f.end_line))
            moved = replace(moved, column=f.column + first, end_column=f.end_column + last)
        yield moved


def original_offset(edits: Sequence[Edit], offset: int) -> int:
    """Where byte `offset` of the edited text was before `edits` (sorted) were applied."""
    shift = 0
    for edit in edits:
        length = len(edit.text.encode())
        if edit.start + shift + length > offset:
            return min(offset - shift, edit.end) if edit.start + shift > offset else edit.start
        shift += length - (edit.end - edit.start)
    return offset - shift


def flatten(passes: Sequence[Sequence[Edit]], length: int) -> list[Edit]:
    """One list of edits on the original `length` bytes that does what the passes did one after another."""
    segments: list[tuple[int, int] | bytes] = [(0, length)]  # a span of the original, or new text
    for edits in passes:
        segments = _edited(segments, sorted(set(edits)))
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


def _edited(segments: Sequence[tuple[int, int] | bytes], edits: Sequence[Edit]) -> list[tuple[int, int] | bytes]:
    out: list[tuple[int, int] | bytes] = []
    position = 0
    for edit in edits:
        out += [*_cut(segments, position, edit.start), edit.text.encode()]
        position = edit.end
    return [*out, *_cut(segments, position, sum(map(_size, segments)))]


def _cut(segments: Sequence[tuple[int, int] | bytes], start: int, end: int) -> Iterator[tuple[int, int] | bytes]:
    """What of the segments lies between two offsets of the text that they make up."""
    cursor = 0
    for segment in segments:
        a, b = max(start - cursor, 0), min(end - cursor, _size(segment))
        if a < b:
            yield segment[a:b] if isinstance(segment, bytes) else (segment[0] + a, segment[0] + b)
        cursor += _size(segment)


def _size(segment: tuple[int, int] | bytes) -> int:
    return len(segment) if isinstance(segment, bytes) else segment[1] - segment[0]
