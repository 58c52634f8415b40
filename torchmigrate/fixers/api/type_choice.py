"""A name for one of CUDA's tensor types that is only called and cast to, so that no class has to stand for the type.

`Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor` becomes a choice between a function and the CPU's type,
and `x.type(Tensor)` a `.to(...)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.receiver import is_module
from torchmigrate.semantic.references import Reference, helper_function, identifiers, reads_of, spell, spelled
from torchmigrate.semantic.values import given_before, is_size, is_used_as_tensor
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import last_name
from torchmigrate.syntax.scope import Scope
from torchmigrate.torch_api.names import DTYPES

_DEFAULTS = {"set_default_dtype", "set_default_tensor_type", "set_default_device"}
_SIZES = {"shape", "size"}
_HERE = "accel.device()"


@dataclass(frozen=True, slots=True)
class _Named:
    """A CUDA tensor type that is given a name, and the device that it stands for: "" if the test is about more."""

    reference: ast.expr
    type_name: str
    place: str
    is_choice: bool


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """The rewrite of a name for a tensor type: all edits, and the casts `x.type(name)` among the uses."""

    edits: tuple[Edit, ...]
    casts: frozenset[ast.Call]


def choice_of(module: SemanticModel, reference: ast.AST) -> TypeChoice | None:
    """Return the rewrite of the name that is given this reference to a CUDA type; None if a use is not seen."""
    return _choices(module).get(reference)


def is_cast(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call `x.type(name)` is rewritten with the name."""
    return any(call in choice.casts for choice in _choices(module).values())


@query
def _choices(module: SemanticModel) -> Mapping[ast.AST, TypeChoice]:
    found: dict[ast.AST, TypeChoice] = {}
    if _DEFAULTS & identifiers(module):
        return found
    for statement in module.scopes.statements:
        match statement:
            case ast.Assign([ast.Name(name)], value):
                scope = module.scopes.scope_of[statement]
                named = _read_by_name(module, value, scope)
                if named and (choice := _choice(module, name, value, named)):
                    found[named.reference] = choice
    return found


def _read_by_name(module: SemanticModel, value: ast.expr, scope: Scope) -> _Named | None:
    """Return the CUDA type that a value is, or chooses beside the CPU's."""
    home, name = _type_name(module, value, scope)
    if home == "torch.cuda":
        return _Named(value, name, _HERE, is_choice=False)
    if not isinstance(value, ast.IfExp):
        return None
    sides = {_type_name(module, side, scope): side for side in (value.body, value.orelse)}
    for (home, name), side in sides.items():
        others = {("torch", name), *([("torch", "Tensor")] if name == "FloatTensor" else [])}
        if home == "torch.cuda" and others & {*sides}:
            return _Named(side, name, _place(module, value.test, scope) if side is value.body else "", is_choice=True)
    return None


def _type_name(module: SemanticModel, value: ast.expr, scope: Scope) -> tuple[str, str]:
    """Return the module and the name of torch's type that an expression names, or two empty texts."""
    if not isinstance(value, ast.Attribute):
        return "", ""
    home, _, name = (module.resolve(value, scope) or "").rpartition(".")
    is_type = name.endswith("Tensor") and (name == "Tensor" or name.removesuffix("Tensor") in DTYPES)
    return (home, name) if is_type else ("", "")


def _place(module: SemanticModel, test: ast.expr, scope: Scope) -> str:
    """Return the device that a test chooses: the accelerator, a tensor's; "" if it asks for anything else."""
    match test:
        case ast.Call(func, [], []):
            is_asked = module.resolve(func, scope) == "torch.cuda.is_available"
            return _HERE if is_asked or helper_function(module, func) == "is_available" else ""
        case ast.IfExp(inner, ast.Constant(True), ast.Constant(False)):
            return _place(module, inner, scope)
        case ast.Attribute(ast.Name(tensor), "is_cuda"):
            home, bindings = scope.find(tensor) or (scope, [])
            is_one = home is scope and len(bindings) == 1
            return f"{tensor}.device" if is_one and is_used_as_tensor(module, tensor, test) else ""
        case ast.Name(name):
            home, bindings = scope.find(name) or (scope, [])
            value = bindings[0].value if len(bindings) == 1 else None
            place = "" if value is None or isinstance(value, ast.Name) else _place(module, value, home)
            return place if place == _HERE else ""
    return ""


