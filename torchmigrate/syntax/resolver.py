"""Scopes: dotted chains are resolved to qualified names; blocks: what comes before a statement, and what leaves one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from torchmigrate.syntax.scope import OWN, Binding, Bindings, Scope, Scopes, walk
from torchmigrate.torch_api.names import canonical

Reexport = Callable[[int, str, str], str | None]


class Resolver:
    """Resolves names to qualified names, for example `th.cuda.amp` to `torch.cuda.amp`.

    `reexport` receives the level, module and name of a from-import, and returns the torch name that the project's own
    module re-exports under that name, or None. `star` receives the same of a star import.
    """

    def __init__(self, reexport: Reexport | None = None, star: Reexport | None = None) -> None:
        self._reexport = reexport or (lambda level, module, name: None)
        self._star = star or self._reexport
        # by id of the list of bindings, which the tuple keeps alive
        self._known: dict[int, tuple[Bindings, str | None]] = {}
        self._active: set[int] = set()

    def resolve(self, node: ast.AST, scope: Scope) -> str | None:
        """Return the qualified name of a dotted chain, or None if it is not certain."""
        chain = chain_of(node)
        return self.dotted(chain, scope) if chain else None

    def dotted(self, chain: str, scope: Scope) -> str | None:
        """Return the qualified name of a dotted chain given as text, or None if it is not certain."""
        place = _find_bindings(chain, scope)
        rest = place[2] if place else chain.partition(".")[2]
        base = self._meaning(*place[:2]) if place else self._from_star_import(chain.partition(".")[0], scope)
        return canonical(f"{base}.{rest}" if rest else base) if base else None

    def _from_star_import(self, name: str, scope: Scope) -> str | None:
        """Return the meaning of a name that may come from a star import of the module."""
        for level, module in scope.root().stars if name not in OWN else ():
            known = f"torch.{name}" if module == "torch" else self._star(level, module, name)
            if known:
                return known
        return None

    def _meaning(self, bindings: Bindings, scope: Scope) -> str | None:
        """Return the qualified name that all bindings of a name agree on, or None; a loop, as chains may be long."""
        if id(bindings) in self._active:
            return None  # the name is defined by itself
        todo = [(bindings, scope)]
        while todo:
            top, home = todo[-1]
            if id(top) in self._known:
                todo.pop()
            elif id(top) in self._active:
                self._known[id(top)] = top, self._common_meaning(top, home)
                self._active.discard(id(top))
            elif (dependencies := _dependencies(top, home)) is None:
                self._known[id(top)] = top, None
            else:
                self._active.add(id(top))
                todo += (n for n in dependencies if id(n[0]) not in self._active)
        return self._known[id(bindings)][1]

    def _common_meaning(self, bindings: list[Binding], scope: Scope) -> str | None:
        """Return the one meaning that all bindings share; a fallback such as `autocast = None` makes it None."""
        found: str | None = None
        for binding in bindings:
            meaning = self._meaning_of_binding(binding, scope)
            if meaning is None or meaning != (found or meaning):
                return None
            found = meaning
        return found

    def _meaning_of_binding(self, binding: Binding, scope: Scope) -> str | None:
        """Return the qualified name that one binding stands for, or None."""
        if binding.local:
            return self._reexport(*binding.local) or binding.qualified
        if binding.qualified or binding.value is None:
            return binding.qualified
        meaning = self.resolve(binding.value, scope)
        return meaning if meaning and (meaning == "torch" or meaning.startswith("torch.")) else None


def _find_bindings(chain: str, scope: Scope) -> tuple[Bindings, Scope, str] | None:
    """Return the bindings of a chain's first name (of `self.x`: the attribute's), their scope, and the rest."""
    head, _, rest = chain.partition(".")
    if head in OWN and rest:
        owner = scope.enclosing_class()
        attribute, _, rest = rest.partition(".")
        return (owner.names[attribute], owner, rest) if owner and attribute in owner.names else None
    found = scope.find(head)
    return (found[1], found[0], rest) if found else None


def _dependencies(bindings: Bindings, scope: Scope) -> list[tuple[Bindings, Scope]] | None:
    """Return the bindings to resolve first, those of assigned names; None if a value is no dotted chain."""
    found: list[tuple[Bindings, Scope]] = []
    for binding in bindings:
        if binding.local or binding.qualified:
            continue
        chain = chain_of(binding.value) if binding.value is not None else None
        if chain is None:
            return None
        if place := _find_bindings(chain, scope):
            found.append(place[:2])
    return found


def chain_of(node: ast.AST) -> str | None:
    """Return `a.b.c` for a chain of names and attributes, `getattr(a, "b")` counting as `a.b`, or None."""
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


def attribute_chain(node: ast.AST) -> str | None:
    """Return `a.b.c` for a name and its attributes, or None. Unlike `chain_of`, it takes no `getattr` for one."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else None


