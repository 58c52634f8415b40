"""`torch.autocast("cuda", ...)`, `torch.amp.autocast`, `GradScaler("cuda")`, `custom_fwd(device_type="cuda")`.

Only the device type changes: off CUDA these were disabled, and `autocast("cpu")` would be enabled, so the helper's type
is "cuda" on the CPU too (T7, T8). What torch gives to dtype and enabled state stays torch's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.matching.template import spell
from torchmigrate.semantic.spelling import spelled
from torchmigrate.source.edits import Edit

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
    """The call that holds the arguments, and its positional ones: `partial(torch.autocast, ...)` is a call too."""
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


def _default_scaler(site: RuleContext, call: ast.Call) -> Finding:
    """`GradScaler()` is CUDA's."""
    text = spell(_TYPE["GradScaler"], spelled(site.module))
    at = site.module.span(site.ref)[1]
    if call.func is not site.ref:  # functools.partial(GradScaler)
        return site.fix([Edit(at, at, f", {text}")])
    at = site.module.source.utf8.index(b"(", at) + 1
    return site.fix([Edit(at, at, f"{text}, " if call.keywords else text)])


def _decorator(site: RuleContext, name: str) -> Iterator[Finding]:
    """The helper's looks for the device when the method runs, not when its class is made."""
    for given in ("$$rest", "cast_inputs=$inputs"):
        first = f'device_type="cuda", {given}' if given == "$$rest" else f'{given}, device_type="cuda"'
        found = site.rewrite(f"{site.qualified}({first})", f"accel.{name}({given})")
        if found:
            yield found
            return
    yield site.note(f"{site.rule.summary} (not rewritten: its arguments are in an unusual form)")
