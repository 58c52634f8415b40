"""The session of one editor: its documents, their analyses, and messages to it. All checks run in one thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from torchmigrate.base.text import UserError, shorten
from torchmigrate.lsp import actions
from torchmigrate.lsp.actions import Client
from torchmigrate.lsp.documents import Analysis, Documents, File, analyse

Result = TypeVar("Result")
_KEPT = 8  # analyses: each holds its project context, which takes megabytes in a large project


DELAY = 0.2  # seconds after a keystroke: people type faster, and a check takes about as long


@dataclass
class Session:
    """The state of one editor's session."""

    server: LanguageServer
    documents: Documents = field(default_factory=Documents)
    client: Client = field(default_factory=Client)
    resolves: bool = False  # whether the editor requests an action's edit when the action is chosen
    markdown: bool = False
    ended: bool = False

    def __post_init__(self) -> None:
        self.schedule = Schedule(self._check)
        self._thread = ThreadPoolExecutor(1, "check")
        self._known: dict[str, Analysis] = {}
        self._shown_errors: dict[str, str] = {}  # errors that were shown to the user, by the file that has them

    def changed(self, uri: str, delay: float = DELAY, rank: int = 0) -> None:
        """Schedule a check of a text, a cell or a notebook that was opened or changed."""
        if file := self.documents.file(uri):
            self.schedule.due(file.uri, delay, rank)

    def project_changed(self) -> None:
        """Check all files again, those being edited first, as the project or the settings may have changed."""
        self.documents.renew()
        for uri in self.documents.names():
            self.changed(uri, LATER, rank=1)

    def closed(self, *uris: str) -> None:
        """Forget texts that were closed in the editor, and withdraw their diagnostics."""
        for uri in uris:
            self.schedule.forget(uri)
            self._known.pop(uri, None)
            self._shown_errors.pop(uri, None)
            self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def _check(self, uri: str) -> None:
        file = self.documents.file(uri)
        if file is None:
            return
        try:
            analysis = await self.aside(lambda: self.analysis(file))
        except UserError as error:
            self._show_error(uri, str(error))
            analysis = None
        except OSError as error:  # a name that no file can have
            self._log(f"{shorten(str(file.path), 200)}: {(error.strerror or str(error)).lower()}")
            return
        except Exception as error:
            self._log(f"internal error: {type(error).__name__}: {error} ({file.path}); please report it")
            return
        else:
            self._shown_errors.pop(uri, None)
        if self.documents.file(uri) is file:  # otherwise another check is due
            self._publish(file, analysis)

    def _publish(self, file: File, analysis: Analysis | None) -> None:
        """Send a file's diagnostics; the last ones stay while its text does not parse."""
        if analysis and analysis.failed:
            if analysis.failed.startswith("internal error"):
                self._log(f"{file.path}: {analysis.failed}")
            return
        found = actions.by_document(analysis) if analysis else {}
        for document in file.documents.values():
            params = types.PublishDiagnosticsParams(document.uri, found.get(document.uri, []), document.version)
            self.server.text_document_publish_diagnostics(params)

    def _show_error(self, uri: str, text: str) -> None:
        """Show an error that the user can fix, once until it is fixed."""
        if text not in self._shown_errors.values():
            self.server.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"torchmigrate: {text}"))
        self._shown_errors[uri] = text

    def _log(self, text: str) -> None:
        self.server.window_log_message(types.LogMessageParams(types.MessageType.Error, text))

    async def aside(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the thread for checks, so that the event loop stays responsive."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def analysis(self, file: File) -> Analysis:
        """Return the analysis of the file's current version, from the cache if there is one; raises UserError."""
        known = self._known.pop(file.uri, None)
        if known is None or known.file is not file:
            known = analyse(file)
        self._known[file.uri] = known  # move it to the end, as the most recently used
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        return known


# seconds after a file was saved: the editor and its watcher both report it, and a formatter may save it again
LATER = 0.5


@dataclass(slots=True)
class Schedule:
    """Runs `work` for each due name once, however often it comes due in the meantime; `work` handles its own errors."""

    work: Callable[[str], Awaitable[None]]
    _due: dict[str, tuple[int, float]] = field(default_factory=dict)  # rank and time
    _earlier: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def due(self, name: str, delay: float = DELAY, rank: int = 0) -> None:
        """Schedule a name, `delay` seconds from now; of the names due at a time, the lowest rank goes first."""
        loop = asyncio.get_running_loop()
        self._due[name] = min(rank, self._due.get(name, (rank, 0))[0]), loop.time() + delay
        self._earlier.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())

    def forget(self, name: str) -> None:
        self._due.pop(name, None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._due:
            now = loop.time()
            if ready := [name for name, (_, at) in self._due.items() if at <= now]:
                name = min(ready, key=self._due.__getitem__)
                del self._due[name]
                await self.work(name)
            else:
                await self._sleep(min(at for _, at in self._due.values()) - now)

    async def _sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, or until something comes due earlier."""
        self._earlier.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._earlier.wait(), seconds)
