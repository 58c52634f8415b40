"""Fixers for `torch.cuda.FloatTensor` and its kin: constructors, `.type(...)`, aliases, type strings.

`accel.tensor_type(torch.float32)` is the very same type on CUDA, so all code that uses it keeps its meaning there.
A name that is only called and cast to needs no class: `T = torch.cuda.FloatTensor if cuda else torch.FloatTensor`
becomes a choice between a function and the CPU's type, and `x.type(T)` a `.to(...)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device import device_defaults
from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.receiver import is_module, returned_values
from torchmigrate.semantic.references import (
    Reference,
    calls_by_name,
    helper_function,
    identifiers,
    reads_of,
    spell,
    spelled,
)
from torchmigrate.semantic.values import (
    default_of,
    given_before,
    given_for,
    is_annotation,
    is_size,
    is_used_as_tensor,
    type_test,
)
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Scope
from torchmigrate.torch_api.names import DTYPES, TYPE

_DEFAULTS = {"set_default_dtype", "set_default_tensor_type", "set_default_device"}
_SIZES = {"shape", "size"}
_HERE = "accel.device()"


@dataclass(frozen=True, slots=True)
class _Named:
    """A CUDA tensor type that is given a name, and the device that it stands for: "" if the test is about more."""

    reference: ast.expr
    type_name: str
    place: str
    is_choice: bool


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """The rewrite of a name for a tensor type: all edits, and the casts `x.type(name)` among the uses."""

    edits: tuple[Edit, ...]
    casts: frozenset[ast.Call]


def choice_of(module: SemanticModel, reference: ast.AST) -> TypeChoice | None:
    """Return the rewrite of the name that is given this reference to a CUDA type; None if a use is not seen."""
    return _choices(module).get(reference)


def is_cast(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call `x.type(name)` is rewritten with the name."""
    return any(call in choice.casts for choice in _choices(module).values())


@query
def _choices(module: SemanticModel) -> Mapping[ast.AST, TypeChoice]:
    found: dict[ast.AST, TypeChoice] = {}
    if _DEFAULTS & identifiers(module):
        return found
    for statement in module.scopes.statements:
        match statement:
            case ast.Assign([ast.Name(name)], value):
                scope = module.scopes.scope_of[statement]
                named = _read_by_name(module, value, scope)
                if named and (choice := _choice(module, name, value, named)):
                    found[named.reference] = choice
    return found


def _read_by_name(module: SemanticModel, value: ast.expr, scope: Scope) -> _Named | None:
    """Return the CUDA type that a value is, or chooses beside the CPU's."""
    home, name = _type_name(module, value, scope)
    if home == "torch.cuda":
        return _Named(value, name, _HERE, is_choice=False)
    if not isinstance(value, ast.IfExp):
        return None
    sides = {_type_name(module, side, scope): side for side in (value.body, value.orelse)}
    for (home, name), side in sides.items():
        others = {("torch", name), *([("torch", "Tensor")] if name == "FloatTensor" else [])}
        if home == "torch.cuda" and others & {*sides}:
            return _Named(side, name, _place(module, value.test, scope) if side is value.body else "", is_choice=True)
    return None


def _type_name(module: SemanticModel, value: ast.expr, scope: Scope) -> tuple[str, str]:
    """Return the module and the name of torch's type that an expression names, or two empty texts."""
    if not isinstance(value, ast.Attribute):
        return "", ""
    home, _, name = (module.resolve(value, scope) or "").rpartition(".")
    is_type = name.endswith("Tensor") and (name == "Tensor" or name.removesuffix("Tensor") in DTYPES)
    return (home, name) if is_type else ("", "")


def _place(module: SemanticModel, test: ast.expr, scope: Scope) -> str:
    """Return the device that a test chooses: the accelerator, a tensor's; "" if it asks for anything else."""
    match test:
        case ast.Call(func, [], []):
            is_asked = module.resolve(func, scope) == "torch.cuda.is_available"
            return _HERE if is_asked or helper_function(module, func) == "is_available" else ""
        case ast.IfExp(inner, ast.Constant(True), ast.Constant(False)):
            return _place(module, inner, scope)
        case ast.Attribute(ast.Name(tensor), "is_cuda"):
            home, bindings = scope.find(tensor) or (scope, [])
            is_one = home is scope and len(bindings) == 1
            return f"{tensor}.device" if is_one and is_used_as_tensor(module, tensor, test) else ""
        case ast.Name(name):
            home, bindings = scope.find(name) or (scope, [])
            value = bindings[0].value if len(bindings) == 1 else None
            place = "" if value is None or isinstance(value, ast.Name) else _place(module, value, home)
            return place if place == _HERE else ""
    return ""


