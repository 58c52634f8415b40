"""Implement streams, events and torch.accelerator in Python: every call is complete when it returns."""

from __future__ import annotations

import functools
import itertools
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import torch

from .calls import Device
from .memory import is_simulated

_KIND = torch._C._autograd.DeviceType.PrivateUse1.value
_ids = itertools.count(1)
_thread = threading.local()


class Event(torch._C.Event):
    """An event measures time itself: torch.Event asks a C++ guard, which a device in Python lacks."""

    _enabled = False
    _recorded: float | None = None

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, **options: Any) -> Event:
        made: Event = super().__new__(cls, device, enable_timing=enable_timing, **options)
        made._enabled = enable_timing
        return made

    def record(self, stream: Any = None) -> None:
        """Record the current time; whatever was queued before is complete already."""
        self._recorded = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Do nothing, as everything is complete."""

    def query(self) -> bool:
        """Return True, as everything is complete."""
        return True

    def synchronize(self) -> None:
        """Do nothing, as everything is complete."""

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds between two events; raises ValueError if one is unrecorded or has no timing."""
        if not (self._enabled and end_event._enabled):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded is None or end_event._recorded is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        elapsed: float = end_event._recorded - self._recorded
        return elapsed * 1e3


class Stream(torch._C.Stream):
    """A stream has a number of its own."""

    def __new__(cls, device: Any = None, *, priority: int = 0, **data: int) -> Stream:
        name = torch._C._get_privateuse1_backend_name()
        where = torch.device(name, data["device_index"]) if data else torch.device(name if device is None else device)
        if not is_simulated(where, name):
            raise ValueError(f"there are streams of the simulated {name} device only, not of {where}")
        data = data or {"stream_id": next(_ids), "device_index": 0, "device_type": _KIND}
        made: Stream = super().__new__(cls, **data)
        return made

    def __enter__(self) -> Any:
        _entered().append(current())
        set_current(self)
        return self

    def __exit__(self, *exception: object) -> None:
        set_current(_entered().pop())

    def record_event(self, event: Any = None) -> Event:
        """Record `event`, or a new one, and return it."""
        recorded: Event = Event(self.device) if event is None else event
        recorded.record(self)
        return recorded

    def wait_event(self, event: Any) -> None:
        """Do nothing, as everything is complete."""


def default() -> Stream:
    """Return the device's default stream."""
    return Stream(stream_id=0, device_index=0, device_type=_KIND)


def current() -> Stream:
    """Return this thread's current stream."""
    stream: Stream | None = getattr(_thread, "stream", None)
    return default() if stream is None else stream


def set_current(stream: Stream) -> None:
    """Make a stream this thread's current one."""
    _thread.stream = stream


def _entered() -> list[Stream]:
    if not hasattr(_thread, "entered"):
        _thread.entered = []
    entered: list[Stream] = _thread.entered
    return entered


def install() -> None:
    """Replace torch.Stream and torch.Event by the classes of this module."""
    torch.Stream, torch.Event = Stream, Event  # type: ignore[misc, assignment]


def install_in(module: types.ModuleType, device: str) -> None:
    """Set torch.npu.Stream and torch.npu.Event, which are called as torch.cuda's are."""

    class ModuleEvent(Event):
        def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
            return super().__new__(cls, device, enable_timing=enable_timing)

    class ModuleStream(Stream):
        def __new__(cls, where: Any = None, priority: int = 0, **data: int) -> Any:
            return super().__new__(cls, device if where is None else where, **data)

    for name, kind in (("Event", ModuleEvent), ("Stream", ModuleStream)):
        setattr(module, name, kind)


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


def install_accelerator(device: Device) -> None:
    """Replace the functions of torch._C that torch.accelerator looks up at each call."""
    for name, function in {**_selection(device), **_memory(device)}.items():
        setattr(torch._C, f"_accelerator_{name}", function)


def _select(device: Device, index: int) -> int:
    """Return the index of the only device; raises RuntimeError for another one. A negative index changes nothing."""
    if index >= 0:
        device.is_mine(torch.device(device.name, index))
    return 0


def _selection(device: Device) -> dict[str, Callable[..., Any]]:
    select = functools.partial(_select, device)

    def stream(index: int) -> Stream:
        select(index)
        return current()

    return {
        "setDeviceIndex": lambda index: select(index) and None,
        "exchangeDevice": select,
        "maybeExchangeDevice": select,
        "getStream": stream,
        "setStream": set_current,
        "synchronizeDevice": lambda index: select(index) and None,
        "getDeviceCapability": lambda index: {"supported_dtypes": set(_DTYPES)},
    }


def _memory(device: Device) -> dict[str, Callable[..., Any]]:
    memory = device.memory

    def checked(answer: Callable[[], Any]) -> Callable[[int], Any]:
        def call(index: int) -> Any:
            _select(device, index)
            return answer()

        return call

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
