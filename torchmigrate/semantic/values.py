"""Reaching definitions, and values that are certain to be data, numbers or sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.project.called_operators import double_names, is_double
from torchmigrate.project.class_hierarchy import Definition, Place
from torchmigrate.project.import_graph import FROM_NUMPY
from torchmigrate.semantic.device_expr import is_cpu
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import calls_by_name
from torchmigrate.syntax.resolver import argument_of, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Function, Scope, given_defaults, own_nodes
from torchmigrate.torch_api.libraries import ENVIRONMENTS
from torchmigrate.torch_api.names import DOUBLES, NUMPY_FILLED, NUMPY_OF_NUMBERS, NUMPY_RANDOM

Given = list[tuple[ast.expr, ast.stmt]]  # values, each with the statement that assigns it
_OUTWARD = (ast.If, ast.With, ast.For, ast.While, ast.Try)  # a function may run at another time


def given_before(module: SemanticModel, name: str, statement: ast.stmt) -> Given | None:
    """Return a name's values at a statement by plain assignments, also in all arms of an `if`, else None."""
    return None if name in _declared(module) else _before(module, name, statement)


@query
def _declared(module: SemanticModel) -> frozenset[str]:
    """Return the names that any function of the file declares global or nonlocal."""
    declarations = (s for s in module.scopes.statements if isinstance(s, (ast.Global, ast.Nonlocal)))
    return frozenset(name for declaration in declarations for name in declaration.names)


def _before(module: SemanticModel, name: str, statement: ast.stmt) -> Given | None:
    up = module.parent(statement)
    if _binds(statement, name) and not isinstance(statement, (ast.Assign, ast.If)):
        return None
    if any(isinstance(n, ast.NamedExpr) and n.target.id == name for n in ast.walk(statement)):
        return None
    found = _last(module.blocks.before(statement), name)
    if found != []:
        return found
    return _before(module, name, up) if isinstance(up, _OUTWARD) else None


def _last(block: list[ast.stmt], name: str) -> Given | None:
    """Return the values that a block gives a name by its end; [] if the block does not bind the name."""
    return next((given for s in reversed(block) if (given := _given(s, name)) != []), [])


def _given(statement: ast.stmt, name: str) -> Given | None:
    times = _binds(statement, name)
    match statement:
        case _ if not times:
            return []
        case ast.Assign([ast.Name(target)], value) if target == name and times == 1:
            return [(value, statement)]
        case ast.If(test, body, orelse) if not _binds(test, name):
            arms = [_last(body, name), _last(orelse, name)]
            return [pair for arm in arms for pair in arm or ()] if all(arms) else None
    return None


def _binds(tree: ast.AST, name: str) -> int:
    """Count how often a tree binds or deletes a name, in any scope."""
    return sum(
        (isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load))
        or name in (getattr(n, "asname", None), getattr(n, "name", None), getattr(n, "rest", None))
        or (isinstance(n, ast.alias) and n.name == "*")
        for n in ast.walk(tree)
    )


_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
# functions of numpy that give an array and no number: for a shape that is written out, between two numbers (tensors
# would give a tensor), and for all arguments
_OF_SHAPE = {"zeros", "ones", "empty", "full"}
_BETWEEN = {"linspace", "logspace"}
_ARRAYS = {
    "arange", "eye", "identity", "random.rand", "random.randn", "random.permutation", "concatenate", "stack", "vstack",
    "hstack", "column_stack", "meshgrid",
}  # fmt: skip


def is_floats(data: ast.expr) -> bool:
    """Return whether data is a number or a list of numbers, all written out, that has a float in it or is empty."""
    numbers = list(_leaves_of(data)) if isinstance(data, (ast.List, ast.Tuple)) else [data]
    written = isinstance(data, (ast.List, ast.Tuple)) and all(map(_is_written, numbers))
    return written and (not numbers or any(map(_is_float, numbers)))


def _leaves_of(data: ast.List | ast.Tuple) -> Iterator[ast.expr]:
    for item in data.elts:
        if isinstance(item, (ast.List, ast.Tuple)):
            yield from _leaves_of(item)
        else:
            yield item