def last_name(node: ast.AST) -> str:
    """Return the name itself, or the attribute that an expression takes last: `c` of `a.b.c` and of `f(x).c`; or ""."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def argument_of(call: ast.Call, name: str, at: int) -> ast.expr | None:
    """Return what a call gives for a parameter, by name or at its position, or None."""
    given = call.args[at] if at < len(call.args) else None
    return next((k.value for k in call.keywords if k.arg == name), given)


def leading_chain(node: ast.AST) -> str | None:
    """Return the dotted chain that an expression begins with: `a.b` of `a.b[0] + c` and of `a.b if c else d`."""
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
    """Return whether two expressions are the same code; layout and comments do not count."""
    return ast.dump(left) == ast.dump(right)


def imported_as(tree: ast.AST) -> dict[str, str]:
    """Return the names that a file gives to what it imports from modules, with the names that they have at home."""
    imports = (node for node in walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}


def literal_getattr(call: ast.Call) -> str | None:
    """Return the attribute's name if a call is `getattr(x, "name")` without a default."""
    match call:
        case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name))], keywords=[]):
            return name
    return None


_FIELDS = ("body", "orelse", "finalbody")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_EXITS = ("exit", "quit", "sys.exit", "os._exit")
_SKIPS = ("skip", "skipTest")  # of pytest and unittest: the test ends


def own_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a node itself; those of handlers and cases are theirs."""
    for name in _FIELDS:
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield all blocks of a statement, those of its handlers and cases too."""
    yield from own_blocks(node)
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


class Blocks:
    """The block of each statement of a module, and the statement's place in it."""

    def __init__(self, scopes: Scopes) -> None:
        owners = dict.fromkeys(scopes.parent[statement] for statement in scopes.statements)
        self._places: dict[ast.stmt, tuple[list[ast.stmt], int]] = {
            statement: (block, at)
            for owner in owners
            for block in own_blocks(owner)
            for at, statement in enumerate(block)
        }

    def place(self, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
        """Return all statements of the block, and the index of this one."""
        return self._places[statement]

    def before(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements of the block above this one."""
        block, at = self._places[statement]
        return block[:at]


def leaves_block(body: Sequence[ast.stmt]) -> bool:
    """Return whether the block's last statement leaves it: it returns, raises, continues, breaks, exits or skips."""
    return bool(body) and (isinstance(body[-1], _LEAVES) or _exits(body[-1]) or skips_test(body))


def ends_program(body: Sequence[ast.stmt]) -> bool:
    """Return whether the block's last statement exits the program or raises an exception, but skips no test."""
    return bool(body) and (isinstance(body[-1], ast.Raise) or _exits(body[-1])) and not skips_test(body)


def demands(tried: ast.Try, scope: Scope) -> bool:
    """Return whether the file of this scope cannot do without what a `try` there imports.

    Its handlers end the program, or say nothing that another line could ask: they bind no name but of an import, and
    nothing else binds what it imports.
    """
    if all(ends_program(handler.body) for handler in tried.handlers):
        return True
    if tried.orelse or not all(isinstance(statement, (ast.Import, ast.ImportFrom)) for statement in tried.body):
        return False
    inside = {node for handler in tried.handlers for statement in handler.body for node in walk(statement)}
    is_flagged = any(b.node in inside and not b.qualified for bound in scope.names.values() for b in bound)
    imported = (bound for bound in scope.names.values() if any(b.node in tried.body for b in bound))
    return not is_flagged and all(b.node in tried.body for bound in imported for b in bound)


SKIP_MARKS = ("skipif", "skipIf", "skipUnless")  # what makes a mark that skips a test


def makes_marks(nodes: Iterable[ast.AST]) -> bool:
    """Return whether code makes marks that skip tests: `pytest.mark.skipif`, `unittest.skipUnless`."""
    inside = (each for node in nodes for each in ast.walk(node))
    return any(isinstance(each, ast.Call) and last_name(each.func) in SKIP_MARKS for each in inside)


def skips_test(body: Sequence[ast.stmt]) -> bool:
    """Return whether the block's last statement skips a test: `pytest.skip()`, `self.skipTest()`, `raise SkipTest`."""
    if body and isinstance(body[-1], ast.Raise) and body[-1].exc is not None:
        raised = body[-1].exc
        return last_name(raised.func if isinstance(raised, ast.Call) else raised) == "SkipTest"
    return bool(body) and (_called(body[-1]) or "").rpartition(".")[2] in _SKIPS


def _exits(statement: ast.stmt) -> bool:
    return _called(statement) in _EXITS


def _called(statement: ast.stmt) -> str | None:
    """Return the function that a statement consists of a call of, by its name in the file."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return chain_of(call.func) if isinstance(call, ast.Call) else None
