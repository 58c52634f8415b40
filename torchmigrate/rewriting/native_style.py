"""Native style: calls of the helper that this run wrote become torch.accelerator's where they mean the same.

The one place that maps the helper's functions to torch's; rules add theirs by `native` in a `[[rewrite]]`. Measured on
torch 2.13: all functions of torch.accelerator but `_TOTAL` raise on a machine without an accelerator, so the others are
native only in code that does not run there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchmigrate.project.helper_parts import defers_cuda
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.semantic.dominance import for_types, is_guarded, know_parents
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import (
    asks_accelerator,
    binds_torch,
    helper_names,
    spell,
    spelled,
    words_in,
)
from torchmigrate.source.edits import Around, Edit, flatten
from torchmigrate.syntax.scope import FUNCTIONS

_TOTAL = ("is_available", "device_count")
_TYPE = "torch.accelerator.current_accelerator().type"
_OR_CPU = 'torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")'
# None moves nothing, and without an accelerator all is on the CPU; not for a class with a `to()` of its own
_MOVE = "torch.accelerator.current_accelerator(check_available=True)"
_ANYWHERE = {
    "is_available": "torch.accelerator.is_available()",
    "device_count": "torch.accelerator.device_count()",
    "device(0)": 'torch.device(0) if torch.accelerator.is_available() else torch.device("cpu")',
    "device_type": f'{_TYPE} if torch.accelerator.is_available() else "cpu"',
}
_GUARDED = {
    "device(0)": "torch.device(0)",  # the accelerator's, whichever it is; another index is none of MPS's
    "device": "torch.accelerator.current_accelerator()",
    "device_type": _TYPE,
    "autocast_type": _TYPE,  # these two differ from it on the CPU and on MPS before torch 2.8
    "scaler_type": _TYPE,
}
_FULL = ">=2.9"  # the torch that the tables above are true of
_SINCE = ">=2.7"  # `check_available`
_BEFORE = 'torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")'
_EARLY = {"is_available", "device_count", "device", "device_type"}  # the same in the first torch.accelerator
_SKIPPED = re.compile(r"\.(empty_cache|\w*memory\w*)$")  # by dynamo, unlike torch.cuda's
_CHOICE = re.compile(r"torch\.accelerator\.current_accelerator\b.* (else|or) ")
_COMMENT = re.compile(rb"#[^\r\n]*")
_ASKED = re.compile(rb"\bis_available\b")
_OPEN = (ast.keyword, ast.Assign, ast.AnnAssign, ast.Return, ast.Tuple, ast.List, ast.arguments, ast.Expr)


@dataclass(frozen=True, slots=True)
class Written:
    """A span of the new text that this run wrote, and the text that stood there before."""

    start: int
    end: int
    before: bytes


def written(original: bytes, passes: Sequence[Sequence[Edit]]) -> Iterator[Written]:
    shift = 0
    for edit in flatten(passes, len(original)):
        size = len(edit.text.encode())
        yield Written(edit.start + shift, edit.start + shift + size, original[edit.start : edit.end])
        shift += size - (edit.end - edit.start)


def respelled(module: SemanticModel, spans: Sequence[Written], rules: DispatchTable) -> Iterator[Edit]:
    """Yield edits to a migrated module, in each span that this run wrote."""
    names = _of_rules(module, rules)
    know_parents(module)
    found = list(helper_uses(module, spans))
    # only in such a file is `torch.device(0)` the accelerator's: to a second run, too
    asks = any(own in _TOTAL for _, own, _ in found) or any(asks_accelerator(module, f".{name}") for name in _TOTAL)
    for node, own, span in found:
        if not _has_torch(module, node):
            continue
        call = module.parent(node)
        if isinstance(call, ast.Call) and call.func is node:
            text = _called(module, own + _index(call), call, span, names, asks)
        else:
            call, text = node, names.get(own) if _is_total(names.get(own, "torch.accelerator.")) else None
        if text:
            edit = Edit(*module.span(call), spell(_enclosed(module, call, text), spelled(module)))
            yield from () if module.loses_comment(edit) else (edit,)


def _has_torch(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether torch is imported where a node is evaluated, or nowhere in the file: then the file gets it."""
    found = module.scope(node).find(spelled(module)["torch"])
    if found is None:
        return not binds_torch(module)
    return module.gets_torch or not all(for_types(module, binding.node) for binding in found[1])


