"""Tell which results of a run show what its device did: what depends on its numbers, and how much work it had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torchmigrate.base.text import counted
from torchmigrate.verify.compare import Arrays, Reference, Written, equal
from torchmigrate.verify.run import Outcome

_LEAST = 0.5  # the share of the original's work that a run has to do on its device


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of the original that change if what leaves the device is altered.

    `places`: (line, number) of the reference. `checks`: the program itself notices, and ends in another way. `files`:
    those that were written with another content. `logged`: (shape, number) of lines of stderr.
    """

    places: frozenset[tuple[int, int]] = frozenset()
    checks: bool = False
    files: frozenset[str] = frozenset()
    logged: frozenset[tuple[str, int]] = frozenset()

    def __bool__(self) -> bool:
        return self.checks or bool(self.places or self.files or self.logged)


def evidence(
    expected: Reference, original: Outcome, altered: Outcome, arrays: Mapping[str, Arrays] | None = None
) -> Evidence:
    """Compare the original with a run of it that read altered values from the device."""
    groups = set(_moved(expected, altered))
    places = frozenset(
        (at, j)
        for at, (line, counts) in enumerate(zip(expected.lines, expected.counts, strict=True))
        for j, counts_here in enumerate(counts)
        if counts_here and (line.shape, j) in groups
    )
    # an exception may come from a value that makes no sense, as an index: an assertion and an exit status are meant
    meant = altered.exception is None or altered.exception.get("type") == "AssertionError"
    checks = altered.exit is not None and altered.exit > 0 and altered.exit != original.exit and meant
    both = {*original.files} & {*altered.files}
    files = frozenset(name for name in both if _is_other(original.files[name], altered.files[name], arrays or {}))
    return Evidence(places, checks, files, frozenset(_moved_in_log(original, altered)))


def _is_other(original: Written, altered: Written, arrays: Mapping[str, Arrays]) -> bool:
    known = arrays.get(altered.kept)
    if known and known.unreadable is None:
        return known.difference is not None
    return original.digest != altered.digest


def _moved(expected: Reference, altered: Outcome) -> Iterator[tuple[str, int]]:
    """Yield the shape and place of each number that is another one, up to the first line of another shape."""
    for line, counts, other in zip(expected.lines, expected.counts, altered.lines, strict=False):
        if line.shape != other.shape:
            yield from ((line.shape, j) for j in range(len(counts)))
            return
        for j, (before, after) in enumerate(zip(line.numbers, other.numbers, strict=True)):
            if not equal(before, after):
                yield line.shape, j


def _moved_in_log(original: Outcome, altered: Outcome) -> Iterator[tuple[str, int]]:
    """Yield the shape and place of each number on stderr that is another one."""
    for form, group in original.logged.items():
        for line, other in zip(group, altered.logged.get(form, ()), strict=False):
            pairs = enumerate(zip(line.numbers, other.numbers, strict=True))
            yield from ((form, j) for j, (before, after) in pairs if not equal(before, after))


def lost_spread(outcome: Outcome, original: Outcome) -> str | None:
    """Return that processes share a device which each had their own in the original, if there are enough; else None."""
    there = max((len(report.get("peak_bytes") or ()) for report in outcome.reports), default=0)
    if outcome.run.way.tier != original.run.way.tier or not outcome.spread < original.spread <= there:
        return None
    return (
        f"its processes share {counted(outcome.spread, 'device')} of {outcome.run.way.backend}, "
        f"those of the original have {original.spread}"
    )


def lost_work(outcome: Outcome, original: Outcome) -> str | None:
    """Return what a run on a simulated device did not do there, of what the original did on its own; else None."""
    if outcome.run.way.tier != original.run.way.tier:
        return None
    fewer = min(1.0, outcome.devices / original.devices) if original.devices else 1.0
    for here, there, what in (
        (outcome.elements, original.elements, ""),
        (outcome.products, original.products, " of matrix products, convolutions and the like"),
    ):
        if here is not None and there and here < _LEAST * fewer * there:
            return _describe(outcome, original, f"{here / there:.0%} of the original's work{what}")
    here, there = outcome.parameter_bytes, original.parameter_bytes
    if here is not None and there and here < _LEAST * fewer * there:
        return _describe(outcome, original, f"{size(here)} of parameters, of the original's {size(there)}")
    return None


def size(count: float) -> str:
    """Return a size in bytes in words: `1.2 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _describe(outcome: Outcome, original: Outcome, share: str) -> str:
    return (
        f"ran mostly on the CPU: {share} was on {outcome.run.way.backend} "
        f"({counted(outcome.kernels or 0, 'kernel')}, the original {original.kernels or 0:,} on "
        f"{original.run.way.backend})"
    )
