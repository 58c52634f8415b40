"""Build the program as typer has it: its commands, and a `--help` whose sections fit a screen of 80 columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from torchmigrate import __version__
from torchmigrate.base.text import Interrupted, UserError, did_you_mean
from torchmigrate.cli import parameters
from torchmigrate.cli.commands import apply, config, fleet, lookup, report, verify

# parameters by section and commands by purpose; all others come last
_SECTIONS = {
    "Run": (
        "names",
        "steps",
        "tolerance",
        "compare",
        "timeout",
        "count",
        "env",
        "tier",
        "profile",
        "platform",
        "python",
    ),
    "Rewrite": ("dry_run", "interactive", "unsafe_fixes", "runtime", "style", "allow_dirty", "commit", "branch"),
    "Choose": (
        *("select", "ignore", "exclude", "since", "staged", "torch", "backends", "backend", "project"),
        *("config", "isolated", "stdin_filename"),
    ),
}
_PURPOSES = {
    "Migrate": ("start", "check", "apply", "undo", "fleet"),
    "Prove": ("verify", "backends", "report"),
    "Look up": ("explain", "rules", "catalog"),
    "Set up": ("config", "helper", "server"),
}
# what other tools call it, and what does that here
_OPTIONS_ELSEWHERE = {
    **dict.fromkeys(
        ("--fix", "--write", "--in-place", "--inplace"),
        "`torchmigrate apply` rewrites; `torchmigrate undo` takes it back",
    ),
    "--check": "`torchmigrate apply --dry-run` writes nothing, and exits 1 where something would be rewritten",
    "--diff": "`torchmigrate apply --dry-run` prints the diff",
    "--show-fixes": "`torchmigrate apply --dry-run` prints the diff",
    "--unsafe": "`torchmigrate apply --unsafe-fixes` applies unsafe fixes, too",
    "--format": "--output-format says the format of the report",
    "--no-color": "--color never",
    "--colour": "--color auto, always or never",
    **dict.fromkeys(
        ("--add-noqa", "--add-ignore", "--write-ignores", "--add-ignores"),
        "`torchmigrate check --add-ignores` writes the comments",
    ),
    **dict.fromkeys(("--baseline", "--write-baseline"), "`torchmigrate check` takes it"),
    "--yes": "nothing is asked without -i",
    "--force": "`torchmigrate apply --allow-dirty` writes over changes that git could not give back",
    "--extend-select": "--select NAMES takes packs and rules",
    "--extend-exclude": "--exclude GLOB adds to what is left out",
}
_COMMANDS_ELSEWHERE = {
    **dict.fromkeys(("fix", "migrate", "rewrite", "convert", "port", "run"), "apply"),
    **dict.fromkeys(("lint", "scan", "find", "analyze", "analyse"), "check"),
    "diff": "apply --dry-run",
    **dict.fromkeys(("revert", "restore", "rollback", "reset"), "undo"),
    **dict.fromkeys(("test", "prove", "validate"), "verify"),
    **dict.fromkeys(("rule", "list"), "rules"),
    **dict.fromkeys(("devices", "doctor", "info"), "backends"),
    **dict.fromkeys(("init", "guide", "begin"), "start"),
    "settings": "config",
    **dict.fromkeys(("lsp", "language-server"), "server"),
    "version": "--version",
}


def option_elsewhere(name: str) -> str:
    """Return what to type for an option that other tools have, or an empty text."""
    return _OPTIONS_ELSEWHERE.get(name, "")


_OF_TYPER = {  # typer's own texts take two lines
    "install_completion": "Let <tab> complete commands and names.",
    "show_completion": "Print what that installs.",
}


class Command(TyperCommand):
    """A command's help has a line for each option."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self.get_params(ctx), formatter)


