"""What a terminal shows: it fits, places stay whole, colours only where they are wanted; and what a pipe gets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Ran, write_tree

from torchmigrate.base import text as base_text
from torchmigrate.base.text import folded
from torchmigrate.cli import output
from torchmigrate.cli.commands import catalog
from torchmigrate.formats import text

pty = pytest.importorskip("pty", reason="no pseudo-terminals here")
import fcntl  # noqa: E402 (as pty: not on every system)
import struct  # noqa: E402
import termios  # noqa: E402

Cli = Callable[..., Ran]
LONG = "a_folder_with_a_name/and a file with spaces in its rather long name.py"
CODE = f"import torch\nimport apex\n\n{'x' * 70} = torch.zeros(2).cuda()\n\tmodel.cuda(non_blocking=True)\n"


@pytest.fixture
def project(here: Path) -> Path:
    file = here / LONG
    file.parent.mkdir()
    file.write_text(CODE.replace("\tmodel", "model"))
    return here


@pytest.fixture(params=[40, 80, 120])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal of so many columns on stdout."""
    for module in (output, catalog, base_text):
        monkeypatch.setattr(module, "columns", lambda stream: request.param)
    yield request.param


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", shown)


def test_findings_fit(project: Path, cli: Cli, width: int) -> None:
    shown = cli("check").out
    lines = shown.splitlines()
    for line in lines:
        assert len(line) <= width or line.startswith(LONG), line
        assert line == line.rstrip()
    places = [line for line in lines if line.startswith(f"{LONG}:")]
    assert len(places) == 2 and all(re.match(rf"{re.escape(LONG)}:\d+:\d+:", line) for line in places)
    assert not re.search(r"\[needs$|^ *you\]", shown, re.M)
    for marked, marks in re.findall(r"^ +\d+ \| (.*)\n +\| ( *\^+)$", shown, re.M):
        what = marked[marks.index("^") : len(marks)]
        assert what.startswith(("import apex", "torch.zeros", "model.cuda(")), "the marks stand below what is meant"


def test_a_pipe_gets_a_line_for_each_message(project: Path, cli: Cli) -> None:
    heads = [line for line in cli("check").out.splitlines() if line.startswith(LONG)]
    assert len(heads) == 2 and all(line.endswith("]") for line in heads)
    assert "\n    = and 1 more in this file: line 5\n" in cli("check").out
    for everything in (["-v"], ["--output-format", "concise"]):
        heads = [line for line in cli("check", *everything).out.splitlines() if line.startswith(LONG)]
        assert [line.partition(" [")[0][len(LONG) :].split(":")[1] for line in heads] == ["2", "4", "5"]
    assert f" | {'x' * 70} = torch" in cli("check").out


@pytest.mark.parametrize(
    ("line", "begin", "end", "room", "cut"),
    [
        ("short", 0, 5, 20, ("short", 0, 5)),
        ("a" * 50, 0, 5, None, ("a" * 50, 0, 5)),
        ("call()" + "a" * 50, 0, 6, 30, ("call()" + "a" * 21 + "...", 0, 6)),
        ("a" * 50 + "call()", 50, 56, 30, ("..." + "a" * 18 + "call()", 21, 27)),
        ("a" * 50 + "call()" + "b" * 50, 50, 56, 30, ("..." + "a" * 4 + "call()" + "b" * 14 + "...", 7, 13)),
        ("\tcall(" + "a" * 50 + ")", 1, 57, 30, (" call(" + "a" * 21 + "...", 1, 27)),
    ],
)
def test_a_line_is_cut(line: str, begin: int, end: int, room: int | None, cut: tuple[str, int, int]) -> None:
    found = text._cut(line, begin, end, room)
    assert room is None or len(found[0]) <= max(room, len(line) if found[0] == line else 0)
    assert found[0][found[1] :][:4] == line[begin:][:4]
    assert found[1] < found[2] <= len(found[0])
    assert found == cut


