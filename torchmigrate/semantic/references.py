"""References: where a file reads a name or an attribute chain, and its words, without comments and docstrings.

A file spells torch, the runtime helper and the project's own helper its way, and templates are written so.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.base import system
from torchmigrate.project.helper_file import ProjectHelper
from torchmigrate.project.import_graph import module_stem
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.syntax.resolver import attribute_chain, chain_of, last_name
from torchmigrate.syntax.scope import Binding, Scope, bind_target, children, function_scope, own_nodes, walk

if TYPE_CHECKING:
    from torchmigrate.semantic.model import SemanticModel


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Reference:
    """One read of a name or of an attribute chain: `node` is the outermost `ast.Name` or `ast.Attribute` of it."""

    node: ast.Name | ast.Attribute
    chain: str  # "args.device"
    scope: Scope  # the scope that the read stands in

    @property
    def root(self) -> str:
        """Return the chain's first name."""
        return self.chain.partition(".")[0]


@query
def references(module: SemanticModel) -> Sequence[Reference]:
    """Return every read of a name or attribute chain, in document order, those inside f-strings included.

    The target of `x += 1` is read as well. An attribute of a call's result or of an item is no chain: in `f(x).y` and
    `a[i].y` the reads are `f`, `x`, `a` and `i`.
    """
    found: list[tuple[_Position, Reference]] = []
    for statement in module.scopes.statements:
        found += _reads(statement, module.scopes.scope_of[statement])
    found.sort(key=lambda item: item[0])
    return tuple(reference for _, reference in found)


@query
def calls_by_name(module: SemanticModel) -> Mapping[str, Sequence[tuple[ast.Call, Scope]]]:
    """Return the calls of the file, each with the scope of its statement, by the last name of what they call."""
    found: dict[str, list[tuple[ast.Call, Scope]]] = {}
    for statement in module.scopes.statements:
        for node in own_nodes(statement):
            if isinstance(node, ast.Call):
                found.setdefault(last_name(node.func), []).append((node, module.scopes.scope_of[statement]))
    return found


def _reads(statement: ast.stmt, home: Scope) -> Iterator[tuple[_Position, Reference]]:
    """Yield a statement's own reads; `at` is an f-string around one, inside which Python 3.11 misplaces nodes."""
    stack: list[tuple[ast.AST, Scope, _Position | None]] = [(statement, home, None)]
    while stack:
        node, scope, at = stack.pop()
        if isinstance(node, (ast.Name, ast.Attribute)):
            chain = attribute_chain(node) if isinstance(node.ctx, ast.Load) else None
            if chain:
                yield at or (node.lineno, node.col_offset), Reference(node, chain, scope)
                continue
        elif isinstance(node, ast.AugAssign) and (chain := attribute_chain(node.target)):
            target: ast.Name | ast.Attribute = node.target  # type: ignore[assignment]
            yield (target.lineno, target.col_offset), Reference(target, chain, scope)
            stack.append((node.value, scope, at))
            continue
        elif isinstance(node, ast.JoinedStr):
            at = at or (node.lineno, node.col_offset)
        stack += [(child, own, at) for child, own in reversed(_scoped_children(node, scope))]


def _scoped_children(node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    """Return the nodes below one, each with its scope, without statements."""
    if isinstance(node, ast.Lambda):
        return [(node.args, scope), (node.body, function_scope(node, scope))]
    if isinstance(node, _COMPREHENSIONS):
        inner = Scope(node, scope)
        for generator in node.generators:
            bind_target(generator.target, None, inner)
        found: list[tuple[ast.AST, Scope]] = []
        for child in children(node):
            if child is node.generators[0]:  # the first iterable is evaluated outside
                found += [(part, scope if part is child.iter else inner) for part in children(child)]
            else:
                found.append((child, inner))
        return found
    return [(child, scope) for child in children(node) if not isinstance(child, ast.stmt)]


@query
def _by_root(module: SemanticModel) -> dict[str, list[Reference]]:
    """Return the references by their first name."""
    found: dict[str, list[Reference]] = {}
    for reference in references(module):
        found.setdefault(reference.root, []).append(reference)
    return found


@query
def reads_of(module: SemanticModel, name: str, home: Scope | None = None) -> Sequence[Reference]:
    """Return the reads of this dotted name or what begins with it; with `home`, those bound in that scope."""
    start = f"{name}."
    found = (r for r in _by_root(module).get(name.partition(".")[0], ()) if f"{r.chain}.".startswith(start))
    return tuple(r for r in found if home is None or _is_bound_in(r, home))


def _is_bound_in(reference: Reference, home: Scope) -> bool:
    """Return whether the first name is bound in this scope; scopes of lambdas and comprehensions match by node."""
    found = reference.scope.find(reference.root)
    return found is not None and found[0].node is home.node


@query
def identifiers(module: SemanticModel) -> frozenset[str]:
    """Return each name, attribute, keyword argument, parameter, definition's name and part of an import in the file."""
    return frozenset(name for node in module.nodes for name in _identifiers_of(node))


@query
def identifiers_in(module: SemanticModel, node: ast.AST) -> frozenset[str]:
    """Return each name, attribute, keyword argument, parameter, definition's name and part of an import in a tree."""
    return frozenset(name for below in walk(node) for name in _identifiers_of(below))


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_NAMING = ("id", "attr", "arg", "name", "asname", "module", "rest", "names", "kwd_attrs")


def _identifiers_of(node: ast.AST) -> Iterator[str]:
    """Yield the identifiers that a node has itself; a dotted name of an import is taken apart."""
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field for field in _NAMING if field in kind._fields)
    for field in _FIELDS[kind]:
        value = getattr(node, field)
        for name in value if isinstance(value, list) else (value,):
            if isinstance(name, str):
                yield from name.split(".") if "." in name else (name,)


