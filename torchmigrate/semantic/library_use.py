"""Which libraries a file uses: torch, and those that run on NVIDIA's devices alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from torchmigrate.semantic.guard_regions import GuardRegion
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.source.edits import Inside, Span
from torchmigrate.syntax.scope import Binding
from torchmigrate.torch_api.libraries import BUILT_ON_TORCH, CUDA_ONLY


def first_call(module: SemanticModel, names: Collection[str]) -> ast.Call | None:
    """The first call in the file of one of these qualified names."""
    return _first_call(module, frozenset(names))


@query
def _first_call(module: SemanticModel, names: frozenset[str]) -> ast.Call | None:
    calls = (n for n in module.nodes if isinstance(n, ast.Call))
    return min((c for c in calls if module.resolve(c.func) in names), key=module.span, default=None)


def is_for_devices(module: SemanticModel) -> bool:
    """Whether the project speaks of CUDA, or did before it was migrated: then it has the helper."""
    facts = module.facts
    return facts.mentions_cuda or any(path.endswith(f"/{facts.helper}.py") for path in facts.files)


@query
def uses_torch(module: SemanticModel) -> bool:
    """Whether the file imports torch, something built on it, or a module of the project."""
    known = BUILT_ON_TORCH.union(module.facts.settings.torch_libraries)
    for bindings in module.scopes.module.names.values():
        for binding in bindings:
            name = binding.qualified or ""
            if name.split(".")[0] in known or (binding.local and _is_local(module, binding.local)):
                return True
    nested = (b for scope in module.scopes for bindings in scope.names.values() for b in bindings)
    return bool(module.scopes.module.stars) or any(b.qualified == "torch" for b in nested)


def _is_local(module: SemanticModel, local: tuple[int, str, str]) -> bool:
    return bool(local[0]) or module.facts.index.find(str(module.path), *local) is not None


def is_imported(module: SemanticModel) -> bool:
    """Whether another file of the project imports this one: then its top level must not probe (T14)."""
    path = str(module.path)
    return bool(module.facts.index.importers.get(path)) or path.endswith("__init__.py")


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
