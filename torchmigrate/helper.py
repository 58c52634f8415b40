"""Vendoring: which file imports the helper from where, and the helper files that must be written for it."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeGuard

from torchmigrate import regular
from torchmigrate.edits import Changed, Failed, FileResult, Skipped, compose
from torchmigrate.files import MARKER
from torchmigrate.module import Module
from torchmigrate.own_helper import import_statement
from torchmigrate.passes import shifted
from torchmigrate.placement import Placement, place_of
from torchmigrate.project import Facts, is_ours
from torchmigrate.source import Source
from torchmigrate.words import counted


@dataclass(frozen=True, slots=True)
class Unbound:
    """A rewritten text that still lacks an import: the helper's, torch's, or both."""

    text: Source
    helper: bool
    torch: bool


_HOSTED = re.compile(rb'"colab"\s*:|google\.colab|colab\.research\.google\.com|"kaggle"\s*:')
_PACKAGE = "from torchmigrate import runtime as accel"
_NAMED = 3  # functions that an edited helper lacks


def placement(facts: Facts, path: Path) -> Placement:
    """Where the helper lies for a file, and the statement that imports it there; "" where nothing is vendored."""
    if facts.settings.runtime == "package":
        return Placement("", _PACKAGE)
    if path.suffix == ".ipynb":  # a kernel starts in its notebook's folder; dots lead nowhere there
        return Placement(f"{path.parent.as_posix()}/{facts.helper}.py", f"import {facts.helper}")
    return place_of(facts.index, str(path), facts.helper)


def placed(facts: Facts, path: Path, text: Source) -> Placement:
    """The same, or how the file with this text imports the project's own helper."""
    if facts.own:
        return Placement("", import_statement(Module(path, text, facts), facts.own))
    return placement(facts, path)


class Vendored:
    """Collects where the helper is needed while results are bound to it."""

    def __init__(self, facts: Facts) -> None:
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
        from torchmigrate.rewrite import with_import

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
    before = regular.read(path) if text is None else text
    if is_untouched(before):
        return Changed(path, before, content, ()) if _lines(before) != content else None
    if lacks := sorted({*public(content)} - {*public(before)}):
        what = f"was edited since torchmigrate wrote it, so it is not updated; it lacks {', '.join(lacks[:_NAMED])}"
        return Failed(path, f"{what}{' and more' if lacks[_NAMED:] else ''}: move it away, apply, take the edits over")
    return Skipped(path, "was edited since torchmigrate wrote it, so it is not updated")


def _lines(raw: bytes) -> bytes:
    """git may check out other line ends."""
    return raw.replace(b"\r\n", b"\n")


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def is_untouched(raw: bytes) -> bool:
    """Whether a vendored helper is as torchmigrate wrote it: its first line has the digest of the others."""
    first, _, body = _lines(raw).partition(b"\n")
    found = re.fullmatch(rb"# torchmigrate-runtime \S+ ([0-9a-f]{32})", first)
    return found is not None and found[1].decode() == _digest(body)


def public(raw: bytes) -> Iterable[str]:
    """What a helper offers; nothing where it is no Python."""
    try:
        body = ast.parse(raw).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in body:
        match statement:
            case ast.FunctionDef(name) | ast.ClassDef(name):
                names = [name]
            case ast.Assign(targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def _is_bound_notebook(result: FileResult, helper: str) -> TypeGuard[Changed]:
    return isinstance(result, Changed) and result.path.suffix == ".ipynb" and f"{helper}.".encode() in result.after


@cache
def runtime_source() -> bytes:
    """The text of the runtime helper, as it is vendored: with a digest, which tells later whether it was edited."""
    raw = _lines(resources.files("torchmigrate").joinpath("runtime.py").read_bytes())
    first, _, body = raw.partition(b"\n")
    assert first.startswith(MARKER)
    return first + b" " + _digest(body).encode() + b"\n" + body
