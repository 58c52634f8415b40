"""The six worlds, and what each question about devices answers in them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torchmigrate.torch_api import facts
from torchmigrate.worlds.values import UNKNOWN, Const, Value

_DATA = facts("worlds")
LAZY = frozenset(_DATA["lazy"]["names"])
HALF = frozenset(_DATA["half"]["words"])
QUIET = frozenset(_DATA["quiet"]["names"])
_DISTRIBUTED: Mapping[str, str] = _DATA["distributed"]


@dataclass(frozen=True)
class World:
    """One machine, seen by torch; `kind` is its accelerator's type or "". `only_with` names words (worlds.check)."""

    name: str
    kind: str
    title: str
    only_with: str
    at: int

    @property
    def is_portable(self) -> bool:
        """Return whether the machine has an accelerator that is not CUDA's."""
        return self.kind not in ("", "cuda")

    @cached_property
    def calls(self) -> dict[str, Value]:
        return {name: _answer(row[self.at]) for name, row in _DATA["calls"].items()}

    @cached_property
    def attributes(self) -> dict[str, Value]:
        return {name: _answer(row[self.at]) for name, row in _DATA["attributes"].items()}

    def has_module(self, name: str) -> bool | None:
        """Return whether torch has a module of this name here; None: torch has it everywhere, or nobody knows."""
        only = _DATA["modules"].get(name)
        return None if only is None else only == self.name

    def lacks(self, package: str) -> bool:
        """Return whether nobody can import a package here."""
        packages: Mapping[str, str] = _DATA["packages"]
        return packages.get(package.partition(".")[0], self.name) != self.name

    def backend(self) -> str:
        """Return what the helper's `dist_backend("nccl")` gives here."""
        return _DISTRIBUTED.get(self.kind, "gloo")


def _answer(text: str) -> Value:
    if text == "?":
        return UNKNOWN
    found = [ast.literal_eval(part.strip()) for part in text.split("|")]
    return Value({Const(value, type(value)): frozenset() for value in found})


WORLDS = tuple(
    World(*row, at)
    for at, row in enumerate(zip(_DATA["worlds"], _DATA["kind"], _DATA["title"], _DATA["only-with"], strict=True))
)
