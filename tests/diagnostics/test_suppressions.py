"""Suppression comments: what they cover, what is wrong with them."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.source.encoding import Source, decode

RULE = "device/tensor-cuda"
BOTH = "# torchmigrate: ignore[a/b, c/d]"
IGNORE = f"# torchmigrate: ignore[{RULE}] because"


def covered(code: str, rule: str = RULE) -> list[int]:
    source = decode(textwrap.dedent(code).replace("IGNORE", IGNORE).encode())
    found = suppressions.find(source, ast.parse(source.utf8))
    return [line for line in range(1, code.count("\n") + 2) if found.status(rule, line)]


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("a\nx.cuda()  # IGNORE\nb", []),  # `# # torchmigrate` is no directive
        ("a\nx.cuda()  IGNORE\nb", [2]),
        ("f(\n  x,\n  y.cuda(),  IGNORE\n  z,\n)\nb", [1, 2, 3, 4, 5]),
        ("f(\n  # why\n  IGNORE\n  y.cuda(),\n)\nb", [1, 2, 3, 4, 5]),
        ("a\nIGNORE\nx.cuda()\nb", [3]),
        ("IGNORE\n# more\n\nf(\n  x)\nb", [4, 5]),
        ("IGNORE\nif a:\n    b\nelse:\n    c", [2]),
        ("IGNORE\nwith (\n    a as b,\n    c as d,\n):\n    e", [2, 3, 4, 5]),
        ("def f(\n    x='cuda',  IGNORE\n):\n    y\n", [1, 2, 3]),
        ("def f(x):\n    IGNORE\n    y\n    z", [3]),
        ("IGNORE\n@torch.no_grad()\n@other\ndef f(x):\n    y", [2, 3, 4]),
        ("class A:\n    IGNORE\n    @staticmethod\n    def f(x):\n        y", [3, 4]),
        ("if a: x.cuda()  IGNORE\nb", [1]),
        ("if a: f(\n  x.cuda())  IGNORE\nb", [1, 2]),
        ("try:\n    a\nexcept torch.cuda.OutOfMemoryError:  IGNORE\n    b", [3]),
        ("match a:\n    case 1:  IGNORE\n        b\n    case 2:\n        c", [2]),
        ("for i in a:\n    b\n    IGNORE\nc", [4]),
        ("s = '''\nIGNORE\n'''\nb", []),
        ("a; x.cuda()  IGNORE\nb", [1]),
        ("a\nIGNORE", [2]),
    ],
)
def test_covers_the_logical_statement(code: str, lines: list[int]) -> None:
    assert covered(code) == lines


def test_line_numbers_are_those_of_ast_whatever_the_line_ends() -> None:
    for end in ("\r\n", "\r"):
        raw = f"a{end}{IGNORE}{end}x.cuda(){end}".encode()
        found = suppressions.find(decode(raw), ast.parse(raw))
        assert [line for line in range(1, 5) if found.status(RULE, line)] == [3]


def test_off_lasts_until_on_or_the_end() -> None:
    off, on = "# torchmigrate: off", "# torchmigrate: on"
    assert covered(f"a\n{off}\nx.cuda()\nif a:\n    y\n{on}\nb") == [2, 3, 4, 5, 6]
    assert covered(f"a\n{off}\nb\nc") == [2, 3, 4]
    assert covered(f"a\n{off}[device] a reason\nb\n{on}\nc") == [2, 3, 4]
    assert covered(f"a\n{off}[device]\nb\n{on}[device]\nc", "amp/autocast") == []
    assert covered(f"{off}[device]\n{off}[amp]\na\n{on}[device]\nb", "amp/autocast") == [2, 3, 4, 5]


def test_what_is_wrong_with_off_and_on() -> None:
    found = suppressions.find(Source(b"# torchmigrate: on\n# torchmigrate: off[amp]\na\n# torchmigrate: off\n"))
    known = {"amp", "device"}
    nothing = "suppresses nothing here"
    assert [(line, why) for line, _, why in found.unused(known, known)] == [
        (1, "`on` stands here, and nothing is off"),
        (2, f"`off[amp]` {nothing}"),
        (4, f"`off` {nothing}"),
    ]
    assert [line for line, _, _ in found.unused(known, {"device"})] == [1]  # a run of some rules cannot know


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        (
            "a.py",
            "if a:\n    f(\n      x.cuda())\n",
            "if a:\n    # torchmigrate: ignore[a/b, c/d]\n    f(\n      x.cuda())\n",
        ),
        ("a.py", 's = """\n\nx""".cuda()\r\n', '# torchmigrate: ignore[a/b, c/d]\ns = """\n\nx""".cuda()\r\n'),
        ("run.sh", "a\n\ndocker \\\n --gpus\n", f"a\n\n{BOTH}\ndocker \\\n --gpus\n"),
        ("k.cu", "\n\nint x;", f"\n\n//{BOTH[1:]}\nint x;"),
        ("a.json", "{\n\n}", None),
        ("a.ipynb", "{\n\n}", None),
    ],
)
def test_comments_are_added_above_the_statement(name: str, text: str, after: str | None) -> None:
    findings = [Finding(rule, Safety.SAFE, 0, 1, "m", line=3) for rule in ("c/d", "a/b")]
    done, left = suppressions.add(Path(name), text.encode(), findings)
    assert (done.decode(), len(left)) == ((text, 2) if after is None else (after, 0))


def test_names_rules_and_packs_but_no_others() -> None:
    code = "x  # torchmigrate: ignore[device/tensor-cuda, memory]"
    assert covered(code) == [1]
    assert covered(code, "memory/empty-cache") == [1]
    assert covered(code, "device/string") == []
    assert covered(code, "device/tensor-cuda-index") == []
    assert covered(code, "memory-more/x") == []


def test_a_file_without_the_mark_is_not_parsed() -> None:
    found = suppressions.find(Source(b"def ("))
    assert not found.skip_file
    assert found.unused() == []


def test_skip_file_is_a_comment_and_no_string() -> None:
    assert suppressions.find(Source(b"a\n# torchmigrate: skip-file (generated)\n")).skip_file
    assert not suppressions.find(Source(b"a = '# torchmigrate: skip-file'\n")).skip_file


def test_useless_comments_are_listed() -> None:
    code = b"""a  # torchmigrate: ignore[device/tensor-cuda]
