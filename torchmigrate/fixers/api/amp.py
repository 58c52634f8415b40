"""Fixers for autocast, gradient scalers, `custom_fwd` and the like.

Only the device type changes. Off CUDA these calls were disabled, and `autocast("cpu")` would be enabled, so the
helper's type is "cuda" on the CPU as well. torch goes on choosing the dtype and the enabled state.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import reads_of, spell, spelled
from torchmigrate.semantic.values import is_annotation, type_test
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, last_name

_TYPE = {"autocast": "accel.autocast_type()", "GradScaler": "accel.scaler_type()"}
_PARTIAL = "functools.partial"


def autocast_device(context: RuleContext) -> Iterator[Finding]:
    assert context.qualified is not None
    name = context.qualified.rpartition(".")[2]
    call, arguments = _arguments(context)
    if call is None:
        return
    device = _device(call, arguments)
    if device is None and name == "GradScaler" and not arguments and not any(k.arg is None for k in call.keywords):
        yield _default_scaler(context, call)
    elif isinstance(device, ast.Constant) and re.fullmatch(r"cuda(:\d+)?", repr(device.value).strip("'")):
        yield from _named(context, name, device) if name in _TYPE else _decorator(context, name)
    elif name == "autocast" and isinstance(device, ast.Attribute) and device.attr == "type":
        facts = context.module.facts
        if facts.torch is not None and not facts.torch_at_least(_WITH_MPS):
            yield context.note(_OLDER.format(facts.torch), blocks=False)


_WITH_MPS = ">=2.5"
_OLDER = (
    'before torch 2.5 (this project allows {}) autocast raises where the type is "mps", also with `enabled=False`: '
    "ask for torch 2.5, or enter it on other devices only"
)


def _arguments(context: RuleContext) -> tuple[ast.Call | None, list[ast.expr]]:
    """Return the call that holds the arguments (`partial(torch.autocast, ...)` is one), and its positional ones."""
    up = context.parent
    if context.call is not None:
        return context.call, context.call.args
    if isinstance(up, ast.Call) and up.args[:1] == [context.ref] and context.module.resolve(up.func) == _PARTIAL:
        return up, up.args[1:]
    return None, []


def _device(call: ast.Call, arguments: list[ast.expr]) -> ast.expr | None:
    given = (k.value for k in call.keywords if k.arg in ("device_type", "device"))
    return arguments[0] if arguments else next(given, None)


def _named(context: RuleContext, name: str, device: ast.Constant) -> Iterator[Finding]:
    if device.value == "cuda":
        yield context.replace(device, _TYPE[name])
        return
    why = f"{context.rule.message}; a device type has no index, {device.value!r} may be a mistake"
    yield context.replace(device, _TYPE[name], Safety.UNSAFE, why)


_OPENING = re.compile(rb"(?:[^(#]|#[^\r\n]*)*\(")  # up to a call's parenthesis, over comments


def _default_scaler(context: RuleContext, call: ast.Call) -> Finding:
    """Give `GradScaler()`, which is CUDA's, the device type."""
    text = spell(_TYPE["GradScaler"], spelled(context.module))
    at = context.module.span(context.ref)[1]
    if call.func is not context.ref:  # functools.partial(GradScaler)
        return context.fix([Edit(at, at, f", {text}")])
    opening = _OPENING.match(context.module.source.utf8, at)
    assert opening is not None
    at = opening.end()
    return context.fix([Edit(at, at, f"{text}, " if call.keywords else text)])


def _decorator(context: RuleContext, name: str) -> Iterator[Finding]:
    """Replace `custom_fwd` or `custom_bwd` by the helper's, which ask for the device when the method runs."""
    for given in ("$$rest", "cast_inputs=$inputs"):
        first = f'device_type="cuda", {given}' if given == "$$rest" else f'{given}, device_type="cuda"'
        found = context.rewrite(f"{context.qualified}({first})", f"accel.{name}({given})")
        if found:
            yield found
            return
    yield context.note(f"{context.rule.summary} (not rewritten: its arguments are in an unusual form)")


