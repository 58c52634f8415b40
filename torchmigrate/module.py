"""A parsed file as rules see it: Module (text, tree, scopes, facts) and Site (a place that a rule may speak about)."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate import own_calls, scopes
from torchmigrate.edits import Edit, Finding, Fix, Safety, Status
from torchmigrate.own_helper import spelled
from torchmigrate.scope import FUNCTIONS, Binding, Function, Resolver, Scope, children
from torchmigrate.source import Source, comments
from torchmigrate.spelling import identifiers, spell

if TYPE_CHECKING:
    from torchmigrate.island import Island
    from torchmigrate.project import Facts
    from torchmigrate.rule import Rule


class Module:
    """A file's text and tree. Raises SyntaxError, ValueError or RecursionError where it is not Python 3.

    `gets_torch`: the file will get an `import torch`, which binds what it calls torch and does not import."""

    def __init__(
        self, path: Path, source: Source, facts: Facts, original: bytes = b"", gets_torch: bool = False
    ) -> None:
        self.path, self.source, self.facts = path, source, facts
        self.original = original or source.utf8  # before the first pass
        self.tree = ast.parse(source.text)
        self.scopes = scopes.build(self.tree, b":=" in source.utf8)
        self.gets_torch = gets_torch
        if gets_torch:
            self.scopes.module.bind("torch", Binding(ast.Import([ast.alias("torch")], lineno=1, col_offset=0), "torch"))
        self.resolver = Resolver(lambda *local: facts.reexport(path, *local))
        self.expression_scope: dict[ast.AST, Scope] = {}
        self._islands: dict[tuple[int, int], Island | None] = {}
        self.answers: dict[Hashable, object] = {}  # memo.py

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the file, outer ones first, without contexts and operators; made once a rule asks."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            found += children(node)
        return found

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self.scopes.parent.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the parent up to the module."""
        up = self.parent(node)
        while up is not None:
            yield up
            up = self.parent(up)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds `node` (itself, if it is one)."""
        while not isinstance(node, ast.stmt):
            node = self.scopes.parent[node]
        return node

    def scope(self, node: ast.AST) -> Scope:
        for up in (node, *self.ancestors(node)):
            found = self.expression_scope.get(up) or self.scopes.scope_of.get(up)
            if found is not None:
                return found
        return self.scopes.module

    def function(self, node: ast.AST) -> Function | None:
        return next((up for up in self.ancestors(node) if isinstance(up, FUNCTIONS)), None)

    def resolve(self, node: ast.AST, scope: Scope | None = None) -> str | None:
        """Qualified name of a dotted chain (`torch.cuda.amp.autocast`), or None where it is not certain."""
        return self.resolver.resolve(node, scope or self.scope(node))

    def span(self, node: ast.AST) -> tuple[int, int]:
        at = self.source.offset
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source.utf8[start:end].decode()

    def loses_comment(self, edit: Edit) -> bool:
        """Whether a comment stands in what is replaced and not in what replaces it."""
        old = self.source.utf8[edit.start : edit.end]
        return b"#" in old and any(comment not in edit.text for comment in comments(old.decode(errors="replace")))

    def island(self, node: ast.AST) -> Island | None:
        """`node` parsed by LibCST, or None where it does not come out as it went in."""
        from torchmigrate.island import Island
        from torchmigrate.pattern import PatternError

        span = self.span(node)
        if span not in self._islands:
            try:
                self._islands[span] = Island(self.source.utf8, *span)
            except Exception as error:  # LibCST knows fewer programs than Python; any refusal means: hands off
                if not isinstance(error, PatternError) and type(error).__name__ != "ParserSyntaxError":
                    raise
                self._islands[span] = None
        return self._islands[span]


@dataclass(frozen=True, slots=True)
class Site:
    """One place and the rule that looks at it. `node` is the call if `ref` is called, else `ref` itself."""

    module: Module
    rule: Rule
    node: ast.AST
    ref: ast.AST
    scope: Scope
    qualified: str | None = None
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def call(self) -> ast.Call | None:
        return self.node if isinstance(self.node, ast.Call) else None

    @property
    def parent(self) -> ast.AST | None:
        return self.module.parent(self.node)

    def finding(
        self, message: str = "", fix: Fix | None = None, node: ast.AST | None = None, **changes: object
    ) -> Finding:
        rule = self.rule
        start, end = self.module.span(node or self.node)
        safety = fix.safety if fix else Safety.DISPLAY
        # what normally is rewritten and could not be keeps the guard above it, as NVIDIA-only code does
        blocks = bool(changes.pop("blocks", fix is None and (rule.blocks or rule.safety is not Safety.DISPLAY)))
        text = message or rule.message
        see = rule.see[0] if rule.see else ""
        changes = {"backends": rule.backends, **changes}
        return Finding(rule.id, safety, start, end, text, fix=fix, see=see, blocks=blocks, **changes)  # type: ignore[arg-type]

    def note(self, message: str = "", **changes: object) -> Finding:
        """A finding without a fix."""
        return self.finding(message, None, **changes)  # type: ignore[arg-type]

    def left(self, reason: str) -> Finding:
        """What is right as it is: told with -v and in JSON, no finding otherwise."""
        found = self.note(blocks=False)
        return replace(found, status=Status.LEFT, message=f"{found.message} (left alone: {reason})")

    def fix(self, edits: list[Edit], safety: Safety | None = None, message: str = "", text: str = "") -> Finding:
        """A finding with edits; what they need is read off their own text and `text`."""
        own = self.module.facts.own
        if own and (why := own_calls.refusal(self.module, own, edits)):
            return self.note(f"{message or self.rule.message}; {why}")
        if any(self.module.loses_comment(edit) for edit in edits):
            return self.note(f"{message or self.rule.message}; not rewritten: a comment stands within it")
        used = identifiers(" ".join((text, *(e.text for e in edits))), spelled(self.module))
        return self.finding(message, Fix(tuple(edits), safety or self.rule.safety, used))

    def replace(self, node: ast.AST, template: str, safety: Safety | None = None, message: str = "") -> Finding:
        """Replace a whole expression; `accel` and `torch` in the template are spelled as the file spells them."""
        start, end = self.module.span(node)
        return self.fix([Edit(start, end, spell(template, spelled(self.module)))], safety, message)

    def rewrite(
        self,
        match: str,
        template: str,
        node: ast.AST | None = None,
        safety: Safety | None = None,
        message: str = "",
        where: Mapping[str, str] | None = None,
    ) -> Finding | None:
        """Rewrite `node` if it matches. A finding without a fix where it matches but cannot be edited safely."""
        from torchmigrate import pattern as p
        from torchmigrate.island import instantiate

        target = node or self.node
        joined = [up for up in self.module.ancestors(target) if isinstance(up, ast.JoinedStr)]
        island = self.module.island(joined[-1] if joined else target)
        if island is None:
            return self.note(f"{self.rule.summary} (not rewritten: LibCST cannot reproduce this expression)")
        compiled = p.compile_pattern(match)
        resolve = lambda chain: self.module.resolver.dotted(chain, self.scope)  # noqa: E731
        nodes = island.expressions() if joined else iter((island.root,))
        # a variable that holds what is looked for, and may be bound right here, is not what is looked for
        nodes = (n for n in nodes if isinstance(target, ast.Name) or type(n).__name__ != "Name")
        matches = [m for n in nodes if (m := island.match(compiled, n, resolve)) and p.admits(m, where or {})]
        if not matches:
            return None
        try:
            text = spell(template, spelled(self.module))
            edits = [e for m in matches for e in instantiate(m, text, island)]
        except p.PatternError as error:
            return self.note(f"{self.rule.summary} (not rewritten: {error})")
        return self.fix(edits, safety, message, text)
