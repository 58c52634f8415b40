"""Implement the kernels of SyncBatchNorm, which only accelerators have: batch norm in steps that communicate.

The formulas are those of aten/src/ATen/native/cuda/Normalization.cuh. `x` is [N, C, ...]; statistics are [C], in
float32 or wider.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from . import operators

Library: Any = torch.library.Library  # untyped in torch
KEYS = ("CUDA", "XPU", "PrivateUse1")  # dispatch keys of the backends that have these kernels; MPS has none


def register(dispatch_key: str) -> list[Any]:
    """Register the kernels under `dispatch_key`; they last as long as the libraries that are returned."""
    if dispatch_key not in KEYS:
        return []
    operators.hide(sys.modules[__name__])
    library = Library("aten", "IMPL")
    for kernel in (stats, gather_stats_with_counts, elemt, backward_reduce, backward_elemt):
        library.impl(f"batch_norm_{kernel.__name__}", kernel, dispatch_key)
    return [library]


def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return mean and 1 / sqrt(variance + eps) of this process's part of the batch."""
    var, mean = torch.var_mean(_wide(x), _others(x), correction=0)
    return mean, torch.rsqrt(var + eps)


def gather_stats_with_counts(
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Combine the processes' statistics into the batch's: (mean, 1 / sqrt(variance + eps)).

    `mean` and `invstd` are [processes, C]; `counts`: values per channel of each process. The running statistics are
    updated in place.
    """
    n = counts.to(mean.dtype).unsqueeze(1)
    total = n.sum()
    mean_all = (mean * n).sum(0) / total
    var = ((invstd**-2 - eps + (mean - mean_all) ** 2) * n).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean_all, alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(var * (total / (total - 1)), alpha=momentum)
    return mean_all, torch.rsqrt(var + eps)


def elemt(x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float) -> Tensor:
    """Return `x` normalized, in its own dtype and memory format."""
    y = (_wide(x) - _along(mean, x)) * _along(invstd, x)
    y = y if weight is None else y * _along(weight, x)
    y = y if bias is None else y + _along(bias, x)
    return torch.empty_like(x).copy_(y)


def backward_reduce(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return this process's sums of grad and grad * (x - mean), and the gradients of weight and bias."""
    dy = _wide(grad)
    sum_dy, sum_dy_xmu = dy.sum(_others(x)), (dy * (_wide(x) - _along(mean, x))).sum(_others(x))
    dtype = mean.dtype if weight is None else weight.dtype
    return sum_dy, sum_dy_xmu, (sum_dy_xmu * invstd).to(dtype), sum_dy.to(dtype)


def backward_elemt(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """Return the gradient of `x` from the sums over the whole batch."""
    total = count.sum()
    slope = _along(invstd**2 * sum_dy_xmu / total, x)
    dx = (_wide(grad) - _along(sum_dy / total, x) - (_wide(x) - _along(mean, x)) * slope) * _along(invstd, x)
    return torch.empty_like(x).copy_(dx if weight is None else dx * _along(weight, x))


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _others(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _along(channels: Tensor, x: Tensor) -> Tensor:
    return channels.view(1, -1, *[1] * (x.dim() - 2))
