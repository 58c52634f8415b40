"""Reports for other programs: SARIF, GitHub, GitLab, JUnit, Markdown."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as xml

import jsonschema
import pytest
from conftest import Ran, git
from sarif_schema import LOG

from torchmigrate.rules import packs

Cli = Callable[..., Ran]
FORMATS = ("sarif", "github", "gitlab", "junit", "markdown")
CRLF = "import torch\r\n\r\ns = '\U0001f600é'; x = torch.ones(2).cuda()\r\ntorch.cuda.empty_cache()\r\n"
BOM = "\ufeffimport torch\nx = torch.ones(2).cuda()\nx = torch.ones(2).cuda()\n"
HIDDEN = "import torch\ntorch.cuda.empty_cache()  # torchmigrate: ignore[memory/empty-cache] wanted\n"
ODD = "a `b` | <i>,:100%.py"


def notebook() -> str:
    code = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": []}
    text = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": ["# cuda\n"]}
    cells = [{**code, "source": ["import torch\n"]}, text, {**code, "id": "c", "source": ["y = 1\n", "m = y.cuda()"]}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


FILES = {
    "pkg/crlf.py": CRLF,
    "pkg/bom.py": BOM,
    "hidden.py": HIDDEN,
    "nb.ipynb": notebook(),
    "Dockerfile": "# é\nFROM nvidia/cuda:12.1.0-runtime-ubuntu22.04\n",
    f"pkg/{ODD}": "import torch\n# a note\ntorch.cuda.nvtx.mark('``</details><script>|')\nimport flash_attn\n",
}


@pytest.fixture
def project(here: Path) -> Path:
    """A repository; the current directory is its top."""
    git(here, "init", "-q")
    for name, text in FILES.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes(text.encode())
    return here


def sarif(ran: Ran) -> dict[str, Any]:
    """The run of a valid log."""
    log = json.loads(ran.raw)
    jsonschema.Draft202012Validator(LOG).validate(log)
    found: dict[str, Any] = log["runs"][0]
    names = [rule["id"] for rule in found["tool"]["driver"]["rules"]]
    assert all(names[result["ruleIndex"]] == result["ruleId"] for result in found["results"])
    return found


def place(result: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    physical = result["locations"][0]["physicalLocation"]
    return unquote(physical["artifactLocation"]["uri"]), physical["region"]


def offset(text: str, line: int, column: int) -> int:
    """As the standard counts: lines end at any of the newlines of the run, columns are UTF-16 units from 1."""
    start = [0, *(m.end() for m in re.finditer("\r\n|\n|\r", text))][line - 1]
    units = text[start:].encode("utf-16-le")[: 2 * (column - 1)]
    return start + len(units.decode("utf-16-le"))


def fixed(text: str, change: dict[str, Any]) -> str:
    """What a viewer makes of a file. A BOM is no part of the text."""
    body = text.removeprefix("\ufeff")
    parts, at = [], 0
    for each in change["replacements"]:
        region = each["deletedRegion"]
        start = offset(body, region["startLine"], region["startColumn"])
        assert start >= at
        parts += [body[at:start], each.get("insertedContent", {"text": ""})["text"]]
        at = offset(body, region["endLine"], region["endColumn"])
    return text[: len(text) - len(body)] + "".join([*parts, body[at:]])


# ---- all of them


@pytest.mark.parametrize("layout", FORMATS)
def test_a_format_exits_as_the_others_do_and_says_the_same_twice(layout: str, cli: Cli, project: Path) -> None:
    first = cli("check", "--output-format", layout)
    assert first.status == 1
    assert first.raw == cli("check", "--output-format", layout, "-j", "2").raw
    assert first.raw.endswith(b"\n")
    assert cli("check", "--output-format", layout, "--exit-zero").status == 0
    assert cli("check", "--output-format", layout, "-o", "out").out == ""
    assert (project / "out").read_bytes() == first.raw
    (project / "bad.py").write_bytes(b"import torch\nx.cuda(\n")
    assert cli("check", "--output-format", layout).status == 2


@pytest.mark.parametrize("layout", FORMATS)
def test_places_do_not_depend_on_the_current_directory(
    layout: str, cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = cli("check", "pkg", "--output-format", layout)
    monkeypatch.chdir(project / "pkg")
    assert cli("check", "--output-format", layout).raw == above.raw
    assert b"pkg/crlf.py" in above.raw


@pytest.mark.parametrize("layout", ["sarif", "github", "gitlab", "junit"])
def test_a_dry_run_reports_the_files_as_they_stand(layout: str, cli: Cli, project: Path) -> None:
    (project / f"pkg/{ODD}").unlink()
    dry = cli("apply", "--dry-run", "--output-format", layout)
    assert dry.status == 1
    assert dry.raw == cli("check", "--output-format", layout).raw
    assert (project / "pkg/crlf.py").read_bytes() == CRLF.encode()


@pytest.mark.parametrize("layout", ["sarif", "github", "gitlab", "junit"])
def test_apply_reports_what_is_left_where_it_is_now(layout: str, cli: Cli, here: Path) -> None:
    (here / "a.py").write_text("import torch\nx = torch.ones(2).cuda()\nimport flash_attn\n", encoding="utf-8")
    ran = cli("apply", "--output-format", layout)
    assert ran.status == 0
    now = (here / "a.py").read_text("utf-8")
    line = next(i for i, text in enumerate(now.splitlines(), 1) if "flash_attn" in text)
    assert line == 4
    told = {"sarif": '"startLine": 4', "github": "line=4,", "gitlab": '"begin": 4', "junit": 'line="4"'}
    assert told[layout] in ran.out
    assert "tensor-cuda" not in ran.out


# ---- SARIF


def test_sarif_regions_are_the_code(cli: Cli, project: Path) -> None:
    found = sarif(cli("check", "--output-format", "sarif"))
    assert found["columnKind"] == "utf16CodeUnits"
    texts = {}
    for result in found["results"]:
        name, region = place(result)
        if name.endswith(".ipynb"):
            continue
        text = FILES[name].removeprefix("\ufeff")
        ends = [offset(text, region[f"{end}Line"], region[f"{end}Column"]) for end in ("start", "end")]
        texts[name, result["ruleId"], region["startLine"]] = text[slice(*ends)]
    assert texts["pkg/crlf.py", "device/tensor-cuda", 3] == "torch.ones(2).cuda()"
    assert texts["pkg/bom.py", "device/tensor-cuda", 2] == "torch.ones(2).cuda()"
    assert texts["pkg/crlf.py", "memory/empty-cache", 4] == "torch.cuda.empty_cache()"
    assert texts["Dockerfile", "build/docker", 2].startswith("nvidia/cuda")
    assert texts[f"pkg/{ODD}", "hazard/nvidia-library", 4] == "import flash_attn"


def test_sarif_names_files_as_uris(cli: Cli, project: Path) -> None:
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in sarif_results(cli)}
    assert "pkg/a%20%60b%60%20%7C%20%3Ci%3E%2C%3A100%25.py" in uris
    assert {unquote(uri) for uri in uris} == set(FILES)


def sarif_results(cli: Cli) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = sarif(cli("check", "--output-format", "sarif"))["results"]
    return results


def test_sarif_points_into_the_json_of_a_notebook(cli: Cli, project: Path) -> None:
    (result,) = [r for r in sarif_results(cli) if place(r)[0] == "nb.ipynb"]
    line = place(result)[1]["startLine"]
    assert 'm = y.cuda()"' in notebook().splitlines()[line - 1]
    assert result["message"]["text"].startswith("cell 3, line 2: ")
    assert "fixes" not in result


def test_sarif_tells_what_a_comment_suppresses(cli: Cli, project: Path) -> None:
    hidden = [r for r in sarif_results(cli) if "suppressions" in r]
    assert [place(r)[0] for r in hidden] == ["hidden.py"]


def test_sarif_tells_errors(cli: Cli, project: Path) -> None:
    assert sarif(cli("check", "--output-format", "sarif"))["invocations"] == [{"executionSuccessful": True}]
    (project / "bad.py").write_bytes(b"import torch\nx.cuda(\n")
    (invocation,) = sarif(cli("check", "--output-format", "sarif"))["invocations"]
    (note,) = invocation["toolExecutionNotifications"]
    assert invocation["executionSuccessful"] is False
    assert "line 2" in note["message"]["text"]
    assert note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad.py"


def test_sarif_of_a_file_outside_of_the_repository(cli: Cli, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "é x.py"
    other.write_text("import torch\ntorch.cuda.empty_cache()\n", encoding="utf-8")
    (result,) = sarif(cli("check", str(other), "nb.ipynb", "--select", "memory", "--output-format", "sarif"))["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]
    name = unquote(uri["uri"])
    assert name.endswith("x.py")
    assert "%C3%A9%20x.py" in uri["uri"]


def test_sarif_describes_rules(cli: Cli, project: Path) -> None:
    rules = {rule["id"]: rule for rule in sarif(cli("check", "--output-format", "sarif"))["tool"]["driver"]["rules"]}
    ours = packs.load(cases=False).rules
    assert list(rules) == sorted(rules)
    for name, rule in rules.items():
        assert rule["shortDescription"]["text"] == ours[name].summary
        assert rule.get("helpUri") == next(iter(ours[name].see), None)


def test_the_schema_of_the_test_refuses_what_is_no_sarif(cli: Cli, project: Path) -> None:
    log = json.loads(cli("check", "--output-format", "sarif").raw)
    region = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    for key, value in (("startLine", 0), ("endLine", "3"), ("line", 3)):
        broken = {**region, key: value}
        region_of = json.loads(json.dumps(log))
        region_of["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"] = broken
        assert not jsonschema.Draft202012Validator(LOG).is_valid(region_of)


@pytest.mark.slow
def test_a_sarif_fix_is_what_apply_writes(cli: Cli, here: Path) -> None:
    """Of every rule's cases that hold one finding: the edits, the helper's import, imports that are no longer used."""
    for number, case in enumerate(c for r in packs.load().rules.values() for c in r.cases if c.after and not c.unsafe):
        text = ("\ufeff" if number % 3 == 0 else "") + f"'\U0001f600'; {number}\n" * (number % 2) + case.before
        text = text.replace("\n", "\r\n") if number % 5 == 0 else text
        (here / f"case{number}.py").write_bytes(text.encode())
    before = {path.name: path.read_bytes().decode() for path in here.glob("case*.py")}
    ran = cli("check", "--output-format", "sarif")
    by_file: dict[str, list[dict[str, Any]]] = {}
    for result in sarif(ran)["results"]:
        by_file.setdefault(place(result)[0], []).append(result)
    alone = {name: found[0] for name, found in by_file.items() if len(found) == 1 and "fixes" in found[0]}
    cli("apply")
    compared = 0
    for name, result in alone.items():
        after = (here / name).read_bytes().decode()
        if "--unsafe-fixes" in result["fixes"][0]["description"]["text"] or after == before[name]:
            continue
        (change,) = result["fixes"][0]["artifactChanges"]
        assert fixed(before[name], change) == after, name
        compared += 1
    assert compared > 100


# ---- GitHub


def commands(out: str) -> list[tuple[str, dict[str, str], str]]:
    """As the runner reads them: one command on a line, and what was escaped put back."""
    found = []
    for line in out.splitlines():
        match = re.fullmatch(r"::(warning|error) ([^:]*)::(.*)", line)
        assert match, line
        pairs = dict(pair.split("=", 1) for pair in match[2].split(","))
        found.append((match[1], {key: meant(value) for key, value in pairs.items()}, meant(match[3])))
    return found


def meant(escaped: str) -> str:
    """What stood there before GitHub's escapes."""
    known = {"%3A": ":", "%2C": ",", "%0D": "\r", "%0A": "\n", "%25": "%"}
    return re.sub("|".join(known), lambda match: known[match[0]], escaped)


