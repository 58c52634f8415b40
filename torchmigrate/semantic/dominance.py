"""Find code that is only reached if an accelerator is there (dominance), and comparisons that a value ends in.

Guard regions are wider: they ask which code belongs to a test. `a or is_available()` guards nothing here.
A value is followed to the comparison, test or size it decides through names, arithmetic and functions.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import calls_by_name, helper_function
from torchmigrate.syntax.resolver import chain_of, ends_program, last_name, leaves_block
from torchmigrate.syntax.scope import FUNCTIONS, Function, children

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


def for_types(module: SemanticModel, statement: ast.AST) -> bool:
    """Return whether a statement is read by type checkers only."""
    tests = (up.test for up in module.enclosing(statement, ast.If))
    return any((chain_of(test) or "").endswith("TYPE_CHECKING") for test in tests)


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


def always_runs(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a run of the file as a program comes to `node` whatever its tests come out to."""
    return module.function(node) in _always_called(module) and not _is_conditional(module, node)


@query
def _always_called(module: SemanticModel) -> set[Function | None]:
    """Return the functions of the file that it calls itself behind no test, and None for its own statements."""
    called: dict[Function | None, list[Function]] = {}
    for function in (s for s in module.tree.body if isinstance(s, FUNCTIONS)):
        for call, _ in calls_by_name(module).get(function.name, ()):
            if isinstance(call.func, ast.Name) and not _is_conditional(module, call):
                called.setdefault(module.function(call), []).append(function)
    found: set[Function | None] = {None}
    todo = [*found]
    while todo:
        fresh = {*called.get(todo.pop(), ())} - found
        found |= fresh
        todo += fresh
    return found


_CONDITIONS = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.Try, ast.ExceptHandler, ast.ClassDef)


def _is_conditional(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether `node` stands behind a test in its function, may be caught there, or is of a class or lambda."""
    below = node
    for up in module.ancestors(node):
        before = module.blocks.before(below) if isinstance(below, ast.stmt) else ()
        if any(isinstance(s, ast.If) and leaves_block(s.body) for s in before):
            return True
        below = up
        match up:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return False
            case ast.If(ast.Compare(ast.Name("__name__"))):
                continue
            case ast.If():
                return True
        if isinstance(up, _CONDITIONS):
            return True
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


DIVISIONS = (ast.Div, ast.FloorDiv)  # which raise where the divisor is 0


def decided_by(module: SemanticModel, value: ast.expr, told: Collection[str] = ()) -> ast.AST | None:
    """Return a place of the file that a value decides, or None if it is only told, kept or handed to other files.

    A comparison, a bound, a test, an index, a divisor, an assertion of a test suite, a size in a call of torch's and
    a `range` decide. `told` are attributes of the value that decide nothing.
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
        case ast.BinOp(_, op, divisor) if isinstance(op, DIVISIONS):
            return node is divisor
        case ast.comprehension(ifs=tests):
            return node in tests
        case ast.Call(ast.Name("min" | "max"), args) if any(isinstance(each, ast.Constant) for each in args):
            return True  # `max(blocks, 0)`
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
        case ast.Call(func):
            name = func.id if isinstance(func, ast.Name) else ""
            if node is func or name in _SAME or module.resolve(func) == "torch.device":
                yield up
            else:
                yield from reads_as_parameter(module, node)
        case ast.keyword():
            yield from reads_as_parameter(module, node)
        case ast.Return():
            owner = module.function(up)
            yield from (call for call, _ in calls_by_name(module).get(owner.name, ())) if owner else ()
            if owner and any(last_name(decorator).endswith("property") for decorator in owner.decorator_list):
                yield from _read(module).get(f"self.{owner.name}", ())
        case ast.For(target, iterated) if node is iterated:
            yield from reads(module, target)
        case _ if isinstance(up, _TARGETS):
            yield from (up,) if isinstance(up, ast.NamedExpr) else ()
            for target in up.targets if isinstance(up, ast.Assign) else [up.target]:
                yield from reads(module, target)


def called(module: SemanticModel, func: ast.expr) -> Function | None:
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


def reads_as_parameter(module: SemanticModel, node: ast.AST) -> list[ast.AST]:
    """Return where a function of the file reads what a call gives it with this argument."""
    up = module.parent(node)
    call = module.parent(up) if isinstance(up, ast.keyword) else up
    function = called(module, call.func) if isinstance(call, ast.Call) and call.func is not node else None
    if function is None or not isinstance(call, ast.Call):
        return []
    if isinstance(up, ast.keyword):
        return _reads_in(module, function, up.arg) if up.arg else []
    return _parameter(module, function, call.args, node)


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
