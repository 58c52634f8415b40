"""The fixer for code that names MPS, XPU, NPU, HPU or MTIA without a test: `torch.mps.synchronize()`, `"xpu:0"`.

It rewrites nothing: on CUDA such code raises or does nothing, and would begin to work.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.api.memory import seeded_beside
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.device_expr import DEVICE_NAME, carrier
from torchmigrate.semantic.guard_regions import mentions_others, portable_chain, portable_expression
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers_in, spelled, strings_in
from torchmigrate.semantic.values import is_annotation, type_test
from torchmigrate.syntax.resolver import leaves_block
from torchmigrate.syntax.scope import FUNCTIONS, given_defaults
from torchmigrate.torch_api.backends import OTHERS, TITLES
from torchmigrate.torch_api.names import BACKEND

_TITLE = {name: TITLES[name] for name in OTHERS}
_RENAMED = {"current_allocated_memory": "memory_allocated", "driver_allocated_memory": "memory_reserved"}
_RENAMED["device"] = "device_guard"
_SAME = {
    "empty_cache", "synchronize", "Event", "Stream", "stream", "current_stream", "default_stream", "set_stream",
    "memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "memory_stats",
    "memory_summary", "mem_get_info", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "current_device",
    "set_device", "device_of", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "initial_seed", "set_per_process_memory_fraction",
}  # fmt: skip
# functions whose rewrite would change CUDA's random numbers
_RANDOM = {"manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"}
# functions that give False, 0 or None elsewhere (measured), and modules
_ASKED = {
    "is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported", "device_count", "get_arch_list", "amp",
    "memory", "random", "streams", "profiler", "event", "is_built", "is_macos_or_newer", "is_macos13_or_newer",
}  # fmt: skip
_CUDA = re.compile("cuda|accelerator", re.I)


def other_backend(context: RuleContext) -> Iterator[Finding]:
    if (context.qualified or "").startswith("torch.backends."):
        yield context.left("a question about MPS alone: the project chooses among machines itself")
        return
    kind = _kind(context)
    if not kind or not uses_torch(context.module):
        return
    if _is_asked_for(context.module, context.node, kind):
        yield context.left("a test, a name or a fallback around it says that it is about this machine")
    elif isinstance(context.node, ast.Constant):
        yield from _string(context, kind)
    elif context.qualified:
        yield from _function(context, kind, context.qualified.split(".", 2)[2])
    else:
        yield from _method(context, kind)


def _kind(context: RuleContext) -> str:
    if isinstance(context.node, ast.Constant):
        found = BACKEND.fullmatch(context.node.value)  # type: ignore[arg-type]
        return found[1] if found else ""
    if context.qualified:
        return context.qualified.split(".")[1] if context.qualified.count(".") > 1 else ""
    return context.ref.attr if isinstance(context.ref, ast.Attribute) else ""


# ---- places where the backend's name is right as it is


def _is_asked_for(module: SemanticModel, node: ast.AST, kind: str) -> bool:
    """Return whether a test, a name or a fallback around a node says that it is about this backend."""
    named = re.compile(rf"(?<![A-Za-z]){kind}(?![A-Za-z])|{kind.upper()}|{kind.capitalize()}")
    if named.search(str(module.path).removeprefix(str(module.facts.root))):
        return True
    below = node
    for up in module.ancestors(node):
        match up:
            case ast.If(test) | ast.While(test) | ast.IfExp(test):
                if below is test or _asks(module, test, named) or _is_rung(module, up):
                    return True
            case ast.BoolOp(_, values) if any(
                mentions_others(module, v) or _names_cuda(module, v) for v in values if v is not below
            ):
                return True
            case ast.Compare() | ast.Try() | ast.ExceptHandler() | ast.Assert():
                return True
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                if not isinstance(below, ast.Call) or _names_cuda(module, up):
                    return True  # a table
            case ast.match_case(pattern) if _names(module, pattern, named):
                return True
            case ast.Assign(targets) if any(_names(module, t, named) for t in targets):
                return True
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                if named.search(name) or any(_asks(module, d, named) for d in up.decorator_list):
                    return True
        if isinstance(below, ast.stmt) and any(_refuses(module, s, named) for s in module.blocks.before(below)):
            return True
        below = up
    return False


def _asks(module: SemanticModel, test: ast.AST, named: re.Pattern[str]) -> bool:
    return mentions_others(module, test) or _names(module, test, named)


@query
def _names(module: SemanticModel, node: ast.AST, named: re.Pattern[str]) -> bool:
    """Return whether an identifier or a string in a tree has this in it."""
    return any(map(named.search, identifiers_in(module, node) | strings_in(module, node)))


@query
def _names_cuda(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a tree names CUDA, or the helper that stands for CUDA after a rewrite."""
    helper = spelled(module)["accel"]
    own = (n.value for n in ast.walk(node) if isinstance(n, ast.Attribute))
    return _names(module, node, _CUDA) or any(isinstance(n, ast.Name) and n.id == helper for n in own)


