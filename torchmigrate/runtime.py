# torchmigrate-runtime 1
# SPDX-License-Identifier: Apache-2.0
"""torch.cuda's functions for whatever accelerator is here: CUDA, MPS, XPU, NPU..., or none. Needs torch >= 2.1 only.

On CUDA (and ROCm) each is torch.cuda's own; elsewhere the backend's or torch.accelerator's, else what its __doc__ says.
The device is found at the first call. TORCH_ACCEL_DEVICE=cpu|mps|xpu:1 picks it, TORCH_ACCEL_LOG=1 logs lacks."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import time
import types
import warnings
from typing import Any

import torch

OutOfMemoryError = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
_is_compiling: Any = getattr(torch.compiler, "is_compiling", None) or getattr(torch._utils, "is_compiling", bool)
_version = tuple(map(int, torch.__version__.split(".")[:2]))  # comparing a TorchVersion takes 10 us
_LOG = os.environ.get("TORCH_ACCEL_LOG", "0") not in ("", "0")  # once, as os.environ takes longer than most calls here
_kind = ""  # _device's type, of which torch makes a new text each time
_device: torch.device | None = None  # bound at the first call, and not by functools.cache, of which dynamo warns
_said: set[str] = set()
_ranges: dict[int, list[Any]] = {}  # the open ones of each thread
_types: dict[str, _TensorType] = {}
_SINGLE = ("cpu", "mps")  # one device, one queue (torch.mps has streams from 2.15 on; they are not used)
_TYPES = ("cuda", "mps", "xpu", "npu", "mtia", "hpu")
_STREAMS = ("Event", "Stream", "stream", "current_stream", "default_stream", "set_stream")
_MPS_UNTRACED = ("is_available", "device_count")  # torch.mps's break the graph under torch.compile
_UNTRACED = ("empty_cache", "synchronize")  # as do these of any backend but CUDA
_NEITHER = "Does nothing on the CPU and MPS."


def _note(lacking: str, instead: str) -> None:
    """TORCH_ACCEL_LOG=1: logs once per call site."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals is globals():
        frame = frame.f_back
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}: no {lacking} on {_device}. {instead}"
    if line not in _said:
        _said.add(line)
        logging.getLogger("accel").warning(line)  # to stderr, unless the program has set up logging


def _available(kind: str) -> bool:
    home: Any = torch.backends if kind == "mps" else torch  # torch.mps.is_available is younger
    return bool(getattr(getattr(home, kind, None), "is_available", bool)())


def _resolve() -> torch.device:
    global _device, _kind
    kind, _, index = os.environ.get("TORCH_ACCEL_DEVICE", "").partition(":")
    accelerator = getattr(torch, "accelerator", None)  # torch >= 2.6
    if kind not in ("", "cpu") and not _available(kind):
        raise RuntimeError(f"TORCH_ACCEL_DEVICE={kind}: torch finds no such device on this machine")
    # Asked first: current_accelerator() answers "cuda" on a CUDA build without a GPU. The count leaves fork alone.
    if not kind and accelerator is not None:
        there = accelerator.is_available() if _is_compiling() else accelerator.device_count() > 0
        kind = accelerator.current_accelerator().type if there else "cpu"
    _kind = kind or next(filter(_available, _TYPES), "cpu")
    _device = torch.device(_kind)
    if int(index or 0) > 0:
        set_device(int(index))
    return _device


def device_type() -> str:
    """The accelerator's type ("cuda", "mps", "xpu"...), or "cpu"."""
    return _kind or _resolve().type


