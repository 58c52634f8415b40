"""The fixer for torch.library operators with CUDA kernels or casts alone: it names the missing devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.torch_api.backends import TITLES, having

_EVERY = "CompositeExplicitAutograd"
_CPU, _ACCELERATORS = frozenset({"cpu"}), frozenset(having("reported"))
_NAMES = {name: TITLES[name] for name in ("cpu", *having("reported"))}
_KEYS = {  # a dispatch key or a device type -> (the kind of registration, the devices that it is for)
    "cuda": ("kernel", "cuda"), "cpu": ("kernel", "cpu"), "mps": ("kernel", "mps"), "xpu": ("kernel", "xpu"),
    "npu": ("kernel", "npu"), "privateuse1": ("kernel", "npu"), "compositeexplicitautograd": ("kernel", "all"),
    "compositeimplicitautograd": ("kernel", "all"), "default": ("kernel", "all"), "meta": ("fake", "all"),
    "autograd": ("autograd", "all"), "autogradcuda": ("autograd", "cuda"), "autogradcpu": ("autograd", "cpu"),
    "autogradxpu": ("autograd", "xpu"), "autogradmps": ("autograd", "mps"), "autocastcuda": ("autocast", "cuda"),
    "autocastcpu": ("autocast", "cpu"), "autocastxpu": ("autocast", "xpu"), "autocastmps": ("autocast", "mps"),
}  # fmt: skip
# a call -> (the kind of registration, the positions of the operator and of the devices, the devices' keyword)
_CALLS = {
    "torch.library.custom_op": ("kernel", 0, None, "device_types"),
    "torch.library.triton_op": ("triton", 0, None, ""),
    "torch.library.register_kernel": ("kernel", 0, 1, "device_types"),
    "torch.library.impl": ("kernel", 0, 1, "types"),
    "torch.library.register_autocast": ("autocast", 0, 1, "device_type"),
    "torch.library.register_fake": ("fake", 0, None, ""),
    "torch.library.impl_abstract": ("fake", 0, None, ""),
    ".register_kernel": ("kernel", None, 0, "device_types"),
    ".register_autocast": ("autocast", None, 0, "device_type"),
    ".register_fake": ("fake", None, None, ""),
    ".impl": ("kernel", 0, 2, "dispatch_key"),
}


@dataclass(frozen=True, slots=True)
class Registration:
    """One registration of an operator: its `names` in this file; its `devices`, or "all", also for unknown ones."""

    kind: str
    names: frozenset[str]
    devices: frozenset[str]
    label: str = ""  # as the registration names the operator


def library_ops(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    found = _registration(context.module, call) if call is not None else None
    if call is None or found is None or found.label.startswith("aten::"):
        return  # torch's own operators have kernels for other devices
    others = [r for r in _all(context.module) if r.names & found.names]
    has = frozenset[str]().union(*(r.devices for r in others if r.kind == found.kind), found.devices)
    if found.kind == "triton":
        kernels = frozenset[str]().union(*(r.devices for r in others if r.kind == "kernel"))
        if "all" not in kernels and (_ACCELERATORS | _CPU) - kernels - {"xpu"}:
            yield context.note(_TRITON.format(op=found.label, name=_attribute_of(context.module, call, found)))
    elif "all" not in has and "cuda" in found.devices:
        missing = (_ACCELERATORS if found.kind == "autocast" else _ACCELERATORS | _CPU) - has
        fake = any(r.kind == "fake" for r in others)
        if missing and not (found.kind == "autocast" and has > {"cuda"}):
            message = _message(context.module, call, found, has, fake)
            yield replace(context.note(message), backends=tuple(b for b in context.rule.backends if b in missing))


_TRITON = (
    "`{op}` is a Triton kernel, which runs where triton does (CUDA, ROCm, XPU): add `@{name}.register_kernel(...)` in "
    'plain torch for "cpu", "mps" and the others'
)


def _message(module: SemanticModel, call: ast.Call, found: Registration, has: frozenset[str], fake: bool) -> str:
    if found.kind == "autocast":
        more = _spelled(module, call, found, '"xpu"')
        return f"autocast casts the inputs of `{found.label}` on CUDA alone: add {more}, and so for each other device"
    if found.kind == "autograd":
        return f'`{found.label}` has a gradient on CUDA alone: register it for "Autograd", which serves every device'
    others = [name for device, name in _NAMES.items() if device in has]
    where = " and ".join(["CUDA", *others]) if others else "CUDA alone"
    more = _spelled(module, call, found, "None")
    text = f"`{found.label}` has kernels for {where} here, so others raise: add {more} in plain torch for the rest"
    return text if fake else f"{text}, and {_fake(module, call, found)} for torch.compile"


def _spelled(module: SemanticModel, call: ast.Call, found: Registration, device: str) -> str:
    """Return the call to add, in the form of the one that is there."""
    key = _key(module, call)
    op = module.text(call.args[0]) if call.args else f'"{found.label}"'
    if key == ".impl" or (key == "torch.library.impl" and len(call.args) > 1 and _library(module, call.args[0])):
        dispatch = "AutocastXPU" if found.kind == "autocast" else _EVERY
        owner = module.text(call.func.value) if key == ".impl" and isinstance(call.func, ast.Attribute) else ""
        return f'`{owner}.impl({op}, ..., "{dispatch}")`' if owner else (
            f'`@torch.library.impl({op}, {module.text(call.args[1])}, "{dispatch}")`'
        )  # fmt: skip
    if key == "torch.library.impl":
        return f'`@torch.library.impl({op}, "default")`'
    if found.kind == "autocast":
        dtype = module.text(call.args[-1]) if len(call.args) > 1 else "torch.float16"
        if key == ".register_autocast":
            return f"`{_attribute_of(module, call, found)}.register_autocast({device}, {dtype})`"
        return f"`torch.library.register_autocast({op}, {device}, {dtype})`"
    if key == "torch.library.register_kernel":
        return f"`@torch.library.register_kernel({op}, {device})`"
    return f"`@{_attribute_of(module, call, found)}.register_kernel({device})`"


def _fake(module: SemanticModel, call: ast.Call, found: Registration) -> str:
    key = _key(module, call)
    if key in ("torch.library.custom_op", ".register_kernel"):
        return f"`@{_attribute_of(module, call, found)}.register_fake`"
    return f'`@torch.library.register_fake("{found.label}")`'


def _attribute_of(module: SemanticModel, call: ast.Call, found: Registration) -> str:
    """Return a custom operator's Python name: the decorated function, the assigned name, or the object called on."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) and _key(module, call)[0] == "." else None
    return module.text(owner) if owner is not None else _bound(module, call) or found.label.rpartition("::")[2]


