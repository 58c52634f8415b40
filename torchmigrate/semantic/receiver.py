"""Receiver type inference: in `x.cuda()`, x is torch's, a storage, or of a class that has a `cuda()` of its own."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from functools import lru_cache

from torchmigrate.project.class_hierarchy import Definition, Meaning, Place
from torchmigrate.project.import_graph import OWN_PLACE, PARALLEL
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import reads_of, words_in
from torchmigrate.syntax.resolver import chain_of, is_same, leading_chain
from torchmigrate.syntax.scope import FUNCTIONS, Binding, Function, Scope, children
from torchmigrate.torch_api.names import SHAPING_METHODS

Seen = set[object]  # names, attributes and functions that were followed already


class Kind(Enum):
    """The kinds of receiver; MAYBE_USER may be an object of a class with a `cuda()` of its own.

    FOREIGN is of a class of another library, and nothing in the file shows that it is a module or a tensor.
    """

    TORCH = auto()
    USER = auto()
    MAYBE_USER = auto()
    FOREIGN = auto()
    STORAGE = auto()
    UNKNOWN = auto()


Answer = Kind | tuple[ast.expr, Scope]  # a kind, or a value whose kind it is


def receiver_kind(module: SemanticModel, node: ast.expr, scope: Scope) -> Kind:
    """Return the one known kind that all assignments to the receiver agree on; `x = x.cuda()` says nothing about x.

    If they disagree or one is unknown: MAYBE_USER if a class of the project could be the receiver, else TORCH.
    """
    if _is_tested(module, node):
        return Kind.TORCH
    home = scope.find(node.id) if isinstance(node, ast.Name) and node.id != "self" else None
    if home and isinstance(node, ast.Name):
        kinds = _kinds_of_name(module, node.id, home[0])
    else:
        kinds = _followed(module, [(node, scope)], set())
    if kinds == {Kind.FOREIGN} and _is_torchs_by_use(module, node):
        return Kind.TORCH
    if len(kinds) == 1 and Kind.UNKNOWN not in kinds:
        return next(iter(kinds))
    if Kind.USER in kinds:
        return Kind.MAYBE_USER
    called = " ".join(_last_words(node)[0]).lower() if _user_classes(module) else ""
    return Kind.MAYBE_USER if _could_be_user(module, called) else Kind.TORCH


def is_module(module: SemanticModel, node: ast.expr, scope: Scope) -> bool:
    """Return whether a value can only be a torch.nn.Module that copies a state which it loads, as torch's own do."""
    todo: list[tuple[ast.expr, Scope]] = [(node, scope)]
    seen: Seen = set()
    hierarchy, is_made = module.facts.hierarchy, False
    while todo:
        value, here = todo.pop()
        match value:
            case ast.Name("self") if (own := module.nearest(value, ast.ClassDef)) is not None:
                made = [*hierarchy.meanings(Place(str(module.path), module.scope(own)), own.name)]
                is_made = bool(made) and all(map(hierarchy.heirs_load_as_torch, made))
                if not is_made:
                    return False
            case ast.Attribute(ast.Name("self"), name) if (owner := here.enclosing_class()) is not None:
                if _is_new((owner, name), seen):
                    assigned = [each for each in _attribute(module, name, owner) if isinstance(each, tuple)]
                    if not assigned:
                        return False
                    todo += assigned
            case ast.Name(name) if found := here.find(name):
                if _is_new((found[0], name), seen):
                    values = [binding.value for binding in found[1]]
                    if found[0].is_class or None in values:
                        return False
                    todo += [(each, found[0]) for each in values if each is not None]
            case ast.Call(ast.Attribute(inner, name)) if name in _SAME:
                todo.append((inner, here))
            case ast.IfExp(_, body, orelse):
                todo += [(body, here), (orelse, here)]
            case ast.Call():
                made = [*hierarchy.instances(Place(str(module.path), here), value)]
                is_made = bool(made) and all(map(hierarchy.loads_as_torch, made))
                if not is_made:
                    return False
            case _:
                return False
    return is_made


