"""`torchmigrate report`: what the score counts, and that each format says it, of any project and to anybody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran, planned, write_tree
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.cli.commands import report as report_command
from torchmigrate.diagnostics.finding import Changed, Finding, Status, Unchanged
from torchmigrate.formats.portability.html import Markup, element, join
from torchmigrate.rules import packs
from torchmigrate.surveys.portability import DEFINITION, grouped, percent

Cli = Callable[..., Ran]
FORMATS = ("text", "markdown", "json", "html")
# site: safe on all but cuda; safe on mps, xpu, npu; display on mps; display on all but cuda
TRAIN = """import torch

x = torch.zeros(3)
x = x.cuda()
torch.cuda.empty_cache()
y = x.double()
graph = torch.cuda.CUDAGraph()
"""
UNSAFE = """import torch


class Batch:
    def cuda(self):
        return self


def train(model, loader):
    for batch in loader:
        model(batch.cuda())
"""


def data(cli: Cli, *arguments: str) -> dict[str, Any]:
    """The report of the current directory, as JSON."""
    ran = cli("report", "--output-format", "json", *arguments)
    found: dict[str, Any] = json.loads(ran.out)
    return found


def counts(score: dict[str, dict[str, int]]) -> dict[str, tuple[int, ...]]:
    return {b: (s["sites"], s["before"], s["after"], s["after_unsafe"]) for b, s in score.items()}


# ---- what is counted


def test_the_score_of_sites_that_are_known(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN, "clean.py": "pass\n"})
    found = data(cli)
    assert counts(found["score"]) == {
        "cuda": (4, 4, 4, 4),
        "mps": (4, 0, 2, 2),
        "xpu": (4, 1, 3, 3),
        "npu": (4, 1, 3, 3),
        "cpu": (4, 2, 3, 3),  # empty_cache() and double() run there
    }
    assert found["files"] == 2
    assert [m["name"] for m in found["modules"]] == ["train.py"]
    assert found["modules"][0]["score"] == found["score"]
    assert {(e["rule"], e["line"]) for e in found["needs_you"]} == {("hazard/double", 6), ("hazard/cuda-only", 7)}


def test_an_unsafe_fix_counts_only_where_it_is_asked_for(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": UNSAFE})
    found = data(cli)
    assert counts(found["score"])["mps"] == (1, 0, 0, 1)
    assert [p["state"] for r in found["reasons"] for p in r["places"]] == ["unsafe"]
    assert found["needs_you"] == []
    (here / "pyproject.toml").write_text("[tool.torchmigrate]\nunsafe-fixes = true\n")
    assert counts(data(cli)["score"])["mps"] == (1, 0, 0, 1)  # "after" is after the safe ones, whatever the settings


def test_a_guard_that_waits_for_an_unsafe_fix_is_a_site(here: Path, cli: Cli) -> None:
    body = "        if torch.cuda.is_available():\n            batch.cuda()"
    guarded = UNSAFE.replace("        model(batch.cuda())", body)
    write_tree(here, {"train.py": guarded})
    found = data(cli)
    assert counts(found["score"])["mps"] == (2, 0, 0, 2)
    assert counts(found["score"])["cpu"] == (2, 1, 1, 2)  # the guard runs there
    assert found["apart"]["left"] == 0


def test_two_findings_at_one_place_are_one_site(here: Path, cli: Cli) -> None:
    text = "import torch\n\ndevice = torch.device('cuda')\nx = x.pin_memory().to(device, non_blocking=True)\n"
    write_tree(here, {"load.py": text})
    found = data(cli)
    places = [(p["rule"], p["line"], p["column"]) for r in found["reasons"] for p in r["places"]]
    assert {p for p in places if p[1] == 4} == {("dataloader/pin-memory", 4, 5), ("dataloader/non-blocking", 4, 5)}
    assert found["score"]["cuda"]["sites"] == 2
    # pinning fails on mps and the CPU, the copy on mps
    assert counts(found["modules"][0]["score"])["xpu"] == (2, 1, 2, 2)


def test_a_portable_choice_is_no_site_and_is_told(here: Path, cli: Cli) -> None:
    ladder = """import torch

