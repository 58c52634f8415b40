"""Divide a run into the commits of `apply --commit`, one per pack.

Each step is the run with the fixes of the packs so far. All rules take part: a guarded region waits for its last pack.
"""

from __future__ import annotations

import copy
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine.worker import Job, Worker
from torchmigrate.helper.vendoring import Vendored
from torchmigrate.project.context import ProjectContext
from torchmigrate.rules.model import Pack, Rule, Ruleset
from torchmigrate.rules.packs import load_pack

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
