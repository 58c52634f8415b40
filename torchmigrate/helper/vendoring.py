"""Vendoring: which file imports the helper from where, and the helper files that must be written for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from torchmigrate.base import safe_read
from torchmigrate.base.text import counted
from torchmigrate.diagnostics.results import Changed, Failed, FileResult, Skipped, shifted
from torchmigrate.helper.placement import Placement, placed, placement
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.helper_file import is_ours, is_untouched, public, runtime_source, unix_lines
from torchmigrate.source.edits import compose
from torchmigrate.source.encoding import Source


@dataclass(frozen=True, slots=True)
class Unbound:
    """A rewritten text that still lacks an import: the helper's, torch's, or both."""

    text: Source
    helper: bool
    torch: bool


_HOSTED = re.compile(rb'"colab"\s*:|google\.colab|colab\.research\.google\.com|"kaggle"\s*:')


_NAMED = 3  # functions that an edited helper lacks


class Vendored:
    """Collects where the helper is needed while results are bound to it."""

    def __init__(self, facts: ProjectContext) -> None:
        self.facts = facts
        self.needed: dict[str, set[Path]] = {}  # helper files, and which files import each
        self.hosted: list[Path] = []  # notebooks that also run where only they are

    def keep(self, result: FileResult) -> FileResult:
        """A file that binds what it uses: a rewritten notebook does."""
        if self.facts.own is None and _is_bound_notebook(result, self.facts.helper):
            self._need(placement(self.facts, result.path).path, result.path)
            self.hosted += [result.path] if self.needed and _HOSTED.search(result.after) else []
        return result

    def bind(self, result: FileResult, lacks: Unbound) -> FileResult:
        """Add the imports that a rewritten file lacks."""
        from torchmigrate.helper.import_edits import with_import

        assert isinstance(result, Changed)
        text = lacks.text
        place = placed(self.facts, result.path, text) if lacks.helper else Placement("", "")
        edit = with_import(text, result.path, self.facts, place.statement, lacks.torch)
        self._need(place.path, result.path)
        if edit is None:
            return result
        after = text.encode(compose(text.utf8, [edit]))
        findings = shifted(result.findings, edit, text.position(edit.start)[0])
        return Changed(result.path, result.before, after, result.applied, tuple(findings))

    def notes(self) -> Iterator[str]:
        """What a user has to do beside this."""
        if self.hosted:
            first, more = min(self.hosted).name, len(self.hosted) - 1
            who = f"{first} and {counted(more, 'more notebook')} run" if more else f"{first} runs"
            name = f"{self.facts.helper}.py"
            yield f"{who} on Colab or Kaggle, too, where {name} is not: upload it, or have a first cell fetch it"

    def _need(self, helper: str, path: Path) -> None:
        if helper:
            self.needed.setdefault(helper, set()).add(path)

    def completed(self, results: Iterable[FileResult]) -> list[FileResult]:
        """With the helper files to write: new ones, ours that are outdated. What is not ours is never overwritten, nor
        what was edited since; where the helper cannot be had, no file is rewritten to import it."""
        content = runtime_source()
        helpers = [r for path in sorted(self.needed) if (r := _write(Path(path), content, self.facts.texts.get(path)))]
        lost = {path: r.path.name for r in helpers if isinstance(r, Failed) for path in self.needed[str(r.path)]}
        return [*(_kept_back(r, lost) for r in results), *helpers]


def _kept_back(result: FileResult, lost: Mapping[Path, str]) -> FileResult:
    helper = lost.get(result.path)
    if helper is None or not isinstance(result, Changed):
        return result
    return Failed(result.path, f"not rewritten: the helper that it would import, {helper}, cannot be had")


def _write(path: Path, content: bytes, text: bytes | None) -> FileResult | None:
    if text is None and not os.path.lexists(path):
        return Changed(path, b"", content, (), new=True)
    if text is None and path.is_symlink():
        return Failed(path, "is a symbolic link; the helper is not written through it: put a file there")
    if not is_ours(path, text):
        return Failed(path, "exists and was not written by torchmigrate; rename it, or use --runtime package")
    before = safe_read.read(path) if text is None else text
    if is_untouched(before):
        return Changed(path, before, content, ()) if unix_lines(before) != content else None
    if lacks := sorted({*public(content)} - {*public(before)}):
        what = f"was edited since torchmigrate wrote it, so it is not updated; it lacks {', '.join(lacks[:_NAMED])}"
        return Failed(path, f"{what}{' and more' if lacks[_NAMED:] else ''}: move it away, apply, take the edits over")
    return Skipped(path, "was edited since torchmigrate wrote it, so it is not updated")


def _is_bound_notebook(result: FileResult, helper: str) -> TypeGuard[Changed]:
    return isinstance(result, Changed) and result.path.suffix == ".ipynb" and f"{helper}.".encode() in result.after
