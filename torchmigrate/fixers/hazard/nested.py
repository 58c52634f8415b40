"""Nested tensors on MPS: the strided layout does not exist there, attention over the jagged one neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.torch_use import first_call

_ATTENTION = ("scaled_dot_product_attention", "MultiheadAttention", "to_padded_tensor")
_STRIDED = "MPS has no nested tensors of the strided layout and raises: `layout=torch.jagged`, or padded tensors, there"
_JAGGED = (
    "on MPS attention over nested tensors and `to_padded_tensor` raise, as their kernels are the CPU's and CUDA's: "
    "pad the batch and mask it there"
)
_ENCODER = (
    "on MPS this raises in eval mode once it is given `src_key_padding_mask` (`aten::_nested_tensor_from_mask_left_"
    "aligned` has no MPS kernel): "
)


def nested(site: RuleContext) -> Iterator[Finding]:
    call = site.call
    if call is None:
        return
    name = (site.qualified or "").rpartition(".")[2]
    given = {k.arg: k.value for k in call.keywords}
    if None in given or _is(given.get("device"), "cpu"):
        return
    if name in ("TransformerEncoder", "Transformer"):
        yield from _encoder(site, call, name)
    elif name == "to_padded_tensor":
        if _is_first(site):
            yield site.note(_JAGGED)
    elif not _is_jagged(site, given.get("layout"), name):
        yield site.note(_STRIDED)
    elif any(word in site.module.source.text for word in _ATTENTION) and _is_first(site):
        yield site.note(_JAGGED)


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _is_jagged(site: RuleContext, layout: ast.expr | None, name: str) -> bool:
    """What is not spelled out may be either, and is taken for the one that works."""
    if name == "nested_tensor_from_jagged":
        return True
    return layout is not None and site.module.resolve(layout) != "torch.strided"


def _is_first(site: RuleContext) -> bool:
    return first_call(site.module, [name for name in site.rule.on if name.startswith("torch.nested.")]) is site.call


def _encoder(site: RuleContext, call: ast.Call, name: str) -> Iterator[Finding]:
    """The nested path is for batches that come first, of layers that normalise last, in evaluation."""
    layer = call if name == "Transformer" else _layer(site.module, call)
    given = {k.arg: k.value for k in layer.keywords} if layer is not None else {}
    nested = next((k.value for k in call.keywords if k.arg == "enable_nested_tensor"), None)
    if not _is(given.get("batch_first"), True) or _is(given.get("norm_first"), True):
        return
    if "src_key_padding_mask" not in site.module.source.text or not (nested is None or _is(nested, True)):
        return
    remedy = "`enable_nested_tensor=False`" if name == "TransformerEncoder" else "`encoder.use_nested_tensor = False`"
    yield site.note(f"{_ENCODER}{remedy} keeps to padded tensors")


def _layer(module: SemanticModel, call: ast.Call) -> ast.Call | None:
    """The `TransformerEncoderLayer(...)` that the encoder is made of, here or by a name or attribute given once."""
    first = next((k.value for k in call.keywords if k.arg == "encoder_layer"), None) or next(iter(call.args), None)
    if isinstance(first, ast.Name):
        found = module.scope(call).find(first.id)
        first = found[1][0].value if found and len(found[1]) == 1 else None
    elif isinstance(first, ast.Attribute):
        text = ast.unparse(first)
        assigned = (s for s in module.scopes.statements if isinstance(s, ast.Assign))
        given = [s.value for s in assigned if text in map(ast.unparse, s.targets)]
        first = given[0] if len(given) == 1 else None
    return first if isinstance(first, ast.Call) else None
