"""The comment that suppresses one finding, on a line of its own above the statement."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lsprotocol.types import TextEdit

from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Finding
from torchmigrate.lsp.documents import File
from torchmigrate.lsp.positions import Text
from torchmigrate.source.encoding import Source
from torchmigrate.source.text_file import TextFile

_MARKS = {"cu": "//", "cuh": "//", "json": "", "bat": ""}  # no comments in JSON; those of cmd are not looked into


def edits(file: File, finding: Finding) -> Sequence[TextEdit]:
    """To the finding's document. None where a comment would not do: within JSON, behind a line that goes on."""
    found = _in_python(file, finding) if file.is_python else _in_text(file, finding)
    if found is None:
        return ()
    line, comment = found
    text = file.documents[finding.cell].text
    start = text.start(line)
    return (TextEdit(text.range(start, start), comment),)


def _in_python(file: File, finding: Finding) -> tuple[int, str] | None:
    """The number of the line above which it goes, and the comment."""
    module, _ = file.module(finding.cell)
    number = module.position(finding.start)[0]
    above = suppressions.place(module, number)
    start = module.line_starts[above - 1]
    comment = _comment(module.line_at(start).decode(), "#", finding, module.newline)
    after = Source(module.utf8[:start] + comment.encode() + module.utf8[start:])
    if not _parses(after) or not suppressions.find(after).status(finding.rule, number + 1):
        return None
    return finding.line - (number - above), comment


def _parses(text: Source) -> bool:
    try:
        ast.parse(text.utf8)
    except SyntaxError:
        return False
    return True


def _in_text(file: File, finding: Finding) -> tuple[int, str] | None:
    whole = file.documents[None].text.text.removeprefix("\ufeff")
    before = TextFile(file.path.name, whole)
    mark = _MARKS.get(before.kind, "#")
    above = next((first for first, last in before.spans if first <= finding.line <= last), None)
    if not mark or above is None:
        return None
    start = Text(whole).start(above)
    comment = _comment(whole[start:], mark, finding, Source(whole.encode("utf-8", "replace")).newline)
    after = TextFile(before.name, whole[:start] + comment + whole[start:])
    return (above, comment) if suppressions.find_in_text(after).status(finding.rule, finding.line + 1) else None


def _comment(line: str, mark: str, finding: Finding, newline: str) -> str:
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return f"{indent}{mark} torchmigrate: ignore[{finding.rule}]{newline}"
