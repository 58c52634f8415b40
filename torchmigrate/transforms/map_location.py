"""`torch.load(f)` of a checkpoint saved on CUDA: on CUDA nothing may move (T16), elsewhere it must."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site
from torchmigrate.transforms.device_index import index_safety


def map_location(site: Site) -> Iterator[Finding]:
    call = site.call
    if call is None or any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return
    given = next((k.value for k in call.keywords if k.arg == "map_location"), call.args[1] if len(call.args) > 1 else None)
    if given is None:
        yield from _missing(site, call)
    elif isinstance(given, ast.Lambda):
        yield from _function(site, given)
    elif index_safety(given) and not isinstance(given, ast.Constant):
        yield site.replace(given, f"accel.device({site.module.text(given)})", index_safety(given))


def _missing(site: Site, call: ast.Call) -> Iterator[Finding]:
    if not site.module.facts.mentions_cuda or not call.args:
        return
    if call.keywords:
        names = ", ".join(f"{k.arg}=${k.arg}" for k in call.keywords)
        found = site.rewrite(f"torch.load($f, {names})", f"torch.load($f, map_location=accel.map_location(), {names})")
    else:
        found = site.rewrite("torch.load($f)", "torch.load($f, map_location=accel.map_location())")
    if found and found.fix:
        yield _keep_spelling(site, found)


def _keep_spelling(site: Site, found: Finding) -> Finding:
    """Only the new argument is written: `load(` stays as the file spells it."""
    from torchmigrate.edits import Edit

    call = site.call
    assert call is not None
    island = site.module.island(call)
    start = site.module.span(call)[0]
    assert island is not None
    import libcst as cst

    root = island.root
    assert isinstance(root, cst.Call)
    after = island.span(root.args[0].value)[1]
    assert start < after
    return site.fix([Edit(after, after, f", map_location={site.module.names['accel']}.map_location()")], text="")


def _function(site: Site, given: ast.Lambda) -> Iterator[Finding]:
    """`lambda storage, loc: storage` keeps all on the CPU; with `.cuda(i)` it moves all to one device."""
    names = [a.arg for a in given.args.args]
    body = given.body
    match body:
        case ast.Call(ast.Attribute(ast.Name(name), "cuda"), [], []) if names and name == names[0]:
            yield site.replace(given, "accel.device()")
        case ast.Call(ast.Attribute(ast.Name(name), "cuda"), [index], []) if names and name == names[0]:
            yield site.replace(given, f"accel.device({site.module.text(index)})")
