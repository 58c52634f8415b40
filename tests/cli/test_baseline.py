"""`--baseline`: what is known does not fail a run, wherever its line goes; what is new does; nothing is silent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, git, write_tree

from torchmigrate.cli.migration import baseline
from torchmigrate.cli.migration.baseline import Entry

Cli = Callable[..., Ran]
TRAIN = "import torch\n\n\ndef step(model, batch):\n    batch = batch.cuda()\n    return model(batch)\n"
KNOWN = ("check", "--baseline", "known.json")
WRITE = (*KNOWN, "--write-baseline")


@pytest.fixture
def adopted(here: Path, cli: Cli) -> Path:
    """A project with two findings, both in its baseline."""
    write_tree(here, {"train.py": TRAIN, "pkg/eval.py": "import torch\n\ntorch.cuda.empty_cache()\n"})
    ran = cli(*WRITE)
    assert (ran.status, ran.out) == (0, "")
    assert "note: known.json: 2 findings, 2 new, 0 dropped\n" in ran.err
    return here


def entries(root: Path) -> list[tuple[str, str]]:
    return [(f["file"], f["rule"]) for f in json.loads((root / "known.json").read_bytes())["findings"]]


def test_what_is_known_is_counted_and_does_not_fail(adopted: Path, cli: Cli) -> None:
    ran = cli(*KNOWN)
    assert (ran.status, ran.out) == (0, "")
    assert ran.last == "No new findings in 2 files. 2 known (baseline)."
    assert cli("check").status == 1
    data = json.loads(cli(*KNOWN, "--output-format", "json").out)
    assert [f["status"] for f in data["findings"]] == ["known", "known"]
    assert (data["summary"]["findings"], data["summary"]["known"], data["summary"]["fixable"]) == (0, 2, 0)


@pytest.mark.parametrize(
    ("layout", "found"),
    [
        ("github", lambda out: out.count("::warning")),
        ("gitlab", lambda out: len(json.loads(out))),
        ("junit", lambda out: out.count("<failure")),
        ("sarif", lambda out: len([r for r in json.loads(out)["runs"][0]["results"] if "suppressions" not in r])),
    ],
)
def test_what_is_known_is_in_no_report_for_other_programs(
    adopted: Path, cli: Cli, layout: str, found: Callable[[str], int]
) -> None:
    assert found(cli("check", "--output-format", layout).out) == 2
    ran = cli(*KNOWN, "--output-format", layout)
    assert (ran.status, found(ran.out)) == (0, 0)
    write_tree(adopted, {"train.py": TRAIN + "\n\ntorch.cuda.synchronize()\n"})
    ran = cli(*KNOWN, "--output-format", layout)
    assert (ran.status, found(ran.out)) == (1, 1)


def test_sarif_says_that_a_baseline_knows_them(adopted: Path, cli: Cli) -> None:
    (run,) = json.loads(cli(*KNOWN, "--output-format", "sarif").out)["runs"]
    assert [result["suppressions"] for result in run["results"]] == [[{"kind": "external"}]] * 2


def test_what_is_new_fails_alone(adopted: Path, cli: Cli) -> None:
    write_tree(adopted, {"train.py": TRAIN + "\n\ntorch.cuda.synchronize()\n"})
    ran = cli(*KNOWN, "--output-format", "concise")
    assert ran.status == 1
    assert [line.split(": ")[:2] for line in ran.out.splitlines()] == [["train.py:9:1", "stream/synchronize"]]
    assert ran.last.startswith("Found 1 new problem in 1 of 2 files.")
    assert ran.last.endswith("2 known (baseline).")


@pytest.mark.parametrize(
    "text",
    [
        "# a\n" * 30 + TRAIN,
        TRAIN.replace("\n", "\r\n"),
        "\ufeff" + TRAIN,
        TRAIN.replace("    ", "\t").replace("batch = ", "batch  =   "),
        TRAIN.replace("def step", "async def other").replace("return model(batch)", "return 1"),
    ],
    ids=["moved", "CRLF", "BOM", "formatted", "other lines changed"],
)
def test_moved_code_stays_known(adopted: Path, cli: Cli, text: str) -> None:
    (adopted / "train.py").write_bytes(text.encode())
    ran = cli(*KNOWN)
    assert (ran.status, ran.last) == (0, "No new findings in 2 files. 2 known (baseline).")
    before = (adopted / "known.json").read_bytes()
    assert "2 findings, 0 new, 0 dropped" in cli(*WRITE).err
    assert (adopted / "known.json").read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"train.py": TRAIN.replace("batch.cuda()", "batch.cuda(0)")},
        {"train.py": "", "moved.py": TRAIN},
    ],
    ids=["the line itself changed", "in another file"],
)
def test_what_is_another_finding_is_new(adopted: Path, cli: Cli, change: dict[str, str]) -> None:
    write_tree(adopted, change)
    ran = cli(*KNOWN)
    assert ran.status == 1
    assert "note: 1 finding of the baseline no longer found (train.py: device/tensor-cuda)" in ran.err


def test_one_more_of_the_same_is_new(here: Path, cli: Cli) -> None:
    line = "torch.cuda.empty_cache()\n"
    write_tree(here, {"a.py": "import torch\n" + line * 2})
    cli(*WRITE)
    assert cli(*KNOWN).last == "No new findings in 1 file. 2 known (baseline)."
    write_tree(here, {"a.py": "import torch\n" + line * 3})
    ran = cli(*KNOWN)
    assert (ran.status, ran.last.endswith("2 known (baseline).")) == (1, True)
    write_tree(here, {"a.py": "import torch\n" + line})
    ran = cli(*KNOWN)
    assert (ran.status, "note: 1 finding of the baseline no longer found" in ran.err) == (0, True)


def test_two_on_one_line(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.py": "import torch\nx, y = torch.ones(1).cuda(), torch.ones(2).cuda()\n"})
    cli(*WRITE)
    assert len({f["fingerprint"] for f in json.loads((here / "known.json").read_bytes())["findings"]}) == 2
    assert cli(*KNOWN).status == 0


def test_what_is_gone_is_said_and_dropped_by_the_next_write(adopted: Path, cli: Cli) -> None:
    write_tree(adopted, {"train.py": "import torch\n"})
    ran = cli(*KNOWN)
    said = "note: 1 finding of the baseline no longer found (train.py: device/tensor-cuda); "
    assert said + "--write-baseline drops what is gone\n" in ran.err
    assert ran.status == 0
    assert len(entries(adopted)) == 2
    assert "note: known.json: 1 finding, 0 new, 1 dropped\n" in cli(*WRITE).err
    assert entries(adopted) == [("pkg/eval.py", "memory/empty-cache")]
    (adopted / "pkg" / "eval.py").unlink()
    assert "0 findings, 0 new, 1 dropped" in cli(*WRITE).err
    assert baseline.read(adopted / "known.json") == frozenset()


@pytest.mark.parametrize("narrowed", [["pkg"], ["--select", "memory"], ["--ignore", "device/tensor-cuda"]])
def test_what_a_run_did_not_look_at_is_not_gone(adopted: Path, cli: Cli, narrowed: list[str]) -> None:
    for arguments in ([*KNOWN, *narrowed], [*WRITE, *narrowed]):
        ran = cli(*arguments)
        assert (ran.status, "no longer found" in ran.err) == (0, False)
    assert len(entries(adopted)) == 2


def test_together_with_since(adopted: Path, cli: Cli) -> None:
    git(adopted, "init", "-q")
    git(adopted, "add", "-A")
    git(adopted, "commit", "-qm", "x")
    write_tree(adopted, {"pkg/eval.py": "import torch\n\ntorch.cuda.synchronize()\n"})
    ran = cli(*KNOWN, "--since", "HEAD")
    assert (ran.status, ran.err.count("no longer found (pkg/eval.py: memory/empty-cache)")) == (1, 1)
    cli(*WRITE, "--since", "HEAD")
    assert entries(adopted) == [("pkg/eval.py", "stream/synchronize"), ("train.py", "device/tensor-cuda")]


def test_a_file_that_cannot_be_read_keeps_its_entries(adopted: Path, cli: Cli) -> None:
    write_tree(adopted, {"train.py": TRAIN + "(\n"})
    assert cli(*KNOWN).status == 2
    ran = cli(*WRITE)
    assert (ran.status, "2 findings, 0 new, 0 dropped" in ran.err) == (2, True)
    assert len(entries(adopted)) == 2


def test_backends_write_what_they_report(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.py": "import torch\n\nx = torch.zeros(3, dtype=torch.float64).cuda()\n"})
    reported = json.loads(cli("check", "--backends", "npu", "--output-format", "json").out)["summary"]["findings"]
    everything = json.loads(cli("check", "--output-format", "json").out)["summary"]["findings"]
    assert 0 < reported < everything
    cli(*WRITE, "--backends", "npu")
    assert len(entries(here)) == reported
    assert cli(*KNOWN, "--backends", "npu").status == 0
    assert cli(*KNOWN).status == 1


def test_what_is_suppressed_or_left_alone_is_not_in_it(here: Path, cli: Cli) -> None:
    hush = "# torchmigrate: ignore[memory/empty-cache] meant"
    write_tree(here, {"a.py": f"import torch\n\ntorch.cuda.empty_cache()  {hush}\n"})
    cli(*WRITE)
    assert entries(here) == []
    assert cli(*KNOWN).last == "No findings in 1 file. 1 suppressed."


def test_notebooks_and_files_that_are_not_python(here: Path, cli: Cli) -> None:
    def book(cells: list[str]) -> str:
        code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
        return json.dumps({"cells": [code | {"source": c} for c in cells], "metadata": {}, "nbformat": 4})

    cell = "import torch\ntorch.cuda.empty_cache()"
    write_tree(here, {"a.ipynb": book([cell]), "requirements.txt": "torch\nflash-attn\n"})
    cli(*WRITE)
    assert [file for file, _ in entries(here)] == ["a.ipynb", "requirements.txt"]
    write_tree(here, {"a.ipynb": book(["x = 1", cell]), "requirements.txt": "numpy\n\ntorch\nflash-attn\n"})
    assert cli(*KNOWN).status == 0


# ---- the file


def test_the_file_is_sorted_with_an_entry_per_line() -> None:
    found = [Entry("b.py", "r/a", "2"), Entry("a.py", "r/b", "1"), Entry("a.py", "r/a", "3")]
    assert baseline.render(found).decode() == (
        '{\n "format": "torchmigrate-baseline",\n "version": 1,\n "findings": [\n'
        '  {"file": "a.py", "rule": "r/a", "fingerprint": "3"},\n'
        '  {"file": "a.py", "rule": "r/b", "fingerprint": "1"},\n'
        '  {"file": "b.py", "rule": "r/a", "fingerprint": "2"}\n ]\n}\n'
    )


@pytest.mark.parametrize("names", [(), ("a b\u2028ä\udcff.py",)])
def test_the_file_is_read_as_it_is_written(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = frozenset(Entry(name, "r/a", "0") for name in names)
    file = tmp_path / "known.json"
    file.write_bytes(baseline.render(found))
    assert baseline.read(file) == found


def test_paths_are_the_files_own_wherever_the_run_begins(
    adopted: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(adopted / "pkg")
    assert cli("check", "--baseline", "../known.json", "..").status == 0
    assert cli("check", "--baseline", "../known.json").status == 0
    cli("check", "--baseline", "own.json", "--write-baseline", "..")
    names = [f["file"] for f in json.loads((adopted / "pkg" / "own.json").read_bytes())["findings"]]
    assert names == ["../train.py", "eval.py"]


@pytest.mark.parametrize(
    ("text", "error", "help"),
    [
        ('{\n "format"\n<<<<<<< HEAD', "known.json:3: not JSON", "delete known.json and write it anew"),
        ('{"\xff"', "known.json: not JSON", "delete known.json"),
        ("[]", "known.json: JSON, but no baseline of torchmigrate's", "name another file"),
        ('{"format": "other"}', "known.json: JSON, but no baseline of torchmigrate's", "name another file"),
        (
            '{"format": "torchmigrate-baseline", "version": 2}',
            "known.json: a baseline of version 2; this torchmigrate reads version 1",
            "use the torchmigrate that wrote it, or delete known.json",
        ),
        (
            '{"format": "torchmigrate-baseline", "version": 1}',
            "known.json: `findings` must be a list",
            "delete known.json",
        ),
        (
            '{"format": "torchmigrate-baseline", "version": 1, "findings": [{"file": "a.py", "rule": 1}]}',
            "known.json: finding 1 lacks one of file, rule, fingerprint",
            "delete known.json",
        ),
    ],
)
def test_a_broken_or_foreign_file(here: Path, cli: Cli, text: str, error: str, help: str) -> None:
    write_tree(here, {"train.py": TRAIN, "known.json": text.encode("latin-1")})
    for command in (KNOWN, WRITE):
        ran = cli(*command)
        assert (ran.status, ran.out) == (2, "")
        assert ran.err.startswith(f"error: {error}"), ran.err
        assert f"\nhelp: {help}" in ran.err
        assert (here / "known.json").read_bytes() == text.encode("latin-1")


def test_mistakes(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN})
    ran = cli(*KNOWN)
    assert (ran.status, ran.err) == (2, "error: known.json: no such baseline\nhelp: --write-baseline makes it\n")
    ran = cli("check", "--write-baseline")
    assert (ran.status, ran.err.splitlines()[-1]) == (2, "help: name the file: --baseline FILE")
    ran = cli("check", "--baseline", "nowhere/known.json", "--write-baseline")
    assert (ran.status, ran.err.splitlines()[-2]) == (
        2,
        "error: cannot write nowhere/known.json: no such file or directory",
    )
    ran = cli("apply", "--baseline", "known.json")
    assert (ran.status, ran.err.splitlines()[0]) == (
        2,
        "error: --baseline is for `check`: `apply` rewrites what it can, old findings too",
    )
    assert (here / "train.py").read_text() == TRAIN
