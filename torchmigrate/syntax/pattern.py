"""Patterns such as `$x.cuda($$args)` and how they match LibCST expressions.

`$x` is one expression, `$$args` the rest of an argument list with its white space, comments and trailing comma.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import libcst as cst

ONE, MANY = "__one_", "__many_"


CAPTURE = re.compile(r"\$\$?(\w+)")


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


@cache
def compile_pattern(text: str) -> Pattern:
    """Raises PatternError where `text` is no expression."""
    source = CAPTURE.sub(lambda m: (f"*{MANY}" if m.group().startswith("$$") else ONE) + m.group(1), text)
    try:
        node = cst.parse_expression(source)
    except cst.ParserSyntaxError as error:
        raise PatternError(f"`{text}` is not an expression: {error.message}") from None
    return Pattern(text, node, frozenset(CAPTURE.findall(text)))


def check_template(pattern: Pattern, template: str) -> None:
    """Raises PatternError where the template has a capture that the pattern does not bind."""
    unbound = sorted(set(CAPTURE.findall(template)) - pattern.captures)
    if unbound:
        raise PatternError(f"`{template}` uses ${unbound[0]}, which `{pattern.text}` does not bind")
    compile_pattern(template)


@dataclass(frozen=True, slots=True)
class Rest:
    """What `$$args` stands for: the last arguments of a call."""

    call: cst.Call
    args: tuple[cst.Arg, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rest) and self.args == other.args


@dataclass(slots=True)
class Matcher:
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
            self.field(getattr(pattern, f.name), getattr(node, f.name))
            for f in fields(pattern)
            if f.name not in _TRIVIA
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
        self.found[rest] = Rest(node, tuple(left))
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


def _is_name(node: cst.CSTNode, *names: str) -> bool:
    return isinstance(node, cst.Name) and node.value in names


_KINDS: Mapping[str, Callable[[cst.CSTNode], bool]] = {
    "literal": lambda n: isinstance(n, (cst.BaseNumber, cst.BaseString)) or _is_name(n, "True", "False", "None"),
    "integer": lambda n: isinstance(n, cst.Integer),
    "string": lambda n: isinstance(n, cst.SimpleString),
    "true": lambda n: _is_name(n, "True"),
}
