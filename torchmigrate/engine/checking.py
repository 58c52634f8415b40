"""Rewrite files, check all edits in six worlds, and rewrite again without those that would break a program."""

from __future__ import annotations

import ast
import copy
import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache
from pathlib import Path

from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Finding, Safety, Status, Unchanged
from torchmigrate.engine import worker
from torchmigrate.engine.worker import Done, Progress, Read
from torchmigrate.helper.placement import placement
from torchmigrate.project import mocks
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.import_graph import CUDA, KEEPING_SOURCE, reached
from torchmigrate.project.packaging import newest_of_pages
from torchmigrate.rewriting.native_style import chooses
from torchmigrate.rules.model import Ruleset
from torchmigrate.source.encoding import PYTHON_2, calls_python_2, is_python_2, of_old_python
from torchmigrate.syntax.resolver import last_name
from torchmigrate.worlds.check import Check, Held, Rewritten

ATTEMPTS = 16  # as the held edits of all files at once may need others to go, halves of the files are tried
RETRIES = 3  # an edit may have been held back for another one that was held back after it
FEW = 40  # so many edits are all tried again; of more, those that were held back before others
ENOUGH = 1_000_000  # statements run in such attempts, which takes about a minute: no more attempts are made after them
ROUNDS = 12  # holding one edit back may show that another cannot stand alone; after them, whole files are held back
_KEPT = "line {}: pickles of this class hold the source of its file, and are loaded where no helper is"


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
    run = _Run(todo, mode, ruleset, facts, jobs)
    run.begin(on_progress)
    checked = sum(len(each.edits) for each in run.rewrites.values())
    run.hold_back()
    return list(run.results.values()), run.facts, (checked, sum(map(len, run.facts.held.values())))


