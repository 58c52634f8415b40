# torchmigrate-runtime 2
# SPDX-License-Identifier: 0BSD
"""torch.cuda's functions for whatever accelerator is here: CUDA, MPS, XPU, NPU..., or none.

A project gets those of them that it calls, and what these need (`project/helper_parts.py`). So each stands by itself,
reads on Python 3.7, and works on the oldest torch that has what it is about: on CUDA from 1.7 on.

On CUDA (and ROCm) each is torch.cuda's own; elsewhere the backend's or torch.accelerator's, else what its __doc__ says.
The device is found at the first call. TORCH_ACCEL_DEVICE=cpu|mps|xpu:1 picks it. On a Mac several processes get the
CPU, as MPS has no collectives. TORCH_ACCEL_LOG=1 logs lacks: here, and not in the copies.
"""

import contextlib
import functools
import logging
import os
import sys
import threading
import time
import warnings
from typing import Any

import torch

_compiler: Any = getattr(torch, "compiler", torch._utils)  # from torch 2.1 on
_is_compiling: Any = getattr(_compiler, "is_compiling", None) or getattr(torch._utils, "is_compiling", bool)
_version = tuple(int(part) for part in torch.__version__.split(".")[:2])
OutOfMemoryError = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)  # from torch 1.13 on
_KINDS = ("cuda", "mps", "xpu", "npu", "mtia", "hpu")
_device: "torch.device | None" = None
_types: Any = {}


# in a copy for a program that forms no process groups, this is what TORCH_ACCEL_DEVICE says
def _wanted() -> str:
    """Return TORCH_ACCEL_DEVICE; "cpu" for several processes on a Mac: MPS has no collectives."""
    mps = getattr(torch.backends, "mps", None)  # from torch 1.12 on
    are_several = os.environ.get("WORLD_SIZE", "1") != "1" and mps and mps.is_available()
    return os.environ.get("TORCH_ACCEL_DEVICE", "cpu" if are_several else "")


def _here() -> torch.device:
    """Return the accelerator that is here, or the CPU; TORCH_ACCEL_DEVICE picks one."""
    global _device
    if _device is None:
        wanted, _, index = _wanted().partition(":")
        api = getattr(torch, "accelerator", None)  # from torch 2.6 on
        is_traced = api and torch.compiler.is_compiling()
        if not wanted and api and (is_traced or hasattr(api, "empty_cache")):  # before torch 2.8 counting started CUDA
            there = api.is_available() if is_traced else api.device_count()  # counting devices keeps fork usable
            wanted = str(api.current_accelerator()) if there else "cpu"
        homes = {kind: getattr(torch.backends if kind == "mps" else torch, kind, None) for kind in _KINDS}
        asks = {"cuda": "device_count"}
        found = (kind for kind, home in homes.items() if home and getattr(home, asks.get(kind, "is_available"))())
        _device = torch.device(wanted or next(found, "cpu"))
        if int(index or 0) > 0:
            getattr(torch, wanted).set_device(int(index))
    return _device


# in a copy that is asked only while scripts are loaded, this is _here
def _found() -> torch.device:
    """Return the accelerator that is here, or the CPU; TORCH_ACCEL_DEVICE picks one."""
    wanted, _, index = _wanted().partition(":")
    if not wanted and hasattr(getattr(torch, "accelerator", 0), "empty_cache"):  # torch >= 2.9: counting starts nothing
        wanted = str(torch.accelerator.current_accelerator()) if torch.accelerator.device_count() else "cpu"
    if int(index or 0) > 0:
        getattr(torch, wanted).set_device(int(index))
    for kind in _KINDS:
        home, asks = getattr(torch.backends if kind == "mps" else torch, kind, None), "is_available"
        wanted = wanted or (kind if home and getattr(home, "device_count" if home is torch.cuda else asks)() else "")
    return torch.device(wanted or "cpu")


def device_type() -> str:
    """Return the accelerator's type ("cuda", "mps", "xpu"...), or "cpu"."""
    return _here().type


# in a copy that is asked for the current device and the first one alone, this is `device`
def _first(index: "int | None" = None) -> torch.device:
    """Return the current accelerator, or for 0 the first one; on the CPU the CPU."""
    here = _here()
    return here if index is None or here.type == "cpu" else torch.device(here.type, index)


