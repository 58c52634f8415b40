"""`torchmigrate config`: what is in force, and from where."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran, git, write_tree

from torchmigrate.config import config_file, settings
from torchmigrate.config.keys import KEYS
from torchmigrate.project import helper_file

Cli = Callable[..., Ran]
TRAIN = "import torch\nx = torch.zeros(3).cuda()\n"
RULE = 'summary = "s"\nsafety = "safe"\nwhy = "w"\n[[rewrite]]\nmatch = "torch.zzz($x)"\nwith = "torch.y($x)"\n'
SETTINGS = """[project]
dependencies = [
  "numpy",
  "torch>=2.3",
]

[tool.torchmigrate]
ignore = [
  "device/map-location",
  "stream",
]
rule-paths = ["tools/rules"]
extend-exclude = ["third_party"]
helper = "mypkg.dev"

[tool.torchmigrate.per-file-ignores]
"{tests,bench}/**" = ["memory", "device"]
"!src/**" = ["hazard/float64"]
"nowhere/*" = ["memory"]

[tool.torchmigrate.helper-map]
device = "get_device"
"""


@pytest.fixture
def project(here: Path) -> Path:
    files = {
        "pyproject.toml": SETTINGS,
        "tools/rules/own/zzz.toml": RULE,
        "src/mypkg/__init__.py": "",
        "src/mypkg/dev.py": "def get_device(index=0): ...\n",
        "src/mypkg/plain.py": "import torch\nx = torch.zeros(3).double()\n",
        "src/mypkg/bad.py": "def f(:\n",
        "tests/a.py": TRAIN,
        "tests/b.py": f"{TRAIN}# torchmigrate: skip-file\n",
        "third_party/c.py": TRAIN,
        "requirements.txt": "apex\n",
    }
    return write_tree(here, files)


def shown(cli: Cli, *arguments: str) -> dict[str, Any]:
    ran = cli("config", "--output-format", "json", *arguments)
    assert ran.status == 0, ran.err
    return json.loads(ran.out)  # type: ignore[no-any-return]


def parts(found: dict[str, Any], key: str, here: Path) -> list[tuple[object, str, str | None]]:
    """(value, origin, place below `here`) of each part; an entry's value as `entry: value`."""
    out = []
    for part in found["settings"][key]:
        value = part["value"]
        at = part["at"] and part["at"].replace(f"{here}{os.sep}", "")
        out.append(({part["entry"]: value} if "entry" in part else value, part["origin"], at))
    return out


def test_each_key_is_there_with_its_value_and_its_place(project: Path, cli: Cli) -> None:
    found = shown(cli)
    assert (found["root"], found["file"]) == (str(project), str(project / "pyproject.toml"))
    assert list(found["settings"]) == list(KEYS)
    expected = {
        "select": [([], "default", None)],
        "ignore": [(["device/map-location", "stream"], "file", "pyproject.toml:8")],
        "per-file-ignores": [
            ({"{tests,bench}/**": ["memory", "device"]}, "file", "pyproject.toml:17"),
            ({"!src/**": ["hazard/float64"]}, "file", "pyproject.toml:18"),
            ({"nowhere/*": ["memory"]}, "file", "pyproject.toml:19"),
        ],
        "extend-exclude": [(["third_party"], "file", "pyproject.toml:13")],
        "rule-paths": [([str(project / "tools/rules")], "file", "pyproject.toml:12")],
        "torch": [(">=2.3", "inferred", "pyproject.toml:4")],
        "helper": [("mypkg.dev", "file", "pyproject.toml:14")],
        "helper-map": [({"device": "get_device"}, "file", "pyproject.toml:22")],
        "unsafe-fixes": [(False, "default", None)],
    }
    assert {key: parts(found, key, project) for key in expected} == expected


def test_what_is_told_is_what_a_run_goes_by(project: Path, cli: Cli) -> None:
    """The values of all parts together are the settings themselves."""
    found = shown(cli, "--exclude", "gen", "--torch", ">=2.4", "--style", "native")
    flags: dict[str, object] = {"torch": ">=2.4", "style": "native", "extend_exclude": ("third_party", "gen")}
    settings = config_file.load([project], **flags)
    for key in KEYS:
        value = getattr(settings, key.replace("-", "_"))
        told = [part["value"] for part in found["settings"][key]]
        if isinstance(value, dict):
            assert {p["entry"]: p["value"] for p in found["settings"][key] if "entry" in p} == {
                k: list(v) if isinstance(v, tuple) else v for k, v in value.items()
            }
        elif isinstance(value, tuple):
            assert [item for part in told for item in part] == [str(item) for item in value]
        else:
            assert told == [value]


