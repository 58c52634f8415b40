"""What of `torch.cuda` no other rule speaks about: reported where it would fail, silent where it is harmless."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.values import is_annotation, type_test

# types and modules that exist on every build; naming them asks for nothing
_NAMED = {
    "amp", "Stream", "Event", "OutOfMemoryError", "device", "nvtx", "memory", "random", "streams", "comm", "nccl",
    "profiler", "graphs", "sparse", "jiterator", "tunable", "gds", "green_contexts", "green_contexts.SUPPORTED",
    "nccl.SUM", "profiler.DEFAULT_FLAGS", "AcceleratorError", "CudaError", "DeferredCudaCallError", "cudaStatus",
    "DEVICE_REQUIREMENT", "PYTORCH_RELEASES_CODE_CC",
}  # fmt: skip
# imports of torch.cuda's own that leaked into it: the same on every build, also when called
_LEAKED = {"Any", "Callable", "Device", "NewType", "Optional", "TYPE_CHECKING", "cast", "classproperty", "lru_cache"}
# False, 0 or nothing off CUDA (measured)
_CALLED = {
    "is_initialized",
    "is_tf32_supported",
    "has_half",
    "has_magma",
    "is_bf16_supported",
    "_is_compiled",
    "_is_in_bad_fork",
    "nccl.is_available",
}

_CHOSEN = ("mps", "xpu", "npu")  # the other module is there for the CPU


def cuda_namespace(site: RuleContext) -> Iterator[Finding]:
    if isinstance(site.node, ast.Import):
        yield from _two_modules(site, site.node)
        return
    assert site.qualified is not None
    name = site.qualified.removeprefix("torch.cuda.")
    named = site.call is None and (name in _NAMED or name.endswith("Storage"))
    if named or name in _CALLED | _LEAKED or site.qualified.startswith("torch.cuda.amp."):
        return
    if isinstance(site.parent, ast.alias) or is_annotation(site.module, site.ref) or type_test(site.module, site.ref):
        return
    if site.qualified == "torch.cuda":
        yield from _module(site)
    else:
        yield site.note(f"`{site.qualified}`: {site.rule.message}")


def _module(site: RuleContext) -> Iterator[Finding]:
    """`T = torch.cuda if use_cuda else torch`, then `T.FloatTensor`: what T is here is not known until it runs."""
    up = site.parent
    if isinstance(up, ast.IfExp) and site.node is not up.test:
        yield site.note(
            "a choice between the modules torch.cuda and torch: name the dtype and the device of each tensor instead",
            backends=_CHOSEN,
        )


def _two_modules(site: RuleContext, node: ast.Import) -> Iterator[Finding]:
    """`import torch.cuda as T` in one branch and `import torch as T` in the other."""
    for alias in node.names:
        found = site.scope.find(alias.asname) if alias.asname and alias.name == "torch.cuda" else None
        if found and any(b.qualified == "torch" for b in found[1]):
            yield site.note(
                "torch.cuda and torch under one name: name the dtype and the device of each tensor instead",
                backends=_CHOSEN,
            )
