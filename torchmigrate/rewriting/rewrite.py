"""The rewrite of one file in memory: find, choose and apply fixes until none is left, then drop unused imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Finding, Safety, Status, choose
from torchmigrate.helper import import_edits
from torchmigrate.helper.placement import placement
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting import guard_policy
from torchmigrate.rewriting.visitor import DispatchTable, Visitor
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import binds_torch, helper_names, spelled
from torchmigrate.source.edits import Edit, Span, Touching, compose, original_offset
from torchmigrate.source.encoding import Source

PASSES = 10


class RewriteError(Exception):
    """A rewrite by the rules named has no end, or does not parse: a bug of ours, so the file stays as it is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a rewrite. `passes` holds the edits of each pass, each to the text that the pass before left."""

    text: bytes
    applied: tuple[Finding, ...]
    remaining: tuple[Finding, ...]
    needs_helper: bool = False
    needs_torch: bool = False
    passes: tuple[tuple[Edit, ...], ...] = ()

    def in_original(self, source: Source) -> Iterator[Finding]:
        """Yield all findings, the applied ones too, with their places in the text before the rewrite."""
        yield from self.applied
        yield from (_in_original(finding, self.passes, source) for finding in self.remaining)


def inspect(
    module: SemanticModel, rules: DispatchTable, facts: ProjectContext, passes: Sequence[tuple[Edit, ...]] = ()
) -> list[Finding]:
    """Return all findings of one pass after `passes`. Guard regions and suppressions are decided, no fix is applied."""
    raw = list(dict.fromkeys(f for f in Visitor(module, rules).findings() if f))
    hidden = suppressions.find(module.source, module.tree)
    placed = [_placed(module, finding) for finding in raw]
    placed = [f.with_status(Status.SUPPRESSED) if hidden.status(f.rule, f.line) else f for f in placed]
    wanted = _wanted(placed, module.path, facts, passes)
    settled = [_held(f, facts, wanted) for f in placed]
    held_back = Touching(facts.held.get(str(module.path), {}).items())
    settled = [_checked(f, held_back, passes) for f in settled]
    found = [*guard_policy.decide(module, settled), *_idle_comments(module, hidden, rules)]
    return sorted(found, key=lambda f: (f.start, -f.end, f.rule))


def reported(findings: Sequence[Finding], text: bytes) -> list[Finding]:
    """Return the findings that a check tells: of two fixes for one edit, the wider one alone.

    A fix gives way if another one that will be applied replaces its whole place by a text without it.
    """
    wide = [(e, f) for f in findings if f.fix and f.status is Status.OPEN for e in f.fix.edits if e.start < e.end]
    wide.sort(key=lambda pair: pair[0].start)
    told: list[Finding] = []
    open_: list[tuple[Edit, Finding]] = []
    at = 0
    for finding in sorted(findings, key=lambda f: f.start):
        while at < len(wide) and wide[at][0].start <= finding.start:
            open_.append(wide[at])
            at += 1
        open_ = [(edit, owner) for edit, owner in open_ if edit.end > finding.start]
        if not any(_replaces(edit, owner, finding, text) for edit, owner in open_):
            told.append(finding)
    return sorted(told, key=lambda f: (f.start, -f.end, f.rule))


def _replaces(edit: Edit, owner: Finding, finding: Finding, text: bytes) -> bool:
    """Return whether the owner's edit does away with the place of another finding that has a fix of its own."""
    if finding is owner or finding.fix is None or finding.status in (Status.SUPPRESSED, Status.LEFT):
        return False
    if not (edit.start <= finding.start and finding.end <= edit.end) or finding.fix.edits == owner.fix.edits:  # type: ignore[union-attr]
        return False
    return text[finding.start : finding.end].decode() not in edit.text


def _idle_comments(module: SemanticModel, hidden: suppressions.Suppressions, rules: DispatchTable) -> Iterator[Finding]:
    """Yield a finding for each suppression that names no rule or suppresses nothing."""
    for line, name, why in hidden.unused(rules.known, rules.active):
        start = module.source.line_starts[line - 1]
        end = start + len(module.source.line_at(start))
        what = f"`ignore[{name}]`: {why}" if name else why
        yield _placed(module, Finding("suppression", Safety.DISPLAY, start, end, what))


