"""Find the exception of a run that came first; the others follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchmigrate.base.text import listed, shorten
from torchmigrate.torch_api.backends import having

_FOLLOWS_TYPE = re.compile(
    r"Process(Exited|Raised)Exception|ChildFailedError|SignalException|KeyboardInterrupt|CalledProcessError|BrokenProcessPool|Empty"
    r"|EOFError|BrokenPipeError|Connection(Reset|Refused|Aborted)?Error|TimeoutError|DistNetworkError|DistStoreError"
)
_FOLLOWS_TEXT = re.compile(
    r"^Caught \w+ in |DataLoader worker \(pid|Connection (closed|reset) by peer|Broken pipe|Timed out waiting"
    r"|Socket Timeout|terminated with (the following|signal|exit)"
)
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\W*(?:\[\w+\]:)?\s*File "(.+?)", line (\d+)(?:, in (.+))?$')
_LAST = re.compile(r"^(?:\[\w+\]:\s?)?([A-Za-z_][\w.]*)(?:: (.*))?$")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame is one step of a traceback; `file` is as the program knew it."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A run had this environment: backend, evidence, torch's version."""

    backend: str = ""
    evidence: str = ""
    torch: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure is an exception: its frames, outermost first, and its report's `record` (None: parsed from a text).

    `ended`: whether it ended its process. `handled`: the exception that was being handled when this one was raised.
    """

    kind: str
    message: str
    frames: tuple[Frame, ...] = ()
    record: dict[str, Any] | None = None
    run: Run = Run()
    ended: bool = True
    time: float = 0.0
    handled: Failure | None = None

    @property
    def follows(self) -> bool:
        """Return whether this is the echo of an exception in another process or thread."""
        if self.kind == "SystemExit":
            return self.message.lstrip("-").isdigit()
        return bool(_FOLLOWS_TYPE.fullmatch(self.kind) or _FOLLOWS_TEXT.search(self.message))

    def read(self, key: str) -> Any:
        """Return an entry of the report ("suspects", "tensors", "expression"), or None."""
        return (self.record or {}).get(key)


def is_echo(record: dict[str, Any]) -> bool:
    """Return whether a report's record is of an exception that follows from one in another process or thread."""
    return Failure(str(record.get("type")), str(record.get("message", ""))).follows


def first(reports: Sequence[dict[str, Any]], is_own: Callable[[Frame], bool], stderr: str) -> Failure | None:
    """Return the failure that caused the others; `stderr` is searched if the reports hold nothing but echoes.

    In order of weight: it is no echo, has a frame in the project, ended its process, came earliest.
    """

    def order(failure: Failure) -> tuple[bool, bool, bool, float]:
        return failure.follows, not any(map(is_own, failure.frames)), not failure.ended, failure.time

    reported = sorted((f for report in reports for f in _failures(report)), key=order)
    if reported and not reported[0].follows:
        return reported[0]
    quoted = [inner for failure in reported for inner in quoted_in(failure.message)]
    printed = [failure for failure in quoted_in(stderr) if not failure.follows]
    root = next(iter([*quoted, *sorted(printed, key=order), *reported]), None)
    return replace(root, run=_run(reports[0])) if root and reports else root


def _run(report: dict[str, Any]) -> Run:
    return Run(*(str(report.get(key) or "") for key in ("backend", "evidence", "torch")))


def _failures(report: dict[str, Any]) -> Iterator[Failure]:
    records = [(report.get("exception"), True), *((record, False) for record in report.get("others") or ())]
    for record, ended in records:
        if record:
            yield replace(_failure(record), ended=ended, time=record.get("time", 0.0), run=_run(report))


def _failure(record: dict[str, Any]) -> Failure:
    """Convert a report's record: of an exception's cause, if it has one; of a handled one, if it is an echo."""
    frames = tuple(Frame(f["file"], f["line"], f.get("function", "")) for f in record["frames"])
    own, cause = Failure(record["type"], record["message"], frames, record), record.get("cause")
    if cause is None:
        return own
    inner = _failure(cause)
    if cause.get("where") == "handling" and not own.follows:
        return replace(own, handled=inner)
    # multiprocessing.Pool and concurrent.futures pass on a worker's exception as a _RemoteTraceback
    quoted = list(quoted_in(inner.message))
    return quoted[-1] if quoted and "RemoteTraceback" in inner.kind else inner


def quoted_in(text: str) -> Iterator[Failure]:
    """Yield the tracebacks that a text holds, in order."""
    for block in text.split(_TRACEBACK)[1:]:
        lines = block.splitlines()
        frames = tuple(Frame(m[1], int(m[2]), m[3] or "") for m in map(_FRAME.match, lines) if m)
        last = next((m for line in lines[1:] if (m := _LAST.match(line)) and not line.startswith(" ")), None)
        if frames and last:
            yield Failure(last[1].rpartition(".")[2], last[2] or "", frames)


Place = Callable[[str, int], str]
_DEVICE = re.compile(rf"\b({'|'.join(having('helper'))})(:\d+)?\b")
_QUOTED = 160  # characters of a quoted line


@dataclass(frozen=True, slots=True)
class Case:
    """An explanation gets a case: the failure, the code that failed, the match of its text, and a namer of places."""

    failure: Failure
    code: str
    match: re.Match[str]
    place: Place

    @property
    def simulated(self) -> bool:
        """Return whether the run's device was simulated."""
        return self.failure.run.evidence == "simulated"

    @property
    def backend(self) -> str:
        """Return the backend of the run, in words."""
        return self.failure.run.backend or "this backend"

    @property
    def suspects(self) -> list[dict[str, Any]]:
        """Return the tensors on an unexpected device, as simulated/recorder/suspects.py found them."""
        return self.failure.read("suspects") or []

    @property
    def here(self) -> str:
        """Return the code that failed, quoted."""
        return f"`{shorten(self.code, _QUOTED)}`" if self.code else "what failed"

    @property
    def made(self) -> str:
        """Say where the first suspect was made, "; likely made at train.py:12", or "" if that is not known."""
        made = self.suspects[0].get("made") if self.suspects else None
        return f"; likely made at {self.place(made['file'], made['line'])}" if made else ""

    @property
    def names(self) -> str:
        """Return the suspects and a verb: "`a` and `b` are"."""
        shown = [f"`{s['name']}`" + (f" ({n} tensors)" if (n := s.get("parts", 1)) > 1 else "") for s in self.suspects]
        return f"{listed(shown)} {'is' if len(shown) == 1 else 'are'}"

    @property
    def rest(self) -> str:
        """Return the device of the tensors that are not suspects."""
        apart = {suspect["device"] for suspect in self.suspects}
        devices = [tensor["device"] for tensor in self.failure.read("tensors") or []]
        found = [device for device in devices if _DEVICE.match(device) and device not in apart]
        named = [match[0] for match in _DEVICE.finditer(self.failure.message) if match[0] not in apart]
        return next(iter([*found, *named]), self.backend)


def first_line(text: str) -> str:
    """Return the first non-blank line of a message, shortened to fit a line of a report."""
    return shorten(next((line for line in text.splitlines() if line.strip()), "").strip(), _QUOTED)


def on(device: str) -> str:
    """Return a device in words."""
    return "the CPU" if device == "cpu" else device
