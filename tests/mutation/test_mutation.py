"""The mutation tester itself: `python tests/mutation/run.py` is the campaign."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write_tree

from mutation.groups import GROUPS, Group
from mutation.operators import mutants
from mutation.run import ROOT, drawn, results, row

PROJECT = {
    "thing.py": "def far(x):\n    unused = 5\n    return x > 2\n",
    "tests/test_thing.py": "from thing import far\n\ndef test_far():\n    assert (far(3), far(2)) == (True, False)\n",
    "tests/test_wrong.py": "def test_wrong():\n    assert False\n",
}
THING = Group(("thing.py",), (("tests/test_thing.py",),), ())


def changes(text: str) -> list[str]:
    """Each mutant as the file would be."""
    raw = text.encode()
    return [m.applied(raw).decode() for m in mutants(raw)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x == 1", ["x == (2)", "x == (0)", "(x != 1)"]),
        ("not x", ["(x)"]),
        ("a and b", ["(a or b)", "(a)", "(b)"]),
        ("if a: f()", ["if (not (a)): f()", "if a: pass"]),
        ("a if b else c", ["(a)", "(c)", "a if (not (b)) else c"]),
        ("def f():\n  'doc'\n  return x", ["def f():\n  'doc'\n  return None"]),
        ("for x in y:\n  break", ["for x in y:\n  continue"]),
        ("x: int = 1", ["x: int = (2)", "x: int = (0)"]),
        ("x = a[:b]", ["x = (a)"]),
        ("x = 'é', True", ["x = ('é?'), True", "x = 'é', (False)"]),
        ("x.y = 'a prose'", ["pass"]),
        ("x = {a for a in b if c}", ["x = ({a for a in b})"]),
        ("f'{x + 1}'", []),
    ],
)
def test_operators(text: str, expected: list[str]) -> None:
    assert sorted(changes(text)) == sorted(expected)


def test_a_draw_stays_when_other_lines_change(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x = 1 + 2\ny = 3 + 4\n"})
    before = {m.where for _, m in drawn(tmp_path, ["a.py"], 1, 4)}
    write_tree(tmp_path, {"a.py": "\n\nz = w\nx = 1 + 2\ny = 3 + 4\n"})
    assert {m.where for _, m in drawn(tmp_path, ["a.py"], 1, 4)} == before
    assert {m.where for _, m in drawn(tmp_path, ["a.py"], 2, 4)} != before


def test_what_no_test_notices_survives(tmp_path: Path) -> None:
    write_tree(tmp_path, PROJECT)
    found = list(results(tmp_path, THING, drawn(tmp_path, ["thing.py"], 0, 20)))
    survivors = [str(each) for each in found if each.outcome == "survived"]
    assert survivors == [
        "survived thing.py:2: unused = 5 | 5 -> (4) #1",
        "survived thing.py:2: unused = 5 | 5 -> (6) #1",
    ]
    assert row("thing", found) == "| thing | 6 | 4 | 0 | 2 | 67% |"


def test_tests_that_fail_anyway_end_it(tmp_path: Path) -> None:
    write_tree(tmp_path, PROJECT)
    wrong = Group(("thing.py",), (("tests/test_wrong.py",),), ())
    with pytest.raises(SystemExit, match=r"fails without a mutant: pytest tests/test_wrong\.py"):
        list(results(tmp_path, wrong, drawn(tmp_path, ["thing.py"], 0, 1)))


@pytest.mark.parametrize("name", GROUPS)
def test_every_file_and_test_of_a_group_is_there(name: str) -> None:
    files = GROUPS[name].files(ROOT)
    assert len(files) >= len(GROUPS[name].patterns)
    tests = {test for file in files for stage in GROUPS[name].stages(file) for test in stage if "/" in test[:6]}
    assert [test for test in tests if test.endswith(".py") and not (ROOT / test).exists()] == []
