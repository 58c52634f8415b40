"""Divide a run into the commits of `apply --commit`, one per pack, or into the questions of `apply -i`.

Each step of the commits is the run with the fixes of the packs so far. All rules take part: a guarded region waits for
its last pack. A question stands for findings that belong together, and the plan is made by the answers.
"""

from __future__ import annotations

import copy
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchmigrate.diagnostics.finding import Changed, FileResult, Finding, Safety, Status, Unchanged
from torchmigrate.engine.worker import Done, Job, Worker
from torchmigrate.helper.vendoring import Vendored
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting.rewrite import inspect
from torchmigrate.rules.model import Pack, Rule, Ruleset
from torchmigrate.rules.packs import load_pack
from torchmigrate.semantic.guard_regions import regions
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source import encoding, notebook

_WIDTH = 72


@dataclass(frozen=True, slots=True)
class Step:
    """One commit: the new content of files by real path, and its message."""

    files: Mapping[Path, bytes]
    message: str

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


@dataclass(slots=True)
class _State:
    """The content of a file after the last step, and how often each rule was applied to it."""

    content: bytes
    rules: Counter[str] = field(default_factory=Counter)


def steps(
    changes: Sequence[Changed], helpers: Mapping[Path, bytes], facts: ProjectContext, ruleset: Ruleset
) -> list[Step]:
    """Return a run's commits: the helper's files, then the packs in order that change something."""
    rewritten = [change for change in changes if change.applied]
    out = [Step(helpers, _helper_message(helpers))] if helpers else []
    states = {change.path: _State(change.before) for change in rewritten}
    described = {pack: _described(pack, ruleset) for change in rewritten for pack in _packs(change)}
    packs = sorted(described, key=lambda name: (described[name].order, name))
    facts.index  # noqa: B018 (worked out once, for all steps)
    for at, pack in enumerate(packs):
        files, rules = _step(pack, packs[: at + 1], rewritten, states, facts, ruleset)
        if files:
            out.append(Step(files, message(described[pack], rules, ruleset.rules)))
    return out


def _described(name: str, ruleset: Ruleset) -> Pack:
    folder = next((rule.path.parent for rule in ruleset.rules.values() if rule.pack == name), Path(name))
    return load_pack(folder)


def _packs(change: Changed) -> set[str]:
    return {finding.rule.partition("/")[0] for finding in change.applied}


def _step(
    pack: str,
    fixing: Sequence[str],
    rewritten: Sequence[Changed],
    states: Mapping[Path, _State],
    facts: ProjectContext,
    ruleset: Ruleset,
) -> tuple[dict[Path, bytes], Counter[str]]:
    """Return the files that one more pack's fixes change, and how often each rule was applied; update `states`."""
    narrowed = copy.copy(facts)  # keeps the import graph
    narrowed.fixing = frozenset(fixing)
    worker, vendored = Worker(ruleset, narrowed), Vendored(narrowed)
    files: dict[Path, bytes] = {}
    rules: Counter[str] = Counter()
    for change in rewritten:
        if pack not in (packs := _packs(change)):
            continue
        result = change if packs <= set(fixing) else _rewrite_partly(change, worker, vendored)
        state = states[change.path]
        if result is None or result.after == state.content:
            continue
        applied = Counter(finding.rule for finding in result.applied)
        rules += applied - state.rules
        state.content, state.rules = result.after, applied
        files[change.path] = result.after
    return files, rules


def _rewrite_partly(change: Changed, worker: Worker, vendored: Vendored) -> Changed | None:
    """Return the file with only the fixes of the packs so far, or None if they change nothing."""
    done = worker(Job(str(change.path), change.before, "apply"))
    result = vendored.bind(done.result, done.lacks) if done.lacks else done.result
    return result if isinstance(result, Changed) else None


def message(pack: Pack, counts: Mapping[str, int], rules: Mapping[str, Rule]) -> str:
    """Subject and body of a pack's commit: each rule with its count and its reason, in a sentence."""
    own = {name: n for name, n in counts.items() if name.startswith(f"{pack.name}/")}
    guarded = {name: n for name, n in counts.items() if name not in own}
    parts = [pack.subject, "\n".join(_rows(own, rules))] if own else [pack.subject]
    if guarded:
        ahead = "Code behind a test for CUDA changes together with the test, so these come along:"
        parts.append("\n".join([*textwrap.wrap(ahead, _WIDTH), *_rows(guarded, rules)]))
    return "\n\n".join(parts) + "\n"


def _rows(counts: Mapping[str, int], rules: Mapping[str, Rule]) -> Iterator[str]:
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        text = f"- {name} ({count}): {reason(rules[name])}" if name in rules else f"- {name} ({count})"
        yield textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def reason(rule: Rule) -> str:
    """Return the first sentence of a rule's `why`, else its summary."""
    flat = " ".join(rule.why.split())
    found = re.match(r".+?[.](?=\s+[A-Z`\"]|$)", flat)
    return found.group() if found else flat or rule.summary


def _helper_message(helpers: Mapping[Path, bytes]) -> str:
    names = sorted({path.name for path in helpers})
    subject = f"Add {', '.join(names)}, which asks torch for the device that is there"
    body = (
        "One file that needs torch alone. On CUDA its functions are torch.cuda's own; elsewhere they speak to the "
        "accelerator that is there, or to the CPU. Nothing imports it yet."
    )
    return f"{subject}\n\n{textwrap.fill(body, _WIDTH)}\n"


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
