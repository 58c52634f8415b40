"""A value decides a comparison, a test or a size: it is followed there through names, arithmetic and functions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Function

_SAME = {
    "abs",
    "divmod",
    "float",
    "int",
    "list",
    "max",
    "min",
    "round",
    "sorted",
    "sum",
    "tuple",
}  # of numbers a number
_SIZE = "multi_processor_count"  # nobody calculates with it but for the sizes of grids and kernels
_TARGETS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)


def decided_by(module: SemanticModel, value: ast.expr, told: Collection[str] = ()) -> ast.AST | None:
    """Return a place of the file that a value decides, or None if it is only told, kept or handed to other files.

    A comparison, a test, an index, an assertion of a test suite, a size in a call of torch's and a `range` decide.
    `told` are attributes of the value that decide nothing.
    """
    know_parents(module)
    todo: list[tuple[ast.AST, bool]] = [(value, False)]
    seen: set[ast.AST] = set()
    while todo:
        node, is_size = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        up = module.parent(node)
        is_size = is_size or (isinstance(node, ast.Attribute) and node.attr == _SIZE)
        calculates = isinstance(up, ast.BinOp) and not isinstance(up.op, ast.Mod)  # `"%d" % count` tells
        if up is not None and (_decides(module, node, up) or (is_size and calculates)):
            return up
        if not (isinstance(up, ast.Attribute) and up.attr in told):
            todo += [(onward, is_size) for onward in _onward(module, node)]
    return None


def calculated_from(module: SemanticModel, value: ast.expr) -> set[ast.AST]:
    """Return the calculations of the file that a value is a part of, through names and functions."""
    return {node for node in flows_to(module, [value]) if isinstance(node, ast.BinOp)}


def flows_to(module: SemanticModel, values: Iterable[ast.AST]) -> set[ast.AST]:
    """Return the expressions of the file that have a value made of one of these, through names and functions."""
    know_parents(module)
    todo = list(values)
    seen: set[ast.AST] = set()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += _onward(module, node)
    return seen


def _decides(module: SemanticModel, node: ast.AST, up: ast.AST) -> bool:
    """Return whether the value of a node decides something in the node around it."""
    match up:
        case ast.Compare(_, [op, *_]):
            return not isinstance(op, (ast.Is, ast.IsNot))
        case ast.If(test) | ast.While(test) | ast.IfExp(test) | ast.Assert(test):
            return node is test
        case ast.BoolOp(ast.And(), values):
            return node is not values[-1]
        case ast.UnaryOp(ast.Not()):
            return True
        case ast.Subscript(_, inside):
            return node is inside
        case ast.comprehension(ifs=tests):
            return node in tests
        case ast.Call(func):
            return node is not func and _takes(module, func)
        case ast.keyword():
            call = module.parent(up)
            return isinstance(call, ast.Call) and _takes(module, call.func)
    return False


def _takes(module: SemanticModel, func: ast.expr) -> bool:
    """Return whether a function does something that depends on the number that it is given."""
    name = last_name(func)
    return name == "range" or name.startswith("assert") or (module.resolve(func) or "").startswith("torch.")


def _onward(module: SemanticModel, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that have a value made of the value of a node."""
    up = module.parent(node)
    match up:
        case ast.BinOp() | ast.UnaryOp() | ast.Attribute() | ast.Starred() | ast.List() | ast.Tuple() | ast.Set():
            yield up
        case ast.BoolOp() | ast.Subscript() | ast.IfExp() | ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            yield up
        case ast.Call(func, arguments):
            name = func.id if isinstance(func, ast.Name) else ""
            if node is func or name in _SAME or module.resolve(func) == "torch.device":
                yield up
            elif function := _called(module, func):
                yield from _parameter(module, function, arguments, node)
        case ast.keyword(name):
            call = module.parent(up)
            function = _called(module, call.func) if isinstance(call, ast.Call) else None
            yield from _reads_in(module, function, name) if function and name else ()
        case ast.Return():
            owner = module.function(up)
            yield from _calls(module).get(owner.name, ()) if owner else ()
        case ast.For(target, iterated) if node is iterated:
            yield from reads(module, target)
        case _ if isinstance(up, _TARGETS):
            yield from (up,) if isinstance(up, ast.NamedExpr) else ()
            for target in up.targets if isinstance(up, ast.Assign) else [up.target]:
                yield from reads(module, target)


def _called(module: SemanticModel, func: ast.expr) -> Function | None:
    """Return the function of the file that a call calls by its name or as a method of its own, or None."""
    scope = module.scope(func)
    owner = scope.enclosing_class()
    match func:
        case ast.Name(name):
            found = (scope.find(name) or (None, []))[1]
        case ast.Attribute(ast.Name("self" | "cls"), name) if owner:
            found = owner.names.get(name, [])
        case _:
            return None
    node = found[0].node if len(found) == 1 else None
    return node if isinstance(node, FUNCTIONS) else None


def _parameter(module: SemanticModel, function: Function, arguments: list[ast.expr], node: ast.AST) -> list[ast.AST]:
    """Return where a function reads the parameter that gets an argument by position."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    at = next((i for i, argument in enumerate(arguments) if argument is node), len(names))
    at += names[:1] in (["self"], ["cls"])
    return _reads_in(module, function, names[at]) if at < len(names) else []


def _reads_in(module: SemanticModel, function: Function, name: str) -> list[ast.AST]:
    return [n for n in _read(module).get(name, ()) if module.function(n) is function]


def reads(module: SemanticModel, target: ast.expr) -> Iterator[ast.AST]:
    """Yield where the file reads what an assignment binds: a name in its scope, an attribute wherever it stands."""
    match target:
        case ast.Tuple(parts) | ast.List(parts):
            for part in parts:
                yield from reads(module, part)
        case ast.Starred(inner):
            yield from reads(module, inner)
        case ast.Name(name):
            found = module.scope(target).find(name)
            home = found[0] if found else None
            for node in _read(module).get(name, ()):
                there = module.scope(node).find(name)
                if there and there[0] is home:
                    yield node
        case ast.Attribute():
            yield from _read(module).get(chain_of(target) or "", ())


@query
def _read(module: SemanticModel) -> dict[str, list[ast.AST]]:
    """Return where the file reads each name and each dotted chain of names."""
    found: dict[str, list[ast.AST]] = {}
    for node in module.nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and (name := chain_of(node)):
            found.setdefault(name, []).append(node)
    return found


@query
def _calls(module: SemanticModel) -> dict[str, list[ast.AST]]:
    """Return the calls of the file by the name of what they call."""
    found: dict[str, list[ast.AST]] = {}
    for node in module.nodes:
        if isinstance(node, ast.Call):
            found.setdefault(last_name(node.func), []).append(node)
    return found
