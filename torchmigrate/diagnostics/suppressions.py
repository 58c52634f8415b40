"""Comments that suppress findings (`ignore[rule]`, `off` to `on`, `skip-file`): what they cover, which are unused."""

from __future__ import annotations

import ast
import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from torchmigrate.base.system import syntax_tree
from torchmigrate.base.text import did_you_mean
from torchmigrate.diagnostics.finding import SUPPRESSES
from torchmigrate.source.encoding import Source, decode
from torchmigrate.source.text_file import TextFile

if TYPE_CHECKING:
    from pathlib import Path

    from torchmigrate.diagnostics.finding import Finding


_DIRECTIVE = re.compile(r"(?:#|//|;)\s*torchmigrate:\s*(?P<word>[\w-]*)\s*(?:\[(?P<names>[^\]]*)\])?")
_PLACED = (ast.stmt, ast.expr, ast.ExceptHandler, ast.pattern)
Span = tuple[int, int]  # first and last line
ANY = ""
_HINTS = 20  # names of one file that get a hint for their spelling, which takes milliseconds each


@dataclass(slots=True)
class Ignore:
    """One name of one `ignore` or `off` comment; `covers` are the lines to which it applies. ANY names all rules."""

    line: int
    name: str
    covers: Span
    used: bool = False
    is_off: bool = False  # the comment is an `off`


@dataclass
class Suppressions:
    """The suppression comments of a file; `malformed` has (line, name, why) of those not understood."""

    skip_file: bool = False
    ignores: list[Ignore] = field(default_factory=list)
    malformed: list[tuple[int, str, str]] = field(default_factory=list)
    pending: dict[str, Ignore] = field(default_factory=dict)  # `off` without an `on` so far: to the end of the file

    def status(self, rule_id: str, line: int) -> bool:
        """Return whether a finding of this rule on this line is suppressed, and mark the comments as used."""
        names = {rule_id, rule_id.partition("/")[0], ANY}  # a comment may name the rule or its pack
        found = [i for name in names for i in self._by_line.get(line, {}).get(name, ())]
        for offs in filter(None, map(self._offs.get, names)):
            at = bisect_right(offs, line, key=lambda ignore: ignore.covers[0])
            found += [ignore for ignore in offs[max(at - 1, 0) : at] if line <= ignore.covers[1]]
        for ignore in found:
            ignore.used = True
        return bool(found)

    @cached_property
    def _by_line(self) -> dict[int, dict[str, list[Ignore]]]:
        """Return the comments by line and name; the lines of one statement share a table."""
        said: dict[Span, dict[str, list[Ignore]]] = {}
        for ignore in (each for each in self.ignores if not each.is_off):
            said.setdefault(ignore.covers, {}).setdefault(ignore.name, []).append(ignore)
        found: dict[int, dict[str, list[Ignore]]] = {}
        for (first, last), names in said.items():
            for line in range(first, last + 1):
                known = found.setdefault(line, names)
                if known is not names:  # the line belongs to two statements
                    found[line] = {n: [*known.get(n, ()), *names.get(n, ())] for n in {*known, *names}}
        return found

    @cached_property
    def _offs(self) -> dict[str, list[Ignore]]:
        """Return what is off, by name; of one name no two cover the same line, and they are in the order of lines."""
        found: dict[str, list[Ignore]] = {}
        for ignore in (each for each in self.ignores if each.is_off and each.covers[0] <= each.covers[1]):
            found.setdefault(ignore.name, []).append(ignore)
        return found

    def unused(
        self, known: Collection[str] | None = None, active: Collection[str] | None = None
    ) -> list[tuple[int, str, str]]:
        """Return (line, name, why) of comments that have no effect.

        With `known`, other names are reported as unknown; with `active`, comments for rules that do not run are not
        reported.
        """
        found = list(self.malformed)
        hints = 0
        for ignore in self.ignores:
            if ignore.name == ANY:  # a run of some rules cannot know
                if not ignore.used and (active is None or (known is not None and set(known) <= set(active))):
                    found.append((ignore.line, "", "`off` suppresses nothing here"))
            elif known is not None and ignore.name not in known:
                hint = did_you_mean(ignore.name, known) if hints < _HINTS else ""
                hints += 1
                found.append((ignore.line, ignore.name, "no such rule or pack" + (f"; {hint}" if hint else "")))
            elif not ignore.used and (active is None or ignore.name in active):
                found.append(
                    (ignore.line, "", f"`off[{ignore.name}]` suppresses nothing here")
                    if ignore.is_off
                    else (ignore.line, ignore.name, "suppresses nothing here")
                )
        return sorted(found)


