"""Names and source lines of a project as a terminal may show them: what would move its cursor, set its title or turn
the reading order is spelled out."""

from __future__ import annotations

import re

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
