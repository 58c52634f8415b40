"""The numbers in a program's output, line by line: what to compare, and what only looks like a number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

DEVICES = "cuda|mps|xpu|npu|mtia|hpu|privateuseone|cpu|gpu"
# In this order: what holds digits and is no quantity (devices, dates, times of day, versions and addresses,
# hexadecimal), a number, a name. Whichever begins first is taken whole.
_TOKEN = re.compile(
    rf"(?P<device>\b(?:{DEVICES})\b(?::\d+)?)"
    r"|\b(?:rank|pid):\d+"
    r"|\b\d{4}-\d\d-\d\d(?:[T_ ]\d\d[:.-]\d\d[:.-]\d\d(?:[.,]\d+)?)?"
    r"|\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b"
    r"|\bv?\d+\.\d+\.\d+[\w.+-]*"
    r"|\b0[xX][0-9a-fA-F]+"
    r"|(?P<number>[+-]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)\b)"
    r"|[A-Za-z_]\w*(?:[-.]\w+)*",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\s*(?:(?:[nmuµ]?s|msecs?|secs?|seconds?|mins?|minutes?|hours?|hrs?|[hm])\b|\w*/(?:s|secs?|seconds?|min|hour)\b)"
)
_BYTES = re.compile(r"\s*(?:[KMGT]i?B|bytes|[kKMG]B)\b")
_UNIT_AHEAD = re.compile(r"\b(?:time|elapsed|took|duration|seconds|secs|eta|speed|throughput)\b\W{0,3}$", re.IGNORECASE)


class Kind(Enum):
    """What a number says. Times never agree; bytes are the backend's own."""

    VALUE = "value"
    TIME = "time"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Number:
    """As printed, and the float that it stands for."""

    text: str
    value: float
    kind: Kind

    @property
    def unit(self) -> float:
        """One in the last place that was printed; 0 for a whole number, which is not rounded."""
        found = re.match(r"[+-]?[\d,]*\.?(\d*)(?:[eE]([+-]?\d+))?$", self.text)
        if found is None or not ("." in self.text or found[2]):
            return 0.0
        return float(10.0 ** max(-300, min(300, int(found[2] or 0) - len(found[1]))))


@dataclass(frozen=True, slots=True)
class Line:
    """A line that holds numbers. `number` from 1; `shape` is its text with `#` for each of them and `@` for devices."""

    number: int
    text: str
    shape: str
    numbers: tuple[Number, ...]


def lines(output: str) -> list[Line]:
    """Those lines of an output that hold numbers. A line that was overwritten (\\r) is what it was last."""
    found = (_line(at, text) for at, text in enumerate(output.split("\n"), 1))
    return [line for line in found if line.numbers]


def _line(at: int, text: str) -> Line:
    text = text.rstrip("\r").rpartition("\r")[2]
    numbers: list[Number] = []
    return Line(at, text, shape(text, numbers), tuple(numbers))


def shape(text: str, numbers: list[Number] | None = None) -> str:
    """The text with `#` for each number, which is added to `numbers`, `@` for each device and `_` for other digits."""

    def told(found: re.Match[str]) -> str:
        if found["device"]:
            return "@"
        if not found["number"]:
            return re.sub(r"\d", "_", found[0])
        if numbers is not None:
            value = float(found[0].replace(",", ""))
            numbers.append(Number(found[0], value, _kind(text, found.start(), found.end())))
        return "#"

    return " ".join(_TOKEN.sub(told, text).split())


def _kind(text: str, start: int, end: int) -> Kind:
    if _TIME.match(text, end) or _UNIT_AHEAD.search(text[max(0, start - 24) : start]):
        return Kind.TIME
    return Kind.BYTES if _BYTES.match(text, end) else Kind.VALUE


# What the simulator fills fresh memory with, read as the types whose value is not met by chance.
_POISON = (3.3961513649220713e38, 0x7F7F7F7F, 0x7F7F7F7F7F7F7F7F, 1.3824172084878715e306)


def is_poison(number: Number) -> bool:
    """Memory of a simulated device that nothing has written. At least four digits must say so: the largest float32,
    3.4028e38, is a common mask, and 3.4e38 could be either."""
    digits = len(re.sub(r"[eE].*|\D", "", number.text).strip("0"))
    return digits >= 4 and any(_rounds_to(number.value, poison, digits) for poison in _POISON)


def _rounds_to(value: float, poison: float, digits: int) -> bool:
    shown = min(digits, 8)
    return float(f"{abs(value):.{shown - 1}e}") == float(f"{poison:.{shown - 1}e}")