def _is_written(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value):
            return type(value) in (int, float)
        case ast.UnaryOp(ast.USub() | ast.UAdd(), operand):
            return _is_written(operand)
        case ast.BinOp(left, op, right):
            return isinstance(op, _ARITHMETIC) and _is_written(left) and _is_written(right)
    return False


def _is_float(number: ast.expr) -> bool:
    return any(isinstance(n, ast.Div) or isinstance(getattr(n, "value", None), float) for n in ast.walk(number))


class Values:
    """Answers what an expression is, by names at `statement` (None in a lambda or comprehension: unknown).

    `alone`: nothing else may hold the array. `torch.Tensor(array)` shares the array's memory on the CPU if it has the
    default dtype, and `torch.tensor` copies it.
    """

    def __init__(self, module: SemanticModel, scope: Scope) -> None:
        self.module, self.scope = module, scope

    def is_data(self, node: ast.expr, statement: ast.stmt | None, alone: bool = True) -> bool:
        return self._is_sequence(node, statement) or self._is_array(node, statement, alone)

    def _is_sequence(self, node: ast.expr, statement: ast.stmt | None) -> bool:
        match node:
            case ast.List() | ast.ListComp() | ast.Tuple():
                return True
            case ast.Call(ast.Name("list" | "sorted" | "range" as name)):
                return self.scope.find(name) is None
            case ast.Name(name):
                given = given_before(self.module, name, statement) if statement else None
                return bool(given) and all(self._is_sequence(value, at) for value, at in given or ())
        return False

    def _is_array(self, node: ast.expr, statement: ast.stmt | None, alone: bool) -> bool:
        """Return whether an expression is an array of one dimension or more; an integer array without any is a size."""
        match node:
            case ast.Call(ast.Attribute(array, "astype" | "copy")) if self._is_array(array, statement, False):
                return not any(k.arg == "copy" for k in node.keywords)
            case ast.Call(func, [first, *_]):
                home, _, name = (self.module.resolve(func, self.scope) or "").partition(".")
                return home == "numpy" and self._makes_array(name, first, node, statement, alone)
            case ast.BinOp(left, op, right) if isinstance(op, _ARITHMETIC):
                arrays = [side for side in (left, right) if self._is_array(side, statement, False)]
                return bool(arrays) and all(side in arrays or self._is_number(side) for side in (left, right))
            case ast.UnaryOp(ast.USub(), operand):
                return self._is_array(operand, statement, False)
            case ast.Name(name) if statement is not None:
                given = given_before(self.module, name, statement)
                known = bool(given) and all(self._is_array(value, at, alone) for value, at in given or ())
                return known and (not alone or self._is_handed_on(name, given or [], statement))
        return False

    def _makes_array(self, name: str, first: ast.expr, call: ast.Call, statement: ast.stmt | None, alone: bool) -> bool:
        if name in _OF_SHAPE:
            return (isinstance(first, (ast.List, ast.Tuple)) and bool(first.elts)) or is_size(self.module, first)
        if name in _BETWEEN:
            return len(call.args) > 1 and all(map(self._is_number, call.args[:2]))
        if name == "array":
            return self.is_data(first, statement, False) and not any(k.arg == "copy" for k in call.keywords)
        if name == "broadcast_to":
            return self._is_array(first, statement, alone)
        return name in _ARRAYS

    def _is_number(self, node: ast.expr) -> bool:
        """Return whether an expression (or a parameter's default) is a number, which makes the array no tensor."""
        match node:
            case ast.Call(ast.Name("float" | "int" | "len")):
                return True
            case ast.Attribute():
                return self.module.resolve(node, self.scope) in ("numpy.pi", "math.pi")
            case ast.Name(name):
                scope, bindings = self.scope.find(name) or (self.scope, [])
                values = [b.value or default_of(scope.node, b.node) for b in bindings]
                return bool(values) and all(v is not None and _is_written(v) for v in values)
        return _is_written(node)

    def _is_handed_on(self, name: str, given: Given, statement: ast.stmt) -> bool:
        """Return whether the statement is `x = torch.Tensor(x)` and nothing reads x between its assignment and here."""
        if not isinstance(statement, ast.Assign) or [getattr(t, "id", "") for t in statement.targets] != [name]:
            return False
        first = min(at.lineno for _, at in given)
        own = {n for _, at in given for n in ast.walk(at)}
        names = (n for n in ast.walk(self.scope.node) if isinstance(n, ast.Name) and n.id == name and n not in own)
        return not any(isinstance(n.ctx, ast.Load) and first <= n.lineno < statement.lineno for n in names)