def test_github_annotations_point_to_the_lines(cli: Cli, project: Path) -> None:
    (project / "bad\n::error::x.py").write_bytes(b"import torch\nx.cuda(\n")
    found = commands(cli("check", "--output-format", "github").out)
    told = {(p["file"], p["line"], p["title"]) for kind, p, _ in found if kind == "warning"}
    assert {
        ("pkg/crlf.py", "3", "device/tensor-cuda"),
        ("pkg/crlf.py", "4", "memory/empty-cache"),
        ("pkg/bom.py", "2", "device/tensor-cuda"),
        ("Dockerfile", "2", "build/docker"),
        (f"pkg/{ODD}", "4", "hazard/nvidia-library"),
    } <= told
    assert not any(file == "hidden.py" for file, _, _ in told)
    errors = [(p["file"], text) for kind, p, text in found if kind == "error"]
    assert [file for file, _ in errors] == ["bad\n::error::x.py"]
    (cell,) = [(p, text) for _, p, text in found if p["file"] == "nb.ipynb"]
    assert "col" not in cell[0]
    assert cell[1].startswith("cell 3, line 2: ")


def test_github_gives_columns_for_one_line_only(cli: Cli, here: Path) -> None:
    (here / "a.py").write_text("import torch\nx = torch.ones(\n    2\n).cuda()\n", encoding="utf-8")
    ((_, properties, _),) = commands(cli("check", "--output-format", "github").out)
    assert (properties["line"], properties["endLine"]) == ("2", "4")
    assert "col" not in properties