class _Run:
    """A run has the results of all files, and the rewritten ones, which are made again as edits are held back."""

    def __init__(self, todo: Sequence[Read], mode: str, ruleset: Ruleset, facts: ProjectContext, jobs: int) -> None:
        self.facts = facts
        self.results: dict[str, Done] = {}
        self.rewrites: dict[str, Rewritten] = {}
        self._texts, self._mode, self._ruleset, self._jobs = dict(todo), mode, ruleset, jobs
        self._outdated: set[str] = set()  # files whose findings in `check` do not tell yet what is held back
        self._steps = 0  # statements run to try edits again
        self._unfit: Held = {}  # what may not change whatever else does: behind a mock, or with an old Python

    def begin(self, on_progress: Progress | None) -> None:
        """Process all files, and those again for which the results of others count."""
        todo = [*self._texts.items()]
        first = worker.run(todo, self._mode, self._ruleset, self.facts, self._jobs, on_progress)
        surveyed = self.results = {str(done.result.path): done for done in first}
        if self._mode == "check":
            fixable = [path for path, done in self.results.items() if path in self._texts and _has_fix(done)]
            surveyed = dict(self._processed(fixable, "survey"))
        elif choosing := [path for path, done in self.results.items() if _writes_choice(self.facts, done)]:
            self.facts = _with_helpers(self.facts, self.results)
            beside = [path for path in choosing if placement(self.facts, Path(path)).path in self.facts.helpers]
            self.results |= dict(self._processed(beside, self._mode))
        self.rewrites = {path: done.rewritten for path, done in surveyed.items() if done.rewritten}
        self.facts = _with_raising(_with_askers(self.facts, surveyed), self.results)
        if self.facts.raising:
            leading = reached(self.facts.raising, self.facts.index.importing)
            self._rewrite(path for path in leading if path in self.rewrites)
        if self.facts.askers:
            hiding = {path for path, text in self._texts.items() if b"CUDA_VISIBLE_DEVICES" in text}
            self._rewrite(hiding - self.facts.askers)
            self._outdated |= hiding

    def hold_back(self) -> None:
        """Hold back every edit that does harm; what was held back for another edit is tried again beside the rest."""
        if self.rewrites:
            self._unfit = mocks.covered(self.facts.index) | self._of_kept_source() | self._of_old_python()
        whole = Check(self.facts)
        waiting = self._settle(whole, None)
        if sum(map(len, self.facts.held.values())) <= FEW:
            waiting = {*self.facts.held}
        for _ in range(RETRIES):
            retried = (self.facts.held.keys() & waiting) - self._unfit.keys()
            if not retried or self._steps > ENOUGH:
                break
            waiting = self._retry(retried, whole)
        if self._mode == "check":
            self.results |= dict(self._processed(sorted(self._outdated), self._mode))

    def _of_kept_source(self) -> Held:
        """Return all of the files with a class whose pickles hold the source of its file: `@persistent_class`.

        They are loaded in other checkouts and projects, too, which have no helper.
        """
        index, held = self.facts.index, Held()
        for keeper in sorted(index.holding(KEEPING_SOURCE)):
            scopes = self.facts.hierarchy.scopes(keeper)
            if scopes is None or b"__reduce__" not in index.read_or_nothing(keeper):
                continue
            for path in sorted(index.importing(keeper) & self.rewrites.keys()):
                if line := self._line_decorated(path, scopes.module.names):
                    held[path] = {(0, len(self._texts[path])): _KEPT.format(line)}
        return held

    def _line_decorated(self, path: str, names: Collection[str]) -> int:
        """Return the line of a file's first class that has a decorator of one of these names, or 0."""
        scopes = self.facts.hierarchy.scopes(path)
        for node in scopes.statements if scopes else ():
            for each in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                if last_name(each.func if isinstance(each, ast.Call) else each) in names:
                    return node.lineno
        return 0

    def _of_old_python(self) -> Held:
        """Return all of the files that run with an old Python alone, notebooks with such a cell among them.

        They import a file that Python 3, or Python 3.7, does not read, or only such files import them.
        """
        index, importers = self.facts.index, self.facts.index.importers
        # by path, the file that shows it
        told = {path: of_old_python(_error(done.result)) for path, done in self.results.items()}
        old = {path: path for path, words in told.items() if words}
        around = {use.importer for path in self.rewrites for use in importers.get(path, ())}
        others = {*reached(self.rewrites, index.imported_by), *around} - old.keys()
        newest = newest_of_pages(Path(index.root), "Python") if others else None
        tests = (is_python_2, calls_python_2) if newest and newest[0] < (3, 0) else (is_python_2,)
        texts = ((path, index.read_or_nothing(path)) for path in others if path.endswith(".py"))
        old |= {path: path for path, raw in texts if any(test(raw) for test in tests)}
        fresh = list(old)
        while fresh:
            using = {use.importer: old[path] for path in fresh for use in importers.get(path, ())}
            used = {p: old[path] for path in fresh for p in index.imported_by(path)}
            only = {p: why for p, why in used.items() if all(u.importer in old for u in importers.get(p, ()))}
            fresh = [*({**using, **only}.keys() - old.keys())]
            old = {**using, **only, **old}
        reasons = {why: told.get(why) or of_old_python(PYTHON_2) for why in old.values()}
        reason = "it runs together with {}, {}"
        there = ((p, reason.format(os.path.relpath(why, index.root), reasons[why])) for p, why in old.items())
        return {path: {(0, len(self._texts[path])): words} for path, words in there if path in self.rewrites}

    def _retry(self, paths: AbstractSet[str], whole: Check) -> set[str]:
        """Try the edits again that are held back in some files, or in as many of them as others allow.

        Returns the files with edits that are still held back, and that were checked together with ones that are not.
        """
        waiting: set[str] = set()
        groups = [sorted(paths)]
        for _ in range(ATTEMPTS):
            group = groups.pop()
            beside = self._regain({*group}, whole)
            if beside is not None:
                waiting |= beside
            elif len(group) > 1:
                half = len(group) // 2
                groups += [group[half:], group[:half]]
            if not groups or self._steps > ENOUGH:
                break
        return waiting

    def _regain(self, paths: set[str], whole: Check) -> set[str] | None:
        """Do so in all of these files, or return None where an edit would be lost for it that was made before.

        `whole` is the check of all files, whose groups are larger.
        """
        first, results, settled = self.facts, dict(self.results), dict(self.rewrites)
        self.facts = _released(self.facts, paths)
        self._rewrite(paths)
        check = Check(self.facts, settled)
        self._settle(check, paths)
        self._steps += check.steps
        if not all(_has_all(self.rewrites.get(path), settled[path]) for path in paths & settled.keys()):
            self.facts, self.results, self.rewrites = first, results, settled
            return None
        changed = {path for path in paths if self.rewrites.get(path) != settled.get(path)}
        held = self.facts.held.keys()
        return check.beside(held, changed) | whole.beside(held, changed)

    def _settle(self, check: Check, changed: set[str] | None) -> set[str]:
        """Hold edits back until those that are left do no harm. `changed` are the files to check, None for all.

        Returns the files that others were held back after.
        """
        before: set[str] = set()
        earlier: set[str] = set()
        for at in itertools.count():
            fresh = _touched(self._unfit, self.rewrites)
            if not fresh and self.rewrites:
                fresh = check.held_back(list(self.rewrites.values()), changed)
                changed = set()
            spared = check.without_mps.keys() - self.facts.without_mps.keys()
            if not fresh and not spared:
                break
            if at >= ROUNDS:
                whole = {path: (0, len(self.rewrites[path].before)) for path in fresh}
                fresh = {path: {whole[path]: next(iter(reasons.values()))} for path, reasons in fresh.items()}
            self.facts = _with_held(self.facts, fresh)
            self.facts.without_mps = {**check.without_mps}
            earlier |= check.beside(before, fresh.keys())
            before |= fresh.keys()
            fresh_paths = fresh.keys() | spared
            changed = changed if changed is None else changed | fresh_paths
            self._rewrite(fresh_paths)
        return earlier

    def _rewrite(self, paths: Iterable[str]) -> None:
        """Rewrite some files again, without what is held back."""
        mode = "survey" if self._mode == "check" else self._mode
        for path, done in self._processed(sorted(paths), mode):
            self._outdated.add(path)
            self.results[path] = done
            self.rewrites.pop(path, None)
            if done.rewritten:
                self.rewrites[path] = done.rewritten

    def _processed(self, paths: Iterable[str], mode: str) -> Iterator[tuple[str, Done]]:
        todo = [(path, self._texts[path]) for path in paths]
        for done in worker.run(todo, mode, self._ruleset, self.facts, self._jobs, None):
            yield str(done.result.path), done


