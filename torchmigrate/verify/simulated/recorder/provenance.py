"""Find where a value was made: read the project's source for the names in the frames of a traceback."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from .frames import MISSING, Entry, evaluate, failed_expression, is_own, readable, tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CUDA = re.compile(r"cuda", re.IGNORECASE)
_REGISTERS = ("register_buffer", "register_parameter")
_MOVES = ("to", "cuda")
_FURTHEST = 12  # steps from a name to the one that it got its value from


class Binding(NamedTuple):
    """A binding is a statement that binds a name; `guard` is the `if` about CUDA around it, or None."""

    file: str
    line: int
    value: ast.expr | None
    guard: ast.If | None


def where(name: str, value: Any, entries: list[Entry], i: int, project: str) -> dict[str, Any]:
    """Return where a value was made, and the test for CUDA that it depends on.

    `made`: {"file", "line"} of the assignment that very likely gave `name` its value in the i-th frame, or None.
    `guard`: {"file", "line", "test"} of a statement that binds or moves it only under a test for CUDA, or None.
    """
    search = _Search(value, entries, project)
    made = search.name_or_part(ast.parse(name, mode="eval").body, i)
    place = None if made is None else {"file": made.file, "line": made.line}
    guarded = search.guarded
    test = {} if guarded is None or guarded.guard is None else {"test": ast.unparse(guarded.guard.test)}
    return {"made": place, "guard": {"file": guarded.file, "line": guarded.line, **test} if guarded and test else None}


class _Search:
    """Search for the binding of one value; `guarded` is the last binding met under a test for CUDA."""

    def __init__(self, value: Any, entries: list[Entry], project: str) -> None:
        self.values, self.entries, self.project = [value], entries, project  # the value, then containers that hold it
        self.guarded: Binding | None = None
        self.steps = _FURTHEST

    def name_or_part(self, node: ast.expr, i: int) -> Binding | None:
        """Return the binding of `a`, `a.b` or `a["b"]`; if a part has none, the binding of its owner."""
        self.steps -= 1
        if self.steps < 0:
            return None
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return None
        found = self._find_binding(ast.unparse(node), i)
        if found is not None or isinstance(node, ast.Name):
            return found
        in_class = self._find_attribute(node, i) if isinstance(node, ast.Attribute) else None
        return in_class or self.name_or_part(node.value, i)

    def _find_attribute(self, node: ast.Attribute, i: int) -> Binding | None:
        owner = evaluate(node.value, self.entries[i].frame)
        if owner is MISSING or isinstance(owner, types.ModuleType):
            return None
        bodies = ((file, body) for file, body in _class_bodies(type(owner)) if is_own(file, self.project))
        return self._last_binding([b for file, body in bodies for b in _attribute_bindings(file, body, node.attr)])

    def _find_binding(self, name: str, i: int) -> Binding | None:
        """Return the binding of exactly this text, in the function or around it, or as a parameter."""
        entry = self.entries[i]
        module = tree(entry.file)
        if module is None:
            return None
        scopes = _scopes(module, entry.line)
        for scope in scopes:
            inner = scope is scopes[0]
            found = self._last_binding(list(_bindings(entry.file, scope, name)), entry.line if inner else None)
            if found is not None:
                return self._follow(found, i)
            if inner and isinstance(scope, _FUNCTIONS) and name in _parameters(scope):
                return self._find_argument(scope, name, i)
        return None

    def _last_binding(self, bindings: list[Binding], line: int | None = None) -> Binding | None:
        """Return the last binding before a line; one under a test for CUDA may not have run: see `guarded`."""
        earlier = bindings
        if line is not None:  # if nothing is bound earlier, the function may be a loop that binds it further down
            earlier = [b for b in bindings if b.line < line] or [b for b in bindings if b.line == line] or bindings
        guarded = [b for b in earlier if b.guard is not None and not _spans(b.guard, line)]
        self.guarded = guarded[-1] if guarded else self.guarded
        plain = [b for b in earlier if b not in guarded]
        return plain[-1] if plain else None

    def _follow(self, binding: Binding, i: int) -> Binding | None:
        """Follow a binding whose value has a name itself: `mask = self.mask`, `x, y = batch`, `for x in batches`."""
        source = MISSING if binding.value is None else evaluate(binding.value, self.entries[i].frame)
        if isinstance(source, (list, tuple, dict)):
            self.values.append(source)
        further = (
            self.name_or_part(binding.value, i) if binding.value is not None and self._is_searched(source) else None
        )
        return further or binding

    def _is_searched(self, value: Any) -> bool:
        return any(value is each for each in self.values)

    def _find_argument(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, i: int) -> Binding | None:
        """Return the binding of a parameter's value: of the argument in the project's next outer frame."""
        outward = (j for j in range(i - 1, -1, -1) if is_own(self.entries[j].file, self.project))
        j = next(outward, None)
        call = None if j is None else failed_expression(self.entries[j])
        if j is None or call is None:
            return None
        for text, value in readable(call, self.entries[j].frame):
            if self._is_searched(value):
                return self.name_or_part(ast.parse(text, mode="eval").body, j)
        argument = _argument_for(call, function, name)
        return None if argument is None else self._find_source(argument, j)

    def _find_source(self, argument: ast.expr, j: int) -> Binding | None:
        entry = self.entries[j]
        if evaluate(argument, entry.frame) is not MISSING:  # a container that holds the value
            return self.name_or_part(argument, j)
        return Binding(entry.file, argument.lineno, argument, None)


def _scopes(module: ast.Module, line: int) -> list[ast.AST]:
    """Return the functions around a line, innermost first, then the module."""
    around = [n for n in ast.walk(module) if isinstance(n, _FUNCTIONS) and n.lineno <= line <= (n.end_lineno or 0)]
    return [*sorted(around, key=lambda function: -function.lineno), module]


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _argument_for(node: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """Return the argument of the first call in `node` that becomes the parameter; None if that is unclear."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    if not calls:
        return None
    call, names = calls[0], _parameters(function)
    keyword = next((k.value for k in call.keywords if k.arg == name), None)
    place = names.index(name) - (names[0] in ("self", "cls"))
    plain = not any(isinstance(argument, ast.Starred) for argument in call.args)
    return keyword or (call.args[place] if plain and 0 <= place < len(call.args) else None)


