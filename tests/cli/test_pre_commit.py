"""Both hooks under pre-commit itself: `try-repo`, and commits through an installed hook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Ran, copy_of_package, git, python, write_tree

pytest.importorskip("pre_commit", reason="the hooks are tried with pre-commit: pip install 'torchmigrate[test]'")

Cli = Callable[..., Ran]
CUDA = "import torch\n\n\ndef step(model, batch):\n    batch = batch.cuda()\n    return model(batch)\n"
DONE = CUDA.replace("import torch\n", "import torch\nimport accel\n").replace("cuda()", "to(accel.device())")
LATER = "".join(f"\n\ndef f{i}():\n    return {i}\n" for i in range(4))


def notebook(source: str) -> str:
    cell = {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [], "source": source.splitlines(True)}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=1) + "\n"


@dataclass(frozen=True)
class Hooks:
    """A commit of this tree as a hooks' repository, and what pre-commit installs of it."""

    repository: Path
    home: Path
    env: dict[str, str]

    def run(self, *arguments: str, cwd: Path) -> tuple[int, str]:
        """One `pre-commit` command; its status and what it says."""
        return self._run([sys.executable, "-m", "pre_commit", *arguments], cwd)

    def commit(self, cwd: Path, *arguments: str) -> tuple[int, str]:
        """`git commit` with the hook that pre-commit installed."""
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return self._run(["git", *identity, "commit", "-m", "x", *arguments], cwd)

    def _run(self, command: list[str], cwd: Path) -> tuple[int, str]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, cwd=cwd, env=self.env, text=True, check=False, **streams)
        return done.returncode, done.stdout

    def project(self, directory: Path, hooks: list[dict[str, Any]]) -> Path:
        """A repository with one commit, where these hooks run before each other."""
        rev = git(self.repository, "rev-parse", "HEAD").strip()
        config = json.dumps({"repos": [{"repo": str(self.repository), "rev": rev, "hooks": hooks}]})  # is YAML, too
        write_tree(directory, {".pre-commit-config.yaml": config, "clean.py": "x = 1\n", "old.py": CUDA + LATER})
        git(directory, "init", "-q", "-b", "main")
        git(directory, "add", "-A")
        git(directory, "commit", "-q", "-m", "base")
        status, said = self.run("install", cwd=directory)
        assert status == 0, said
        return directory


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    repository = copy_of_package(tmp_path_factory.mktemp("hooks") / "torchmigrate")
    git(repository, "init", "-q")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "x")
    home = tmp_path_factory.mktemp("pre-commit home")
    apart = {"PRE_COMMIT_HOME": str(home), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    quick = {"PIP_NO_COMPILE": "0"}  # "0" is yes to pip; most of these modules are never imported
    return Hooks(repository, home, os.environ | apart | quick)


@pytest.fixture
def project(hooks: Hooks, tmp_path: Path) -> Path:
    return hooks.project(tmp_path / "a project", [{"id": "torchmigrate"}])


def head(directory: Path, name: str) -> str:
    return git(directory, "show", f"HEAD:{name}")


def test_the_manifest_is_valid(hooks: Hooks) -> None:
    assert hooks.run("validate-manifest", str(ROOT / ".pre-commit-hooks.yaml"), cwd=ROOT) == (0, "")


def test_try_repo(hooks: Hooks, tmp_path: Path) -> None:
    """Both hooks, of a project with one file of each sort."""
    names = ("train.py", "with space.py", "é 🎉.py", "moved.py", "gone.py", "third_party/x.py", "stub.pyi", "run")
    files = dict.fromkeys(names, CUDA) | {"notes.txt": CUDA, "nb.ipynb": notebook(CUDA), "clean.py": "x = 1\n"}
    files |= {"run": "#!/usr/bin/env python3\n" + CUDA, "broken.py": "import torch\ntorch.cuda.empty_cache(\n"}
    files["pyproject.toml"] = '[tool.torchmigrate]\nextend-exclude = ["third_party"]\n'
    write_tree(tmp_path, files)
    (tmp_path / "run").chmod(0o755)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "gone.py", "moved.py")
    git(tmp_path, "commit", "-q", "-m", "base")
    git(tmp_path, "rm", "-q", "gone.py")
    git(tmp_path, "mv", "moved.py", "new name.py")
    git(tmp_path, "add", "-A")
    status, said = hooks.run("try-repo", str(hooks.repository), "--verbose", cwd=tmp_path)
    assert status == 1
    first, second = re.split(r"^torchmigrate check\.+", said, flags=re.M)
    assert re.search(r"^torchmigrate\.+Failed$", first, re.M) and second.startswith("Failed\n"), said
    for part in (first, second):
        assert "- exit code: 2" in part and "error: broken.py: line 2: " in part
    assert "- files were modified by this hook" in first and "Rewrote 7 of 8 files and added accel.py" in first, said
    assert "git add accel.py" in first
    for name in ("train.py", "with space.py", "é 🎉.py", "new name.py", "stub.pyi"):
        assert (tmp_path / name).read_text("utf-8") == DONE, name
    cell = json.loads((tmp_path / "nb.ipynb").read_bytes())["cells"][0]
    assert sorted(cell["source"]) == sorted(DONE.splitlines(keepends=True)) and cell["execution_count"] == 3
    assert (tmp_path / "run").read_text("utf-8") == "#!/usr/bin/env python3\n" + DONE
    for name in ("notes.txt", "third_party/x.py", "broken.py", "clean.py"):
        assert (tmp_path / name).read_text("utf-8") == files[name], name


