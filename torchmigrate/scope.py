"""What a name means at a place: own scopes over the standard library's `ast`, resolved on demand.

Through imports, aliases (`c = torch.cuda`), class attributes and re-exports inside the project.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

# where torch keeps what it documents one level up
CANONICAL = (
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
    ("torch.amp.autocast_mode.", "torch.amp."),
    ("torch.amp.grad_scaler.", "torch.amp."),
    ("torch.cuda.memory.", "torch.cuda."),
    ("torch.cuda.random.", "torch.cuda."),
    ("torch.cuda.streams.", "torch.cuda."),
    ("torch.cuda.graphs.", "torch.cuda."),
    ("torch.cuda.green_contexts.GreenContext", "torch.cuda.GreenContext"),
    ("torch.xpu.memory.", "torch.xpu."),
    ("torch.xpu.random.", "torch.xpu."),
    ("torch.xpu.streams.", "torch.xpu."),
    ("torch.xpu.graphs.", "torch.xpu."),
    ("torch.mtia.memory.", "torch.mtia."),
    ("torch.mtia.mtia_graph.", "torch.mtia."),
    ("torch.mps.event.", "torch.mps."),
    ("torch.accelerator.memory.", "torch.accelerator."),
    ("torch.accelerator.graphs.", "torch.accelerator."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn.parallel."),
    ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.autograd.variable.", "torch.autograd."),
    ("torch.serialization.", "torch."),
    ("torch.random.", "torch."),
)


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


Reexport = Callable[[int, str, str], str | None]


class Resolver:
    """Turns names into qualified names, e.g. `th.cuda.amp` -> `torch.cuda.amp`."""

    def __init__(self, reexport: Reexport | None = None) -> None:
        self._reexport = reexport or (lambda level, module, name: None)
        self._active: set[int] = set()

    def resolve(self, node: ast.AST, scope: Scope) -> str | None:
        """The qualified name of a dotted chain, or None where it is not certain."""
        chain = chain_of(node)
        return self.dotted(chain, scope) if chain else None

    def dotted(self, chain: str, scope: Scope) -> str | None:
        head, _, rest = chain.partition(".")
        if head in ("self", "cls") and rest:
            owner = scope.enclosing_class()
            attribute, _, rest = rest.partition(".")
            base = self._bindings(owner.names[attribute], owner) if owner and attribute in owner.names else None
        else:
            base = self._name(head, scope)
        return canonical(f"{base}.{rest}" if rest else base) if base else None

    def _name(self, name: str, scope: Scope) -> str | None:
        found = scope.find(name)
        if found:
            return self._bindings(found[1], found[0])
        for level, module in scope.root().stars:
            known = f"torch.{name}" if module == "torch" else self._reexport(level, module, name)
            if known:
                return known
        return None

    def _bindings(self, bindings: list[Binding], scope: Scope) -> str | None:
        """The one thing that all bindings agree on; fallbacks such as `autocast = None` make it uncertain."""
        found: str | None = None
        for binding in bindings:
            meaning = self._binding(binding, scope)
            if meaning is None or meaning != (found or meaning):
                return None  # at once: `x = f(x)` a hundred times would else be looked at a million times
            found = meaning
        return found

    def _binding(self, binding: Binding, scope: Scope) -> str | None:
        if binding.local:
            return self._reexport(*binding.local) or binding.qualified
        if binding.qualified or binding.value is None or id(binding) in self._active:
            return binding.qualified
        self._active.add(id(binding))
        try:
            meaning = self.resolve(binding.value, scope)
        finally:
            self._active.discard(id(binding))
        return meaning if meaning and (meaning == "torch" or meaning.startswith("torch.")) else None


_LONG = tuple(prefix for prefix, _ in CANONICAL)


def canonical(name: str) -> str:
    if not name.startswith(_LONG):
        return name
    for prefix, short in CANONICAL:
        if name.startswith(prefix):
            return short + name[len(prefix) :]
    return name


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
