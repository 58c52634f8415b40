"""Fixers for autocast, gradient scalers and `custom_fwd`, and for other classes of CUDA that the helper has.

Only the device type changes. Off CUDA these calls were disabled, and `autocast("cpu")` would be enabled, so the
helper's type is "cuda" on the CPU as well (T7, T8). torch goes on choosing the dtype and the enabled state.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.spelling import spell, spelled
from torchmigrate.semantic.values import is_annotation, type_test
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of

_TYPE = {"autocast": "accel.autocast_type()", "GradScaler": "accel.scaler_type()"}
_PARTIAL = "functools.partial"


def autocast_device(site: RuleContext) -> Iterator[Finding]:
    assert site.qualified is not None
    name = site.qualified.rpartition(".")[2]
    call, arguments = _arguments(site)
    if call is None:
        return
    device = _device(call, arguments)
    if device is None and name == "GradScaler" and not arguments and not any(k.arg is None for k in call.keywords):
        yield _default_scaler(site, call)
    elif isinstance(device, ast.Constant) and re.fullmatch(r"cuda(:\d+)?", repr(device.value).strip("'")):
        yield from _named(site, name, device) if name in _TYPE else _decorator(site, name)


def _arguments(site: RuleContext) -> tuple[ast.Call | None, list[ast.expr]]:
    """Return the call that holds the arguments (`partial(torch.autocast, ...)` is one), and its positional ones."""
    up = site.parent
    if site.call is not None:
        return site.call, site.call.args
    if isinstance(up, ast.Call) and up.args[:1] == [site.ref] and site.module.resolve(up.func) == _PARTIAL:
        return up, up.args[1:]
    return None, []


def _device(call: ast.Call, arguments: list[ast.expr]) -> ast.expr | None:
    given = (k.value for k in call.keywords if k.arg in ("device_type", "device"))
    return arguments[0] if arguments else next(given, None)


def _named(site: RuleContext, name: str, device: ast.Constant) -> Iterator[Finding]:
    if device.value == "cuda":
        yield site.replace(device, _TYPE[name])
        return
    why = f"{site.rule.message}; a device type has no index, {device.value!r} may be a mistake"
    yield site.replace(device, _TYPE[name], Safety.UNSAFE, why)


_OPENING = re.compile(rb"(?:[^(#]|#[^\r\n]*)*\(")  # up to a call's parenthesis, over comments


def _default_scaler(site: RuleContext, call: ast.Call) -> Finding:
    """Give `GradScaler()`, which is CUDA's, the device type."""
    text = spell(_TYPE["GradScaler"], spelled(site.module))
    at = site.module.span(site.ref)[1]
    if call.func is not site.ref:  # functools.partial(GradScaler)
        return site.fix([Edit(at, at, f", {text}")])
    opening = _OPENING.match(site.module.source.utf8, at)
    assert opening is not None
    at = opening.end()
    return site.fix([Edit(at, at, f"{text}, " if call.keywords else text)])


def _decorator(site: RuleContext, name: str) -> Iterator[Finding]:
    """Replace `custom_fwd` or `custom_bwd`. The helper's decorators ask for the device when the method runs, not when
    its class is made."""
    for given in ("$$rest", "cast_inputs=$inputs"):
        first = f'device_type="cuda", {given}' if given == "$$rest" else f'{given}, device_type="cuda"'
        found = site.rewrite(f"{site.qualified}({first})", f"accel.{name}({given})")
        if found:
            yield found
            return
    yield site.note(f"{site.rule.summary} (not rewritten: its arguments are in an unusual form)")


# the class that the helper makes on CUDA, under its name in every build
_CLASS = {"torch.cuda.amp.GradScaler": "torch.amp.GradScaler", "torch.cuda.amp.autocast": "torch.autocast"}
_HELPER = {
    "torch.cuda.amp.GradScaler": "accel.grad_scaler", "torch.cuda.amp.autocast": "accel.autocast",
    "torch.cuda.Event": "accel.Event", "torch.cuda.Stream": "accel.Stream",
    "torch.cuda.amp.custom_fwd": "accel.custom_fwd", "torch.cuda.amp.custom_bwd": "accel.custom_bwd",
}  # fmt: skip
_SINCE = ">=2.3"  # torch.amp.GradScaler


