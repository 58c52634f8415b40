"""On which line of a TOML file each key stands: tomllib keeps no positions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

_MOST = 2_000_000  # characters to parse, values over many lines again and again; what follows then has no place

Keys = tuple[str, ...]


def lines(text: str) -> Mapping[Keys, int]:
    """The first line of each table and key, by its full path, of text that is valid TOML."""
    found: dict[Keys, int] = {}
    table: Keys = ()
    for number, data, is_header in _statements(text):
        for path in _paths(data):
            found.setdefault(path if is_header else table + path, number)
        if is_header:
            table = max(_paths(data), key=len)
    return found


def _statements(text: str) -> Iterator[tuple[int, dict[str, Any], bool]]:
    """Each header and each `key = value` with the line that it begins on: the least text that is TOML by itself."""
    start, held, spent = 0, "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not held:
            start = number
        held += line + "\n"
        if number > start and line.rstrip().endswith(",") and "#" not in line:
            continue  # of a list: it does not end here
        spent += len(held)
        if spent > _MOST:
            return
        try:
            data = tomllib.loads(held)
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        if data:
            yield start, data, held.lstrip().startswith("[")
        held = ""


def _paths(data: Mapping[str, Any], above: Keys = ()) -> Iterator[Keys]:
    for key, value in data.items():
        yield (*above, key)
        if isinstance(value, list) and value:
            value = value[-1]
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))
