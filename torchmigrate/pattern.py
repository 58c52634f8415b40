"""Patterns such as `$x.cuda($$args)`: match a LibCST expression, then turn a template into span edits.

`$x` is one expression, `$$args` the rest of an argument list with its white space, comments and trailing comma. The
edits touch only what lies between captures, so what a capture holds is never retyped and nested rewrites compose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from torchmigrate.edits import Edit

ONE, MANY = "__one_", "__many_"
_CAPTURE = re.compile(r"\$\$?(\w+)")
Resolve = Callable[[str], "str | None"]
Span = tuple[int, int]


class PatternError(ValueError):
    """A pattern or template that cannot be parsed, or a template with a capture that its pattern does not bind."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled `match`. `captures` are the names it binds."""

    text: str
    node: cst.BaseExpression
    captures: frozenset[str]


@dataclass(frozen=True, slots=True)
class Match:
    """Captured spans (absolute byte offsets) and their texts; `span` is the whole match."""

    span: Span
    spans: Mapping[str, Span]
    texts: Mapping[str, str]
    nodes: Mapping[str, cst.CSTNode]


@lru_cache(maxsize=None)
def compile_pattern(text: str) -> Pattern:
    """Raises PatternError where `text` is no expression."""
    source = _CAPTURE.sub(lambda m: (f"*{MANY}" if m.group().startswith("$$") else ONE) + m.group(1), text)
    try:
        node = cst.parse_expression(source)
    except cst.ParserSyntaxError as error:
        raise PatternError(f"`{text}` is not an expression: {error.message}") from None
    return Pattern(text, node, frozenset(_CAPTURE.findall(text)))


def check_template(pattern: Pattern, template: str) -> None:
    """Raises PatternError where the template has a capture that the pattern does not bind."""
    unbound = sorted(set(_CAPTURE.findall(template)) - pattern.captures)
    if unbound:
        raise PatternError(f"`{template}` uses ${unbound[0]}, which `{pattern.text}` does not bind")
    compile_pattern(template)


class Island:
    """One expression of a file, parsed by LibCST, with byte spans in the file. None where it does not round-trip."""

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        self.buffer, self.start, self.end = buffer, start, end
        text = buffer[start:end].decode()
        wrapper = MetadataWrapper(cst.parse_module(f"({text}\n)"), unsafe_skip_copy=True)
        self._spans = wrapper.resolve(ByteSpanPositionProvider)
        if wrapper.module.code != f"({text}\n)":
            raise PatternError("LibCST prints this expression differently")
        line = wrapper.module.body[0]
        assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr)
        self.root = line.body[0].value

    def span(self, node: cst.CSTNode) -> Span:
        """The node's bytes in the file, with the parentheses it owns (those that we added apart)."""
        start, end = self.inner(node)
        lpar, rpar = getattr(node, "lpar", ()), getattr(node, "rpar", ())
        skip = 1 if node is self.root else 0
        if len(lpar) > skip:
            start = self.inner(lpar[skip])[0]
        if len(rpar) > skip:
            end = self.inner(rpar[-1 - skip])[1]
        return start, end

    def inner(self, node: cst.CSTNode) -> Span:
        """The node's bytes in the file, without parentheses around it."""
        found = self._spans[node]
        start = self.start + found.start - 1  # our own parenthesis stands before
        return start, start + found.length

    def text(self, span: Span) -> str:
        return self.buffer[slice(*span)].decode()

    def expressions(self) -> Iterator[cst.BaseExpression]:
        """All expressions of the island, outermost first."""
        stack: list[cst.CSTNode] = [self.root]
        while stack:
            node = stack.pop()
            if isinstance(node, cst.BaseExpression):
                yield node
            stack += reversed(node.children)

    def match(self, pattern: Pattern, node: cst.BaseExpression, resolve: Resolve) -> Match | None:
        found: dict[str, Any] = {}
        if not _Matcher(resolve, found).node(pattern.node, node):
            return None
        spans = {name: self._capture_span(value) for name, value in found.items()}
        texts = {name: self.text(span) for name, span in spans.items()}
        nodes = {name: value for name, value in found.items() if isinstance(value, cst.CSTNode)}
        return Match(self.inner(node), spans, texts, nodes)

    def _capture_span(self, value: cst.CSTNode | _Rest) -> Span:
        if isinstance(value, cst.CSTNode):
            return self.span(value)
        end = self.inner(value.call)[1] - 1
        if value.args:
            return self.span(value.args[0])[0], end
        return end, end


