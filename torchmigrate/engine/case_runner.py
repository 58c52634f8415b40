"""Run the test cases of rule files, plain and in other shapes of file, for `rules test DIR` and our own tests."""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.base.system import syntax_tree
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Finding, Unchanged
from torchmigrate.helper.import_edits import with_import
from torchmigrate.project.context import ProjectContext, own_cuda
from torchmigrate.rewriting.rewrite import RewriteError, rewrite
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules.model import Case, Rule, Ruleset
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import Edit, compose
from torchmigrate.source.encoding import decode

Shape = Callable[[str], bytes]
_NEWEST_TORCH = ">=2.13"


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A case that does not hold; `line` is that of its `[[case]]` header."""

    rule: str
    title: str
    line: int
    message: str


def _indent(text: str) -> bytes:
    """Return code with all after its leading imports in an `if`; invalid Python stays as it is."""
    try:
        body = syntax_tree(text).body
    except (SyntaxError, ValueError):
        return text.encode()
    head = list(itertools.takewhile(lambda s: isinstance(s, (ast.Import, ast.ImportFrom)), body))
    if len(head) == len(body):
        return text.encode()
    lines = text.splitlines(keepends=True)
    cut = head[-1].end_lineno if head else 0
    return ("".join(lines[:cut]) + "if True:\n" + textwrap.indent("".join(lines[cut:]), "    ")).encode()


SHAPES: Mapping[str, Shape] = {
    "plain": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "no final newline": lambda text: text.removesuffix("\n").encode(),
    "indented": _indent,
    "tabs": lambda text: text.replace("    ", "\t").encode(),
}


def check_cases(ruleset: Ruleset, only: Collection[str]) -> Iterator[tuple[Rule, list[CaseFailure]]]:
    """Run every case of the rules in `only`; yield each rule with its failures.

    A case runs with its rule alone and with all rules, in every shape of file, and twice, as a second run must change
    nothing. `todo` cases must fail.
    """
    everything = dispatch_table(ruleset)
    for rule in (r for r in ruleset.rules.values() if r.id in only):
        alone = dispatch_table(Ruleset({rule.id: rule}))
        cases = ((case, _tables(case, alone, everything)) for case in rule.cases)
        yield rule, [failure for case, tables in cases for failure in check_case(rule, case, tables, SHAPES)]


def _tables(case: Case, alone: DispatchTable, everything: DispatchTable) -> dict[str, DispatchTable]:
    both = {} if case.together else {"alone": alone}
    return {**both, "with all rules": everything}


def check_case(
    rule: Rule, case: Case, tables: Mapping[str, DispatchTable], shapes: Mapping[str, Shape]
) -> Iterator[CaseFailure]:
    """Yield the failure of one case, if it has one, with each of the tables and in each of the shapes."""
    found = [
        f"{how}, {name}: {why}"
        for how, t in tables.items()
        for name, s in shapes.items()
        if (why := _run(rule, case, t, s) or (case.native and _run(rule, case, t, s, case.native)))
    ]
    if case.todo and not found:
        yield CaseFailure(rule.id, case.title, case.line, "is marked todo, and passes")
    elif found and not case.todo:
        yield CaseFailure(rule.id, case.title, case.line, found[0])


def _run(rule: Rule, case: Case, rules: DispatchTable, shape: Shape, native: str | None = None) -> str | None:
    """Return why a case fails, or None; `native` is the expected result in native style."""
    if case.file:
        return _run_text(rule, case, rules, shape)
    before = shape(case.before.lstrip("\n"))
    after = case.before if case.after is None else case.after
    expected = shape((native or after).lstrip("\n"))
    style = "native" if native else "helper"
    try:
        given, findings = migrate(before, rules, case.unsafe, style)
        again, _ = migrate(given, rules, case.unsafe, style)
    except (RewriteError, SyntaxError) as error:
        return f"{type(error).__name__}: {error}"
    if given != expected:
        return (
            f"gives in {style} style\n"
            + textwrap.indent(given.decode(), "    ")
            + "  instead of\n"
            + textwrap.indent(expected.decode(), "    ")
        )
    if again != given:
        return "a second run gives\n" + textwrap.indent(again.decode(), "    ")
    return _wrong_finding(rule, case, findings)


def _run_text(rule: Rule, case: Case, rules: DispatchTable, shape: Shape) -> str | None:
    """Return why a case of a text rule fails, or None; text rules rewrite nothing, so only the finding is compared."""
    if shape in (SHAPES["indented"], SHAPES["tabs"]):
        return None  # shapes of Python code only
    raw = shape(case.before.lstrip("\n"))
    found = rules.texts.inspect(Path("/", case.file), raw)
    return _wrong_finding(rule, case, found.findings if isinstance(found, Unchanged) else ())


def _wrong_finding(rule: Rule, case: Case, findings: Sequence[Finding]) -> str | None:
    if case.finding is None:
        return None
    if case.finding is any(f.rule == rule.id and f.status.value in ("open", "held") for f in findings):
        return None
    return "has no finding of the rule" if case.finding else "has a finding of the rule"


def migrate(
    raw: bytes, rules: DispatchTable, unsafe: bool = False, style: str = "helper", plain: bool = False
) -> tuple[bytes, list[Finding]]:
    """Rewrite one file as a script (native style: for the newest torch); return its bytes and remaining findings.

    `plain` also makes of the edits what people would write, which hides what each rule does.
    """
    source = decode(raw)
    settings = Settings(unsafe_fixes=unsafe, style=style)
    torch = _NEWEST_TORCH if style == "native" else None
    facts = ProjectContext(Path("/"), settings, own_cuda=own_cuda([raw]), torch=torch)
    outcome = rewrite(Path("/case.py"), source, rules, facts, plain)
    text = replace(source, utf8=outcome.text)
    edits: tuple[Edit, ...] = ()
    if outcome.needs_helper or outcome.needs_torch:
        statement = "import accel" if outcome.needs_helper else ""
        module = SemanticModel(Path("/case.py"), text, facts, source.utf8)
        edits = with_import(module, statement, outcome.needs_torch)
    return source.encode(compose(outcome.text, edits)), list(outcome.remaining)
