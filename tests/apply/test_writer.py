"""Writes: old or new, never half; links, modes, what stands in the way."""

from __future__ import annotations

import errno
import os
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Timer

import pytest

from torchmigrate.apply import writer
from torchmigrate.base import file_io, system
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


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root alone gives files away")
def test_the_owner_stays(file: Path) -> None:
    os.chown(file, 12_345, 23_456)
    file.chmod(0o4755)
    assert errors(change(file)) == {}
    status = file.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (12_345, 23_456, 0o4755)


def test_litter_of_a_living_run_stays(tmp_path: Path) -> None:
    living, dead = (tmp_path / f".torchmigrate-{process}-aa.tmp" for process in (os.getpid(), 2**22 + 1))
    for path in (living, dead):
        path.touch()
    file_io.sweep(tmp_path)
    assert litter(tmp_path) == [living]


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


@pytest.mark.parametrize(("module", "step"), [(os, "fsync"), (system, "exchange")])
def test_a_full_disk_costs_one_file(file: Path, module: object, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = file.with_name("b.py")
    other.write_bytes(b"old\n")
    real, calls = getattr(module, step), []

    def once(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(module, step, once)
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


@pytest.mark.parametrize("after", [b"n", b"much longer than before\n" * 100])
def test_an_error_in_the_middle_leaves_a_hard_link_as_it_was(
    file: Path, after: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.with_name("b.py").hardlink_to(file)
    real, failures = os.fsync, [OSError(errno.EIO, "Input/output error")]

    def fsync(handle: int) -> None:
        if failures:
            raise failures.pop()
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    assert "error" in errors(change(file, after))["a.py"]
    assert file.read_bytes() == b"old\n" and file.samefile(file.with_name("b.py"))


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

    monkeypatch.setattr(system, "exchange", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(writer.each([change(file)]))
    assert file.read_bytes() == b"old\n"
    assert not litter(file.parent)


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 252 + ".py")
    path.write_bytes(b"old\n")
    assert errors(change(path)) == {}
    assert path.read_bytes() == b"new\n"


# ---- somebody saves while a file is written


def in_place(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def by_rename(path: Path, data: bytes) -> None:
    swap = path.with_name("swap")
    swap.write_bytes(data)
    swap.replace(path)


SAVES = {"in place": in_place, "by rename": by_rename}


def before_call(module: object, name: str, save: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Save once, at the last moment before a call of the system's."""
    real, left = getattr(module, name), [save]

    def call(*arguments: object, **options: object) -> object:
        if left:
            left.pop()()
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, call)


@pytest.mark.parametrize("how", SAVES)
@pytest.mark.parametrize("call", ["fsync", "exchange"])
def test_a_save_while_a_file_is_written_is_kept(
    file: Path, how: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = partial(SAVES[how], file, b"my work\n")
    before_call(os if call == "fsync" else system, call, save, monkeypatch)
    assert errors(change(file)) == {"a.py": "not written: it has changed since it was read"}
    assert file.read_bytes() == b"my work\n"
    assert not litter(file.parent)


def test_the_last_of_many_saves_is_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, saves = system.exchange, [b"third\n", b"second\n", b"first\n"]

    def exchange(*arguments: object) -> object:
        if saves:
            by_rename(file, saves.pop())
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(system, "exchange", exchange)
    assert "has changed" in errors(change(file))["a.py"]
    assert file.read_bytes() == b"third\n"
    assert not litter(file.parent)


def test_what_cannot_be_put_back_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = system.exchange, []

    def exchange(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) > 1:
            return False
        by_rename(file, b"my work\n")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(system, "exchange", exchange)
    told = errors(change(file))["a.py"]
    (kept,) = litter(file.parent)
    assert told.endswith(f"what was saved meanwhile is in {kept}")
    list(writer.each([]))
    file_io.sweep(file.parent)
    assert kept.read_bytes() == b"my work\n"


def test_ctrl_c_loses_no_save(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = system.exchange

    def exchange(*arguments: object) -> object:
        by_rename(file, b"my work\n")
        real(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(system, "exchange", exchange)
    with pytest.raises(KeyboardInterrupt):
        list(writer.each([change(file)]))
    file_io.sweep(file.parent)
    assert [kept.read_bytes() for kept in litter(file.parent)] == [b"my work\n"]


def test_where_files_cannot_be_exchanged_they_are_compared_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_system_call", lambda: None)
    other = file.with_name("b.py")
    other.write_bytes(b"old\n")
    before_call(os, "fsync", partial(in_place, file, b"my work\n"), monkeypatch)
    planned = [change(file), change(other), change(file.with_name("accel.py"), new=True)]
    assert errors(*planned[:2]) == {"a.py": "not written: it has changed since it was read"}
    assert errors(planned[2]) == {}
    assert (file.read_bytes(), other.read_bytes()) == (b"my work\n", b"new\n")
    assert not litter(file.parent)


def test_a_new_file_replaces_none_that_appears_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "accel.py"
    before_call(system, "without_replacing", partial(helper.write_bytes, b"mine\n"), monkeypatch)
    assert "has appeared" in errors(change(helper, new=True))["accel.py"]
    assert helper.read_bytes() == b"mine\n"
    assert not litter(tmp_path)


def test_a_helper_that_is_saved_while_undo_removes_it_stays(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before_call(os, "rename", partial(by_rename, file, b"my work\n"), monkeypatch)
    with pytest.raises(file_io.NotWritten):
        file_io.remove(file, b"old\n")
    assert file.read_bytes() == b"my work\n"
    assert not litter(file.parent)


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="no descriptor of a directory to hold on to")
def test_a_directory_that_becomes_a_link_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a race: after all checks, at the last call."""
    for name in ("sub", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_bytes(b"old\n")

    def swap() -> None:
        (tmp_path / "sub").rename(tmp_path / "moved")
        (tmp_path / "sub").symlink_to(tmp_path / "home")

    before_call(system, "exchange", swap, monkeypatch)
    writer_errors = errors(change(tmp_path / "sub" / "a.py"))
    assert writer_errors == {}
    assert (tmp_path / "home" / "a.py").read_bytes() == b"old\n"
    assert (tmp_path / "moved" / "a.py").read_bytes() == b"new\n"


@pytest.mark.parametrize("layer", ["the status", "the flag"])
def test_no_link_is_opened_by_either_layer(file: Path, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link is looked for before a file is opened, and not followed if it takes the file's place then."""
    link = file.with_name("link.py")
    link.symlink_to(file)
    if layer == "the status":
        monkeypatch.setattr(file_io, "_NO_LINK", 0)
    elif not hasattr(os, "O_NOFOLLOW"):
        pytest.skip("no such flag")
    else:
        monkeypatch.setattr(file_io.stat, "S_ISLNK", lambda mode: False)
    with pytest.raises((file_io.NotWritten, OSError)):
        file_io.write(link, b"old\n", b"new\n")
    with pytest.raises((file_io.NotWritten, OSError)):
        file_io.remove(link, b"old\n")
    assert link.is_symlink() and file.read_bytes() == b"old\n"


@pytest.mark.parametrize("layer", ["the path", "descriptors"])
def test_no_link_on_the_way_is_followed_by_either_layer(
    tmp_path: Path, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is resolved first, and then gone down a folder at a time; each would do alone."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a.py").write_bytes(b"old\n")
    (tmp_path / "sub").symlink_to("home")
    if layer == "the path":
        monkeypatch.delattr(os, "O_PATH", raising=False)
    elif not hasattr(os, "O_PATH"):
        pytest.skip("no descriptor of a directory to hold on to")
    else:
        monkeypatch.setattr(os.path, "realpath", lambda path, **_: os.fspath(path))
    for path in (tmp_path / "sub" / "a.py", tmp_path / "sub" / "new.py"):
        with pytest.raises(file_io.NotWritten, match="symbolic link"):
            file_io.write(path, b"old\n" if path.name == "a.py" else None, b"new\n")
    assert [each.name for each in (tmp_path / "home").iterdir()] == ["a.py"]
    assert (tmp_path / "home" / "a.py").read_bytes() == b"old\n"
    file_io.write(tmp_path / "home" / "a.py", b"old\n", b"new\n")


# ---- reading


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    for name in ("a.py", "a.ipynb", "requirements.txt"):
        path = tmp_path / name
        path.touch()
        os.truncate(path, 20_000_000_000)  # sparse: it takes no room
        tracemalloc.start()
        with pytest.raises(file_io.TooLarge, match="larger than"):
            file_io.read(path)
        with pytest.raises(file_io.TooLarge):
            file_io.read_text(path)
        assert file_io.head(path, 3) == b"\0\0\0"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        for read in (file_io.read, file_io.read_text, partial(file_io.head, count=3)):
            with pytest.raises(OSError, match="not a regular file"):
                read(tmp_path / name)  # type: ignore[operator]


def test_a_file_that_grows_while_it_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fstat", lambda handle, real=os.fstat: _Smaller(real(handle)))
    assert file_io.read(file) == b"old\n"
    with pytest.raises(file_io.TooLarge):
        file_io.read(file, 3)


class _Smaller:
    """A status that is out of date."""

    def __init__(self, status: os.stat_result) -> None:
        self.st_mode, self.st_size = status.st_mode, 1


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells who has a file open")
@pytest.mark.parametrize("call", ["before", "after"])
def test_a_save_that_began_before_and_ends_after_is_kept(
    file: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor has the old file open; it writes once that has lost its name."""
    with file.open("ab") as editor:

        def save() -> None:
            editor.write(b"my work\n")
            editor.close()

        if call == "before":
            before_call(file_io._Folder, "settled", lambda: Timer(0.05, save).start(), monkeypatch)
        else:
            monkeypatch.setattr(file_io, "_PATIENCE", 0.01)
        assert "has changed" in errors(change(file))["a.py"]
        if call == "after":
            save()
    assert file.read_bytes() == b"old\nmy work\n"
    assert not litter(file.parent)