def _is_rung(module: SemanticModel, up: ast.AST) -> bool:
    if isinstance(up, ast.If):
        return portable_chain(module, up)
    return isinstance(up, ast.IfExp) and portable_expression(module, up)


def _refuses(module: SemanticModel, statement: ast.stmt, named: re.Pattern[str]) -> bool:
    """Return whether a statement refuses (`if not mps: return`, `assert mps`), or picks the device and leaves."""
    match statement:
        case ast.Assert(test):
            return _asks(module, test, named)
        case ast.If(test, [*_, last]) if isinstance(last, ast.Return):
            return _asks(module, test, named) or _names(module, test, _CHOICE)
        case ast.If(test, body) if leaves_block(body):
            return _asks(module, test, named)
    return False


_CHOICE = re.compile("cuda|device")


# ---- the findings


def _function(context: RuleContext, kind: str, name: str) -> Iterator[Finding]:
    if name.partition(".")[0] in _ASKED and not name.startswith("profiler."):
        return
    if (
        isinstance(context.parent, ast.alias)
        or is_annotation(context.module, context.ref)
        or type_test(context.module, context.ref)
    ):
        return
    ours, title = _RENAMED.get(name, name), _TITLE[kind]
    if name in _RANDOM:
        if context.call is None or not seeded_beside(context, context.call):
            yield context.note(f"random numbers of {title} alone: `accel.{name}` is for the accelerator that is there")
    elif ours not in {*_SAME, *_RENAMED.values()} or (kind == "mps" and ours.endswith(("stream", "Stream"))):
        yield context.note(f"`{context.qualified}` has no portable counterpart: ask whether {title} is there, above it")
    elif context.call is not None and any(_names_backend(n) for n in ast.walk(context.call)):
        why = f"`{context.qualified}` and its argument are for {title} alone"
        yield context.note(f"{why}: `accel.{ours}(accel.device(...))` is for the accelerator that is there")
    else:
        why = f"`{context.qualified}` is for {title} alone: `accel.{ours}` is for the accelerator that is there"
        yield context.replace(context.ref, f"accel.{ours}", Safety.UNSAFE, why)


def _names_backend(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(BACKEND.fullmatch(node.value))


@query
def _defines(module: SemanticModel, name: str) -> bool:
    """Return whether the file defines a function or method of this name."""
    return any(isinstance(s, FUNCTIONS) and s.name == name for s in module.scopes.statements)


def _method(context: RuleContext, kind: str) -> Iterator[Finding]:
    if context.call is None or _defines(context.module, kind):
        return
    why = f"`.{kind}()` moves to {_TITLE[kind]} alone: `.to(accel.device())` moves to the accelerator that is there"
    yield context.rewrite(f"$x.{kind}()", "$x.to(accel.device())", None, Safety.UNSAFE, why) or context.note(why)


def _string(context: RuleContext, kind: str) -> Iterator[Finding]:
    module = context.module
    whole, outer = carrier(module, context.node)
    up = module.parent(outer)
    why = f"names {_TITLE[kind]}, which fails on every other machine"
    found = BACKEND.fullmatch(context.node.value)  # type: ignore[attr-defined]
    index = found[2] or "" if found else ""
    if not (place := _place(context, outer, up)):
        return
    if whole is not context.node or outer is not whole or place == "default":
        yield context.note(f"{why}: `accel.device()` is the accelerator that is there")
    elif place == "torch.device":
        yield context.replace(up, f"accel.device({index})", Safety.UNSAFE, why)  # type: ignore[arg-type]
    elif place == "device":
        yield context.replace(whole, f"accel.device({index})", Safety.UNSAFE, why)
    else:
        yield context.replace(
            whole, f"str(accel.device({index}))" if index else "accel.device_type()", Safety.UNSAFE, why
        )


_DEVICE = re.compile("device")


def _place(context: RuleContext, node: ast.AST, up: ast.AST | None) -> str:
    """Return how a device is wanted here, or "" where the string may be anything else."""
    match up:
        case ast.Call(func, [first, *_]) if first is node:
            if context.module.resolve(func) == "torch.device":
                return "torch.device" if len(up.args) == 1 and not up.keywords else "default"
            return "device" if isinstance(func, ast.Attribute) and func.attr == "to" else ""
        case ast.keyword("device" | "map_location"):
            call = context.module.parent(up)
            callee = context.module.resolve(call.func) or "" if isinstance(call, ast.Call) else ""
            moves = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "to"
            return "device" if moves or callee.startswith("torch.") else "text"
        case ast.keyword("default") if _names(context.module, context.module.statement(up), _DEVICE):
            return "default"
        case ast.arguments():
            is_device = any(v is node and DEVICE_NAME.search(a.arg) for a, v in given_defaults(up))
            return "default" if is_device else ""
        case ast.Assign([ast.Name(name) | ast.Attribute(_, name)]) if DEVICE_NAME.search(name):
            return "text"
    return ""
