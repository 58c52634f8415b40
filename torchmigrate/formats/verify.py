"""Render a verification as text, Markdown, JUnit and JSON, and the backends of this machine as text and JSON."""

from __future__ import annotations

import json
import math
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.etree import ElementTree as xml

from torchmigrate import __version__
from torchmigrate.base.text import counted
from torchmigrate.formats.ci import legal
from torchmigrate.verify.backends import KNOWN, Machine, Way, advice, way
from torchmigrate.verify.evidence import size
from torchmigrate.verify.session import Result
from torchmigrate.verify.verdict import Kind, Verdict, numbers

if TYPE_CHECKING:
    from rich.table import Table

    from torchmigrate.verify.diagnosis.diagnose import Diagnosis


_NAMED = 3  # findings in other lines
_LAST = 15  # lines of a failed run's output
_COLOURS = {
    Kind.PASS: "green",
    Kind.FAIL: "red",
    Kind.DIFFERS: "magenta",
    Kind.REGRESSED: "red",
    Kind.UNPORTED: "yellow",
    Kind.UNCOMPARED: "yellow",
    Kind.SKIPPED: "dim",
}
_ROOM = 48  # columns that what was seen takes at least, beside the other cells
_HEADINGS = ("project", "backend", "evidence", "verdict", "what was seen")
_WORTH = {
    "hardware": "hardware: the real device ran it. That says nothing of other devices.",
    "simulated": "simulated: the whole program ran on the CPU's kernels under the device's rules: where tensors "
    "live, which dtypes and operators it has. It does not show the device's own numerics, speed or driver.",
    "cpu": "cpu: it runs where there is no accelerator. Mixed devices cannot show there.",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A run as it is shown; `place`: where it failed in the user's files; `findings`: what `check` says there."""

    verdict: Verdict
    cells: tuple[str, str, str, str, str]
    place: str = ""
    cause: str = ""
    findings: tuple[str, ...] = ()


def rows(result: Result, here: Path) -> list[Row]:
    """Return the rows in the order of the runs; paths below `here` are relative to it."""
    return [_row(v, result, here) for v in result.verdicts]


def _row(verdict: Verdict, result: Result, here: Path) -> Row:
    way = verdict.run.way
    evidence = (
        "" if verdict.outcome is None else way.evidence if way.tier == "native" else f"{way.evidence} ({way.tier})"
    )
    seen = "; ".join([verdict.reason, *measures(verdict)])
    cells = (verdict.run.project, way.backend, evidence, verdict.kind.value, seen)
    found = verdict.outcome.diagnosis if verdict.outcome and verdict.kind is not Kind.PASS else None
    if found is None:
        return Row(verdict, cells)
    shown = place(result, here, found.path, found.line, found.rules)
    return Row(verdict, cells, shown, found.cause, _findings(result, verdict, found))


def _findings(result: Result, verdict: Verdict, found: Diagnosis) -> tuple[str, ...]:
    """Return what `check` says of the line that failed, else of others in the run's files that speak of such a failure.

    Fixes of a whole name are made where that was bound.
    """
    here = result.migration.known.get((found.path or "", found.line or 0), ())
    if here:
        return tuple(dict.fromkeys(here))
    files = verdict.outcome.own_files if verdict.outcome else set()
    others = (
        f"{path}:{line}: {said}"
        for (path, line), each in sorted(result.migration.known.items())
        for said in each
        if path in files and said.partition(":")[0] in found.about
    )
    return tuple(dict.fromkeys(others))[:_NAMED]


def measures(verdict: Verdict) -> Iterator[str]:
    """Yield what was measured: `412 kernels`, `peak 1.2 MiB`, `3.1 s`."""
    outcome = verdict.outcome
    if outcome is None:
        return
    if outcome.kernels:
        yield counted(outcome.kernels, "kernel")
    if outcome.peak_bytes:
        yield f"peak {size(outcome.peak_bytes)}"
    yield f"{outcome.seconds:.1f} s"


def place(result: Result, here: Path, path: str | None, line: int | None, rules: Sequence[str]) -> str:
    """Return a place: `train.py:12 (device/tensor-cuda)`; "" if no line is known."""
    if path is None:
        return ""
    real = result.project.anchor / path
    shown = os.path.relpath(real, here) if real.is_relative_to(here) else os.fspath(real)
    by = f" ({', '.join(rules)})" if rules else ""
    return f"{shown}:{line}{by}" if line else f"{shown}{by}"


def text(result: Result, here: Path, stream: IO[str], colour: bool, columns: int | None) -> None:
    """Print a table, then the failures, then what the evidence shows; within `columns` on a terminal, which has some.

    On a narrow terminal what was seen stands below each row.
    """
    from rich.console import Console

    table_rows = rows(result, here)
    wide = 32 + max(sum(map(len, row.cells)) for row in table_rows)
    console = Console(
        file=stream, width=wide, force_terminal=colour, no_color=not colour, highlight=False, markup=False, emoji=False
    )
    names = [sum(map(len, row.cells[:4])) for row in table_rows]
    below = columns is not None and wide > columns and columns - max(names) < _ROOM
    with console.capture() as captured:
        console.print(_table(table_rows, below), width=None if columns is None else min(wide, columns))
    shown = [line.rstrip() for line in captured.get().splitlines()]
    if below:
        seen = [_fitted(f"    {row.cells[4]}", columns, "") for row in table_rows]
        shown = [shown[0], *(line for head, parts in zip(shown[1:], seen, strict=True) for line in (head, *parts))]
    details = [part for row in table_rows for line in _details(row) for part in line.split("\n")]
    told = [part for line in [*details, "", *worth(result)] for part in _fitted(line, columns)]
    stream.writelines(f"{line}\n" for line in [*shown, *told])


def _fitted(line: str, columns: int | None, indent: str = "  ") -> list[str]:
    """Return a line, in parts if the terminal is narrower; all but the first are indented by so much more."""
    if columns is None or len(line) <= columns:
        return [line]
    lead = line[: len(line) - len(line.lstrip())] + indent
    return textwrap.wrap(line, columns, subsequent_indent=lead, replace_whitespace=False, break_on_hyphens=False)


def _table(rows: Sequence[Row], below: bool) -> Table:
    """Return the rows as a table; without what was seen if that stands below."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        *(_HEADINGS[:-1] if below else _HEADINGS), box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold"
    )
    for row in rows:
        *names, kind, seen = row.cells
        last = () if below else (Text(seen),)
        table.add_row(*map(Text, names), Text(kind, style=_COLOURS[row.verdict.kind]), *last)
    return table


def _details(row: Row) -> Iterator[str]:
    """Yield the details of a failed run, unless it fails as the original does, and of a failed original."""
    outcome, kind = row.verdict.outcome, row.verdict.kind
    shown = kind in (Kind.FAIL, Kind.REGRESSED, Kind.UNPORTED) or row.verdict.run.project == "original"
    if outcome is None or not shown or outcome.exit == 0:
        return
    yield f"\n{row.verdict.run.name} ({outcome.run.way.evidence}): {row.verdict.kind.value}"
    if row.place:
        yield f"  {row.place}"
    if row.cause:
        yield f"  {row.cause}"
    yield from (f"  check says: {finding}" for finding in row.findings)
    lines = [line.rstrip() for line in outcome.tail if line.strip()][-_LAST:]
    if lines:
        yield "  its last lines:"
        yield from (f"    {line}" for line in lines)


def worth(result: Result) -> list[str]:
    """Return what the kinds of evidence that occur prove, and what they do not."""
    met = dict.fromkeys(v.run.way.evidence for v in result.verdicts if v.outcome)
    return [_WORTH[evidence] for evidence in _WORTH if evidence in met]


def markdown(result: Result, here: Path) -> str:
    """Return a table for a pull request or a job's summary, with the outcome above it and the failures folded."""
    table_rows = rows(result, here)
    out = [
        f"**torchmigrate verify: {outcome(result)}**",
        "",
        f"| {' | '.join(_HEADINGS)} |",
        "|" + "---|" * len(_HEADINGS),
    ]
    out += ["| " + " | ".join(_cell(cell) for cell in row.cells) + " |" for row in table_rows]
    for row in table_rows:
        if details := list(_details(row)):
            head, *body = details
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(body))), default=0))
            summary = f"<summary>{_escaped(head.strip())}</summary>"
            out += ["", "<details>", summary, "", fence + "text", *(line[2:] for line in body), fence, "</details>"]
    versions = f"torch {result.machine.interpreter.torch}, Python {result.machine.interpreter.python}."
    return "\n".join([*out, "", *(f"- {line}" for line in worth(result)), "", versions]) + "\n"