@query
def strings_in(module: SemanticModel, node: ast.AST) -> frozenset[str]:
    """Return the strings in a tree, also in f-strings, but not strings that are statements."""
    remarks = {id(below.value) for below in walk(node) if isinstance(below, ast.Expr)}
    return frozenset(
        below.value
        for below in walk(node)
        if isinstance(below, ast.Constant) and isinstance(below.value, str) and id(below) not in remarks
    )


@query
def words_in(module: SemanticModel, node: ast.AST) -> frozenset[str]:
    """Return the identifiers in a tree and the words of its strings."""
    return identifiers_in(module, node).union(*(re.findall(r"\w+", text) for text in strings_in(module, node)))


def mentions(module: SemanticModel, dotted: str) -> bool:
    """Return whether a chain or an import has this run of names, as "torch.version.hip" has "version.hip"."""
    return f".{dotted}." in _chains(module)


@query
def _chains(module: SemanticModel) -> str:
    """Return the file's attribute chains and imports, one a line with dots around: `().version.hip` of a call."""
    found: dict[str, None] = {}
    inside: set[int] = set()  # attributes that are part of a longer chain, which `nodes` gives first
    for node in module.nodes:
        if isinstance(node, ast.Attribute):
            inside.add(id(node.value))
            if id(node) not in inside:
                found[_any_chain(node)] = None
        elif isinstance(node, ast.Name):
            if id(node) not in inside:
                found[node.id] = None
        elif isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            dots = "." * bool(node.level)
            found.update(dict.fromkeys(f"{dots}{node.module or ''}.{alias.name}" for alias in node.names))
    return "\n".join(f".{chain}." for chain in found)


def _any_chain(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "()")
    return ".".join(reversed(parts))


_IDENTIFIER = re.compile(r"(?<![\w.$])(accel(\.\w+)|torch(?=\.))")


def spell(template: str, names: Mapping[str, str]) -> str:
    """Replace `accel`, `accel.f` and `torch` in a template by the names that the file uses for them."""
    return _IDENTIFIER.sub(lambda m: names.get(m.group(1)) or names["accel"] + m.group(2), template)


def spell_helper(words: str, names: Mapping[str, str]) -> str:
    """Replace `accel.f` in a message by the name that the file uses for it; torch is told of by its own name."""
    return spell(words, {**names, "torch": "torch"})


def roots_in(text: str, names: Mapping[str, str]) -> frozenset[str]:
    """Return which of `accel` and `torch` a text uses, as spelled by `names`."""
    asked = ((key, names[key]) for key in ("accel", "torch"))
    return frozenset(key for key, name in asked if re.search(rf"(?<![\w.]){re.escape(name)}\.", text))


HELPER = "accel"


@query
def spelled(module: SemanticModel) -> Mapping[str, str]:
    """Return how the file spells the helper (`accel`), torch, and functions of the helper with other names."""
    torch = {"torch": _bound_as(module, "torch".__eq__) or "torch"}
    if module.facts.own:
        return names(module, module.facts.own) | torch
    return {HELPER: helper_bound(module) or module.facts.helper} | torch


def binds_torch(module: SemanticModel) -> bool:
    """Return whether the file binds torch somewhere, under the name by which it spells it."""
    return any(spelled(module)["torch"] in scope.names for scope in module.scopes)


@query
def helper_bound(module: SemanticModel) -> str | None:
    """Return the name by which the file imports the helper already, or None."""
    own = module.facts.own
    return bound(module, own) if own else _bound_as(module, module.facts.is_helper)


def helper_function(module: SemanticModel, node: ast.AST) -> str | None:
    """Return the helper's own name for the function that `node` names, or None if it names none of the helper's."""
    chain = chain_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    if chain is None:
        return None
    plain = chain.partition(".") if chain.count(".") == 1 else ("", "", None)
    return _by_spelling(module).get(chain) or (plain[2] if plain[0] == spelled(module)[HELPER] else None)


