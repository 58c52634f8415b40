"""Files that are not Python: which are read, where findings lie, what silences them, what is counted, own packs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
from conftest import Ran, cpu_seconds, git, planned, write_tree
from hypothesis import strategies

from torchmigrate.base import file_io
from torchmigrate.base.globs import Names
from torchmigrate.diagnostics.finding import Failed, Finding, Skipped, Status, Unchanged
from torchmigrate.engine.case_runner import SHAPES, check_case
from torchmigrate.project.text_rules import LIMIT, MOST_FILES, _also_on_lines
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError, Rule, Ruleset
from torchmigrate.source.text_file import TextFile, decode
from torchmigrate.torch_api.libraries import CUDA_ONLY, PACKAGES, VARIABLES, of_library

Cli = Callable[..., Ran]
PYTHON = "import torch\nx = 1\n"
BAD = "numpy\nbitsandbytes\n"


def found(root: Path, **settings: object) -> dict[str, list[tuple[str, int, int, int, int]]]:
    """(rule, line, column, end line, end column) of the open findings, by file."""
    results = planned(root, "check", **settings)
    return {
        name: [(f.rule, f.line, f.column, f.end_line, f.end_column) for f in result.findings if f.status is Status.OPEN]
        for name, result in results.items()
        if isinstance(result, Unchanged)
    }


def inspect(rules: DispatchTable, name: str, text: str | bytes) -> tuple[Finding, ...]:
    result = rules.texts.inspect(Path("/", name), text if isinstance(text, bytes) else text.encode())
    return result.findings if isinstance(result, Unchanged) else ()


# ---- which files


def test_a_project_with_all_kinds(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "train.py": PYTHON,
            "requirements.txt": BAD,
            "docker/Dockerfile.train": "FROM nvidia/cuda:12.1.1-base-ubuntu22.04\n",
            ".github/workflows/gpu.yml": "jobs:\n  test:\n    runs-on: [self-hosted, gpu]\n",
            "scripts/run.sh": "CUDA_VISIBLE_DEVICES=1 python train.py --device cuda\n",
            "configs/a.yaml": "train:\n  device: cuda:0\n",
            "csrc/ops.cu": "__global__ void f() {}\n",
        },
    )
    assert found(tmp_path) == {
        ".github/workflows/gpu.yml": [("build/ci", 3, 28, 3, 31)],
        "configs/a.yaml": [("build/config", 2, 3, 2, 17)],
        "csrc/ops.cu": [("build/source", 1, 1, 1, 1)],
        "docker/Dockerfile.train": [("build/docker", 1, 6, 1, 41)],
        "requirements.txt": [("build/requirement", 2, 1, 2, 13)],
        "scripts/run.sh": [("build/environment", 1, 1, 1, 21), ("build/config", 1, 40, 1, 53)],
    }


@pytest.mark.parametrize(
    "name",
    [
        "README.md", "docs/install.rst", "poetry.lock", "uv.lock", "Pipfile.lock", "conda-lock.yml", "data.txt",
        "notes", "venv/requirements.txt", "node_modules/x/Dockerfile", ".git/config.yaml", "annotations.json",
    ],
)  # fmt: skip
def test_documentation_lock_files_and_data_are_not_read(name: str, tmp_path: Path) -> None:
    text = "bitsandbytes\ndevice: cuda\nFROM nvidia/cuda:12\nCUDA_VISIBLE_DEVICES=1 python x.py\n"
    write_tree(tmp_path, {name: text, "ok/requirements.txt": BAD})
    assert list(found(tmp_path)) == ["ok/requirements.txt"]


def test_git_lists_them_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write_tree(tmp_path, {".gitignore": "out/\n", "out/requirements.txt": BAD, "requirements.txt": BAD})
    write_tree(tmp_path, {"deep/conf/a.yml": "device: cuda\n", "deep/requirements/base.txt": BAD})
    assert list(found(tmp_path)) == ["deep/conf/a.yml", "deep/requirements/base.txt", "requirements.txt"]


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.cu", ["a.cu", "/x/y/a.cu"], ["a.cup", "a.cu/x", "acu"]),
        ("Dockerfile*", ["Dockerfile", "x/Dockerfile.gpu"], ["MyDockerfile", "Dockerfiles/readme"]),
        ("*req*.txt", ["req.txt", "a/dev-req-x.txt"], ["req/a.txt", "req.txt.bak"]),
        ("conf*/*.json", ["conf/a.json", "/x/configs/a.json"], ["a.json", "conf/b/a.json", "myconf/a.json"]),
        (".github/workflows/*.yml", ["/r/.github/workflows/a.yml"], ["workflows/a.yml", "x.github/workflows/a.yml"]),
        ("a/**/b.ini", ["a/b.ini", "/r/a/x/y/b.ini"], ["b.ini", "xa/b.ini"]),
    ],
)
def test_a_glob_matches_the_end_of_a_path(glob: str, yes: list[str], no: list[str]) -> None:
    for names in (Names([glob]), Names([glob, "zzz*", "*.zzz", "z/*.z"])):
        assert [path for path in (*yes, *no) if names.match(path)] == yes


def test_no_globs_match_nothing() -> None:
    assert not Names(()).match("a.yml")


def test_links_and_broken_ones(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "project", {"requirements.txt": BAD, "a.py": PYTHON})
    write_tree(tmp_path / "elsewhere", {"conda.yml": "- cudatoolkit\n"})
    (root / "conda.yml").symlink_to(tmp_path / "elsewhere" / "conda.yml")
    (root / "broken.yaml").symlink_to("nowhere.yaml")
    (root / "more-requirements.txt").symlink_to("requirements.txt")
    results = planned(root, "check")
    assert list(results) == ["requirements.txt"]


def test_a_python_file_behind_a_link_with_another_name_is_python(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("import torch\nx = torch.ones(1).cuda()\n")
    (tmp_path / "tool.py").symlink_to("tool")
    assert [f[0] for f in found(tmp_path)["tool"]] == ["device/tensor-cuda"]


# ---- what cannot be read


def test_large_and_binary_files_pass_without_a_word_unless_named(cli: Cli, here: Path) -> None:
    write_tree(here, {"big.yaml": b"device: cuda\n" + b"# x\n" * (LIMIT // 4), "bin.yaml": b"device: cuda\0\n"})
    ran = cli("check", ".", "-v")
    assert (ran.status, ran.last) == (0, "No Python files read.")
    ran = cli("check", "big.yaml", "bin.yaml", "-v")
    assert ran.status == 0
    assert "skipped big.yaml: larger than 1,000,000 bytes\nskipped bin.yaml: not a text file\n" in ran.err
    assert ran.last == "No Python files read. 2 skipped."


def test_the_limit_is_for_what_is_larger(tmp_path: Path) -> None:
    text = b"device: cuda\n"
    write_tree(tmp_path, {"a.yaml": text + b"#" * (LIMIT - len(text)), "b.yaml": text + b"#" * (LIMIT - len(text) + 1)})
    assert list(found(tmp_path)) == ["a.yaml"]


def test_what_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {"requirements.txt": BAD})

    def refuse(path: object, opened: Callable[..., object] = file_io.open_regular) -> object:
        if str(path).endswith("requirements.txt"):
            raise PermissionError(13, "Permission denied")
        return opened(path)

    monkeypatch.setattr(file_io, "open_regular", refuse)
    results = list(planned(tmp_path, "check").values())
    assert [r.error for r in results if isinstance(r, Failed)] == ["cannot be read: Permission denied"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(encoding: str, rules: DispatchTable) -> None:
    (only,) = inspect(rules, "requirements.txt", "# größe\r\nbitsandbytes\r\n".encode(encoding))
    assert (only.line, only.column, only.end_column) == (2, 1, 13)


def test_a_stray_byte_hides_nothing(rules: DispatchTable) -> None:
    (only,) = inspect(rules, "run.sh", b"# gr\xf6\xdfe\nA=\xf6 CUDA_VISIBLE_DEVICES=1 python x.py\n")
    assert (only.line, only.column) == (2, 5)


def test_columns_are_in_characters_and_offsets_in_bytes(rules: DispatchTable) -> None:
    (only,) = inspect(rules, "run.sh", "ä=ö CUDA_VISIBLE_DEVICES=1 python x.py\n")
    assert (only.column, only.end_column, only.start, only.end) == (5, 25, 6, 26)


def test_half_a_utf_16_file_is_no_text() -> None:
    assert decode(b"\xff\xfea") is None


# ---- one finding for what is alike


def test_lines_that_say_the_same_are_one_finding(rules: DispatchTable) -> None:
    (only,) = inspect(
        rules, "run.sh", "CUDA_VISIBLE_DEVICES=1 a\nb\nCUDA_VISIBLE_DEVICES=1 a\nCUDA_VISIBLE_DEVICES=2 a\n"
    )
    assert only.line == 1
    assert only.message.endswith(" (also on lines 3 and 4)")


def test_what_differs_is_not(rules: DispatchTable) -> None:
    both = inspect(rules, "requirements.txt", "apex\nflash-attn\nflash_attn\n")
    assert [f.line for f in both] == [1, 2]
    assert both[1].message.endswith("(also on line 3)")
    assert CUDA_ONLY["apex"] in both[0].message
    assert CUDA_ONLY["flash_attn"] in both[1].message


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], ""),
        ([4], " (also on line 4)"),
        ([4, 5], " (also on lines 4 and 5)"),
        ([1, 2, 3, 4, 5], " (also on lines 1, 2, 3, 4 and 5)"),
        ([1, 2, 3, 4, 5, 6, 7], " (also on lines 1, 2, 3, 4, 5 and 2 more)"),
    ],
)
def test_how_the_other_lines_are_told(lines: list[int], said: str) -> None:
    assert _also_on_lines(lines) == said


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_counterpart_of_a_variable_is_told_as_in_python(variable: str, rules: DispatchTable) -> None:
    (only,) = inspect(rules, "a.sh", f"export {variable}=1\n")
    assert VARIABLES[variable] in only.message


@pytest.mark.parametrize("library", [library for library, package in PACKAGES.items() if package])
def test_each_library_is_known_as_a_requirement(library: str, rules: DispatchTable) -> None:
    package = PACKAGES[library] if PACKAGES[library] != library.lower() else library
    for name in (package, package.replace("_", "-"), package.upper().replace("_", ".")):
        if any(c.encode() in name.encode() for c in RULES.rules["build/requirement"].literals):
            (only,) = inspect(rules, "requirements.txt", f"{name}>=1\n")
            assert CUDA_ONLY[library] in only.message
        assert of_library(name) == CUDA_ONLY[library]
    assert any(c in package for c in RULES.rules["build/requirement"].literals)
    assert of_library(library) == CUDA_ONLY[library]


def test_each_library_of_the_rule_is_known() -> None:
    """One that the table has not would be found and never be reported."""
    groups = [re.search(r"\(\?P<library>([^)]*)\)", p.match or "") for p in RULES.rules["build/requirement"].patterns]
    names = [name.replace("[-_.]", "_") for group in groups if group for name in group[1].split("|")]
    assert sorted(names) == sorted(package for package in PACKAGES.values() if package)


RULES = packs.load()
TEXT_RULES = [rule for rule in RULES.rules.values() if rule.patterns]


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.id)
def test_each_pattern_finds_what_no_other_does_and_each_exception_spares(rule: Rule) -> None:
    """Without a pattern, or without one of its exceptions, some case of the rule no longer holds."""

    def holds(changed: Rule) -> bool:
        alone = {"alone": dispatch_table(Ruleset({rule.id: changed}))}
        return not [f for c in rule.cases for f in check_case(changed, c, alone, {"plain": SHAPES["plain"]})]

    assert holds(rule)
    needless = []
    for index, pattern in enumerate(rule.patterns):
        variants = {"match": (), **{key: (replace(pattern, **{key: None}),) for key in exceptions(pattern)}}
        for key, kept in variants.items():
            if holds(replace(rule, patterns=(*rule.patterns[:index], *kept, *rule.patterns[index + 1 :]))):
                needless.append((index, key, getattr(pattern, key)))
    for index, where in enumerate(rule.where):
        for key in exceptions(where):
            changed = replace(where, **{key: () if key == "but" else None})
            if holds(replace(rule, where=(*rule.where[:index], changed, *rule.where[index + 1 :]))):
                needless.append((index, key, getattr(where, key)))
    assert needless == []


def exceptions(thing: object) -> list[str]:
    return [key for key in ("line", "under", "unless", "alternative", "but") if getattr(thing, key, None)]


# ---- silence


def test_select_ignore_backends_and_per_file_ignores(cli: Cli, here: Path) -> None:
    write_tree(here, {"requirements.txt": BAD, "Dockerfile": "FROM nvidia/cuda:12\n", "sub/requirements.txt": BAD})

    def lines(*arguments: str) -> list[str]:
        return [
            line.split(": ")[0] for line in cli("check", ".", "--output-format", "concise", *arguments).out.split("\n")
        ]

    assert lines() == ["Dockerfile:1:6", "requirements.txt:2:1", "sub/requirements.txt:2:1", ""]
    assert lines("--select", "build/docker") == ["Dockerfile:1:6", ""]
    assert lines("--select", "device") == [""]
    assert lines("--ignore", "build") == [""]
    assert lines("--ignore", "build/docker", "--exclude", "sub") == ["requirements.txt:2:1", ""]
    assert lines("--backends", "rocm") == ["Dockerfile:1:6", ""]
    (here / "pyproject.toml").write_text('[tool.torchmigrate.per-file-ignores]\n"sub/*" = ["build/requirement"]\n')
    assert lines() == ["Dockerfile:1:6", "requirements.txt:2:1", ""]
    (here / "pyproject.toml").write_text('[tool.torchmigrate]\nextend-exclude = ["requirements.txt"]\n')
    assert lines() == ["Dockerfile:1:6", ""]


def test_suppressed_ones_are_counted_and_the_rest_is_found(cli: Cli, here: Path) -> None:
    text = "A=1 CUDA_VISIBLE_DEVICES=1 x  # torchmigrate: ignore[build] ours\nCUDA_VISIBLE_DEVICES=1 x\n"
    write_tree(here, {"run.sh": text})
    ran = cli("check", ".", "--output-format", "concise")
    assert ran.out.startswith("run.sh:2:1: build/environment: ")
    assert ran.last == "Found 1 problem in 1 of 1 file that is not Python. 1 needs you. 1 suppressed."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy  # torchmigrate: ignore[build/requirement]\n", "`ignore[build/requirement]`: suppresses nothing here"),
        ("# torchmigrate: ignore[build/nothing]\napex\n", "`ignore[build/nothing]`: no such rule or pack"),
        ("# torchmigrate: ignore\napex\n", "say which rule"),
    ],
)
def test_idle_suppressions_are_findings(text: str, said: str, rules: DispatchTable) -> None:
    first = inspect(rules, "requirements.txt", text)[0]
    assert first.rule == "suppression"
    assert first.message.startswith(said)
    assert (first.line, first.column) == (1, 1)


def test_rules_that_are_not_run_are_not_called_idle(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"requirements.txt": "apex  # torchmigrate: ignore[build/requirement]\n", "Dockerfile": "FROM x\n"}
    )
    assert found(tmp_path, select=("build/docker",)) == {}
    assert found(tmp_path, ignore=("build/requirement",)) == {}


def test_skip_file(cli: Cli, here: Path) -> None:
    write_tree(here, {"requirements.txt": "# torchmigrate: skip-file\napex\n"})
    ran = cli("check", ".", "-v")
    assert ran.err == "skipped requirements.txt: # torchmigrate: skip-file\nNo Python files read. 1 skipped.\n"


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.sh", 'a "b # c" # d\n', 'a "b # c"    \n'),
        ("a.sh", "it's # it's\nx#y\n", "it's       \nx#y\n"),
        ("a.ini", "; a\nb = 1 ; c\n", "   \nb = 1 ; c\n"),
        ("a.json", '{"u": "http://x"} // y\n', '{"u": "http://x"}     \n'),
        ("a.cu", "// a\n#include <b>\n", "    \n#include <b>\n"),
        ("a.txt", "a @ git+https://x#egg=y\n", "a @ git+https://x#egg=y\n"),
    ],
)
def test_comments_are_blanked(name: str, text: str, code: str) -> None:
    assert TextFile(name, text).code == code


def test_a_line_is_one_with_its_continuations() -> None:
    file = TextFile("a.sh", "a \\\r\n  b \\\n  # c\n  d\n\ne\\\n")
    assert [line.text.split() for line in file.lines] == [["a", "\\", "b", "\\", "d"], ["e\\"]]
    assert file.spans == [(1, 4), (6, 6)]


def test_tables_of_toml_and_ini() -> None:
    file = TextFile("pyproject.toml", '[a.b]\nc = [\n  "d==1",\n]\ne = 1\n[[f]]\n"g-h" = 2\n')
    found = {line.text.strip(): file.tables[line.start] for line in file.lines}
    assert found['"d==1",'] == "a.b.c"
    assert (found["e = 1"], found['"g-h" = 2'], found["[[f]]"]) == ("a.b.e", "f.g-h", "f")
    ini = TextFile("setup.cfg", "[options]\ninstall_requires =\n    x = 1\n")
    assert list(ini.tables.values())[-1] == "options.install_requires"
    assert TextFile("a.yaml", "[a]\nb = 1\n").tables == {}


# ---- what is said


def test_the_last_line_counts_python_apart(cli: Cli, here: Path) -> None:
    write_tree(here, {"train.py": "import torch\nx = torch.ones(1).cuda()\n", "b.py": "y = 1\n"})
    assert cli("check", ".").last.startswith("Found 1 problem in 1 of 2 files. ")
    write_tree(here, {"requirements.txt": "numpy\n"})
    assert cli("check", ".").last.startswith("Found 1 problem in 1 of 2 Python files and 0 of 1 other. ")
    write_tree(here, {"requirements.txt": BAD, "Makefile": "all:\n"})
    assert cli("check", ".").last.startswith("Found 2 problems in 1 of 2 Python files and 1 of 2 others. ")
    assert cli("check", "b.py", "Makefile").last == "No findings in 1 Python file and 1 other."
    assert cli("check", "Makefile").last == "No findings in 1 file that is not Python."
    summary = json.loads(cli("check", ".", "--output-format", "json").out)["summary"]
    assert (summary["files"], summary["other_files"], summary["findings"], summary["needs_you"]) == (2, 2, 2, 1)
    ran = cli("apply", ".")
    assert ran.status == 0
    assert ran.last == "Rewrote 1 of 2 Python files and added accel.py: 1 edit by 1 rule. 1 needs you."
    assert (here / "requirements.txt").read_text() == BAD


def test_exit_statuses(cli: Cli, here: Path) -> None:
    write_tree(here, {"requirements.txt": BAD})
    assert [cli(*words).status for words in (["check"], ["check", "--exit-zero"], ["apply"], ["apply", "-n"])] == [
        1,
        0,
        0,
        0,
    ]


def test_the_report_shows_the_line(cli: Cli, here: Path) -> None:
    write_tree(here, {"requirements.txt": BAD})
    shown = cli("check", ".").out
    assert "  2 | bitsandbytes\n    | ^^^^^^^^^^^^\n" in shown and "matters on" not in shown
    write_tree(here, {"a.py": "import torch\n\ncount = torch.cuda.device_count()\n"})
    assert "    = matters on: mps, xpu, npu\n" in cli("check", ".").out, "which backends is said if it is not all"


def test_the_portability_report_counts_all_files(cli: Cli, here: Path) -> None:
    write_tree(here, {"requirements.txt": BAD, "Dockerfile": "FROM nvidia/cuda:12\n", "b.py": "y = 1\n"})
    assert "2 device-bound sites in 2 of 3 files." in cli("report", ".").out


def test_a_named_file_is_no_python_whatever_is_selected(cli: Cli, here: Path) -> None:
    write_tree(here, {"requirements.txt": BAD, "notes.txt": "not Python\n"})
    assert cli("check", "--select", "device", "requirements.txt").last == "No findings in 1 file that is not Python."
    assert cli("check", "--select", "build", "requirements.txt").status == 1


def test_other_workflows_count_as_a_choice(tmp_path: Path) -> None:
    job = "jobs:\n  test:\n    runs-on: {}\n"
    gpu = ".github/workflows/gpu.yml"
    write_tree(tmp_path, {gpu: job.format("gpu")})
    assert [f[0] for f in found(tmp_path)[gpu]] == ["build/ci"]
    write_tree(tmp_path, {".github/workflows/cpu.yaml": job.format("ubuntu-latest")})
    assert found(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "text", "other"),
    [
        ("requirements.txt", BAD, "requirements_cpu_only.txt"),
        ("docker/Dockerfile", "FROM nvidia/cuda:12.1.1-base-ubuntu22.04\n", "docker/Dockerfile-cpu"),
        ("environment.yml", "dependencies:\n  - pytorch-cuda=12.1\n", "environment-rocm.yml"),
    ],
)
def test_a_counterpart_beside_it_is_a_choice(name: str, text: str, other: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {name: text})
    assert list(found(tmp_path)) == [name]
    write_tree(tmp_path, {other: "\n"})
    assert found(tmp_path) == {}


def test_explain_and_rules(cli: Cli, here: Path) -> None:
    assert "build/docker" in cli("rules", "build").out
    said = cli("explain", "build/docker").out
    assert "reads: Dockerfile*, " in said
    assert "| FROM nvidia/cuda:" in said


# ---- rules of one's own

HEAD = 'summary = "an example"\nsafety = "display"\nwhy = "Because."\n'
OWN = (
    HEAD
    + """files = ["*.spec"]

