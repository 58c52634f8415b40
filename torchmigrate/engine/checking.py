"""Rewrite files, check all edits in six worlds, and rewrite again without those that would break a program."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from torchmigrate.diagnostics.finding import Safety, Status, Unchanged
from torchmigrate.engine import worker
from torchmigrate.engine.worker import Done, Progress, Read
from torchmigrate.project.context import ProjectContext
from torchmigrate.rules.model import Ruleset
from torchmigrate.worlds.check import Check, Held

ROUNDS = 12  # holding one edit back may show that another cannot stand alone


def run_checked(
    todo: Sequence[Read],
    mode: str,
    ruleset: Ruleset,
    facts: ProjectContext,
    jobs: int,
    on_progress: Progress | None,
) -> tuple[list[Done], ProjectContext, tuple[int, int]]:
    """Process the files in a mode of `worker.Job`; every edit in the results has passed the worlds check.

    Returns the results, the project context with the edits held back, and the numbers of edits checked and held.
    """
    done = list(worker.run(todo, mode, ruleset, facts, jobs, on_progress))
    by_path = {str(d.result.path): d for d in done}
    raw = dict(todo)
    if mode == "check":
        fixable = [(path, raw[path]) for path, d in by_path.items() if path in raw and _has_fix(d)]
        rewrites = {d.rewritten.path: d.rewritten for d in _run(fixable, "survey", ruleset, facts, jobs) if d.rewritten}
    else:
        rewrites = {d.rewritten.path: d.rewritten for d in done if d.rewritten}
    total = sum(len(r.edits) for r in rewrites.values())
    stale: set[str] = set()
    check = Check(facts)
    fresh: Held = {}
    for _ in range(ROUNDS if rewrites else 0):
        fresh = check.held_back(list(rewrites.values()), fresh.keys() or None)
        if not fresh:
            break
        facts = _with_held(facts, fresh)
        stale |= fresh.keys()
        again = [(path, raw[path]) for path in fresh]
        for result in _run(again, "survey" if mode == "check" else mode, ruleset, facts, jobs):
            path = str(result.result.path)
            by_path[path] = result
            rewrites.pop(path, None)
            if result.rewritten:
                rewrites[path] = result.rewritten
    if mode == "check" and stale:
        by_path |= {
            str(d.result.path): d for d in _run([(p, raw[p]) for p in sorted(stale)], mode, ruleset, facts, jobs)
        }
    held = sum(map(len, facts.held.values()))
    return list(by_path.values()), facts, (total, held)


def _run(todo: Sequence[Read], mode: str, ruleset: Ruleset, facts: ProjectContext, jobs: int) -> Iterable[Done]:
    return worker.run(todo, mode, ruleset, facts, jobs, None)


def _has_fix(done: Done) -> bool:
    """Return whether a result of `check` has a fix that `apply` would make."""
    found = done.result.findings if isinstance(done.result, Unchanged) else ()
    return any(f.fix is not None and f.status is Status.OPEN and f.fix.safety is not Safety.DISPLAY for f in found)


def _with_held(facts: ProjectContext, fresh: Held) -> ProjectContext:
    """Return the project context with more spans whose edits must not be made."""
    merged = {path: dict(spans) for path, spans in facts.held.items()}
    for path, spans in fresh.items():
        merged.setdefault(path, {}).update(spans)
    new = copy.copy(facts)  # keeps the import graph
    new.held = merged
    return new