def may_be_asked_for_its_place(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether `x.get_device()` asks a tensor for all that is known: no class has a method of this name."""
    is_self = isinstance(node, ast.Name) and node.id == "self"
    return not is_self and not _has_own_place(module)


@query
def _has_own_place(module: SemanticModel) -> bool:
    named = (node.args.args for node in module.nodes if isinstance(node, FUNCTIONS) and node.name == "get_device")
    return any(args and args[0].arg == "self" for args in named) or bool(module.facts.index.holding(OWN_PLACE))


def _last_words(node: ast.AST) -> tuple[list[str], bool]:
    """Return a receiver's last attribute with the names and strings after it, and whether it has one.

    That is `net` of `self.net`, `module` of `copy(ddp.module)`, `nets` and `b` of `self.nets["b"]`.
    """
    match node:
        case ast.Attribute(_, name):
            return [name], True
        case ast.Name(name) | ast.Constant(str(name)):
            return [name], False
    words: list[str] = []
    takes_attribute = False
    for child in children(node):
        inner, starts_anew = _last_words(child)
        words = inner if starts_anew else words + inner
        takes_attribute = takes_attribute or starts_anew
    return words, takes_attribute


@query
def _kinds_of_name(module: SemanticModel, name: str, home: Scope) -> frozenset[Kind]:
    found = list(_variable(module, name, home.names[name], home))
    return _followed(module, found, {(home, name)})


def _followed(module: SemanticModel, todo: list[Answer], seen: Seen) -> frozenset[Kind]:
    """Return all kinds that the values may have, in a loop, as chains of names may be long."""
    found: set[Kind] = set()
    while todo:
        item = todo.pop()
        if isinstance(item, Kind):
            found.add(item)
        else:
            todo += _kinds(module, *item, seen)
    return frozenset(found)


def _is_tested(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether a test around it says that the receiver is torch's: `x.cuda() if isinstance(x, Tensor) else x`."""
    if not _has_type_test(module):
        return False
    for up, inside in module.around(node, ast.IfExp, ast.If):
        assert isinstance(up, (ast.IfExp, ast.If))
        if inside is not up.test and _asks_for(up.test, node):
            return inside is up.body if isinstance(up, ast.IfExp) else inside in up.body
    return False


@query
def _has_type_test(module: SemanticModel) -> bool:
    """Return whether anything in the file is asked whether it is an object of torch's."""
    return any(_type_tested(n) is not None for n in module.nodes if isinstance(n, ast.Call))


def _asks_for(test: ast.expr, node: ast.expr) -> bool:
    """Return whether a test, or a part of it, asks whether `node` is an object of torch's."""
    asked = (_type_tested(call) for call in ast.walk(test) if isinstance(call, ast.Call))
    return any(is_same(each, node) for each in asked if each is not None)


def _type_tested(call: ast.Call) -> ast.expr | None:
    """Return what a call asks for being an object of torch's, or None if it asks for something else."""
    match call:
        case ast.Call(ast.Name("isinstance"), [asked, kinds]):
            kind = leading_chain(kinds.elts[0] if isinstance(kinds, ast.Tuple) and kinds.elts else kinds) or ""
            return asked if kind.startswith(("torch.", "nn.")) else None
        case ast.Call(ast.Attribute(ast.Name("torch"), "is_tensor"), [asked]):
            return asked
    return None


@query
def _could_be_user(module: SemanticModel, called: str) -> bool:
    """Return whether the file names a class with `cuda()`, or the receiver is called like one (`generator`)."""
    for name in _user_classes(module):
        words = (word.lower() for word in re.findall(r"[A-Z]?[a-z]{3,}", name))
        if any(word in called for word in words):
            return True
        is_named = name in module.source.text and name in words_in(module, module.tree)
        if is_named and not _is_torchs(module, name) and not _stays_where_it_is_made(module, name):
            return True
    home = module.scopes.module
    return any(
        _of_instance(module, name, home) is Kind.USER and not _stays_where_it_is_made(module, name)
        for name in _imported(module)
    )


@query
def _stays_where_it_is_made(module: SemanticModel, name: str) -> bool:
    """Return whether a file imports a class with `cuda()` only for objects that never leave the functions around them.

    Each object gets one name there, of which the function reads attributes alone, so no other receiver can be one.
    """
    home = module.scopes.module
    if any(isinstance(binding.node, ast.ClassDef) for binding in home.names.get(name, ())):
        return False
    functions = (scope for scope in module.scopes if isinstance(scope.node, FUNCTIONS))
    bound = [(scope, each, bindings) for scope in functions for each, bindings in scope.names.items()]
    made = [(scope, each) for scope, each, bindings in bound if len(bindings) == 1 and _makes(bindings[0].value, name)]
    uses = reads_of(module, name)
    return bool(uses) and len(uses) == len(made) and not any(_is_given_on(module, each, scope) for scope, each in made)


def _makes(value: ast.expr | None, name: str) -> bool:
    return isinstance(value, ast.Call) and chain_of(value.func) == name


def _is_given_on(module: SemanticModel, name: str, home: Scope) -> bool:
    """Return whether code goes on with an object itself: with its name, or with what its `cuda()` gives back."""
    alone = {
        s.value.func for s in module.scopes.statements if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)
    }
    reads = reads_of(module, name, home)
    return any(r.chain == name or (r.chain == f"{name}.cuda" and r.node not in alone) for r in reads)


