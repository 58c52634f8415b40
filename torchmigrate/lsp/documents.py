"""The editor's documents: texts and notebooks as it reports them, and each as the file that the engine would read."""

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
from torchmigrate.source import encoding, notebook
from torchmigrate.source.encoding import HELPER_MARK, Source

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