def _choice(module: SemanticModel, name: str, value: ast.expr, named: _Named) -> TypeChoice | None:
    know_parents(module)
    scope = module.scopes.scope_of[module.statement(value)]
    home, bindings = scope.find(name) or (scope, [])
    is_global = isinstance(scope.node, ast.Module)
    is_open = scope.is_class or (is_global and module.facts.index.is_taken(str(module.path), name))
    if home is not scope or len(bindings) != 1 or is_open:
        return None
    names, uses = spelled(module), reads_of(module, name, scope)
    calls = {use: module.parent(use.node) for use in uses}
    casts = frozenset(c for use, c in calls.items() if isinstance(c, ast.Call) and _is_cast_to(module, c, use, named))
    if not all(c in casts or (isinstance(c, ast.Call) and _is_made(module, c, use)) for use, c in calls.items()):
        return None
    if (casts and not named.place) or (named.place != _HERE and any(use.scope is not scope for use in uses)):
        return None
    dtype = f"torch.{DTYPES[named.type_name.removesuffix('Tensor')]}"
    made = f"lambda *args: torch.{named.type_name}(*args).to({named.place or _HERE})"
    is_kept = named.is_choice and named.place in ("", _HERE)
    target, new = (named.reference, f"({made})") if is_kept else (value, made)
    moved = f".to({named.place}, {dtype})"
    is_dtype = len(casts) == len(uses) > 0 and not isinstance(getattr(value, "test", None), ast.Name)
    if is_dtype:
        target, new, moved = value, dtype, f".to({named.place})"
    elif any(is_module(module, _subject(cast), module.scope(cast)) for cast in casts):
        return None
    edits = [Edit(*module.span(target), spell(new, names))]
    for cast in casts:
        start, end = module.span(_subject(cast))[1], module.span(cast)[1]
        edits.append(Edit(end if is_dtype else start, end, spell(moved, names)))
    return TypeChoice(tuple(sorted(edits, key=lambda edit: edit.start)), casts)


def _subject(cast: ast.Call) -> ast.expr:
    """Return x of `x.type(name)`."""
    return cast.func.value  # type: ignore[attr-defined, no-any-return]


def _is_made(module: SemanticModel, call: ast.Call, use: Reference) -> bool:
    """Return whether a call makes a tensor of sizes, or of data that is no tensor, which each device's type takes."""
    return (
        call.func is use.node
        and not call.keywords
        and (len(call.args) > 1 or all(_is_no_tensor(module, a, use) for a in call.args))
    )


def _is_cast_to(module: SemanticModel, call: ast.Call, use: Reference, named: _Named) -> bool:
    """Return whether a call is `x.type(name)`. In a method x may be on another device than the current one."""
    is_cast = isinstance(call.func, ast.Attribute) and call.func.attr == "type" and call.args == [use.node]
    is_known = named.place != _HERE or module.nearest(call, ast.ClassDef) is None
    return is_cast and is_known and not call.keywords


def _is_no_tensor(module: SemanticModel, node: ast.expr, use: Reference) -> bool:
    """Return whether an argument is a size, or data of NumPy's or Python's."""
    statement = module.statement(use.node)
    is_known = module.scopes.scope_of[statement] is use.scope
    return all(_is_plain(module, each, use.scope, statement if is_known else None) for each in _parts(node))


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what arithmetic, a star or a choice takes its value from."""
    match node:
        case ast.BinOp(left, _, right):
            yield from (*_parts(left), *_parts(right))
        case ast.UnaryOp(_, inner) | ast.Starred(inner):
            yield from _parts(inner)
        case _:
            yield node


def _is_plain(module: SemanticModel, node: ast.expr, scope: Scope, statement: ast.stmt | None) -> bool:
    match node:
        case ast.Constant() | ast.List() | ast.Tuple() | ast.ListComp():
            return True
        case ast.Attribute(_, attribute) | ast.Subscript(ast.Attribute(_, attribute)) if attribute in _SIZES:
            return True
        case ast.Attribute(ast.Name(options)):
            bindings = (scope.find(options) or (scope, []))[1]
            return bool(bindings) and all(_parses_options(binding.value) for binding in bindings)
        case ast.Call(func):
            return is_size(module, node) or (module.resolve(func, scope) or "").startswith("numpy.")
        case ast.Name(name) if statement is not None:
            given = given_before(module, name, statement) or []
            return bool(given) and all(_is_plain(module, value, scope, at) for value, at in given)
    return False


def _parses_options(value: ast.expr | None) -> bool:
    """Return whether a value is a program's options, which hold no tensors."""
    return isinstance(value, ast.Call) and last_name(value.func) == "parse_args"
