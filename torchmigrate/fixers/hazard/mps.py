"""Fixers for what MPS lacks: float64, kernels, nested and sparse tensors, checkpoints of random layers."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project.called_operators import double_names, is_of_bytes
from torchmigrate.project.class_hierarchy import Definition, Place
from torchmigrate.project.import_graph import BORDER, TRAINING
from torchmigrate.semantic.dominance import called, know_parents, reads, reads_as_parameter
from torchmigrate.semantic.library_use import first_call, uses_torch
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.receiver import returned_values
from torchmigrate.semantic.references import (
    helper_function,
    identifiers,
    identifiers_in,
    mentions,
    spell,
    spelled,
    strings_in,
    words_in,
)
from torchmigrate.semantic.values import doubles_moved, given_before, is_builtin_float, results_moved
from torchmigrate.source.edits import Edit
from torchmigrate.source.encoding import occurs_in_code
from torchmigrate.syntax.resolver import argument_of, chain_of, is_same, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Function, Scope
from torchmigrate.torch_api.names import DOUBLES, DTYPE_WORDS, HALVES, NO_FALLBACK, SHAPING_METHODS, SINGLES

_MOVES = ("cuda", "to")


def float64(context: RuleContext) -> Iterator[Finding]:
    if isinstance(context.ref, ast.FunctionDef):
        yield from _items_of_dataset(context, context.ref)
    elif isinstance(context.ref, ast.Call):
        if _is_told_float(context, context.ref) and moved(context.module, context.ref):
            yield context.note()
        elif _adapts_its_steps(context, context.ref):
            yield context.note(_OF_SOLVERS)
    elif last_name(context.ref) in _HELD:
        doubles, path = context.module.facts.doubles, str(context.module.path)
        if any(doubles.is_held_as_double(each, path) for each in _held(context, _HELD[last_name(context.ref)])):
            yield context.note(_WITH_ITS_MODULE)
    elif context.qualified in ("torch.tensor", "torch.as_tensor"):
        is_put = context.call is not None and any(keyword.arg == "device" for keyword in context.call.keywords)
        made = context.module.span(context.call)[0] if context.call is not None and is_put else None
        is_told = context.call is not None and _says_double(context.call)  # reported where it stands
        if not is_told and made in doubles_moved(context.module).get(context.module.function(context.node), ()):
            yield context.note()
    elif isinstance(context.ref, ast.Attribute) and context.ref.attr in _MOVES:
        if context.call is None or not names_device(context.call):
            return
        module, at = context.module, context.module.span(context.call)[0]
        if _says_double(context.ref.value):
            return  # reported where it stands
        if at in doubles_moved(module).get(module.function(context.node), ()):
            yield context.note()
        elif (line := results_moved(module).get(at)) is not None:
            yield context.note(_OF_NUMPY.format(line))
    elif last_name(context.ref) == "double" and context.qualified != "torch.double":
        if context.call is not None and not context.call.args and moved(context.module, context.call):
            yield context.note()
    elif context.qualified == "torch.cuda.DoubleTensor" or moved(context.module, context.ref):
        yield context.note()
    elif (line := _line_of_alias(context)) is not None:
        yield context.note(_BY_NAME.format(line))


def _items_of_dataset(context: RuleContext, function: ast.FunctionDef) -> Iterator[Finding]:
    """Report float64 in what a dataset gives for an index: a DataLoader makes tensors of it, as it is."""
    owner = context.module.parent(function)
    bases = owner.bases if isinstance(owner, ast.ClassDef) and function.name == "__getitem__" else ()
    if not any(last_name(base).endswith("Dataset") for base in bases):
        return
    names = double_names(function.body)
    for given, _ in returned_values(context.module).get(function, ()):
        for item in given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]:
            if isinstance(item, ast.Name) and item.id in names:
                yield context.note(_OF_ITEMS.format(item.id), node=item)


# torchdiffeq's solvers that choose their steps; dopri5 is its default (torchdiffeq/_impl/odeint.py and rk_common.py)
_ADAPTIVE = ("dopri5", "dopri8", "tsit5", "bosh3", "fehlberg2", "adaptive_heun")


def _adapts_its_steps(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a call may choose an adaptive solver of torchdiffeq, which is not told another dtype."""
    if not (context.module.resolve(call.func) or "").startswith("torchdiffeq.odeint"):
        return False
    method, options = argument_of(call, "method", 5), argument_of(call, "options", 6)
    keys = options.keys if isinstance(options, ast.Dict) else []
    state = argument_of(call, "y0", 1)
    is_there = state is not None and not on_cpu(context.module, state, context.scope)
    is_fixed = isinstance(method, ast.Constant) and method.value not in (*_ADAPTIVE, None)
    return is_there and not is_fixed and not any(_is(key, "dtype") for key in keys)