def test_marks_stand_below_wide_characters(here: Path, cli: Cli) -> None:
    (here / "a.py").write_text("import torch\nf('损失', torch.zeros(2).cuda())\n", encoding="utf-8")
    line, marks = cli("check").out.splitlines()[1:3]
    assert line.index("torch.zeros") + len("损失") == marks.index("^")  # two columns each
    assert [text.cells(s) for s in ("", "ab", "损失", "e\u0301", "\uff21")] == [0, 2, 4, 1, 2]


def test_messages_fit(project: Path, cli: Cli, width: int) -> None:
    for command in (("check",), ("help",), ("apply", "--select", "a-pack-that-nobody-has-ever-written")):
        for line in cli(*command).err.splitlines():
            whole = len(line) > width and "`" in line  # what is to be copied stays in one piece
            assert len(line) <= width or whole or " " not in line.strip(), line


def test_lines_break_between_words() -> None:
    text = "error: one two three\nhelp: `a command of words`, or this\n  1/5 said and said"
    expected = "error: one two\n  three\nhelp:\n  `a command of words`,\n  or this\n  1/5 said and\n    said"
    assert folded(text, 16) == expected
    assert folded(text, None) == folded(text, 80) == text


@pytest.mark.slow
def test_other_commands_fit(project: Path, cli: Cli, width: int) -> None:
    for command in (
        ("rules",),
        ("explain", "device/tensor-cuda"),
        ("explain", "torch.cuda.empty_cache"),
        ("catalog", "torch.cuda.empty_cache"),
    ):
        for line in cli(*command).out.splitlines():
            of_a_table = command[0] == "catalog" and width < 80  # nine columns and a name
            assert len(line) <= width or "://" in line or line.lstrip().startswith(("+", "-")) or of_a_table, line
            assert line == line.rstrip()


