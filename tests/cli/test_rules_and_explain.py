"""`rules`, `rules test`, `explain`, and whole runs with the rules that ship."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Ran, git, python

from torchmigrate.cli.output import Progress
from torchmigrate.rules import packs

Cli = Callable[..., Ran]

RULE = """
summary = "an example"
safety = "safe"
backends = ["mps"]
why = "Because."
see = ["https://example.org/why"]

[[rewrite]]
match = "torch.cuda.example($x)"
with = "torch.example($x)"

[[case]]
title = "plain"
before = '''
import torch
torch.cuda.example(1)
'''
after = '''
import torch
torch.example({argument})
'''

[[case]]
title = "another module"
before = '''
import mylib as torch
torch.cuda.example(1)
'''
"""


@pytest.fixture
def mine(here: Path) -> Callable[[str], None]:
    (here / "pyproject.toml").write_text("[tool.torchmigrate]\nrule-paths = ['rules']\n")
    (here / "rules" / "own").mkdir(parents=True)

    def write(argument: str) -> None:
        (here / "rules" / "own" / "example.toml").write_text(RULE.replace("{argument}", argument))

    write("1")
    return write


def test_rules_lists_packs_and_rules(here: Path, cli: Cli) -> None:
    everything = cli("rules").out.splitlines()
    assert len(everything) == len(packs.load().rules)
    device = cli("rules", "device").out.splitlines()
    assert 0 < len(device) < len(everything)
    assert all(line.startswith("device/") for line in device)
    assert cli("rules", "device/tensor-cuda").out.split()[:2] == ["device/tensor-cuda", "safe"]


def test_a_near_name_is_suggested(here: Path, cli: Cli) -> None:
    ran = cli("explain", "device/tensor-cudda")
    assert (ran.status, ran.err.splitlines()[1]) == (2, "help: did you mean `device/tensor-cuda`?")
    assert cli("rules", "devise").err.splitlines()[1] == "help: did you mean `device`?"
    assert (
        cli("check", "--ignore", "memory/empty-cash").err.splitlines()[1] == "help: did you mean `memory/empty-cache`?"
    )


def test_rules_test_runs_the_cases_of_a_pack(here: Path, cli: Cli, mine: Callable[[str], None]) -> None:
    ran = cli("rules", "test", "rules")
    assert (ran.status, ran.out, ran.last) == (0, "", "2 of 2 cases of 1 rule pass.")
    mine("2")
    ran = cli("rules", "test", "rules")
    assert (ran.status, ran.last) == (1, "1 of 2 cases of 1 rule pass.")
    line = RULE[: RULE.index("[[case]]")].count("\n") + 1
    assert ran.out.startswith(f"rules/own/example.toml:{line}: own/example: plain: ")
    assert cli("rules", "test", "nowhere").status == 2


@pytest.mark.parametrize("named", ["rules/own", "rules/own/example.toml", "own", "own/example", "rules/own own"])
def test_rules_test_takes_a_folder_a_file_a_pack_or_a_rule(here: Path, cli: Cli, mine: object, named: str) -> None:
    ran = cli("rules", "test", *named.split())
    assert (ran.status, ran.out, ran.last) == (0, "", "2 of 2 cases of 1 rule pass.")


def test_rules_test_runs_only_what_is_named(here: Path, cli: Cli, mine: object) -> None:
    rules = packs.load().rules
    for named in ("stream/record-stream", "memory/empty-cache"):
        assert (
            cli("rules", "test", named).last
            == f"{len(rules[named].cases)} of {len(rules[named].cases)} cases of 1 rule pass."
        )
    ran = cli("rules", "test", "own/exemple")
    assert (ran.status, ran.err.splitlines()[-1]) == (2, "help: did you mean `own/example`?")
    assert cli("rules", "test", "missing.toml").status == 2


def test_rules_new_writes_a_rule_whose_cases_pass(here: Path, cli: Cli, mine: object) -> None:
    ran = cli("rules", "new", "own/second")
    assert (ran.status, ran.err) == (0, "")
    assert cli("rules", "test", "own/second").last == "2 of 2 cases of 1 rule pass."
    assert cli("rules", "new", "own/second").status == 2  # it exists
    assert [cli("rules", "new", name).status for name in ("alone", "../a b/c", "")] == [2, 2, 2]
    ran = cli("rules", "new", "elsewhere/pack/third")
    assert 'rule-paths = ["elsewhere"]' in ran.err
    assert cli("rules", "test", "elsewhere").last == "2 of 2 cases of 1 rule pass."


def test_explain_a_rule_of_ones_own(here: Path, cli: Cli, mine: object) -> None:
    assert cli("explain", "own/example").out.splitlines() == [
        "own/example",
        "  an example",
        "  safety: safe; matters on: mps",
        "",
        "  Because.",
        "",
        "     import torch",
        "    -torch.cuda.example(1)",
        "    +torch.example(1)",
        "",
        "  https://example.org/why",
    ]


@pytest.mark.parametrize(
    ("api", "rule"),
    [
        ("torch.cuda.empty_cache", "memory/empty-cache"),
        ("torch.cuda.empty_cache()", "memory/empty-cache"),
        ("torch.Tensor.cuda", "device/tensor-cuda"),
        (".cuda()", "device/tensor-cuda"),
        ("torch.cuda.is_available", "device/is-available"),
        ("torch.cuda.example", "own/example"),
    ],
)
def test_explain_an_api(here: Path, cli: Cli, mine: object, api: str, rule: str) -> None:
    ran = cli("explain", api)
    assert ran.status == 0
    assert rule in ran.out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "torch.nn.functional.scaled_dot_product_attention",
            "` names no device: torchmigrate leaves it as it is. There",
        ),
        ("F.relu", "`torch.nn.functional.relu` names no device"),
        ("relu", "`torch.relu`, `torch.Tensor.relu`, `torch.nn.functional.relu` name no device"),
        (".view(2)", "`torch.Tensor.view` names no device"),  # what Tensor's row says is not true of it
        ("torch.nn", "`torch.nn` is a module. "),
        ("empty_cache", "`torch.cuda.empty_cache` is a function. It is rewritten by the rule memory/empty-cache."),
        ("device", "device is a pack of 15 rules:\n\ndevice/bf16 "),
    ],
)
def test_explain_answers_for_any_public_name(here: Path, cli: Cli, name: str, said: str) -> None:
    ran = cli("explain", name)
    assert ran.status == 0
    assert said.replace(" ", "") in ran.out.replace("\n", "").replace(" ", "") or said in ran.out


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("torch.nn.functional.scaled_dot_product_atention", "torch.nn.functional.scaled_dot_product_attention"),
        ("torch.cuda.empty_cahce", "torch.cuda.empty_cache"),
        ("nccl", "distributed/nccl"),  # a rule without its pack
    ],
)
def test_a_mistyped_name_is_not_answered(here: Path, cli: Cli, name: str, near: str) -> None:
    ran = cli("explain", name)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.endswith(f"help: did you mean `{near}`?\n")


def test_every_rule_can_be_explained(here: Path, cli: Cli) -> None:
    for name in packs.load().rules:
        ran = cli("explain", name)
        assert (ran.status, ran.out.splitlines()[0]) == (0, name)


def test_selecting_rules(here: Path, cli: Cli) -> None:
    (here / "a.py").write_text("import torch\n\ntorch.cuda.empty_cache()\nx = torch.zeros(2).cuda()\n")

    def rules(*options: str) -> set[str]:
        data = json.loads(cli("check", "--output-format", "json", *options).out)
        return {finding["rule"] for finding in data["findings"]}

    assert rules() >= {"device/tensor-cuda", "memory/empty-cache"}
    assert rules("--select", "memory") == {"memory/empty-cache"}
    assert "memory/empty-cache" not in rules("--ignore", "memory/empty-cache")


def test_per_file_ignores(here: Path, cli: Cli) -> None:
    (here / "a.py").write_text("import torch\n\ntorch.cuda.empty_cache()\n")
    assert cli("check").status == 1
    (here / "pyproject.toml").write_text("[tool.torchmigrate.per-file-ignores]\n'a.py' = ['memory']\n")
    assert cli("check").status == 0


def test_the_report_shows_the_line_of_a_cell(here: Path, cli: Cli) -> None:
    cell = {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": [], "id": "a"}
    cells = [{**cell, "source": "# text"}, {**cell, "source": ["import torch\n", "y = torch.zeros(2).cuda()"]}]
    (here / "nb.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    out = cli("check").out
    assert "nb.ipynb:cell 2:2:" in out
    assert "  2 | y = torch.zeros(2).cuda()\n" in out


def test_a_whole_run(here: Path, cli: Cli) -> None:
    """apply, again, undo: the second changes nothing, undo leaves no trace."""
    git(here, "init", "-q")
    (here / "train.py").write_bytes(b"import torch\r\n\r\nx = torch.zeros(2).cuda()  # why\r\n")
    cell = {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": [], "id": "a"}
    cells = [
        {**cell, "source": ["%matplotlib inline\n", "import torch"]},
        {**cell, "source": ["y = torch.zeros(2).cuda()"]},
    ]
    book = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    (here / "nb.ipynb").write_text(book)
    git(here, "add", ".")
    before = {path.name: path.read_bytes() for path in here.glob("*.[pi]*")}
    dry = cli("apply", "-n")
    assert dry.status == 1
    assert {path.name: path.read_bytes() for path in here.glob("*.[pi]*")} == before
    assert "# nb.ipynb:cell 2" in dry.out
    ran = cli("apply")
    assert ran.status == 0
    assert ran.last == "Rewrote 2 of 2 files and added accel.py: 2 edits by 1 rule."
    assert b"x = torch.zeros(2, device=accel.device())  # why\r\n" in (here / "train.py").read_bytes()
    data = json.loads((here / "nb.ipynb").read_text())
    assert sorted("".join(data["cells"][0]["source"]).split("\n")) == [
        "%matplotlib inline",
        "import accel",
        "import torch",
    ]
    assert data["cells"][1]["source"] == ["y = torch.zeros(2, device=accel.device())"]
    again = cli("apply", "--allow-dirty")
    assert (again.status, again.last) == (0, "Nothing to rewrite in 3 files.")
    assert cli("undo").status == 0
    assert {path.name: path.read_bytes() for path in here.glob("*.[pi]*")} == before
    assert git(here, "diff") == ""


def test_suppressed_findings_are_counted(here: Path, cli: Cli) -> None:
    text = "import torch\n\nx = torch.zeros(2).cuda()  # torchmigrate: ignore[device/tensor-cuda] on purpose\n"
    (here / "a.py").write_text(text)
    (here / "b.py").write_text("# torchmigrate: skip-file\nx.cuda()\n")
    ran = cli("apply")
    assert (ran.status, ran.last) == (0, "Nothing to rewrite in 1 file. 1 suppressed. 1 skipped.")
    assert (here / "a.py").read_text() == text


@pytest.mark.slow
def test_a_check_of_a_clean_file_imports_nothing_heavy(here: Path) -> None:
    (here / "a.py").write_text("import torch\n")
    git(here, "init", "-q")
    code = """
