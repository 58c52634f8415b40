"""Judge a run: PASS, FAIL, DIFFERS or SKIPPED, and why."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from torchmigrate.base.globs import Globs
from torchmigrate.base.text import counted, shorten
from torchmigrate.torch_api.backends import having
from torchmigrate.verify.compare import (
    Arrays,
    Comparison,
    Reference,
    Tolerance,
    behind_cut,
    comparable,
    compare,
    compare_files,
    compare_logged,
    is_poison,
    like,
    lost_file,
    reference,
    shape,
    steady,
)
from torchmigrate.verify.evidence import (
    Evidence,
    from_elsewhere,
    left_out,
    less_half,
    less_work,
    lost_spread,
    lost_work,
    size,
)
from torchmigrate.verify.run import Outcome, Run, describe_exception

if TYPE_CHECKING:
    from torchmigrate.verify.diagnosis.swallowed import Swallowed

_UNUSED = "the original launches no kernel on cuda"
_POISONED = "reads memory that no kernel or copy has written yet (a missing synchronize, or torch.empty)"


# what programs and torch say where there are fewer devices than they need
_DEVICES_WANTED = re.compile(
    r"invalid device ordinal|invalid device index|device_count\(\)"
    r"|(?:[2-9]|two|multiple|more) (?:or more )?(?:gpu|device|accelerator)|multi-?gpu"
    r"|\bgpus\b|number of (?:gpu|device)",
    re.IGNORECASE,
)


class Kind(str, Enum):
    """A verdict has one of these kinds.

    PASS: the program works, as far as the evidence goes. FAIL: it does not. DIFFERS: it runs with other results.
    REGRESSED: the original worked there, and the rewritten project does not. UNPORTED: it fails there, or runs on the
    CPU, as the original does. UNCOMPARED: it ran to its end, but nothing shows that its results are right. SKIPPED:
    nothing is shown.
    """

    PASS = "PASS"
    FAIL = "FAIL"
    DIFFERS = "DIFFERS"
    REGRESSED = "REGRESSED"
    UNPORTED = "UNPORTED"
    UNCOMPARED = "UNCOMPARED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict judges one run; `outcome` is None if the run was not started.

    `on_cpu`: whether it fails because its work was done on the CPU. `unlike`: whether it rests on numbers that the
    original printed on the same backend.
    """

    run: Run
    kind: Kind
    reason: str
    outcome: Outcome | None = None
    on_cpu: bool = False
    unlike: bool = False


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline has the runs of the original: two on cuda; `why` says why they cannot serve as the reference.

    `evidence`: which of its results depend on the device; None if that is not known, as on real devices. `elsewhere`:
    its runs on other backends, as far as they were needed, and `again` once more. `shared`: a run on cuda with the
    CPU's random numbers. `altered`: runs of the rewritten project that read altered values. `arrays`: of the binary
    files of other runs, by where they are kept, beside those of the reference.
    """

    first: Outcome | None = None
    second: Outcome | None = None
    why: str | None = None
    evidence: Evidence | None = None
    elsewhere: Mapping[str, Outcome] = field(default_factory=dict)
    again: Mapping[str, Outcome] = field(default_factory=dict)
    shared: Outcome | None = None
    altered: Mapping[str, Outcome] = field(default_factory=dict)
    arrays: Mapping[str, Arrays] = field(default_factory=dict)

    @property
    def reference(self) -> Reference:
        """Return the numbers that both runs print alike."""
        assert self.first and self.second
        return reference(self.first.lines, self.second.lines)

    @property
    def stands(self) -> bool:
        """Return whether there is a reference to compare with."""
        return self.why is None and self.first is not None


@dataclass(frozen=True, slots=True)
class Limits:
    """The user sets limits: the relative tolerance, and how many lines with numbers are compared (None: all).

    `only_on_cuda`: patterns of files that other backends need not write.
    """

    tolerance: float = 1e-3
    steps: int | None = None
    only_on_cuda: tuple[str, ...] = ()

    def spared(self, outcome: Outcome, original: Outcome) -> frozenset[str]:
        """Return the files of the original on cuda that a run on another backend did not write, and need not."""
        if not self.only_on_cuda or _same_device(outcome, original):
            return frozenset()
        missing = ({*original.made} | {*original.files}) - ({*outcome.made} | {*outcome.files})
        return frozenset(filter(Globs(self.only_on_cuda).match, missing))


def why_no_reference(outcome: Outcome) -> str | None:
    """Return why a run of the original cannot serve as the reference, or None.

    A plain nonzero exit status does not rule it out: test runners use them.
    """
    if outcome.collided:
        return f"another program has the port that the original asks for: {outcome.error}"
    if outcome.exception or outcome.exit is None or outcome.exit < 0:
        return f"the original itself fails on cuda: {outcome.error}"
    return None


def baseline(first: Outcome, second: Outcome | None) -> Baseline:
    """Check whether two runs of the original can serve as the reference: no exception, the same exit status."""
    for outcome in filter(None, (first, second)):
        if why := why_no_reference(outcome):
            return Baseline(first, second, why)
    if second is None:
        return Baseline(first, None, "the original was run once only")
    if first.exit != second.exit:
        return Baseline(first, second, f"the original ends with {first.exit}, then with {second.exit}")
    return Baseline(first, second)


def of_reference(base: Baseline, limits: Limits) -> Verdict:
    """Judge the original: PASS if it can serve as the reference, else SKIPPED."""
    assert base.first
    if base.why:
        advice = _advice(base.first)
        return Verdict(base.first.run, Kind.SKIPPED, f"no reference: {base.why}{advice}", base.first)
    if ends_unused(base.first):
        end = f"the original ends with {base.first.exit} before it uses cuda: {base.first.error}{_advice(base.first)}"
        return Verdict(base.first.run, Kind.SKIPPED, end, base.first)
    expected = base.reference
    parts = [f"the reference: {counted(expected.numbers, 'number')}"]
    if expected.left_out:
        parts.append(f"{expected.left_out} left out (times, or not the same twice)")
    if expected.cut is not None:
        parts.append(f"from line {expected.cut} on its output is not the same twice")
    if base.first.dropped:
        parts.append(f"{size(base.first.dropped)} of its output are not compared: only 64 MiB are")
    if base.second and (rest := sorted((base.first.made & base.second.made) - {*base.first.files})):
        parts.append(f"{counted(len(rest), 'file')} not compared ({rest[0]}): --compare does")
    if base.first.exit:
        parts.append(f"exit status {base.first.exit} ({base.first.error})")
    return Verdict(base.first.run, Kind.PASS, "; ".join(parts), base.first)


def _advice(outcome: Outcome) -> str:
    """Return what to do about a run that asks for more than one device, "" if it does not."""
    text = " ".join([*outcome.tail[-20:], outcome.error or ""])
    return "; with --count 2 there are two devices" if _DEVICES_WANTED.search(text) else ""


def of_rewritten(outcome: Outcome, base: Baseline, limits: Limits) -> Verdict:
    """Judge a run of the rewritten project by the reference, then by the original on the same backend."""
    verdict = _judge_alone(outcome, base, limits)
    before = base.elsewhere.get(outcome.run.way.backend)
    return verdict if before is None else _judge_beside(verdict, outcome, before, base, limits)


def asks_for_original(verdict: Verdict) -> bool:
    """Return whether the original has to be run on the same backend, to see whether it fares better there."""
    outcome = verdict.outcome
    if outcome is None or outcome.run.project == "original" or outcome.run.way.backend == "cuda":
        return False
    return verdict.kind is not Kind.PASS or any(map(_foreign(outcome), outcome.named.values()))


def agrees(found: Verdict, base: Baseline) -> bool:
    """Return whether a run passes, or would but for a constant in place of what its device refuses."""
    if found.kind is not Kind.UNCOMPARED or found.outcome is None:
        return found.kind is Kind.PASS
    return found.reason == _replaced(found.outcome, base)


def reads_less(outcome: Outcome, base: Baseline) -> bool:
    """Return whether a run reads its device less often than the original, or was refused something."""
    fewer = base.first is not None and (outcome.reads or 0) < (base.first.reads or 0)
    return fewer or bool(_newly_swallowed(outcome, base))


def asks_for_repeat(verdict: Verdict) -> bool:
    """Return whether the original has to be run there once more, to see which of its numbers are steady."""
    return verdict.kind is Kind.REGRESSED and verdict.unlike


def _judge_alone(outcome: Outcome, base: Baseline, limits: Limits) -> Verdict:
    """Judge a run by its end, then its device, then its results."""
    for judge in (_judge_ending, _judge_swallowed, _judge_device, _judge_poison):
        if found := judge(outcome, base):
            return found
    if not base.stands:
        return Verdict(outcome.run, Kind.UNCOMPARED, "ran to the end; not compared: there is no reference", outcome)
    return _judge_results(outcome, base, limits)


def _judge_beside(verdict: Verdict, outcome: Outcome, before: Outcome, base: Baseline, limits: Limits) -> Verdict:
    """Judge a run by the original's on the same backend, if that came to its end."""
    wanted = base.first.exit if base.first and base.stands else 0
    if before.exit != wanted or before.exception:
        if verdict.kind is not Kind.FAIL:
            return verdict
        if _dies_alike(outcome, before):
            return replace(verdict, kind=Kind.UNPORTED, reason=f"fails as the original does there: {outcome.error}")
        ours, theirs = outcome.error or "", before.error or ""
        other = f", of something else: {theirs}" if theirs and shape(ours) != shape(theirs) else ""
        return replace(verdict, reason=f"{verdict.reason}; the original fails there, too{other}")
    if said := _renamed(outcome, before):
        return Verdict(outcome.run, Kind.REGRESSED, said, outcome)
    backend = outcome.run.way.backend
    alike = verdict.kind is Kind.SKIPPED and outcome.exit != wanted  # it fails as the original does, but on cuda
    if verdict.on_cpu and _is_on_cpu(before, base) and not lost_work(outcome, before):
        verdict = replace(verdict, reason=f"{verdict.reason}; so does the original there")
        if bool(outcome.kernels) != bool(before.kernels) or lost_work(before, outcome):
            return verdict
        verdict = replace(verdict, kind=Kind.UNPORTED)
    elif alike or (verdict.kind is Kind.FAIL and (outcome.exit != wanted or before.kernels)):
        why = f"fails as the original does on cuda: {outcome.error}" if alike else verdict.reason
        return replace(verdict, kind=Kind.REGRESSED, reason=f"{why}; the original works on {backend}")
    if verdict.kind not in (Kind.DIFFERS, Kind.UNCOMPARED, Kind.UNPORTED):
        return verdict
    if lost := lost_work(outcome, before):
        return Verdict(outcome.run, Kind.REGRESSED, lost, outcome)
    tolerance = Tolerance(limits.tolerance, True, limits.steps)
    again = base.again.get(backend)
    known = base.reference if base.first and base.second else None
    comparison = compare(like(known, before.lines, again.lines if again else None), outcome.lines, tolerance)
    if verdict.kind is Kind.UNCOMPARED and base.stands and _drew(base) and outcome.kernels and not before.kernels:
        return verdict  # it prints what the original prints on cuda, whose random numbers the CPU does not draw
    if comparison.difference:
        what = f"stdout {comparison.difference}, on {backend}"
        return Verdict(outcome.run, Kind.REGRESSED, what, outcome, unlike=True)
    if logged := _compare_logged(outcome, base, tolerance, before)[0]:
        return Verdict(outcome.run, Kind.REGRESSED, f"{logged}, on {backend}", outcome)
    if unsaid := _lost_words(outcome, base, limits, before):
        return Verdict(outcome.run, Kind.REGRESSED, f"{unsaid}, on {backend}", outcome)
    if lost := _lost_tests(outcome, before):
        return Verdict(outcome.run, Kind.REGRESSED, lost, outcome)
    if verdict.kind is Kind.UNPORTED:
        file = lost_file(before.made, before.made, outcome.made)
        what = f"{file}: written by the original on {backend}, not here"
        return Verdict(outcome.run, Kind.REGRESSED, what, outcome) if file else verdict
    if _replaced(outcome, base):
        return verdict
    if verdict.kind is Kind.DIFFERS and outcome.exit == wanted and comparison.numbers and _shows(comparison, base):
        agreed = f"{counted(comparison.numbers, 'number')} within {limits.tolerance:g} of original on {backend}"
        return Verdict(outcome.run, Kind.PASS, agreed, outcome)
    if elsewhere := _from_elsewhere(comparison, outcome, base):
        return replace(verdict, reason=elsewhere)
    if verdict.kind is Kind.UNCOMPARED and comparison.numbers and (_drew(base) or not base.stands):
        agreed = f"{counted(comparison.numbers, 'number')} within {limits.tolerance:g} of original on {backend}"
        return Verdict(outcome.run, Kind.PASS, agreed, outcome)
    return verdict


