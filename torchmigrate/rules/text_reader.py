"""The tables of a rule for files that are not Python: `files` or `[[where]]`, and `[[pattern]]`."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torchmigrate.base import globs
from torchmigrate.diagnostics.finding import Safety
from torchmigrate.rules.model import TextPattern, Where

if TYPE_CHECKING:
    from torchmigrate.rules.reader import At, Reader


_FOR_PYTHON = ("fixer", "on", "rewrite", "blocks")
# a group that holds an unbounded repetition and is itself repeated without bound
_NESTED = re.compile(r"\((?:\\.|[^()\\])*[*+](?:\\.|[^()\\])*\)(?:[*+]|\{\d*,\})")
_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")


def read(reader: Reader, data: Mapping[str, Any]) -> tuple[tuple[Where, ...], tuple[TextPattern, ...]]:
    """Both are empty for a rule about Python. Regular expressions are checked where `reader` is thorough."""
    tables = data.get("pattern", ())
    if not tables:
        if key := next((k for k in ("files", "where") if k in data), None):
            raise reader.fail(
                _at(reader, key), f"`{key}` without a [[pattern]]", "it says where patterns apply: add one"
            )
        return (), ()
    if key := next((k for k in _FOR_PYTHON if k in data), None):
        raise reader.fail(_at(reader, key), f"`{key}` beside a [[pattern]]", "one rule is about Python or about text")
    if data["safety"] != Safety.DISPLAY.value:
        raise reader.fail(
            _at(reader, "safety"), "a rule with a [[pattern]] rewrites nothing", 'write safety = "display"'
        )
    patterns = tuple(_pattern(reader, t, i, data) for i, t in enumerate(tables))
    return tuple(_wheres(reader, data)), patterns


def _at(reader: Reader, key: str) -> At:
    return reader.line(key) if key in ("where", "rewrite") else reader.line("", 0, key)


def _wheres(reader: Reader, data: Mapping[str, Any]) -> Iterator[Where]:
    if "files" in data:
        yield Where(_globs(reader, data["files"], reader.line("", 0, "files")))
    elif "where" not in data:
        raise reader.fail(reader.line("pattern"), "a [[pattern]] without files", 'write files = ["requirements*.txt"]')
    for index, table in enumerate(data.get("where", ())):
        line = reader.line("where", index)
        reader.known(table, "where", line)
        given = {"files": table.get("files"), **{key: table[key] for key in ("but", "beside") if key in table}}
        files = {key: _globs(reader, value, reader.line("where", index, key)) for key, value in given.items()}
        keys = ("line", "under", "unless")
        tests = {key: _regex(reader, table.get(key), reader.line("where", index, key)) for key in keys}
        yield Where(**files, **tests)  # type: ignore[arg-type]


def _globs(reader: Reader, value: Any, line: At) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(glob, str) and glob for glob in value):
        raise reader.fail(line, "this is no list of globs", 'write files = ["requirements*.txt", "Dockerfile*"]')
    if glob := next((g for g in value if g.startswith(("/", "./")) or g.endswith("/") or ".." in g), None):
        raise reader.fail(line, f"{glob!r} is no such glob", "a glob is matched with the end of a path: `docker/*.sh`")
    try:
        return tuple(map(globs.check, value))
    except ValueError as error:
        raise reader.fail(line, f"`files` {error}", "a glob is matched with the end of a path") from None


def _pattern(reader: Reader, table: Mapping[str, Any], index: int, data: Mapping[str, Any]) -> TextPattern:
    line = reader.line("pattern", index)
    reader.known(table, "pattern", line)
    tests = {
        key: _regex(reader, table.get(key), reader.line("pattern", index, key))
        for key in ("match", "unless", "alternative")
    }
    files = _globs(reader, table["files"], reader.line("pattern", index, "files")) if "files" in table else ()
    if tests["match"] is None and not files and "files" not in data:
        raise reader.fail(line, "`match` is missing", "without it the pattern needs `files`: it finds them by name")
    message = table.get("message", data.get("message", data["summary"]))
    if reader.thorough:
        _check_message(reader, message, tests["match"], reader.line("pattern", index, "message"))
    siblings = bool(table.get("siblings", False))
    return TextPattern(tests["match"], message, files, tests["unless"], tests["alternative"], siblings)


def _regex(reader: Reader, text: Any, line: At) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str) or not text:
        raise reader.fail(line, f"{text!r} is no regular expression", "a string in single quotes: '...'")
    if not reader.thorough:
        return text
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise reader.fail(line, f"`{text}` is no regular expression: {error}", "as Python's `re` reads it") from None
    if _NESTED.search(_CLASS.sub("x", text)):
        raise reader.fail(
            line, f"`{text}` repeats a repetition", "it can take for ever on some text: repeat one of the two"
        )
    if compiled.match(""):
        raise reader.fail(line, f"`{text}` matches the empty text", "write what must be there: `+` in place of `*`")
    return text


def _check_message(reader: Reader, message: Any, match: str | None, line: At) -> None:
    groups: Sequence[str] = [*re.compile(match).groupindex] if match else []
    known = {"match", *groups, *(["instead"] if {"library", "variable"} & set(groups) else [])}
    try:
        parts = [part for part in string.Formatter().parse(message) if part[1] is not None]
        if any(spec or conversion for _, _, spec, conversion in parts):  # {match:>1000000000}
            raise ValueError("a name alone stands in braces")
        used = {str(name) for _, name, _, _ in parts}
    except (TypeError, ValueError) as error:
        raise reader.fail(line, f"`message` cannot be filled in: {error}", "write {{ and }} for braces") from None
    if unknown := sorted(used - known):
        hint = f"known: {', '.join(sorted(known))}; `instead` goes with a group `library` or `variable`"
        raise reader.fail(line, f"`message` has {{{unknown[0]}}}", hint)
