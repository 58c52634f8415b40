"""Makes the simulated device this process's accelerator, once torch is imported; and tells what ran on it."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from .profiles import Settings
from .torch_c import batch_norm, composites, devices

_kept: list[Any] = []  # a torch.library.Library takes its kernels along when it goes
_statistics: list[Callable[[], dict[str, Any]]] = []


def activate(settings: Settings) -> None:
    """Called when `import torch` is done, before any code of the program sees it."""
    if settings.tier == "python":
        _python(settings)
    else:
        _native(settings)
    _compile_without_inductor()
    atexit.register(_drain, settings.backend, settings.count)


def statistics() -> dict[str, Any]:
    """{"kernels", "random_kernels", "operators", "peak_bytes"} of this process; {} where nothing is simulated."""
    return _statistics[0]() if _statistics else {}


def _native(settings: Settings) -> None:
    from .torch_c import native_tier

    devices.name_it(settings)
    ops = native_tier.configure(settings)
    profile = settings.profile
    key = profile.backend.upper() if profile.in_tree else "PrivateUse1"
    _kept.extend([*composites.register(key, profile.backend), *batch_norm.register(key)])
    devices.patch(settings)
    if profile.backend == "cuda":
        devices.allow_tensor_types()
    _statistics.append(lambda: _read(ops, settings.count))


def _read(ops: Any, count: int) -> dict[str, Any]:
    operators = {name: int(n) for name, _, n in (line.rpartition("=") for line in ops.counts())}
    return {
        "kernels": sum(operators.values()),
        "random_kernels": ops.random_count(),
        "operators": operators,
        "peak_bytes": [ops.peak_bytes(i) for i in range(count)],
    }


def _python(settings: Settings) -> None:
    from . import python_tier

    ops = python_tier.activate(settings.backend, settings.count, settings.memory)
    _statistics.append(lambda: _read(ops, settings.count))


def _compile_without_inductor() -> None:
    """torch.compile traces and differentiates as ever; inductor has no code generator for a simulated device."""
    import torch

    compiled = torch.compile

    def compile(model: Any = None, *, backend: Any = "inductor", **options: Any) -> Any:
        kept = {name: options[name] for name in ("fullgraph", "dynamic", "disable") if name in options}
        generates_code = not callable(backend) and "eager" not in backend
        return compiled(model, backend="aot_eager" if generates_code else backend, **kept)

    torch.compile = compile


def _drain(backend: str, count: int) -> None:
    """At exit. A device's backward thread lets go of its last task after the main thread has gone on, and aborts the
    process if it does so too late, as each task of Python's holds a Python object (torch's own race, anywhere). One
    more task, which holds none, makes sure that the last one is gone."""
    seen = statistics()
    _statistics[:] = [lambda: seen]  # what follows is not the program's
    thread = threading.Thread(target=_backward_everywhere, args=(backend, count))
    thread.start()
    thread.join()


def _backward_everywhere(backend: str, count: int) -> None:
    import torch

    engine: Any = torch.autograd.Variable._execution_engine
    for i in range(count):
        with contextlib.suppress(RuntimeError):  # out of memory
            end = torch.zeros(1, device=f"{backend}:{i}", requires_grad=True).sum()
            engine.run_backward((end,), (torch.ones_like(end),), False, False, (), allow_unreachable=True)
