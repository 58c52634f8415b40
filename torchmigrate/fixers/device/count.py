"""Fixers for counts of devices and of worker processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.device_expr import DEVICE_NAME, moves_data
from torchmigrate.semantic.dominance import is_guarded, know_parents, reads, reads_as_parameter
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import words_in
from torchmigrate.syntax.resolver import chain_of, last_name, leading_chain, makes_marks
from torchmigrate.torch_api.names import STARTS_GROUP

_STARTS = {"Popen", "Process", "submit", "apply_async", "check_call"}
_AT_LEAST_ONE = "max(1, accel.device_count())"


def count(context: RuleContext) -> Iterator[Finding]:
    if (context.qualified or "").endswith(".current_device"):
        whole = context.call is not None and _is_device(context)
        text = "accel.device(accel.current_device())" if whole else "accel.current_device"
        found = context.replace(context.node if whole else context.ref, text)
        yield replace(found, backends=("cpu", *found.backends))
        return
    if context.call is not None and not context.call.args and divides_or_spawns(context):
        know_parents(context.module)
        if not is_guarded(context.module, context.call):
            yield context.replace(context.call, _AT_LEAST_ONE)
            return
    if _marks_tests(context):
        yield context.left(_MARKS)
        return
    found = context.rewrite("torch.cuda.device_count", "accel.device_count", context.ref) or context.note()
    yield replace(found, guards="choice") if _is_test(context) else found


_MARKS = "it skips tests of other files, which may need as many devices of CUDA"


def _marks_tests(context: RuleContext) -> bool:
    """Return whether a function beside tests makes a mark that skips what has too few devices: `RunIf(min_gpus=2)`."""
    module = context.module
    function = module.function(context.node)
    if function is None or not module.facts.is_test(str(module.path)) or not isinstance(context.parent, ast.Compare):
        return False
    return makes_marks(function.body)


def _is_test(context: RuleContext) -> bool:
    """Return whether code runs only with so many devices: `if torch.cuda.device_count() > 0`."""
    match context.parent:
        case ast.Compare(left, [ast.Gt() | ast.GtE() | ast.NotEq() | ast.Eq() | ast.Lt()], [ast.Constant(int())]):
            return left is context.node
        case ast.If(test) | ast.While(test) | ast.IfExp(test) | ast.Assert(test) | ast.UnaryOp(ast.Not(), test):
            return test is context.node
    return False


def _is_device(context: RuleContext) -> bool:
    """Return whether an index is only the device that data are moved to: `.to(0)` fails on the CPU and on MPS."""
    module, node, up = context.module, context.node, context.parent
    know_parents(module)
    if isinstance(up, ast.IfExp) and node is not up.test:  # `current_device() if on_gpu else None`
        node, up = up, module.parent(up)
    match up:
        case ast.Dict(keys, values):
            key = keys[values.index(node)] if node in values else None
            return isinstance(key, ast.Constant) and key.value == "device"
        case ast.Assign([target]) if DEVICE_NAME.search(last_name(target)):
            found = [*reads(module, target)]
            return bool(found) and all(moves_data(module, read) for read in found)
        case ast.Call() | ast.keyword() if found := reads_as_parameter(module, node):
            return all(moves_data(module, read) for read in found)
    return False


def divides_or_spawns(context: RuleContext) -> bool:
    node, up = context.node, context.parent
    if isinstance(up, ast.BoolOp) and isinstance(up.op, ast.Or) and up.values[-1] is node:
        node, up = up, context.module.parent(up)  # `args.nproc or torch.cuda.device_count()`
    match up:
        case ast.BinOp(ast.Constant(str()) | ast.JoinedStr(), ast.Mod(), _):
            return False  # "%d devices" % torch.cuda.device_count()
        case ast.BinOp(_, ast.Mod() | ast.FloorDiv() | ast.Div(), right):
            return right is node
        case ast.BinOp() | ast.AugAssign():
            return _sizes_batch(context.module, up)
        case ast.keyword("nprocs"):
            return True
        case ast.keyword("world_size"):
            call = context.module.parent(up)
            return isinstance(call, ast.Call) and context.module.resolve(call.func) == STARTS_GROUP
        case ast.Assign([target], value) if value is node and (name := chain_of(target)):
            return _used_so(context, name)
    return False


def _used_so(context: RuleContext, name: str) -> bool:
    """Return whether a variable is only a divisor or a number of processes: one that is compared may mean 0."""
    used = name in _divisors(context.module) or name in _ranges_that_start(context.module)
    return used and not is_asked(context.module, name)


@query
def _divisors(module: SemanticModel) -> set[str | None]:
    """Return the names that the file divides by, multiplies a batch size by, or gives as `nprocs`."""
    know_parents(module)
    factors = (node for node in module.nodes if _sizes_batch(module, node))
    named = {leading_chain(value) for node in factors for value in ast.iter_child_nodes(node)}
    return named | {leading_chain(value) for node in module.nodes for value in _divided_by(node)}


def _sizes_batch(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a product is the size of a batch, which may not be 0: `args.batch_size * count`."""
    if not isinstance(node, (ast.BinOp, ast.AugAssign)) or not isinstance(node.op, ast.Mult):
        return False
    match up := module.parent(node):
        case ast.keyword(str(name)) if "batch" in name:
            return True
        case ast.Assign([target]) if "batch" in last_name(target):
            return True
    return any("batch" in word for word in words_in(module, node)) and not isinstance(up, ast.BinOp)


