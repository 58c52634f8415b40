"""Watches for the program's `import torch`: what has to be there before it, and what is put in place after it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from .settings import Settings

Step = Callable[[], None]


def prepare() -> None:
    """Called once, before any code of the program. Reads the environment (activation.py)."""
    settings = Settings.read(os.environ)
    random.seed(0)  # a program that seeds nothing is comparable with itself
    sys.meta_path.insert(0, Watcher(_before(settings), _after(settings)))
    _report(settings)


def _report(settings: Settings) -> None:
    if settings.reports:
        from . import witness

        witness.install(settings)


def _before(settings: Settings) -> dict[str, Step]:
    if not settings.simulated or settings.tier != "native":
        return {}
    from . import native_tier

    steps = {"torch": lambda: native_tier.start(settings)}
    if settings.backend in ("cuda", "xpu"):
        steps[f"torch.{settings.backend}"] = lambda: native_tier.bind(settings)
    return steps


def _after(settings: Settings) -> dict[str, Step]:
    def torch_is_there() -> None:
        if settings.simulated:
            from . import activate

            activate.activate(settings)
        if settings.reports:
            from . import witness

            witness.torch_imported()
        _seed_torch()

    return {"torch": torch_is_there, "numpy": _seed_numpy}


def _seed_numpy() -> None:
    sys.modules["numpy"].random.seed(0)


def _seed_torch() -> None:
    import torch

    torch.manual_seed(0)


class Watcher:
    """A finder that runs `before[name]` and `after[name]` around a module's first execution; finds nothing itself."""

    def __init__(self, before: dict[str, Step], after: dict[str, Step]) -> None:
        self.before, self.after = before, after

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that does our steps too; None for what is not watched."""
        before, after = self.before.pop(name, None), self.after.pop(name, None)
        if before is None and after is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _wrap(spec.loader, before, after)
        return spec


def _wrap(loader: Any, before: Step | None, after: Step | None) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        if before:
            before()
        execute(module)
        if after:
            after()

    loader.exec_module = exec_module