def _bound(module: SemanticModel, call: ast.Call) -> str:
    match _statement(module, call):
        case ast.FunctionDef(name, decorator_list=decorators) if call in decorators:
            return name
        case ast.Assign([ast.Name(name)], value) if value is call:
            return name
    return ""


def _statement(module: SemanticModel, call: ast.Call) -> ast.stmt | None:
    """Return the statement of a call; `module.statement` knows only nodes that were visited already."""
    return _statements(module).get(call)


@query
def _statements(module: SemanticModel) -> dict[ast.expr, ast.stmt]:
    return {call: s for s in reversed(module.scopes.statements) for call in _calls_of(s)}


def _calls_of(statement: ast.stmt) -> list[ast.expr]:
    return [*getattr(statement, "decorator_list", []), *filter(None, [getattr(statement, "value", None)])]


def _all(module: SemanticModel) -> list[Registration]:
    """Return every registration in the file. A method as a decorator (`@scale.register_fake`) needs no call."""
    found: list[Registration] = []
    for node in module.nodes:
        if isinstance(node, ast.Call) and (r := _registration(module, node)):
            found.append(r)
        for decorator in getattr(node, "decorator_list", ()):
            match decorator:
                case ast.Attribute(ast.Name(name), "register_fake"):
                    found.append(Registration("fake", frozenset({name}), frozenset({"all"})))
    definitions = [r for r in found if len(r.names) > 1]
    return [replace(r, names=r.names.union(*(d.names for d in definitions if d.names & r.names))) for r in found]