def test_a_clean_file_passes(hooks: Hooks, project: Path) -> None:
    write_tree(project, {"new.py": "import torch\n\nx = torch.zeros(3)\n"})
    git(project, "add", "new.py")
    status, said = hooks.commit(project)
    assert status == 0 and re.search(r"^torchmigrate\.+Passed$", said, re.M), said


def test_no_torch_is_installed(hooks: Hooks, project: Path) -> None:
    assert hooks.run("install-hooks", cwd=project)[0] == 0
    (found,) = hooks.home.glob("repo*/py_env-*")
    assert list(found.rglob("libcst")) and not list(found.rglob("site-packages/torch"))


def test_the_helper_must_go_into_the_commit(hooks: Hooks, project: Path) -> None:
    write_tree(project, {"train.py": CUDA})
    git(project, "add", "train.py")
    status, said = hooks.commit(project)
    assert status == 1 and "files were modified by this hook" in said
    lost = "error: train.py imports accel.py, which the commit would be without\nhelp: git add accel.py\n"
    assert lost in said and "added accel.py" in said
    git(project, "add", "-u")
    status, said = hooks.commit(project)
    assert status == 1 and lost in said and "files were modified" not in said
    git(project, "add", "accel.py")
    status, said = hooks.commit(project)
    assert status == 0, said
    assert head(project, "train.py") == DONE and head(project, "accel.py").startswith("# torchmigrate-runtime")
    assert git(project, "status", "--porcelain") == ""


def test_unstaged_parts_stay_unstaged(hooks: Hooks, project: Path) -> None:
    old = CUDA + LATER
    staged = old.replace("return 0", "return 'staged'")
    (project / "old.py").write_text(staged)
    git(project, "add", "old.py")
    mine = staged.replace("return 3", "return 'not staged'")
    (project / "old.py").write_text(mine)
    status, said = hooks.commit(project)
    assert status == 1 and "files were modified by this hook" in said, said
    assert (project / "old.py").read_text() == mine.replace(CUDA, DONE)
    assert git(project, "show", ":old.py") == staged
    rewritten = staged.replace(CUDA, DONE)
    (project / "old.py").write_text(rewritten)
    git(project, "add", "old.py", "accel.py")
    (project / "old.py").write_text(mine.replace(CUDA, DONE))
    status, said = hooks.commit(project)
    assert status == 0, said
    assert head(project, "old.py") == rewritten and "not staged" in (project / "old.py").read_text()


