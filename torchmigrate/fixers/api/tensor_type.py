"""Fixers for `torch.cuda.FloatTensor` and its kin: constructors, `.type(...)`, aliases, type strings.

`accel.tensor_type(torch.float32)` is the very same type on CUDA, so all code that uses it keeps its meaning there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.api import type_choice
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device import device_defaults
from torchmigrate.semantic.references import helper_function, spelled
from torchmigrate.semantic.values import is_annotation, is_size, type_test
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.torch_api.names import DTYPES, TYPE

_SET_DEFAULT = "torch.set_default_tensor_type"


def cuda_tensor(context: RuleContext) -> Iterator[Finding]:
    if context.qualified == _SET_DEFAULT or (isinstance(context.ref, ast.Attribute) and context.ref.attr == "type"):
        yield from aliased(context)
        return
    text = str(context.ref.value) if isinstance(context.ref, ast.Constant) else str(context.qualified)
    dtype = DTYPES.get(text.rpartition(".")[2].removesuffix("Tensor"))
    if dtype is None:
        yield context.note("a CUDA tensor type without a counterpart elsewhere")
    elif ".sparse." in text:
        yield from _sparse(context)
    elif context.scope.find(spelled(context.module)["torch"]) is None:
        yield context.note("a CUDA tensor type (not rewritten: this file does not import torch itself)")
    else:
        yield from _dense(context, f"torch.{dtype}")


def _dense(context: RuleContext, dtype: str) -> Iterator[Finding]:
    up = context.module.parent(context.ref)
    owner = up if isinstance(up, ast.Call) and up.func is not context.ref else None
    last = _last(owner) if owner else ""
    if owner and last == "type" and isinstance(owner.func, ast.Attribute) and _only(owner, context.ref):
        yield context.rewrite("$x.type($t)", f"accel.cast($x, {dtype})", owner) or context.note()
    elif owner and last == "set_default_tensor_type" and _only(owner, context.ref):
        yield context.rewrite(f"{_SET_DEFAULT}($t)", f"accel.set_default_tensor_type({dtype})", owner) or context.note()
    elif isinstance(context.ref, ast.Constant):
        yield from _string(context, up, dtype)
    elif context.call is not None and context.call.func is context.ref:
        yield _constructed(context, context.call, dtype)
    elif isinstance(up, ast.IfExp) and _chooses_default(context, up):
        yield _default_choice(context, up, dtype)
    elif choice := type_choice.choice_of(context.module, context.ref):
        yield context.fix([*choice.edits])
    else:
        yield from _named(context, up, dtype)


def _last(call: ast.Call) -> str:
    return str(chain_of(call.func) or getattr(call.func, "attr", "")).rpartition(".")[2]


def _only(call: ast.Call, argument: ast.AST) -> bool:
    return len(call.args) == 1 and call.args[0] is argument and not call.keywords


def _sparse(context: RuleContext) -> Iterator[Finding]:
    """Replace a sparse tensor made of indices, values and maybe a size; the helper takes no shape alone."""
    call = context.call
    if is_annotation(context.module, context.ref):
        return
    built = (
        call is not None
        and call.func is context.ref
        and len(call.args) > 1
        and not isinstance(call.args[0], ast.Constant)
    )
    yield (built and context.rewrite(f"{context.qualified}($$args)", "accel.sparse_tensor($$args)")) or context.note(
        "a sparse CUDA tensor type"
    )


def _constructed(context: RuleContext, call: ast.Call, dtype: str) -> Finding:
    """Replace a constructor: sizes give uninitialised memory, a sequence its data; the type takes the rest."""
    name = context.qualified
    place = f"dtype={dtype}, device=accel.device()"
    plain = not call.keywords and not any(isinstance(a, ast.Starred) for a in call.args)
    first = call.args[0] if call.args else None
    if plain and len(call.args) == 1 and isinstance(first, (ast.List, ast.ListComp, ast.Tuple)):
        found = context.rewrite(f"{name}($data)", f"torch.tensor($data, {place})")
    elif plain and first is not None and (len(call.args) > 1 or is_size(context.module, first)):
        sizes = ", ".join(f"$s{i}" for i in range(len(call.args)))
        found = context.rewrite(f"{name}({sizes})", f"torch.empty({sizes}, {place})")
    else:
        found = context.rewrite(f"{name}($$args)", f"accel.tensor_type({dtype})($$args)")
    return found or context.note()


def _chooses_default(context: RuleContext, up: ast.IfExp) -> bool:
    call = context.module.parent(up)
    statement = context.module.parent(call) if call else None
    if not isinstance(call, ast.Call) or not isinstance(statement, ast.Expr) or up.test is context.ref:
        return False
    return context.module.resolve(call.func) == _SET_DEFAULT and _only(call, up)


def _default_choice(context: RuleContext, up: ast.IfExp, dtype: str) -> Finding:
    """Replace `set_default_tensor_type(A if test else B)` with the choice outside: the helper takes a dtype."""
    call = context.module.parent(up)
    ours, theirs = f"accel.set_default_tensor_type({dtype})", f"{_SET_DEFAULT}($other)"
    if up.body is context.ref:
        found = context.rewrite(f"{_SET_DEFAULT}($type if $test else $other)", f"{ours} if $test else {theirs}", call)
    else:
        found = context.rewrite(f"{_SET_DEFAULT}($other if $test else $type)", f"{theirs} if $test else {ours}", call)
    return found or context.note()


def _named(context: RuleContext, up: ast.AST | None, dtype: str) -> Iterator[Finding]:
    module = context.module
    test = type_test(module, context.ref)
    if is_annotation(module, context.ref) or isinstance(up, ast.Expr):
        return
    if test is not None:
        yield _tested(context, test, dtype)
    elif isinstance(up, ast.Dict) and any(k is context.ref for k in up.keys):
        yield context.note("a table keyed by CUDA's tensor types: other devices' tensors are not found in it")
    elif isinstance(up, ast.ClassDef):
        yield context.note("a subclass of a CUDA tensor type")
    else:
        yield device_defaults.at_import_checked(context, context.ref, f"accel.tensor_type({dtype})")


def _tested(context: RuleContext, test: ast.Call, dtype: str) -> Finding:
    """Replace a type test. On the CPU the helper's type is the CPU's, which the test was not about."""
    subject, classes = test.args
    if classes is context.ref and chain_of(subject) and getattr(test.func, "id", "") == "isinstance":
        where = context.module.text(subject)
        return context.replace(
            test, _grouped(context, test, f"accel.is_accelerated({where}) and {where}.dtype == {dtype}")
        )
    cpu = any(
        context.module.resolve(e) == str(context.qualified).replace(".cuda.", ".") for e in getattr(classes, "elts", ())
    )
    why = f"{context.rule.message}; on the CPU the helper's type is the CPU's"
    return context.replace(context.ref, f"accel.tensor_type({dtype})", *(() if cpu else (Safety.UNSAFE, why)))


def _grouped(context: RuleContext, node: ast.AST, text: str) -> str:
    match context.module.parent(node):
        case ast.If() | ast.Assert() | ast.Assign() | ast.Return() | ast.BoolOp(ast.And()) | ast.IfExp():
            return text
    return f"({text})"


_COMPARED = "compared with a type string: ask for `.dtype` and `accel.is_accelerated(x)`"


def _string(context: RuleContext, up: ast.AST | None, dtype: str) -> Iterator[Finding]:
    """Replace or report a type string. It is data where it is kept; `x.type(name)` is rewritten where it is used."""
    match up:
        case ast.Compare(ast.Call(ast.Attribute(subject, "type"), [], []), [ast.Eq()], [right]) if (
            right is context.ref and chain_of(subject)
        ):
            where = context.module.text(subject)
            yield context.replace(
                up, _grouped(context, up, f"accel.is_accelerated({where}) and {where}.dtype == {dtype}")
            )
        case ast.Compare():
            yield context.note(_COMPARED)
        case ast.Tuple() | ast.List() | ast.Set() if isinstance(context.module.parent(up), ast.Compare):
            yield context.note(_COMPARED)
        case ast.Return() | ast.keyword() | ast.arguments():
            yield context.note("a type string of CUDA: other devices have none, pass the dtype and the device instead")


def aliased(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if (
        call is None
        or len(call.args) != 1
        or call.keywords
        or not any(_is_cuda_type(context, v) for v in _values(context, call.args[0]))
    ):
        return
    if (context.qualified and isinstance(call.args[0], ast.IfExp)) or type_choice.is_cast(context.module, call):
        return  # the type's own rule rewrites it
    if context.qualified:
        yield context.note(
            "a CUDA tensor type may arrive here under another name: the helper's function wants the dtype"
        )
    else:
        yield context.rewrite("$x.type($t)", "accel.cast($x, $t)") or context.note()


def _values(context: RuleContext, node: ast.expr) -> list[ast.expr]:
    """Return all values that a name, or an attribute of `self`, is given in this file."""
    match node:
        case ast.Name(name):
            found = context.scope.find(name)
            return [b.value for b in found[1] if b.value is not None] if found else []
        case ast.Attribute(ast.Name("self" | "cls"), name):
            owner = context.scope.enclosing_class()
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


def _is_cuda_type(context: RuleContext, value: ast.expr) -> bool:
    for node in (n for part in _branches(value) for n in ast.walk(part)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TYPE.fullmatch(node.value):
            return True
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = chain_of(node) or ""
            resolved = context.module.resolver.dotted(name, context.scope) or ""
            if resolved.startswith("torch.cuda.") and resolved.endswith("Tensor") and ".sparse." not in resolved:
                return True
            if helper_function(context.module, node) == "tensor_type":
                return True
    return False


def _branches(value: ast.expr) -> list[ast.expr]:
    """Return the expressions that a value may be, by its conditions. A tensor made of a CUDA type is no type."""
    if isinstance(value, ast.IfExp):
        return [*_branches(value.body), *_branches(value.orelse)]
    if isinstance(value, ast.Call):
        return [value.func] if (chain_of(value.func) or "").endswith(".tensor_type") else []
    return [value]
