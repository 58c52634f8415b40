"""Runs end with all that they started, whichever way they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import warm_torch
from conftest import ROOT

from torchmigrate.verify import interpreter
from torchmigrate.verify.interpreter import Ended, Stopped

# A child, one in a session of its own that ignores SIGTERM, and an orphan of a third session that does so, too.
# Each adds its pid to a file.
FAMILY = """
import os, signal, subprocess, sys, time
STUBBORN = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {then}"
SIGN = "f = open('pids', 'a'); print(os.getpid(), file=f, flush=True); time.sleep(600)"
ORPHAN = "os.fork() and os._exit(0); os.setsid(); " + SIGN
for then, session in ((SIGN, False), (SIGN, True), (ORPHAN, True)):
    subprocess.Popen([sys.executable, "-S", "-c", STUBBORN.format(then=then)], start_new_session=session)
print(os.getpid(), file=open("pids", "a"), flush=True)
{finally_}
"""
WAIT = "time.sleep(600)"
LEAVE = "while open('pids').read().count('\\n') < 4: time.sleep(0.01)"


def start(tmp_path: Path, code: str, timeout: float = 300, stop: threading.Event | None = None) -> Ended:
    command = [sys.executable, "-S", "-c", code]
    out, err = tmp_path / "out", tmp_path / "err"
    return interpreter.run(command, tmp_path, dict(os.environ), out, err, timeout, stop or threading.Event())


def family(finally_: str) -> str:
    return FAMILY.replace("{finally_}", finally_)


def pids(tmp_path: Path) -> list[int]:
    file = tmp_path / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(tmp_path: Path, count: int) -> None:
    limit = time.monotonic() + 120
    while len(pids(tmp_path)) < count and time.monotonic() < limit:
        time.sleep(0.02)


linux = pytest.mark.skipif(not Path("/proc/self").exists(), reason="orphans of other sessions are found on Linux only")


def test_a_run_that_ends_by_itself(tmp_path: Path) -> None:
    ended = start(tmp_path, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (ended.status, ended.timed_out) == (3, False)
    assert ended.seconds > 0
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("out\n", "err\n")


def test_a_signal_is_a_negative_status_and_what_cannot_start_is_127(tmp_path: Path) -> None:
    assert start(tmp_path, "import os; os.kill(os.getpid(), 9)").status == -9
    nothing = interpreter.run(["./nowhere"], tmp_path, {}, tmp_path / "out", tmp_path / "err", 9, threading.Event())
    assert nothing.status == 127
    assert (tmp_path / "err").read_text() == "./nowhere: No such file or directory\n"


def test_stdin_is_empty(tmp_path: Path) -> None:
    assert start(tmp_path, "import sys; sys.exit(len(sys.stdin.read()))").status == 0


@linux
def test_nothing_survives_the_time_limit(tmp_path: Path) -> None:
    for timeout in (1.5, 6, 24, 96):  # a loaded machine may start the family late
        (tmp_path / "pids").unlink(missing_ok=True)
        ended = start(tmp_path, family(WAIT), timeout)
        assert (ended.status, ended.timed_out) == (None, True)
        if len(pids(tmp_path)) == 4:
            break
    assert len(pids(tmp_path)) == 4
    assert not [pid for pid in pids(tmp_path) if alive(pid)]


@linux
def test_nothing_survives_the_end_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = interpreter._SUPERVISOR.replace("sys.exit", "supervisor.LINGER = supervisor.GRACE = 0.1\nsys.exit")
    monkeypatch.setattr(interpreter, "_SUPERVISOR", hasty)
    ended = start(tmp_path, family(LEAVE))
    assert (ended.status, ended.timed_out) == (0, False)
    assert len(pids(tmp_path)) == 4
    assert not [pid for pid in pids(tmp_path) if alive(pid)]


@linux
def test_nothing_survives_a_stop(tmp_path: Path) -> None:
    stop = threading.Event()

    def stop_when_there() -> None:
        wait_for(tmp_path, 4)
        stop.set()

    threading.Thread(target=stop_when_there).start()
    with pytest.raises(Stopped):
        start(tmp_path, family(WAIT), stop=stop)
    assert len(pids(tmp_path)) == 4
    assert not [pid for pid in pids(tmp_path) if alive(pid)]


@linux
def test_nothing_survives_us(tmp_path: Path) -> None:
    """Not even if we are killed and can do nothing about it."""
    code = (
        "import os, sys, threading; from pathlib import Path; from torchmigrate.verify import interpreter\n"
        "here = Path(sys.argv[1]); command = [sys.executable, '-S', '-c', sys.argv[2]]\n"
        "interpreter.run(command, here, dict(os.environ), here / 'out', here / 'err', 600, threading.Event())"
    )
    ours = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), family(WAIT)], cwd=ROOT)
    wait_for(tmp_path, 4)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    limit = time.monotonic() + 120
    while any(map(alive, pids(tmp_path))) and time.monotonic() < limit:
        time.sleep(0.05)
    assert len(pids(tmp_path)) == 4
    assert not [pid for pid in pids(tmp_path) if alive(pid)]


@linux
def test_a_fork_of_the_tests_that_hangs_ends_with_its_group_and_says_where(tmp_path: Path) -> None:
    """As a broken port's process group of gloo did: no signal handler of Python's runs there, as its lock is held."""
    sign = "import os, time; print(os.getpid(), file=open('pids', 'a'), flush=True); time.sleep(600)"
    child = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-S', '-c', {sign!r}])\n"
    hangs = "def wait():\n    import ctypes\n    ctypes.PyDLL(None).pause()\nwait()\n"
    (tmp_path / "program.py").write_text(child + hangs)
    out, err = tmp_path / "out", tmp_path / "err"
    status = warm_torch.run_into(out, err, ["program.py"], tmp_path, {}, modules=(), idle=2)
    told = err.read_text()
    assert status == warm_torch.HUNG, told
    assert 'program.py", line 5 in wait' in told
    assert told.endswith("warm_torch: nothing computed for 2 s: ended with its process group\n")
    (left,) = pids(tmp_path)
    limit = time.monotonic() + 20
    while alive(left) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not alive(left)


@linux
def test_a_fork_of_the_tests_that_computes_longer_than_one_may_hang_goes_on(tmp_path: Path) -> None:
    """Its child computes, it waits."""
    busy = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    program = f"import subprocess, sys\nsys.exit(subprocess.run([sys.executable, '-S', '-c', {busy!r}]).returncode + 3)"
    (tmp_path / "program.py").write_text(program)
    out, err = tmp_path / "out", tmp_path / "err"
    assert warm_torch.run_into(out, err, ["program.py"], tmp_path, {}, modules=(), idle=1.5) == 3, err.read_text()
