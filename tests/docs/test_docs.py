"""README, docs/ and the hooks file say what the tool does now."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from conftest import ROOT, Ran

from torchmigrate.cli import program as command_line
from torchmigrate.config import config_file

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
Cli = Callable[..., Ran]
Migrated = Callable[..., str]


def fences(text: str, language: str) -> list[str]:
    """The bodies of the fenced blocks that begin with this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def command_lines() -> Iterator[tuple[str, str]]:
    """Each `torchmigrate ...` that a page tells people to type, with the page's name."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = "\n".join(fences(text, "sh") + fences(text, "console"))
        inline = re.findall(r"`torchmigrate ([a-z][^`]*)`", text)
        names = "start|apply|check|report|rules|explain|catalog|config|verify|backends|fleet|undo"
        for line in [*re.findall(rf"torchmigrate ((?:{names})\b[^&|#\n]*)", blocks), *inline]:
            yield page.name, line.strip()


def setup_commands() -> list[str]:
    """The README's two commands for a fresh clone."""
    return [line for block in fences(README, "sh") for line in block.splitlines() if line.startswith("python3 -m venv")]


# ---- the README's diff and table


def test_the_diff_of_the_readme_is_what_its_first_command_prints(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    first = setup_commands()[0].partition(".venv/bin/torchmigrate ")[2]
    ran = cli(*shlex.split(first))
    excerpt = fences(README, "diff")[0]
    assert ran.status == 0
    assert "\n" + excerpt in ran.out, "copy the hunk anew from: torchmigrate " + first


def table_rows() -> list[tuple[str, str]]:
    section = README.split("## What is rewritten")[1].split("\n## ")[0]
    return re.findall(r"^\| `(.*)` \| `(.*)` \|$", section, re.M)


@pytest.mark.parametrize(("before", "after"), table_rows())
def test_a_row_of_the_readme(before: str, after: str, migrated: Migrated) -> None:
    imports = "import torch\nimport torch.distributed as dist\nfrom torch import nn\n"
    assert migrated(imports + before + "\n") == f"{imports}import accel\n{after}\n"


def test_the_readme_has_such_rows() -> None:
    assert len(table_rows()) > 10


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ("`torch.cuda.CUDAGraph`", "graph = torch.cuda.CUDAGraph()"),
        ("`CUDAExtension`", "from torch.utils.cpp_extension import CUDAExtension\next = CUDAExtension('x', ['x.cu'])"),
        ("`import apex`", "import apex"),
        ("`import flash_attn`", "import flash_attn"),
    ],
)
def test_what_the_readme_says_is_a_finding(named: str, code: str, cli: Cli, here: Path) -> None:
    assert named in README.split("## What it will not do")[1]
    (here / "train.py").write_text(f"import torch\n{code}\n", encoding="utf-8")
    ran = cli("apply", "--dry-run", "train.py")
    assert ran.status == 0
    assert "[needs you]" in ran.out
    assert "+++" not in ran.out


def test_the_readme_fits_its_promise_of_two_commands() -> None:
    first, second = setup_commands()
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/torchmigrate apply ")
    assert second == "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest -q"


def test_ci_finds_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"grep -m 1 -x '(.*?)' README.md", script)
    assert next(line for line in README.splitlines() if re.fullmatch(pattern, line)) == setup_commands()[1]


# ---- commands, options, settings


@pytest.mark.parametrize(("page", "line"), sorted(set(command_lines())))
def test_a_command_line_parses(page: str, line: str) -> None:
    words = shlex.split(line)
    group = typer.main.get_command(command_line.app)
    with group.make_context("torchmigrate", list(words)) as context:
        command = group.get_command(context, words[0])
        assert command is not None, f"{page}: no command {words[0]}"
        arguments = [word for word in words[1:] if word not in ("--help", "-h")]
        command.make_context(words[0], arguments, parent=context)


def test_there_are_command_lines() -> None:
    used = {line.split()[0] for _, line in command_lines()}
    names = "start apply check report rules explain catalog config verify backends fleet helper undo server"
    assert used == set(names.split())


OF_OTHERS = {"--gpus", "--gres"}  # docker's and slurm's, which rules speak of


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_option_exists(page: Path) -> None:
    group = typer.main.get_command(command_line.app)
    known = {
        option for command in group.commands.values() for p in command.params for option in (*p.opts, *p.secondary_opts)
    }
    named = set(re.findall(r"`(--[a-z-]+)", page.read_text(encoding="utf-8")))
    assert named - OF_OTHERS <= known


