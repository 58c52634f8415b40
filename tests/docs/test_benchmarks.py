"""benchmarks/run.py on a tiny tree: the tables, the plot and the tree's mix are there; no time is looked at."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SLOW = ("fixit", "LibCST codemod", "TorchFix", "pyupgrade", "ast-grep")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tree of 1,500 lines, every command once."""
    out = tmp_path_factory.mktemp("benchmarks")
    skipped = [word for name in SLOW for word in ("--skip", name)]
    argv = [sys.executable, BENCHMARKS / "run.py", "--lines", "1500", "--patience", "0", "--output", out, *skipped]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return out, done.stdout, json.loads((out / "results.json").read_text())[0]


def test_all_commands_of_ours_run(made):
    commands = {command["name"]: command for command in made[2]["commands"]}
    ours = {name: command["statuses"] for name, command in commands.items() if name.startswith(("check", "apply"))}
    assert len(ours) == 8
    assert ours["check, one clean file"] == ours["apply, one file"] == [0]
    assert {status for statuses in ours.values() for status in statuses} <= {0, 1}
    assert all(command["cpu"][0] > 0 and not command["stopped"] for command in commands.values())


def test_memory_is_that_of_the_command(made):
    peak = {command["name"]: command["peak"] for command in made[2]["commands"]}
    if not peak["check -j1"]:
        pytest.skip("no /proc to read memory from")
    # `python -c pass` may end before its second sample, so its own number can be too small
    assert peak["import libcst"] > max(1e7, peak["python -c pass"])


def test_the_report(made):
    out, printed, result = made
    report = (out / "report.md").read_text()
    for text in (printed, report):
        assert "### A generated tree of 1,500 lines" in text and "### Goals" in text
        assert "| check -j1 / ast.parse, files with a trigger | cpu | <= 1.8 |" in text
        assert f"| ratio | of | goal | {result['shares']['lines']:,} lines |" in text
    assert "none of these met" in report  # modules of a check of a clean file


def test_the_plot_has_a_bar_for_each_command(made):
    svg = ElementTree.parse(made[0] / "lines1500.svg").getroot()
    assert len(svg.findall("{*}rect")) == len(made[2]["commands"])


def test_a_generated_tree_is_mixed_as_projects_are(tmp_path):
    def trees(*words):
        argv = [sys.executable, str(BENCHMARKS / "trees.py"), *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True).stdout

    trees("generate", tmp_path / "tree", 20_000)
    found = json.loads(trees("triggers", tmp_path / "tree", tmp_path / "list"))
    assert 20_000 <= found["lines"] < 21_500
    assert 0.2 < found["work"] / found["files"] < 0.4  # 0.32 in the projects that were counted
    assert 0.35 < found["work_lines"] / found["lines"] < 0.55  # 0.46
    assert 0.004 < found["cuda_lines"] / found["lines"] < 0.012  # 0.0078
    assert len((tmp_path / "list").read_text().splitlines()) == found["work"]
    for path in (tmp_path / "tree").rglob("*.py"):
        ast.parse(path.read_bytes())


def test_a_row_for_each_known_project(tmp_path):
    for name, text in {"b": "x = x.cuda()\nimport apex\n", "a": "print(torch.__version__)\n"}.items():
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / "train.py").write_text(f"import torch\n\nx = torch.ones(1)\n{text}")
    argv = [sys.executable, BENCHMARKS / "projects.py", tmp_path / "all"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
    assert [[row[0].split()[0], *row[1:5]] for row in rows] == [["a", "0", "0", "0", "0"], ["b", "2", "1", "0", "1"]]
    assert "accel" not in (tmp_path / "all" / "b" / "train.py").read_text(), "only a copy is rewritten"