def _foreign(outcome: Outcome) -> Callable[[frozenset[str]], bool]:
    """Return a test of whether types of devices hold an accelerator's that is not the run's own."""
    others = frozenset(having("helper")) - {outcome.run.way.backend}
    return lambda types: bool(types & others)


def _renamed(outcome: Outcome, before: Outcome) -> str | None:
    """Return a line that names another accelerator where the original names what is there; else None."""
    is_foreign, own = _foreign(outcome), {outcome.run.way.backend, "cpu"}
    for form, types in outcome.named.items():
        known = before.named.get(form, frozenset())
        if is_foreign(types - known) and known & own:
            here, there = (", ".join(sorted(each)) for each in (types, known))
            return f"names {here} as its device where the original names {there}: `{shorten(form, 60)}`"
    return None


def numbers(verdict: Verdict, base: Baseline, limits: Limits) -> tuple[float, ...]:
    """Return the numbers of a run at the places that the reference can repeat; without a reference, all numbers."""
    if verdict.outcome is None:
        return ()
    if not base.stands:
        return tuple(number.value for line in verdict.outcome.lines for number in line.numbers)
    return tuple(comparable(base.reference, verdict.outcome.lines, limits.steps))


def _judge_ending(outcome: Outcome, base: Baseline) -> Verdict | None:
    original = base.first
    if original and _fails_alike(outcome, original):
        return Verdict(outcome.run, Kind.SKIPPED, f"fails as the original does: {outcome.error}", outcome)
    wanted = original.exit if original and not base.why else 0
    if outcome.exit == wanted and not (outcome.exit and outcome.exception):
        return _judge_uncaught(outcome, base)
    if outcome.exit == 0:
        return Verdict(outcome.run, Kind.DIFFERS, f"ends with 0, the original with {wanted}", outcome)
    return Verdict(outcome.run, Kind.FAIL, outcome.error or "", outcome)


