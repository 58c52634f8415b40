"""Unified diffs as bytes that `git apply` and `patch -p1` accept, and diffs of notebooks by cell, for reading."""

from __future__ import annotations

import bisect
import json
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from torchmigrate.diagnostics.finding import Changed, Finding
from torchmigrate.source import json_text
from torchmigrate.source.encoding import HELPER_MARK

_CONTEXT = 3
_SHORT = 400  # lines of both texts together that difflib matches in milliseconds
_MOST_PER_LINE = 50  # equal pairs of lines, for each line, that difflib may visit in a part of a text
_WINDOW = 200  # lines that a change may add or remove and still be matched
Opcode = tuple[str, int, int, int, int]


def unified(change: Changed, name: str) -> bytes:
    """Return the diff of one file under `name` (relative, with slashes); the hunk headings name the rules."""
    applied = change.applied if not is_notebook(name) else list(_with_file_lines(change))
    old = b"/dev/null" if change.new else _header("a/" + name)
    lines = [b"--- " + old + b"\n", b"+++ " + _header("b/" + name) + b"\n"]
    hunks = list(_hunks(_split(change.before), _split(change.after), applied))
    return b"".join(lines + hunks) if hunks else b""


def readable(change: Changed, name: str) -> bytes:
    """Return the diff for people: a notebook's cells as comments, which git and patch skip; other files as a diff."""
    return b"".join(_cellwise(change, name)) if is_notebook(name) else unified(change, name)


def is_notebook(name: str) -> bool:
    """Return whether a file is a notebook, whose diff has a form for reading."""
    return PurePath(name).suffix == ".ipynb"


def _with_file_lines(change: Changed) -> Iterator[Finding]:
    """Yield the applied findings with the lines of the notebook file instead of the cells'."""
    text = change.before.decode("utf-8-sig")
    lines = [json_text.line_numbers(text, span) if span else [] for span in json_text.source_spans(text)]
    for finding in change.applied:
        own = lines[finding.cell - 1] if finding.cell else []
        first, last = (own[min(line, len(own)) - 1] for line in (finding.line, max(finding.line, finding.end_line)))
        yield replace(finding, line=first, end_line=last)


def _split(data: bytes) -> list[bytes]:
    r"""Split on \n only, keeping it; `splitlines` also splits on form feed and U+2028, and no patch would apply."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _header(name: str) -> bytes:
    """Return a name as git writes it: quoted if it has odd characters, followed by a tab if it has spaces."""
    raw = name.encode(errors="surrogateescape")
    if any(c < 0x20 or c in b'"\\\x7f' for c in raw):
        escapes = {0x22: b'\\"', 0x5C: b"\\\\", 0x0A: b"\\n", 0x09: b"\\t", 0x0D: b"\\r"}
        plain = (escapes.get(c) or (b"\\%03o" % c if c < 0x20 or c >= 0x7F else bytes([c])) for c in raw)
        return b'"' + b"".join(plain) + b'"'
    return raw + (b"\t" if b" " in raw else b"")


def _hunks(old: Sequence[bytes], new: Sequence[bytes], applied: Sequence[Finding]) -> Iterator[bytes]:
    for group in _groups(old, new):
        start, end = group[0][1], group[-1][2]
        spans = f"@@ -{_span(start, end)} +{_span(group[0][3], group[-1][4])} @@"
        # only the rules that changed lines of this hunk: its context may hold changes of a neighbouring hunk
        touched = [(a, b) for tag, a, b, _, _ in group if tag != "equal"]
        rules = dict.fromkeys(f.rule for f in applied if any(_touches(f, a, b) for a, b in touched))
        yield " ".join([spans, ", ".join(rules)]).rstrip().encode() + b"\n"
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (_line(b" ", line) for line in old[a:b])
            else:
                yield from (_line(b"-", line) for line in old[a:b])
                yield from (_line(b"+", line) for line in new[c:d])


def _touches(finding: Finding, start: int, end: int) -> bool:
    first, last = finding.line - 1, max(finding.end_line, finding.line) - 1
    return first < end and last >= start


def _line(mark: bytes, line: bytes) -> bytes:
    return mark + (line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n")


def _span(start: int, end: int) -> str:
    size = end - start
    if size == 1:
        return str(start + 1)
    return f"{start + 1 if size else start},{size}"


def _groups(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[list[Opcode]]:
    """Yield groups of opcodes; difflib runs only between the common head and tail, which is faster."""
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    tail = next((i for i in range(limit - head) if old[-1 - i] != new[-1 - i]), limit - head)
    head, tail = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, b"", b"", autojunk=False)
    matcher.opcodes = list(_joined(_opcodes(*middle)))  # type: ignore[attr-defined]
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in group]


def _opcodes(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Opcode]:
    """Yield opcodes: difflib's for a short text, and for those between lines that occur once, which divide a long one.

    difflib alone takes time that grows with the square of the text.
    """
    from difflib import SequenceMatcher

    i = j = 0
    anchors = _anchors(old, new) if len(old) + len(new) > _SHORT else []
    for a, b in [*anchors, (len(old), len(new))]:
        one, other = old[i:a], new[j:b]
        if one or other:
            few = _pairs(one, other) <= _MOST_PER_LINE * (len(one) + len(other))
            plain = SequenceMatcher(None, one, other, autojunk=False).get_opcodes if few else None
            for tag, *span in plain() if plain else _nearby(one, other):
                yield tag, span[0] + i, span[1] + i, span[2] + j, span[3] + j
        if a < len(old):
            yield "equal", a, a + 1, b, b + 1
        i, j = a + 1, b + 1


def _anchors(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the places of lines that occur once in each text, as many as have the same order in both."""
    here, there = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if there[line] == 1}
    once = [(at, places[line]) for at, line in enumerate(old) if here[line] == 1 and line in places]
    ends: list[int] = []  # for each length, the smallest last place of an increasing sequence, and its index in `once`
    last: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(once):
        at = bisect.bisect_left(ends, place)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [place], [index]
    found = []
    index = last[-1] if last else -1
    while index >= 0:
        found.append(once[index])
        index = before[index]
    return found[::-1]