@query
def helper_names(module: SemanticModel) -> list[tuple[ast.AST, str]]:
    """Return the names and attributes that mean one of the helper's functions, each with the helper's own name."""
    names = (node for node in module.nodes if isinstance(node, (ast.Attribute, ast.Name)))
    return [(node, own) for node in names if (own := helper_function(module, node))]


@query
def _by_spelling(module: SemanticModel) -> Mapping[str, str]:
    return {called: name.removeprefix("accel.") for name, called in spelled(module).items() if "." in name}


def asks_accelerator(module: SemanticModel, for_what: str = "") -> bool:
    """Return whether the file already uses `torch.accelerator` (or the given attribute of it)."""
    if "accelerator" not in module.source.text:
        return False
    return any(mentions(module, f"{torch}.accelerator{for_what}") for torch in ("torch", spelled(module)["torch"]))


def _bound_as(module: SemanticModel, test: Callable[[str], bool]) -> str | None:
    for name, bindings in sorted(module.scopes.module.names.items(), key=lambda item: item[0] != "torch"):
        if all(isinstance(b.node, (ast.Import, ast.ImportFrom)) and _import_is(b, test) for b in bindings):
            return name
    return None


def _import_is(binding: Binding, test: Callable[[str], bool]) -> bool:
    found = [binding.qualified] if binding.qualified else []
    if binding.local:
        found.append(".".join(filter(None, binding.local[1:])))
    return any(test(n) for n in found)


def import_statement(module: SemanticModel, own: ProjectHelper) -> str:
    """Return the import of the project's helper: relative as the file's others, aliased if the name is taken."""
    alias = spelled(module)["accel"]
    parent = _relative(own, module) or own.name.rpartition(".")[0]
    suffix = "" if alias == own.last else f" as {alias}"
    return f"from {parent} import {own.last}{suffix}" if parent else f"import {own.last}{suffix}"


def names(module: SemanticModel, own: ProjectHelper) -> dict[str, str]:
    """Return how the file spells the project's helper (`accel`) and each function that has another name there."""
    alias = bound(module, own) or _free(module, own)
    spelled = {f"accel.{ours}": f"{alias}.{theirs}" for ours, theirs in own.functions.items()}
    back = {theirs: ours for ours, theirs in own.functions.items()}
    for name, imported in imported_by(module, own):
        if imported and imported not in own.functions:
            spelled[f"accel.{back.get(imported, imported)}"] = name
    return {"accel": alias, **spelled}


def bound(module: SemanticModel, own: ProjectHelper) -> str | None:
    """Return the name by which the file imports the project's helper already, or None."""
    return next((name for name, imported in imported_by(module, own) if not imported), None)


def imported_by(module: SemanticModel, own: ProjectHelper) -> Iterator[tuple[str, str]]:
    """Yield (name, "") for each name of the helper, and (name, function) for each name of its functions."""
    for name, bindings in module.scopes.module.names.items():
        meant = {_meaning(module, own, b.node, b.qualified, b.local) for b in bindings}
        if len(meant) == 1 and None not in meant and _times_bound(module, name) == 1:
            yield name, str(meant.pop())


def _meaning(
    module: SemanticModel, own: ProjectHelper, node: ast.AST, qualified: str | None, local: tuple[int, str, str] | None
) -> str | None:
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return None
    if qualified == own.name:
        return ""
    if local is None:
        return None
    level, home, name = local
    find, path = module.facts.index.find, str(module.path)
    inside = find(path, level, home, "") if home or level else None
    if inside == own.path:
        return name
    return "" if find(path, level, f"{home}.{name}".strip("."), "") == own.path else None


def _times_bound(module: SemanticModel, name: str) -> int:
    """Count how often the file binds a name, in any scope."""
    return sum(name == _bound_by(node) for node in module.nodes)


def _bound_by(node: ast.AST) -> str | None:
    match node:
        case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
            return name
        case ast.alias(name, asname):
            return asname or name.partition(".")[0]
        case ast.MatchMapping(rest=name):
            return name
    found = getattr(node, "name", None)  # functions, classes, handlers, patterns
    return found if isinstance(found, str) else None


def _free(module: SemanticModel, own: ProjectHelper) -> str:
    """Return the last part of the helper module's name, or `accel` if the file has something else of that name."""
    return module.facts.helper if module.scopes.module.stars or _times_bound(module, own.last) else own.last


def _relative(own: ProjectHelper, module: SemanticModel) -> str:
    """Return the relative parent of the helper (`..utils`) if the file imports its neighbours with dots; else ""."""
    index, here = module.facts.index, os.path.dirname(module.path)
    if not any(item.level for item in index.imports.get(str(module.path), ())):
        return ""
    stem = module_stem(own.path)
    dots, folder = ".", here
    while index.is_package(folder):
        if system.is_inside(stem, folder):
            return dots + ".".join(system.dotted(stem, folder)[:-1])
        dots, folder = f"{dots}.", os.path.dirname(folder)
    return ""
