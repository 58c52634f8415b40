"""Comments change no decision, whatever they say: they add no finding, take none away and make no fix safe."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest
from conftest import module

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.engine.case_runner import migrate
from torchmigrate.fixers import registry
from torchmigrate.project.context import OwnCuda
from torchmigrate.rewriting.rewrite import inspect
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.rules import packs
from torchmigrate.rules.model import Rule

FIXED = [rule for rule in packs.load().rules.values() if rule.fixer]
MARK = "#: "  # begins the comments of these tests

Told = tuple[str, list[tuple[str, ...]]]


def told(code: str, rules: DispatchTable, unsafe: bool, *comments: str) -> Told:
    """The rewritten code between comments, without them, and what is said of which line of it."""
    block = "".join(f"{MARK}{line}\n" for line in comments)
    after, findings = migrate(f"{block}{code}\n{block}".encode(), rules, unsafe)
    lines = after.decode().splitlines()
    said = [
        (f.rule, f.status.value, re.sub(r"\bline \d+", "line", f.message), *lines[f.line - 1 : f.end_line])
        for f in findings
    ]
    return "\n".join(line for line in lines if not line.startswith(MARK)), said


@cache
def strings_of(path: Path) -> str:
    """The strings of a fixer's module, which are names and words that it looks for, and messages."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return " ".join(dict.fromkeys(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)))


def remarks(rule: Rule) -> list[str]:
    """A rule's literals with its fixer's strings, and each line of its cases."""
    spec = importlib.util.find_spec(registry.find(rule).module)
    assert spec is not None
    assert spec.origin is not None
    words = f"{' '.join(rule.literals)} {strings_of(Path(spec.origin))}"
    cases = [f"{case.before}\n{case.after or ''}" for case in rule.cases if not case.file]
    found = dict.fromkeys(" ".join(line.split()) for line in (words.replace("\n", " "), *"\n".join(cases).splitlines()))
    return [line for line in found if line and "torchmigrate:" not in line]


@pytest.mark.parametrize("rule", FIXED, ids=[rule.id for rule in FIXED])
def test_comments_change_nothing(rule: Rule, rules: DispatchTable) -> None:
    """All that a rule and its fixer look for, in comments around the code of the rule's cases."""
    comments = remarks(rule)
    wrong = []
    for case in rule.cases:
        if case.file:
            continue
        code = case.before.strip("\n")
        plain, now = told(code, rules, case.unsafe), told(code, rules, case.unsafe, *comments)
        if plain != now:
            which = next((c for c in comments if told(code, rules, case.unsafe, c) != plain), "all")
            wrong.append(
                f"{rule.path}:{case.line}: {case.title}: {_difference(plain, now)}, for example with # {which}"
            )
    assert wrong == []


def _difference(plain: Told, now: Told) -> str:
    if plain[0] != now[0]:
        return f"gives\n{now[0]}\ninstead of\n{plain[0]}"
    return f"more {[f for f in now[1] if f not in plain[1]]}, less {[f for f in plain[1] if f not in now[1]]}"


CAPABILITY = "def f():\n    major, _ = torch.cuda.get_device_capability()\n    return major >= 8"
# the code, and a comment that a search of the text would take for code
PAIRS = [
    ('def f(backend):\n    if backend == "nccl":\n        return True', 'the old default: backend = "nccl"'),
    (CAPABILITY, "TODO: look at torch.version.hip one day"),
    ('MODE = "cuda"', "was once given to x.to(MODE)"),
    ('MODE = "cuda"', "device = MODE"),
    ("x = torch.load(f)", "torch.accelerator.is_available() is another way"),
    ("x.to(rank)", "torch.accelerator.device_count()"),
    ("n = torch.cuda.device_count()\nx = a", "y = b // n"),
    ("n = torch.cuda.device_count()\nx = a % n", "nprocs=n"),
    ("if x.is_cuda:\n    x = x.cuda()", "x.is_cuda = True"),
    ('class A:\n    device: str = field(default="cuda")', "read off A.device"),
    ('def f(device="cuda"):\n    return torch.zeros(1, device=device)', "device is None"),
    ("if torch.cuda.is_available():\n    x = x.cuda()", "not src.gpu.psamask_forward(x)"),
    ("if torch.cuda.is_available():\n    x = x.cuda()  # roi_align.forward_cuda(x)", "correlation_cuda.forward(x)"),
    ("if torch.cuda.is_available() and x:  # not for mps\n    x = x.cuda()", "mps"),
    ("def f(data):\n    x = [1.0]\n    return torch.cuda.FloatTensor(x)", "global x"),
]


def found(text: str, rules: DispatchTable) -> list[tuple[object, ...]]:
    it = module(f"import torch\nfrom dataclasses import field\n{text}\n", is_for_devices=True)
    return [_said(finding) for finding in inspect(it, rules, it.facts)]


def _said(finding: Finding) -> tuple[object, ...]:
    edits = tuple((e.start, e.end, e.text) for e in finding.fix.edits) if finding.fix else ()
    return finding.rule, finding.start, finding.status, finding.safety, finding.message, edits


@pytest.mark.parametrize(("code", "comment"), PAIRS)
def test_a_comment_changes_no_decision(code: str, comment: str, rules: DispatchTable) -> None:
    assert found(f"{code}\n# {comment}", rules) == found(code, rules)
    assert found(f'{code}\n"""\n{comment}\n"""', rules) == found(code, rules)


def test_a_comment_in_a_test_is_no_part_of_it(rules: DispatchTable) -> None:
    plain = "if (torch.cuda.is_available()\n{}\n    and x):\n    x = x.cuda()"
    without, commented = (found(plain.format(" " * 10 + note), rules) for note in ("#          ", "# or on mps"))
    assert without == commented


@pytest.mark.parametrize("name", ["Net", "Generator"])
def test_a_class_in_a_comment_is_no_receiver(name: str, rules: DispatchTable) -> None:
    facts = {"is_for_devices": True, "own_cuda": OwnCuda(frozenset({"Generator"}))}
    it = module(f"import torch\n# {name}\ndef f(x):\n    x.cuda()\n", **facts)
    assert [f.message for f in inspect(it, rules, it.facts)] == ["`.cuda()` moves to CUDA and to nothing else"]


def test_the_same_words_decide_as_code(rules: DispatchTable) -> None:
    chosen = 'config = dict(backend="nccl")\nfast = config["backend"] == "nccl"'
    assert told(chosen, rules, False)[0].count('"xccl"') == 1
    for code, expected in ((CAPABILITY, True), (f"{CAPABILITY}\nprint(torch.version.hip)", False)):
        names = [found[0] for found in told(f"import torch\n{code}", rules, False)[1]]
        assert ("hazard/capability" in names) is expected


def test_a_parenthesis_in_a_comment_is_no_call(rules: DispatchTable) -> None:
    code = "from torch.amp import GradScaler\nscaler = (GradScaler  # (CUDA)\n          ())\n"
    expected = code.replace("())", "(accel.scaler_type()))").replace("scaler =", "import accel\nscaler =")
    assert migrate(code.encode(), rules)[0].decode() == expected