def _is_torchs(module: SemanticModel, name: str) -> bool:
    """Return whether a name that a class with `cuda()` has elsewhere is in this file that of a class without."""
    home = module.scopes.module
    meanings = module.facts.hierarchy.meanings(Place(str(module.path), home), name) if name in home.names else ()
    return _kind(module, meanings, name) is Kind.TORCH


def _imported(module: SemanticModel) -> Iterator[str]:
    """Yield the names that the file imports from files that may be the project's, if they are called like classes."""
    for name, bindings in module.scopes.module.names.items():
        if name[:1].isupper() and any(b.local for b in bindings):
            yield name


def _kinds(module: SemanticModel, node: ast.expr, scope: Scope, seen: Seen) -> Iterator[Answer]:
    match node:
        case ast.Call():
            yield from _call(module, node, scope, seen)
        case ast.Name("self"):
            owner = scope.enclosing_class()
            yield Kind.USER if owner and _has_own_cuda(module, owner) else Kind.TORCH
        case ast.Name(name):
            home, bindings = scope.find(name) or (scope, [])
            if _is_new((home, name), seen):
                yield from _variable(module, name, bindings, home)
        case ast.Attribute(ast.Name("self"), attribute):
            owner = scope.enclosing_class()
            if _is_new((owner, attribute), seen):
                yield from _attribute(module, attribute, owner)
        case ast.Attribute(_, "data" | "grad") | ast.BinOp() | ast.UnaryOp():
            yield Kind.TORCH
        case ast.IfExp(_, body, orelse):
            yield body, scope
            yield orelse, scope
        case ast.NamedExpr(_, value):
            yield value, scope
        case ast.Constant(None):
            return  # `self.net = None` says nothing
        case _:
            yield Kind.UNKNOWN


def _is_new(item: object, seen: Seen) -> bool:
    before = len(seen)
    seen.add(item)
    return len(seen) > before


