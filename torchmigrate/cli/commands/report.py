"""Define the command `report`: make two plans without writing them, and render the portability survey of both."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from torchmigrate.base.text import UserError, print_fitted, visible
from torchmigrate.cli import parameters
from torchmigrate.cli import parameters as options

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.surveys.portability import Survey


_READ = {
    "select",
    "ignore",
    "exclude",
    "torch",
    "backends",
    "config",
    "isolated",
}  # the options that choose which files and rules are read


class ReportFormat(str, Enum):
    """These are the formats of a portability report."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


def report(
    paths: options.Paths = None,
    select: options.Names = None,
    ignore: options.Ignore = None,
    exclude: options.Exclude = None,
    torch: options.Torch = None,
    backends: Annotated[
        list[str] | None,
        Option(metavar="NAMES", help="The columns, as mps,xpu.", autocompletion=parameters.backends),
    ] = None,
    output_format: Annotated[ReportFormat, Option(metavar="F", help="text|markdown|json|html")] = ReportFormat.TEXT,
    output: options.Output = None,
    config: options.Config = None,
    isolated: options.Isolated = False,
    jobs: options.Jobs = None,
    quiet: Annotated[bool, Option("-q", "--quiet", help="The report and errors only.")] = False,
) -> int:
    """Score how portable PATHS are, before and after. Writes and runs nothing.

    \b
    Examples:
      torchmigrate report
      torchmigrate report src --output-format html -o report.html
    """
    given = {name: value for name, value in locals().items() if name in _READ}
    from torchmigrate.cli.output import Progress, emit
    from torchmigrate.config.config_file import cores, pack_errors, settings_for

    named = tuple(paths or [Path()])
    settings = settings_for(named, **given)
    shown = _columns(settings.backends)
    with pack_errors(), Progress(shown=not quiet) as progress:
        plans = _plans(named, settings, jobs or cores(), progress)
        survey = _survey(named, settings, plans, shown, _command(named, given))
    emit([_render(survey, output_format, output)], output)
    for file, message in survey.errors:
        print(f"error: {visible(file)}: {visible(message)}", file=sys.stderr)
    if output is not None and not quiet:
        print(f"Wrote {output}.", file=sys.stderr)
    return 2 if survey.errors else 0


def start(
    path: Annotated[Path, Argument(metavar="PATH", help="The project.")] = Path(),
    jobs: options.Jobs = None,
) -> int:
    """Say what ties PATH to CUDA, and which command comes next. Writes nothing.

    \b
    Examples:
      torchmigrate start    this project
    """
    from torchmigrate.apply import journal
    from torchmigrate.cli.output import Progress, colours
    from torchmigrate.config.config_file import cores, pack_errors, settings_for
    from torchmigrate.formats.portability import text

    if not os.path.lexists(path):
        raise UserError(f"{path}: no such file or directory")
    no: dict[str, Any] = dict.fromkeys(("select", "ignore", "exclude", "torch", "backends", "config"))
    settings = settings_for((path,), isolated=False, **no)
    with pack_errors(), Progress() as progress:
        plans = _plans((path,), settings, jobs or cores(), progress)
        survey = _survey((path,), settings, plans, (), "torchmigrate start").of_check()
    first = _programs(path, settings, survey.root)
    program = (_python_of(path), first[0]) if first else ()
    where = "" if str(path) == "." else f" {shlex.quote(os.fspath(path))}"
    applied = next(journal.below(path), None) is not None
    print("\n".join(text.start(survey, where, program, first, applied, colours(sys.stdout))))
    sys.stdout.flush()
    for file, message in survey.errors[:_ERRORS]:
        print_fitted(f"error: {visible(file)}: {visible(message)}")
    if len(survey.errors) > _ERRORS:
        print_fitted(f"and {len(survey.errors) - _ERRORS} more: `torchmigrate check` lists them")
    return 2 if survey.errors else 0


_ERRORS = 3


def _python_of(path: Path) -> str:
    """Return the Python of the virtual environment that lies in the project, else `python`."""
    return next((name for name in (".venv/bin/python", "venv/bin/python") if (path / name).is_file()), "python")


