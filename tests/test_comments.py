"""A comment never changes a decision, whatever it says."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from torchmigrate.engine.case_runner import migrate
from torchmigrate.fixers import registry
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.rules import packs
from torchmigrate.rules.model import Rule

FIXED = [rule for rule in packs.load().rules.values() if rule.fixer]
MARK = "#: "  # begins the comments of these tests

Told = tuple[str, list[tuple[str, ...]]]


def told(code: str, rules: DispatchTable, unsafe: bool, *comments: str) -> Told:
    """The rewritten code between comments, without them, and what is said of which line of it.

    All of it mentions CUDA, which a comment may do: without a mention, the fixes of some rules are unsafe."""
    block = "".join(f"{MARK}{line}\n" for line in ("cuda", *comments))
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


# code, and a comment that once changed what is said of it
PAIRS = {
    "a comparison, and an old default": (
        'def fast(backend):\n    if backend == "nccl":\n        return True\n',
        'the old default: backend = "nccl"',
    ),
    "a string, and a device that it once was": ('MODE = "cuda"\n', "was once given to x.to(MODE)"),
    "a capability, and a plan": (
        "import torch\n\n\ndef flash():\n    major, _ = torch.cuda.get_device_capability()\n    return major >= 8\n",
        "TODO: look at torch.version.hip one day",
    ),
}


@pytest.mark.parametrize(("code", "comment"), PAIRS.values(), ids=list(PAIRS))
def test_what_comments_once_decided(code: str, comment: str, rules: DispatchTable) -> None:
    assert told(code, rules, False, comment) == told(code, rules, False)


def test_a_kept_capability_is_reported_beside_a_comment(rules: DispatchTable) -> None:
    code, comment = PAIRS["a capability, and a plan"]
    assert "hazard/capability" in [found[0] for found in told(code, rules, False, comment)[1]]


def test_what_is_no_comment_still_decides(rules: DispatchTable) -> None:
    """The same words as code."""
    compared, capability = PAIRS["a comparison, and an old default"][0], PAIRS["a capability, and a plan"][0]
    assert told(f'{compared}config = dict(backend="nccl")\n', rules, False)[0].count("accel.dist_backend()") == 1
    asked = told(f"{capability}print(torch.version.hip)\n", rules, False)[1]
    assert "hazard/capability" not in [found[0] for found in asked]