def _is_told_float(context: RuleContext, call: ast.Call) -> bool:
    """Return whether torch is given Python's `float` as a dtype, which is float64: `x.to(device, dtype=float)`."""
    is_torchs = last_name(call.func) == "to" or (context.module.resolve(call.func) or "").startswith("torch.")
    given = (k.value for k in call.keywords if k.arg == "dtype") if is_torchs else ()
    return any(isinstance(kind, ast.Name) and is_builtin_float(context.module, kind) for kind in given)


def _line_of_alias(context: RuleContext) -> int | None:
    """Return a line that makes float64 on a device by a name that the file gives this dtype, or None."""
    up, module = context.parent, context.module
    if not isinstance(up, ast.Assign) or up.value is not context.node or module.function(up) is not None:
        return None
    know_parents(module)
    given = (each for target in up.targets for each in reads(module, target))
    named = (each for each in given if isinstance(module.parent(each), ast.keyword))  # `x.to(KIND)` names no device
    found = (each for each in named if moved(module, each))
    return next((module.source.position(module.span(each)[0])[0] for each in found), None)


def _held(context: RuleContext, position: int) -> list[ast.expr]:
    """Return what a module holds from then on: an argument, or the values that its name was given before."""
    module, given = context.module, context.call.args[position:][:1] if context.call is not None else []
    if given and isinstance(given[0], ast.Name):
        return [value for value, _ in given_before(module, given[0].id, module.statement(given[0])) or ()]
    return given


_HELD = {"register_buffer": 1, "Parameter": 0}  # with the position of what a module then holds
_WITH_ITS_MODULE = (
    "a module holds this as float64, which NumPy's arrays are by default; MPS has none, so that moving the module "
    "there raises: cast it, `.float()`"
)
_BY_NAME = "line {} makes this on a device, and MPS has no float64, so that it raises there: float32, or the CPU"


def _says_double(made: ast.expr) -> bool:
    """Return whether an expression names its dtype itself: `x.double()`, `torch.zeros(2, dtype=torch.float64)`."""
    if not isinstance(made, ast.Call):
        return False
    is_cast = isinstance(made.func, ast.Attribute) and made.func.attr == "double"
    return is_cast or any(keyword.arg == "dtype" for keyword in made.keywords)


_OF_ITEMS = (
    "`{}` holds float64, as NumPy's arrays do by default, and a DataLoader makes a tensor of it as it is: MPS has no "
    "float64, so that moving it there raises: `.astype(np.float32)`"
)
_OF_SOLVERS = (
    "torchdiffeq's adaptive solvers, of which dopri5 is the default, keep their times in float64 on the device of the "
    'state, and MPS has none: give `options={"dtype": torch.float32}`, or a method with fixed steps'
)
_OF_NUMPY = (
    "line {} hands over a result of NumPy's, which is float64 if one of its numbers is; MPS has no float64, "
    "so that this raises there: `.float()` before the move"
)


def moved_array(context: RuleContext) -> Iterator[Finding]:
    """Cast an array before it is moved where it is cast right after: NumPy's numbers are float64, which MPS lacks."""
    module, made = context.module, context.node
    if isinstance(context.ref, ast.Attribute) and context.ref.attr in ("float", "type"):
        yield from _moved_tensor(context)
        return
    if isinstance(made, ast.Call) and _is_cast_below(module, made):
        end = module.span(made)[1]
        yield context.fix([Edit(end, end, ".float()")], where_cuda_is_named(module))
        return
    up = module.parent(_shaped(module, made))
    moving = module.parent(up) if isinstance(up, ast.Attribute) and up.attr == "to" else None
    if not isinstance(made, ast.Call) or not isinstance(moving, ast.Call) or not names_device(moving):
        return
    if any(isinstance(given, ast.Compare) for given in made.args):
        return  # of truth values
    item: ast.AST = moving
    while isinstance(up := module.parent(item), ast.Subscript) and up.value is item:
        item = up
    cast = module.parent(up) if isinstance(up, ast.Attribute) else None
    if isinstance(cast, ast.Call) and cast.func is up and _makes_narrow(module, cast):
        (_, after), (_, end), (_, last) = map(module.span, (made, item, cast))
        moved = module.source.utf8[end:last].decode().strip().removeprefix("\\").strip()
        edits = [Edit(after, after, moved), Edit(end, last, "")]
        yield context.fix(edits, where_cuda_is_named(module))


def _is_cast_below(module: SemanticModel, made: ast.Call) -> bool:
    """Return whether a tensor of divided numbers is moved in a statement below, and made float32 in a later one."""
    match statement := module.parent(made):
        case ast.Assign([ast.Name(name)]) if any(_is_divided(module, given) for given in made.args):
            block, at = module.blocks.place(statement)
            is_moved = False
            for below in block[at + 1 :]:
                if _moves_name(module, below, name):
                    is_moved = True
                elif name in identifiers_in(module, below):
                    return is_moved and _casts_name(module, below, name)
    return False