def device(index_or_device: Any = None) -> torch.device:
    """None: the accelerator without an index, i.e. its current device; 1, "1", "cuda:1": that index; "cpu": itself.

    Where there is one device, index 0 and a warning; device(0) is what MPS tensors say, mps:0. The CPU has no index."""
    here, index = _device or _resolve(), index_or_device
    if index is None:
        return here
    if isinstance(index, str) and not index.isdigit():
        index = torch.device(index)
    if isinstance(index, torch.device):
        if index.type != "cuda":
            return index
        index = index.index
    if index is None or _kind == "cpu":
        return here
    index = int(index)
    if index > 0 and _kind != "cuda" and device_count() < 2:
        if not _is_compiling():
            warnings.warn(f"accel: device {index} was asked for, but there is only {_kind}:0", stacklevel=2)
        index = 0
    return torch.device(_kind, index)


def _native(name: str, mps: str = "") -> Any:
    """torch.<backend>.<name>, else torch.accelerator's (not on MPS, where those assert: #186430), else None."""
    kind = device_type()
    if kind == "mps":
        return None if name in _STREAMS + _MPS_UNTRACED else getattr(torch.mps, mps or name, None)
    if kind == "cpu" or name == "get_device_capability":
        return None
    own: Any = getattr(torch, kind, None)
    generic: Any = getattr(torch, "accelerator", None)
    if kind == "npu" and name == "is_bf16_supported":  # takes no arguments there
        return lambda *_, **__: own.is_bf16_supported()
    if kind != "xpu" and _is_compiling():  # dynamo knows torch.accelerator, but of torch.npu and torch.mtia nothing
        own, generic, name = generic, own, "current_device_index" if name == "current_device" else name
    return next((getattr(home, name) for home in (own, generic) if hasattr(home, name)), None)


def _forward(name: str, doc: str, instead: Any = None, own: int = 0, mps: str = "", home: str = "") -> Any:
    """A function: torch.cuda's, the backend's of this name, or `instead`. Its device comes after `own` arguments."""

    def function(*args: Any, **options: Any) -> Any:
        if device_type() == "cuda":
            return getattr(getattr(torch.cuda, home) if home else torch.cuda, name)(*args, **options)
        idle = _kind == "cpu" or (name in _UNTRACED and _is_compiling()) or ("stream" in name and own and None in args)
        native = None if idle else _native(name, mps)
        if native is None:
            if _LOG and name not in _MPS_UNTRACED and not _is_compiling():  # those two are answers, not lacks
                _note(name, doc)  # which would break the graph
            return instead(*args, **options) if callable(instead) else instead
        if "device" in options and len(args) == own:  # some take it by position only
            args = (*args, options.pop("device"))
        at = [d if d is None or (isinstance(d, int) and d < 0) else device(d) for d in args[own : own + 1]]
        rest = () if device_type() == "mps" else (*at, *args[own + 1 :])  # torch.mps takes no device
        return native(*args[:own], *rest, **options)

    function.__name__, function.__doc__ = name, doc
    return function


is_available = _forward("is_available", "Whether there is an accelerator.", lambda: device_type() != "cpu")
device_count = _forward("device_count", "0 on the CPU, 1 on MPS.", lambda: int(device_type() != "cpu"))
current_device = _forward("current_device", "0 on the CPU and MPS. For `.to()`, which may refuse 0, use device().", 0)
set_device = _forward("set_device", "Does nothing on the CPU and MPS, nor for -1.")
_BLOCK = "That device inside the block; nothing for None, -1 or something on the CPU, and on the CPU and MPS."
device_guard = _forward("device", _BLOCK, lambda device=None: contextlib.nullcontext())
device_of = _forward("device_of", _BLOCK, lambda obj: device_guard(obj.device if is_accelerated(obj) else None), own=1)


def is_usable() -> bool:
    """For what refused to run without CUDA: False only where torch was built for CUDA or ROCm and finds no GPU."""
    built: Any = torch.backends.cuda.is_built
    return device_type() != "cpu" or not built() or "TORCH_ACCEL_DEVICE" in os.environ


def is_nvidia() -> bool:
    """Whether it is CUDA and not ROCm."""
    return device_type() == "cuda" and torch.version.hip is None


