"""`"cuda"`, `"cuda:1"`, f"cuda:{i}", "cuda:%d" % i, ... in device positions, and nowhere else (T1, T14, T20)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.edits import Finding, Safety
from torchmigrate.module import Module, Site
from torchmigrate.scope import chain_of
from torchmigrate.transforms import device_default
from torchmigrate.transforms.device_idiom import is_idiom
from torchmigrate.transforms.device_expression import DEVICE_NAME, Device, carrier, is_cpu, moved, parse

_OWN_RULES = re.compile(r"torch\.(amp\.|cuda\.|autocast$)|.*(autocast|GradScaler|custom_[fb]wd)$")
_TEXT = re.compile(r"(print|info|warn|warning|debug|error|log|write|exit|fail|append|add|join|get|pop|setdefault|getattr|hasattr|replace"
                   r"|startswith|endswith|split|find|count|index|strip|add_scalar|set_postfix|skip|open|register|isinstance|Path"
                   r"|\w*(Error|Exception|Warning))$")  # fmt: skip
# where "cuda" is another library's word, or none at all
_FOREIGN = {"os", "sys", "re", "json", "logging", "pathlib", "subprocess", "shutil", "importlib", "unittest", "mock", "pytest", "jax", "tensorflow",
            "cupy", "numba", "pycuda", "cudf", "paddle", "mxnet", "chainer", "onnxruntime", "taichi", "tvm", "warp", "sqlite3", "wandb"}  # fmt: skip


def device_string(site: Site) -> Iterator[Finding]:
    sure = site.module.facts.uses_torch(site.module)
    for finding in _findings(site):
        yield finding if sure or finding.fix is None else _doubted(finding)


def _doubted(finding: Finding) -> Finding:
    assert finding.fix is not None
    message = f"{finding.message}; nothing in this file shows that it is torch's"
    return replace(finding, message=message, safety=Safety.UNSAFE, fix=replace(finding.fix, safety=Safety.UNSAFE))


def _findings(site: Site) -> Iterator[Finding]:
    module = site.module
    whole, outer = carrier(module, site.node)
    if any(is_idiom(module, up) for up in (module.parent(whole), module.parent(module.parent(whole) or whole))):
        return  # `torch.device("cuda") if torch.cuda.is_available() else "cpu"`: device/device-idiom's
    device = parse(module, whole)
    if device is None:
        if isinstance(whole, (ast.JoinedStr, ast.BinOp)) and isinstance(site.node, ast.Constant) and site.node.value != "cuda":
            yield site.note("a device string built in a way that is not understood")
        return
    up = module.parent(outer)
    match up:
        case ast.keyword(arg):
            call = module.parent(up)
            assert isinstance(call, (ast.Call, ast.ClassDef))
            if isinstance(call, ast.Call) and not _is_foreign(site, call):
                yield from _keyword(site, whole, outer, device, call, arg)
        case ast.Call() if _is_default(up, outer):
            yield device_default.at_import_checked(site, whole, device.as_type)
        case ast.Call() if not _is_foreign(site, up):
            yield from _argument(site, whole, outer, device, up)
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            yield from _assigned(site, whole, device, up)
        case ast.arguments():
            yield from device_default.parameter_default(site, whole, outer, device, up)
        case ast.Return() | ast.Lambda():
            yield from _returned(site, whole, device, up)
        case ast.Dict() if any(v is outer for v in up.values):
            yield from _dict_value(site, whole, outer, device, up)
        case ast.Tuple() | ast.List() | ast.Starred() | ast.ListComp() | ast.GeneratorExp():
            yield from _element(site, whole, outer, device, up)


def _is_foreign(site: Site, call: ast.Call) -> bool:
    """A call of the helper, or of a library that has nothing to do with torch."""
    root = (chain_of(call.func) or "").partition(".")[0]
    return root == site.module.names["accel"] or (site.module.resolve(call.func) or "").partition(".")[0] in _FOREIGN


def _is_default(call: ast.Call, value: ast.AST) -> bool:
    """`config.get("device", "cuda")`, `os.getenv("DEVICE", "cuda")`, `getattr(args, "device", "cuda")`."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    key = call.args[-2] if name in ("get", "getenv", "getattr", "pop", "setdefault") and len(call.args) > 1 else None
    return isinstance(key, ast.Constant) and call.args[-1] is value and bool(DEVICE_NAME.search(str(key.value)))


def _replace(site: Site, node: ast.AST, device: Device, typed: bool, safety: Safety = Safety.SAFE, why: str = "") -> Finding:
    template = device.as_device if typed else device.as_type
    if _beside_cpu(site.module, node):
        safety, why = Safety.SAFE, ""
    return site.replace(node, template, safety, f"{site.rule.message}; {why}" if why else "")