def _judge_uncaught(outcome: Outcome, base: Baseline) -> Verdict | None:
    """Judge a run in which a thread or a child process dies, and the program goes on; test runners have own words."""
    if outcome.tests or not base.stands:
        return None
    known = {form for original in (base.first, base.second) if original for form in original.uncaught}
    new = next((text for form, text in outcome.uncaught.items() if form not in known), None)
    if new is None:
        return None
    reason = f"ends as the original does, but a thread or process of it dies: {new}"
    return Verdict(outcome.run, Kind.FAIL, reason, outcome)


def _judge_swallowed(outcome: Outcome, base: Baseline) -> Verdict | None:
    """Judge a run in which the device refuses what the original's device does not, and the program goes on."""
    if not base.first or not base.stands or _is_device_unused(base.first):
        return None
    bad = [met for met in _newly_swallowed(outcome, base) if met.end.name not in ("ANSWERED", "CONSTANT")]
    if outcome.tests:  # what a test runner catches is a failed test
        bad = [met for met in bad if met.end.name != "LOST"]
    return Verdict(outcome.run, Kind.FAIL, _describe_swallowed(bad, outcome), outcome) if bad else None


def _replaced(outcome: Outcome, base: Baseline) -> str | None:
    """Return what the device refuses and a constant of the program's stands for; None if nothing does."""
    found = [met for met in _newly_swallowed(outcome, base) if met.end.name == "CONSTANT"]
    return _describe_swallowed(found, outcome) if found else None


