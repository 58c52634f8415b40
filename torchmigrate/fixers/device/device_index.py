"""Fixers for indices of devices, and lists of indices."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.hazard.mps import where_cuda_is_named
from torchmigrate.semantic.device_expr import makes_device, moves_data, wrapped
from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.receiver import may_be_asked_for_its_place, parallel_classes
from torchmigrate.semantic.references import asks_accelerator, helper_function, reads_of, spell, spelled
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, is_same

_INDEX = re.compile(r"^(local_|global_|dist_)?rank$|(^|_)(gpu|cuda|device)_?(id|idx|index)$|^(gpu|cuda)$")
_SURE = re.compile(r"^(local_)?rank$|gpu_?id$|device_?(id|index)$")


def device_index(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None:
        return
    if context.qualified == "torch.device":
        if len(call.args) == 1 and not call.keywords and index_safety(call.args[0]):
            if any(asks_accelerator(context.module, each) for each in (".is_available", ".device_count")):
                yield context.left("a file that asks torch.accelerator means whichever there is")
                return
            found = context.rewrite("torch.device($index)", "accel.device($index)", None, index_safety(call.args[0]))
            yield from filter(None, (found,))
        return
    if not uses_torch(context.module):
        return
    if isinstance(call.func, ast.Attribute) and call.func.attr == "get_device":
        yield from _place(context, call)
        return
    is_move = isinstance(context.ref, ast.Attribute) and context.ref.attr == "to" and call.args
    for node in (call.args[0] if is_move else None, *(k.value for k in call.keywords if k.arg == "device")):
        safety = index_safety(node) if node is not None and not isinstance(node, ast.Starred) else None
        if node is not None and safety and not _is_device(context, node):
            safety = Safety.SAFE if _is_given(context.module, node) else safety
            yield context.replace(node, f"accel.device({context.module.text(node)})", safety)


def _place(context: RuleContext, call: ast.Call) -> Iterator[Finding]:
    """Make `where = x.get_device()` `x.device` if that is only moved to: an integer means CUDA before torch 2.5."""
    module, up = context.module, context.parent
    if call.args or call.keywords:
        return
    if moves_data(module, call) and _is_tensors(context, call):
        safety = where_cuda_is_named(module)
        yield context.rewrite("$x.get_device()", "$x.device", None, safety, _PLACE) or context.note(_PLACE)
        return
    if not isinstance(up, ast.Assign) or not isinstance(up.targets[0], ast.Name):
        return
    if not (isinstance(call.func, ast.Attribute) and may_be_asked_for_its_place(module, call.func.value)):
        return
    know_parents(module)
    reads = [reference.node for reference in reads_of(module, up.targets[0].id, context.scope)]
    moves = [node for node in reads if moves_data(module, node)]
    if _is_other_device(context, up.targets[0].id):
        moves += [node for node in reads if isinstance(module.parent(node), ast.Return)]
    is_only_moved_to = len(up.targets) == 1 and all(n in moves or _is_asked_for_none(module, n) for n in reads)
    if moves:
        fixed = context.rewrite("$x.get_device()", "$x.device", None, Safety.SAFE, _PLACE) if is_only_moved_to else None
        yield fixed or context.note(_PLACE)


_PLACE = "the number of a tensor's device stands for one of CUDA before torch 2.5; `.device` is where the tensor is"


def _is_other_device(context: RuleContext, name: str) -> bool:
    """Return whether a name holds a device elsewhere, `place = args.device`: whoever gets it takes it for one."""
    for binding in context.scope.names.get(name, ()):
        match binding.value:
            case ast.Attribute(_, "device") | ast.Constant("cpu"):
                return True
            case ast.Call() as made if makes_device(context.module, made):
                return True
    return False


def _is_tensors(context: RuleContext, place: ast.Call) -> bool:
    """Return whether torch takes the place of something that is a tensor for all that is known: a parameter, an item.

    A class of the project with a method of this name may give anything.
    """
    module = context.module
    taking = module.nearest(place, ast.Call)
    asked = place.func.value if isinstance(place.func, ast.Attribute) else place
    while isinstance(asked, ast.Subscript):
        asked = asked.value
    found = context.scope.find(asked.id) if isinstance(asked, ast.Name) else None
    is_local = found is not None and not isinstance(found[0].node, ast.Module)
    is_tensors = is_local and may_be_asked_for_its_place(module, asked)
    return is_tensors and taking is not None and _is_torchs(module, taking)


def _is_torchs(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call is one of torch's functions, or a method of a tensor that takes a device."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return method == "to" or method.startswith("new_") or (module.resolve(call.func) or "").startswith("torch.")


def _is_asked_for_none(module: SemanticModel, node: ast.AST) -> bool:
    match module.parent(node):
        case ast.Compare(_, [ast.Is() | ast.IsNot()], [ast.Constant(None)]):
            return True
    return False


def _is_device(context: RuleContext, node: ast.expr) -> bool:
    """Return whether a name holds a device for all that is known: `cuda = torch.device(...)`, or a parameter `cuda`."""
    found = context.scope.find(node.id) if isinstance(node, ast.Name) else None
    if found is None or not isinstance(node, ast.Name):
        return False
    values = [binding.value for binding in found[1]]
    values += [arm for value in values if isinstance(value, ast.IfExp) for arm in (value.body, value.orelse)]
    is_given = all(isinstance(binding.node, ast.arg) for binding in found[1])
    return (is_given and node.id == "cuda") or any(makes_device(context.module, value) for value in values)


def _is_given(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether an index stands in the body of an `if` that tests it for None: `if args.gpu is not None`."""
    for up, below in module.around(node, ast.If):
        if below in up.body:
            tests = up.test.values if isinstance(up.test, ast.BoolOp) and isinstance(up.test.op, ast.And) else [up.test]
            if any(_is_given_by(test, node) for test in tests):
                return True
    return False


