"""What the editor holds: texts and notebooks as it tells of them, and each as the file that the engine would read."""

from __future__ import annotations

import io
import json
import os
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lsprotocol import types
from pygls import uris

from torchmigrate.lsp.positions import Text
from torchmigrate.project.discovery import SUFFIXES
from torchmigrate.project.helper_file import MARKER
from torchmigrate.source import encoding, notebook
from torchmigrate.source.encoding import Source

_PYTHON = "python"
_NOTEBOOK = ".ipynb"


@dataclass(frozen=True, slots=True)
class Document:
    """One text of the editor's: a file's, or that of a notebook's cell."""

    uri: str
    version: int
    text: Text
    language: str


@dataclass(frozen=True, slots=True)
class File:
    """What the engine takes for a file. `documents` are by the number of a notebook's cell; a text has one, by None.
    `helpers` are open in the editor, saved or not, by path. Two states of a file are never the same object."""

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
        """The program, and the byte of it at which a document begins. Raises ValueError where it cannot be read."""
        if cell is None:
            return encoding.decode(self.raw), 0
        book = notebook.split(self.raw)
        start = next((each.start for each in book.cells if each.number == cell), None)
        if start is None:
            raise ValueError(f"cell {cell} is no Python")
        return book.source, start


@dataclass(slots=True)
class Documents:
    """`encoding`: of positions. `root`: where a text without a file would lie."""

    encoding: str = "utf-16"
    root: Path = field(default_factory=Path)
    _texts: dict[str, Document] = field(default_factory=dict)
    _notebooks: dict[str, list[types.NotebookCell]] = field(default_factory=dict)
    _home: dict[str, str] = field(default_factory=dict)  # of a cell: its notebook
    _files: dict[str, File | None] = field(default_factory=dict)

    def names(self) -> Iterator[str]:
        """The URIs of open texts and notebooks; cells belong to theirs."""
        yield from self._notebooks
        yield from (uri for uri in self._texts if uri not in self._home)

    def file(self, uri: str) -> File | None:
        """The file of a text, a notebook or a cell, as it stands now; None where it is none that can be checked."""
        uri = self._home.get(uri, uri)
        if uri not in self._files:
            self._files[uri] = self._notebook(uri) if uri in self._notebooks else self._text(uri)
        return self._files[uri]

    def renew(self) -> None:
        """What is around the files has changed: the states they were in are of the past."""
        self._files.clear()

    # ---- what the editor tells

    def open(self, item: types.TextDocumentItem) -> None:
        text = Text(item.text, self.encoding)
        self._texts[item.uri] = Document(item.uri, item.version, text, item.language_id)
        self._touched(item.uri)

    def change(
        self, document: types.VersionedTextDocumentIdentifier, changes: Sequence[types.TextDocumentContentChangeEvent]
    ) -> None:
        known = self._texts.get(document.uri)
        if known is None:
            return
        self._touched(document.uri)  # it may have been the helper until now
        text = known.text
        for change in changes:
            text = text.changed(change)
        self._texts[document.uri] = replace(known, version=document.version, text=text)
        self._touched(document.uri)

    def close(self, uri: str) -> None:
        self._touched(uri)
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
        self._touched(uri)

    def change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> list[str]:
        """The URIs of cells that are no more."""
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
        for told in cells.text_content or []:
            self.change(told.document, told.changes)
        self._touched(uri)
        return closed

    def close_notebook(self, params: types.DidCloseNotebookDocumentParams) -> None:
        for cell in params.cell_text_documents:
            self.close(cell.uri)
        self._notebooks.pop(params.notebook_document.uri, None)
        self._touched(params.notebook_document.uri)

    def _touched(self, uri: str) -> None:
        self._files.pop(self._home.get(uri, uri), None)
        if self._is_helper(uri):
            self.renew()

    def _is_helper(self, uri: str) -> bool:
        return uri in self._texts and self._texts[uri].text.text.startswith(MARKER.decode())

    @property
    def _helpers(self) -> Mapping[str, bytes]:
        texts = ((self._path(uri, ""), self._texts[uri].text.text) for uri in self._texts if self._is_helper(uri))
        return {str(path): text.encode() for path, text in texts if path}

    # ---- as files

    def _text(self, uri: str) -> File | None:
        document = self._texts.get(uri)
        path = self._path(uri, "untitled.py")
        if document is None or path is None or path.suffix == _NOTEBOOK:
            return None
        file = File(uri, path, b"", {None: document}, document.language, self._helpers)
        raw = _encoded(document.text.text, file.is_python)
        return None if raw is None else replace(file, raw=raw)

    def _notebook(self, uri: str) -> File | None:
        """The engine reads cells as it does those of a file."""
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
        """A real path. What has no file yet is taken to lie in the folder that the editor has open."""
        if (path := uris.to_fs_path(uri)) is not None:
            return Path(os.path.realpath(path))
        return Path(os.path.realpath(self.root / unnamed)) if uris.uri_scheme(uri) == "untitled" else None


_FORMAT = {"metadata": {"language_info": {"name": _PYTHON}}, "nbformat": 4, "nbformat_minor": 5}


def _cell(document: Document | None) -> dict[str, object]:
    if document is None:
        return {"cell_type": "raw", "metadata": {}, "source": ""}
    code: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return {**code, "source": document.text.text}


def _encoded(text: str, is_python: bool) -> bytes | None:
    """As the file's bytes: a program may declare an encoding of its own (PEP 263). None where that lacks a character,
    so that the file cannot hold this text."""
    try:
        raw = text.encode()
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0] if is_python else "utf-8"
        return raw if encoding.startswith("utf-8") else text.encode(encoding)
    except UnicodeError:
        return None
    except SyntaxError:  # no encoding that there is: the engine says so
        return raw
