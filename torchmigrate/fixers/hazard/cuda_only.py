"""Fixers for things that only CUDA has: the rest of `torch.cuda`, NVIDIA's libraries, variables and extensions.

They report a use that fails elsewhere, and are silent about uses that do no harm.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.library_use import first_call, is_imported
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers_in, strings_in
from torchmigrate.semantic.values import is_annotation, type_test
from torchmigrate.syntax.scope import FUNCTIONS
from torchmigrate.torch_api.backends import having
from torchmigrate.torch_api.libraries import CUDA_ONLY, VARIABLES

# types and modules that exist on every build: naming them does no harm
_NAMED = {
    "amp", "Stream", "Event", "OutOfMemoryError", "device", "nvtx", "memory", "random", "streams", "comm", "nccl",
    "profiler", "graphs", "sparse", "jiterator", "tunable", "gds", "green_contexts", "green_contexts.SUPPORTED",
    "nccl.SUM", "profiler.DEFAULT_FLAGS", "AcceleratorError", "CudaError", "DeferredCudaCallError", "cudaStatus",
    "DEVICE_REQUIREMENT", "PYTORCH_RELEASES_CODE_CC",
}  # fmt: skip
# names that torch.cuda imports for itself: the same on every build, also when called
_LEAKED = {"Any", "Callable", "Device", "NewType", "Optional", "TYPE_CHECKING", "cast", "classproperty", "lru_cache"}
# functions that give False, 0 or None off CUDA (measured)
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

_CHOSEN = having("reported")  # without the CPU, which the other module is for


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
    """Report `T = torch.cuda if use_cuda else torch`: in `T.FloatTensor`, T is not known until the program runs."""
    up = site.parent
    if isinstance(up, ast.IfExp) and site.node is not up.test:
        yield site.note(
            "a choice between the modules torch.cuda and torch: name the dtype and the device of each tensor instead",
            backends=_CHOSEN,
        )


def _two_modules(site: RuleContext, node: ast.Import) -> Iterator[Finding]:
    """Report `import torch.cuda as T` in one branch and `import torch as T` in the other."""
    for alias in node.names:
        found = site.scope.find(alias.asname) if alias.asname and alias.name == "torch.cuda" else None
        if found and any(b.qualified == "torch" for b in found[1]):
            yield site.note(
                "torch.cuda and torch under one name: name the dtype and the device of each tensor instead",
                backends=_CHOSEN,
            )


def nvidia_library(site: RuleContext) -> Iterator[Finding]:
    node = site.node
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    if _guarded(site):
        return
    for library in dict.fromkeys(_libraries(node)):
        if library in CUDA_ONLY and _first_import(site, library) is node and not _own(site, library):
            yield site.note(
                f"`{library}` needs NVIDIA's software: {CUDA_ONLY[library]}; import it where it is used, in a `try`"
            )


def _libraries(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [] if node.level else [(node.module or "").partition(".")[0]]
    return [a.name.partition(".")[0] for a in node.names]


def _own(site: RuleContext, library: str) -> bool:
    """Return whether the project is that library."""
    module = site.module
    return bool(module.facts.files) and module.facts.index.find(str(module.path), 0, library, "") is not None


def _first_import(site: RuleContext, library: str) -> ast.stmt | None:
    imports = (s for s in site.module.scopes.statements if isinstance(s, (ast.Import, ast.ImportFrom)))
    return next((s for s in imports if library in _libraries(s)), None)


def _guarded(site: RuleContext) -> bool:
    """Return whether an import stands in a `try`, under a condition, or in a function: its author thought of machines
    without the library."""
    return any(
        isinstance(up, (ast.Try, ast.If, ast.FunctionDef, ast.AsyncFunctionDef))
        for up in site.module.ancestors(site.node)
    )


def environment(site: RuleContext) -> Iterator[Finding]:
    name = site.node.value if isinstance(site.node, ast.Constant) else ""
    text = VARIABLES.get(name) if isinstance(name, str) else None
    if text and _in_environment(site):
        yield site.note(f"`{name!s}`: {text}")


def _in_environment(site: RuleContext) -> bool:
    """Return whether a string names an environment variable: `os.environ[...]`, `.get`, `.setdefault`, `os.getenv`,
    `os.putenv`, `env={...}`, `monkeypatch.setenv`."""
    up = site.parent
    match up:
        case ast.Subscript(value) if site.node is up.slice:
            return _is_environment(site.module, value)
        case ast.Call(func, [first, *_]) if first is site.node:
            owner = func.value if isinstance(func, ast.Attribute) else func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            return name in ("getenv", "putenv", "setenv", "unsetenv") or _is_environment(site.module, owner)
        case ast.Compare(_, [ast.In() | ast.NotIn()], [right]):
            return _is_environment(site.module, right)
        case ast.Dict():
            above = site.module.parent(up)
            return (isinstance(above, ast.keyword) and above.arg == "env") or (
                isinstance(above, ast.Call) and _is_environment(site.module, above.func)
            )
    return False


_ENVIRONMENTS = ("env", "envs", "my_env", "new_env", "current_env")


def _is_environment(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether an expression has "environ" in a name or a string, or is a usual name of a copy of it."""
    if isinstance(node, ast.Name) and node.id in _ENVIRONMENTS:
        return True
    return any("environ" in word for word in identifiers_in(module, node) | strings_in(module, node))


def import_probe(site: RuleContext) -> Iterator[Finding]:
    if site.call is None:
        return
    below: ast.AST = site.node
    for up in site.module.ancestors(site.node):
        if isinstance(up, ast.Lambda) or (isinstance(up, FUNCTIONS) and below in up.body):
            return
        if isinstance(up, ast.If) and "__name__" in identifiers_in(site.module, up.test):
            return
        below = up
    if _is_imported(site.module):
        yield site.note()


@query
def _is_imported(module: SemanticModel) -> bool:
    """Return whether the file is there to be imported. A file with a relative import is part of a package and cannot be
    run itself."""
    imports = (s for s in module.scopes.statements if isinstance(s, ast.ImportFrom))
    return is_imported(module) or any(s.level for s in imports)


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
    """Return whether this is the file's first extension. A setup.py lists many, and one finding is enough for all."""
    return first_call(site.module, {site.qualified or ""}) is site.call


def _has_kernels(site: RuleContext, call: ast.Call) -> bool:
    """Return whether an extension has CUDA sources. C++ sources alone build everywhere, and so may sources that are not
    spelled out here."""
    named = {k.arg: k.value for k in call.keywords}
    with_cuda = named.get("with_cuda")
    if isinstance(with_cuda, ast.Constant) and with_cuda.value is not None:
        return bool(with_cuda.value)
    if any(word in named for word in _CUDA_WORDS):
        return True
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.endswith(".cu") for n in ast.walk(call)
    )
