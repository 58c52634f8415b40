"""Finds the fixer that a rule names. `fixer = "device/tensor_cuda"` is the function `tensor_cuda` of
`fixers/device/tensor_cuda.py`, a generator of findings; there is no list of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchmigrate.base.errors import did_you_mean
from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.rules.model import Rule
from torchmigrate.rules.reader import PackError

_HERE = Path(__file__).parent
_PATH = re.compile(r"[a-z_0-9]+/[a-z][a-z_0-9]*")  # a rule file is data: it names a fixer that ships, no other module


@dataclass(frozen=True)
class Fixer:
    """A generator of findings. Its module is imported at the first call: a run without work for it does not pay."""

    path: str

    @cached_property
    def _generator(self) -> Callable[[RuleContext], Iterator[Finding]]:
        name = self.path.replace("/", ".")
        return getattr(importlib.import_module(f"torchmigrate.fixers.{name}"), name.rpartition(".")[2])  # type: ignore[no-any-return]

    def __call__(self, context: RuleContext) -> Iterator[Finding]:
        return self._generator(context)


def find(rule: Rule) -> Callable[[RuleContext], Iterator[Finding]]:
    """The generator that the rule's `fixer` names. Raises PackError if there is no such file."""
    path = rule.fixer or ""
    if not _PATH.fullmatch(path) or not (_HERE / f"{path}.py").is_file():
        known = names()
        near = did_you_mean(path, known) or f"known fixers: {', '.join(known)}"
        raise PackError(f"{rule.path}:1: there is no fixer {rule.fixer!r}\nhelp: {near}")
    return Fixer(path)


def names() -> list[str]:
    """All fixers that ship, by path."""
    return sorted(f.relative_to(_HERE).with_suffix("").as_posix() for f in _HERE.glob("*/[a-z]*.py"))