def in_new_lines(results: Sequence[FileResult], facts: ProjectContext) -> list[FileResult]:
    """Return the results with the reasons of the check telling lines of the rewritten files, as the findings do."""
    changed = {str(r.path): r for r in results if isinstance(r, Changed) and r.path.suffix == ".py"}
    reasons = {path: {*spans.values()} for path, spans in facts.held.items()}

    @cache
    def moved(path: str) -> Sequence[tuple[str, int, int, int, int]]:
        return _moved_lines(changed[path])

    def retold(path: str, finding: Finding) -> Finding:
        match = _TOLD_LINE.match(finding.held) if finding.held in reasons[path] else None
        target = os.path.join(facts.index.root, match["file"]) if match and match["file"] else path
        if match is None or target not in changed:
            return finding
        line = int(match["line"]) - 1
        new = next((j + min(line - i, max(n - j - 1, 0)) for _, i, m, j, n in moved(target) if i <= line < m), line)
        held = f"{finding.held[: match.start('line')]}{new + 1}{finding.held[match.end('line') :]}"
        return replace(finding, held=held, message=finding.message.replace(finding.held, held))

    return [
        replace(r, findings=tuple(retold(str(r.path), f) for f in r.findings))
        if isinstance(r, (Changed, Unchanged)) and str(r.path) in reasons
        else r
        for r in results
    ]


def _moved_lines(result: Changed) -> Sequence[tuple[str, int, int, int, int]]:
    """Return which lines of the text before became which of the text after, as difflib's operations."""
    import difflib  # imported here, as only a run that holds edits back needs it

    before, after = result.before.splitlines(), result.after.splitlines()
    return difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()


_TOLD_LINE = re.compile(r"(?:(?P<file>[^:]+\.py), )?line (?P<line>\d+): ")


