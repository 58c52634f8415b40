"""Vendoring: which file imports the helper from where, and the helper files that must be written for it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from torchmigrate.edits import Changed, Failed, FileResult, compose, shifted
from torchmigrate.imports import Placement
from torchmigrate.module import Module
from torchmigrate.project import Facts, is_ours
from torchmigrate.source import Source


@dataclass(frozen=True, slots=True)
class Unbound:
    """A rewritten text that still lacks an import: the helper's, torch's, or both."""

    text: Source
    helper: bool
    torch: bool


_PACKAGE = "from torchmigrate import runtime as accel"


def placement(facts: Facts, path: Path) -> Placement:
    """Where the helper lies for a file, and the statement that imports it there; "" where nothing is vendored."""
    if facts.settings.runtime == "package":
        return Placement("", _PACKAGE)
    return facts.index.placement(str(path), facts.helper)


def placed(facts: Facts, path: Path, text: Source) -> Placement:
    """The same, or how the file with this text imports the project's own helper."""
    if facts.own:
        return Placement("", facts.own.statement(Module(path, text, facts)))
    return placement(facts, path)


class Vendored:
    """Collects where the helper is needed while results are bound to it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.needed: set[str] = set()

    def keep(self, result: FileResult) -> FileResult:
        """A file that binds what it uses: a rewritten notebook does."""
        if self.facts.own is None and _is_bound_notebook(result, self.facts.helper):
            self.needed |= {path for path in (placement(self.facts, result.path).path,) if path}
        return result

    def bind(self, result: FileResult, lacks: Unbound) -> FileResult:
        """Add the imports that a rewritten file lacks."""
        from torchmigrate.rewrite import with_import

        assert isinstance(result, Changed)
        text = lacks.text
        place = placed(self.facts, result.path, text) if lacks.helper else Placement("", "")
        edit = with_import(text, result.path, self.facts, place.statement, lacks.torch)
        if place.path:
            self.needed.add(place.path)
        if edit is None:
            return result
        after = text.encode(compose(text.utf8, [edit]))
        return Changed(result.path, result.before, after, result.applied, tuple(shifted(result.findings, edit)))

    def files(self) -> list[FileResult]:
        """The helper files to write: new ones, ours that are outdated; a file that is not ours is never overwritten."""
        content = runtime_source()
        return [r for path in sorted(self.needed) if (r := _write(Path(path), content))]


def _write(path: Path, content: bytes) -> FileResult | None:
    if not path.exists():
        return Changed(path, b"", content, (), new=True)
    if not is_ours(path):
        return Failed(path, "exists and was not written by torchmigrate; rename it, or use --runtime package")
    before = path.read_bytes()
    return Changed(path, before, content, ()) if before != content else None


def _is_bound_notebook(result: FileResult, helper: str) -> bool:
    notebook = isinstance(result, Changed) and result.path.suffix == ".ipynb"
    return notebook and f"{helper}.".encode() in result.after  # type: ignore[union-attr]


def runtime_source() -> bytes:
    """The text of the runtime helper, as it is vendored."""
    return resources.files("torchmigrate").joinpath("runtime.py").read_bytes()
