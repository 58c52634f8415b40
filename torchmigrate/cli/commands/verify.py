"""Define the commands `verify` and `backends`; each imports what it needs when it runs."""

from __future__ import annotations

import io
import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from torchmigrate.base.text import UserError, did_you_mean
from torchmigrate.cli import parameters

if TYPE_CHECKING:
    from torchmigrate.verify.session import Result


_EXAMPLE = "torchmigrate verify . -- python train.py --epochs 1"


class VerifyFormat(str, Enum):
    """These are the formats of a verification."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"


class BackendsFormat(str, Enum):
    """These are the formats of `backends`."""

    TEXT = "text"
    JSON = "json"


class Tier(str, Enum):
    """The tier says what simulates devices: C++, or Python alone."""

    NATIVE = "native"
    PYTHON = "python"


class Profile(str, Enum):
    """Simulated devices have these variants."""

    ARC = "arc"
    ATLAS = "atlas"


class Platform(str, Enum):
    """These operating systems start processes in their own ways."""

    MACOS = "macos"
    LINUX = "linux"


def verify(
    path: Annotated[Path, Argument(metavar="PATH")],
    command: Annotated[list[str] | None, Argument(metavar="-- CMD")] = None,
    names: Annotated[
        str | None,
        Option(
            "--backends",
            metavar="NAMES",
            help="Some of cuda,mps,xpu,npu,mtia,cpu (all but mtia).",
            autocompletion=parameters.verified,
        ),
    ] = None,
    steps: Annotated[
        int | None, Option(min=1, metavar="N", help="Compare the first N lines with numbers alone.")
    ] = None,
    tolerance: Annotated[
        float, Option(min=0, metavar="T", help="How far numbers may differ, relative (0.001).")
    ] = 1e-3,
    timeout: Annotated[float, Option(min=0.1, metavar="S", help="Seconds that one run may take (600).")] = 600,
    count: Annotated[
        int | None, Option(min=1, metavar="N", help="How many devices to simulate (1); mps has one.")
    ] = None,
    compare: Annotated[
        list[str] | None, Option(metavar="GLOB", help="Compare files that runs write, too. Repeatable.")
    ] = None,
    only_on_cuda: Annotated[
        list[str] | None, Option(metavar="GLOB", help="Files that only CUDA has to write. Repeatable.")
    ] = None,
    env: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="Set a variable in all runs. Repeatable.")
    ] = None,
    tier: Annotated[Tier, Option(metavar="T", help="Simulate in native (C++) or python (npu only).")] = Tier.NATIVE,
    profile: Annotated[
        Profile | None,
        Option(metavar="NAME", help="Simulate less: arc (xpu, no float64), atlas (npu)."),
    ] = None,
    platform: Annotated[
        Platform | None, Option(metavar="P", help="Start processes as on macos (mps does) or linux.")
    ] = None,
    since: Annotated[str | None, Option(metavar="REV", help="Take the original from commit REV.")] = None,
    unsafe_fixes: Annotated[
        bool | None, Option("--unsafe-fixes/--no-unsafe-fixes", help="Apply unsafe fixes in the copy, too.")
    ] = None,
    jobs: Annotated[int | None, Option("-j", "--jobs", min=1, metavar="N", help="Runs at a time (2).")] = None,
    output_format: Annotated[VerifyFormat, Option(metavar="F", help="text|json|markdown|junit")] = VerifyFormat.TEXT,
    also: parameters.Also = None,
    quiet: Annotated[bool, Option("-q", "--quiet", help="The report and errors only.")] = False,
) -> int:
    """Run a project, as it is and rewritten, on each backend; compare.

    CMD runs in copies of PATH, on real devices or simulated ones. It is your code: run what you trust.

    \b
    Examples:
      torchmigrate verify . -- python train.py --epochs 1
      torchmigrate verify . --backends mps,cpu -- python -m pytest -q
    """
    from torchmigrate.base import system

    if system.is_windows():
        what = "`verify` does not run on Windows: it starts and ends groups of processes as POSIX has them"
        raise UserError(what, "run it under WSL, on Linux or on macOS; all other commands need neither")
    from torchmigrate.base.text import print_fitted
    from torchmigrate.cli import selection
    from torchmigrate.cli.output import emit
    from torchmigrate.config.config_file import pack_errors
    from torchmigrate.verify import session
    from torchmigrate.verify.verdict import Limits, exit_status

    others = [(VerifyFormat(name), file) for name, file in selection.others(also, [*VerifyFormat])]
    request = session.Request(
        path,
        _command(command, path),
        _backends(names),
        Limits(tolerance, steps, tuple(only_on_cuda or ())),
        timeout,
        count,
        tuple(compare or ()),
        tier.value,
        jobs or min(2, os.cpu_count() or 1),
        _variables(env),
        unsafe_fixes,
        profile=profile.value if profile else "",
        platform=platform.value if platform else "",
        originals=selection.originals_since(path, since) if since else {},
        applied=selection.originals_applied,
    )

    def say(line: str) -> None:
        if not quiet:
            print_fitted(line)

    with pack_errors():
        result = session.verify(request, say)
    _report(result, output_format)
    for name, file in others:
        emit([_rendered(result, name).encode()], file)
    return exit_status(result.verdicts)


def _command(words: list[str] | None, path: Path) -> tuple[str, ...]:
    if not words:
        if not path.exists():
            raise UserError(f"{path}: no such file or directory", f"as in: {_EXAMPLE}")
        raise UserError("verify needs a command to run, after `--`", f"as in: {_EXAMPLE}")
    return tuple(words)


def _backends(text: str | None) -> tuple[str, ...]:
    from torchmigrate.verify.backends import DEFAULT, KNOWN

    if text is None:
        return DEFAULT
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in KNOWN:
            raise UserError(
                f"--backends names no backend: `{name}`", did_you_mean(name, KNOWN) or f"known: {', '.join(KNOWN)}"
            )
    if not names:
        raise UserError("--backends names no backend", f"known: {', '.join(KNOWN)}")
    return names


def _variables(settings: list[str] | None) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings or ()]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise UserError(f"--env {name}: no value", "write --env NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _report(result: Result, output_format: VerifyFormat) -> None:
    from torchmigrate.base.text import columns
    from torchmigrate.cli.output import colours
    from torchmigrate.formats import verify as report

    if output_format is VerifyFormat.TEXT:
        here = Path(os.path.realpath(os.curdir))
        report.text(result, here, sys.stdout, colours(sys.stdout), columns(sys.stdout))
    else:
        print(_rendered(result, output_format), end="")


def _rendered(result: Result, output_format: VerifyFormat) -> str:
    """Return a whole report, with the end of its last line."""
    from torchmigrate.formats import verify as report

    here = Path(os.path.realpath(os.curdir))
    if output_format is VerifyFormat.TEXT:
        stream = io.StringIO()
        report.text(result, here, stream, colour=False, columns=None)
        return stream.getvalue()
    if output_format is VerifyFormat.JSON:
        return report.render(result) + "\n"
    found = report.markdown(result, here) if output_format is VerifyFormat.MARKDOWN else report.junit(result, here)
    return found.removesuffix("\n") + "\n"


def backends(
    python: Annotated[Path | None, Option(metavar="FILE", help="The Python to ask (default: that on PATH).")] = None,
    output_format: Annotated[BackendsFormat, Option(metavar="F", help="text|json")] = BackendsFormat.TEXT,
) -> int:
    """Say which backends this machine has, and which it can simulate.

    \b
    Examples:
      torchmigrate backends
      torchmigrate backends --python .venv/bin/python
    """
    from torchmigrate.formats import verify as report
    from torchmigrate.verify.backends import machine
    from torchmigrate.verify.interpreter import choose

    found = machine(choose(python))
    if output_format is BackendsFormat.JSON:
        print(report.render_backends(found))
    else:
        print("\n".join(report.lines(found)))
    return 0
