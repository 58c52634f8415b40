# ruff: noqa: E501 - its tables are read by columns
"""Real files made worse: bytes, tokens, lines, newlines and nesting, each by one kind of damage or several."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_TOKEN = re.compile(rb"\w+|[ \t]+|\r\n|[^\w\s]|\s")
_SCRAPS = (
    b"(", b")", b"[", b"}", b"'''", b'"""', b'"', b"\\", b"\\\n", b"\n", b"\r", b"\r\n", b"\x0c", b"\t", b"#", b";", b":", b",",
    b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xf0\x9f\x98\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\x1a", b"*", b"**", b"@", b"->",
    b"lambda: ", b"await ", b"yield ", b"async ", b"global torch\n", b"del torch\n", b"import torch\n", b"from torch import *\n",
    b".cuda()", b"'cuda'", b"torch.cuda.", b"x.is_cuda", b"# torchmigrate: ignore[device]", b"# torchmigrate: skip-file",
    b"# coding: latin-1\n", b"# coding: utf-16\n", b"match x:\n case _: ", b"type X = ", b"print 'x'\n", b"exec 'x'\n", b"`x`",
    b"except E, e:\n", b"if True:\n", b"else:\n", b"try:\n", b"f'{x!r:>{y}}'", b":=", b"...", b"0777", b"<>", b"class A: cuda = 1\n",
)  # fmt: skip

Mutation = Callable[[bytes, random.Random], bytes]


def mutated(raw: bytes, draw: random.Random) -> bytes:
    """By one to three kinds of damage."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        raw = draw.choice(MUTATIONS)(raw, draw)
    return raw


def _at(raw: bytes, draw: random.Random) -> int:
    """A place, half of the time near a mention of cuda, where the engine looks."""
    if draw.random() < 0.5 and (found := [m.start() for m in re.finditer(rb"cuda", raw)]):
        return min(len(raw), max(0, draw.choice(found) + draw.randint(-30, 30)))
    return draw.randint(0, len(raw))


def _cut_off(raw: bytes, draw: random.Random) -> bytes:
    return raw[: _at(raw, draw)]


def _beheaded(raw: bytes, draw: random.Random) -> bytes:
    return raw[_at(raw, draw) :]


def _flipped(raw: bytes, draw: random.Random) -> bytes:
    text = bytearray(raw)
    for _ in range(draw.randint(1, 4)):
        if text:
            text[min(_at(raw, draw), len(text) - 1)] ^= 1 << draw.randrange(8)
    return bytes(text)


def _inserted(raw: bytes, draw: random.Random) -> bytes:
    at = _at(raw, draw)
    return raw[:at] + draw.choice(_SCRAPS) + raw[at:]


def _on_tokens(change: Callable[[list[bytes], int, random.Random], None]) -> Mutation:
    def mutate(raw: bytes, draw: random.Random) -> bytes:
        start = max(0, _at(raw, draw) - 200)
        tokens = _TOKEN.findall(raw[start : start + 400])
        for _ in range(draw.randint(1, 3)):
            if len(tokens) > 1:
                change(tokens, draw.randrange(len(tokens) - 1), draw)
        return raw[:start] + b"".join(tokens) + raw[start + 400 :]

    return mutate


def _deleted(tokens: list[bytes], at: int, draw: random.Random) -> None:
    del tokens[at]


def _doubled(tokens: list[bytes], at: int, draw: random.Random) -> None:
    tokens.insert(at, tokens[at])


def _swapped(tokens: list[bytes], at: int, draw: random.Random) -> None:
    other = draw.randrange(len(tokens))
    tokens[at], tokens[other] = tokens[other], tokens[at]


def _lines(change: Callable[[list[bytes], random.Random], list[bytes]]) -> Mutation:
    return lambda raw, draw: b"".join(change(raw.splitlines(keepends=True), draw)) if raw else raw


def _line_lost(lines: list[bytes], draw: random.Random) -> list[bytes]:
    at = draw.randrange(len(lines))
    return lines[:at] + lines[at + draw.randint(1, 3) :]


def _line_moved(lines: list[bytes], draw: random.Random) -> list[bytes]:
    at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
    line = lines.pop(at)
    return [*lines[:to], line, *lines[to:]]


def _mixed(lines: list[bytes], draw: random.Random) -> list[bytes]:
    ends = draw.choice(
        ((b"\r\n",), (b"\r",), (b"\n", b"\r\n"), (b"\n", b"\r\n", b"\r"), (b"\n\n",), (b" \n",), (b"\x0c\n",))
    )
    return [line.rstrip(b"\r\n") + draw.choice(ends) for line in lines]


def _joined(lines: list[bytes], draw: random.Random) -> list[bytes]:
    """A line's end taken away, or made a `;` or a continuation."""
    at = draw.randrange(len(lines))
    return [*lines[:at], lines[at].rstrip(b"\r\n") + draw.choice((b"", b"; ", b"\\\n")), *lines[at + 1 :]]


def _tabs(lines: list[bytes], draw: random.Random) -> list[bytes]:
    share = draw.choice((1.0, 1.0, 0.1))
    return [line.replace(b"    ", b"\t") if draw.random() < share else line for line in lines]


def _deeper(lines: list[bytes], draw: random.Random) -> list[bytes]:
    """All of it in a function, a class or a guard."""
    head = draw.choice(
        (b"if x:\n", b"def f():\n", b"class A:\n", b"async def f():\n", b"if torch.cuda.is_available():\n")
    )
    return [head, *(b"    " + line for line in lines)]


def _long_line(raw: bytes, draw: random.Random) -> bytes:
    size = draw.choice((100, 5_000))
    scrap = draw.choice(
        (b"# " + b"x" * size, b"y = '" + b"cuda " * size + b"'", b"y = " + b"+".join([b"x.cuda()"] * (size // 100)))
    )
    return raw + b"\n" + scrap + b"\n"


def _nested(raw: bytes, draw: random.Random) -> bytes:
    depth = draw.choice((10, 60, 90, 150))
    opening, closing = draw.choice(
        ((b"(", b")"), (b"[", b"]"), (b"f(", b")"), (b"{1:", b"}"), (b"not ", b""), (b"lambda: ", b""))
    )
    return raw + b"\nz = " + opening * depth + b"x.cuda()" + closing * depth + b"\n"


def _spliced(raw: bytes, draw: random.Random) -> bytes:
    """A piece of it once more, elsewhere."""
    start, to = _at(raw, draw), _at(raw, draw)
    return raw[:to] + raw[start : start + draw.randint(1, 200)] + raw[to:]


MUTATIONS: Sequence[Mutation] = (
    _cut_off, _beheaded, _flipped, _inserted, _inserted, _on_tokens(_deleted), _on_tokens(_doubled), _on_tokens(_swapped),
    _lines(_line_lost), _lines(_line_moved), _lines(_mixed), _lines(_mixed), _lines(_joined), _lines(_tabs), _lines(_deeper),
    _long_line, _nested, _spliced,
)  # fmt: skip
