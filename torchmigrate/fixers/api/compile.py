"""Fixers for torch.compile: backends and options that need CUDA, and calls that break its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import spelled
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.syntax.scope import FUNCTIONS, Scope

_CONFIG = "torch._inductor.config."
_BACKENDS = {
    "tensorrt", "torch_tensorrt", "nvfuser", "nvprims_nvfuser", "aot_nvfuser", "aot_ts_nvfuser", "prims_nvfuser",
    "fx2trt", "onnx2tensorrt",
}  # fmt: skip
_AUTOTUNED = ("max_autotune_gemm_backends", "max_autotune_conv_backends")
Setting = tuple[str, ast.expr]


def options(context: RuleContext) -> Iterator[Finding]:
    for name, value in _settings(context):
        message = _wrong(context.rule.id, name, value)
        if message:
            yield context.finding(message, node=value)


def _settings(context: RuleContext) -> Iterator[Setting]:
    if context.qualified != "torch.compile":
        up = context.parent
        if isinstance(up, ast.Assign) and context.node in up.targets:
            yield (context.qualified or "").removeprefix(_CONFIG), up.value
        return
    for keyword in context.call.keywords if context.call else ():
        if keyword.arg == "backend":
            yield "backend", keyword.value
        elif keyword.arg == "options" and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value


def _wrong(rule: str, name: str, value: ast.expr) -> str:
    given = value.value if isinstance(value, ast.Constant) else None
    if rule == "compile/cuda-graphs":
        if name == "triton.cudagraph_or_error" and given is True:
            return "where no CUDA graph is made, as off CUDA, this turns a skip into RuntimeError: leave it False there"
    elif name == "backend" and given in _BACKENDS:
        return (
            f"`{given}` is NVIDIA's, and without its package torch.compile raises InvalidBackend: "
            "leave `backend` out, or choose it `if accel.is_nvidia():`"
        )
    elif name in _AUTOTUNED and isinstance(given, str) and "ATEN" not in given.upper():
        return (
            "with max_autotune the CPU has no choice left and raises NoValidChoicesError: "
            'keep "ATEN" among them, which is everywhere'
        )
    return ""


# the functions of torch.cuda that torch.compile skips on every device, CUDA included
SKIPPED = {
    "get_rng_state", "get_rng_state_all", "set_rng_state", "manual_seed", "manual_seed_all", "initial_seed",
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats",
    "memory_summary", "device_count", "set_device", "device_of", "get_device_name", "is_bf16_supported",
    "default_stream", "nvtx.range_push", "nvtx.range_pop", "nvtx.range",
}  # fmt: skip
# the functions that torch.compile takes on CUDA, with the devices on which it takes neither them nor the helper's
ELSEWHERE = {
    "Stream": ("npu", "mtia"), "stream": ("npu", "mtia"), "current_stream": ("mtia",), "Event": ("npu",),
    "device": ("npu", "mtia"), "device_guard": ("npu", "mtia"), "get_device_properties": ("xpu", "npu", "mtia"),
    "reset_peak_memory_stats": ("npu", "mtia"), "mem_get_info": ("npu",), "seed": ("npu", "mtia"),
    "seed_all": ("npu", "mtia"), "double": ("xpu",),
}  # fmt: skip
_OUT = "call it outside the compiled function"


def graph_break(context: RuleContext) -> Iterator[Finding]:
    for function in _compiled(context):
        for node, name in _calls(context.module, function):
            if name in SKIPPED:
                why = "torch.compile breaks the graph here on every device (fullgraph=True refuses it)"
            else:
                devices = " and ".join(b.upper() for b in ELSEWHERE[name])
                why = f"torch.compile takes this on CUDA and breaks the graph on {devices} (fullgraph=True refuses it)"
            yield context.finding(f"`{ast.unparse(node)}`: {why}: {_OUT}", node=node)


def _calls(module: SemanticModel, function: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield the calls of torch.cuda or of the helper in a function (or lambda) that are in either table."""
    for node, scope in _nodes(module, function):
        if not isinstance(node, ast.Call):
            continue
        name = module.resolve(node.func, scope) or ""
        short = name.removeprefix("torch.cuda.") if name.startswith("torch.cuda.") else _of_helper(module, node.func)
        if short in SKIPPED or short in ELSEWHERE:
            yield node.func, short


def _nodes(module: SemanticModel, function: ast.AST) -> Iterator[tuple[ast.AST, Scope]]:
    if isinstance(function, ast.Lambda):
        scope = module.scope(function)
        yield from ((node, scope) for node in ast.walk(function.body))
        return
    start, end = module.span(function)
    for statement in module.scopes.statements:
        first, last = module.span(statement)
        if start < first and last <= end:
            scope = module.scopes.scope_of[statement]
            yield from ((node, scope) for node in _header(statement))


def _header(statement: ast.stmt) -> Iterator[ast.AST]:
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        yield node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _of_helper(module: SemanticModel, func: ast.expr) -> str:
    """Return the helper's function that is called, or "". The helper's `device` is no context manager."""
    owner, _, name = (chain_of(func) or "").partition(".")
    return name if owner == spelled(module)["accel"] and name != "device" else ""


def _compiled(context: RuleContext) -> Iterator[ast.AST]:
    """Yield the functions and lambdas of this file that a `torch.compile` decorates or is given."""
    module, node = context.module, context.node
    up = module.parent(node)
    while isinstance(up, (ast.Call, ast.keyword)):  # `functools.partial(torch.compile, ...)`
        node, up = up, module.parent(up)
    if isinstance(up, FUNCTIONS) and node in up.decorator_list:
        yield up
    elif isinstance(up, ast.ClassDef) and node in up.decorator_list:
        yield from _methods(up)
    elif context.call is not None:
        given = [*context.call.args[:1], *(k.value for k in context.call.keywords if k.arg == "model")]
        for value in given:
            yield from _meant(module, value, context.scope)


def _meant(module: SemanticModel, value: ast.expr, scope: Scope, depth: int = 3) -> Iterator[ast.AST]:
    """Yield the function, the method or the class's `forward` that an argument means, if this file defines it."""
    owner = scope.enclosing_class()
    match value:
        case ast.Lambda():
            yield value
        case ast.Call(func) if depth:  # an object: `Net().to(device)`, `Net()`
            inner = func.value if isinstance(func, ast.Attribute) else func
            yield from _meant(module, inner, scope, depth - 1)
        case ast.Name(name):
            home, bindings = scope.find(name) or (scope, [])
            for binding in bindings:
                if isinstance(binding.node, FUNCTIONS):
                    yield binding.node
                elif isinstance(binding.node, ast.ClassDef):
                    yield from _methods(binding.node)
                elif binding.value is not None and depth:
                    yield from _meant(module, binding.value, home, depth - 1)
        case ast.Attribute(ast.Name("self"), name) if owner and name in owner.names:
            yield from (b.node for b in owner.names[name] if isinstance(b.node, FUNCTIONS))


def _methods(owner: ast.ClassDef) -> Iterator[ast.AST]:
    yield from (f for f in owner.body if isinstance(f, FUNCTIONS) and f.name in ("forward", "__call__"))
