"""The semantic model of one file: its text, tree, scopes and names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from torchmigrate.base.system import syntax_tree
from torchmigrate.source.edits import Edit
from torchmigrate.source.encoding import Source, comments
from torchmigrate.syntax import scope
from torchmigrate.syntax.resolver import Blocks, Resolver
from torchmigrate.syntax.scope import FUNCTIONS, Binding, Function, Scope, children, first_line

if TYPE_CHECKING:
    from torchmigrate.project.context import ProjectContext
    from torchmigrate.syntax.pattern import Expression


N = TypeVar("N", bound=ast.AST)


class SemanticModel:
    """A file's text and tree; raises SyntaxError, ValueError or RecursionError if it is not Python 3.

    `gets_torch`: the file uses `torch` without binding it, and the rewrite will add `import torch`; the scopes already
    have that binding.
    """

    def __init__(
        self, path: Path, source: Source, facts: ProjectContext, original: bytes = b"", gets_torch: bool = False
    ) -> None:
        self.path, self.source, self.facts = path, source, facts
        self.original = original or source.utf8  # before the first pass
        self.tree = syntax_tree(source.text)
        self.scopes = scope.build_scopes(self.tree, b":=" in source.utf8)
        self.gets_torch = gets_torch
        if gets_torch:
            self.scopes.module.bind("torch", Binding(ast.Import([ast.alias("torch")], lineno=1, col_offset=0), "torch"))
        self.resolver = Resolver(
            lambda *local: facts.reexport(path, *local), lambda *star: facts.star_export(path, *star)
        )
        self.expression_scope: dict[ast.AST, Scope] = {}
        self._islands: dict[tuple[int, int], Expression | None] = {}
        self._nearest: dict[tuple[type[ast.AST], ...], dict[ast.AST, ast.AST | None]] = {}
        self._found_scopes: tuple[int, dict[ast.AST, Scope]] = 0, {}  # with how many expressions had scopes then
        self.answers: dict[Hashable, object] = {}  # of `query`

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return all nodes of the file, outer ones first, without contexts and operators."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            found += children(node)
        return found

    @cached_property
    def blocks(self) -> Blocks:
        """Return the block of each statement."""
        return Blocks(self.scopes)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self.scopes.parent.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around `node`, from its parent up to the module."""
        up = self.parent(node)
        while up is not None:
            yield up
            up = self.parent(up)

    def enclosing(self, node: ast.AST, *kinds: type[N]) -> Iterator[N]:
        """Yield the nodes of some kinds around `node`, from the inside, without a walk over what lies between them."""
        return (up for up, _ in self.around(node, *kinds))

    def around(self, node: ast.AST, *kinds: type[N]) -> Iterator[tuple[N, ast.AST]]:
        """Yield what `enclosing` yields, each node with its child that holds `node`."""
        below = self._below(node, kinds)
        while below is not None:
            up: N = self.scopes.parent[below]  # type: ignore[assignment]
            yield up, below
            below = self._below(up, kinds)

    def nearest(self, node: ast.AST, *kinds: type[N]) -> N | None:
        """Return the innermost node of some kinds around `node`."""
        return next(self.enclosing(node, *kinds), None)

    def _below(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
        """Return `node`, or the innermost node around it, whose parent is of some kinds.

        The answer is kept for all nodes on the way: a sum of n terms is n nodes deep.
        """
        known = self._nearest.setdefault(kinds, {})
        path: list[ast.AST] = []
        at = node
        while at not in known:
            path.append(at)
            up = self.parent(at)
            if up is None and at is not self.tree:
                return None  # the visitor was not there yet, so the parents are not known
            if up is None or isinstance(up, kinds):
                known[at] = None if up is None else at
                break
            at = up
        found = known[at]
        known.update(dict.fromkeys(path, found))
        return found

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that holds `node`: `node` itself if it is a statement."""
        found = node if isinstance(node, ast.stmt) else self.nearest(node, ast.stmt)
        if found is None:
            raise KeyError(node)
        return found

    def scope(self, node: ast.AST) -> Scope:
        if self._found_scopes[0] != len(self.expression_scope):
            self._found_scopes = len(self.expression_scope), {}
        known = self._found_scopes[1]
        path: list[ast.AST] = []
        up: ast.AST | None = node
        found = None
        while up is not None and found is None:
            found = known.get(up) or self.expression_scope.get(up) or self.scopes.scope_of.get(up)
            path.append(up)
            up = self.parent(up)
        if found is None:
            return self.scopes.module
        known.update(dict.fromkeys(path, found))
        return found

    def function(self, node: ast.AST) -> Function | None:
        return self.nearest(node, *FUNCTIONS)  # type: ignore[return-value]

    def resolve(self, node: ast.AST, scope: Scope | None = None) -> str | None:
        """Return the qualified name of a dotted chain (`torch.cuda.amp.autocast`), or None if it is not certain."""
        return self.resolver.resolve(node, scope or self.scope(node))

    def span(self, node: ast.AST) -> tuple[int, int]:
        at = self.source.offset
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source.utf8[start:end].decode()

    def loses_comment(self, edit: Edit) -> bool:
        """Return whether the text that an edit replaces holds a comment that the new text lacks."""
        old = self.source.utf8[edit.start : edit.end]
        return b"#" in old and any(comment not in edit.text for comment in comments(old.decode(errors="replace")))

    def holds_comment(self, node: ast.AST) -> bool:
        """Return whether a comment stands within an expression."""
        text = self.text(node)
        return "#" in text and bool(comments(f"({text}\n)"))

    def line_above(self, statement: ast.stmt) -> int:
        """Return the line of a statement, or of the comments right above it, which speak of it.

        A comment at the head of the file speaks of the file, one with types of the function whose first it is, and one
        with a cell's mark of the cell.
        """
        first = line = first_line(statement)
        ends = (s.end_lineno or 0 for s in self.scopes.statements if s.lineno < first)
        last = max((end for end in ends if end < first), default=0)
        while line - 1 > last and self._is_comment(line - 1, statement.col_offset):
            line -= 1
        return first if line == 1 else line

    def _is_comment(self, line: int, column: int) -> bool:
        text = self.source.line_at(self.source.offset(line, 0))
        is_aligned = text[column:].startswith(b"#") and not text[:column].strip()
        return is_aligned and not text[column + 1 :].lstrip().startswith((b"type:", b"%%"))

    def island(self, node: ast.AST) -> Expression | None:
        """Parse `node` with LibCST. Return None if LibCST cannot parse it or would print it differently."""
        from torchmigrate.syntax.pattern import Expression, PatternError

        span = self.span(node)
        if span not in self._islands:
            try:
                self._islands[span] = Expression(self.source.utf8, *span)
            except Exception as error:  # LibCST accepts less than Python does; what it refuses is not rewritten
                if not isinstance(error, PatternError) and type(error).__name__ != "ParserSyntaxError":
                    raise
                self._islands[span] = None
        return self._islands[span]


P = ParamSpec("P")
R = TypeVar("R")


def query(answer: Callable[Concatenate[SemanticModel, P], R]) -> Callable[Concatenate[SemanticModel, P], R]:
    """Memoise a function of a module and of nodes or names in it. The answers live as long as the module."""

    @wraps(answer)
    def ask(module: SemanticModel, *args: P.args, **kwargs: P.kwargs) -> R:
        key: Hashable = (answer, args, *kwargs.items())
        if key not in module.answers:
            module.answers[key] = answer(module, *args, **kwargs)
        return module.answers[key]  # type: ignore[return-value]

    return ask  # type: ignore[return-value]