def _beside_cpu(module: Module, node: ast.AST) -> bool:
    """`"cuda" if flag else "cpu"` is a device, whatever it is called."""
    up = module.parent(node)
    return isinstance(up, ast.IfExp) and is_cpu(module, up.orelse if up.body is node else up.body)


def _keyword(site: Site, whole: ast.AST, outer: ast.AST, device: Device, call: ast.Call, name: str | None) -> Iterator[Finding]:
    callee = site.module.resolve(call.func) or chain_of(call.func) or ""
    last = callee.rpartition(".")[2] or getattr(call.func, "attr", "")
    if _OWN_RULES.match(callee) or name is None:
        return
    if last in ("add_argument", "option", "add_option"):
        if name == "default":
            yield from device_default.option_default(site, whole, device, call)
    elif name in ("device", "map_location", "device_type") or DEVICE_NAME.search(name):
        if last == "to":
            yield site.fix(moved(site.module, call, whole, device.as_device), Safety.SAFE)
            return
        torchy = callee.startswith("torch.") or isinstance(call.func, ast.Attribute) and last in _TENSOR_METHODS
        yield _replace(site, whole, device, typed=torchy and name != "device_type")
    elif callee == "torch.device":
        yield from _torch_device(site, whole, outer, device, call)
    elif name == "default" and device_default.is_field(call):
        yield from device_default.field_default(site, whole, device, call)
    elif name not in ("choices", "help", "dest", "metavar", "name", "backend", "key", "msg", "reason", "id", "ids"):
        yield _replace(site, whole, device, False, Safety.UNSAFE, f"`{name}=` may not be a device")


_TENSOR_METHODS = {"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to_empty"}


def _argument(site: Site, whole: ast.AST, outer: ast.AST, device: Device, call: ast.Call) -> Iterator[Finding]:
    module = site.module
    callee = module.resolve(call.func) or chain_of(call.func) or ""
    last = callee.rpartition(".")[2] or getattr(call.func, "attr", "")
    if outer not in call.args or _OWN_RULES.match(callee):
        return
    position = call.args.index(outer)  # type: ignore[arg-type]
    if callee == "torch.device":
        yield from _torch_device(site, whole, outer, device, call)
    elif last in ("to", "to_empty") and isinstance(call.func, ast.Attribute) and position == 0:
        yield site.fix(moved(site.module, call, whole, device.as_device), Safety.SAFE)
    elif callee in ("torch.load", "torch.jit.load") and position == 1:
        yield _replace(site, whole, device, typed=True)
    elif callee in ("torch.set_default_device", "torch.Generator") and position == 0:
        yield _replace(site, whole, device, typed=True)
    elif _parameter_is_device(site, call, position):
        yield _replace(site, whole, device, typed=False)
    elif last == "cuda" or _TEXT.match(last):
        return
    elif last in ("field", "Field") or callee.startswith("torch."):
        yield _replace(site, whole, device, False, Safety.UNSAFE, "this argument may not be a device")
    elif re.search(r"device", last, re.I):
        yield _replace(site, whole, device, typed=False)
    else:
        yield _replace(site, whole, device, False, Safety.UNSAFE, "this argument may not be a device")


def _torch_device(site: Site, whole: ast.AST, outer: ast.AST, device: Device, call: ast.Call) -> Iterator[Finding]:
    """`torch.device("cuda", i)`; under a flag (`"cuda" if args.cuda else "cpu"`) only the string goes."""
    if outer is not whole:
        yield site.replace(whole, device.as_type if device.index is None else device.as_device, Safety.SAFE)
        return
    up = site.module.parent(call)
    if isinstance(up, ast.Compare) and len(call.args) == 1 and not call.keywords:
        yield _compared(site, call, device, up)
        return
    forms = [(f"torch.device({kind}$string)", device.as_device) for kind in ("", "type=")]
    if device.index is None:
        pairs = ("$string, $index", "$string, index=$index", "type=$string, index=$index")
        forms += [(f"torch.device({pair})", "accel.device($index)") for pair in pairs]
    found = next((f for form in forms if (f := site.rewrite(*form, call))), None)
    if found and found.fix:
        yield found
    else:  # a comment stands in the way, or arguments that torch does not have
        yield site.replace(whole, device.as_device if len(call.args) == 1 and not call.keywords else "accel.device_type()", Safety.SAFE)


