"""Migrate the copy of a project, and map its lines back to the original's and to the rules that rewrote them."""

from __future__ import annotations

import bisect
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

from torchmigrate.base.text import UserError, shorten
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, FileResult, Finding, Status, Unchanged, failures
from torchmigrate.engine import planner
from torchmigrate.project.helper_file import is_ours
from torchmigrate.source.edits import compose
from torchmigrate.verify.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin is a line (from 1) of the original project, and the rules that rewrote it, in order.

    `path` is relative to the project, with slashes.
    """

    path: str
    line: int
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" ({', '.join(self.rules)})" if self.rules else "")


@dataclass(frozen=True)
class Rewritten:
    """A rewritten file has its text before and after the migration, and the findings that were applied."""

    before: Sequence[bytes]
    after: Sequence[bytes]
    applied: Sequence[Finding]

    @cached_property
    def _blocks(self) -> list[tuple[int, int, int, int]]:
        """Yield (start, end) of the original and (start, end) of the rewritten lines, from 0, ends excluded."""
        matcher = SequenceMatcher(None, self.before, self.after, autojunk=False)
        return [(a, b, c, d) for _, a, b, c, d in matcher.get_opcodes() if d > c]

    def origin(self, line: int) -> tuple[int, tuple[str, ...]]:
        """Return the line of the original, and the rules that rewrote it; lines from 1."""
        at = bisect.bisect_right([block[2] for block in self._blocks], line - 1) - 1
        if at < 0:
            return line, ()
        a, b, c, d = self._blocks[at]
        if self.before[a:b] == self.after[c:d]:
            return a + line - c, ()
        if b - a == d - c:  # as many lines before as after: match them one by one
            a, b = a + line - 1 - c, a + line - c
        found = a + min(line - 1 - c, max(0, b - a - 1)) + 1
        return min(found, max(1, len(self.before))), self._rules(a, b)

    def _rules(self, start: int, end: int) -> tuple[str, ...]:
        touching = (f for f in self.applied if f.line - 1 < end and max(f.end_line, f.line) - 1 >= start)
        return tuple(dict.fromkeys(f.rule for f in touching))


@dataclass(frozen=True)
class Origins:
    """Map lines of the copy at `root`, which must exist, to the original.

    Call it with an absolute file and a line. It returns None for files outside the project and for the helper.
    """

    root: Path
    files: Mapping[str, Rewritten] = field(default_factory=dict)  # by path relative to `root`

    def __call__(self, file: str, line: int) -> Origin | None:
        path = Path(file).resolve()
        if not path.is_relative_to(self.root) or is_ours(path):
            return None
        name = path.relative_to(self.root).as_posix()
        rewritten = self.files.get(name)
        return Origin(name, *rewritten.origin(line)) if rewritten else Origin(name, line)

    def before(self, file: str) -> Sequence[bytes] | None:
        """Return the lines of the original of a file that was rewritten; None of all others."""
        path = Path(file).resolve()
        rewritten = self.files.get(path.relative_to(self.root).as_posix()) if path.is_relative_to(self.root) else None
        return rewritten.before if rewritten else None

    def moved(self, root: Path) -> Origins:
        """Return the same map for another copy of the tree."""
        return Origins(root, self.files)


def origins(root: Path, changes: Sequence[Changed]) -> Origins:
    """Map the lines that a migration of the tree at `root` changed; notebooks, run as scripts, have none."""
    texts = (c for c in changes if not c.new and c.path.suffix != ".ipynb")
    rewritten = {
        c.path.relative_to(root).as_posix(): Rewritten(c.before.splitlines(True), c.after.splitlines(True), c.applied)
        for c in texts
    }
    return Origins(root, rewritten)


@dataclass(frozen=True, slots=True)
class Migration:
    """The copy was migrated with this outcome: unsafe fixes not applied (`held`), and lines for people."""

    origins: Origins
    files: int
    edits: int
    held: int
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    known: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    """What `check` says of lines that were not rewritten, by path and line in the original."""
    restored: bool = False
    """Whether the project was migrated already, and the original comes from git or the journal."""


def migrate(sandbox: Sandbox, settings: Settings) -> Migration:
    """Rewrite the copy in place, with the original's settings; raises PackError, UserError."""
    root = sandbox.rewritten
    target = sandbox.project.within(root, sandbox.project.path)
    plan = planner.plan([target], _settings_for_copy(settings, sandbox), 1, "apply")
    changes = [result for result in plan.results if isinstance(result, Changed)]
    for change in changes:
        _write(change.path, change.after)
    failed = [f"{f.path.relative_to(root)}: {f.error}" for f in failures(plan.results)]
    applied = sum(len(change.applied) for change in changes)
    rewritten = sum(not change.new for change in changes)
    return Migration(
        origins(root, changes),
        rewritten,
        applied,
        _count_held(plan.results),
        tuple(plan.notes),
        tuple(failed),
        _known(plan.results, origins(root, changes)),
    )


