"""Turn a migration into commits in a scratch repository, and export them as a patch and a bundle."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.text import UserError
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine import per_pack
from torchmigrate.engine.per_pack import Step
from torchmigrate.engine.planner import Plan
from torchmigrate.fleet.task import Task
from torchmigrate.fleet.tree import Tree, git, scratch_repository
from torchmigrate.rules import packs
from torchmigrate.vcs.git_tree import Repository

_NO_TIME = "946684800 +0000"  # the date of commits for a plain folder, fixed so that each run gives the same bytes
_SUBJECT = "Run on the accelerator that is there, not on CUDA alone"


def carried(plan: Plan, tree: Tree, task: Task, settings: Settings, scratch: Path) -> dict[str, bytes]:
    """Return changes.patch, and a git source's changes.bundle, or nothing if nothing changes; raises UserError."""
    changes = [result for result in plan.results if isinstance(result, Changed)]
    if not changes:
        return {}
    _refuse_outside(changes, tree)
    if tree.repository is None:
        return {"changes.patch": _patch(*_on_files(changes, tree, task, scratch, steps(plan, changes, task, settings)))}
    made = _commits(tree.repository, tree.commit, task, steps(plan, changes, task, settings))
    ref = f"refs/heads/{task.branch}"
    git(tree.repository, "update-ref", ref, made)
    one = ("-c", "pack.threads=1", "bundle", "create", "--quiet", "-")  # two threads may find other deltas
    bundle = git(tree.repository, *one, ref, f"^{tree.commit}")
    return {"changes.patch": _patch(tree.repository, tree.commit, made), "changes.bundle": bundle}


def steps(plan: Plan, changes: Sequence[Changed], task: Task, settings: Settings) -> list[Step]:
    """Return a single commit step, or one for each pack, as `apply --commit` makes them."""
    if task.per_pack and plan.facts is not None:
        ruleset = packs.load(settings.rule_paths, cases=False).selected(settings.select, settings.ignore)
        helpers = {change.path: change.after for change in changes if not change.applied}
        return per_pack.steps(changes, helpers, plan.facts, ruleset)
    counts = Counter(finding.rule for change in changes for finding in change.applied)
    rows = "".join(f"- {rule} ({n})\n" for rule, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return [Step({change.path: change.after for change in changes}, f"{_SUBJECT}\n\n{rows}")]


def _refuse_outside(changes: Sequence[Changed], tree: Tree) -> None:
    top = tree.repository.top if tree.repository else tree.root
    for change in changes:
        if not Path(os.path.realpath(change.path)).is_relative_to(top):
            raise UserError(f"{change.path} lies outside of the repository")


def _on_files(
    changes: Sequence[Changed], tree: Tree, task: Task, scratch: Path, found: Sequence[Step]
) -> tuple[Repository, str, str]:
    """Commit the changes of a plain folder in a new scratch repository that holds only the files that change."""
    repository = scratch_repository(scratch, "changed")
    moved = {c.path: repository.top / os.path.relpath(os.path.realpath(c.path), tree.root) for c in changes}
    before = {moved[c.path]: c.before for c in changes if not c.new}
    _write(before)
    for change in changes:
        if not change.new:
            shutil.copymode(change.path, moved[change.path])
    base = _commit(repository, None, before, "As it stands\n", _variables(task, _NO_TIME))
    there = [Step({moved[path]: data for path, data in step.files.items()}, step.message) for step in found]
    return repository, base, _commits(repository, base, task, there)


def _commits(repository: Repository, base: str, task: Task, found: Sequence[Step]) -> str:
    """Commit the steps, dated as the base commit so that runs agree, and return the id of the last commit."""
    date = git(repository, "show", "-s", "--no-show-signature", "--format=%cd", "--date=raw", base)
    variables = _variables(task, date.decode().strip())
    parent = base
    for step in found:
        _write(step.files)
        parent = _commit(repository, parent, step.files, step.message, variables)
    return parent


def _variables(task: Task, date: str) -> dict[str, str]:
    name, address = task.author
    each = {"NAME": name, "EMAIL": address, "DATE": date}
    return {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in each.items()}


def _write(files: Mapping[Path, bytes]) -> None:
    """Write files into our scratch tree, in which links are resolved already."""
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        file_io.put(path, data)


def _commit(
    repository: Repository, parent: str | None, files: Mapping[Path, bytes], message: str, env: Mapping[str, str]
) -> str:
    names = b"\0".join(os.fsencode(os.path.relpath(path, repository.top)) for path in files)
    if names:
        git(repository, "add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names)
    tree = git(repository, "write-tree").decode().strip()
    above = ("-p", parent) if parent else ()
    return git(repository, "commit-tree", *above, "-F", "-", tree, stdin=message.encode(), **env).decode().strip()


def _patch(repository: Repository, base: str, last: str) -> bytes:
    plain = ("--stdout", "--no-signature", "--full-index", "--binary", "--no-renames", "--no-stat", "--no-ext-diff")
    return git(repository, "format-patch", *plain, f"{base}..{last}")
