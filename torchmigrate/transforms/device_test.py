"""Tests of a device type: `x.is_cuda`, `device == "cuda"`, `"cuda" in str(device)`, `device.type.startswith("cuda")`.

Rewritten only together with something that they guard (guards.py); a bare `fused = device == "cuda"` may well mean NVIDIA.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.edits import Finding
from torchmigrate.module import Site
from torchmigrate.transforms.device_expression import DEVICE_NAME


def device_test(site: Site) -> Iterator[Finding]:
    if isinstance(site.ref, ast.Attribute):
        found = site.rewrite("$x.is_cuda", "accel.is_accelerated($x)", site.ref)
        if found and isinstance(site.ref.ctx, ast.Load):
            yield _follows(found)
        return
    test = _test(site)
    if test is None:
        return
    node, match, positive = test
    template = "accel.is_accelerated($x)" if positive else "not accel.is_accelerated($x)"
    found = site.rewrite(match, template, node)
    if found:
        yield _follows(found)


def _follows(finding: Finding) -> Finding:
    return replace(finding, follows=True)


def _test(site: Site) -> tuple[ast.AST, str, bool] | None:
    """(the whole test, its pattern, whether it asks for CUDA rather than for anything else)."""
    text = site.node.value if isinstance(site.node, ast.Constant) else None
    up = site.parent
    match up:
        case ast.Compare(left, [op], [right]) if text == "cuda":
            return _compare(up, left, op, right, site.node)
        case ast.Call(ast.Attribute(subject, "startswith"), [argument], []) if argument is site.node and text in ("cuda", "cuda:"):
            return (up, _pattern(subject, f'.startswith("{text}")'), True) if _is_device(subject) else None
    return None


def _compare(node: ast.Compare, left: ast.expr, op: ast.cmpop, right: ast.expr, string: ast.AST) -> tuple[ast.AST, str, bool] | None:
    subject = left if right is string else right
    positive = isinstance(op, (ast.In, ast.Eq))
    if not _is_device(subject):
        return None
    match op:
        case ast.In() | ast.NotIn() if left is string:
            return node, _pattern(subject, "", f'"cuda" {"in" if positive else "not in"} '), positive
        case ast.Eq() | ast.NotEq():
            before, after = ("", f' {_SIGN[positive]} "cuda"') if right is string else (f'"cuda" {_SIGN[positive]} ', "")
            return node, _pattern(subject, after, before), positive
    return None


_SIGN = {True: "==", False: "!="}


def _is_device(subject: ast.expr) -> bool:
    """Whether a device, its type or its text is asked, and no message, name or backend (T20)."""
    match subject:
        case ast.Call(ast.Name("str"), [inner], []) | ast.Attribute(inner, "type"):
            return _is_device(inner)
        case ast.Name(name) | ast.Attribute(_, name):
            return bool(DEVICE_NAME.search(name))
        case ast.Subscript(_, ast.Constant(str(key))):
            return bool(DEVICE_NAME.search(key))
    return False


def _pattern(subject: ast.expr, after: str, before: str = "") -> str:
    """`str(x)`, `x.type` and `x.device.type` are asked through x itself."""
    match subject:
        case ast.Call(ast.Name("str"), [_], []):
            return f"{before}str($x){after}"
        case ast.Attribute(ast.Attribute(_, "device"), "type"):
            return f"{before}$x.device.type{after}"
        case ast.Attribute(_, "type"):
            return f"{before}$x.type{after}"
    return f"{before}$x{after}"
