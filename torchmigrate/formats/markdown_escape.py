"""Markdown in which nothing of the project's is markup: file names and source lines hold backticks, pipes, HTML."""

from __future__ import annotations

import html
import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def code(text: str) -> str:
    """A code span on one line."""
    text = _CONTROL.sub("\ufffd", text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if "`" in text or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def cell(text: str) -> str:
    """A pipe ends a cell, in a code span too."""
    return text.replace("|", "\\|")


def plain(text: str) -> str:
    """Our own sentences; code spans stay, where they are beyond doubt. What they quote of the project is no HTML, and
    no link or mention."""
    paired = "``" not in text and text.count("`") % 2 == 0
    parts = re.split(r"(`[^`]*`)", text) if paired else [text]
    return "".join(p if i % 2 else re.sub(r"([\\*_\[\]<>@#|&~`])", r"\\\1", p) for i, p in enumerate(parts))


def folded(title: str, body: str) -> str:
    """Shown on a click. The title is HTML: no Markdown is read there."""
    return f"<details>\n<summary>{html.escape(title, quote=False)}</summary>\n\n{body}\n\n</details>"


def fenced(text: str, language: str = "") -> str:
    """A block of code that nothing in it ends."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"