# ---- GitLab


def gitlab(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("check", "--output-format", "gitlab").raw)
    for issue in found:
        assert {"description", "check_name", "fingerprint", "severity", "location"} <= issue.keys()
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"]["lines"]["begin"] >= 1
    prints = [issue["fingerprint"] for issue in found]
    assert len(set(prints)) == len(prints)
    return found


def test_gitlab_fingerprints_outlive_a_shift_of_lines(cli: Cli, project: Path) -> None:
    before = gitlab(cli)
    bom = project / "pkg/bom.py"
    bom.write_bytes(BOM.replace("import torch\n", "import torch\n\n\n").encode())
    after = gitlab(cli)
    lines = [i["location"]["lines"]["begin"] for i in after if i["location"]["path"] == "pkg/bom.py"]
    assert lines == [4, 5]
    assert [i["fingerprint"] for i in after] == [i["fingerprint"] for i in before]
    bom.write_bytes(BOM.replace("x = torch.ones(2)", "y = torch.ones(2)", 1).encode())
    new = {i["fingerprint"] for i in gitlab(cli)} - {i["fingerprint"] for i in before}
    assert len(new) == 1


def test_gitlab_tells_files_that_could_not_be_read(cli: Cli, project: Path) -> None:
    (project / "bad.py").write_bytes(b"import torch\nx.cuda(\n")
    (issue,) = [issue for issue in gitlab(cli) if issue["severity"] == "blocker"]
    assert issue["location"] == {"path": "bad.py", "lines": {"begin": 1}}


