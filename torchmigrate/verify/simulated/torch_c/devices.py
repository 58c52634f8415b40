"""Adapt torch's Python code to simulated devices: repairs for a CPU build, torch.npu, and torch.cuda's tensor types."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

from ..profiles import Settings
from . import unsupported
from .c_module import SimulatedProperties, elapsed_time, timed


def _torch() -> Any:
    import torch

    return torch


def name_it(settings: Settings, default_generator: Callable[[int], Any] | None = None) -> None:
    """Register a backend outside torch's tree: rename PrivateUse1, and install its module and package.

    `default_generator` gives a device's generator by its index; None asks the C++ tier.
    """
    if not settings.profile.in_tree:
        torch = _torch()
        torch.utils.rename_privateuse1_backend(settings.backend)
        given = default_generator or torch.ops.torchmigrate_simulated.default_generator
        module = module_of(settings, given)
        torch._register_device_module(settings.backend, module)
        _package(f"torch_{settings.backend}", settings.backend, module)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


def _package(name: str, attribute: str, module: types.ModuleType) -> None:
    """Install a module like torch_npu, in place of an installed one, which would find no device."""
    package = types.ModuleType(name, "Simulated by torchmigrate.")
    package.__spec__ = importlib.machinery.ModuleSpec(name, None)
    setattr(package, attribute, module)
    sys.modules[name] = package


def patch(settings: Settings) -> None:
    """Repair what else in torch shows that an in-tree backend is missing."""
    repair = {"mps": _mps, "xpu": _xpu, "cuda": _cuda, "mtia": _mtia}.get(settings.backend)
    if repair:
        repair(settings)


def _mps(settings: Settings) -> None:
    C: Any = _torch()._C
    C._has_mps = True
    C._mps_get_name = lambda: "simulated mps device"
    C._mps_get_core_count = lambda: 8
    C._mps_isCaptureEnabled = C._mps_isCapturing = lambda: False
    for name in ("compileShader", "loadMetalllib", "loadMetallibFromPath", "startCapture", "host_alias_storage"):
        setattr(C, f"_mps_{name}", _no_metal)
    torch = _torch()
    torch._VF.lstm = _refuse_projections(torch._VF.lstm)


def _refuse_projections(lstm: Any) -> Any:
    """Return torch._VF.lstm with the check of MPS's kernel: states of two sizes come from `proj_size`."""

    def checked(input: Any, hx: Any, *rest: Any) -> Any:
        if input.device.type == "mps" and isinstance(hx, (tuple, list)) and hx[0].size(2) != hx[1].size(2):
            unsupported.refuse("LSTM with projections is not currently supported with MPS.")
        return lstm(input, hx, *rest)

    return checked


def _no_metal(*args: Any) -> Any:
    unsupported.refuse("a simulated MPS device has no Metal")


def _xpu(settings: Settings) -> None:
    """Keep LSTM on the CPU from oneDNN, whose stub lacks XPU; other kernels keep it, for equal last digits."""
    torch = _torch()
    plain = torch._VF.lstm

    def lstm(*args: Any) -> Any:
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            return plain(*args)
        finally:
            torch._C._set_mkldnn_enabled(before)

    torch._VF.lstm = lstm


