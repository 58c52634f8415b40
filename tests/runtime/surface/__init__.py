"""Checks of the helper that run where devices are simulated: `python -m runtime.surface`, in a process of its own.

Each module beside this one is a topic; its functions under @check are the checks. test_simulated.py imports them, to
know their names, where there is no such device: so nothing here touches a device when it is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchmigrate import runtime as accel

BACKENDS = ("cuda", "mps", "xpu", "npu", "mtia")
KIND, _, _count = os.environ.get("TORCHMIGRATE_BACKEND", "cpu:1").partition(":")
COUNT = int(_count or 1)
MIB = 1 << 20
CAPACITY = 64 * MIB  # of each device

ON_CUDA, ON_MPS = KIND == "cuda", KIND == "mps"


@dataclass(frozen=True)
class Check:
    """A function that raises if something is wrong, on these backends with `least` devices or more.

    `most_only`: with as many devices as a test gives the backend, two or a Mac's one, since fewer cannot differ."""

    name: str
    function: Callable[[], None]
    backends: tuple[str, ...]
    least: int
    most_only: bool = False

    def runs_on(self, backend: str, count: int) -> bool:
        least = 2 if self.most_only and backend != "mps" else self.least
        return backend in self.backends and count >= least


CHECKS: dict[str, Check] = {}


def check(
    function: Callable[[], None] | None = None,
    *,
    only: tuple[str, ...] = BACKENDS,
    but: tuple[str, ...] = (),
    least: int = 1,
    most_only: bool = False,
    name: str = "",
) -> Any:
    """Marks a check; with a name of its own, or the function's."""

    def mark(function: Callable[[], None]) -> Callable[[], None]:
        title = name or function.__name__
        assert title not in CHECKS, title
        CHECKS[title] = Check(title, function, tuple(b for b in only if b not in but), least, most_only)
        return function

    return mark(function) if function else mark


def numbers(*shape: int) -> torch.Tensor:
    """The same on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def here(index: int | None = None) -> torch.device:
    """This backend's device, said without the helper."""
    return torch.device(KIND) if index is None else torch.device(KIND, index)


def tensor(*shape: int, index: int = 0) -> torch.Tensor:
    return torch.ones(*shape, device=here(index))


def same(actual: torch.Tensor, expected: object) -> None:
    """The same numbers, whatever devices and dtypes they have."""
    torch.testing.assert_close(actual.cpu(), torch.as_tensor(expected).cpu(), check_dtype=False)


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """With these variables the helper is as in a new process."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    importlib.reload(accel)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        importlib.reload(accel)


@contextlib.contextmanager
def raises(error: type[BaseException] | tuple[type[BaseException], ...], words: str = "") -> Iterator[None]:
    try:
        yield
    except error as caught:
        assert words in str(caught), f"{words!r} is not in {caught}"
    else:
        raise AssertionError(f"{error} was not raised")


def load() -> dict[str, Check]:
    """All checks."""
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"{__name__}.{path.stem}")
    return CHECKS


def put_back() -> None:
    """What a check may have changed: the current device, the seeds, and what the helper has found and said."""
    importlib.reload(accel)
    torch.accelerator.set_device_index(0)
    torch.manual_seed(0)
