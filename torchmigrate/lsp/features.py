"""The handlers of the messages that the server understands, hover over a name of the catalog among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from lsprotocol import types
from lsprotocol.types import Hover, MarkupContent, MarkupKind, Position
from pygls import uris
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.lsp.server import LanguageServer

from torchmigrate import __version__
from torchmigrate.base.text import UserError, listed
from torchmigrate.config.config_file import pack_errors
from torchmigrate.formats import catalog
from torchmigrate.formats.markdown import code, plain
from torchmigrate.lsp.actions import KINDS, Client, Menu
from torchmigrate.lsp.documents import Analysis, Documents
from torchmigrate.lsp.session import Session
from torchmigrate.project.context import ProjectContext, project_root
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.encoding import Source
from torchmigrate.surveys import api_catalog
from torchmigrate.surveys.api_catalog import HELPER, LEFT, VERDICTS, Catalog, Found, Lookup, Row


def hover(analysis: Analysis, uri: str, position: Position, markdown: bool) -> Hover | None:
    """Return the hover text, or None if no API of the catalog is there or the text does not parse; raises UserError."""
    file = analysis.file
    cell, document = next((item for item in file.documents.items() if item[1].uri == uri), (None, None))
    if document is None:
        return None
    text = document.text
    before = text.text[text.start(1) : text.offset(position)]
    try:
        source, start = file.module(cell)
        found = _found(analysis, source, start + len(before.encode())) if file.is_python else None
    except (SyntaxError, ValueError, RecursionError):
        return None
    if found is None:
        return None
    above = source.position(start)[0] - 1
    places = (source.position(offset) for offset in (found.start, found.end))
    first, last = ((line - above, column) for line, column in places)
    contents = "\n".join(_lines(found, analysis)) if markdown else catalog.paragraph(found.row, found.name)
    kind = MarkupKind.Markdown if markdown else MarkupKind.PlainText
    return Hover(MarkupContent(kind, contents), text.between(first, last))


def _found(analysis: Analysis, source: Source, offset: int) -> Found | None:
    path = analysis.file.path
    facts = analysis.facts or ProjectContext(project_root([path]), analysis.settings)
    with pack_errors():
        known = rows(analysis.settings.rule_paths)
    return Lookup(SemanticModel(path, source, facts), known).at(offset)


@cache
def rows(rule_paths: tuple[Path, ...]) -> Catalog:
    """Return the catalog, including that of the project's own packs; cached, as reading it takes a moment."""
    return api_catalog.load(rule_paths)


def _lines(found: Found, analysis: Analysis) -> Iterator[str]:
    """Yield the row as Markdown: a line for each verdict, what becomes of the API, why, and the source."""
    row = found.row
    part = f" (of {code(row.name)})" if found.name != row.name else ""
    yield f"**{code(found.name)}**{part}, {row.kind}, in a migrated project:"
    yield ""
    for verdict in VERDICTS:
        if names := [
            catalog.NAMES[name].removeprefix("the ") for name, each in row.backends.items() if each == verdict
        ]:
            helped = f" ({code(f'accel.{row.helper}')})" if verdict == HELPER else ""
            yield f"- {verdict}{helped}: {', '.join(names)}"
    yield ""
    yield from _becomes(row, analysis)
    since = f"torch has it since {row.since}. " if row.since else ""
    yield since + f"[Source]({row.source})" if row.source.startswith("https://") else since + plain(row.source)


def _becomes(row: Row, analysis: Analysis) -> Iterator[str]:
    why = f": {row.why}" if row.why else ""
    if row.action == LEFT:
        yield f"Left alone{plain(why)}\n"
        return
    yield f"{row.action.capitalize()} by {listed([code(name) for name in row.rules])}{plain(why)}\n"
    for rule in filter(None, map(analysis.rules.rules.get, row.rules[:1])):
        yield plain(" ".join(rule.why.split())) + "\n"


# files that the project context, settings and rules are read from
_WATCHED = "**/{*.py,*.pyi,*.toml,setup.cfg,requirement*.txt}"
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
        rows.cache_clear()
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
            return await session.aside(lambda: hover(session.analysis(file), uri, params.position, session.markdown))
        except UserError:
            return None
