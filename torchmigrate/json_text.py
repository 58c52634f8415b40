"""Where things stand in a JSON file, which json does not tell, and other text in the layout that was there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]

_SPACE = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


def source_spans(text: str) -> Iterator[tuple[int, int] | None]:
    """For each cell, where its `source` value stands in the file: json does not tell."""
    cells = [at for key, at in _members(text, _skip(text, 0)) if key == "cells"][-1]
    for cell in items(text, cells):
        members = _members(text, cell) if text[cell] == "{" else ()
        values = [at for name, at in members if name == "source"]
        yield (values[-1], _decode(text, values[-1])[1]) if values else None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """(key, where its value begins) of the object at `at`, in text that is known to be JSON."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = scanstring(text, at + 1, True)
        at = _skip(text, _skip(text, at) + 1)
        yield key, at
        at = _skip(text, _decode(text, at)[1])
        at = _skip(text, at + 1) if text[at] == "," else at


def items(text: str, at: int) -> Iterator[int]:
    """Where each item of the array at `at` begins."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        yield at
        at = _skip(text, _decode(text, at)[1])
        at = _skip(text, at + 1) if text[at] == "," else at


def splice(raw: str, new: str, ascii: bool) -> str:
    """The JSON text of a `source` value with another content, laid out as it was."""
    if not raw.startswith("["):
        return json.dumps(new, ensure_ascii=ascii)
    starts = list(items(raw, 0))
    decoded = [_decode(raw, start) for start in starts]
    pieces = [raw[start:end] for start, (_, end) in zip(starts, decoded, strict=True)]
    as_written = {item: piece for (item, _), piece in zip(decoded, pieces, strict=True)}
    before, after = raw[1 : starts[0]], raw[decoded[-1][1] : -1]
    between = [raw[end:start] for (_, end), start in zip(decoded, starts[1:], strict=False)]
    old = [item for item, _ in decoded]
    lines = new.splitlines(keepends=True)
    if "".join(old).splitlines(keepends=True) != old:
        lines = re.findall(r"[^\n]*\n|[^\n]+", new)
    if not lines:
        return "[]"
    if len(lines) != len(old):
        between = (between[:1] or ["," + (before or " ")]) * (len(lines) - 1)
    written = [as_written.get(line) or json.dumps(line, ensure_ascii=ascii) for line in lines]
    body = "".join(map("".join, zip(written, [*between, ""], strict=True)))
    return f"[{before}{body}{after}]"
