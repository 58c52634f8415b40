"""A run's rewrite as the questions of `apply -i`: what belongs together is one, and the answers make the plan anew."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.diagnostics.finding import Changed, FileResult, Finding, Safety, Status, Unchanged
from torchmigrate.engine.worker import Done, Job, Worker
from torchmigrate.helper.vendoring import Vendored
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting.rewrite import inspect
from torchmigrate.rules.model import Ruleset
from torchmigrate.semantic.guard_regions import regions
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source import encoding, notebook

Key = tuple[str, int]
Accepted = Mapping[str, frozenset[Key]]


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of a file that are rewritten together or not at all, in order."""

    findings: tuple[Finding, ...]

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset((finding.rule, finding.start) for finding in self.findings)

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(finding.rule for finding in self.findings))


class Choices:
    """What a run would do to its files, for some of its findings alone."""

    def __init__(self, facts: ProjectContext, ruleset: Ruleset) -> None:
        self.facts, self.ruleset = facts, ruleset
        facts.index  # noqa: B018 (worked out once, for all that follows)

    def groups(self, change: Changed) -> list[Group]:
        """The questions about one file: a guarded region is one, and so are findings that lie in each other."""
        book = notebook.split(change.before) if change.path.suffix == ".ipynb" else None
        module = SemanticModel(change.path, book.source if book else encoding.decode(change.before), self.facts)
        found = inspect(module, Worker(self.ruleset, self.facts).rules(change.path), self.facts)
        members = [{i for i, f in enumerate(change.applied) if r.holds(f)} for r in regions(module, found)]
        members += [{i, j} for i, j in _touching(change.applied)]
        joined = sorted(_joined(len(change.applied), members), key=min)
        groups = [Group(tuple(change.applied[i] for i in sorted(group))) for group in joined]
        return sorted(groups, key=lambda group: min(finding.start for finding in group.findings))

    def step(self, change: Changed, before: frozenset[Key], group: Group) -> Changed | None:
        """What accepting the group changes in a file where `before` is accepted; None where that is nothing."""
        old, new = self._text(change, before), self._text(change, before | group.keys)
        return Changed(change.path, old, new, group.findings) if old != new else None

    def _text(self, change: Changed, keys: frozenset[Key]) -> bytes:
        result, _ = self._done(change, {str(change.path): keys})
        return result.after if isinstance(result, Changed) else change.before

    def _done(self, change: Changed, accepted: Accepted) -> Done:
        return Worker(self.ruleset, self.narrowed(accepted))(Job(str(change.path), change.before, "apply"))

    def narrowed(self, accepted: Accepted) -> ProjectContext:
        facts = copy.copy(self.facts)  # with what is worked out already
        facts.accepted = accepted
        return facts

    def results(self, planned: Sequence[FileResult], accepted: Accepted) -> list[FileResult]:
        """The plan with what was accepted alone, its imports and the helper where these need them."""
        vendored = Vendored(self.narrowed(accepted))
        out: list[FileResult] = []
        for result in planned:
            if not isinstance(result, Changed):
                out.append(result)
            elif result.applied:
                out.append(_offered(_bound(vendored, *self._done(result, accepted))))
        once = {result.path: result for result in vendored.completed(out)}  # the helper may be in both
        return sorted(once.values(), key=lambda r: str(r.path))


def _bound(vendored: Vendored, result: FileResult, lacks: object) -> FileResult:
    return vendored.bind(result, lacks) if lacks else vendored.keep(result)  # type: ignore[arg-type]


def _offered(result: FileResult) -> FileResult:
    """A safe fix that was not wanted is open, as for `check`; not an unsafe one held back."""
    if not isinstance(result, (Changed, Unchanged)):
        return result
    return replace(result, findings=tuple(map(_open, result.findings)))


def _open(finding: Finding) -> Finding:
    safe = finding.fix is not None and finding.fix.safety is Safety.SAFE
    return finding.with_status(Status.OPEN) if safe and finding.status is Status.HELD else finding


def _touching(findings: Sequence[Finding]) -> Iterator[tuple[int, int]]:
    ordered = sorted(range(len(findings)), key=lambda i: (findings[i].start, -findings[i].end))
    for at, i in enumerate(ordered):
        for j in ordered[at + 1 :]:
            if findings[j].start >= findings[i].end and findings[j].start != findings[i].start:
                break
            yield i, j


def _joined(count: int, members: Sequence[set[int]]) -> list[set[int]]:
    """Connected components."""
    home = {i: {i} for i in range(count)}
    for group in members:
        union = set().union(*(home[i] for i in group))
        for i in union:
            home[i] = union
    return list({id(group): group for group in home.values()}.values())


def answered(groups: Mapping[Path, frozenset[Key]]) -> Accepted:
    """What had a yes, as rewrite.py looks it up."""
    return {str(path): keys for path, keys in groups.items()}
