"""IPython's own lines in a cell (magics, shell lines, help) as Python of the same length: what Python does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

# the rest of a cell under these is run as if they were not there
_PYTHON = frozenset(
    ("time", "timeit", "capture", "prun", "lprun", "mprun", "memit", "debug", "snakeviz", "scalene", "pyinstrument")
)
# IPython knows them without a `%`; what follows must not be Python's
_AUTOMAGIC = (
    rb"(?:pip|conda|mamba|micromamba|uv|cd|ls|ll|mkdir|rmdir|rm|cat|cp|mv|run|env|set_env|time|timeit|matplotlib"
    rb"|load_ext|reload_ext|autoreload)[ \t]+(?!(?:in|is|if|and|or|not|for|else)\b)[\w./~$'\"-]"
)
_REST = rb"[^\n]*(?:(?:(?<=\\)|(?<=\\\r))\n[^\n]*)*"  # of a line that a backslash may go on
_LINE = re.compile(rb"[ \t]*(?P<it>(?:[%!?]|" + _AUTOMAGIC + rb")" + _REST + rb")")
_RIGHT = re.compile(rb"[ \t]*(?P<it>(?:!|%(?=[a-zA-Z_]))" + _REST + rb")")
_PIECE = re.compile(
    rb"\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    rb"|#[^\n]*|\\\r?\n|[ \t\r\f]+|\w+|[-+*/%&|^@<>!=:]=|.",
    re.S,
)
_CELL = re.compile(rb"\s*^%%([\w!]+)[^\r\n]*", re.M)
_TIMED = re.compile(rb"%(?:time|timeit|prun|memit)(?:[ \t]+-[a-zA-Z]+(?:[ \t]*\d+)?(?=[ \t]))*[ \t]+(?=\S)")


@dataclass(frozen=True, slots=True)
class Masked:
    """`utf8` is as long as the cell; of it `spans` stand in for magics. `head` is where code may begin: below `%%`
    lines. `alone`: names that are bound here are gone when the cell ends."""

    utf8: bytes
    spans: tuple[tuple[int, int], ...]
    head: int
    alone: bool


def foreign(text: str) -> str | None:
    """The first line of a cell whose `%%` magic takes what follows for something else than this notebook's Python."""
    for head in _heads(text.encode()):
        if head[1].decode() not in _PYTHON:
            return head[0].decode().strip()
    return None


def masked(text: str) -> Masked:
    """A Python cell. What looks like a magic is one only where the cell is no Python without: `% b` may go on a line.
    Raises SyntaxError, ValueError, RecursionError."""
    raw = text.encode()
    heads = list(_heads(raw))
    head = heads[-1].end() if heads else 0
    below = head + len(raw[head:]) - len(raw[head:].removeprefix(b"\r").removeprefix(b"\n")) if heads else 0
    spans = [(m.end() - len(m[0].lstrip()), m.end()) for m in heads]
    hidden = _hidden(raw, spans)
    if not _parses(hidden):
        spans += _magics(raw, head)
        hidden = _hidden(raw, spans)
        ast.parse(hidden)
    return Masked(hidden, tuple(spans), below, any(m[1] == b"timeit" for m in heads))


def _heads(raw: bytes) -> Iterator[re.Match[bytes]]:
    """The `%%` lines at the top: `%%capture` may stand over `%%time`."""
    at = 0
    while match := _CELL.match(raw, at):
        yield match
        if match[1].decode() not in _PYTHON:
            return
        at = match.end()


def _parses(raw: bytes) -> bool:
    try:
        ast.parse(raw)
    except SyntaxError:
        return False
    return True


def _hidden(raw: bytes, spans: list[tuple[int, int]]) -> bytes:
    """With `0###` for each span, line by line; `0  ;` where code follows on the line."""
    out = bytearray(raw)
    for start, end in spans:
        mask = re.sub(rb"[^\r\n]", b"#", raw[start:end])
        if raw[end : end + 1] not in (b"\r", b"\n", b""):
            mask = b" " * (len(mask) - 1) + b";"
        out[start:end] = b"0" + mask[1:]
    return bytes(out)


def _magics(raw: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Where IPython finds its lines: at the head of a logical line, right of an assignment, and with `?` at the end."""
    depth, head, last = 0, at, -1
    while at < len(raw):
        if at == head and (line := _LINE.match(raw, at)):
            yield _timed(raw, *line.span("it"))
            at = head = line.end() + 1
            continue
        piece = _PIECE.match(raw, at)
        assert piece is not None
        at = piece.end()
        if piece[0] == b"\n" and depth <= 0:
            yield from _help(raw, head, last)
            head, depth = at, 0
        elif piece[0] == b"=" and depth <= 0 and (right := _RIGHT.match(raw, at)):
            yield right.span("it")
            at = head = right.end() + 1
        else:
            depth += (piece[0] in b"([{") - (piece[0] in b")]}")
            last = last if piece[0][:1] in b" \t\r\n\f#\\" else piece.start()
    yield from _help(raw, head, last)


def _help(raw: bytes, head: int, last: int) -> Iterator[tuple[int, int]]:
    if head <= last and raw[last : last + 1] == b"?":
        yield last + 1 - len(raw[head : last + 1].lstrip()), last + 1


def _timed(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """A magic's bytes; of `%time x = f()` those before the code, which runs as any other."""
    end -= raw[start:end].endswith(b"\r")
    timed = _TIMED.match(raw, start, end)
    if timed and b"\n" not in raw[start:end] and _parses(b"0;" + raw[timed.end() : end]):
        return start, timed.end()
    return start, end
