"""Fixers for process groups: the backend's name, FSDP, and tensors in memory that processes share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device import device_defaults
from torchmigrate.fixers.hazard.float64 import names_device
from torchmigrate.semantic.device_expr import wrapped
from torchmigrate.semantic.library_use import first_call
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers_in, reads_of, strings_in
from torchmigrate.semantic.spelling import helper_function, spell, spelled
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.syntax.scope import FUNCTIONS, function_scope

_BACKEND = re.compile(r"(^|_)backend$|dist_url_backend", re.I)
_STARTS = ("init_process_group", "new_group", "init_distributed", "new_subgroups", "init_device_mesh")
_HELPER = "accel.dist_backend()"
_NCCL = ("nccl", "NCCL")


def nccl(context: RuleContext) -> Iterator[Finding]:
    """Replace "nccl" by the helper's backend where it is given to torch, kept as a backend, or compared with one."""
    node = context.node
    if isinstance(node, ast.Call):
        yield from _handed_on(context, node)
        return
    plain = not isinstance(node, ast.Constant) or node.value in _NCCL
    outer, up = node, context.parent
    while isinstance(up, (ast.IfExp, ast.BoolOp)) and not (isinstance(up, ast.IfExp) and up.test is outer):
        outer, up = up, context.module.parent(up)
    match up:
        case ast.Call() if outer in up.args and _callee(context, up) in _STARTS:
            yield context.replace(node, _HELPER) if plain else _composed(context)
        case ast.Call(args=[*_, ast.Constant(str(first)), last]) if last is outer and plain and _BACKEND.search(first):
            if _callee(context, up) in ("get", "getenv", "getattr", "pop", "setdefault"):
                yield context.replace(node, _HELPER)
        case ast.keyword(arg):
            yield from _keyword(context, node, outer, context.module.parent(up), arg or "", plain)
        case ast.Assign() | ast.AnnAssign() if plain:
            target = up.targets[0] if isinstance(up, ast.Assign) else up.target
            if _BACKEND.search(_target(target)):
                yield device_defaults.at_import_checked(context, node, _HELPER)
        case ast.Compare(_, [ast.Eq() | ast.NotEq()], _) if plain and not (
            isinstance(node, ast.Constant) and node.value == "NCCL"
        ):
            yield from _compared(context, up)
        case ast.arguments() if _BACKEND.search(_parameter(up, outer)) and not _settled(context, up, outer):
            yield context.note(
                "a parameter's default is nccl: hand it to `accel.dist_backend(...)` inside the function"
            )
        case ast.Dict() if plain:
            key = next((k for k, v in zip(up.keys, up.values, strict=True) if v is outer), None)
            if isinstance(key, ast.Constant) and _BACKEND.search(str(key.value)):
                yield context.replace(
                    node,
                    _HELPER,
                    Safety.UNSAFE,
                    f"{context.rule.message}; the dict may be a configuration that is only read",
                )


def _callee(context: RuleContext, call: ast.Call) -> str:
    return (context.module.resolve(call.func) or "").rpartition(".")[2] or _last(call)


def _last(call: ast.Call) -> str:
    return str(chain_of(call.func) or getattr(call.func, "attr", "")).rpartition(".")[2]


def _target(target: ast.expr) -> str:
    match target:
        case ast.Name(name) | ast.Attribute(_, name) | ast.Subscript(_, ast.Constant(str(name))):
            return name
    return ""


_STORED = {
    "dict": "a configuration file may be run where the helper cannot be imported",
    "Namespace": "options may be stored, and read on another machine",
}


def _composed(context: RuleContext) -> Finding:
    here = spell('f"cpu:gloo,{accel.device_type()}:{accel.dist_backend()}"', spelled(context.module))
    return context.note(
        f'a composed backend: {here} is the same on CUDA and right on other accelerators; the CPU takes "gloo"'
    )


def _keyword(
    context: RuleContext, node: ast.AST, outer: ast.AST, call: ast.AST | None, arg: str, plain: bool
) -> Iterator[Finding]:
    last = _callee(context, call) if isinstance(call, ast.Call) else ""
    if not plain:
        if arg == "backend" and last in _STARTS:
            yield _composed(context)
    elif _BACKEND.search(arg):
        why = _STORED.get(last)
        yield context.replace(node, _HELPER, *((Safety.UNSAFE, f"{context.rule.message}; {why}") if why else ()))
    elif arg == "default" and isinstance(call, ast.Call) and _speaks_of_backend(context.module, call):
        yield from _option(context, node, call)