class Lines:
    """The line spans of statements, to find the statement to which a comment applies."""

    def __init__(self, spans: Sequence[Span]) -> None:
        # the one-line `if x: y` and its body start on the same line: the longer span counts
        self._last_line: dict[int, int] = {}
        for first, last in spans:
            self._last_line[first] = max(last, self._last_line.get(first, last))
        self._firsts = sorted(self._last_line)
        self._reach = list(accumulate((self._last_line[first] for first in self._firsts), max))

    def hold(self, line: int) -> bool:
        """Return whether a statement covers this line."""
        at = bisect_right(self._firsts, line)
        return at > 0 and self._reach[at - 1] >= line

    def covered(self, line: int, inside: bool) -> Span:
        """Return the lines that a comment covers: those of the statement around it (`inside`), else of the next one."""
        at = bisect_right(self._firsts, line)
        first = self._firsts[at] if at < len(self._firsts) and not inside else line
        while inside and at > 0 and self._reach[at - 1] >= line:
            at -= 1
            if self._last_line[self._firsts[at]] >= line:
                first = self._firsts[at]
                break
        return first, self._last_line.get(first, line)


_UNKNOWN = "not understood: write `ignore[rule]`, `off`, `on` or `skip-file`"
_NAMELESS = "say which rule: `# torchmigrate: ignore[device/tensor-cuda] reason`"


def find(source: Source, tree: ast.AST | None = None) -> Suppressions:
    """Return the suppression comments of a Python file, which is parsed only if it has "torchmigrate:"."""
    found = Suppressions()
    if SUPPRESSES not in source.utf8:
        return found
    spans = cache(lambda: Lines(_spans(tree or syntax_tree(source.text))))
    last = source.text.count("\n") + source.text.count("\r") + 1
    for line, inside, text in _comments(source):
        _add_comment(found, line, inside, text, spans, last)
    return found


def place(source: Source, line: int) -> int:
    """Return the line above which a comment that covers this line must be inserted; raises SyntaxError."""
    return Lines(_spans(syntax_tree(source.utf8))).covered(line, True)[0]


def find_in_text(file: TextFile) -> Suppressions:
    """Return the suppression comments of another file, where a line with its continuations is a statement."""
    found = Suppressions()
    if SUPPRESSES.decode() not in file.text:
        return found
    spans, last = Lines(file.spans), file.text.count("\n") + 1
    for offset, text in file.comments:
        line = file.position(offset)[0]
        _add_comment(found, line, spans.hold(line), text, lambda: spans, last)
    return found


def _add_comment(
    found: Suppressions, line: int, inside: bool, text: str, spans: Callable[[], Lines], last: int
) -> None:
    match = _DIRECTIVE.match(text)
    if match is None:
        return
    names = [name.strip() for name in (match["names"] or "").split(",") if name.strip()]
    if match["word"] == "skip-file":
        found.skip_file = True
    elif match["word"] == "off":
        for name in dict.fromkeys(names or [ANY]):
            covers = (line, line - 1) if name in found.pending else (line, last)  # what is off already covers nothing
            found.ignores.append(Ignore(line, name, covers, is_off=True))
            found.pending.setdefault(name, found.ignores[-1])
    elif match["word"] == "on":
        _switch_on(found, line, names)
    elif match["word"] != "ignore":
        found.malformed.append((line, match["word"], _UNKNOWN))
    elif not names:
        found.malformed.append((line, "", _NAMELESS))
    else:
        covers = spans().covered(line, inside)
        found.ignores += [Ignore(line, name, covers) for name in dict.fromkeys(names)]


def _switch_on(found: Suppressions, line: int, names: Sequence[str]) -> None:
    """End what `off` began: all of it, or that of these names."""
    ends = [found.pending.pop(name) for name in (names or [*found.pending]) if name in found.pending]
    if not ends:
        found.malformed.append((line, "", "`on` stands here, and nothing is off"))
    for ignore in ends:
        ignore.covers = (ignore.covers[0], line)


