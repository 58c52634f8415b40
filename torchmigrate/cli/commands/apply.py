"""Define the commands `apply`, `check`, `undo` and `server`; each imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, BinaryIO

from torchmigrate.base.text import UserError
from torchmigrate.cli.parameters import (
    AddIgnores,
    AllowDirty,
    Also,
    Argument,
    Backends,
    BaselineOption,
    Branch,
    CheckFormat,
    Color,
    ColorOption,
    Commit,
    Config,
    DryRun,
    Exclude,
    ExitZero,
    Format,
    Ignore,
    Interactive,
    Isolated,
    Jobs,
    Names,
    NoBaseline,
    NoCache,
    Option,
    Output,
    OutputFormat,
    Paths,
    Quiet,
    RuntimeOption,
    Since,
    Staged,
    Statistics,
    StdinFilename,
    StyleOption,
    Torch,
    UnsafeFixes,
    Verbose,
    WriteBaseline,
)


def apply(
    paths: Paths = None,
    dry_run: DryRun = False,
    unsafe_fixes: UnsafeFixes = None,
    allow_dirty: AllowDirty = False,
    interactive: Interactive = False,
    commit: Commit = False,
    branch: Branch = None,
    select: Names = None,
    ignore: Ignore = None,
    exclude: Exclude = None,
    torch: Torch = None,
    backends: Backends = None,
    runtime: RuntimeOption = None,
    style: StyleOption = None,
    output_format: OutputFormat = Format.TEXT,
    output: Output = None,
    also: Also = None,
    color: ColorOption = Color.AUTO,
    config: Config = None,
    isolated: Isolated = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_cache: NoCache = False,
    exit_zero: ExitZero = False,
    statistics: Statistics = False,
    since: Since = None,
    staged: Staged = False,
    stdin_filename: StdinFilename = None,
    baseline: NoBaseline = None,
) -> int:
    """Rewrite PATHS in place. Files and directories (default: here), or `-`.

    \b
    Examples:
      torchmigrate apply --dry-run         print the diff, write nothing
      torchmigrate apply -i src            show each change, and ask
    """
    given = locals()
    from torchmigrate.cli.migration import run

    return run.run("dry-run" if given.pop("dry_run") else "apply", **given)


def check(
    paths: Paths = None,
    select: Names = None,
    ignore: Ignore = None,
    exclude: Exclude = None,
    torch: Torch = None,
    backends: Backends = None,
    output_format: CheckFormat = Format.TEXT,
    output: Output = None,
    also: Also = None,
    color: ColorOption = Color.AUTO,
    config: Config = None,
    isolated: Isolated = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_cache: NoCache = False,
    exit_zero: ExitZero = False,
    statistics: Statistics = False,
    since: Since = None,
    staged: Staged = False,
    stdin_filename: StdinFilename = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaseline = False,
    add_ignores: AddIgnores = False,
) -> int:
    """Find what ties PATHS to CUDA. Files and directories (default: here), or `-`.

    \b
    Examples:
      torchmigrate check                       this directory
      torchmigrate check src --backends mps    what a Mac will trip over
      torchmigrate check --since main          what this branch changed
    """
    given = locals()
    from torchmigrate.cli.migration import run

    return run.run("check", **given)


def undo(
    path: Annotated[Path, Argument(metavar="PATH", help="Undo only what was written below PATH.")] = Path(),
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be put back, write nothing.")] = False,
    list_: Annotated[bool, Option("--list", help="List what can be undone, the last first.")] = False,
) -> int:
    """Put back what the last `apply` wrote.

    \b
    Examples:
      torchmigrate undo              in this project
      torchmigrate undo src          below src alone
      torchmigrate undo --dry-run    what it would put back
      torchmigrate undo --list       each apply that can be undone
    """
    from torchmigrate.cli.migration import run

    return run.list_applies(path) if list_ else run.put_back(path, dry_run)


def server(
    stdio: Annotated[bool, Option("--stdio", help="Changes nothing; some editors pass it.")] = False,
) -> int:
    """Serve an editor: the language server protocol on stdin and stdout.

    \b
    Examples:
      torchmigrate server    the command for the settings of an editor
    """
    return run()


_LONGEST = 500_000_000  # bytes of one message


class _Bounded:
    """Read the editor's messages; one that says it is longer than any can be ends the session."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        return self._stream.readline(_LONGEST)

    def read(self, size: int) -> bytes:
        return self._stream.read(size) if size <= _LONGEST else b""


def run() -> int:
    """Serve one editor; return 0 if it ended the session properly, else 1. Raises UserError without pygls."""
    try:
        from torchmigrate.lsp.features import build
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        what = "the language server needs pygls 2, which is not installed here"
        raise UserError(what, "pip install 'torchmigrate[lsp]'") from None
    if sys.stdin.isatty():
        print("torchmigrate: waiting for an editor on standard input; Ctrl-C ends", file=sys.stderr)
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the server writes no files, so nothing needs cleaning up
    if not os.environ.get("TORCHMIGRATE_DEBUG"):
        import logging

        logging.getLogger("pygls").setLevel(logging.CRITICAL)  # tracebacks of errors that the editor is told anyway
    server, session = build()
    # whatever prints goes to stderr from here on: stdout belongs to the editor
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        server.start_io(_Bounded(sys.stdin.buffer), out)  # type: ignore[arg-type]
    return 0 if session.ended else 1
