"""One file in, one result out, whatever happens to it: the part of a run that processes share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.edits import Changed, Edit, Failed, FileResult, Finding, Skipped, Unchanged, flatten, shifted
from torchmigrate.helper import Unbound, placed
from torchmigrate.notebook import Notebook, UnreadableNotebook
from torchmigrate.project import Facts
from torchmigrate.rule import Ruleset
from torchmigrate.source import UnreadableSource
from torchmigrate.table import Table, table

if TYPE_CHECKING:
    from torchmigrate.rewrite import Outcome


Done = tuple[FileResult, Unbound | None]


@dataclass(frozen=True, slots=True)
class Job:
    """One file for a worker."""

    path: str
    raw: bytes
    mode: str  # check | apply | survey: what apply would do and leave, all in places of the file as it is


class Worker:
    """Turns one job into one result; the second value is the rewritten text if it still needs the helper's import."""

    def __init__(self, ruleset: Ruleset, facts: Facts) -> None:
        self.ruleset, self.facts = ruleset, facts
        self._tables: dict[tuple[str, ...], Table] = {}

    def rules(self, path: Path) -> Table:
        """The dispatch table, without what `per-file-ignores` switches off in this file."""
        ignored = self.facts.settings.ignored_in(path)
        if ignored not in self._tables:
            self._tables[ignored] = table(self.ruleset.selected((), ignored))
        return self._tables[ignored]

    def __call__(self, job: Job) -> Done:
        from torchmigrate.rewrite import RewriteError

        path = Path(job.path)
        try:
            return self._one(path, job)
        except (UnreadableSource, UnreadableNotebook, RewriteError) as error:
            return Failed(path, str(error)), None
        except SyntaxError as error:
            return Failed(path, f"line {error.lineno}: not Python 3 ({error.msg})"), None
        except (RecursionError, MemoryError) as error:
            return Failed(path, f"too deeply nested to parse ({type(error).__name__})"), None
        except Exception as error:  # one file's bug must not cost the others; it is reported as ours
            import traceback

            where = traceback.extract_tb(error.__traceback__)[-1]
            name = os.path.basename(where.filename)
            return Failed(
                path, f"internal error: {type(error).__name__}: {error} ({name}:{where.lineno}); please report it"
            ), None

    def _one(self, path: Path, job: Job) -> Done:
        from torchmigrate import notebook, source, suppress
        from torchmigrate.module import Module
        from torchmigrate.rewrite import inspect, rewrite

        book = notebook.split(job.raw) if path.suffix == ".ipynb" else None
        text = book.source if book else source.decode(job.raw)
        if b"torchmigrate: skip-file" in text.utf8 and suppress.find(text).skip_file:
            return Skipped(path, "# torchmigrate: skip-file"), None
        if job.mode == "check":
            findings = inspect(Module(path, text, self.facts), self.rules(path), self.facts)
            return Unchanged(path, tuple(_in_cells(findings, book))), None
        outcome = rewrite(path, text, self.rules(path), self.facts)
        if job.mode == "survey":
            return Unchanged(path, tuple(_in_cells(list(outcome.in_original(text)), book))), None
        if not outcome.applied:
            return Unchanged(path, tuple(_in_cells(outcome.remaining, book))), None
        if book:
            return self._notebook(path, job.raw, book, outcome), None
        rewritten = replace(text, utf8=outcome.text)
        after = text.encode(outcome.text)
        unbound = Unbound(rewritten, outcome.needs_helper, outcome.needs_torch)
        changed = Changed(path, job.raw, after, outcome.applied, outcome.remaining)
        return changed, unbound if unbound.helper or unbound.torch else None

    def _notebook(self, path: Path, raw: bytes, book: Notebook, outcome: Outcome) -> Changed:
        """The helper's import goes into the cell that imports torch."""
        from torchmigrate import bindings, notebook
        from torchmigrate.module import Module

        edits = flatten(outcome.passes, len(book.source.utf8))
        findings = outcome.remaining
        module = Module(path, book.source, self.facts)
        missing = ["import torch"] if outcome.needs_torch else []
        if outcome.needs_helper and not bindings.imports_helper(module):
            missing.append(placed(self.facts, path, book.source).statement)
        if missing:
            first = min((e.start for e in edits), default=len(book.source.utf8))
            added = bindings.insertion(module, missing, first, before=True)
            ahead = [e for e in edits if e.start < added.start]
            grown = sum(len(e.text.encode()) - (e.end - e.start) for e in ahead)
            findings = tuple(shifted(findings, Edit(added.start + grown, added.start + grown, added.text)))
            edits = sorted([*edits, added])
        after = book.join(edits)
        applied = tuple(_in_cells(outcome.applied, book))
        return Changed(path, raw, after, applied, tuple(_in_cells(findings, notebook.split(after))))


def _in_cells(findings: Sequence[Finding], book: Notebook | None) -> Iterator[Finding]:
    if book is None:
        yield from findings
        return
    for finding in findings:
        cell, line = book.cell_of(finding.start)
        last = book.cell_of(finding.end)[1]
        yield replace(finding, cell=cell, line=line, end_line=last)
