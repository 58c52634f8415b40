"""docs/ci.md: its tables are action.yml's, and what it tells GitLab and Jenkins to run writes what they read.
Its GitHub and pre-commit snippets run in cli/test_github_action.py and cli/test_pre_commit.py."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from conftest import ROOT, Ran, write_tree

Cli = Callable[..., Ran]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
METADATA = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def section(title: str) -> str:
    return re.split(r"\n##+ ", PAGE.split(f"# {title}\n")[1])[0]


def block(title: str, language: str) -> str:
    """The fenced block of a section."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.M | re.S)
    return str(found)


def rows(title: str) -> list[list[str]]:
    cells = (line.split("|")[1:-1] for line in section(title).splitlines() if line.startswith("| `"))
    return [[cell.strip() for cell in row] for row in cells]


def test_the_table_of_inputs_is_the_actions() -> None:
    told = [(name.strip("`"), default.strip("`"), what) for name, default, what in rows("Inputs")]
    inputs = METADATA["inputs"].items()
    assert told == [(name, facts.get("default", ""), facts["description"]) for name, facts in inputs]


def test_the_table_of_outputs_is_the_actions() -> None:
    told = [(name.strip("`"), what) for name, what in rows("Outputs")]
    assert told == [(name, facts["description"]) for name, facts in METADATA["outputs"].items()]


@pytest.fixture
def project(here: Path) -> Path:
    return write_tree(
        here, {"train.py": "import torch\ntorch.cuda.empty_cache()\n", "broken.py": "import torch.cuda (\n"}
    )


def ran(line: str, cli: Cli) -> Ran:
    words = shlex.split(line)
    assert Path(words[0]).name == "torchmigrate"
    return cli(*words[1:])


def test_gitlab(project: Path, cli: Cli) -> None:
    job = yaml.safe_load(block("GitLab", "yaml"))["torchmigrate"]
    install, check = job["script"]
    assert install.startswith("pip install ") and ran(check, cli).status == 2
    report = json.loads((project / job["artifacts"]["reports"]["codequality"]).read_bytes())
    assert {issue["severity"] for issue in report} == {"minor", "blocker"}
    assert all(issue["fingerprint"] and issue["location"]["path"] in ("train.py", "broken.py") for issue in report)


def test_jenkins(project: Path, cli: Cli) -> None:
    pipeline = block("Jenkins, and what else reads JUnit", "groovy")
    install, check = re.findall(r"sh '(.*)'", pipeline)
    assert "pip install" in install and pipeline.count("{") == pipeline.count("}")
    assert ran(check, cli).status == 2  # of the file that does not parse; --exit-zero is for findings
    (file,) = re.findall(r"junit '(.*)'", pipeline)
    suites = ElementTree.parse(project / file).getroot()
    assert (suites.get("failures"), suites.get("errors")) == ("1", "1")
    (project / "broken.py").unlink()
    assert ran(check, cli).status == 0
