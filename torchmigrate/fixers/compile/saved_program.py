"""`torch.jit.load` and `torch.export.load`: what they read goes to the device that it was saved on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.torch_use import is_for_devices

_SAVES = re.compile(r"(?<!torch)\.save\(")


def saved_program(site: RuleContext) -> Iterator[Finding]:
    call, module = site.call, site.module
    text = module.source.text
    if call is None or not (call.args or call.keywords) or any(k.arg is None for k in call.keywords):
        return
    if not is_for_devices(module) or "torch.accelerator" in text:
        return
    if site.qualified == "torch.jit.load":
        given = next((k.value for k in call.keywords if k.arg == "map_location"), next(iter(call.args[1:2]), None))
        none = given is None or (isinstance(given, ast.Constant) and given.value is None)
        if none and not (re.search(r"jit\.(script|trace)", text) and _SAVES.search(text)):
            yield site.note()
    elif "move_to_device_pass" not in text:
        yield site.note()
