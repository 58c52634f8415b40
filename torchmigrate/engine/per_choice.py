"""Divide a plan into the questions of `apply -i`, one for findings that belong together, and plan by the answers."""

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
    """Findings of a file that are fixed together or not at all, in order."""

    findings: tuple[Finding, ...]

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset((finding.rule, finding.start) for finding in self.findings)

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(finding.rule for finding in self.findings))


class Choices:
    """Divides the changes of a run into groups, and rewrites files with only the accepted findings."""

    def __init__(self, facts: ProjectContext, ruleset: Ruleset) -> None:
        self.facts, self.ruleset = facts, ruleset
        facts.index  # noqa: B018 (computed once, for all copies)

    def groups(self, change: Changed) -> list[Group]:
        """Return the questions about one file: guarded regions, and findings that overlap, are one group each."""
        book = notebook.split(change.before) if change.path.suffix == ".ipynb" else None
        module = SemanticModel(change.path, book.source if book else encoding.decode(change.before), self.facts)
        found = inspect(module, Worker(self.ruleset, self.facts).rules(change.path), self.facts)
        members = [{i for i, f in enumerate(change.applied) if r.holds(f)} for r in regions(module, found)]
        members += [{i, j} for i, j in _overlapping_pairs(change.applied)]
        joined = sorted(_connected(len(change.applied), members), key=min)
        groups = [Group(tuple(change.applied[i] for i in sorted(group))) for group in joined]
        return sorted(groups, key=lambda group: min(finding.start for finding in group.findings))

    def step(self, change: Changed, before: frozenset[Key], group: Group) -> Changed | None:
        """Return the change that accepting `group` adds to a file whose findings `before` are accepted, or None."""
        old, new = self._text_with(change, before), self._text_with(change, before | group.keys)
        return Changed(change.path, old, new, group.findings) if old != new else None

    def _text_with(self, change: Changed, keys: frozenset[Key]) -> bytes:
        result = self._rewrite(change, {str(change.path): keys}).result
        return result.after if isinstance(result, Changed) else change.before

    def _rewrite(self, change: Changed, accepted: Accepted) -> Done:
        return Worker(self.ruleset, self.narrowed(accepted))(Job(str(change.path), change.before, "apply"))

    def narrowed(self, accepted: Accepted) -> ProjectContext:
        """Return the project context in which only the accepted findings are fixed."""
        facts = copy.copy(self.facts)  # keeps the import graph
        facts.accepted = accepted
        return facts

    def results(self, planned: Sequence[FileResult], accepted: Accepted) -> list[FileResult]:
        """Return the plan with only the accepted findings fixed, and the imports and the helper that these need."""
        vendored = Vendored(self.narrowed(accepted))
        out: list[FileResult] = []
        for result in planned:
            if not isinstance(result, Changed):
                out.append(result)
            elif result.applied:
                out.append(_with_declined_open(_add_imports(vendored, self._rewrite(result, accepted))))
        once = {result.path: result for result in vendored.completed(out)}  # the helper may occur twice
        return sorted(once.values(), key=lambda r: str(r.path))


def _add_imports(vendored: Vendored, done: Done) -> FileResult:
    return vendored.bind(done.result, done.lacks) if done.lacks else vendored.keep(done.result)


def _with_declined_open(result: FileResult) -> FileResult:
    """Reopen the safe fixes that the user declined, so that they are reported as by `check`."""
    if not isinstance(result, (Changed, Unchanged)):
        return result
    return replace(result, findings=tuple(map(_reopen_safe, result.findings)))


def _reopen_safe(finding: Finding) -> Finding:
    """Return the finding as open if its fix is safe and was held back."""
    safe = finding.fix is not None and finding.fix.safety is Safety.SAFE
    return finding.with_status(Status.OPEN) if safe and finding.status is Status.HELD else finding


def _overlapping_pairs(findings: Sequence[Finding]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of findings (by index) that overlap or begin at the same place."""
    ordered = sorted(range(len(findings)), key=lambda i: (findings[i].start, -findings[i].end))
    for at, i in enumerate(ordered):
        for j in ordered[at + 1 :]:
            if findings[j].start >= findings[i].end and findings[j].start != findings[i].start:
                break
            yield i, j


def _connected(count: int, members: Sequence[set[int]]) -> list[set[int]]:
    """Return the connected components of `count` members, given sets of members that belong together."""
    home = {i: {i} for i in range(count)}
    for group in members:
        union = set().union(*(home[i] for i in group))
        for i in union:
            home[i] = union
    return list({id(group): group for group in home.values()}.values())


def answered(groups: Mapping[Path, frozenset[Key]]) -> Accepted:
    """Return the accepted findings by path, in the form of `ProjectContext.accepted`."""
    return {str(path): keys for path, keys in groups.items()}