def test_nothing_is_lost_where_an_unstaged_change_is_in_the_way(hooks: Hooks, project: Path) -> None:
    staged, mine = CUDA + "# staged\n", CUDA.replace("batch.cuda()", "batch.cuda(1)") + "# staged\n"
    (project / "old.py").write_text(staged)
    git(project, "add", "old.py")
    (project / "old.py").write_text(mine)
    status, said = hooks.commit(project)
    assert status == 1 and "Stashed changes conflicted with hook auto-fixes" in said, said
    assert (project / "old.py").read_text() == mine and git(project, "show", ":old.py") == staged


def test_commit_of_all_that_is_tracked(hooks: Hooks, project: Path) -> None:
    """`git commit -a` has an index of its own."""
    (project / "old.py").write_text(CUDA + "x = 1\n")
    status, said = hooks.commit(project, "-a")
    assert status == 1 and "help: git add accel.py" in said
    git(project, "add", "accel.py")
    status, said = hooks.commit(project, "-a")
    assert status == 0, said
    assert head(project, "old.py") == DONE + "x = 1\n" and git(project, "status", "--porcelain") == ""


def test_the_hook_that_checks_writes_nothing(hooks: Hooks, tmp_path: Path) -> None:
    project = hooks.project(tmp_path, [{"id": "torchmigrate-check"}])
    write_tree(project, {"train.py": CUDA})
    git(project, "add", "train.py")
    status, said = hooks.commit(project)
    assert status == 1 and "device/tensor-cuda" in said and "files were modified" not in said
    assert (project / "train.py").read_text() == CUDA and not (project / "accel.py").exists()
    write_tree(project, {"train.py": CUDA.replace("cuda()", "cuda()  # torchmigrate: ignore[device/tensor-cuda] ours")})
    git(project, "add", "train.py")
    assert hooks.commit(project)[0] == 0


def test_the_hooks_of_the_docs(hooks: Hooks, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split("## pre-commit")[1]
    (snippet,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    (repo,) = yaml.safe_load(snippet)["repos"]
    project = hooks.project(tmp_path, repo["hooks"])
    write_tree(project, {"known.py": "import torch\nimport apex\n"})
    monkeypatch.chdir(project)
    assert cli("check", "--baseline", "torchmigrate-baseline.json", "--write-baseline").status == 0
    git(project, "add", "-A")
    status, said = hooks.commit(project)
    assert status == 0 and said.count("Passed") == 2, said
    write_tree(project, {"new.py": "import torch\nimport apex\nm = torch.cuda.amp.autocast()\n"})
    git(project, "add", "-A")
    status, said = hooks.commit(project)
    assert status == 1 and "new.py:2:1: " in said and "known.py" not in said
    first, second = re.split(r"^torchmigrate check\.+", said, flags=re.M)
    assert "Passed" in first and second.startswith("Failed")  # amp is not among the packs that are selected


# ---- what a clean file costs


def test_a_clean_file_loads_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second is what people wait for gladly; these would take it. Under pre-commit, which tells us so, the
    helpers of the commit are looked at, too: by name."""
    monkeypatch.setenv("PRE_COMMIT", "1")
    write_tree(tmp_path, {"clean.py": "import torch\n\nx = torch.zeros(3)\n"})
    git(tmp_path, "init", "-q")
    code = "import sys; from torchmigrate.cli import app; print(app.run(sys.argv[1:]), *sys.modules)"
    for command in ("check", "apply"):
        status, *loaded = python(code, command, str(tmp_path / "clean.py")).stdout.split()
        assert status == "0" and "torchmigrate.engine.planner" in loaded
        assert not {"typer", "libcst", "git", "torch", "yaml", "rich", "hashlib", "json", "shlex"} & set(loaded)
        parts = {"diagnostics.suppressions", "engine.worker", "project.helper_parts", "source.edits"}
        parts |= {"apply.journal", "source.json_text", "source.text_file", "syntax.scope", "vcs.git_tree"}
        assert not {f"torchmigrate.{part}" for part in parts} & set(loaded)
