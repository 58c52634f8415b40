"""Extensions with CUDA kernels: `CUDAExtension` in a setup.py, `load` and `load_inline` of .cu sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.torch_use import first_call

_CUDA_WORDS = ("cuda_sources", "extra_cuda_cflags")


def cpp_extension(site: RuleContext) -> Iterator[Finding]:
    if isinstance(site.parent, ast.alias) or site.call is None:
        return
    if (site.qualified or "").endswith("CUDAExtension"):
        if _first(site):
            yield site.note()
    elif _has_kernels(site, site.call):
        yield site.note()


def _first(site: RuleContext) -> bool:
    """A setup.py lists many; one finding says what to do about all of them."""
    return first_call(site.module, {site.qualified or ""}) is site.call


def _has_kernels(site: RuleContext, call: ast.Call) -> bool:
    """C++ sources alone build everywhere; sources that are not spelled out here may hold anything."""
    named = {k.arg: k.value for k in call.keywords}
    with_cuda = named.get("with_cuda")
    if isinstance(with_cuda, ast.Constant) and with_cuda.value is not None:
        return bool(with_cuda.value)
    if any(word in named for word in _CUDA_WORDS):
        return True
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.endswith(".cu") for n in ast.walk(call)
    )
