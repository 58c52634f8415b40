"""Quantization that one kind of machine has: engines of Intel's CPUs, kernels that MPS lacks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.tensor_type.double import on_cpu
from torchmigrate.semantic.torch_use import first_call, is_for_devices

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