def _variable(module: SemanticModel, name: str, bindings: list[Binding], scope: Scope) -> Iterator[Answer]:
    if not bindings:
        yield Kind.UNKNOWN
    for binding in bindings:
        if binding.value is not None:
            yield binding.value, scope
        elif isinstance(binding.node, ast.arg):
            yield Kind.STORAGE if name in ("storage", "loc_storage") else _annotated(module, binding.node, scope)
        else:
            imported = isinstance(binding.node, (ast.ClassDef, ast.ImportFrom))
            yield _of_instance(module, name, scope) if imported else Kind.UNKNOWN


@query
def parallel_classes(
    module: SemanticModel, scope: Scope, chain: str, base: str = "torch.nn.DataParallel"
) -> list[Definition]:
    """Return the classes of the project that a name means, if each inherits from torch's DataParallel or this base."""
    _, bindings = scope.find(chain.partition(".")[0]) or (scope, [])
    index, path = module.facts.index, str(module.path)
    targets = [target for b in bindings if b.local and (target := index.find(path, *b.local)) in index.files]
    is_here = any(isinstance(b.node, ast.ClassDef) for b in bindings) and PARALLEL in module.original
    if not is_here and not any(index.holds(target, PARALLEL) for target in targets):
        return []
    return module.facts.hierarchy.heirs(Place(path, scope), chain, base)


def _annotated(module: SemanticModel, arg: ast.arg, scope: Scope) -> Kind:
    note = arg.annotation
    if note is None:
        return Kind.UNKNOWN
    name = note.value if isinstance(note, ast.Constant) else module.resolve(note, scope) or chain_of(note)
    name = str(name)
    if name.startswith("torch."):
        return Kind.TORCH
    chain = chain_of(note) or name
    kind = _kind(module, module.facts.hierarchy.meanings(Place(str(module.path), scope), chain), chain)
    return kind if kind is Kind.USER else Kind.UNKNOWN  # an heir of an annotated class may have what it has not


def _of_instance(module: SemanticModel, name: str, scope: Scope) -> Kind:
    """Return the kind of an imported object or class: `from losses import criterion`."""
    if not _user_classes(module):
        return Kind.UNKNOWN
    place, hierarchy = Place(str(module.path), scope), module.facts.hierarchy
    found = [*hierarchy.meanings(place, name), *hierarchy.instances(place, ast.Name(name))]
    return _kind(module, (m for m in found if m is not None), name)


def _kind(module: SemanticModel, meanings: Iterable[Meaning], name: str) -> Kind:
    """Return the kind of what these classes make; what no class is known of counts by its name alone."""
    found = list(meanings)
    known = [m for m in found if isinstance(m, Definition)]
    if any(module.facts.hierarchy.is_own(m) for m in known):
        return Kind.USER
    if found and len(known) == len(found):
        return Kind.TORCH
    return Kind.USER if not known and name.rpartition(".")[2] in _user_classes(module) else Kind.UNKNOWN


def _attribute(module: SemanticModel, attribute: str, owner: Scope | None) -> Iterator[Answer]:
    """Yield every value that methods of the class give `self.attribute`."""
    if values := attribute_values(module, owner).get(f"self.{attribute}") if owner else None:
        yield from values
    else:
        yield Kind.UNKNOWN


@query
def attribute_values(module: SemanticModel, owner: Scope) -> dict[str, list[tuple[ast.expr, Scope]]]:
    """Return the values that a class gives to each of its attributes, by `self.attribute`, each with its scope."""
    found: dict[str, list[tuple[ast.expr, Scope]]] = {}
    for node in ast.walk(owner.node):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if (chain := chain_of(target) or "").startswith("self."):
                found.setdefault(chain, []).append((node.value, module.scope(node)))  # type: ignore[attr-defined]
    return found


def _origin(module: SemanticModel, node: ast.expr, scope: Scope) -> ast.expr:
    """Return what a chain of methods that give their object back starts from: `x` of `x.cuda().float()`.

    The answer is kept for all calls on the way.
    """
    known = _origins(module)
    path: list[ast.expr] = []
    while (node, scope) not in known and isinstance(node, ast.Call) and _gives_back(module, node, scope):
        path.append(node)
        node = node.func.value  # type: ignore[attr-defined]
    found = known.get((node, scope), node)
    known.update(((each, scope), found) for each in path)
    return found