def _compared(site: Site, call: ast.Call, device: Device, up: ast.Compare) -> Finding:
    """`x.device == torch.device("cuda")` holds for nothing on the CPU, and must not begin to."""
    if len(up.ops) == 1 and isinstance(up.ops[0], ast.Eq):
        parts = [device.as_device, 'torch.device("cpu")']
        return site.replace(call, " != ".join(parts if up.left is not call else reversed(parts)))
    moves = isinstance(site.module.parent(up), ast.If)  # `if x.device != torch.device("cuda"): x = x.to(...)`
    safety = Safety.SAFE if moves else Safety.UNSAFE
    return site.replace(call, device.as_device, safety, "" if moves else f"{site.rule.message}; on the CPU this changes its answer")


def _parameter_is_device(site: Site, call: ast.Call, position: int) -> bool:
    """Whether the function of this file that is called has a parameter named device there."""
    if not isinstance(call.func, ast.Name):
        return False
    found = site.scope.find(call.func.id)
    target = found[1][0].node if found and len(found[1]) == 1 else None
    if isinstance(target, (ast.FunctionDef, ast.AsyncFunctionDef)):
        names = [a.arg for a in (*target.args.posonlyargs, *target.args.args)]
        return position < len(names) and bool(DEVICE_NAME.search(names[position]))
    return False


def _assigned(site: Site, whole: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    targets = up.targets if isinstance(up, ast.Assign) else [up.target]  # type: ignore[attr-defined]
    target = next((t for t in targets if DEVICE_NAME.search(_target_name(t))), targets[0])
    name = _target_name(target)
    if isinstance(target, ast.Subscript) and "environ" in ast.unparse(target.value):
        return
    if isinstance(up, ast.AnnAssign) and device_default.in_dataclass(site, up):
        yield from device_default.dataclass_default(site, whole, device, up)
    elif DEVICE_NAME.search(name) or _flows_to_device(site, name):
        yield device_default.at_import_checked(site, whole, device.as_type)
    elif re.search(r"device|cuda|gpu", name, re.I) or isinstance(site.module.parent(whole), ast.IfExp):
        yield _replace(site, whole, device, False, Safety.UNSAFE, f"`{name}` may not be a device")


def _target_name(target: ast.expr) -> str:
    match target:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case ast.Subscript(_, ast.Constant(str(key))):
            return key
    return ""


def _flows_to_device(site: Site, name: str) -> bool:
    """Whether the name is handed to `.to(...)`, `device=` or `torch.device(...)` anywhere in the file."""
    return bool(name) and bool(re.search(rf"(\.to\(|device\s*=\s*|torch\.device\(|map_location\s*=\s*)(\w+\.)*{re.escape(name)}\b", site.module.source.text))


def _returned(site: Site, whole: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    function = site.module.function(up)
    name = function.name if function else ""
    if re.search(r"device|dev$", name, re.I):
        yield _replace(site, whole, device, typed=False)
    else:
        yield _replace(site, whole, device, False, Safety.UNSAFE, "what this returns may not be a device")


def _dict_value(site: Site, whole: ast.AST, outer: ast.AST, device: Device, up: ast.Dict) -> Iterator[Finding]:
    key = up.keys[next(i for i, v in enumerate(up.values) if v is outer)]
    owner = site.module.parent(up)
    if isinstance(owner, ast.keyword) and owner.arg == "map_location":
        yield _replace(site, whole, device, typed=False)
    elif isinstance(key, ast.Constant) and isinstance(key.value, str) and DEVICE_NAME.search(key.value):
        yield device_default.at_import_checked(site, whole, device.as_type)
    elif outer is not whole:
        yield _replace(site, whole, device, False, Safety.UNSAFE, "this value may not be a device")


def _element(site: Site, whole: ast.AST, outer: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    """A tuple or list: a choice among devices (with "cpu" beside it) is data."""
    beside = getattr(up, "elts", [])
    if any(is_cpu(site.module, e) for e in beside) or any(isinstance(e, ast.Constant) and e.value in ("mps", "xpu", "auto") for e in beside):
        return
    module = site.module
    owner: ast.AST | None = module.parent(up)
    if isinstance(up, (ast.ListComp, ast.GeneratorExp)) and up.elt is not outer:
        return
    while isinstance(owner, (ast.BinOp, ast.Tuple, ast.List)):
        owner = module.parent(owner)
    if isinstance(owner, ast.keyword) and owner.arg in ("args", "devices", "device"):
        yield _replace(site, whole, device, typed=False)
    elif isinstance(owner, ast.Assign) and DEVICE_NAME.search(_target_name(owner.targets[0])):
        yield _replace(site, whole, device, typed=False)
