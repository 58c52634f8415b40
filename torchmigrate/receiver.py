"""What `x` is in `x.cuda()`: a torch object, an object of a class of the project that defines `cuda()`, a storage."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum, auto
from functools import lru_cache

from torchmigrate.module import Module
from torchmigrate.scope import FUNCTIONS, Binding, Function, Scope, chain_of

Seen = frozenset[object]


class Kind(Enum):
    """MAYBE_USER: such a class exists in the project and nothing here shows that the receiver is another."""

    TORCH = auto()
    USER = auto()
    MAYBE_USER = auto()
    STORAGE = auto()
    UNKNOWN = auto()


def receiver_kind(module: Module, node: ast.expr, scope: Scope) -> Kind:
    """What all assignments agree on; `x = x.cuda()` says nothing about x."""
    if _is_tested(module, node):
        return Kind.TORCH
    kinds = set(_kinds(module, node, scope, frozenset()))
    if len(kinds) == 1 and Kind.UNKNOWN not in kinds:
        return kinds.pop()
    return Kind.MAYBE_USER if _could_be_user(module, node) else Kind.TORCH


def _is_tested(module: Module, node: ast.expr) -> bool:
    """`x.cuda() if isinstance(x, torch.Tensor) else x`, and the same as a statement."""
    inside: ast.AST = node
    for up in module.ancestors(node):
        if isinstance(up, (ast.IfExp, ast.If)) and inside is not up.test and _asks_for(up.test, node):
            return inside is up.body if isinstance(up, ast.IfExp) else inside in up.body
        inside = up
    return False


def _asks_for(test: ast.expr, node: ast.expr) -> bool:
    text = ast.unparse(test)
    if "isinstance(" not in text and "is_tensor(" not in text:
        return False
    name = re.escape(ast.unparse(node))
    return re.search(rf"isinstance\({name}, \(?(torch|nn)\.|torch\.is_tensor\({name}\)", text) is not None


def _could_be_user(module: Module, node: ast.expr) -> bool:
    """Whether the file names a class with `cuda()`, or the receiver is called like one (`generator`)."""
    classes = _user_classes(module)
    called = ast.unparse(node).rpartition(".")[2].lower() if classes else ""
    for name in classes:
        words = (word.lower() for word in re.findall(r"[A-Z]?[a-z]{3,}", name))
        if any(word in called for word in words):
            return True
        if name in module.source.text and re.search(rf"\b{name}\b", module.source.text):  # cheap first
            return True
    return False


def _kinds(module: Module, node: ast.expr, scope: Scope, seen: Seen) -> Iterator[Kind]:
    match node:
        case ast.Call():
            yield from _call(module, node, scope, seen)
        case ast.Name("self"):
            owner = scope.enclosing_class()
            yield Kind.USER if owner and getattr(owner.node, "name", "") in _user_classes(module) else Kind.TORCH
        case ast.Name(name):
            home, bindings = scope.find(name) or (scope, [])
            if (home, name) not in seen:
                yield from _variable(module, name, bindings, home, seen | {(home, name)})
        case ast.Attribute(ast.Name("self"), attribute):
            owner = scope.enclosing_class()
            if (owner, attribute) not in seen:
                yield from _attribute(module, attribute, owner, seen | {(owner, attribute)})
        case ast.Attribute(_, "data" | "grad") | ast.BinOp() | ast.UnaryOp():
            yield Kind.TORCH
        case ast.IfExp(_, body, orelse):
            yield from _kinds(module, body, scope, seen)
            yield from _kinds(module, orelse, scope, seen)
        case ast.NamedExpr(_, value):
            yield from _kinds(module, value, scope, seen)
        case _:
            yield Kind.UNKNOWN


def _variable(module: Module, name: str, bindings: list[Binding], scope: Scope, seen: Seen) -> Iterator[Kind]:
    if not bindings:
        yield Kind.UNKNOWN
    for binding in bindings:
        if binding.value is not None:
            yield from _kinds(module, binding.value, scope, seen)
        elif isinstance(binding.node, ast.arg):
            yield Kind.STORAGE if name in ("storage", "loc_storage") else _annotated(module, binding.node, scope)
        else:
            yield _named(module, name) if isinstance(binding.node, (ast.ClassDef, ast.ImportFrom)) else Kind.UNKNOWN


def _annotated(module: Module, arg: ast.arg, scope: Scope) -> Kind:
    note = arg.annotation
    if note is None:
        return Kind.UNKNOWN
    name = note.value if isinstance(note, ast.Constant) else module.resolve(note, scope) or chain_of(note)
    name = str(name)
    return Kind.TORCH if name.startswith("torch.") else _named(module, name.rpartition(".")[2])


def _named(module: Module, name: str) -> Kind:
    return Kind.USER if name in _user_classes(module) else Kind.UNKNOWN


def _attribute(module: Module, attribute: str, owner: Scope | None, seen: Seen) -> Iterator[Kind]:
    """By every value that methods of the class give `self.attribute`."""
    found = False
    for node in ast.walk(owner.node) if owner else ():
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if chain_of(target) == f"self.{attribute}":
                found = True
                yield from _kinds(module, node.value, module.scope(node), seen)  # type: ignore[attr-defined]
    if not found:
        yield Kind.UNKNOWN


def _call(module: Module, node: ast.Call, scope: Scope, seen: Seen) -> Iterator[Kind]:
    name = module.resolve(node.func, scope) or ""
    last = (chain_of(node.func) or "").rpartition(".")[2]
    if name.startswith("torch.") and name.endswith("Storage"):
        yield Kind.STORAGE
    elif name.split(".")[0] in ("torch", "torchvision"):
        yield Kind.UNKNOWN if name == "torch.load" else Kind.TORCH
    elif last in _user_classes(module):
        yield Kind.USER
    elif last == "super":
        yield Kind.USER if _has_user_base(module, scope) else Kind.TORCH
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        yield from _kinds(module, node.func.value, scope, seen)
    elif last[:1].isupper() or (isinstance(node.func, ast.Attribute) and node.func.attr in _TENSOR):
        yield Kind.TORCH
    elif (function := _function(module, node.func, scope)) and function not in seen:
        yield from _returned(module, function, seen | {function})
    else:
        yield Kind.UNKNOWN


def _function(module: Module, called: ast.expr, scope: Scope) -> Function | None:
    """The function or method of this file that a call means."""
    owner = scope.enclosing_class()
    match called:
        case ast.Name(name):
            found = scope.find(name)
        case ast.Attribute(ast.Name("self"), name) if owner and name in owner.names:
            found = (owner, owner.names[name])
        case _:
            return None
    node = found[1][0].node if found and len(found[1]) == 1 else None
    return node if isinstance(node, FUNCTIONS) else None


def _returned(module: Module, function: Function, seen: Seen) -> Iterator[Kind]:
    for statement in module.scopes.statements:
        if isinstance(statement, ast.Return) and module.function(statement) is function:
            value = statement.value or statement
            yield from _kinds(module, value, module.scope(statement), seen) if isinstance(value, ast.expr) else ()


def _has_user_base(module: Module, scope: Scope) -> bool:
    owner = scope.enclosing_class()
    return owner is not None and any(_base_name(b) in _user_classes(module) for b in getattr(owner.node, "bases", ()))


@lru_cache(maxsize=2)
def _user_classes(module: Module) -> frozenset[str]:
    """Classes that define `cuda()`, and those of this file that inherit it: `.to()` would not call it."""
    classes = [s for s in module.scopes.statements if isinstance(s, ast.ClassDef)]
    known = {
        *module.facts.cuda_classes,
        *(c.name for c in classes if any(getattr(f, "name", "") == "cuda" for f in c.body)),
    }
    for _ in classes:
        more = {c.name for c in classes if any(_base_name(b) in known for b in c.bases)} - known
        if not more:
            break
        known |= more
    return frozenset(known)


def _base_name(base: ast.expr) -> str:
    return (chain_of(base) or "").rpartition(".")[2]


_SAME = {"cuda", "cpu", "to", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_", "apply"}
_TENSOR = {
    "unsqueeze", "squeeze", "view", "reshape", "long", "int", "clone", "detach", "contiguous", "permute",
    "transpose", "expand", "repeat", "normal_", "uniform_", "zero_", "fill_", "byte", "bool", "sum", "mean", "new",
    "resize_", "type", "type_as", "t", "cat", "stack",
}  # fmt: skip
