"""Fixers for device strings such as `"cuda:0"`: whether a device is wanted, and whether a `torch.device` will do.

`X if torch.cuda.is_available() else Y`, where X names CUDA and Y the CPU, is replaced as a whole; so is
`X if tensor.is_cuda else Y`, which becomes the tensor's device, where X may be `tensor.get_device()`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from torchmigrate.diagnostics.finding import Finding, Fix, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device import device_defaults, device_lists
from torchmigrate.fixers.device.device_defaults import CLOSED, is_closed
from torchmigrate.project.class_hierarchy import Definition, Place
from torchmigrate.project.helper_parts import device_position
from torchmigrate.semantic.device_expr import (
    DEVICE_NAME,
    Device,
    carrier,
    in_fstring,
    is_beside_cpu,
    is_cpu,
    maps_cuda,
    parse,
    parse_device,
)
from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.library_use import asks_cuda, is_imported, is_used_with_torch, uses_torch
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.receiver import attribute_values, class_definition
from torchmigrate.semantic.references import helper_function, identifiers_in, reads_of, spell, spelled, words_in
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, ends_program, last_name, leading_chain
from torchmigrate.syntax.scope import FUNCTIONS, Function, given_defaults
from torchmigrate.torch_api.backends import having
from torchmigrate.torch_api.libraries import FOREIGN
from torchmigrate.torch_api.names import DEVICE_ARGUMENT

_FLAGS = ("cuda", "use_cuda", "no_cuda")
_NAMES_CUDA = {"cuda", "is_cuda"}
_OTHER = re.compile(rf"^(is_)?({'|'.join(having('idiom'))})$|accelerator")  # a word about another accelerator


def device_idiom(context: RuleContext) -> Iterator[Finding]:
    node = context.node
    assert isinstance(node, ast.IfExp)
    if is_idiom(context.module, node) and (own := _tensor_by_index(context.module, node)) is not None:
        yield context.replace(node, f"{context.module.text(own)}.device")
        return
    arms = _arms(context.module, node)
    if arms is None:
        asked = _asks_of(node.test)
        flag = last_name(asked.left if isinstance(asked, ast.Compare) else asked)
        if flag.lower() in _FLAGS and (own := _where_saved(context.module, node)) is not None:
            yield context.replace(own, "accel.map_location()")
        elif flag.lower() in _FLAGS and not any(_is_settled(context.module, side) for side in (node.body, node.orelse)):
            yield context.left("a choice by a flag of the project's, neither side of which names a device of CUDA's")
        return
    cuda, other = arms
    if _backend(cuda) == "nccl" and _backend(other) == "gloo":
        yield context.replace(node, "accel.dist_backend()")
        return
    if isinstance(cuda, ast.Constant) and cuda.value is None and _keeps_on_cpu(context.module, other):
        yield from _map_location(context, node)
        return
    device = parse_device(context.module, cuda)
    if device is None or not is_idiom(context.module, node):
        return
    whole, typed = _context(context, node, is_string=parse(context.module, cuda) is not None)
    if is_closed(context.module, context.module.parent(whole), whole):
        yield context.note(f"{context.rule.message}; {CLOSED}")
        return
    # the replaced code asked for CUDA at the same place, so importing the module asks no more than before
    template = device.as_device if typed else device.as_type
    if (tensor := _tensor(node)) is not None:
        # its type alone: "cuda" is the current device, and the tensor may be on another
        whole, template = node, f"{context.module.text(tensor)}.device.type"
        if isinstance(cuda, ast.Call):
            template = f"{context.module.text(cuda.func)}({template})"
    found = context.replace(whole, template)
    yield replace(found, fix=_without_parentheses(context.module, whole, found.fix)) if found.fix else found


def _without_parentheses(module: SemanticModel, node: ast.AST, fix: Fix) -> Fix:
    """Return the fix with the parentheses around a value that is assigned or returned: they held its lines together."""
    text, (start, end) = module.source.utf8, module.span(node)
    while isinstance(module.parent(node), (ast.Assign, ast.AnnAssign, ast.Return)):
        before, after = text[:start].rstrip(), text[end:].lstrip()
        if not (before.endswith((b" (", b"((")) and after.startswith(b")")):
            break
        start, end = len(before) - 1, len(text) - len(after) + 1
    own = module.span(node)
    edits = tuple(Edit(start, end, e.text) if (e.start, e.end) == own else e for e in fix.edits)
    return replace(fix, edits=edits)


def _is_settled(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether other rules report a side (`x.cuda()`, "cuda:0", its own flag), or it calls the helper already."""
    if not _NAMES_CUDA.isdisjoint(words_in(module, node)):
        return True
    return any(helper_function(module, each) for each in ast.walk(node))


