"""Parse single expressions with LibCST, and turn pattern matches into edits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from torchmigrate.source.edits import Edit
from torchmigrate.syntax.pattern import CAPTURE, Match, Matcher, Pattern, PatternError, Resolve, Rest, Span


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
