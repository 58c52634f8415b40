"""`torch.jit.load` and `torch.export.load`: what they read goes to the device that it was saved on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.hazard.float64 import on_cpu
from torchmigrate.semantic.library_use import first_call, is_for_devices
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.torch_api.names import PROVIDER

_SAVES = re.compile(r"(?<!torch)\.save\(")


def saved_program(site: RuleContext) -> Iterator[Finding]:
    call, module = site.call, site.module
    text = module.source.text
    if call is None or not (call.args or call.keywords) or any(k.arg is None for k in call.keywords):
        return
    if not is_for_devices(module) or "torch.accelerator" in text:
        return
    if site.qualified == "torch.jit.load":
        given = next((k.value for k in call.keywords if k.arg == "map_location"), next(iter(call.args[1:2]), None))
        none = given is None or (isinstance(given, ast.Constant) and given.value is None)
        if none and not (re.search(r"jit\.(script|trace)", text) and _SAVES.search(text)):
            yield site.note()
    elif "move_to_device_pass" not in text:
        yield site.note()


_OLD = (
    "records CUDA alone and warns elsewhere: torch.profiler.profile() without `activities=` records what the build can"
)


def profiler(site: RuleContext) -> Iterator[Finding]:
    if isinstance(site.parent, ast.alias):
        return
    if ".ProfilerActivity." in (site.qualified or ""):
        if not _is_choice(site):
            yield site.note()
    elif site.call is not None:
        given = {k.arg: k.value for k in site.call.keywords}
        if "use_cuda" in given and not _is(given["use_cuda"], False, None):
            yield site.note(f"`use_cuda=` {_OLD}")
        elif _is(given.get("use_device"), "cuda"):
            yield site.note(f"`use_device=` {_OLD}")


def _is_choice(site: RuleContext) -> bool:
    """Whether the file names two kinds of device, or asks which the build supports."""
    text = site.module.source.text
    owner = site.module.text(site.ref.value) if isinstance(site.ref, ast.Attribute) else "ProfilerActivity"
    kinds = re.findall(rf"(?:{re.escape(owner)}|ProfilerActivity)\.(CUDA|XPU|MTIA|HPU|PrivateUse1)\b", text)
    return len(set(kinds)) > 1 or "supported_activities" in text


def _is(node: ast.expr | None, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is v or node.value == v for v in values)


_INTEL = ("fbgemm", "x86")
_ENGINE = (
    "`{0}` is an engine of Intel's and AMD's CPUs: on ARM, Apple's among them, setting it raises RuntimeError, so "
    "choose one of `torch.backends.quantized.supported_engines`"
)
_INT4 = (
    "CUDA and MPS alone have this kernel: the CPU's is `_weight_int4pack_mm_for_cpu`, XPU's "
    "`_weight_int4pack_mm_with_scales_and_zeros`, each with weights packed in its own way"
)
_FAKE = "fake quantization has no kernel on MPS and raises there: train this on the CPU"
_TENSOR = "MPS has no quantized tensors and raises there: quantize on the CPU, or keep integers and a scale yourself"


def quantization(site: RuleContext) -> Iterator[Finding]:
    name = site.qualified or ""
    if name == "torch.backends.quantized.engine":
        yield from _engine(site)
    elif "int4pack" in name:
        if not re.search("int4pack(_mm)?_for_cpu", site.module.source.text):
            yield replace(site.note(_INT4), backends=("cpu", "xpu", "npu"))
    elif site.call is not None and is_for_devices(site.module):
        training = [n for n in site.rule.on if "qat" in n or "fake" in n.lower()]
        if name in training:
            if first_call(site.module, training) is site.call:
                yield replace(site.note(_FAKE), backends=("mps",))
        elif not any(on_cpu(site.module, a, site.module.scope(site.ref)) for a in site.call.args[:1]):
            yield replace(site.note(_TENSOR), backends=("mps",))


def _engine(site: RuleContext) -> Iterator[Finding]:
    """What is set; asking which one is set does no harm. A choice among the supported ones is a choice."""
    match site.parent:
        case ast.Assign(targets, ast.Constant(value)) if site.ref in targets and value in _INTEL:
            if "supported_engines" not in site.module.source.text:
                yield replace(site.note(_ENGINE.format(value)), backends=("mps",))


_OTHERS = re.compile(r"(CoreML|OpenVINO|CANN|MIGraphX|ROCM|Dml|QNN)ExecutionProvider|get_available_providers")
_TAKES = ("InferenceSession", "set_providers", "append", "insert", "extend")
_NAMED = re.compile(r"providers?$", re.I)


def provider(site: RuleContext) -> Iterator[Finding]:
    outer, up = site.node, site.parent
    while isinstance(up, (ast.List, ast.Tuple, ast.BinOp, ast.BoolOp, ast.IfExp)):
        outer, up = up, site.module.parent(up)
    if _OTHERS.search(site.module.source.text) or not _is_first(site.node, outer):
        return
    match up:
        case ast.keyword(arg) if _NAMED.search(arg or ""):
            yield site.note()
        case ast.Call(func) if _name(func) in _TAKES and (_name(func)[0].isupper() or _NAMED.search(ast.unparse(func))):
            yield site.note()
        case ast.Assign([target]) | ast.AnnAssign(target) if _NAMED.search(_name(target)):
            yield site.note()
        case ast.Dict(keys, values) if any(
            v is outer and isinstance(k, ast.Constant) and _NAMED.search(str(k.value))
            for k, v in zip(keys, values, strict=True)
        ):
            yield site.note()
        case ast.arguments() if any(_NAMED.search(a.arg) for a in (*up.args, *up.kwonlyargs)):
            yield site.note()


def _name(node: ast.expr) -> str:
    return str(chain_of(node) or getattr(node, "attr", "")).rpartition(".")[2]


def _is_first(node: ast.AST, outer: ast.AST) -> bool:
    """One finding for TensorRT and CUDA in one list."""
    found = (n for n in ast.walk(outer) if isinstance(n, ast.Constant) and PROVIDER.fullmatch(str(n.value)))
    return min(found, key=lambda n: (n.lineno, n.col_offset), default=None) is node
