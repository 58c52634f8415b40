"""Undo: everything back, nothing of the user's lost, whatever happened in between."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from conftest import Ran, git

from torchmigrate.apply import journal, writer
from torchmigrate.base import file_io, user_folders
from torchmigrate.base.text import UserError
from torchmigrate.diagnostics.finding import Changed


def planned(root: Path, *names: str) -> list[Changed]:
    changes = []
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(f"old {name}\r\n".encode())
        changes.append(Changed(path, path.read_bytes(), path.read_bytes() + b"new\n", ()))
    return changes


def apply(changes: list[Changed]) -> journal.Journal:
    saved = journal.begin(changes)
    saved.finish([c for c in writer.each(changes) if isinstance(c, Changed)])
    return saved


def helper(root: Path) -> Changed:
    return Changed(root / "accel.py", b"", b"helper\n", (), new=True)


def outcomes(path: Path) -> dict[str, str]:
    return {o.path.name: o.done or o.refused for o in writer.undo(path)}


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journals of other tests lie in the shared one: of a tree that is gone, a new one may have the inode."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture(params=["git", "no git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    if request.param == "git":
        git(root, "init", "-q")
    return root


def test_everything_comes_back(root: Path) -> None:
    changes = planned(root, "a.py", "pkg/b.py")
    (root / "a.py").chmod(0o755)
    saved = apply([*changes, helper(root)])
    assert saved.in_git == (root / ".git").exists()
    assert (root / "a.py").read_bytes() == b"old a.py\r\nnew\n"
    assert saved.directory.is_relative_to(os.environ["XDG_STATE_HOME"])
    assert not list(root.rglob("*torchmigrate*"))
    assert outcomes(root) == {"a.py": "restored", "b.py": "restored", "accel.py": "removed"}
    assert [c.path.read_bytes() for c in changes] == [c.before for c in changes]
    assert (root / "a.py").stat().st_mode & 0o777 == 0o755
    assert not (root / "accel.py").exists()
    with pytest.raises(UserError, match="nothing to undo"):
        writer.undo(root)


def test_what_was_committed_is_git_s_to_take_back(root: Path) -> None:
    changes, new = planned(root, "a.py"), "f" * 40
    if (root / ".git").exists():
        git(root, "add", ".")
        git(root, "commit", "-qm", "x")
        new = git(root, "rev-parse", "HEAD").strip()
    saved = apply(changes)
    saved.note({"old": "0" * 40, "new": new, "branch": "b"})
    if not (root / ".git").exists():  # a repository no more
        assert outcomes(root) == {"a.py": "restored"}
        return
    with pytest.raises(UserError, match=rf"committed \(0{{10}}\.\.{new[:10]} on b\)"):
        writer.undo(root)
    saved.note({"old": "0" * 40, "new": "f" * 40, "branch": "b"})
    assert outcomes(root) == {"a.py": "restored"}  # on another branch


def test_what_was_changed_since_stays(root: Path) -> None:
    apply([*planned(root, "a.py", "b.py", "c.py"), helper(root)])
    (root / "a.py").write_bytes(b"my work\n")
    (root / "c.py").unlink()
    (root / "accel.py").write_bytes(b"mine\n")
    found = outcomes(root)
    assert found == {"a.py": "changed since", "b.py": "restored", "c.py": "deleted since", "accel.py": "changed since"}
    assert (root / "a.py").read_bytes() == b"my work\n"
    assert (root / "accel.py").exists()
    # once it is as apply left it, undo goes on
    (root / "a.py").write_bytes(b"old a.py\r\nnew\n")
    assert outcomes(root / "a.py") == {"a.py": "restored"}


def test_a_part_of_the_tree(root: Path) -> None:
    apply(planned(root, "pkg/a.py", "pkg/b.py", "c.py"))
    assert outcomes(root / "pkg" / "a.py") == {"a.py": "restored"}
    assert outcomes(root / "pkg") == {"b.py": "restored"}
    assert outcomes(root) == {"c.py": "restored"}


def test_two_applies_are_undone_one_after_the_other(root: Path) -> None:
    apply(planned(root, "a.py"))
    apply(planned(root, "a.py"))
    writer.undo(root)
    assert (root / "a.py").read_bytes() == b"old a.py\r\nnew\n"
    writer.undo(root)
    assert (root / "a.py").read_bytes() == b"old a.py\r\n"


def test_a_run_that_was_killed_in_the_middle(root: Path) -> None:
    changes = planned(root, "a.py", "b.py", "c.py")
    journal.begin(changes)
    file_io.write(changes[0].path, changes[0].before, changes[0].after)
    (root / f"{file_io.PREFIX}x{file_io.SUFFIX}").write_bytes(b"half")  # the temp file of b.py
    assert outcomes(root) == {"a.py": "restored", "b.py": "was as before", "c.py": "was as before"}
    assert [c.path.read_bytes() for c in changes] == [c.before for c in changes]
    assert not list(root.glob(".torchmigrate-*"))


def test_a_run_that_was_killed_while_saving_is_no_run(root: Path) -> None:
    saved = apply(planned(root, "a.py"))
    shutil.copytree(saved.directory, saved.directory.with_name("new-xyz"))
    writer.undo(root)
    with pytest.raises(UserError, match="nothing to undo"):
        writer.undo(root)


@pytest.mark.parametrize("size", [0, 3, 9, 12])
@pytest.mark.parametrize("after", [b"shrt\n", b"a much longer text\n"])
def test_a_hard_link_that_was_half_written(root: Path, size: int, after: bytes) -> None:
    path = root / "a.py"
    path.write_bytes(b"the old text\n")
    (root / "b.py").hardlink_to(path)
    change = Changed(path, b"the old text\n", after, ())
    journal.begin([change])
    grown = change.before.ljust(len(after), b"\0")
    path.write_bytes(after[:size] + grown[min(size, len(after)) :])
    assert outcomes(root) in ({"a.py": "restored"}, {"a.py": "was as before"})
    assert (root / "b.py").read_bytes() == b"the old text\n"
    assert (root / "b.py").samefile(path)


def test_files_that_could_not_be_written_are_not_undone(root: Path) -> None:
    changes = planned(root, "a.py", "b.py")
    (root / "b.py").write_bytes(b"edited\n")
    apply(changes)
    assert outcomes(root) == {"a.py": "restored"}


def test_a_tree_that_has_moved(tmp_path: Path) -> None:
    root = tmp_path / "one"
    root.mkdir()
    git(root, "init", "-q")
    apply(planned(root, "a.py"))
    root = root.rename(tmp_path / "two")
    assert outcomes(root) == {"a.py": "restored"}


def test_files_of_several_repositories(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
    assert apply(planned(tmp_path, "one/a.py", "two/b.py")).in_git
    assert outcomes(tmp_path) == {"a.py": "restored", "b.py": "restored"}


def test_old_journals_go(root: Path) -> None:
    for _ in range(journal.KEPT + 3):
        saved = apply(planned(root, "a.py"))
    assert len(list(saved.directory.parent.iterdir())) == journal.KEPT


def test_foreign_files_among_the_journals_are_passed_over(root: Path) -> None:
    saved = apply(planned(root, "a.py"))
    for number, text in enumerate((b"{", b"[]", b'{"entries": [{"x": 1}], "base": "/"}'), 1):
        other = saved.directory.with_name(f"99999999999{number}{saved.directory.name[12:]}")
        other.mkdir()
        (other / "manifest.json").write_bytes(text)
    assert outcomes(root) == {"a.py": "restored"}


def test_a_damaged_original_is_not_put_back(root: Path) -> None:
    saved = apply(planned(root, "a.py"))
    (saved.directory / "originals").write_bytes(b"xxx")
    assert outcomes(root) == {"a.py": "the saved original is damaged"}
    assert (root / "a.py").read_bytes() == b"old a.py\r\nnew\n"


def test_where_nothing_can_be_saved_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").write_text("a file, no directory")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(UserError, match="nothing was written") as caught:
        journal.begin(planned(tmp_path, "a.py"))
    assert "XDG_STATE_HOME" in caught.value.help


def test_without_a_state_folder_git_and_a_temporary_one_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    (tmp_path / "state").write_text("a file, no directory")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    saved = apply(planned(root, "a.py"))
    assert saved.directory.is_relative_to(tmp_path / "tmp") and not saved.lasts
    assert outcomes(root) == {"a.py": "restored"}


# ---- journals of somebody else's, and a clock that lies


def test_a_clock_that_was_set_back_does_no_harm(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1.9e9)
    for _ in range(journal.KEPT):
        apply(planned(root, "a.py"))
    monkeypatch.setattr(time, "time", lambda: 1.7e9)
    (root / "a.py").write_bytes(b"my work\n")
    apply(planned(root, "a.py"))
    assert outcomes(root) == {"a.py": "restored"}
    assert (root / "a.py").read_bytes() == b"my work\n"


def test_journals_that_came_with_the_project_are_never_used(root: Path) -> None:
    """Ten with high numbers, which must not make a run remove its own journal, and undo must not read."""
    change = planned(root, "a.py")[0]
    for number in range(journal.KEPT):
        directory = root / ".git" / "torchmigrate" / f"{10**19 - 1 - number}"
        directory.mkdir(parents=True)
        entry = journal.Entry("a.py", False, journal.digest(b"evil"), journal.digest(change.after), 0, 4)
        manifest = {"version": 1, "base": "/", "entries": [asdict(entry)]}
        (directory / "manifest.json").write_text(json.dumps(manifest))
        (directory / "originals").write_bytes(b"evil")
    with pytest.raises(UserError, match="nothing to undo"):
        writer.undo(root)
    apply([change])
    assert outcomes(root) == {"a.py": "restored"}
    assert (root / "a.py").read_bytes() == change.before


@pytest.mark.parametrize("forged", ["of another name", "edited", "of another key"])
def test_a_journal_that_was_not_sealed_here_is_none(root: Path, forged: str) -> None:
    saved = apply(planned(root, "a.py"))
    manifest = saved.directory / "manifest.json"
    if forged == "of another name":
        shutil.copytree(saved.directory, saved.directory.with_name(f"999999999999{saved.directory.name[12:]}"))
        shutil.rmtree(saved.directory)
    elif forged == "edited":
        manifest.write_bytes(manifest.read_bytes().replace(b'"new": false', b'"new": true '))
    else:
        (saved.directory.parent.parent / "key").write_bytes(b"x" * 32)
    with pytest.raises(UserError, match="nothing to undo"):
        writer.undo(root)
    assert (root / "a.py").read_bytes() == b"old a.py\r\nnew\n"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners")
@pytest.mark.parametrize("level", ["the journals", "around them, with the key"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_not_trusted(root: Path, level: str, mode: int) -> None:
    saved = apply(planned(root, "a.py"))
    folder = saved.directory.parent if level == "the journals" else saved.directory.parent.parent
    folder.chmod(mode)
    with pytest.raises(UserError, match="nothing to undo"):
        writer.undo(root)
    before = sorted(folder.rglob("*"))
    with contextlib.suppress(UserError):  # without git nothing is written; with it, another folder serves
        journal.begin(planned(root, "b.py"))
    assert sorted(folder.rglob("*")) == before
    folder.chmod(0o700)
    assert outcomes(root / "a.py") == {"a.py": "restored"}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners")
def test_a_folder_of_another_user_is_not_trusted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = apply(planned(root, "a.py"))
    user_folders.check(saved.directory.parent)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="another user"):
        user_folders.check(saved.directory.parent)
    with pytest.raises(UserError, match="nothing to undo"):
        writer.undo(root)


def test_many_journals_of_trees_that_are_gone_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST", 3)
    for name in ("one", "two", "three", "four"):
        saved = apply(planned(root.parent / name, "a.py"))
        if name != "one":
            shutil.rmtree(root.parent / name)
    apply(planned(root, "a.py"))
    assert len(list(saved.directory.parent.iterdir())) == 4  # the oldest is of a tree that is there
    assert outcomes(root.parent / "one") == {"a.py": "restored"}


def test_undo_says_what_it_would_do(root: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Ran]) -> None:
    monkeypatch.chdir(root)
    apply([*planned(root, "a.py"), helper(root)])
    apply(planned(root, "b.py"))
    (root / "a.py").write_bytes(b"mine\n")
    ran = cli("undo", "--list")
    assert [line.partition("  ")[2] for line in ran.out.splitlines()] == [f"1 file in {root}", f"2 files in {root}"]
    ran = cli("undo", "--dry-run")
    assert (ran.out, ran.last) == ("would restore: b.py\n", "Would put back 1 of 1 files.")
    assert (root / "b.py").read_bytes() == b"old b.py\r\nnew\n"
    assert cli("undo").out == "restored: b.py\n"
    ran = cli("undo", "--dry-run")
    assert ran.status == 2 and "a.py: changed since" in ran.err
    assert (root / "accel.py").exists()


def test_the_helper_stays_while_a_file_that_is_left_may_import_it(here: Path, cli: Callable[..., Ran]) -> None:
    (here / "a.py").write_text("import torch\ntorch.cuda.empty_cache()\n")
    (here / "b.py").write_text("import torch\ntorch.cuda.empty_cache()\n")
    assert cli("apply").status == 0
    with (here / "a.py").open("a") as stream:
        stream.write("# more\n")
    assert cli("undo").status == 2
    assert (here / "accel.py").exists() and "accel" in (here / "a.py").read_text()
    assert "accel" not in (here / "b.py").read_text()