def outcome(result: Result) -> str:
    """Return how many runs of the rewritten project had which verdict: `3 PASS, 1 FAIL`."""
    kinds = [verdict.kind for verdict in result.verdicts if verdict.run.project == "rewritten"]
    return ", ".join(f"{kinds.count(kind)} {kind.value}" for kind in Kind if kind in kinds)


_FAILED = (Kind.FAIL, Kind.DIFFERS, Kind.REGRESSED)


def junit(result: Result, here: Path) -> str:
    """Return JUnit's XML: a test per run.

    A run that fails, differs or is worse than the original is a failure; where nothing is shown although it was to be,
    or the project works no better than before, an error; what was not run, or is not compared on the CPU alone, is
    skipped.
    """
    table_rows = rows(result, here)
    root = xml.Element("testsuites", name="torchmigrate verify")
    suite = xml.SubElement(root, "testsuite", name="torchmigrate verify")
    ends = []
    for row in table_rows:
        ran, (project, backend, evidence, kind, seen) = row.verdict.outcome, row.cells
        name = f"{backend} ({evidence})" if evidence not in ("", backend) else backend
        case = xml.SubElement(suite, "testcase", name=legal(name), classname=f"verify.{project}")
        case.set("time", f"{ran.seconds if ran else 0:.3f}")
        ends.append(end := _end_of_test(row.verdict))
        if end:
            told = xml.SubElement(case, end, message=legal(seen), type=kind)
            told.text = legal("\n".join(_details(row)).strip())
        else:
            xml.SubElement(case, "system-out").text = legal(seen)
    for element in (root, suite):
        for key, end in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(key, str(ends.count(end)))
        element.set("tests", str(len(ends)))
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode")


