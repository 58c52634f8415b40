"""The editor's documents, texts and notebooks as it reports them, and the analysis of one state of a file.

Editors count positions in their own way: lines end at \\n, \\r\\n or \\r; columns are in the agreed units.
"""

from __future__ import annotations

import bisect
import io
import json
import os
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from lsprotocol.types import Position, Range, TextDocumentContentChangeEvent, TextDocumentContentChangePartial, TextEdit
from pygls import uris

from torchmigrate.base.text import UserError
from torchmigrate.config.config_file import pack_errors, settings_for
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Finding, Unchanged
from torchmigrate.engine import planner
from torchmigrate.engine.divide import Choices, Group, Key
from torchmigrate.formats.model import Report
from torchmigrate.project.context import ProjectContext, project_root
from torchmigrate.project.discovery import SUFFIXES
from torchmigrate.project.text_rules import text_rules
from torchmigrate.rules import packs
from torchmigrate.source import encoding, notebook
from torchmigrate.source.encoding import HELPER_MARK, Source

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.rules.model import Ruleset


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_END = re.compile(r"\r\n|\r|\n")
_BOM = "\ufeff"


@dataclass(frozen=True)
class Text:
    """A document's text, with LSP's `positionEncoding`: utf-8, utf-16 or utf-32."""

    text: str
    encoding: str = "utf-16"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in _END.finditer(self.text))]

    def _units(self, text: str) -> int:
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        astral = sum(character > "\uffff" for character in text) if self.encoding == "utf-16" else 0
        return len(text) + astral

    def position(self, offset: int) -> Position:
        """Return the position of an offset in characters."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return Position(line, self._units(self.text[self._starts[line] : offset]))

    def offset(self, position: Position) -> int:
        """Return the offset in characters; a position beyond the end of its line, or of the text, means that end."""
        if position.line >= len(self._starts):
            return len(self.text)
        start = self._starts[position.line]
        end = _END.search(self.text, start)
        line = self.text[start : end.start() if end else len(self.text)]
        units = 0
        for index, character in enumerate(line):
            if units >= position.character:
                return start + index
            units += self._units(character)
        return start + len(line)

    def range(self, start: int, end: int) -> Range:
        return Range(self.position(start), self.position(end))

    def range_of(self, finding: Finding) -> Range:
        """Return the range of a finding."""
        return self.between((finding.line, finding.column), (finding.end_line, finding.end_column))

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> Range:
        """Return the range between lines and columns in characters, both from 1; a byte order mark does not count."""
        first = self._at(*start)
        return self.range(first, max(first, self._at(*end)))

    def start(self, line: int) -> int:
        """Return the offset at which a line begins, counted from 1; the first begins after a byte order mark."""
        return self._at(line, 1)

    def _at(self, line: int, column: int) -> int:
        line = min(max(line, 1), len(self._starts))
        mark = line == 1 and self.text.startswith(_BOM)
        return min(self._starts[line - 1] + max(column, 1) - 1 + mark, len(self.text))

    def changed(self, change: TextDocumentContentChangeEvent) -> Text:
        """Return the text after one change that the editor reports."""
        if not isinstance(change, TextDocumentContentChangePartial):
            return Text(change.text, self.encoding)
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        return Text(self.text[:start] + change.text + self.text[end:], self.encoding)

    def edits_to(self, after: str) -> list[TextEdit]:
        """Return edits that turn the text into `after`, for the differing part of each run of lines."""
        return [TextEdit(self.range(start, end), text) for start, end, text in _differences(self.text, after)]


def _differences(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    old, new = _LINE.findall(before), _LINE.findall(after)
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    tail = next((i for i in range(limit - head) if old[-1 - i] != new[-1 - i]), limit - head)
    at = sum(map(len, old[:head]))
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        was, becomes = "".join(old[a:b]), "".join(new[c:d])
        if tag != "equal":
            start, end = _common(was, becomes)
            yield at + start, at + len(was) - end, becomes[start : len(becomes) - end]
        at += len(was)


def _common(was: str, becomes: str) -> tuple[int, int]:
    """Return how many characters are equal at the start and at the end; line ends count as a whole."""
    limit = min(len(was), len(becomes))
    start = next((i for i in range(limit) if was[i] != becomes[i]), limit)
    start -= was[:start].endswith("\r")
    limit -= start
    end = next((i for i in range(limit) if was[-1 - i] != becomes[-1 - i]), limit)
    end -= was[len(was) - end :].startswith("\n")
    return start, max(0, end)


_PYTHON = "python"
_NOTEBOOK = ".ipynb"


@dataclass(frozen=True, slots=True)
class Document:
    """A text of the editor: a file, or a cell of a notebook."""

    uri: str
    version: int
    text: Text
    language: str


@dataclass(frozen=True, slots=True)
class File:
    """A file as the engine takes it; each state is a new object.

    `documents` are by the number of a notebook's cell; a text has one, under None. `helpers` are contents by path of
    helpers open in the editor, saved or not.
    """

    uri: str
    path: Path
    raw: bytes
    documents: Mapping[int | None, Document]
    language: str
    helpers: Mapping[str, bytes]

    @property
    def is_python(self) -> bool:
        return self.language == _PYTHON or self.path.suffix in SUFFIXES

    def module(self, cell: int | None) -> tuple[Source, int]:
        """Return the program, and the byte offset of a document in it; raises ValueError if it cannot be read."""
        if cell is None:
            return encoding.decode(self.raw), 0
        book = notebook.split(self.raw)
        start = next((each.start for each in book.cells if each.number == cell), None)
        if start is None:
            raise ValueError(f"cell {cell} is no Python")
        return book.source, start


@dataclass(slots=True)
class Documents:
    """All documents of the editor: `encoding` is the unit of positions, `root` the folder of texts without a file."""

    encoding: str = "utf-16"
    root: Path = field(default_factory=Path)
    _texts: dict[str, Document] = field(default_factory=dict)
    _notebooks: dict[str, list[types.NotebookCell]] = field(default_factory=dict)
    _home: dict[str, str] = field(default_factory=dict)  # the notebook of each cell
    _files: dict[str, File | None] = field(default_factory=dict)

    def names(self) -> Iterator[str]:
        """Yield the URIs of open texts and notebooks, but not of cells."""
        yield from self._notebooks
        yield from (uri for uri in self._texts if uri not in self._home)

    def file(self, uri: str) -> File | None:
        """Return the current file of a text, a notebook or a cell; None if it cannot be checked."""
        uri = self._home.get(uri, uri)
        if uri not in self._files:
            self._files[uri] = self._notebook(uri) if uri in self._notebooks else self._text(uri)
        return self._files[uri]

    def renew(self) -> None:
        """Forget all files: something around them has changed, so their analyses are out of date."""
        self._files.clear()

    def open(self, item: types.TextDocumentItem) -> None:
        text = Text(item.text, self.encoding)
        self._texts[item.uri] = Document(item.uri, item.version, text, item.language_id)
        self._forget(item.uri)

    def change(
        self, document: types.VersionedTextDocumentIdentifier, changes: Sequence[types.TextDocumentContentChangeEvent]
    ) -> None:
        known = self._texts.get(document.uri)
        if known is None:
            return
        self._forget(document.uri)  # before the change too: it may have been a helper until now
        text = known.text
        for change in changes:
            text = text.changed(change)
        self._texts[document.uri] = replace(known, version=document.version, text=text)
        self._forget(document.uri)

    def close(self, uri: str) -> None:
        self._forget(uri)
        self._texts.pop(uri, None)
        self._home.pop(uri, None)

    def open_notebook(self, params: types.DidOpenNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        self._notebooks[uri] = list(params.notebook_document.cells)
        self._open_cells(uri, params.cell_text_documents)

    def _open_cells(self, uri: str, cells: Sequence[types.TextDocumentItem]) -> None:
        self._home.update({cell.uri: uri for cell in cells})
        for cell in cells:
            self.open(cell)
        self._forget(uri)

    def change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> list[str]:
        """Apply a change of a notebook; return the URIs of cells that were removed."""
        uri, cells = params.notebook_document.uri, params.change.cells
        closed: list[str] = []
        if cells is None or uri not in self._notebooks:
            return closed
        if cells.structure:
            array = cells.structure.array
            span = slice(array.start, array.start + array.delete_count)
            self._notebooks[uri][span] = array.cells or []
            closed = [cell.uri for cell in cells.structure.did_close or []]
            for cell in closed:
                self.close(cell)
            self._open_cells(uri, cells.structure.did_open or [])
        for edited in cells.text_content or []:
            self.change(edited.document, edited.changes)
        self._forget(uri)
        return closed

    def close_notebook(self, params: types.DidCloseNotebookDocumentParams) -> None:
        for cell in params.cell_text_documents:
            self.close(cell.uri)
        self._notebooks.pop(params.notebook_document.uri, None)
        self._forget(params.notebook_document.uri)

    def _forget(self, uri: str) -> None:
        self._files.pop(self._home.get(uri, uri), None)
        if self._is_helper(uri):
            self.renew()

    def _is_helper(self, uri: str) -> bool:
        return uri in self._texts and self._texts[uri].text.text.startswith(HELPER_MARK.decode())

    @property
    def _helpers(self) -> Mapping[str, bytes]:
        texts = ((self._path(uri, ""), self._texts[uri].text.text) for uri in self._texts if self._is_helper(uri))
        return {str(path): text.encode() for path, text in texts if path}

    def _text(self, uri: str) -> File | None:
        document = self._texts.get(uri)
        path = self._path(uri, "untitled.py")
        if document is None or path is None or path.suffix == _NOTEBOOK:
            return None
        file = File(uri, path, b"", {None: document}, document.language, self._helpers)
        raw = _encoded(document.text.text, file.is_python)
        return None if raw is None else replace(file, raw=raw)

    def _notebook(self, uri: str) -> File | None:
        """Return a notebook as a file with the same cells for the engine."""
        path = self._path(uri, "untitled.ipynb")
        if path is None:
            return None
        numbered = enumerate((self._texts.get(cell.document) for cell in self._notebooks[uri]), 1)
        cells: dict[int | None, Document] = {
            number: document for number, document in numbered if document and document.language == _PYTHON
        }
        count = len(self._notebooks[uri])
        raw = json.dumps({"cells": [_cell(cells.get(number)) for number in range(1, count + 1)], **_FORMAT})
        return File(uri, path, raw.encode(), cells, _PYTHON, self._helpers)

    def _path(self, uri: str, unnamed: str) -> Path | None:
        """Return the real path of a document; one without a file lies in the folder that the editor has open."""
        if (path := uris.to_fs_path(uri)) is not None:
            if "\0" in path:  # no file can have such a name
                return None
            return Path(os.path.realpath(path))
        return Path(os.path.realpath(self.root / unnamed)) if uris.uri_scheme(uri) == "untitled" else None


_FORMAT = {"metadata": {"language_info": {"name": _PYTHON}}, "nbformat": 4, "nbformat_minor": 5}


def _cell(document: Document | None) -> dict[str, object]:
    if document is None:
        return {"cell_type": "raw", "metadata": {}, "source": ""}
    code: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return {**code, "source": document.text.text}


def _encoded(text: str, is_python: bool) -> bytes | None:
    """Return the text in the encoding that a program declares (PEP 263), or None if that lacks a character."""
    try:
        raw = text.encode()
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0] if is_python else "utf-8"
        return raw if encoding.startswith("utf-8") else text.encode(encoding)
    except UnicodeError:
        return None
    except SyntaxError:  # the declared encoding does not exist: the engine reports that
        return raw


_ALL = frozenset[Key]()


@dataclass(frozen=True)
class Analysis:
    """The analysis of one state of a file: `findings` in order, or why it `failed` (often it does not parse)."""

    file: File
    settings: Settings
    findings: Sequence[Finding] = ()
    facts: ProjectContext | None = None
    failed: str | None = None
    _fixed: dict[frozenset[Key], Sequence[FileResult]] = field(default_factory=dict)

    @cached_property
    def rules(self) -> Ruleset:
        """The rules of the project's settings; raises UserError."""
        with pack_errors():
            return packs.load(self.settings.rule_paths, cases=False)

    def group(self, finding: Finding) -> Group | None:
        """Return the group of findings that is rewritten together with a finding, e.g. with its guard; or None."""
        here = [g for g in self._groups if (finding.rule, finding.start) in g.keys]
        around = [g for g in self._groups if any(f.start <= finding.start < f.end for f in g.findings)]
        return next(iter(here + around), None)

    def fix(self, keys: frozenset[Key]) -> Sequence[FileResult]:
        """Return the files that change if these findings are accepted; raises UserError if they cannot be rewritten."""
        return self._cached(keys, lambda: self._choices.results(self._widest.results, {str(self.file.path): keys}))

    def fix_all(self) -> Sequence[FileResult]:
        """Return the files that change if `apply` runs; raises UserError."""
        return self._cached(_ALL, lambda: _plan(self.file, self.settings, "apply").results)

    def _cached(self, keys: frozenset[Key], work: Callable[[], Sequence[FileResult]]) -> Sequence[FileResult]:
        if keys not in self._fixed:
            self._fixed[keys] = work()
        _refuse_failed(self._fixed[keys])
        return [result for result in self._fixed[keys] if isinstance(result, Changed)]

    @cached_property
    def _widest(self) -> Plan:
        """The plan with unsafe fixes, which the user may accept one by one."""
        return _plan(self.file, replace(self.settings, unsafe_fixes=True), "apply")

    @cached_property
    def _choices(self) -> Choices:
        facts = self._widest.facts
        assert facts is not None, "no fix without a finding"
        return Choices(facts, self.rules.selected(self.settings.select, self.settings.ignore))

    @cached_property
    def _groups(self) -> list[Group]:
        mine = [r for r in self._widest.results if isinstance(r, Changed) and r.path == self.file.path]
        return self._choices.groups(mine[0]) if mine else []

    def refuse(self) -> None:
        """Raise UserError if the file cannot be rewritten at all."""
        _refuse_failed([r for r in self._widest.results if r.path != self.file.path])


