"""`--help` fits a screen and its examples run; <tab> completes what there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from conftest import ROOT, Ran, git

from torchmigrate.cli import parameters
from torchmigrate.cli import program as command_line
from torchmigrate.rules import packs
from torchmigrate.surveys import api_catalog

Cli = Callable[..., Ran]
GROUP = typer.main.get_command(command_line.app)
COMMANDS = list(GROUP.commands)  # type: ignore[attr-defined]
# half a minute; imports torch; until its editor ends it; a list of repositories: they are parsed
NOT_RUN = {"verify", "backends", "server", "fleet"}
COLUMNS, LINES = 80, 42


@pytest.fixture
def project(here: Path) -> Path:
    """Where every example makes sense."""
    for name in ("train.py", "src/train.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("import torch\n\nx = torch.zeros(2).cuda()\n")
    rule = here / "my-rules" / "own" / "r.toml"
    rule.parent.mkdir(parents=True)
    rule.write_text('summary = "s"\nsafety = "display"\nwhy = "w"\n[[rewrite]]\nmatch = "torch.f()"\n')
    (here / ".venv" / "bin").mkdir(parents=True)
    (here / ".venv" / "bin" / "python").symlink_to(sys.executable)
    git(here, "init", "-q", "-b", "main")
    git(here, "add", "train.py", "src")
    git(here, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "one")
    return here


def help_of(cli: Cli, *command: str) -> str:
    ran = cli(*command, "--help")
    assert (ran.status, ran.err) == (0, "")
    return ran.out


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_screen(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    text = help_of(cli, *name.split())
    lines = text.splitlines()
    assert len(lines) < LINES  # and the prompt
    assert max(map(len, lines)) < COLUMNS  # some terminals wrap at the last
    assert not any(line != line.rstrip() for line in lines)
    assert "Examples:" in text
    assert cli(*name.split(), "-h").out == text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_one_line_of_the_help(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    text = help_of(cli, name)
    for param in GROUP.commands[name].params:  # type: ignore[attr-defined]
        if param.param_type_name == "option" and not param.hidden:
            (line,) = re.findall(rf"^ +(?:-\w, )?{re.escape(param.opts[-1])}(?: .*)$", text, re.M)
            if param.name == "output_format" and len(param.help) > COLUMNS // 2:
                line = " ".join(text[text.index(line) :].split("\n      ", 2)[:2])  # names all formats: two lines
                line = " ".join(line.split("\n")[0].split())
            assert line.endswith(param.help), "its text takes more than one line"


def examples() -> Iterator[tuple[str, str]]:
    for name, command in {"": GROUP, **GROUP.commands}.items():  # type: ignore[attr-defined]
        found = re.findall(r"^ *torchmigrate (.*?)(?:  .*)?$", command.help or "", re.M)
        assert found, name
        yield from ((name, line) for line in found)


@pytest.mark.parametrize(("name", "line"), [e for e in examples() if e[0] not in NOT_RUN])
def test_an_example_of_the_help_runs(name: str, line: str, cli: Cli, project: Path) -> None:
    ran = cli(*shlex.split(line), *(["--dry-run"] if "-i" in line.split() else []))
    asks = "-i" in line.split() and "pass one of them" in ran.err  # it would ask: there is nobody
    nothing = line.startswith("undo") and "nothing to undo" in ran.err
    assert ran.status in (0, 1) or asks or nothing, ran.err


@pytest.mark.parametrize(("name", "line"), [e for e in examples() if e[0] in NOT_RUN])
def test_an_example_that_is_not_run_parses(name: str, line: str) -> None:
    words = shlex.split(line)
    assert words[0] == name
    GROUP.commands[name].make_context(name, words[1:])  # type: ignore[attr-defined]


def test_without_a_command(cli: Cli) -> None:
    ran = cli()
    assert (ran.status, ran.out) == (0, help_of(cli))
    assert "torchmigrate check " in ran.out  # the first step
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\w.*\.$", ran.out, re.M), "one whole sentence on its line"


# ---- completion


def test_rules_that_are_completed_are_those_that_there_are() -> None:
    rules = packs.load(cases=False).rules
    offered = dict(parameters.names(""))
    assert offered.keys() == rules.keys() | {rule.pack for rule in rules.values()}
    assert all(offered[name] == rule.summary.replace("`", "") for name, rule in rules.items())


def test_apis_that_are_completed_have_a_row() -> None:
    named = {row.name for row in api_catalog.load().rows.values()}
    for start in ("torch.cuda.", "torch.xpu.", "torch.Tensor.c"):
        offered = {name for name, _ in parameters.apis(start)}
        assert offered and offered <= named
    assert [name for name, _ in parameters.apis("torch.cuda.empty_c")] == ["torch.cuda.empty_cache"]
    assert {"torch.cuda"} <= {name for name, _ in parameters.apis("torch.cu")}
    assert all(name.count(".") == 1 for name, _ in parameters.apis("torch."))


def test_lists_are_completed_at_their_end() -> None:
    assert ("amp,stream/nvtx", "NVTX ranges raise off CUDA") in parameters.names("amp,stream/n")
    assert [name for name, _ in parameters.backends("mps,x")] == ["mps,xpu", "mps,xla"]
    assert "mps,mps" not in dict(parameters.backends("mps,"))


def test_a_project_s_own_rules_are_completed(project: Path) -> None:
    assert "own/r" not in dict(parameters.names(""))
    (project / "pyproject.toml").write_text('[tool.torchmigrate]\nrule-paths = ["my-rules"]\n')
    assert dict(parameters.names("own"))["own/r"] == "s"
    (project / "pyproject.toml").write_text("[tool.torchmigrate]\nrule-pahts = 1\n")  # no traceback on <tab>
    assert dict(parameters.names("amp"))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`torchmigrate` on PATH."""
    file = tmp_path / "bin" / "torchmigrate"
    file.parent.mkdir()
    lines = ("import sys", "from torchmigrate.cli.app import main", "try:", "    main()")
    lines += ("finally:", '    assert "libcst" not in sys.modules', "")
    file.write_text("\n".join((f"#!{sys.executable}", *lines)))
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


