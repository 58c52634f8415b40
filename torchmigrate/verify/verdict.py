"""Judge a run: PASS, FAIL, DIFFERS or SKIPPED, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from torchmigrate.base.text import counted
from torchmigrate.verify.compare import (
    Comparison,
    Reference,
    Tolerance,
    comparable,
    compare,
    compare_files,
    is_poison,
    reference,
    shape,
)
from torchmigrate.verify.run import Outcome, Run, describe_exception

_POISONED = "reads memory that no kernel or copy has written yet (a missing synchronize, or torch.empty)"


class Kind(str, Enum):
    """The kinds of verdicts.

    PASS: the program works, as far as the evidence goes. FAIL: it does not. DIFFERS: it runs with other results.
    SKIPPED: nothing is shown.
    """

    PASS = "PASS"
    FAIL = "FAIL"
    DIFFERS = "DIFFERS"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one run; `outcome` is None if the run was not started."""

    run: Run
    kind: Kind
    reason: str
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The two runs of the original on cuda; `why` says why they cannot serve as the reference."""

    first: Outcome | None = None
    second: Outcome | None = None
    why: str | None = None

    @property
    def reference(self) -> Reference:
        """The numbers that both runs print alike."""
        assert self.first and self.second
        return reference(self.first.lines, self.second.lines)


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits: the relative tolerance, and how many lines with numbers are compared (None: all)."""

    tolerance: float = 1e-3
    steps: int | None = None


def baseline(first: Outcome, second: Outcome) -> Baseline:
    """Check whether two runs of the original can serve as the reference: no exception, the same exit status.

    A constant nonzero exit status does not rule them out: test runners use them.
    """
    for outcome in (first, second):
        if outcome.exception or outcome.exit is None or outcome.exit < 0:
            return Baseline(first, second, f"the original itself fails on cuda: {outcome.error}")
    if first.exit != second.exit:
        return Baseline(first, second, f"the original ends with {first.exit}, then with {second.exit}")
    return Baseline(first, second)


def of_reference(base: Baseline, limits: Limits) -> Verdict:
    """Judge the original: PASS if it can serve as the reference, else SKIPPED."""
    assert base.first
    if base.why:
        return Verdict(base.first.run, Kind.SKIPPED, f"no reference: {base.why}", base.first)
    if base.first.exit and _is_device_unused(base.first):
        end = f"the original ends with {base.first.exit} before it uses cuda: {base.first.error}"
        return Verdict(base.first.run, Kind.SKIPPED, end, base.first)
    expected = base.reference
    parts = [f"the reference: {counted(expected.numbers, 'number')}"]
    if expected.left_out:
        parts.append(f"{expected.left_out} left out (times, or not the same twice)")
    if expected.cut is not None:
        parts.append(f"from line {expected.cut} on its output is not the same twice")
    if base.first.exit:
        parts.append(f"exit status {base.first.exit} ({base.first.error})")
    return Verdict(base.first.run, Kind.PASS, "; ".join(parts), base.first)


def of_rewritten(outcome: Outcome, base: Baseline, limits: Limits) -> Verdict:
    """Judge a run of the rewritten project: by its end, then its device, then its results."""
    found = _judge_ending(outcome, base) or _judge_device(outcome, base) or _judge_poison(outcome, base)
    if found:
        return found
    if base.why or base.first is None:
        return Verdict(outcome.run, Kind.PASS, "ran to the end; not compared: there is no reference", outcome)
    return _judge_results(outcome, base, limits)


def numbers(verdict: Verdict, base: Baseline, limits: Limits) -> tuple[float, ...]:
    """Return the numbers of a run at the places that the reference can repeat; without a reference, all numbers."""
    if verdict.outcome is None:
        return ()
    if base.why or base.first is None:
        return tuple(number.value for line in verdict.outcome.lines for number in line.numbers)
    return tuple(comparable(base.reference, verdict.outcome.lines, limits.steps))


def _judge_ending(outcome: Outcome, base: Baseline) -> Verdict | None:
    original = base.first
    if original and _fails_alike(outcome, original):
        return Verdict(outcome.run, Kind.SKIPPED, f"fails as the original does: {outcome.error}", outcome)
    wanted = original.exit if original and not base.why else 0
    if outcome.exit == wanted and not (outcome.exit and outcome.exception):
        return None
    if outcome.exit == 0:
        return Verdict(outcome.run, Kind.DIFFERS, f"ends with 0, the original with {wanted}", outcome)
    return Verdict(outcome.run, Kind.FAIL, outcome.error or "", outcome)