_SAID = (Status.OPEN, Status.HELD, Status.DROPPED, Status.KNOWN)


def _known(results: Sequence[FileResult], origin: Origins) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the findings that remain, in words, for each of their lines; those of notebooks have no such lines."""
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for result in results:
        if not isinstance(result, (Changed, Unchanged)) or result.path.suffix == ".ipynb":
            continue
        for finding in (f for f in result.findings if f.status in _SAID):
            fix = f" ({_fix(result, finding)})" if finding.status is Status.HELD else ""
            for line in range(finding.line, max(finding.line, finding.end_line) + 1):
                if at := origin(str(result.path), line):
                    place = (at.path, at.line)
                    found[place] = (*found.get(place, ()), f"{finding.rule}: {finding.message}{fix}")
    return found


def _fix(result: Changed | Unchanged, finding: Finding) -> str:
    """Return what an unsafe fix makes of the finding's line, if it fits one."""
    assert finding.fix is not None
    after = result.after if isinstance(result, Changed) else result.text or result.path.read_bytes()
    lines = compose(after, finding.fix.edits).decode(errors="replace").splitlines()
    if any("\n" in edit.text for edit in finding.fix.edits) or finding.end_line > finding.line:
        return "--unsafe-fixes mends it"
    return f"--unsafe-fixes makes it `{shorten(lines[finding.line - 1].strip(), 100)}`"


def restore(sandbox: Sandbox, originals: Mapping[Path, bytes], settings: Settings) -> Migration:
    """Put what the files of a migrated project held before into the copy of the original.

    `originals`: by path in the project. Raises PackError, and UserError if none of them is inside it.
    """
    project, rewritten = sandbox.project, {}
    for path, before in originals.items():
        if not path.is_relative_to(project.anchor):
            continue
        copy, after = project.within(sandbox.original, path), project.within(sandbox.rewritten, path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if copy.is_symlink():
            copy.unlink()
        _write(copy, before)
        if after.is_file() and path.suffix == ".py":
            name = path.relative_to(project.anchor).as_posix()
            rewritten[name] = Rewritten(before.splitlines(True), after.read_bytes().splitlines(True), ())
    if not rewritten:
        raise UserError("no Python file of this project differs from its original: there is nothing to compare")
    target = project.within(sandbox.rewritten, project.path)
    said = planner.plan([target], _settings_for_copy(settings, sandbox), 1, "check").results
    origin = Origins(sandbox.rewritten, rewritten)
    return Migration(origin, len(rewritten), 0, 0, known=_known(said, origin), restored=True)


def _settings_for_copy(settings: Settings, sandbox: Sandbox) -> Settings:
    """Return the settings with `root`, to which patterns are relative, moved to the copy."""
    anchor, copy = sandbox.project.anchor, sandbox.rewritten
    root = Path(os.path.realpath(settings.root))
    if root.is_relative_to(anchor):
        return replace(settings, root=copy / root.relative_to(anchor))
    up = len(anchor.relative_to(root).parts)  # the settings lie above the repository: go as many steps up from the copy
    return replace(settings, root=copy.parents[up - 1] if up <= len(copy.parents) else copy)


def _write(path: Path, content: bytes) -> None:
    if path.exists() and path.stat().st_nlink > 1:  # the other copy has it, too
        path.unlink()
    if path.exists() and not os.access(path, os.W_OK):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    path.write_bytes(content)


def _count_held(results: Sequence[FileResult]) -> int:
    kept = (r for r in results if isinstance(r, (Changed, Unchanged)))
    return sum(finding.status is Status.HELD for result in kept for finding in result.findings)
