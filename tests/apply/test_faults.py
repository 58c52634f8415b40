"""The process dies, or the disk is full, at every call that changes a file: each file is old or new, undo puts all of
it back, the next run completes, and nothing is left lying about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import pytest
import typer
from conftest import git, write_tree
from faults import FULL, KILLED, REFUSED, Points, in_child, say

from torchmigrate.cli import app, program
from torchmigrate.rules import packs
from torchmigrate.vcs import git_tree

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="faults are put into a fork of the warmed process")

CUDA = "import torch\n\nx = torch.zeros(3).cuda()\n"
FILES = {"a.py": CUDA, "b.py": CUDA, "pkg/c.py": CUDA + "# c\n"}
LINKED = "linked.py"  # a hard link: written in place
MOST = 400  # points: a run has fewer


@dataclass
class Project:
    """A project that can be put back to a state, at the same path."""

    root: Path
    store: Path  # of the states
    cache: Path
    in_git: bool
    states: dict[str, Path] = field(default_factory=dict)

    def save(self, name: str) -> None:
        place = self.states[name] = self.store / name
        shutil.rmtree(place, ignore_errors=True)
        for source, kind in ((self.root, "root"), (self.cache, "cache")):
            if source.exists():
                shutil.copytree(source, place / kind, symlinks=True)
        self._relink(place / "root")

    def restore(self, name: str) -> None:
        for target, kind in ((self.root, "root"), (self.cache, "cache")):
            for entry in target.iterdir() if target.exists() else ():
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            if (self.states[name] / kind).exists():
                shutil.copytree(self.states[name] / kind, target, symlinks=True, dirs_exist_ok=True)
        self._relink(self.root)

    def _relink(self, root: Path) -> None:
        """A copy of two names of one file is two files."""
        if (root / LINKED).exists():
            (root / "second").unlink(missing_ok=True)
            (root / "second").hardlink_to(root / LINKED)

    def texts(self) -> dict[str, str]:
        files = (p for p in self.root.rglob("*") if p.is_file() and ".git" not in p.relative_to(self.root).parts)
        return {p.relative_to(self.root).as_posix(): p.read_bytes().decode() for p in files}

    def litter(self) -> list[Path]:
        """What no run should leave: temporary files, half-made journals, locks of git's."""
        patterns = (".torchmigrate-*", "new-*", "*.lock")
        found = [p for top in (self.root, self.cache) for pattern in patterns for p in top.rglob(pattern)]
        return [p for p in found if not p.parent.name[:12].isdecimal()]  # that goes with its journal

    def run(self, *arguments: str) -> int:
        return app.run([*arguments, "-q"] if arguments[0] != "undo" else list(arguments))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not change is worked out once, not at each of some hundred runs; processes die here, no disk does."""
    monkeypatch.setattr(packs, "load", cache(lambda paths=(), cases=True, load=packs.load: load(paths, cases)))
    monkeypatch.setattr(git_tree, "repository", cache(git_tree.repository))
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    command = typer.main.get_command(program.app)
    monkeypatch.setattr(program, "app", lambda given, **options: command.main(given, **options))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "t")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@example.org")


@pytest.fixture(params=["git", "no git"])
def project(request: pytest.FixtureRequest, here: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    in_git = request.param == "git"
    write_tree(here, FILES)
    cache_ = here.parent / "cache"
    monkeypatch.setenv("XDG_STATE_HOME", str(cache_))
    if in_git:
        git(here, "init", "-q", "-b", "main", "--template=")
        git(here, "config", "gc.auto", "0")
        git(here, "add", "-A")
        git(here, "commit", "-qm", "x")
    else:
        write_tree(here, {LINKED: CUDA + "# longer than the new text will be, and shorter than nothing\n"})
    made = Project(here, here.parent / "states", cache_, in_git)
    made._relink(here)
    made.save("old")
    return made


def killed(project: Project, state: str, *arguments: str, step: int = 1) -> Iterator[int]:
    """Yields after each run that died at another point; the project is as the kill left it."""
    errors = str(project.root.parent / "errors")
    for at in range(1, MOST, step):
        project.restore(state)
        status = in_child(lambda: project.run(*arguments), Points(at), errors)
        if status != KILLED:
            assert status == 0, Path(errors).read_text()
            return
        yield at
    pytest.fail("it never came to its end")


def count(project: Project, old: dict[str, str], new: dict[str, str]) -> None:
    """Every file is old or new; those of the run alone may be there or not."""
    found = {name: text for name, text in project.texts().items() if ".torchmigrate-" not in name}
    assert set(old) & set(new) <= set(found) <= set(old) | set(new), "a file is lost"
    for name, text in found.items():
        if name in (LINKED, "second"):  # written in place: what undo knows to be half
            continue
        assert text in (old.get(name), new.get(name)), f"{name} is partial"


def told(record: Callable[[str, object], None], what: str, points: int) -> None:
    record(what, points)
    print(f"{what}: {points} points, 0 files lost, 0 partial")


def undone(project: Project, old: dict[str, str]) -> None:
    """`undo`, as often as there is something to undo, gives the old files. Half-made journals wait for an apply."""
    times = 0
    while project.texts() != old and times < 3:
        project.run("undo")
        times += 1
    assert project.texts() == old
    assert not times or not project.litter()


def test_apply_is_killed_at_every_point(
    project: Project, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    old = project.texts()
    assert project.run("apply") == 0
    new = project.texts()
    points = 0
    for points in killed(project, "old", "apply"):
        count(project, old, new)
        is_old = project.texts() == old
        if not is_old:
            project.save("killed")
            undone(project, old)
            project.restore("killed")
        if project.in_git and points % 4:
            continue  # the same again, slower
        if LINKED in old and project.texts()[LINKED] not in (old[LINKED], new[LINKED]):
            continue  # half of it in place: undo is the way
        assert project.run("apply") == 0
        assert project.texts() == new
        assert not project.litter()
        if points % 4 == 0:
            undone(project, old)
    assert points > (60 if project.in_git else 40)
    told(record_property, "apply", points)


def test_undo_is_killed_at_every_point(
    project: Project, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    old = project.texts()
    assert project.run("apply") == 0
    new = project.texts()
    project.save("new")
    points = 0
    for _ in killed(project, "new", "undo"):
        points += 1
        count(project, old, new)
        undone(project, old)
    assert points > 20
    told(record_property, "undo", points)


def head(project: Project) -> str:
    """The commit that HEAD is at, without asking git."""
    ref = (project.root / ".git" / "HEAD").read_text().removeprefix("ref:").strip()
    return (project.root / ".git" / ref).read_text().strip()


@pytest.mark.parametrize("project", ["git"], indirect=True)
@pytest.mark.parametrize("branch", [(), ("--branch", "migrated")])
def test_commits_are_killed_at_every_point(
    project: Project, branch: tuple[str, ...], record_property: Callable[[str, object], None]
) -> None:
    old, start = project.texts(), head(project)
    assert project.run("apply", "--commit", *branch) == 0
    new = project.texts()
    points = 0
    step = 1 if branch else 3  # but for the last, the calls are the same
    for points in killed(project, "old", "apply", "--commit", *branch, step=step):
        found = project.texts()
        count(project, old, new)
        assert (project.root / ".git" / "refs" / "heads" / "main").read_text().strip() in (start, head(project))
        if head(project) != start:  # the commits are there, and whole
            assert found == new
            assert git(project.root, "diff", "--stat", "HEAD") == ""
            assert project.run("undo") == 2, "what was committed is git's to take back"
        elif found != old:
            undone(project, old)
            git(project.root, "reset", "-q")
            assert git(project.root, "status", "--porcelain") == ""
        if found == old and points % 16 == 0:
            assert project.run("apply", "--commit", *branch) == 0
            assert project.texts() == new
            assert git(project.root, "status", "--porcelain") == ""
    git(project.root, "fsck", "--strict", "--no-dangling")
    assert points > 100
    told(record_property, f"apply --commit {' '.join(branch)}", points // step)


@pytest.mark.parametrize("project", ["no git"], indirect=True)
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--baseline", "known.json", "--write-baseline", "--exit-zero"),
        ("check", "-o", "known.json", "--exit-zero"),
        ("report", "-o", "known.json"),
    ],
)
def test_files_that_are_asked_for_are_old_or_new(
    project: Project, arguments: tuple[str, ...], record_property: Callable[[str, object], None]
) -> None:
    assert project.run("check", "a.py", "--baseline", "known.json", "--write-baseline", "--exit-zero") == 0
    project.save("old")
    old = project.texts()
    assert project.run(*arguments) == 0
    new = project.texts()
    assert new != old
    points = 0
    for points in killed(project, "old", *arguments):  # noqa: B007
        count(project, old, new)
        assert project.run(*arguments) == 0
        assert project.texts() == new
        assert not project.litter()
    assert points >= 5
    told(record_property, " ".join(arguments), points)


@pytest.mark.parametrize(
    ("project", "number", "lasting"),
    [("no git", FULL, True), ("no git", REFUSED, False), ("git", FULL, True)],
    indirect=["project"],
)
@pytest.mark.parametrize("command", ["apply", "undo"])
def test_every_call_may_fail(project: Project, number: int, lasting: bool, command: str) -> None:
    """A full disk, for good; a permission that is lost once. No traceback; undo, later, puts everything back."""
    old = project.texts()
    assert project.run("apply") == 0
    new = project.texts()
    project.save("new")
    errors = project.root.parent / "errors"
    failed = 0
    for at in range(1, MOST):
        project.restore("old" if command == "apply" else "new")
        points = Points(at, number, lasting)
        status = in_child(partial(_counted, project, command, points), points, str(errors))
        said = errors.read_text()
        assert "Traceback" not in said and "internal error" not in said, (at, said)
        assert status in (0, 2), (at, said)
        count(project, old, new)
        failed += status == 2
        undone(project, old)
        if int(said.split()[-1]) < at:  # it had no more calls than that
            break
    assert failed >= 5


def _counted(project: Project, command: str, points: Points) -> int:
    """Says how many calls there were."""
    status = project.run(command)
    say(f"\n{points.seen}\n")
    return status
