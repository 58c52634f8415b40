"""Make the simulated device the accelerator of this process once torch is imported, and count what runs on it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

from .profiles import Settings
from .torch_c import batch_norm, composites, devices, operators, unsupported

_kept: list[Any] = []  # keeps libraries alive: a torch.library.Library unregisters its kernels when it is deleted
_statistics: list[Callable[[], dict[str, Any]]] = []


def activate(settings: Settings) -> None:
    """Activate the simulated device: after `import torch`, before any code of the program sees torch."""
    if settings.backend != "cuda":
        _forget_cuda()
    if settings.tier == "python":
        _activate_python(settings)
    else:
        _activate_native(settings)
    _compile_without_inductor()
    atexit.register(_drain, settings.backend, settings.count)


def _forget_cuda() -> None:
    """Make torch answer as a build without CUDA does: machines with other accelerators have such builds."""
    import torch

    if hasattr(torch._C, "_cuda_getDeviceCount"):
        del torch._C._cuda_getDeviceCount  # what torch.cuda asks whether it was compiled, before it starts CUDA
    torch._C._has_cuda = False
    torch.version.cuda = torch.version.hip = None
    with contextlib.suppress(ImportError):  # of a torch without distributed
        from torch.distributed import distributed_c10d

        distributed_c10d._NCCL_AVAILABLE = False


def statistics() -> dict[str, Any]:
    """Return this process's counts, {} without simulation.

    "kernels", "random_kernels" and, by name, "operators": how often; "elements" of all tensors that kernels took or
    gave, "products": those of matrix products and the like, "half_products" in half precision; "parameter_bytes": the
    most; "reads" by the host; "altered" tensors that reached the device; "peak_bytes" of each device.
    """
    return _statistics[0]() if _statistics else {}


def _activate_native(settings: Settings) -> None:
    from .torch_c import native_tier

    devices.name_it(settings)
    ops = native_tier.configure(settings)
    profile = settings.profile
    key = profile.backend.upper() if profile.in_tree else "PrivateUse1"
    _kept.extend([*composites.register(key, profile.backend), *batch_norm.register(key)])
    devices.patch(settings)
    if profile.backend == "cuda":
        devices.allow_tensor_types()
    _listen(ops)
    _statistics.append(lambda: _read_counts(ops, settings.count))


_LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)


def _listen(ops: Any) -> None:
    """Tell of what the device refuses; it calls from any thread, with Python's lock or without it."""

    def hear(kind: bytes, message: bytes) -> None:
        unsupported.tell(kind.decode(), message.decode(errors="replace"))

    operators.hide(sys.modules[__name__], unsupported)  # it may be in the midst of compiled code
    listener = _LISTENER(hear)
    _kept.append(listener)
    ops.listen(ctypes.cast(listener, ctypes.c_void_p).value)
    atexit.register(ops.listen, 0)  # no Python is called when it is gone


_WORK = ("elements", "products", "parameter_bytes", "reads", "altered", "half_products")


def _read_counts(ops: Any, count: int) -> dict[str, Any]:
    operators = {name: int(n) for name, _, n in (line.rpartition("=") for line in ops.counts())}
    work = ops.work() if hasattr(ops, "work") else [None] * len(_WORK)
    return {
        **dict(zip(_WORK, work, strict=True)),
        "kernels": sum(operators.values()),
        "random_kernels": ops.random_count(),
        "operators": operators,
        "peak_bytes": [ops.peak_bytes(i) for i in range(count)],
    }


def _activate_python(settings: Settings) -> None:
    from . import python_tier

    ops = python_tier.activate(settings.backend, settings.count, settings.memory)
    _statistics.append(lambda: _read_counts(ops, settings.count))


def _compile_without_inductor() -> None:
    """Replace torch.compile's inductor, which has no code generator for simulated devices, with "aot_eager"."""
    import torch

    compiled = torch.compile

    def compile(model: Any = None, *, backend: Any = "inductor", **options: Any) -> Any:
        kept = {name: options[name] for name in ("fullgraph", "dynamic", "disable") if name in options}
        generates_code = not callable(backend) and "eager" not in backend
        return compiled(model, backend="aot_eager" if generates_code else backend, **kept)

    torch.compile = compile


def _drain(backend: str, count: int) -> None:
    """Wait at exit until the backward threads have dropped their last task.

    Tasks hold Python objects, and dropping the last reference to one after the interpreter has gone aborts the
    process. One more backward pass, whose task holds none but immortal ones, makes sure that the last one is dropped.
    """
    seen = statistics()
    _statistics[:] = [lambda: seen]  # keep the backward passes below out of the program's counts
    thread = threading.Thread(target=_backward_everywhere, args=(backend, count))
    try:  # a thread of its own has no modes of the program's
        thread.start()
    except RuntimeError:  # from Python 3.12 on, none starts at exit
        _without_modes(_backward_everywhere, backend, count)
    else:
        thread.join()


def _without_modes(function: Callable[..., None], *arguments: Any) -> None:
    """Call a function whatever modes the program left on: no gradients, inference, a default device."""
    import torch

    with torch.inference_mode(False), torch.enable_grad(), torch._C.DisableTorchFunction():
        function(*arguments)


def _backward_everywhere(backend: str, count: int) -> None:
    import torch

    engine: Any = torch.autograd.Variable._execution_engine
    for i in range(count):
        with contextlib.suppress(RuntimeError):  # out of memory
            start = torch.zeros(1, device=f"{backend}:{i}", requires_grad=True)
            end = start.sum()
            gradient = torch.ones_like(end)
            for each in (start, end, gradient):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))  # the thread's reference is never the last one
            given = (end,), (gradient,), False, False, ()
            try:
                engine.run_backward(*given, allow_unreachable=True)
            except ValueError:  # before torch 2.13, there are inputs or gradients are accumulated
                engine.run_backward(*given, allow_unreachable=True, accumulate_grad=True)
