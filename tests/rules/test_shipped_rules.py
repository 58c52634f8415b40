"""The rules that ship: every case of every rule in every shape, and what each rule file must have."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import ROOT

from torchmigrate.diagnostics.finding import Safety
from torchmigrate.engine.case_runner import SHAPES, Shape, check_case
from torchmigrate.fixers import registry
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Case, Rule, Ruleset
from torchmigrate.syntax.pattern import check_template, compile_pattern

RULES = packs.load()
CASES = [(rule, case) for rule in RULES.rules.values() for case in rule.cases]
BACKENDS = {"cpu", "cuda", "rocm", "mps", "xpu", "npu", "mtia", "hpu", "mlu", "musa", "xla", "privateuse1"}
SHARED = {
    "torchmigrate.fixers.device.device_defaults",
    "torchmigrate.fixers.device.device_lists",
}  # what other fixers call
_HELPED = re.compile(r"\baccel\.(\w+(?:\.\w+)?)")
_HOST = re.compile(r"https?://([^/\"' )]+)")
_KNOWN_HOSTS = {"docs.pytorch.org", "pytorch.org", "github.com", "example.org"}

each_rule = pytest.mark.parametrize("rule", RULES.rules.values(), ids=list(RULES.rules))


@pytest.fixture(scope="module")
def alone() -> dict[str, DispatchTable]:
    return {rule.id: dispatch_table(Ruleset({rule.id: rule})) for rule in RULES.rules.values()}


each_case = pytest.mark.parametrize(("rule", "case"), CASES, ids=[f"{r.id}:{c.line} {c.title}" for r, c in CASES])


def holds(rule: Rule, case: Case, tables: dict[str, DispatchTable], shapes: Mapping[str, Shape]) -> None:
    failed = list(check_case(rule, case, tables, shapes))
    assert not failed, f"{rule.path}:{case.line}: {failed[0].title}: {failed[0].message}"


@each_case
def test_case(rule: Rule, case: Case, rules: DispatchTable, alone: dict[str, DispatchTable]) -> None:
    """As it stands, alone and with all rules, twice. A `todo` must fail."""
    by_itself = {} if case.together else {"alone": alone[rule.id]}
    holds(rule, case, {**by_itself, "with all rules": rules}, {"plain": SHAPES["plain"]})


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES.rules.values(), ids=list(RULES.rules))
def test_cases_in_other_shapes(rule: Rule, rules: DispatchTable) -> None:
    """With all rules, twice: CRLF, BOM, without a final newline, indented, with tabs."""
    for case in (case for case in rule.cases if not case.todo):
        holds(rule, case, {"with all rules": rules}, {name: s for name, s in SHAPES.items() if name != "plain"})


@each_rule
def test_a_rule_says_what_it_is_about(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z_]+/[a-z0-9]+(-[a-z0-9]+)*", rule.id)
    assert 10 <= len(rule.summary) <= 120
    assert not rule.summary.endswith(".")
    assert len(rule.why.split()) >= 8
    assert rule.why.endswith((".", ")", "`"))
    assert rule.see
    assert set(rule.backends) <= BACKENDS


@each_rule
def test_a_rule_has_cases_for_and_against(rule: Rule) -> None:
    speaks = [c for c in rule.cases if c.after is not None or c.finding]
    silent = [c for c in rule.cases if c.after is None and not c.todo]
    assert speaks, "no case that shows a rewrite or a finding"
    assert silent, "no case that must not change"


@each_rule
def test_cases_are_told_apart_and_are_python(rule: Rule) -> None:
    titles = [c.title for c in rule.cases]
    assert len(titles) == len(set(titles)), [t for t in titles if titles.count(t) > 1]
    for case in rule.cases:
        for text in filter(None, (case.before, case.after, case.native)) if not case.file else ():
            ast.parse(text)
        assert case.native is None or case.after != case.native != case.before, case.title
        assert case.after is None or case.after != case.before, f"{case.title}: leave `after` out where nothing changes"


@each_rule
def test_the_first_case_is_the_example_of_the_documentation(rule: Rule) -> None:
    first = rule.cases[0]
    assert not first.todo
    assert first.after is not None or first.finding or rule.safety is Safety.DISPLAY


@each_rule
def test_templates_fit_their_patterns(rule: Rule) -> None:
    for rewrite in rule.rewrites:
        pattern = compile_pattern(rewrite.match)
        for template in filter(None, (rewrite.template, rewrite.native)):
            check_template(pattern, template)


@each_rule
def test_a_rule_file_points_at_documentation_alone(rule: Rule) -> None:
    """No registries, no mirrors: a page of torch's documentation, or an issue."""
    assert set(_HOST.findall(rule.path.read_text(encoding="utf-8"))) <= _KNOWN_HOSTS


