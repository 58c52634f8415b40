"""`device_id=` of process groups and `device_ids=` of `barrier`: None where the backend takes no device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Edit, Finding
from torchmigrate.module import Site
from torchmigrate.transforms.device_expression import wrapped
from torchmigrate.transforms.device_ids import ids_wrapped

_KEYWORDS = {"torch.distributed.barrier": "device_ids"}


def device_id(site: Site) -> Iterator[Finding]:
    name = _KEYWORDS.get(site.qualified or "", "device_id")
    given = next((k.value for k in site.call.keywords if k.arg == name), None) if site.call is not None else None
    if given is None or _stays(site, given):
        return
    yield site.fix(_edits(site, given, name))


def _edits(site: Site, given: ast.expr, name: str) -> list[Edit]:
    if name == "device_ids":
        return ids_wrapped(site, given, name)
    return wrapped(site.module, given, "accel.output_device(")


def _stays(site: Site, given: ast.expr) -> bool:
    """None, the helper's, or a file that asks torch.accelerator and so is portable by its own means."""
    none = isinstance(given, ast.Constant) and given.value is None
    helper = site.module.text(given).startswith(tuple(f"{site.module.names['accel']}.{n}(" for n in _OURS))
    return none or helper or "torch.accelerator" in site.module.source.text


_OURS = ("output_device", "device_ids")