def _describe_swallowed(bad: Sequence[Swallowed], outcome: Outcome) -> str:
    met, more = bad[0], len(bad) - 1
    how = f"{met.end.value}{f' ({met.by})' if met.by else ''}"
    also = f"; and {counted(more, 'other call')} so" if more else ""
    there = "refuses" if outcome.run.way.evidence != "cpu" else "cannot do"
    times = f", {met.count:,} times" if met.count > 1 else ""
    what = f"{outcome.run.way.backend} {there} what runs on cuda, at {met.at}{times}: {met.words}"
    return f"{what}; the program goes on, as {how}{also}"


def _newly_swallowed(outcome: Outcome, base: Baseline) -> list[Swallowed]:
    """Return what was refused in a run and in none of the original's, on its own device or, if it works there, this."""
    beside = base.elsewhere.get(outcome.run.way.backend)
    works = beside is not None and beside.exit == 0 and bool(beside.kernels)
    originals = [each for each in (base.first, base.second, beside if works else None) if each]
    known = {met.form for each in originals for met in each.swallowed}
    return [met for met in outcome.swallowed if met.form not in known]


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


def _dies_alike(outcome: Outcome, before: Outcome) -> bool:
    """Return whether a run and the original's on the same backend die of the same error at the same place.

    Or both are killed by the same signal, or are still running when their time is up.
    """
    if outcome.timed_out or before.timed_out:
        return outcome.timed_out and before.timed_out
    if not outcome.exit or outcome.exit != before.exit:
        return False
    places = {each.diagnosis and (each.diagnosis.path, each.diagnosis.line) for each in (outcome, before)}
    errors = {shape(each.error or "") for each in (outcome, before)}
    return outcome.exit < 0 or (len(places) == len(errors) == 1 and outcome.tests == before.tests)


