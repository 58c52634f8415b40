"""Analyse one state of a file: the findings of `check`, and the results of `apply` for all or some findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base.text import UserError
from torchmigrate.config.config_file import pack_errors, settings_for
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Finding, Unchanged
from torchmigrate.engine import planner
from torchmigrate.engine.divide import Choices, Group, Key
from torchmigrate.formats.model import Report
from torchmigrate.lsp.documents import File
from torchmigrate.project.context import ProjectContext, project_root
from torchmigrate.project.text_rules import text_rules
from torchmigrate.rules import packs

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.rules.model import Ruleset


_ALL = frozenset[Key]()


@dataclass(frozen=True)
class Analysis:
    """The analysis of one state of a file: `findings` in order, or why it `failed` (often it does not parse)."""

    file: File
    settings: Settings
    findings: Sequence[Finding] = ()
    facts: ProjectContext | None = None
    failed: str | None = None
    _fixed: dict[frozenset[Key], Sequence[FileResult]] = field(default_factory=dict)

    @cached_property
    def rules(self) -> Ruleset:
        """The rules of the project's settings; raises UserError."""
        with pack_errors():
            return packs.load(self.settings.rule_paths, cases=False)

    def group(self, finding: Finding) -> Group | None:
        """Return the group of findings that is rewritten together with a finding, e.g. with its guard; or None."""
        here = [g for g in self._groups if (finding.rule, finding.start) in g.keys]
        around = [g for g in self._groups if any(f.start <= finding.start < f.end for f in g.findings)]
        return next(iter(here + around), None)

    def fix(self, keys: frozenset[Key]) -> Sequence[FileResult]:
        """Return the files that change if these findings are accepted; raises UserError if they cannot be rewritten."""
        return self._cached(keys, lambda: self._choices.results(self._widest.results, {str(self.file.path): keys}))

    def fix_all(self) -> Sequence[FileResult]:
        """Return the files that change if `apply` runs; raises UserError."""
        return self._cached(_ALL, lambda: _plan(self.file, self.settings, "apply").results)

    def _cached(self, keys: frozenset[Key], work: Callable[[], Sequence[FileResult]]) -> Sequence[FileResult]:
        if keys not in self._fixed:
            self._fixed[keys] = work()
        _refuse_failed(self._fixed[keys])
        return [result for result in self._fixed[keys] if isinstance(result, Changed)]

    @cached_property
    def _widest(self) -> Plan:
        """The plan with unsafe fixes, which the user may accept one by one."""
        return _plan(self.file, replace(self.settings, unsafe_fixes=True), "apply")

    @cached_property
    def _choices(self) -> Choices:
        facts = self._widest.facts
        assert facts is not None, "no fix without a finding"
        return Choices(facts, self.rules.selected(self.settings.select, self.settings.ignore))

    @cached_property
    def _groups(self) -> list[Group]:
        mine = [r for r in self._widest.results if isinstance(r, Changed) and r.path == self.file.path]
        return self._choices.groups(mine[0]) if mine else []

    def refuse(self) -> None:
        """Raise UserError if the file cannot be rewritten at all."""
        _refuse_failed([r for r in self._widest.results if r.path != self.file.path])


def _refuse_failed(results: Sequence[FileResult]) -> None:
    for result in results:
        if isinstance(result, Failed):
            raise UserError(f"{result.path.name}: {result.error}")


def analyse(file: File) -> Analysis:
    """Analyse a file; raises UserError if its settings or rules cannot be used."""
    settings = settings_for(
        [file.path], select=None, ignore=None, exclude=None, torch=None, backends=None, config=None, isolated=False
    )
    if not file.is_python and not _is_read(file.path, settings):
        return Analysis(file, settings)
    plan = _plan(file, settings, "check")
    mine = [result for result in plan.results if result.path == file.path]
    if failed := next((result.error for result in mine if isinstance(result, Failed)), None):
        return Analysis(file, settings, failed=failed)
    report = Report([r for r in mine if isinstance(r, Unchanged)], 1, "check", file.path.parent, settings.backends)
    return Analysis(file, settings, [finding for _, finding in report.findings], plan.facts)


def _plan(file: File, settings: Settings, mode: str) -> Plan:
    with pack_errors():
        return planner.plan_text(file.path, file.raw, settings, mode, helpers=_helpers(file))


def _helpers(file: File) -> Mapping[str, bytes]:
    """Return the helpers of the file's project that are open in the editor, also unsaved."""
    if not file.helpers:
        return {}
    root = project_root([file.path])
    return {path: text for path, text in file.helpers.items() if Path(path).is_relative_to(root)}


def _is_read(path: Path, settings: Settings) -> bool:
    """Return whether there are rules about a file that is not Python."""
    with pack_errors():
        return bool(text_rules(packs.load(settings.rule_paths, cases=False)).readable.match(path.as_posix()))