# ---- JUnit


def test_junit_counts(cli: Cli, project: Path) -> None:
    (project / "bad.py").write_bytes(b"import torch\nx.cuda(\n")
    (project / "control.py").write_bytes(b"import torch\ns = '\x01\x0c\xef\xbf\xbf'; torch.cuda.empty_cache()\n")
    root = xml.fromstring(cli("check", "--output-format", "junit").raw)
    suites = {suite.get("name"): suite for suite in root}
    assert {*FILES, "bad.py", "control.py"} - {"hidden.py"} == set(suites)
    for key, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        assert int(root.get(key) or -1) == len(list(root.iter(tag)))
        assert all(int(suite.get(key) or 0) == len(list(suite.iter(tag))) for suite in root)
    text = next(suites["control.py"].iter("failure")).text or ""
    assert "control.py:2:" in text
    assert "\x01" not in text
    case = next(suites["Dockerfile"].iter("testcase"))
    assert (case.get("file"), case.get("line")) == ("Dockerfile", "2")


# ---- Markdown


def test_markdown_of_a_check(cli: Cli, project: Path) -> None:
    text = cli("check", "--output-format", "markdown").out
    assert "<summary>device/tensor-cuda: 4</summary>" in text
    assert "- `pkg/crlf.py:3:15`: `s = '\U0001f600é'; x = torch.ones(2).cuda()`" in text
    assert "`nb.ipynb:cell 3:2:5`: `m = y.cuda()`" in text
    needs = text.split("### Needs you")[1]
    assert "  - [ ] `` pkg/a `b` | <i>,:100%.py:4:1 ``: `import flash_attn`" in needs
    assert "  - [ ] `Dockerfile:2:6`" in needs
    # nothing of the project's stands outside of a code span or a fence
    bare = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"<(?!/?(?:details|summary)>)", bare.replace("\\<", ""))


@pytest.mark.parametrize("mode", [(), ("--dry-run",)])
def test_markdown_of_an_apply_has_the_diff_by_rule(mode: tuple[str, ...], cli: Cli, here: Path) -> None:
    (here / "a.py").write_text("import torch\n'```'; torch.cuda.empty_cache()\n", encoding="utf-8")
    (here / "b.py").write_text("import torch\n\n\n\n\n\n\n\n\n\nx = torch.ones(2).cuda()\n", encoding="utf-8")
    (here / "nb.ipynb").write_text(notebook(), encoding="utf-8")
    text = cli("apply", *mode, "--output-format", "markdown").out
    assert ("### Would be rewritten" if mode else "### Rewritten") in text
    first = text.split("<summary>memory/empty-cache: 1</summary>")[1].split("</details>")[0]
    assert "````diff\n" in first
    assert "\n-'```'; torch.cuda.empty_cache()\n+import accel\n+'```'; accel.empty_cache()\n````" in first
    second = text.split("<summary>device/tensor-cuda: 2</summary>")[1].split("</details>")[0]
    assert re.search(r"\n# b\.py\n@@ -8,4 \+\d+,4 @@ device/tensor-cuda\n", second)
    assert "\n# nb.ipynb:cell 3\n@@ " in second
    assert "\n-m = y.cuda()\n+m = y.to(accel.device())\n" in second
    assert "New: `accel.py`, the helper" in text
    assert "<summary>imports</summary>" in text


