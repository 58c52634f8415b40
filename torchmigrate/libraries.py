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
        for scope in module.scopes
        for name, bindings in scope.names.items()
        for b in bindings
        if isinstance(b.node, (ast.Import, ast.ImportFrom)) and (_root(b) in LIBRARIES or name.endswith("_cuda"))
    }
    return re.compile(rf"(?<![\w.])({'|'.join(sorted(map(re.escape, found)))})(?!\w)") if found else None


# a compiled kernel: `roi_align.forward_cuda(...)`, `correlation_cuda.forward(...)`, `src.gpu.psamask_forward(...)`; not
# `utils.move_to_cuda(x)`
_KERNEL = re.compile(
    r"(?<![\w.])\w+\.(?!\w*to_cuda|is_cuda|use_cuda)\w+_cuda\s*\(|(?<![\w.])\w+_cuda\.\w+\("
    r"|(?<![\w.])\w+\.(gpu|cuda)\.\w+_(for|back)ward\w*\("
)

_PACKAGE = re.compile(r"[\"'](onnxruntime|paddlepaddle|tensorflow|faiss)-gpu\b")  # as pip calls them


def first_use(module: Module, region: Region, names: re.Pattern[str] | None) -> int | None:
    """Where a region calls what runs on NVIDIA's devices alone, if it does."""
    for start, end in region.covered:
        text = module.source.utf8[start:end].decode()
        if _KERNEL.search(text) or _PACKAGE.search(text) or (names and not region.refusal and names.search(text)):
            return start
    return None


def _root(binding: Binding) -> str:
    name = binding.qualified or (binding.local[1] if binding.local else "")
    return name.partition(".")[0]
