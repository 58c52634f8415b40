"""What is known of a failure, in the words that its causes are told in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchmigrate.base.text import listed, shorten
from torchmigrate.verify.diagnosis.failures import Failure

Place = Callable[[str, int], str]
_DEVICE = re.compile(r"\b(cuda|mps|xpu|npu|mtia|hpu)(:\d+)?\b")
_QUOTED = 160  # characters of a line that is quoted


@dataclass(frozen=True, slots=True)
class Case:
    """The failure, the code that failed, the match of its text, and how to name a place of the project."""

    failure: Failure
    code: str
    match: re.Match[str]
    place: Place

    @property
    def simulated(self) -> bool:
        """Whether the device was."""
        return self.failure.run.evidence == "simulated"

    @property
    def backend(self) -> str:
        """The one that the run was for."""
        return self.failure.run.backend or "this backend"

    @property
    def suspects(self) -> list[dict[str, Any]]:
        """Tensors that are where they should not be, as witness.py found them."""
        return self.failure.read("suspects") or []

    @property
    def here(self) -> str:
        """The code that failed, quoted."""
        return f"`{shorten(self.code, _QUOTED)}`" if self.code else "what failed"

    @property
    def made(self) -> str:
        """Of the first suspect: "; likely made at train.py:12", or "" if that is not known."""
        made = self.suspects[0].get("made") if self.suspects else None
        return f"; likely made at {self.place(made['file'], made['line'])}" if made else ""

    @property
    def names(self) -> str:
        """The suspects and a verb: "`a` and `b` are"."""
        shown = [f"`{s['name']}`" + (f" ({n} tensors)" if (n := s.get("parts", 1)) > 1 else "") for s in self.suspects]
        return f"{listed(shown)} {'is' if len(shown) == 1 else 'are'}"

    @property
    def rest(self) -> str:
        """The device of the tensors that are no suspects."""
        apart = {suspect["device"] for suspect in self.suspects}
        devices = [tensor["device"] for tensor in self.failure.read("tensors") or []]
        found = [device for device in devices if _DEVICE.match(device) and device not in apart]
        told = [match[0] for match in _DEVICE.finditer(self.failure.message) if match[0] not in apart]
        return next(iter([*found, *told]), self.backend)


def first_line(text: str) -> str:
    """Of a message, cut to a length that fits a report's line."""
    return shorten(next((line for line in text.splitlines() if line.strip()), "").strip(), _QUOTED)


def on(device: str) -> str:
    """A device in words."""
    return "the CPU" if device == "cpu" else device
