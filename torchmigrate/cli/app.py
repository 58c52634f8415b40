"""The command line: arguments to calls, errors to `error: ... help: ...` and an exit status, never a traceback."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from torchmigrate import __version__
from torchmigrate.base.errors import Interrupted, UserError
from torchmigrate.cli.commands import apply, config, fleet, lookup, report, verify
from torchmigrate.cli.errors import told
from torchmigrate.cli.help import Command, Commands


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
    """Rewrite a CUDA-only PyTorch project so that it runs on every accelerator, and on none.

    \b
    Examples:
      torchmigrate check              what ties this directory to CUDA
      torchmigrate apply --dry-run    what would be rewritten
      torchmigrate apply              rewrite; `torchmigrate undo` takes it back
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_COMMANDS = (
    apply.apply,
    apply.check,
    report.report,
    lookup.rules,
    lookup.explain,
    lookup.catalog,
    verify.verify,
    verify.backends,
    config.config,
    fleet.fleet,
    apply.undo,
    apply.server,
)


def _program(of: Sequence[Callable[..., int]]) -> typer.Typer:
    # no rich at start-up: it costs as much as typer itself
    program = typer.Typer(
        cls=Commands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.callback(invoke_without_command=True)(_root)
    for command in of:
        program.command(cls=Command)(command)
    return program


app = _program(_COMMANDS)


def _needed(arguments: Sequence[str]) -> typer.Typer:
    """The command that is named, where one is: typer takes milliseconds to make each."""
    named = [command for command in _COMMANDS if arguments[:1] == [command.__name__]]
    return _program(named) if named else app


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script."""
    warnings.simplefilter("ignore", SyntaxWarning)  # about the user's code: not ours to print
    status = run(arguments)
    _let_go()
    sys.exit(status)


def _let_go() -> None:
    """What cannot be printed has been told: Python would say so again, in its own words and with its own status."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller closed it
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (for as long as we run)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a message never fails for a character


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; its exit status."""
    _prepare_streams()
    try:
        os.getcwd()
    except OSError:
        print(UserError("the current directory is gone", "change to one that exists"), file=sys.stderr)
        return 2
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        status = _needed(given)(given, standalone_mode=False, prog_name="torchmigrate")
        sys.stdout.flush()
        if status == Interrupted.status:  # typer's own way to end on Ctrl-C
            raise KeyboardInterrupt
        return int(status or 0)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.status
    except (KeyboardInterrupt, typer.Abort):
        print(Interrupted("nothing was written"), file=sys.stderr)
        return Interrupted.status
    except BrokenPipeError:  # `| head`
        return 1
    except Exception as error:
        print(told(error), file=sys.stderr)
        return 2