class Commands(TyperGroup):
    """The program's help lists commands by purpose; a mistyped command gets a suggestion."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        width = max(map(len, names))
        formatter.write_paragraph()
        for title, members in _group(names, _PURPOSES, "More"):
            rows = [(name.ljust(width), self.commands[name].get_short_help_str(80 - width)) for name in members]
            _write_section(title, rows, formatter)
        _write_options(self.get_params(ctx), formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if not self.get_command(ctx, args[0]) and not args[0].startswith("-") and not ctx.resilient_parsing:
            help = self._way_out(args, self.list_commands(ctx))
            raise UserError(f"there is no command `{args[0]}`", help)
        return super().resolve_command(ctx, args)

    @staticmethod
    def _way_out(args: list[str], known: list[str]) -> str:
        """Return what to type in place of a command that is not there."""
        if args[0] == "help":
            of = next((name for name in args[1:] if name in known), "check")
            return f"`torchmigrate --help` lists the commands, `torchmigrate {of} --help` tells of one"
        if elsewhere := _COMMANDS_ELSEWHERE.get(args[0]):
            return f"type `torchmigrate {elsewhere}`"
        return did_you_mean(args[0], known) or "`torchmigrate --help` lists the commands"


def _write_options(params: Iterable[Any], formatter: Any) -> None:
    shown = [param for param in params if param.help and not getattr(param, "hidden", False)]
    rows = {param.name: _row(param) for param in shown}
    width = max((len(left) for left, _ in rows.values()), default=0)
    arguments = {param.name for param in shown if param.param_type_name == "argument"}
    formatter.write_paragraph()
    for title, names in _group(rows, {"Arguments": arguments, **_SECTIONS}, "Options"):
        _write_section(title, [(rows[name][0].ljust(width), rows[name][1]) for name in names], formatter)


def _write_section(title: str, rows: list[tuple[str, str]], formatter: Any) -> None:
    formatter.write_heading(title)
    with formatter.indentation():
        formatter.write_dl(rows)


def _group(names: Iterable[str], parts: Mapping[str, Iterable[str]], rest: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the names under the titles of their parts, in the order of `parts`; skip titles without names."""
    left = dict.fromkeys(names)
    for title, members in parts.items():
        if found := [name for name in members if name in left]:
            yield title, found
        for name in found:
            del left[name]
    if left:
        yield rest, list(left)


def _row(param: Any) -> tuple[str, str]:
    if param.param_type_name == "argument":
        return param.metavar or param.name.upper(), param.help
    short = next((f"{name}, " for name in param.opts if not name.startswith("--")), "    ")
    long = next((name for name in param.opts if name.startswith("--")), "")
    value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
    return f"{short}{long}{value}", _OF_TYPER.get(param.name, param.help)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"torchmigrate {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Edit a CUDA-only PyTorch project so that it runs on MPS, XPU, NPU, ROCm or the CPU.

    \b
    Examples:
      torchmigrate start              what ties this project to CUDA, what next
      torchmigrate check              what ties this directory to CUDA
      torchmigrate apply --dry-run    what would be rewritten
      torchmigrate apply              rewrite; `torchmigrate undo` takes it back
    """
    if context.invoked_subcommand is None:
        if sys.stdin.isatty() and sys.stdout.isatty() and _is_project(Path()):  # nobody reads a pipe's guide
            raise typer.Exit(report.start())
        typer.echo(context.get_help())


def _is_project(folder: Path) -> bool:
    """Return whether this is a folder of Python code, and not a home that holds all of them."""
    is_home = os.path.realpath(folder) == os.path.realpath(Path.home())
    return not is_home and (any(folder.glob("*.py")) or (folder / ".git").exists())


_COMMANDS = (
    apply.apply,
    apply.check,
    report.start,
    report.report,
    lookup.rules,
    lookup.explain,
    lookup.catalog,
    verify.verify,
    verify.backends,
    config.config,
    config.helper,
    fleet.fleet,
    apply.undo,
    apply.server,
)


def _program(commands: Sequence[Callable[..., int]]) -> typer.Typer:
    # no rich at start-up: it takes as long as typer itself
    program = typer.Typer(
        cls=Commands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.callback(invoke_without_command=True)(_root)
    for command in commands:
        parameters.tell_typer(command)
        program.command(cls=Command)(command)
    return program


app = _program(_COMMANDS)


def _program_for(arguments: Sequence[str]) -> typer.Typer:
    """Return a program with only the command that is named, if one is: typer takes milliseconds for each."""
    named = [command for command in _COMMANDS if arguments[:1] == [command.__name__]]
    return _program(named) if named else app


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; raises KeyboardInterrupt, UserError and typer's own errors."""
    try:
        status = _program_for(arguments)(list(arguments), standalone_mode=False, prog_name="torchmigrate")
    except typer.Abort:
        raise KeyboardInterrupt from None
    if status == Interrupted.status:  # typer ends this way on Ctrl-C
        raise KeyboardInterrupt
    return int(status or 0)