def _choice(module: SemanticModel, name: str, value: ast.expr, named: _Named) -> TypeChoice | None:
    know_parents(module)
    scope = module.scopes.scope_of[module.statement(value)]
    home, bindings = scope.find(name) or (scope, [])
    is_global = isinstance(scope.node, ast.Module)
    is_open = scope.is_class or (is_global and module.facts.index.is_taken(str(module.path), name))
    if home is not scope or len(bindings) != 1 or is_open:
        return None
    names, uses = spelled(module), reads_of(module, name, scope)
    calls = {use: module.parent(use.node) for use in uses}
    casts = frozenset(c for use, c in calls.items() if isinstance(c, ast.Call) and _is_cast_to(module, c, use, named))
    if not all(c in casts or (isinstance(c, ast.Call) and _is_made(module, c, use)) for use, c in calls.items()):
        return None
    if (casts and not named.place) or (named.place != _HERE and any(use.scope is not scope for use in uses)):
        return None
    dtype = f"torch.{DTYPES[named.type_name.removesuffix('Tensor')]}"
    made = f"lambda *args: torch.{named.type_name}(*args).to({named.place or _HERE})"
    is_kept = named.is_choice and named.place in ("", _HERE)
    target, new = (named.reference, f"({made})") if is_kept else (value, made)
    moved = f".to({named.place}, {dtype})"
    is_dtype = len(casts) == len(uses) > 0 and not isinstance(getattr(value, "test", None), ast.Name)
    if is_dtype:
        target, new, moved = value, dtype, f".to({named.place})"
    elif any(is_module(module, _subject(cast), module.scope(cast)) for cast in casts):
        return None
    edits = [Edit(*module.span(target), spell(new, names))]
    for cast in casts:
        start, end = module.span(_subject(cast))[1], module.span(cast)[1]
        edits.append(Edit(end if is_dtype else start, end, spell(moved, names)))
    return TypeChoice(tuple(sorted(edits, key=lambda edit: edit.start)), casts)


def _subject(cast: ast.Call) -> ast.expr:
    """Return x of `x.type(name)`."""
    return cast.func.value  # type: ignore[attr-defined, no-any-return]


def _is_made(module: SemanticModel, call: ast.Call, use: Reference) -> bool:
    """Return whether a call makes a tensor of sizes, or of data that is no tensor, which each device's type takes."""
    return (
        call.func is use.node
        and not call.keywords
        and (len(call.args) > 1 or all(_is_no_tensor(module, a, use) for a in call.args))
    )


def _is_cast_to(module: SemanticModel, call: ast.Call, use: Reference, named: _Named) -> bool:
    """Return whether a call is `x.type(name)`. In a method x may be on another device than the current one."""
    is_cast = isinstance(call.func, ast.Attribute) and call.func.attr == "type" and call.args == [use.node]
    is_known = named.place != _HERE or module.nearest(call, ast.ClassDef) is None
    return is_cast and is_known and not call.keywords