def default_of(function: ast.AST, parameter: ast.AST) -> ast.expr | None:
    """Return a parameter's default, or None."""
    args = getattr(function, "args", None)
    if not isinstance(args, ast.arguments):
        return None
    return next((value for place, value in given_defaults(args) if place is parameter), None)


def is_annotation(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a node is, or stands in, an annotation or the name of a type: `x: T`, `Pair = Tuple[T, T]`."""
    below: ast.AST = node
    for up in module.ancestors(node):
        if getattr(up, "annotation", None) is below or getattr(up, "returns", None) is below:
            return True
        if isinstance(up, ast.Subscript) and below is up.slice and _is_generic(module, up.value):
            return True
        if isinstance(up, (ast.stmt, ast.Call, ast.Lambda)):
            return False
        below = up
    return False


_GENERIC = {"list", "tuple", "dict", "set", "frozenset", "type"}


def _is_generic(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether a type takes others in brackets: `typing.Tuple`, `list`."""
    is_builtin = isinstance(node, ast.Name) and node.id in _GENERIC and module.scope(node).find(node.id) is None
    return is_builtin or (module.resolve(node, module.scope(node)) or "").startswith(("typing.", "collections.abc."))


def type_test(module: SemanticModel, node: ast.AST) -> ast.Call | None:
    """Return the `isinstance(x, T)`, or unittest's assertion of it, whose T, or an item of it, is `node`; else None."""
    up = module.parent(node)
    below = node
    while isinstance(up, (ast.Tuple, ast.BinOp)):
        below, up = up, module.parent(up)
    match up:
        case ast.Call(ast.Name("isinstance" | "issubclass"), [_, asked]) if asked is below:
            return up
        case ast.Call(ast.Attribute(_, "assertIsInstance" | "assertNotIsInstance"), [_, asked, *_]) if asked is below:
            return up
    return None


def is_size(module: SemanticModel, node: ast.expr, deep: int = 3) -> bool:
    """Return whether an expression is certain to be a size. `.shape` is not: an array's is a tuple and therefore data.

    A number of a tensor is one: no tensor can be made of a single number. Of names, so many are followed; a parameter
    is what its default or its annotation says.
    """
    match node:
        case ast.Constant(bool()):
            return False
        case ast.Constant(int()):
            return True
        case ast.Call(ast.Name("len")) | ast.Call(ast.Attribute(_, "size"), _, []):
            return True
        case ast.Call(ast.Attribute(_, "item" | "numel"), [], []):
            return True
        case ast.Call(func):
            return module.resolve(func) == "torch.Size"
        case ast.BinOp(left, ast.Mult() | ast.Add() | ast.Sub() | ast.FloorDiv(), right):
            of_numbers = isinstance(left, ast.Constant | ast.Call)
            return of_numbers and is_size(module, left, deep) and is_size(module, right, deep)
        case ast.Name(name):
            found = module.scope(node).find(name) if deep else None
            if found is None:
                return False
            scope, bindings = found
            untold = [binding for binding in bindings if not _is_told_int(binding.node)]
            values = [binding.value or default_of(scope.node, binding.node) for binding in untold]
            return bool(bindings) and all(v is not None and is_size(module, v, deep - 1) for v in values)
    return False


def _is_told_int(parameter: ast.AST) -> bool:
    """Return whether a parameter is annotated as a number."""
    return (
        isinstance(parameter, ast.arg)
        and isinstance(parameter.annotation, ast.Name)
        and parameter.annotation.id == "int"
    )


# attributes of tensors that a PackedSequence lacks, which has `is_cuda` and no `device`
_OF_TENSORS = {
    "size",
    "shape",
    "dim",
    "ndim",
    "view",
    "reshape",
    "transpose",
    "numel",
    "new_zeros",
    "unsqueeze",
    "expand",
}


def is_used_as_tensor(module: SemanticModel, name: str, node: ast.AST) -> bool:
    """Return whether the code around a node uses a variable as only tensors are used: what packs some has no device."""
    function = module.function(node)
    for each in ast.walk(function) if function else module.nodes:
        match each:
            case ast.Attribute(ast.Name(found), attribute) if found == name and attribute in _OF_TENSORS:
                return True
            case ast.BinOp(ast.Name(found), ast.Sub() | ast.Div() | ast.MatMult(), _) if found == name:
                return True
            case ast.BinOp(_, ast.Sub() | ast.Div() | ast.MatMult(), ast.Name(found)) if found == name:
                return True
            case ast.Call(ast.Attribute(_, "expand_as" | "type_as" | "view_as"), [ast.Name(found)]) if found == name:
                return True
    return False


_TAKES_ARRAYS = {"torch.from_numpy", "torch.tensor", "torch.as_tensor"}
_GENERATORS = ("numpy.random.RandomState", "numpy.random.default_rng", "numpy.random.Generator")
_JOINS = {"stack", "concatenate", "hstack", "vstack"}  # of numpy
_TOLD = NUMPY_FILLED | {"array", "asarray", "full", "arange"}  # of numpy, with the dtype that is given
_CASTS = ("torch.float", "torch.half", "torch.bfloat", "torch.int", "torch.long")


@query
def doubles_moved(module: SemanticModel) -> dict[Function | None, list[int]]:
    """Return where each function has float64 on a device: an array of NumPy's or a tensor that is moved, or a cast."""
    found: dict[Function | None, list[int]] = {}
    if not any(word in module.source.utf8 for word in (b"numpy", b"float64", b"double", b"Double")):
        return found
    for statement in module.scopes.statements:
        for node in own_nodes(statement):
            if isinstance(node, ast.Call) and _puts_double(module, node, statement):
                found.setdefault(module.function(statement), []).append(module.span(node)[0])
    return found


def _puts_double(module: SemanticModel, call: ast.Call, statement: ast.stmt) -> bool:
    """Return whether a call is certain to give float64 on a device."""
    match call:
        case ast.Call(ast.Attribute(value, "cuda" | "to")):
            is_made = _is_double(module, value, statement) or _holds_double(module, value, statement)
            return is_made and not _is_of_cpu(module, call) and not _casts(module, call)
        case ast.Call(ast.Attribute(ast.Name(name), "double"), [], []):
            return _is_on_device(module, name, statement)
    given = [k.value for k in call.keywords if k.arg == "device"]
    is_put = bool(given) and not (isinstance(given[0], ast.Constant) and given[0].value in (None, "cpu"))
    return is_put and not _is_of_cpu(module, call) and _is_double(module, call, statement)


def _holds_double(module: SemanticModel, value: ast.expr, statement: ast.stmt) -> bool:
    """Return whether an expression gives float64 of what NumPy made in the same function."""
    return is_double(value, _double_names(module, module.function(statement)))


@query
def _double_names(module: SemanticModel, function: Function | None) -> frozenset[str]:
    apart = (*FUNCTIONS, ast.ClassDef)
    body = function.body if function else [s for s in module.tree.body if not isinstance(s, apart)]
    return double_names(body)


def _is_on_device(module: SemanticModel, name: str, statement: ast.stmt) -> bool:
    """Return whether a variable is certain to hold what was moved, or loaded, to a device other than the CPU."""
    values = given_before(module, name, statement)
    for before in module.blocks.before(statement):
        match before:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(moved), "to" | "cuda")) as call) if moved == name:
                values = [*(values or ()), (call, before)]
    return bool(values) and any(_moves_away(module, value, at) for value, at in values or ())


