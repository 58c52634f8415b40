"""Fixers for tools around torch: saved programs, the profiler, quantization, onnxruntime's providers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.hazard.mps import on_cpu
from torchmigrate.semantic.library_use import first_call
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers, identifiers_in, mentions, strings_in
from torchmigrate.syntax.resolver import argument_of, chain_of
from torchmigrate.torch_api.names import PROVIDER


def saved_program(context: RuleContext) -> Iterator[Finding]:
    """Report `torch.jit.load`, `torch.export.save` and `.load`: a program keeps the device it was saved on."""
    call, module = context.call, context.module
    if call is None or not (call.args or call.keywords) or any(k.arg is None for k in call.keywords):
        return
    if not module.facts.is_for_devices or mentions(module, "torch.accelerator"):
        return
    if context.qualified == "torch.jit.load":
        given = argument_of(call, "map_location", 1)
        none = given is None or (isinstance(given, ast.Constant) and given.value is None)
        if none and not _saves_scripts(module):
            yield context.note()
    elif "move_to_device_pass" not in identifiers(module):
        yield context.note()


@query
def _saves_scripts(module: SemanticModel) -> bool:
    """Return whether the file makes scripts or traces, and saves something by other means than `torch.save`."""
    found = [(n, chain_of(n.value) or "") for n in module.nodes if isinstance(n, ast.Attribute)]
    makes = any(n.attr.startswith(("script", "trace")) and f".{owner}".endswith(".jit") for n, owner in found)
    saves = {id(n) for n, owner in found if n.attr == "save" and not f".{owner}".endswith(".torch")}
    return makes and any(isinstance(n, ast.Call) and id(n.func) in saves for n in module.nodes)


_OLD = (
    "records CUDA alone and warns elsewhere: torch.profiler.profile() without `activities=` records what the build can"
)


def profiler(context: RuleContext) -> Iterator[Finding]:
    if isinstance(context.parent, ast.alias):
        return
    if ".ProfilerActivity." in (context.qualified or ""):
        if not _is_choice(context):
            yield context.note()
    elif context.call is not None:
        given = {k.arg: k.value for k in context.call.keywords}
        if "use_cuda" in given and not _is(given["use_cuda"], False, None):
            yield context.note(f"`use_cuda=` {_OLD}")
        elif _is(given.get("use_device"), "cuda"):
            yield context.note(f"`use_device=` {_OLD}")


_KINDS = ("CUDA", "XPU", "MTIA", "HPU", "PrivateUse1")


def _is_choice(context: RuleContext) -> bool:
    """Return whether the file names two kinds of device, or asks which kinds the build supports."""
    owner = chain_of(context.ref.value) if isinstance(context.ref, ast.Attribute) else None
    named = (n for n in context.module.nodes if isinstance(n, ast.Attribute) and n.attr in _KINDS)
    owned = ((n.attr, chain_of(n.value) or "") for n in named)
    kinds = {kind for kind, of in owned if of and (of == owner or of.rpartition(".")[2] == "ProfilerActivity")}
    return len(kinds) > 1 or "supported_activities" in identifiers(context.module)


def _is(node: ast.expr | None, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is v or node.value == v for v in values)


_INTEL = ("fbgemm", "x86")
_ENGINE = (
    "`{0}` is an engine of Intel's and AMD's CPUs: on ARM, Apple's among them, setting it raises RuntimeError, so "
    "choose one of `torch.backends.quantized.supported_engines`"
)
_INT4_CPU = re.compile("int4pack(_mm)?_for_cpu")
_INT4 = (
    "CUDA and MPS alone have this kernel: the CPU's is `_weight_int4pack_mm_for_cpu`, XPU's "
    "`_weight_int4pack_mm_with_scales_and_zeros`, each with weights packed in its own way"
)
_FAKE = "fake quantization has no kernel on MPS and raises there: train this on the CPU"
_TENSOR = "MPS has no quantized tensors and raises there: quantize on the CPU, or keep integers and a scale yourself"


def quantization(context: RuleContext) -> Iterator[Finding]:
    name = context.qualified or ""
    if name == "torch.backends.quantized.engine":
        yield from _engine(context)
    elif "int4pack" in name:
        if not any(_INT4_CPU.search(name) for name in identifiers(context.module)):
            yield replace(context.note(_INT4), backends=("cpu", "xpu", "npu"))
    elif context.call is not None and context.module.facts.is_for_devices:
        training = [n for n in context.rule.on if "qat" in n or "fake" in n.lower()]
        if name in training:
            if first_call(context.module, training) is context.call:
                yield replace(context.note(_FAKE), backends=("mps",), raises=True)
        elif not any(on_cpu(context.module, a, context.module.scope(context.ref)) for a in context.call.args[:1]):
            yield replace(context.note(_TENSOR), backends=("mps",), raises=True)


def _engine(context: RuleContext) -> Iterator[Finding]:
    """Report an engine that is set; to ask for it, or to choose among the supported ones, does no harm."""
    match context.parent:
        case ast.Assign(targets, ast.Constant(value)) if context.ref in targets and value in _INTEL:
            if "supported_engines" not in identifiers(context.module):
                yield replace(context.note(_ENGINE.format(value)), backends=("mps",))


_OTHERS = re.compile("(CoreML|OpenVINO|CANN|MIGraphX|ROCM|Dml|QNN)ExecutionProvider|get_available_providers")
_TAKES = ("InferenceSession", "set_providers")
_NAMED = re.compile(r"providers?$", re.I)


def provider(context: RuleContext) -> Iterator[Finding]:
    outer, up = context.node, context.parent
    while isinstance(up, (ast.List, ast.Tuple, ast.BinOp, ast.BoolOp, ast.IfExp)):
        outer, up = up, context.module.parent(up)
    if not _is_first(context.node, outer):
        return
    if _names_other_providers(context.module):
        yield context.left("the file names other vendors' providers, or asks which are available")
        return
    match up:
        case ast.keyword(arg) if _NAMED.search(arg or ""):
            yield context.note()
        case ast.Call(func) if _name(func) in _TAKES or _adds_provider(func):
            yield context.note()
        case ast.Assign([target]) | ast.AnnAssign(target) | ast.AugAssign(target) if _NAMED.search(_name(target)):
            yield context.note()
        case ast.Dict(keys, values) if any(
            v is outer and isinstance(k, ast.Constant) and _NAMED.search(str(k.value))
            for k, v in zip(keys, values, strict=True)
        ):
            yield context.note()
        case ast.arguments() if any(_NAMED.search(a.arg) for a in (*up.args, *up.kwonlyargs)):
            yield context.note()
        case _:
            yield context.left("nothing shows that a session takes it")


def _adds_provider(func: ast.expr) -> bool:
    """Return whether a call adds to a list of providers: `providers.append(...)`."""
    adds = isinstance(func, ast.Attribute) and func.attr in ("append", "insert", "extend")
    return adds and bool(_NAMED.search(_name(func.value)))  # type: ignore[attr-defined]


@query
def _names_other_providers(module: SemanticModel) -> bool:
    """Return whether the file names another vendor's provider, or asks which providers are available."""
    return any(map(_OTHERS.search, identifiers_in(module, module.tree) | strings_in(module, module.tree)))


def _name(node: ast.expr) -> str:
    return str(chain_of(node) or getattr(node, "attr", "")).rpartition(".")[2]


def _is_first(node: ast.AST, outer: ast.AST) -> bool:
    """Return whether a provider is the first one of its list: TensorRT and CUDA in one list are one finding."""
    found = (n for n in ast.walk(outer) if isinstance(n, ast.Constant) and PROVIDER.fullmatch(str(n.value)))
    return min(found, key=lambda n: (n.lineno, n.col_offset), default=None) is node
