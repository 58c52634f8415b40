"""What differs between systems: each is simulated here, and this one is asked."""

from __future__ import annotations

import ast
import gc
import ntpath
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from torchmigrate.base import file_io, limits, system, user_folders


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Windows, as far as a module can see it."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "sep", "\\")
    monkeypatch.setattr(os, "path", ntpath)
    for name in ("geteuid", "killpg", "getpgrp", "fork", "O_PATH", "O_NOFOLLOW", "listxattr", "fchown"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(signal, "SIGBREAK", 21, raising=False)
    return monkeypatch


# ---- paths


def test_paths_have_slashes_where_they_are_told(windows: pytest.MonkeyPatch) -> None:
    assert system.slashed("a\\b.py") == "a/b.py"
    assert system.relative("C:\\p\\a\\b.py", "C:\\p") == "a/b.py"
    assert system.relative("C:\\q.py", "C:\\p") == "../q.py"
    assert system.relative("D:\\data\\x.py", "C:\\p") == "D:/data/x.py"  # `relpath` refuses that
    assert system.dotted("C:\\p\\a\\b", "C:\\p") == ("a", "b")
    assert system.joined("C:\\p", "a", "b.py") == "C:\\p\\a\\b.py"


def test_inside_means_below_and_not_beside(windows: pytest.MonkeyPatch) -> None:
    assert system.is_inside("C:\\p\\a", "C:\\p")
    assert system.is_inside("C:\\p", "C:\\")
    assert not system.is_inside("C:\\pq\\a", "C:\\p")
    assert not system.is_inside("C:\\p", "C:\\p")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_paths_here() -> None:
    assert system.relative("/p/a/b.py", "/p") == "a/b.py"
    assert system.is_inside("/p", "/") and not system.is_inside("/pq/a", "/p")
    assert system.dotted("/p/a/b", "/p") == ("a", "b")


def test_the_cache_lies_where_the_system_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
    places = {"linux": ".cache", "darwin": "Library/Caches", "win32": "Local"}
    for platform, place in places.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert user_folders.folder() == tmp_path / place / "torchmigrate" / "results"


# ---- users and locks


def test_a_folder_without_an_owner_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "geteuid")
    assert system.user() is None
    assert user_folders.opened(tmp_path / "state") == (tmp_path / "state").resolve()


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_file_is_locked_once(platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[int] = set()
    msvcrt = types.ModuleType("msvcrt")

    def locking(handle: int, mode: int, count: int) -> None:
        """A byte of a file is locked from where the file stands, once."""
        byte = os.lseek(handle, 0, os.SEEK_CUR)
        if mode != 2 or count != 1 or byte in taken:
            raise OSError(36, "deadlock avoided")
        taken.add(byte)

    msvcrt.locking, msvcrt.LK_NBLCK = locking, 2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(user_folders, "PATIENCE", 0.1)
    with user_folders.held([tmp_path / "lock"]):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
        other = file_io.open_own(tmp_path / "lock")
        os.lseek(other, 3, os.SEEK_SET)
        assert not system.locked(other)
        os.close(other)


def test_locks_are_taken_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two processes that need the same two could wait for each other."""
    real, taken = user_folders._open_lock_file, []

    def opened(file: Path) -> int | None:
        taken.append(file.name)
        return real(file)

    monkeypatch.setattr(user_folders, "_open_lock_file", opened)
    for names in ("abcdef", "fedcba"):
        with user_folders.held([tmp_path / name for name in (*names, names[0])]):
            assert taken == [*"abcdef"]
        taken.clear()


# ---- files


def test_files_are_written_without_what_only_posix_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("O_PATH", "O_NOFOLLOW", "listxattr", "fchown", "fchmod", "geteuid"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("torchmigrate.base.system._system_call", lambda: None)
    file = tmp_path / "a.py"
    file_io.write(file, None, b"1\n")
    file_io.write(file, b"1\n", b"2\n")
    with pytest.raises(file_io.NotWritten):
        file_io.write(file, b"1\n", b"3\n")
    assert (file.read_bytes(), [path.name for path in tmp_path.iterdir()]) == (b"2\n", ["a.py"])
    file_io.remove(file, b"2\n")
    assert not [*tmp_path.iterdir()]


def test_work_without_an_alarm_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "setitimer")
    with limits.bounded(0.0):
        assert sum(range(1000)) == 499500


# ---- processes


def test_a_process_is_told_from_one_that_has_ended() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert system.is_running(os.getpid()) and not system.is_running(ended.pid)
    assert not system.is_running(2**70)


def test_on_windows_no_process_is_asked_whether_it_runs(windows: pytest.MonkeyPatch) -> None:
    """`os.kill` would end it, whatever the number of the signal."""
    windows.setattr(os, "kill", lambda *_: pytest.fail("it is killed"))
    assert not system.is_running(os.getpid())
    assert file_io.is_left(f"{os.getpid()}-x")


def test_workers_are_forked_where_that_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    for platform, forks in {"linux": True, "darwin": False}.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert system.can_fork() is forks
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr(sys, "platform", "win32")
    assert not system.can_fork()


_TREE = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {!r}]).pid, flush=True); {}"
_SLEEP = "import time; time.sleep(600)"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("deaf", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_a_group_ends_with_what_it_started(deaf: str) -> None:
    code = deaf + _TREE.format(deaf + _SLEEP, _SLEEP)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **system.apart())
    assert process.stdout is not None and os.getpgid(process.pid) == process.pid
    below = int(process.stdout.readline())
    system.end(process, 0.5 if deaf else 30)
    assert process.returncode == -(signal.SIGKILL if deaf else signal.SIGTERM)
    until = time.monotonic() + 30
    while _runs(below) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(below)


def _runs(process: int) -> bool:
    """A zombie that nobody reaps, as in a container, has ended."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return system.is_running(process) and not Path("/proc/self").exists()


class Asked:
    """A process of Windows, and what is done to it."""

    pid = 7

    def __init__(self, hears: bool) -> None:
        self.hears = hears
        self.done: list[object] = []

    def send_signal(self, number: int) -> None:
        self.done.append(number)

    def wait(self, patience: float) -> None:
        if self.done == [1] and not self.hears:
            raise subprocess.TimeoutExpired("it", patience)


@pytest.mark.parametrize("hears", [True, False])
def test_on_windows_a_group_is_asked_and_then_its_tree_killed(windows: pytest.MonkeyPatch, hears: bool) -> None:
    process = Asked(hears)
    windows.setattr(signal, "CTRL_BREAK_EVENT", 1, raising=False)
    windows.setattr(subprocess, "run", lambda command, **_: process.done.append(command))
    assert system.apart() == {"creationflags": 0x200}
    system.end(process, 1.0)  # type: ignore[arg-type]
    assert process.done == ([1] if hears else [1, ["taskkill", "/T", "/F", "/PID", "7"]])
    system.end_what_is_started()  # there are no groups: nothing


def test_the_main_thread_is_interrupted(windows: pytest.MonkeyPatch) -> None:
    windows.setattr(os, "kill", lambda *_: pytest.fail("it is killed"))

    def stop(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(InterruptedError):
            system.interrupt_main_thread()
            time.sleep(30)
    finally:
        signal.signal(signal.SIGTERM, before)


def _parse(kind: str) -> ast.AST:
    text = "[" + "f(x), " * 2_000 + "]"
    return system.syntax_tree(text) if kind == "file" else system.expression_tree(text)


@pytest.mark.parametrize("kind", ["file", "expression"])
def test_text_is_parsed_while_a_collection_of_garbage_parses_too(kind: str) -> None:
    """Python 3.11 before 3.11.8 raises SystemError then (python/cpython#106905)."""
    asked: list[str] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            asked.append(phase)
            compile("a = b(c)", "<text>", "exec", ast.PyCF_ONLY_AST)

    before = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(50)
    try:
        assert isinstance(_deeper(20, lambda: _parse(kind)), ast.Module | ast.List)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)
    assert asked and gc.isenabled()


def _deeper(depth: int, act: Callable[[], ast.AST]) -> ast.AST:
    return act() if depth == 0 else _deeper(depth - 1, act)
