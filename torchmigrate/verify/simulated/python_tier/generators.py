"""Draw random numbers from the device's own stream, by CPU generators that present themselves as the device's."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from .memory import is_simulated

_Base = torch._C.Generator
_FIRST_SEED = 67280421310721  # c10::default_rng_seed_val


class _Kind(type(_Base)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Base)


class DeviceGenerator(_Base):
    """Draw as a CPU generator whose `device` is the simulated one."""

    owner: Generators
    _OWN = 0x1E3779B97F4A7C15
    """Real devices draw other numbers than the CPU after one seed."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Return the simulated device."""
        return torch.device(self.owner.device, 0)

    def manual_seed(self, seed: int) -> Any:
        """Begin the stream of a seed."""
        super().manual_seed(seed ^ self._OWN)
        return self

    def seed(self) -> int:
        """Begin the stream of a seed that nobody knows, and return it."""
        return super().seed() ^ self._OWN

    def initial_seed(self) -> int:
        """Return the seed."""
        return super().initial_seed() ^ self._OWN

    def clone_state(self) -> DeviceGenerator:
        """Return another generator at the same place of the same stream."""
        made = self.owner.make()
        made.set_state(self.get_state())
        return made

    def __reduce__(self) -> Any:
        return _remade, (self.device.type, self.get_state())


def _identity(generator: Any) -> int:
    address: int = generator._cdata
    return address


def _remade(device: str, state: torch.Tensor) -> Any:
    return torch.Generator(device).set_state(state)


class Generators:
    """Kernels know the device's default generator and the program's by the address of the C++ object."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._known: weakref.WeakValueDictionary[int, DeviceGenerator] = weakref.WeakValueDictionary()
        self.default = self.make()

    def make(self) -> DeviceGenerator:
        """Make a generator, as torch.Generator(this device) does."""
        made = DeviceGenerator("cpu")
        made.owner = self
        self._known[_identity(made)] = made
        made.manual_seed(_FIRST_SEED)
        return made

    def default_of(self, index: int) -> DeviceGenerator:
        """Return the device's default generator; raises RuntimeError for an index other than 0."""
        is_simulated(torch.device(self.device, index), self.device)
        return self.default

    def checked(self, generator: _Base) -> _Base:
        """Return the generator, or raise RuntimeError if it is one of the CPU's."""
        if _identity(generator) not in self._known:
            raise RuntimeError(
                f"Expected a '{self.device}' device type for generator but found '{generator.device.type}'"
            )
        return generator

    def install(self) -> None:
        """Replace torch.Generator by a class that also makes the device's generators."""

        def new(cls: Any, device: Any = "cpu") -> Any:
            return self.make() if is_simulated(torch.device(device), self.device) else _Base(device)

        torch.Generator = _Kind("Generator", (_Base,), {"__new__": new, "__module__": "torch"})  # type: ignore[misc]

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[None]:
        """Let the CPU's default generator continue the device's stream, for kernels that take no generator."""
        saved = torch.default_generator.get_state()
        torch.default_generator.set_state(self.default.get_state())
        try:
            yield
        finally:
            self.default.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(saved)
