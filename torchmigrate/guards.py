"""A guard and all that it guards change together, or neither does.

A region whose guarded code holds something only NVIDIA has keeps its guard; a ladder that names mps, xpu or npu beside
cuda is portable already.
"""

from __future__ import annotations

from dataclasses import replace

from torchmigrate import answered, libraries
from torchmigrate.edits import Finding, Status
from torchmigrate.ladders import PORTABLE
from torchmigrate.module import Module
from torchmigrate.regions import Region, Span
from torchmigrate.regions import regions as regions_of
from torchmigrate.scope import FUNCTIONS

_BOUND = "its guard also covers what stays bound to CUDA (line {})"
_IDLE = "it guards nothing that would change"


def decide(module: Module, findings: list[Finding]) -> list[Finding]:
    """Mark as LEFT the fixes of every region that must stay as it is, and device-type tests that guard nothing."""
    regions = list(regions_of(module, findings))
    library = libraries.names_in(module) if regions else None
    for region in regions:
        blocker = next((f for f in findings if _keeps(f) and region.holds(f)), None)
        at = blocker.start if blocker is not None else libraries.first_use(module, region, library)
        if not region.reason and at is not None:
            region.reason = _BOUND.format(module.source.position(at)[0])
    portable = {_home(module, r.guards[0]) for r in regions if r.reason == PORTABLE}
    for region in regions:
        if region.refusal and not region.reason and _home(module, region.guards[0]) in portable:
            region.reason = PORTABLE  # it refuses what the ladder would not take
    _spread(regions)
    blocked = [r for r in regions if r.reason]
    out = [_settle(f, blocked) for f in findings]
    idle = [f for f in out if f.fix and _only_follows(f, regions) and not _guards_a_fix(f, regions, out)]
    kept = {_home(module, _span(f)) for f in out if f.fix and f.rule == "device/is-available" and f not in idle}
    out = [_left(f, _IDLE) if f in idle and (f.follows or _home(module, _span(f)) not in kept) else f for f in out]
    answers = answered.reasons(module, out)
    return [_left(f, answers[f]) if f in answers else f for f in out]


def _home(module: Module, inner: Span) -> Span | None:
    """The function around a place: what it asks twice must be asked in the same way."""
    spans = (module.span(s) for s in module.scopes.statements if isinstance(s, FUNCTIONS))
    return max((s for s in spans if s[0] <= inner[0] and inner[1] <= s[1]), default=None)


def _only_follows(finding: Finding, regions: list[Region]) -> bool:
    """A test that is worth an edit only for what it guards: not `if torch.cuda.is_available(): print("use it")`."""
    asks = finding.rule == "device/is-available" and any(r.branch and r.guards == [_span(finding)] for r in regions)
    return finding.follows or asks


def _span(finding: Finding) -> Span:
    return finding.start, finding.end


def _left(finding: Finding, reason: str) -> Finding:
    return replace(finding, fix=None, status=Status.LEFT, message=f"{finding.message} (left alone: {reason})")


def _keeps(finding: Finding) -> bool:
    """Whether the code of a finding stays bound to CUDA: then so must the test that guards it."""
    if finding.follows:
        return False
    return finding.blocks or finding.status in (Status.HELD, Status.SUPPRESSED)


def _spread(regions: list[Region]) -> None:
    """A flag's region that must stay keeps the guards it shares with others."""
    for _ in regions:
        changed = False
        for region in regions:
            for other in regions:
                if other.reason and not region.reason and set(other.guards) & set(region.guards):
                    region.reason, changed = other.reason, True
        if not changed:
            return


def _settle(finding: Finding, blocked: list[Region]) -> Finding:
    region = next((r for r in blocked if finding.fix and r.holds(finding, inside=not r.refusal)), None)
    if region is None or finding.status is not Status.OPEN:
        return finding
    return _left(finding, region.reason)


def _guards_a_fix(finding: Finding, regions: list[Region], findings: list[Finding]) -> bool:
    mine = [r for r in regions if any(a <= finding.start and finding.end <= b for a, b in r.guards)]
    for region in mine:
        for other in findings:
            inside = any(a <= other.start and other.end <= b for a, b in region.covered)
            if inside and other.fix and not other.follows and _span(other) not in region.guards:
                return True
        if region.refusal:
            return True
    return False