def _is_no_tensor(module: SemanticModel, node: ast.expr, use: Reference) -> bool:
    """Return whether an argument is a size, or data of NumPy's or Python's."""
    statement = module.statement(use.node)
    is_known = module.scopes.scope_of[statement] is use.scope
    return all(_is_plain(module, each, use.scope, statement if is_known else None) for each in _parts(node))


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what arithmetic, a star or a choice takes its value from."""
    match node:
        case ast.BinOp(left, _, right):
            yield from (*_parts(left), *_parts(right))
        case ast.UnaryOp(_, inner) | ast.Starred(inner):
            yield from _parts(inner)
        case _:
            yield node


def _is_plain(module: SemanticModel, node: ast.expr, scope: Scope, statement: ast.stmt | None) -> bool:
    match node:
        case ast.Constant() | ast.List() | ast.Tuple() | ast.ListComp():
            return True
        case ast.Attribute(_, attribute) | ast.Subscript(ast.Attribute(_, attribute)) if attribute in _SIZES:
            return True
        case ast.Attribute(ast.Name(options)):
            bindings = (scope.find(options) or (scope, []))[1]
            return bool(bindings) and all(_parses_options(binding.value) for binding in bindings)
        case ast.Call(func):
            return is_size(module, node) or (module.resolve(func, scope) or "").startswith("numpy.")
        case ast.Name(name) if statement is not None:
            given = given_before(module, name, statement) or []
            return bool(given) and all(_is_plain(module, value, scope, at) for value, at in given)
    return False


def _parses_options(value: ast.expr | None) -> bool:
    """Return whether a value is a program's options, which hold no tensors."""
    return isinstance(value, ast.Call) and last_name(value.func) == "parse_args"


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
    elif not _has_torch(context):
        yield context.note("a CUDA tensor type (not rewritten: this file does not import torch itself)")
    else:
        yield from _dense(context, f"torch.{dtype}")


def _has_torch(context: RuleContext) -> bool:
    """Return whether torch has its name here: by an import, or as what a star import gives is read under it."""
    name = spelled(context.module)["torch"]
    return context.scope.find(name) is not None or (chain_of(context.ref) or "").startswith(f"{name}.")


def cpu_type(context: RuleContext) -> Iterator[Finding]:
    """Report `isinstance(x, torch.LongTensor)` in a project for CUDA: it is False where the tensor is on a device."""
    module = context.module
    test: ast.AST | None = type_test(module, context.ref)
    if test is None or not module.facts.is_for_devices:
        return
    while isinstance(up := module.parent(test), (ast.BoolOp, ast.UnaryOp)):
        test = up
    parts = [node for node in ast.walk(test) if isinstance(node, (ast.Attribute, ast.Name))]
    if not any(last_name(p) in _ASK_DEVICES or (module.resolve(p) or "").startswith("torch.cuda.") for p in parts):
        dtype = DTYPES[str(context.qualified).rpartition(".")[2].removesuffix("Tensor")]
        yield context.note(context.rule.message.replace("torch.int64", f"torch.{dtype}"))


_ASK_DEVICES = ("tensor_type", "is_accelerated", "is_cuda", "device")


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
    elif choice := choice_of(context.module, context.ref):
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
    """Replace a constructor: sizes give uninitialised memory, a sequence its data; the type takes the rest.

    Off CUDA no type takes the place that `device=` names, so the function has to.
    """
    name = context.qualified
    is_placed = [keyword.arg for keyword in call.keywords] == ["device"]
    given, place = (", device=$d", "$d") if is_placed else ("", "accel.device()")
    place = f"dtype={dtype}, device={place}"
    plain = (is_placed or not call.keywords) and not any(isinstance(a, ast.Starred) for a in call.args)
    first = call.args[0] if call.args else None
    found = None
    if plain and len(call.args) == 1 and _is_sequence(context, first):
        found = context.rewrite(f"{name}($data{given})", f"torch.tensor($data, {place})")
    elif plain and first is not None and (len(call.args) > 1 or is_size(context.module, first)):
        sizes = ", ".join(f"$s{i}" for i in range(len(call.args)))
        found = context.rewrite(f"{name}({sizes}{given})", f"torch.empty({sizes}, {place})")
    elif not call.keywords:
        found = context.rewrite(f"{name}($$args)", f"accel.tensor_type({dtype})($$args)")
    return found or context.note()


def _is_sequence(context: RuleContext, node: ast.expr | None) -> bool:
    """Return whether an argument is a list or a tuple, or a name that is bound to lists alone."""
    if isinstance(node, ast.Name):
        found = context.scope.find(node.id)
        return found is not None and all(isinstance(b.value, (ast.List, ast.ListComp)) for b in found[1])
    return isinstance(node, (ast.List, ast.ListComp, ast.Tuple))


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
        return _guarding(context, test, where, dtype)
    cpu = any(
        context.module.resolve(e) == str(context.qualified).replace(".cuda.", ".") for e in getattr(classes, "elts", ())
    )
    why = f"{context.rule.message}; on the CPU the helper's type is the CPU's"
    return context.replace(context.ref, f"accel.tensor_type({dtype})", *(() if cpu else (Safety.UNSAFE, why)))


