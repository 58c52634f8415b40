"""The command line: arguments to calls, errors to `error: ... help: ...` and an exit status, never a traceback."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from torchmigrate import __version__
from torchmigrate.cli import commands, report, verify
from torchmigrate.errors import Interrupted, UserError

# no rich at start-up: it costs as much as typer itself
app = typer.Typer(
    rich_markup_mode=None, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"torchmigrate {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Rewrite a CUDA-only PyTorch project so that it runs on every accelerator, and on none."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_COMMANDS = (
    commands.apply,
    commands.check,
    report.report,
    commands.rules,
    commands.explain,
    commands.catalog,
    verify.verify,
    verify.backends,
    commands.undo,
)
for command in _COMMANDS:
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script."""
    warnings.simplefilter("ignore", SyntaxWarning)  # about the user's code: not ours to print
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a message never fails for a character
    try:
        status = app(None if arguments is None else list(arguments), standalone_mode=False)
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        print(_told(error), file=sys.stderr)
        return 2


def _told(error: Exception) -> UserError:
    """typer's own complaints (of whichever click it stands on), else a bug of ours."""
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "torchmigrate"
        text = error.format_message().rstrip(".")
        return UserError(text[:1].lower() + text[1:], f"see `{path} --help`")
    if os.environ.get("TORCHMIGRATE_DEBUG"):
        raise error
    kind = type(error).__name__
    return UserError(
        f"internal error: {kind}: {error}", "please report it; TORCHMIGRATE_DEBUG=1 shows where it was raised"
    )