def _speaks_of_backend(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether the statement around an option has "backend" in a name or a string."""
    statement = module.statement(call)
    return any("backend" in word for word in identifiers_in(module, statement) | strings_in(module, statement))


def _option(context: RuleContext, node: ast.AST, call: ast.Call) -> Iterator[Finding]:
    """Replace an option's default: click takes a function, a dataclass has `default_factory`."""
    up = context.module.parent(node)
    if isinstance(context.module.parent(call), (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield context.replace(node, "accel.dist_backend")
    elif (
        context.module.resolve(call.func) in (None, "dataclasses.field")
        and _callee(context, call) == "field"
        and isinstance(up, ast.keyword)
    ):
        yield context.replace(up, "default_factory=accel.dist_backend")
    else:
        yield device_defaults.at_import_checked(context, node, _HELPER)


def _compared(context: RuleContext, up: ast.Compare) -> Iterator[Finding]:
    """Replace "nccl" in `backend == "nccl"`. Both ends change together, so only where this file chooses the backend."""
    if not _chooses_backend(context.module):
        return
    if not _BACKEND.search(_target(up.left) or _last_of(up.left)):
        return
    if _is_compared_with_gloo(context.module):
        yield context.note(
            "compared with nccl and, elsewhere, with gloo, which is what the CPU gets: look at both branches"
        )
    else:
        yield context.replace(context.node, _HELPER)


@query
def _chooses_backend(module: SemanticModel) -> bool:
    """Return whether this file gives "nccl" to something called a backend, or asks the helper for a backend."""
    return any(
        _starts_nccl(module, node)
        if isinstance(node, ast.Call)
        else any(name.lower().endswith("backend") and _may_be_nccl(value) for name, value in _given(node))
        for node in module.nodes
    )


def _starts_nccl(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call starts nccl: `dist_backend()`, `init_process_group("nccl")`, or a `--backend` option."""
    if helper_function(module, call.func) == "dist_backend" and not call.args and not call.keywords:
        return True
    if _last(call) == "init_process_group":
        first = call.args[0] if call.args else None
        return isinstance(first, ast.Constant) and str(first.value).startswith("nccl")
    texts = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
    default = next((k.value for k in call.keywords if k.arg == "default"), None)
    return default is not None and _may_be_nccl(default) and any(text.endswith("backend") for text in texts)


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that a node gives a value to, with the value; not parameters, whose defaults stay."""
    match node:
        case ast.Assign(targets, value):
            yield from ((_target(target), value) for target in targets)
        case ast.AnnAssign(target, value=ast.expr() as value):
            yield _target(target), value
        case ast.keyword(str(name), value):
            yield name, value
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            yield from ((str(k.value), value) for k, value in pairs if isinstance(k, ast.Constant))


def _may_be_nccl(value: ast.expr) -> bool:
    """Return whether a value is "nccl", on its own or as one of the values of a choice."""
    match value:
        case ast.IfExp(_, body, orelse):
            return _may_be_nccl(body) or _may_be_nccl(orelse)
        case ast.BoolOp(_, values):
            return any(map(_may_be_nccl, values))
    return isinstance(value, ast.Constant) and value.value in _NCCL


@query
def _is_compared_with_gloo(module: SemanticModel) -> bool:
    compares = (n for n in module.nodes if isinstance(n, ast.Compare))
    pairs = (pair for n in compares for pair in zip(n.ops, n.comparators, strict=True))
    return any(isinstance(op, ast.Eq) and isinstance(c, ast.Constant) and c.value == "gloo" for op, c in pairs)


def _last_of(node: ast.expr) -> str:
    return _last(node) if isinstance(node, ast.Call) else ""


def _parameter(arguments: ast.arguments, default: ast.AST) -> str:
    positional = [*arguments.posonlyargs, *arguments.args]
    named = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    named += zip(arguments.kwonlyargs, (d or ast.Constant(None) for d in arguments.kw_defaults), strict=True)
    return next((a.arg for a, value in named if value is default), "")


def _settled(context: RuleContext, parameters: ast.arguments, default: ast.AST) -> bool:
    """Return whether this file hands the parameter to the helper, or to what `_handed_on` rewrites."""
    owner = context.module.parent(parameters)
    if not isinstance(owner, (*FUNCTIONS, ast.Lambda)):
        return False
    reads = reads_of(context.module, _parameter(parameters, default), function_scope(owner, context.scope))
    return any(r.node is value for r in reads for value in _backends_given(context.module))


@query
def _backends_given(module: SemanticModel) -> list[ast.expr]:
    """Return the backends that calls of `init_process_group` and of the helper's `dist_backend` are given."""
    found: list[ast.expr] = []
    for call in (n for n in module.nodes if isinstance(n, ast.Call)):
        if helper_function(module, call.func) == "dist_backend":
            found += call.args[:1]
        elif _last(call) == "init_process_group":
            found += call.args[:1] or [k.value for k in call.keywords if k.arg == "backend"]
    return found


@query
def _passes_nccl(module: SemanticModel) -> bool:
    """Return whether "nccl" is in a tuple or is an argument, as in `mp.spawn(run, args=(size, "nccl"))`."""
    for node in module.nodes:
        match node:
            case ast.Call(args=items) if _last(node) != "init_process_group":
                pass
            case ast.Tuple(elts=items):
                pass
            case _:
                continue
        if any(isinstance(item, ast.Constant) and item.value in _NCCL for item in items):
            return True
    return False


def _handed_on(context: RuleContext, call: ast.Call) -> Iterator[Finding]:
    """Wrap the name in `init_process_group(backend)` if it may be "nccl"; the helper changes no other backend."""
    value = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "backend"), None)
    if not isinstance(value, ast.Name):
        return
    found = context.scope.find(value.id)
    owner = found[0].node if found and len(found[1]) == 1 else None
    if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [*owner.args.defaults, *owner.args.kw_defaults]
        mine = [d for d in defaults if d is not None and _parameter(owner.args, d) == value.id]
        nccl = any(isinstance(d, ast.Constant) and d.value in _NCCL for d in mine)
        if nccl or (not mine and _passes_nccl(context.module)):
            yield context.replace(value, f"accel.dist_backend({value.id})")


_INDEX = re.compile(r"rank$|^gpu(_id)?$|^(device_)?(id|idx|index)$", re.I)
_MPS = "MPS has no collectives and raises AttributeError"
_WITHOUT = 'FSDP asks for an accelerator: on the CPU it raises without `device_id=torch.device("cpu")`, and ' + _MPS


def fsdp(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    name = (context.qualified or "").rpartition(".")[2]
    if call is None or (name != "fully_shard" and any(k.arg is None for k in call.keywords)):
        return
    if name == "ShardedGradScaler":
        if not call.args and not any(k.arg == "device" for k in call.keywords):
            yield context.note("its `device` is CUDA's: elsewhere it warns and scales nothing; name it, `device=...`")
        return
    given = next((k.value for k in call.keywords if k.arg == "device_id"), None)
    if name == "FullyShardedDataParallel" and given is not None:
        yield from _device_id(context, given)
    elif first_call(context.module, {context.qualified or ""}) is call:
        yield context.note(_WITHOUT if name == "FullyShardedDataParallel" else f"{_MPS}: leave `fully_shard` out there")


def _device_id(context: RuleContext, given: ast.expr) -> Iterator[Finding]:
    """Name the accelerator in `device_id=`. None means the device of the module, and must stay None."""
    edits = wrapped(context.module, given, "accel.device(")
    if _is_index(context.module, given):
        yield context.fix(edits)
    elif _INDEX.search((chain_of(given) or "").rpartition(".")[2]):
        why = f"{context.rule.message}; where `{context.module.text(given)}` is None, this moves what stayed"
        yield context.fix(edits, Safety.UNSAFE, why)


def _is_index(module: SemanticModel, node: ast.expr) -> bool:
    match node:
        case ast.Constant(int()):
            return True
        case ast.Call(func):
            own = chain_of(func) == spell("accel.current_device", spelled(module))
            return own or (module.resolve(func) or chain_of(func)) in ("int", "torch.cuda.current_device")
    return False


def sharing(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None or call.args or call.keywords or not isinstance(call.func, ast.Attribute):
        return
    if _on_device(context.module, call.func.value, call):
        yield context.note()


def _on_device(module: SemanticModel, node: ast.expr, call: ast.Call) -> bool:
    """Return whether a receiver is `x.cuda()` or a name that this function (or the module) moves to a device."""
    chain: ast.expr = node
    while isinstance(chain, (ast.Call, ast.Attribute)):
        if isinstance(chain, ast.Call) and names_device(chain):
            return True
        chain = chain.func if isinstance(chain, ast.Call) else chain.value
    return isinstance(node, ast.Name) and any(_moves(s, node.id) for s in _before(module, call))


def _before(module: SemanticModel, call: ast.Call) -> Iterator[ast.stmt]:
    home, end = module.function(call), module.span(call)[0]
    for statement in module.scopes.statements:
        if module.function(statement) is home and module.span(statement)[0] < end:
            yield statement


def _moves(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign([ast.Name(target)], ast.Call() as value):
            return target == name and any(isinstance(n, ast.Call) and names_device(n) for n in _chain(value))
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(owner))) as value):
            return owner == name and names_device(value)
    return False


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    while isinstance(node, (ast.Call, ast.Attribute)):
        yield node
        node = node.func if isinstance(node, ast.Call) else node.value
