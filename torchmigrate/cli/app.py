"""Start the program: find the command, run it, and turn errors of any kind into messages."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from torchmigrate import __version__
from torchmigrate.base.text import Interrupted, UserError, did_you_mean, print_fitted
from torchmigrate.cli import parameters
from torchmigrate.cli.commands import apply

_REPORT = (
    f"this is a bug in torchmigrate {__version__}: please report these lines,"
    " with the traceback that TORCHMIGRATE_DEBUG=1 prints"
)
# How often Python looks for cyclic garbage: seldom, as syntax trees live as long as a run. Measured on 1,000 files: the
# defaults take a third more time, and no collection at all saves nothing more and takes a tenth more memory.
_COLLECTIONS = 1_000_000, 30, 30
# Patterns of errors are texts here and below: a clean file compiles none of them.
_QUOTED = r"'([^']*)'"
_NOT_ONE_OF = r"(?s)(?:Value error, )?'(.*)' is not one of (.*)"


def explain_error(error: Exception, given: Sequence[str] = ()) -> UserError:
    """Return any error, also of typer's own click, as a UserError; raise a bug again if `TORCHMIGRATE_DEBUG` is set."""
    if hasattr(error, "format_message"):
        return _explain_usage(error, given)
    if os.environ.get("TORCHMIGRATE_DEBUG"):
        raise error
    if isinstance(error, MemoryError):
        return UserError("there is not enough memory for this", "free some, name fewer files at once, or pass -j 1")
    from torchmigrate.vcs.hardening import GitError

    if isinstance(error, GitError):
        return UserError(f"git: {error}", "see that `git status` and `git fsck` work there")
    if isinstance(error, OSError) and error.strerror:
        name = os.fsdecode(error.filename) if error.filename else "the disk, terminal or pipe"
        return UserError(f"{name}: {error.strerror.lower()}", "mend that, and run again: no file is ever half written")
    what = f"internal error: {type(error).__name__}: {error}".rstrip(": ")
    return UserError(f"{what} ({', '.join(_places(error))})", _REPORT)


def _places(error: Exception) -> Iterable[str]:
    """Return where an error was raised, preceded by the last place in our code if that is elsewhere."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(Path(__file__).parent.parent)]
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in (*inside[-1:], *frames[-1:])]
    return dict.fromkeys(places)


def _explain_usage(error: Exception, given: Sequence[str]) -> UserError:
    from torchmigrate.cli.program import option_elsewhere

    context = getattr(error, "ctx", None)
    command = " ".join(("torchmigrate", *(word for word in given[:1] if not word.startswith("-"))))
    help = f"see `{context.command_path if context else command} --help`"
    if name := getattr(error, "option_name", ""):
        near = getattr(error, "possibilities", None)
        if said := option_elsewhere(name) or (f"did you mean `{near[0]}`?" if near else ""):
            return UserError(f"no such option: {name}", said)
    text = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    text = re.sub(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", r"too many arguments: \1", text, flags=re.S)
    text = re.sub(r"^Invalid value for (.*?): ", _option_prefix, text)
    head, _, value = text.partition(": ")
    if choice := re.fullmatch(_NOT_ONE_OF, value):
        known = re.findall(_QUOTED, choice[2])
        return UserError(f"{head}: `{choice[1]}` is none of {', '.join(known)}", did_you_mean(choice[1], known) or help)
    return UserError(_plain(text), help)


def _option_prefix(found: re.Match[str]) -> str:
    """Return `--jobs: ` for `Invalid value for '-j' / '--jobs': `."""
    return f"{re.findall(_QUOTED, found[1])[-1]}: "


def _plain(text: str) -> str:
    text = text.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    text = re.sub(r"Input should be (.*?)(, unable to parse string as an? \w+)?$", r"must be \1", text)
    return re.sub(r"^[A-Z](?=[a-z])", lambda found: found[0].lower(), text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the console script."""
    warnings.simplefilter("ignore", SyntaxWarning)  # about the user's code
    gc.set_threshold(*_COLLECTIONS)
    if sys.stderr is not None:
        sys.stderr = _Messages(sys.stderr)
    status = run(arguments)
    _silence_closed_stdout()
    gc.freeze()  # else Python looks through all trees once more as it ends
    sys.exit(status)


class _Messages:
    """Wrap standard error: a message that cannot be written (a full disk) changes nothing about what was done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _silence_closed_stdout() -> None:
    """If stdout is closed, silence Python's own 'Exception ignored' at exit; we reported the error already."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller closed the stream
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (for as long as we run)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # a character that cannot be encoded must not make a message fail
            stream.reconfigure(errors="backslashreplace")


_PLAIN: Mapping[str, Callable[..., int]] = {"check": apply.check, "apply": apply.apply}


def _run_plain(arguments: Sequence[str]) -> int | None:
    """Run a `check` or `apply` that needs no typer, which takes longer than a clean file; None for any other line."""
    command = _PLAIN.get(arguments[0]) if arguments else None
    if command is None or "_TORCHMIGRATE_COMPLETE" in os.environ:
        return None
    given = parameters.plain(command, arguments[1:])
    if given is None:
        return None
    try:
        return command(**given)
    except EOFError:
        print(file=sys.stderr)
        raise KeyboardInterrupt from None


def _with_files_as_such(words: Sequence[str]) -> list[str]:
    """Return a hook's words with files that are no options whatever they are called: `-o/home/me/.bashrc` is a file.

    pre-commit names the files behind all options, as git has them.
    """
    first = len(words)
    while first and os.path.lexists(words[first - 1]):
        first -= 1
    return [*words[:first], *(f"./{word}" if word.startswith("-") else word for word in words[first:])]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    _prepare_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        os.getcwd()
    except OSError:
        print_fitted(UserError("the current directory is gone", "change to one that exists"))
        return 2
    try:
        given = _with_files_as_such(given) if "PRE_COMMIT" in os.environ else given
        status = _run_plain(given)
        if status is None:
            from torchmigrate.cli import program

            status = program.run(given)
        sys.stdout.flush()
        return status
    except UserError as error:
        print_fitted(error)
        return error.status
    except KeyboardInterrupt:
        print_fitted(Interrupted("nothing was written"))
        return Interrupted.status
    except BrokenPipeError:  # e.g. `| head`
        return 1
    except Exception as error:
        print_fitted(explain_error(error, given))
        return 2