def _moves_away(module: SemanticModel, value: ast.AST, statement: ast.stmt) -> bool:
    """Return whether an expression ends with a move to another device, or loads to one."""
    match value:
        case ast.Call(ast.Attribute(_, "cuda")):
            return True
        case ast.Call(ast.Attribute(_, "to"), [where]):
            return not _is_of_cpu(module, value) and not _is_cast(module, where)
        case ast.Call(func, _, [ast.keyword("map_location", where)]):
            return module.resolve(func, module.scope(statement)) == "torch.load" and not _is_of_cpu(module, value)
        case ast.Call(ast.Attribute(inner, "eval" | "train" | "requires_grad_")):
            return _moves_away(module, inner, statement)
    return False


def _is_of_cpu(module: SemanticModel, call: ast.Call) -> bool:
    return any(is_cpu(module, each) for each in (*call.args, *(k.value for k in call.keywords)))


@query
def answers_moved(module: SemanticModel) -> dict[Function | None, list[int]]:
    """Return where each function moves what an environment's `step` or `reset` gave it, uncast: it may be float64."""
    found: dict[Function | None, list[int]] = {}
    if not any(name.encode() in module.source.utf8 for name in ENVIRONMENTS) or not _has_environments(module):
        return found
    answers: dict[Function | None, set[str]] = {}
    for statement in module.scopes.statements:
        match statement:
            case ast.Assign([target], ast.Call(ast.Attribute(_, "step" | "reset"))):
                names = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
                answers.setdefault(module.function(statement), set()).update(names)
    for statement in module.scopes.statements if answers else ():
        function = module.function(statement)
        for node in own_nodes(statement) if function in answers else ():
            if _array_moved(module, node, statement) in answers[function]:
                found.setdefault(function, []).append(module.span(node)[0])
    return found