def _judge_device(outcome: Outcome, base: Baseline) -> Verdict | None:
    if base.first and base.stands and _is_device_unused(base.first):
        return Verdict(outcome.run, Kind.SKIPPED, f"nothing to show: {_UNUSED}{_silence(base.first)}", outcome)
    if _is_device_unused(outcome):
        reason = f"ran on the CPU: no kernel was launched on {outcome.run.way.backend}"
        return Verdict(outcome.run, Kind.FAIL, reason + _silence(outcome), outcome, on_cpu=True)
    if not base.first or not base.stands or outcome.elements is None:
        return None
    if lost := lost_work(outcome, base.first):
        return Verdict(outcome.run, Kind.FAIL, lost, outcome, on_cpu=True)
    lost = lost_spread(outcome, base.first)
    return Verdict(outcome.run, Kind.FAIL, lost, outcome) if lost else None


def _silence(outcome: Outcome) -> str:
    """Return why no process of a run said anything of its device, if none did."""
    if outcome.reports:
        return ""
    return "; no process reported: torch was not imported, PYTHONPATH was replaced, or os._exit ended it"


def _is_on_cpu(before: Outcome, base: Baseline) -> bool:
    """Return whether a run of the original on another backend than cuda did its work, or most of it, on the CPU."""
    return _is_device_unused(before) or bool(base.first and base.stands and lost_work(before, base.first))


