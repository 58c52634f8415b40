"""Watch for the program's `import torch`, and run our steps before and after it."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType

from . import write_protection
from .profiles import Settings

Step = Callable[[], None]
_SEED = 2_071_723_081  # of no program's own: one that no longer seeds must not draw what it drew with its seed


def prepare() -> None:
    """Prepare this process before any code of the program runs; reads the environment (profiles.Settings)."""
    settings = Settings.read(os.environ)
    write_lines()
    random.seed(_SEED)  # makes two runs of a program comparable that seeds nothing itself
    _watch(_steps_before(settings), _steps_after(settings))
    _install_recorder(settings)
    write_protection.install(settings.readonly, settings.project, settings.shared)


def write_lines() -> None:
    """Write each line to stdout whole, when it ends: lines of processes that share it stay apart.

    Unbuffered, `print` writes the end of a line after the line.
    """
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True, write_through=False)


def _install_recorder(settings: Settings) -> None:
    if settings.reports:
        from .recorder import process_report

        process_report.install(settings)


def _steps_before(settings: Settings) -> dict[str, Step]:
    if not settings.native:
        return {}
    from .torch_c import distributed, native_tier

    steps = {
        "torch": lambda: native_tier.start(settings),
        "torch.distributed.constants": lambda: distributed.offer(settings),
    }
    if settings.backend in ("cuda", "xpu"):
        steps[f"torch.{settings.backend}"] = lambda: native_tier.bind(settings)
    return steps


def _steps_after(settings: Settings) -> dict[str, Step]:
    def torch_is_there() -> None:
        if settings.simulated:
            from . import activate

            activate.activate(settings)
        if settings.reports:
            from .recorder import process_report

            process_report.torch_imported()
        write_protection.protect_torch(settings.readonly, settings.project, settings.shared)
        _seed_torch()

    return {
        "torch": torch_is_there,
        "numpy": _seed_numpy,
        **_steps_after_distributed(settings),
        **_steps_of_recorder(settings),
        **({"multiprocessing.context": _spawn} if settings.platform == "macos" else {}),
    }


def _spawn() -> None:
    """Make new processes import the program anew, as is the default on a Mac, in place of forking."""
    context = sys.modules["multiprocessing.context"]
    context._default_context._default_context = context._concrete_contexts["spawn"]


def _steps_of_recorder(settings: Settings) -> dict[str, Step]:
    if not settings.reports:
        return {}
    from .recorder import process_report

    return {
        "unittest.result": process_report.watch_unittest,
        "multiprocessing.popen_fork": process_report.watch_processes,
        "torch.distributed.rendezvous": process_report.watch_rendezvous,
        "asyncio.base_events": process_report.watch_tasks,
    }


def _steps_after_distributed(settings: Settings) -> dict[str, Step]:
    def groups_are_there() -> None:
        if settings.native:
            from .torch_c import distributed

            distributed.register(settings)
        if settings.reports:
            from .recorder import process_report

            process_report.watch_groups()

    return {"torch.distributed.distributed_c10d": groups_are_there}


def _seed_numpy() -> None:
    sys.modules["numpy"].random.seed(_SEED)


def _seed_torch() -> None:
    import torch

    torch.manual_seed(_SEED)


def _watch(before: dict[str, Step], after: dict[str, Step]) -> None:
    """Run `before[name]` and `after[name]` around a module's first execution, by hooking its loader."""
    execute = SourceFileLoader.exec_module

    def exec_module(self: SourceFileLoader, module: ModuleType) -> None:
        before.pop(self.name, _do_nothing)()
        execute(self, module)
        after.pop(self.name, _do_nothing)()

    SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign, assignment]


def _do_nothing() -> None:
    pass