def _array_moved(module: SemanticModel, node: ast.AST, statement: ast.stmt) -> str | None:
    """Return the name of an array of which a node makes a tensor of the same dtype on a device, or None."""
    match node:
        case ast.Call(ast.Attribute(ast.Call(maker, [ast.Name(name)], []), "cuda" | "to")) if not _casts(module, node):
            pass
        case ast.Call(maker, [ast.Name(name)], [ast.keyword("device")]):
            pass
        case _:
            return None
    return name if module.resolve(maker, module.scope(statement)) in _TAKES_ARRAYS else None


def _has_environments(module: SemanticModel) -> bool:
    return any(not scope.libraries().isdisjoint(ENVIRONMENTS) for scope in module.scopes)


def _casts(module: SemanticModel, move: ast.Call) -> bool:
    """Return whether a move names a dtype, too."""
    given = [*move.args, *(k.value for k in move.keywords)]
    return any(k.arg == "dtype" for k in move.keywords) or any(_is_cast(module, a) for a in given)


_CALCULATING = {"sqrt", "log", "exp", "power", "square", "cumprod", "divide", "multiply"}  # of numpy


@query
def results_moved(module: SemanticModel) -> dict[int, int]:
    """Return where a function moves its parameter, with a line that calls it with what a function of NumPy's gives.

    That is float64 where one of the numbers is, also if the others are of torch.
    """
    moves: dict[str, list[tuple[str, Function, int]]] = {}  # by the function's name
    for statement in module.scopes.statements if b"numpy" in module.source.utf8 else ():
        function = module.function(statement)
        parameters = {a.arg for a in function.args.args} - {"self"} if function is not None else set()
        for node in own_nodes(statement) if parameters else ():
            match node:
                case ast.Call(ast.Attribute(ast.Name(name), "cuda" | "to")) as move if name in parameters and function:
                    if not _casts(module, move):
                        moves.setdefault(function.name, []).append((name, function, module.span(move)[0]))
    found: dict[int, int] = {}
    for called, places in moves.items():
        for call, scope in calls_by_name(module).get(called, ()):
            for name, function, at in places:
                value = given_for(call, function, name)
                made = module.resolve(value.func, scope) if isinstance(value, ast.Call) else None
                home, _, what = (made or "").rpartition(".")
                if home == "numpy" and what in _CALCULATING:
                    found.setdefault(at, call.lineno)
    return found


def given_for(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """Return what a call of a function, or of a method, gives for a parameter."""
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    is_method = names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute)
    return argument_of(call, name, names.index(name) - is_method if name in names else len(call.args))


_SETS_DEFAULT = ("torch.set_default_dtype", "torch.set_default_tensor_type")
_DOUBLE_TYPES = (*DOUBLES, "torch.DoubleTensor")


