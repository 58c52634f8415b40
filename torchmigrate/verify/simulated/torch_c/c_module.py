"""Provide what `torch._C` has in a CUDA or XPU build: streams, events, memory, device properties, NVTX ranges."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from ..profiles import Profile
from . import distributed, unsupported


def install(profile: Profile, count: int) -> None:
    """Set `torch._C._cuda_*` (or `_xpu_*`) for `count` devices; of torch, only `torch._C` is loaded yet."""
    import torch

    C: Any = torch._C
    own = _cuda(C, profile) if profile.backend == "cuda" else _xpu(C, profile)
    names = {**unsupported.names(profile.backend), **_common(C, profile, count), **own}
    for name, value in names.items():
        setattr(C, name, value)


def _common(C: Any, profile: Profile, count: int) -> dict[str, Any]:
    """Return the functions and classes of both backends, under the backend's prefix; devices are indices."""
    kind = profile.backend
    fractions = [1.0] * count
    functions = {
        "init": lambda: _initialise(kind, "float64" not in profile.memory_only),
        "isInBadFork": lambda: _operators().in_bad_fork(),
        "getDeviceCount": lambda: _operators().device_count(),
        "getDevice": C._accelerator_getDeviceIndex,
        "setDevice": C._accelerator_setDeviceIndex,
        "exchangeDevice": C._accelerator_exchangeDevice,
        "maybeExchangeDevice": C._accelerator_maybeExchangeDevice,
        "getCurrentStream": lambda i: _stream_data(C._accelerator_getStream(i)),
        "getCurrentRawStream": lambda i: C._accelerator_getStream(i).stream_id,
        "setStream": lambda **data: C._accelerator_setStream(C.Stream(**data)),
        "emptyCache": C._accelerator_emptyCache,
        "memoryStats": C._accelerator_getDeviceStats,
        "resetPeakMemoryStats": C._accelerator_resetPeakStats,
        "resetAccumulatedMemoryStats": C._accelerator_resetAccumulatedStats,
        "memorySnapshot": lambda *pool: {"segments": [], "device_traces": [], "allocator_settings": {}},
        "getMemoryFraction": lambda i: fractions[i],
        "setMemoryFraction": lambda fraction, i: fractions.__setitem__(i, fraction),
        "canDeviceAccessPeer": lambda i, peer: True,
    }
    names = {f"_{kind}_{name}": function for name, function in functions.items()}
    base = kind.capitalize()
    return {
        **names,
        f"_has_{kind}": True,
        f"_{base}StreamBase": _stream_base(C, kind),
        f"_{base}EventBase": _event_base(C, kind),
        f"_{base}DeviceProperties": SimulatedProperties,
    }


def _operators() -> Any:
    import torch

    return torch.ops.torchmigrate_simulated


def _initialise(kind: str, has_fp64: bool) -> None:
    import torch

    operators = _operators()
    if operators.device_count() == 0:
        raise RuntimeError("No CUDA GPUs are available")
    operators.use()
    module = getattr(torch, kind)
    module.default_generators = tuple(operators.default_generator(i) for i in range(operators.device_count()))
    module._get_device_properties = lambda i: SimulatedProperties(kind, i, has_fp64)
    if kind == "cuda":
        torch._C.default_generators = module.default_generators  # type: ignore[attr-defined]


def _stream_data(stream: Any) -> tuple[int, int, int]:
    return stream.stream_id, stream.device_index, stream.device_type


def _stream_base(C: Any, kind: str) -> type:
    def new(cls: Any, priority: int = 0, **data: int) -> Any:
        if "stream_ptr" in data:  # as torch.cuda.ExternalStream passes it
            data = {"stream_id": data["stream_ptr"], "device_index": C._accelerator_getDeviceIndex(), "device_type": 1}
        if data:
            return C.Stream.__new__(cls, **data)
        return C.Stream.__new__(cls, C.device(kind, C._accelerator_getDeviceIndex()), priority=priority)

    handle = {"cuda": "cuda_stream", "xpu": "sycl_queue"}[kind]
    names = {"__new__": new, handle: property(lambda self: self.stream_id), "priority": 0}
    return type(f"_{kind.capitalize()}StreamBase", (C.Stream,), names)


def _event_base(C: Any, kind: str) -> type:
    def new(cls: Any, enable_timing: bool = False, **options: bool) -> Any:
        return timed(C.Event.__new__(cls, C.device(kind), enable_timing=enable_timing), enable_timing)

    handle = {"cuda": "cuda_event", "xpu": "sycl_event"}[kind]
    names = {"__new__": new, handle: property(lambda self: self.event_id)}
    return type(f"_{kind.capitalize()}EventBase", (C.Event,), {**names, "elapsed_time": elapsed_time})


def timed(event: Any, enable_timing: bool) -> Any:
    """Prepare an event of a subclass of torch.Event for `elapsed_time`."""
    event.enable_timing = enable_timing
    return event


