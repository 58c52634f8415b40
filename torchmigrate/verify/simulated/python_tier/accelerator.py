"""What torch.accelerator asks C++ for and a device in Python cannot give there, answered here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import streams
from .device import Device

_DTYPES = (
    *(
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.uint16,
        torch.uint32,
        torch.uint64,
    ),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128),
    *(torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e5m2fnuz, torch.float8_e4m3fnuz),
)


def install(device: Device) -> None:
    """Replaces them in torch._C, where torch.accelerator looks them up at each call."""
    for name, function in {**_selection(device), **_memory(device)}.items():
        setattr(torch._C, f"_accelerator_{name}", function)


def _select(device: Device, index: int) -> int:
    """The one there is. RuntimeError for another; a negative one means: leave it."""
    if index >= 0:
        device.is_mine(torch.device(device.name, index))
    return 0


def _selection(device: Device) -> dict[str, Callable[..., Any]]:
    select = functools.partial(_select, device)

    def stream(index: int) -> streams.Stream:
        select(index)
        return streams.current()

    return {
        "setDeviceIndex": lambda index: select(index) and None,
        "exchangeDevice": select,
        "maybeExchangeDevice": select,
        "getStream": stream,
        "setStream": streams.select,
        "synchronizeDevice": lambda index: select(index) and None,
        "getDeviceCapability": lambda index: {"supported_dtypes": set(_DTYPES)},
    }


def _memory(device: Device) -> dict[str, Callable[..., Any]]:
    memory = device.memory

    def checked(answer: Callable[[], Any]) -> Callable[[int], Any]:
        def of(index: int) -> Any:
            _select(device, index)
            return answer()

        return of

    def statistics() -> dict[str, Any]:
        counted = {"allocated_bytes": memory.bytes, "active_bytes": memory.bytes, "requested_bytes": memory.bytes}
        counted.update(allocation=memory.blocks, active=memory.blocks, reserved_bytes=memory.reserved)
        return {"num_ooms": memory.ooms, **{name: stat.as_dict() for name, stat in counted.items()}}

    return {
        "isAllocatorInitialized": lambda: True,
        "emptyCache": memory.empty_cache,
        "emptyHostCache": lambda: None,
        "getDeviceStats": checked(statistics),
        "resetPeakStats": checked(memory.reset_peaks),
        "resetAccumulatedStats": checked(memory.reset_accumulated),
        "getMemoryInfo": checked(lambda: (memory.capacity - memory.bytes.current, memory.capacity)),
    }