@query
def double_defaults(module: SemanticModel) -> dict[Function | None, list[int]]:
    """Return where each function makes float64 the default dtype."""
    found: dict[Function | None, list[int]] = {}
    if b"set_default_" not in module.source.utf8:
        return found
    for statement in module.scopes.statements:
        match statement:
            case ast.Expr(ast.Call(func, [kind])) if module.resolve(func, module.scope(statement)) in _SETS_DEFAULT:
                values = [(kind, statement)]
                if isinstance(kind, ast.Name):
                    values = [*(given_before(module, kind.id, statement) or ())]
                if values and all(_is_double_type(module, value, at) for value, at in values):
                    found.setdefault(module.function(statement), []).append(module.span(statement)[0])
    return found


def _is_double_type(module: SemanticModel, node: ast.AST, statement: ast.stmt) -> bool:
    named = node.value if isinstance(node, ast.Constant) else module.resolve(node, module.scope(statement))
    return named in _DOUBLE_TYPES


def _is_cast(module: SemanticModel, node: ast.expr) -> bool:
    return (module.resolve(node, module.scope(node)) or "").startswith(_CASTS)


def _is_double(module: SemanticModel, node: ast.expr, statement: ast.stmt) -> bool:
    if isinstance(node, ast.Name):
        values = given_before(module, node.id, statement)
        return bool(values) and any(isinstance(v, ast.Call) and _is_double(module, v, s) for v, s in values or ())
    scope = module.scope(statement)
    match node:
        case ast.Call(ast.Attribute(_, "double"), [], []):
            return True
        case ast.Call(func, _, keywords) if any(k.arg == "dtype" for k in keywords):
            kinds = (k.value for k in keywords if k.arg == "dtype")
            is_torchs = (module.resolve(func, scope) or "").startswith("torch.")
            return is_torchs and all(_is_double_kind(module, kind, statement) for kind in kinds)
        case ast.Call(func, [data]) if module.resolve(func, scope) in _TAKES_ARRAYS:
            return _is_double_array(module, data, statement)
        case ast.Call(ast.Name(name)):
            functions = [*_functions(module, name)]
            return bool(functions) and all(map(_gives_doubles, functions))
    return False


def _is_double_kind(module: SemanticModel, kind: ast.expr, statement: ast.stmt) -> bool:
    """Return whether a dtype is float64, or one of those that a loop or `parametrize` gives one after the other."""
    listed: list[ast.expr] = [kind]
    name = kind.id if isinstance(kind, ast.Name) else None
    for up in (statement, *module.ancestors(statement)) if name else ():
        if isinstance(up, ast.For) and isinstance(up.target, ast.Name) and up.target.id == name:
            listed += getattr(up.iter, "elts", [])
        elif isinstance(up, FUNCTIONS):
            listed += _parametrized(up, name or "")
            break
    return any(
        module.resolve(each, module.scope(statement)) in DOUBLES or is_builtin_float(module, each) for each in listed
    )


def _parametrized(function: Function, name: str) -> Iterator[ast.expr]:
    """Yield the values that pytest gives a parameter of a test: `@pytest.mark.parametrize("dtype", [...])`."""
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(func, [ast.Constant(str(given)), (ast.List(elts) | ast.Tuple(elts)), *_]):
                if last_name(func) == "parametrize" and given == name:
                    yield from elts


def _functions(module: SemanticModel, name: str) -> Iterator[Function]:
    """Yield the functions that a name means, here or where the file imports it from, if they may take arrays."""
    path = str(module.path)
    bindings = module.scopes.module.names.get(name, ())
    homes = {path if b.local is None else module.facts.index.find(path, *b.local) for b in bindings}
    index = module.facts.index
    if not all(home in index.files and index.holds(home, FROM_NUMPY) for home in homes):
        return
    for meaning in module.facts.hierarchy.meanings(Place(path, module.scopes.module), name):
        if isinstance(meaning, Definition) and isinstance(meaning.node, FUNCTIONS):
            yield meaning.node


_COUNTS = ("bincount", "arange", "histogram")  # of numpy, with integers


