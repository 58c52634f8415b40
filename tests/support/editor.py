"""An editor for tests: a real client (pygls) of a real server process, over its standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from conftest import ROOT
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.protocol import default_converter

T = TypeVar("T")
WAIT = 60  # seconds that a loaded machine may take; nothing sleeps for so long
FULL = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(
            document_changes=True, resource_operations=[types.ResourceOperationKind.Create]
        ),
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
    ),
    text_document=types.TextDocumentClientCapabilities(
        code_action=types.CodeActionClientCapabilities(
            data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
        ),
        hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
    ),
    notebook_document=types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities()),
)


def _converter() -> Any:
    """lsprotocol 2025.0.0 cannot read one part of what servers say of notebooks; it is left out here."""
    converter = default_converter()
    union = str | types.NotebookDocumentFilterNotebookType | types.NotebookDocumentFilterScheme
    union |= types.NotebookDocumentFilterPattern | None
    converter.register_structure_hook(union, lambda given, _: given)
    return converter


class Editor:
    """One server and its client, on a loop in a thread, so that tests read from top to bottom."""

    def __init__(self, root: Path, capabilities: types.ClientCapabilities = FULL, env: Mapping[str, str] | None = None):
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.told: list[str] = []  # window/showMessage
        self.logged: list[str] = []
        self.watched: list[Any] = []
        self.published: list[tuple[str, int | None]] = []
        self._loop = asyncio.new_event_loop()
        self._heard = threading.Condition()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.client = LanguageClient("tests", "1", converter_factory=_converter)
        self._listen()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self.do(
            self.client.start_io(
                sys.executable, "-m", "torchmigrate", "server", env=environment, cwd=os.fspath(root.parent)
            )
        )
        folder = types.WorkspaceFolder(root.as_uri(), root.name)
        params = types.InitializeParams(capabilities, root_uri=root.as_uri(), workspace_folders=[folder])
        self.initialized = self.do(self.client.initialize_async(params))
        self.encoding = self.initialized.capabilities.position_encoding or "utf-16"
        self.tell(self.client.initialized, types.InitializedParams())

    def _listen(self) -> None:
        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            with self._heard:
                self.diagnostics[params.uri] = list(params.diagnostics)
                self.published.append((params.uri, params.version))
                self._heard.notify_all()

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def shown(params: types.ShowMessageParams) -> None:
            with self._heard:
                self.told.append(params.message)
                self._heard.notify_all()

        @self.client.feature(types.WINDOW_LOG_MESSAGE)
        def logged(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def registered(params: types.RegistrationParams) -> None:
            with self._heard:
                self.watched += params.registrations
                self._heard.notify_all()

    def do(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(WAIT)

    def until(self, happened: Callable[[], T]) -> T:
        """Wait for something that the server says."""
        with self._heard:
            assert self._heard.wait_for(happened, WAIT), "the server does not say so"
            return happened()

    def tell(self, what: Callable[[T], None], params: T) -> None:
        """Send a notification."""

        async def sent() -> None:
            what(params)

        self.do(sent())

    # ---- texts

    def open(self, path: Path | str, text: str, language: str = "python") -> str:
        """Open a text and wait until it was checked; its URI."""
        uri = path.as_uri() if isinstance(path, Path) else path
        self.texts[uri], self.versions[uri] = text, 1
        item = types.TextDocumentItem(uri, language, 1, text)
        self.tell(self.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        self.versions[uri] += 1
        identifier = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.tell(self.client.text_document_did_change, types.DidChangeTextDocumentParams(identifier, changes))

    def save(self, uri: str) -> None:
        params = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri))
        self.tell(self.client.text_document_did_save, params)

    def close(self, uri: str) -> None:
        del self.texts[uri], self.versions[uri]
        params = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        self.tell(self.client.text_document_did_close, params)

    def found(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics of the text as it is now."""
        self.until(lambda: (uri, self.versions[uri]) in self.published)
        return self.diagnostics[uri]

    def codes(self, uri: str) -> list[object]:
        return [diagnostic.code for diagnostic in self.found(uri)]

    # ---- requests

    def actions(self, uri: str, line: int, only: Sequence[str] | None = None) -> dict[str, types.CodeAction]:
        """By their titles, those of a line, counted from 0."""
        place = types.Range(types.Position(line, 0), types.Position(line, 10_000))
        context = types.CodeActionContext([], only=only)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        offered = self.do(self.client.text_document_code_action_async(params)) or []
        return {action.title: action for action in offered if isinstance(action, types.CodeAction)}

    def resolved(self, action: types.CodeAction) -> types.WorkspaceEdit:
        edit = self.do(self.client.code_action_resolve_async(action)).edit
        assert edit is not None, action.title
        return edit

    def apply(self, edit: types.WorkspaceEdit) -> dict[str, str]:
        """The texts that it gives, by URI; of files that are not open too. Versions must be those of now."""
        assert edit.document_changes is not None
        after: dict[str, str] = {}
        for change in edit.document_changes:
            if isinstance(change, types.CreateFile):
                assert change.uri not in self.texts
                after[change.uri] = ""
            elif isinstance(change, types.TextDocumentEdit):
                uri = change.text_document.uri
                assert change.text_document.version == self.versions.get(uri)
                after[uri] = self.edited(after.get(uri, self.texts.get(uri, "")), change.edits)
        return after

    def edited(self, text: str, edits: Sequence[Any]) -> str:
        """All positions are those of the text before. Done anew here, in the units that were agreed on."""
        starts = [0]
        for index, character in enumerate(text):
            if character == "\n" or (character == "\r" and text[index + 1 : index + 2] != "\n"):
                starts.append(index + 1)

        def offset(position: types.Position) -> int:
            start = starts[position.line]
            units = text[start:].encode(self.encoding.removesuffix("-le") + ("" if self.encoding == "utf-8" else "-le"))
            size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
            kept = units[: position.character * size]
            return start + len(kept.decode(self.encoding + ("" if self.encoding == "utf-8" else "-le")))

        for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
            text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
        return text

    def hover(self, uri: str, line: int, character: int) -> str:
        """What is shown; "" for nothing."""
        position = types.Position(line, character)
        params = types.HoverParams(types.TextDocumentIdentifier(uri), position)
        shown = self.do(self.client.text_document_hover_async(params))
        return shown.contents.value if shown else ""  # type: ignore[union-attr]

    def leave(self) -> int:
        """shutdown and exit; the server's exit status."""
        self.do(self.client.shutdown_async(None))
        self.tell(self.client.exit, None)
        server = self.client._server
        assert server is not None
        status = self.do(asyncio.wait_for(server.wait(), WAIT))
        self._loop.call_soon_threadsafe(self._loop.stop)
        return status