import sys
from torchmigrate.cli import app
assert app.run(["check", sys.argv[1]]) == 0
print([m for m in ("libcst", "git", "torch", "rich", "yaml") if m in sys.modules])
"""
    assert python(code, str(here / "a.py")).stdout == "[]\n"


class _Terminal:
    def __init__(self, stream: object) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return True

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@pytest.mark.parametrize(("terminal", "seconds", "shown"), [(True, 2.0, True), (True, 0.5, False), (False, 2.0, False)])
def test_the_bar_comes_on_a_terminal_and_after_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, seconds: float, shown: bool
) -> None:
    now = [100.0]
    monkeypatch.setattr("torchmigrate.cli.output.time.monotonic", lambda: now[0])
    if terminal:
        monkeypatch.setattr(sys, "stderr", _Terminal(sys.stderr))
    with Progress() as progress:
        now[0] += seconds
        progress(5, 10)
        progress(10, 10)
    monkeypatch.undo()
    captured = capsys.readouterr()
    assert bool(captured.err) is shown
    assert captured.out == ""


@pytest.mark.slow
def test_the_wheel_holds_the_rules_and_asks_for_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where hatch-fancy-pypi-readme looks
    build = pytest.importorskip("hatchling.builders.wheel")
    wheel = next(iter(build.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith("METADATA"))
    for rule in packs.load().rules:
        assert f"torchmigrate/data/rules/{rule}.toml" in names
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    names = {line.split()[1].split(">")[0] for line in required}
    assert names == {"gitpython", "libcst", "packaging", "platformdirs", "rich", "typer"}