def _guarding(context: RuleContext, test: ast.expr, tensor: str, dtype: str) -> Finding:
    """Replace a test for a type on CUDA; it stays with what it guards for CUDA alone."""
    text = _grouped(context, test, f"accel.is_accelerated({tensor}) and {tensor}.dtype == {dtype}")
    start, end = context.module.span(test)
    return replace(context.replace(test, text), start=start, end=end, guards="choice")


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
            yield _guarding(context, up, where, dtype)
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
    if (context.qualified and isinstance(call.args[0], ast.IfExp)) or is_cast(context.module, call):
        return  # the type's own rule rewrites it
    if context.qualified:
        yield context.note(
            "a CUDA tensor type may arrive here under another name: the helper's function wants the dtype"
        )
    else:
        yield context.rewrite("$x.type($t)", "accel.cast($x, $t)") or context.note()


def _values(context: RuleContext, node: ast.expr) -> list[ast.expr]:
    """Return all values that a name, or an attribute of `self`, is given in this file."""
    module, scope = context.module, context.scope
    match node:
        case ast.Name() | ast.Call():
            return [*_origins(module, node, scope, 3)]
        case ast.Attribute(ast.Name("self" | "cls"), name):
            owner = scope.enclosing_class()
            assigns = [n for n in ast.walk(owner.node) if isinstance(n, ast.Assign)] if owner else []
            given = [a for a in assigns if any(_is_named(target, name) for target in a.targets)]
            return [v for a in given for v in (a.value, *_origins(module, a.value, module.scope(a), 3))]
        case ast.IfExp():
            return [node]
    return []


def _is_named(target: ast.expr, name: str) -> bool:
    return isinstance(target, (ast.Attribute, ast.Name)) and _alias_name(target) == name


def _origins(module: SemanticModel, node: ast.expr, scope: Scope, deep: int) -> Iterator[ast.expr]:
    """Yield what a name, or a call of a function of this file, may be: through unpacking, returns and arguments."""
    for value, home in _sources(module, node, scope) if deep else ():
        yield value
        yield from _origins(module, value, home, deep - 1)


def _sources(module: SemanticModel, node: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """Yield what a name is bound to, or what a call returns, each with its scope: one step of `_origins`."""
    if isinstance(node, ast.Call):
        yield from _returned(module, node, scope)
    home, bindings = (scope.find(node.id) if isinstance(node, ast.Name) else None) or (scope, [])
    for binding in bindings:
        if binding.value is not None:
            yield binding.value, home
        elif isinstance(binding.node, ast.arg) and isinstance(home.node, FUNCTIONS):
            if (default := default_of(home.node, binding.node)) is not None:
                yield default, module.scope(home.node)
            for call, where in calls_by_name(module).get(home.node.name, ()):
                if (given := given_for(call, home.node, binding.node.arg)) is not None:
                    yield given, where
        else:
            yield from _unpacked(module, binding.node, home)


def _unpacked(module: SemanticModel, target: ast.AST, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """Yield what a target of an assignment may take of the tuples that a function of this file returns."""
    for call, at, count in _taken_of_calls(module).get(target, ()):
        for value, home in _returned(module, call, scope):
            if isinstance(value, ast.Tuple) and len(value.elts) == count:
                yield value.elts[at], home


@query
def _taken_of_calls(module: SemanticModel) -> Mapping[ast.AST, list[tuple[ast.Call, int, int]]]:
    """Return the call, the place and the number of targets for each target of `a, b = f()`."""
    found: dict[ast.AST, list[tuple[ast.Call, int, int]]] = {}
    for statement in module.scopes.statements:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            for items in (t.elts for t in statement.targets if isinstance(t, (ast.Tuple, ast.List))):
                for at, item in enumerate(items):
                    found.setdefault(item, []).append((statement.value, at, len(items)))
    return found


def _returned(module: SemanticModel, call: ast.Call, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """Yield the values that a function of this file returns, called by its name."""
    found = scope.find(call.func.id) if isinstance(call.func, ast.Name) else None
    for binding in found[1] if found else ():
        yield from returned_values(module).get(binding.node, ()) if isinstance(binding.node, FUNCTIONS) else ()


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