def test_options_are_named(project: Path, cli: Cli) -> None:
    options = ("--select", "device", "--exclude", "gen/*", "--backends", "mps", "--no-unsafe-fixes", "--torch", ">=2.9")
    found = shown(cli, *options, "--runtime", "package", "--style", "native")
    expected = {
        "select": [(["device"], "option", "--select")],
        "ignore": [(["device/map-location", "stream"], "file", "pyproject.toml:8")],
        "extend-exclude": [(["third_party"], "file", "pyproject.toml:13"), (["/gen/*"], "option", "--exclude")],
        "exclude": [(list(settings.EXCLUDE), "default", None)],
        "backends": [(["mps"], "option", "--backends")],
        "unsafe-fixes": [(False, "option", "--no-unsafe-fixes")],
        "torch": [(">=2.9", "option", "--torch")],
        "runtime": [("package", "option", "--runtime")],
        "style": [("native", "option", "--style")],
    }
    assert {key: parts(found, key, project) for key in expected} == expected
    isolated = shown(cli, "--isolated")
    assert (isolated["file"], isolated["why"]) == (None, "--isolated: no settings from files")
    assert {p["origin"] for k, v in isolated["settings"].items() for p in v if k != "torch"} == {"default"}


def test_the_folders_of_rules(project: Path, cli: Cli) -> None:
    ours, theirs = shown(cli, "--select", "own,memory", "--ignore", "memory/statistics")["rules"]
    assert (ours["builtin"], ours["on"]) == (True, ours["packs"]["memory"] - 1)
    assert theirs == {"path": str(project / "tools/rules"), "builtin": False, "packs": {"own": 1}, "on": 1}


# ---- the helper


def test_the_projects_own_helper(project: Path, cli: Cli) -> None:
    found = shown(cli)["helper"]
    assert (found["kind"], found["name"], found["functions"]) == ("own", "mypkg.dev", {"device": "get_device"})
    assert [file["path"] for file in found["files"]] == [str(project / "src/mypkg/dev.py")]
    (project / "src/mypkg/dev.py").write_text("")
    assert "has no such function" in shown(cli)["helper"]["error"]
    assert "mypkg.dev, which cannot be used" in cli("config").out


def test_a_helper_of_ours(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.py": TRAIN})
    assert (shown(cli)["helper"]["kind"], shown(cli)["helper"]["name"]) == ("vendored", "accel")
    assert "accel, not there yet" in cli("config").out
    (here / "accel.py").write_bytes(helper_file.runtime_source())
    assert shown(cli)["helper"]["files"] == [{"path": str(here / "accel.py"), "current": True}]
    (here / "accel.py").write_bytes(helper_file.runtime_source() + b"OLDER = True\n")
    assert shown(cli)["helper"]["files"] == [{"path": str(here / "accel.py"), "current": False}]
    assert shown(cli, "--runtime", "package")["helper"]["name"] == "torchmigrate.runtime"
    (here / "accel.py").write_text("def device(): ...\n")  # not ours: the name is taken
    assert shown(cli)["helper"]["name"] == "torch_accel"


# ---- single files


def of_file(cli: Cli, name: str, *arguments: str) -> dict[str, Any]:
    (found,) = shown(cli, name, *arguments)["files"]
    return found  # type: ignore[no-any-return]


def test_what_is_ignored_in_a_file(project: Path, cli: Cli) -> None:
    found = of_file(cli, "tests/a.py")
    assert [(entry["glob"], entry["at"]) for entry in found["per_file_ignores"]] == [
        ("{tests,bench}/**", f"{project}/pyproject.toml:17"),
        ("!src/**", f"{project}/pyproject.toml:18"),
    ]
    assert (found["read"], found["why"], found["asleep"]) == (True, "yes", [])
    assert "device/tensor-cuda" in found["off"]
    assert "hazard/float64" in found["off"]
    assert not {rule for rule in found["on"] if rule.startswith(("device/", "stream/"))}
    assert cli("check", "tests/a.py").status == 0


def test_which_rules_are_asleep_in_a_file(project: Path, cli: Cli) -> None:
    found = of_file(cli, "src/mypkg/plain.py")
    assert "hazard/float64" in found["on"]
    assert "device/device-string" in found["asleep"]
    assert not found["off"]


def test_why_a_file_is_not_read(project: Path, cli: Cli) -> None:
    assert of_file(cli, "third_party/c.py")["why"] == (f"no: excluded by `third_party` ({project}/pyproject.toml:13)")
    assert of_file(cli, "tests/a.py", "--exclude", "tests")["why"] == "no: excluded by `tests` (--exclude)"
    assert of_file(cli, "tests/b.py")["why"] == "no: `torchmigrate: skip-file` on line 3"
    assert of_file(cli, "src/mypkg/bad.py")["why"] == "no: line 1: not Python 3 (invalid syntax)"
    write_tree(
        project, {"node_modules/d.py": TRAIN, "e.py": b"# coding: none\n", "accel.py": helper_file.runtime_source()}
    )
    assert of_file(cli, "node_modules/d.py")["why"] == "no: excluded by `node_modules` (default)"
    assert of_file(cli, "e.py")["why"].startswith("no: ")
    assert of_file(cli, "accel.py")["why"] == "no: a helper that torchmigrate wrote"
    ran = cli("config", "nowhere.py")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "error: nowhere.py: no such file or directory")


