"""Environment variables that only CUDA reads, where Python sets or asks for them; each has a counterpart elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.torch_api.libraries import VARIABLES


def environment(site: RuleContext) -> Iterator[Finding]:
    name = site.node.value if isinstance(site.node, ast.Constant) else ""
    text = VARIABLES.get(name) if isinstance(name, str) else None
    if text and _in_environment(site):
        yield site.note(f"`{name!s}`: {text}")


def _in_environment(site: RuleContext) -> bool:
    """`os.environ[...]`, `.get`, `.setdefault`, `os.getenv`, `os.putenv`, `env={...}`, `monkeypatch.setenv`."""
    up = site.parent
    match up:
        case ast.Subscript(value) if site.node is up.slice:
            return _is_environment(value)
        case ast.Call(func, [first, *_]) if first is site.node:
            owner = func.value if isinstance(func, ast.Attribute) else func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            return name in ("getenv", "putenv", "setenv", "unsetenv") or _is_environment(owner)
        case ast.Compare(_, [ast.In() | ast.NotIn()], [right]):
            return _is_environment(right)
        case ast.Dict():
            above = site.module.parent(up)
            return (isinstance(above, ast.keyword) and above.arg == "env") or (
                isinstance(above, ast.Call) and _is_environment(above.func)
            )
    return False


def _is_environment(node: ast.expr) -> bool:
    return "environ" in ast.unparse(node) or ast.unparse(node) in ("env", "envs", "my_env", "new_env", "current_env")