@query
def _origins(module: SemanticModel) -> dict[tuple[ast.expr, Scope], ast.expr]:
    return {}


def _gives_back(module: SemanticModel, node: ast.Call, scope: Scope) -> bool:
    """Return whether a call is of a method such as `.float()`, which nothing else is known of."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _SAME:
        return False
    name = module.resolve(node.func, scope) or ""
    if name.split(".")[0] in ("torch", "torchvision"):
        return False
    return not chain_of(node.func) or _made(module, node, scope) is Kind.UNKNOWN


def _call(module: SemanticModel, node: ast.Call, scope: Scope, seen: Seen) -> Iterator[Answer]:
    if (origin := _origin(module, node, scope)) is not node:
        yield origin, scope
        return
    name = module.resolve(node.func, scope) or ""
    last = (chain_of(node.func) or "").rpartition(".")[2]
    if name.startswith("torch.") and name.endswith("Storage"):
        yield Kind.STORAGE
    elif name.split(".")[0] in ("torch", "torchvision"):
        yield Kind.UNKNOWN if name == "torch.load" else Kind.TORCH
    elif last == "super":
        foreign = Kind.MAYBE_USER if _has_unknown_base(module, scope) else Kind.TORCH
        yield Kind.USER if _has_user_base(module, scope) else foreign
    elif last and (kind := _made(module, node, scope)) is not Kind.UNKNOWN:
        yield kind
    elif last[:1].isupper() and _is_foreign(module, name):
        yield Kind.FOREIGN
    elif last[:1].isupper() or (isinstance(node.func, ast.Attribute) and node.func.attr in _TENSOR):
        yield Kind.TORCH
    elif function := _function(module, node.func, scope):
        yield from returned_values(module).get(function, []) if _is_new(function, seen) else ()
    else:
        yield Kind.UNKNOWN


def _is_foreign(module: SemanticModel, name: str) -> bool:
    """Return whether a class is of a library that is neither the project's nor known to be built on torch.

    What is named for parallel work, as `mmcv.parallel.MMDataParallel`, is a module around another.
    """
    dotted = tuple(name.split("."))
    known = dotted[0] in module.facts.built_on_torch or dotted[0] in sys.stdlib_module_names
    if len(dotted) == 1 or known or name.endswith("Parallel"):
        return False
    index, path = module.facts.index, str(module.path)
    return not any(index.locate(path, 0, part) for part in (dotted[:1], dotted[:-1]))


def _names_of(module: SemanticModel, node: ast.expr) -> set[str]:
    """Return the names under which a file uses a receiver: its own, or those that it is assigned to as it is moved."""
    statement = module.statement(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return {name for each in (node, *targets) if (name := chain_of(each))}


def _is_torchs_by_use(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether a file shows that a receiver is a module or a tensor: by its names, or where torch is given it."""
    if not _used_as_torchs(module).isdisjoint(_names_of(module, node)):
        return True
    calls = (up for up in module.ancestors(node) if isinstance(up, ast.Call))
    return any((module.resolve(call.func) or "").startswith("torch.") for call in calls)


@query
def _used_as_torchs(module: SemanticModel) -> frozenset[str]:
    """Return the names that a file calls, gives to torch, or asks for what modules have: `net.parameters()`."""
    calls = [node for node in module.nodes if isinstance(node, ast.Call)]
    called = (chain_of(call.func) for call in calls)
    given = (
        chain_of(arg) for call in calls for arg in call.args if (module.resolve(call.func) or "").startswith("torch.")
    )
    asked = (chain_of(n.value) for n in module.nodes if isinstance(n, ast.Attribute) and n.attr in _OF_TORCH)
    return frozenset(name for name in (*called, *given, *asked) if name)


