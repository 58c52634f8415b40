"""Unified diffs that `git apply` and `patch -p1` take, as bytes; notebooks per cell, for reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import PurePath

from torchmigrate.edits import Changed, Finding

_CONTEXT = 3
Opcode = tuple[str, int, int, int, int]


def unified(change: Changed, name: str) -> bytes:
    """The diff of one file under `name` (relative, slash-separated), the rules' names in the hunk headings."""
    if PurePath(name).suffix == ".ipynb":
        return b"".join(_notebook(change, name))
    old = b"/dev/null" if change.new else _header("a/" + name)
    lines = [b"--- " + old + b"\n", b"+++ " + _header("b/" + name) + b"\n"]
    hunks = list(_hunks(_split(change.before), _split(change.after), change.applied))
    return b"".join(lines + hunks) if hunks else b""


def _split(data: bytes) -> list[bytes]:
    """On \\n only, kept. `splitlines` would also split on form feed and U+2028, and no patch would apply."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _header(name: str) -> bytes:
    """As git writes it: quoted where a name has odd characters, a tab behind a name with spaces."""
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
        # the changed lines only: a rule of a neighbouring hunk must not be named for its context
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
    """difflib on what lies between the common head and tail: a few edits in a long file cost little."""
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    tail = next((i for i in range(limit - head) if old[-1 - i] != new[-1 - i]), limit - head)
    head, tail = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in group]


def _notebook(change: Changed, name: str) -> Iterator[bytes]:
    """Every line begins with `#`: neither git nor patch may take it for a hunk of the JSON file."""
    pairs = zip(_cells(change.before), _cells(change.after), strict=True)
    for number, (before, after) in enumerate(pairs, 1):
        if before != after:
            yield f"# {name}:cell {number} (for reading; `apply` rewrites the notebook)\n".encode()
            applied = [finding for finding in change.applied if finding.cell == number]
            # a cell's last line has no line end by custom: not worth saying
            body = b"".join(_hunks(_split(before + b"\n"), _split(after + b"\n"), applied))
            yield b"".join(b"# " + line for line in _split(body))


def _cells(raw: bytes) -> list[bytes]:
    cells = json.loads(raw)["cells"] if raw else []
    return ["".join(cell.get("source", "")).encode(errors="surrogatepass") for cell in cells]