if torch.cuda.is_available():
    device = torch.device("cuda")
elif torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")
"""
    write_tree(here, {"device.py": ladder})
    found = data(cli)
    assert counts(found["score"])["mps"] == (0, 0, 0, 0)
    assert found["apart"]["left"] == 4  # the two rungs, and what asks for MPS there
    assert "4 places left alone" in cli("report").out


def test_what_is_suppressed_is_apart(here: Path, cli: Cli) -> None:
    text = TRAIN.replace("x.cuda()", "x.cuda()  # torchmigrate: ignore[device/tensor-cuda] known")
    write_tree(here, {"train.py": text, "old.py": "x = 1  # torchmigrate: ignore[amp]\n"})
    found = data(cli)
    assert found["score"]["cuda"]["sites"] == 3
    assert (found["apart"]["suppressed"], found["apart"]["idle_comments"]) == (1, 1)
    said = cli("report").out
    assert "1 finding suppressed by a comment" in said and "1 suppression comment without effect" in said
    assert "suppression" not in {r["rule"] for r in found["reasons"]}


def test_a_notebooks_places_are_those_of_its_cells(here: Path, cli: Cli) -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# cuda\n"]},
        _code("import torch\nx = torch.zeros(1)\n"),
        _code("%time 1\ny = x.cuda()\ng = torch.cuda.CUDAGraph()\n"),
    ]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write_tree(here, {"run.ipynb": json.dumps(book)})
    places = {(p["rule"], p["cell"], p["line"], p["source"]) for r in data(cli)["reasons"] for p in r["places"]}
    moved, graph = "y = x.cuda()", "g = torch.cuda.CUDAGraph()"
    assert places == {("device/tensor-cuda", 3, 2, moved), ("hazard/cuda-only", 3, 3, graph)}
    assert "run.ipynb:cell 3:3" in cli("report").out


def _code(source: str) -> dict[str, object]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", "metadata": {}, "source": lines, "outputs": [], "execution_count": None}


def test_the_places_are_those_of_the_file_as_it_stands(here: Path, cli: Cli) -> None:
    """Not of the rewritten one, in which an import and a wrapped line move everything."""
    write_tree(here, {"train.py": TRAIN})
    (double,) = [e for e in data(cli)["needs_you"] if e["rule"] == "hazard/double"]
    assert (double["line"], double["column"], double["source"]) == (6, 5, "y = x.double()")


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "fixtures").iterdir() if (p / "train.py").is_file()))
def test_what_is_rewritten_is_what_apply_rewrites(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    root = ROOT / "fixtures" / name
    monkeypatch.chdir(root)
    entries = [p for r in data(cli, "--isolated")["reasons"] for p in r["places"]]
    by_state = {
        state: {(p["file"], p["cell"], p["line"], p["column"], p["rule"]) for p in entries if p["state"] == state}
        for state in ("rewritten", "unsafe", "yours")
    }
    applied: set[tuple[object, ...]] = set()
    left = 0
    for file, result in planned(root).items():
        if isinstance(result, (Changed, Unchanged)):
            done = result.applied if isinstance(result, Changed) else ()
            applied |= {_place(file, f) for f in done}
            left += sum(f.status in (Status.OPEN, Status.HELD) for f in result.findings)
    assert by_state["rewritten"] == applied
    assert len(by_state["unsafe"]) + len(by_state["yours"]) == left
    assert applied


def _place(file: str, finding: Finding) -> tuple[object, ...]:
    return file, finding.cell, finding.line, finding.column, finding.rule


# ---- the rules' data


def test_rules_name_the_cpu_where_it_raises_there(here: Path, cli: Cli) -> None:
    """As measured with torch 2.13 without CUDA."""
    text = """import torch
