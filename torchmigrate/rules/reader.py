"""Read the TOML tables of rule files; every error names the file and the line."""

from __future__ import annotations

import difflib
import re
import string
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchmigrate.base import file_io, globs, limits
from torchmigrate.base.schema import (
    BOOLEAN,
    INTEGER,
    STRING,
    TABLE,
    TABLES,
    Kind,
    elsewhere,
    matching,
    member,
    one_of,
    strings,
    table_of,
)
from torchmigrate.base.text import visible_lines
from torchmigrate.diagnostics.finding import Safety
from torchmigrate.rules.model import (
    CAPTURE,
    NODE_KINDS,
    STRING_KINDS,
    WHERE,
    Case,
    PackError,
    Rewrite,
    Rule,
    TextPattern,
    Where,
    pattern_key,
)
from torchmigrate.torch_api.backends import BACKENDS
from torchmigrate.torch_api.libraries import CUDA_ONLY, KERNEL_ROOTS
from torchmigrate.torch_api.names import SPEC

Place = tuple[str, int, str]  # a table's name, its index among tables of that name, and a key in it


LARGEST = 1_000_000  # bytes of a file
_SECONDS = 5.0  # of processor time per file: a key of 50,000 parts takes minutes
_ID = re.compile(r"[\w-]+/[\w.-]+")
_DISPLAYED = {"summary", "message", "why", "title", "see", "commit"}


