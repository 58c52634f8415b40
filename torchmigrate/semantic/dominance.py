"""Dominance: code is only reached if an accelerator is available.

Guard regions are wider: they ask which code belongs to a test. `a or is_available()` guards nothing here.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Sequence

from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.spelling import helper_function
from torchmigrate.syntax.resolver import chain_of, ends_program, leaves_block
from torchmigrate.syntax.scope import children

_AVAILABLE = {"torch.cuda.is_available", "torch.accelerator.is_available"}
_COUNT = {"torch.cuda.device_count", "torch.accelerator.device_count"}
_ASKS = {"is_available", "is_accelerated", "is_nvidia"}  # functions of the helper that are True on accelerators only
_COMPARED: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_OF_CUDA = re.compile(r"cuda|nvidia", re.I)
_OF_CPU = re.compile(r"(?<![a-z])cpu", re.I)
_DEEP = 5  # flags of flags


@query
def know_parents(module: SemanticModel) -> None:
    """Fill in the parent of each expression of the module."""
    for node in module.nodes:
        for child in children(node):
            module.scopes.parent.setdefault(child, node)


def is_guarded(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether `node` runs only if an accelerator is available. `know_parents` must have run on the module."""
    below = node
    for up in module.ancestors(node):
        match up:
            case ast.If(test) | ast.While(test) if below in up.body and _implies(module, test, True):
                return True
            case ast.If(test) if below in up.orelse and _implies(module, test, False):
                return True
            case ast.IfExp(test, body, orelse):
                if below is not test and _implies(module, test, below is body) and below in (body, orelse):
                    return True
            case ast.BoolOp(op, values) if below in values:
                before = values[: values.index(below)]
                if any(_implies(module, value, isinstance(op, ast.And)) for value in before):
                    return True
        if isinstance(below, ast.stmt) and any(_settles(module, s) for s in module.blocks.before(below)):
            return True
        below = up
    return False


def _settles(module: SemanticModel, statement: ast.stmt) -> bool:
    """Return whether code after a statement needs an accelerator: `assert available`, `if not available: return`."""
    match statement:
        case ast.Assert(test, message):
            return _implies(module, test, True) and not lacks_cuda_alone([message] if message else [])
        case ast.If(test, body, []) if leaves_block(body):
            return _implies(module, test, False) and not (ends_program(body) and lacks_cuda_alone(body))
    return False


def lacks_cuda_alone(said: Sequence[ast.AST]) -> bool:
    """Return whether a refusal names CUDA as what is missing, and not the CPU: the CPU may then run the program."""
    inside = (node for part in said for node in ast.walk(part))
    text = " ".join(n.value for n in inside if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return bool(_OF_CUDA.search(text)) and not _OF_CPU.search(text)


def _implies(module: SemanticModel, test: ast.expr, value: bool, deep: int = _DEEP) -> bool:
    """Return whether `test` being `value` means that an accelerator is available."""

    def each(values: Sequence[ast.expr]) -> Iterator[bool]:
        return (_implies(module, v, value, deep) for v in values)

    match test:
        case ast.UnaryOp(ast.Not(), operand):
            return _implies(module, operand, not value, deep)
        case ast.BoolOp(op, values):
            some: Callable[..., bool] = any if isinstance(op, ast.And) is value else all
            return some(each(values))
        case ast.Call(ast.Name("bool"), [inner], []) | ast.IfExp(inner, ast.Constant(True), ast.Constant(False)):
            return _implies(module, inner, value, deep)
        case ast.Call(func):
            asks = module.resolve(func) in _AVAILABLE or helper_function(module, func) in _ASKS
            return value and (asks or _counts(module, test))
        case ast.Compare(left, [op], [ast.Constant(int(number))]) if type(op) in _COMPARED:
            return _COMPARED[type(op)](0, number) is not value and _counts(module, left)
        case ast.Name() | ast.Attribute():
            given = _given(module, test) if deep else []
            return bool(given) and all(_implies(module, v, value, deep - 1) for v in given)
    return False


def _counts(module: SemanticModel, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or node.args:
        return False
    return module.resolve(node.func) in _COUNT or helper_function(module, node.func) == "device_count"


def _given(module: SemanticModel, flag: ast.Name | ast.Attribute) -> list[ast.expr]:
    """Return all values that this file gives a flag; none if they are not certain."""
    if isinstance(flag, ast.Name):
        found = module.scope(flag).find(flag.id)
        values = [b.value for b in found[1]] if found else []
        return [v for v in values if v is not None] if all(values) else []
    name = chain_of(flag)
    assigns = (n for n in module.nodes if isinstance(n, ast.Assign))
    return [a.value for a in assigns if name and any(chain_of(t) == name for t in a.targets)]