def _is_given_by(test: ast.expr, node: ast.expr) -> bool:
    """Return whether a test is `node is not None`."""
    match test:
        case ast.Compare(asked, [ast.IsNot()], [ast.Constant(None)]):
            return is_same(asked, node)
    return False


def index_safety(node: ast.expr) -> Safety | None:
    """Return how safe an index a node is, or None. A name such as `args.gpu` is unsafe: it may hold None."""
    match node:
        case ast.Constant(bool()):
            return None
        case ast.Constant(int()):
            return Safety.SAFE
        case ast.Name(name) | ast.Attribute(_, name) | ast.Subscript(_, ast.Constant(str(name))):
            return (Safety.SAFE if _SURE.search(name) else Safety.UNSAFE) if _INDEX.search(name) else None
        case ast.Subscript(ast.Name(name) | ast.Attribute(_, name), ast.Constant(int())):
            return Safety.SAFE if re.search(r"gpu_?ids?$|device_ids$", name) else None
    return None


def device_ids(context: RuleContext) -> Iterator[Finding]:
    """Rewrite the devices that DistributedDataParallel is given, or an heir that has its constructor."""
    call = context.call
    if call is None or (context.qualified != _WRAPPER and not _is_heir(context, call)):
        return
    given = {k.arg: k.value for k in call.keywords}
    if len(call.args) > 1 and not any(isinstance(a, ast.Starred) for a in call.args[:2]):
        given["device_ids"] = call.args[1]
    for name in ("device_ids", "output_device"):
        node = given.get(name)
        if node is not None and not _is_none(node) and not _is_ours(context, node):
            yield context.fix(_wrapped(context, node, name))


_WRAPPER = "torch.nn.parallel.DistributedDataParallel"


def _is_heir(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a call that names devices makes an heir of DistributedDataParallel, which has its constructor."""
    chain = chain_of(call.func)
    if (
        not chain
        or chain.startswith("super")
        or not any(k.arg in ("device_ids", "output_device") for k in call.keywords)
    ):
        return False
    classes = parallel_classes(context.module, context.scope, chain, _WRAPPER)
    return bool(classes) and not any(context.module.facts.hierarchy.overrides(c, ("__init__",)) for c in classes)


def _wrapped(context: RuleContext, node: ast.expr, name: str) -> list[Edit]:
    """Return edits that turn `[rank]` into `accel.device_ids(rank)`; longer lists become the argument as they are."""
    start, end = context.module.span(node)
    opening = spell(f"accel.{name}(", spelled(context.module))
    if isinstance(node, ast.List) and len(node.elts) == 1:
        inner = context.module.span(node.elts[0])
        around = context.module.source.utf8[start : inner[0]] + context.module.source.utf8[inner[1] : end]
        if around.replace(b" ", b"") in (b"[]", b"[,]"):
            return [Edit(start, inner[0], opening), Edit(inner[1], end, ")")]
    return wrapped(context.module, node, opening)


def _is_ours(context: RuleContext, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and helper_function(context.module, node.func) is not None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def device_id(context: RuleContext) -> Iterator[Finding]:
    barrier = context.qualified == "torch.distributed.barrier"
    name, helper = ("device_ids", "device_ids") if barrier else ("device_id", "output_device")
    given = next((k.value for k in context.call.keywords if k.arg == name), None) if context.call is not None else None
    if given is not None and not _stays(context, given, helper):
        yield context.fix(wrapped(context.module, given, f"accel.{helper}("))


def _stays(context: RuleContext, given: ast.expr, helper: str) -> bool:
    """Return whether an argument stays: it is None or the helper's, or the file asks torch.accelerator itself."""
    none = isinstance(given, ast.Constant) and given.value is None
    ours = isinstance(given, ast.Call) and helper_function(context.module, given.func) == helper
    native = context.module.facts.writes_native
    return none or ours or (not native and asks_accelerator(context.module))