def device(index_or_device: Any = None) -> torch.device:
    """Return the accelerator with that index, or the current one for None; "cpu" stays, -1 is the CPU off CUDA."""
    kind, index = _here().type, index_or_device
    if isinstance(index, torch.device) or (isinstance(index, str) and not index.isdigit()):
        named = torch.device(index)
        if named.type != "cuda":
            return named
        index = named.index
    if index is None or kind == "cpu":
        return _here()
    if int(index) < 0 and kind != "cuda":
        return torch.device("cpu")
    if int(index) > 0 and kind != "cuda" and (kind == "mps" or getattr(torch, kind).device_count() < 2):
        warnings.warn(f"accel: device {index} was asked for, but there is only {kind}:0", stacklevel=2)
        index = 0
    return torch.device(kind, int(index))


def _native(name: str) -> Any:
    """Return the backend's function of this name, else torch.accelerator's, or None."""
    kind = _here().type
    homes = [getattr(torch, kind, None), getattr(torch, "accelerator", None)]
    if kind in ("cpu", "mps"):  # torch.accelerator's assert on MPS before torch 2.13
        homes = homes[:1] if kind == "mps" else []
    elif kind not in ("cuda", "xpu") and _is_compiling():
        homes.reverse()  # torch.compile knows nothing of torch.npu and torch.mtia
    return next((getattr(home, name) for home in homes if hasattr(home, name)), None)


def _own(name: str) -> Any:
    """Return the backend's function of this name, or None."""
    kind = _here().type
    return None if kind == "cpu" else getattr(getattr(torch, kind, None), name, None)


def _place(index: Any) -> Any:
    """Return the arguments that name a device to the backend; MPS takes none."""
    kind = _here().type
    if index is None or kind == "mps":
        return ()
    is_final = kind == "cuda" or (isinstance(index, int) and index < 0)
    return (index if is_final else device(index),)


def _ask(name: str, device: Any, default: Any) -> Any:
    """Return what the backend's function says of a device, or the default; XPU and NPU are asked nothing of the CPU."""
    native, place = _native(name), _place(device)
    is_cpus = _here().type != "cuda" and any(getattr(each, "type", "") == "cpu" for each in place)
    return default if native is None or is_cpus else native(*place)


def is_available() -> bool:
    """Return whether there is an accelerator; on CUDA torch.cuda is asked, which starts CUDA as it always did."""
    return torch.cuda.is_available() if _here().type == "cuda" else _here().type != "cpu"


def device_count() -> Any:
    """Return the number of accelerators: 0 on the CPU, 1 on MPS."""
    kind = _here().type
    return int(kind == "mps") if kind in ("cpu", "mps") else getattr(torch, kind).device_count()


def current_device() -> Any:
    """Return the current device's index, 0 on the CPU and MPS; for `.to()` use device()."""
    kind = _here().type
    if kind in ("cpu", "mps"):
        return 0
    is_traced = kind not in ("cuda", "xpu") and _is_compiling()
    return _native("current_device_index" if is_traced else "current_device")()


def set_device(device: Any) -> None:
    """Make a device the current one; do nothing on the CPU and MPS."""
    kind = _here().type
    if kind not in ("cpu", "mps"):
        is_plain = kind == "cuda" or isinstance(device, int)
        getattr(torch, kind).set_device(device if is_plain else torch.device(device).index or 0)


def device_guard(device: Any) -> Any:
    """Make a device the current one in a `with`; do nothing on the CPU and MPS, and for the CPU."""
    null = contextlib.nullcontext()
    return null if device is None else _ask("device", device, null)


def device_of(obj: Any) -> Any:
    """Make a tensor's device the current one in a `with`; do nothing for the CPU's."""
    if _here().type == "cuda":
        return _native("device_of")(obj)
    return device_guard(obj.device if is_accelerated(obj) else None)


def is_complete() -> bool:
    """Return whether there is an accelerator that has all of float64 and of torch's operators: not MPS."""
    kind = _here().type
    if kind == "xpu":  # some have no float64
        return bool(getattr(torch.xpu.get_device_properties(), "has_fp64", True))
    return torch.cuda.is_available() if kind == "cuda" else kind not in ("cpu", "mps")


def is_usable() -> bool:
    """Return False only where torch was built for CUDA or ROCm and finds no GPU."""
    built: Any = torch.backends.cuda.is_built
    return _here().type != "cpu" or not built() or "TORCH_ACCEL_DEVICE" in os.environ


def is_nvidia() -> bool:
    """Return whether it is CUDA and not ROCm."""
    return _here().type == "cuda" and getattr(torch.version, "hip", None) is None


