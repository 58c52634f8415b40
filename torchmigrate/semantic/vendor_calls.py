"""Libraries that run on NVIDIA's devices alone: code that calls them keeps the guard above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.semantic.guard_regions import GuardRegion
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import Inside, Span
from torchmigrate.syntax.scope import Binding
from torchmigrate.torch_api.libraries import CUDA_ONLY


def _names_in(module: SemanticModel) -> str:
    """Names that this file imports from libraries that run on NVIDIA's devices alone, or from a compiled `*_cuda`."""
    found = {
        name
        for scope in module.scopes
        for name, bindings in scope.names.items()
        for b in bindings
        if isinstance(b.node, (ast.Import, ast.ImportFrom)) and (_root(b) in CUDA_ONLY or name.endswith("_cuda"))
    }
    return rf"(?<![\w.])({'|'.join(sorted(map(re.escape, found)))})(?!\w)" if found else ""


# a compiled kernel: `roi_align.forward_cuda(...)`, `correlation_cuda.forward(...)`, `src.gpu.psamask_forward(...)`; not
# `utils.move_to_cuda(x)`; a package as pip calls it
_BOUND = (
    r"(?<![\w.])\w+\.(?!\w*to_cuda|is_cuda|use_cuda)\w+_cuda\s*\(|(?<![\w.])\w+_cuda\.\w+\("
    r"|(?<![\w.])\w+\.(gpu|cuda)\.\w+_(for|back)ward\w*\("
    r"|[\"'](onnxruntime|paddlepaddle|tensorflow|faiss)-gpu\b"
)


class Uses:
    """Where a file calls what runs on NVIDIA's devices alone."""

    def __init__(self, module: SemanticModel) -> None:
        self._bound = Inside(_found(module, _BOUND))
        self._names = Inside(_found(module, _names_in(module)))

    def find(self, region: GuardRegion) -> int | None:
        """The first such call in a region, if there is one; what refuses to run without CUDA may name them."""
        asked = (self._bound,) if region.refusal else (self._bound, self._names)
        found = (start for uses in asked for span in region.covered for start, _ in uses.find(*span))
        return min(found, default=None)


def _found(module: SemanticModel, pattern: str) -> Iterator[Span]:
    """The places of a pattern in the text, without lines that are comments."""
    text = module.source.text if pattern else ""
    at = before = 0
    for found in re.finditer(rf"(?:\A|[\r\n])[ \t\f]*#[^\r\n]*|(?P<use>{pattern})", text):
        if found["use"]:
            at += len(text[before : found.start()].encode())
            before = found.start()
            yield at, at + len(found["use"].encode())


def _root(binding: Binding) -> str:
    name = binding.qualified or (binding.local[1] if binding.local else "")
    return name.partition(".")[0]