@dataclass(frozen=True, slots=True)
class _Rest:
    """What `$$args` stands for: the last arguments of a call."""

    call: cst.Call
    args: tuple[cst.Arg, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rest) and self.args == other.args


@dataclass(slots=True)
class _Matcher:
    resolve: Resolve
    found: dict[str, Any]

    def node(self, pattern: cst.CSTNode, node: cst.CSTNode) -> bool:
        if isinstance(pattern, cst.Name) and pattern.value.startswith(ONE):
            return self.bind(pattern.value[len(ONE) :], node)
        chain = dotted(pattern)
        if chain and chain.startswith("torch."):
            actual = dotted(node)
            return actual is not None and self.resolve(actual) == chain
        if isinstance(pattern, cst.Call) and isinstance(node, cst.Call):
            return self.node(pattern.func, node.func) and self.arguments(pattern, node)
        if isinstance(pattern, cst.SimpleString):
            return isinstance(node, cst.SimpleString) and pattern.evaluated_value == node.evaluated_value
        return type(pattern) is type(node) and all(
            self.field(getattr(pattern, f.name), getattr(node, f.name)) for f in fields(pattern) if f.name not in _TRIVIA
        )

    def field(self, pattern: Any, node: Any) -> bool:
        if isinstance(pattern, cst.CSTNode):
            return isinstance(node, cst.CSTNode) and (isinstance(pattern, _SPACE) or self.node(pattern, node))
        if isinstance(pattern, (list, tuple)):
            return len(pattern) == len(node) and all(map(self.field, pattern, node))
        return isinstance(pattern, cst.MaybeSentinel) or pattern == node

    def bind(self, name: str, node: cst.CSTNode) -> bool:
        known = self.found.setdefault(name, node)
        return known is node or _bare(known) == _bare(node)

    def arguments(self, pattern: cst.Call, node: cst.Call) -> bool:
        left = list(node.args)
        rest: str | None = None
        for want in pattern.args:
            if want.star and isinstance(want.value, cst.Name) and want.value.value.startswith(MANY):
                rest = want.value.value[len(MANY) :]
            elif not self.argument(want, left):
                return False
        if rest is None:
            return not left
        if left and list(node.args[-len(left) :]) != left:
            return False  # what remains is not one run at the end: its text cannot be carried in one piece
        self.found[rest] = _Rest(node, tuple(left))
        return True

    def argument(self, want: cst.Arg, left: list[cst.Arg]) -> bool:
        if any(a.star for a in left[:1]) or (want.keyword and any(a.star for a in left)):
            return False
        keyword = want.keyword.value if want.keyword else None
        for arg in left:
            if (arg.keyword.value if arg.keyword else None) == keyword:
                left.remove(arg)
                return self.node(want.value, arg.value)
            if keyword is None:
                break
        return False


_TRIVIA = {"lpar", "rpar", "comma", "semicolon", "leading_lines", "star"}
_SPACE = (cst.BaseParenthesizableWhitespace, cst.Comma, cst.Dot, cst.AssignEqual, cst.Colon)


def _bare(node: cst.CSTNode) -> str:
    return re.sub(r"\s+", "", cst.Module([]).code_for_node(node))


def dotted(node: cst.CSTNode) -> str | None:
    parts: list[str] = []
    while True:
        if isinstance(node, cst.Attribute):
            parts.append(node.attr.value)
            node = node.value
        elif isinstance(node, cst.Call) and (name := _getattr_name(node)):
            parts.append(name)
            node = node.args[0].value
        else:
            break
    if not isinstance(node, cst.Name):
        return None
    return ".".join([node.value, *reversed(parts)])