def is_idiom(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a whole idiom may be replaced: it has no comment, and no portable selection around it."""
    if not isinstance(node, ast.IfExp):
        return False
    if _tensor_by_index(module, node) is None:
        if (arms := _arms(module, node)) is None:
            return False
        device = parse_device(module, arms[0])
        if device is None or not is_cpu(module, arms[1]):
            return False
        if (tensor := _tensor(node)) is not None and (device.index is not None or chain_of(tensor) is None):
            return False  # a call may give another tensor each time
    above = module.enclosing(node, ast.IfExp)
    return not module.holds_comment(node) and not any(_names_other(module, up.test) for up in above)


def _names_other(module: SemanticModel, test: ast.expr) -> bool:
    return any(map(_OTHER.search, words_in(module, test)))


def _arms(module: SemanticModel, node: ast.IfExp) -> tuple[ast.expr, ast.expr] | None:
    """Return (value with CUDA, value without) if the test asks for CUDA and nothing else; else None."""
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    asked = _asks_of(node.test)
    called = asked.func if isinstance(asked, ast.Call) and not asked.args else None
    if _tensor(node) is None and not (called and module.resolve(called) == "torch.cuda.is_available"):
        return None
    return (node.orelse, node.body) if negated else (node.body, node.orelse)


def _tensor(node: ast.IfExp) -> ast.expr | None:
    """Return x of a choice by `x.is_cuda`."""
    asked = _asks_of(node.test)
    return asked.value if isinstance(asked, ast.Attribute) and asked.attr == "is_cuda" else None


def _tensor_by_index(module: SemanticModel, node: ast.IfExp) -> ast.expr | None:
    """Return x of `x.get_device() if x.is_cuda else "cpu"`, an index or a name, where it is used as a device alone."""
    asked = _asks_of(node.test)
    cuda, other = (node.body, node.orelse) if asked is node.test else (node.orelse, node.body)
    match asked:
        case ast.Attribute(tensor, "is_cuda"):
            pass
        case ast.Compare(ast.Attribute(ast.Attribute(tensor, "device"), "type"), [ast.Eq()], [ast.Constant("cuda")]):
            pass
        case _:
            return None
    match cuda:
        case ast.Call(ast.Attribute(named, "get_device"), [], []):
            is_device = False
        case ast.Call(func, [ast.Constant("cuda"), ast.Call(ast.Attribute(named, "get_device"), [], [])], []):
            if module.resolve(func) != "torch.device":
                return None
            is_device = isinstance(other, ast.Call)
        case _:
            return None
    chain = chain_of(tensor)
    if chain is None or chain_of(named) != chain or not is_cpu(module, other):
        return None
    return tensor if is_device or _is_device_alone(module, node) else None


def _is_device_alone(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a value, or the variable that is given it alone, only tells torch or a tensor a device."""
    up = module.parent(node)
    if not (isinstance(up, ast.Assign) and isinstance(target := up.targets[0], ast.Name) and len(up.targets) == 1):
        return _tells_device(module, node)
    scope = module.scope(up)
    home, bindings = scope.find(target.id) or (scope, [])
    if home is not scope or len(bindings) != 1 or not isinstance(scope.node, Function):
        return False
    know_parents(module)
    reads = reads_of(module, target.id, scope)
    return bool(reads) and all(isinstance(r.node, ast.Name) and _tells_device(module, r.node) for r in reads)


def _tells_device(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a value is the device of a factory of torch's or a method of tensors, which take an index, too."""
    up = module.parent(node)
    call = module.parent(up) if isinstance(up, ast.keyword) and up.arg == "device" else up
    if not isinstance(call, ast.Call):
        return False
    if isinstance(up, ast.keyword) and _is_told_torch(module, node):
        return not (module.resolve(call.func) or "").startswith("torch.cuda.")
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return method in ("to", "to_empty", *_TENSOR_METHODS) and (
        up is not call or (method == "to" and call.args[0] is node)
    )


def _is_told_torch(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a value is the `device` of a torch function, which takes a `torch.device` as well as a `str`."""
    keyword = module.parent(node)
    call = module.parent(keyword) if isinstance(keyword, ast.keyword) and keyword.arg == "device" else None
    return isinstance(call, ast.Call) and (module.resolve(call.func) or "").startswith("torch.")


def _asks_of(test: ast.expr) -> ast.expr:
    """Return a test without the `not` before it."""
    return test.operand if isinstance(test, ast.UnaryOp) else test


def _backend(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _keeps_on_cpu(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether a value is `"cpu"` or `lambda storage, loc: storage`."""
    returned = isinstance(node, ast.Lambda) and isinstance(node.body, ast.Name) and node.args.args[:1]
    return is_cpu(module, node) or bool(returned and node.body.id == returned[0].arg)  # type: ignore[attr-defined]


def _map_location(context: RuleContext, node: ast.AST) -> Iterator[Finding]:
    """Yield the finding for `None if torch.cuda.is_available() else "cpu"`: MPS cannot load by None."""
    loads = _only_loads_by(context.module, node)
    safety = Safety.SAFE if loads else Safety.UNSAFE
    why = "" if loads else f"{context.rule.message}; this may be used for something else than `map_location`"
    yield context.replace(node, "accel.map_location()", safety, why)


def _where_saved(module: SemanticModel, node: ast.IfExp) -> ast.expr | None:
    """Return the None of `None if args.cuda else "cpu"`, by which files are loaded and nothing else is done."""
    for own, other in ((node.body, node.orelse), (node.orelse, node.body)):
        if isinstance(own, ast.Constant) and own.value is None and _keeps_on_cpu(module, other):
            return own if _only_loads_by(module, node) else None
    return None


def _only_loads_by(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a value, or a variable that holds it, is the `map_location` of `torch.load` and nothing else."""
    up = module.parent(node)
    if isinstance(up, ast.Assign) and isinstance(target := up.targets[0], ast.Name) and len(up.targets) == 1:
        know_parents(module)
        reads = reads_of(module, target.id, module.scope(up))
        return bool(reads) and all(_loads_by(module, read.node) for read in reads)
    return _loads_by(module, node)


def _loads_by(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a value is the `map_location` of `torch.load`, or of a function that hands it on to this."""
    up = module.parent(node)
    call = module.parent(up) if isinstance(up, ast.keyword) and up.arg == "map_location" else up
    if not isinstance(call, ast.Call):
        return False
    name = module.resolve(call.func)
    return name in _HANDING if call is not up else name == "torch.load" and call.args[:1] != [node]


_HANDING = ("torch.load", "torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url")


def _context(context: RuleContext, node: ast.AST, is_string: bool) -> tuple[ast.AST, bool]:
    """Return the node to replace, and whether it may be a `torch.device`; a string that is searched stays one."""
    up = context.module.parent(node)
    if not is_string:
        return node, True
    if isinstance(up, ast.Call) and up.args == [node] and not up.keywords:
        name = context.module.resolve(up.func)
        if name == "torch.device":
            return up, True
        if isinstance(up.func, ast.Attribute) and up.func.attr == "to":
            return node, True
    return node, False


_OWN_RULES = re.compile(
    r"torch\.(amp\.|cuda\.|library\.|autograd\.profiler|autocast$)|.*(autocast|GradScaler|custom_[fb]wd|\.register_kernel)$"
)
# functions that print, search, store or look up strings, which are no devices then
_TEXT = re.compile(
    r"(print|info|warn|warning|debug|error|log|write|exit|fail|append|add|join|get|pop|setdefault|getattr|hasattr"
    r"|replace|startswith|endswith|split|find|count|index|strip|add_scalar|set_postfix|skip|open|register|isinstance"
    r"|Path|\w*(Error|Exception|Warning))$"
)
# libraries to which "cuda" means something else, or nothing
_TAKING = ("torch.device", "torch.set_default_device")
_TAKER = re.compile(r"(device|map_location)_?\d*$")  # how names of parameters and variables for devices end
# without CUDA, fork_rng saves the states of no device for "cuda", and raises for "cpu"
_FORKS = ("torch.fork_rng", "device_type")
# Lightning's classes take a device type that they know; "auto" would look for TPUs first
_LIGHTNING = re.compile(r"(lightning|pytorch_lightning|lightning_fabric)\.(\w+\.)*(Trainer|Fabric)$")
_NO_DEVICE = {
    "choices", "help", "dest", "metavar", "name", "backend", "key", "msg", "reason", "id", "ids",
}  # fmt: skip


def is_foreign(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a call is one of the helper, or of a library that has nothing to do with torch."""
    root = (chain_of(call.func) or "").partition(".")[0]
    return (
        root == spelled(context.module)["accel"]
        or (context.module.resolve(call.func) or "").partition(".")[0] in FOREIGN
    )


def _is_for_helper(module: SemanticModel, call: ast.Call, value: ast.AST) -> bool:
    """Return whether a value is the device that a call of the helper is about: `accel.synchronize("cuda:1")`."""
    at = device_position(helper_function(module, call.func) or "")
    if at is None:
        return False
    return call.args[at : at + 1] == [value] or any(k.value is value and k.arg == "device" for k in call.keywords)


def is_default(call: ast.Call, value: ast.AST) -> bool:
    """Return whether a value is a look-up's default: `config.get("device", "cuda")`, `getattr(a, "device", "cuda")`."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    key = call.args[-2] if name in ("get", "getenv", "getattr", "pop", "setdefault") and len(call.args) > 1 else None
    return isinstance(key, ast.Constant) and call.args[-1] is value and bool(DEVICE_NAME.search(str(key.value)))


def replaced(
    context: RuleContext, node: ast.AST, device: Device, typed: bool, safety: Safety = Safety.SAFE, why: str = ""
) -> Finding:
    template = device.as_device if typed else device.as_type
    if is_beside_cpu(context.module, node):
        safety, why = Safety.SAFE, ""
    return context.replace(node, template, safety, f"{context.rule.message}; {why}" if why else "")


_ENUMERATION = "an Enum's members are found by their values, which have to stay different on every machine"
_MESHES = ("init_device_mesh", "DeviceMesh")  # a device type, a `str`
_TENSOR_METHODS = {"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to_empty"}


def keyword(
    context: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, call: ast.Call, name: str | None
) -> Iterator[Finding]:
    callee = context.module.resolve(call.func) or chain_of(call.func) or ""
    last = callee.rpartition(".")[2] or getattr(call.func, "attr", "")
    if _OWN_RULES.match(callee) or name is None:
        return
    if last in ("add_argument", "option", "add_option"):
        if name == "default":
            yield from device_defaults.option_default(context, whole, device, call)
    elif (callee, name) == _FORKS and device.index is None:
        yield context.replace(whole, "accel.autocast_type()")
    elif name == "accelerator" and _LIGHTNING.match(callee):
        yield context.replace(whole, device.as_type)
    elif name in ("device", "map_location", "device_type") or DEVICE_NAME.search(name):
        torchy = (
            last == "to"
            or callee.startswith("torch.")
            or (isinstance(call.func, ast.Attribute) and last in _TENSOR_METHODS)
        )
        yield replaced(context, whole, device, typed=torchy and name != "device_type")
    elif callee == "torch.device":
        yield from _torch_device(context, whole, outer, device, call)
    elif name == "default" and device_defaults.is_field(call):
        yield from device_defaults.field_default(context, whole, device, call)
    elif name not in _NO_DEVICE:
        yield replaced(context, whole, device, False, Safety.UNSAFE, f"`{name}=` may not be a device")


def argument(context: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, call: ast.Call) -> Iterator[Finding]:
    module = context.module
    callee = module.resolve(call.func) or chain_of(call.func) or ""
    last = callee.rpartition(".")[2] or getattr(call.func, "attr", "")
    if outer not in call.args:
        return
    position = call.args.index(outer)
    if position == 0 and device.index is None and _is_chosen_autocast(module, call):
        yield context.replace(whole, "accel.autocast_type()")
        return
    if _OWN_RULES.match(callee):
        return
    moves = isinstance(call.func, ast.Attribute) and last in ("to", "to_empty")
    if callee == "torch.device":
        yield from _torch_device(context, whole, outer, device, call)
    elif (moves and position == 0) or DEVICE_ARGUMENT.get(callee) == position:
        yield replaced(context, whole, device, typed=True)
    elif _parameter_is_device(context.module, call, position) or (last in _MESHES and position == 0):
        yield replaced(context, whole, device, typed=False)
    elif last == "cuda" or _TEXT.match(last):
        return
    elif last in ("field", "Field") or callee.startswith("torch."):
        yield replaced(context, whole, device, False, Safety.UNSAFE, "this argument may not be a device")
    elif _finds_member(context, call):
        yield replace(context.left(_ENUMERATION), blocks=True)
    elif re.search(r"device", last, re.I):
        yield replaced(context, whole, device, typed=False)
    else:
        yield replaced(context, whole, device, False, Safety.UNSAFE, "this argument may not be a device")


def _is_chosen_autocast(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call is of a variable for autocast or what does nothing: `scope = autocast if amp else ...`.

    Or of an attribute of an object's own. What does nothing gives its argument back: `as` must not bind that.
    """
    item = module.parent(call)
    if not isinstance(item, ast.withitem) or item.optional_vars is not None:
        return False
    scope, chain = module.scope(call), chain_of(call.func) or ""
    found, owner = scope.find(chain), scope.enclosing_class()
    values = [binding.value for binding in found[1]] if found else []
    if owner is not None and not found:
        values += [value for value, _ in attribute_values(module, owner).get(chain, ())]
    chosen = [arm for v in values for arm in ((v.body, v.orelse) if isinstance(v, ast.IfExp) else (v,))]
    names = {module.resolve(arm, scope) if arm is not None else None for arm in chosen}
    return not names.isdisjoint(_AUTOCASTS) and names <= {*_AUTOCASTS, "contextlib.nullcontext"}


_AUTOCASTS = ("torch.autocast", "torch.amp.autocast")


def _torch_device(
    context: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, call: ast.Call
) -> Iterator[Finding]:
    """Yield the finding for `torch.device("cuda", i)`; under a flag (`"cuda" if args.cuda`) the string alone."""
    if outer is not whole:
        if device.index is None:
            yield context.replace(whole, device.as_type, Safety.SAFE)
        elif edits := _in_arms(context, whole, outer, device, call):
            yield context.fix(edits, Safety.SAFE)
        else:
            yield context.replace(whole, device.as_device, Safety.SAFE)
        return
    up = context.module.parent(call)
    if left := device_lists.beside_others(context, up):
        yield left
        return
    if (
        isinstance(up, ast.Compare)
        and len(call.args) == 1
        and not call.keywords
        and not in_fstring(context.module, call)
    ):
        yield _compared(context, call, device, up)
        return
    if isinstance(up, ast.Attribute) and isinstance(context.module.parent(up), ast.Compare):
        # the CPU's own type would equal the helper's where there is nothing else
        yield replace(context.left("what it is compared with asks for CUDA by name"), blocks=True)
        return
    if isinstance(up, ast.arguments) and not call.keywords:
        numbered = Device(context.module.text(call.args[1])) if len(call.args) > 1 else device
        yield from device_defaults.parameter_default(context, call, call, numbered, up, typed=True)
        return
    forms = [(f"torch.device({kind}$string)", device.as_device) for kind in ("", "type=")]
    if device.index is None:
        pairs = ("$string, $index", "$string, index=$index", "type=$string, index=$index")
        forms += [(f"torch.device({pair})", "accel.device($index)") for pair in pairs]
    found = next((f for form in forms if (f := context.rewrite(*form, call))), None)
    if found and found.fix:
        yield found
    else:  # a comment stands in the way, or arguments that torch does not have
        alone = len(call.args) == 1 and not call.keywords
        yield context.replace(whole, device.as_device if alone else "accel.device_type()", Safety.SAFE)


def _in_arms(context: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, call: ast.Call) -> list[Edit] | None:
    """Return the edits from `torch.device("cuda:1" if x else "cpu")` to devices in both arms, None for another form."""
    module, up = context.module, context.module.parent(call)
    match outer:
        case ast.IfExp(_, body, ast.Constant("cpu") as other) if body is whole and call.args == [outer]:
            is_argument = isinstance(up, ast.keyword) or (isinstance(up, ast.Call) and call in up.args)
            if call.keywords or outer.lineno != outer.end_lineno:
                return None
            if not is_argument and not isinstance(up, (ast.Assign, ast.Return)):
                return None
            (start, end), (inner, last) = module.span(call), module.span(outer)
            arms = spell(device.as_device, spelled(module)), f"{module.text(call.func)}({module.text(other)})"
            edits = [Edit(*module.span(arm), text) for arm, text in zip((body, other), arms, strict=True)]
            return [Edit(start, inner, ""), *edits, Edit(last, end, "")]
    return None


def _compared(context: RuleContext, call: ast.Call, device: Device, up: ast.Compare) -> Finding:
    """Return the finding for `x.device == torch.device("cuda")`, which is False on the CPU and must stay so."""
    if len(up.ops) == 1 and isinstance(up.ops[0], ast.Eq):
        parts = [device.as_device, 'torch.device("cpu")']
        statement = context.module.statement(up)
        if isinstance(statement, ast.If) and ends_program(statement.body):
            return context.left("CUDA alone is refused there")
        return context.replace(call, " != ".join(parts if up.left is not call else reversed(parts)))
    moves = isinstance(context.module.parent(up), ast.If)  # `if x.device != torch.device("cuda"): x = x.to(...)`
    if moves:
        return context.replace(call, device.as_device)
    return context.replace(
        call, device.as_device, Safety.UNSAFE, f"{context.rule.message}; on the CPU this changes its answer"
    )


def _parameter_is_device(module: SemanticModel, call: ast.Call, position: int) -> bool:
    """Return whether the project's functions that may be called here have a parameter named device there.

    A method of something that is not followed may be any method of its name.
    """
    hierarchy, place = module.facts.hierarchy, Place(str(module.path), module.scope(call))
    chain = chain_of(call.func)
    found = [*hierarchy.meanings(place, chain)] if chain else []
    takes = [
        isinstance(each, Definition)
        and _takes_device(each.node, position, is_method=isinstance(each.place.scope.node, ast.ClassDef))
        for each in found
    ]
    if isinstance(call.func, ast.Attribute) and not any(isinstance(each, (Definition, str)) for each in found):
        takes = [_takes_device(node, position, is_method=True) for node in hierarchy.named(call.func.attr)]
    return bool(takes) and all(takes)


def _is_item_handed_on(context: RuleContext, added: ast.Call) -> bool:
    """Return whether a call adds to a list, of which a function of the project is given an item as a device."""
    module, func = context.module, added.func
    if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.attr in device_lists.ADDS):
        return False
    know_parents(module)
    home = context.scope.find(func.value.id)
    for read in reads_of(module, func.value.id, home[0]) if home else ():
        item = module.parent(read.node)
        call = module.parent(item) if isinstance(item, ast.Subscript) and item.value is read.node else None
        if isinstance(call, ast.Call) and item in call.args:
            return _parameter_is_device(module, call, call.args.index(item))
    return False


def _takes_device(node: ast.AST, position: int, is_method: bool) -> bool:
    """Return whether a function, or the constructor of a class, has a parameter named device at a position.

    A function that is no method may have a parameter called `self`, too, to which a test gives itself.
    """
    if isinstance(node, ast.ClassDef):
        is_method = True
        node = next((s for s in node.body if isinstance(s, FUNCTIONS) and s.name == "__init__"), node)
    if not isinstance(node, FUNCTIONS):
        return False
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    names = names[1:] if is_method and names[:1] in (["self"], ["cls"]) else names
    return position < len(names) and bool(DEVICE_NAME.search(names[position]))


def device_string(context: RuleContext) -> Iterator[Finding]:
    sure = uses_torch(context.module) or is_used_with_torch(context.module)
    for finding in _findings(context):
        yield finding if sure or finding.fix is None else _doubted(finding)


def _doubted(finding: Finding) -> Finding:
    assert finding.fix is not None
    message = f"{finding.message}; nothing in this file shows that it is torch's"
    return replace(finding, message=message, safety=Safety.UNSAFE, fix=replace(finding.fix, safety=Safety.UNSAFE))


def _findings(context: RuleContext) -> Iterator[Finding]:
    module = context.module
    whole, outer = carrier(module, context.node)
    above = module.parent(whole) or whole
    if is_idiom(module, above) or is_idiom(module, module.parent(above) or above):
        return  # `torch.device("cuda") if torch.cuda.is_available() else "cpu"`: device/device-idiom's
    device = parse(module, whole)
    if "cuda" not in module.text(whole):
        return  # the span is wrong: before Python 3.12 `ast` may misplace nodes inside f-strings
    up = module.parent(outer)
    if isinstance(up, ast.Dict) and _says_where_to_load(module, up):
        yield context.left("the helper is given it, and answers for this machine")
        return
    found = _for_device(context, whole, outer, device, up) if device else iter(())
    spoken = next(found, None)
    if spoken is not None:
        yield spoken
        yield from found
    elif not _is_of_another_rule(context, whole, up):
        yield from device_lists.left(context, whole, outer, up)


def _says_where_to_load(module: SemanticModel, table: ast.Dict) -> bool:
    """Return whether a table is the `map_location` of `torch.load`, which device/map-location hands to the helper."""
    up = module.parent(table)
    call = module.parent(up) if isinstance(up, ast.keyword) and up.arg == "map_location" else up
    if not isinstance(call, ast.Call):
        return False
    is_load = module.resolve(call.func) == "torch.load" and call.args[:1] != [table]
    return (is_load and maps_cuda(module, table)) or helper_function(module, call.func) == "map_location"


def _is_of_another_rule(context: RuleContext, whole: ast.AST, up: ast.AST | None) -> bool:
    """Return whether another rule reports the string: in autocast, in a comparison or in `.cuda("cuda:0")`."""
    call = context.module.parent(up) if isinstance(up, ast.keyword) else up
    if not isinstance(call, ast.Call):
        return isinstance(up, ast.Compare) and isinstance(whole, ast.Constant)
    callee = context.module.resolve(call.func) or chain_of(call.func) or ""
    return bool(_OWN_RULES.match(callee)) or last_name(call.func) in ("cuda", "startswith")


def _for_device(
    context: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, up: ast.AST | None
) -> Iterator[Finding]:
    module = context.module
    match up:
        case _ if device_defaults.is_closed(module, up, outer):
            yield context.note(f"{context.rule.message}; {device_defaults.CLOSED}")
        case ast.keyword(arg):
            call = module.parent(up)
            assert isinstance(call, (ast.Call, ast.ClassDef))
            if isinstance(call, ast.Call) and _is_for_helper(module, call, outer):
                yield context.replace(whole, device.as_device)
            elif isinstance(call, ast.Call) and not is_foreign(context, call):
                yield from keyword(context, whole, outer, device, call, arg)
        case ast.Call() if is_default(up, outer):
            yield device_defaults.at_import_checked(context, whole, device.as_type)
        case ast.Call() if device_lists.is_parameter(module, up):
            yield from device_lists.element(context, whole, device, up)
        case ast.Call() if device_lists.added(module, up, _given_as_devices(module)) or _is_item_handed_on(context, up):
            yield device_defaults.at_import_checked(context, whole, device.as_type)
        case ast.Call() if _is_for_helper(module, up, outer):
            yield context.replace(whole, device.as_device)
        case ast.Call() if not is_foreign(context, up):
            yield from argument(context, whole, outer, device, up)
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            targets = up.targets if isinstance(up, ast.Assign) else [up.target]
            yield from _assigned(context, whole, device, up, targets)
        case ast.Tuple() if targets := _unpacked_to(module, up, outer):
            unpacked = [*_assigned(context, whole, device, up, targets)]
            yield from unpacked or device_lists.element(context, whole, device, up)
        case ast.arguments():
            yield from device_defaults.parameter_default(context, whole, outer, device, up)
        case ast.Return() | ast.Lambda() | ast.Yield():
            yield from _returned(context, whole, device, up)
        case ast.Dict() if any(v is outer for v in up.values):
            yield from _dict_value(context, whole, outer, device, up)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() if up.elt is not outer:
            return
        case ast.Compare(left, [ast.Eq() | ast.NotEq()], [right]) if not isinstance(whole, ast.Constant):
            if DEVICE_NAME.search(last_name(right if left is outer else left)):
                yield context.replace(whole, device.as_type)  # of a constant, device/device-test tells
        case ast.Tuple() | ast.List() | ast.Set() | ast.DictComp() if is_beside_cpu(module, whole):
            yield device_defaults.at_import_checked(context, whole, device.as_type)
        case ast.Tuple() | ast.List() | ast.Set() | ast.Starred() | ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            yield from device_lists.element(context, whole, device, up)


def _unpacked_to(module: SemanticModel, items: ast.Tuple, item: ast.AST) -> list[ast.expr]:
    """Return the targets that take an item of a tuple: `device` in `dtype, device = torch.float32, "cuda"`."""
    statement = module.parent(items)
    if not isinstance(statement, ast.Assign):
        return []
    unpacked = [t.elts for t in statement.targets if isinstance(t, (ast.Tuple, ast.List))]
    alike = len(unpacked) == len(statement.targets) and all(len(each) == len(items.elts) for each in unpacked)
    if not alike or any(isinstance(each, ast.Starred) for each in itertools.chain(items.elts, *unpacked)):
        return []
    at = next(n for n, each in enumerate(items.elts) if each is item)
    return [each[at] for each in unpacked]


def _assigned(
    context: RuleContext, whole: ast.AST, device: Device, up: ast.AST, targets: Sequence[ast.expr]
) -> Iterator[Finding]:
    target = next((t for t in targets if DEVICE_NAME.search(_target_name(t))), targets[0])
    name = _target_name(target)
    if _is_member(context, up):
        yield context.left(_ENUMERATION)
        return
    if isinstance(target, ast.Subscript) and any("environ" in n for n in identifiers_in(context.module, target.value)):
        return
    if isinstance(up, ast.AnnAssign) and device_defaults.in_dataclass(context, up):
        yield from device_defaults.dataclass_default(context, whole, device, up)
    elif DEVICE_NAME.search(name) or _flows_to_device(context, name) or _is_else_cpu(context.module, up, target):
        found = device_defaults.at_import_checked(context, whole, device.as_type)
        if found.fix and found.safety is Safety.SAFE and (given := _given_instead(context.module, up, target)):
            (start, end), opening = context.module.span(given), spell("str(accel.device(", spelled(context.module))
            found = context.fix([*found.fix.edits, Edit(start, start, opening), Edit(end, end, "))")])
        yield found
    elif re.search(r"device|cuda|gpu", name, re.I) or isinstance(context.module.parent(whole), ast.IfExp):
        yield replaced(context, whole, device, False, Safety.UNSAFE, f"`{name}` may not be a device")


def _given_instead(module: SemanticModel, statement: ast.AST, target: ast.expr) -> ast.expr | None:
    """Return what a user may give in the place of a device, behind a test for CUDA: without it, that was not heard.

    `if torch.cuda.is_available():` and in it `if name is not None: device = name` with `else: device = "cuda"`
    """
    branch = module.parent(statement)
    match branch:
        case ast.If(ast.Compare(given, [ast.IsNot()], [ast.Constant(None)])):
            arm, other = branch.orelse, branch.body
        case ast.If(ast.Compare(given, [ast.Is()], [ast.Constant(None)])):
            arm, other = branch.body, branch.orelse
        case _:
            return None
    around = (up.test for up, below in module.around(branch, ast.If) if below in up.body)
    if statement not in arm or not any(asks_cuda(module, test) for test in around):
        return None
    match [each for each in other if not isinstance(each, ast.Expr)]:
        case [ast.Assign([taker], value)] if chain_of(taker) == chain_of(target) and chain_of(given):
            return value if chain_of(value) == chain_of(given) else None
    return None


def _is_member(context: RuleContext, statement: ast.AST) -> bool:
    """Return whether an assignment makes a member of an Enum: `class Device(str, Enum): CUDA = "cuda"`."""
    module = context.module
    return module.facts.hierarchy.is_enumeration(class_definition(module, module.scope(statement)))


def _finds_member(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a call finds a member of an Enum of the project by its value: `Device("cuda")`."""
    chain = chain_of(call.func)
    hierarchy, place = context.module.facts.hierarchy, Place(str(context.module.path), context.scope)
    return chain is not None and any(map(hierarchy.is_enumeration, hierarchy.meanings(place, chain)))


def _is_else_cpu(module: SemanticModel, node: ast.AST, target: ast.expr) -> bool:
    """Return whether the same function gives the variable "cpu" elsewhere: it holds a device, whatever it is called."""
    return (chain_of(target), module.function(node)) in _given_cpu(module)


@query
def _given_cpu(module: SemanticModel) -> set[tuple[str | None, Function | None]]:
    assigned = (s for s in module.scopes.statements if isinstance(s, ast.Assign) and is_cpu(module, s.value))
    return {(chain, module.function(s)) for s in assigned for t in s.targets if (chain := chain_of(t))}


def _target_name(target: ast.expr) -> str:
    match target:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case ast.Subscript(_, ast.Constant(str(key))):
            return key
    return ""


def _flows_to_device(context: RuleContext, name: str) -> bool:
    """Return whether the name is handed to `.to(...)`, `device=` or `torch.device(...)` anywhere in the file."""
    return name in _given_as_devices(context.module)


@query
def _given_as_devices(module: SemanticModel) -> set[str]:
    """Return the names and attributes given where a device is taken: `args`, `mode` of `x.to(args.mode)`.

    Of a variable that is given there, or of an item of it, so are the names and functions that it gets its value from.
    """
    values = [value for node in module.nodes for value in _taken_as_device(node)]
    given: dict[str, list[ast.expr]] = {}  # by variable or attribute, what is assigned or added to it
    for statement in module.scopes.statements:
        for target, value in _gives(statement):
            given.setdefault(last_name(target), []).append(value)

    todo = [read for value in values for read in _reads(value)]
    found = set(todo)
    while todo:
        read = todo.pop()
        items = (item for value in given.get(read.name, ()) for item in _picked(value, read))
        fresh = {source for item in items for source in _reads(item)} - found
        found |= fresh
        todo += fresh
    names = {read.name for read in found}
    return names.union(*((leading_chain(value) or "").split(".") for value in values)) - {""}


class _Read(NamedTuple):
    """A read of a variable, an attribute or what a function returns, or of an item in it: `x["a"][0]`."""

    name: str
    keys: tuple[object, ...] = ()  # from outer to inner; None stands for any item


def _reads(value: ast.expr) -> list[_Read]:
    """Return the reads of which one is what a value gives."""
    found = []
    for inner in _alternatives(value):
        read: ast.expr = inner
        keys: tuple[object, ...] = ()
        while isinstance(read, ast.Subscript):
            key = read.slice.value if isinstance(read.slice, ast.Constant) else None
            read, keys = read.value, (key, *keys)
        found.append(_Read(last_name(read if keys else getattr(read, "func", read)), keys))
    return found


def _gives(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """Return the pairs (variable, value) of an assignment, or of a call that adds to a list."""
    match statement:
        case ast.Assign(targets, value):
            return [(target, value) for target in targets if isinstance(target, (ast.Name, ast.Attribute))]
        case ast.Expr(ast.Call(ast.Attribute(variable, name), args)) if name in device_lists.ADDS:
            return [(variable, ast.Set(args))]  # at any place in it
    return []


def _picked(value: ast.expr, read: _Read) -> list[ast.expr]:
    """Return what a read of a variable with this value gives: the value, or the items of it that it may be."""
    found = [value]
    for key in read.keys:
        found = [item for held in found for item in _items(held, key)]
    return found


def _items(value: ast.expr, key: object) -> list[ast.expr]:
    """Return the items of a container that a key may pick."""
    match value:
        case ast.Tuple(elts) | ast.List(elts) if isinstance(key, int):
            return elts[key : key + 1]
        case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
            return elts
        case ast.Dict(keys, items):
            pairs = [*zip(keys, items, strict=True)]
        case ast.DictComp(ast.Name(), ast.Name(), [ast.comprehension(_, ast.Tuple(listed) | ast.List(listed))]):
            pairs = [(each.elts[0], each.elts[-1]) for each in listed if isinstance(each, ast.Tuple) and each.elts]
        case _:
            return []
    return [v for k, v in pairs if key is None or not isinstance(k, ast.Constant) or k.value == key]


def _alternatives(value: ast.expr) -> list[ast.expr]:
    """Return the expressions of which one is what a value gives: the arms of a choice, what a lambda returns."""
    match value:
        case ast.Lambda(_, body):
            return _alternatives(body)
        case ast.IfExp(_, body, orelse):
            return _alternatives(body) + _alternatives(orelse)
        case ast.BoolOp(_, operands):
            return [inner for operand in operands for inner in _alternatives(operand)]
    return [value]


def _taken_as_device(node: ast.AST) -> list[ast.expr]:
    """Return the values that a call, an argument, a default or an assignment takes as a device."""
    match node:
        case ast.Call(ast.Attribute(_, name) as func, [first, *_]) if name == "to" or chain_of(func) in _TAKING:
            return [first]
        case ast.Call(ast.Attribute(_, "add_argument" | "add_option"), [*names], keywords) if any(
            isinstance(name, ast.Constant) and _TAKER.search(str(name.value)) for name in names
        ):
            return [keyword.value for keyword in keywords if keyword.arg == "default"]
        case ast.keyword(str(name), value) if _TAKER.search(name):
            return [value]
        case ast.keyword(None, ast.Dict(keys, values)):
            texts = [key.value if isinstance(key, ast.Constant) else "" for key in keys]
            return [v for text, v in zip(texts, values, strict=True) if _TAKER.search(str(text))]
        case ast.Assign(targets, value) if any(_TAKER.search(last_name(target)) for target in targets):
            return [value]
        case ast.arguments():
            return [value for parameter, value in given_defaults(node) if _TAKER.search(parameter.arg)]
    return []


def _returned(context: RuleContext, whole: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    function = context.module.function(up)
    name = function.name if function else ""
    is_device = re.search(r"device|dev$", name, re.I) or _flows_to_device(context, name)
    is_choice = function in _returning_cpu(context.module)
    if is_device or (is_choice and (_is_asked_nowhere(context.module, function) or name in _kept(context.module))):
        yield replaced(context, whole, device, typed=False)
    else:
        yield replaced(context, whole, device, False, Safety.UNSAFE, "what this returns may not be a device")


@query
def _returning_cpu(module: SemanticModel) -> set[Function | None]:
    """Return the functions that return "cpu" somewhere: they choose a device, whatever they are called."""
    returned = (s for s in module.scopes.statements if isinstance(s, ast.Return))
    return {module.function(s) for s in returned if s.value is not None and is_cpu(module, s.value)}


def _is_asked_nowhere(module: SemanticModel, function: Function | None) -> bool:
    """Return whether nothing in the project is seen to get what a function returns: no use of it can go wrong.

    A method is an attribute wherever it is called.
    """
    if function is None:
        return False
    is_method = isinstance(module.parent(function), ast.ClassDef)
    return function.name not in _asked(module)[is_method] and not is_imported(module)


@query
def _kept(module: SemanticModel) -> set[str]:
    """Return the functions whose answers a variable, a parameter or an argument holds, and that are not only told."""
    values = [v for s in module.scopes.statements if isinstance(s, (ast.Assign, ast.AnnAssign)) and (v := s.value)]
    for node in module.nodes:
        if isinstance(node, ast.arguments):
            values += [default for _, default in given_defaults(node)]
        elif isinstance(node, ast.keyword):
            values.append(node.value)
        elif isinstance(node, ast.Call) and last_name(node.func) not in _TELLING:
            values += node.args
    kept = (inner for value in values for inner in _alternatives(value))
    return {last_name(inner.func) for inner in kept if isinstance(inner, ast.Call)}


@query
def _asked(module: SemanticModel) -> tuple[set[str], set[str]]:
    """Return the names that the file reads, and those that it reads as an attribute."""
    attributes = {node.attr for node in module.nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in module.nodes if isinstance(node, ast.Name)}, attributes


_RECORDS = {"save", "dump", "dumps", "log", "write", "print", "assertEqual"}
_TELLING = {*_RECORDS, "str", "format"}


def _key(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _dict_value(
    context: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, up: ast.Dict
) -> Iterator[Finding]:
    key = up.keys[next(i for i, v in enumerate(up.values) if v is outer)]
    owner = context.module.parent(up)
    if isinstance(owner, ast.Call) and (chain_of(owner.func) or "").rpartition(".")[2] in _RECORDS:
        return  # what is written down is data, not a device to use
    if (isinstance(owner, ast.keyword) and owner.arg == "map_location") or _only_loads_by(context.module, up):
        yield replaced(context, whole, device, typed=False)
    elif _key(key) == "device_type" and "enabled" in map(_key, up.keys):  # options of autocast
        yield context.replace(whole, "accel.autocast_type()")
    elif isinstance(key, ast.Constant) and isinstance(key.value, str) and DEVICE_NAME.search(key.value):
        yield device_defaults.at_import_checked(context, whole, device.as_type)
    elif outer is not whole:
        yield replaced(context, whole, device, False, Safety.UNSAFE, "this value may not be a device")