def _gives_doubles(function: Function) -> bool:
    """Return whether a function gives back what it counts with NumPy and then divides, which makes float64."""
    given, counted, divided, cast = set[str](), set[str](), set[str](), set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Return(ast.Call(ast.Attribute(attr="from_numpy"), [ast.Name(name)])):
                given.add(name)
            case ast.Assign(
                [ast.Name(name)], ast.Call(ast.Attribute(ast.Name("np" | "numpy"), made), keywords=keywords)
            ):
                if made in _COUNTS and not any(k.arg == "dtype" for k in keywords):
                    counted.add(name)
            case ast.Assign([ast.Name(name)], ast.BinOp(_, ast.Div())) | ast.AugAssign(ast.Name(name), ast.Div()):
                divided.add(name)
            case ast.Attribute(ast.Name(name), "astype"):
                cast.add(name)
    return bool(given) and given <= (counted & divided) - cast


def is_builtin_float(module: SemanticModel, kind: ast.expr) -> bool:
    """Return whether a dtype is Python's own `float`, which torch and NumPy take for float64."""
    return isinstance(kind, ast.Name) and kind.id == "float" and module.scope(kind).find("float") is None


def _is_numpy_double(module: SemanticModel, kind: ast.expr, statement: ast.stmt) -> bool:
    """Return whether a dtype of NumPy's is float64, as Python's `float` is."""
    if isinstance(kind, ast.Constant):
        return kind.value in ("float64", "double", "float")
    named = module.resolve(kind, module.scope(statement))
    return is_builtin_float(module, kind) or named in ("numpy.float64", "numpy.double", "numpy.float_", "numpy.float")


def _is_double_array(module: SemanticModel, node: ast.expr, statement: ast.stmt) -> bool:
    if isinstance(node, ast.Name):
        values = given_before(module, node.id, statement)
        return bool(values) and any(isinstance(v, ast.Call) and _is_double_array(module, v, s) for v, s in values or ())
    match node:
        case ast.Call(ast.Attribute(maker, name)) if name in NUMPY_RANDOM and _is_generator(module, maker, statement):
            return True
        case ast.Call(func, args, keywords):
            home, _, name = (module.resolve(func, module.scope(statement)) or "").rpartition(".")
            if home == "numpy.random":
                return name in NUMPY_RANDOM
            if home == "numpy" and name in _JOINS and args:
                joined = args[0]
                parts = joined.elts if isinstance(joined, (ast.List, ast.Tuple)) else [getattr(joined, "elt", joined)]
                return any(_is_double_array(module, part, statement) for part in parts)
            if home != "numpy":
                return False
            if kinds := [k.value for k in keywords if k.arg == "dtype"]:
                return name in _TOLD and all(_is_numpy_double(module, kind, statement) for kind in kinds)
            if name in NUMPY_OF_NUMBERS and len(args) == 1:
                given = args[0]
                return _is_number(module, given, statement) or _is_double_array(module, given, statement)
            if name == "array":
                return len(args) == 1 and isinstance(args[0], ast.List) and bool(args[0].elts) and is_floats(args[0])
            return name in NUMPY_FILLED and (len(args) == 1 or name == "linspace")
    return False


def _is_number(module: SemanticModel, node: ast.expr, statement: ast.stmt) -> bool:
    """Return whether a value is a number that is written out, or a parameter, for which callers mostly give one."""
    match node:
        case ast.Constant(int() | float()):
            return True
        case ast.Name(name):
            function = module.function(statement)
            parameters = function.args if function is not None else None
            return parameters is not None and name in {a.arg for a in (*parameters.args, *parameters.kwonlyargs)}
    return False


def _is_generator(module: SemanticModel, node: ast.expr, statement: ast.stmt) -> bool:
    """Return whether a value is certain to be a generator of random numbers of NumPy's."""
    if isinstance(node, ast.Name):
        values = given_before(module, node.id, statement)
        return bool(values) and all(isinstance(v, ast.Call) and _is_generator(module, v, s) for v, s in values or ())
    return isinstance(node, ast.Call) and module.resolve(node.func, module.scope(statement)) in _GENERATORS