def _with_helpers(facts: ProjectContext, by_path: Mapping[str, Done]) -> ProjectContext:
    """Return the project context with the copies of the helper that the files import."""
    new = copy.copy(facts)
    new.helpers = frozenset(placement(facts, Path(path)).path for path in _asking(by_path))
    return new


def _with_askers(facts: ProjectContext, by_path: Mapping[str, Done]) -> ProjectContext:
    """Return the project context with the files that come to ask the helper."""
    new = copy.copy(facts)
    new.askers = _asking(by_path)
    return new


def _with_raising(facts: ProjectContext, by_path: Mapping[str, Done]) -> ProjectContext:
    """Return the project context with the calls that raise on MPS and stay as they are."""
    found: dict[str, frozenset[int]] = {}
    for path, done in by_path.items():
        result = done.result
        if not path.endswith(".py") or not isinstance(result, (Unchanged, Changed)):
            continue
        is_about_cuda = facts.index.holds(path, CUDA)  # there, a fix is unsafe where it may not raise at all
        left = (f for f in result.findings if f.raises and f.backends == ("mps",) and f.is_to_do)
        lines = {f.line for f in left if f.fix is None or not is_about_cuda}
        if lines and isinstance(result, Changed):  # calls are followed in the texts before
            moves = [(i - j, j, n) for _, i, _, j, n in _moved_lines(result)]
            lines = {line + shift for line in lines for shift, j, n in moves if j < line <= n}
        if lines:
            found[path] = frozenset(lines)
    new = copy.copy(facts)
    new.raising = found
    new.__dict__.pop("raisers", None)
    return new


def _asking(by_path: Mapping[str, Done]) -> frozenset[str]:
    """Return the files that ask the helper and do not import it yet."""
    return frozenset(path for path, done in by_path.items() if done.lacks and done.lacks.helper)


def _writes_choice(facts: ProjectContext, done: Done) -> bool:
    """Return whether a file writes out a choice of torch's own functions, which the helper has by name."""
    if facts.settings.style != "auto" or done.rewritten is None or (done.lacks and done.lacks.helper):
        return False
    return chooses(done.rewritten.edits)


def _error(result: FileResult) -> str:
    """Return what kept a file, or cells of a notebook, from being read, or ""."""
    if isinstance(result, (Changed, Unchanged)):
        return result.unread
    return result.error if isinstance(result, Failed) else ""


def _touched(spans: Held, rewrites: Mapping[str, Rewritten]) -> Held:
    """Return those of the spans that an edit changes."""
    found: Held = {}
    for path, reasons in spans.items():
        edits = rewrites[path].edits if path in rewrites else ()
        touched = {s: why for s, why in reasons.items() if any(e.start < s[1] and s[0] < e.end for e in edits)}
        if touched:
            found[path] = touched
    return found


def _has_fix(done: Done) -> bool:
    """Return whether a result of `check` has a fix that `apply` would make."""
    found = done.result.findings if isinstance(done.result, Unchanged) else ()
    return any(f.fix is not None and f.status is Status.OPEN and f.fix.safety is not Safety.DISPLAY for f in found)


def _released(facts: ProjectContext, paths: AbstractSet[str]) -> ProjectContext:
    """Return the project context with no edit of some files held back."""
    new = copy.copy(facts)  # keeps the import graph
    new.held = {path: spans for path, spans in facts.held.items() if path not in paths}
    return new


def _has_all(rewritten: Rewritten | None, settled: Rewritten) -> bool:
    """Return whether a file still has the edits that did no harm, which may use what another edit binds."""
    spans = {(edit.start, edit.end) for edit in rewritten.edits} if rewritten else set()
    return all((edit.start, edit.end) in spans for edit in settled.edits)


def _with_held(facts: ProjectContext, fresh: Held) -> ProjectContext:
    """Return the project context with more spans whose edits must not be made."""
    merged = {path: dict(spans) for path, spans in facts.held.items()}
    for path, spans in fresh.items():
        merged.setdefault(path, {}).update(spans)
    new = copy.copy(facts)  # keeps the import graph
    new.held = merged
    return new