[[pattern]]
match = 'cuda(?P<version>\\d+)'
message = "no {version} in {match}"

[[case]]
title = "one"
file = "a.spec"
finding = true
before = '''
Requires: cuda12
'''
"""
)


def test_a_pack_of_ones_own(cli: Cli, here: Path) -> None:
    write_tree(here, {"pyproject.toml": "[tool.torchmigrate]\nrule-paths = ['rules']\n", "rules/own/spec.toml": OWN})
    write_tree(here, {"x/a.spec": "Name: x\nRequires: cuda12\n"})
    ran = cli("check", ".", "--output-format", "concise")
    assert ran.out == "x/a.spec:2:11: own/spec: no 12 in cuda12\n"
    assert cli("rules", "test", "rules").last == "1 of 1 case of 1 rule pass."
    write_tree(here, {"rules/own/spec.toml": OWN.replace("finding = true", "finding = false")})
    ran = cli("rules", "test", "rules")
    assert ran.status == 1
    assert "has a finding of the rule" in ran.out


PATTERN = "[[pattern]]\nmatch = 'x'\n"
WRONG = {
    "no files": (HEAD + PATTERN, 4, "without files", "files = ["),
    "no patterns": (HEAD + 'files = ["*.a"]\n', 4, "`files` without a [[pattern]]", "patterns apply"),
    "where without patterns": (HEAD + '[[where]]\nfiles = ["*.a"]\n', 4, "`where` without", "patterns apply"),
    "files is no list": (HEAD + 'files = "*.a"\n' + PATTERN, 4, "no list of globs", "files = ["),
    "a glob of many ways": (HEAD + 'files = ["**/**/**/**/**/a"]\n' + PATTERN, 4, "at most 4 `**`", "end of a path"),
    "where without files": (HEAD + "[[where]]\nline = 'x'\n" + PATTERN, 4, "no list of globs", "files = ["),
    "a glob from the root": (HEAD + 'files = ["/a"]\n' + PATTERN, 4, "'/a'", "the end of a path"),
    "a glob of a directory": (HEAD + 'files = ["a/"]\n' + PATTERN, 4, "'a/'", "the end of a path"),
    "no regular expression": (HEAD + "files = ['*.a']\n[[pattern]]\nmatch = '('\n", 6, "no regular expression", "`re`"),
    "of where": (HEAD + "[[where]]\nfiles = ['a']\nunder = '['\n" + PATTERN, 6, "no regular expression", "`re`"),
    "no string": (HEAD + "files = ['*.a']\n[[pattern]]\nmatch = 1\n", 6, "no regular expression", "single quotes"),
    "matches nothing": (
        HEAD + "files = ['*.a']\n[[pattern]]\nmatch = 'x*'\n", 6, "matches the empty text", "must be there",
    ),
    "nested": (
        HEAD + "files = ['*.a']\n[[pattern]]\nmatch = '(?:a+b)+c'\n", 6, "repeats a repetition", "one of the two",
    ),
    "unknown key": (HEAD + "files = ['*.a']\n" + PATTERN + "mesage = 'y'\n", 5, "`mesage`", "`message`"),
    "unknown key of where": (HEAD + "[[where]]\nfile = ['a']\n" + PATTERN, 4, "`file`", "`files`"),
    "a placeholder": (HEAD + "files = ['*.a']\n" + PATTERN + "message = '{y}'\n", 7, "{y}", "known: match"),
    "instead of nothing": (HEAD + "files = ['*.a']\n" + PATTERN + "message = '{instead}'\n", 7, "instead", "library"),
    "a brace": (HEAD + "files = ['*.a']\n" + PATTERN + "message = '{'\n", 7, "cannot be filled in", "{{"),
    "no match, no files": (HEAD + "[[where]]\nfiles = ['a']\n[[pattern]]\nmessage = 'y'\n", 6, "`match`", "by name"),
    "safety": (HEAD.replace("display", "safe") + "files = ['*.a']\n" + PATTERN, 2, "rewrites nothing", "display"),
    "beside a fixer": (HEAD + "fixer = 'device/count'\nfiles = ['a']\n" + PATTERN, 4, "`fixer` beside", "or about"),
    "beside a rewrite": (
        HEAD + "files = ['a']\n" + PATTERN + "[[rewrite]]\nmatch = 'torch.f()'\n", 7, "`rewrite` beside", "or about",
    ),
    "a case without a file": (
        HEAD + "files = ['a']\n" + PATTERN + "[[case]]\ntitle = 't'\nbefore = 'x'\n", 7, "needs `file`", "is called",
    ),
    "a file of a rule for Python": (
        HEAD + "[[rewrite]]\nmatch = 'torch.f()'\n[[case]]\ntitle = 't'\nbefore = 'x'\nfile = 'a'\n",
        6, "has no `file`", "[[pattern]]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "what", "help"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, what: str, help: str, tmp_path: Path) -> None:
    path = write_tree(tmp_path, {"own/bad.toml": text}) / "own" / "bad.toml"
    with pytest.raises(PackError) as raised:
        packs.load_rule(path)
    message, _, way_out = str(raised.value).partition("\nhelp: ")
    assert message.startswith(f"{path}:{line}: ")
    assert what in message
    assert help in way_out


# ---- whatever comes


NAMES = [
    "requirements.txt",
    "pyproject.toml",
    "Dockerfile",
    "a.sh",
    "a.yaml",
    ".github/workflows/a.yml",
    "a.cu",
    "setup.cfg",
]
WORDS = [
    "cuda",
    "nccl",
    "device",
    "apex",
    "# ",
    "'",
    '"',
    "\\\n",
    "\r\n",
    "\n",
    "[",
    "]",
    "=",
    ": ",
    "--gpus ",
    "pip install ",
]
WORDS += [
    "torchmigrate: ignore[build]",
    "FROM ",
    "nvidia",
    "CUDA_VISIBLE_DEVICES",
    "ä",
    "+cu121",
    " ",
    "runs-on",
    "gpu",
]


@pytest.mark.slow
@hypothesis.settings(max_examples=300)
@hypothesis.given(strategies.sampled_from(NAMES), strategies.lists(strategies.sampled_from(WORDS), max_size=30))
def test_any_text_is_read_and_findings_lie_within(rules: DispatchTable, name: str, words: list[str]) -> None:
    text = "".join(words)
    for finding in inspect(rules, name, text):
        assert 0 <= finding.start <= finding.end <= len(text.encode())
        assert (1, 1) <= (finding.line, finding.column) <= (finding.end_line, finding.end_column)


@hypothesis.given(strategies.sampled_from(NAMES), strategies.binary(max_size=200))
def test_any_bytes_are_read(rules: DispatchTable, name: str, raw: bytes) -> None:
    assert isinstance(rules.texts.inspect(Path("/", name), b"cuda " + raw), (Unchanged, Skipped, type(None)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "unit", ["pip install cuda ", "docker run nvidia ", "a-", "--gpus", "[", "device: ", "\\\n", "cuda-"]
)
def test_long_lines_cost_little(name: str, unit: str, rules: DispatchTable) -> None:
    text = f"cuda nvidia CUDA nccl {unit * (4_000 // len(unit))}\n" * 5
    assert cpu_seconds(lambda: inspect(rules, name, text[:3_990] + "\n" + text)) < 2


# ---- what many files share


@pytest.mark.parametrize("count", [MOST_FILES, MOST_FILES + 1])
def test_of_many_files_with_the_same_finding_the_first_tells_of_it(tmp_path: Path, count: int) -> None:
    """Found in thuml/Time-Series-Library: 243 of its 249 findings were one variable in as many scripts."""
    scripts = {f"scripts/run{n}.sh": "CUDA_VISIBLE_DEVICES=1 python a.py\n" * (n + 1) for n in range(count)}
    results = planned(write_tree(tmp_path, {**scripts, "requirements.txt": BAD}), "check").items()
    findings = {name: r.findings for name, r in results if isinstance(r, Unchanged)}
    told = [name for name in scripts if findings[name][0].status is Status.OPEN]
    assert findings["requirements.txt"][0].status is Status.OPEN
    if count <= MOST_FILES:
        assert told == [*scripts]
    else:
        assert told == ["scripts/run0.sh"]
        assert findings["scripts/run0.sh"][0].message.endswith(f" (also in {count - 1} more files, -v)")
        assert findings["scripts/run1.sh"][0].message.endswith(" (left alone: told of in scripts/run0.sh)")