def elapsed_time(start: Any, end: Any) -> float:
    """Return the milliseconds between two events of any class; raises ValueError in torch's words."""
    if not (start.enable_timing and end.enable_timing):
        raise ValueError("Both events must be created with argument 'enable_timing=True'.")
    if not (start.event_id and end.event_id):
        raise ValueError("Both events must be recorded before calculating elapsed time.")
    return float(_operators().elapsed_time(start.event_id, end.event_id))


_SUCCEED = ("cudaProfilerStart", "cudaProfilerStop", "cudaHostRegister", "cudaHostUnregister")


def _cuda(C: Any, profile: Profile) -> dict[str, Any]:
    runtime = SimpleNamespace(
        cudaError=SimpleNamespace(success=0),
        cudaGetErrorString=lambda code: "no error",
        cudaMemGetInfo=C._accelerator_getMemoryInfo,
        **dict.fromkeys(_SUCCEED, lambda *args: 0),
    )
    return {
        "_cudart": runtime,
        "_nvtx": Ranges(),
        "_cuda_synchronize": lambda: C._accelerator_synchronizeDevice(C._accelerator_getDeviceIndex()),
        "_cuda_getDefaultStream": lambda i: (0, i, 1),  # 1: DeviceType::CUDA
        "_cuda_getArchFlags": lambda: profile.architecture,
        "_cuda_getCompiledVersion": lambda: profile.runtime_version,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_getStreamFromExternal": lambda handle, i: (handle, i, 1),
        "_cuda_hasPrimaryContext": lambda i: True,
        "_cuda_hostMemoryStats": dict,
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_graph_pool_handle": lambda: (0, 1),
        "_CUDAGraph": NoGraph,
        "_cuda_CUDAAllocator_AllocatorState": object,  # torch._dynamo.reset() imports it
        **distributed.functions(),
        "_nccl_version": lambda: (2 << 32) | (27 << 16) | 3,
        "_nccl_version_suffix": lambda: b"",
    }


# private memory pools are refused as in a build of torch without them
_POOLS = (
    "_XPUMemPool",
    "_xpu_XPUAllocator",
    "_xpu_beginAllocateCurrentThreadToPool",
    "_xpu_endAllocateToPool",
    "_xpu_releasePool",
)


def _xpu(C: Any, profile: Profile) -> dict[str, Any]:
    from torch._utils import _dummy_type

    return {
        "_xpu_getStreamFromExternal": lambda handle, i: (handle, i, 12),  # 12 is DeviceType::XPU
        "_xpu_synchronize": C._accelerator_synchronizeDevice,
        "_xpu_getMemoryInfo": C._accelerator_getMemoryInfo,
        "_xpu_getArchFlags": lambda: "",
        "_xpu_isCurrentStreamCapturing": lambda: False,
        "_xpu_graph_pool_handle": lambda: (0, 1),
        "_XPUGraph": NoGraph,
        **{name: _dummy_type(name) for name in _POOLS},
    }


class NoGraph:
    """Refuse torch.cuda.CUDAGraph and torch.xpu.XPUGraph in the words of cudaErrorNotSupported."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        import torch

        raise torch.AcceleratorError("CUDA error: operation not supported (simulated devices capture no graphs)")


class SimulatedProperties:
    """torch.cuda.get_device_properties() gives these: of no real hardware, marked as simulated."""

    major, minor = 8, 0
    multi_processor_count = 64
    warp_size = 32
    max_threads_per_multi_processor = 2048
    regs_per_multiprocessor = 65536
    shared_memory_per_block = 49152
    L2_cache_size = 1 << 20
    is_integrated = is_multi_gpu_board = 0
    gcnArchName = ""
    has_fp16 = has_atomic64 = has_bfloat16_conversions = True
    has_subgroup_matrix_multiply_accumulate = True
    max_compute_units = gpu_eu_count = 64
    platform_name = vendor = "simulated"
    driver_version = version = "simulated"
    type = "gpu"

    def __init__(self, backend: str, index: int, has_fp64: bool = True) -> None:
        import torch

        self.has_fp64 = has_fp64
        self.name = f"simulated {backend} device"
        self.total_memory = torch._C._accelerator_getMemoryInfo(index)[1]

    def __repr__(self) -> str:
        return f"_SimulatedProperties(name={self.name!r}, total_memory={self.total_memory >> 20}MB)"


class Ranges(threading.local):
    """Stand in for the module torch._C._nvtx; depths count from 0 in each thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.last = 0

    def rangePushA(self, message: str) -> int:
        """Start a range and return its depth."""
        self.depth += 1
        return self.depth - 1

    def rangePop(self) -> int:
        """End a range and return its depth; -2, as NVTX returns, if none is open."""
        if self.depth == 0:
            return -2
        self.depth -= 1
        return self.depth

    def rangeStartA(self, message: str) -> int:
        """Return a handle for rangeEnd."""
        self.last += 1
        return self.last

    def rangeEnd(self, handle: int) -> None:
        """Do nothing: ranges are not recorded."""

    def markA(self, message: str) -> None:
        """Do nothing: marks are not recorded."""
