"""`torch.cuda.amp.autocast` and `GradScaler`, `torch.cuda.Event` and `Stream`: called, handed on, or named as a type.

The helper's are functions, so a name that code subclasses, tests with `isinstance` or annotates with stays a class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.amp.import_fallback import import_fallback, is_only_called
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.spelling import spelled
from torchmigrate.semantic.values import is_annotation, type_test

# what the helper makes on CUDA, under a name that is a class on every build
_CLASS = {"torch.cuda.amp.GradScaler": "torch.amp.GradScaler", "torch.cuda.amp.autocast": "torch.autocast"}
_HELPER = {
    "torch.cuda.amp.GradScaler": "accel.grad_scaler", "torch.cuda.amp.autocast": "accel.autocast",
    "torch.cuda.Event": "accel.Event", "torch.cuda.Stream": "accel.Stream",
    "torch.cuda.amp.custom_fwd": "accel.custom_fwd", "torch.cuda.amp.custom_bwd": "accel.custom_bwd",
}  # fmt: skip
_SINCE = ">=2.3"  # torch.amp.GradScaler


def helper_class(site: RuleContext) -> Iterator[Finding]:
    name = site.qualified or ""
    helper, made = _HELPER.get(name), _CLASS.get(name)
    up = site.module.parent(site.ref)
    if isinstance(site.node, ast.ImportFrom):
        yield from import_fallback(site, _HELPER)
    if helper is None:
        return
    if site.node is not site.ref:
        yield site.rewrite(f"{name}($$args)", f"{helper}($$args)") or site.note()
    elif is_annotation(site.module, site.ref) or isinstance(up, (ast.alias, ast.Expr)) or _is_fallback(up):
        return
    elif type_test(site.module, site.ref):
        if made:
            yield _tested(site, made)
    elif isinstance(up, ast.ClassDef):
        yield site.note(f"a subclass of `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Compare):
        if not any(isinstance(c, ast.Constant) and c.value is None for c in up.comparators):
            yield site.note(f"a type test on `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Attribute):
        yield site.note(f"an attribute of `{name}`: it stays bound to CUDA")
    elif isinstance(up, ast.Assign) and not _only_called(site.module, up):
        yield site.replace(site.ref, helper, Safety.UNSAFE, f"{site.rule.message}; the name is used as a class too")
    elif isinstance(up, ast.Assign) and isinstance(site.module.parent(up), ast.ClassDef):
        yield site.replace(site.ref, f"staticmethod({helper})")  # a function in a class would take `self`
    else:
        yield site.replace(site.ref, helper)


def _tested(site: RuleContext, made: str) -> Finding:
    """`isinstance(s, torch.cuda.amp.GradScaler)`: the helper makes the class that torch >= 2.3 has for all."""
    facts = site.module.facts
    if spelled(site.module)["torch"] not in site.module.scopes.module.names:
        return site.note(f"a type test on `{site.qualified}`: the helper's is a `{made}`")
    if made == "torch.autocast" or facts.torch is None or facts.torch_at_least(_SINCE):
        return site.replace(site.ref, made)
    return site.replace(site.ref, f'getattr(torch.amp, "GradScaler", {site.module.text(site.ref)})')


def _is_fallback(up: ast.AST | None) -> bool:
    """In `getattr(torch.amp, "GradScaler", ...)` it is what an older torch has."""
    return isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id == "getattr" and len(up.args) == 3


def _only_called(module: SemanticModel, assign: ast.Assign) -> bool:
    return is_only_called(module, {t.id for t in assign.targets if isinstance(t, ast.Name)})