@pytest.mark.slow
def test_markdown_of_a_large_project_fits_a_pull_request(cli: Cli, here: Path) -> None:
    for number in range(40):
        lines = "".join(f"x{i} = torch.ones({i}).cuda()\nimport flash_attn\n\n\n\n\n\n" for i in range(30))
        (here / f"file{number}.py").write_text(f"import torch\n{lines}", encoding="utf-8")
    text = cli("apply", "--dry-run", "--output-format", "markdown").out
    assert len(text) < 65_536
    assert re.search(r"and [\d,]+ more hunks", text)
    assert re.search(r"  - and [\d,]+ more: `torchmigrate check --select hazard/nvidia-library`", text)


# ---- nothing to say


def test_no_findings(cli: Cli, here: Path) -> None:
    (here / "a.py").write_text("import torch\n", encoding="utf-8")
    ran = {layout: cli("check", "--output-format", layout) for layout in FORMATS}
    assert {r.status for r in ran.values()} == {0}
    assert sarif(ran["sarif"])["results"] == []
    assert ran["github"].out == ""
    assert json.loads(ran["gitlab"].raw) == []
    root = xml.fromstring(ran["junit"].raw)
    assert (root.get("tests"), root.get("failures")) == ("1", "0")
    assert len(list(root.iter("testcase"))) == 1
    assert ran["markdown"].out == "## torchmigrate\n\nNo findings in 1 file.\n"


def test_columns_of_utf_16_text(cli: Cli, here: Path) -> None:
    shutil.rmtree(here / ".git", ignore_errors=True)
    (here / "requirements.txt").write_bytes("numpy\r\nflash-attn==2.0\r\n".encode("utf-16"))
    (result,) = sarif_results(cli)
    assert place(result)[1]["startLine"] == 2
    assert place(result)[1]["snippet"]["text"] == "flash-attn==2.0"


@pytest.mark.parametrize("format_", ["text", "concise", "json", *FORMATS])
def test_a_report_of_one_long_line_grows_as_the_line_does(here: Path, cli: Cli, format_: str) -> None:
    """Each finding shows its own part of the line, else twice the line made a report four times as long."""

    def size(count: int) -> int:
        given = ", ".join(f"a{number}='cuda'" for number in range(1_000, 1_000 + count))
        (here / "a.py").write_text(f"import torch\n\n\ndef f({given}):\n    pass\n\n\nf({given})\n")
        return len(cli("check", "--output-format", format_).out)

    assert size(60) <= 2.5 * size(30)


def test_a_short_line_is_shown_whole(project: Path, cli: Cli) -> None:
    """The innocent twin."""
    line = "y = torch.zeros(3).cuda()" + " + 1" * 110
    (project / "pkg" / "long.py").write_text(f"import torch\n\n{line}\n")
    assert len(line) < 500
    assert line in cli("check", "pkg/long.py").out
    assert line in cli("check", "pkg/long.py", "--output-format", "junit").out
    log = json.loads(cli("check", "pkg/long.py", "--output-format", "sarif").out)
    region = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region["snippet"]["text"] == line


def test_fixes_of_a_large_file_are_for_its_first_findings(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read anew with the whole file, so their number is bounded by its size, in each file by itself."""
    text = "import torch\n\n" + "".join(f"a{number} = torch.zeros(1).cuda()\n" for number in range(10))
    for name in ("one.py", "two.py"):
        (project / "pkg" / name).write_text(text)

    def fixed() -> list[bool]:
        log = json.loads(cli("check", "pkg/one.py", "pkg/two.py", "--output-format", "sarif").out)
        return ["fixes" in result for result in log["runs"][0]["results"]]

    assert fixed() == [True] * 20
    monkeypatch.setattr("torchmigrate.formats.sarif._READ_ANEW", 4 * len(text))
    assert fixed() == [*[True] * 4, *[False] * 6] * 2
