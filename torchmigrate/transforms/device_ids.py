"""`device_ids=` and `output_device=` of DataParallel and DistributedDataParallel: None off multi-device backends (T6)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site


def device_ids(site: Site) -> Iterator[Finding]:
    call = site.call
    if call is None:
        return
    for keyword in call.keywords:
        if keyword.arg == "device_ids":
            yield from _ids(site, keyword.value)
        elif keyword.arg == "output_device" and not _is_none(keyword.value) and not _is_ours(site, keyword.value):
            yield site.replace(keyword.value, f"accel.output_device({site.module.text(keyword.value)})")
    if len(call.args) > 1 and not isinstance(call.args[1], ast.Starred):
        yield from _ids(site, call.args[1])


def _ids(site: Site, node: ast.expr) -> Iterator[Finding]:
    text = site.module.text(node)
    if _is_none(node) or _is_ours(site, node):
        return
    if isinstance(node, ast.List) and len(node.elts) == 1:
        yield site.replace(node, f"accel.device_ids({site.module.text(node.elts[0])})")
    else:
        yield site.replace(node, f"accel.device_ids({text})")


def _is_ours(site: Site, node: ast.expr) -> bool:
    return site.module.text(node).startswith(f"{site.module.names['accel']}.")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
