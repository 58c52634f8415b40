"""Guard the changes of the user, and make the commits of `--commit` and `--branch`: choose the target, publish them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.apply import commits
from torchmigrate.base import file_io
from torchmigrate.base.text import UserError, counted, visible
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine import divide
from torchmigrate.helper.placement import Placement, placed, placement
from torchmigrate.project.helper_file import is_ours
from torchmigrate.rules import packs
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.encoding import decode
from torchmigrate.vcs import git_tree

if TYPE_CHECKING:
    from torchmigrate.apply.commits import Made, Target
    from torchmigrate.apply.journal import Journal
    from torchmigrate.cli.selection import Request
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.project.context import ProjectContext
    from torchmigrate.vcs.git_tree import Dirty


_LISTED = 20  # files that a message names


@dataclass(frozen=True, slots=True)
class Commits:
    """A run's commits are on no branch yet (`made` is None in a dry run, which has the subjects in `planned`)."""

    target: Target
    made: Made | None = None
    planned: tuple[str, ...] = ()

    def publish(self, journal: Journal) -> None:
        """Put the commits on their branch, after all files are written."""
        if self.made is None:
            return
        record = {"old": self.target.head, "new": self.made.commits[-1][0], "branch": self.target.branch}
        # first: the record means nothing until HEAD has the commit
        journal.note(record)
        commits.publish(self.made)

    def describe(self) -> list[str]:
        """Return the lines for stderr."""
        if self.made is None:
            would = [f"would commit: {subject}" for subject in self.planned]
            return would or ["note: nothing to commit"]
        rows = [f"  {name[:10]} {subject}" for name, subject in self.made.commits]
        n, old = len(rows), self.target.head[:10]
        head = f"{counted(n, 'commit')} on {self.target.branch}, without the repository's hooks:"
        if self.target.creates:
            return [head, *rows, "`git switch -` goes back to where you were, which is as it was"]
        return [head, *rows, f"`git reset --keep {old}` takes {'them' if n > 1 else 'it'} back"]


def target(paths: Sequence[Path], branch: str | None, allow_dirty: bool) -> Target:
    """Return where the commits go, checked before the work begins; raises UserError."""
    if allow_dirty:
        raise UserError(
            "--allow-dirty does not go with --commit: your changes would get into the commits",
            "commit or stash them first",
        )
    first = paths[0]
    if not first.exists():
        first = Path()
    return commits.target(first if first.is_dir() else first.parent, branch)


def prepare(plan: Plan, target: Target, settings: Settings, dry_run: bool) -> Commits:
    """Make the commits of a plan as git objects alone, without a branch; raises UserError."""
    changes = [result for result in plan.results if isinstance(result, Changed)]
    if not changes or plan.facts is None:
        return Commits(target)
    helpers = _helpers(changes, plan.facts, target)
    _refuse_foreign([*(change.path for change in changes), *helpers], target)
    if not dry_run:
        refuse_changed(changes, target)
    ruleset = packs.load(settings.rule_paths, cases=False).selected(settings.select, settings.ignore)
    steps = divide.steps(changes, helpers, plan.facts, ruleset)
    if dry_run:
        return Commits(target, planned=tuple(step.subject for step in steps))
    return Commits(target, commits.make(target, steps))


def _helpers(changes: Sequence[Changed], facts: ProjectContext, target: Target) -> Mapping[Path, bytes]:
    """Return the helper files to commit: those of this run, and uncommitted ones of an earlier run."""
    found = {change.path: change.after for change in changes if not change.applied}
    if facts.own is not None:
        return found
    word = f"{facts.helper}.".encode()
    places = {_placed(facts, change).path for change in changes if change.applied and word in change.after}
    for path in (Path(place) for place in sorted(places) if place):
        if path in found:
            continue
        if not is_ours(path):
            raise UserError(f"{path.name} is in the way: it was not written by torchmigrate", "rename it first")
        raw = file_io.read(path)
        if target.repository.lost({path: raw}, staged=True):
            found[path] = raw
    return found


def _placed(facts: ProjectContext, change: Changed) -> Placement:
    if change.path.suffix == ".ipynb":
        return placement(facts, change.path)
    return placed(SemanticModel(change.path, decode(change.after), facts))


def _refuse_foreign(paths: Sequence[Path], target: Target) -> None:
    """Raise UserError for a file outside the repository that gets the commits."""
    groups = git_tree.by_repository([Path(os.path.realpath(path)) for path in paths])
    outside = [str(found[0]) for repo, found in groups if repo is None or repo.top != target.repository.top]
    if outside:
        what = f"{outside[0]} does not lie in the repository {target.repository.top}"
        raise UserError(what, "run --commit in each repository, on its files alone")


def guard(changes: Sequence[Changed], request: Request, target: Target | None = None) -> None:
    """Refuse to overwrite changes that git could not restore, or to commit changes of the user."""
    if target:
        refuse_changed(changes, target)
    elif not request.allow_dirty:
        contents: dict[Path, bytes | None] = {change.path: change.before for change in changes if not change.new}
        _refuse_silence(git_tree.unanswered(list(contents)))
        _refuse_dirty(git_tree.lost(contents))


def _refuse_silence(silent: tuple[Path, str] | None) -> None:
    if silent:
        what = f"git tells nothing of {visible(str(silent[0]))}, so nobody knows what git could restore: {silent[1]}"
        raise UserError(what, "settle that (`git status` there says more), or pass --allow-dirty")


def named(dirty: Sequence[Dirty]) -> str:
    """Return a line for each file, up to a limit."""
    here = Path(os.path.realpath(os.curdir))
    near = (os.path.relpath(d.path, here) if d.path.is_relative_to(here) else str(d.path) for d in dirty[:_LISTED])
    names = [visible(name) for name in near]
    width = max(map(len, names)) + 3
    rows = [f"\n  {name:<{width}}({d.why})" for name, d in zip(names, dirty, strict=False)]
    more = [f"\n  and {len(dirty) - _LISTED} more"] if len(dirty) > _LISTED else []
    return "".join([*rows, *more])


def _refuse_dirty(dirty: Sequence[Dirty]) -> None:
    if not dirty:
        return
    one = len(dirty) == 1
    what = f"{len(dirty)} file{' has' if one else 's have'} changes git could not restore; torchmigrate would overwrite"
    raise UserError(f"{what} {'it' if one else 'them'}{named(dirty)}", "commit or stash them, or pass --allow-dirty")


def refuse_changed(changes: Sequence[Changed], target: Target) -> None:
    """Refuse to commit files that have changes of the user, staged or not."""
    contents = {Path(os.path.realpath(change.path)): None if change.new else change.before for change in changes}
    dirty = target.repository.lost(contents, staged=True)
    if dirty:
        one = len(dirty) == 1
        what = f"{len(dirty)} file{' has' if one else 's have'} changes of yours, which would get into the commits"
        raise UserError(f"{what}{named(dirty)}", "commit or stash them first")