def is_accelerated(thing: Any) -> bool:
    """What `x.is_cuda`, `x.device.type == "cuda"`, `"cuda" in device` ask, of this accelerator ("cuda" is it too)."""
    kind = device_type()
    if kind == "cpu" or isinstance(thing, int):
        return kind != "cpu" and thing >= 0
    if isinstance(thing, (str, torch.device)):
        return any(str(thing).split(":")[0] == name or f".{name}." in str(thing) for name in (kind, "cuda"))
    place = getattr(thing, "device", None) or getattr(getattr(thing, "data", None), "device", None)
    return bool(getattr(thing, "is_cuda", False)) if place is None else torch.device(place).type == kind


def device_ids(*ids: Any) -> list[Any] | None:
    """For DDP: the ids, or the one list or range of them, as a list; None on the CPU and MPS."""
    if len(ids) == 1 and not isinstance(ids[0], (int, str, torch.device)):
        ids = ids[0]
    if ids is None or device_type() in _SINGLE:
        return None
    return [i if isinstance(i, int) or device_type() == "cuda" else device(i) for i in ids]


def output_device(index: Any) -> Any:
    """For DDP: as given; None on the CPU and MPS."""
    return (device_ids(index) or [None])[0]


def _scatter_inputs(where: torch.device, module: Any, *inputs: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(where), inputs)


