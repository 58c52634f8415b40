"""The catalog's reader and its errors, `catalog` and `explain`: on rows of the tests' own, and on those that ship."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, python, write_tree

from torchmigrate.formats import catalog
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError
from torchmigrate.surveys import api_catalog
from torchmigrate.surveys.api_catalog import BACKENDS, VERDICTS, Row

Cli = Callable[..., Ran]

ROWS = """\
source = "https://docs.pytorch.org/docs/stable/cuda.html"

[verdicts.figure]
cuda = "works"
mps = "works through the helper"
xpu = "works through the helper"
npu = "works through the helper"
hpu = "missing"
mtia = "different"
cpu = "no-op"

[[api]]
name = "torch.zzz.figure"
kind = "function"
verdicts = "figure"
but = { rocm = "different" }
action = "rewritten"
rule = "memory/statistics"
helper = "memory_allocated"
also = ["torch.zzz.inner.figure"]
since = "2.6"

[[api]]
name = "torch.zzz.flag"
kind = "attribute"
verdicts = "figure"
helper = "memory_allocated"
action = "left alone"
why = "only cuDNN reads it"
source = "torch/zzz.py"

[[api]]
name = "torch.zzz.Thing"
kind = "class"
verdicts = { cuda = "works", mps = "works", xpu = "works", npu = "works", hpu = "works", mtia = "works", cpu = "works" }
action = "reported"
rule = ["hazard/cuda-only", "stream/stream"]
"""


def read(tmp_path: Path, text: str = ROWS) -> api_catalog.Catalog:
    file = write_tree(tmp_path, {"catalog/zzz.toml": text}) / "catalog" / "zzz.toml"
    return api_catalog.gather([file], packs.load(cases=False).rules)


def rows(tmp_path: Path) -> dict[str, Row]:
    return dict(read(tmp_path).rows)


# ---- reading


def test_a_row(tmp_path: Path) -> None:
    row = rows(tmp_path)["torch.zzz.figure"]
    assert tuple(row.backends) == BACKENDS
    assert row.backends["cuda"] == "works"
    assert row.backends["rocm"] == "different"
    assert row.backends["mps"] == "works through the helper"
    assert row.backends["mlx"] == "not a torch device"
    assert (row.kind, row.action, row.rule, row.helper, row.since) == (
        "function", "rewritten", "memory/statistics", "memory_allocated", "2.6",
    )  # fmt: skip
    assert row.source == "https://docs.pytorch.org/docs/stable/cuda.html"
    assert (row.path.name, row.line) == ("zzz.toml", 12)


def test_rocm_is_cuda_unless_said(tmp_path: Path) -> None:
    assert rows(tmp_path)["torch.zzz.flag"].backends["rocm"] == "works"


def test_another_name_has_a_row_of_its_own(tmp_path: Path) -> None:
    found = rows(tmp_path)
    assert sorted(found) == ["torch.zzz.Thing", "torch.zzz.figure", "torch.zzz.flag", "torch.zzz.inner.figure"]
    assert found["torch.zzz.inner.figure"].backends == found["torch.zzz.figure"].backends


def test_several_rules(tmp_path: Path) -> None:
    assert rows(tmp_path)["torch.zzz.Thing"].rules == ("hazard/cuda-only", "stream/stream")


def replaced(old: str, new: str) -> str:
    assert old in ROWS
    return ROWS.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "what", "help"),
    [
        (replaced('kind = "function"', 'kin = "function"'), 14, "unknown key `kin`", "did you mean `kind`?"),
        (replaced('"function"', '"funktion"'), 14, "`kind` is 'funktion'", "did you mean `function`?"),
        (replaced('kind = "function"\n', ""), 12, "`kind` is missing", "one of: module, function"),
        (replaced('"function"', "3"), 14, "`kind` is 3", "write a string"),
        (replaced('name = "torch.zzz.figure"', 'name = "torch.f()"'), 13, "`name` is 'torch.f()'", "without ()"),
        (replaced('name = "torch.zzz.figure"\n', ""), 12, "`name` is ''", 'write name = "torch.cuda.f"'),
        (replaced("rocm =", "rcm ="), 16, "unknown backend `rcm`", "did you mean `rocm`?"),
        (replaced("hpu =", "mlx ="), 8, "unknown backend `mlx`", "known: cuda, rocm"),
        (replaced('"different" }', '"diferent" }'), 16, "`rocm` is 'diferent'", "did you mean `different`?"),
        (replaced('hpu = "missing"\n', ""), 3, "no verdict for hpu", "a set speaks of every backend but mlx"),
        (replaced('verdicts = "figure"', 'verdicts = "figures"'), 15, "`verdicts` is 'figures'", "mean `figure`?"),
        (replaced('verdicts = "figure"\n', ""), 13, "`torch.zzz.figure` has no `verdicts`", "[verdicts.x]"),
        (replaced('verdicts = "figure"', "verdicts = 3"), 15, "verdicts are a table", 'cuda = "works"'),
        (replaced('"rewritten"', '"rewriten"'), 17, "`action` is 'rewriten'", "did you mean `rewritten`?"),
        (replaced('rule = "memory/statistics"\n', ""), 17, "is rewritten without a `rule`", "name the rule"),
        (replaced('"memory/statistics"', '"memory/statistic"'), 18, "unknown rule `memory/statistic`", "did you mean"),
        (replaced('"memory/statistics"', "[3]"), 18, "`rule` is [3]", 'write rule = ["memory/empty-cache"]'),
        (replaced('helper = "memory_allocated"\n', ""), 15, "works through the helper without a `helper`", "function"),
        (replaced('also = ["torch.zzz.inner.figure"]', 'also = "x"'), 20, "`also` is 'x'", "write also = ["),
        (replaced('"2.6"', '"two"'), 21, "since is 'two'", 'as "2.6"'),
        (replaced('why = "only cuDNN reads it"\n', ""), 28, "is left alone without a `why`", "say why"),
        (replaced("why =", 'rule = "stream/stream"\nwhy ='), 29, "is left alone, by no rule", "drop `rule`"),
        (replaced("why =", 'measure = "1"\nwhy ='), 29, "`measure` and `gives` belong together", "give both"),
        (replaced('source = "https://docs.pytorch.org/docs/stable/cuda.html"\n', ""), 12, "no source", "the file a"),
        (replaced('name = "torch.zzz.flag"', 'name = "torch.zzz.figure"'), 23, "has a row already", "one row"),
        (ROWS + "\n[x]\n", 39, "unknown key `x`", "known keys: source, verdicts, api"),
        (ROWS.replace("[[api]]", "[[apis]]"), 12, "unknown key `apis`", "did you mean `api`?"),
        ("api = 3", 1, "no list of tables", "write [[api]], once per row"),
        ("[api]", 1, "no list of tables", "write [[api]], once per row"),
        ("verdicts = 3", 1, "`verdicts` is no table of tables", "write [verdicts.name]"),
        ("a = [", 1, "not valid TOML: Invalid value", "a TOML file"),
    ],
)  # fmt: skip
def test_an_error_says_where_and_how(tmp_path: Path, text: str, line: int, what: str, help: str) -> None:
    with pytest.raises(PackError) as raised:
        read(tmp_path, text)
    first, second = str(raised.value).split("\n", 1)
    place, _, message = first.partition(".toml:")
    assert place == str(tmp_path / "catalog" / "zzz")
    assert what in message
    assert help in second
    assert second.startswith("help: ")
    assert message.startswith(f"{line}:"), message


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = write_tree(tmp_path, {"zzz.toml": b"\xff"}) / "zzz.toml"
    with pytest.raises(PackError, match=r"zzz\.toml:1: byte 0xff is not UTF-8\nhelp: save it as UTF-8"):
        api_catalog.gather([file])


def test_the_command_lines_do_not_read_it(tmp_path: Path) -> None:
    """Start-up: neither `check` nor `apply` pay for it."""
    code = "import sys; from torchmigrate.cli.app import run; run(['check', sys.argv[1]]); print(sys.modules.keys())"
    assert "catalog" not in python(code, str(tmp_path)).stdout.splitlines()[-1]


# ---- looking up


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("torch.zzz.figure", "torch.zzz.figure"),
        ("torch.zzz.inner.figure", "torch.zzz.inner.figure"),
        ("torch.zzz.Thing.method", "torch.zzz.Thing"),
        ("torch.zzz.Thing.inner.method", "torch.zzz.Thing"),
        ("torch.zzz.other", None),
        ("torch.zzz", None),
        ("other", None),
    ],
)
def test_find(tmp_path: Path, asked: str, found: str | None) -> None:
    row = read(tmp_path).find(asked)
    assert (row and row.name) == found


def test_a_module_has_no_rows_below_it_but_its_own(tmp_path: Path) -> None:
    known = read(
        tmp_path, replaced('name = "torch.zzz.figure"\nkind = "function"', 'name = "torch.zzz"\nkind = "module"')
    )
    assert known.find("torch.zzz") is not None
    assert known.find("torch.zzz.unheard_of") is None


@pytest.mark.parametrize("name", ["torch.cuda.random.zzz", "torch.cuda.zzz", "torch.cuda.memory.zzz"])
def test_find_by_the_name_that_torch_documents(tmp_path: Path, name: str) -> None:
    for written in ("torch.cuda.zzz", "torch.cuda.memory.zzz"):
        known = read(tmp_path / written, ROWS.replace("torch.zzz.figure", written))
        found = known.find(name)
        assert found is not None and found.name in ("torch.cuda.zzz", "torch.cuda.memory.zzz")


# ---- in words


def test_a_row_in_words(tmp_path: Path) -> None:
    assert catalog.paragraph(rows(tmp_path)["torch.zzz.figure"]) == (
        "`torch.zzz.figure` is a function. It is rewritten by the rule memory/statistics. In a migrated project it "
        "works on CUDA; works through the helper (`accel.memory_allocated`) on MPS, XPU and NPU; behaves differently "
        "on ROCm and MTIA; does nothing on the CPU; is missing on HPU; MLX is no torch device. torch has it since 2.6. "
        "Source: https://docs.pytorch.org/docs/stable/cuda.html"
    )


def test_a_row_that_is_left_alone_in_words(tmp_path: Path) -> None:
    text = catalog.paragraph(rows(tmp_path)["torch.zzz.flag"])
    assert text.startswith("`torch.zzz.flag` is an attribute. It is left alone because only cuDNN reads it. In a ")
    assert text.endswith("Source: torch/zzz.py")


def test_a_part_and_two_rules_in_words(tmp_path: Path) -> None:
    text = catalog.paragraph(rows(tmp_path)["torch.zzz.Thing"], "torch.zzz.Thing.x")
    assert text.startswith("`torch.zzz.Thing.x` belongs to `torch.zzz.Thing`, a class. ")
    assert "It is reported by the rules hazard/cuda-only and stream/stream." in text
    assert "it works on CUDA, ROCm, MPS, XPU, NPU, HPU, MTIA and the CPU; MLX is no torch device." in text


# ---- the commands


@pytest.fixture
def own(here: Path) -> Path:
    """A current directory whose settings name a folder with rows of its own."""
    write_tree(here, {"pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["mine"]\n', "mine/catalog/zzz.toml": ROWS})
    return here


def test_text(own: Path, cli: Cli) -> None:
    ran = cli("catalog", "torch.zzz")
    assert (ran.status, ran.err) == (0, "4 APIs\n")
    legend, arrows, empty, *lines = ran.out.splitlines()
    assert legend == "+ works, h works through the helper, . no-op, ~ different, x missing, / not a torch device"
    assert "-> rewritten by" in arrows
    assert empty == ""
    assert lines == [
        "cuda rocm mps  xpu  npu  hpu  mtia cpu   API",
        " +    +    +    +    +    +    +    +    torch.zzz.Thing         !! hazard/cuda-only (+1)",
        " +    ~    h    h    h    x    ~    .    torch.zzz.figure        -> memory/statistics",
        " +    +    h    h    h    x    ~    .    torch.zzz.flag          =",
        " +    ~    h    h    h    x    ~    .    torch.zzz.inner.figure  -> memory/statistics",
    ]
    assert all(len(line) <= 120 for line in ran.out.splitlines())


def test_json(own: Path, cli: Cli) -> None:
    ran = cli("catalog", "torch.zzz.figure", "torch.zzz.flag", "--output-format", "json")
    first, second = json.loads(ran.out)
    assert list(first) == ["api", "kind", "action", "rule", "rules", "helper", "why", "backends", "since", "source"]
    assert first["backends"] == {
        "cuda": "works", "rocm": "different", "mps": "works through the helper", "xpu": "works through the helper",
        "npu": "works through the helper", "hpu": "missing", "mtia": "different", "cpu": "no-op",
        "mlx": "not a torch device",
    }  # fmt: skip
    assert (first["api"], first["rule"], first["why"], first["since"]) == (
        "torch.zzz.figure", "memory/statistics", None, "2.6",
    )  # fmt: skip
    assert (second["action"], second["rule"], second["rules"], second["why"]) == (
        "left alone", None, [], "only cuDNN reads it",
    )  # fmt: skip


def test_markdown(own: Path, cli: Cli) -> None:
    ran = cli("catalog", "torch.zzz.f*", "--output-format", "markdown", "--backend", "cpu,hpu")
    assert ran.out.splitlines() == [
        "| API | kind | what becomes of it | hpu | cpu | since | source |",
        "|---|---|---|---|---|---|---|",
        "| `torch.zzz.figure` | function | rewritten by memory/statistics | missing | no-op | 2.6 "
        "| https://docs.pytorch.org/docs/stable/cuda.html |",
        "| `torch.zzz.flag` | attribute | left alone: only cuDNN reads it | missing | no-op |  | torch/zzz.py |",
    ]


def test_to_a_file(own: Path, cli: Cli) -> None:
    ran = cli("catalog", "torch.zzz", "-o", "rows.json", "--output-format", "json")
    assert ran.out == ""
    assert len(json.loads((own / "rows.json").read_text("utf-8"))) == 4


@pytest.mark.parametrize(
    ("arguments", "apis"),
    [
        (("torch.zzz",), ["Thing", "figure", "flag", "inner.figure"]),
        (("torch.zzz.inner",), ["inner.figure"]),
        (("torch.zzz.fig",), None),
        (("torch.zzz.*figure",), ["figure", "inner.figure"]),
        (("torch.zzz.flag", "torch.zzz.Thing"), ["Thing", "flag"]),
        (("torch.zzz", "--backend", "rocm"), ["figure", "inner.figure"]),
        (("torch.zzz", "--backend", "rocm", "--backend", "mps"), ["figure", "flag", "inner.figure"]),
        (("torch.zzz.Thing", "--backend", "mlx"), ["Thing"]),
    ],
)
def test_filters(own: Path, cli: Cli, arguments: tuple[str, ...], apis: list[str] | None) -> None:
    ran = cli("catalog", *arguments, "--output-format", "json")
    if apis is None:
        assert ran.status == 2
        assert ran.err == "error: no API is called `torch.zzz.fig`\nhelp: did you mean `torch.zzz.figure`?\n"
    else:
        assert [row["api"].removeprefix("torch.zzz.") for row in json.loads(ran.out)] == apis


def test_the_columns_of_some_backends(own: Path, cli: Cli) -> None:
    ran = cli("catalog", "torch.zzz", "--backend", "rocm")
    assert ran.out.splitlines()[3:] == [
        "rocm  API",
        " ~    torch.zzz.figure        -> memory/statistics",
        " ~    torch.zzz.inner.figure  -> memory/statistics",
    ]
    (row,) = json.loads(cli("catalog", "torch.zzz.flag", "--backend", "mps", "--output-format", "json").out)
    assert row["backends"] == {"mps": "works through the helper"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--backend", "mpx"), "error: --backend names no backend: `mpx`\nhelp: did you mean `mps`?\n"),
        (("--backend", "q"), "error: --backend names no backend: `q`\nhelp: known: cuda, rocm, mps"),
        (("--output-format", "text", "--project", "nowhere"), "error: nowhere: no such file or directory\n"),
    ],
)
def test_wrong_options(own: Path, cli: Cli, arguments: tuple[str, ...], error: str) -> None:
    ran = cli("catalog", *arguments)
    assert ran.status == 2
    assert error in ran.err


def test_a_row_that_cannot_be_read_is_the_users_to_mend(own: Path, cli: Cli) -> None:
    (own / "mine" / "catalog" / "zzz.toml").write_text(ROWS.replace("kind", "kin"), encoding="utf-8")
    for arguments in (("catalog",), ("explain", "torch.zzz.figure")):
        ran = cli(*arguments)
        assert ran.status == 2
        assert re.fullmatch(r"error: .*zzz\.toml:14: unknown key `kin`\nhelp: did you mean `kind`\?\n", ran.err)
    assert cli("explain", "stream/stream").status == 0


def test_a_row_may_name_the_users_own_rules(own: Path, cli: Cli) -> None:
    text = ROWS.replace('"memory/statistics"', '"ours/statistics"')
    (own / "mine" / "catalog" / "zzz.toml").write_text(text, encoding="utf-8")
    ran = cli("catalog", "torch.zzz")
    assert ran.status == 2
    assert re.search(r"zzz\.toml:18: `torch\.zzz\.figure`: unknown rule `ours/statistics`\nhelp: ", ran.err)
    rule = 'summary = "x"\nsafety = "safe"\nwhy = "x"\n[[rewrite]]\nmatch = "torch.zzz.figure()"\nwith = "1"\n'
    write_tree(own, {"mine/ours/statistics.toml": rule})
    assert "-> ours/statistics" in cli("catalog", "torch.zzz").out
    assert "\nours/statistics\n  x\n" in cli("explain", "torch.zzz.figure").out


# ---- explain


def test_explain_shows_the_row_and_then_the_rules(own: Path, cli: Cli) -> None:
    out = cli("explain", "torch.zzz.figure").out
    head, _, rest = out.partition("\n\n")
    assert " ".join(head.split()) == catalog.paragraph(rows(own / "mine")["torch.zzz.figure"])
    assert max(map(len, head.splitlines())) <= 100
    assert rest.startswith("memory/statistics\n")


def test_explain_what_is_left_alone(own: Path, cli: Cli) -> None:
    out = cli("explain", "torch.zzz.flag").out
    assert "is left alone because only cuDNN reads it" in " ".join(out.split())
    assert "\n\n" not in out


def test_explain_takes_calls_and_parts(own: Path, cli: Cli) -> None:
    assert cli("explain", "torch.zzz.figure()").out == cli("explain", "torch.zzz.figure").out
    assert cli("explain", "torch.zzz.Thing.x").out.startswith("`torch.zzz.Thing.x` belongs to `torch.zzz.Thing`, a")


def test_explain_of_a_name_that_nobody_knows(own: Path, cli: Cli) -> None:
    ran = cli("explain", "torch.zzz.figur")
    assert ran.status == 2
    assert ran.err.endswith("help: did you mean `torch.zzz.figure`?\n")
    assert cli("explain", "torch.zzz.qqqqqqqqqqqqqqqqqqqqqqqqq").status == 2


def test_the_words_for_all_verdicts(tmp_path: Path) -> None:
    text = " ".join(catalog.verdicts(row) for row in rows(tmp_path).values())
    for said in ("works on", "works through the helper", "does nothing on", "behaves differently on", "is missing on"):
        assert said in text
    assert len(VERDICTS) == 6