def _key(module: SemanticModel, call: ast.Call) -> str:
    return module.resolve(call.func) or f".{getattr(call.func, 'attr', '')}"


def _registration(module: SemanticModel, call: ast.Call) -> Registration | None:
    place = _CALLS.get(_key(module, call))
    if place is None:
        return None
    kind, operator, position, keyword = place
    if _key(module, call) == "torch.library.impl" and len(call.args) > 1 and _library(module, call.args[0]):
        operator, position, keyword = 1, 2, "dispatch_key"  # the older form: (lib, name, dispatch_key)
    given = next((k.value for k in call.keywords if k.arg == keyword), None)
    if given is None and position is not None and position < len(call.args):
        given = call.args[position]
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    named = owner if operator is None else next(iter(call.args[operator : operator + 1]), None)
    if named is None or (kind == "kernel" and _key(module, call) == ".impl" and given is None):
        return None
    kind, devices = _devices(given, kind)
    label = _before_schema(str(named.value) if isinstance(named, ast.Constant) else module.text(named))
    space = _namespace(module, call, owner)
    names = {_operator_name(named), _bound(module, call) if operator == 0 else ""} - {""}
    full = f"{space}::{label}" if space and "::" not in label else label
    return Registration(kind, frozenset(names), devices, full)


def _before_schema(text: str) -> str:
    return text.partition("(")[0]


def _operator_name(named: ast.expr) -> str:
    """Return the name of an operator without its namespace. An expression that is no name stands for itself."""
    match named:
        case ast.Constant(value):
            full = _before_schema(str(value))
        case ast.JoinedStr([*_, ast.Constant(str(value))]) if "::" in value:
            full = _before_schema(value)
        case _:
            chain = chain_of(named)
            return chain.rpartition(".")[2] if chain else ast.dump(named)
    return full.rpartition("::")[2].rpartition(".")[2]


def _devices(given: ast.expr | None, kind: str) -> tuple[str, frozenset[str]]:
    """Return the kind and the devices that the literals name. Where none is given, or a name, it may be any device."""
    texts = given.elts if isinstance(given, (ast.Tuple, ast.List, ast.Set)) else [given]
    known = [_KEYS.get(str(getattr(t, "value", "")).lower(), (kind, "all")) for t in texts if t is not None]
    own = known[0][0] if known and kind == "kernel" and len(known) == 1 else kind
    return own, frozenset(device for _, device in known) or frozenset({"all"})


def _library(module: SemanticModel, node: ast.expr) -> ast.Call | None:
    """Return the `torch.library.Library(...)` that a name stands for, by assignment or in a `with`."""
    if isinstance(node, ast.Call):
        return node
    found = module.scope(node).find(node.id) if isinstance(node, ast.Name) else None
    value = found[1][0].value if found and len(found[1]) == 1 else None
    if found and value is None and isinstance(node, ast.Name):
        value = _entered(module, node.id)
    is_library = isinstance(value, ast.Call) and module.resolve(value.func) in _LIBRARIES
    return value if is_library and isinstance(value, ast.Call) else None


def _entered(module: SemanticModel, name: str) -> ast.expr | None:
    items = (item for s in module.scopes.statements if isinstance(s, ast.With) for item in s.items)
    named = [i.context_expr for i in items if isinstance(i.optional_vars, ast.Name) and i.optional_vars.id == name]
    return named[0] if len(named) == 1 else None


_LIBRARIES = ("torch.library.Library", "torch.library._scoped_library")


def _namespace(module: SemanticModel, call: ast.Call, owner: ast.expr | None) -> str:
    library = next((lib for n in (owner, *call.args[:1]) if n is not None and (lib := _library(module, n))), None)
    match library:
        case ast.Call(args=[ast.Constant(str(name)), *_]):
            return name
    return ""
