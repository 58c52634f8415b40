"""What the user is told when a run cannot go on: `error: ...` and `help: ...`, exit status 2."""

from __future__ import annotations

from collections.abc import Iterable

from torchmigrate.base.text import visible_lines


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
