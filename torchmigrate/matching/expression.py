"""One expression of a file, parsed by LibCST, with byte spans in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from torchmigrate.matching.pattern import Match, Matcher, Pattern, PatternError, Resolve, Rest, Span


class Expression:
    """One expression of a file, parsed by LibCST, with byte spans in the file. None where it does not round-trip."""

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        self.buffer, self.start, self.end = buffer, start, end
        self.root, self._spans = _parsed(buffer[start:end].decode())

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


@lru_cache(maxsize=1024)  # `torch.cuda.is_available()` stands in many files
def _parsed(text: str) -> tuple[cst.BaseExpression, Mapping[cst.CSTNode, CodeSpan]]:
    wrapper = MetadataWrapper(cst.parse_module(f"({text}\n)"), unsafe_skip_copy=True)
    spans = wrapper.resolve(ByteSpanPositionProvider)
    if wrapper.module.code != f"({text}\n)":
        raise PatternError("LibCST prints this expression differently")
    line = wrapper.module.body[0]
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr)
    return line.body[0].value, spans
