"""`x.cuda(...)` to `x.to(accel.device(...))`, keyword arguments carried (T1-T4).

`.cuda()` means the current device, and so does `accel.device()`: "cuda" without an index (torch docs: Tensor.cuda).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding, Safety
from torchmigrate.module import Site
from torchmigrate.receiver import Kind, receiver_kind
from torchmigrate.transforms.device_expression import parse

_CARRIED = ("memory_format",)


def move_to_device(site: Site) -> Iterator[Finding]:
    assert isinstance(site.ref, ast.Attribute)
    if site.call is None:
        yield from _reference(site)
        return
    kind = receiver_kind(site.module, site.ref.value, site.scope)
    if kind is Kind.USER:
        return
    if kind is Kind.STORAGE:
        yield site.note("a storage has no `.to(device)` that takes a positional device; move the tensor instead")
        return
    parts = _parts(site)
    if parts is None:
        yield site.note("the arguments are not those of torch's `cuda()`, so the receiver may be something else")
        return
    match, template = parts
    safety, message = Safety.SAFE, ""
    if kind is Kind.MAYBE_USER:
        safety = Safety.UNSAFE
        message = f"{site.rule.message}; a class of this project defines `cuda()` and may be the receiver"
    elif not site.module.facts.uses_torch(site.module):
        safety = Safety.UNSAFE
        message = f"{site.rule.message}; nothing in this file shows that the receiver is a torch object"
    found = site.rewrite(f"$x.cuda({match})", f"$x.to({template})", None, safety, message)
    yield found or site.note("`.cuda()` in a form that is not understood")


def _parts(site: Site) -> tuple[str, str] | None:
    """The argument lists of pattern and template, or None where they are not those of torch."""
    call = site.call
    assert call is not None
    if len(call.args) > 2 or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    names = dict(zip(("device", "non_blocking"), call.args, strict=False))
    match = [f"${name}" for name in names]
    for keyword in call.keywords:
        if keyword.arg not in ("device", "non_blocking", *_CARRIED) or keyword.arg in names:
            return None
        names[keyword.arg] = keyword.value
        match.append(f"{keyword.arg}=${keyword.arg}")
    template = [_device(site, names.get("device"))]
    for name in (n for n in names if n != "device"):
        template.append(f"{name}={_blocking(names[name]) if name == 'non_blocking' else '$' + name}")
    return ", ".join(match), ", ".join(template)


def _device(site: Site, node: ast.expr | None) -> str:
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return "accel.device()"
    device = parse(site.module, node)
    return device.as_device if device else "accel.device($device)"


def _blocking(node: ast.expr) -> str:
    """MPS corrupts data that is copied without blocking (pytorch #139550, #189690)."""
    if isinstance(node, ast.Constant):
        return "accel.non_blocking()" if node.value is True else "$non_blocking"
    return "accel.non_blocking($non_blocking)"


def _reference(site: Site) -> Iterator[Finding]:
    """`x.cuda` without a call: a flag, unless it is handed on as a function."""
    assert isinstance(site.ref, ast.Attribute)
    up = site.parent
    handed_on = isinstance(up, ast.Call) and site.ref in up.args
    root = ast.unparse(site.ref.value).split(".")[0].lower()
    if handed_on and root not in _FLAG_ROOTS and "args" not in root and "opt" not in root:
        yield site.note("`cuda` handed on as a function: write `lambda t: t.to(accel.device())` if it is torch's")


_FLAG_ROOTS = {"self", "cls", "cfg", "config", "conf", "hparams", "params", "flags", "hps", "settings", "ns", "namespace"}
