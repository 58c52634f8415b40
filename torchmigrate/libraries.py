"""Libraries that run on NVIDIA's devices alone: code that calls them keeps the guard above it."""

from __future__ import annotations

import ast
import re

from torchmigrate.module import Module
from torchmigrate.regions import Region
from torchmigrate.scope import Binding

LIBRARIES = {
    "apex", "flash_attn", "flash_attn_interface", "xformers", "triton", "bitsandbytes", "pynvml",
    "py3nvml", "nvidia_smi", "GPUtil", "cupy", "pycuda", "transformer_engine", "tensorrt", "torch2trt",
    "causal_conv1d", "mamba_ssm",
}  # fmt: skip


def names_in(module: Module) -> re.Pattern[str] | None:
    """Names that this file imports from libraries that run on NVIDIA's devices alone, or from a compiled `*_cuda`."""
    found = {
        name
        for scope in {id(s): s for s in module.scopes.scope_of.values()}.values()
        for name, bindings in scope.names.items()
        for b in bindings
        if isinstance(b.node, (ast.Import, ast.ImportFrom)) and (_root(b) in LIBRARIES or name.endswith("_cuda"))
    }
    return re.compile(rf"(?<![\w.])({'|'.join(sorted(map(re.escape, found)))})(?!\w)") if found else None


def first_use(module: Module, region: Region, names: re.Pattern[str] | None) -> int | None:
    if names is None or region.refusal:
        return None
    for start, end in region.covered:
        found = names.search(module.source.utf8[start:end].decode())
        if found:
            return start
    return None


def _root(binding: Binding) -> str:
    name = binding.qualified or (binding.local[1] if binding.local else "")
    return name.partition(".")[0]