def read_toml(path: Path, what: str, but: re.Pattern[str] | None = None) -> tuple[str, dict[str, Any]]:
    """Read a TOML file of the kind `what`, without what `but` matches; return text and data; raises PackError."""
    try:
        text = file_io.read(path, LARGEST).decode("utf-8-sig").replace("\r\n", "\n")
        with limits.bounded(_SECONDS):
            return text, tomllib.loads(but.sub("", text) if but else text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        at = line[1] if line else text.rstrip().count("\n") + 1
        raise PackError(f"{path}:{at}: not valid TOML: {error}\nhelp: {what} is a TOML file") from None
    except limits.TooSlow:
        raise PackError(f"{path}:1: takes too long to read\nhelp: {what} has tables of text and numbers") from None
    except RecursionError:
        raise PackError(f"{path}:1: nested too deeply to be read\nhelp: {what} needs three levels") from None
    except UnicodeDecodeError as error:
        byte = f"byte {error.object[error.start]:#04x} is not UTF-8"
        raise PackError(f"{path}:1: {byte}\nhelp: save it as UTF-8") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PackError(f"{path}:1: {reason}\nhelp: {what} is a file that can be read") from None
    except ValueError as error:  # a number of 5,000 digits
        raise PackError(f"{path}:1: {error}\nhelp: {what} has tables of text and numbers") from None


class Reader:
    """Checks the tables of one rule file and finds lines for errors; only structure if not `thorough`."""

    def __init__(self, path: Path, text: str, thorough: bool = True) -> None:
        self.path, self.lines, self.thorough = path, text.splitlines(), thorough

    def line(self, table: str, index: int = 0, key: str = "") -> Place:
        """Return the place of a table or of a key in it; `number` finds its line, which only errors need."""
        return table, index, key

    def number(self, table: str, index: int, key: str) -> int:
        """Return the 1-based line of a key, else of its table, else 1."""
        heads = [i for i, line in enumerate(self.lines, 1) if line.strip() == f"[[{table}]]"]
        start = heads[index] if index < len(heads) else 1
        pattern = re.compile(rf"\s*({re.escape(key)}\s*=|\[{re.escape(key)}\])") if key else None
        return next(
            (i for i in range(start, len(self.lines) + 1) if pattern and pattern.match(self.lines[i - 1])), start
        )

    def fail(self, line: int | Place, what: str, way_out: str) -> PackError:
        """Return the error for a line, to be raised."""
        number = line if isinstance(line, int) else self.number(*line)
        return PackError(f"{self.path}:{number}: {what}\nhelp: {way_out}")

    def check_keys(self, table: Mapping[str, Any], name: str, line: int | Place) -> None:
        """Check that a table of the kind `name` has only known keys with valid values; raises PackError."""
        if not self.thorough:
            return

        keys = KEYS[name]
        for key, value in table.items():
            if key not in keys:
                close = difflib.get_close_matches(key, keys, 1)
                hint = f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(sorted(keys))}"
                raise self.fail(self.line("", 0, key) if line == 1 else line, f"unknown key `{key}`", hint)
            try:
                keys[key](value)
            except ValueError as error:
                at = self.line("", 0, key) if line == 1 else line
                what, *help = error.args
                raise self.fail(at, f"`{key}` {what}", help[0] if help else f"write {keys[key].example(key)}") from None

    def safety(self, value: Any, line: Place) -> Safety:
        """Return the applicability that a value names. Raises PackError."""
        try:
            return Safety(value)
        except ValueError:
            raise self.fail(line, f"safety is {value!r}", "use safe, unsafe or display") from None

    def check_printable(self, data: Mapping[str, Any]) -> None:
        """Check that the rule's name and texts can be shown on terminals. Raises PackError."""
        if not _ID.fullmatch(f"{self.path.parent.name}/{self.path.stem}"):
            raise self.fail(1, "a rule cannot be called that", "letters, digits, `-` and `_`: `mine/no-cuda.toml`")
        for table in (data, *(t for name in ("rewrite", "case", "pattern") for t in data.get(name, ()))):
            for key in _DISPLAYED & {*table}:
                if visible_lines(str(table[key])) != str(table[key]):
                    raise self.fail(1, f"`{key}` has a control character", "write what people can read")

    def rule(self, data: dict[str, Any]) -> Rule:
        """Return the rule that the file's data describes. Raises PackError."""
        self.check_keys(data, "rule", 1)
        if self.thorough:
            self.check_printable(data)
        for key in ("summary", "safety", "why"):
            if not isinstance(data.get(key), str):
                raise self.fail(1, f"`{key}` is missing", f"every rule has a {key} (a string)")
        safety = self.safety(data["safety"], self.line("", 0, "safety"))
        rewrites = tuple(self.rewrite(r, i, safety, data) for i, r in enumerate(data.get("rewrite", ())))
        on = tuple(data.get("on", ()))
        where, patterns = read_text_tables(self, data)
        if not rewrites and not data.get("fixer") and not patterns:
            raise self.fail(1, "nothing to match", "give it a [[rewrite]] table, a `fixer` or a [[pattern]] table")
        self.check_on(on, bool(data.get("fixer")))
        since = data.get("since", {})
        if name := next((n for n in since if n not in on), None):
            raise self.fail(self.line("", 0, "since"), f"`since` has {name!r}", "it is for names that `on` has")
        return Rule(
            id=f"{self.path.parent.name}/{self.path.stem}",
            path=self.path,
            summary=data["summary"],
            safety=safety,
            backends=tuple(data.get("backends", ())),
            why=data["why"].strip(),
            see=tuple(data.get("see", ())),
            message=data.get("message", data["summary"]),
            blocks=bool(data.get("blocks", False)),
            raises=bool(data.get("raises", False)),
            guards=data.get("guards", ""),
            fixer=data.get("fixer"),
            on=on,
            literals=(*data.get("literals", ()), *LITERALS.get(data.get("literals-from", ""), ())),
            rewrites=rewrites,
            cases=tuple(self.case(c, i, bool(patterns)) for i, c in enumerate(data.get("case", ()))),
            where=where,
            patterns=patterns,
            since=since,
        )

    def check_on(self, on: Sequence[str], has_fixer: bool) -> None:
        """Check that `on` holds dispatch keys and comes with `fixer`; raises PackError."""
        line = self.line("", 0, "on")
        if bool(on) != has_fixer:
            raise self.fail(line, "`on` and `fixer` belong together", "`on` lists what the fixer is called for")
        for key in on:
            if not (key.startswith(("torch.", ".", "accel.")) or key in NODE_KINDS | STRING_KINDS):
                raise self.fail(
                    line,
                    f"`on` has {key!r}",
                    "use `torch.x`, `torch.x.*`, `.method`, `accel.x`, `string:...` or a node kind",
                )

    def rewrite(self, table: dict[str, Any], index: int, safety: Safety, data: Mapping[str, Any]) -> Rewrite:
        """Return one `[[rewrite]]` table, with the rule's `safety` and `data` as defaults; raises PackError."""
        line = self.line("rewrite", index)
        self.check_keys(table, "rewrite", line)
        match, template, where = table.get("match"), table.get("with"), table.get("where", {})
        if not isinstance(match, str):
            raise self.fail(line, "`match` is missing", 'write match = "torch.cuda.f($$args)"')
        try:
            key = pattern_key(match)
        except ValueError as error:
            raise self.fail(
                self.line("rewrite", index, "match"),
                str(error),
                "write one expression: `torch.cuda.f($x)`, `$x.cuda()`",
            ) from None
        captures = set(re.findall(CAPTURE, match))
        for text in filter(None, (template, table.get("native"))):
            unbound = sorted(set(re.findall(CAPTURE, text)) - captures)
            if unbound:
                at = self.line("rewrite", index, "with")
                raise self.fail(at, f"`with` uses ${unbound[0]}, which `match` does not bind", f"bind it in `{match}`")
        for name, kind in where.items():
            if name not in captures or kind not in WHERE:
                bound = f"`match` binds {', '.join(f'${capture}' for capture in sorted(captures)) or 'nothing'}"
                hint = f"{bound}; a kind is one of {', '.join(sorted(WHERE))}"
                raise self.fail(self.line("rewrite", index, "where"), f"`where` has {name} = {kind!r}", hint)
        own = self.safety(table["safety"], line) if "safety" in table else safety
        message = table.get("message", data.get("message", data["summary"]))
        backends = tuple(table.get("backends", data.get("backends", ())))
        return Rewrite(match, template, where, own, message, table.get("native"), table.get("torch"), backends, key)

    def case(self, table: dict[str, Any], index: int, of_text: bool = False) -> Case:
        """Return one `[[case]]` table (`of_text`: about files that are not Python); raises PackError."""
        line = self.line("case", index)
        self.check_keys(table, "case", line)
        if of_text is not isinstance(table.get("file"), str):
            way_out = 'say what the file is called: file = "requirements.txt"' if of_text else "it is for [[pattern]]s"
            raise self.fail(line, f"a case {'needs' if of_text else 'of a rule for Python has no'} `file`", way_out)
        if not isinstance(table.get("title"), str) or not isinstance(table.get("before"), str):
            raise self.fail(line, "a case needs `title` and `before`", "`after` is left out where nothing may change")
        flags = bool(table.get("todo", False)), bool(table.get("unsafe", False)), table.get("finding")
        together = bool(table.get("together", False))
        more = together, table.get("file", ""), table.get("native")
        return Case(table["title"], table["before"], table.get("after"), *flags, self.number(*line), *more)


