"""The device: strict about where an operator's tensors live, then the CPU's kernel on the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .calls import Call
from .generators import Generators
from .host import is_simulated
from .memory import Memory
from .overloads import Overload


@dataclass
class Device:
    """Its name, memory and random numbers; what has run on it."""

    name: str
    memory: Memory
    generators: Generators
    no_check: frozenset[str]
    counts: Counter[str] = field(default_factory=Counter)
    random_kernels: int = 0
    _overloads: dict[Any, Overload] = field(default_factory=dict)

    def kernel(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """The kernel of all operators that have none of their own."""
        overload = self._overloads.get(op)
        if overload is None:
            overload = self._overloads[op] = Overload.of(op, self.no_check)
        self.counts[overload.name] += 1
        if overload.metadata:
            return overload.run(*args, **kwargs)
        try:
            return self._launch(overload, args, kwargs)
        except RuntimeError as error:
            # Frames hold on to tensors, tracebacks to frames, and torch's backward thread to the last exception.
            del args, kwargs
            raise error.with_traceback(None) from None

    def _launch(self, overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return self._run(Call(self, overload), args, kwargs)
        except RuntimeError as error:
            if not overload.out or "storage that is not resizable" not in str(error):
                raise
            # An out= argument of the wrong size: torch has warned, and would now give it other memory.
            return self._run(Call(self, overload, fresh_out=True), args, kwargs)

    def _run(self, call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        overload = call.overload
        host_args = [call.lower(value, name) for value, name in zip(args, overload.arguments)]
        host_kwargs = {name: call.lower(value, name) for name, value in kwargs.items()}
        if overload.random:
            result = self._run_random(overload, host_args, host_kwargs)
        else:
            result = overload.run(*host_args, **host_kwargs)
        if overload.written:
            call.write_back()
        return call.raise_(result)

    def _run_random(self, overload: Overload, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self.random_kernels += 1
        if not overload.takes_generator:
            with self.generators.borrowed():
                return overload.run(*args, **kwargs)
        given = dict(zip(overload.arguments, args), **kwargs).get("generator")
        if given is None:
            kwargs["generator"] = self.generators.default
        return overload.run(*args, **kwargs)

    def is_mine(self, value: torch.device) -> bool:
        """Whether this is the device. RuntimeError for another one of its type."""
        return is_simulated(value, self.name)
