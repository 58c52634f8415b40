"""Vendoring: which file imports the helper from where, and the helper files that must be written for it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from torchmigrate.edits import Changed, Failed, FileResult, compose, shifted
from torchmigrate.imports import Placement
from torchmigrate.project import Facts, is_ours
from torchmigrate.source import Source

_PACKAGE = "from torchmigrate import runtime as accel"


class Vendored:
    """Collects where the helper is needed while results are bound to it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.needed: set[str] = set()

    def keep(self, result: FileResult) -> FileResult:
        """A file that binds what it uses; a rewritten notebook does, and finds the helper beside itself."""
        if (
            isinstance(result, Changed)
            and result.path.suffix == ".ipynb"
            and _mentions(result.after, self.facts.helper)
        ):
            self.needed.add(str(result.path.with_name(f"{self.facts.helper}.py")))
        return result

    def bind(self, result: FileResult, text: Source, torch: bool) -> FileResult:
        """Add the missing imports to a rewritten file whose new text is `text`."""
        from torchmigrate.rewrite import with_import

        assert isinstance(result, Changed)
        placement = self._placement(str(result.path))
        edit = with_import(text, result.path, self.facts, placement.statement, torch)
        if placement.path:
            self.needed.add(placement.path)
        if edit is None:
            return result
        after = text.encode(compose(text.utf8, [edit]))
        return Changed(result.path, result.before, after, result.applied, tuple(shifted(result.findings, edit)))

    def _placement(self, path: str) -> Placement:
        if self.facts.settings.runtime == "package":
            return Placement("", _PACKAGE)
        return self.facts.index.placement(path, self.facts.helper)

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
