"""`torch.load(f)` of a checkpoint saved on CUDA: on CUDA nothing may move (T16), elsewhere it must."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.matching.template import spell
from torchmigrate.semantic.device_expr import in_fstring
from torchmigrate.semantic.spelling import asks_accelerator, spelled
from torchmigrate.source.edits import Edit

_KEPT = "accel.map_location()"


def map_location(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None or any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return
    given = next(
        (k.value for k in call.keywords if k.arg == "map_location"), call.args[1] if len(call.args) > 1 else None
    )
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        if not site.module.facts.mentions_cuda or not (call.args or call.keywords):
            return
        if asks_accelerator(site.module):
            yield site.left("a file that asks torch.accelerator is portable by its own means")
        else:
            yield site.replace(given, _KEPT) if given else _missing(site, call)
    elif isinstance(given, ast.Lambda):
        yield from _function(site, given)


def _missing(site: RuleContext, call: ast.Call) -> Finding:
    """Only the new argument is written, after the first: `load(` stays as the file spells it."""
    if in_fstring(site.module, call):  # `ast` may misplace these before Python 3.12
        return site.rewrite("torch.load($f)", f"torch.load($f, map_location={_KEPT})") or site.note()
    island = site.module.island(call)
    if island is None:
        return site.note()
    after = island.span(island.root.args[0].value)[1]  # type: ignore[attr-defined]
    edits = [Edit(after, after, spell(f", map_location={_KEPT}", spelled(site.module)))]
    if site.module.path.suffix == ".ipynb":  # another cell, not in this file's order, may count on where it was
        return site.fix(edits, Safety.UNSAFE, f"{site.rule.message}; what other cells do with it is not known")
    return site.fix(edits)


def _function(site: RuleContext, given: ast.Lambda) -> Iterator[Finding]:
    """`lambda storage, loc: storage` keeps all on the CPU; with `.cuda(i)` it moves all to one device."""
    names = [a.arg for a in given.args.args]
    match given.body:
        case ast.Call(ast.Attribute(ast.Name(name), "cuda"), [], []) if names and name == names[0]:
            yield site.replace(given, "accel.device()")
        case ast.Call(ast.Attribute(ast.Name(name), "cuda"), [index], []) if names and name == names[0]:
            yield site.replace(given, f"accel.device({site.module.text(index)})")
        case body if any(isinstance(n, ast.Attribute) and n.attr == "cuda" for n in ast.walk(body)):
            yield site.note("a function that moves storages to CUDA: give `map_location` the device itself")