def test_a_file_that_git_ignores(project: Path, cli: Cli) -> None:
    git(project, "init", "-q")
    write_tree(project, {".gitignore": "gen.py\n", "gen.py": TRAIN})
    assert "only where it is named" in of_file(cli, "gen.py")["why"]
    assert of_file(cli, "src/mypkg/plain.py")["why"] == "yes"


def test_files_that_are_not_python(project: Path, cli: Cli) -> None:
    found = of_file(cli, "requirements.txt")
    assert (found["read"], found["on"]) == (True, ["build/requirement"])
    book = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    book["cells"] = [{"cell_type": "code", "source": TRAIN, "metadata": {}, "outputs": [], "execution_count": None}]
    write_tree(project, {"n.ipynb": json.dumps(book), "bad.ipynb": "{"})
    assert of_file(cli, "n.ipynb")["read"]
    assert of_file(cli, "bad.ipynb")["why"].startswith("no: ")


# ---- what is said beside


def test_settings_that_are_not_read_are_named(project: Path, cli: Cli) -> None:
    table = "[tool.torchmigrate]\nselect = ['device']\n"
    write_tree(project.parent, {"pyproject.toml": table, "project/src/pyproject.toml": table})
    above, below, idle = shown(cli)["notes"]
    assert above.startswith(f"{project.parent}/pyproject.toml has settings, too, that this run does not read: the near")
    assert below.startswith(f"{project}/src/pyproject.toml has settings, too, that this run does not read: it counts")
    assert idle == "`per-file-ignores` has 'nowhere/*', and no file that is read matches it"
    assert shown(cli, "src")["file"] == f"{project}/src/pyproject.toml"
    both = shown(cli, "src", "tests/a.py")
    assert (both["file"], len(both["notes"])) == (f"{project}/pyproject.toml", 3)
    assert not any("matches" in note for note in shown(cli, "tests")["notes"])  # of a part nothing is known of the rest
    assert "see --isolated" in shown(cli, "--isolated")["notes"][0]
    chosen = shown(cli, "--config", "../pyproject.toml")
    assert (chosen["why"], chosen["root"]) == ("--config", str(project))
    assert parts(chosen, "select", project) == [(["device"], "file", "../pyproject.toml:2")]


def test_a_file_above_the_repository(here: Path, cli: Cli) -> None:
    write_tree(here, {"pyproject.toml": "[tool.torchmigrate]\n", "repository/a.py": TRAIN})
    git(here / "repository", "init", "-q")
    (note,) = shown(cli, "repository")["notes"]
    assert note == f"{here}/pyproject.toml lies above the git repository, {here}/repository"


@pytest.mark.parametrize("name", ["torchmigrate", "tool.torch-migrate", "tool.torch_migrate"])
def test_a_table_that_nothing_reads(here: Path, cli: Cli, name: str) -> None:
    write_tree(here, {"pyproject.toml": f"[tool.torchmetrics]\nx = 1\n[{name}]\nselect = ['device']\n"})
    (note,) = shown(cli)["notes"]
    assert note == f"{here}/pyproject.toml has [{name}], which nothing reads: the table is [tool.torchmigrate]"
    assert shown(cli)["why"] == "the nearest pyproject.toml; it has no [tool.torchmigrate]"


# ---- as text


def test_text(project: Path, cli: Cli) -> None:
    lines = cli("config", "tests/a.py").out.splitlines()
    assert lines[:2] == ["root              .", "settings          pyproject.toml  the nearest pyproject.toml"]
    assert any(line.split() == ["torch", ">=2.3", "inferred", "from", "pyproject.toml:4"] for line in lines)
    assert any(line.split() == ["!src/**:", "hazard/float64", "pyproject.toml:18"] for line in lines)
    assert "read              yes" in lines
    assert lines[-1] == "note: `per-file-ignores` has 'nowhere/*', and no file that is read matches it"
    assert not any(line.endswith(" ") or "\x1b" in line for line in lines)
    assert str(project) not in "\n".join(lines)


@pytest.mark.slow
def test_it_is_a_table_on_a_terminal(project: Path) -> None:
    main, other = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "60"}
    command = [sys.executable, "-m", "torchmigrate", "config"]
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment, cwd=project) as process:
        os.close(other)
        read = b""
        try:
            while piece := os.read(main, 65536):
                read += piece
        except OSError:  # Linux: the other end is closed
            pass
        assert process.wait() == 0, read
    os.close(main)
    assert b"\x1b[1m" in read
    assert b"device/map-location" in read


def test_it_writes_nothing_but_its_answer(project: Path, cli: Cli) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert cli("config", "-o", "../out.txt").out == ""
    assert "pyproject.toml" in (project.parent / "out.txt").read_text()
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