# what modules and tensors have, and few others
_OF_TORCH = {
    "parameters", "named_parameters", "state_dict", "load_state_dict", "zero_grad", "train", "eval", "requires_grad_",
    "requires_grad", "modules", "backward", "detach", "to", "half", "float", "double", "size", "shape", "data",
}  # fmt: skip


def _function(module: SemanticModel, called: ast.expr, scope: Scope) -> Function | None:
    """Return the function or method of this file that a call calls, or None."""
    owner = scope.enclosing_class()
    match called:
        case ast.Name(name):
            found = scope.find(name)
        case ast.Attribute(ast.Name("self"), name) if owner and name in owner.names:
            found = (owner, owner.names[name])
        case _:
            return None
    node = found[1][0].node if found and len(found[1]) == 1 else None
    return node if isinstance(node, FUNCTIONS) else None


@query
def returned_values(module: SemanticModel) -> dict[Function, list[tuple[ast.expr, Scope]]]:
    """Return the values that each function of the file returns, each with its scope."""
    found: dict[Function, list[tuple[ast.expr, Scope]]] = {}
    for statement in module.scopes.statements:
        if isinstance(statement, ast.Return) and statement.value and (function := module.function(statement)):
            found.setdefault(function, []).append((statement.value, module.scope(statement)))
    return found


def _made(module: SemanticModel, call: ast.Call, scope: Scope) -> Kind:
    """Return the kind of what a class of the project, or a function of another file, makes."""
    if not _user_classes(module):
        return Kind.UNKNOWN
    meanings = module.facts.hierarchy.instances(Place(str(module.path), scope), call)
    return _kind(module, meanings, chain_of(call.func) or "")


def class_definition(module: SemanticModel, owner: Scope) -> Definition | None:
    """Return the class whose body a scope is, as the class hierarchy knows it, or None."""
    node = owner.node
    return Definition(node, Place(str(module.path), owner.parent or owner)) if isinstance(node, ast.ClassDef) else None


def _has_own_cuda(module: SemanticModel, owner: Scope) -> bool:
    found = class_definition(module, owner) if _user_classes(module) else None
    return found is not None and module.facts.hierarchy.is_own(found)


def _has_user_base(module: SemanticModel, scope: Scope) -> bool:
    owner = scope.enclosing_class()
    found = class_definition(module, owner) if owner and _user_classes(module) else None
    return found is not None and module.facts.hierarchy.inherits_own(found)


def _has_unknown_base(module: SemanticModel, scope: Scope) -> bool:
    """Return whether a class inherits from one of another library, which may define `cuda()`."""
    owner = scope.enclosing_class()
    found = class_definition(module, owner) if owner else None
    known = module.facts.built_on_torch
    return found is not None and module.facts.hierarchy.inherits_unknown(found, known)


@lru_cache(maxsize=2)
def _user_classes(module: SemanticModel) -> frozenset[str]:
    """Return the classes that define `cuda()` and heirs in this file: `.to()` would not call their `cuda()`."""
    classes = [s for s in module.scopes.statements if isinstance(s, ast.ClassDef)]
    known = {
        *module.facts.own_cuda.classes,
        *(c.name for c in classes if any(getattr(f, "name", "") == "cuda" for f in c.body)),
    }
    for _ in classes:
        more = {c.name for c in classes if any(_base_name(b) in known for b in c.bases)} - known
        if not more:
            break
        known |= more
    return frozenset(known)


def _base_name(base: ast.expr) -> str:
    return (chain_of(base) or "").rpartition(".")[2]


_SAME = {"cuda", "cpu", "to", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_", "apply"}
_TENSOR = {
    *SHAPING_METHODS, "long", "int", "clone", "detach", "normal_", "uniform_", "zero_", "fill_", "byte",
    "bool", "sum", "mean", "new", "resize_", "type", "type_as", "t", "cat", "stack",
}  # fmt: skip