def ends_unused(outcome: Outcome) -> bool:
    """Return whether a run ended with an exit status that is not 0 before it used its device, as of a wrong option."""
    return bool(outcome.exit) and _is_device_unused(outcome)


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
    spared = limits.spared(outcome, base.first)
    wanted = {name: file for name, file in base.first.files.items() if name not in spared}
    again = {name: file for name, file in base.second.files.items() if name not in spared}
    files, alike = compare_files(wanted, again, outcome.files, tolerance, base.arrays)
    if lost := lost_file(base.first.made - spared, base.second.made, outcome.made):
        hint = "" if same else " (--only-on-cuda, if no other backend has to)"
        files = files or f"{lost}: written by the original, not here{hint}"
    tests = _lost_tests(outcome, base.first)
    if not comparison.difference and not files and not tests:
        logged, seen = _compare_logged(outcome, base, tolerance)
        if other := logged or _lost_words(outcome, base, limits):
            return Verdict(outcome.run, Kind.DIFFERS, other, outcome)
        return _with_spared(_judge_agreement(outcome, base, comparison, tolerance, alike, seen), spared)
    if not files and not tests and _draws_other_numbers(outcome, base.first):
        return _judge_shared(outcome, base, limits)
    what = f"stdout {comparison.difference}" if comparison.difference else files or tests
    return Verdict(outcome.run, Kind.DIFFERS, f"{what}{_random_hint(outcome, base.first)}", outcome)


def _lost_words(outcome: Outcome, base: Baseline, limits: Limits, before: Outcome | None = None) -> str | None:
    """Return a line of words that follows from what the device computes in the original, and is not there here.

    `before`: a run of the original on the same backend; what it does not print either is not asked for.
    """
    if base.evidence is None or base.first is None or limits.steps is not None:
        return None
    if before is None and _draws_other_numbers(outcome, base.first):
        return None
    wanted = base.evidence.words if before is None else base.evidence.words & before.said
    for where, form in sorted(wanted - outcome.said):
        if where == "stdout" or where in outcome.files:
            return f"{where}: the original's `{shorten(form, 60)}` is not there"
    return None


def _with_spared(found: Verdict, spared: frozenset[str]) -> Verdict:
    """Say which files of the original's a run does not write, and need not."""
    if not spared:
        return found
    said = f"{counted(len(spared), 'file')} written on cuda alone ({min(spared)})"
    return replace(found, reason=f"{found.reason}; {said}")


def _judge_agreement(
    outcome: Outcome, base: Baseline, comparison: Comparison, tolerance: Tolerance, files: Sequence[str], logged: int
) -> Verdict:
    """Judge a run that agrees with the reference: by whether a wrong device would have been noticed."""
    assert base.first
    from_device = files if base.evidence is None else base.evidence.files & {*files}
    if not (_shows(comparison, base) or _passed(base.first) or from_device or logged):
        status = f"; exit status {outcome.exit}, as the original's" if outcome.exit else ""
        if not comparison.numbers:
            why = f"ends as the original does{status}, but there are no numbers to compare: let it print some"
        else:
            alike = f"{counted(comparison.numbers, 'number')} as the original's{status}"
            why = f"{alike}, but none {_why_none_shows(comparison, base)}"
        return Verdict(outcome.run, Kind.UNCOMPARED, why, outcome)
    if found := _from_elsewhere(comparison, outcome, base) or _replaced(outcome, base):
        return Verdict(outcome.run, Kind.UNCOMPARED, found, outcome)
    return Verdict(
        outcome.run, Kind.PASS, _describe_agreement(comparison, tolerance, base, outcome, len(files), logged), outcome
    )