def helper_class(site: RuleContext) -> Iterator[Finding]:
    name = site.qualified or ""
    helper, made = _HELPER.get(name), _CLASS.get(name)
    up = site.module.parent(site.ref)
    if isinstance(site.node, ast.ImportFrom):
        yield from import_fallback(site, _HELPER)
    if helper is None:
        return
    if site.node is not site.ref:
        yield site.rewrite(f"{name}($$args)", f"{helper}($$args)") or site.note()
    elif is_annotation(site.module, site.ref) or isinstance(up, (ast.alias, ast.Expr)) or _is_fallback(up):
        return
    elif type_test(site.module, site.ref):
        if made:
            yield _tested(site, made)
    elif isinstance(up, ast.ClassDef):
        yield site.note(f"a subclass of `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Compare):
        if not any(isinstance(c, ast.Constant) and c.value is None for c in up.comparators):
            yield site.note(f"a type test on `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Attribute):
        yield site.note(f"an attribute of `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Assign) and not _only_called(site.module, up):
        yield site.replace(site.ref, helper, Safety.UNSAFE, f"{site.rule.message}; the name is used as a class too")
    elif isinstance(up, ast.Assign) and isinstance(site.module.parent(up), ast.ClassDef):
        yield site.replace(site.ref, f"staticmethod({helper})")  # a function in a class would take `self`
    else:
        yield site.replace(site.ref, helper)


def _tested(site: RuleContext, made: str) -> Finding:
    """Replace the class in `isinstance(s, torch.cuda.amp.GradScaler)` by torch's class for all devices (torch >= 2.3),
    which the helper makes."""
    facts = site.module.facts
    if spelled(site.module)["torch"] not in site.module.scopes.module.names:
        return site.note(f"a type test on `{site.qualified}`: the helper's is a `{made}`")
    if made == "torch.autocast" or facts.torch is None or facts.torch_at_least(_SINCE):
        return site.replace(site.ref, made)
    return site.replace(site.ref, f'getattr(torch.amp, "GradScaler", {site.module.text(site.ref)})')


def _is_fallback(up: ast.AST | None) -> bool:
    """Return whether a reference is the third argument of `getattr(torch.amp, "GradScaler", ...)`: an older torch's
    class."""
    return isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id == "getattr" and len(up.args) == 3


def _only_called(module: SemanticModel, assign: ast.Assign) -> bool:
    return is_only_called(module, {t.id for t in assign.targets if isinstance(t, ast.Name)})


def import_fallback(site: RuleContext, helpers: Mapping[str, str]) -> Iterator[Finding]:
    """Replace an import that has an `except ImportError` by assignments of the helper's functions: its names may mean
    either, so they stay bound."""
    node, up = site.node, site.parent
    if not isinstance(node, ast.ImportFrom) or not isinstance(up, ast.Try) or node not in up.body or node.level:
        return
    made = {a.asname or a.name: helpers.get(f"{node.module}.{a.name}", "") for a in node.names}
    own = all(len(site.scope.names.get(name, ())) > 1 for name in made)
    if own and all(made.values()) and is_only_called(site.module, made):
        yield site.replace(node, f"{', '.join(made)} = {', '.join(made.values())}")


def is_only_called(module: SemanticModel, names: Collection[str]) -> bool:
    """Return whether these names are read only to call them or to hand them on, as in `f(autocast=autocast)`."""
    used: set[int] = set()
    for call in (n for n in module.nodes if isinstance(n, ast.Call)):
        tests = chain_of(call.func) in ("isinstance", "issubclass")
        used |= {id(call.func), *(id(a) for a in (*call.args, *(k.value for k in call.keywords)) if not tests)}
    loads = (n for n in module.nodes if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load))
    return all(id(n) in used for n in loads)