# the tables whose names a rule takes with `literals-from`
LITERALS: Mapping[str, Collection[str]] = {"cuda-only libraries": CUDA_ONLY, "libraries of kernels": KERNEL_ROOTS}
_BACKENDS = strings(member(BACKENDS, "backend"))
_END = {"type": "string", "pattern": r"^(?!\.?/)(?!.*\.\.)(?!.*/$).+$"}  # a glob for the end of a path
_GLOBS = elsewhere({"type": "array", "minItems": 1, "items": _END})
_REGEX = elsewhere({"type": "string", "minLength": 1})
_SAFETY = elsewhere({"enum": [level.value for level in Safety]})
_NEEDED = elsewhere({"type": "string"})
_LITERAL = matching(r"[\s\S]*\w[\s\S]*", "hold a letter, a digit or an underscore")
_LINK = matching(r"https?://[^\s\x00-\x1f]+", "be a link that begins with https:// or http://")
_RELEASES = table_of(matching(r"\d+\.\d+", 'be a release of torch such as "2.14"'))

KEYS: Mapping[str, Mapping[str, Kind]] = {
    "rule": {
        "summary": _NEEDED, "safety": _SAFETY, "backends": _BACKENDS, "why": _NEEDED, "see": strings(_LINK),
        "message": STRING, "blocks": BOOLEAN, "raises": BOOLEAN, "guards": one_of("test", "choice"), "fixer": STRING,
        "since": _RELEASES, "on": strings(), "literals": strings(_LITERAL), "literals-from": one_of(*LITERALS),
        "rewrite": TABLES, "case": TABLES, "files": _GLOBS, "where": TABLES, "pattern": TABLES,
    },
    "rewrite": {
        "match": _NEEDED, "with": STRING, "native": STRING, "torch": SPEC, "where": TABLE, "safety": _SAFETY,
        "message": STRING, "backends": _BACKENDS,
    },
    "case": {
        "title": _NEEDED, "before": _NEEDED, "after": STRING, "todo": BOOLEAN, "unsafe": BOOLEAN, "finding": BOOLEAN,
        "together": BOOLEAN, "file": _NEEDED, "native": STRING,
    },
    "where": {
        "files": _GLOBS, "but": _GLOBS, "beside": _GLOBS, "line": _REGEX, "under": _REGEX, "unless": _REGEX,
    },
    "pack": {"title": STRING, "commit": STRING, "order": INTEGER},
    "pattern": {
        "match": _REGEX, "message": STRING, "files": _GLOBS, "unless": _REGEX, "alternative": _REGEX,
        "siblings": BOOLEAN,
    },
}  # fmt: skip


_FOR_PYTHON = ("fixer", "on", "since", "rewrite", "blocks", "raises", "guards")
# a group that contains an unbounded repetition and is itself repeated without bound: `(a+)+`
_NESTED = re.compile(r"\((?:\\.|[^()\\])*[*+](?:\\.|[^()\\])*\)(?:[*+]|\{\d*,\})")
_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")