def _comments(source: Source) -> Iterator[tuple[int, bool, str]]:
    """Yield (line, whether it stands inside a statement, text) of each comment; strings are not comments."""
    import io
    import tokenize  # imported here, as most files have no such comment

    # count \r and \r\n as line ends, as `ast` does
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


# how a comment begins; JSON has none, and suppressions in those of cmd are not supported
MARKS = {"cu": "//", "cuh": "//", "json": "", "bat": ""}


def add(path: Path, raw: bytes, findings: Sequence[Finding]) -> tuple[bytes, list[Finding]]:
    """Return a file with a comment above each statement that has findings, and the findings that got none.

    None is possible in JSON, in a notebook, and where the text would no longer parse or mean the same.
    """
    if path.suffix == ".ipynb":
        return raw, list(findings)
    if path.suffix in (".py", ".pyi"):
        source = decode(raw)
        lines = Lines(_spans(syntax_tree(source.utf8)))
        firsts = {f.line: lines.covered(f.line, True)[0] for f in findings}
        after = Source(_with_comments(source, findings, firsts, "#"))
        try:
            syntax_tree(after.utf8)
        except SyntaxError:
            return raw, list(findings)
        return source.encode(after.utf8), list(_uncovered(findings, firsts, find(after)))
    mark = MARKS.get(path.name.rpartition(".")[2], "#")
    bom, text = (codecs.BOM_UTF8, raw[3:]) if raw.startswith(codecs.BOM_UTF8) else (b"", raw)
    try:
        file = TextFile(path.name, text.decode())
    except UnicodeDecodeError:
        return raw, list(findings)
    if not mark:
        return raw, list(findings)
    firsts = {f.line: next((a for a, b in file.spans if a <= f.line <= b), f.line) for f in findings}
    text = _with_comments(Source(text), findings, firsts, mark)
    return bom + text, list(_uncovered(findings, firsts, find_in_text(TextFile(path.name, text.decode()))))


def _with_comments(source: Source, findings: Sequence[Finding], firsts: Mapping[int, int], mark: str) -> bytes:
    """Return the text with one comment above each of the `firsts`, which maps the findings' lines."""
    wanted: dict[int, dict[str, None]] = {}
    for finding in findings:
        wanted.setdefault(firsts[finding.line], {})[finding.rule] = None
    text = source.utf8
    for line in sorted(wanted, reverse=True):
        start = source.line_starts[line - 1]
        below = source.line_at(start)
        indent = below[: len(below) - len(below.lstrip(b" \t"))]
        comment = f"{mark} torchmigrate: ignore[{', '.join(sorted(wanted[line]))}]{source.newline}"
        text = text[:start] + indent + comment.encode() + text[start:]
    return text


def _uncovered(findings: Sequence[Finding], firsts: Mapping[int, int], after: Suppressions) -> Iterator[Finding]:
    """Yield the findings that the comments, each a new line above one of the `firsts`, do not suppress."""
    new = sorted(set(firsts.values()))
    for finding in findings:
        if not after.status(finding.rule, finding.line + bisect_right(new, finding.line)):
            yield finding


def _spans(tree: ast.AST) -> list[Span]:
    """Return the lines of each logical statement: only its header if it contains other statements."""
    nodes = (n for n in ast.walk(tree) if isinstance(n, (ast.stmt, ast.ExceptHandler, ast.match_case)))
    return [(_first_line(node), _last_line(node)) for node in nodes]


def _first_line(node: ast.AST) -> int:
    """Return the line on which a node begins, decorators included; a `case` begins with its pattern."""
    own = node.pattern if isinstance(node, ast.match_case) else node
    return min(n.lineno for n in (own, *getattr(node, "decorator_list", ())) if isinstance(n, _PLACED))


def _last_line(node: ast.AST) -> int:
    inner = getattr(node, "cases", None) or getattr(node, "body", None)
    if inner:
        return max(_first_line(node), _first_line(inner[0]) - 1)
    return getattr(node, "end_lineno", None) or _first_line(node)
