"""Stand-ins for backends that this machine does not have: torch.cuda, torch.xpu, torch.npu and torch.mps modules."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from either_helper import accel


class Backend(types.ModuleType):
    """A device module: whatever is asked of it is recorded, and answered with `answers[name]`, else a fresh object."""

    def __init__(self, kind: str, absent: tuple[str, ...] = (), **answers: Any) -> None:
        super().__init__(f"torch.{kind}")
        self.calls: list[tuple[str, tuple, dict]] = []
        self.absent, self.answers = absent, answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.absent:
            raise AttributeError(name)

        def call(*args: Any, **options: Any) -> Any:
            self.calls.append((name, args, options))
            return self.answers.get(name, f"{name}'s answer")

        return call


# What torch.mps has in 2.13; nothing else may be asked of it.
MPS = {
    "current_allocated_memory",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "manual_seed",
    "recommended_max_memory",
    "seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
    "Event",
    "_get_default_mps_generator",
}


class Mps(Backend):
    def __getattr__(self, name: str) -> Any:
        if name not in MPS:
            raise AttributeError(name)
        return super().__getattr__(name)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test finds the device anew, as a new process does."""
    monkeypatch.delenv("TORCH_ACCEL_DEVICE", raising=False)
    monkeypatch.setattr(accel, "_device", None)
    monkeypatch.setattr(accel, "_types", {})


@pytest.fixture(params=["whole", "alone"])
def either(request: pytest.FixtureRequest, fresh: None) -> Iterator[None]:
    """The helper as a whole, and each function in a vendored file of its own, which ends with the test.

    A file that is imported while a test stands in for an old torch stays one for an old torch.
    """
    vars(accel)["alone"] = request.param == "alone"
    yield
    vars(accel)["alone"] = False
    accel.forget()


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Backend]]:
    """backend("xpu", device_count=2): from here on the helper sees this machine."""

    def install(kind: str, absent: tuple[str, ...] = (), **answers: Any) -> Backend:
        answers = {"device_count": 2, "is_available": True, **answers}
        module = Mps(kind, **answers) if kind == "mps" else Backend(kind, absent, **answers)
        monkeypatch.setattr(torch, kind, module, raising=False)
        monkeypatch.setattr(accel, "_device", torch.device("privateuseone" if kind == "npu" else kind))
        if kind == "npu":  # no such name in this build of torch
            monkeypatch.setattr(accel, "_device", types.SimpleNamespace(type="npu"))
        return module

    yield install
