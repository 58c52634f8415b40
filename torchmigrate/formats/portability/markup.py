"""HTML by construction: an element escapes whatever is not markup already, so that nothing of a project's can be."""

from __future__ import annotations

import re
from html import escape

_VOID = {"meta", "input", "br"}


class Markup(str):
    """Text that is HTML. Made by `element` and `join` only."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: str | bool | None) -> Markup:
    """`<tag a="b">children</tag>`. A trailing underscore is dropped of an attribute's name, others are hyphens; True
    stands for an attribute without a value, None and False for none."""
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    given = "".join(
        f" {name}" if value is True else f' {name}="{escape(value)}"'
        for name, value in named.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{join(*children)}</{tag}>")


def join(*children: str | None, between: str = "") -> Markup:
    """One after another, without None."""
    return Markup(between.join(c if isinstance(c, Markup) else escape(c) for c in children if c is not None))


def prose(text: str) -> Markup:
    """A sentence whose `words` are code. An option is not broken."""
    parts = re.split(r"`([^`]*)`", text)
    return join(*(_code(part) if i % 2 else part for i, part in enumerate(parts)))


def _code(text: str) -> Markup:
    return element("code", text, class_="option" if text.startswith("--") else None)


def breakable(path: str, long: int = 24) -> Markup:
    """A path that may be broken after a slash, and after an underscore in a name of more characters than `long`."""
    parts = re.split(r"(?<=/)", path)
    pieces = (piece for part in parts for piece in (re.split(r"(?<=_)", part) if len(part) > long else [part]))
    return join(*filter(None, pieces), between="<wbr>")