def _why_none_shows(comparison: Comparison, base: Baseline) -> str:
    if comparison.rounded and (base.evidence is None or base.evidence.places & comparison.rounded):
        return "of those from the device but for the last digit: let it print more digits"
    if base.evidence is not None and base.evidence.constant:
        return "depends on what the device is given: let it print losses of some steps"
    if died := base.evidence.died if base.evidence is not None else "":
        return f"is known to come from the device: with altered numbers the original ends otherwise: {died}"
    return "comes from the device: let it print a loss"


def _from_elsewhere(comparison: Comparison, outcome: Outcome, base: Baseline) -> str | None:
    """Return which result is the original's, though the run does not have it from its device; else None."""
    altered = base.altered.get(outcome.run.way.backend)
    if altered is None or base.evidence is None:
        return None
    found = from_elsewhere(base.evidence, comparison.places, base.reference, outcome, altered)
    return f"as the original, but {found}" if found else None


def _compare_logged(
    outcome: Outcome, base: Baseline, tolerance: Tolerance, beside: Outcome | None = None
) -> tuple[str | None, int]:
    """Compare what the device computed with the reference, or the run `beside`, where lines may come between others.

    That is on stderr, and on stdout where the original's is not the same twice.
    """
    if base.evidence is None or not (base.first and base.second):
        return None, 0
    against = beside or base.first
    if beside is None and _draws_other_numbers(outcome, base.first):
        return None, 0
    agreed, cut = 0, functools.partial(behind_cut, base.reference)
    on_stderr = (base.first.logged, base.second.logged, against.logged, outcome.logged)
    on_stdout = (cut(base.first.lines), cut(base.second.lines), cut(against.lines), cut(outcome.lines))
    for name, (known, again, wanted, found) in (("stderr", on_stderr), ("stdout", on_stdout)):
        places = base.evidence.logged & steady(known, again)
        there = [place for place in places if place[0] in wanted]
        difference, count = compare_logged(wanted, there, found, tolerance)
        if difference:
            return f"{name} {difference}", agreed
        agreed += count
    return None, agreed


def _shows(comparison: Comparison, base: Baseline) -> bool:
    """Return whether what agrees depends on the device; where that is not known, numbers are taken to.

    What agrees but for its last digit alone may be chance.
    """
    exact = comparison.places - comparison.rounded
    if base.evidence is None:
        return bool(exact)
    return base.evidence.checks or bool(base.evidence.places & exact)


def _passed(outcome: Outcome) -> int:
    return sum(end == "passed" for end in outcome.tests.values())


def _lost_tests(outcome: Outcome, original: Outcome) -> str | None:
    """Return which tests of the original pass that do not pass here; None if all do."""
    passed = [name for name, end in original.tests.items() if end == "passed"]
    lost = [name for name in passed if outcome.tests.get(name) != "passed"]
    if not lost:
        return None
    ends = {"skipped": "is skipped", "failed": "fails"}
    how = ends.get(outcome.tests.get(lost[0], ""), "does not run")
    more = f", and {counted(len(lost) - 1, 'other')} as well" if len(lost) > 1 else ""
    return f"test {lost[0]} {how} here, and passes in the original{more}"


def _judge_shared(outcome: Outcome, base: Baseline, limits: Limits) -> Verdict:
    """Judge a run on the CPU by the original on cuda with the CPU's random numbers."""
    assert base.first
    shared, drawn = base.shared, counted(base.first.random_kernels or 0, "kernel")
    drew = f"the original draws random numbers on its device ({drawn}), the CPU has others"
    if shared is None or shared.exit != base.first.exit or shared.exception:
        return Verdict(outcome.run, Kind.UNCOMPARED, f"ran to the end; numbers not compared: {drew}", outcome)
    tolerance = Tolerance(limits.tolerance, False, limits.steps)
    comparison = compare(like(base.reference, shared.lines), outcome.lines, tolerance)
    if comparison.difference:
        return Verdict(outcome.run, Kind.DIFFERS, f"stdout {comparison.difference}", outcome)
    if not _shows(comparison, base):
        return Verdict(outcome.run, Kind.UNCOMPARED, f"ran to the end; numbers not compared: {drew}", outcome)
    agreed = f"{counted(comparison.numbers, 'number')} within {limits.tolerance:g} of original on cuda"
    return Verdict(outcome.run, Kind.PASS, f"{agreed} with the CPU's random numbers", outcome)


