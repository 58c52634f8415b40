"""`x.cuda(...)` becomes `x.to(accel.device(...))`: the current device, each argument changed where it stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.hazard.mps import names_device
from torchmigrate.semantic.device_expr import in_fstring, maps_cuda, parse_device, without_blocking, wrapped
from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.library_use import asks_cuda, uses_torch
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.receiver import Kind, is_module, may_be_asked_for_its_place, receiver_kind
from torchmigrate.semantic.references import (
    Reference,
    asks_accelerator,
    helper_function,
    identifiers_in,
    reads_of,
    spell,
    spelled,
    strings_in,
)
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import argument_of, chain_of, last_name, leading_chain
from torchmigrate.syntax.scope import FUNCTIONS, Scope, own_nodes

_PARAMETERS = ("device", "non_blocking", "memory_format")
_COMMENT = re.compile(rb"#[^\r\n]*")
_CALL = re.compile(rb"cuda[\s\\]*\([\s\\]*")


def tensor_cuda(context: RuleContext) -> Iterator[Finding]:
    if context.call is None or context.qualified:
        yield from _reference(context)
        return
    assert isinstance(context.ref, ast.Attribute)
    kind = receiver_kind(context.module, context.ref.value, context.scope)
    if _in_map_location(context):
        return
    if kind is Kind.USER:
        yield context.left("this `cuda()` is a method of the project's own")
        return
    if kind is Kind.FOREIGN:
        yield context.note("another library's class makes this, and nothing shows that it has a `to` as torch's have")
        return
    if kind is Kind.STORAGE:
        yield context.note("a storage has no `.to(device)` that takes a positional device; move the tensor instead")
        return
    named = _arguments(context.call)
    if named is None:
        yield context.note("the arguments are not those of torch's `cuda()`, so the receiver may be something else")
        return
    if kind is Kind.MAYBE_USER and not _is_super(context.ref) and _asks_more_than_own(context, named):
        kind = Kind.TORCH
    safety, message = _safety(context, kind)
    yield _moved(context, named, safety, message) or context.note("`.cuda()` in a form that is not understood")


def _is_super(ref: ast.AST) -> bool:
    """Return whether a method is that of `super()`."""
    return isinstance(ref, ast.Attribute) and isinstance(ref.value, ast.Call) and last_name(ref.value.func) == "super"


def _is_used(context: RuleContext) -> bool:
    """Return whether something goes on with what a call gives."""
    return context.call is not None and not isinstance(context.module.parent(context.call), ast.Expr)


def _moves_doubtful(context: RuleContext) -> bool:
    """Return whether a class's own `cuda()` moves something beside `super()` of which it is not known what it is."""
    module, method = context.module, context.module.function(context.node)
    moved = (call.func for call in ast.walk(method) if isinstance(call, ast.Call)) if method else ()
    receivers = [f.value for f in moved if isinstance(f, ast.Attribute) and f.attr == "cuda" and not _is_super(f)]
    kinds = {receiver_kind(module, receiver, module.scope(receiver)) for receiver in receivers}
    return _is_used(context) and Kind.MAYBE_USER in kinds


def _asks_more_than_own(context: RuleContext, named: dict[str, ast.expr]) -> bool:
    """Return whether no `cuda()` of the project's would do: it takes no argument, or gives nothing to go on with."""
    own = context.module.facts.own_cuda
    return bool(named and own.classes <= own.bare) or (_is_used(context) and own.classes <= own.void)


def _safety(context: RuleContext, kind: Kind) -> tuple[Safety, str]:
    doubt = ""
    if kind is Kind.MAYBE_USER:
        doubt = "the class above may define `cuda()`" if _is_super(context.ref) else _OWN
    elif _is_super(context.ref) and _moves_doubtful(context):
        doubt = "this method moves more, which may be moved by a `cuda()` of the project's"
    elif not uses_torch(context.module):
        doubt = "nothing in this file shows that the receiver is a torch object"
    return (Safety.UNSAFE, f"{context.rule.message}; {doubt}") if doubt else (Safety.SAFE, "")


