"""Shared: whether code runs on NVIDIA's devices alone by a test around it that no rule rewrites."""

from __future__ import annotations

import ast
import re

from torchmigrate.module import Site

_NVIDIA = re.compile(r"\bis_nvidia\(|get_device_capability\(|version\.(cuda|hip)\b|\.type == 'cuda'|\.is_cuda\b")


def for_nvidia(site: Site) -> bool:
    """`if accel.is_nvidia(): ...`, `... if torch.version.cuda else ...`, `accel.is_nvidia() and ...`."""
    below: ast.AST = site.node
    for up in site.module.ancestors(site.node):
        match up:
            case ast.If(test, body) if below in body and _NVIDIA.search(ast.unparse(test)):
                return not _negated(test)
            case ast.IfExp(test, body) if below is body and _NVIDIA.search(ast.unparse(test)):
                return not _negated(test)
            case ast.BoolOp(ast.And(), values) if below in values:
                if any(_NVIDIA.search(ast.unparse(v)) for v in values[: values.index(below)]):
                    return True
        below = up
    return False


def _negated(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