b  # torchmigrate: ignore
c  # torchmigrate: ignroe[device]
d  # torchmigrate: ignore[device/tensor-cudda, memory]
"""
    found = suppressions.find(Source(code))
    assert found.status(RULE, 1)
    known = {"device", RULE, "memory"}
    assert [(line, name) for line, name, _ in found.unused(known)] == [
        (2, ""),
        (3, "ignroe"),
        (4, "device/tensor-cudda"),
        (4, "memory"),
    ]
    reasons = [why for _, _, why in found.unused(known)]
    assert "say which rule" in reasons[0]
    assert "not understood" in reasons[1]
    assert "did you mean `device/tensor-cuda`?" in reasons[2]
    assert reasons[3] == "suppresses nothing here"
    # a rule that this run does not look at is not blamed
    assert [line for line, _, _ in found.unused(known, active={"device", RULE})] == [2, 3, 4]
    assert len(found.unused(known, active={"device", RULE})) == 3


def test_many_unknown_names_get_few_hints() -> None:
    """A hint compares a name with all rules: a comment with 100,000 names took minutes."""
    names = [f"device/x{number}" for number in range(5_000)]
    found = suppressions.find(decode(f"x = 1  # torchmigrate: ignore[{','.join(names)}]\n".encode()))
    told = found.unused({"device", "device/x"})
    assert len(told) == len(names)
    assert sum("did you mean" in why for _, _, why in told) == 20
