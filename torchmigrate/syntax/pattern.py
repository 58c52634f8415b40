"""Compile patterns such as `$x.cuda($$args)` and match them with LibCST expressions.

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