def _end_of_test(verdict: Verdict) -> str:
    """Return what JUnit calls a verdict, "" for a test that passed."""
    if verdict.kind in _FAILED:
        return "failure"
    if verdict.kind is Kind.PASS:
        return ""
    is_meant = verdict.run.project == "original" or verdict.kind is Kind.UNPORTED
    uncompared = verdict.kind is Kind.UNCOMPARED and verdict.run.way.backend != "cpu"
    return "error" if is_meant or uncompared else "skipped"


def _cell(text: str) -> str:
    return _escaped(text).replace("|", "\\|").replace("\n", " ")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render(result: Result) -> str:
    """Return JSON with an entry per run.

    `project` ("original", "rewritten"), `backend`, `evidence` ("hardware", "simulated", "cpu"), `tier` ("native",
    "python", or null), `verdict`, `reason`, `exit` (-N for signal N; null: not run, or ended for its time), `error`
    (one line), `where` (`{path, line, rules, cause, findings}` of the original, or null), `kernels` and `peak_bytes`
    (null if not counted), `numbers` (floats in the order printed, or "nan", "inf", "-inf"), `seconds` (null: not run).
    """
    interpreter = result.machine.interpreter
    data = {
        "version": __version__,
        "torch": interpreter.torch,
        "python": interpreter.python,
        "root": str(result.project.anchor),
        "runs": [_run(verdict, result) for verdict in result.verdicts],
        "notes": worth(result),
    }
    return json.dumps(data, indent=2, allow_nan=False)


