"""Compile patterns such as `$x.cuda($$args)`, match them with LibCST expressions, and turn matches into edits.

`$x` is one expression, `$$args` the rest of an argument list with its white space, comments and trailing comma.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from torchmigrate.source.edits import Edit

ONE, MANY = "__one_", "__many_"


CAPTURE = re.compile(r"\$\$?(\w+)")


Resolve = Callable[[str], "str | None"]


Span = tuple[int, int]


class PatternError(ValueError):
    """A pattern or template cannot be parsed, or a template has a capture that its pattern does not bind."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled `match` of a rule; `captures` are the names that it binds."""

    text: str
    node: cst.BaseExpression
    captures: frozenset[str]


@dataclass(frozen=True, slots=True)
class Match:
    """The captures of a match: their byte spans in the file, their texts and nodes; `span` is the whole match."""

    span: Span
    spans: Mapping[str, Span]
    texts: Mapping[str, str]
    nodes: Mapping[str, cst.CSTNode]


@cache
def compile_pattern(text: str) -> Pattern:
    """Parse a pattern. Raises PatternError if `text` is not an expression."""
    source = CAPTURE.sub(lambda m: (f"*{MANY}" if m.group().startswith("$$") else ONE) + m.group(1), text)
    try:
        node = cst.parse_expression(source)
    except cst.ParserSyntaxError as error:
        raise PatternError(f"`{text}` is not an expression: {error.message}") from None
    return Pattern(text, node, frozenset(CAPTURE.findall(text)))


def check_template(pattern: Pattern, template: str) -> None:
    """Check that a template is an expression of captures that the pattern binds; raises PatternError."""
    unbound = sorted(set(CAPTURE.findall(template)) - pattern.captures)
    if unbound:
        raise PatternError(f"`{template}` uses ${unbound[0]}, which `{pattern.text}` does not bind")
    compile_pattern(template)


@dataclass(frozen=True, slots=True)
class Rest:
    """The arguments that `$$args` stands for: the last ones of a call."""

    call: cst.Call
    args: tuple[cst.Arg, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rest) and self.args == other.args


@dataclass(slots=True)
class Matcher:
    """Matches syntax trees; `resolve` gives a chain's qualified name, `found` collects the captures."""

    resolve: Resolve
    found: dict[str, Any]

    def node(self, pattern: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Return whether a node of the pattern matches a node of the code."""
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
            self.field(getattr(pattern, f.name), getattr(node, f.name))
            for f in fields(pattern)
            if f.name not in _TRIVIA
        )

    def field(self, pattern: Any, node: Any) -> bool:
        """Return whether a field of a pattern's node matches that of the code; layout is ignored."""
        if isinstance(pattern, cst.CSTNode):
            return isinstance(node, cst.CSTNode) and (isinstance(pattern, _SPACE) or self.node(pattern, node))
        if isinstance(pattern, (list, tuple)):
            return len(pattern) == len(node) and all(map(self.field, pattern, node))
        return isinstance(pattern, cst.MaybeSentinel) or pattern == node

    def bind(self, name: str, node: cst.CSTNode) -> bool:
        """Capture a node under `name`; a capture that occurs twice must stand for the same text."""
        known = self.found.setdefault(name, node)
        return known is node or _without_space(known) == _without_space(node)

    def arguments(self, pattern: cst.Call, node: cst.Call) -> bool:
        """Return whether the arguments of two calls match, keywords in any order."""
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
            # the remaining arguments are not contiguous at the end, so `$$args` cannot be copied as one piece of text
            return False
        self.found[rest] = Rest(node, tuple(left))
        return True

    def argument(self, want: cst.Arg, left: list[cst.Arg]) -> bool:
        """Match one argument of the pattern, and remove its counterpart from `left`."""
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


def _without_space(node: cst.CSTNode) -> str:
    return re.sub(r"\s+", "", cst.Module([]).code_for_node(node))


def dotted(node: cst.CSTNode) -> str | None:
    """Return the dotted chain of a LibCST node, `getattr(a, "b")` counting as `a.b`, or None if it is not one."""
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
    """Return whether each restricted capture is of the kind that `where` demands."""
    return all(name in match.nodes and _KINDS[kind](match.nodes[name]) for name, kind in where.items())


def _is_name(node: cst.CSTNode, *names: str) -> bool:
    return isinstance(node, cst.Name) and node.value in names


_KINDS: Mapping[str, Callable[[cst.CSTNode], bool]] = {
    "literal": lambda n: isinstance(n, (cst.BaseNumber, cst.BaseString)) or _is_name(n, "True", "False", "None"),
    "integer": lambda n: isinstance(n, cst.Integer),
    "string": lambda n: isinstance(n, cst.SimpleString),
    "true": lambda n: _is_name(n, "True"),
}


class Expression:
    """One expression at bytes [start, end) of `buffer`; raises PatternError if LibCST prints it otherwise."""

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        self.buffer, self.start, self.end = buffer, start, end
        self.root, self._spans = _parsed(buffer[start:end].decode())

    def span(self, node: cst.CSTNode) -> Span:
        """Return the node's bytes in the file, with its own parentheses but without the pair added for parsing."""
        start, end = self.inner(node)
        lpar, rpar = getattr(node, "lpar", ()), getattr(node, "rpar", ())
        skip = 1 if node is self.root else 0
        if len(lpar) > skip:
            start = self.inner(lpar[skip])[0]
        if len(rpar) > skip:
            end = self.inner(rpar[-1 - skip])[1]
        return start, end

    def inner(self, node: cst.CSTNode) -> Span:
        """Return the node's bytes in the file, without parentheses around it."""
        found = self._spans[node]
        start = self.start + found.start - 1  # the parenthesis added for parsing stands before it
        return start, start + found.length

    def text(self, span: Span) -> str:
        return self.buffer[slice(*span)].decode()

    def expressions(self) -> Iterator[cst.BaseExpression]:
        """Yield all nested expressions, outermost first."""
        stack: list[cst.CSTNode] = [self.root]
        while stack:
            node = stack.pop()
            if isinstance(node, cst.BaseExpression):
                yield node
            stack += reversed(node.children)

    def match(self, pattern: Pattern, node: cst.BaseExpression, resolve: Resolve) -> Match | None:
        """Match a node with a pattern and return what the captures stand for, or None."""
        found: dict[str, Any] = {}
        if not Matcher(resolve, found).node(pattern.node, node):
            return None
        spans = {name: self._capture_span(value) for name, value in found.items()}
        texts = {name: self.text(span) for name, span in spans.items()}
        nodes = {name: value for name, value in found.items() if isinstance(value, cst.CSTNode)}
        return Match(self.inner(node), spans, texts, nodes)

    def _capture_span(self, value: cst.CSTNode | Rest) -> Span:
        if isinstance(value, cst.CSTNode):
            return self.span(value)
        end = self.inner(value.call)[1] - 1
        if value.args:
            return self.span(value.args[0])[0], end
        return end, end


@lru_cache(maxsize=1024)  # many files contain the same `torch.cuda.is_available()`
def _parsed(text: str) -> tuple[cst.BaseExpression, Mapping[cst.CSTNode, CodeSpan]]:
    wrapper = MetadataWrapper(cst.parse_module(f"({text}\n)"), unsafe_skip_copy=True)
    spans = wrapper.resolve(ByteSpanPositionProvider)
    if wrapper.module.code != f"({text}\n)":
        raise PatternError("LibCST prints this expression differently")
    line = wrapper.module.body[0]
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr)
    return line.body[0].value, spans


