"""Bad input, by the real command line: a clear message each, the other files done, none half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Ran, git

Cli = Callable[..., Ran]
GOOD = "import torch\n\nx = torch.zeros(2).cuda()\n"
MOVED = b"import torch\n\nimport accel\n\nx = torch.zeros(2, device=accel.device())\n"
BAD = {
    "python2.py": (b"import torch\nprint 'x'.cuda()\n", "line 2: not Python 3"),
    "latin1.py": ("import torch\nname = 'é'\nx.cuda()\n".encode("latin-1"), "line 2: byte 0xe9 is not utf-8"),
    "unknown.py": (b"# coding: klingon\nx.cuda()\n", "unknown encoding: klingon"),
    "nul.py": (b"cuda" + b"\0" * 1000, "NUL byte at offset 4"),
    "syntax.py": (b"import torch\nx.cuda(\n", "line 2: not Python 3"),
    "cuda.ipynb": (b"{cuda", "not JSON"),
    "old.ipynb": (b'{"worksheets": [{"cells": ["x.cuda()"]}], "nbformat": 3}', "format 3"),
}


@pytest.fixture
def project(here: Path) -> Path:
    (here / "good.py").write_text(GOOD)
    return here


def is_done(project: Path) -> bool:
    return b"accel.device()" in (project / "good.py").read_bytes() and (project / "accel.py").exists()


@pytest.mark.parametrize("name", BAD)
def test_files_that_cannot_be_read(project: Path, cli: Cli, name: str) -> None:
    raw, message = BAD[name]
    (project / name).write_bytes(raw)
    ran = cli("check")
    assert ran.status == 2
    ran = cli("apply")
    assert ran.status == 2
    assert f"error: {name}: " in ran.err
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert (project / name).read_bytes() == raw
    assert is_done(project)


def test_all_of_them_at_once(project: Path, cli: Cli) -> None:
    for name, (raw, _) in BAD.items():
        (project / name).write_bytes(raw)
    ran = cli("apply", ".", "nowhere.py")
    assert ran.status == 2
    assert sum(line.startswith("error: ") for line in ran.err.splitlines()) == len(BAD) + 1
    assert ran.last.startswith("Rewrote 1 of 1 file and added accel.py")
    assert ran.last.endswith(f"{len(BAD) + 1} errors.")
    assert is_done(project)


def test_latin_1_with_a_cookie_keeps_its_encoding(project: Path, cli: Cli) -> None:
    raw = "# -*- coding: latin-1 -*-\nimport torch\n\nname = 'é'\nx = torch.zeros(2).cuda()\n".encode("latin-1")
    (project / "a.py").write_bytes(raw)
    patch = cli("apply", "-n").raw
    assert cli("apply").status == 0
    written = (project / "a.py").read_bytes()
    assert b"name = '\xe9'\n" in written
    assert b"device=accel.device())" in written
    # and its diff has the file's own bytes
    (project / "accel.py").unlink()
    (project / "good.py").write_text(GOOD)
    (project / "a.py").write_bytes(raw)
    (project.parent / "patch").write_bytes(patch)
    subprocess.run(["patch", "-p1", "-i", str(project.parent / "patch")], check=True, capture_output=True, cwd=project)
    assert (project / "a.py").read_bytes() == written


def test_a_broken_symlink(project: Path, cli: Cli) -> None:
    (project / "broken.py").symlink_to("nowhere.py")
    ran = cli("apply")
    assert (ran.status, "error: broken.py: broken symlink to nowhere.py\n" in ran.err) == (2, True)
    assert is_done(project)


def test_a_path_that_does_not_exist(project: Path, cli: Cli) -> None:
    ran = cli("apply", "nowhere", "good.py")
    assert (ran.status, "error: nowhere: no such file or directory\n" in ran.err) == (2, True)
    assert is_done(project)
    assert cli("check", "nowhere").status == 2


def test_six_thousand_lines(project: Path, cli: Cli) -> None:
    body = "".join(f"def f{i}(x):\n    y = x + {i}\n    return y\n\n\n" for i in range(1200))
    text = f"import torch\n\n\n{body}x = torch.zeros(2).cuda()\n{body}y = torch.zeros(2).cuda()\n"
    (project / "long.py").write_text(text)
    assert text.count("\n") > 12_000
    assert cli("apply").status == 0
    lines = (project / "long.py").read_text().split("\n")
    assert len(lines) <= text.count("\n") + 5
    assert sum("device=accel.device())" in line for line in lines) == 2
    assert is_done(project)


def test_deep_nesting(project: Path, cli: Cli) -> None:
    (project / "deep.py").write_text("x.cuda()\ny = " + "(" * 5000 + ")" * 5000 + "\n")
    ran = cli("apply")
    assert (ran.status, "Traceback" in ran.err, "error: deep.py: " in ran.err) == (2, False, True)
    assert is_done(project)


def test_an_unknown_configuration_key(project: Path, cli: Cli) -> None:
    (project / "pyproject.toml").write_text("[tool.torchmigrate]\nunsafe-fix = true\n")
    ran = cli("apply")
    assert ran.status == 2
    assert ran.err == (
        f"error: {project}/pyproject.toml:2: unknown key `unsafe-fix`\nhelp: did you mean `unsafe-fixes`?\n"
    )
    assert (project / "good.py").read_text() == GOOD
    assert cli("apply", "--isolated").status == 0


def test_a_pack_with_an_unbound_capture(project: Path, cli: Cli) -> None:
    (project / "pyproject.toml").write_text("[tool.torchmigrate]\nrule-paths = ['mine']\n")
    rule = project / "mine" / "own" / "wrong.toml"
    rule.parent.mkdir(parents=True)
    rule.write_text(
        'summary = "s"\nsafety = "safe"\nwhy = "w"\n[[rewrite]]\nmatch = "torch.f($x)"\nwith = "torch.g($y)"\n'
    )
    for command in (["apply"], ["check"], ["rules"], ["rules", "test", "mine"], ["explain", "torch.f"]):
        ran = cli(*command)
        assert ran.status == 2
        assert "own/wrong.toml:6: `with` uses $y, which `match` does not bind\nhelp: " in ran.err
        assert "internal" not in ran.err
    assert (project / "good.py").read_text() == GOOD


def bound_by_permissions(directory: Path, *arguments: str, more: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line so that file permissions count: root, as whom containers test, passes them all."""
    command = [sys.executable, "-m", "torchmigrate", *arguments]
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("root reads and writes everything, and there is no setpriv to take that away")
        without = f"-dac_override,-dac_read_search{more}"
        command = ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_an_unreadable_file_and_directory(here: Path) -> None:
    for name in ("good.py", "secret.py", "locked/a.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(GOOD)
    (here / "secret.py").chmod(0)
    (here / "locked").chmod(0)
    ran = bound_by_permissions(here, "apply")
    assert ran.returncode == 2
    assert "error: secret.py: cannot be read: Permission denied\n" in ran.stderr
    assert "error: locked: cannot read the directory: Permission denied\n" in ran.stderr
    assert is_done(here)
    (here / "locked").chmod(0o777)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_read_only_directory(here: Path) -> None:
    for name in ("one/good.py", "two/b.py", "three/c.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(GOOD)
    (here / "two").chmod(0o555)
    (here / "three" / "c.py").chmod(0o444)
    ran = bound_by_permissions(here, "apply", "--runtime", "package")
    assert ran.returncode == 2
    assert "error: two/b.py: not written: permission denied\n" in ran.stderr
    assert "error: three/c.py: not written: it is read-only\n" in ran.stderr
    assert "Rewrote 1 of " in ran.stderr
    assert (here / "two" / "b.py").read_text() == (here / "three" / "c.py").read_text() == GOOD
    assert (here / "one" / "good.py").read_text() != GOOD
    (here / "two").chmod(0o777)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
def test_a_file_whose_mode_forbids_writing(here: Path, mode: int) -> None:
    for name in ("good.py", "kept.py"):
        (here / name).write_text(GOOD)
    (here / "kept.py").chmod(mode)
    ran = bound_by_permissions(here, "apply")
    assert ran.returncode == 2
    assert "error: kept.py: not written: it is read-only\n" in ran.stderr
    assert (here / "kept.py").read_text() == GOOD
    assert (here / "kept.py").stat().st_mode & 0o777 == mode
    assert is_done(here) and not list(here.glob(".torchmigrate-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="chattr")
@pytest.mark.parametrize(("flag", "said"), [("i", "it is read-only"), ("a", "the system protects it")])
def test_a_file_that_attributes_protect(here: Path, cli: Cli, flag: str, said: str) -> None:
    for name in ("good.py", "kept.py"):
        (here / name).write_text(GOOD)
    if not shutil.which("chattr"):
        pytest.skip("there is no chattr")
    set_ = subprocess.run(["chattr", f"+{flag}", "kept.py"], cwd=here, capture_output=True, text=True)
    if set_.returncode:
        pytest.skip(f"this user or file system sets no such attributes: {set_.stderr.strip()}")
    try:
        ran = cli("apply")
        assert (ran.status, f"error: kept.py: not written: {said}" in ran.err) == (2, True), ran.err
        assert (here / "kept.py").read_text() == GOOD
        assert is_done(here) and not list(here.glob(".torchmigrate-*"))
    finally:
        subprocess.run(["chattr", f"-{flag}", "kept.py"], cwd=here, check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize(
    ("mode", "sticky", "said"),
    [(0o644, False, "it is read-only"), (0o666, True, "the system protects it"), (0o666, False, "")],
)
def test_a_file_of_another_user(here: Path, mode: int, sticky: bool, said: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    (here / "shared").mkdir()
    for name in ("good.py", "shared/theirs.py"):
        (here / name).write_text(GOOD)
    theirs = here / "shared" / "theirs.py"
    theirs.chmod(mode)
    for path, bits in ((theirs, mode), (here / "shared", 0o1777 if sticky else 0o777)):
        os.chown(path, 12345, 12345)
        path.chmod(bits)
    ran = bound_by_permissions(here, "apply", "--runtime", "package", more=",-fowner,-chown")
    assert ran.returncode == (2 if said else 0), ran.stderr
    assert not said or f"error: shared/theirs.py: not written: {said}" in ran.stderr
    assert (theirs.read_text() == GOOD) is bool(said)
    assert (here / "good.py").read_text() != GOOD
    assert not list((here / "shared").glob(".torchmigrate-*"))


KILLED = """
import os, signal, sys
from torchmigrate.base import system
from torchmigrate.cli import app
signal.signal(signal.SIGINT, signal.default_int_handler)  # `pytest &` in a script leaves it ignored
seen = []
def killing(real):
    def named(old, new, directory):
        if new.endswith(".py"):
            seen.append(new)
            if len(seen) == 4:  # the temp file is written, its name is not yet the target's
                os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        return real(old, new, directory)
    return named
system.exchange, system.without_replacing = killing(system.exchange), killing(system.without_replacing)
sys.exit(app.run(["apply"]))
"""


@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("in_git", [True, False])
def test_killed_in_the_middle_of_writing(here: Path, cli: Cli, signal: str, in_git: bool) -> None:
    names = [f"m{number}.py" for number in range(6)]
    for name in names:
        (here / name).write_text(GOOD)
    if in_git:
        git(here, "init", "-q")
        git(here, "add", ".")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED, signal]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    texts = [(here / name).read_text() for name in names]
    assert texts.count(GOOD) in (3, 4)  # helper, m0 and m1, or also m2, which the signal met
    assert all(text == GOOD or text.endswith("device=accel.device())\n") for text in texts)
    if signal == "SIGINT":
        assert done.returncode == 130
        assert "error: interrupted; " in done.stderr
        assert "Traceback" not in done.stderr
        assert not list(here.glob(".torchmigrate-*"))
    ran = cli("undo")
    assert ran.status == 0, ran.err
    assert [(here / name).read_text() for name in names] == [GOOD] * 6
    assert sorted(p.name for p in here.iterdir() if p.name != ".git") == names


def test_ctrl_c_while_planning_in_processes(here: Path) -> None:
    """Workers must not print their own tracebacks."""
    filler = "# " + "cuda " * 2000 + "\n"
    for number in range(400):
        (here / f"m{number}.py").write_text(filler + GOOD * 20)
    code = """
import os, signal, sys
from torchmigrate.cli import app, output
signal.signal(signal.SIGINT, signal.default_int_handler)  # `pytest &` in a script leaves it ignored
output.Progress.__call__ = lambda self, done, total: os.killpg(0, signal.SIGINT)  # as a terminal does
sys.exit(app.run(["apply", "-j", "2"]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        process_group=0,
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert "interrupted" in done.stderr
