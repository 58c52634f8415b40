"""Scopes and bindings of a module, collected in one walk over its statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from torchmigrate.base.system import syntax_tree

Function = ast.FunctionDef | ast.AsyncFunctionDef


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


# a NamedTuple, as one is made for each name of each file and a frozen dataclass takes twice the time
class Binding(NamedTuple):
    """One binding of a name; an import has `qualified`, an assignment `value`, a mere shadow neither."""

    node: ast.AST
    qualified: str | None = None
    value: ast.expr | None = None
    local: tuple[int, str, str] | None = None  # (level, module, name) of a from-import that may be the project's


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function, lambda or comprehension with its names; `stars`: (level, module) of `import *`."""

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[tuple[int, str]] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    def libraries(self) -> set[str]:
        """Return the first names of what is imported here: `torch`, `numpy`."""
        return {b.qualified.partition(".")[0] for bindings in self.names.values() for b in bindings if b.qualified}

    def bind(self, name: str, binding: Binding) -> None:
        """Add a binding in the scope that an assignment to `name` reaches from here."""
        self._target_scope(name).names.setdefault(name, []).append(binding)

    def _target_scope(self, name: str) -> Scope:
        """Return the scope that an assignment to `name` reaches from here (`global`, `nonlocal`)."""
        if name in self.globals:
            return self.root()
        outer = (s for s in list(self.up())[1:] if name in s.names) if name in self.nonlocals else ()
        return next(iter(outer), self)

    def up(self) -> Iterator[Scope]:
        """Yield the scopes in which a name is looked up; functions do not see the body of their class."""
        yield self
        scope = self.parent
        while scope is not None:
            if not scope.is_class:
                yield scope
            scope = scope.parent

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """Return the innermost visible scope that binds `name`, and its bindings."""
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
        """Return this scope or the nearest one around it that is a class."""
        scope: Scope | None = self
        while scope is not None and not scope.is_class:
            scope = scope.parent
        return scope


OWN = ("self", "cls")
Bindings = list[Binding]


_CHILD_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: (), ast.alias: ()}
# fields that hold contexts and operators, and those that hold texts and numbers
_NO_NODES = {"ctx", "op", "ops", "id", "attr", "module", "level", "asname", "conversion", "simple", "type_comment"}


def _child_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields of a node type that may contain nodes of interest, without contexts and operators."""
    if kind not in _CHILD_FIELDS:
        _CHILD_FIELDS[kind] = tuple(name for name in kind._fields if name not in _NO_NODES)
    return _CHILD_FIELDS[kind]


def given_defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    """Yield the parameters that have a default, each with it."""
    positional = [*arguments.posonlyargs, *arguments.args]
    yield from zip(reversed(positional), reversed(arguments.defaults), strict=False)
    for parameter, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if value is not None:
            yield parameter, value


def parameter_of(arguments: ast.arguments, default: ast.AST) -> str:
    """Return the name of the parameter that has this default, or an empty text."""
    return next((parameter.arg for parameter, value in given_defaults(arguments) if value is default), "")


@lru_cache(maxsize=2_000)
def tree_of(path: str, text: bytes) -> ast.Module:
    """Return the syntax tree of a file with this text, parsed once; nobody changes it. Raises what `ast.parse` does."""
    return syntax_tree(text)


def children(node: ast.AST) -> list[ast.AST]:
    """Return the child nodes, without contexts and operators, in a third of the time of `ast.iter_child_nodes`."""
    found: list[ast.AST] = []
    kind = type(node)
    for name in _CHILD_FIELDS[kind] if kind in _CHILD_FIELDS else _child_fields(kind):
        value = getattr(node, name, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all in it, in no order that means anything; contexts and operators are left out."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += children(node)


def own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and the nodes of its own expressions, without the statements in it, in no order."""
    stack = [statement]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in children(node) if not isinstance(child, ast.stmt)]


@dataclass(eq=False, slots=True)
class Scopes:
    """All scopes of one module, with each statement's parent and scope."""

    module: Scope
    scope_of: dict[ast.AST, Scope] = field(default_factory=dict)  # statement or handler -> the scope it runs in
    parent: dict[ast.AST, ast.AST] = field(default_factory=dict)  # expressions are added by the visitor
    statements: list[ast.stmt] = field(default_factory=list)  # in document order

    def __iter__(self) -> Iterator[Scope]:
        """Yield every scope that contains statements once, the module's first."""
        yield from dict.fromkeys((self.module, *self.scope_of.values()))


