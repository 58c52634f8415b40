"""What must hold of any file whatever: each broken promise of the engine is one line of text."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Finding, Skipped
from torchmigrate.engine.worker import Job, Worker
from torchmigrate.helper.import_edits import with_import
from torchmigrate.project.context import ProjectContext, own_cuda
from torchmigrate.rewriting.rewrite import Outcome, rewrite
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Ruleset
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import Edit, compose, flatten
from torchmigrate.source.encoding import Source, UnreadableSource, decode
from torchmigrate.syntax.scope import first_line

warnings.simplefilter("ignore")  # `ast.parse` warns of escapes in what is generated

_OURS = ("internal error", "come to rest", "no longer parse")
_IMPORT = re.compile(rb"\s*(?:import|from)\b|.*;\s*(?:import|from)\b")
PATH = Path("/case.py")


@cache
def ruleset() -> Ruleset:
    return packs.load(cases=False)


@cache
def rules() -> DispatchTable:
    return dispatch_table(ruleset())


@dataclass(frozen=True, slots=True)
class Way:
    """How a file is migrated."""

    unsafe: bool = False
    style: str = "helper"

    def facts(self, raw: bytes) -> ProjectContext:
        settings = Settings(unsafe_fixes=self.unsafe, style=self.style, no_cache=True)
        torch = ">=2.13" if self.style == "native" else None
        return ProjectContext(Path("/"), settings, own_cuda=own_cuda([raw]), torch=torch)


WAYS = (Way(), Way(True), Way(False, "native"), Way(True, "native"))


def broken(raw: bytes, way: Way = WAYS[0], path: Path = PATH) -> list[str]:
    """What does not hold of these bytes; nothing where all is well."""
    if path.suffix == ".ipynb":
        return _of_notebook(raw, way, path)
    if not _parses(raw) or zlib.crc32(raw) % 4 == 0:
        result = _worker(raw, way)(Job(str(path), raw, "check" if zlib.crc32(raw) % 8 else "survey"))[0]
        if (found := list(_of_result(raw, result))) or not _parses(raw):
            return found
    try:
        return list(_of_rewrite(raw, way))
    except Exception as error:  # it is what is looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error} ({where.name})"]


def _worker(raw: bytes, way: Way) -> Worker:
    """As one of a run, with the table made once."""
    worker = Worker(ruleset(), way.facts(raw))
    worker._tables[()] = rules()
    return worker


def _of_result(raw: bytes, result: FileResult) -> Iterator[str]:
    """An error has to be the file's own."""
    if isinstance(result, Failed):
        if any(ours in result.error for ours in _OURS) or not result.error.strip():
            yield result.error or "an error without a message"
        elif _parses(raw):
            yield f"Python reads it: {result.error}"
    elif not isinstance(result, Skipped) and not _parses(raw):
        yield "what Python does not parse is no error"


def _parses(raw: bytes) -> bool:
    try:
        ast.parse(decode(raw).text)
    except (UnreadableSource, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _of_notebook(raw: bytes, way: Way, path: Path) -> list[str]:
    result = _worker(raw, way)(Job(str(path), raw, "apply"))[0]
    if isinstance(result, Failed) and any(ours in result.error for ours in _OURS):
        return [result.error]
    if not isinstance(result, Changed):
        return []
    try:
        json.loads(result.after)
    except ValueError as error:
        return [f"no JSON any more: {error}"]
    again = _worker(result.after, way)(Job(str(path), result.after, "apply"))[0]
    if isinstance(again, Changed):
        return [f"a second run applies {sorted({f.rule for f in again.applied})}"]
    return []


def _of_rewrite(raw: bytes, way: Way) -> Iterator[str]:
    source = decode(raw)
    outcome = rewrite(PATH, source, rules(), way.facts(raw))
    after = replace(source, utf8=outcome.text)
    yield from _places(outcome.applied, source)
    yield from _places(outcome.remaining, after)
    if not outcome.applied:
        if outcome.text != source.utf8:
            yield "bytes changed without a finding applied"
        return
    if compose(source.utf8, flatten(outcome.passes, len(source.utf8))) != outcome.text:
        yield "the passes are not one edit of the original"
    if lost := _lines_lost(source, outcome):
        yield f"a line outside of all findings is gone: {lost!r}"
    if comments := _comments(source) - _comments(after):
        yield f"comments are gone: {sorted(comments)[:3]}"
    final = _with_imports(after, outcome, way.facts(raw))
    ast.parse(final.text)
    again = rewrite(PATH, final, rules(), way.facts(final.encode(final.utf8)))
    if again.applied:
        yield f"a second run applies {sorted({f.rule for f in again.applied})}"


def _with_imports(source: Source, outcome: Outcome, facts: ProjectContext) -> Source:
    edits: list[Edit] = []
    if outcome.needs_helper or outcome.needs_torch:
        statement = "import accel" if outcome.needs_helper else ""
        edits += with_import(SemanticModel(PATH, source, facts), statement, outcome.needs_torch)
    return replace(source, utf8=compose(source.utf8, edits))


def _places(findings: Sequence[Finding], source: Source) -> Iterator[str]:
    for f in findings:
        if not 0 <= f.start <= f.end <= len(source.utf8):
            yield f"{f.rule}: bytes {f.start}-{f.end} of {len(source.utf8)}"
        elif source.position(f.start) != (f.line, f.column) or source.position(f.end) != (f.end_line, f.end_column):
            yield f"{f.rule}: line {f.line}, column {f.column} is not byte {f.start}"
        elif not f.message:
            yield f"{f.rule}: a finding without a message"


def _lines_lost(source: Source, outcome: Outcome) -> bytes | None:
    """The first line that no applied finding touches and that is not in the result, in its order."""
    touched = {n for f in outcome.applied for n in range(f.line, f.end_line + 1)}
    at = lambda offset: source.position(min(offset, len(source.utf8)))[0]  # noqa: E731
    for edit in flatten(outcome.passes, len(source.utf8)):
        whole = range(at(edit.start), at(edit.end) + 1)
        touched |= {*whole} if touched & {*whole} else set()
    for f in outcome.applied:  # a fix of several places touches the others, too, where it edits what the finding names
        places = [range(at(e.start), at(e.end) + 1) for e in f.fix.edits] if f.fix and outcome.passes else []
        if f.fix and {*f.fix.edits} <= {*outcome.passes[0]} and any(f.line in lines for lines in places):
            touched.update(*places)
    for node in ast.walk(ast.parse(source.text)):  # a rewrite may begin before what the finding names
        if isinstance(node, ast.stmt):
            inner = getattr(node, "body", None) or getattr(node, "cases", None)
            last = node.end_lineno if not inner else getattr(inner[0], "lineno", node.lineno)
            whole = range(first_line(node), max(node.lineno, last or 0) + 1)
            touched |= {*whole} if touched & {*whole} else set()
    result = iter(_lines(outcome.text))
    for number, line in enumerate(_lines(source.utf8), 1):
        if number in touched or _IMPORT.match(line) or not line.strip():
            continue
        if line not in result:
            return line
    return None


def _lines(text: bytes) -> list[bytes]:
    """As `ast` splits them, which takes a form feed for no line's end."""
    return re.split(rb"\r\n|\r|\n", text)


def _comments(source: Source) -> Counter[str]:
    """Of code: those of import lines go with what is imported."""
    text = source.text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return Counter()
    found = (t for t in tokens if t.type == tokenize.COMMENT and not _IMPORT.match(t.line.encode()))
    return Counter(t.string.strip() for t in found)
