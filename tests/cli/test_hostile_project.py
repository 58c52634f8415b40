"""A project is not trusted: none of its code runs, nothing of it is waited for, none of its names reaches a terminal
as it is. Git has a file of its own: vcs/test_hardening.py."""

from __future__ import annotations

import ast
import contextlib
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT, Ran, git, write_tree

from torchmigrate.apply import writer
from torchmigrate.base import file_io, limits, user_folders
from torchmigrate.base.text import visible, visible_lines
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed
from torchmigrate.engine import worker
from torchmigrate.engine.worker import Done, Job, Worker
from torchmigrate.fixers import registry
from torchmigrate.rules import packs, reader

Cli = Callable[..., Ran]
CUDA = "import torch\n\nx = torch.zeros(3).cuda()\n"
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX files")
RULE = 'summary = "s"\nsafety = "display"\nwhy = "w"\nfiles = ["*.sh"]\n'


def enough(seconds: int) -> None:
    """Ends this test's process where something waits for ever: a failure that is seen."""
    signal.alarm(seconds)


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    if hasattr(signal, "alarm"):
        enough(240)
    yield
    if hasattr(signal, "alarm"):
        enough(0)


# ---- code of the project


def planted(here: Path) -> Path:
    """Modules that leave a canary when they are imported, under names that we import, and hooks of Python's."""
    canary = here.parent / "canary"
    body = f"open({str(canary)!r}, 'a').write(__name__ + '\\n')\n"
    names = (
        *("libcst", "typer", "git", "rich", "json", "tomllib", "multiprocessing", "concurrent", "sitecustomize"),
        *("usercustomize", "ast", "logging", "difflib", "typing_extensions", "click", "shellingham", "accel"),
    )
    write_tree(here, {f"{name}.py": f"import torch\n{body}x = torch.zeros(1).cuda()\n" for name in names})
    for package in ("multiprocessing", "git", "concurrent"):
        write_tree(here, {f"{package}/__init__.py": body, f"{package}/futures.py": body, f"{package}/spawn.py": body})
    write_tree(here, {"setup.py": body, "conftest.py": body, "torch.py": body, "train.py": CUDA})
    return canary


@pytest.mark.parametrize(
    "command", [("apply", "-n"), ("check",), ("report",), ("catalog", "--project", "."), ("rules",)]
)
def test_no_module_of_the_project_is_imported(here: Path, command: tuple[str, ...]) -> None:
    canary = planted(here)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COV_")}
    ran = subprocess.run(
        [sys.executable, "-m", "torchmigrate", *command],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode in (0, 1), ran.stderr
    assert not canary.exists(), canary.read_text()


def test_nor_by_processes_that_are_spawned(here: Path) -> None:
    canary = planted(here)
    code = """
import sys
sys.path.remove("")
import multiprocessing
if __name__ == "__main__":
    from torchmigrate.cli import app
    from torchmigrate.engine import worker
    worker.POOL_BYTES = 0
    multiprocessing.get_all_start_methods = lambda: ["spawn"]
    status = app.run(["check", "-j", "2", "-q", "--exit-zero"])
    import os
    assert "PYTHONSAFEPATH" not in os.environ
    sys.exit(status)
"""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert not canary.exists(), canary.read_text()


def test_a_pack_names_fixers_and_no_modules(here: Path, cli: Cli) -> None:
    canary = planted(here)
    no_fixers = (
        "api/memory",
        "device/device_defaults",
        "device/device_string:is_foreign",
        "device/tensor_cuda:_reference",
    )
    private = [name for name in registry.fixers_of("device/tensor_cuda") if name.startswith("_")]
    assert registry.fixers_of("device/tensor_cuda") and not private
    outside = ("../accel", "../fixers/device/tensor_cuda", "./device/tensor_cuda")
    for name in (
        "os",
        "libcst",
        *outside,
        "torchmigrate.cli.app",
        "__init__",
        *no_fixers,
        "device/tensor_cuda:_reference",
    ):
        write_tree(
            here,
            {
                "pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["packs"]\n',
                "packs/own/one.toml": 'summary = "s"\nsafety = "safe"\nwhy = "w"\n'
                f'fixer = "{name}"\non = ["torch.zeros"]\n',
            },
        )
        ran = cli("check")
        assert (ran.status, "there is no fixer" in ran.err) == (2, True), ran.err
    assert not canary.exists()


# ---- files that are none


@posix
def test_nothing_waits_for_a_fifo_nor_reads_a_device(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": CUDA, "sub/train.py": CUDA})
    for name in ("a.py", "nb.ipynb", "requirements.txt", "Dockerfile", "setup.py", "setup.cfg", "sub/accel.py"):
        os.mkfifo(here / name)
    (here / "zero.py").symlink_to("/dev/zero")
    (here / "requirements-dev.txt").symlink_to("/dev/zero")
    (here / "tty.py").symlink_to("/dev/tty")
    listening = socket.socket(socket.AF_UNIX)
    os.chdir(here)
    listening.bind("socket.py")
    try:
        for command in (("check",), ("report",), ("apply",), ("catalog", "--project", "."), ("undo",)):
            ran = cli(*command)
            assert "internal error" not in ran.err, ran.err
        assert cli("check", "a.py").status == 2
    finally:
        listening.close()


@posix
def test_a_file_that_becomes_something_else_is_let_be(tmp_path: Path) -> None:
    names = ("fifo.py", "directory.py", "link.py", "gone.py")
    write_tree(tmp_path, dict.fromkeys(names, "old\n") | {"other.py": "old\n", "fine.py": "old\n"})
    planned = [Changed(tmp_path / name, b"old\n", b"new\n", ()) for name in (*names, "fine.py")]
    for name in names:
        (tmp_path / name).unlink()
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "directory.py").mkdir()
    (tmp_path / "link.py").symlink_to("other.py")
    found = {r.path.name: r.error for r in writer.each(planned) if isinstance(r, Failed)}
    assert set(found) == set(names)
    assert "not a regular file" in found["fifo.py"] and "symbolic link" in found["link.py"]
    assert (tmp_path / "other.py").read_text() == "old\n"
    assert (tmp_path / "fine.py").read_text() == "new\n"


@posix
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError):
            file_io.read(path)
    (tmp_path / "file").write_bytes(b"")
    assert file_io.read(tmp_path / "file") == b""