BASH = """
eval "$(_TORCHMIGRATE_COMPLETE=source_bash torchmigrate)"
COMP_WORDS=($1)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_torchmigrate_completion torchmigrate
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("torchmigrate ba", ["backends"]),
        ("torchmigrate check --select memory/e", ["memory/empty-cache"]),
        ("torchmigrate apply --output-format j", ["json", "junit"]),
    ],
)
def test_bash(program: None, typed: str, offered: list[str]) -> None:
    ran = subprocess.run(["bash", "-c", BASH, "bash", typed], capture_output=True, text=True)
    assert (ran.stdout.split(), ran.stderr) == (offered, "")


@pytest.mark.parametrize(
    ("shell", "offered"),
    [
        ("zsh", '"memory/empty-cache":"torch.cuda.empty_cache() frees nothing off CUDA"'),
        ("fish", "memory/empty-cache\ttorch.cuda.empty_cache() frees nothing off CUDA"),
    ],
)
def test_what_other_shells_are_told(program: None, shell: str, offered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TORCHMIGRATE_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "torchmigrate check --select memory/e")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    ran = subprocess.run(["torchmigrate"], capture_output=True, text=True)
    assert (offered in ran.stdout, ran.stderr) == (True, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_named_is_the_only_one_made(name: str) -> None:
    group = typer.main.get_command(command_line._program_for([name, "--help"]))
    assert [*group.commands] == [name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", [[], ["--version"], ["-h"], ["chek"]])
def test_else_all_of_them_are_there(line: list[str]) -> None:
    assert command_line._program_for(line) is command_line.app
