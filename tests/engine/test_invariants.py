"""The promises of the design: nothing but edits changes, runs come to rest, same input gives same output."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, planned, python, write_plan, write_tree
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Finding, Status
from torchmigrate.engine import worker
from torchmigrate.engine.case_runner import migrate
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project import discovery
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting.rewrite import RewriteError, rewrite
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Prefilter
from torchmigrate.source.edits import Edit, compose, flatten
from torchmigrate.source.encoding import decode

FIXTURES = sorted(
    p.name for p in (ROOT / "fixtures").iterdir() if p.is_dir() and p.name not in ("expected", "__pycache__")
)
RULES = dispatch_table(packs.load())

# What must come out as it went in, byte for byte.
NEUTRAL = [
    "x  =  { 'a':1 ,\n   'b' : 2 }  # cuda\n",
    "'''\ntorch.cuda.empty_cache()\n'''\n",
    "\n\n\n",
    "# torch.cuda.synchronize()\n",
    "def f( torch ):\n  torch.cuda.empty_cache( )\n",
    "class  A :\n\tx=1;y = 2\n",
    "if True : z = 1 ; w = (\n  2)\n",
    "\x0c\nq = lambda : 'cuda'  \n",
    "s = f'{x!r:>{y}} cuda {{}}'\n",
    "t = 1 + \\\n    2\n",
    "print ( 'ünïcödé', '\\x00', r'\\cuda' )   \n",
    "for i in x :\n\n    pass\n\n    # end\n",
    "@ deco\ndef g ( a , b = 2 , ) : ...\n",
    "try:\n    pass\nexcept   E :\n    pass\n",
    "x = [ i for i in y if i ]  ;\n",
    "async def h():\n    async with a as b , c : await d\n",
]
REWRITTEN = [
    ("torch.cuda.empty_cache()  # free\n", "accel.empty_cache()  # free\n"),
    ("def k():\n\ttorch.cuda.empty_cache( )\n\n", "def k():\n\taccel.empty_cache( )\n\n"),
    ("u = [torch.ones(1).cuda()  ,  2]\n", "u = [torch.ones(1).to(accel.device())  ,  2]\n"),
    ("v = f(torch.ones(1)\n  .cuda(), 'é')  \n", "v = f(torch.ones(1)\n  .to(accel.device()), 'é')  \n"),
    ("torch.cuda.synchronize(); r = 1\n", "accel.synchronize(); r = 1\n"),
]
chunks = st.one_of(st.sampled_from([(n, n) for n in NEUTRAL]), st.sampled_from(REWRITTEN))


def both(parts: list[tuple[str, str]]) -> tuple[str, str]:
    before, after = ("".join(texts) for texts in zip(*parts, strict=True))
    helper = "import accel\n" if before != after else ""
    return f"import torch\n{before}", f"import torch\n{helper}{after}"


# ---- 1 and 2: every byte outside of edits survives
@given(st.lists(chunks, min_size=1, max_size=7))
def test_1_what_is_not_rewritten_is_not_reprinted(parts: list[tuple[str, str]]) -> None:
    before, after = both(parts)
    assert migrate(before.encode(), RULES)[0].decode() == after


SHAPES: dict[str, Callable[[str], bytes]] = {
    "CRLF": lambda t: t.replace("\n", "\r\n").encode(),
    "BOM": lambda t: b"\xef\xbb\xbf" + t.encode(),
    "BOM and CRLF": lambda t: b"\xef\xbb\xbf" + t.replace("\n", "\r\n").encode(),
    "no final newline": lambda t: t.rstrip("\n").encode(),
    "CR": lambda t: t.replace("\\\n", "").replace("\n", "\r").encode(),
    "latin-1": lambda t: f"# coding: latin-1\n{t}".encode("latin-1"),
    "utf-8 cookie": lambda t: f"#!/usr/bin/python\n# -*- coding: utf-8 -*-\n{t}".encode(),
    "form feed first": lambda t: f"\x0c{t}".encode(),
    "many blank lines": lambda t: f"{t}\n\n\n  \n".encode(),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_2_the_shape_of_a_file_survives(shape: str) -> None:
    parts = [p for pair in zip([(n, n) for n in NEUTRAL], REWRITTEN * 4, strict=False) for p in pair]
    before, after = map(SHAPES[shape], both(parts))
    assert migrate(before, RULES)[0] == after


@given(st.lists(chunks, min_size=2, max_size=5), st.integers(0, 10**6))
def test_2_mixed_newlines_survive(parts: list[tuple[str, str]], seed: int) -> None:
    before, after = both(parts)
    *lines, last = before.split("\n")
    draw = random.Random(seed)
    mixed = "".join(line + draw.choice(["\n", "\r\n"]) for line in lines) + last
    found = migrate(mixed.encode(), RULES)[0].decode()
    assert found.replace("\r\n", "\n") == after
    kept = [line for line in mixed.splitlines(keepends=True) if "torch." not in line and ".cuda()," not in line]
    assert [line for line in kept if line not in found] == []


def test_2_a_character_that_the_encoding_lacks_is_refused_not_lost(tmp_path: Path) -> None:
    raw = "# coding: latin-1\nimport torch\nx = 'é'\ntorch.cuda.empty_cache()\n".encode("latin-1")
    write_tree(tmp_path, {"a.py": raw})
    changed = planned(tmp_path)["a.py"]
    assert isinstance(changed, Changed)
    assert changed.after == raw.replace(b"torch\n", b"torch\nimport accel\n").replace(b"torch.cuda.e", b"accel.e")


# ---- 3: runs come to rest, or the file is put back
def with_handler(handler: Callable[[RuleContext], object], tmp_path: Path) -> DispatchTable:
    head = 'summary = "s"\nsafety = "safe"\nwhy = "w"\n'
    text = head + '[[rewrite]]\nmatch = "torch.cuda.f($$a)"\nwith = "torch.cuda.f(1, $$a)"\n'
    rule = packs.load_rule(write_tree(tmp_path, {"mine/restless.toml": text}) / "mine/restless.toml")
    return DispatchTable({"torch.cuda.f": ((rule, handler),)}, (), Prefilter((b"cuda",), (), False))  # type: ignore[arg-type]


def run_once(rules: DispatchTable) -> object:
    text = decode(b"import torch\ntorch.cuda.f()\n")
    return rewrite(Path("/case.py"), text, rules, ProjectContext(Path("/"), Settings()))


def test_3_no_rest_is_an_error_that_names_the_rule(tmp_path: Path) -> None:
    def handler(site: RuleContext) -> object:
        yield site.rewrite("torch.cuda.f($$a)", "torch.cuda.f(1, $$a)")

    with pytest.raises(RewriteError, match=r"10 passes \(mine/restless\)"):
        run_once(with_handler(handler, tmp_path))


@pytest.mark.parametrize("text", ["torch.cuda.f((", "1 +", "x = "])
def test_3_what_would_not_parse_is_an_error_that_names_the_rule(text: str, tmp_path: Path) -> None:
    def handler(site: RuleContext) -> object:
        yield site.fix([Edit(*site.module.span(site.node), text)])

    with pytest.raises(RewriteError, match=r"no longer parse .* rules: mine/restless"):
        run_once(with_handler(handler, tmp_path))


def test_3_a_file_with_an_error_is_put_back_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import torch\ntorch.cuda.empty_cache()\n"
    root = write_tree(tmp_path, {"bad.py": text, "good.py": text})

    def fails(path: Path, *rest: object, **how: object) -> object:
        if path.name == "bad.py":
            raise RewriteError("does not come to rest")
        return rewrite(path, *rest, **how)  # type: ignore[arg-type]

    monkeypatch.setattr("torchmigrate.engine.worker.rewrite", fails)
    found = planned(root)
    assert type(found["bad.py"]).__name__ == "Failed"
    assert isinstance(found["good.py"], Changed)


# ---- 4: a second run changes nothing
@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
@pytest.mark.parametrize("name", FIXTURES)
def test_4_a_second_run_changes_nothing(name: str, unsafe: bool, tmp_path: Path) -> None:
    root = tmp_path / name
    shutil.copytree(ROOT / "fixtures" / name, root, ignore=shutil.ignore_patterns("__pycache__"))
    assert write_plan(root, unsafe_fixes=unsafe), "a fixture that needs no migration"
    assert write_plan(root, unsafe_fixes=unsafe) == {}


@pytest.mark.parametrize("name", FIXTURES)
def test_4_what_is_left_is_left_again(name: str, tmp_path: Path) -> None:
    """The findings that remain after a run are those that a check of the result gives."""
    root = tmp_path / name
    shutil.copytree(ROOT / "fixtures" / name, root, ignore=shutil.ignore_patterns("__pycache__"))
    first = planned(root)
    remaining = {n: told(r.findings) for n, r in first.items() if isinstance(r, Changed)}
    write_tree(root, {n: r.after for n, r in first.items() if isinstance(r, Changed)})
    again = planned(root, "check")
    assert {n: told(again[n].findings) if n in again else [] for n in remaining} == remaining  # type: ignore[union-attr]


def told(findings: tuple[Finding, ...]) -> list[tuple[str, int, int, str]]:
    open_ = [f for f in findings if f.status in (Status.OPEN, Status.HELD)]
    return sorted((f.rule, f.line, f.column, f.message) for f in open_)


@pytest.mark.parametrize("name", FIXTURES)
def test_4_the_passes_make_one_edit_of_the_original(name: str) -> None:
    for path in (ROOT / "fixtures" / name).rglob("*.py"):
        source = decode(path.read_bytes())
        outcome = rewrite(path, source, RULES, ProjectContext(Path("/"), Settings()))
        flat = flatten(outcome.passes, len(source.utf8))
        assert compose(source.utf8, flat) == outcome.text
        for finding in outcome.applied:
            assert 0 <= finding.start <= finding.end <= len(source.utf8)
            assert source.position(finding.start) == (finding.line, finding.column)


# ---- 5: the same bytes and the same report, whatever the jobs and the order
@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """All fixtures in one tree, and what one job makes of them."""
    root = tmp_path_factory.mktemp("all") / "fixtures"
    shutil.copytree(ROOT / "fixtures", root, ignore=shutil.ignore_patterns("expected", "__pycache__"))
    return root, outcome_of(root, 1)


def outcome_of(root: Path, jobs: int) -> dict[str, object]:
    return planned(root, jobs=jobs)  # frozen dataclasses: equal means equal in every field, in the same order


@pytest.mark.parametrize("jobs", [2, 4])
def test_5_one_job_or_many(
    jobs: int, everything: tuple[Path, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, one = everything
    monkeypatch.setattr(worker, "POOL_BYTES", 0)  # small trees do not get processes else
    many = outcome_of(root, jobs)
    assert list(many) == list(one)
    assert [n for n in one if many[n] != one[n]] == []


@pytest.mark.parametrize("seed", range(3))
def test_5_any_order_of_files(
    seed: int, everything: tuple[Path, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, sorted_ = everything
    discover = discovery.discover

    def shuffled(*given: object) -> list[discovery.DiscoveredFile]:
        found = discover(*given)  # type: ignore[arg-type]
        random.Random(seed).shuffle(found)
        return found

    monkeypatch.setattr(discovery, "discover", shuffled)
    found = outcome_of(root, 1)
    assert list(found) == list(sorted_)
    assert [n for n in found if found[n] != sorted_[n]] == []


def test_5_hash_seeds_do_not_matter(tmp_path: Path) -> None:
    code = (
        "import sys, hashlib; from pathlib import Path; from torchmigrate.engine import planner\n"
        "from torchmigrate.config.settings import Settings\n"
        "root = Path(sys.argv[1]); plan = planner.plan([root], Settings(root=root, unsafe_fixes=True), 1, 'apply')\n"
        "print(hashlib.sha256(repr([r for r in plan.results if not r.path.name == 'accel.py']).encode()).hexdigest())"
    )
    found = {python(code, str(ROOT / "fixtures" / "cnn")).stdout for _ in range(3)}
    assert len(found) == 1
    assert len(found.pop().strip()) == 64


# ---- 9: nothing of the project is imported or run
def test_9_the_project_is_neither_imported_nor_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = (
        "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\nimport torch\nx = torch.ones(1).cuda()\n"
    )
    names = (
        "train.py",
        "pkg/__init__.py",
        "pkg/a.py",
        "setup.py",
        "conftest.py",
        "torch.py",
        "accel/__init__.py",
        "libcst.py",
        "tomllib.py",
    )
    root = write_tree(tmp_path, {**dict.fromkeys(names, trap), "pkg/b.py": "from pkg.a import *\n" + trap})
    monkeypatch.chdir(root)
    for command in (["check"], ["apply", "--dry-run"], ["apply", "--allow-dirty"]):
        ran = python(
            f"import os, sys; sys.path[0] = {str(ROOT)!r}; os.chdir({str(root)!r})\n"
            "from torchmigrate.cli.app import run\nsys.exit(run(sys.argv[1:]))",
            *command,
        )
        assert ran.returncode in (0, 1), ran.stderr
        assert list(root.rglob("*.ran")) == []
        assert not list(root.rglob("__pycache__"))


def test_9_torch_is_never_imported(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": "import torch\nx = torch.ones(1).cuda()\n"})
    ran = python(
        "import sys; from torchmigrate.cli.app import run\n"
        "run(['apply', '--allow-dirty', sys.argv[1]]); print(sorted({'torch', 'numpy'} & set(sys.modules)))",
        str(root),
    )
    assert ran.stdout.splitlines()[-1] == "[]", ran
    assert "accel.device()" in (root / "train.py").read_text()
