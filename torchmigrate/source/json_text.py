"""Locate values in JSON text, which `json` does not, and replace parts of them in the layout of the file."""

from __future__ import annotations

import bisect
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t\r\n]*")
_CHARACTER = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u\w{4}|\\.|[^\\]", re.S)
_decode = json.JSONDecoder().raw_decode


def source_spans(text: str) -> Iterator[tuple[int, int] | None]:
    """Yield for each cell of a notebook the span of its `source` value, in characters, or None if it has none."""
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
    """Yield each key of the JSON object at `at` in valid JSON, with the offset at which its value begins."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        yield key, at
        at = _skip(text, _decode(text, at)[1])
        at = _skip(text, at + 1) if text[at] == "," else at


def items(text: str, at: int) -> Iterator[int]:
    """Yield the offset of each item of the JSON array at `at`."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        yield at
        at = _skip(text, _decode(text, at)[1])
        at = _skip(text, at + 1) if text[at] == "," else at


def with_item(text: str, key: str, at: int, item: object) -> str:
    """Return the JSON text of an object with one more item in its array `key`, laid out as the others."""
    array = [value for name, value in _members(text, _skip(text, 0)) if name == key][-1]
    starts = list(items(text, array))
    ends = [_decode(text, start)[1] for start in starts]
    joint = text[ends[0] : starts[1]] if starts[1:] else f",{text[array + 1 : starts[0]]}"
    new = _laid_out(item, text[starts[0] : ends[0]], joint.rpartition("\n")[2])
    if at >= len(starts):
        return f"{text[: ends[-1]]}{joint}{new}{text[ends[-1] :]}"
    return f"{text[: starts[at]]}{new}{joint}{text[starts[at] :]}"


def _laid_out(item: object, like: str, indent: str) -> str:
    """Return the JSON text of an object that is laid out like another one, whose first line is indented so far."""
    ascii_ = like.isascii()
    if "\n" not in like:
        spaced = ('", ' in like or "}, " in like, '": ' in like)
        separators = (", " if spaced[0] else ",", ": " if spaced[1] else ":")
        return json.dumps(item, separators=separators, ensure_ascii=ascii_)
    second = like.split("\n")[1]
    inner = second[: len(second) - len(second.lstrip())].removeprefix(indent)
    newline = "\r\n" if "\r\n" in like else "\n"
    return json.dumps(item, indent=inner or 1, ensure_ascii=ascii_).replace("\n", newline + indent)


def line_numbers(text: str, span: tuple[int, int]) -> list[int]:
    """Return for each line of a `source` value the 1-based line of the file on which its JSON string stands."""
    places = [span[0]] if text[span[0]] == '"' else list(items(text, span[0]))
    numbers = [1 + text.count("\n", 0, at) for at in places]
    ends = [_decode(text, at)[0].count("\n") for at in places]
    starts = list(itertools.accumulate(ends, initial=0))
    return [
        numbers[min(bisect.bisect_right(starts, line), len(places)) - 1] for line in range(starts[-1] + 1) if places
    ]


def splice(raw: str, edits: Sequence[tuple[int, int, str]], ascii: bool) -> str:
    """Edit the text of a `source` value and return its new JSON text.

    `raw` is the JSON text of the value, `edits` are (start, end, text) in characters of the decoded text. The rest
    keeps its spelling. New characters are escaped as the value escapes them elsewhere (`ascii`: as `ensure_ascii`
    does), and new lines of an array are laid out like its other lines.
    """
    is_array = raw.startswith("[")
    starts = list(items(raw, 0)) if is_array else [0]
    if not starts:
        return raw
    ends = [_decode(raw, start)[1] for start in starts]
    strings = [_CHARACTER.findall(raw[start + 1 : end - 1]) for start, end in zip(starts, ends, strict=True)]
    before, after = raw[1 : starts[0]], raw[ends[-1] : -1]
    between = [_Joint(raw[end:start]) for end, start in zip(ends, starts[1:], strict=False)]
    tokens = [*strings[0], *(token for pair in zip(between, strings[1:], strict=True) for token in (pair[0], *pair[1]))]
    spelled = {json.loads(f'"{text}"'): text for string in strings for text in string}
    style = _Style(spelled, ascii, (between or [_Joint("," + (before or " "))])[0] if is_array else None)
    parts = _join_strings(_edit_tokens(tokens, sorted(edits), style))
    if not is_array:
        return parts[0]
    if parts[-1] == '""' and strings[-1]:  # the last line was deleted, or ends with a line end now
        del parts[-2:]
    return f"[{before}{''.join(parts)}{after}]" if parts else "[]"


class _Joint(str):
    """The text between two strings of an array: the comma and the white space."""


@dataclass(frozen=True, slots=True)
class _Style:
    """A layout says how a value is written: escapes of characters, and the text between two lines of an array."""

    spelled: Mapping[str, str]
    ascii: bool
    joint: _Joint | None

    def encode(self, text: str) -> Iterator[str]:
        for character in text:
            yield self.spelled.get(character) or json.dumps(character, ensure_ascii=self.ascii)[1:-1]
            if character == "\n" and self.joint is not None:
                yield self.joint


def _edit_tokens(tokens: Sequence[str], edits: Sequence[tuple[int, int, str]], style: _Style) -> Iterator[str]:
    """Yield the characters and joints after the edits; a joint is kept or deleted with the character before it."""
    at = offset = 0
    for start, end, text in edits:
        while at < len(tokens) and (offset < start or isinstance(tokens[at], _Joint)):
            yield tokens[at]
            offset += not isinstance(tokens[at], _Joint)
            at += 1
        while at < len(tokens) and (offset < end or (end > start and isinstance(tokens[at], _Joint))):
            offset += not isinstance(tokens[at], _Joint)
            at += 1
        if text and start == end and at == len(tokens) and tokens[-1:] == ["\\n"] and style.joint is not None:
            yield style.joint  # a line after the last one, which ends with a line end
        yield from style.encode(text)
    yield from tokens[at:]


def _join_strings(tokens: Iterable[str]) -> list[str]:
    """Group characters to JSON strings, with the joints between them."""
    parts = ['"']
    for token in tokens:
        if isinstance(token, _Joint):
            parts[-1] += '"'
            parts += [token, '"']
        else:
            parts[-1] += token
    parts[-1] += '"'
    return parts