def _divided_by(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.BinOp(ast.Constant(str()) | ast.JoinedStr()):
            return []
        case ast.BinOp(_, ast.Mod() | ast.FloorDiv() | ast.Div(), right):
            return [right] if isinstance(right, (ast.Name, ast.Attribute, ast.Subscript)) else []
        case ast.keyword(str(name), value) if name.endswith("nprocs"):
            return [value]
        case ast.Assign(targets, value) if any(last_name(target).endswith("nprocs") for target in targets):
            return [value]
    return []


@query
def _ranges_that_start(module: SemanticModel) -> set[str | None]:
    """Return the names of the numbers that loops which start processes count to: `for rank in range(n): Popen(...)`."""
    loops = (s for s in module.scopes.statements if isinstance(s, ast.For))
    return {chain_of(count) for loop in loops if (count := _counted(loop.iter)) and _starts_process(module, loop)}


def _counted(iterated: ast.expr) -> ast.expr | None:
    match iterated:
        case ast.Call(ast.Name("range"), [count], []):
            return count
    return None


@query
def _starts_process(module: SemanticModel, node: ast.AST) -> bool:
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    return any(last_name(f) in _STARTS or (chain_of(f) or "").endswith("subprocess.run") for f in calls)


def is_asked(module: SemanticModel, name: str) -> bool:
    """Return whether the file compares a variable or takes it for a condition: `n > 1`, not `rank % n == 0`."""
    return name in _all_asked(module)


@query
def _all_asked(module: SemanticModel) -> set[str | None]:
    return {chain_of(value) for node in module.nodes for value in _asked(node)}


def _asked(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Compare(left, _, comparators):
            return [left, *comparators]
        case ast.BoolOp(_, values):
            return values
        case ast.UnaryOp(ast.Not(), value) | ast.If(value) | ast.IfExp(value) | ast.While(value) | ast.Assert(value):
            return [value]
    return []


_PROCESSES = {"nprocs", "num_processes", "processes"}
_NOTHING = "is 0 without an accelerator: no process is started, nothing is done, and the exit status is 0"
_DIVIDES = "is 0 without an accelerator: ZeroDivisionError on the CPU"
_WAY_OUT = "`max(1, ...)` does one device's work there"


def worker_count(context: RuleContext) -> Iterator[Finding]:
    if context.call is None or (context.qualified == "torch.cuda.device_count" and divides_or_spawns(context)):
        return
    found = _meaning(context.module, context.call)
    target = _target(context)
    if found is None and target:
        found = _of_variable(context.module, target, context.module.function(context.call))
    know_parents(context.module)
    if found is not None and not is_guarded(context.module, context.call):
        yield context.note(f"the number of devices {found}: {_WAY_OUT}")


def _target(context: RuleContext) -> str | None:
    match context.parent:
        case ast.Assign([target], value) if value is context.node:
            return chain_of(target)
    return None


@query
def _of_variable(module: SemanticModel, name: str, owner: ast.AST | None) -> str | None:
    """Return what a count of 0 does where the variable is read; None if the file compares the variable."""
    if is_asked(module, name):
        return None
    found = (_meaning_at(module, statement, node) for statement, node in _loads(module).get((owner, name), []))
    return next(filter(None, found), None)


@query
def _loads(module: SemanticModel) -> dict[tuple[ast.AST | None, str | None], list[tuple[ast.stmt, ast.expr]]]:
    """Return the reads of each name in each function, and in the top level (None)."""
    found: dict[tuple[ast.AST | None, str | None], list[tuple[ast.stmt, ast.expr]]] = {}
    for statement in module.scopes.statements:
        owner = module.function(statement)
        for node in ast.walk(statement):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                found.setdefault((owner, chain_of(node)), []).append((statement, node))
    return found


def _meaning(module: SemanticModel, node: ast.expr) -> str | None:
    return _meaning_at(module, module.statement(node), node)


def _meaning_at(module: SemanticModel, statement: ast.stmt, node: ast.expr) -> str | None:
    """Return what a count of 0 would do at this place, or None."""
    if isinstance(statement, ast.For) and _is_range_of(statement.iter, node):
        return _NOTHING if any(_starts_process(module, s) for s in statement.body) else None
    for up in ast.walk(statement):
        match up:
            case ast.BinOp(left, ast.Div() | ast.FloorDiv() | ast.Mod(), right) if right is node:
                return None if isinstance(left, (ast.JoinedStr, ast.Constant)) else _DIVIDES
            case ast.keyword(arg, value) if value is node and arg in _PROCESSES:
                return _NOTHING
            case ast.comprehension(iter=iterated) if _is_range_of(iterated, node):
                return _NOTHING if _starts_process(module, statement) else None
    return None


def _is_range_of(node: ast.expr, count: ast.expr) -> bool:
    return isinstance(node, ast.Call) and chain_of(node.func) == "range" and node.args[-1:] == [count]