def read_text_tables(reader: Reader, data: Mapping[str, Any]) -> tuple[tuple[Where, ...], tuple[TextPattern, ...]]:
    """Read the `[[where]]` and `[[pattern]]` tables, which rules about Python lack; raises PackError."""
    tables = data.get("pattern", ())
    if not tables:
        if key := next((k for k in ("files", "where") if k in data), None):
            raise reader.fail(
                _place_of_key(reader, key), f"`{key}` without a [[pattern]]", "it says where patterns apply: add one"
            )
        return (), ()
    if key := next((k for k in _FOR_PYTHON if k in data), None):
        raise reader.fail(
            _place_of_key(reader, key), f"`{key}` beside a [[pattern]]", "one rule is about Python or about text"
        )
    if data["safety"] != Safety.DISPLAY.value:
        raise reader.fail(
            _place_of_key(reader, "safety"), "a rule with a [[pattern]] rewrites nothing", 'write safety = "display"'
        )
    patterns = tuple(_read_pattern(reader, t, i, data) for i, t in enumerate(tables))
    return tuple(_read_wheres(reader, data)), patterns


def _place_of_key(reader: Reader, key: str) -> Place:
    return reader.line(key) if key in ("where", "rewrite") else reader.line("", 0, key)


def _read_wheres(reader: Reader, data: Mapping[str, Any]) -> Iterator[Where]:
    if "files" in data:
        yield Where(_check_globs(reader, data["files"], reader.line("", 0, "files")))
    elif "where" not in data:
        raise reader.fail(reader.line("pattern"), "a [[pattern]] without files", 'write files = ["requirements*.txt"]')
    for index, table in enumerate(data.get("where", ())):
        line = reader.line("where", index)
        reader.check_keys(table, "where", line)
        given = {"files": table.get("files"), **{key: table[key] for key in ("but", "beside") if key in table}}
        files = {key: _check_globs(reader, value, reader.line("where", index, key)) for key, value in given.items()}
        keys = ("line", "under", "unless")
        tests = {key: _check_regex(reader, table.get(key), reader.line("where", index, key)) for key in keys}
        yield Where(**files, **tests)  # type: ignore[arg-type]


def _check_globs(reader: Reader, value: Any, line: Place) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(glob, str) and glob for glob in value):
        raise reader.fail(line, "this is no list of globs", 'write files = ["requirements*.txt", "Dockerfile*"]')
    if glob := next((g for g in value if g.startswith(("/", "./")) or g.endswith("/") or ".." in g), None):
        raise reader.fail(line, f"{glob!r} is no such glob", "a glob is matched with the end of a path: `docker/*.sh`")
    try:
        return tuple(map(globs.check, value))
    except ValueError as error:
        raise reader.fail(line, f"`files` {error}", "a glob is matched with the end of a path") from None


def _read_pattern(reader: Reader, table: Mapping[str, Any], index: int, data: Mapping[str, Any]) -> TextPattern:
    line = reader.line("pattern", index)
    reader.check_keys(table, "pattern", line)
    tests = {
        key: _check_regex(reader, table.get(key), reader.line("pattern", index, key))
        for key in ("match", "unless", "alternative")
    }
    files = _check_globs(reader, table["files"], reader.line("pattern", index, "files")) if "files" in table else ()
    if tests["match"] is None and not files and "files" not in data:
        raise reader.fail(line, "`match` is missing", "without it the pattern needs `files`: it finds them by name")
    message = table.get("message", data.get("message", data["summary"]))
    if reader.thorough:
        _check_message(reader, message, tests["match"], reader.line("pattern", index, "message"))
    siblings = bool(table.get("siblings", False))
    return TextPattern(tests["match"], message, files, tests["unless"], tests["alternative"], siblings)


def _check_regex(reader: Reader, text: Any, line: Place) -> str | None:
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


def _check_message(reader: Reader, message: Any, match: str | None, line: Place) -> None:
    groups: Sequence[str] = [*re.compile(match).groupindex] if match else []
    known = {"match", *groups, *(["instead"] if {"library", "variable"} & set(groups) else [])}
    try:
        parts = [part for part in string.Formatter().parse(message) if part[1] is not None]
        if any(spec or conversion for _, _, spec, conversion in parts):  # such as {match:>1000000000}
            raise ValueError("a name alone stands in braces")
        used = {str(name) for _, name, _, _ in parts}
    except (TypeError, ValueError) as error:
        raise reader.fail(line, f"`message` cannot be filled in: {error}", "write {{ and }} for braces") from None
    if unknown := sorted(used - known):
        hint = f"known: {', '.join(sorted(known))}; `instead` goes with a group `library` or `variable`"
        raise reader.fail(line, f"`message` has {{{unknown[0]}}}", hint)