def first_line(node: ast.stmt) -> int:
    """Return the line on which a statement begins; for a decorated definition, its first decorator's."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min(node.lineno, decorators[0].lineno) if decorators else node.lineno


# statements that bind nothing and contain no statements
_PLAIN = {ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Delete, ast.Pass, ast.Break, ast.Continue}


def build_scopes(tree: ast.Module, walruses: bool = True) -> Scopes:
    """Collect the scopes of a module; `walruses` False spares files without `:=` an expensive search."""
    root = Scope(tree, None)
    scopes = Scopes(root)
    _Builder(scopes, walruses).body(tree.body, tree, root)
    return scopes


class _Builder:
    """Walks the statements of a module, and fills its scopes."""

    def __init__(self, scopes: Scopes, walruses: bool) -> None:
        self.scopes, self.walruses = scopes, walruses

    def body(self, statements: list[ast.stmt], parent: ast.AST, scope: Scope) -> None:
        for statement in statements:
            self.scopes.parent[statement] = parent
            self.scopes.scope_of[statement] = scope
            self.scopes.statements.append(statement)
            if self.walruses:
                _bind_walrus(statement, scope)
            if type(statement) not in _PLAIN:
                self.statement(statement, scope)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    bind_target(target, node.value, scope)
            case ast.Import():
                _bind_import(node, scope)
            case ast.ImportFrom():
                _bind_from(node, scope)
            case ast.AnnAssign() | ast.AugAssign():
                bind_target(node.target, getattr(node, "value", None) if type(node) is ast.AnnAssign else None, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope.bind(node.name, Binding(node))
                self.body(node.body, node, function_scope(node, scope))
            case ast.ClassDef():
                scope.bind(node.name, Binding(node))
                self.body(node.body, node, Scope(node, scope))
            case ast.Global() | ast.Nonlocal():
                (scope.globals if isinstance(node, ast.Global) else scope.nonlocals).update(node.names)
            case _:
                self.compound(node, scope)

    def compound(self, node: ast.stmt, scope: Scope) -> None:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            bind_target(node.target, None, scope)
        for item in getattr(node, "items", ()):
            if item.optional_vars is not None:
                bind_target(item.optional_vars, None, scope)
        self.body(getattr(node, "body", None) or [], node, scope)
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            self.scopes.parent[part] = node
            self.scopes.scope_of[part] = scope
            if isinstance(part, ast.ExceptHandler) and part.name:
                scope.bind(part.name, Binding(part))
            if isinstance(part, ast.match_case):
                bind_pattern(part.pattern, scope)
            self.body(part.body, part, scope)
        for name in ("orelse", "finalbody"):
            self.body(getattr(node, name, None) or [], node, scope)


def function_scope(node: Function | ast.Lambda, parent: Scope) -> Scope:
    """Return a new scope for a function or lambda, with its parameters bound."""
    scope = Scope(node, parent)
    args = node.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            scope.bind(arg.arg, Binding(arg))
    return scope


def bind_target(target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
    """Bind the names in the target of an assignment; `value` is None if the value of the names is not known."""
    match target:
        case ast.Name(name):
            scope.bind(name, Binding(target, value=value))
        case ast.Tuple(parts) | ast.List(parts):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parts) else None
            for i, part in enumerate(parts):
                bind_target(part, values[i] if values else None, scope)
        case ast.Starred(inner):
            bind_target(inner, None, scope)


def _bind_walrus(statement: ast.stmt, scope: Scope) -> None:
    """Bind every `name := value` in a statement's expressions; slow, so only for files with a walrus."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.NamedExpr):
            bind_target(node.target, node.value, scope)
        stack += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def bind_pattern(pattern: ast.pattern, scope: Scope) -> None:
    """Bind the names that a `match` pattern captures."""
    for node in ast.walk(pattern):
        name = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None)
        if name and isinstance(node, ast.pattern):
            scope.bind(name, Binding(node))


def _bind_import(node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        scope.bind(name, Binding(node, alias.name if alias.asname else name))


def _bind_from(node: ast.ImportFrom, scope: Scope) -> None:
    module = node.module or ""
    for alias in node.names:
        if alias.name == "*":
            scope.stars.append((node.level, module))
            continue
        qualified = None if node.level else f"{module}.{alias.name}"
        local = None if not node.level and module.partition(".")[0] == "torch" else (node.level, module, alias.name)
        scope.bind(alias.asname or alias.name, Binding(node, qualified, local=local))