def _cuda(settings: Settings) -> None:
    major, minor = divmod(settings.profile.runtime_version // 10, 100)
    _torch().version.cuda = f"{major}.{minor}"
    _storages()


def _storages() -> None:
    """Add the methods of torch.UntypedStorage for CUDA memory, which a CPU build lacks."""
    torch = _torch()
    resize = torch.UntypedStorage.resize_

    def resize_(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return resize(self, size)
        holder = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)
        torch.ops.torchmigrate_simulated.resize_storage(holder, size)
        return self

    torch.UntypedStorage.resize_ = resize_
    torch.UntypedStorage._share_cuda_ = unsupported.refused("StorageBase._share_cuda_")


def _mtia(settings: Settings) -> None:
    """Set the functions of torch._C that an MTIA build answers through its hooks."""
    torch = _torch()
    C, accelerator = torch._C, torch.accelerator

    def memory_stats(index: int) -> dict[str, Any]:
        stats = accelerator.memory_stats(index)
        dram = {
            "allocated_bytes": stats["allocated_bytes.all.current"],
            "peak_bytes": stats["allocated_bytes.all.peak"],
        }
        return {**stats, "dram": {**dram, "total_bytes": accelerator.get_memory_info(index)[1]}}

    C._mtia_memoryStats = memory_stats
    C._mtia_resetPeakMemoryStats = accelerator.reset_peak_memory_stats
    C._mtia_getDeviceCapability = lambda index: (0, 0)
    C._mtia_getDeviceProperties = lambda index: {"total_memory": accelerator.get_memory_info(index)[1]}
    C._mtia_getCurrentRawStream = lambda index: C._accelerator_getStream(index).stream_id
    C._mtia_recordMemoryHistory = C._mtia_attachOutOfMemoryObserver = lambda *args: None
    C._mtia_memorySnapshot = lambda *args: {}
    C._mtia_graphPoolHandle = lambda: (0, 1)


def module_of(settings: Settings, default_generator: Callable[[int], Any]) -> types.ModuleType:
    """Return the module torch.npu, with torch.cuda's names, as torch_npu has them."""
    torch = _torch()
    module = types.ModuleType(f"torch.{settings.backend}")
    random = _random_names(torch, settings, default_generator)
    for name, value in {**_everywhere(torch.accelerator), **_device_names(torch, settings), **random}.items():
        setattr(module, name, value)
    return module


def _everywhere(accelerator: Any) -> dict[str, Any]:
    same = ("synchronize", "empty_cache", "current_stream", "set_stream", "memory_allocated", "max_memory_allocated")
    more = (
        "memory_reserved",
        "max_memory_reserved",
        "reset_peak_memory_stats",
        "reset_accumulated_memory_stats",
        "memory_stats",
    )
    return {
        **{name: getattr(accelerator, name) for name in (*same, *more)},
        "mem_get_info": accelerator.get_memory_info,
    }


def _device_names(torch: Any, settings: Settings) -> dict[str, Any]:
    accelerator = torch.accelerator

    class device(accelerator.device_index):  # type: ignore[misc, name-defined]
        def __init__(self, where: Any) -> None:
            super().__init__(_index(torch, where))

    class Event(torch.Event):  # type: ignore[misc]
        def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
            return timed(super().__new__(cls, settings.backend, enable_timing=enable_timing), enable_timing)

        elapsed_time = elapsed_time

    class Stream(torch.Stream):  # type: ignore[misc]
        def __new__(cls, device: Any = None, priority: int = 0, **data: int) -> Any:
            here = torch.device(settings.backend, _index(torch, device))
            return super().__new__(cls, **data) if data else super().__new__(cls, here, priority=priority)

    def properties(where: Any = None) -> SimulatedProperties:
        return SimulatedProperties(settings.backend, _index(torch, where))

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_initialized": True,  # torch.utils.checkpoint saves the random state only if this is true
        "_is_in_bad_fork": lambda: torch.ops.torchmigrate_simulated.in_bad_fork(),
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "device_count": lambda: settings.count,
        "current_device": accelerator.current_device_index,
        "set_device": lambda where: accelerator.set_device_index(_index(torch, where)),
        "device": device,
        "Event": Event,
        "Stream": Stream,
        "stream": lambda stream: stream or contextlib.nullcontext(),  # a torch.Stream is a context manager itself
        "default_stream": lambda where=None: torch.Stream(
            stream_id=0, device_index=_index(torch, where), device_type=20
        ),
        "get_device_name": lambda where=None: properties(where).name,
        "get_device_properties": properties,
        "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
        "is_bf16_supported": lambda: True,
    }


def _random_names(torch: Any, settings: Settings, default_generator: Callable[[int], Any]) -> dict[str, Any]:
    def generator(where: Any = None) -> Any:
        return default_generator(_index(torch, where))

    def manual_seed_all(seed: int) -> None:
        for i in range(settings.count):
            generator(i).manual_seed(seed)

    return {
        "manual_seed": lambda seed: generator().manual_seed(seed) and None,
        "manual_seed_all": manual_seed_all,
        "seed": lambda: generator().seed() and None,
        "seed_all": lambda: manual_seed_all(generator().seed()),
        "initial_seed": lambda: generator().initial_seed(),
        "get_rng_state": lambda device=None: generator(device).get_state(),
        "set_rng_state": lambda new_state, device=None: generator(device).set_state(new_state) and None,
        "get_rng_state_all": lambda: [generator(i).get_state() for i in range(settings.count)],
        "set_rng_state_all": lambda states: [generator(i).set_state(state) for i, state in enumerate(states)] and None,
    }


def _index(torch: Any, where: Any) -> int:
    """Return the index of a device; for None or a device without an index, the current one."""
    index = where if where is None or isinstance(where, int) else torch.device(where).index
    return torch.accelerator.current_device_index() if index is None else index


def allow_tensor_types() -> None:
    """Make torch.cuda.FloatTensor and the other CUDA tensor types usable, which a CPU build marks as unavailable.

    The mark is `is_cuda` of PyTensorType in torch/csrc/tensor/python_tensor.cpp, which only the refusals read. Python
    still sees `torch.cuda.FloatTensor.is_cuda` as True. If torch changes that struct, the types stay refused.
    """
    import torch

    known: Any = torch
    classes = [each for each in known._tensor_classes if each.is_cuda]
    offset = _mark(known.FloatTensor, known.cuda.FloatTensor)
    if offset:
        _show_as_cuda(type(known.FloatTensor), frozenset(classes))
        for each in classes:
            ctypes.c_bool.from_address(id(each) + offset).value = False


def _mark(cpu: Any, cuda: Any) -> int:
    """Return the offset in bytes of the mark in the class object, 0 if it is not found.

    It follows pointers to the dtype and the layout, which follow a PyTypeObject (408 bytes in Python 3.11).
    """
    for offset in range(320, 464, ctypes.sizeof(ctypes.c_void_p)):
        words = (ctypes.c_void_p * 2).from_address(id(cuda) + offset)
        if list(words) == [id(cuda.dtype), id(cuda.layout)]:
            mark = offset + ctypes.sizeof(words)
            marks = [ctypes.c_uint8.from_address(id(each) + mark).value for each in (cpu, cuda)]
            return mark if marks == [0, 1] else 0
    return 0


def _show_as_cuda(kind: Any, classes: frozenset[Any]) -> None:
    (attributes,) = gc.get_referents(kind.__dict__)  # the attributes of a static type, which Python does not let us set
    attributes["is_cuda"] = property(lambda cls: cls in classes)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