def _getattr_name(node: cst.Call) -> str | None:
    plain = isinstance(node.func, cst.Name) and node.func.value == "getattr" and len(node.args) == 2
    literal = node.args[1].value if plain else None
    return str(literal.evaluated_value) if isinstance(literal, cst.SimpleString) else None


def admits(match: Match, where: Mapping[str, str]) -> bool:
    """Whether each restricted capture is what `where` wants it to be."""
    return all(name in match.nodes and _KINDS[kind](match.nodes[name]) for name, kind in where.items())


_KINDS: Mapping[str, Callable[[cst.CSTNode], bool]] = {
    "literal": lambda n: isinstance(n, (cst.BaseNumber, cst.BaseString)) or _is_name(n, "True", "False", "None"),
    "integer": lambda n: isinstance(n, cst.Integer),
    "string": lambda n: isinstance(n, cst.SimpleString),
    "true": lambda n: _is_name(n, "True"),
}


def _is_name(node: cst.CSTNode, *names: str) -> bool:
    return isinstance(node, cst.Name) and node.value in names


def instantiate(match: Match, template: str, island: Island) -> list[Edit]:
    """The edits that turn the matched text into `template`, one for each gap between captures that changes.

    Raises PatternError where a comment would be lost.
    """
    pieces = _pieces(template, match)
    order = [name for name, is_capture in pieces if is_capture]
    spans = [match.spans[name] for name in order]
    if len(set(order)) < len(order) or spans != sorted(spans):
        text = "".join(match.texts[p] if is_capture else p for p, is_capture in pieces)
        _refuse_comments(island, match, set(order))
        return [Edit(*match.span, text)]
    bounds = [match.span[0], *(x for span in spans for x in span), match.span[1]]
    literals = _literals(pieces)
    gaps = zip(bounds[0::2], bounds[1::2], literals, strict=True)
    return [e for start, end, new in gaps if (e := _gap_edit(island, start, end, new))]


def _refuse_comments(island: Island, match: Match, kept: set[str]) -> None:
    """Where captures change places everything between them is retyped."""
    position = match.span[0]
    for start, end in (*sorted(match.spans[name] for name in kept), (match.span[1], match.span[1])):
        if "#" in island.text((position, start)):
            raise PatternError("a comment stands in the way")
        position = end


def _pieces(template: str, match: Match) -> list[tuple[str, bool]]:
    out: list[tuple[str, bool]] = []
    position = 0
    for m in _CAPTURE.finditer(template):
        literal = template[position : m.start()]
        if m.group().startswith("$$") and not match.texts[m.group(1)].strip():
            literal = literal.removesuffix(", ")
        out += [(literal, False), (m.group(1), True)]
        position = m.end()
    return [*out, (template[position:], False)]


def _literals(pieces: list[tuple[str, bool]]) -> list[str]:
    return [text for text, is_capture in pieces if not is_capture]


def _gap_edit(island: Island, start: int, end: int, new: str) -> Edit | None:
    """Replace a gap but for the white space at its ends and what old and new have in common there."""
    old = island.text((start, end))
    if _squeezed(old) == _squeezed(new):
        return None
    if "#" in old:
        raise PatternError("a comment stands in the way")
    core, want = old, new
    if core.strip() and want.strip():
        lead = len(core) - len(core.lstrip(" \t\r\n\\"))
        if want[:1] in ").," and core[lead] != want[0] and "\n" not in core[:lead]:
            lead = 0  # `x == "cuda"` to `f(x)`: the space goes with the operator
        if want[:1] not in " \t":
            start += lead
            core = core[lead:]
        tail = len(core) - len(core.rstrip())
        if want.endswith("(") and not core.rstrip().endswith("(") and "\n" not in core[len(core) - tail :]:
            tail = 0  # the space after a comma that goes
        if tail and want == want.rstrip():
            end -= tail
            core = core[:-tail]
    if core == want:
        return None
    return Edit(start, end, want)


def _squeezed(gap: str) -> str:
    """A gap without white space and comments: what would not change keeps its layout."""
    return re.sub(r"#[^\n]*|[\s\\]+", "", gap)