def _walk(node: ast.AST, guard: ast.If | None = None) -> Iterator[tuple[ast.AST, ast.If | None]]:
    """Yield a scope's own statements and expressions, each with the `if` about CUDA in whose body it stands."""
    for field, value in ast.iter_fields(node):
        about_cuda = isinstance(node, ast.If) and field == "body" and _CUDA.search(ast.unparse(node.test))
        inside = node if about_cuda and isinstance(node, ast.If) else guard
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child, inside
                if not isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
                    yield from _walk(child, inside)


def _bindings(file: str, scope: ast.AST, name: str) -> Iterator[Binding]:
    """Yield a scope's bindings of a name in order; `model.to(device)` counts only under a test for CUDA."""
    for node, guard in _walk(scope):
        if guard is not None and isinstance(node, ast.Call) and _moves(node, name):
            yield Binding(file, node.lineno, None, guard)
        for target, value in _targets(node):
            if any(isinstance(getattr(p, "ctx", None), ast.Store) and ast.unparse(p) == name for p in ast.walk(target)):
                yield Binding(file, target.lineno, value, guard)


def _spans(node: ast.stmt, line: int | None) -> bool:
    return line is not None and node.lineno <= line <= (node.end_lineno or node.lineno)


def _moves(call: ast.Call, name: str) -> bool:
    function = call.func
    owner = function.value if isinstance(function, ast.Attribute) and function.attr in _MOVES else None
    return owner is not None and ast.unparse(owner) == name


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield each target that a node binds, with the expression that it gets or is taken from."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, ast.AugAssign):
        yield node.target, None
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, None


def _attribute_bindings(file: str, body: ast.ClassDef, name: str) -> Iterator[Binding]:
    """Yield the bindings of an attribute in a class: `self.name = ...` and self.register_buffer("name", ...)."""
    for method in ast.walk(body):
        if not isinstance(method, _FUNCTIONS):
            continue
        for node, guard in _walk(method):
            targets = [part for target, _ in _targets(node) for part in ast.walk(target)]
            line = next((t.lineno for t in targets if isinstance(t, ast.Attribute) and t.attr == name), None)
            if isinstance(node, ast.Call) and _registers(node, name):
                line = node.lineno
            if line is not None:
                yield Binding(file, line, None, guard)


def _registers(call: ast.Call, name: str) -> bool:
    function, first = call.func, call.args[0] if call.args else None
    registers = isinstance(function, ast.Attribute) and function.attr in _REGISTERS
    return registers and isinstance(first, ast.Constant) and first.value == name


def _class_bodies(kind: type) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the definitions of a class and its bases, as far as their source is available."""
    for base in type.__dict__["__mro__"].__get__(kind):
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        module = tree(file) if file else None
        named = (n for n in ast.walk(module or ast.Module([], [])) if isinstance(n, ast.ClassDef))
        yield from ((file, body) for body in named if file and body.name == base.__name__)
