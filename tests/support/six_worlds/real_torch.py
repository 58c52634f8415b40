"""The real torch of a CPU, made to answer questions as on another machine; it moves no tensor there.

A child of `cross_check` runs this: `python real_torch.py WORLD`, with programs on stdin and outcomes on stdout.
"""

from __future__ import annotations

import functools
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from six_worlds import fake_torch, foreign
from six_worlds.fake_torch import World, says
from six_worlds.running import Project, run

LOST = (
    *("current_device", "get_device_capability", "get_device_name", "get_device_properties"),
    *("set_device", "synchronize"),
)


def dies(world: World, kind: str, error: type[Exception] | None = None) -> Callable[..., Any]:
    def function(*args: Any, **options: Any) -> Any:
        raise world.die(kind, error)

    return function


class RealMachine:
    """A machine with the real torch, whose questions are answered as in a world."""

    def __init__(self, name: str) -> None:
        self.world = world = World(name)
        self.modules = foreign.modules(world)
        world.device = torch.device  # type: ignore[attr-defined]
        here = fake_torch.machine(name).modules
        self._cuda(here["torch.cuda"])
        for kind in ("xpu", "mps", "npu"):
            self._backend(kind, here)
        self._accelerator()
        torch.distributed.is_nccl_available = says(world.cuda_built)
        torch.distributed.is_xccl_available = says(world.kind == "xpu")

    def _cuda(self, fake: Any) -> None:
        world = self.world
        torch.cuda.is_available = says(world.kind == "cuda")
        torch.cuda.device_count = says(world.count if world.kind == "cuda" else 0)
        torch.cuda.is_bf16_supported = says(world.kind == "cuda")
        torch.backends.cuda.is_built = torch.cuda._is_compiled = says(world.cuda_built)
        torch.backends.cudnn.is_available = says(world.kind == "cuda")
        torch.version.cuda = "12.8" if world.cuda_built else None
        if world.kind == "cuda":
            names = (*LOST, "empty_cache", "mem_get_info", "memory_allocated", "max_memory_allocated", "ipc_collect")
            for name in names:
                setattr(torch.cuda, name, getattr(fake, name))
        else:
            for name in (*LOST, "mem_get_info"):
                setattr(torch.cuda, name, dies(world, "cuda"))

    def _backend(self, kind: str, fake: Any) -> None:
        """Answer for a backend that is no CUDA."""
        there = self.world.kind == kind
        if kind == "npu" and not there:
            return
        if kind == "npu":
            torch.utils.rename_privateuse1_backend("npu")
            torch.npu = sys.modules["torch.npu"] = types.ModuleType("torch.npu")
            self.modules["torch_npu"] = types.ModuleType("torch_npu")
        home = getattr(torch, kind)
        home.is_available, home.device_count = says(there), says(int(there))
        if kind == "mps":
            torch.backends.mps.is_available = torch.backends.mps.is_built = says(there)
        if there:
            names = ("synchronize", "empty_cache", "manual_seed", "set_device", "current_device", "manual_seed_all")
            names += ("memory_allocated", "max_memory_allocated", "is_bf16_supported", "mem_get_info")
            names += ("get_device_name", "get_device_properties", "current_allocated_memory", "driver_allocated_memory")
            for name in names:
                if hasattr(fake[f"torch.{kind}"], name):
                    setattr(home, name, getattr(fake[f"torch.{kind}"], name))

    def _accelerator(self) -> None:
        world, home = self.world, torch.accelerator

        def current(check_available: bool = False) -> Any:
            if world.kind:
                return torch.device(world.kind)
            return torch.device("cuda") if world.name == "nogpu" and not check_available else None

        home.is_available, home.device_count = says(world.kind is not None), says(world.count)
        home.current_accelerator = current
        if world.kind:
            home.current_device_index = lambda: world.current
            home.synchronize = home.empty_cache = home.set_device_index = says(None)


def has(name: str) -> bool:
    """Whether the real torch has a name, as `torch.cuda.is_available`."""
    try:
        functools.reduce(getattr, name.split(".")[1:], torch)
    except AttributeError:
        return False
    return True


def main() -> None:
    """Run the projects of stdin, one in a line, and then say which of the names of the last line there are."""
    machine = RealMachine(sys.argv[1])
    out = sys.stdout
    *projects, names = (json.loads(line) for line in sys.stdin)
    for files, argv, env in projects:
        outcome = run(Project(files, tuple(argv), env), sys.argv[1], machine=machine)  # type: ignore[arg-type]
        death = outcome.death
        out.write(json.dumps([outcome.said, death and death.kind, death and death.message]) + "\n")
    out.write(json.dumps([name for name in names if has(name)]) + "\n")


if __name__ == "__main__":
    main()
