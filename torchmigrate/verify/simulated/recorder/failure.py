"""An exception as a record of a report: its words, its frames, and the tensors that are where they should not be."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from . import suspects
from .frames import Entry

_LONGEST = 2000  # characters of a message
_DEEPEST = 100  # frames at each end of a traceback
_CAUSES = 5


def of_exception(error: BaseException, project: str, causes: int = _CAUSES) -> dict[str, Any]:
    """`cause`: the record of the exception it was raised "from", or "handling", as its `where` says; or None."""
    entries = list(_entries(error.__traceback__))
    told, handled = error.__cause__, None if error.__suppress_context__ else error.__context__
    record = _record(type(error).__name__, _message(error), entries, project)
    if isinstance(error, SyntaxError) and error.filename:
        record["frames"].append({"file": error.filename, "line": error.lineno or 1, "function": "<module>"})
    cause = _cause(told, "from", project, causes) or _cause(handled, "handling", project, causes)
    return {**record, "cause": cause}


def _cause(error: BaseException | None, where: str, project: str, causes: int) -> dict[str, Any] | None:
    return {**of_exception(error, project, causes - 1), "where": where} if error is not None and causes else None


def of_exit(status: Any, caller: FrameType, project: str) -> dict[str, Any]:
    """sys.exit(status); its `cause` is the exception that was being handled."""
    record = _record("SystemExit", _status(status), list(_stack(caller)), project)
    return {**record, "cause": _cause(sys.exc_info()[1], "handling", project, _CAUSES)}


def _record(kind: str, message: str, entries: list[Entry], project: str) -> dict[str, Any]:
    shown = entries if len(entries) <= 2 * _DEEPEST else entries[:_DEEPEST] + entries[-_DEEPEST:]
    return {
        "type": kind,
        "message": message[:_LONGEST],
        "time": time.time(),
        "frames": [{"file": e.file, "line": e.line, "function": e.frame.f_code.co_name} for e in shown],
        **suspects.find(entries[-_DEEPEST:], message, project),
        "cause": None,
    }


def _message(error: BaseException) -> str:
    try:
        return _status(error.code) if isinstance(error, SystemExit) else str(error)
    except Exception as unprintable:
        return f"(its text cannot be read: {type(unprintable).__name__})"


def _status(code: Any) -> str:
    return str(int(code)) if isinstance(code, bool) else str(code)  # unittest exits with True


def _entries(traceback: TracebackType | None) -> Iterator[Entry]:
    while traceback is not None:
        yield Entry(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti)
        traceback = traceback.tb_next


def _stack(frame: FrameType | None) -> Iterator[Entry]:
    """Outermost first."""
    if frame is not None:
        yield from _stack(frame.f_back)
        yield Entry(frame, frame.f_lineno, frame.f_lasti)
