"""Stand in for names of `torch._C` that need a driver: settings have no effect, all else is refused as by CUDA."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, NoReturn

# (getter, setter, initial value)
_SETTINGS = (
    ("_cuda_get_sync_debug_mode", "_cuda_set_sync_debug_mode", 0),
    ("_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit", 10),
    ("_cuda_getCublasWorkspaceSize", "_cuda_setCublasWorkspaceSize", 8519680),
    ("_cuda_getCublasLtWorkspaceSize", "_cuda_setCublasLtWorkspaceSize", 32 << 20),
    ("_cuda_getMemoryMetadata", "_cuda_setMemoryMetadata", ""),
    ("_cuda_record_untuned_is_enabled", "_cuda_record_untuned_enable", False),
    ("_cuda_tunableop_is_enabled", "_cuda_tunableop_enable", False),
    ("_cuda_tunableop_tuning_is_enabled", "_cuda_tunableop_tuning_enable", True),
    ("_cuda_tunableop_get_max_tuning_duration", "_cuda_tunableop_set_max_tuning_duration", 30),
    ("_cuda_tunableop_get_max_tuning_iterations", "_cuda_tunableop_set_max_tuning_iterations", 100),
    ("_cuda_tunableop_get_filename", "_cuda_tunableop_set_filename", "tunableop_results.csv"),
    ("_cuda_tunableop_get_rotating_buffer_size", "_cuda_tunableop_set_rotating_buffer_size", -1),
)
_QUIET = (
    "_host_emptyCache",
    "_cuda_allocationTraceback",
    "_cuda_attach_out_of_memory_observer",
    "_cuda_cudaCachingAllocator_enable",
    "_cuda_ipc_collect",
    "_cuda_record_memory_history",
    "_cuda_record_memory_history_legacy",
    "_cuda_resetAccumulatedHostMemoryStats",
    "_cuda_resetPeakHostMemoryStats",
    "_cuda_sleep",
    "_cuda_tunableop_set_numerical_check_tolerances",
    "_xpu_recordMemoryHistory",
)
_REFUSED = (
    "_cuda_changeCurrentAllocator",
    "_cuda_cudaHostAllocator",
    "_cuda_customAllocator",
    "_cuda_getAllocator",
    "_cuda_jiterator_compile_and_launch_kernel",
    "_nccl_init_rank",
    "_nccl_unique_id",
    "_xpu_changeCurrentAllocator",
    "_xpu_customAllocator",
    "_xpu_getAllocator",
)


def names(kind: str) -> dict[str, Any]:
    """Return the names of one backend, "cuda" or "xpu", to be set in torch._C."""
    every: dict[str, Any] = {
        **{name: refused(name) for name in _REFUSED},
        **dict.fromkeys(_QUIET, lambda *args, **options: None),
        **{name: function for setting in _SETTINGS for name, function in _setting(*setting).items()},
        **(_cuda() if kind == "cuda" else {}),
    }
    other = {"cuda": ("_xpu_",), "xpu": ("_cuda_", "_nccl_")}[kind]
    return {name: value for name, value in every.items() if not name.startswith(other)}


def _cuda() -> dict[str, Any]:
    version = lambda: (9, 10, 2)  # noqa: E731
    return {
        "_has_cudnn": True,
        "_cudnn": SimpleNamespace(
            is_cuda=True, getVersionInt=lambda: 91002, getRuntimeVersion=version, getCompileVersion=version
        ),
        "_cuda_getCurrentBlasHandle": lambda: 0,
        "_cuda_getCurrentSolverHandle": lambda: 0,
        "_cuda_tunableop_get_results": tuple,
        "_cuda_tunableop_get_validators": tuple,
        "_cuda_tunableop_read_file": lambda file: False,
        **_raw_memory(),
    }


def _raw_memory() -> dict[str, Any]:
    """Return torch.cuda.caching_allocator_alloc and _delete, which work on addresses of device memory."""
    kept: dict[int, Any] = {}

    def alloc(size: int, stream: int) -> int:
        import torch

        memory = torch.empty(size, dtype=torch.uint8, device="cuda")
        kept[memory.data_ptr()] = memory
        return memory.data_ptr()

    def delete(address: int) -> None:
        kept.pop(address, None)

    return {"_cuda_cudaCachingAllocator_raw_alloc": alloc, "_cuda_cudaCachingAllocator_raw_delete": delete}


def _setting(getter: str, setter: str, value: Any) -> dict[str, Any]:
    def set_value(new: Any, *more: Any) -> None:
        nonlocal value
        value = new

    return {getter: lambda: value, setter: set_value}


def refused(name: str) -> Callable[..., Any]:
    """Return a function that refuses every call, to be set as torch._C's `name`."""

    def refuse_call(*args: Any, **options: Any) -> Any:
        import torch

        kind = getattr(torch, "AcceleratorError", RuntimeError)
        refuse(f"CUDA error: operation not supported (torch._C.{name} on a simulated device)", kind)

    return refuse_call


def refuse(words: str, kind: type[Exception] = RuntimeError) -> NoReturn:
    """Raise the exception, and tell of it."""
    tell("RuntimeError", words)
    raise kind(words)


listeners: list[Callable[[str, str], None]] = []


def tell(kind: str, message: str) -> None:
    """Tell all listeners what Python calls the exception by which the device refuses a call, and its words."""
    for hear in listeners:
        hear(kind, message)