def _refuse_failed(results: Sequence[FileResult]) -> None:
    for result in results:
        if isinstance(result, Failed):
            raise UserError(f"{result.path.name}: {result.error}")


def analyse(file: File) -> Analysis:
    """Analyse a file; raises UserError if its settings or rules cannot be used."""
    settings = settings_for(
        [file.path], select=None, ignore=None, exclude=None, torch=None, backends=None, config=None, isolated=False
    )
    if not file.is_python and not _is_read(file.path, settings):
        return Analysis(file, settings)
    plan = _plan(file, settings, "check")
    mine = [result for result in plan.results if result.path == file.path]
    if failed := next((result.error for result in mine if isinstance(result, Failed)), None):
        return Analysis(file, settings, failed=failed)
    report = Report([r for r in mine if isinstance(r, Unchanged)], 1, "check", file.path.parent, settings.backends)
    return Analysis(file, settings, [finding for _, finding in report.findings], plan.facts)


def _plan(file: File, settings: Settings, mode: str) -> Plan:
    with pack_errors():
        return planner.plan_text(file.path, file.raw, settings, mode, helpers=_helpers(file))


def _helpers(file: File) -> Mapping[str, bytes]:
    """Return the helpers of the file's project that are open in the editor, also unsaved."""
    if not file.helpers:
        return {}
    root = project_root([file.path])
    return {path: text for path, text in file.helpers.items() if Path(path).is_relative_to(root)}


def _is_read(path: Path, settings: Settings) -> bool:
    """Return whether there are rules about a file that is not Python."""
    with pack_errors():
        return bool(text_rules(packs.load(settings.rule_paths, cases=False)).readable.match(path.as_posix()))