def is_accelerated(thing: Any) -> bool:
    """Return whether a tensor, a device or a name is the accelerator's ("cuda" is)."""
    kind = _here().type
    if kind == "cpu" or isinstance(thing, int):
        return kind != "cpu" and bool(thing >= 0)
    if isinstance(thing, (str, torch.device)):
        return any(str(thing).split(":")[0] == k or f".{k}." in str(thing) for k in (kind, "cuda"))
    place = getattr(thing, "device", None) or getattr(getattr(thing, "data", 0), "device", 0)
    return torch.device(place).type == kind if place else bool(getattr(thing, "is_cuda", 0))


def device_ids(*ids: Any) -> Any:
    """Return ids, or one list of them, as a list for DDP; None on the CPU and MPS."""
    if len(ids) == 1 and not isinstance(ids[0], (int, str, torch.device)):
        ids = ids[0]
    if ids is None or _here().type in ("cpu", "mps"):
        return None
    is_cuda = _here().type == "cuda"
    return [i if is_cuda or isinstance(i, int) else device(i) for i in ids]


def output_device(index: Any) -> Any:
    """Return the output_device for DDP; None on the CPU and MPS."""
    is_cuda, none = _here().type == "cuda", _here().type in ("cpu", "mps") or index is None
    return None if none else index if is_cuda or isinstance(index, int) else device(index)


def _move_inputs(wrapped: Any, *inputs: Any) -> Any:
    """Return a module's inputs where it is; a module on the CPU goes with inputs that are elsewhere."""
    own = [*wrapped.parameters(), *wrapped.buffers()]
    tensors = [each for each in torch.utils._pytree.tree_flatten([own, inputs])[0] if isinstance(each, torch.Tensor)]
    place = next((each.device for each in tensors if each.device.type != "cpu"), torch.device("cpu"))
    if any(each.device.type != place.type for each in own):
        wrapped.to(place)

    def move(each: Any) -> Any:
        return each.to(place) if isinstance(each, torch.Tensor) else each

    moved = torch.utils._pytree.tree_map(move, inputs)
    return moved if len(moved) > 1 else moved[0]  # hooks of torch 1 get and return no keyword arguments


class _OnlyOne(list):  # type: ignore[type-arg]
    """The number of the one device; empty for DataParallel's forward, which then scatters nothing."""

    def __bool__(self) -> bool:
        return False


def data_parallel(module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0, cls: Any = None) -> Any:
    """Return torch.nn.DataParallel, or an heir; off CUDA one that takes its inputs to where the module is."""
    cls = cls or torch.nn.DataParallel
    if _here().type == "cuda":
        return cls(module, device_ids, output_device, dim)
    wrapped: Any = cls.__new__(cls)
    torch.nn.Module.__init__(wrapped)  # DataParallel's own would look for GPUs
    wrapped.module, wrapped.device_ids, wrapped.dim = module, _OnlyOne([0]), dim
    if _here().type != "cpu":
        wrapped.register_forward_pre_hook(_move_inputs, **({"with_kwargs": True} if _version >= (2, 0) else {}))
    return wrapped


def non_blocking(wanted: bool = True) -> bool:
    """Return as wanted; False on MPS, where a copy is read before it is there."""
    return wanted and _here().type != "mps"  # pytorch #139550, #189690


def pin_memory(wanted: bool = True) -> bool:
    """Return as wanted; False on the CPU and MPS, where torch cannot."""
    return wanted and _here().type not in ("cpu", "mps")


def pin(tensor: Any) -> Any:
    """Return tensor.pin_memory(); the tensor itself on the CPU and MPS."""
    return tensor if _here().type in ("cpu", "mps") else tensor.pin_memory()


def _from_anywhere() -> Any:
    """Return a map_location: what another accelerator saved comes to this one; None on CUDA."""
    here, indices = _here().type, ["", *(f":{index}" for index in range(64))]
    saved = [kind + index for kind in _KINDS if kind != here for index in indices]
    return None if here == "cuda" else dict.fromkeys(saved, here)


def map_location(target: Any = None) -> Any:
    """Return a map_location; None moves only what another accelerator saved, on CUDA nothing."""
    if target is None:
        return _from_anywhere()
    if isinstance(target, dict) and _here().type != "cuda":
        places = {saved: str(device(place)) for saved, place in target.items()}
        return {**_from_anywhere(), **{str(device(saved)): place for saved, place in places.items()}, **places}
    return device(target) if isinstance(target, (int, str, torch.device)) else target