a = torch.cuda.memory_allocated()
b = torch.cuda.mem_get_info()
c = torch.cuda.device_count()
d = torch.cuda.current_device()
e = torch.cuda.get_rng_state()
torch.cuda.set_rng_state(e)
assert torch.cuda.is_available(), "CUDA is not available"
"""
    write_tree(here, {"a.py": text})
    places = [p for r in data(cli)["reasons"] for p in r["places"]]
    assert {p["line"] for p in places if "cpu" in p["backends"]} == {3, 5, 6, 8}
    assert {p["line"] for p in places} == set(range(2, 9))


def test_every_rule_names_backends_that_have_a_score() -> None:
    from torchmigrate.torch_api.backends import BACKENDS

    for rule in packs.load(cases=False).rules.values():
        for named in (rule.backends, *(rewrite.backends for rewrite in rule.rewrites)):
            assert set(named) <= set(BACKENDS), rule.id


def test_a_rule_without_backends_speaks_of_all_but_cuda(here: Path, cli: Cli) -> None:
    rule = 'summary = "s"\nsafety = "display"\nwhy = "w"\n[[rewrite]]\nmatch = "torch.frobnicate()"\n'
    write_tree(here, {"rules/own/frob.toml": rule, "a.py": "import torch\ntorch.frobnicate()\n"})
    (here / "pyproject.toml").write_text('[tool.torchmigrate]\nrule-paths = ["rules"]\n')
    before = {b: s["before"] for b, s in data(cli)["score"].items()}
    assert before == {"cuda": 1, "mps": 0, "xpu": 0, "npu": 0, "cpu": 0}


def test_rocm_has_a_column_where_a_finding_names_it(here: Path, cli: Cli) -> None:
    rule = 'summary = "s"\nsafety = "display"\nwhy = "w"\nbackends = ["rocm"]\n[[rewrite]]\nmatch = "torch.frob()"\n'
    write_tree(here, {"rules/own/frob.toml": rule, "a.py": "import torch\ntorch.frob()\n"})
    (here / "pyproject.toml").write_text('[tool.torchmigrate]\nrule-paths = ["rules"]\n')
    score = data(cli)["score"]
    assert list(score) == ["cuda", "rocm", "mps", "xpu", "npu", "cpu"]
    assert {b for b, s in score.items() if not s["before"]} == {"rocm"}


# ---- options, errors, exit status


@pytest.mark.parametrize("output_format", FORMATS)
def test_a_project_without_sites(here: Path, cli: Cli, output_format: str) -> None:
    (here / "clean.py").write_text("import torch\n")
    ran = cli("report", "--output-format", output_format)
    assert ran.status == 0
    assert "100" not in ran.out.replace("initial-scale=1", "").partition("<style>")[0]
    if output_format != "json":
        assert "No device-bound sites in 1 file: there is nothing to score." in ran.out
    else:
        assert {s["sites"] for s in json.loads(ran.out)["score"].values()} == {0}


def test_a_project_without_python(here: Path, cli: Cli) -> None:
    assert "No file was read" in cli("report").out


@pytest.mark.parametrize("output_format", FORMATS)
def test_an_unreadable_file_is_told_and_the_others_are_scored(here: Path, cli: Cli, output_format: str) -> None:
    write_tree(here, {"train.py": TRAIN, "old.py": "print 'cuda'\n"})
    ran = cli("report", "--output-format", output_format)
    assert ran.status == 2
    assert ran.err.startswith("error: old.py: line 1: not Python 3")
    assert "old.py" in ran.out
    if output_format == "json":
        found = json.loads(ran.out)
        assert found["score"]["cuda"]["sites"] == 4 and found["files"] == 1
        assert [e["file"] for e in found["errors"]] == ["old.py"]
    else:
        assert "1 more file could not be read" in " ".join(ran.out.split())


def test_nothing_is_written_but_the_report(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN})
    ran = cli("report", "--output-format", "html", "-o", "out.html")
    assert (ran.status, ran.out, ran.err) == (0, "", "Wrote out.html.\n")
    assert sorted(p.name for p in here.iterdir()) == ["out.html", "train.py"]
    assert (here / "train.py").read_text() == TRAIN
    assert cli("report", "--output-format", "html").raw == (here / "out.html").read_bytes()
    assert cli("report", "-q", "-o", "no/such/folder").status == 2


def test_backends_are_columns_and_leave_the_sites(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN})
    found = data(cli, "--backends", "cpu,xpu")
    assert counts(found["score"]) == {"xpu": (4, 1, 3, 3), "cpu": (4, 2, 3, 3)}
    assert "hazard/double" not in {r["rule"] for r in found["reasons"]}  # a matter of mps
    assert "none runs on every backend (xpu, cpu)" not in cli("report", "--backends", "xpu").out
    ran = cli("report", "--backends", "hpu")
    assert ran.status == 2 and "cuda, rocm, mps, xpu, npu, cpu" in ran.err
    assert "note: no rule says what runs on hpu" in cli("report", "--backends", "hpu,mps").err


@pytest.mark.parametrize("output_format", FORMATS)
def test_on_cuda_alone_there_is_nothing_to_find(here: Path, cli: Cli, output_format: str) -> None:
    write_tree(here, {"train.py": TRAIN})
    ran = cli("report", "--backends", "cuda", "--isolated", "--output-format", output_format)
    assert ran.status == 0
    if output_format == "json":
        assert counts(json.loads(ran.out)["score"]) == {"cuda": (4, 4, 4, 4)}
    else:
        assert "all run on cuda" in " ".join(ran.out.split())
    if output_format == "html":
        assert "Findings by reason" not in ran.out
        assert "torchmigrate report --backends cuda --isolated" in ran.out
        assert Page(ran.out)


def test_what_is_skipped_is_told(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN, "kept.py": "# torchmigrate: skip-file\nx.cuda()\n"})
    assert "1 file skipped (# torchmigrate: skip-file): kept.py." in cli("report").out
    assert data(cli)["files"] == 1


def test_rules_that_are_left_out_are_told(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN})
    for output_format in FORMATS:
        assert "ignore = hazard" in cli("report", "--ignore", "hazard", "--output-format", output_format).out
    assert data(cli, "--ignore", "hazard")["score"]["mps"]["sites"] == 2
    assert cli("report", "--select", "hazrd").status == 2


def test_one_job_or_many(here: Path, cli: Cli) -> None:
    big = TRAIN + "# " + "x" * 400_000 + "\n"  # so that processes are started
    write_tree(here, {f"pkg/m{i}.py": big for i in range(5)})
    for output_format in FORMATS:
        one, two = (cli("report", "-j", jobs, "--output-format", output_format).raw for jobs in ("1", "2"))
        assert one == two


def test_a_single_file_and_a_folder_elsewhere(here: Path, cli: Cli) -> None:
    write_tree(here, {"a/train.py": TRAIN, "a/other.py": TRAIN})
    assert data(cli, "a/train.py")["modules"][0]["name"] == "train.py"
    found = data(cli, "a")
    assert (found["root"], [m["name"] for m in found["modules"]]) == (str(here / "a"), ["other.py", "train.py"])


# ---- text


def test_text_fits_a_terminal(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "a_rather_long_package_name/" * 4 + "an_even_longer_module_name_than_that.py"
    write_tree(here, {deep: TRAIN + f"z = x.cuda({'1, ' * 80})\n", "m.py": UNSAFE})
    ran = cli("report")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "\x1b" not in ran.out
    assert "Portability of project\n" in ran.out
    assert re.search(r"^  mps +\d+ +0 +0 % +\d+ +\d+ % +\d+ +\d+ %$", ran.out, re.M)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1mScore" in cli("report").out


def test_a_percentage_is_all_or_none_only_where_it_is() -> None:
    shown = {(0, 9): 0, (1, 1000): 1, (1, 2): 50, (999, 1000): 99, (9, 9): 100}
    assert {key: percent(*key) for key in shown} == shown


# ---- modules


def test_few_files_are_modules_of_their_own_and_many_are_grouped() -> None:
    few = {"a.py": 1, "pkg/b.py": 2}
    assert grouped(few, 24) == {"a.py": ["a.py"], "pkg/b.py": ["pkg/b.py"]}
    many = dict.fromkeys([f"pkg/sub{i}/m{j}.py" for i in range(3) for j in range(9)], 1)
    many |= {"pkg/a.py": 1, "pkg/b.py": 1, "setup.py": 1}
    assert set(grouped(many, 5)) == {"pkg/sub0/", "pkg/sub1/", "pkg/sub2/", "pkg/*", "setup.py"}
    assert set(grouped(many, 4)) == {"pkg/", "setup.py"}
    assert grouped(many, 5)["pkg/*"] == ["pkg/a.py", "pkg/b.py"]


_NAME = st.text("ab", min_size=1, max_size=2)


@given(st.dictionaries(st.lists(_NAME, min_size=1, max_size=4).map(lambda p: "/".join(p) + ".py"), st.integers(1, 50)))
def test_groups_hold_each_file_once(weights: dict[str, int]) -> None:
    groups = grouped(weights, 5)
    assert sorted(f for files in groups.values() for f in files) == sorted(weights)
    first_level = {f.partition("/")[0] if "/" in f else "*" for f in weights}
    assert len(groups) <= max(5, len(first_level))
    assert all(f.startswith(name.rstrip("*").removeprefix("./")) for name, files in groups.items() for f in files)


# ---- markdown and HTML: nothing of the project's is markup

EVIL = "a\"><script>alert(1)</script><img src=x onerror=alert(1)>'&amp;"
EVIL_FILE = "pkg/" + EVIL.replace("/", "") + "|`x`.py"
EVIL_SOURCE = f"import torch\ny = x.cuda()  # {EVIL} `` ``` | </pre></details> \x1b[31m @someone\n"


class Page(HTMLParser):
    """Checks that elements close in order, and remembers what is in the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "wbr", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def page(here: Path, cli: Cli) -> Page:
    write_tree(here, {"train.py": TRAIN, "m.py": UNSAFE, EVIL_FILE: EVIL_SOURCE})
    return Page(cli("report", "--output-format", "html").out)


