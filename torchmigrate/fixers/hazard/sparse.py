"""Sparse layouts that not every device has: compressed ones on MPS, the semi-structured one off CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.tensor_type.double import on_cpu

_CUDA_ALONE = {
    "torch.sparse.to_sparse_semi_structured": "semi-structured sparsity",
    "torch.sparse.SparseSemiStructuredTensor": "semi-structured sparsity",
    "torch.sparse.SparseSemiStructuredTensorCUTLASS": "semi-structured sparsity",
    "torch.sparse.SparseSemiStructuredTensorCUSPARSELT": "semi-structured sparsity",
    "torch.sparse.spsolve": "solving sparse systems",
}


def sparse(site: RuleContext) -> Iterator[Finding]:
    name = site.qualified or ""
    if name in _CUDA_ALONE:
        if site.call is not None or isinstance(site.parent, ast.Attribute):  # a class that is named asks for nothing
            what = f"{_CUDA_ALONE[name]} is CUDA's alone and raises elsewhere: keep it dense there"
            yield site.note(what, blocks=True)
    elif site.call is not None and not _on_cpu(site, site.call):
        yield replace(site.note(), backends=("mps",))


def _on_cpu(site: RuleContext, call: ast.Call) -> bool:
    """Made of a tensor that is on the CPU, or named so, and not moved in the same expression."""
    device = next((k.value for k in call.keywords if k.arg == "device"), None)
    if isinstance(device, ast.Constant):
        return device.value == "cpu"
    receiver = call.func.value if site.qualified is None and isinstance(call.func, ast.Attribute) else None
    return (
        receiver is not None and on_cpu(site.module, receiver, site.module.scope(site.ref)) and not _moved(site, call)
    )


def _moved(site: RuleContext, call: ast.Call) -> bool:
    up = site.module.parent(call)
    return isinstance(up, ast.Attribute) and up.attr in ("to", "cuda")