def _is_divided(module: SemanticModel, array: ast.expr) -> bool:
    """Return whether a name of the same function was given a quotient: NumPy makes float64 of integers then."""
    found = module.scope(array).find(array.id) if isinstance(array, ast.Name) else None
    values = [binding.value for binding in found[1] if binding.value is not None] if found else []
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) for value in values for n in ast.walk(value))


def _moves_name(module: SemanticModel, statement: ast.stmt, name: str) -> bool:
    """Return whether a statement only moves what a name holds, itself, in a branch, or by a function of the file."""
    match statement:
        case ast.If(test, body, []):
            return name not in identifiers_in(module, test) and all(_moves_name(module, s, name) for s in body)
        case ast.Assign([ast.Name(target)], ast.Call(ast.Attribute(ast.Name(moved), "to")) as call):
            return target == moved == name and names_device(call)
        case ast.Assign([ast.Name(target)], ast.Call(func, [ast.Name(given)], [])) if target == given == name:
            function = called(module, func)
            return function is not None and any(isinstance(n, ast.Call) and names_device(n) for n in ast.walk(function))
    return False


def _casts_name(module: SemanticModel, statement: ast.stmt, name: str) -> bool:
    """Return whether a statement makes float32 of what a name holds, on each way."""
    if not isinstance(statement, ast.Assign):
        return False
    ways = [statement.value]
    if isinstance(statement.value, ast.IfExp):
        ways = [statement.value.body, statement.value.orelse]
    return all(isinstance(way, ast.Call) and _is_cast_of(module, way, name) for way in ways)


def _is_cast_of(module: SemanticModel, cast: ast.Call, name: str) -> bool:
    match cast:
        case ast.Call(ast.Attribute(ast.Name(held))) if held == name:
            return _makes_narrow(module, cast, (*SINGLES, "torch.FloatTensor", "torch.cuda.FloatTensor"))
        case ast.Call(func, [ast.Name(held), kind]) if held == name:
            return helper_function(module, func) == "cast" and module.resolve(kind) in SINGLES
    return False


def _moved_tensor(context: RuleContext) -> Iterator[Finding]:
    """Report `x.to(device).float()` where `x` comes from elsewhere: the cast says that it need not be float32."""
    module = context.module
    match context.call:
        case ast.Call(ast.Attribute(ast.Call(ast.Attribute(given, "to")) as move)) as cast if _makes_narrow(
            module, cast, SINGLES
        ):
            is_told = is_of_bytes(module.parent(cast)) or not names_device(move) or not module.facts.is_for_devices
            is_array = _is_of_arrays(module, given)
            if not is_told and (is_array or _comes_from_elsewhere(module, given)):
                (_, after), (_, end), (_, last) = map(module.span, (given, move, cast))
                edits = [Edit(after, after, module.source.utf8[end:last].decode()), Edit(end, last, "")]
                if is_array:
                    yield context.fix(edits, where_cuda_is_named(module))
                else:
                    yield replace(context.fix(edits, Safety.UNSAFE, _MAY_BE_DOUBLE), raises=True)


_MAY_BE_DOUBLE = (
    "MPS cannot hold float64, which is what NumPy's numbers are unless something else is asked for: "
    "if this tensor holds it, cast before the move, which gives the same numbers"
)


_JOINS = ("torch.stack", "torch.cat")