def test_a_dry_run_folds_the_helper_where_somebody_looks(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cli("apply", "-n").out
    monkeypatch.setattr(output, "columns", lambda stream: 80)
    folded = cli("apply", "-n").out
    assert "+def non_blocking(" in whole and "+def non_blocking(" not in folded
    found = re.search(r"^\+ (.*accel\.py), (\d+) lines$", folded, re.M)
    assert found and f"+++ b/{found[1]}\n@@ -0,0 +1,{found[2]} @@\n" in whole
    assert f"b/{found[1]}" not in folded
    assert "+model.to(accel.device(), non_blocking=accel.non_blocking())" in folded
    assert "+def non_blocking(" in cli("apply", "-n", "-v").out
    assert cli("apply", "-n", "--output-format", "diff").out in whole


@pytest.mark.parametrize(
    ("environment", "terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
    ],
)
def test_who_gets_colours(
    environment: dict[str, str], terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    class Stream:
        def isatty(self) -> bool:
            return terminal

    assert output.colours(Stream()) is expected


def test_colours_change_no_character(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (("check",), ("apply", "-n"), ("check", "--statistics"), ("explain", "device/tensor-cuda")):
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        bare = cli(*command).out
        monkeypatch.setenv("FORCE_COLOR", "1")
        painted = cli(*command).out
        assert "\x1b[" in painted and plain(painted) == bare
        assert "\x1b[33m" not in painted, "yellow cannot be read on white"


def on_a_terminal(directory: Path, *arguments: str, slow: bool = False, interrupt: bool = False, **more: str) -> str:
    """All that a terminal of 80 columns gets. `slow`: the work takes longer than the bar waits, and with `interrupt` a
    minute, unless it is ended; without it, the bar waits for longer than any work takes."""
    code = "import sys, time\nfrom torchmigrate.cli import app, output\nfrom torchmigrate.engine import planner\n"
    code += f"output.DELAY = {0.1 if slow else 600}\n"
    if slow:
        steps = 3_000 if interrupt else 40
        code += f"plan = planner.plan\ndef slow(*given):\n    for done in range({steps}):\n"
        code += f"        time.sleep(0.02)\n        given[4](done, {steps})\n"
        code += "    return plan(*given)\nplanner.plan = slow\n"
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # `pytest &` in a script leaves it ignored
        os.chdir(directory)
        os.environ.update({"TERM": "xterm", "PYTHONPATH": str(ROOT), **more})
        os.execv(sys.executable, [sys.executable, "-c", f"{code}app.main()", *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown, sent = b"", False
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
        if interrupt and not sent and b"files" in shown:
            time.sleep(0.1)
            os.kill(pid, signal.SIGINT)
            sent = True
    os.waitpid(pid, 0)
    return shown.decode().replace("\r\n", "\n")


def left_on(shown: str) -> list[str]:
    """The lines that are there in the end, of a terminal that knows what a bar of rich needs."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", shown):
        if piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\r":
            column = 0
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row -= int(piece[2:-1] or 1)
        elif piece.endswith("K") and piece.startswith("\x1b"):
            lines[row] = ""
        elif not piece.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            column += len(piece)
    return [line.rstrip() for line in lines if line.strip()]


@pytest.mark.slow
def test_the_bar_is_gone_in_the_end(project: Path) -> None:
    shown = on_a_terminal(project, "check", "--output-format", "concise", slow=True)
    assert "━" in shown and "\x1b[?25h" in shown  # a bar, and a cursor again
    left = left_on(plain(shown))
    assert not any("━" in line for line in left)
    assert len([line for line in left if line.startswith(LONG)]) == 3
    assert left[-2].startswith("Found 3 problems")


@pytest.mark.slow
def test_ctrl_c_leaves_a_clean_line(project: Path) -> None:
    shown = on_a_terminal(project, "check", slow=True, interrupt=True)
    assert "━" in shown and shown.rindex("\x1b[?25h") > shown.rindex("━")
    assert left_on(plain(shown).replace("^C", "")) == ["error: interrupted; nothing was written"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {}], ids=["dumb", "quick"])
def test_no_bar(project: Path, more: dict[str, str]) -> None:
    shown = on_a_terminal(project, "check", "-q", slow=bool(more), **more)
    assert "needs you" in shown
    assert "━" not in shown and "\x1b[?25" not in shown
    assert ("\x1b[" in shown) is not bool(more)


@pytest.mark.slow
def test_no_bar_in_a_pipe(project: Path) -> None:
    command = [sys.executable, "-c", "from torchmigrate.cli import app, output; output.DELAY = 0; app.main()", "check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1].startswith("Found 3 problems")
    assert "━" not in ran.stderr and "\x1b" not in ran.stdout + ran.stderr


def test_findings_that_differ_in_a_line_that_they_name_are_one_group(here: Path, cli: Cli) -> None:
    body = "    if torch.cuda.get_device_properties(0).major {} 7:\n        print(1)\n"
    write_tree(here, {"a.py": "import torch\n\n\ndef f():\n" + body.format("<") + "\n\ndef g():\n" + body.format("<=")})
    told = cli("check").out
    assert told.count("which would decide") == 1, told
    assert "= and 1 more in this file: line 10\n" in told


def test_two_findings_at_one_place_are_told_once(here: Path, cli: Cli) -> None:
    call = "DDP(net, device_ids=[rank], output_device=rank)"
    body = f"def f(net, rank):\n    if torch.distributed.get_world_size() > 1:\n        return {call}\n"
    text = f"import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n\nx = torch.cuda\n\n\n{body}"
    write_tree(here, {"a.py": text})
    told = cli("check", "--select", "device/device-ids")
    assert told.last.startswith("Found 2 problems at 1 place in ")
    assert "more in this file" not in told.out
    write_tree(here, {"a.py": text + f"    return {call}\n"})
    assert "= and 1 more in this file: line 10\n" in cli("check", "--select", "device/device-ids").out
