"""`torch.autocast("cuda", ...)`, `torch.amp.autocast`, `GradScaler("cuda")`, `custom_fwd(device_type="cuda")`.

Off CUDA these were disabled, and `autocast("cpu")` would be enabled: the helper keeps dtype and enabled state (T7, T8).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Edit, Finding
from torchmigrate.module import Site

_HELPER = {"autocast": "autocast", "GradScaler": "grad_scaler", "custom_fwd": "custom_fwd", "custom_bwd": "custom_bwd"}


def autocast(site: Site) -> Iterator[Finding]:
    call = site.call
    assert site.qualified is not None
    name = site.qualified.rpartition(".")[2]
    if call is None:
        return
    device, rest = _device(call)
    if device is None and name == "GradScaler" and not call.args:
        yield from filter(None, (site.rewrite(f"{site.qualified}($$rest)", "accel.grad_scaler($$rest)"),))
    if device != "cuda":
        return
    if isinstance(site.ref, ast.Name):
        yield _in_place(site, call)
        return
    for match, template in _forms(site.qualified, _HELPER[name], rest, positional=bool(call.args)):
        found = site.rewrite(match, template)
        if found:
            yield found
            return
    yield site.note("autocast with arguments in an unusual form")


def _device(call: ast.Call) -> tuple[object, list[ast.expr]]:
    """The device type if it is a literal, and the positional arguments after it."""
    if call.args:
        first = call.args[0]
        return (first.value if isinstance(first, ast.Constant) else first), call.args[1:]
    given = [k.value for k in call.keywords if k.arg == "device_type" or k.arg == "device"]
    return (given[0].value if given and isinstance(given[0], ast.Constant) else given[0] if given else None), []


def _in_place(site: Site, call: ast.Call) -> Finding:
    """A name imported from torch.amp keeps its import: device type and enabled state are all that CUDA decides."""
    string = next(n for n in (*call.args, *(k.value for k in call.keywords)) if isinstance(n, ast.Constant) and n.value == "cuda")
    accel = site.module.names["accel"]
    edits = [Edit(*site.module.span(string), f"{accel}.device_type()")]
    enabled = next((k.value for k in call.keywords if k.arg == "enabled"), None)
    if enabled is None:
        at = max(site.module.span(n)[1] for n in (*call.args, *(k.value for k in call.keywords)))
        edits.append(Edit(at, at, f", enabled={accel}.is_available()"))
    elif not (isinstance(enabled, ast.Constant) and enabled.value is False):
        edits += _both(site, enabled, f"{accel}.is_available()")
    return site.fix(edits)


def _both(site: Site, enabled: ast.expr, available: str) -> Iterator[Edit]:
    start, end = site.module.span(enabled)
    if isinstance(enabled, ast.Constant):
        yield Edit(start, end, available)
    elif isinstance(enabled, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)):
        yield from (Edit(start, start, f"{available} and ("), Edit(end, end, ")"))
    else:
        yield Edit(start, start, f"{available} and ")


def _forms(full: str, helper: str, rest: list[ast.expr], positional: bool) -> Iterator[tuple[str, str]]:
    """`torch.autocast(type, dtype, enabled, cache)` and `accel.autocast(enabled, dtype, cache)` differ in order."""
    names = ("dtype", "enabled", "cache_enabled") if helper == "autocast" else ("init_scale", "growth_factor", "backoff_factor")
    used = names[: len(rest)]
    before = "".join(f", ${n}" for n in used)
    after = "".join(f"{n}=${n}, " for n in used)
    if positional:
        yield f'{full}("cuda"{before}, $$rest)', f"accel.{helper}({after}$$rest)"
    else:
        yield f'{full}(device_type="cuda", $$rest)', f"accel.{helper}($$rest)"
        yield f'{full}(device="cuda", $$rest)', f"accel.{helper}($$rest)"
        for others in (("dtype",), ("enabled",), ("dtype", "enabled"), ("enabled", "dtype"), ("cast_inputs",)):
            before, after = (", ".join(f"{n}=${n}" for n in others),) * 2
            yield f'{full}({before}, device_type="cuda")', f"accel.{helper}({after})"
