"""Where a report goes: stdout or a file, coloured or not, laid out as asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from torchmigrate import diff
from torchmigrate.errors import UserError
from torchmigrate.report import Report, place

if TYPE_CHECKING:
    from torchmigrate.cli.migrate import Request
    from torchmigrate.config import Settings
    from torchmigrate.project import Facts


STANDING = ("sarif", "github", "gitlab", "junit")  # of files as they stand, as `check` sees them


def colours(stream: object) -> bool:
    """NO_COLOR, then FORCE_COLOR, then a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or bool(getattr(stream, "isatty", bool)())


def body(report: Report, request: Request, settings: Settings, facts: Facts | None = None) -> Iterator[bytes]:
    """What goes to stdout: the diff of a dry run, then the findings; or one document for another program."""
    if request.output_format.value not in ("text", "concise"):
        yield from (line.encode(errors="replace") + b"\n" for line in _document(report, request, settings, facts))
        return
    colour = colours(sys.stdout) and request.output is None
    if report.command == "dry-run":
        yield from _diff(report, request, settings.root, colour)
    yield from (line.encode(errors="surrogateescape") + b"\n" for line in _findings(report, request, colour))


def _document(report: Report, request: Request, settings: Settings, facts: Facts | None) -> Iterable[str]:
    from importlib import import_module

    from torchmigrate import pack
    from torchmigrate.report.places import base_of

    name = request.output_format.value
    layout = import_module(f"torchmigrate.report.{name}")  # of eight, the one that was asked for
    if name == "json":
        return [layout.render(report)]
    base = base_of(report)
    if name == "github":
        return cast("Iterable[str]", layout.lines(report, base))
    if name not in ("sarif", "markdown"):
        return [layout.render(report, base)]
    rules = pack.load(settings.rule_paths, cases=False).rules
    return [layout.render(report, base, rules, facts) if name == "sarif" else layout.render(report, base, rules)]


def _findings(report: Report, request: Request, colour: bool) -> Iterable[str]:
    if not request.statistics and request.output_format.value == "concise":
        from torchmigrate.report import concise

        return concise.lines(report)
    if not report.findings and not request.statistics:
        return ()
    from torchmigrate.report import text

    return text.statistics(report) if request.statistics else text.lines(report, colour)


def _diff(report: Report, request: Request, root: Path, colour: bool) -> Iterator[bytes]:
    base = report.here
    if not all(change.path.is_relative_to(base) for change in report.changed):
        base = root
        request.say(f"note: paths in the diff are relative to {root}")
    for change in report.changed:
        text = diff.unified(change, os.path.relpath(change.path, base).replace(os.sep, "/"))
        yield coloured(text) if colour else text


def coloured(text: bytes) -> bytes:
    codes = {b"@": b"36", b"-": b"31", b"+": b"32", b"#": b"2"}
    lines = text.split(b"\n")
    heads = (b"--- ", b"+++ ")
    paint = (b"1" if line.startswith(heads) else codes.get(line[:1]) for line in lines)
    return b"\n".join(b"\x1b[%sm%s\x1b[0m" % (c, line) if c else line for c, line in zip(paint, lines, strict=True))


def details(report: Report) -> Iterator[str]:
    """What `-v` adds on stderr."""
    verb = "rewrote" if report.written else "would rewrite"
    for change in report.changed if report.command != "check" else ():
        rules = ", ".join(dict.fromkeys(finding.rule for finding in change.applied))
        yield f"{verb if not change.new else 'helper:'} {report.name(change.path)}{f' ({rules})' if rules else ''}"
    for result, finding in report.left:
        yield f"left {place(report.name(result.path), finding)}: {finding.rule}: {finding.message}"
    for skipped in report.skipped:
        yield f"skipped {report.name(skipped.path)}: {skipped.reason}"


def emit(parts: Iterable[bytes], file: Path | None, stream: TextIO | None = None) -> None:
    """To stdout, or another stream, as bytes (a diff has the encodings of its files), or to a file in one step."""
    if file is not None:
        from torchmigrate import write

        try:
            write.replace(Path(os.path.realpath(file)), b"".join(parts))
        except OSError as error:
            raise UserError(f"cannot write {file}: {(error.strerror or str(error)).lower()}") from None
        return
    stream = stream or sys.stdout
    stream.flush()
    for part in parts:
        stream.buffer.write(part)
    stream.flush()
