"""Backends and options of torch.compile that need CUDA: in its arguments, and in `torch._inductor.config`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext

_CONFIG = "torch._inductor.config."
_BACKENDS = {
    "tensorrt", "torch_tensorrt", "nvfuser", "nvprims_nvfuser", "aot_nvfuser", "aot_ts_nvfuser", "prims_nvfuser",
    "fx2trt", "onnx2tensorrt",
}  # fmt: skip
_AUTOTUNED = ("max_autotune_gemm_backends", "max_autotune_conv_backends")
Setting = tuple[str, ast.expr]


def options(site: RuleContext) -> Iterator[Finding]:
    for name, value in _settings(site):
        message = _wrong(site.rule.id, name, value)
        if message:
            yield site.finding(message, node=value)


def _settings(site: RuleContext) -> Iterator[Setting]:
    if site.qualified != "torch.compile":
        up = site.parent
        if isinstance(up, ast.Assign) and site.node in up.targets:
            yield (site.qualified or "").removeprefix(_CONFIG), up.value
        return
    for keyword in site.call.keywords if site.call else ():
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