def _placed(module: SemanticModel, finding: Finding) -> Finding:
    start, end = module.source.position(finding.start), module.source.position(finding.end)
    return replace(finding, line=start[0], column=start[1], end_line=end[0], end_column=end[1])


def _held(finding: Finding, facts: ProjectContext, wanted: Sequence[Finding] | None) -> Finding:
    if finding.fix is None or finding.status is not Status.OPEN:
        return finding
    unsafe = finding.fix.safety is not Safety.SAFE and not facts.settings.unsafe_fixes
    waits = facts.fixing is not None and finding.rule.partition("/")[0] not in facts.fixing
    if wanted is not None:  # a finding inside a wanted one gives way to it, or goes with it
        waits = waits or not any(w.start <= finding.start and finding.end <= w.end for w in wanted)
    return finding.with_status(Status.HELD) if unsafe or waits else finding


def _checked(finding: Finding, held: Touching[str], passes: Sequence[tuple[Edit, ...]]) -> Finding:
    """Return a finding as left alone if its place or one of its edits is held back."""
    if not held or finding.fix is None or finding.status is not Status.OPEN:
        return finding
    places = [(finding.start, finding.end), *((edit.start, edit.end) for edit in finding.fix.edits)]
    here, *edits = [(_original(start, passes), _original(end, passes)) for start, end in places]
    reason = _why_held(held, here, edits)
    if reason is None:
        return finding
    message = f"{finding.message} (left alone: {reason})"
    return replace(finding, fix=None, status=Status.LEFT, message=message, blocks=True, held=reason)


def _why_held(held: Touching[str], here: Span, edits: Sequence[Span]) -> str | None:
    """Return why an edit in a finding's place, or one of its edits, is held back; None if none is."""
    for span in (here, *edits):
        for (start, end), why in held.find(*span):
            if (start == end and span == here) or (start, end) == span or (start < span[1] and span[0] < end):
                return why
    return None


def _wanted(
    findings: Sequence[Finding], path: Path, facts: ProjectContext, passes: Sequence[tuple[Edit, ...]]
) -> list[Finding] | None:
    """Return the findings that the user accepted; None if nobody was asked."""
    if facts.accepted is None:
        return None
    keys = facts.accepted.get(str(path), frozenset())
    return [f for f in findings if f.fix and (f.rule, _original(f.start, passes)) in keys]


def _original(offset: int, passes: Sequence[tuple[Edit, ...]]) -> int:
    """Translate an offset of the text after all passes to the text before them."""
    for edits in reversed(passes):
        offset = original_offset(edits, offset)
    return offset


def rewrite(
    path: Path, source: Source, rules: DispatchTable, facts: ProjectContext, plain: bool = True, tidy: bool = False
) -> Outcome:
    """Rewrite one module; raises RewriteError, or SyntaxError, ValueError, RecursionError for no Python 3.

    `plain` False leaves each edit as its rule makes it: rules are tested that way. `tidy` drops imports of torch that
    the edits leave without a use.
    """
    outcome = _rewrite(SemanticModel(path, source, facts), rules, plain, tidy)
    if not outcome.needs_torch:
        return outcome
    # The file uses `torch` without importing it. The rewrite adds the import, so rewrite again with the name resolved;
    # otherwise a second run would find more.
    again = SemanticModel(path, source, facts, gets_torch=True)
    return replace(_rewrite(again, rules, plain, tidy), needs_torch=True)


