"""`torch.autocast("cuda", ...)`, `torch.amp.autocast`, `GradScaler("cuda")`, `custom_fwd(device_type="cuda")`.

Off CUDA these were disabled, and `autocast("cpu")` would be enabled: the helper keeps dtype and enabled state (T7, T8).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from torchmigrate.edits import Edit, Finding, Safety
from torchmigrate.module import Module, Site

_HELPER = {"autocast": "autocast", "GradScaler": "grad_scaler", "custom_fwd": "custom_fwd", "custom_bwd": "custom_bwd"}
# what stands at these places after the device; the helper takes autocast's in another order, GradScaler's as they are
_POSITIONS: dict[str, Sequence[str]] = {"autocast": ("dtype", "enabled", "cache_enabled"), "GradScaler": ("",) * 5}
_PARTIAL = "functools.partial"


def autocast(site: Site) -> Iterator[Finding]:
    assert site.qualified is not None
    name = site.qualified.rpartition(".")[2]
    call, arguments = _arguments(site)
    if call is None:
        return
    device = _device(call, arguments)
    value = device.value if isinstance(device, ast.keyword) else device
    text = value.value if isinstance(value, ast.Constant) else None
    if device is None and name == "GradScaler" and not arguments:
        text = "cuda"  # its default
    if not isinstance(text, str) or not re.fullmatch(r"cuda(:\d+)?", text):
        return
    edits = _edits(site.module, call, arguments, device, _POSITIONS.get(name, ()))
    if edits is None:
        yield site.note(f"{site.rule.summary} (not rewritten: its arguments are in an unusual form)")
        return
    start, end = site.module.span(site.ref)
    edits.append(Edit(start, end, f"{site.module.names['accel']}.{_HELPER[name]}"))
    if text == "cuda":
        yield site.fix(edits)
    else:
        yield site.fix(
            edits, Safety.UNSAFE, f'{site.rule.message}; a device type has no index, "{text}" may be a mistake'
        )


def _arguments(site: Site) -> tuple[ast.Call | None, list[ast.expr]]:
    """The call that holds the arguments, and its positional ones: `partial(torch.autocast, ...)` is a call too."""
    up = site.parent
    if site.call is not None:
        return site.call, site.call.args
    if isinstance(up, ast.Call) and up.args[:1] == [site.ref] and site.module.resolve(up.func) == _PARTIAL:
        return up, up.args[1:]
    return None, []


def _device(call: ast.Call, arguments: list[ast.expr]) -> ast.expr | ast.keyword | None:
    given = [k for k in call.keywords if k.arg in ("device_type", "device")]
    return arguments[0] if arguments else given[0] if given else None


def _edits(
    module: Module,
    call: ast.Call,
    arguments: list[ast.expr],
    device: ast.expr | ast.keyword | None,
    positions: Sequence[str],
) -> list[Edit] | None:
    """Take the device out and name what stood after it. None where the text between arguments is more than commas."""
    rest = arguments[1:]
    if len(rest) > len(positions) or any(isinstance(a, ast.Starred) for a in arguments):
        return None
    edits = [
        Edit(at, at, f"{name}=") for name, a in zip(positions, rest, strict=False) if name and (at := module.span(a)[0])
    ]
    if device is None:
        return edits
    gap = _gap(module, call, device)
    return [*edits, gap] if gap else None


def _gap(module: Module, call: ast.Call, device: ast.expr | ast.keyword) -> Edit | None:
    """The argument with the comma that goes with it."""
    spans = sorted(module.span(a) for a in (*call.args, *call.keywords))
    start, end = module.span(device)
    at = spans.index((start, end))
    if at + 1 < len(spans):
        edit, comma = Edit(start, spans[at + 1][0], ""), (end, spans[at + 1][0])
    elif at:
        edit, comma = Edit(spans[at - 1][1], end, ""), (spans[at - 1][1], start)
    else:
        stop = module.span(call)[1] - 1
        head = module.source.utf8[module.span(call)[0] : start]
        bare = start - len(head) + len(head.rstrip(b" \t\r\n\\"))
        edit, comma = Edit(bare, stop, ""), (end, stop)
    between = module.source.utf8[slice(*comma)]
    return edit if not between.strip(b", \t\r\n\\") else None
