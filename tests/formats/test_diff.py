"""Diffs: what is printed applies, byte for byte, with git and with patch."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import cpu_seconds, git

from torchmigrate.base import limits
from torchmigrate.diagnostics.finding import Changed, Finding, Safety
from torchmigrate.formats.diff import readable, unified


def change(
    before: bytes, after: bytes, name: str = "a.py", applied: tuple[Finding, ...] = (), new: bool = False
) -> Changed:
    return Changed(Path(name), before, after, applied, new=new)


def finding(rule: str, line: int, end_line: int = 0, cell: int | None = None) -> Finding:
    return Finding(rule, Safety.SAFE, 0, 0, "", line=line, end_line=end_line or line, cell=cell)


def applied_by(tool: str, directory: Path, patch: bytes) -> None:
    command = ["git", "apply", "-"] if tool == "git" else ["patch", "-p1", "--binary"]
    done = subprocess.run(command, cwd=directory, input=patch, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() + patch.decode(errors="replace")


LINES = "".join(f"line {i}\n" for i in range(30)).encode()
TEXTS = {
    "one line": (LINES, LINES.replace(b"line 9\n", b"new\n")),
    "two hunks": (LINES, LINES.replace(b"line 3\n", b"new\n").replace(b"line 25\n", b"a\nb\n")),
    "first and last": (LINES, b"x\n" + LINES[:-1] + b"y\n"),
    "deleted": (LINES, LINES.replace(b"line 7\nline 8\n", b"")),
    "CRLF": (LINES.replace(b"\n", b"\r\n"), LINES.replace(b"\n", b"\r\n").replace(b"line 5", b"new")),
    "lone CR": (b"a\rb\nc\rd\n", b"a\rb\nx\rd\n"),
    "no final newline": (b"a\nb", b"a\nc"),
    "final newline lost": (b"a\nb\n", b"a\nb"),
    "final newline won": (b"a\nb", b"a\nb\n"),
    "no final newline, context": (b"a\nb", b"x\nb"),
    "form feed": (b"a\n\x0c\nb\x0cc\nd\n", b"a\n\x0c\nb\x0cc\ne\n"),
    "U+2028": ("a = '\u2028'\nb\n".encode(), "a = '\u2028'\nc\n".encode()),
    "U+0085 and BOM": ("\ufeffa = '\x85'\nb\n".encode(), "\ufeffa = '\x85'\nc\n".encode()),
    "latin-1": ("é\nb\n".encode("latin-1"), "é\nc\n".encode("latin-1")),
    "looks like a patch": (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n", b"--- a/x\n+++ b/x\n@@ -2 +2 @@\n"),
    "emptied": (b"a\n", b""),
    "filled": (b"", b"a\n"),
}


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize("text", TEXTS)
def test_applies(tmp_path: Path, tool: str, text: str) -> None:
    before, after = TEXTS[text]
    (tmp_path / "a.py").write_bytes(before)
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.autocrlf", "false")
    applied_by(tool, tmp_path, unified(change(before, after), "a.py"))
    file = tmp_path / "a.py"
    assert (file.read_bytes() if file.exists() else b"") == after


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize(
    "name", ["with space.py", "sub/é.py", 'qu"ote.py', "tab\t.py", "new\nline.py", "back\\slash.py"]
)
def test_names(tmp_path: Path, tool: str, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"a\nb\n")
    git(tmp_path, "init", "-q")
    applied_by(tool, tmp_path, unified(change(b"a\nb\n", b"a\nc\n"), name))
    assert file.read_bytes() == b"a\nc\n"


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_a_new_file_among_others(tmp_path: Path, tool: str) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "a.py").write_bytes(b"a\n")
    git(tmp_path, "init", "-q")
    patch = unified(change(b"a\n", b"b\n"), "a.py") + unified(change(b"", b"x\ny\n", new=True), "pkg/accel.py")
    assert b"--- /dev/null\n+++ b/pkg/accel.py\n@@ -0,0 +1,2 @@\n" in patch
    applied_by(tool, tmp_path, patch)
    assert (tmp_path / "pkg" / "accel.py").read_bytes() == b"x\ny\n"


@pytest.mark.parametrize("seed", range(25))
def test_random_edits_apply_with_git(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    words = [b"a\n", b"b\n", b"c\r\n", b"\n", b"\x0c\n", b"pass\n"]
    old = [dice.choice(words) for _ in range(dice.randrange(80))]
    new = list(old)
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(new) + 1)
        new[at : at + dice.randrange(3)] = [dice.choice(words) for _ in range(dice.randrange(3))]
    before, after = b"".join(old) + dice.choice([b"", b"end"]), b"".join(new) + dice.choice([b"", b"end"])
    if before and after and before != after:
        (tmp_path / "a.py").write_bytes(before)
        git(tmp_path, "init", "-q")
        applied_by("git", tmp_path, unified(change(before, after), "a.py"))
        assert (tmp_path / "a.py").read_bytes() == after


def headings(patch: bytes) -> list[str]:
    return [line.split(" @@", 1)[1].strip() for line in patch.decode().split("\n") if line.startswith("@@ -")]


def test_hunk_headings_name_the_rules_of_the_hunk() -> None:
    after = LINES.replace(b"line 3\n", b"x\n").replace(b"line 4\n", b"y\n").replace(b"line 20\n", b"z\n")
    found = (
        finding("a/one", 4),
        finding("b/two", 5),
        finding("a/one", 5),
        finding("c/three", 20, 22),
        finding("d/far", 12),
    )
    patch = unified(change(LINES, b"import accel\n" + after, applied=found), "a.py")
    assert headings(patch) == ["a/one, b/two", "c/three"]
    assert patch.decode().split("\n")[2] == "@@ -1,8 +1,9 @@ a/one, b/two"


def test_a_hunk_without_a_rule_has_no_heading() -> None:
    assert unified(change(b"a\nb\n", b"import accel\na\nb\n"), "a.py").split(b"\n")[2] == b"@@ -1,2 +1,3 @@"


def test_no_change_no_diff() -> None:
    assert unified(change(LINES, LINES), "a.py") == b""


def test_notebooks_are_read_per_cell_and_that_is_no_patch(tmp_path: Path) -> None:
    def notebook(text: str) -> bytes:
        cells = [{"cell_type": "markdown", "source": ["# é"]}, {"cell_type": "code", "source": ["a\n", text]}]
        return json.dumps({"cells": cells}).encode()

    found = (finding("device/tensor-cuda", 2, cell=2), finding("other/rule", 2, cell=1))
    patch = readable(change(notebook("x.cuda()"), notebook("x.to(d)"), applied=found), "nb.ipynb")
    assert patch.decode() == (
        "# nb.ipynb:cell 2 (for reading; `apply` rewrites the notebook)\n"
        "# @@ -1,2 +1,2 @@ device/tensor-cuda\n"
        "#  a\n"
        "# -x.cuda()\n"
        "# +x.to(d)\n"
    )
    # a patch of other files that has it in its middle still applies
    for name in ("a.py", "z.py"):
        (tmp_path / name).write_bytes(b"a\n")
    git(tmp_path, "init", "-q")
    both = [unified(change(b"a\n", b"b\n"), name) for name in ("a.py", "z.py")]
    for tool in ("git", "patch"):
        applied_by(tool, tmp_path, both[0] + patch + both[1])
        assert (tmp_path / "z.py").read_bytes() == b"b\n"
        (tmp_path / "a.py").write_bytes(b"a\n")
        (tmp_path / "z.py").write_bytes(b"a\n")


def test_many_equal_lines_cost_no_more_than_they_are(tmp_path: Path) -> None:
    """difflib looks at every pair of equal lines: a million million of them here."""
    before = b"import torch\n" + b"\n" * 200_000 + b"x.cuda()\n" + b"\n" * 200_000 + b"y.cuda()\nend\n"
    after = before.replace(b"torch\n", b"torch\nimport accel\n").replace(b".cuda()", b".to(accel.device())")
    with limits.bounded(30):
        patch = unified(Changed(tmp_path / "a.py", before, after, ()), "a.py")
    assert patch.count(b"@@ -") == 3
    assert [line for line in patch.split(b"\n") if line[:1] in (b"-", b"+")][2:] == [
        *(b"+import accel", b"-x.cuda()", b"+x.to(accel.device())", b"-y.cuda()", b"+y.to(accel.device())")
    ]
    (tmp_path / "a.py").write_bytes(before)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, check=True)
    assert (tmp_path / "a.py").read_bytes() == after


@pytest.mark.parametrize(
    "shape",
    [
        lambda n: "".join(f"def f{i}(x):\n    y = x\n    {{0}}\n    return y\n\n" for i in range(n)),
        lambda n: "    {0}\n    return y\n\n" * n,
        lambda n: "a\n{0}\n" * n,
    ],
    ids=["functions", "lines that repeat", "two lines"],
)
def test_a_diff_takes_time_as_the_text_is_long(shape: Callable[[int], str], tmp_path: Path) -> None:
    """In processor time, the least of three, with room for a factor of five: comparisons are no calls."""

    def seconds(n: int) -> float:
        before, after = (shape(n).replace("{0}", text).encode() for text in ("x.cuda()", "x.to(accel.device())"))
        made = b""

        def diff() -> None:
            nonlocal made
            made = unified(Changed(tmp_path / "a.py", before, after, ()), "a.py")

        spent = cpu_seconds(diff)
        assert made.count(b"\n-") == made.count(b"\n+") - 1 == n  # nothing but what changed
        return spent

    assert seconds(8_000) < 80 * min(seconds(500) for _ in range(3))
