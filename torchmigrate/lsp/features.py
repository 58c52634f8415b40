"""The handlers of the messages that the server understands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types
from pygls import uris
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.lsp.server import LanguageServer

from torchmigrate import __version__
from torchmigrate.base.text import UserError
from torchmigrate.lsp import hover
from torchmigrate.lsp.actions import KINDS, Menu
from torchmigrate.lsp.documents import Documents
from torchmigrate.lsp.session import Session
from torchmigrate.lsp.workspace_edit import Client

# files that the project context, settings and rules are read from
_WATCHED = "**/{*.py,*.pyi,*.toml,setup.cfg,requirements*.txt}"
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithCells(cells=[types.NotebookCellLanguage("python")])], save=True
)


class Server(LanguageServer):
    """A server that logs errors: a window must not open at every keystroke."""

    def report_server_error(self, error: Exception, source: object) -> None:
        if source is not FeatureRequestError:  # that kind is answered with the error
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, f"torchmigrate: {error}"))


def build() -> tuple[LanguageServer, Session]:
    """Build a server without starting it; documents come whole, as pygls also splits lines at form feeds."""
    server = Server(
        "torchmigrate",
        __version__,
        text_document_sync_kind=types.TextDocumentSyncKind.Full,
        notebook_document_sync=_NOTEBOOKS,
    )
    session = Session(server)
    _lifecycle(server, session)
    _texts(server, session)
    _notebooks(server, session)
    _requests(server, session)
    return server, session


def _lifecycle(server: LanguageServer, session: Session) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        folders = params.workspace_folders or []
        uri = folders[0].uri if folders else params.root_uri
        root = Path((uri and uris.to_fs_path(uri)) or Path.cwd())
        encoding = server.workspace.position_encoding or types.PositionEncodingKind.Utf16
        session.documents = Documents(str(getattr(encoding, "value", encoding)), root)
        session.client = Client.of(params.capabilities)
        document = params.capabilities.text_document
        action = document and document.code_action
        later = action.resolve_support.properties if action and action.data_support and action.resolve_support else ()
        session.resolves = "edit" in later
        formats = (document and document.hover and document.hover.content_format) or []
        session.markdown = types.MarkupKind.Markdown in formats

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watches = workspace and workspace.did_change_watched_files
        if watches and watches.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(_WATCHED)])
            watch = types.Registration("watch", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await server.client_register_capability_async(types.RegistrationParams([watch]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(_: types.DidChangeWatchedFilesParams) -> None:
        hover.rows.cache_clear()
        session.project_changed()

    @server.feature(types.SHUTDOWN)
    def shutdown(_: None) -> None:
        session.ended = True


def _texts(server: LanguageServer, session: Session) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        session.documents.open(params.text_document)
        session.changed(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        session.documents.change(params.text_document, params.content_changes)
        session.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(_: types.DidSaveTextDocumentParams) -> None:
        session.project_changed()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        session.documents.close(params.text_document.uri)
        session.closed(params.text_document.uri)


def _notebooks(server: LanguageServer, session: Session) -> None:
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenNotebookDocumentParams) -> None:
        session.documents.open_notebook(params)
        session.changed(params.notebook_document.uri, 0)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeNotebookDocumentParams) -> None:
        session.closed(*session.documents.change_notebook(params))
        session.changed(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def saved(_: types.DidSaveNotebookDocumentParams) -> None:
        session.project_changed()

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseNotebookDocumentParams) -> None:
        session.documents.close_notebook(params)
        session.closed(params.notebook_document.uri, *(cell.uri for cell in params.cell_text_documents))


def _requests(server: LanguageServer, session: Session) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=KINDS, resolve_provider=True),
    )
    async def actions(params: types.CodeActionParams) -> Sequence[types.CodeAction] | None:
        file = session.documents.file(params.text_document.uri)
        if file is None:
            return None

        def work() -> list[types.CodeAction]:
            menu = Menu(session.analysis(file), session.client)
            return list(menu.actions(params) if session.resolves else menu.complete(params))

        try:
            return await session.aside(work) or None
        except UserError:
            return None  # the diagnostics report it already

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        data = action.data
        file = session.documents.file(data["uri"]) if isinstance(data, dict) else None
        if file is None:
            return action
        try:
            return await session.aside(lambda: Menu(session.analysis(file), session.client).resolved(action))
        except UserError as error:
            raise JsonRpcException(f"{error.message}; {error.help}" if error.help else error.message) from None

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        file = session.documents.file(uri)
        if file is None:
            return None
        try:
            return await session.aside(
                lambda: hover.hover(session.analysis(file), uri, params.position, session.markdown)
            )
        except UserError:
            return None