class _Queue:
    """The one stream of the CPU and MPS, and its events, by the host's clock."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._timed, self._at = enable_timing, 0.0

    def synchronize(self, *_: Any) -> bool:
        """Wait for the device."""
        _wait()
        return True

    query = synchronize

    def wait(self, *_: Any) -> None:
        """Do nothing, as all is in order."""

    wait_event = wait_stream = wait

    def record(self, *_: Any) -> None:
        """Take the time once the device is done."""
        if self._timed and not _is_compiling():
            _wait()
            self._at = time.perf_counter()

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one if none is given."""
        event = event or _Queue()
        event.record()
        return event

    def elapsed_time(self, end: Any) -> float:
        """Return the milliseconds between two events that were recorded."""
        if not (self._at and end._at):
            raise RuntimeError("Record both events first, made with enable_timing=True.")
        return float(end._at - self._at) * 1e3


# in a copy for a program that makes no events, this is _Queue
class _Untimed:
    """The one stream of the CPU and MPS, and its events."""

    def synchronize(self, *_: Any) -> bool:
        """Wait for the device."""
        _wait()
        return True

    query = synchronize

    def wait(self, *_: Any) -> None:
        """Do nothing, as all is in order."""

    record = wait_event = wait_stream = wait

    def record_event(self, event: Any = None) -> Any:
        """Return an event, which need not know when it was recorded."""
        return event or self


_QUEUE = _Queue()


def _stream_function(name: str) -> Any:
    """Return the backend's function; None on the CPU and MPS, which have one stream."""
    return None if _here().type in ("cpu", "mps") else _native(name)


def _wait() -> None:
    """Wait for the device; do nothing on the CPU, nor off CUDA while compiling."""
    native = _native("synchronize")
    if native is not None and (_here().type == "cuda" or not _is_compiling()):
        native()


def synchronize(device: Any = None) -> None:
    """Wait for a device; do nothing on the CPU, nor off CUDA while compiling."""
    if device is None:
        _wait()
    elif _here().type == "cuda" or not _is_compiling():
        _ask("synchronize", device, None)


def empty_cache() -> None:
    """Free unused memory; do nothing on the CPU, nor off CUDA while compiling."""
    native = _native("empty_cache")
    if native is not None and (_here().type == "cuda" or not _is_compiling()):
        native()


def _new_stream() -> Any:
    """Return a new stream; on the CPU and MPS the only one."""
    native = _stream_function("Stream")
    return _QUEUE if native is None else native()


def Stream(device: Any = None, priority: int = 0) -> Any:
    """Return a new stream; on the CPU and MPS the only one."""
    native = _stream_function("Stream")
    options = {"priority": priority} if priority else {}
    return _QUEUE if native is None else native(*_place(device), **options)


def _running_stream() -> Any:
    """Return the current stream; on the CPU and MPS the only one."""
    native = _stream_function("current_stream")
    return _QUEUE if native is None else native()


def current_stream(device: Any = None) -> Any:
    """Return the current stream; on the CPU and MPS the only one."""
    native = _stream_function("current_stream")
    return _QUEUE if native is None else native(*_place(device))


def default_stream(device: Any = None) -> Any:
    """Return the default stream, on XPU the current one; on the CPU and MPS the only one."""
    native = _stream_function("default_stream")
    return current_stream(device) if native is None else native(*_place(device))


def set_stream(stream: Any) -> None:
    """Make a stream the current one; do nothing on the CPU and MPS."""
    native = _stream_function("set_stream")
    if native is not None and (stream is not None or _here().type == "cuda"):
        native(stream)


def stream(stream: Any) -> Any:
    """Make a stream the current one in a `with`; do nothing on the CPU and MPS."""
    native = _stream_function("stream")
    is_none = native is None or (stream is None and _here().type != "cuda")
    return contextlib.nullcontext() if is_none else native(stream)


def record_stream(tensor: Any, stream: Any) -> None:
    """Call tensor.record_stream(stream); do nothing on the CPU and MPS."""
    if type(stream).__name__ != "_Queue":  # by name: a copy of this file may have made it
        tensor.record_stream(stream)


def _new_event(enable_timing: bool = False) -> Any:
    """Return an event; on the CPU and MPS one by the host's clock."""
    return (_stream_function("Event") or _Queue)(enable_timing=enable_timing)