@posix
def test_loops_of_links_and_links_out_of_the_tree(here: Path, cli: Cli) -> None:
    outside = write_tree(here.parent / "outside", {"mine.py": CUDA})
    write_tree(here, {"a.py": CUDA})
    (here / "loop").symlink_to(".")
    (here / "self.py").symlink_to("self.py")
    (here / "one.py").symlink_to("two.py")
    (here / "two.py").symlink_to("one.py")
    (here / "out.py").symlink_to(outside / "mine.py")
    (here / "out").symlink_to(outside)
    ran = cli("apply")
    assert ran.status == 2  # the loops are said
    assert sum("broken symlink" in line for line in ran.err.splitlines()) == 3
    assert (outside / "mine.py").read_text() == CUDA
    assert (here / "a.py").read_text() != CUDA
    assert sorted(path.name for path in outside.iterdir()) == ["mine.py"]


@posix
def test_modes_and_attributes_are_kept(here: Path, cli: Cli) -> None:
    path = here / "a.py"
    path.write_text(CUDA)
    path.chmod(0o751)
    kept = hasattr(os, "setxattr")
    if kept:
        try:
            os.setxattr(path, "user.note", b"mine")
        except OSError as error:
            assert error.errno in (errno.ENOTSUP, errno.EPERM)
            kept = False
    assert cli("apply").status == 0
    assert path.stat().st_mode & 0o7777 == 0o751
    if kept:
        assert os.getxattr(path, "user.note") == b"mine"


