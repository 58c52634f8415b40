"""What others complain of, in our words: typer of a command line, the system of a file, Python of a bug of ours."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterable
from pathlib import Path

from torchmigrate import __version__
from torchmigrate.base.errors import UserError, did_you_mean

_REPORT = (
    f"this is a bug in torchmigrate {__version__}: please report these lines,"
    " with the traceback that TORCHMIGRATE_DEBUG=1 prints"
)
_QUOTED = re.compile(r"'([^']*)'")
_NOT_ONE_OF = re.compile(r"(?:Value error, )?'(.*)' is not one of (.*)", re.S)


def told(error: Exception) -> UserError:
    """Of whichever click typer stands on. A bug is raised again where `TORCHMIGRATE_DEBUG` asks for it."""
    if hasattr(error, "format_message"):
        return _usage(error)
    if os.environ.get("TORCHMIGRATE_DEBUG"):
        raise error
    if isinstance(error, OSError) and error.strerror:
        name = os.fsdecode(error.filename) if error.filename else "the disk, terminal or pipe"
        return UserError(f"{name}: {error.strerror.lower()}", "mend that, and run again: no file is ever half written")
    what = f"internal error: {type(error).__name__}: {error}".rstrip(": ")
    return UserError(f"{what} ({', '.join(_places(error))})", _REPORT)


def _places(error: Exception) -> Iterable[str]:
    """Where it was raised, and where of ours where that is elsewhere."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(Path(__file__).parent.parent)]
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in (*inside[-1:], *frames[-1:])]
    return dict.fromkeys(places)


def _usage(error: Exception) -> UserError:
    context = getattr(error, "ctx", None)
    help = f"see `{context.command_path if context else 'torchmigrate'} --help`"
    if near := getattr(error, "possibilities", None):
        return UserError(f"no such option: {getattr(error, 'option_name', '')}", f"did you mean `{near[0]}`?")
    text = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    text = re.sub(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", r"too many arguments: \1", text, flags=re.S)
    text = re.sub(r"^Invalid value for (.*?): ", _of_option, text)
    head, _, value = text.partition(": ")
    if choice := _NOT_ONE_OF.fullmatch(value):
        known = re.findall(_QUOTED, choice[2])
        return UserError(f"{head}: `{choice[1]}` is none of {', '.join(known)}", did_you_mean(choice[1], known) or help)
    return UserError(_plain(text), help)


def _of_option(found: re.Match[str]) -> str:
    """`--jobs: ` for `Invalid value for '-j' / '--jobs': `."""
    return f"{re.findall(_QUOTED, found[1])[-1]}: "


def _plain(text: str) -> str:
    text = text.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    text = re.sub(r"Input should be (.*?)(, unable to parse string as an? \w+)?$", r"must be \1", text)
    return re.sub(r"^[A-Z](?=[a-z])", lambda found: found[0].lower(), text)
