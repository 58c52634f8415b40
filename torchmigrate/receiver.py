"""What `x` is in `x.cuda()`: a torch object, an object of a class of the project that defines `cuda()`, a storage."""

from __future__ import annotations

import ast
from enum import Enum, auto

from torchmigrate.module import Module
from torchmigrate.scope import Scope, chain_of


class Kind(Enum):
    """MAYBE_USER: such a class exists in the project and nothing here shows that the receiver is another."""

    TORCH = auto()
    USER = auto()
    MAYBE_USER = auto()
    STORAGE = auto()


def receiver_kind(module: Module, node: ast.expr, scope: Scope) -> Kind:
    kind = _kind(module, node, scope, 0)
    if kind is not None:
        return kind
    return Kind.MAYBE_USER if module.facts.cuda_classes else Kind.TORCH


def _kind(module: Module, node: ast.expr, scope: Scope, depth: int) -> Kind | None:
    if depth > 8:
        return None
    match node:
        case ast.Call():
            return _call(module, node, scope, depth)
        case ast.Name("self"):
            owner = scope.enclosing_class()
            return Kind.USER if owner and getattr(owner.node, "name", "") in module.facts.cuda_classes else Kind.TORCH
        case ast.Name(name):
            found = scope.find(name)
            values = [b.value for b in found[1]] if found else []
            if _is_storage_parameter(node, found[1] if found else []):
                return Kind.STORAGE
            return _all(module, values, found[0] if found else scope, depth)
        case ast.Attribute(ast.Name("self"), attribute):
            owner = scope.enclosing_class()
            return _all(module, _attribute_values(owner, attribute) if owner else [], scope, depth)
        case ast.Attribute(_, "data" | "grad"):
            return Kind.TORCH
        case ast.BinOp() | ast.UnaryOp() | ast.Subscript():
            return None if isinstance(node, ast.Subscript) else Kind.TORCH
    return None


def _all(module: Module, values: list[ast.expr | None], scope: Scope, depth: int) -> Kind | None:
    """What all assignments agree on. `x = x.cuda()` says nothing about x."""
    kinds = {_kind(module, v, scope, depth + 1) for v in values if v is not None}
    if None in values or not values:
        kinds.add(None)
    if Kind.USER in kinds:
        return Kind.USER if len(kinds) == 1 else Kind.MAYBE_USER
    return kinds.pop() if len(kinds) == 1 else None


def _is_storage_parameter(node: ast.Name, bindings: list[object]) -> bool:
    is_parameter = any(isinstance(getattr(b, "node", None), ast.arg) for b in bindings)
    return is_parameter and node.id in ("storage", "loc_storage")


def _call(module: Module, node: ast.Call, scope: Scope, depth: int) -> Kind | None:
    name = module.resolve(node.func, scope)
    if name and (name.endswith("Storage") and name.startswith("torch.")):
        return Kind.STORAGE
    if name and name.split(".")[0] in ("torch", "torchvision"):
        return None if name == "torch.load" else Kind.TORCH
    chain = chain_of(node.func)
    last = chain.rpartition(".")[2] if chain else ""
    if last in module.facts.cuda_classes:
        return Kind.USER
    if last == "super":
        return Kind.TORCH
    if isinstance(node.func, ast.Attribute) and last != "get_model":
        return _kind(module, node.func.value, scope, depth + 1) if node.func.attr in _SAME else Kind.TORCH if node.func.attr in _TENSOR else None
    return Kind.TORCH if last[:1].isupper() and last not in module.facts.cuda_classes else None


_SAME = {"cuda", "cpu", "to", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_", "apply"}
_TENSOR = {
    "unsqueeze", "squeeze", "view", "reshape", "long", "int", "clone", "detach", "contiguous", "permute", "transpose", "expand",
    "repeat", "normal_", "uniform_", "zero_", "fill_", "byte", "bool", "sum", "mean", "new", "resize_", "type", "type_as",
}  # fmt: skip


def _attribute_values(owner: Scope, attribute: str) -> list[ast.expr | None]:
    """Every value that methods of a class give `self.attribute`."""
    values: list[ast.expr | None] = []
    for node in ast.walk(owner.node):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == attribute and ast.unparse(target.value) == "self":
                    values.append(node.value)
    return values
