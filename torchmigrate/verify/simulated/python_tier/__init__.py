"""The Python tier simulates a strict device without a compiler, for backends outside torch's tree.

It cannot simulate what C++ decides before it asks Python: a second device, factory functions with `pin_memory=True`,
storages that change their size, a device's generator for a CPU tensor (which is accepted). It has no sparse or
quantized tensors, and copies to the host are complete when they return, whatever `non_blocking` says.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils import backend_registration

from ..profiles import Settings
from ..torch_c import composites, devices, operators
from . import autocast, kernels, streams
from .calls import Device
from .generators import Generators
from .memory import Memory

SUPPORTED = ("npu",)
_kept: list[Any] = []  # keeps libraries alive: a library unregisters its kernels when it is deleted


def activate(name: str, count: int, memory: int) -> Any:
    """Make the simulated device `name`, with `memory` bytes, this process's accelerator; return its counters.

    Raises ValueError for a backend or a number of devices that needs the C++ tier; RuntimeError for an old torch.
    """
    if name not in SUPPORTED:
        raise ValueError(f"{name} cannot be simulated without a C++ compiler; {', '.join(SUPPORTED)} can")
    if count != 1:
        raise ValueError(f"without a C++ compiler there is one simulated {name} device, not {count}")
    if not hasattr(torch._C, "_acc"):
        raise RuntimeError(f"torch {torch.__version__} is too old to have a device written in Python")
    device = Device(name, Memory(name, memory), Generators(name), operators.facts().no_check)
    streams.install()
    device.generators.install()
    streams.install_accelerator(device)
    _announce(device, memory)
    operators.hide(*(module for name, module in sys.modules.items() if name.startswith(__name__)))
    _kept.extend([*kernels.register(device), *autocast.register(name), *composites.register("PrivateUse1", name)])
    return torch.ops.torchmigrate_simulated


def _announce(device: Device, memory: int) -> None:
    """Register the device's name, its module in torch, and the hooks that C++ asks for (in Python since torch 2.9)."""
    _kept.append(_operators(device))
    # torch.ops would hand a generator on without its class, and so without its own seeds
    settings = Settings(device.name, 1, "simulated", "python", memory, "", "")
    devices.name_it(settings, device.generators.default_of)
    streams.install_in(torch.get_device_module(device.name), device.name)
    torch._C._acc.register_python_privateuseone_hook(backend_registration._DummyPrivateUse1Hook())
    torch._C._acc.register_python_privateuseone_device_guard(backend_registration._DummyDeviceGuard())


def _operators(device: Device) -> Any:
    """Define torch.ops.torchmigrate_simulated: the operators of the C++ tier that are used with any device."""
    library = composites.Library("torchmigrate_simulated", "DEF")
    for schema, answer in (
        ("in_bad_fork() -> bool", lambda: device.memory.in_bad_fork),
        ("counts() -> str[]", lambda: [f"{name}={n}" for name, n in device.counts.items()]),
        ("random_count() -> int", lambda: device.random_kernels),
        ("peak_bytes(int device) -> int", lambda i: device.memory.bytes.peak),
    ):
        library.define(schema)
        library.impl(schema.split("(")[0], answer, "CompositeExplicitAutograd")
    return library