def Event(enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
    """Return an event; on the CPU and MPS one by the host's clock."""
    if _here().type == "cuda":
        new: Any = torch.cuda.Event
        return new(enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)
    return (_stream_function("Event") or _Queue)(enable_timing=enable_timing)


def memory_allocated(device: Any = None) -> Any:
    """Return the bytes that tensors take; 0 on the CPU."""
    if _here().type == "mps":
        return (_own("current_allocated_memory") or int)()  # 0 before torch 2.0
    return _ask("memory_allocated", device, 0)


def memory_reserved(device: Any = None) -> Any:
    """Return the bytes that torch holds; 0 on the CPU."""
    if _here().type == "mps":
        return (_own("driver_allocated_memory") or int)()  # 0 before torch 2.0
    return _ask("memory_reserved", device, 0)


def max_memory_allocated(device: Any = None) -> Any:
    """Return the most bytes that tensors took; 0, as unknown, on the CPU and MPS."""
    return _ask("max_memory_allocated", device, 0)


def max_memory_reserved(device: Any = None) -> Any:
    """Return the most bytes that torch held; 0, as unknown, on the CPU and MPS."""
    return _ask("max_memory_reserved", device, 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forget the most bytes so far; do nothing on the CPU and MPS."""
    _ask("reset_peak_memory_stats", device, None)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Forget the sums so far; do nothing on the CPU and MPS."""
    _ask("reset_accumulated_memory_stats", device, None)


def memory_stats(device: Any = None) -> Any:
    """Return a dict of statistics, empty on the CPU and MPS."""
    return _ask("memory_stats", device, {})


def memory_summary(device: Any = None, abbreviated: bool = False) -> Any:
    """Return a text; where the backend writes none, "no summary"."""
    if _here().type == "cuda":
        return torch.cuda.memory_summary(device, abbreviated)
    return _ask("memory_summary", device, "no summary")


def mem_get_info(device: Any = None) -> Any:
    """Return the free and all bytes; (0, 0), as unknown, on the CPU and MPS."""
    return _ask("mem_get_info", device, (0, 0))


def ipc_collect() -> None:
    """Free memory that other processes shared; do nothing where there is no such thing."""
    native = _own("ipc_collect")
    if native is not None:
        native()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit the memory of this process; do nothing on the CPU."""
    native = _own("set_per_process_memory_fraction")
    if native is not None:
        native(fraction, *_place(device))


def manual_seed(seed: int) -> None:
    """Seed the current device; do nothing on the CPU, as torch.cuda's."""
    native = _own("manual_seed")
    if native is not None:
        native(seed)


def manual_seed_all(seed: int) -> None:
    """Seed all devices; do nothing on the CPU, as torch.cuda's."""
    native = _own("manual_seed" if _here().type == "mps" else "manual_seed_all")
    if native is not None:
        native(seed)


def seed() -> None:
    """Seed the current device at random; do nothing on the CPU, as torch.cuda's."""
    native = _own("seed")
    if native is not None:
        native()


def seed_all() -> None:
    """Seed all devices at random; do nothing on the CPU, as torch.cuda's."""
    native = _own("seed" if _here().type == "mps" else "seed_all")
    if native is not None:
        native()


def initial_seed() -> Any:
    """Return the seed of the current device; on the CPU the CPU's."""
    if _here().type == "mps" and hasattr(torch, "mps"):  # from torch 2.0 on
        return torch.mps._get_default_mps_generator().initial_seed()
    return (_own("initial_seed") or torch.initial_seed)()


def get_rng_state(device: Any = None) -> Any:
    """Return the state of a device's generator; on the CPU the CPU's."""
    return torch.get_rng_state() if _here().type == "cpu" else _ask("get_rng_state", device, None)


def get_rng_state_all() -> Any:
    """Return the states of all devices' generators; [] on the CPU."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """Set the state of a device's generator; do nothing on the CPU, and warn of a state from another kind of device."""
    native = _own("set_rng_state")
    if native is None:
        return
    try:
        native(new_state, *_place(device))
    except RuntimeError as error:  # the states of CUDA and MPS differ in size
        if _here().type == "cuda":
            raise
        warnings.warn(f"accel: this random state is not set: {error}", stacklevel=2)


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of all devices' generators; do nothing on the CPU."""
    for index in range(min(device_count(), len(new_states))):
        set_rng_state(new_states[index], index)


def generator(index_or_device: Any = None) -> torch.Generator:
    """Return a torch.Generator on a device, which is where its numbers are drawn."""
    return torch.Generator(device=device(index_or_device))


def autocast_type() -> str:
    """Return the type for torch.autocast, "cuda" (disabled there) on the CPU and old MPS."""
    kind = _here().type
    return "cuda" if kind == "cpu" or (kind == "mps" and _version < (2, 5)) else kind


def _half(enabled: bool = True) -> Any:
    """Return torch.autocast to float16; disabled on the CPU, as torch.cuda's."""
    if not hasattr(torch, "autocast"):  # before torch 1.10
        return torch.cuda.amp.autocast(enabled)
    kind = autocast_type()
    return torch.autocast(kind, enabled=enabled and kind == _here().type, dtype=torch.float16)


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: Any = None) -> Any:
    """Return torch.autocast, by default to float16; disabled on the CPU, as torch.cuda's."""
    if not hasattr(torch, "autocast"):  # before torch 1.10
        return torch.cuda.amp.autocast(enabled)
    kind = autocast_type()
    works = kind == _here().type
    # without a GPU an old torch refuses bfloat16 even where it is disabled
    options: Any = {"dtype": (works and dtype) or torch.float16}
    if cache_enabled is not None:  # torch 1.10 and 1.11 take no None
        options["cache_enabled"] = cache_enabled
    return torch.autocast(kind, enabled=enabled and works, **options)


def scaler_type() -> str:
    """Return the type for GradScaler, "cuda" (disabled there) on the CPU and old MPS."""
    kind = _here().type
    return "cuda" if kind == "cpu" or (kind == "mps" and _version < (2, 8)) else kind


_BaseScaler: Any = getattr(getattr(torch, "amp", None), "GradScaler", object)  # from torch 2.3 on


class _Scaler(_BaseScaler):  # type: ignore[misc]
    """torch.amp.GradScaler that also resumes where it was disabled, which saves {}."""

    def load_state_dict(self, state_dict: Any) -> None:
        """Load a state; leave all as it is for an empty one."""
        if state_dict:
            super().load_state_dict(state_dict)


def grad_scaler(*args: Any, **options: Any) -> Any:
    """Return torch.amp.GradScaler; disabled on the CPU and old MPS, as torch.cuda's."""
    kind = scaler_type()
    wanted = args[4] if len(args) > 4 else options.get("enabled", True)
    options["enabled"] = wanted and kind == _here().type
    if _BaseScaler is object:  # before torch 2.3
        return torch.cuda.amp.GradScaler(*args[:4], **options)
    scaler: Any = torch.amp.GradScaler if kind == "cuda" else _Scaler
    return scaler(kind, *args[:4], **options)


def _amp_decorator(name: str, function: Any, options: Any) -> Any:
    """Decorate a method of an autograd function; the device is found when it runs."""
    if function is None:
        return lambda function: _amp_decorator(name, function, options)
    new: Any = getattr(getattr(torch, "amp", None), name, None)  # from torch 2.4 on
    if new is None:
        return getattr(torch.cuda.amp, name)(function, **options)
    made = {kind: new(function, device_type=kind, **options) for kind in _KINDS}

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        kind = autocast_type()
        return (made.get(kind) or new(function, device_type=kind, **options))(*args, **kwargs)

    return decorated


def custom_fwd(function: Any = None, **options: Any) -> Any:
    """Decorate a forward, as torch.cuda.amp.custom_fwd does for CUDA."""
    return _amp_decorator("custom_fwd", function, options)


def custom_bwd(function: Any = None, **options: Any) -> Any:
    """Decorate a backward, as torch.cuda.amp.custom_bwd does for CUDA."""
    return _amp_decorator("custom_bwd", function, options)


def get_device_name(device: Any = None) -> Any:
    """Return the device's name; on the CPU and MPS its type."""
    return _ask("get_device_name", device, _here().type)


def get_device_capability(device: Any = None) -> Any:
    """Return (major, minor) on CUDA only; else (0, 0)."""
    return torch.cuda.get_device_capability(device) if _here().type == "cuda" else (0, 0)


def _has_bf16() -> bool:
    """Return whether bfloat16 works; False on the CPU and, as unknown, on MPS."""
    return (_own("is_bf16_supported") or bool)()


def is_bf16_supported(*args: Any, **options: Any) -> Any:
    """Return whether bfloat16 works; False on the CPU and, as unknown, on MPS."""
    if _here().type in ("cuda", "xpu"):  # others take no arguments
        return _own("is_bf16_supported")(*args, **options)
    return _has_bf16()


class _Properties:
    """What is known of a device; 0 is unknown."""

    def __init__(self, found: Any, name: str, total_memory: int) -> None:
        get = found.get if isinstance(found, dict) else functools.partial(getattr, found)
        self.name, self.total_memory = get("name", name), get("total_memory", total_memory)
        self.major, self.minor = get("major", 0), get("minor", 0)
        self.multi_processor_count = get("multi_processor_count", 0)

    def __repr__(self) -> str:
        return f"Properties({self.__dict__})"


def get_device_properties(device: Any = None) -> Any:
    """Return name, total_memory, major, minor and multi_processor_count; 0 is unknown."""
    if _here().type == "cuda":
        return torch.cuda.get_device_properties(device)
    found = _ask("get_device_properties", device, {})
    return _Properties(found, get_device_name(device), mem_get_info(device)[1])


def _collectives() -> str:
    """Return "nccl" on CUDA, elsewhere xccl, hccl or gloo."""
    if _here().type == "xpu" and getattr(torch.distributed, "is_xccl_available", bool)():
        return "xccl"
    return {"cuda": "nccl", "npu": "hccl", "hpu": "hccl"}.get(_here().type, "gloo")


def dist_backend(wanted: str = "nccl") -> str:
    """Return "nccl" on CUDA, elsewhere xccl, hccl or gloo; another one that is wanted stays."""
    return _collectives() if wanted == "nccl" else wanted


def convert_sync_batchnorm(module: Any, process_group: Any = None) -> Any:
    """Return a module with synchronized batch norms; the module itself on the CPU and MPS, which have none."""
    convert: Any = torch.nn.SyncBatchNorm.convert_sync_batchnorm
    return module if _here().type in ("cpu", "mps") else convert(module, process_group)


_OPEN: Any = {}  # the ranges of each thread


class nvtx:
    """torch.cuda.nvtx; elsewhere ranges of torch's own profiler."""

    @staticmethod
    def range(msg: str, *args: Any, **options: Any) -> Any:
        """Name a block or a function."""
        if _here().type == "cuda":
            return _own("nvtx").range(msg, *args, **options)
        return torch.autograd.profiler.record_function(msg.format(*args, **options))

    @staticmethod
    def range_push(msg: str) -> Any:
        """Begin a range."""
        if _here().type == "cuda":
            return _own("nvtx").range_push(msg)
        record: Any = torch.autograd.profiler.record_function(msg)
        record.__enter__()  # gives None, not itself, in compiled code
        return _OPEN.setdefault(threading.get_ident(), []).append(record)

    @staticmethod
    def range_pop() -> Any:
        """End the last range."""
        if _here().type == "cuda":
            return _own("nvtx").range_pop()
        ranges = _OPEN.get(threading.get_ident())
        return ranges and ranges.pop().__exit__(None, None, None)

    @staticmethod
    def mark(msg: str) -> Any:
        """Mark a moment; do nothing off CUDA."""
        return _own("nvtx").mark(msg) if _here().type == "cuda" else None


class _TensorType(type):
    """What torch.cuda.FloatTensor is, for other accelerators."""

    def __instancecheck__(cls: Any, thing: Any) -> bool:
        return isinstance(thing, torch.Tensor) and (thing.device.type, thing.dtype) == (_here().type, cls.dtype)

    def __call__(cls: Any, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            return args[0].to(_here(), cls.dtype)
        return getattr(torch, cls.__name__)(*args, **options).to(_here())


def tensor_type(dtype: torch.dtype) -> Any:
    """Return torch.cuda.FloatTensor or its kin; off CUDA a class that is used the same way."""
    name, kind = torch.empty(0, dtype=dtype, device="cpu").type().split(".")[-1], _here().type
    if kind in ("cpu", "cuda"):
        return getattr(torch if kind == "cpu" else torch.cuda, name)
    return _types.setdefault(name, _TensorType(name, (), {"dtype": dtype}))


def cast(tensor: Any, wanted: Any) -> Any:
    """Return tensor.type(torch.cuda.FloatTensor): of this type, on the accelerator or the CPU."""
    if isinstance(wanted, str) and wanted.count(".") == 2:  # "torch.cuda.FloatTensor", and MPS's, which `type` refuses
        wanted = getattr(torch, wanted.split(".")[-1]).dtype
    own = wanted is torch.Tensor or isinstance(wanted, (str, type(torch.FloatTensor)))
    if own and (_here().type == "cuda" or getattr(wanted, "is_cuda", None) is not True):
        return tensor.type(wanted)
    dtype = getattr(wanted, "dtype", wanted)
    if isinstance(tensor, torch.nn.Module):
        return tensor._apply(lambda part: cast(part, dtype))  # type: ignore[no-untyped-call]
    return tensor.to(tensor.device if tensor.device.type == _here().type else _here(), dtype)


def set_default_tensor_type(dtype: torch.dtype) -> None:
    """Make new tensors of this type, on the accelerator; off CUDA torch.Tensor() stays."""
    if _here().type == "cuda":
        name = torch.empty(0, dtype=dtype, device="cpu").type()
        torch.set_default_tensor_type(name.replace("torch.", "torch.cuda."))
        return
    torch.set_default_dtype(dtype)
    if _here().type != "cpu":
        torch.set_default_device(_here())


def double(values: Any) -> Any:
    """Return values.double(); it is made on the CPU where the device has no float64: on MPS and some XPUs."""
    may_lack = isinstance(values, torch.Tensor) and values.device.type in ("mps", "xpu")
    return values.cpu().double() if may_lack and not is_complete() else values.double()


def cpu_fallback(operator: Any) -> Any:
    """Return a function or a module of torch that MPS lacks: what is there comes to the CPU for it, and goes back."""
    if not isinstance(operator, torch.nn.Module):
        return functools.partial(_fall_back, operator)
    mps = getattr(torch.backends, "mps", None)  # from torch 1.12 on
    if mps and mps.is_available():
        operator.forward = functools.partial(_fall_back, operator.forward)
    return operator


def _fall_back(operator: Any, *args: Any, **options: Any) -> Any:
    """Return what an operator gives; on the CPU, and back on MPS, if a tensor is there."""
    given = [value.device for value in (*args, *options.values()) if isinstance(value, torch.Tensor)]
    place = next((device for device in given if device.type == "mps"), None)
    if place is None:
        return operator(*args, **options)
    named = {name: _moved(value, "cpu") for name, value in options.items()}
    return _moved(operator(*_moved(args, "cpu"), **named), place)


def _moved(value: Any, place: Any) -> Any:
    """Return a tensor, or those of a tuple, on a device; other values as they are."""
    if isinstance(value, tuple):
        return type(value)([_moved(each, place) for each in value])
    return value.to(place) if isinstance(value, torch.Tensor) else value


def sparse_tensor(indices: Any, values: Any, size: Any = None) -> torch.Tensor:
    """Return a sparse tensor where the values are, if that is an accelerator."""
    place = values.device if is_accelerated(values) else _here()
    options = {} if size is None else {"size": size}
    return torch.sparse_coo_tensor(indices, values, **options, device=place)


# What follows is not copied into projects: the log of what a device lacks.
_ON_MPS = {
    "memory_allocated": "current_allocated_memory",
    "memory_reserved": "driver_allocated_memory",
    "initial_seed": "manual_seed",
    "manual_seed_all": "manual_seed",
    "seed_all": "seed",
}
_LOGGED = {
    *("current_device", "set_device", "device_guard", "device_of", "synchronize", "empty_cache"),
    *("Stream", "stream", "current_stream", "default_stream", "set_stream"),
    *("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "memory_stats"),
    *("memory_summary", "mem_get_info", "reset_peak_memory_stats", "reset_accumulated_memory_stats"),
    *("ipc_collect", "set_per_process_memory_fraction", "get_device_name", "is_bf16_supported"),
    *("get_device_capability", "get_device_properties"),
    *("manual_seed", "manual_seed_all", "seed", "seed_all", "initial_seed", "get_rng_state", "set_rng_state"),
}
_said: Any = set()


def _lacks(name: str) -> bool:
    """Return whether the device has no function of its own for this one."""
    if _here().type == "mps" and "tream" in name:
        return True
    name = "device" if name == "device_guard" else name
    return _native(_ON_MPS.get(name, name) if _here().type == "mps" else name) is None


def _note(function: Any) -> None:
    """Log once per call site what the device lacks, and what is done instead."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals is globals():
        frame = frame.f_back
    site = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    line = f"{site}: no {function.__name__} on {_here()}. {function.__doc__}"
    if line not in _said:
        _said.add(line)
        logging.getLogger("accel").warning(line)  # to stderr, unless the program has set up logging


def _logged(function: Any) -> Any:
    """Return a function that also logs what the device lacks; not while compiling, as that breaks the graph."""

    @functools.wraps(function)
    def noted(*args: Any, **options: Any) -> Any:
        if not _is_compiling() and _lacks(function.__name__):
            _note(function)
        return function(*args, **options)

    return noted


if os.environ.get("TORCH_ACCEL_LOG", "0") not in ("", "0"):
    globals().update({_name: _logged(globals()[_name]) for _name in _LOGGED})
