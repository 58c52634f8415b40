"""What a row of the catalog says, and the words it may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

WORKS, HELPER, NO_OP, DIFFERENT, MISSING, NO_TORCH = VERDICTS = (
    "works", "works through the helper", "no-op", "different", "missing", "not a torch device"
)  # fmt: skip
SIGNS = {WORKS: "+", HELPER: "h", NO_OP: ".", DIFFERENT: "~", MISSING: "x", NO_TORCH: "/"}  # where there is no room
BACKENDS = ("cuda", "rocm", "mps", "xpu", "npu", "hpu", "mtia", "cpu", "mlx")
KINDS = ("module", "function", "class", "method", "attribute")
REWRITTEN, REPORTED, LEFT = ACTIONS = ("rewritten", "reported", "left alone")


@dataclass(frozen=True, slots=True)
class Row:
    """One API. `backends` has a verdict of VERDICTS for each of BACKENDS; `rules` is empty for what is left
    alone; `since` where torch 2.1 has it."""

    name: str
    kind: str
    backends: Mapping[str, str]
    action: str
    rules: tuple[str, ...]
    helper: str
    why: str
    since: str
    source: str
    measure: str
    gives: str
    path: Path
    line: int

    @property
    def rule(self) -> str:
        """The rule that looks after it first."""
        return self.rules[0] if self.rules else ""

    def departs(self, backends: Iterable[str]) -> bool:
        """Whether one of these backends gives anything but plain "works"."""
        return any(self.backends[name] != WORKS for name in backends)
