"""Findings whose advice the code follows already: behind a test for NVIDIA's devices, or beside one for MPS."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.edits import Finding, Status
from torchmigrate.module import Module
from torchmigrate.regions import Region, cover_branch
from torchmigrate.spans import Around, Span

_NVIDIA = re.compile(r"\bis_nvidia\(\)|\btorch\.version\.cuda\b|\bget_device_capability\(")
_DENIES = re.compile(r"\bnot\b(?! None)|\bis None\b|==|!=")
_MPS = re.compile(r"\b(is_)?mps\b")


def reasons(module: Module, findings: list[Finding]) -> dict[Finding, str]:
    """The findings without a fix that ask for what is done, each with the reason to leave it alone."""
    open_ones = [f for f in findings if f.fix is None and f.status is Status.OPEN]
    nvidia = _behind_nvidia(module) if open_ones and _NVIDIA.search(module.source.text) else ()
    mps = _beside_mps(module) if any(f.backends == ("mps",) for f in open_ones) else ()
    beside = Around((span, "beside a test for MPS") for span in mps)
    behind = Around((span, "behind a test for NVIDIA's devices") for span in nvidia)
    found = {f: beside.find(f.start, f.end) for f in open_ones if f.backends == ("mps",)}
    found |= {f: reason for f in open_ones if (reason := behind.find(f.start, f.end))}
    return {f: reason for f, reason in found.items() if reason}


def _behind_nvidia(module: Module) -> Iterator[Span]:
    """What `if accel.is_nvidia():` and `if torch.version.cuda:` cover, also as `x if ... else y` or after a refusal."""
    for statement in _branches(module):
        if (needed := _needs_nvidia(statement.test)) is not None:
            region = Region()
            cover_branch(module, statement, not needed, region)
            yield from (span for span in region.covered if span != module.span(statement.test))
    for choice in _choices(module):
        if (needed := _needs_nvidia(choice.test)) is not None:
            yield module.span(choice.body if needed else choice.orelse)
    for chain in (n for n in list(module.scopes.parent) if isinstance(n, ast.BoolOp)):
        asked = [_needs_nvidia(value) is isinstance(chain.op, ast.And) for value in chain.values]
        if True in asked:
            yield from map(module.span, chain.values[asked.index(True) + 1 :])


def _needs_nvidia(test: ast.expr) -> bool | None:
    """True where the test holds on NVIDIA's devices alone, False where it fails there alone, None where neither."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            inner = _needs_nvidia(operand)
            return None if inner is None else not inner
        case ast.BoolOp(op, values):
            wanted = isinstance(op, ast.And)
            return wanted if any(_needs_nvidia(value) is wanted for value in values) else None
    text = ast.unparse(test)
    return True if _NVIDIA.search(text) and not _DENIES.search(text) else None


def _beside_mps(module: Module) -> Iterator[Span]:
    """Both branches of what asks for MPS, and what follows where one of them leaves: somebody thought of it."""
    for statement in _branches(module):
        if _MPS.search(ast.unparse(statement.test)):
            yield module.span(statement)
            region = Region()
            cover_branch(module, statement, True, region)
            cover_branch(module, statement, False, region)
            yield from region.covered
    yield from (module.span(c) for c in _choices(module) if _MPS.search(ast.unparse(c.test)))


def _branches(module: Module) -> Iterator[ast.If | ast.While]:
    return (s for s in module.scopes.statements if isinstance(s, (ast.If, ast.While)))


def _choices(module: Module) -> Iterator[ast.IfExp]:
    return (n for n in list(module.scopes.parent) if isinstance(n, ast.IfExp))
