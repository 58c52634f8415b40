"""Find the conditions about CUDA that a rewritten project still has, and that keep work on the CPU elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchmigrate.torch_api.backends import having
from torchmigrate.verify.diagnosis.failures import first_line
from torchmigrate.verify.migration import Origins

_NAMES = (*having("cuda"), "nvidia")
_WORDS = (*_NAMES, "gpu")
_SHOWN = 3


def left(origins: Origins, files: Iterable[str]) -> list[str]:
    """Return the conditions in these files of the rewritten project, as "train.py:12 `torch.version.cuda`".

    Those that name CUDA come first, before those that speak of a GPU.
    """
    found = [
        (not any(_holds(node, _NAMES) for node in ast.walk(test)), f"{origin.path}:{origin.line} `{text}`")
        for name in sorted(files)
        for test in _conditions(origins.root / name)
        if (origin := origins(str(origins.root / name), test.lineno)) and (text := first_line(ast.unparse(test)))
    ]
    return [shown for _, shown in sorted(dict.fromkeys(found), key=lambda each: each[0])][:_SHOWN]


def _conditions(path: Path) -> Iterator[ast.expr]:
    """Yield the tests about CUDA of statements and conditional expressions, and the flags that are set by one."""
    try:
        module = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(module):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            tests = [node.test]
        elif isinstance(node, ast.Assign) and _is_question(node.value):
            tests = [node.value]
        else:
            continue
        yield from (test for test in tests if any(_holds(part, _WORDS) for part in ast.walk(test)))


def _is_question(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr.startswith(("is_", "has_")) or value.func.attr == "device_count"
    return isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp))


def _holds(node: ast.AST, words: Iterable[str]) -> bool:
    """Return whether a name or text holds one of the words."""
    name = {ast.Name: "id", ast.Attribute: "attr", ast.Constant: "value"}.get(type(node), "")
    text = getattr(node, name, None) if name else None
    return isinstance(text, str) and any(word in text.lower() for word in words)
