"""`"cuda"`, `"cuda:1"`, f"cuda:{i}", "cuda:%d" % i, ... in device positions, and nowhere else (T1, T14, T20)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers import device_defaults
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device.device_idiom import is_idiom
from torchmigrate.fixers.device_arguments import argument, is_default, is_foreign, keyword, replaced
from torchmigrate.semantic.device_expr import DEVICE_NAME, Device, carrier, is_cpu, parse
from torchmigrate.semantic.torch_use import uses_torch
from torchmigrate.symbols.resolver import chain_of


def device_string(site: RuleContext) -> Iterator[Finding]:
    sure = uses_torch(site.module)
    for finding in _findings(site):
        yield finding if sure or finding.fix is None else _doubted(finding)


def _doubted(finding: Finding) -> Finding:
    assert finding.fix is not None
    message = f"{finding.message}; nothing in this file shows that it is torch's"
    return replace(finding, message=message, safety=Safety.UNSAFE, fix=replace(finding.fix, safety=Safety.UNSAFE))


def _findings(site: RuleContext) -> Iterator[Finding]:
    module = site.module
    whole, outer = carrier(module, site.node)
    above = module.parent(whole) or whole
    if is_idiom(module, above) or is_idiom(module, module.parent(above) or above):
        return  # `torch.device("cuda") if torch.cuda.is_available() else "cpu"`: device/device-idiom's
    device = parse(module, whole)
    if "cuda" not in module.text(whole):
        return  # inside f-strings `ast` may misplace what it read, before Python 3.12
    if device is None:
        if isinstance(whole, (ast.JoinedStr, ast.BinOp)) and getattr(site.node, "value", "cuda") != "cuda":
            yield site.note("a device string built in a way that is not understood")
        return
    up = module.parent(outer)
    match up:
        case ast.keyword(arg):
            call = module.parent(up)
            assert isinstance(call, (ast.Call, ast.ClassDef))
            if isinstance(call, ast.Call) and not is_foreign(site, call):
                yield from keyword(site, whole, outer, device, call, arg)
        case ast.Call() if is_default(up, outer):
            yield device_defaults.at_import_checked(site, whole, device.as_type)
        case ast.Call() if not is_foreign(site, up):
            yield from argument(site, whole, outer, device, up)
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            yield from _assigned(site, whole, device, up)
        case ast.arguments():
            yield from device_defaults.parameter_default(site, whole, outer, device, up)
        case ast.Return() | ast.Lambda():
            yield from _returned(site, whole, device, up)
        case ast.Dict() if any(v is outer for v in up.values):
            yield from _dict_value(site, whole, outer, device, up)
        case ast.Tuple() | ast.List() | ast.Starred() | ast.ListComp() | ast.GeneratorExp():
            yield from _element(site, whole, outer, device, up)


def _assigned(site: RuleContext, whole: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    targets = up.targets if isinstance(up, ast.Assign) else [up.target]  # type: ignore[attr-defined]
    target = next((t for t in targets if DEVICE_NAME.search(_target_name(t))), targets[0])
    name = _target_name(target)
    if isinstance(target, ast.Subscript) and "environ" in ast.unparse(target.value):
        return
    if isinstance(up, ast.AnnAssign) and device_defaults.in_dataclass(site, up):
        yield from device_defaults.dataclass_default(site, whole, device, up)
    elif DEVICE_NAME.search(name) or _flows_to_device(site, name):
        yield device_defaults.at_import_checked(site, whole, device.as_type)
    elif re.search(r"device|cuda|gpu", name, re.I) or isinstance(site.module.parent(whole), ast.IfExp):
        yield replaced(site, whole, device, False, Safety.UNSAFE, f"`{name}` may not be a device")


def _target_name(target: ast.expr) -> str:
    match target:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case ast.Subscript(_, ast.Constant(str(key))):
            return key
    return ""


def _flows_to_device(site: RuleContext, name: str) -> bool:
    """Whether the name is handed to `.to(...)`, `device=` or `torch.device(...)` anywhere in the file."""
    taken = rf"(\.to\(|device\s*=\s*|torch\.device\(|map_location\s*=\s*)(\w+\.)*{re.escape(name)}\b"
    return bool(name) and bool(re.search(taken, site.module.source.text))


def _returned(site: RuleContext, whole: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    function = site.module.function(up)
    name = function.name if function else ""
    if re.search(r"device|dev$", name, re.I):
        yield replaced(site, whole, device, typed=False)
    else:
        yield replaced(site, whole, device, False, Safety.UNSAFE, "what this returns may not be a device")


_RECORDS = {"save", "dump", "dumps", "log", "write", "print", "assertEqual"}


def _dict_value(site: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, up: ast.Dict) -> Iterator[Finding]:
    key = up.keys[next(i for i, v in enumerate(up.values) if v is outer)]
    owner = site.module.parent(up)
    if isinstance(owner, ast.Call) and (chain_of(owner.func) or "").rpartition(".")[2] in _RECORDS:
        return  # what is written down is data, not a device to use
    if isinstance(owner, ast.keyword) and owner.arg == "map_location":
        yield replaced(site, whole, device, typed=False)
    elif isinstance(key, ast.Constant) and isinstance(key.value, str) and DEVICE_NAME.search(key.value):
        yield device_defaults.at_import_checked(site, whole, device.as_type)
    elif outer is not whole:
        yield replaced(site, whole, device, False, Safety.UNSAFE, "this value may not be a device")


def _element(site: RuleContext, whole: ast.AST, outer: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    """A tuple or list: a choice among devices (with "cpu" beside it) is data."""
    beside = getattr(up, "elts", [])
    if any(is_cpu(site.module, e) or getattr(e, "value", None) in ("mps", "xpu", "auto") for e in beside):
        return
    module = site.module
    owner: ast.AST | None = module.parent(up)
    if isinstance(up, (ast.ListComp, ast.GeneratorExp)) and up.elt is not outer:
        return
    while isinstance(owner, (ast.BinOp, ast.Tuple, ast.List)):
        owner = module.parent(owner)
    handed_on = isinstance(owner, ast.keyword) and owner.arg in ("args", "devices", "device")
    if handed_on or (isinstance(owner, ast.Assign) and DEVICE_NAME.search(_target_name(owner.targets[0]))):
        yield replaced(site, whole, device, typed=False)
