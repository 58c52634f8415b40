"""Vendoring: which file imports the helper from where, and the helper files that must be written for it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from torchmigrate.edits import Changed, Failed, FileResult, compose, shifted
from torchmigrate.imports import Placement
from torchmigrate.project import Facts, is_ours
from torchmigrate.source import Source

_PACKAGE = "from torchmigrate import runtime as accel"


def placement(facts: Facts, path: Path) -> Placement:
    """Where the helper lies for a file, and the statement that imports it there; "" where nothing is vendored."""
    if facts.settings.runtime == "package":
        return Placement("", _PACKAGE)
    return facts.index.placement(str(path), facts.helper)


class Vendored:
    """Collects where the helper is needed while results are bound to it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.needed: set[str] = set()

    def keep(self, result: FileResult) -> FileResult:
        """A file that binds what it uses: a rewritten notebook does."""
        if (
            isinstance(result, Changed)
            and result.path.suffix == ".ipynb"
            and _mentions(result.after, self.facts.helper)
        ):
            self.needed |= {path for path in (placement(self.facts, result.path).path,) if path}
        return result

    def bind(self, result: FileResult, text: Source, torch: bool) -> FileResult:
        """Add the missing imports to a rewritten file whose new text is `text`."""
        from torchmigrate.rewrite import with_import

        assert isinstance(result, Changed)
        place = placement(self.facts, result.path)
        edit = with_import(text, result.path, self.facts, place.statement, torch)
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


def _mentions(raw: bytes, helper: str) -> bool:
    return f"{helper}.".encode() in raw


def runtime_source() -> bytes:
    """The text of the runtime helper, as it is vendored."""
    return resources.files("torchmigrate").joinpath("runtime.py").read_bytes()