def _is_of_arrays(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether tensors that NumPy's arrays become are joined, in any shape: `torch.stack(found).reshape(2, -1)`.

    What is joined stands there, or is what a name was last given above.
    """
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
        node = node.func.value
    if not isinstance(node, ast.Call) or module.resolve(node.func) not in _JOINS or not node.args:
        return False
    joined = node.args[0]
    given = given_before(module, joined.id, module.statement(node)) if isinstance(joined, ast.Name) else None
    values = [value for value, _ in given or ()] or [joined]
    made = (value.elt if isinstance(value, ast.ListComp) else value for value in values)
    return any(isinstance(each, ast.Call) and module.resolve(each.func) == "torch.from_numpy" for each in made)


def _comes_from_elsewhere(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether a value is a parameter of a function, what a loop gives, or an item of such a value."""
    while isinstance(node, ast.Subscript):
        node = node.value
    found = module.scope(node).find(node.id) if isinstance(node, ast.Name) else None
    return found is not None and any(binding.value is None for binding in found[1])


_SHAPES = SHAPING_METHODS | {"flatten"}


def _shaped(module: SemanticModel, node: ast.AST) -> ast.AST:
    """Return the outermost expression that has the elements of a tensor in another shape: `x[None].permute(1, 0)`."""
    while (up := module.parent(node)) is not None:
        call = module.parent(up)
        if isinstance(up, ast.Attribute) and up.attr in _SHAPES and isinstance(call, ast.Call) and call.func is up:
            node = call
        elif isinstance(up, ast.Subscript) and up.value is node:
            node = up
        else:
            break
    return node


_NARROW = {*SINGLES, *HALVES}


def _makes_narrow(module: SemanticModel, cast: ast.Call, kinds: Container[str | None] = _NARROW) -> bool:
    """Return whether a call makes numbers that MPS has of float64: `.float()`, or `.type(x)` of these kinds."""
    match cast:
        case ast.Call(ast.Attribute(attr="float" | "half"), [], []):
            return True
        case ast.Call(ast.Attribute(attr="type" | "to"), [dtype], []) | ast.Call(
            ast.Attribute(attr="type" | "to"), [], [ast.keyword("dtype", dtype)]
        ):
            return module.resolve(dtype) in kinds
    return False


def where_cuda_is_named(module: SemanticModel) -> Safety:
    """Return that a fix is safe in a file that mentions CUDA: another need not be about devices at all."""
    return Safety.SAFE if occurs_in_code(module.original, b"cuda") else Safety.UNSAFE


def moved(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a call of the same chain, or of the chain that takes this dtype, names a device."""
    above = list(_above(module, node))
    taking = [above[0].func] if above and _takes_dtype(above[0]) else []
    below = (call for each in (node, *taking) for call in _below(each))
    return any(map(names_device, (*above, *below)))


def _above(module: SemanticModel, node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that the value goes through: `x.double().to(d)`; not `g(f(x.double()))`."""
    below = node
    for up in module.ancestors(node):
        if isinstance(up, ast.Call):
            if below is not up.func and not isinstance(below, ast.keyword) and not _takes_dtype(up):
                return
            yield up
        elif not isinstance(up, (ast.Attribute, ast.keyword)):
            return
        below = up


def _takes_dtype(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type", "astype", "cast", "tensor_type")


def _below(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that made the receiver: `x.cuda().double()`."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Call):
            yield node
        node = node.func if isinstance(node, ast.Call) else node.value


def names_device(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name == "cuda" or chain_of(call.func) in _HELPERS:
        return True
    if any(k.arg == "device" and not _is_cpu(k.value) for k in call.keywords):
        return True
    return name == "to" and any(
        not _is_cpu(a) and (chain_of(a) or "").rpartition(".")[2] not in DTYPE_WORDS for a in call.args[:1]
    )


_HELPERS = ("accel.cast", "accel.tensor_type", "accel.set_default_tensor_type")


def _is_cpu(node: ast.expr) -> bool:
    """Return whether an argument is None, or has "cpu" in it, as `torch.device("cpu")` does."""
    return (isinstance(node, ast.Constant) and node.value is None) or any(
        isinstance(below, ast.Constant) and below.value == "cpu" for below in ast.walk(node)
    )


_ON_CPU = ("cpu", "numpy", "from_numpy")
_FACTORIES = ("tensor", "zeros", "ones", "empty", "full", "arange", "linspace", "rand", "randn", "randperm", "eye")


def double(context: RuleContext) -> Iterator[Finding]:
    if context.call is None or not isinstance(context.ref, ast.Attribute) or not uses_torch(context.module):
        return
    if context.ref.attr != "double":
        if not _is_cast_to_double(context.module, context.call):
            return
    elif context.call.args or context.call.keywords:
        return
    if not moved(context.module, context.call) and not on_cpu(
        context.module, context.ref.value, context.module.scope(context.ref)
    ):
        yield _after_the_cpu(context, context.ref) or _by_the_helper(context) or context.note()


def _is_cast_to_double(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call casts to float64 and does nothing else: `x.to(torch.float64)`, `x.type(torch.double)`."""
    match call:
        case ast.Call(_, [dtype], []) | ast.Call(_, [], [ast.keyword("dtype", dtype)]):
            return module.resolve(dtype) in DOUBLES
    return False


def _by_the_helper(context: RuleContext) -> Finding | None:
    """Return the fix of `x.eq(y).double()` in a project that knows CUDA: what a name holds may be a module."""
    match context.ref:
        case ast.Attribute(ast.Call(ast.Attribute(_, method)), "double") if (
            method.islower() and context.module.facts.is_for_devices
        ):
            safety = where_cuda_is_named(context.module)
            return context.rewrite("$x.double()", "accel.double($x)", safety=safety, message=_ON_THE_CPU)
    return None


_ON_THE_CPU = (
    "MPS and some XPUs have no float64: there, what the helper makes of it is on the CPU; elsewhere nothing changes"
)


def _after_the_cpu(context: RuleContext, double: ast.Attribute) -> Finding | None:
    """Return the fix of `x.double().cpu()`, which is `x.cpu().double()` on every device, or None."""
    module = context.module
    to_cpu = module.parent(context.call) if context.call else None
    match to_cpu, module.parent(to_cpu) if to_cpu else None:
        case ast.Attribute(attr="cpu"), ast.Call(func, [], []) if func is to_cpu and double.attr == "double":
            ends = [(module.span(node)[1], len(node.attr)) for node in (double, func)]
            edits = [Edit(end - size, end, name) for (end, size), name in zip(ends, ("cpu", "double"), strict=True)]
            return context.fix(edits, Safety.SAFE, "MPS has no float64, and this makes it before it moves to the CPU")
    return None


def on_cpu(module: SemanticModel, node: ast.expr, scope: Scope) -> bool:
    """Return whether a value is certainly on the CPU: `x.cpu().sum()`, `torch.zeros(3)`, or names of these."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Call) and (chain_of(node.func) or _last(node.func)).rpartition(".")[2] in _ON_CPU:
            return True
        if isinstance(node, ast.Call) and _makes_cpu_tensor(module, node, scope):
            return True
        if isinstance(node, ast.Call) and _moves(node):
            return False
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and _given_cpu(module, node.id, scope)


def _moves(call: ast.Call) -> bool:
    """Return whether a call is `.cuda()`, or a `.to(...)` that names more than a dtype."""
    name = _last(call.func)
    given = [*call.args, *(k.value for k in call.keywords if k.arg != "dtype")]
    return name == "cuda" or (
        name == "to" and any((chain_of(a) or "").rpartition(".")[2] not in DTYPE_WORDS for a in given)
    )


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _makes_cpu_tensor(module: SemanticModel, call: ast.Call, scope: Scope) -> bool:
    home, _, name = (module.resolve(call.func, scope) or "").rpartition(".")
    return home == "torch" and name in _FACTORIES and not any(k.arg == "device" for k in call.keywords)


def _given_cpu(module: SemanticModel, name: str, scope: Scope) -> bool:
    found = scope.find(name)
    values = [binding.value for binding in found[1]] if found else []
    if not values:
        return False
    return all(isinstance(v, ast.Call) and name not in _names(v) and on_cpu(module, v, scope) for v in values)


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def type_of_another(context: RuleContext) -> Iterator[Finding]:
    """Make `x.type(y.type())` `x.type_as(y)`; report a type's name that is handed on in a file that casts to such."""
    module, inner = context.module, context.call
    if inner is None or inner.args or inner.keywords or not (uses_torch(module) and module.facts.is_for_devices):
        return
    match module.parent(inner):
        case ast.Call(ast.Attribute(made, "type"), [given], []) as cast if given is inner:
            # what is computed is a tensor; a name may hold a storage, which has no `type_as`
            is_computed = isinstance(made, (ast.Compare, ast.BinOp, ast.UnaryOp))
            safety = where_cuda_is_named(module) if is_computed else Safety.UNSAFE
            yield context.rewrite("$x.type($y.type())", "$x.type_as($y)", cast, safety) or context.note()
        case ast.Call(ast.Name("print" | "str" | "type") | ast.Attribute(attr="format")):
            return
        case ast.keyword() | ast.Call() if edits := _casts_with(context, inner):
            yield context.fix(edits, where_cuda_is_named(module), _CAST)
        case ast.Assign() if _casts_to_a_name(module):
            yield context.note(_HANDED_ON)
        case ast.keyword() | ast.Call() as up:
            call = up if isinstance(up, ast.Call) else module.parent(up)
            if inner is not getattr(up, "func", None) and (_casts_to_a_name(module) or _is_given_to_cast(module, call)):
                yield context.note(_HANDED_ON)


_CAST = "on MPS this is 'torch.mps.FloatTensor', which `.type(...)` takes for no type: `accel.cast()` takes it there"
_HANDED_ON = (
    "on MPS this is 'torch.mps.FloatTensor', which `.type(...)` takes for no type: hand on the tensor, and call "
    "`.type_as(...)`"
)


def _casts_with(context: RuleContext, inner: ast.Call) -> list[Edit]:
    """Return edits that cast by the helper in a function of the file that is given a type's name, if it only casts."""
    module, edits = context.module, list[Edit]()
    know_parents(module)
    for read in reads_as_parameter(module, inner):
        cast = module.parent(read)
        is_cast = isinstance(cast, ast.Call) and last_name(cast.func) == "type" and cast.args == [read]
        found = context.rewrite("$x.type($y)", "accel.cast($x, $y)", cast) if is_cast else None
        if found is None or found.fix is None:
            return []
        edits += found.fix.edits
    return edits


@query
def _casts_to_a_name(module: SemanticModel) -> bool:
    """Return whether a file casts to a type that a variable holds: `x.type(dtype)`."""
    for node in module.nodes:
        match node:
            case ast.Call(ast.Attribute(attr="type"), [ast.Name() as name], []):
                if module.resolve(name, module.scope(name)) is None:
                    return True
    return False


def _is_given_to_cast(module: SemanticModel, call: ast.AST | None) -> bool:
    """Return whether a call is one of a function of another file that casts to what a parameter holds."""
    chain = chain_of(call.func) if isinstance(call, ast.Call) and module.facts.files else None
    if call is None or not chain:
        return False
    meanings = module.facts.hierarchy.meanings(Place(str(module.path), module.scope(call)), chain)
    functions = [m.node for m in meanings if isinstance(m, Definition) and isinstance(m.node, FUNCTIONS)]
    return any(_casts_to_parameter(function) for function in functions)


def _casts_to_parameter(function: Function) -> bool:
    names = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    for node in ast.walk(function):
        match node:
            case ast.Call(ast.Attribute(attr="type"), [ast.Name(name)], []) if name in names:
                return True
    return False


_DROPS = re.compile("[Dd]rop_?([Oo]ut|[Pp]ath)|^(rand_like|randn_like|rrelu|RReLU)$")


def mps_checkpoint(context: RuleContext) -> Iterator[Finding]:
    """Report the first checkpoint of a file that draws random numbers: MPS draws others to recompute it."""
    module = context.module
    if context.call is None or not module.facts.is_for_devices or not _is_random(module):
        return
    if _first(module, tuple(context.rule.on)) is context.call and not mentions(module, "torch.mps"):
        yield context.note()


@query
def _is_random(module: SemanticModel) -> bool:
    """Return whether a file has dropout in it, or calls torch for random numbers."""
    if any(map(_DROPS.search, identifiers_in(module, module.tree) | strings_in(module, module.tree))):
        return True
    drawn = (
        n for n in module.nodes if isinstance(n, ast.Attribute) and n.attr.startswith(("rand", "bernoulli", "normal"))
    )
    return any((chain_of(n.value) or "").rpartition(".")[2] in ("torch", "F") for n in drawn)


@query
def _first(module: SemanticModel, names: tuple[str, ...]) -> ast.Call | None:
    """Return the first of these calls that keeps the state of the generators."""
    calls = [n for n in module.nodes if isinstance(n, ast.Call) and module.resolve(n.func) in names]
    return min((call for call in calls if not _is_off(call)), key=module.span, default=None)


def _is_off(call: ast.Call) -> bool:
    return any(
        k.arg == "preserve_rng_state" and isinstance(k.value, ast.Constant) and not k.value.value for k in call.keywords
    )


_ALONE_ON_CPU = {"torch.logspace"}


def mps_operator(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None or _falls_back_already(context.module, call):
        return
    if context.qualified is None and not uses_torch(context.module):
        return
    name = context.qualified or (f".{context.ref.attr}" if isinstance(context.ref, ast.Attribute) else "")
    since = context.rule.since.get(name)
    if (since and context.module.facts.torch_at_least(f">={since}")) or _needs_none(context, name, call):
        return
    when = f"before torch {since}" if since else "as of torch 2.13"
    shown = name if context.qualified else f"Tensor{name}"
    lacks = f"`{shown}` has no MPS kernel {when}"
    if is_partial(name):
        lacks = f"`{shown}` raises on MPS where one size does not divide the other"
    yield _falling_back(context, name, call, lacks) or context.note(f"{lacks}: {context.rule.message}")


def _falls_back_already(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a module is made for the helper's `cpu_fallback`, or a function called that comes from there."""
    up = module.parent(call)
    return any(isinstance(c, ast.Call) and helper_function(module, c.func) == "cpu_fallback" for c in (up, call.func))


def _falling_back(context: RuleContext, name: str, call: ast.Call, lacks: str) -> Finding | None:
    """Return the fix that computes on the CPU where the tensors are on MPS, or None if the call is no plain one."""
    is_module = name.startswith("torch.nn.") and name.rpartition(".")[2][0].isupper()
    is_spoiled = any(k.arg in ("out", "inplace", None) for k in call.keywords)
    is_plain = name not in NO_FALLBACK and not name.startswith((".", "torch.distributions.", "torch.nn.utils."))
    if not context.module.facts.is_for_devices or is_spoiled or not is_plain:
        return None
    start, end = context.module.span(call if is_module else call.func)
    edits = [Edit(start, start, spell("accel.cpu_fallback(", spelled(context.module))), Edit(end, end, ")")]
    return context.fix(edits, where_cuda_is_named(context.module), f"{lacks}: {_FALLS_BACK}")


def mps_grid_sample(context: RuleContext) -> Iterator[Finding]:
    """Yield a finding for `grid_sample` where MPS lacks a part of it in a release that the project allows."""
    call, name, since = context.call, context.qualified or "", next(iter(context.rule.since.values()))
    if call is None or context.module.facts.torch_at_least(f">={since}") or _falls_back_already(context.module, call):
        return
    module, padding = context.module, argument_of(call, "padding_mode", 3)
    names_border = "border" in strings_in(module, module.tree) or _in_other_files(module, *BORDER)
    is_open = padding is not None and not isinstance(padding, ast.Constant) and names_border
    lacking = []
    if "backward" in identifiers_in(module, module.tree) or _in_other_files(module, TRAINING):
        lacking.append(f"has no gradient of `{name}`")
    if _is(padding, "border") or is_open:
        lacking.append(f"cannot pad with borders{', which this may ask for,' if is_open else ''}")
    if not lacking:
        return
    lacks = f"MPS {' and '.join(lacking)} before torch {since}"
    if not _needs_none(context, name, call):
        yield _falling_back(context, name, call, lacks) or context.note(f"{lacks}: {context.rule.message}")


def _in_other_files(module: SemanticModel, *words: bytes) -> bool:
    """Return whether another file of the project has one of these words, which must be some of WORDS."""
    return any(module.facts.index.holding(word) - {str(module.path)} for word in words)


_FALLS_BACK = "what the helper is given comes to the CPU for it there, and goes back; elsewhere nothing changes"


def _needs_none(context: RuleContext, name: str, call: ast.Call) -> bool:
    """Return whether an operator needs no MPS kernel: on the CPU, a factory without a device, or a mean."""
    if name in _ALONE_ON_CPU:
        return not any(k.arg == "device" for k in call.keywords)
    if name.endswith(("AdaptiveAvgPool3d", "adaptive_avg_pool3d")) and _is_mean(name, call):
        return True
    if name == _INTERPOLATES and not any(k.arg == "mode" and _is(k.value, "area") for k in call.keywords):
        return True
    if is_partial(name) and name != _INTERPOLATES:
        sizes = [_only_value(context.module, size) for size in _sizes(name, call)]
        if all(isinstance(size, ast.Constant) for size in sizes):
            return True  # people choose a number that fits
    if name.startswith("torch.nn.") and not name.startswith("torch.nn.functional."):
        return False
    values = [call.func.value] if name.startswith(".") and isinstance(call.func, ast.Attribute) else call.args[:1]
    values += [k.value for k in call.keywords if k.arg in ("input", "A", "rate", "probs", "total_count")]
    return bool(values) and all(
        isinstance(value, ast.Constant) or on_cpu(context.module, value, context.scope) for value in values
    )


_INTERPOLATES = "torch.nn.functional.interpolate"  # mode "area" is an average over parts


def is_partial(name: str) -> bool:
    """Return whether MPS has an operator for some sizes only (pytorch #96056)."""
    return name == _INTERPOLATES or name.endswith(("AvgPool1d", "AvgPool2d", "avg_pool1d", "avg_pool2d"))


def _is_mean(name: str, call: ast.Call) -> bool:
    """Return whether a pooling makes one element: that is a mean, which every backend has."""
    return all(_is(size, 1) for size in _sizes(name, call))


def _sizes(name: str, call: ast.Call) -> list[ast.expr | None]:
    """Return the sizes that a pooling is asked for; [None] for none."""
    at = 0 if name.rpartition(".")[2].startswith("Adaptive") else 1
    given = [*(k.value for k in call.keywords if k.arg == "output_size"), *call.args[at:]]
    size = given[0] if given else None
    return list(size.elts) if isinstance(size, (ast.Tuple, ast.List)) else [size]


_ATTENTION = ("scaled_dot_product_attention", "MultiheadAttention", "to_padded_tensor")
_STRIDED = "MPS has no nested tensors of the strided layout and raises: `layout=torch.jagged`, or padded tensors, there"
_JAGGED = (
    "on MPS attention over nested tensors and `to_padded_tensor` raise, as their kernels are the CPU's and CUDA's: "
    "pad the batch and mask it there"
)
_ENCODER = (
    "on MPS this raises in eval mode once it is given `src_key_padding_mask` (`aten::_nested_tensor_from_mask_left_"
    "aligned` has no MPS kernel): "
)


def nested(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None:
        return
    name = (context.qualified or "").rpartition(".")[2]
    given = {k.arg: k.value for k in call.keywords}
    if None in given or _is(given.get("device"), "cpu"):
        return
    if name in ("TransformerEncoder", "Transformer"):
        yield from _encoder(context, call, name)
    elif name == "to_padded_tensor":
        if _is_first(context):
            yield context.note(_JAGGED)
    elif not _is_jagged(context, given.get("layout"), name):
        yield context.note(_STRIDED)
    elif not identifiers(context.module).isdisjoint(_ATTENTION) and _is_first(context):
        yield context.note(_JAGGED)


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _is_jagged(context: RuleContext, layout: ast.expr | None, name: str) -> bool:
    """Return whether a nested tensor's layout is jagged, which works, or is not spelled out."""
    if name == "nested_tensor_from_jagged":
        return True
    return layout is not None and context.module.resolve(layout) != "torch.strided"


def _is_first(context: RuleContext) -> bool:
    return (
        first_call(context.module, [name for name in context.rule.on if name.startswith("torch.nested.")])
        is context.call
    )


def _encoder(context: RuleContext, call: ast.Call, name: str) -> Iterator[Finding]:
    """Report an encoder that takes the nested path: in evaluation, batch first, normalising last."""
    layer = call if name == "Transformer" else _layer(context.module, call)
    given = {k.arg: k.value for k in layer.keywords} if layer is not None else {}
    nested = next((k.value for k in call.keywords if k.arg == "enable_nested_tensor"), None)
    if not _is(given.get("batch_first"), True) or _is(given.get("norm_first"), True):
        return
    masked = "src_key_padding_mask" in words_in(context.module, context.module.tree)
    if not masked or not (nested is None or _is(nested, True)):
        return
    remedy = "`enable_nested_tensor=False`" if name == "TransformerEncoder" else "`encoder.use_nested_tensor = False`"
    yield context.note(f"{_ENCODER}{remedy} keeps to padded tensors")


def _layer(module: SemanticModel, call: ast.Call) -> ast.Call | None:
    """Return the `TransformerEncoderLayer(...)` that is an encoder's argument, also by one name or attribute."""
    first = _only_value(module, argument_of(call, "encoder_layer", 0))
    return first if isinstance(first, ast.Call) else None


def _only_value(module: SemanticModel, node: ast.expr | None) -> ast.expr | None:
    """Return the one value that a name or an attribute is assigned in the file, or the expression itself."""
    if isinstance(node, ast.Name):
        found = module.scope(node).find(node.id)
        return found[1][0].value if found and len(found[1]) == 1 else None
    if isinstance(node, ast.Attribute):
        attribute = node
        assigned = (s for s in module.scopes.statements if isinstance(s, ast.Assign))
        given = [s.value for s in assigned if any(_assigns(target, attribute) for target in s.targets)]
        return given[0] if len(given) == 1 else None
    return node


def _assigns(target: ast.expr, attribute: ast.Attribute) -> bool:
    """Return whether a target is this attribute of the same object, by its spelling."""
    if not isinstance(target, ast.Attribute) or target.attr != attribute.attr:
        return False
    return is_same(target.value, attribute.value)


_CUDA_ALONE = {
    "torch.sparse.to_sparse_semi_structured": "semi-structured sparsity",
    "torch.sparse.SparseSemiStructuredTensor": "semi-structured sparsity",
    "torch.sparse.SparseSemiStructuredTensorCUTLASS": "semi-structured sparsity",
    "torch.sparse.SparseSemiStructuredTensorCUSPARSELT": "semi-structured sparsity",
    "torch.sparse.spsolve": "solving sparse systems",
}


def sparse(context: RuleContext) -> Iterator[Finding]:
    name = context.qualified or ""
    if name in _CUDA_ALONE:
        if context.call is not None or isinstance(
            context.parent, ast.Attribute
        ):  # a class that is named asks for nothing
            what = f"{_CUDA_ALONE[name]} is CUDA's alone and raises elsewhere: keep it dense there"
            yield context.note(what, blocks=True)
    elif context.call is not None and not _on_cpu(context, context.call):
        yield replace(context.note(), backends=("mps",))


def coo(context: RuleContext) -> Iterator[Finding]:
    """Yield a finding for a COO tensor that is made, where the project allows a release in which MPS has none."""
    call, since = context.call, next(iter(context.rule.since.values()))
    if call is None or not context.module.facts.is_for_devices or context.module.facts.torch_at_least(f">={since}"):
        return
    if any(k.arg == "layout" for k in call.keywords) or _on_cpu(context, call) or _is_made_dense(context, call):
        return
    yield context.note()


def _is_made_dense(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a sparse tensor is dense again before it is moved: `x.to_sparse().coalesce().to_dense()`."""
    node: ast.AST = call
    while isinstance(up := context.module.parent(node), ast.Attribute) and up.attr in ("coalesce", "t", "to_dense"):
        if up.attr == "to_dense":
            return True
        node = context.module.parent(up) or up
    return False


def _on_cpu(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a sparse tensor is on the CPU: by `device=`, or made of such a tensor and not moved."""
    device = next((k.value for k in call.keywords if k.arg == "device"), None)
    if isinstance(device, ast.Constant):
        return device.value == "cpu"
    receiver = call.func.value if context.qualified is None and isinstance(call.func, ast.Attribute) else None
    return (
        receiver is not None
        and on_cpu(context.module, receiver, context.module.scope(context.ref))
        and not _moved(context, call)
    )


def _moved(context: RuleContext, call: ast.Call) -> bool:
    up = context.module.parent(call)
    return isinstance(up, ast.Attribute) and up.attr in ("to", "cuda")
