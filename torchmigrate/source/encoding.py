"""Decode and encode Python files (encoding, byte order mark, line ends), and explain syntax errors."""

from __future__ import annotations

import ast
import bisect
import codecs
import io
import re
import sys
import tokenize
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from torchmigrate.base.system import syntax_tree

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # written by PowerShell's `>`; never Python source
_NEWLINE = re.compile(rb"\r\n|\r|\n")


class UnreadableSource(ValueError):
    """The bytes are not Python source: unknown or wrong encoding, or NUL bytes."""


@dataclass(frozen=True)
class Source:
    """The text of one Python file; `utf8` has no byte order mark and keeps the file's line ends.

    `hidden` is the runtime helper that the file holds as a class, and before it the text in its place in `utf8`.
    """

    utf8: bytes
    encoding: str = "utf-8"
    bom: bytes = b""
    hidden: tuple[bytes, bytes] = (b"", b"")

    @cached_property
    def text(self) -> str:
        return self.utf8.decode()

    @property
    def shown(self) -> bytes:
        """Return the text with the helper that it holds."""
        return self.restored(self.utf8)

    def restored(self, utf8: bytes) -> bytes:
        """Return an edited text with the helper that the file holds; raises UnreadableSource if that was edited."""
        placeholder, helper = self.hidden
        if placeholder and utf8.count(placeholder) != 1:
            raise UnreadableSource("an edit reaches into the helper that the file holds")
        return utf8.replace(placeholder, helper, 1) if placeholder else utf8

    @cached_property
    def line_starts(self) -> list[int]:
        """Return the byte offset at which each line begins.

        Lines end where `ast` ends them: at \\n, \\r\\n and \\r only.
        """
        if b"\r" in self.utf8:
            return [0, *(m.end() for m in _NEWLINE.finditer(self.utf8))]
        return [0, *accumulate(len(line) + 1 for line in self.utf8.split(b"\n")[:-1])]

    @cached_property
    def newline(self) -> str:
        """Return the first line end of the file, or "\\n" if it has none."""
        first = _NEWLINE.search(self.utf8)
        return first.group().decode() if first else "\n"

    def offset(self, line: int, column: int) -> int:
        """Return the byte offset of a position of `ast`: 1-based line, 0-based column in UTF-8 bytes."""
        return self.line_starts[line - 1] + column

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line, and the 1-based column in characters, of a byte offset."""
        line = bisect.bisect_right(self.line_starts, offset)
        return line, len(self.utf8[self.line_starts[line - 1] : offset].decode(errors="replace")) + 1

    def line_at(self, offset: int) -> bytes:
        """Return the line that contains a byte offset, without its line end."""
        line = bisect.bisect_right(self.line_starts, offset)
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.utf8)
        return self.utf8[self.line_starts[line - 1] : end].rstrip(b"\r\n")

    def encode(self, utf8: bytes) -> bytes:
        """Return the file's bytes for an edited text; raises UnreadableSource for an unencodable character."""
        utf8 = self.restored(utf8)
        try:
            return self.bom + (utf8 if self.encoding == "utf-8" else utf8.decode().encode(self.encoding))
        except UnicodeEncodeError as error:
            raise UnreadableSource(f"{self.encoding} has no {error.object[error.start]!r}") from None


def decode(raw: bytes) -> Source:
    """Decode the bytes of a Python file; raises UnreadableSource, which says what is wrong and where."""
    if b"\0" in raw:
        raise UnreadableSource(f"NUL byte at offset {raw.index(0)}: not Python source")
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        body = raw[len(bom) :]
        if encoding in ("utf-8", "utf-8-sig"):
            body.decode("utf-8")
            return _with_helper_hidden(Source(body, "utf-8", bom))
        source = _with_helper_hidden(Source(body.decode(encoding).encode(), encoding, bom))
    except SyntaxError as error:
        undeclared = str(error.msg).startswith("invalid or missing encoding")  # in the first two lines
        what = "not UTF-8, and declares no encoding; declare it or save as UTF-8"
        raise UnreadableSource(what if undeclared else str(error.msg)) from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UnreadableSource(
            f"line {line}: byte {raw[error.start]:#04x} is not {error.encoding}; declare the encoding or save as UTF-8"
        ) from None
    except (LookupError, UnicodeError) as error:  # `coding: rot13`, which encodes no text; UTF-7 cut off in a character
        raise UnreadableSource(f"cannot be decoded: {error}") from None
    if source.encode(source.utf8) != raw:
        raise UnreadableSource(f"its encoding, {encoding}, does not give the same bytes back; save as UTF-8")
    return source


HELPER_MARK = b"# torchmigrate-runtime"  # begins a vendored helper, and the class that a file holds in its place


def holds_class(raw: bytes) -> bool:
    """Return whether a file holds the helper as a class, and is not a copy of it."""
    return HELPER_MARK in raw and not raw.startswith(HELPER_MARK)


def helper_class(utf8: bytes) -> tuple[str, int, int] | None:
    """Return the name and the span of the class that holds the runtime helper in a file, or None."""
    if not holds_class(utf8):
        return None
    try:
        body = syntax_tree(utf8).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    source = Source(utf8)
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.decorator_list:
            start, end = source.offset(node.lineno, 0), source.offset(node.end_lineno or 0, node.end_col_offset or 0)
            if HELPER_MARK in utf8[start:end]:
                return node.name, start, end
    return None