def _same_device(outcome: Outcome, original: Outcome) -> bool:
    return outcome.run.way == original.run.way


def _describe_agreement(
    comparison: Comparison, tolerance: Tolerance, base: Baseline, outcome: Outcome, files: int, logged: int
) -> str:
    assert base.first
    parts = []
    if comparison.numbers:
        how = "equal to" if tolerance.relative == 0 else f"within {tolerance.relative:g} of"
        rounded = len(comparison.rounded)
        digit = f", {rounded:,} of them but for the last digit printed" if rounded else ""
        parts.append(f"{counted(comparison.numbers, 'number')} {how} original on cuda{digit}")
    else:
        parts.append("ends as the original does")
    if base.evidence is not None and comparison.numbers:
        own = len(base.evidence.places & comparison.places)
        if own < comparison.numbers:
            parts.append(f"{own:,} from the device" if own else "none from the device")
    if base.evidence is not None and base.evidence.checks and not base.evidence.places:
        parts.append("it checks what the device computes")
    if lost := less_work(outcome, base.first):
        parts.append(lost)
    if lost := less_half(outcome, base.first):
        parts.append(lost)
    if missing := left_out(outcome, base.first):
        parts.append(missing)
    if logged:
        parts.append(f"{counted(logged, 'number')} on stderr as there")
    if answered := sum(met.count for met in _newly_swallowed(outcome, base)):
        parts.append(f"{counted(answered, 'call')} refused that the program's own handlers answer")
    known = {form for original in (base.first, base.second) if original for form in original.stopped}
    if stopped := next((text for form, text in outcome.stopped.items() if form not in known), None):
        parts.append(f"it ends {stopped}, which the original does not")
    if passed := _passed(base.first):
        parts.append(f"{counted(passed, 'test')} passed as there")
    if files:
        parts.append(f"{counted(files, 'file')} as there")
    if outcome.exit:
        parts.append(f"exit status {outcome.exit}, as the original's")
    if outcome.dropped:
        parts.append("only the first 64 MiB of its output are compared")
    return "; ".join(parts)


def _draws_other_numbers(outcome: Outcome, original: Outcome) -> bool:
    """Return whether the run is on the CPU, which draws other random numbers than a device does."""
    return outcome.run.way.evidence == "cpu" and bool(original.random_kernels)


def _drew(base: Baseline) -> bool:
    return base.first is not None and bool(base.first.random_kernels)


def _random_hint(outcome: Outcome, original: Outcome) -> str:
    if outcome.run.way.evidence != original.run.way.evidence and original.random_kernels is None:
        return "; random numbers drawn on the device, if any, differ between the two"
    return ""


def exit_status(verdicts: Sequence[Verdict]) -> int:
    """Return 0 if every run of the rewritten project that ran passed, 1 if one fails or differs, 2 if nothing is shown.

    Without a reference nothing is, nor if the results of a run on a device are not compared, nor on a backend where
    the project works no better than before.
    """
    rewritten = [v for v in verdicts if v.run.project == "rewritten"]
    kinds = {v.kind for v in rewritten}
    if kinds & {Kind.FAIL, Kind.DIFFERS, Kind.REGRESSED}:
        return 1
    if Kind.UNPORTED in kinds:
        return 2
    uncompared = any(v.kind is Kind.UNCOMPARED and v.run.way.backend != "cpu" for v in rewritten)
    stands = all(v.kind is Kind.PASS for v in verdicts if v.run.project == "original")
    return 0 if Kind.PASS in kinds and stands and not uncompared else 2
