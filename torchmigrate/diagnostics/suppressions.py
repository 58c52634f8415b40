"""`# torchmigrate: ignore[rule] reason` and `# torchmigrate: skip-file`: what they cover, and which are of no use."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from torchmigrate.base.text import did_you_mean
from torchmigrate.source.encoding import Source

if TYPE_CHECKING:
    from torchmigrate.source.text_file import TextFile


MARK = b"torchmigrate:"
_DIRECTIVE = re.compile(r"(?:#|//|;)\s*torchmigrate:\s*(?P<word>[\w-]*)\s*(?:\[(?P<names>[^\]]*)\])?")
_PLACED = (ast.stmt, ast.expr, ast.ExceptHandler, ast.pattern)
Span = tuple[int, int]  # first and last line


@dataclass(slots=True)
class Ignore:
    """One name of one comment. `covers` are the lines it speaks for."""

    line: int
    name: str
    covers: Span
    used: bool = False


@dataclass
class Suppressions:
    """The comments of one module. `status` remembers what was of use."""

    skip_file: bool = False
    ignores: list[Ignore] = field(default_factory=list)
    malformed: list[tuple[int, str, str]] = field(default_factory=list)

    def status(self, rule_id: str, line: int) -> bool:
        """Is a finding of this rule on this line suppressed?"""
        names = {rule_id, rule_id.partition("/")[0]}  # the rule's own name, or its pack's
        found = [i for name in names for i in self._by_line.get(line, {}).get(name, ())]
        for ignore in found:
            ignore.used = True
        return bool(found)

    @cached_property
    def _by_line(self) -> dict[int, dict[str, list[Ignore]]]:
        """By line and name; lines of one statement share what is said of it."""
        said: dict[Span, dict[str, list[Ignore]]] = {}
        for ignore in self.ignores:
            said.setdefault(ignore.covers, {}).setdefault(ignore.name, []).append(ignore)
        found: dict[int, dict[str, list[Ignore]]] = {}
        for (first, last), names in said.items():
            for line in range(first, last + 1):
                known = found.setdefault(line, names)
                if known is not names:  # two statements on a line
                    found[line] = {n: [*known.get(n, ()), *names.get(n, ())] for n in {*known, *names}}
        return found

    def unused(
        self, known: Collection[str] | None = None, active: Collection[str] | None = None
    ) -> list[tuple[int, str, str]]:
        """(line, name, why) of comments that are no use. With `known`, names that are no rule are told from idle ones;
        with `active`, rules that this run does not look at are not blamed."""
        found = list(self.malformed)
        for ignore in self.ignores:
            if known is not None and ignore.name not in known:
                hint = did_you_mean(ignore.name, known)
                found.append((ignore.line, ignore.name, "no such rule or pack" + (f"; {hint}" if hint else "")))
            elif not ignore.used and (active is None or ignore.name in active):
                found.append((ignore.line, ignore.name, "suppresses nothing here"))
        return sorted(found)


class Lines:
    """The lines of statements, to be asked of which a comment speaks."""

    def __init__(self, spans: Sequence[Span]) -> None:
        # a one-line `if x: y` and its body start on one line: the longer counts
        self._last: dict[int, int] = {}
        for first, last in spans:
            self._last[first] = max(last, self._last.get(first, last))
        self._firsts = sorted(self._last)
        self._reach = list(accumulate((self._last[first] for first in self._firsts), max))

    def hold(self, line: int) -> bool:
        at = bisect_right(self._firsts, line)
        return at > 0 and self._reach[at - 1] >= line

    def covered(self, line: int, inside: bool) -> Span:
        """The innermost statement that the comment is part of; for a comment between statements, the next one."""
        at = bisect_right(self._firsts, line)
        first = self._firsts[at] if at < len(self._firsts) and not inside else line
        while inside and at > 0 and self._reach[at - 1] >= line:
            at -= 1
            if self._last[self._firsts[at]] >= line:
                first = self._firsts[at]
                break
        return first, self._last.get(first, line)


_NAMELESS = "say which rule: `# torchmigrate: ignore[device/tensor-cuda] reason`"


def find(source: Source, tree: ast.AST | None = None) -> Suppressions:
    """The comments of a module. A file without the mark costs one `in`."""
    found = Suppressions()
    if MARK not in source.utf8:
        return found
    spans = cache(lambda: Lines(_spans(tree or ast.parse(source.text))))
    for line, inside, text in _comments(source):
        _note(found, line, inside, text, spans)
    return found


def place(source: Source, line: int) -> int:
    """Above which line a comment covers what stands on this one. Raises SyntaxError."""
    return Lines(_spans(ast.parse(source.utf8))).covered(line, True)[0]


def find_in_text(file: TextFile) -> Suppressions:
    """The same of a file that is not Python: a line with its continuations is its statement."""
    found = Suppressions()
    if MARK.decode() not in file.text:
        return found
    spans = Lines(file.spans)
    for offset, text in file.comments:
        line = file.position(offset)[0]
        _note(found, line, spans.hold(line), text, lambda: spans)
    return found


def _note(found: Suppressions, line: int, inside: bool, text: str, spans: Callable[[], Lines]) -> None:
    """Add what one comment says."""
    match = _DIRECTIVE.match(text)
    if match is None:
        return
    names = [name.strip() for name in (match["names"] or "").split(",") if name.strip()]
    if match["word"] == "skip-file":
        found.skip_file = True
    elif match["word"] != "ignore":
        found.malformed.append((line, match["word"], "not understood: write `ignore[rule]` or `skip-file`"))
    elif not names:
        found.malformed.append((line, "", _NAMELESS))
    else:
        covers = spans().covered(line, inside)
        found.ignores += [Ignore(line, name, covers) for name in dict.fromkeys(names)]


def _comments(source: Source) -> Iterator[tuple[int, bool, str]]:
    """(line, within a statement, text) of each comment; a string that holds one is none."""
    import io
    import tokenize  # here: most files have no such comment

    # `ast` takes \r and \r\n for line ends, and so must this
    text = source.text.replace("\r\n", "\n").replace("\r", "\n")
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
            elif token.type == tokenize.COMMENT:
                trailing = bool(token.line[: token.start[1]].strip())
                yield token.start[0], trailing or depth > 0, token.string
    except (tokenize.TokenError, SyntaxError):
        return  # a file that does not parse is reported elsewhere


def _spans(tree: ast.AST) -> list[Span]:
    """The lines of each logical statement: its header only, where it holds others."""
    nodes = (n for n in ast.walk(tree) if isinstance(n, (ast.stmt, ast.ExceptHandler, ast.match_case)))
    return [(_first(node), _last(node)) for node in nodes]


def _first(node: ast.AST) -> int:
    """A `case` has no line of its own, a decorated definition begins at its decorators."""
    own = node.pattern if isinstance(node, ast.match_case) else node
    return min(n.lineno for n in (own, *getattr(node, "decorator_list", ())) if isinstance(n, _PLACED))


def _last(node: ast.AST) -> int:
    inner = getattr(node, "cases", None) or getattr(node, "body", None)
    if inner:
        return max(_first(node), _first(inner[0]) - 1)
    return getattr(node, "end_lineno", None) or _first(node)
