"""Errors for the user, and text for people: counts, lists, shortening, and escapes of terminal control characters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO


class UserError(Exception):
    """A problem that the user can solve; `help` says how."""

    status = 2

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message, self.help = message, help

    def __str__(self) -> str:
        return visible_lines(f"error: {self.message}" + (f"\nhelp: {self.help}" if self.help else ""))


class Interrupted(UserError):
    """The user pressed Ctrl-C."""

    status = 130

    def __init__(self, what: str, help: str = "") -> None:
        super().__init__(f"interrupted; {what}", help)


def short(value: object) -> object:
    """Shorten a long text to its first 60 characters for a message; return other values unchanged."""
    return f"{value[:60]}..." if isinstance(value, str) and len(value) > 80 else value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean `...`?" for the closest known name, or "" if none is close."""
    import difflib  # imported here, as only a misspelt name needs it

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else ""


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 number`, `1,194 kernels`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shorten(text: str, most: int) -> str:
    """Cut a text to at most `most` characters, with dots at the end if it was cut."""
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


# C0 controls but the tab, DEL, C1 controls, line and paragraph separators, direction marks (CVE-2021-42574), lone
# surrogates.
_CONTROLS = "\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
HIDDEN = f"[{_CONTROLS}]"
_HIDDEN_IN_LINES = f"(?!\n|\r\n)[{_CONTROLS}]"


def columns(stream: TextIO) -> int | None:
    """Return the usable columns of a terminal (some wrap at the last), or None for a pipe or a file."""
    if not stream.isatty():
        return None
    import shutil

    return max(shutil.get_terminal_size().columns, 40) - 1


def print_fitted(*lines: object) -> None:
    """Print to stderr; on a terminal, in lines that fit it."""
    room = columns(sys.stderr)
    print(*(folded(str(line), room) for line in lines), sep="\n", file=sys.stderr, flush=True)


def folded(text: str, columns: int | None) -> str:
    """Return a text whose lines fit so many columns: broken between words, the rest indented by two more.

    What stands between backquotes is to be copied and stays in one piece, as do words that are longer than a line.
    """
    return text if columns is None else "\n".join(part for line in text.split("\n") for part in _parts(line, columns))


def _parts(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    lead = line[: len(line) - len(line.lstrip())]
    parts = [lead]
    for word in _words(line.strip()):
        if len(parts[-1]) + len(word) + 1 > columns and parts[-1].strip():
            parts.append(f"{lead}  {word}")
        else:
            parts[-1] += f" {word}" if parts[-1].strip() else word
    return parts


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in text.split(" "):
        if words and words[-1].count("`") % 2:
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def visible(text: str) -> str:
    """Make the text one harmless line: escape control characters, and a leading `::`, a command to GitHub Actions."""
    shown = text if text.isprintable() else re.sub(HIDDEN, _escape_character, text)
    return f"./{shown}" if shown.startswith("::") else shown


def visible_lines(text: str) -> str:
    """Escape control characters in a text of several lines; the line ends \\n and \\r\\n stay."""
    is_clean = text.replace("\n", "").isprintable()
    return text if is_clean else re.sub(_HIDDEN_IN_LINES, _escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    code = ord(found.group())
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8 (surrogateescape)
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def style(text: str, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return the text with the escape sequences for a colour and a weight, and one that ends them."""
    codes = [*([30 + _COLOURS.index(fg)] if fg else []), *([1] if bold else []), *([2] if dim else [])]
    return "".join(f"\x1b[{code}m" for code in codes) + f"{text}\x1b[0m"