def _fails_alike(outcome: Outcome, original: Outcome) -> bool:
    """Return whether a run and the original end alike for the same reason, which is then not the migration's fault."""
    if outcome.timed_out or original.timed_out:
        return outcome.timed_out and original.timed_out
    if not outcome.exit or outcome.exit != original.exit:
        return False
    a, b = outcome.exception, original.exception
    if a is None and b is None:
        return outcome.exit < 0
    return bool(a and b and shape(describe_exception(a)) == shape(describe_exception(b)))


def _judge_device(outcome: Outcome, base: Baseline) -> Verdict | None:
    if not base.why and base.first and _is_device_unused(base.first):
        return Verdict(outcome.run, Kind.SKIPPED, "nothing to show: the original launches no kernel on cuda", outcome)
    if not _is_device_unused(outcome):
        return None
    reason = f"ran on the CPU: no kernel was launched on {outcome.run.way.backend}"
    silent = "" if outcome.reports else "; no process reported: torch was not imported, or os._exit ended it"
    return Verdict(outcome.run, Kind.FAIL, reason + silent, outcome)


def _is_device_unused(outcome: Outcome) -> bool:
    """Return whether the run launched no kernel on its simulated device; on hardware nothing is counted."""
    return outcome.run.way.evidence == "simulated" and not outcome.kernels


def _judge_poison(outcome: Outcome, base: Baseline) -> Verdict | None:
    original = base.first
    if original and _find_poison(original):
        return None  # the original reads unwritten memory too; the reference leaves those numbers out
    line = _find_poison(outcome)
    return Verdict(outcome.run, Kind.FAIL, f"{_POISONED}: stdout line {line}", outcome) if line else None


def _find_poison(outcome: Outcome) -> int | None:
    return next((line.number for line in outcome.lines if any(map(is_poison, line.numbers))), None)


def _judge_results(outcome: Outcome, base: Baseline, limits: Limits) -> Verdict:
    assert base.first and base.second
    same = _same_device(outcome, base.first)
    tolerance = Tolerance(0.0 if same else limits.tolerance, same, limits.steps)
    comparison = compare(base.reference, outcome.lines, tolerance)
    files = compare_files(base.first.files, base.second.files, outcome.files, tolerance)
    if not comparison.difference and not files:
        return Verdict(outcome.run, Kind.PASS, _describe_agreement(comparison, tolerance, base, outcome), outcome)
    if why := _why_incomparable(outcome, base.first):
        return Verdict(outcome.run, Kind.PASS, f"ran to the end; {why}", outcome)
    what = f"stdout {comparison.difference}" if comparison.difference else files
    return Verdict(outcome.run, Kind.DIFFERS, f"{what}{_random_hint(outcome, base.first)}", outcome)


def _same_device(outcome: Outcome, original: Outcome) -> bool:
    return outcome.run.way == original.run.way


def _describe_agreement(comparison: Comparison, tolerance: Tolerance, base: Baseline, outcome: Outcome) -> str:
    status = f"; exit status {outcome.exit}, as the original's" if outcome.exit else ""
    if not comparison.numbers:
        return f"ends as the original does; no numbers to compare{status}"
    how = "equal to" if tolerance.relative == 0 else f"within {tolerance.relative:g} of"
    digit = f", {comparison.rounded:,} of them but for the last digit printed" if comparison.rounded else ""
    return f"{counted(comparison.numbers, 'number')} {how} original on cuda{digit}{status}"


def _why_incomparable(outcome: Outcome, original: Outcome) -> str | None:
    """Return why numbers cannot be compared, or None: the CPU draws other random numbers than a device."""
    drawn = original.random_kernels
    if outcome.run.way.evidence != "cpu" or not drawn:
        return None
    kernels = counted(drawn, "kernel")
    return f"numbers not compared: the original draws random numbers on its device ({kernels}), the CPU has others"


def _random_hint(outcome: Outcome, original: Outcome) -> str:
    if outcome.run.way.evidence != original.run.way.evidence and original.random_kernels is None:
        return "; random numbers drawn on the device, if any, differ between the two"
    return ""


def exit_status(verdicts: Sequence[Verdict]) -> int:
    """Return 0 if every run of the rewritten project that ran passed, 1 if one fails or differs, 2 if none ran."""
    kinds = {v.kind for v in verdicts if v.run.project == "rewritten"}
    if kinds & {Kind.FAIL, Kind.DIFFERS}:
        return 1
    return 0 if Kind.PASS in kinds else 2
