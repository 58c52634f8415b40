"""Errors for the user, and text for people: counts, lists, shortening, and escapes for what a terminal would obey."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """A problem the user can mend. `help` says how."""

    status = 2

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message, self.help = message, help

    def __str__(self) -> str:
        return visible_lines(f"error: {self.message}" + (f"\nhelp: {self.help}" if self.help else ""))


class Interrupted(UserError):
    """Ctrl-C."""

    status = 130

    def __init__(self, what: str, help: str = "") -> None:
        super().__init__(f"interrupted; {what}", help)


def short(value: object) -> object:
    """A value as messages show it: of a long text, its beginning."""
    return f"{value[:60]}..." if isinstance(value, str) and len(value) > 80 else value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or nothing when no known name is near."""
    import difflib  # here: only a mistake pays for it

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else ""


def counted(count: int, one: str, many: str = "") -> str:
    """`1 number`, `1,194 kernels`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shorten(text: str, most: int) -> str:
    """To at most so many characters, with dots where it was cut."""
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


# C0 without the tab, DEL, C1, line and paragraph separators, marks of direction (CVE-2021-42574), lone surrogates.
_CONTROLS = "\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_HIDDEN = re.compile(f"[{_CONTROLS}]")
_HIDDEN_IN_LINES = re.compile(f"(?!\n|\r\n)[{_CONTROLS}]")


def visible(text: str) -> str:
    """One line. GitHub reads a line that begins with `::` as a command, so none does."""
    shown = _HIDDEN.sub(_spelled, text)
    return f"./{shown}" if shown.startswith("::") else shown


def visible_lines(text: str) -> str:
    """The same of several lines, ended by \\n or \\r\\n."""
    return _HIDDEN_IN_LINES.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found.group())
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
