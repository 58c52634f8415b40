"""Qualified names: what a dotted chain means in a scope."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchmigrate.syntax.scope import OWN, Binding, Bindings, Scope
from torchmigrate.torch_api.names import canonical

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
        for level, module in scope.root().stars if name not in OWN else ():
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
    if head in OWN and rest:
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


def last_name(node: ast.AST) -> str:
    """The name itself, or the attribute that an expression takes last: `c` of `a.b.c` and of `f(x).c`; else ""."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def leading_chain(node: ast.AST) -> str | None:
    """The dotted chain that an expression begins with: `a.b` of `a.b[0] + c` and of `a.b if c else d`."""
    while True:
        if isinstance(node, (ast.BinOp, ast.Compare)):
            node = node.left
        elif isinstance(node, ast.BoolOp):
            node = node.values[0]
        elif isinstance(node, ast.IfExp):
            node = node.body
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute) and chain_of(node) is None:
            node = node.value
        else:
            return chain_of(node)


def is_same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two expressions are the same code; layout and comments do not count."""
    return ast.dump(left) == ast.dump(right)


def literal_getattr(call: ast.Call) -> str | None:
    match call:
        case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name))], keywords=[]):
            return name
    return None
