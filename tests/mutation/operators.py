"""The mutants of one file: small changes that a test ought to notice, each one span of its text.

Left out: docstrings, prose, annotations, decorators, and what stands inside an f-string (no positions before 3.12)."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_UNTOUCHED = ("decorator_list", "annotation", "returns", "pattern")


@dataclass(frozen=True, slots=True)
class Mutant:
    """`[start:end]` of the file's bytes becomes `new`; `where` names it for as long as its line stays as it is."""

    line: int
    start: int
    end: int
    new: str
    where: str

    def applied(self, raw: bytes) -> bytes:
        return raw[: self.start] + self.new.encode() + raw[self.end :]


def mutants(raw: bytes) -> Iterator[Mutant]:
    """All of them, in the order of the file."""
    starts = [0, *(i + 1 for i, byte in enumerate(raw) if byte == 10)]
    seen: Counter[str] = Counter()
    for node, new in _changes(ast.parse(raw)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        where = f"{raw.splitlines()[node.lineno - 1].decode().strip()} | {' '.join(raw[start:end].decode().split())}"
        seen[where + new] += 1
        yield Mutant(node.lineno, start, end, new, f"{where} -> {new} #{seen[where + new]}")


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in _reached(tree):
        if isinstance(node, ast.expr):
            yield from ((node, f"({ast.unparse(new)})") for new in _expressions(node))
        elif isinstance(node, ast.stmt):
            yield from ((node, new) for new in _statements(node))
        if isinstance(node, (ast.If, ast.While, ast.IfExp)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
            yield node.test, f"(not ({ast.unparse(node.test)}))"


def _reached(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.AnnAssign(value=value):
            yield from _reached(value) if value else ()
        case ast.Expr(ast.Constant()) | ast.JoinedStr() | ast.keyword("strict"):
            return
        case _:
            yield node
            for name, value in ast.iter_fields(node):
                children = value if isinstance(value, list) else [value]
                for child in children if name not in _UNTOUCHED else ():
                    yield from _reached(child) if isinstance(child, ast.AST) else ()


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARE:
            yield _with(node, ops=[_COMPARE[type(operator)]()])
        case ast.BoolOp(op, values):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            yield from values
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.BinOp(op=op) if type(op) in _BINARY:
            yield _with(node, op=_BINARY[type(op)]())
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.ListComp(_, [loop]) | ast.SetComp(_, [loop]) | ast.GeneratorExp(_, [loop]) if loop.ifs:
            yield _with(node, generators=[_with(loop, ifs=[])])
        case ast.Subscript(value, ast.Slice()):
            yield value
        case ast.Constant(value):
            yield from map(ast.Constant, _constants(value))


def _constants(value: object) -> Iterator[object]:
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, value - 1)
        case str() if " " not in value.strip():
            yield f"{value}?"


def _statements(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"
        case (
            ast.Expr(ast.Call() | ast.Yield() | ast.YieldFrom())
            | ast.AugAssign()
            | ast.Raise()
            | ast.Assign([ast.Attribute() | ast.Subscript()])
        ):
            yield "pass"


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