def test_ids_are_unique_and_are_paths() -> None:
    paths = [p for p in packs.builtin().glob("*/*.toml") if packs.is_rule(p)]
    assert sorted(RULES.rules) == sorted(f"{p.parent.name}/{p.stem}" for p in paths)
    assert [i for i, r in RULES.rules.items() if r.id != i] == []


def test_every_fixer_exists_and_is_used() -> None:
    found = [registry.find(rule) for rule in RULES.rules.values() if rule.fixer]
    for fixer in found:
        assert inspect.isgeneratorfunction(getattr(importlib.import_module(fixer.module), fixer.function)), fixer
        path = fixer.module.removeprefix("torchmigrate.fixers.").replace(".", "/")
        assert fixer.function in registry.fixers_of(path), fixer  # as rules of other packs are checked
    used = {fixer.module for fixer in found}
    assert {f"torchmigrate.fixers.{path.replace('/', '.')}" for path in registry.modules()} - used == SHARED


def test_every_rule_gets_a_place_in_the_table(rules: DispatchTable) -> None:
    placed = {rule.id for found in (*rules.by_key.values(), *(f for _, f in rules.wide)) for rule, _ in found}
    assert placed | {text.rule.id for text in rules.texts.rules} == set(RULES.rules)


def helper_names() -> set[str]:
    """What runtime.py defines at its top level, and the attributes of its classes; read, not imported."""
    tree = ast.parse((ROOT / "torchmigrate/runtime.py").read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name):
                names.add(name)
            case ast.ClassDef(name, body=body):
                names |= {name, *(f"{name}.{f.name}" for f in body if isinstance(f, ast.FunctionDef))}
            case ast.Assign(targets):
                names |= {t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)}
            case ast.AnnAssign(ast.Name(name)):
                names.add(name)
            case ast.ImportFrom(names=aliases) | ast.Import(aliases):
                names |= {a.asname or a.name for a in aliases}
    return names


def helped(text: str) -> set[str]:
    return {name.split(".")[0] for name in _HELPED.findall(text)}


@each_rule
def test_the_helper_has_what_templates_call(rule: Rule) -> None:
    texts = [t for r in rule.rewrites for t in (r.template, r.native) if t]
    texts += [c.after for c in rule.cases if c.after]
    assert helped(" ".join(texts)) - {"py"} - helper_names() == set()


def test_the_helper_has_what_fixers_write() -> None:
    own = helper_names()
    missing = {}
    for path in sorted(Path(registry.__file__).parent.rglob("*.py")):
        strings = [
            n.value
            for n in ast.walk(ast.parse(path.read_text()))
            if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        if unknown := helped(" ".join(strings)) - own - {"x", "X"}:
            missing[path.name] = unknown
    assert missing == {}


def test_a_template_of_the_declarative_rules_parses() -> None:
    for rule in RULES.rules.values():
        for rewrite in rule.rewrites:
            for text in filter(None, (rewrite.match, rewrite.template, rewrite.native)):
                compile_pattern(text)


def test_every_promise_has_a_case() -> None:
    """docs/safety.md names the promises; the titles of cases begin with these names."""
    promised = set(re.findall(r"^\| ([a-z-]+) \| .+\. \|$", (ROOT / "docs/safety.md").read_text("utf-8"), re.M))
    kept = {case.title.partition(":")[0] for _, case in CASES}
    assert len(promised) == 23
    assert promised - kept == set()


def test_the_wrong_answer_of_a_case_is_noticed(rules: DispatchTable) -> None:
    """The harness itself: a case that expects too much, too little, or is marked todo and passes."""
    rule = RULES.rules["memory/empty-cache"]
    tables, shapes = {"alone": rules}, {"plain": SHAPES["plain"]}

    def failures(before: str, after: str | None, **flags: bool | None) -> list[str]:
        known = {"todo": False, "unsafe": False, "finding": None, **flags}
        return [f.message for f in check_case(rule, Case("t", before, after, line=1, **known), tables, shapes)]  # type: ignore[arg-type]

    text, new = "import torch\ntorch.cuda.empty_cache()\n", "import torch\nimport accel\naccel.empty_cache()\n"
    assert failures(text, new) == []
    assert "gives" in failures(text, None)[0]
    assert "instead of" in failures(text, text + "x = 1\n")[0]
    assert failures(text, new, todo=True) == ["is marked todo, and passes"]
    assert failures(text, None, todo=True) == []
    assert "has no finding" in failures("x = 1\n", None, finding=True)[0]
    assert "SyntaxError" in failures("x = \n", None)[0]