# the class that the helper makes on CUDA, under its name in every build
_CLASS = {"torch.cuda.amp.GradScaler": "torch.amp.GradScaler", "torch.cuda.amp.autocast": "torch.autocast"}
_HELPER = {
    "torch.cuda.amp.GradScaler": "accel.grad_scaler", "torch.cuda.amp.autocast": "accel.autocast",
    "torch.cuda.Event": "accel.Event", "torch.cuda.Stream": "accel.Stream",
    "torch.cuda.amp.custom_fwd": "accel.custom_fwd", "torch.cuda.amp.custom_bwd": "accel.custom_bwd",
}  # fmt: skip
_SINCE = ">=2.3"  # torch.amp.GradScaler


def helper_class(context: RuleContext) -> Iterator[Finding]:
    name = context.qualified or ""
    helper, made = _HELPER.get(name), _CLASS.get(name)
    up = context.module.parent(context.ref)
    if isinstance(context.node, ast.ImportFrom):
        yield from import_fallback(context, _HELPER)
        yield from _handed_on(context, context.node)
    if helper is None:
        return
    if context.node is not context.ref:
        yield context.rewrite(f"{name}($$args)", f"{helper}($$args)") or context.note()
    elif isinstance(up, (ast.alias, ast.Expr)) or _is_fallback(up):
        return
    elif is_annotation(context.module, context.ref):
        yield context.left("a type that is named: nothing of CUDA runs")
    elif test := type_test(context.module, context.ref):
        if made:
            yield _tested(context, made, test)
        else:
            yield context.left("a test for a type of CUDA's")
    elif isinstance(up, ast.ClassDef):
        yield context.note(f"a subclass of `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Compare):
        if not any(isinstance(c, ast.Constant) and c.value is None for c in up.comparators):
            yield context.note(f"a type test on `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Attribute):
        yield context.note(f"an attribute of `{name}`: it stays bound to CUDA")
    elif use := _use_as_class(context.module, context.ref):
        yield context.note(f"{use} `{name}`: it stays bound to CUDA")
    elif _is_registered(context.module, up):
        yield context.note(f"`{name}` is registered: a function in its place has another name and signature")
    elif isinstance(up, ast.Assign) and not _only_called(context.module, up):
        yield context.replace(
            context.ref, helper, Safety.UNSAFE, f"{context.rule.message}; the name is used as a class too"
        )
    elif isinstance(up, ast.Assign) and isinstance(context.module.parent(up), ast.ClassDef):
        yield context.replace(context.ref, f"staticmethod({helper})")  # a function in a class would take `self`
    else:
        yield context.replace(context.ref, helper)


def _is_registered(module: SemanticModel, given_to: ast.AST | None) -> bool:
    """Return whether a call keeps a class: it gets nothing else but constants, and gives the class back at most.

    `register(GradScaler)`, and `GradScaler = register(GradScaler)`.
    """
    call = module.parent(given_to) if isinstance(given_to, ast.keyword) else given_to
    if not isinstance(call, ast.Call):
        return False
    match module.parent(call):
        case ast.Expr() | ast.Assign([ast.Name("autocast" | "GradScaler")]):
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            return sum(not isinstance(value, ast.Constant) for value in given) == 1  # `register("scaler", GradScaler)`
    return False


def _handed_on(context: RuleContext, statement: ast.ImportFrom) -> Iterator[Finding]:
    """Report the import of torch.cuda.amp where the module itself is given to a function, which calls it there."""
    names = {alias.asname or alias.name for alias in statement.names if alias.name == "amp"}
    if statement.module == "torch.cuda" and not statement.level and names & _given(context.module):
        yield context.note(
            "`torch.cuda.amp` is handed on: what is called of it there stays bound to CUDA", blocks=False
        )


@query
def _given(module: SemanticModel) -> set[str]:
    """Return the names that calls of the file are given."""
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    values = (value for call in calls for value in (*call.args, *(k.value for k in call.keywords)))
    return {value.id for value in values if isinstance(value, ast.Name)}


_MOCKS = {"Mock", "MagicMock", "NonCallableMock", "NonCallableMagicMock", "AsyncMock", "create_autospec", "object"}


def _use_as_class(module: SemanticModel, node: ast.AST) -> str:
    """Return in words how a reference is used as a class, which a function cannot stand for, or ""."""
    up, below = module.parent(node), node
    while isinstance(up, (ast.Tuple, ast.List, ast.Set)):
        below, up = up, module.parent(up)
    match up:
        case ast.MatchClass():
            return "a pattern of"
        case ast.Compare() if below is not node:
            return "a type test on"
        case ast.Dict(keys) if node in keys:
            return "a table by"
        case ast.Subscript(_, index) if index is node:
            return "a table by"
        case ast.Call(func, [first, *_]) if first is node and last_name(func) in _MOCKS:
            return "a stand-in for"
        case ast.keyword("spec" | "spec_set" | "autospec"):
            return "a stand-in for"
    return ""


def _tested(context: RuleContext, made: str, test: ast.Call) -> Finding:
    """Replace the class in `isinstance(s, torch.cuda.amp.GradScaler)` by torch's for all devices (torch >= 2.3)."""
    facts = context.module.facts
    if made in (context.module.resolve(node) for node in ast.walk(test) if isinstance(node, ast.Attribute)):
        return context.left("the test names torch's class for all devices, too")
    if spelled(context.module)["torch"] not in context.module.scopes.module.names:
        return context.note(f"a type test on `{context.qualified}`: the helper's is a `{made}`")
    if made == "torch.autocast" or facts.torch is None or facts.torch_at_least(_SINCE):
        return context.replace(context.ref, made)
    return context.replace(context.ref, f'getattr(torch.amp, "GradScaler", {context.module.text(context.ref)})')


def _is_fallback(up: ast.AST | None) -> bool:
    """Return whether a reference is the third argument of `getattr(torch.amp, "GradScaler", ...)`."""
    return isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id == "getattr" and len(up.args) == 3


def _only_called(module: SemanticModel, assign: ast.Assign) -> bool:
    return is_only_called(module, {t.id for t in assign.targets if isinstance(t, ast.Name)})


def import_fallback(context: RuleContext, helpers: Mapping[str, str]) -> Iterator[Finding]:
    """Replace an import with an `except ImportError` by assignments of the helper's functions, as names stay bound.

    The `try` goes with it where nothing else is tried: no torch that the helper runs on lacks these names.
    """
    node, up = context.node, context.parent
    if not isinstance(node, ast.ImportFrom) or not isinstance(up, ast.Try) or node not in up.body or node.level:
        return
    made = {a.asname or a.name: helpers.get(f"{node.module}.{a.name}", "") for a in node.names}
    own = all(len(context.scope.names.get(name, ())) > 1 for name in made)
    if own and all(made.values()) and is_only_called(context.module, made):
        bound = f"{', '.join(made)} = {', '.join(made.values())}"
        yield context.replace(up if _is_all(context, up) else node, bound)


def _is_all(context: RuleContext, tried: ast.Try) -> bool:
    """Return whether a `try` holds one import alone, its handlers nothing that would be lost: comment, import."""
    module = context.module
    if len(tried.body) > 1 or tried.orelse or tried.finalbody or module.holds_comment(tried):
        return False
    inside = {node for handler in tried.handlers for node in ast.walk(handler)}
    for name in {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}:
        found = context.scope.find(name)
        is_imported = found and any(isinstance(b.node, (ast.Import, ast.ImportFrom)) for b in found[1])
        if is_imported and all(inside.intersection(ast.walk(r.node)) for r in reads_of(module, name)):
            return False
    return True


def is_only_called(module: SemanticModel, names: Collection[str]) -> bool:
    """Return whether these names are read only to call them or to hand them on, as in `f(autocast=autocast)`."""
    used: set[int] = set()
    for call in (n for n in module.nodes if isinstance(n, ast.Call)):
        tests = chain_of(call.func) in ("isinstance", "issubclass")
        used |= {id(call.func), *(id(a) for a in (*call.args, *(k.value for k in call.keywords)) if not tests)}
    loads = (n for n in module.nodes if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load))
    return all(id(n) in used for n in loads)


def scaler_state(context: RuleContext) -> Iterator[Finding]:
    """Ask for the scale in a scaler's state so that there need not be one: `scaler.state_dict()["scale"]`."""
    module, call, owner = context.module, context.call, getattr(context.ref, "value", None)
    if call is None or call.args or call.keywords or owner is None or "scaler" not in last_name(owner).lower():
        return
    match module.parent(call):
        case ast.Subscript(value, ast.Constant("scale") as key, ast.Load()) as up if value is call:
            at = module.span(call)[1]
            yield context.fix([Edit(at, module.span(up)[1], f".get({module.text(key)}, 1.0)")])
