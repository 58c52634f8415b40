"""What a name means at a place: own scopes over the standard library's `ast`, resolved on demand.

Through imports, aliases (`c = torch.cuda`), class attributes and re-exports inside the project.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from torchmigrate.canonical import canonical

Function = ast.FunctionDef | ast.AsyncFunctionDef


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Binding(NamedTuple):  # made for each name of each file: half the time of a frozen dataclass
    """One binding of a name. `qualified` for imports, `value` for assignments, neither for what only shadows."""

    node: ast.AST
    qualified: str | None = None
    value: ast.expr | None = None
    local: tuple[int, str, str] | None = None  # (level, module, name) of a from-import that may be the project's own


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function, lambda or comprehension."""

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[tuple[int, str]] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    def bind(self, name: str, binding: Binding) -> None:
        self._home(name).names.setdefault(name, []).append(binding)

    def _home(self, name: str) -> Scope:
        """The scope that an assignment to `name` reaches from here."""
        if name in self.globals:
            return self.root()
        outer = (s for s in list(self.up())[1:] if name in s.names) if name in self.nonlocals else ()
        return next(iter(outer), self)

    def up(self) -> Iterator[Scope]:
        """The scopes that a name is looked for in: class bodies are invisible to their functions."""
        yield self
        scope = self.parent
        while scope is not None:
            if not scope.is_class:
                yield scope
            scope = scope.parent

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        for scope in self.up():
            if name in scope.globals:
                scope = scope.root()
            if name in scope.names:
                return scope, scope.names[name]
        return None

    def root(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def enclosing_class(self) -> Scope | None:
        scope: Scope | None = self
        while scope is not None and not scope.is_class:
            scope = scope.parent
        return scope


_OWN = ("self", "cls")
Bindings = list[Binding]
Reexport = Callable[[int, str, str], str | None]


class Resolver:
    """Turns names into qualified names, e.g. `th.cuda.amp` -> `torch.cuda.amp`."""

    def __init__(self, reexport: Reexport | None = None) -> None:
        self._reexport = reexport or (lambda level, module, name: None)
        self._known: dict[int, tuple[Bindings, str | None]] = {}  # by id, of lists that are kept alive here
        self._active: set[int] = set()

    def resolve(self, node: ast.AST, scope: Scope) -> str | None:
        """The qualified name of a dotted chain, or None where it is not certain."""
        chain = chain_of(node)
        return self.dotted(chain, scope) if chain else None

    def dotted(self, chain: str, scope: Scope) -> str | None:
        place = _place(chain, scope)
        rest = place[2] if place else chain.partition(".")[2]
        base = self._meaning(*place[:2]) if place else self._starred(chain.partition(".")[0], scope)
        return canonical(f"{base}.{rest}" if rest else base) if base else None

    def _starred(self, name: str, scope: Scope) -> str | None:
        for level, module in scope.root().stars if name not in _OWN else ():
            known = f"torch.{name}" if module == "torch" else self._reexport(level, module, name)
            if known:
                return known
        return None

    def _meaning(self, bindings: Bindings, scope: Scope) -> str | None:
        """What a name stands for. A loop, as names may stand for each other a thousand times."""
        if id(bindings) in self._active:
            return None  # it is made of itself
        todo = [(bindings, scope)]
        while todo:
            top, home = todo[-1]
            if id(top) in self._known:
                todo.pop()
            elif id(top) in self._active:
                self._known[id(top)] = top, self._agreed(top, home)
                self._active.discard(id(top))
            elif (needed := _needed(top, home)) is None:
                self._known[id(top)] = top, None
            else:
                self._active.add(id(top))
                todo += (n for n in needed if id(n[0]) not in self._active)
        return self._known[id(bindings)][1]

    def _agreed(self, bindings: list[Binding], scope: Scope) -> str | None:
        """The one thing that all bindings agree on; fallbacks such as `autocast = None` make it uncertain."""
        found: str | None = None
        for binding in bindings:
            meaning = self._binding(binding, scope)
            if meaning is None or meaning != (found or meaning):
                return None
            found = meaning
        return found

    def _binding(self, binding: Binding, scope: Scope) -> str | None:
        if binding.local:
            return self._reexport(*binding.local) or binding.qualified
        if binding.qualified or binding.value is None:
            return binding.qualified
        meaning = self.resolve(binding.value, scope)
        return meaning if meaning and (meaning == "torch" or meaning.startswith("torch.")) else None


def _place(chain: str, scope: Scope) -> tuple[Bindings, Scope, str] | None:
    """The bindings of a chain's first name (of the attribute after `self`), their scope, and the rest of the chain."""
    head, _, rest = chain.partition(".")
    if head in _OWN and rest:
        owner = scope.enclosing_class()
        attribute, _, rest = rest.partition(".")
        return (owner.names[attribute], owner, rest) if owner and attribute in owner.names else None
    found = scope.find(head)
    return (found[1], found[0], rest) if found else None


def _needed(bindings: Bindings, scope: Scope) -> list[tuple[Bindings, Scope]] | None:
    """The names that those of a name stand for; None where one of them is no name: then nothing is certain."""
    found: list[tuple[Bindings, Scope]] = []
    for binding in bindings:
        if binding.local or binding.qualified:
            continue
        chain = chain_of(binding.value) if binding.value is not None else None
        if chain is None:
            return None
        if place := _place(chain, scope):
            found.append(place[:2])
    return found


def chain_of(node: ast.AST) -> str | None:
    """`a.b.c` of a Name/Attribute chain; `getattr(a, "b")` counts as `a.b`."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and (attribute := literal_getattr(node)):
            parts.append(attribute)
            node = node.args[0]
        else:
            break
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


_HOLDING: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def _holding(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold others; contexts and operators say nothing to us."""
    if kind not in _HOLDING:
        _HOLDING[kind] = tuple(name for name in kind._fields if name not in ("ctx", "op", "ops"))
    return _HOLDING[kind]


def children(node: ast.AST) -> list[ast.AST]:
    """`ast.iter_child_nodes` in a third of its time, without contexts and operators."""
    found: list[ast.AST] = []
    for name in _holding(type(node)):
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def literal_getattr(call: ast.Call) -> str | None:
    match call:
        case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name))], keywords=[]):
            return name
    return None