def test_empty_and_large_files(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST", 1_000)
    write_tree(here, {"empty.py": "", "large.py": CUDA + "#" * 1_000, "a.py": CUDA})
    ran = cli("apply", "-v")
    assert ran.status == 0
    assert "skipped large.py: larger than 1,000 bytes" in ran.err
    assert (here / "empty.py").read_bytes() == b""
    assert (here / "large.py").read_text().startswith(CUDA)


@posix
@pytest.mark.parametrize("option", ["-o", "--baseline"])
def test_a_file_that_is_asked_for_goes_through_no_link(here: Path, cli: Cli, option: str) -> None:
    write_tree(here.parent, {"profile": "mine\n"})
    write_tree(here, {"a.py": CUDA})
    for name, target in (("report.json", "../profile"), ("other.json", "../nowhere")):
        (here / name).symlink_to(target)
        more = ["--write-baseline"] if option == "--baseline" else ["--output-format", "json"]
        cli("check", option, name, *more)
    assert (here.parent / "profile").read_text() == "mine\n"
    assert not (here.parent / "nowhere").exists()
    assert json.loads((here / "other.json").read_text())


@posix
@pytest.mark.parametrize("option", ["-o", "--baseline"])
def test_a_file_that_is_asked_for_goes_through_no_linked_folder(here: Path, cli: Cli, option: str) -> None:
    write_tree(here, {"a.py": CUDA, "sub/b.py": CUDA})
    outside = here.parent / "outside"
    outside.mkdir()
    (here / "reports").symlink_to(outside)
    (here / "inside").symlink_to(here / "sub")
    more = ["--write-baseline"] if option == "--baseline" else []
    ran = cli("check", "--exit-zero", option, "reports/x.json", *more)
    assert ran.status == 2 and f"name the folder itself: {outside}" in ran.err
    assert not list(outside.iterdir())
    assert cli("check", "--exit-zero", option, "inside/x.json", *more).status == 0
    assert cli("check", "--exit-zero", option, str(outside / "x.json"), *more).status == 0
    assert (here / "sub" / "x.json").read_bytes() and (outside / "x.json").read_bytes()


@posix
def test_requirements_that_are_no_file(here: Path, cli: Cli) -> None:
    """The search for the floor of torch, and the key of cached plans, read them in any project of some size."""
    write_tree(here, {f"p/m{number}.py": CUDA for number in range(60)})
    os.mkfifo(here / "requirements.txt")
    (here / "requirements-zero.txt").symlink_to("/dev/zero")
    (here / "requirements-sparse.txt").touch()
    os.truncate(here / "requirements-sparse.txt", 20_000_000_000)
    assert cli("check", "-q", "--exit-zero").status == 0
    assert cli("apply", "-q").status == 0


@posix
@pytest.mark.parametrize("name", ["big.py", "big.ipynb", "requirements.txt", "setup.cfg", "Dockerfile"])
def test_sparse_files(here: Path, cli: Cli, name: str) -> None:
    write_tree(here, {"a.py": CUDA})
    (here / name).touch()
    os.truncate(here / name, 20_000_000_000)
    ran = cli("check", "-v", "--exit-zero")
    assert ran.status == 0, ran.err
    assert "a.py:3" in ran.out
    if name.startswith("big"):
        assert f"skipped {name}: larger than " in ran.out + ran.err
    pyproject = here / "pyproject.toml"
    pyproject.touch()
    os.truncate(pyproject, 20_000_000_000)
    ran = cli("check")
    assert ran.status == 2 and "larger than 2,000,000 bytes, so it was not read" in ran.err


@posix
def test_a_pipe_that_is_asked_for_is_written_to(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.py": CUDA})
    os.mkfifo(here / "pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        assert cli("check", "-o", "pipe", "--output-format", "json").status == 1
        assert reader.stdout is not None and json.loads(reader.stdout.read())


# ---- two at once


@contextlib.contextmanager
def another_writer(file: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of a file's project for some time."""
    code = f"""
import sys, time
from pathlib import Path
from torchmigrate.apply import journal
from torchmigrate.base import user_folders
with user_folders.held(journal.places([Path({str(file)!r})])):
    print("held", flush=True)
    time.sleep({seconds})
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            yield other
        finally:
            other.kill()


def test_the_second_of_two_says_who_writes(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folders, "PATIENCE", 0.1)
    write_tree(here, {"a.py": CUDA})
    git(here, "init", "-q")
    with another_writer(here / "a.py", 600) as other:
        for command in (("apply", "--allow-dirty"), ("apply", "--allow-dirty", "sub/../a.py")):
            ran = cli(*command)
            assert (ran.status, (here / "a.py").read_text()) == (2, CUDA)
            assert f"error: process {other.pid} is writing to this project, so nothing was written\nhelp: " in ran.err
    assert cli("apply", "--allow-dirty").status == 0  # the dead hold nothing
    after = (here / "a.py").read_text()
    with another_writer(here / "a.py", 600):
        assert (cli("undo").status, (here / "a.py").read_text()) == (2, after)
    assert cli("undo").status == 0
    assert (here / "a.py").read_text() == CUDA


def test_the_second_of_two_waits_for_the_first(here: Path, cli: Cli) -> None:
    assert user_folders.PATIENCE == 10  # as SECURITY.md says
    write_tree(here, {"a.py": CUDA})
    git(here, "init", "-q")
    with another_writer(here / "a.py", 0.7) as other:
        assert cli("apply", "--allow-dirty").status == 0
        assert other.wait(30) == 0
    assert (here / "a.py").read_text() != CUDA


# ---- a journal of somebody else's


@posix
def test_undo_leaves_the_tree_by_no_link(here: Path, cli: Cli) -> None:
    """A directory that apply wrote to has become a link to somebody else's, with the same bytes in it."""
    write_tree(here, {"sub/a.py": CUDA})
    git(here, "init", "-q")
    assert cli("apply", "--allow-dirty").status == 0
    home = here.parent / "home"
    (here / "sub").rename(home)
    (here / "sub").symlink_to(home)
    before = (home / "a.py").read_bytes()
    ran = cli("undo")
    assert ran.status == 2
    assert "sub/a.py: a symbolic link leads there now" in ran.err
    assert (home / "a.py").read_bytes() == before


@posix
def test_old_journals_are_not_removed_behind_a_link(here: Path, cli: Cli) -> None:
    years = here.parent / "years"
    for year in range(1990, 2020):
        write_tree(years, {f"{year}/photo": "mine\n"})
    write_tree(here, {"a.py": CUDA})
    git(here, "init", "-q")
    (here / ".git" / "torchmigrate").symlink_to(years)
    assert cli("apply", "--allow-dirty").status == 0
    assert len(list(years.iterdir())) == 30
    assert cli("undo").status == 0
    assert (here / "a.py").read_text() == CUDA


# ---- names and lines that speak to terminals, browsers and CI

NAMES = (
    "\x1b]0;title\x07.py",
    "\x1b[2J.py",
    "new\nline.py",
    "car\rriage.py",
    "<script>alert(1)</script>.py",
    "a|b`c.py",
    "[red]markup[/red].py",
    "::error file=x::y.py",
    "\u202egnp.py",
    "%0A::set-output name=x::y.py",
    os.fsdecode(b"\xff\xfe.py"),
    "& \"quoted' .py",
)
LINE = "import torch\n\nx = torch.zeros(3).cuda()  # \x1b[31m <script>alert(2)</script> | ``` \u202e ::error::\n"
SUPPRESSED = "y = 1  # torchmigrate: ignore[\x1b]0;x\x07<script>`|`]\n"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture
def speaking(here: Path) -> Path:
    for name in NAMES:
        try:
            (here / name.replace("/", "\u2044")).write_text(LINE + SUPPRESSED)
        except (OSError, UnicodeEncodeError):
            continue  # this file system knows no such names
    assert len(list(here.iterdir())) >= 6
    return here


@pytest.mark.parametrize("in_git", [True, False])
@pytest.mark.parametrize("format_", ["text", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown"])
def test_reports_of_names_that_speak(speaking: Path, cli: Cli, format_: str, in_git: bool) -> None:
    if in_git:
        git(speaking, "init", "-q")
    ran = cli("check", "-v", "--output-format", format_)
    assert ran.status == 1, ran.err
    assert "Traceback" not in ran.err and "internal error" not in ran.err
    assert not RAW.search(ran.err), ran.err
    lines = ran.out.splitlines()
    if format_ in ("text", "concise"):
        assert not RAW.search(ran.out)
        assert not [line for line in lines if line.startswith("::")]
    elif format_ in ("json", "sarif", "gitlab"):
        json.loads(ran.out)
    elif format_ == "junit":
        for each in ElementTree.fromstring(ran.out).iter("failure"):
            assert not RAW.search(each.attrib["message"] + (each.text or ""))
    elif format_ == "github":
        found = [COMMAND.fullmatch(line) for line in lines if line]
        assert all(found), ran.out
        files = {_unescaped(match["file"]) for match in found if match}
        assert files == {
            path.name.encode(errors="surrogateescape").decode(errors="replace")
            for path in speaking.iterdir()
            if path.suffix == ".py"
        }
    else:
        assert not RAW.search(ran.out)
        assert "<script>" not in _without_code(ran.out)


COMMAND = re.compile(r"::(?:warning|error) file=(?P<file>[^:,]*)(?:,\w+=[^:,]*)*::.*")


def _unescaped(value: str) -> str:
    """As GitHub's runner reads the value of a property."""
    for character, code in ((":", "%3A"), (",", "%2C"), ("\r", "%0D"), ("\n", "%0A"), ("%", "%25")):
        value = value.replace(code, character)
    return value


SPEAKS = "<script>alert(1)</script> [click](javascript:alert(2)) @everyone #1 ![i](https://example.org/beacon.png)"


@pytest.mark.parametrize("command", [("check", "-v"), ("apply", "-n"), ("report",)])
def test_texts_of_a_pack_are_text_in_markdown(here: Path, cli: Cli, command: tuple[str, ...]) -> None:
    rule = f'summary = "{SPEAKS}"\nsafety = "display"\nwhy = "{SPEAKS}"\nmessage = "{SPEAKS}"\n'
    write_tree(
        here,
        {
            "a.py": "import torch\ntorch.cuda.nope()\n",
            "pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["packs"]\n',
            "packs/own/one.toml": f'{rule}[[rewrite]]\nmatch = "torch.cuda.nope()"\n',
        },
    )
    ran = cli(*command, "--output-format", "markdown")
    text = _without_code(ran.out)
    assert "alert" in text, ran.err
    assert not re.search(r"(?<!\\)(<script|<img|\[click|@everyone|#1|\[i\])", text), text


@posix
def test_files_that_cannot_be_read_and_speak(here: Path, cli: Cli) -> None:
    """Each attribute and text that is for people, also of errors: names of files stay as they are."""
    name = "a\x1b]0;t\x07\u202e.py"
    write_tree(here, {name: LINE, f"{name}c.py": "x.cuda(\n# \u202e\x1b"})
    for format_ in ("text", "concise", "markdown"):
        ran = cli("check", "--output-format", format_)
        assert ran.status == 2 and not RAW.search(ran.out + ran.err), format_
    root = ElementTree.fromstring(cli("check", "--output-format", "junit").out)
    found = [*root.iter("failure"), *root.iter("error")]
    assert {each.tag for each in found} == {"failure", "error"}
    texts = [each.attrib["message"] + (each.text or "") for each in found]
    texts += [case.attrib["name"] for case in root.iter("testcase")]
    assert not [text for text in texts if RAW.search(text)]


def _without_code(markdown: str) -> str:
    """Markdown without what stands in code, where nothing is markup."""
    text = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", markdown)
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


@pytest.mark.parametrize("format_", ["text", "markdown", "json", "html"])
def test_portability_reports_of_names_that_speak(speaking: Path, cli: Cli, format_: str) -> None:
    ran = cli("report", "--output-format", format_)
    assert ran.status == 0, ran.err
    if format_ == "html":
        assert "<script" not in ran.out
    elif format_ == "text":
        assert not RAW.search(ran.out)
    elif format_ == "json":
        json.loads(ran.out)
    else:
        assert "<script>" not in _without_code(ran.out)


@posix
def test_a_folder_whose_name_speaks(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / "p\x1b]0;title\x07\u202e"
    write_tree(folder, {"a.py": CUDA, "d\x1b/c.py": CUDA, "b\x1b.py": "import torch\ntorch.cuda.nvtx.mark('x')\n"})
    monkeypatch.chdir(folder)
    for command in (["start"], ["apply", "-v"], ["undo", "--list"], ["undo"], ["config"], ["report"], ["check", "-v"]):
        ran = cli(*command)
        assert not RAW.search(ran.out + ran.err), (command, ran.out, ran.err)


def test_a_diff_of_names_that_speak_applies(speaking: Path, cli: Cli) -> None:
    ran = cli("apply", "-n", "--runtime", "package")
    assert ran.status == 1, ran.err
    assert not RAW.search(ran.err)
    before = {path: path.read_bytes() for path in speaking.iterdir()}
    patch = ran.raw.partition(b"\nsuppression")[0]
    (speaking.parent / "patch").write_bytes(patch[: patch.rfind(b"\n") + 1])
    assert cli("apply", "--runtime", "package").status in (0, 1)
    after = {path: path.read_bytes() for path in speaking.iterdir()}
    assert all(before[path] != after[path] for path in before)
    assert cli("undo").status == 0
    assert before == {path: path.read_bytes() for path in speaking.iterdir()}


def test_what_is_shown_of_controls() -> None:
    assert visible("a\x1b[0m\tb\n\u202ec\udcff") == "a\\x1b[0m\tb\\x0a\\u202ec\\xff"
    assert visible("::error::x") == "./::error::x"
    assert visible_lines("a\r\nb\rc\n\x9b") == "a\r\nb\\x0dc\n\\x9b"
    assert visible("naïve 名前 🎉") == "naïve 名前 🎉"


# ---- bombs

DEEP = 100_000
BOMBS = {
    "parentheses": "x.cuda(" + "(" * DEEP,
    "minus": "y = " + "-" * DEEP + "x.cuda()",
    "not": "y = " + "not " * DEEP + "x.cuda()",
    "plus": "y = x.cuda()" + " + 1" * DEEP,
    "attributes": "y = x.cuda()" + ".a" * DEEP,
    "calls": "y = x" + ".cuda()" * 2_000,
    "elif": "if a:\n  x.cuda()\n" + "elif a:\n  x.cuda()\n" * 2_000,
    "lambda": "y = " + "lambda: " * 2_500 + "x.cuda()",
    "index": "y = x.cuda()" + "[0]" * 2_500,
    "aliases": "a0 = torch.cuda\n" + "".join(f"a{i + 1} = a{i}\n" for i in range(2_000)) + "a2000.empty_cache()\n",
    "doubling": "a0 = torch.cuda\n"
    + "".join(f"a{i + 1} = a{i}\na{i + 1} = a{i}\n" for i in range(60))
    + "a60.empty_cache()\n",
    "again": "if torch.cuda.is_available():\n    x = x.cuda()\n" * 150,
    "ignored": "x.cuda()  # torchmigrate: ignore[" + "a," * 50_000 + "]",
    "continued": "y = \\\n" + "\\\n" * 5_000 + "x.cuda()",
    "line": "y = [" + "x.cuda(), " * 2_000 + "]",
    "nul": "x.cuda()\0",
    "imports": "from a import (" * 20_000 + "\nx.cuda()",
    "unclosed": "from a import (" + "(# " * 50_000 + "\nx.cuda()",
}


@pytest.mark.parametrize("name", BOMBS)
def test_source_that_is_made_to_do_harm(here: Path, cli: Cli, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 1.0)
    raw = f"import torch\n{BOMBS[name]}\n"
    write_tree(here, {"bomb.py": raw, "good.py": CUDA})
    ran = cli("apply", "--runtime", "package")
    assert "internal error" not in ran.err and "Traceback" not in ran.err, ran.err[-500:]
    assert ran.status in (0, 1, 2)
    if (here / "bomb.py").read_text() == raw:
        # what is nested too deeply for the six worlds is left, and told of
        assert ran.status == 2 or name == "ignored" or "1 left alone" in ran.err, ran.err[-300:]
    assert (here / "good.py").read_text() != CUDA


GROWING = {
    "f-strings": "s = f'{s}{s}'\n",
    "percent": "s = '%s%s' % (s, s)\n",
    "format": "s = '{0}{0}'.format(s)\n",
    "join": "s = ','.join([s, s])\n",
    "replace": "s = s.replace('a', 'aa')\n",
    "plus": "s = s + s\n",
    "a width": "s = '%300000000d' % 1\n",
    "a width that is given": "s = '{:{}}'.format('x', 300000000)\n",
    "a list": "s = [s, s]\n",
    "stars": "s = [*s, *s]\n",
}


@pytest.mark.parametrize("how", GROWING)
def test_values_that_are_made_to_grow(here: Path, cli: Cli, how: str) -> None:
    """Values are followed, and not computed where they get long: twice as long with each line, in 26 lines."""
    write_tree(
        here, {"a.py": f"import torch\n\ns = 'cuda'\n{GROWING[how] * 26}x = torch.zeros(1).to(s)\ny = x.cuda()\n"}
    )
    assert cli("apply", "--dry-run").status in (0, 1)  # what is loaded once
    tracemalloc.start()
    ran = cli("apply", "-v")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000
    assert "cannot be checked" not in ran.out + ran.err
    assert "accel" in (here / "a.py").read_text()


@pytest.mark.parametrize("index", ["9" * 5_000, "\u00b2", "\uff11", "-1", "1" * 400, "0x1", "1_0", ""])
def test_indices_that_are_none(here: Path, cli: Cli, index: str) -> None:
    text = f"import torch\n\nx = torch.zeros(1).to('cuda:{index}')\nn = f'cuda:{{0x{'f' * 5_000}}}'\n"
    write_tree(here, {"a.py": f"{text}y = torch.zeros(1).to(n)\nz = y.cuda(int(1e400))\n", "good.py": CUDA})
    ran = cli("apply", "-v")
    assert "please report" not in ran.out + ran.err, ran.err
    assert "accel" in (here / "good.py").read_text()


class Swallows:
    """Its finalizer is where the limit is met, so that Python ignores the TooSlow that is raised there."""

    def __del__(self) -> None:
        while True:
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_stopped_in_a_finalizer_is_stopped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(signal, "setitimer"):
        pytest.skip("no timer here")
    monkeypatch.setattr(limits, "_AGAIN", 0.05)
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: lost.append(told.exc_type))
    with pytest.raises(limits.TooSlow), limits.bounded(0.05):
        Swallows()
        while True:
            pass
    assert lost == [limits.TooSlow]


def test_what_takes_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(signal, "setitimer"):
        pytest.skip("no timer here")
    with pytest.raises(limits.TooSlow), limits.bounded(0.05):
        while True:
            pass
    with limits.bounded(0.05):
        pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 50_000,
        "x = " + "{a=" * 50_000,
        "x = " + "1" * 5_000,
        ".".join(["a"] * 50_000) + " = 1",
        "\x00",
        'x = "' + "\\u001b" + '"',
    ],
)
def test_toml_that_is_made_to_do_harm(here: Path, cli: Cli, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_SECONDS", 0.5)
    write_tree(
        here,
        {"pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["packs"]\n', "packs/own/one.toml": text, "a.py": CUDA},
    )
    ran = cli("check")
    assert (ran.status, "packs/own/one.toml:1: " in ran.err) == (2, True), ran.err[-300:]
    assert len(ran.err) < 1_000
    assert "internal error" not in ran.err


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ('[[pattern]]\nmatch = "(a+)+b"\n', "repeats a repetition"),
        ('message = "{match:>1000000000}"\n[[pattern]]\nmatch = "a"\n', "a name alone"),
        ('message = "{match.__class__}"\n[[pattern]]\nmatch = "a"\n', "`message` has"),
        ('message = "\\u001b]0;x\\u0007"\n[[pattern]]\nmatch = "a"\n', "control character"),
    ],
)
def test_packs_that_are_made_to_do_harm(here: Path, cli: Cli, rest: str, what: str) -> None:
    write_tree(
        here,
        {
            "pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["packs"]\n',
            "packs/own/one.toml": RULE + rest,
            "a.sh": "a",
        },
    )
    ran = cli("check")
    assert (ran.status, what in ran.err) == (2, True), ran.err


@posix
@pytest.mark.parametrize("expression", ["(?:a|a)*$", "(?:a|aa)+$", "a*a*a*a*a*a*a*$", ".*.*.*.*.*.*=x"])
def test_a_users_expression_that_takes_for_ever(
    here: Path, cli: Cli, expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchmigrate.project import text_rules as rules

    monkeypatch.setattr(rules, "_SECONDS", 0.3)
    rule = RULE + f"[[pattern]]\nmatch = 'b{expression}'\n"
    write_tree(
        here,
        {
            "pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["packs"]\n',
            "packs/own/one.toml": rule,
            "a.sh": "b" + "a" * 3_000 + "!\n",
            "good.py": CUDA,
        },
    )
    ran = cli("check")
    assert ran.status == 2
    assert "error: a.sh: a rule's regular expression takes too long here" in ran.err, ran.err
    assert "good.py" in ran.out


def _expressions() -> dict[str, set[str]]:
    """All regular expressions of the rules that ship, with words that they speak of."""
    found: dict[str, set[str]] = {}
    for rule in packs.load(cases=False).rules.values():
        for pattern in rule.patterns:
            for text in (pattern.match, pattern.unless, pattern.alternative):
                if text:
                    found.setdefault(text, set()).update(rule.literals)
        for where in rule.where:
            for text in (where.line, where.unless, where.under):
                if text:
                    found.setdefault(text, set()).update(rule.literals)
    return found


def test_the_expressions_that_ship_are_quick_on_any_line() -> None:
    """Each on lines of 4,000 characters that lead it on and disappoint it at the end."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("no timer here")
    expressions = _expressions()
    assert len(expressions) > 20
    common = [" ", "a", "1", "-", ".", "=", "/", "\\", '"', "'", "--", "a ", "a-", "a.", "1.", "a=", "[", "x=1 ", "a,"]
    for text, words in expressions.items():
        compiled = re.compile(text)
        own = [*words, *(f"{word} " for word in words), *re.findall(r"[A-Za-z_]{3,}", text)[:12]]
        for piece in (*common, *own):
            for line in ((piece * 4_000)[:4_000], (piece * 4_000)[:2_000] + "\x00" + (piece * 4_000)[:1_999]):
                try:
                    with limits.bounded(1.0):
                        list(compiled.finditer(line))
                except limits.TooSlow:
                    pytest.fail(f"{text!r} takes for ever on {piece!r} repeated")


NOTEBOOK = '{"cells": [{"cell_type": "code", "source": "import torch\\ntorch.zeros(1).cuda()"%s}], "nbformat": 4}'


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("deep", '{"cells": ' + "[" * DEEP + ' "cuda"'),
        ("deep output", NOTEBOOK % (', "outputs": ' + "[" * DEEP + "]" * DEEP)),
        ("long number", NOTEBOOK % (', "outputs": [' + "1" * 10_000 + "]")),
        ("no number", NOTEBOOK % ', "outputs": [NaN, Infinity, -Infinity]'),
        ("twice", NOTEBOOK % ', "source": "x.cuda()", "cell_type": "markdown", "cell_type": "code"'),
        ("surrogate", NOTEBOOK % ', "metadata": {"a": "\\ud800"}'),
        ("keys", '{"cells": {"cuda": 1}}'),
        ("null", '{"cells": null, "a": "cuda"}'),
        ("scalars", '{"cells": [1, null, "cuda", []]}'),
        ("names", '{"metadata": {"kernelspec": {"language": ["cuda"]}}, "cells": []}'),
    ],
)
def test_notebooks_that_are_made_to_do_harm(here: Path, cli: Cli, name: str, raw: str) -> None:
    write_tree(here, {"bomb.ipynb": raw, "good.py": CUDA})
    for command in ("check", "apply"):
        ran = cli(command)
        assert "internal error" not in ran.err and "Traceback" not in ran.err, ran.err[-500:]
        assert len(ran.err) < 2_000
    assert (here / "good.py").read_text() != CUDA


def test_a_notebook_with_large_outputs(here: Path, cli: Cli) -> None:
    output = '{"output_type": "stream", "name": "stdout", "text": ["' + "cuda " * 4_000_000 + '"]}'
    raw = NOTEBOOK % f', "outputs": [{output}]'
    write_tree(here, {"large.ipynb": raw})
    assert cli("apply").status == 0
    after = (here / "large.ipynb").read_text()
    assert len(raw) > 20_000_000 and after != raw
    assert after.endswith(raw[-20_000_000:])


# ---- what the system refuses


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("command", [("check",), ("apply", "-n"), ("check", "--output-format", "json")])
def test_a_report_that_cannot_be_printed(here: Path, command: tuple[str, ...]) -> None:
    write_tree(here, {"a.py": CUDA})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "torchmigrate", *command], env=environment, stdout=full, stderr=subprocess.PIPE
        )
    assert ran.returncode == 2
    assert b"internal error" not in ran.stderr and b"Traceback" not in ran.stderr, ran.stderr
    assert b"o space left on device" in ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_messages_that_cannot_be_printed_change_no_status(here: Path) -> None:
    write_tree(here, {"a.py": CUDA})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments, status in ((["apply"], 0), (["undo"], 0), (["undo"], 2)):
        with Path("/dev/full").open("wb") as full:
            command = [sys.executable, "-m", "torchmigrate", *arguments]
            assert (
                subprocess.run(
                    command, cwd=here, env=environment, stderr=full, stdout=full if status else None, check=False
                ).returncode
                == status
            )


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_too_little_memory_is_said(here: Path) -> None:
    write_tree(here, {"large.py": "import torch\n" + "x = x.cuda()\n" * 150_000, "good.py": CUDA})
    code = """
import resource, sys
from torchmigrate.cli import app
from torchmigrate.engine import planner
from torchmigrate.syntax import pattern
resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))
sys.exit(app.run(["check", "-q", "-j", "1"]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.returncode == 2, ran.stderr
    assert "Traceback" not in ran.stderr and "MemoryError" in ran.stderr


@pytest.mark.parametrize("deadly", ["b", "abcdefghijkl"])
def test_a_worker_that_dies_is_said(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, deadly: str) -> None:
    """As the kernel ends one for lack of memory: its file is an error, the others are done."""
    if not hasattr(os, "fork"):
        pytest.skip("the patch reaches a fork only")
    names = [f"{name}.py" for name in "abcdefghijkl"]
    write_tree(here, dict.fromkeys(names, CUDA))
    monkeypatch.setattr(worker, "POOL_BYTES", 0)
    look = Worker.__call__

    def dies(self: Worker, job: Job) -> Done:
        if Path(job.path).name.removesuffix(".py") in deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return look(self, job)

    monkeypatch.setattr(Worker, "__call__", dies)
    ran = cli("apply", "-j", "2")
    bad = [name for name in names if name.removesuffix(".py") in deadly]
    said = re.findall(r"^error: (\S+): the process that looked into it died, also with this file alone", ran.err, re.M)
    assert (ran.status, said) == (2, bad), ran.err
    assert [name for name in names if (here / name).read_text() == CUDA] == bad
    assert not list(here.glob(".torchmigrate-*"))
    monkeypatch.setattr(Worker, "__call__", look)
    assert cli("apply", "-j", "2", "--allow-dirty").status == 0  # it is not remembered as the file's own fault
    assert [name for name in names if (here / name).read_text() == CUDA] == []


def test_a_worker_that_is_killed_once_costs_nothing(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("the patch reaches a fork only")
    write_tree(here, {f"{name}.py": CUDA for name in "abcdef"})
    monkeypatch.setattr(worker, "POOL_BYTES", 0)
    look, killed = Worker.__call__, here.parent / "killed"

    def dies_once(self: Worker, job: Job) -> Done:
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return look(self, job)

    monkeypatch.setattr(Worker, "__call__", dies_once)
    ran = cli("apply", "-j", "2")
    assert ran.status == 0, ran.err
    assert killed.exists()
    assert all((here / f"{name}.py").read_text() != CUDA for name in "abcdef")


@pytest.mark.parametrize("link", ["javascript:alert(1)", "data:text/html,x", "//host/x", "https://a b", "HTTPS:x"])
def test_a_link_of_a_pack_is_a_link_to_a_page(here: Path, cli: Cli, link: str) -> None:
    rule = 'summary = "s"\nsafety = "display"\nwhy = "w"\nsee = ["%s"]\n[[rewrite]]\nmatch = "torch.cuda.nope()"\n'
    write_tree(here, {"a.py": "import torch\ntorch.cuda.nope()\n", "packs/own/one.toml": rule % link})
    (here / "pyproject.toml").write_text('[tool.torchmigrate]\nrule-paths = ["packs"]\n')
    ran = cli("report", "--output-format", "html")
    assert ran.status == 2 and "one.toml:4: `see` must be a link that begins with https:// or http://" in ran.err
    write_tree(here, {"packs/own/one.toml": rule % "https://example.org/x"})
    ran = cli("report", "--output-format", "html")
    assert ran.status == 0 and 'href="https://example.org/x"' in ran.out


def test_the_settings_name_no_backend_of_their_own(here: Path, cli: Cli) -> None:
    """Values are shown in messages: they, too, are spelled out."""
    write_tree(here, {"pyproject.toml": '[tool.torchmigrate]\n"\\u001b]0;x\\u0007" = 1\n', "a.py": CUDA})
    ran = cli("check")
    assert ran.status == 2
    assert not RAW.search(ran.err)
    assert Settings().rule_paths == ()


def test_the_threat_model_speaks_of_every_command() -> None:
    from torchmigrate.cli.program import app

    rows = [line for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([a-z]+)[` ]", row.split("|")[1])}
    assert {command.name or command.callback.__name__ for command in app.registered_commands} <= told


PROMISES = ("## What a project cannot do", "## What happens to your files")


def promises(text: str) -> dict[str, list[tuple[str, str]]]:
    """The points of a page's sections of promises, each with the tests that it names, as (name, file)."""
    sections = {part.partition("\n")[0]: part for part in re.split(r"^(?=## )", text, flags=re.M)}
    points = [point for title in PROMISES for point in re.split(r"^- ", sections[title], flags=re.M)[1:]]
    return {" ".join(point.split()): named(point.partition("\n\n")[0]) for point in points}


def named(text: str) -> list[tuple[str, str]]:
    """The tests that a text names in the words of links, with the files that these lead to."""
    links = re.findall(r"\[((?:`\w+`,?\s*)+)\]\(([\w/.]+)\)", text)
    return [(name, file) for names, file in links for name in re.findall(r"`(\w+)`", names)]


def exists(name: str, file: str) -> bool:
    body = ast.parse((ROOT / file).read_text("utf-8")).body if (ROOT / file).is_file() else []
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in body)


def test_each_promise_names_tests_that_there_are() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    told = promises(text)
    assert len(told) >= 12
    assert [point for point, tests in told.items() if not tests] == []
    assert [test for test in named(text) if not exists(*test)] == []
    assert text.count("`test_") == len(named(text)), "a test is named in no link"


def test_a_test_that_there_is_not_is_seen() -> None:
    page = f"{PROMISES[0]}\n\n- **a.** b\n[`test_x`,\n`test_y`](tests/z.py)\n- c\n\nd\n\n{PROMISES[1]}\n\n- e\n"
    assert promises(page) == {
        "**a.** b [`test_x`, `test_y`](tests/z.py)": [("test_x", "tests/z.py"), ("test_y", "tests/z.py")],
        "c d": [],
        "e": [],
    }
    assert not exists("test_x", "tests/z.py") and not exists("test_x", "tests/cli/test_hostile_project.py")
    assert exists("test_a_test_that_there_is_not_is_seen", "tests/cli/test_hostile_project.py")
