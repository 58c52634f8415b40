"""Compose kernels of other operators that torch expects of every accelerator; both tiers register them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import operators

Library: Any = torch.library.Library  # untyped in torch

# dispatch keys whose Autograd key torch.library can name; _dispatch_key_set_from_string has no AutogradMTIA
_WITH_AUTOGRAD = ("CUDA", "XPU", "MPS")


def register(dispatch_key: str, device_type: str) -> list[torch.library.Library]:
    """Register the kernels under `dispatch_key` ("MPS", ...) and allow storages, while the returned libraries live."""
    operators.hide(sys.modules[__name__])
    library = Library("aten", "IMPL")
    for name, kernel in _kernels(dispatch_key).items():
        library.impl(name, kernel, dispatch_key)
    if dispatch_key in _WITH_AUTOGRAD:
        # torch's own is a composite whose steps autograd sees; ours must be found for the same key
        library.impl("scaled_dot_product_attention", attention, f"Autograd{dispatch_key}")
    allow_storages(device_type)
    return [library]


def _kernels(dispatch_key: str) -> dict[str, Callable[..., Any]]:
    kernels: dict[str, Callable[..., Any]] = {
        "_fused_sdp_choice": lambda *_, **__: 0,  # SDPBackend::math, aten/src/ATen/native/transformers/sdp_utils_cpp.h
        "_thnn_fused_lstm_cell": lstm_cell,
        "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
        "_thnn_fused_gru_cell": gru_cell,
        "_thnn_fused_gru_cell_backward": gru_cell_backward,
    }
    if dispatch_key == "PrivateUse1":
        kernels["_has_compatible_shallow_copy_type"] = compatible
    else:
        # for torch's own device types its composite reads a table of kernels, which is empty in a wheel without that
        # backend
        kernels["scaled_dot_product_attention"] = attention
    if dispatch_key == "MPS":
        kernels["_scaled_dot_product_attention_math_for_mps"] = (
            torch.ops.aten._scaled_dot_product_attention_math.default
        )
    if dispatch_key == "CUDA":
        for name in ("_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"):
            kernels[name] = kernels[f"{name}.Tensor"] = lambda *_, **__: False
    return kernels


def compatible(self: Tensor, source: Tensor) -> bool:
    """Return whether `self.data = source` is possible: dense tensors of the CPU or the device may be mixed.

    So do torch's own types and torch_npu: nn.Module.to() changes parameters in place, and optimizers stay valid.
    """
    return self.layout == source.layout and (self.layout == torch.strided or self.device == source.device)


# Fused recurrent cells, after aten/src/ATen/native/cuda/RNN.cu. Gates are [batch, gates * hidden], states [batch,
# hidden]; the workspace passes values from a cell to its backward.


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (hy, cy, workspace) with activated gates in the order input, forget, cell, output."""
    gates = input_gates + hidden_gates
    for bias in (input_bias, hidden_bias):
        if bias is not None:
            gates = gates + bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the gradients of gates, `cx` and biases, if any; the gradient of either output may be absent."""
    i, f, g, o = workspace.chunk(4, 1)
    tanh_cy = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_c = grad_hy * o * (1 - tanh_cy**2)
    if grad_cy is not None:
        grad_c = grad_c + grad_cy
    grad_gates = torch.cat(
        [
            grad_c * g * _sigmoid_slope(i),
            grad_c * cx * _sigmoid_slope(f),
            grad_c * i * (1 - g**2),
            grad_hy * tanh_cy * _sigmoid_slope(o),
        ],
        1,
    )
    return grad_gates, grad_c * f, grad_gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (hy, workspace).

    Gates are in the order reset, update, new. The workspace holds them activated, then hx, and the hidden part of `new`
    before the reset gate.
    """
    input_gates = input_gates if input_bias is None else input_gates + input_bias
    hidden_gates = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    input_r, input_z, input_n = input_gates.chunk(3, 1)
    hidden_r, hidden_z, hidden_n = hidden_gates.chunk(3, 1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hidden_n], 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return the gradients of the input gates, the hidden gates, `hx` and, with biases, of the two biases."""
    r, z, n, hx, hidden_n = workspace.chunk(5, 1)
    grad_n = grad_hy * (1 - z) * (1 - n**2)
    grad_z = grad_hy * (hx - n) * _sigmoid_slope(z)
    grad_r = grad_n * hidden_n * _sigmoid_slope(r)
    grad_input = torch.cat([grad_r, grad_z, grad_n], 1)
    grad_hidden = torch.cat([grad_r, grad_z, grad_n * r], 1)
    biases = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (None, None)
    return grad_input, grad_hidden, grad_hy * z, *biases


def _sigmoid_slope(activated: Tensor) -> Tensor:
    return activated * (1 - activated)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute scaled_dot_product_attention by its composite, as torch does if no fused kernel applies.

    A boolean mask, True for positions to attend to, becomes an additive one (convert_boolean_attn_mask in
    aten/src/ATen/native/transformers/attention.cpp).
    """
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        added = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = added.masked_fill_(attn_mask.logical_not(), float("-inf"))
    output: Tensor = torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]
    return output


def allow_storages(device_type: str) -> None:
    """Let torch.UntypedStorage(n, device=device_type) work by a tensor's bytes; torch's own may crash."""
    original: Any = torch.UntypedStorage.__new__

    def new(cls: Any, *args: Any, device: Any = None, **options: Any) -> Any:
        if device is None or torch.device(device).type != device_type:
            return original(cls, *args, **({} if device is None else {"device": device}), **options)
        content = args[0] if args else 0  # either a size or a sequence of bytes
        size = content if isinstance(content, int) else len(content)
        storage = torch.empty(size, dtype=torch.uint8, device=device).untyped_storage()
        return storage if isinstance(content, int) else storage.copy_(original(cls, content))

    torch.UntypedStorage.__new__ = new  # type: ignore[method-assign]
