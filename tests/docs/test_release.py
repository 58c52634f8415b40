"""One version everywhere, and the files under .github that release it and take reports."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran, python

from torchmigrate import __version__

Cli = Callable[..., Ran]
yaml = pytest.importorskip("yaml", reason="no YAML reader: pip install 'torchmigrate[test]'")
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(path: Path) -> dict[str, Any]:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job.get("steps", ())


# ---- the version


def test_the_version_is_written_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version", "readme"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "torchmigrate/__init__.py"
    assert "version" not in read(ROOT / "CITATION.cff")


@pytest.mark.parametrize("command", ["--output-format=json check", "--output-format=sarif check", "report", "backends"])
def test_every_report_tells_the_version(command: str, cli: Cli, here: Path) -> None:
    (here / "a.py").write_text("import torch\nx = torch.zeros(1).cuda()\n", encoding="utf-8")
    option, _, name = command.rpartition(" ")
    data = json.loads(cli(name, option or "--output-format=json").out)
    told = data["runs"][0]["tool"]["driver"] if "runs" in data else data
    assert told["version"] == __version__


def test_the_command_tells_the_version(cli: Cli) -> None:
    assert cli("--version").out == f"torchmigrate {__version__}\n"


def test_the_version_is_one() -> None:
    """`packaging` and pip order these; hatchling takes no others."""
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?(?:\.dev\d+)?", __version__)


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    version, _, when = headings[0].partition(" ")
    assert version == __version__
    assert when == "(unreleased)" or re.fullmatch(r"\(\d{4}-\d\d-\d\d\)", when)
    dated = [re.fullmatch(r"\d+\.\d+\.\d+\S* \(\d{4}-\d\d-\d\d\)", heading) for heading in headings[1:]]
    assert all(dated), headings


def test_the_changelog_says_each_thing_once() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    said = [line for line in lines if line.startswith("- ")]
    assert len(said) == len(set(said))
    assert {line[:2] for line in lines if line} <= {"# ", "##", "- ", "  "}


# ---- workflows


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_trusts_little(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert read(path)["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (\S+)(.*)", text)
    assert used
    for action, comment in used:
        local = action.startswith("./")
        assert local or re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), f"{action} is no commit"
        assert local or re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action}: which version is that?"
    for step in steps(path):
        assert "${{" not in step.get("run", ""), "an expression in a script can bring code: pass it by `env`"
        if "checkout@" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
    assert all("timeout-minutes" in job or "uses" in job for job in read(path)["jobs"].values())


def test_ci_runs_the_one_command_on_each_python_that_is_named() -> None:
    job = read(GITHUB / "workflows" / "ci.yml")["jobs"]["all"]
    listed = [line.rpartition(":: ")[2] for line in PROJECT["project"]["classifiers"] if ":: 3." in line]
    assert job["strategy"]["matrix"]["python"] == listed
    assert PROJECT["project"]["requires-python"] == f">={listed[0]}"
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_ci_names_tests_that_there_are() -> None:
    named = re.findall(r"tests/\S+", (GITHUB / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


def test_nothing_is_published_that_was_not_tested_and_attested() -> None:
    release = read(GITHUB / "workflows" / "release.yml")
    jobs = release["jobs"]
    assert release[True] == {"push": {"tags": ["v*"]}}  # `on`, which YAML 1.1 takes for true
    assert jobs["test"] == {"uses": "./.github/workflows/ci.yml"}
    assert (jobs["attest"]["needs"], jobs["publish"]["needs"]) == (["test", "build"], "attest")
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "release"
    assert "permissions" not in jobs["build"], "what runs the project's own code may not sign or publish"
    assert "password" not in (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")


def test_a_tag_that_is_not_the_version_fails(tmp_path: Path) -> None:
    """The step's own script, with this version and a dated changelog, then with another tag and an undated one."""
    (script,) = (step["run"] for step in steps(GITHUB / "workflows" / "release.yml") if "TAG" in step.get("env", {}))
    (tmp_path / "torchmigrate").mkdir()
    (tmp_path / "torchmigrate" / "__init__.py").write_text(f'__version__ = "{__version__}"\n', encoding="utf-8")
    dated, undated = f"## {__version__} (2026-01-31)\n", f"## {__version__} (unreleased)\n"
    for tag, changelog, passes in [
        (f"v{__version__}", dated, True),
        ("v0.0.9", dated, False),
        (__version__, dated, False),
        (f"v{__version__}", undated, False),
    ]:
        (tmp_path / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
        assert passes is _runs(script, tmp_path, tag), (tag, changelog)


def _runs(script: str, where: Path, tag: str) -> bool:
    import os
    import shutil
    import subprocess

    shell = shutil.which("bash") or pytest.skip("no bash")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([shell, "-e", "-c", script], cwd=where, env={**clean, "TAG": tag}, capture_output=True)
    return done.returncode == 0


# ---- reports


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_shows(path: Path) -> None:
    """What GitHub says of forms: required keys, known types, ids and labels once, no attribute that a type lacks."""
    form = read(path)
    assert form.keys() <= {"name", "description", "title", "labels", "body"}
    assert form["name"] and form["description"]
    fields = form["body"]
    assert len({field["id"] for field in fields}) == len(fields) == len({f["attributes"]["label"] for f in fields})
    known = {
        "textarea": {"label", "description", "placeholder", "value", "render"},
        "input": {"label", "description", "placeholder", "value"},
        "checkboxes": {"label", "description", "options"},
    }
    for field in fields:
        assert field["attributes"].keys() <= known[field["type"]], field["id"]
        assert field.keys() <= {"type", "id", "attributes", "validations"}
    assert any(field["id"] == "version" and field["validations"]["required"] for field in fields)


def test_there_is_a_form_for_each_kind_of_report() -> None:
    assert [path.stem for path in FORMS] == ["crash", "missing-rule", "wrong-rewrite"]


def test_contributing_fits_ten_lines() -> None:
    lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    assert [line.partition(". ")[0] for line in lines[2:]] == [str(n) for n in range(1, 11)][: len(lines) - 2]


def test_what_contributing_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:python )?([\w.-]+/[\w./-]*\w)`", text)
    assert len(named) > 3
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_licence_is_the_official_text() -> None:
    import hashlib

    data = (ROOT / "LICENSE").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_version_needs_no_import_of_ours() -> None:
    """hatchling and the release read it from a bare interpreter."""
    ran = python("import sys, torchmigrate; print([m for m in sys.modules if m.startswith(('libcst', 'typer'))])")
    assert ran.stdout.strip() == "[]", ran.stderr
