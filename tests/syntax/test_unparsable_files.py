"""What is said of files that this Python does not parse: what, where, and the way out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran

from torchmigrate.source import encoding

THIS = ".".join(map(str, sys.version_info[:2]))
NEWER = {
    "3.12": (
        "def f[T](x: T): pass",
        "async def f[*Ts](x): pass",
        "class G[T, **P](B): pass",
        "type X[T] = list[T]",
        "type X = int",
        "x = f'{d['a']}'",
        "x = f'{\"\\n\".join(y)}'",
        "if x:\n    def f[T: (int, str)](x: T): pass",
    ),
    "3.14": ("x = t'a{b}'", 'x = f(tr"{a}")'),
}
OLD = (
    "print 'x'", "exec 'x'", "raise E, 'x'", "x = 0777", "x = 10L", "x <> y", "y = `x`", "def f((a, b)): pass",
    "x = ur'y'", "f = lambda (a, b): a",
)  # fmt: skip
NEITHER = (
    "x = (", "def f(:", "x = 'don", "class = 1", "type(x) = = 1", "def f() []", "x = f'{a'", "print(1) 2", "x['t'] y",
    "import torch as", "pass pass",
)  # fmt: skip


def said(text: str) -> str:
    with pytest.raises(SyntaxError) as caught:
        ast.parse(text)
    return encoding.syntax_message(caught.value)


@pytest.mark.parametrize(("release", "text"), [(r, text) for r, texts in NEWER.items() for text in texts])
def test_newer_syntax(release: str, text: str) -> None:
    if tuple(map(int, release.split("."))) <= sys.version_info[:2]:
        ast.parse(text)  # what is said to be newer is Python
        return
    told = said(text)
    assert told.startswith(f"syntax of Python {release}, and this is Python {THIS} (")
    assert told.endswith(f"; run torchmigrate with Python {release}")


@pytest.mark.parametrize("text", OLD)
def test_python_2(text: str) -> None:
    assert said(text).startswith("not Python 3 (")
    assert said(text).endswith("; it looks like Python 2: port it to Python 3 first")


@pytest.mark.parametrize("text", NEITHER)
def test_neither(text: str) -> None:
    assert said(text).startswith("not Python 3 (") and said(text).endswith(")")


def test_by_the_command_line(here: Path, cli: Callable[..., Ran]) -> None:
    (here / "new.py").write_text("import torch\nx.cuda()\ny = t'{x}'\n")
    (here / "old.py").write_text("import torch\nx.cuda()\nprint 'x'\n")
    ran = cli("apply")
    assert ran.status == 2
    if sys.version_info < (3, 14):
        assert f"error: new.py: line 3: syntax of Python 3.14, and this is Python {THIS} (" in ran.err
    assert "error: old.py: line 3: not Python 3 (Missing parentheses" in ran.err and "looks like Python 2" in ran.err
