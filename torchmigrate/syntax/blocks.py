"""Blocks: the list of statements that a statement stands in, what comes before it there, and what leaves a block."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import Scopes

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
