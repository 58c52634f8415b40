"""A finding's fix as replacements in its file: the edits, and the imports that go with them, as `apply` writes them
where the finding is alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchmigrate.formats.positions import Entry, utf16
from torchmigrate.semantic.spelling import spelled
from torchmigrate.helper import import_edits
from torchmigrate.helper.import_edits import with_import
from torchmigrate.helper.placement import placed
from torchmigrate.project.context import ProjectContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import Edit, compose, flatten
from torchmigrate.source.encoding import Source, decode


@dataclass(slots=True)
class Fixes:
    """Of the findings of one `check`. Keeps the file that it read last."""

    facts: ProjectContext
    _last: tuple[Path, SemanticModel] | None = field(default=None)

    def replacements(self, entry: Entry) -> list[dict[str, Any]]:
        """SARIF's, in the order of the file. None in a notebook: its fixes are cells', not the JSON file's."""
        if entry.finding.cell is not None or entry.finding.fix is None:
            return []
        try:
            module = self._module(entry.path)
            return [_replacement(module.source, edit) for edit in self._edits(entry, module)]
        except (OSError, SyntaxError, ValueError, RecursionError):  # the file is no longer what was checked
            return []

    def _module(self, path: Path) -> SemanticModel:
        if self._last is None or self._last[0] != path:
            self._last = path, SemanticModel(path, decode(path.read_bytes()), self.facts)
        return self._last[1]

    def _edits(self, entry: Entry, module: SemanticModel) -> list[Edit]:
        fix = entry.finding.fix
        assert fix is not None
        passes: list[tuple[Edit, ...]] = [tuple(sorted(set(fix.edits)))]
        text = replace(module.source, utf8=compose(module.source.utf8, passes[0]))
        after = SemanticModel(entry.path, text, self.facts)
        if drops := tuple(import_edits.removals(module, after)):
            passes.append(drops)
            text = replace(text, utf8=compose(text.utf8, drops))
            after = SemanticModel(entry.path, text, self.facts)
        torch = "torch" in fix.needs and not any(spelled(after)["torch"] in scope.names for scope in after.scopes)
        if "accel" in fix.needs or torch:
            statement = placed(self.facts, entry.path, text).statement if "accel" in fix.needs else ""
            edit = with_import(text, entry.path, self.facts, statement, torch)
            passes += [(edit,)] if edit else []
        return flatten(passes, len(module.source.utf8))


def _replacement(source: Source, edit: Edit) -> dict[str, Any]:
    region = _position(source, edit.start, "start") | _position(source, edit.end, "end")
    return {"deletedRegion": region, **({"insertedContent": {"text": edit.text}} if edit.text else {})}


def _position(source: Source, offset: int, end: str) -> dict[str, int]:
    line, column = source.position(offset)
    text = source.line_at(offset).decode(errors="replace")
    return {f"{end}Line": line, f"{end}Column": utf16(text, column)}