def _programs(path: Path, settings: Settings, root: Path) -> tuple[str, ...]:
    """Return the program that a person would start first, and then the files that it reads; or nothing."""
    from torchmigrate.project.import_graph import of_project

    top = Path(os.path.realpath(root))
    programs = of_project(top, (path,), settings)
    first = programs.first()
    return tuple(Path(file).relative_to(top).as_posix() for file in (programs.reads(first) if first else ()))


def _columns(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the backends asked for that have a score, empty if none was asked for; raises UserError."""
    from torchmigrate.surveys.portability import SCORED

    scored = tuple(name for name in wanted if name in SCORED)
    if wanted and not scored:
        names = ", ".join(wanted)
        raise UserError(f"no rule says what runs on {names}", f"the backends that have a score: {', '.join(SCORED)}")
    for name in wanted:
        if name not in SCORED:
            print(f"note: no rule says what runs on {name}: it has no score", file=sys.stderr)
    return scored


def _plans(paths: Sequence[Path], settings: Settings, jobs: int, progress: object) -> tuple[Plan, Plan]:
    """Return the plans with the safe fixes, and with the unsafe ones; the same plan twice if there are none."""
    from torchmigrate.diagnostics.finding import Status, Unchanged
    from torchmigrate.engine import planner

    def plan(unsafe: bool) -> Plan:
        return planner.plan(paths, replace(settings, unsafe_fixes=unsafe), jobs, "survey", progress)  # type: ignore[arg-type]

    safe = plan(False)
    findings = (f for r in safe.results if isinstance(r, Unchanged) for f in r.findings)
    return safe, plan(True) if any(f.status is Status.HELD for f in findings) else safe


def _survey(
    paths: Sequence[Path], settings: Settings, plans: tuple[Plan, Plan], shown: tuple[str, ...], command: str
) -> Survey:
    from torchmigrate.config import config_file
    from torchmigrate.project import context
    from torchmigrate.project.packaging import torch_floor
    from torchmigrate.rules import packs
    from torchmigrate.surveys import portability
    from torchmigrate.surveys.portability import Survey

    root = config_file.common_parent(paths)
    safe, unsafe = plans[0].results, plans[1].results
    sites = portability.sites(safe, unsafe, root)
    apart = portability.apart(safe, root, sites, list(_left_out(settings)))
    errors = portability.errors(safe, unsafe, root)
    inferred = torch_floor(context.project_root(paths))
    return Survey(
        root=root,
        command=command,
        torch=settings.torch or (inferred[0] if inferred else None),
        files=max(0, plans[0].files_seen + len(plans[0].others) - len(apart.skipped) - len(errors)),
        sites=sites,
        rules=packs.load(settings.rule_paths, cases=False).rules,
        apart=apart,
        errors=errors,
        wanted=shown,
    )


def _left_out(settings: Settings) -> list[str]:
    """Return the settings that leave out rules: the score is another one without them."""
    found = [f"{name} = {', '.join(names)}" for name in ("select", "ignore") if (names := getattr(settings, name))]
    each = settings.per_file_ignores.items()
    return [*found, *(f"per-file-ignores of {glob} = {', '.join(names)}" for glob, names in each)]


def _command(paths: Sequence[Path], given: Mapping[str, Any]) -> str:
    """Return the command as it can be typed again, without the place of the report."""
    words = ["torchmigrate", "report"]
    for name, value in given.items():
        if value is True:
            words.append(f"--{name}")
        elif value:
            words += [w for one in (value if isinstance(value, list) else [value]) for w in (f"--{name}", str(one))]
    return shlex.join([*words, *map(os.fspath, paths)])


def _render(survey: Survey, output_format: ReportFormat, output: Path | None) -> bytes:
    from torchmigrate.cli.output import colours

    match output_format:
        case ReportFormat.JSON:
            from torchmigrate.formats import json

            text = json.render_portability(survey)
        case ReportFormat.MARKDOWN:
            from torchmigrate.formats.portability import markdown

            text = markdown.render(survey)
        case ReportFormat.HTML:
            from torchmigrate.formats.portability import html

            text = html.render(survey)
        case _:
            from torchmigrate.formats.portability import text as plain

            text = plain.render(survey, colours(sys.stdout) and output is None)
    return text.encode(errors="backslashreplace")
