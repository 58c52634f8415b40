"""The classes of a project and what they inherit over files: whose `cuda()` an object has, torch's or the project's."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.base.system import syntax_tree
from torchmigrate.source import encoding
from torchmigrate.source.encoding import HELPER_MARK
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.syntax.scope import FUNCTIONS, Binding, Function, Scope, Scopes, build_scopes
from torchmigrate.torch_api.libraries import BUILT_ON_TORCH
from torchmigrate.torch_api.names import canonical

if TYPE_CHECKING:
    from torchmigrate.project.import_graph import ImportIndex


@dataclass(frozen=True, slots=True)
class Place:
    """A scope of a file, in which names are looked up."""

    path: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Definition:
    """A class or function of the project, with the place that defines it."""

    node: ast.ClassDef | Function
    place: Place


# methods by which a module, or one in it, takes a state in another way than torch's
_LOADING = {"load_state_dict", "_load_from_state_dict", "set_extra_state"}
Meaning = Definition | str | None  # a definition, the qualified name of another library's, or something unknown


class ClassHierarchy:
    """Follows names to the classes of a project over imports, aliases, star imports and bases; parses on demand."""

    def __init__(self, index: ImportIndex) -> None:
        self._index = index
        self._files: dict[str, Scopes | None] = {}
        self._own: dict[ast.ClassDef, bool] = {}
        self._named: dict[str, list[Function]] = {}

    def meanings(self, place: Place, chain: str) -> Iterator[Meaning]:
        """Yield all that a dotted name may mean in a place."""
        todo, seen = [(place, chain)], {(place, chain)}
        while todo:
            for found in self._step(*todo.pop()):
                if not isinstance(found, tuple):
                    yield found
                elif len(seen) > 100:  # `a = a.b` makes longer names without end
                    yield None
                    return
                elif found not in seen:
                    seen.add(found)
                    todo.append(found)

    def named(self, name: str) -> list[Function]:
        """Return the functions and methods of this name in all files of the project."""
        if name not in self._named:
            spelled = f"def {name}(".encode()
            files = [
                self.scopes(path) for path in sorted(self._index.files) if spelled in self._index.read_or_nothing(path)
            ]
            nodes = (node for scopes in files if scopes for node in ast.walk(scopes.module.node))
            self._named[name] = [node for node in nodes if isinstance(node, FUNCTIONS) and node.name == name]
        return self._named[name]

    def instances(self, place: Place, value: ast.expr) -> Iterator[Meaning]:
        """Yield the classes that a value may be an instance of: `NLL()`, or `make_loss()`, which returns one."""
        todo: list[tuple[Place, ast.expr]] = [(place, value)]
        seen: set[ast.AST] = set()
        while todo:
            here, node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            chain = chain_of(node.func if isinstance(node, ast.Call) else node)
            if isinstance(node, ast.IfExp):
                todo += [(here, node.body), (here, node.orelse)]
            elif not chain:
                yield None
            elif isinstance(node, ast.Call):
                for found in self.meanings(here, chain):
                    if not isinstance(found, Definition) or isinstance(found.node, ast.ClassDef):
                        yield found
                    elif returned := list(self._returned(found)):
                        todo += returned
                    else:
                        yield None
            elif values := list(self._values(here, chain)):
                todo += values
            else:
                yield None

    def is_own(self, found: Definition) -> bool:
        """Return whether an instance of a class has a `cuda()` of the project's, its own or an inherited one."""
        node = found.node
        if not isinstance(node, ast.ClassDef):
            return False
        if node not in self._own:
            self._own[node] = False  # a class that is its own base
            self._own[node] = self._has_own(self._ancestors(found))
        return self._own[node]

    def inherits_own(self, found: Definition) -> bool:
        """Return whether `super().cuda()` in a class calls a method of the project's."""
        return self._has_own(self._ancestors(found)[1:])

    def inherits_unknown(self, found: Definition, known: Collection[str]) -> bool:
        """Return whether `super().cuda()` in a class may call a library's method that is not known to call torch's."""
        for above in self._ancestors(found)[1:]:
            if isinstance(above, str):
                root = above.partition(".")[0]
                if root in known:
                    return False
                if "." in above and root not in sys.stdlib_module_names:
                    return True
        return False

    def heirs(self, place: Place, chain: str, base: str) -> list[Definition]:
        """Return the classes of the project that a name means, if each inherits from `base`, a class of torch."""
        found = [*self.meanings(place, chain)]
        classes = [item for item in found if isinstance(item, Definition) and base in self._torchs(item)]
        return classes if len(classes) == len(found) else []

    def is_enumeration(self, found: Meaning) -> bool:
        """Return whether a name means a class that inherits from an Enum, whose members are found by their values."""
        if not isinstance(found, Definition):
            return False
        return any(isinstance(item, str) and item.startswith("enum.") for item in self._ancestors(found))

    def overrides(self, found: Definition, names: Collection[str]) -> bool:
        """Return whether a class, or a class of the project above it, defines one of these methods itself."""
        above = (item.node for item in self._ancestors(found) if isinstance(item, Definition))
        return any(isinstance(f, FUNCTIONS) and f.name in names for node in above for f in node.body)

    def _torchs(self, found: Definition) -> set[str]:
        return {canonical(item) for item in self._ancestors(found) if isinstance(item, str)}

    def loads_as_torch(self, found: Meaning) -> bool:
        """Return whether instances of a class are modules of torch that copy a state they load into what they have."""
        if not isinstance(found, Definition):
            return bool(found) and str(found).startswith(("torch.nn.", "torchvision.models."))
        if not isinstance(found.node, ast.ClassDef):
            return False
        ancestors = self._ancestors(found)
        above = [item for item in ancestors if isinstance(item, Definition)]
        bases = [(item.place, base) for item in above for base in getattr(item.node, "bases", ())]
        meant = [[*self.meanings(place, chain)] if (chain := chain_of(base)) else [] for place, base in bases]
        is_known = all(found and all(found) for found in meant)
        named = [item for item in ancestors if isinstance(item, str)]
        is_torchs = bool(named) and all(name.startswith("torch.nn.") for name in named)
        files = {item.place.path: item.place.scope.root().node for item in above}
        own = (n.name for tree in files.values() for n in ast.walk(tree) if isinstance(n, FUNCTIONS))
        return is_known and is_torchs and _LOADING.isdisjoint(own)

    def heirs_load_as_torch(self, found: Meaning) -> bool:
        """Return whether instances of a class and of its heirs are such modules; `self` may be any of them."""
        return self.loads_as_torch(found) and not any(map(self.named, _LOADING))

    def _has_own(self, ancestors: list[Definition | str]) -> bool:
        for found in ancestors:
            if isinstance(found, str):
                if found.partition(".")[0] in BUILT_ON_TORCH:
                    return False
            elif any(isinstance(f, FUNCTIONS) and f.name == "cuda" for f in found.node.body):
                return True
        return False

    def _ancestors(self, found: Definition) -> list[Definition | str]:
        """Return a class and all that it inherits from, in the order in which Python asks them for a method."""
        order: list[Definition | str] = []
        todo: list[tuple[Definition | str, tuple[ast.AST, ...]]] = [(found, ())]
        while todo:
            item, below = todo.pop()
            order.append(item)
            if isinstance(item, Definition) and isinstance(item.node, ast.ClassDef) and item.node not in below:
                bases = [
                    m for b in item.node.bases for chain in _named(b) for m in self.meanings(item.place, chain) if m
                ]
                todo += [(base, (*below, item.node)) for base in reversed(bases)]
        last = {_key(item): at for at, item in enumerate(order)}  # a class that several inherit comes after them all
        return [item for at, item in enumerate(order) if last[_key(item)] == at]

    def _step(self, place: Place, chain: str) -> Iterator[Meaning | tuple[Place, str]]:
        """Yield what a name means where it is bound, or the place and name to look for next."""
        head, _, rest = chain.partition(".")
        found = place.scope.find(head)
        if found is None:
            for level, module in place.scope.root().stars:
                yield from self._imported(place.path, level, module, chain)
        for binding in found[1] if found else ():
            if isinstance(binding.node, (ast.ClassDef, *FUNCTIONS)):
                yield Definition(binding.node, Place(place.path, found[0])) if found and not rest else None
            elif binding.local:
                level, module, name = binding.local
                yield from self._imported(place.path, level, module, f"{name}.{rest}" if rest else name)
            elif binding.qualified:
                yield from self._imported(
                    place.path, 0, "", f"{binding.qualified}.{rest}" if rest else binding.qualified
                )
            elif (alias := _alias(binding)) and found:
                yield Place(place.path, found[0]), f"{alias}.{rest}" if rest else alias
            else:
                yield None

    def _imported(self, path: str, level: int, module: str, chain: str) -> Iterator[Meaning | tuple[Place, str]]:
        """Yield what `chain` of a module means: its names come from the longest part of it that is a file."""
        parts = [p for p in module.split(".") if p]
        names = chain.split(".")
        for taken in range(len(names) - 1, -1, -1):
            dotted = (*parts, *names[:taken])
            target = self._index.locate(path, level, dotted) if dotted or level else None
            if target:
                scopes = self.scopes(target[0])
                yield (Place(target[0], scopes.module), ".".join(names[taken:])) if scopes else None
                return
        yield None if level else ".".join((*parts, *names))

    def scopes(self, path: str) -> Scopes | None:
        """Return the scopes of a file, or None if it cannot be parsed."""
        if path not in self._files:
            try:
                raw = self._index.read(path)
                text = "" if raw.startswith(HELPER_MARK) else encoding.decode(raw).text
                self._files[path] = build_scopes(syntax_tree(text), ":=" in text)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, encoding.UnreadableSource):
                self._files[path] = None
        return self._files[path]

    def _returned(self, found: Definition) -> Iterator[tuple[Place, ast.expr]]:
        """Yield the values that a function returns, with the scope of each."""
        scopes = self._files.get(found.place.path)
        for statement in scopes.statements if scopes else ():
            scope = scopes.scope_of[statement] if scopes else None
            if isinstance(statement, ast.Return) and statement.value and scope and scope.node is found.node:
                yield Place(found.place.path, scope), statement.value

    def _values(self, place: Place, chain: str) -> Iterator[tuple[Place, ast.expr]]:
        """Yield the values that a name is bound to, here or in the module that it is imported from."""
        todo, seen = [(place, chain)], {(place, chain)}
        while todo:
            here, name = todo.pop()
            found = here.scope.find(name)
            for binding in found[1] if found else ():
                if binding.value is not None and found:
                    yield Place(here.path, found[0]), binding.value
            for step in self._step(here, name):
                if isinstance(step, tuple) and step not in seen:
                    seen.add(step)
                    todo.append(step)


def _key(item: Definition | str) -> object:
    return item.node if isinstance(item, Definition) else item


def _alias(binding: Binding) -> str | None:
    return chain_of(binding.value) if binding.value is not None else None


def _named(base: ast.expr) -> Iterator[str]:
    """Yield the names that a base may mean: `Loss`, `base.Loss`, `Loss[int]`, those of `with_metaclass(Meta, Loss)`."""
    if chain := chain_of(base):
        yield chain
    elif isinstance(base, ast.Subscript):
        yield from _named(base.value)
    elif isinstance(base, ast.Call):
        for argument in base.args:
            yield from _named(argument)