def helper_hidden(utf8: bytes) -> tuple[bytes, tuple[int, int] | None]:
    """Return a file with an import of equal length where it holds the helper as a class, and the span of that."""
    found = helper_class(utf8)
    if found is None:
        return utf8, None
    name, start, end = found
    lines = [re.sub(rb"[^\r\n]", b"#", line) for line in utf8[start:end].splitlines(keepends=True)]
    statement = f"import {name}".encode()  # as long as `class name:`
    at = len(lines) - 1 if len(lines[-1]) >= len(statement) else 0  # last, so that nothing is added between
    ends = lines[at][len(lines[at].rstrip(b"\r\n")) :]
    lines[at] = statement.ljust(len(lines[at]) - len(ends)) + ends
    return utf8[:start] + b"".join(lines) + utf8[end:], (start, end)


def _with_helper_hidden(source: Source) -> Source:
    utf8, span = helper_hidden(source.utf8)
    if span is None:
        return source
    return replace(source, utf8=utf8, hidden=(utf8[slice(*span)], source.utf8[slice(*span)]))


def occurs_in_code(raw: bytes, word: bytes) -> bool:
    """Return whether a word occurs in a file before any `#` of its line: not in its comments alone."""
    at = raw.find(word)
    while at >= 0:
        if b"#" not in raw[raw.rfind(b"\n", 0, at) + 1 : at]:
            return True
        end = raw.find(b"\n", at)
        at = raw.find(word, end) if end >= 0 else -1
    return False


def comments(code: str) -> list[str]:
    """Return the comments in a piece of code, which may be incomplete."""
    found: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            found += [token.string.rstrip()] if token.type == tokenize.COMMENT else []
    except (tokenize.TokenError, SyntaxError):
        pass  # the piece ends within a statement
    return found


# new syntax: the release that introduced it, how such a line looks, how an older parser's message begins
# (patterns as texts: a clean file compiles none of them)
_NEW_SYNTAX = (
    ((3, 14), r"(?i)(?<![\w.'\"])(?:t|tr|rt)['\"]", ""),
    ((3, 12), r"^\s*(?:(?:async\s+)?def|class)\s+\w+\s*\[|^\s*type\s+\w+\s*(?:\[.*\]\s*)?=", ""),
    ((3, 12), r"(?i)\bf(['\"])[^'\"{}]*\{[^{}]*\1[^{}]*\1[^{}]*\}", "f-string"),
    ((3, 12), "", "f-string expression part cannot include"),
)
_PYTHON_2 = (
    r"Missing parentheses in call to '(print|exec)'|leading zeros in decimal integer|parameters cannot be parenthesized"
)
_LINES_OF_2 = r"(?i)\s*raise\s+[\w.]+\s*,|.*<>|.*\b(0x[\da-f]+|\d+)L\b|.*\b(ur|UR)['\"]|.*`\w+`"

PYTHON_2 = "it looks like Python 2"
_ASYNC = "; `async` is a keyword since Python 3.7: write `non_blocking=` to torch, and rename a parameter of your own"
# what a message says of syntax that only old Pythons read, and what is said of the files around it
_OF_OLD_PYTHON = {
    PYTHON_2: "which looks like Python 2: port that to Python 3 first",
    _ASYNC: "which no Python since 3.7 reads, for a parameter `async`: rename that first",
}


def syntax_message(error: SyntaxError) -> str:
    """Explain a syntax error, with a way out if there is one (newer Python, Python 2)."""
    line = error.text or ""
    if (newer := _required_release(line, error.msg)) > sys.version_info[:2]:
        this = ".".join(map(str, sys.version_info[:2]))
        wanted = ".".join(map(str, newer))
        return (
            f"syntax of Python {wanted}, and this is Python {this} ({error.msg}); run torchmigrate with Python {wanted}"
        )
    old = re.search(_PYTHON_2, error.msg) or re.match(_LINES_OF_2, line)
    why = error.msg + (_ASYNC if "async=" in line else "")
    return f"not Python 3 ({why})" + (f"; {PYTHON_2}: port it to Python 3 first" if old else "")


def of_old_python(message: str) -> str:
    """Return what files that run together with a file are told, if only old Pythons read it by this message, or ""."""
    return next((words for sign, words in _OF_OLD_PYTHON.items() if sign in message), "")


_STATEMENT_OF_2 = re.compile(rb"(?m)^[ \t]*(?:print|exec)[ \t]+[^\s(=.,)]")


# what Python 3 has under another name
_MODULES_OF_2 = re.compile(
    rb"(?m)^(?:import|from)[ \t]+"
    rb"(?:__builtin__|cPickle|ConfigParser|cStringIO|HTMLParser|httplib|StringIO|Tkinter|urllib2|urlparse|xmlrpclib)\b"
)


_BUILTINS_OF_2 = frozenset(("basestring", "execfile", "raw_input", "unichr", "xrange"))


def calls_python_2(raw: bytes) -> bool:
    """Return whether a file calls a builtin function that Python 3 lacks, `xrange`, and defines it nowhere."""
    if not any(name.encode() in raw for name in _BUILTINS_OF_2):
        return False
    try:
        nodes = [*ast.walk(syntax_tree(raw))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.asname or n.name for n in nodes if isinstance(n, ast.alias)}
    bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    return bool((_BUILTINS_OF_2 & called) - bound) and "*" not in bound


def is_python_2(raw: bytes) -> bool:
    """Return whether a file does not parse as `print` or `exec` is a statement in it, or always imports `cPickle`."""
    if not _STATEMENT_OF_2.search(raw):
        return _MODULES_OF_2.search(raw) is not None
    try:
        syntax_tree(raw)
    except SyntaxError as error:
        return PYTHON_2 in syntax_message(error)
    except (ValueError, RecursionError, MemoryError):
        return False
    return False


def _required_release(line: str, message: str) -> tuple[int, int]:
    """Return the Python release that first parses such a line, or (0, 0) if the line does not tell."""
    for release, looks, says in _NEW_SYNTAX:
        if message.startswith(says) and re.search(looks, line):
            return release
    return 0, 0
