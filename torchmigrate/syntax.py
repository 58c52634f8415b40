"""What is said of code that this Python does not parse: newer syntax, Python 2, or neither."""

from __future__ import annotations

import re
import sys

# by the release that first has it: how its line looks, or how the parsers before it say no
_NEWER = (
    ((3, 14), re.compile(r"(?<![\w.'\"])(?:t|tr|rt)['\"]", re.I), ""),
    ((3, 12), re.compile(r"^\s*(?:(?:async\s+)?def|class)\s+\w+\s*\[|^\s*type\s+\w+\s*(?:\[.*\]\s*)?="), ""),
    ((3, 12), re.compile(r"\bf(['\"])[^'\"{}]*\{[^{}]*\1[^{}]*\1[^{}]*\}", re.I), "f-string"),
    ((3, 12), re.compile(""), "f-string expression part cannot include"),
)
_PYTHON_2 = re.compile(
    r"Missing parentheses in call to '(print|exec)'|leading zeros in decimal integer|parameters cannot be parenthesized"
)
_LINES_OF_2 = re.compile(r"\s*raise\s+[\w.]+\s*,|.*<>|.*\b(0x[\da-f]+|\d+)L\b|.*\b(ur|UR)['\"]|.*`\w+`", re.I)

_ASYNC = "; `async` is a keyword since Python 3.7: write `non_blocking=`"


def told(error: SyntaxError) -> str:
    """What is wrong, and the way out where there is one."""
    line = error.text or ""
    if (newer := _newer(line, error.msg)) > sys.version_info[:2]:
        this = ".".join(map(str, sys.version_info[:2]))
        wanted = ".".join(map(str, newer))
        return (
            f"syntax of Python {wanted}, and this is Python {this} ({error.msg}); run torchmigrate with Python {wanted}"
        )
    old = _PYTHON_2.search(error.msg) or _LINES_OF_2.match(line)
    why = error.msg + (_ASYNC if "async=" in line else "")
    return f"not Python 3 ({why})" + ("; it looks like Python 2: port it to Python 3 first" if old else "")


def _newer(line: str, message: str) -> tuple[int, int]:
    """The release that first parses such a line, as far as that shows."""
    for release, looks, says in _NEWER:
        if message.startswith(says) and looks.search(line):
            return release
    return 0, 0