def chooses(edits: Iterable[Edit]) -> bool:
    """Return whether edits write a whole choice between the accelerator and the CPU, which the helper has by name."""
    return any(_CHOICE.search(edit.text) for edit in edits)


def helper_uses(module: SemanticModel, spans: Sequence[Written]) -> Iterator[tuple[ast.AST, str, Written]]:
    """Yield the helper's uses that this run wrote, not in f-strings: these hold no quotes before Python 3.12."""
    around = Around(((span.start, span.end - 1), span) for span in spans)
    for node, own in helper_names(module):
        start = module.span(node)[0]
        span = around.find(start, start)
        if span and module.nearest(node, ast.JoinedStr) is None:
            yield node, own, span


def _of_rules(module: SemanticModel, rules: DispatchTable) -> Mapping[str, str]:
    """Return what `[[rewrite]]` tables name as native, by the helper's function, where the project's torch has it."""
    found = {}
    for rule in {rule.id: rule for handlers in rules.by_key.values() for rule, _ in handlers}.values():
        for rewrite in rule.rewrites:
            if rewrite.helper and rewrite.native and module.facts.torch_at_least(rewrite.torch):
                found[rewrite.helper] = rewrite.native
    return found


def _is_total(native: str) -> bool:
    """Return whether native code runs on a machine without an accelerator."""
    return not native.startswith("torch.accelerator.") or native.endswith(_TOTAL)


def _called(
    module: SemanticModel, name: str, call: ast.Call, span: Written, names: Mapping[str, str], asks: bool
) -> str | None:
    native = names.get(name)
    early = not module.facts.torch_at_least(_FULL)
    if early and name not in _EARLY and native is None:
        return None
    if native is not None:
        compiled = bool(_SKIPPED.search(native)) and _compiles(module)
        fits = _is_total(native) or (not compiled and is_guarded(module, call))
        return f"{native}()" if fits else None
    if name in _GUARDED and (asks or name != "device(0)") and is_guarded(module, call):
        return _GUARDED[name]
    if name == "device" and _is_moved(module, call):
        return _device_or_cpu(module) if early or _defines_to(module) else _MOVE
    asks_anew = name.startswith("device") and name not in _TOTAL and not _asked_before(span)
    if asks_anew and defers_cuda(module.source.utf8):
        return None
    return _device_or_cpu(module) if name == "device" else _ANYWHERE.get(name)


def _device_or_cpu(module: SemanticModel) -> str:
    """Return the accelerator or the CPU, as the project's oldest torch can say it."""
    return _OR_CPU if module.facts.torch_at_least(_SINCE) else _BEFORE


def _asked_before(span: Written) -> bool:
    """Return whether the code that stood in the span asked for availability itself."""
    return _ASKED.search(_COMMENT.sub(b"", span.before)) is not None


@query
def _compiles(module: SemanticModel) -> bool:
    """Return whether a name or a string of the file may be about torch.compile."""
    return b"compile" in module.source.utf8 and any("compile" in word for word in words_in(module, module.tree))


@query
def _defines_to(module: SemanticModel) -> bool:
    """Return whether the file has a function or method of the name `to`."""
    return any(isinstance(s, FUNCTIONS) and s.name == "to" for s in module.scopes.statements)


def _index(call: ast.Call) -> str:
    """Return the call's arguments as the tables here write them: none and index 0 have native forms."""
    match call:
        case ast.Call(_, [], []):
            return ""
        case ast.Call(_, [ast.Constant(int(0))], []):
            return "(0)"
    return "(...)"


def _is_moved(module: SemanticModel, node: ast.Call) -> bool:
    """Return whether a call is the device of `x.to(device)`, which asks the driver at once anyway."""
    up = module.parent(node)
    owner = module.parent(up) if isinstance(up, ast.keyword) and up.arg == "device" else up
    moves = isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr == "to"
    return moves and (up is not owner or owner.args[:1] == [node])  # type: ignore[union-attr]


def _enclosed(module: SemanticModel, node: ast.AST, text: str) -> str:
    """Return the text, in parentheses if the place would read it differently without them."""
    up = module.parent(node)
    is_open = isinstance(up, _OPEN) or (isinstance(up, ast.Call) and up.func is not node)
    return f"({text})" if re.search(r" (or|if) ", text) and not is_open else text