def _rewrite(original: SemanticModel, rules: DispatchTable, plain: bool, tidy: bool) -> Outcome:
    module, source, facts = original, original.source, original.facts
    applied: list[Finding] = []
    passes: list[tuple[Edit, ...]] = []
    respelled = False
    for _ in range(PASSES):
        findings = inspect(module, rules, facts, passes)
        ready = [f for f in findings if f.fix and f.status is Status.OPEN]
        chosen, _ = choose(sorted(ready, key=_preference))
        edits = tuple(sorted({e for f in chosen for e in f.fix.edits}))  # type: ignore[union-attr]
        applied += [_in_original(f.with_status(Status.APPLIED), passes, source) for f in chosen]
        if not chosen:
            edits = plainer(module, original, passes) if plain else ()
            edits = edits or _natively(module, original, passes, rules)  # rules may have work in the native code, too
            edits = edits or (plainer(module, original, passes, lines=True) if plain else ())
            respelled = respelled or bool(edits)
        if not edits:
            break
        module = _next(module, edits, chosen)
        passes.append(edits)
    else:
        raise RewriteError(f"does not come to rest after {PASSES} passes ({_names(applied[-5:])})")
    seen = module
    if not applied:
        return Outcome(source.utf8, (), tuple(findings))
    needs = {name for f in applied if f.fix for name in f.fix.needs}
    if respelled:
        native = {"torch"} if facts.writes_native and _names_torch(module) else set()
        needs = (needs - {"accel"}) | native | ({"accel"} if _calls_helper(module) else set())
    drops = tuple(sorted(import_edits.removals(original, module, tidy)))
    if drops:
        module = _next(module, drops, applied)
        passes.append(drops)
    remaining = findings if module is seen else inspect(module, rules, facts, passes)
    torch = "torch" in needs and not binds_torch(module)
    return Outcome(module.source.utf8, tuple(applied), tuple(remaining), "accel" in needs, torch, tuple(passes))


def plainer(
    module: SemanticModel, original: SemanticModel, passes: Sequence[tuple[Edit, ...]], lines: bool = False
) -> tuple[Edit, ...]:
    """Return edits to what the passes wrote that make it what people would write, or that break long lines."""
    if not passes:
        return ()
    from torchmigrate.rewriting import native_style, plain_lines

    held = module.facts.held.get(str(module.path), {})

    def allowed(offset: int) -> bool:
        at = _original(offset, passes)
        return not any(start <= at <= end for start, end in held)

    work = plain_lines.folded if lines else plain_lines.plainer
    return tuple(sorted(work(module, list(native_style.written(original.source.utf8, passes)), allowed)))


def _natively(
    module: SemanticModel, original: SemanticModel, passes: Sequence[tuple[Edit, ...]], rules: DispatchTable
) -> tuple[Edit, ...]:
    """Return edits to torch.accelerator of the helper's calls that a pass wrote, where they mean the same."""
    if not module.facts.writes_native or not passes:
        return ()
    from torchmigrate.rewriting import native_style

    spans = list(native_style.written(original.source.utf8, passes))
    edits = tuple(sorted(native_style.respelled(module, spans, rules)))
    if edits and module.facts.settings.style == "auto":
        if _calls_helper(_next(module, edits, ())):
            return ()  # a file that needs the helper all the same calls it throughout
        if native_style.chooses(edits) and placement(module.facts, module.path).path in module.facts.helpers:
            return ()  # where a file beside it calls the helper, a choice is not written out
    return edits


def _calls_helper(module: SemanticModel) -> bool:
    """Return whether a file imports or calls the helper."""
    return import_edits.imports_helper(module) or bool(helper_names(module))


def _names_torch(module: SemanticModel) -> bool:
    return any(isinstance(node, ast.Name) and node.id == spelled(module)["torch"] for node in module.nodes)


def _preference(finding: Finding) -> tuple[int, int]:
    """Return the sort key of a fix: whole idioms come before fixes inside them."""
    assert finding.fix is not None
    return (min(e.start - e.end for e in finding.fix.edits), finding.start)


def _next(module: SemanticModel, edits: Sequence[Edit], findings: Sequence[Finding]) -> SemanticModel:
    text = compose(module.source.utf8, edits)
    try:
        return SemanticModel(
            module.path, replace(module.source, utf8=text), module.facts, module.original, module.gets_torch
        )
    except (SyntaxError, ValueError) as error:
        raise RewriteError(f"would no longer parse ({error}); rules: {_names(findings)}") from None


def _names(findings: Sequence[Finding]) -> str:
    return ", ".join(sorted({f.rule for f in findings}))


def _in_original(finding: Finding, passes: Sequence[tuple[Edit, ...]], source: Source) -> Finding:
    if not passes:
        return finding
    start, end = _original(finding.start, passes), _original(finding.end, passes)
    (line, column), (end_line, end_column) = source.position(start), source.position(end)
    return replace(finding, start=start, end=end, line=line, column=column, end_line=end_line, end_column=end_column)
