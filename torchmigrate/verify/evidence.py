"""Tell which results of a run show what its device did: what depends on its numbers, and how much work it had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from torchmigrate.base.text import counted, shorten
from torchmigrate.verify.compare import Arrays, Logged, Reference, Written, behind_cut, equal
from torchmigrate.verify.run import Outcome

# The share of the original's work that a run has to do on its device. Ways to the same result differ in how many
# elements they touch, and hardly in those of products.
_LEAST, _LEAST_PRODUCTS, _ALL, _NEARLY_ALL = 0.5, 0.9, 0.995, 0.9
_PRODUCTS = " of matrix products, convolutions and the like"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence is what changes of the original's results if values are altered as they leave the device.

    `places`: (line, number) of the reference. `checks`: the program itself notices, and ends in another way. `files`:
    those that were written with another content. `logged`: (shape, number) of lines of stderr, and of stdout where the
    original's is not the same twice. `constant`: places that were left out, as they stay the same whatever reaches the
    device. `words`: forms of lines, and where, that are not there then, as others are in their place. `died`: what
    ended the run that read altered values, which hides what would have changed.
    """

    places: frozenset[tuple[int, int]] = frozenset()
    checks: bool = False
    files: frozenset[str] = frozenset()
    logged: frozenset[tuple[str, int]] = frozenset()
    constant: bool = False
    words: frozenset[tuple[str, str]] = frozenset()
    died: str = ""

    def __bool__(self) -> bool:
        return self.checks or bool(self.places or self.files or self.logged)


def evidence(
    expected: Reference,
    original: Outcome,
    altered: Outcome,
    arrays: Mapping[str, Arrays] | None = None,
    again: Outcome | None = None,
) -> Evidence:
    """Compare the original, and itself `again`, with a run of it that read altered values from the device."""
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
    pairs = (
        (original.logged, altered.logged),
        (behind_cut(expected, original.lines), behind_cut(expected, altered.lines)),
    )
    logged = frozenset(place for pair in pairs for place in _moved_in_log(*pair))
    ends_alike = altered.exit == original.exit and not altered.exception
    steady = original.said if again is None else original.said & again.said
    words = steady - altered.said if ends_alike else frozenset()
    died = "" if checks or ends_alike else altered.error or "an exception"
    return Evidence(places, checks, files, logged, words=words, died=died)


def may_be_constant(known: Evidence | None, expected: Reference) -> bool:
    """Return whether all that the evidence rests on is numbers that do not change from line to line."""
    if not known or known.checks or known.files or known.logged:
        return False
    values: dict[tuple[str, int], set[float]] = {}
    for at, j in known.places:
        line = expected.lines[at]
        values.setdefault((line.shape, j), set()).add(line.numbers[j].value)
    return all(len(each) == 1 for each in values.values())


def without_constants(known: Evidence, expected: Reference, original: Outcome, altered: Outcome) -> Evidence:
    """Leave out places that are as before in a run whose device was given other numbers, and draws other ones."""
    given = altered.altered or altered.random_kernels
    if not given or altered.exit != original.exit or altered.exception or _forms(altered) != _forms(original):
        return known
    moved = {*_moved(expected, altered)}
    kept = frozenset((at, j) for at, j in known.places if (expected.lines[at].shape, j) in moved)
    return replace(known, places=kept, constant=len(kept) < len(known.places))


def _forms(outcome: Outcome) -> list[str]:
    return [line.shape for line in outcome.lines]


def from_elsewhere(
    known: Evidence, places: Iterable[tuple[int, int]], expected: Reference, found: Outcome, altered: Outcome
) -> str | None:
    """Return what depends on the device in the original, and not in a run, by one that read altered values; else None.

    `places`: those of the reference in which the run agrees.
    """
    if known.checks and altered.exit == found.exit:
        return "its checks do not notice other values"
    if altered.exit != found.exit or altered.exception or _forms(altered) != _forms(found):
        return None  # it took another way: nothing is known
    wanted = sorted(known.places & {*places})
    own = {
        (expected.lines[at].shape, j)
        for at, j in wanted
        if not equal(found.lines[at].numbers[j], altered.lines[at].numbers[j])
    }
    for at, j in wanted:
        if (expected.lines[at].shape, j) not in own:
            line = found.lines[at]
            return f"stdout line {line.number} does not come from {found.run.way.backend}: `{shorten(line.text, 60)}`"
    for name in sorted(known.files & {*found.files} & {*altered.files}):
        if found.files[name].digest == altered.files[name].digest:
            return f"{name} does not come from {found.run.way.backend}"
    return None


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


def _moved_in_log(original: Logged, altered: Logged) -> Iterator[tuple[str, int]]:
    """Yield the shape and place of each number that is another one."""
    for form, group in original.items():
        for line, other in zip(group, altered.get(form, ()), strict=False):
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
    for here, there, least, words in (
        (outcome.elements, original.elements, _LEAST, "{share:.0%} of the original's work"),
        (outcome.products, original.products, _LEAST_PRODUCTS, f"{{share:.0%}} of the original's work{_PRODUCTS}"),
        (outcome.parameter_bytes, original.parameter_bytes, _LEAST, "{here} of parameters, of the original's {there}"),
    ):
        if here is not None and there and here < least * fewer * there:
            done = words.format(share=here / there, here=size(here), there=size(there))
            return _describe(outcome, original, done, "mostly" if here < _LEAST * fewer * there else "in part")
    return None


def less_work(outcome: Outcome, original: Outcome) -> str | None:
    """Return how much of the original's work a run that passes did on its device, if that is less; else None."""
    if outcome.run.way.tier != original.run.way.tier:
        return None
    for here, there, enough, kind in (
        (outcome.products, original.products, _ALL, _PRODUCTS),
        (outcome.elements, original.elements, _NEARLY_ALL, ""),
    ):
        if here is not None and there and here < enough * there:
            return f"{here / there:.0%} of the original's work{kind} on {outcome.run.way.backend}"
    return None


def less_half(outcome: Outcome, original: Outcome) -> str | None:
    """Return that a run that passes computes in float32 what the original does in half precision, if it does."""
    if outcome.run.way.tier != original.run.way.tier or not (outcome.products and original.products):
        return None
    here, there = ((each.half_products or 0) / (each.products or 1) for each in (outcome, original))
    if here >= _LEAST * there:
        return None
    return f"{here:.0%} of its products in half precision, {there:.0%} of the original's"


# Which of these there are depends on the backend: updates and casts of many tensors at once, and memory that is filled.
_OF_THE_BACKEND = ("amp_", "foreach_", "fused_", "fill", "zero", "copy", "to_copy", "empty", "clone")


def left_out(outcome: Outcome, original: Outcome) -> str | None:
    """Return which operators of the original a run that passes does not have on its device; None if it has all."""
    if outcome.run.way.tier != original.run.way.tier or not outcome.kernels:
        return None
    left = sorted(name for name in original.operators - outcome.operators if not name.startswith(_OF_THE_BACKEND))
    if not left:
        return None
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return f"the original's {', '.join(left[:3])}{more} did not run on {outcome.run.way.backend}"


def size(count: float) -> str:
    """Return a size in bytes in words: `1.2 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _describe(outcome: Outcome, original: Outcome, share: str, how: str) -> str:
    return (
        f"ran {how} on the CPU: {share} was on {outcome.run.way.backend} "
        f"({counted(outcome.kernels or 0, 'kernel')}, the original {original.kernels or 0:,} on "
        f"{original.run.way.backend})"
    )