def instantiate(match: Match, template: str, expression: Expression) -> list[Edit]:
    """Return the edits that give `template`, one per changed gap; raises PatternError if a comment would be lost."""
    pieces = _pieces(template, match)
    order = [name for name, is_capture in pieces if is_capture]
    spans = [match.spans[name] for name in order]
    if len(set(order)) < len(order) or spans != sorted(spans):
        text = "".join(match.texts[p] if is_capture else p for p, is_capture in pieces)
        _refuse_comments(expression, match, set(order))
        return [Edit(*match.span, text)]
    bounds = [match.span[0], *(x for span in spans for x in span), match.span[1]]
    literals = _literals(pieces)
    gaps = zip(bounds[0::2], bounds[1::2], literals, strict=True)
    return [e for start, end, new in gaps if (e := _gap_edit(expression, start, end, new))]


def _refuse_comments(expression: Expression, match: Match, kept: set[str]) -> None:
    """Raise PatternError if a comment stands outside of the kept captures; for captures that change places."""
    position = match.span[0]
    for start, end in (*sorted(match.spans[name] for name in kept), (match.span[1], match.span[1])):
        if "#" in expression.text((position, start)):
            raise PatternError("a comment stands in the way")
        position = end


def _pieces(template: str, match: Match) -> list[tuple[str, bool]]:
    """Split a template into literal text (False) and names of captures (True), alternating."""
    out: list[tuple[str, bool]] = []
    position = 0
    for m in CAPTURE.finditer(template):
        literal = template[position : m.start()]
        if m.group().startswith("$$") and not match.texts[m.group(1)].strip():
            literal = literal.removesuffix(", ")
        out += [(literal, False), (m.group(1), True)]
        position = m.end()
    return [*out, (template[position:], False)]


def _literals(pieces: list[tuple[str, bool]]) -> list[str]:
    return [text for text, is_capture in pieces if not is_capture]


def _gap_edit(expression: Expression, start: int, end: int, new: str) -> Edit | None:
    """Return the edit of one gap, or None; white space at its ends stays if the new text allows it."""
    old = expression.text((start, end))
    if _squeeze(old) == _squeeze(new):
        return None
    if "#" in old:
        raise PatternError("a comment stands in the way")
    core, new_core = old, new
    if core.strip() and new_core.strip():
        lead = len(core) - len(core.lstrip(" \t\r\n\\"))
        if new_core[:1] in ").," and core[lead] != new_core[0] and "\n" not in core[:lead]:
            lead = 0  # `x == "cuda"` becomes `f(x)`: the space is removed with the operator
        if new_core[:1] not in " \t":
            start += lead
            core = core[lead:]
        tail = len(core) - len(core.rstrip())
        if new_core.endswith("(") and not core.rstrip().endswith("(") and "\n" not in core[len(core) - tail :]:
            tail = 0  # the space after a comma that is removed
        if tail and new_core == new_core.rstrip():
            end -= tail
            core = core[:-tail]
    if core == new_core:
        return None
    return Edit(start, end, new_core)


def _squeeze(gap: str) -> str:
    """Remove white space and comments, so that a gap which changes in nothing else keeps its layout."""
    return re.sub(r"#[^\n]*|[\s\\]+", "", gap)
