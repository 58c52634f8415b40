"""What each backend's Python lacks on a CPU build: repairs, and the torch.npu that an NPU's own package would bring."""

from __future__ import annotations

import types
from typing import Any

from .settings import Settings


def _torch() -> Any:
    import torch

    return torch


def name_it(settings: Settings) -> None:
    """Backends out of torch's tree take the PrivateUse1 type under their own name."""
    if not settings.profile.in_tree:
        torch = _torch()
        torch.utils.rename_privateuse1_backend(settings.backend)
        torch._register_device_module(settings.backend, module_of(settings))
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


def patch(settings: Settings) -> None:
    """In-tree backends: what else says that they are not there."""
    repair = {"mps": _mps, "xpu": _xpu, "cuda": _cuda}.get(settings.backend)
    if repair:
        repair(settings)


def _mps(settings: Settings) -> None:
    import torch

    torch._C._has_mps = True


def _xpu(settings: Settings) -> None:
    import torch

    torch._C._set_mkldnn_enabled(False)  # else LSTM inference reaches oneDNN's stub, which has no XPU entry


def _cuda(settings: Settings) -> None:
    major, minor = divmod(settings.profile.runtime_version // 10, 100)
    _torch().version.cuda = f"{major}.{minor}"


def module_of(settings: Settings) -> types.ModuleType:
    """torch.npu: torch.cuda's names, as torch_npu has them."""
    torch = _torch()
    module = types.ModuleType(f"torch.{settings.backend}")
    names = {**_everywhere(torch.accelerator), **_device_names(torch, settings), **_random_names(torch, settings)}
    for name, value in names.items():
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
            return super().__new__(cls, settings.backend, enable_timing=enable_timing)

    class Stream(torch.Stream):  # type: ignore[misc]
        def __new__(cls, device: Any = None, priority: int = 0, **data: int) -> Any:
            here = torch.device(settings.backend, _index(torch, device))
            return super().__new__(cls, **data) if data else super().__new__(cls, here, priority=priority)

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "device_count": lambda: settings.count,
        "current_device": accelerator.current_device_index,
        "set_device": lambda where: accelerator.set_device_index(_index(torch, where)),
        "device": device,
        "Event": Event,
        "Stream": Stream,
        "stream": lambda stream: stream,  # a torch.Stream is its own context
        "default_stream": lambda where=None: torch.Stream(
            stream_id=0, device_index=_index(torch, where), device_type=20
        ),
        "get_device_name": lambda where=None: f"simulated {settings.backend} device",
        "get_device_properties": lambda where=None: types.SimpleNamespace(
            name=f"simulated {settings.backend} device",
            total_memory=accelerator.get_memory_info(_index(torch, where))[1],
        ),
        "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
        "is_bf16_supported": lambda: True,
    }


def _random_names(torch: Any, settings: Settings) -> dict[str, Any]:
    def generator(where: Any = None) -> Any:
        return torch.ops.torchmigrate_simulated.default_generator(_index(torch, where))

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
        "set_rng_state": lambda state, device=None: generator(device).set_state(state) and None,
        "get_rng_state_all": lambda: [generator(i).get_state() for i in range(settings.count)],
        "set_rng_state_all": lambda states: [generator(i).set_state(state) for i, state in enumerate(states)] and None,
    }


def _index(torch: Any, where: Any) -> int:
    """None and a device without an index: the current one."""
    index = where if where is None or isinstance(where, int) else torch.device(where).index
    return torch.accelerator.current_device_index() if index is None else index
