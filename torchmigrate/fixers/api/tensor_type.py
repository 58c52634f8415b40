"""Fixers for `torch.cuda.FloatTensor` and its kin: constructors, `.type(...)`, aliases, type strings (T12, T13).

`accel.tensor_type(torch.float32)` is the very same type on CUDA, so all code that uses it keeps its meaning there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device import device_defaults
from torchmigrate.semantic.spelling import helper_function, spelled
from torchmigrate.semantic.values import is_annotation, is_size, type_test
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.torch_api.names import DTYPES, TYPE

_SET_DEFAULT = "torch.set_default_tensor_type"


def cuda_tensor(site: RuleContext) -> Iterator[Finding]:
    if site.qualified == _SET_DEFAULT or (isinstance(site.ref, ast.Attribute) and site.ref.attr == "type"):
        yield from aliased(site)
        return
    text = str(site.ref.value) if isinstance(site.ref, ast.Constant) else str(site.qualified)
    dtype = DTYPES.get(text.rpartition(".")[2].removesuffix("Tensor"))
    if dtype is None:
        yield site.note("a CUDA tensor type without a counterpart elsewhere")
    elif ".sparse." in text:
        yield from _sparse(site)
    elif site.scope.find(spelled(site.module)["torch"]) is None:
        yield site.note("a CUDA tensor type (not rewritten: this file does not import torch itself)")
    else:
        yield from _dense(site, f"torch.{dtype}")


def _dense(site: RuleContext, dtype: str) -> Iterator[Finding]:
    up = site.module.parent(site.ref)
    owner = up if isinstance(up, ast.Call) and up.func is not site.ref else None
    last = _last(owner) if owner else ""
    if owner and last == "type" and isinstance(owner.func, ast.Attribute) and _only(owner, site.ref):
        yield site.rewrite("$x.type($t)", f"accel.cast($x, {dtype})", owner) or site.note()
    elif owner and last == "set_default_tensor_type" and _only(owner, site.ref):
        yield site.rewrite(f"{_SET_DEFAULT}($t)", f"accel.set_default_tensor_type({dtype})", owner) or site.note()
    elif isinstance(site.ref, ast.Constant):
        yield from _string(site, up, dtype)
    elif site.call is not None and site.call.func is site.ref:
        yield _constructed(site, site.call, dtype)
    elif isinstance(up, ast.IfExp) and _chooses_default(site, up):
        yield _default_choice(site, up, dtype)
    else:
        yield from _named(site, up, dtype)


def _last(call: ast.Call) -> str:
    return str(chain_of(call.func) or getattr(call.func, "attr", "")).rpartition(".")[2]


def _only(call: ast.Call, argument: ast.AST) -> bool:
    return len(call.args) == 1 and call.args[0] is argument and not call.keywords


def _sparse(site: RuleContext) -> Iterator[Finding]:
    """Replace a sparse tensor made of indices, values and maybe a size. Integers alone are a shape, which the helper
    does not take."""
    call = site.call
    if is_annotation(site.module, site.ref):
        return
    built = (
        call is not None and call.func is site.ref and len(call.args) > 1 and not isinstance(call.args[0], ast.Constant)
    )
    yield (built and site.rewrite(f"{site.qualified}($$args)", "accel.sparse_tensor($$args)")) or site.note(
        "a sparse CUDA tensor type"
    )


def _constructed(site: RuleContext, call: ast.Call, dtype: str) -> Finding:
    """Replace a constructor. Sizes give uninitialised memory, a sequence gives its data (T13); an argument that may be
    either is left to the type itself."""
    name = site.qualified
    place = f"dtype={dtype}, device=accel.device()"
    plain = not call.keywords and not any(isinstance(a, ast.Starred) for a in call.args)
    first = call.args[0] if call.args else None
    if plain and len(call.args) == 1 and isinstance(first, (ast.List, ast.ListComp, ast.Tuple)):
        found = site.rewrite(f"{name}($data)", f"torch.tensor($data, {place})")
    elif plain and first is not None and (len(call.args) > 1 or is_size(site.module, first)):
        sizes = ", ".join(f"$s{i}" for i in range(len(call.args)))
        found = site.rewrite(f"{name}({sizes})", f"torch.empty({sizes}, {place})")
    else:
        found = site.rewrite(f"{name}($$args)", f"accel.tensor_type({dtype})($$args)")
    return found or site.note()


def _chooses_default(site: RuleContext, up: ast.IfExp) -> bool:
    call = site.module.parent(up)
    statement = site.module.parent(call) if call else None
    if not isinstance(call, ast.Call) or not isinstance(statement, ast.Expr) or up.test is site.ref:
        return False
    return site.module.resolve(call.func) == _SET_DEFAULT and _only(call, up)


def _default_choice(site: RuleContext, up: ast.IfExp, dtype: str) -> Finding:
    """Replace `set_default_tensor_type(A if test else B)`. The helper's function takes a dtype and torch's a type, so
    the choice moves outside the calls."""
    call = site.module.parent(up)
    ours, theirs = f"accel.set_default_tensor_type({dtype})", f"{_SET_DEFAULT}($other)"
    if up.body is site.ref:
        found = site.rewrite(f"{_SET_DEFAULT}($type if $test else $other)", f"{ours} if $test else {theirs}", call)
    else:
        found = site.rewrite(f"{_SET_DEFAULT}($other if $test else $type)", f"{theirs} if $test else {ours}", call)
    return found or site.note()


def _named(site: RuleContext, up: ast.AST | None, dtype: str) -> Iterator[Finding]:
    module = site.module
    test = type_test(module, site.ref)
    if is_annotation(module, site.ref) or isinstance(up, ast.Expr):
        return
    if test is not None:
        yield _tested(site, test, dtype)
    elif isinstance(up, ast.Dict) and any(k is site.ref for k in up.keys):
        yield site.note("a table keyed by CUDA's tensor types: other devices' tensors are not found in it")
    elif isinstance(up, ast.ClassDef):
        yield site.note("a subclass of a CUDA tensor type")
    else:
        yield device_defaults.at_import_checked(site, site.ref, f"accel.tensor_type({dtype})")


def _tested(site: RuleContext, test: ast.Call, dtype: str) -> Finding:
    """Replace a type test. On the CPU the helper's type is the CPU's, which the test was not about."""
    subject, classes = test.args
    if classes is site.ref and chain_of(subject) and getattr(test.func, "id", "") == "isinstance":
        where = site.module.text(subject)
        return site.replace(test, _grouped(site, test, f"accel.is_accelerated({where}) and {where}.dtype == {dtype}"))
    cpu = any(
        site.module.resolve(e) == str(site.qualified).replace(".cuda.", ".") for e in getattr(classes, "elts", ())
    )
    why = f"{site.rule.message}; on the CPU the helper's type is the CPU's"
    return site.replace(site.ref, f"accel.tensor_type({dtype})", *(() if cpu else (Safety.UNSAFE, why)))


def _grouped(site: RuleContext, node: ast.AST, text: str) -> str:
    match site.module.parent(node):
        case ast.If() | ast.Assert() | ast.Assign() | ast.Return() | ast.BoolOp(ast.And()) | ast.IfExp():
            return text
    return f"({text})"


def _string(site: RuleContext, up: ast.AST | None, dtype: str) -> Iterator[Finding]:
    """Replace or report a type string. It is data where it is kept; `x.type(name)` is rewritten where it is used."""
    match up:
        case ast.Compare(ast.Call(ast.Attribute(subject, "type"), [], []), [ast.Eq()], [right]) if (
            right is site.ref and chain_of(subject)
        ):
            where = site.module.text(subject)
            yield site.replace(up, _grouped(site, up, f"accel.is_accelerated({where}) and {where}.dtype == {dtype}"))
        case ast.Compare():
            yield site.note("compared with a type string: ask for `.dtype` and `accel.is_accelerated(x)`")
        case ast.Return() | ast.keyword() | ast.arguments():
            yield site.note("a type string of CUDA: other devices have none, pass the dtype and the device instead")


def aliased(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if (
        call is None
        or len(call.args) != 1
        or call.keywords
        or not any(_is_cuda_type(site, v) for v in _values(site, call.args[0]))
    ):
        return
    if site.qualified and isinstance(call.args[0], ast.IfExp):
        return  # the type's own rule rewrites it
    if site.qualified:
        yield site.note("a CUDA tensor type may arrive here under another name: the helper's function wants the dtype")
    else:
        yield site.rewrite("$x.type($t)", "accel.cast($x, $t)") or site.note()


def _values(site: RuleContext, node: ast.expr) -> list[ast.expr]:
    """Return all values that a name, or an attribute of `self`, is given in this file."""
    match node:
        case ast.Name(name):
            found = site.scope.find(name)
            return [b.value for b in found[1] if b.value is not None] if found else []
        case ast.Attribute(ast.Name("self" | "cls"), name):
            owner = site.scope.enclosing_class()
            assigns = [n for n in ast.walk(owner.node) if isinstance(n, ast.Assign)] if owner else []
            return [
                a.value
                for a in assigns
                if any(isinstance(t, (ast.Attribute, ast.Name)) and _alias_name(t) == name for t in a.targets)
            ]
        case ast.IfExp():
            return [node]
    return []


def _alias_name(target: ast.Attribute | ast.Name) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr


def _is_cuda_type(site: RuleContext, value: ast.expr) -> bool:
    for node in (n for part in _branches(value) for n in ast.walk(part)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TYPE.fullmatch(node.value):
            return True
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = chain_of(node) or ""
            resolved = site.module.resolver.dotted(name, site.scope) or ""
            if resolved.startswith("torch.cuda.") and resolved.endswith("Tensor") and ".sparse." not in resolved:
                return True
            if helper_function(site.module, node) == "tensor_type":
                return True
    return False


def _branches(value: ast.expr) -> list[ast.expr]:
    """Return the expressions that a value may be, by its conditions. A tensor made of a CUDA type is no type."""
    if isinstance(value, ast.IfExp):
        return [*_branches(value.body), *_branches(value.orelse)]
    if isinstance(value, ast.Call):
        return [value.func] if (chain_of(value.func) or "").endswith(".tensor_type") else []
    return [value]
