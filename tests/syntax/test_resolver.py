"""Blocks: where a statement stands, and which statements leave a block or end the program."""

from __future__ import annotations

import ast

import pytest
from conftest import module

from torchmigrate.syntax.resolver import ends_program, leaves_block, skips_test


def test_the_block_of_a_statement_and_what_is_above_it():
    it = module(
        "a\ntry:\n    b\nexcept E:\n    c\n    d\nfinally:\n    e\n    f\nmatch x:\n    case 1:\n        g\n        h\n"
    )
    for statement in it.scopes.statements:
        block, at = it.blocks.place(statement)
        assert block[at] is statement
        assert it.blocks.before(statement) == block[:at]
    above = {ast.unparse(s): [ast.unparse(b) for b in it.blocks.before(s)] for s in it.scopes.statements}
    assert {name: found for name, found in above.items() if len(name) == 1} == {
        "a": [], "b": [], "c": [], "d": ["c"], "e": [], "f": ["e"], "g": [], "h": ["g"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "leaves", "ends", "skips"),
    [
        ("return", True, False, False),
        ("a; break", True, False, False),
        ("continue", True, False, False),
        ("raise E", True, True, False),
        ("sys.exit(1)", True, True, False),
        ("exit()", True, True, False),
        ("quit()", True, True, False),
        ("os._exit(1)", True, True, False),
        ("pytest.skip('no')", True, False, True),
        ("self.skipTest('no')", True, False, True),
        ("raise unittest.SkipTest('no')", True, False, True),
        ("raise SkipTest", True, False, True),
        ("return; a", False, False, False),
        ("window.exit", False, False, False),
        ("x = sys.exit(1)", False, False, False),
    ],
)
def test_what_leaves_a_block(text: str, leaves: bool, ends: bool, skips: bool):
    body = ast.parse(text).body
    assert (leaves_block(body), ends_program(body), skips_test(body)) == (leaves, ends, skips)
    assert not leaves_block([]) and not ends_program([]) and not skips_test([])
