"""A guard and all that it guards change together, or neither does.

A region whose guarded code holds something only NVIDIA has keeps its guard; a ladder that names mps, xpu or npu beside
cuda is portable already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from torchmigrate import answered, libraries
from torchmigrate.edits import Finding, Status
from torchmigrate.ladders import PORTABLE
from torchmigrate.module import Module
from torchmigrate.regions import Region
from torchmigrate.regions import regions as regions_of
from torchmigrate.spans import Around, Inside, Span

_ASKS = "device/is-available"
_BOUND = "its guard also covers what stays bound to CUDA (line {})"
_IDLE = "it guards nothing that would change"


def decide(module: Module, findings: list[Finding]) -> list[Finding]:
    """Mark as LEFT the fixes of every region that must stay as it is, and device-type tests that guard nothing."""
    regions = list(regions_of(module, findings))
    if regions:
        findings = _idle_left(_bound_left(module, findings, regions), regions)
    answers = answered.reasons(module, findings)
    return [_left(f, answers[f]) if f in answers else f for f in findings]


def _bound_left(module: Module, findings: list[Finding], regions: list[Region]) -> list[Finding]:
    keeps, uses = Inside(_span(f) for f in findings if _keeps(f)), libraries.Uses(module)

    @cache
    def bound(region: Region) -> int | None:
        """Where it holds what stays bound to CUDA."""
        found = [start for span in (region.guard, *region.covered) for start, _ in keeps.find(*span)]
        at = min(found, default=uses.find(region))
        return bound(region.flag) if at is None and region.flag else at

    for region in regions:
        if not region.reason and (at := bound(region)) is not None:
            region.reason = _BOUND.format(module.source.position(at)[0])
    portable = {r.home for r in regions if r.reason == PORTABLE}
    for region in regions:
        if region.refusal and not region.reason and region.home in portable:
            region.reason = PORTABLE  # it refuses what the ladder would not take
    blocked = Around(_blocked(regions))
    return [_settle(f, blocked) for f in findings]


def _blocked(regions: list[Region]) -> Iterator[tuple[Span, str]]:
    """What must stay, and why; what a flag covers once, whatever the number of its assignments."""
    flags: set[Region] = set()
    for region in (r for r in regions if r.reason):
        spans = [region.statement or region.guard] if region.refusal else [region.guard, *region.covered]
        if region.flag and region.flag not in flags and not region.refusal:
            flags.add(region.flag)
            spans += region.flag.covered
        yield from ((span, region.reason) for span in spans)


def _settle(finding: Finding, blocked: Around[str]) -> Finding:
    reason = blocked.find(*_span(finding)) if finding.fix and finding.status is Status.OPEN else None
    return _left(finding, reason) if reason else finding


def _idle_left(findings: list[Finding], regions: list[Region]) -> list[Finding]:
    guarding = Around(_guarding(regions, findings))
    branches = {r.guard for r in regions if r.branch}
    idle = {f for f in findings if f.fix and _only_follows(f, branches) and not guarding.find(*_span(f))}
    home = {r.guard: r.home for r in regions}
    # what a function asks twice must be asked in the same way
    kept = {home.get(_span(f)) for f in findings if f.fix and f.rule == _ASKS and f not in idle}
    return [_left(f, _IDLE) if f in idle and (f.follows or home[_span(f)] not in kept) else f for f in findings]


def _guarding(regions: list[Region], findings: list[Finding]) -> Iterator[tuple[Span, bool]]:
    """The tests that guard something that is rewritten, beside themselves, or refuse."""
    fixes = Inside(_span(f) for f in findings if f.fix and not f.follows)

    @cache
    def covers(region: Region) -> set[Span]:
        found = {fix for span in region.covered for fix in fixes.find(*span)}
        return {*sorted(found | (covers(region.flag) if region.flag else set()))[:2]}

    return ((r.guard, True) for r in regions if r.refusal or covers(r) - {r.guard})


def _only_follows(finding: Finding, branches: set[Span]) -> bool:
    """A test that is worth an edit only for what it guards: not `if torch.cuda.is_available(): print("use it")`."""
    return finding.follows or (finding.rule == _ASKS and _span(finding) in branches)


def _span(finding: Finding) -> Span:
    return finding.start, finding.end


def _left(finding: Finding, reason: str) -> Finding:
    return replace(finding, fix=None, status=Status.LEFT, message=f"{finding.message} (left alone: {reason})")


def _keeps(finding: Finding) -> bool:
    """Whether the code of a finding stays bound to CUDA: then so must the test that guards it."""
    if finding.follows:
        return False
    return finding.blocks or finding.status in (Status.HELD, Status.SUPPRESSED)