def data_parallel(module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> Any:
    """torch.nn.DataParallel; off CUDA, where torch cannot scatter, one that takes all to one device: the first."""
    if device_type() == "cuda":
        return torch.nn.DataParallel(module, device_ids, output_device, dim)
    wrapped: Any = torch.nn.DataParallel.__new__(torch.nn.DataParallel)
    torch.nn.Module.__init__(wrapped)  # its own would find a CUDA device that was not chosen, and refuses others
    wrapped.module, wrapped.device_ids, wrapped.dim = module, [], dim  # with no ids it calls the module
    if device_type() != "cpu":
        where = device(next(iter(device_ids or ()), None))
        module.to(where)
        wrapped.register_forward_pre_hook(functools.partial(_scatter_inputs, where), with_kwargs=True)
    return wrapped


def non_blocking(wanted: bool = True) -> bool:
    """As wanted; False on MPS, where the copy is read before it is there (pytorch #139550, #189690)."""
    return wanted and device_type() != "mps"


def pin_memory(wanted: bool = True) -> bool:
    """For DataLoader: as wanted; False on the CPU, where torch warns and pins nothing, and on MPS (#86060)."""
    return wanted and device_type() not in _SINGLE


def pin(tensor: Any) -> Any:
    """tensor.pin_memory(); the tensor itself on the CPU and MPS, where that raises."""
    return tensor.pin_memory() if pin_memory() else tensor


class _Places(dict):  # type: ignore[type-arg]
    """A dict for torch.load, which asks it where to put what was saved there: what an accelerator saved comes here."""

    def get(self, location: str, default: Any = None) -> str:
        kind, _, index = str(super().get(location, location)).partition(":")
        return kind if kind in ("cpu", "meta") else str(device(int(index) if index else None))


def map_location(target: Any = None) -> Any:
    """For torch.load: device(target). None moves only what an accelerator saved, and on CUDA nothing. Dicts too."""
    if target is None or isinstance(target, dict):
        return target if device_type() == "cuda" else _Places(target or {})
    return device(target) if isinstance(target, (int, str, torch.device)) else target


class _Queue:
    """Stream and Event where there is one queue: all is in order already, and the time is the host's after a sync."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._timed, self._at = enable_timing, 0.0

    def query(self) -> bool:
        synchronize()
        return True

    synchronize = query
    wait = wait_event = wait_stream = lambda self, other=None: None

    def record(self, stream: Any = None) -> None:
        if self._timed and not _is_compiling():
            synchronize()
            self._at = time.perf_counter()

    def record_event(self, event: Any = None) -> Any:
        (event := event or _Queue()).record()
        return event

    def elapsed_time(self, end_event: Any) -> float:
        if not (self._at and end_event._at):
            raise RuntimeError("Both events must be made with enable_timing=True, and recorded, before elapsed_time().")
        return float(end_event._at - self._at) * 1e3


_QUEUE = _Queue()
synchronize = _forward("synchronize", "Does nothing on the CPU, which is never ahead; nor off CUDA while compiling.")
empty_cache = _forward("empty_cache", "Does nothing on the CPU; nor off CUDA while compiling.")
Stream = _forward("Stream", "On the CPU and MPS the one queue.", lambda device=None, priority=0: _QUEUE)
current_stream = _forward("current_stream", "On the CPU and MPS the one queue.", lambda device=None: _QUEUE)
default_stream = _forward("default_stream", "On XPU the current one.", lambda device=None: current_stream(device))
set_stream = _forward("set_stream", _NEITHER, own=1)
stream = _forward("stream", _NEITHER, lambda stream: contextlib.nullcontext(), own=1)


def record_stream(tensor: Any, stream: Any) -> None:
    """tensor.record_stream(stream); does nothing with the one queue of the CPU and MPS."""
    if type(stream).__name__ != "_Queue":  # by name: another copy of this file may have made it
        tensor.record_stream(stream)


def Event(enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
    """torch.cuda.Event; elsewhere only enable_timing counts. On the CPU and MPS the host's clock after a sync."""
    options = {"blocking": blocking, "interprocess": interprocess} if device_type() == "cuda" else {}
    make: Any = torch.cuda.Event if device_type() == "cuda" else _native("Event") or _Queue
    return make(enable_timing=enable_timing, **options)


memory_allocated = _forward("memory_allocated", "Bytes; 0 on the CPU.", 0, mps="current_allocated_memory")
memory_reserved = _forward("memory_reserved", "Bytes; 0 on the CPU.", 0, mps="driver_allocated_memory")
max_memory_allocated = _forward("max_memory_allocated", "Bytes; 0, as unknown, on the CPU and MPS.", 0)
max_memory_reserved = _forward("max_memory_reserved", "Bytes; 0, as unknown, on the CPU and MPS.", 0)
reset_peak_memory_stats = _forward("reset_peak_memory_stats", _NEITHER)
reset_accumulated_memory_stats = _forward("reset_accumulated_memory_stats", _NEITHER)
memory_stats = _forward("memory_stats", "A dict, empty on the CPU and MPS.", lambda device=None: {})
memory_summary = _forward("memory_summary", "A text; where the backend writes none, a line that says so.", "no summary")
mem_get_info = _forward("mem_get_info", "(free, total) bytes; (0, 0), as unknown, on the CPU and MPS.", (0, 0))
ipc_collect = _forward("ipc_collect", "Does nothing where there is no such thing.")
set_per_process_memory_fraction = _forward("set_per_process_memory_fraction", "Does nothing on the CPU.", own=1)
# The CPU's generator is torch.manual_seed's: seeding here leaves it alone, as torch.cuda's functions do.
manual_seed = _forward("manual_seed", "Seeds the current device; does nothing on the CPU.", own=1)
manual_seed_all = _forward("manual_seed_all", "Seeds all devices; does nothing on the CPU.", own=1, mps="manual_seed")
seed = _forward("seed", "Seeds the current device at random; does nothing on the CPU.")
seed_all = _forward("seed_all", "Seeds all devices at random; does nothing on the CPU.", mps="seed")
initial_seed = _forward(
    "initial_seed",
    "On the CPU the CPU's.",
    lambda: (torch.mps._get_default_mps_generator() if device_type() == "mps" else torch).initial_seed(),
)
get_rng_state = _forward("get_rng_state", "On the CPU the CPU's.", lambda device=None: torch.get_rng_state())
get_rng_state_all = _forward("get_rng_state_all", "[] on CPUs.", lambda: [*map(get_rng_state, range(device_count()))])
set_rng_state = _forward("set_rng_state", "Does nothing on the CPU.", own=1)
set_rng_state_all = _forward(
    "set_rng_state_all",
    "Does nothing on the CPU.",
    lambda states: [*map(set_rng_state, states, range(device_count()))].clear(),
    own=1,
)


def generator(index_or_device: Any = None) -> torch.Generator:
    """A torch.Generator on that device, which is where its numbers are drawn."""
    return torch.Generator(device=device(index_or_device))


def autocast_type() -> str:
    """For torch.autocast: device_type(), but on the CPU a "cuda" that is disabled, as it was; MPS has one since 2.5."""
    kind = device_type()
    return "cuda" if kind == "cpu" or (kind == "mps" and _version < (2, 5)) else kind


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool | None = None) -> torch.autocast:
    """torch.autocast, with CUDA's default of float16 on any accelerator; disabled on the CPU, as torch.cuda.amp's."""
    kind, dtype = autocast_type(), torch.float16 if dtype is None else dtype
    return torch.autocast(kind, dtype=dtype, enabled=enabled and kind == device_type(), cache_enabled=cache_enabled)