def test_the_page_is_inert_whatever_the_project_holds(page: Page) -> None:
    names = {tag for tag, _ in page.tags}
    assert names.isdisjoint({"script", "img", "link", "iframe", "object", "base", "form"})
    attributes = {name for _, given in page.tags for name in given}
    assert not [a for a in attributes if a.startswith("on")]
    assert attributes <= {
        "lang", "charset", "name", "content", "class", "id", "aria-labelledby", "aria-label", "aria-hidden", "role",
        "tabindex", "scope", "style", "href", "rel", "type",
    }  # fmt: skip
    said = "".join(page.words)
    assert EVIL.replace("/", "") in said and "\x1b" not in said
    assert "alert(1)</script>" in said  # as text, in the source


def test_the_page_fetches_nothing(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN})
    text = cli("report", "--output-format", "html").out
    assert not re.search(r"\bsrc=|@import|url\(|<link|<script", text)
    links = [given["href"] for given in Page(text).named("a")]
    assert links and all(str(link).startswith("https://") for link in links)
    assert text.count("http") == 2 * len(links)  # each as a link and as its words, nowhere else


def test_the_page_can_be_read_without_seeing_it(page: Page) -> None:
    assert page.named("html")[0]["lang"] == "en"
    assert len(page.named("h1")) == 1
    scopes = [given.get("scope") for given in page.named("th")]
    assert set(scopes) == {"col", "row"}
    ids = {given["id"] for given in page.named("h2")}
    assert {given["aria-labelledby"] for given in page.named("section")} == ids
    assert len(page.named("input")) == 3  # double(), CUDAGraph, and the unsafe one


