"""Writes: old or new, never half; links, modes, what stands in the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from torchmigrate.apply import writer
from torchmigrate.diagnostics.finding import Changed, Failed


def change(path: Path, after: bytes = b"new\n", before: bytes | None = None, new: bool = False) -> Changed:
    if before is None:
        before = b"" if new else path.read_bytes()
    return Changed(path, before, after, (), new=new)


def errors(*changes: Changed) -> dict[str, str]:
    return {r.path.name: r.error for r in writer.each(changes) if isinstance(r, Failed)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\n")
    return path


def litter(directory: Path) -> list[Path]:
    return list(directory.glob(".torchmigrate-*"))


def test_mode_survives(file: Path) -> None:
    file.chmod(0o754)
    assert errors(change(file)) == {}
    assert (file.read_bytes(), file.stat().st_mode & 0o7777) == (b"new\n", 0o754)
    assert not litter(file.parent)


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    assert errors(change(tmp_path / "accel.py", new=True)) == {}
    assert (tmp_path / "accel.py").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_nothing_is_written_through_a_link(file: Path, tmp_path: Path) -> None:
    """Paths are real ones when they are found: a link is one that has taken the file's place."""
    (tmp_path / "sub").mkdir()
    planned = [
        change(tmp_path / "sub" / "link.py", before=b"old\n"),
        change(tmp_path / "other" / "a.py", before=b"old\n"),
    ]
    helper = change(tmp_path / "accel.py", new=True)
    (tmp_path / "sub" / "link.py").symlink_to("../a.py")
    (tmp_path / "other").symlink_to(tmp_path)
    (tmp_path / "accel.py").symlink_to("nowhere.py")
    found = errors(*planned) | errors(helper)
    assert found == dict.fromkeys(("link.py", "a.py", "accel.py"), "not written: a symbolic link leads there")
    assert file.read_bytes() == b"old\n"
    assert not (tmp_path / "nowhere.py").exists()


@pytest.mark.parametrize("after", [b"", b"n", b"much longer than before\n" * 100])
def test_hard_links_stay_one_file(file: Path, after: bytes) -> None:
    other = file.with_name("b.py")
    other.hardlink_to(file)
    assert errors(change(file, after)) == {}
    assert other.read_bytes() == file.read_bytes() == after
    assert other.samefile(file)


def test_a_file_that_changed_since_is_left_alone(file: Path) -> None:
    other = file.with_name("b.py")
    other.write_bytes(b"old\n")
    planned = [change(file), change(other)]
    file.write_bytes(b"edited\n")
    assert errors(*planned) == {"a.py": "not written: it has changed since it was read"}
    assert (file.read_bytes(), other.read_bytes()) == (b"edited\n", b"new\n")


def test_a_deleted_file_is_not_made_again(file: Path) -> None:
    planned = change(file)
    file.unlink()
    assert errors(planned) == {"a.py": "not written: no such file or directory"}


def test_a_new_file_replaces_nothing(file: Path) -> None:
    assert "has appeared" in errors(change(file, new=True))["a.py"]
    assert file.read_bytes() == b"old\n"


def test_read_only_means_hands_off(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anything
    assert errors(change(file)) == {"a.py": "not written: it is read-only"}
    assert file.read_bytes() == b"old\n"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_costs_one_file(file: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = file.with_name("b.py")
    other.write_bytes(b"old\n")
    real, calls = getattr(os, step), []

    def once(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments)

    monkeypatch.setattr(os, step, once)
    assert errors(change(file), change(other)) == {"a.py": "not written: no space left on device"}
    assert (file.read_bytes(), other.read_bytes()) == (b"old\n", b"new\n")
    assert not litter(file.parent)


def test_a_full_disk_leaves_a_hard_link_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.with_name("b.py").hardlink_to(file)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert "no space left" in errors(change(file, b"longer than before\n"))["a.py"]
    assert file.read_bytes() == b"old\n"


def test_no_file_imports_a_helper_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pkg/a.py", "pkg/sub/b.py", "c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"old\n")
    (tmp_path / "pkg" / "accel.py").mkdir()  # in the way
    planned = [change(tmp_path / name) for name in ("c.py", "pkg/a.py", "pkg/sub/b.py")]
    found = errors(*planned, change(tmp_path / "pkg" / "accel.py", new=True))
    assert set(found) == {"a.py", "b.py", "accel.py"}
    assert "the helper that it would import, accel.py" in found["a.py"]
    assert (tmp_path / "pkg" / "a.py").read_bytes() == b"old\n"
    assert (tmp_path / "c.py").read_bytes() == b"new\n"


def test_ctrl_c_leaves_no_litter(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(writer.each([change(file)]))
    assert file.read_bytes() == b"old\n"
    assert not litter(file.parent)


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 252 + ".py")
    path.write_bytes(b"old\n")
    assert errors(change(path)) == {}
    assert path.read_bytes() == b"new\n"
