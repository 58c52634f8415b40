"""Find the code that tests run while something of torch's is replaced: `with patch("torch.cuda.is_available", ...)`.

A mock is about one function. If the code under it asks the helper in its place, the mock has no effect any more, so
such calls stay. So do the devices of CUDA that a test names which replaces a part of `torch.cuda`: it plays a machine
with CUDA.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmigrate.base import system
from torchmigrate.project.class_hierarchy import ClassHierarchy, Definition, Place
from torchmigrate.project.import_graph import MOCKS, reached
from torchmigrate.source import encoding
from torchmigrate.source.edits import Span
from torchmigrate.syntax.resolver import Resolver, attribute_chain, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Function, Scope, Scopes, children, own_nodes
from torchmigrate.torch_api.names import canonical

if TYPE_CHECKING:
    from torchmigrate.base import system
from torchmigrate.project.import_graph import ImportIndex

Held = dict[str, dict[Span, str]]
_Home = ast.ClassDef | Function | ast.Module
_REPLACES = {"patch", "object", "multiple", "setattr", "delattr"}  # of unittest.mock, and of pytest's monkeypatch
_METHODS_OF = ("torch.Tensor.", "torch.nn.Module.", "torch.nn.modules.module.Module.")
_PREPARES = ("setUp", "setUpClass", "asyncSetUp", "setup_method", "setup_class")
_REASON = "{}, line {}: a test of it replaces `{}`"
_PLAYED = "line {}: this test replaces `{}`, to play a machine with CUDA"


@dataclass(frozen=True, slots=True)
class _Mock:
    """One replacement: of what (`torch.cuda.is_available`), where, and in which file alone, or None for all files."""

    target: str
    path: str
    node: ast.AST
    only: str | None = None


def covered(index: ImportIndex) -> Held:
    """Return the spans of what is replaced, in all code that a test with the mock runs, with the reasons by path."""
    held: Held = {}
    hierarchy = ClassHierarchy(index)
    search = _Search(index, hierarchy)
    for path in sorted(set[str]().union(*map(index.holding, MOCKS))):
        if b"torch" not in index.read_or_nothing(path) or (scopes := hierarchy.scopes(path)) is None:
            continue
        mocks = [m for s in scopes.statements for m in search.mocks(path, scopes, s)]
        for home in dict.fromkeys(search.home(scopes, mock.node) for mock in mocks):
            mine = [mock for mock in mocks if search.home(scopes, mock.node) is home]
            played = next((mock for mock in mine if f"{mock.target}.".startswith("torch.cuda.")), None)
            if played is not None and isinstance(home, FUNCTIONS):
                reason = _PLAYED.format(_line(played.node), played.target)
                held.setdefault(path, {}).update((span, reason) for span in search.devices(path, home))
            for place, node in search.run_under(path, home):
                for mock in mine:
                    if mock.only in (None, place):
                        reason = _REASON.format(os.path.relpath(path, index.root), _line(mock.node), mock.target)
                        for span in search.spans(place, node, mock.target):
                            held.setdefault(place, {}).setdefault(span, reason)
    return held


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


class _Search:
    """Follows tests to the code that they run, over the files of a project."""

    def __init__(self, index: ImportIndex, hierarchy: ClassHierarchy) -> None:
        self._index, self._hierarchy = index, hierarchy
        self._resolver = Resolver()
        self._parents: dict[int, dict[ast.AST, ast.AST]] = {}
        self._methods: dict[str, dict[str, list[ast.AST]]] = {}
        self._sources: dict[str, encoding.Source] = {}
        self._leads: dict[ast.AST, tuple[list[tuple[str, ast.AST]], list[str]]] = {}
        self._uses: dict[ast.AST, list[tuple[ast.AST, str, str]]] = {}

    # names that tests replace

    def mocks(self, path: str, scopes: Scopes, statement: ast.stmt) -> Iterator[_Mock]:
        """Yield what a statement's own expressions replace."""
        scope = scopes.scope_of[statement]
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Attribute) and (name := self._of_torch(target, scope)):
                    yield _Mock(name, path, statement)
        for call in (n for n in own_nodes(statement) if isinstance(n, ast.Call)):
            if last_name(call.func) in _REPLACES and call.args:
                yield from self._replaced(path, scope, call)

    def _replaced(self, path: str, scope: Scope, call: ast.Call) -> Iterator[_Mock]:
        first, *others = call.args
        if last_name(call.func) == "multiple":
            names = [k.arg for k in call.keywords if k.arg]
        else:
            names = [a.value for a in others[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            dotted = first.value
            ends = [f"{dotted}.{n}" for n in names] if last_name(call.func) == "multiple" else [dotted]
            for end in ends:
                if found := self._named(path, end):
                    yield _Mock(found[0], path, call, found[1])
        elif owner := self._of_torch(first, scope):
            yield from (_Mock(canonical(f"{owner}.{name}"), path, call) for name in names)

    def _named(self, path: str, dotted: str) -> tuple[str, str | None] | None:
        """Return what a dotted text replaces: of torch, or in a module of the project, with that module's file."""
        parts = tuple(dotted.split("."))
        if parts[0] == "torch":
            return canonical(dotted), None
        for taken in range(len(parts) - 1, 0, -1):
            if (target := self._index.locate(path, 0, parts[:taken])) is not None:
                scopes = self._hierarchy.scopes(target[0])
                name = self._resolver.dotted(".".join(parts[taken:]), scopes.module) if scopes else None
                if name and f"{name}.".startswith("torch."):
                    alone = taken == len(parts) - 1
                    return ("torch.cuda" if name == "torch" else name), target[0] if alone else None
                return None
        return None

    def _of_torch(self, node: ast.AST, scope: Scope) -> str | None:
        name = self._resolver.resolve(node, scope)
        return name if name and f"{name}.".startswith("torch.") else None

    # tests that replace them

    def home(self, scopes: Scopes, node: ast.AST) -> _Home:
        """Return the outermost function around a node, else the class, else the module."""
        parents = self._parents_of(scopes)
        found: _Home = scopes.module.node  # type: ignore[assignment]
        while (up := parents.get(node)) is not None:
            if isinstance(up, FUNCTIONS) or (isinstance(up, ast.ClassDef) and not isinstance(found, FUNCTIONS)):
                found = up
            node = up
        return found

    def _parents_of(self, scopes: Scopes) -> dict[ast.AST, ast.AST]:
        tree = scopes.module.node
        if id(tree) not in self._parents:
            self._parents[id(tree)] = {child: up for up in ast.walk(tree) for child in ast.iter_child_nodes(up)}
        return self._parents[id(tree)]

    def run_under(self, path: str, home: _Home) -> Iterator[tuple[str, ast.AST]]:
        """Yield the functions, and modules imported late, that run while a mock in `home` holds, each with its file."""
        starts = self._tests(path, home)
        files = reached(dict.fromkeys(place for place, _ in starts), self._index.imported_by)
        methods: dict[str, list[tuple[str, ast.AST]]] = {}
        for file in files:
            for name, nodes in self._methods_of(file).items():
                methods.setdefault(name, []).extend((file, node) for node in nodes)
        seen = {node for _, node in starts}
        todo = [*starts]
        while todo:
            place, node = todo.pop()
            if not isinstance(node, ast.ClassDef):
                yield place, node
            for found in self._onward(place, node, methods):
                if found[1] not in seen:
                    seen.add(found[1])
                    todo.append(found)

    def _tests(self, path: str, home: _Home) -> list[tuple[str, ast.AST]]:
        """Return the functions that a mock is for: the one that it stands in, and those that ask for that one."""
        found: dict[ast.AST, str] = {}
        todo: list[tuple[str, ast.AST]] = [(path, home)]
        while todo:
            place, node = todo.pop()
            if node in found:
                continue
            found[node] = place
            scopes = self._hierarchy.scopes(place)
            if scopes is None:
                continue
            if isinstance(node, (ast.ClassDef, ast.Module)):
                todo += [(place, s) for s in node.body if isinstance(s, (ast.ClassDef, *FUNCTIONS))]
            elif isinstance(node, FUNCTIONS):
                owner = self._parents_of(scopes).get(node)
                if node.name in _PREPARES and isinstance(owner, ast.ClassDef):
                    todo.append((place, owner))
                elif not node.name.startswith("test"):
                    todo += self._users(place, node)
        return [(place, node) for node, place in found.items() if isinstance(node, FUNCTIONS)]

    def _users(self, path: str, function: Function) -> Iterator[tuple[str, ast.AST]]:
        """Yield the functions that name a function, as a fixture or to call it, where they can see it."""
        folder = os.path.dirname(path)
        files = {path, *self._index.importing(path)}
        if os.path.basename(path) == "conftest.py":
            files |= {p for p in self._index.files if system.is_inside(p, folder) and p.endswith(".py")}
        always = any(k.arg == "autouse" for d in function.decorator_list if isinstance(d, ast.Call) for k in d.keywords)
        name = function.name.encode()
        for file in sorted(files):
            if always or name in self._index.read_or_nothing(file):
                scopes = self._hierarchy.scopes(file)
                for node in scopes.statements if scopes else ():
                    if isinstance(node, FUNCTIONS) and node is not function:
                        uses = node.name.startswith("test") if always else False
                        if uses or any(_names(inner, function.name) for inner in ast.walk(node)):
                            yield file, node

    # code that these tests run

    def _onward(
        self, path: str, node: ast.AST, methods: dict[str, list[tuple[str, ast.AST]]]
    ) -> Iterator[tuple[str, ast.AST]]:
        scopes = self._hierarchy.scopes(path)
        if scopes is None:
            return
        if isinstance(node, ast.ClassDef):  # to make an object, and to use it with Python's own syntax
            names = [s for s in node.body if isinstance(s, FUNCTIONS)]
            yield from ((path, s) for s in names if s.name == "forward" or s.name.startswith("__"))
            yield from self._meant(path, scopes.scope_of[node], node.bases)
            return
        known, attributes = self._led_to(path, node, scopes)
        yield from known
        for name in attributes:
            yield from methods.get(name, ())

    def _led_to(self, path: str, node: ast.AST, scopes: Scopes) -> tuple[list[tuple[str, ast.AST]], list[str]]:
        """Return what a function runs, as far as names tell, and the attributes that may be methods; found once."""
        if node not in self._leads:
            known: list[tuple[str, ast.AST]] = []
            attributes: dict[str, None] = {}
            for inner, scope in _inside(node, scopes):
                if isinstance(inner, (ast.Import, ast.ImportFrom)):
                    known += self._imported(path, inner)
                elif isinstance(inner, (ast.Name, ast.Attribute)):
                    meant = [*self._meant(path, scope, [inner])]
                    known += meant
                    if isinstance(inner, ast.Attribute) and not meant:
                        attributes[inner.attr] = None
            self._leads[node] = known, [*attributes]
        return self._leads[node]

    def _meant(self, path: str, scope: Scope, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
        for chain in filter(None, map(attribute_chain, nodes)):
            for meaning in self._hierarchy.meanings(Place(path, scope), chain):
                if isinstance(meaning, Definition):
                    yield meaning.place.path, meaning.node

    def _imported(self, path: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, ast.AST]]:
        """Yield the modules that an import in a function may run for the first time."""
        level, module = (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, "")
        for alias in node.names:
            dotted, name = (module, alias.name) if isinstance(node, ast.ImportFrom) else (alias.name, "")
            target = self._index.find(path, level, dotted, name)
            scopes = self._hierarchy.scopes(target) if target else None
            if target and scopes:
                yield target, scopes.module.node

    def _methods_of(self, path: str) -> dict[str, list[ast.AST]]:
        if path not in self._methods:
            found: dict[str, list[ast.AST]] = {}
            scopes = self._hierarchy.scopes(path)
            for node in scopes.statements if scopes else ():
                for method in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(method, FUNCTIONS):
                        found.setdefault(method.name, []).append(method)
            self._methods[path] = found
        return self._methods[path]

    # places where that code uses the names

    def spans(self, path: str, node: ast.AST, target: str) -> Iterator[Span]:
        """Yield the calls of what is replaced in a function, or where it is named."""
        scopes = self._hierarchy.scopes(path)
        if scopes is None:
            return
        start = next((s for s in _METHODS_OF if target.startswith(s)), None)
        method = target.removeprefix(start) if start else ""
        for inner, attribute, name in self._used(node, scopes):
            if attribute == method or f"{name}.".startswith(f"{target}."):
                yield self._span(path, inner)

    def _used(self, node: ast.AST, scopes: Scopes) -> list[tuple[ast.AST, str, str]]:
        """Return what a function calls or names: the node, the attribute, and the name that is resolved; found once."""
        if node not in self._uses:
            found: list[tuple[ast.AST, str, str]] = []
            for inner, scope in _inside(node, scopes):
                called = inner.func if isinstance(inner, ast.Call) else inner
                if isinstance(called, (ast.Name, ast.Attribute)):
                    attribute = called.attr if isinstance(called, ast.Attribute) else "-"
                    found.append((inner, attribute, self._resolver.resolve(called, scope) or "-"))
            self._uses[node] = found
        return self._uses[node]

    def devices(self, path: str, function: Function) -> Iterator[Span]:
        """Yield the texts in a function that name a device of CUDA."""
        texts = (n for n in ast.walk(function) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        yield from (self._span(path, node) for node in texts if str(node.value).partition(":")[0] == "cuda")

    def _span(self, path: str, node: ast.AST) -> Span:
        if path not in self._sources:
            self._sources[path] = encoding.decode(self._index.read(path))
        at = self._sources[path].offset
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def _names(node: ast.AST, name: str) -> bool:
    """Return whether a node is a name, a parameter, or a text such as that of `usefixtures`, with this name."""
    match node:
        case ast.Name(found) | ast.arg(found) | ast.Constant(found):
            return found == name
        case ast.Attribute(_, found):
            return found == name
    return False


def _inside(node: ast.AST, scopes: Scopes) -> Iterator[tuple[ast.AST, Scope]]:
    """Yield the nodes that run with a function or a module, each with the scope of its statement.

    The decorators and defaults of a function run earlier, the functions and classes of a module later or elsewhere.
    """
    todo: list[ast.AST] = [*node.body]  # type: ignore[attr-defined]
    while todo:
        statement = todo.pop()
        if isinstance(node, ast.Module) and isinstance(statement, FUNCTIONS):
            continue
        scope = scopes.scope_of.get(statement)
        for inner in own_nodes(statement) if scope and isinstance(statement, ast.stmt) else ():
            yield inner, scope  # type: ignore[misc]
        todo += _below(statement)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements, and what holds statements, directly below a node."""
    for child in children(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child