def scaler_type() -> str:
    """For GradScaler: autocast_type(), but on MPS before torch 2.8, for want of a kernel, a disabled "cuda" too."""
    return "cuda" if device_type() == "mps" and _version < (2, 8) else autocast_type()


def grad_scaler(*args: Any, **options: Any) -> Any:
    """torch.amp.GradScaler, arguments after the device; disabled on the CPU and, for want of a kernel, on old MPS."""
    kind = scaler_type()
    options["enabled"] = kind == device_type() and (args[4] if len(args) > 4 else options.get("enabled", True))
    new = getattr(torch.amp, "GradScaler", None)  # torch >= 2.3
    return new(kind, *args[:4], **options) if new else torch.cuda.amp.GradScaler(*args[:4], **options)


def _amp_decorator(name: str, function: Any = None, **options: Any) -> Any:
    if function is None:
        return functools.partial(_amp_decorator, name, **options)
    new = getattr(torch.amp, name, None)  # torch >= 2.4
    if new is None:
        return getattr(torch.cuda.amp, name)(function, **options)
    made = {kind: new(function, device_type=kind, **options) for kind in _TYPES}  # here, as dynamo cannot

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return (made.get(autocast_type()) or new(function, device_type=autocast_type(), **options))(*args, **kwargs)

    return decorated


# torch.amp's decorators; the device is looked for when the method runs, not when its class is made
custom_fwd = functools.partial(_amp_decorator, "custom_fwd")
custom_bwd = functools.partial(_amp_decorator, "custom_bwd")
get_device_name = _forward("get_device_name", "On the CPU and MPS the device type.", lambda device=None: device_type())
get_device_capability = _forward("get_device_capability", "(major, minor) on CUDA only; else (0, 0).", (0, 0))
is_bf16_supported = _forward("is_bf16_supported", "False on the CPU and, as unknown, on MPS.", False, own=1)
_properties = _forward("get_device_properties", "What is not known is 0.", lambda device=None: {})


class _Properties:  # and no SimpleNamespace, which breaks the graph
    def __init__(self, found: Any, **unknown: Any) -> None:
        for name, value in unknown.items():
            setattr(self, name, found.get(name, value) if isinstance(found, dict) else getattr(found, name, value))


def get_device_properties(*args: Any, **options: Any) -> Any:
    """Off CUDA name, total_memory, major, minor and multi_processor_count; 0, or the device type, is unknown."""
    found = _properties(*args, **options)
    if device_type() == "cuda":
        return found
    name, total = get_device_name(*args, **options), mem_get_info(*args, **options)[1]
    return _Properties(found, name=name, total_memory=total, major=0, minor=0, multi_processor_count=0)