def _arguments(call: ast.Call) -> dict[str, ast.expr] | None:
    """Return the arguments by parameter, or None if they are not those of torch's `cuda()`."""
    if len(call.args) > 2 or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    named = dict(zip(_PARAMETERS, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in _PARAMETERS or keyword.arg in named:
            return None
        named[keyword.arg] = keyword.value
    return named


_OWN = "a class of this project defines `cuda()` and may be the receiver"


def _moved(context: RuleContext, named: dict[str, ast.expr], safety: Safety, message: str) -> Finding | None:
    """Return the finding whose edits change names and values only: comments and layout between arguments stay."""
    module, call = context.module, context.call
    assert call is not None
    if in_fstring(module, call):  # `ast` misplaces these before Python 3.12
        return None if named else context.rewrite("$x.cuda()", "$x.to(accel.device())", None, safety, message)
    end = module.span(call.func)[1]
    head = _CALL.match(module.source.utf8, end - len(b"cuda"))
    if head is None:
        return None
    edits = [Edit(end - len(b"cuda"), end, "to")]
    if "device" in named:
        edits += _on_device(module, named["device"])
    else:
        edits.append(Edit(head.end(), head.end(), spell(f"accel.device(){', ' if named else ''}", spelled(module))))
    if "non_blocking" in named:
        edits += without_blocking(module, named["non_blocking"])
    if len(call.args) == 2:
        between = module.span(call.args[0])[1], module.span(call.args[1])[0]
        if b"(" in _COMMENT.sub(b"", module.source.utf8[slice(*between)]):
            return None  # the second argument stands in parentheses
        edits = _keyword_before(edits, between[1])
    return context.fix(edits, safety, message)


def _keyword_before(edits: list[Edit], at: int) -> list[Edit]:
    """Add a keyword before the second argument of `x.cuda(i, True)`: `.to()` has another second parameter."""
    word = "non_blocking="
    if not any(e.start == at for e in edits):
        return [*edits, Edit(at, at, word)]
    return [Edit(e.start, e.end, word + e.text) if e.start == at else e for e in edits]


def _on_device(module: SemanticModel, node: ast.expr) -> list[Edit]:
    match node:
        case ast.Call(ast.Attribute(asking, "get_device") as asked, [], []) if may_be_asked_for_its_place(
            module, asking
        ):
            return [Edit(module.span(asked)[1] - len("get_device"), module.span(node)[1], "device")]
        case ast.Call(maker) if helper_function(module, maker) == "device":
            return []
        case ast.Call(maker, [ast.Name() | ast.Attribute() | ast.Subscript()], []):
            if module.resolve(maker) == "torch.device":
                return [Edit(*module.span(maker), spell("accel.device", spelled(module)))]
    device = parse_device(module, node)
    is_none = isinstance(node, ast.Constant) and node.value is None
    if device or is_none:
        return [Edit(*module.span(node), spell(device.as_device if device else "accel.device()", spelled(module)))]
    return wrapped(module, node, "accel.device(")


def _in_map_location(context: RuleContext) -> bool:
    """Return whether the call stands in the lambda of a `torch.load`, which device/map-location handles."""
    inside = context.module.nearest(context.node, ast.Lambda)
    up = inside and context.module.parent(inside)
    call = context.module.parent(up) if isinstance(up, ast.keyword) else up
    return isinstance(call, ast.Call) and context.module.resolve(call.func) in ("torch.load", "torch.jit.load")


def _reference(context: RuleContext) -> Iterator[Finding]:
    """Yield a note for `x.cuda` without a call if it is handed on as a function; otherwise it is a flag."""
    up = context.parent
    value = getattr(context.ref, "value", context.ref)
    root = (leading_chain(value) or "").partition(".")[0].lower()
    handed_on = isinstance(up, ast.Call) and context.ref in up.args
    if context.qualified or (handed_on and root not in _FLAG_ROOTS and "args" not in root and "opt" not in root):
        yield context.note("`cuda` handed on as a function: write `lambda t: t.to(accel.device())` if it is torch's")


_FLAG_ROOTS = {
    "self",
    "cls",
    "cfg",
    "config",
    "conf",
    "hparams",
    "params",
    "flags",
    "hps",
    "settings",
    "ns",
    "namespace",
}


_KEPT = "accel.map_location()"


def map_location(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None or any(isinstance(a, ast.Starred) for a in call.args):
        return
    if any(k.arg is None for k in call.keywords):
        yield from _spread(context, call)
        return
    given = argument_of(call, "map_location", 1)
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        if not context.module.facts.is_for_devices or not (call.args or call.keywords):
            return
        if asks_accelerator(context.module):
            yield context.left("a file that asks torch.accelerator is portable by its own means")
        elif _is_test_without_cuda(context.module):
            yield context.left("a test that speaks of no CUDA loads what was saved beside it")
        elif _is_cache(context, call):
            yield context.left("this function saves that file itself, and moves nothing to a device")
        elif _is_of_this_run(context.module, call):
            yield context.left("Lightning saved that file in the same run")
        elif not _on_the_cpu(context, call) and (line := _line_of_array(context.module, call)):
            yield context.left(f"it was saved from the CPU, as `.numpy()` of it shows (line {line})")
        elif _is_saved_again(context.module, call):
            yield context.note(_CONVERTS)
        else:
            text = _on_the_cpu(context, call) or _KEPT
            yield context.replace(given, text) if given else _missing(context, call, text)
    elif isinstance(given, ast.Name):
        yield from _perhaps_none(context, call, given)
    elif isinstance(given, ast.Lambda):
        yield from _function(context, given)
    elif isinstance(given, ast.Dict) and maps_cuda(context.module, given):
        start, end = context.module.span(given)
        opening = spell("accel.map_location(", spelled(context.module))
        yield context.fix([Edit(start, start, opening), Edit(end, end, ")")])


def _spread(context: RuleContext, call: ast.Call) -> Iterator[Finding]:
    """Put `map_location` into the dicts that give none: `options = {}`, and then `torch.load(path, **options)`."""
    module = context.module
    found = [k.value for k in call.keywords if k.arg is None]
    name = found[0].id if len(found) == 1 and len(call.keywords) == 1 and isinstance(found[0], ast.Name) else ""
    bindings = context.scope.names.get(name, [])
    tables = [b.value for b in bindings if isinstance(b.value, ast.Dict)]
    loads = _loads_with(module, name, context.scope)
    if not module.facts.is_for_devices or not tables or len(tables) < len(bindings) or loads[:1] != [call]:
        return
    lacking = [t for t in tables if None not in t.keys and "map_location" not in strings_in(module, t)]
    quote = "'" if "'" in "".join(map(module.text, tables)) else '"'
    entry = spell(f"{quote}map_location{quote}: {_KEPT}", spelled(module))
    edits = [
        Edit(at, at, entry + (", " if table.keys else "")) for table in lacking for at in [module.span(table)[0] + 1]
    ]
    if edits:
        yield context.fix(edits)


def _perhaps_none(context: RuleContext, call: ast.Call, given: ast.Name) -> Iterator[Finding]:
    """Replace the None of a variable that `torch.load` alone gets: `where = "cpu" if to_cpu else None`."""
    module = context.module
    home, bindings = context.scope.find(given.id) or (None, [])
    values = [binding.value for binding in bindings if binding.value is not None]
    loads = [_load_with(module, reference) for reference in reads_of(module, given.id, home)]
    is_known = len(values) == len(bindings) and None not in loads and loads[:1] == [call]
    if not is_known or not module.facts.is_for_devices or any(asks_cuda(module, value) for value in values):
        return  # what asks for CUDA, device/device-idiom replaces
    arms = [arm for value in values for arm in _arms(value)]
    nones = [arm for arm in arms if isinstance(arm, ast.Constant) and arm.value is None]
    if 0 < len(nones) < len(arms):
        kept = spell(_KEPT, spelled(module))
        yield context.fix([Edit(*module.span(none), kept) for none in nones])


def _arms(value: ast.expr) -> Iterator[ast.expr]:
    """Yield what an expression may give: the arms of a choice, and of those in it."""
    if isinstance(value, ast.IfExp):
        yield from (*_arms(value.body), *_arms(value.orelse))
    else:
        yield value


def _load_with(module: SemanticModel, reference: Reference) -> ast.Call | None:
    """Return the call of torch.load whose `map_location` a read is."""
    know_parents(module)
    up = module.parent(reference.node)
    taking = module.parent(up) if isinstance(up, ast.keyword) else up
    if not isinstance(taking, ast.Call) or argument_of(taking, "map_location", 1) is not reference.node:
        return None
    return taking if module.resolve(taking.func, reference.scope) == "torch.load" else None


def _loads_with(module: SemanticModel, name: str, scope: Scope) -> list[ast.Call]:
    """Return the calls of torch.load that get all of a dict's options; none if something else reads the dict."""
    know_parents(module)
    read = [n for n in ast.walk(scope.node) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    calls = [module.parent(up) for n in read if (up := module.parent(n)) is not None]
    loads = [c for c in calls if isinstance(c, ast.Call) and module.resolve(c.func, scope) == "torch.load"]
    return sorted(loads, key=module.span) if len(loads) == len(calls) else []


def _on_the_cpu(context: RuleContext, call: ast.Call) -> str:
    """Return "cpu" for what a module alone gets, which copies it to its parameters, or NumPy does; else ""."""
    module, is_plain = context.module, False
    part, user = _part_used(module, call)
    match user:
        case ast.Attribute(_, "numpy" | "tolist" | "cpu"):
            is_plain = isinstance(module.parent(user), ast.Call)
        case ast.Call(ast.Attribute(receiver, "load_state_dict"), [first, *more], keywords) if first is part:
            is_plain = len(more) + len(keywords) < 2 and all(k.arg == "strict" for k in keywords)
            is_plain = is_plain and is_module(module, receiver, context.scope)
    if not is_plain or in_fstring(module, call):
        return ""
    text = module.text(call)
    return "'cpu'" if "'" in text and '"' not in text else '"cpu"'


def _line_of_array(module: SemanticModel, node: ast.AST, deep: int = 3) -> int:
    """Return the line that makes an array of NumPy's of a part of a value which nothing moves, or 0.

    The value lies on the CPU then: CUDA's tensors refuse it. It is followed through names, and attributes of `self`.
    """
    know_parents(module)
    part, user = _part_used(module, node)
    if isinstance(user, ast.Attribute) and user.attr == "numpy" and isinstance(module.parent(user), ast.Call):
        return user.lineno
    for target in _bound_to(module, part) if deep else ():
        name = chain_of(target) or ""
        found = module.scope(target).find(name) if isinstance(target, ast.Name) else None
        reads = reads_of(module, name, found[0] if found else None) if name else ()
        if any(read.chain in (f"{name}.cpu", f"{name}.to") for read in reads):
            continue
        for read in reads:
            if found and module.span(read.node) < module.span(target):
                continue  # what the name held before
            if read.chain == f"{name}.numpy" and isinstance(module.parent(read.node), ast.Call):
                return read.node.lineno
            if read.chain == name and (line := _line_of_array(module, read.node, deep - 1)):
                return line
    return 0


def _bound_to(module: SemanticModel, value: ast.AST) -> Sequence[ast.expr]:
    """Return what an assignment binds to a value, or to parts of it: names, and attributes of `self`."""
    match up := module.parent(value):
        case ast.Assign([ast.Tuple(targets)]):
            return targets
        case ast.Assign(targets):
            return targets
        case ast.Tuple(values):
            match module.parent(up):
                case ast.Assign([ast.Tuple(targets)]) if len(targets) == len(values):
                    return [target for target, each in zip(targets, values, strict=True) if each is value]
    return ()


def _part_used(module: SemanticModel, call: ast.AST) -> tuple[ast.AST, ast.AST | None]:
    """Return the part of what is loaded that is used, `torch.load(path)["model"]`, and the node that uses it."""
    part = call
    user = module.parent(call)
    while isinstance(user, ast.Subscript) and user.value is part:
        part, user = user, module.parent(user)
    return part, user


def _is_state(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether what is loaded goes into `load_state_dict` at once, which moves or copies it."""
    part, user = _part_used(module, call)
    return isinstance(user, ast.Call) and part in user.args and last_name(user.func) == "load_state_dict"


@query
def _is_test_without_cuda(module: SemanticModel) -> bool:
    """Return whether a file is a test that does not name CUDA; apart from tests, what reads a command line is none.

    What `mock.patch("torch.cuda.Stream")` replaces is not asked for a device.
    """
    is_program = "argparse" in module.scopes.module.libraries()  # which only its folder can make a test
    path = module.path.with_name("main.py") if is_program else module.path
    if not module.facts.is_test(str(path)):
        return False
    words = (identifiers_in(module, module.tree) | strings_in(module, module.tree)) - _replaced(module)
    return not any("cuda" in word for word in words)


def _replaced(module: SemanticModel) -> set[str]:
    """Return what tests replace, by name, and the parameters for stand-ins: `mock.patch("torch.cuda.Stream")`."""
    found: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.Call) and last_name(node.func) == "patch" and node.args:
            found.add(str(getattr(node.args[0], "value", "")))
            up = module.parent(node)
            if isinstance(up, FUNCTIONS) and node in up.decorator_list:
                found.update(parameter.arg for parameter in up.args.args)
    return found


def _is_cache(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a function loads a file that it saves too, and moves nothing: prepared data on the CPU."""
    function = context.module.function(call)
    return bool(call.args) and function is not None and ast.dump(call.args[0]) in _caches(context.module, function)


_CONVERTS = (
    "what is loaded here is saved again, and a file says on which device its tensors were: "
    '`map_location="cpu"` makes one that loads on every machine'
)


def _is_saved_again(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a function loads a file, moves nothing, and saves what it makes of it: it converts the file."""
    return call in _converted(module, module.function(call) or module.tree)


@query
def _converted(module: SemanticModel, home: ast.AST) -> set[ast.AST]:
    """Return the calls of `torch.load` in a function, or above all functions, whose values `torch.save` gets later."""
    function = home if isinstance(home, FUNCTIONS) else None
    own = [s for s in module.scopes.statements if module.function(s) is function]
    calls = [node for statement in own for node in own_nodes(statement) if isinstance(node, ast.Call)]
    loads = [call for call in calls if module.resolve(call.func) == "torch.load"]
    saved = [call.args[0] for call in calls if module.resolve(call.func) == "torch.save" and call.args]
    if not loads or not saved or any(map(names_device, calls)):
        return set()
    found: set[ast.AST] = set()
    for load in loads:
        made = {root for target in _bound_to(module, load) if (root := leading_chain(target))}
        for statement in own if made else ():
            match statement:
                case ast.Assign(targets, value) if module.span(load) < module.span(value) and _reads(value, made):
                    made |= {root for target in targets if (root := leading_chain(target))}
        later = (value for value in saved if module.span(load) < module.span(value))
        found |= {load} if any(_reads(value, made) for value in later) else set()
    return found


def _reads(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


def _is_of_this_run(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call loads what Lightning saved before: `checkpoint.best_model_path` of a ModelCheckpoint."""
    match call.args[:1]:
        case [ast.Attribute(ast.Name(name) as owner, "best_model_path" | "last_model_path")]:
            found = module.scope(owner).find(name)
            values = [binding.value for binding in found[1]] if found else []
            return bool(values) and all(_makes_checkpoints(module, value) for value in values)
    return False


def _makes_checkpoints(module: SemanticModel, value: ast.AST | None) -> bool:
    name = module.resolve(value.func) if isinstance(value, ast.Call) else None
    home, _, last = (name or "").rpartition(".")
    return last == "ModelCheckpoint" and home.partition(".")[0] in ("pytorch_lightning", "lightning")


@query
def _caches(module: SemanticModel, function: ast.AST) -> set[str]:
    """Return the paths, as dumps, that a function saves other things to than states; none if it moves anything."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    if any(map(names_device, calls)):
        return set()
    saved = [call.args for call in calls if module.resolve(call.func) == "torch.save" and len(call.args) > 1]
    return {ast.dump(path) for value, path, *_ in saved if not any(map(_gives_state, ast.walk(value)))}


def _gives_state(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "state_dict"


def _missing(context: RuleContext, call: ast.Call, text: str) -> Finding:
    """Return the finding that adds `map_location` after the first argument; `load(` stays as the file spells it."""
    if in_fstring(context.module, call):  # `ast` may misplace these before Python 3.12
        return context.rewrite("torch.load($f)", f"torch.load($f, map_location={_KEPT})") or context.note()
    island = context.module.island(call)
    if island is None:
        return context.note()
    after = island.span(island.root.args[0].value)[1]  # type: ignore[attr-defined]
    edits = [Edit(after, after, spell(f", map_location={text}", spelled(context.module)))]
    module = context.module
    is_followed = _is_moved_later(module, call) or _is_state(module, call)
    if text == _KEPT and module.path.suffix == ".ipynb" and not is_followed:
        # cells run in any order, and another one may count on where the tensor was
        return context.fix(edits, Safety.UNSAFE, f"{context.rule.message}; what other cells do with it is not known")
    return context.fix(edits)


def _is_moved_later(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether the variable that holds what is loaded, or a part of it, is moved by `.cuda()` or `.to(...)`."""
    below: ast.AST = call
    up = module.parent(below)
    while isinstance(up, (ast.Subscript, ast.Attribute)) or (isinstance(up, ast.Call) and up.func is below):
        below, up = up, module.parent(up)
    if not (isinstance(up, ast.Assign) and len(up.targets) == 1 and isinstance(up.targets[0], ast.Name)):
        return False
    moves = (n for n in module.nodes if isinstance(n, ast.Attribute) and n.attr in ("cuda", "to"))
    return any((leading_chain(node) or "").partition(".")[0] == up.targets[0].id for node in moves)


def _function(context: RuleContext, given: ast.Lambda) -> Iterator[Finding]:
    """Yield the finding for a `map_location` lambda, which keeps all on the CPU or moves all to one device."""
    names = [a.arg for a in given.args.args]
    match given.body:
        case ast.Call(ast.Attribute(ast.Name(name), "cuda"), [], []) if names and name == names[0]:
            yield context.replace(given, "accel.device()")
        case ast.Call(ast.Attribute(ast.Name(name), "cuda"), [index], []) if names and name == names[0]:
            yield context.replace(given, f"accel.device({context.module.text(index)})")
        case body if any(isinstance(n, ast.Attribute) and n.attr == "cuda" for n in ast.walk(body)):
            yield context.note("a function that moves storages to CUDA: give `map_location` the device itself")