def test_each_cell_of_the_heat_map_has_its_number(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN})
    text = cli("report", "--output-format", "html").out
    cells = re.findall(r'<td class="number heat-(\d)">(?:<span class="was">(\d+) → </span>)?(\d+)</td>', text)
    assert cells == [("5", "", "100"), ("2", "0", "50"), ("3", "25", "75"), ("3", "25", "75"), ("3", "50", "75")]


def test_a_page_of_a_thousand_findings_folds_them(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    plans, made = report_command._plans, []

    def planned_once(*given: Any) -> Any:
        """The formats show one project: it takes longer to plan than all of them to lay out."""
        made[:] = made or [plans(*given)]
        return made[0]

    monkeypatch.setattr(report_command, "_plans", planned_once)
    lines = "torch.cuda.cudart()\n" * 30
    write_tree(here, {f"pkg{i}/m.py": f"import torch\nx = torch.zeros(1).cuda()\n{lines}" for i in range(80)})
    ran = cli("report", "--output-format", "html")
    found = Page(ran.out)
    assert "40 more, with fewer sites" in found.words  # modules
    assert "2,370 more" in found.words  # of the checklist
    assert "2,380 places more: " in found.words  # of a reason, with where to see them
    assert len(cli("report", "--output-format", "markdown").out) < 65_536
    assert "1,870 places more: " in found.words  # of the checklist, in its fold
    text = cli("report").out
    assert len(text.splitlines()) < 400 and "and 20 more, with fewer sites" in text


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it, of two colours #rrggbb."""

    def luminance(colour: str) -> float:
        parts = [int(_full(colour)[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _over(one: str, other: str, opacity: float) -> str:
    pairs = [[int(_full(c)[i : i + 2], 16) for c in (one, other)] for i in (1, 3, 5)]
    return "#" + "".join(f"{round(opacity * a + (1 - opacity) * b):02x}" for a, b in pairs)


def _full(colour: str) -> str:
    """#fff as #ffffff."""
    return colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])


def test_text_stands_out_in_light_and_dark() -> None:
    style = (ROOT / "torchmigrate/formats/portability/page.css").read_text()
    roots = re.findall(r":root \{(.*?)\}", style, re.S)
    assert len(roots) == 2
    for root in roots:
        colours = dict(re.findall(r"--([\w-]+): (#\w+);", root))
        for ground in ("paper", "wash", *(f"heat-{i}" for i in range(6))):
            assert contrast(colours["ink"], colours[ground]) >= 7, ground
            assert contrast(_over(colours["ink"], colours[ground], 0.85), colours[ground]) >= 4.5, ground  # `.was`
        for text in ("quiet", "accent", "warn"):
            assert contrast(colours[text], colours["paper"]) >= 4.5, text
        assert contrast(colours["quiet"], colours["wash"]) >= 4.5


def test_markup_is_escaped_unless_it_is_markup() -> None:
    assert element("p", "<b>", element("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert element("input", type="checkbox", disabled=True, hidden=False) == '<input type="checkbox" disabled>'
    assert join("<", Markup("<br>"), None) == "&lt;<br>"


def test_markdown_for_a_pull_request(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN, EVIL_FILE: EVIL_SOURCE})
    text = cli("report", "--output-format", "markdown").out
    assert text.startswith("## Portability of project\n\n5 device-bound sites in 2 of 2 files. As they stand, none ")
    assert "| mps | 5 | 0 (0 %) | 3 (60 %) |" in text
    assert "  - [ ] `train.py:6`: `y = x.double()`" in text
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)  # without code spans
    assert "alert" not in outside and "\x1b" not in text
    rows = [line for line in outside.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5, 6, 8}  # each table's own, with the outer ones


# ---- the documentation


def test_the_page_about_it_has_the_definition() -> None:
    text = (ROOT / "docs" / "report.md").read_text()
    found = re.search(r"<!-- the definition.*?-->\n(.*?)<!-- end -->", text, re.S)
    assert found and " ".join(found[1].split()) == DEFINITION


def test_the_page_about_it_has_all_keys(here: Path, cli: Cli) -> None:
    write_tree(here, {"train.py": TRAIN})
    text = (ROOT / "docs" / "report.md").read_text()
    found = data(cli)
    assert list(found) == re.findall(r"^\| `(\w+)` \|", text, re.M)
    tables = (found["score"]["mps"], found["reasons"][0], found["needs_you"][0], found["apart"], found["modules"][0])
    assert all(f'"{key}"' in text for table in tables for key in table)


def test_the_report_is_as_wide_as_the_terminal_that_it_is_for(here: Path, cli: Cli) -> None:
    (here / "clean.py").write_text("pass\n")
    assert max(map(len, cli("report").out.splitlines())) <= 80
