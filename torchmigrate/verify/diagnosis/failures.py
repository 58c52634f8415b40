"""Which of a run's exceptions came first, and which only followed from it."""

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
    """One step of a traceback; `file` as the program knew it."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What the program ran on: the backend, the evidence that it gives, torch's version."""

    backend: str = ""
    evidence: str = ""
    torch: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One exception. `frames` are outermost first; `record` is the report's, None for one that was read from a text."""

    kind: str
    message: str
    frames: tuple[Frame, ...] = ()
    record: dict[str, Any] | None = None
    run: Run = Run()
    ended: bool = True
    time: float = 0.0
    handled: Failure | None = None  # what was being handled when it was raised

    @property
    def follows(self) -> bool:
        """Whether it is the echo of another one: in another process, or thread."""
        if self.kind == "SystemExit":
            return self.message.lstrip("-").isdigit()
        return bool(_FOLLOWS_TYPE.fullmatch(self.kind) or _FOLLOWS_TEXT.search(self.message))

    def read(self, key: str) -> Any:
        """What the report says of it: "suspects", "tensors", "expression"; None if nothing."""
        return (self.record or {}).get(key)


def first(reports: Sequence[dict[str, Any]], is_own: Callable[[Frame], bool], stderr: str) -> Failure | None:
    """The root of what failed: what is no echo, touches the project, ended its process, came earliest; in that order.

    `stderr` is asked where the reports tell nothing or only an echo."""

    def order(failure: Failure) -> tuple[bool, bool, bool, float]:
        return failure.follows, not any(map(is_own, failure.frames)), not failure.ended, failure.time

    told = sorted((f for report in reports for f in _failures(report)), key=order)
    if told and not told[0].follows:
        return told[0]
    quoted = [inner for failure in told for inner in quoted_in(failure.message)]
    printed = [failure for failure in quoted_in(stderr) if not failure.follows]
    root = next(iter([*quoted, *sorted(printed, key=order), *told]), None)
    return replace(root, run=_run(reports[0])) if root and reports else root


def _run(report: dict[str, Any]) -> Run:
    return Run(*(str(report.get(key) or "") for key in ("backend", "evidence", "torch")))


def _failures(report: dict[str, Any]) -> Iterator[Failure]:
    records = [(report.get("exception"), True), *((record, False) for record in report.get("others") or ())]
    for record, ended in records:
        if record:
            yield replace(_failure(record), ended=ended, time=record.get("time", 0.0), run=_run(report))


def _failure(record: dict[str, Any]) -> Failure:
    """The exception that it was raised from, where the program says so; an echo's is the one that was being handled."""
    frames = tuple(Frame(f["file"], f["line"], f.get("function", "")) for f in record["frames"])
    own, cause = Failure(record["type"], record["message"], frames, record), record.get("cause")
    if cause is None:
        return own
    inner = _failure(cause)
    if cause.get("where") == "handling" and not own.follows:
        return replace(own, handled=inner)
    quoted = list(quoted_in(inner.message))  # multiprocessing.Pool and concurrent.futures: a _RemoteTraceback
    return quoted[-1] if quoted and "RemoteTraceback" in inner.kind else inner


def quoted_in(text: str) -> Iterator[Failure]:
    """The tracebacks that a text holds, in its order."""
    for block in text.split(_TRACEBACK)[1:]:
        lines = block.splitlines()
        frames = tuple(Frame(m[1], int(m[2]), m[3] or "") for m in map(_FRAME.match, lines) if m)
        last = next((m for line in lines[1:] if (m := _LAST.match(line)) and not line.startswith(" ")), None)
        if frames and last:
            yield Failure(last[1].rpartition(".")[2], last[2] or "", frames)


Place = Callable[[str, int], str]
_DEVICE = re.compile(rf"\b({'|'.join(having('helper'))})(:\d+)?\b")
_QUOTED = 160  # characters of a line that is quoted


@dataclass(frozen=True, slots=True)
class Case:
    """The failure, the code that failed, the match of its text, and how to name a place of the project."""

    failure: Failure
    code: str
    match: re.Match[str]
    place: Place

    @property
    def simulated(self) -> bool:
        """Whether the device was."""
        return self.failure.run.evidence == "simulated"

    @property
    def backend(self) -> str:
        """The one that the run was for."""
        return self.failure.run.backend or "this backend"

    @property
    def suspects(self) -> list[dict[str, Any]]:
        """Tensors that are where they should not be, as witness.py found them."""
        return self.failure.read("suspects") or []

    @property
    def here(self) -> str:
        """The code that failed, quoted."""
        return f"`{shorten(self.code, _QUOTED)}`" if self.code else "what failed"

    @property
    def made(self) -> str:
        """Of the first suspect: "; likely made at train.py:12", or "" if that is not known."""
        made = self.suspects[0].get("made") if self.suspects else None
        return f"; likely made at {self.place(made['file'], made['line'])}" if made else ""

    @property
    def names(self) -> str:
        """The suspects and a verb: "`a` and `b` are"."""
        shown = [f"`{s['name']}`" + (f" ({n} tensors)" if (n := s.get("parts", 1)) > 1 else "") for s in self.suspects]
        return f"{listed(shown)} {'is' if len(shown) == 1 else 'are'}"

    @property
    def rest(self) -> str:
        """The device of the tensors that are no suspects."""
        apart = {suspect["device"] for suspect in self.suspects}
        devices = [tensor["device"] for tensor in self.failure.read("tensors") or []]
        found = [device for device in devices if _DEVICE.match(device) and device not in apart]
        told = [match[0] for match in _DEVICE.finditer(self.failure.message) if match[0] not in apart]
        return next(iter([*found, *told]), self.backend)


def first_line(text: str) -> str:
    """Of a message, cut to a length that fits a report's line."""
    return shorten(next((line for line in text.splitlines() if line.strip()), "").strip(), _QUOTED)


def on(device: str) -> str:
    """A device in words."""
    return "the CPU" if device == "cpu" else device
