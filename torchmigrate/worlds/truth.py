"""Define the six worlds, and what each question about devices answers in them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from torchmigrate.torch_api import facts
from torchmigrate.worlds.values import UNKNOWN, Const, Value

_DATA = facts("worlds")
LAZY = frozenset(_DATA["lazy"]["names"])
OF_CUDA = frozenset(_DATA["cuda"]["names"])
WORDS_OF_CUDA = frozenset(_DATA["cuda"]["words"])
QUIET = frozenset(_DATA["quiet"]["names"])
CALLS = frozenset(_DATA["calls"])
CASTS: Mapping[str, int] = _DATA["casts"]
SCALERS = frozenset[str](_DATA["scalers"]["names"])
ATTRIBUTES = frozenset(_DATA["attributes"])
_DISTRIBUTED: Mapping[str, str] = _DATA["distributed"]
_ONE_OR_TWO = "1 | 2"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class World:
    """A world is one machine, seen by torch.

    `kind` is its accelerator's type or "". The world is evaluated only for files with a word of `only_with`. A `single`
    one has one accelerator where a row of `[calls]` says that it may have two.
    """

    name: str
    kind: str
    title: str
    only_with: str
    at: int
    single: bool = False

    @property
    def is_portable(self) -> bool:
        """Return whether the machine has an accelerator that is not CUDA's."""
        return self.kind not in ("", "cuda")

    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    def has_accelerator(self) -> bool:
        return bool(self.kind)

    def kind_or(self, otherwise: str) -> str:
        """Return the accelerator's type, or `otherwise` where there is none."""
        return self.kind or otherwise

    def is_build_alone(self) -> bool:
        """Return whether torch is built for CUDA and the machine has no GPU."""
        return self.name == "nogpu"

    def is_none_of(self, kinds: frozenset[object]) -> bool:
        """Return whether the machine has an accelerator that is not CUDA's, and of none of these types."""
        return self.is_portable and self.kind not in kinds

    def call(self, name: str) -> Value:
        """Return the result of a call that is a row of `[calls]`."""
        return self._calls[name]

    def attribute(self, name: str) -> Value:
        """Return what a row of `[attributes]` gives."""
        return self._attributes[name]

    @cached_property
    def _calls(self) -> dict[str, Value]:
        rows = {name: row[self.at] for name, row in _DATA["calls"].items()}
        return {name: _answer("1" if self.single and text == _ONE_OR_TWO else text) for name, text in rows.items()}

    @cached_property
    def _attributes(self) -> dict[str, Value]:
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


@dataclass(frozen=True, slots=True)
class User:
    """A user may give flags or not, options any value or none, and may change the settings at the head of a file."""

    gives_flags: bool = True
    gives_values: bool = True
    changes_settings: bool = True


class Setting:
    """The world and the user of one evaluation, with all that it asked of them and their answers.

    In another setting that gives the same answers, the evaluation would do the same: it need not be run there.
    """

    def __init__(self, world: World, user: User) -> None:
        self._world, self._user = world, user
        self._answers: dict[tuple[Any, ...], object] = {}
        self._asked_user: set[str] = set()

    def ask(self, question: Callable[..., _Answer], *about: Any) -> _Answer:
        """Return what a method of World answers here."""
        answer = self._answers[question, *about] = question(self._world, *about)
        return answer

    def gives_flags(self) -> bool:
        """Return whether the user gives options that take no value; else each has its default."""
        self._asked_user.add("gives_flags")
        return self._user.gives_flags

    def gives_values(self) -> bool:
        """Return whether the user gives the other options; else each has its default."""
        self._asked_user.add("gives_values")
        return self._user.gives_values

    def changes_settings(self) -> bool:
        """Return whether the user changes settings in the files; else each is as it is written."""
        self._asked_user.add("changes_settings")
        return self._user.changes_settings

    def is_like(self, world: World, user: User) -> bool:
        """Return whether another setting would have answered all that was asked in the same way."""
        if any(getattr(user, name) != getattr(self._user, name) for name in self._asked_user):
            return False
        asked = self._answers.items()
        return all(question(world, *about) == answer for (question, *about), answer in asked)


def _answer(text: str) -> Value:
    if text == "?":
        return UNKNOWN
    found = [ast.literal_eval(part.strip()) for part in text.split("|")]
    return Value({Const(value, type(value)): frozenset() for value in found})


WORLDS = tuple(
    World(*row, at)
    for at, row in enumerate(zip(_DATA["worlds"], _DATA["kind"], _DATA["title"], _DATA["only-with"], strict=True))
)
