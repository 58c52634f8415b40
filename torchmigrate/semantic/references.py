"""References: where a file reads a name or an attribute chain, and its words, without comments and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.syntax.resolver import attribute_chain
from torchmigrate.syntax.scope import Scope, bind_target, children, function_scope, walk

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