def _joined(opcodes: Iterator[Opcode]) -> Iterator[Opcode]:
    """Join neighbours of one kind, and a removal with an addition, as difflib does."""
    held: Opcode | None = None
    for code in opcodes:
        if held and (held[0] == "equal") == (code[0] == "equal"):
            tag = held[0] if held[0] == code[0] else "replace"
            held = (tag, held[1], code[2], held[3], code[4])
            continue
        if held:
            yield held
        held = code
    if held:
        yield held


def _pairs(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """Return how many equal pairs of lines difflib would visit: for a million blank lines, a million millions."""
    counts, others = Counter(old), Counter(new)
    return sum(count * others[line] for line, count in counts.items())


def _nearby(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Opcode]:
    """Yield opcodes line by line; after a difference, continue at the nearest place where both agree again.

    Most rewrites keep the number of lines; then each line has its counterpart.
    """
    if len(old) == len(new) and 3 * sum(map(operator.eq, old, new)) >= len(old):
        yield from (("equal" if old[at] == new[at] else "replace", at, at + 1, at, at + 1) for at in range(len(old)))
        return
    i = j = 0
    while i < len(old) or j < len(new):
        at, other = i, j
        while i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
        if i > at:
            yield "equal", at, i, other, j
        at, other = i, j
        i, j = next(_meetings(old, new, i, j), (len(old), len(new)))
        if i > at or j > other:
            yield "replace", at, i, other, j


def _meetings(old: Sequence[bytes], new: Sequence[bytes], i: int, j: int) -> Iterator[tuple[int, int]]:
    for distance in range(1, _WINDOW):
        for step in range(distance + 1):
            a, b = i + step, j + distance - step
            if a <= len(old) and b <= len(new) and old[a : a + _CONTEXT] == new[b : b + _CONTEXT]:
                yield a, b


def _cellwise(change: Changed, name: str) -> Iterator[bytes]:
    old, new = _cells(change.before), _cells(change.after)
    for at, text in enumerate(new):
        if len(old) < len(new) and HELPER_MARK in text:  # the helper's own cell
            old.insert(at, b"")
    pairs = zip(old, new, strict=True)
    for number, (before, after) in enumerate(pairs, 1):
        if before != after:
            yield f"# {name}:cell {number} (for reading; `apply` rewrites the notebook)\n".encode()
            applied = [finding for finding in change.applied if finding.cell == number]
            # a cell's last line has no line end by custom: do not report that
            body = b"".join(_hunks(_split(before + b"\n"), _split(after + b"\n"), applied))
            yield b"".join(b"# " + line for line in _split(body))


def _cells(raw: bytes) -> list[bytes]:
    cells = json.loads(raw)["cells"] if raw else []
    return ["".join(cell.get("source", "")).encode(errors="surrogatepass") for cell in cells]
