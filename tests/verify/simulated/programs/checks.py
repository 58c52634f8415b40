"""What the topics beside this module are written with: functions under @check, cases in `each`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

KIND: str = os.environ["TORCHMIGRATE_BACKEND"].partition(":")[0]
DEVICE = torch.device(KIND)
MODULE = torch.get_device_module(KIND)

checks: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None] | None = None, *, only: tuple[str, ...] = (), but: tuple[str, ...] = ()):
    """Marks a check; `only` or `but` these backends. (conftest.py reads names and backends from the source.)"""

    def mark(function: Callable[[], None]) -> Callable[[], None]:
        if KIND not in but and (not only or KIND in only):
            checks[function.__name__] = function
        return function

    return mark(function) if function else mark


def each(test: Callable[[Callable[[], Any]], None], cases: dict[str, Callable[[], Any]]) -> None:
    """One check per case, under its name: `test(case)`."""
    checks.update({name: lambda case=case: test(case) for name, case in cases.items()})


@contextlib.contextmanager
def refused(*words: str, error: type[BaseException] | tuple[type[BaseException], ...] = RuntimeError) -> Iterator[None]:
    """The block raises `error`, in a message with all these words."""
    try:
        yield
    except error as e:
        missing = [word for word in words if word not in str(e)]
        e.__traceback__ = None  # in Python 3.12 a cycle through it keeps what the block holds on the device
        assert not missing, f"{missing} not in {type(e).__name__}: {e}"
    else:
        raise AssertionError(f"nothing was raised, where {error} was due")


def same(actual: torch.Tensor, expected: object) -> None:
    """The same numbers, whatever devices and dtypes they have."""
    torch.testing.assert_close(actual.cpu(), torch.as_tensor(expected).cpu(), check_dtype=False)


def draw_alike() -> None:
    """Let each seed begin one stream on the device and on the CPU, which draw different numbers after one seed."""
    seed_all = torch.manual_seed

    def manual_seed(seed: int) -> torch.Generator:
        generator = seed_all(seed)
        size = torch.get_rng_state().numel()  # a device's state is the CPU's, and in C++ a mark behind it
        torch.set_rng_state(MODULE.get_rng_state()[:size])
        return generator

    torch.manual_seed = manual_seed