def _run(verdict: Verdict, result: Result) -> dict[str, Any]:
    way, outcome = verdict.run.way, verdict.outcome
    return {
        "project": verdict.run.project,
        "backend": way.backend,
        "evidence": way.evidence,
        "tier": way.tier if way.evidence == "simulated" else None,
        "verdict": verdict.kind.value,
        "reason": verdict.reason,
        "exit": outcome.exit if outcome else None,
        "error": outcome.error if outcome else None,
        "where": _where(verdict, result),
        "kernels": outcome.kernels if outcome else None,
        "peak_bytes": outcome.peak_bytes if outcome else None,
        "numbers": [_number(n) for n in numbers(verdict, result.baseline, result.limits)],
        "seconds": round(outcome.seconds, 3) if outcome else None,
    }


def _where(verdict: Verdict, result: Result) -> dict[str, Any] | None:
    found = verdict.outcome.diagnosis if verdict.outcome else None
    if found is None:
        return None
    findings = list(_findings(result, verdict, found))
    return {
        "path": found.path,
        "line": found.line,
        "rules": list(found.rules),
        "cause": found.cause,
        "findings": findings,
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def lines(machine: Machine) -> Iterator[str]:
    """Yield lines about this machine and its backends for people."""
    interpreter = machine.interpreter
    yield f"python    {interpreter.python or '?'} ({interpreter.executable})"
    yield f"torch     {_describe_torch(machine)}"
    yield f"compiler  {f'{machine.compiler.version} ({machine.compiler.path})' if machine.compiler else 'none'}"
    yield from (f"driver    {name}: {said}" for name, said in machine.drivers.items())
    yield ""
    yield from (f"{name:<8}  {_describe_way(way(machine, name), machine)}" for name in KNOWN if interpreter.torch)
    if said := advice(machine):
        yield "\nadvice:"
        yield from (f"  {line}" for line in said)


def _describe_torch(machine: Machine) -> str:
    interpreter = machine.interpreter
    if interpreter.torch is None:
        return f"none ({interpreter.error})"
    built = ", ".join(f"{name} {version}" for name, version in interpreter.build.items())
    return f"{interpreter.torch}, built for {built or 'the CPU'}"


def _describe_way(found: Way, machine: Machine) -> str:
    if found.skip:
        return f"not here: {found.skip}"
    if found.evidence == "cpu":
        return "here"
    if found.evidence == "hardware":
        device = machine.interpreter.devices[found.backend]
        return f"hardware: {device.count} x {device.name}"
    return f"simulated ({'C++' if found.tier == 'native' else 'pure Python'})"


def render_backends(machine: Machine) -> str:
    """Return JSON: `{version, python, executable, torch, build, compiler, drivers, devices, backends, advice}`."""
    interpreter = machine.interpreter
    compiler = machine.compiler
    data = {
        "version": __version__,
        "python": interpreter.python or None,
        "executable": interpreter.executable,
        "torch": interpreter.torch,
        "build": dict(interpreter.build),
        "compiler": {"path": compiler.path, "version": compiler.version} if compiler else None,
        "drivers": dict(machine.drivers),
        "devices": {n: {"count": d.count, "name": d.name, "error": d.error} for n, d in interpreter.devices.items()},
        "backends": {name: _way(way(machine, name)) for name in KNOWN} if interpreter.torch else {},
        "advice": advice(machine),
    }
    return json.dumps(data, indent=2)


def _way(found: Way) -> dict[str, Any]:
    tier = found.tier if found.evidence == "simulated" and not found.skip else None
    return {"evidence": None if found.skip else found.evidence, "tier": tier, "reason": found.skip}