def dist_backend(wanted: str = "nccl") -> str:
    """For "nccl": itself on CUDA, xccl on XPU if built, hccl on NPU and HPU, else gloo. Anything else stays."""
    xccl = "xccl" if getattr(torch.distributed, "is_xccl_available", bool)() else "gloo"  # torch >= 2.7
    own = {"cuda": "nccl", "xpu": xccl, "npu": "hccl", "hpu": "hccl"}.get(device_type(), "gloo")
    return own if wanted == "nccl" else wanted


def _open() -> list[Any]:
    return _ranges.setdefault(threading.get_ident(), [])


_record: Any = torch.profiler.record_function
_nvtx = functools.partial(_forward, doc="A torch.profiler.record_function, for torch's own profiler.", home="nvtx")
nvtx = types.SimpleNamespace(
    range=_nvtx("range", instead=lambda msg, *args, **kw: _record(msg.format(*args, **kw))),
    range_push=_nvtx("range_push", instead=lambda msg: _open().append(_record(msg).__enter__())),
    range_pop=_nvtx("range_pop", instead=lambda: _open() and _open().pop().__exit__(None, None, None)),
    mark=_forward("mark", "Does nothing.", home="nvtx"),
)


class _TensorType(type):
    """What torch.cuda.FloatTensor is, for other accelerators: of sizes it is uninitialised, of a sequence its data."""

    dtype: torch.dtype

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, torch.Tensor) and thing.dtype == cls.dtype and is_accelerated(thing)

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            return args[0].to(device(), cls.dtype)
        return getattr(torch, cls.__name__)(*args, **options).to(device())


def tensor_type(dtype: torch.dtype) -> Any:
    """torch.cuda.FloatTensor and its kin; on the CPU torch.FloatTensor; elsewhere a class that is used the same way."""
    name, kind = torch.empty(0, dtype=dtype, device="cpu").type().rpartition(".")[2], device_type()
    if kind in ("cpu", "cuda"):
        return getattr(torch if kind == "cpu" else torch.cuda, name)
    return _types.setdefault(name, _TensorType(name, (), {"dtype": dtype}))


def cast(tensor: Any, wanted: Any) -> Any:
    """tensor.type(torch.cuda.FloatTensor): to this (d)type, on the accelerator unless it is the CPU's. Modules too."""
    if isinstance(wanted, str):
        home, _, name = wanted.rpartition(".")
        wanted = getattr(torch, name) if home == "torch" else getattr(torch, name).dtype
    legacy = isinstance(wanted, type(torch.FloatTensor)) and (device_type() == "cuda" or not wanted.is_cuda)
    if legacy or wanted is torch.Tensor:  # the latter is the default type
        return tensor.type(wanted)
    dtype = getattr(wanted, "dtype", wanted)
    if isinstance(tensor, torch.nn.Module):
        return tensor._apply(lambda part: cast(part, dtype))  # type: ignore[no-untyped-call]
    return tensor.to(tensor.device if is_accelerated(tensor) else device(), dtype)


def set_default_tensor_type(dtype: torch.dtype) -> Any:
    """torch.set_default_tensor_type(torch.cuda.FloatTensor); elsewhere dtype and device, but torch.Tensor() stays."""
    if device_type() == "cuda":
        return torch.set_default_tensor_type(tensor_type(dtype))
    torch.set_default_dtype(dtype)
    return torch.set_default_device(device()) if device_type() != "cpu" else None


def sparse_tensor(indices: Any, values: Any, size: Any = None) -> torch.Tensor:
    """torch.cuda.sparse.FloatTensor(indices, values, size): where the values are, if that is an accelerator."""
    where = values.device if is_accelerated(values) else device()
    return torch.sparse_coo_tensor(indices, values, *([] if size is None else [size]), device=where)
