"""Small nets, and their losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def numbers(*shape: int) -> torch.Tensor:
    """The same on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def losses(
    device: object, make: Callable[[], nn.Module], optimizer: Callable[..., Any], shape: tuple[int, ...] = (32, 8)
) -> list[float]:
    torch.manual_seed(0)
    module = make().to(device)
    opt = optimizer(module.parameters())
    inputs, targets = numbers(*shape).to(device), (torch.arange(shape[0]) % 4).to(device)
    found = []
    for _ in range(4):
        opt.zero_grad()
        loss = F.cross_entropy(module(inputs), targets)
        loss.backward()
        opt.step()
        found.append(loss.item())
    return found


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4))