def test_the_readmes_settings_are_read(tmp_path: Path) -> None:
    (snippet,) = fences(README, "toml")
    file = tmp_path / "pyproject.toml"
    file.write_text(snippet, encoding="utf-8")
    assert config_file.read(file).keys() == {
        key.replace("-", "_") for key in tomllib.loads(snippet)["tool"]["torchmigrate"]
    }


@pytest.mark.parametrize("name", ["torch.cuda.empty_cache", "device/tensor-cuda"])
def test_names_that_the_pages_explain(name: str, cli: Cli, here: Path) -> None:
    assert any(name in page.read_text(encoding="utf-8") for page in PAGES)
    assert cli("explain", name).status == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https:)([^)#]+)", text):
        assert (page.parent / target).is_file(), target
    headings = {h.lower().replace("/", "").replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


# ---- docs/


def test_the_written_pages_are_up_to_date() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "build_rules.py"))["pages"]()
    stale = [p.name for p, text in written.items() if not p.is_file() or p.read_text(encoding="utf-8") != text]
    assert not stale, "run: python docs/build_rules.py"
    assert set((ROOT / "docs" / "catalog").iterdir()) <= set(written)
    assert {"rules.md", "catalog.md", "helper.md", "mps.md", "cuda.md"} <= {page.name for page in written}


def test_every_row_of_the_catalog_has_its_place() -> None:
    """On one page, and on one line of it."""
    from torchmigrate.surveys import api_catalog

    pages = [p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "catalog").glob("*.md")]
    shown = [name for text in pages for name in re.findall(r"^\| `(torch[\w.]*)` \|", text, re.M)]
    assert len(shown) == len(set(shown)) == len({(row.path, row.line) for row in api_catalog.load().rows.values()})


def examples() -> list[tuple[str, str]]:
    return re.findall(r"^```diff( unsafe)?\n(.*?)^```$", (ROOT / "docs" / "safety.md").read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize(("mode", "example"), examples())
def test_an_example_of_what_is_safe(mode: str, example: str, migrated: Migrated) -> None:
    lines = example.splitlines()
    before = "".join(line[1:] + "\n" for line in lines if line[0] in " -")
    after = "".join(line[1:] + "\n" for line in lines if line[0] in " +")
    assert migrated(before, unsafe=bool(mode)) == after
    assert not mode or migrated(before) == before


def test_there_are_examples_of_what_is_safe() -> None:
    assert len(examples()) > 5


def test_the_helper_names_beside_its_table() -> None:
    from torchmigrate import runtime

    text = (ROOT / "docs" / "helper.md").read_text(encoding="utf-8")
    for name in re.findall(r"`accel\.(\w+)`", text.split("## Functions")[1]):
        assert hasattr(runtime, name)
    for name in re.findall(r"`(\w+)`", text.split("`accel.nvtx` with")[1].split("which")[0]):
        assert hasattr(runtime.nvtx, name)


def test_the_helpers_log_is_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((code, shown),) = re.findall(
        r"^\$ .* python -c '(.*)'\n(.*)\n```", (ROOT / "docs" / "helper.md").read_text(encoding="utf-8"), re.M
    )
    monkeypatch.setenv("TORCH_ACCEL_DEVICE", "cpu")
    monkeypatch.setenv("TORCH_ACCEL_LOG", "1")
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown in ran.stderr.splitlines()


# ---- pre-commit


def hooks(text: str) -> list[dict[str, str]]:
    """The hooks file is a flat list of flat maps: no need of a YAML library for that."""
    items = [item for item in re.split(r"^- ", text, flags=re.M) if item.strip()]
    return [dict(re.findall(r"^\s*([\w_]+): (.*)$", item, re.M)) for item in items]


def test_both_hooks() -> None:
    found = {hook["id"]: hook for hook in hooks((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    assert {name: hook["entry"] for name, hook in found.items()} == {
        "torchmigrate": "torchmigrate apply",
        "torchmigrate-check": "torchmigrate check",
    }
    for hook in found.values():
        fields = hook["language"], hook["types_or"], hook["require_serial"]
        assert fields == ("python", "[python, pyi, jupyter]", "true")
        assert hook["name"] and hook["description"]


def test_the_readmes_hook_exists() -> None:
    (snippet,) = fences(README, "yaml")
    (used,) = re.findall(r"- id: (\S+)", snippet)
    assert used in {hook["id"] for hook in hooks((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
