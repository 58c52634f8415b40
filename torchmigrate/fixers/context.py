"""The rule context: a place in a file, the rule that looks at it, and ways to make findings there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchmigrate.diagnostics.finding import Finding, Fix, Safety, Status
from torchmigrate.helper import vendoring
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import HELPER, roots_in, spell, spell_helper, spelled
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.scope import Scope

if TYPE_CHECKING:
    import libcst as cst

    from torchmigrate.rules.model import Rule
    from torchmigrate.syntax.pattern import Expression

_MOST_IN_FSTRING = 200  # each finding in an f-string has the edits of all places in it


@dataclass(frozen=True, slots=True)
class RuleContext:
    """One place and the rule that looks at it. `node` is the call if `ref` is called, else it is `ref`."""

    module: SemanticModel
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
        # code that a rule normally rewrites, and could not here, keeps the guard above it, as NVIDIA-only code does
        blocks = bool(changes.pop("blocks", fix is None and (rule.blocks or rule.safety is not Safety.DISPLAY)))
        text = message or rule.message
        if f"{HELPER}." in text:
            text = spell_helper(text, spelled(self.module))
        see = rule.see[0] if rule.see else ""
        changes = {"backends": rule.backends, "blocks": blocks, "guards": rule.guards, "raises": rule.raises, **changes}
        return Finding(rule.id, safety, start, end, text, fix=fix, see=see, **changes)  # type: ignore[arg-type]

    def note(self, message: str = "", **changes: object) -> Finding:
        """Return a finding without a fix."""
        return self.finding(message, None, **changes)  # type: ignore[arg-type]

    def left(self, reason: str) -> Finding:
        """Return a finding for code that is right as it is: shown with -v and in JSON only."""
        found = self.note(blocks=False)
        return replace(found, status=Status.LEFT, message=f"{found.message} (left alone: {reason})")

    def fix(self, edits: list[Edit], safety: Safety | None = None, message: str = "", text: str = "") -> Finding:
        """Return a finding with edits. The imports that they need are read off their text and `text`."""
        own = self.module.facts.own
        if own and (why := vendoring.refusal(self.module, own, edits)):
            return self.note(f"{message or self.rule.message}; {why}")
        if any(map(self.module.loses_comment, edits)):
            return self.note(f"{message or self.rule.message}; not rewritten: a comment stands within it")
        used = roots_in(" ".join([text, *[e.text for e in edits]]), spelled(self.module))
        if HELPER in used and (why := vendoring.no_helper_here(self.module)):
            return self.note(f"{message or self.rule.message}; not rewritten: {why}")
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
        """Rewrite `node` if it matches. Return a finding without a fix if it matches but cannot be edited safely."""
        from torchmigrate.syntax import pattern as p

        target = node or self.node
        joined = [*self.module.enclosing(target, ast.JoinedStr)]
        island = self.module.island(joined[-1] if joined else target)
        if island is None:
            return self.note(f"{self.rule.summary} (not rewritten: LibCST cannot reproduce this expression)")
        kinds = tuple(sorted((where or {}).items()))
        # a variable that holds the API, and may be bound right here, is not the API
        names = isinstance(target, ast.Name)
        try:
            if joined:
                edits = _edits_within(self.module, joined[-1], self.scope, match, template, kinds, names)
            else:
                edits = _edits(self.module, island, [island.root], self.scope, match, template, kinds, names)
        except p.PatternError as error:
            return self.note(f"{self.rule.summary} (not rewritten: {error})")
        if edits is None:
            return None
        if joined and len(edits) > _MOST_IN_FSTRING:
            return self.note(f"{self.rule.summary} (not rewritten: more than {_MOST_IN_FSTRING} edits in one f-string)")
        return self.fix(edits, safety, message, spell(template, spelled(self.module)))


def _edits(
    module: SemanticModel,
    island: Expression,
    nodes: Iterable[cst.BaseExpression],
    scope: Scope,
    match: str,
    template: str,
    kinds: Iterable[tuple[str, str]],
    names: bool,
) -> list[Edit] | None:
    """Return the edits that rewrite those nodes that match, names only if asked; None if none does, or PatternError."""
    from torchmigrate.syntax import pattern as p
    from torchmigrate.syntax.pattern import instantiate

    compiled, where, text = p.compile_pattern(match), dict(kinds), spell(template, spelled(module))
    resolve = lambda chain: module.resolver.dotted(chain, scope)  # noqa: E731
    asked = (n for n in nodes if names or type(n).__name__ != "Name")
    matches = [m for n in asked if (m := island.match(compiled, n, resolve)) and p.admits(m, where)]
    return [e for m in matches for e in instantiate(m, text, island)] if matches else None


@query
def _edits_within(
    module: SemanticModel,
    joined: ast.JoinedStr,
    scope: Scope,
    match: str,
    template: str,
    kinds: tuple[tuple[str, str], ...],
    names: bool,
) -> list[Edit] | None:
    """Return the edits of all matches in an f-string, whose places Python before 3.12 does not tell apart."""
    island = module.island(joined)
    return _edits(module, island, island.expressions(), scope, match, template, kinds, names) if island else None
