"""From what runs did to what is said of them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from torchmigrate.formats.verify import junit, text
from torchmigrate.verify.backends import Way
from torchmigrate.verify.compare import Written, by_shape, lines, named_devices, worded
from torchmigrate.verify.diagnosis.diagnose import Diagnosis
from torchmigrate.verify.diagnosis.swallowed import End, Swallowed
from torchmigrate.verify.evidence import Evidence, evidence, may_be_constant, without_constants
from torchmigrate.verify.run import Outcome, Run
from torchmigrate.verify.verdict import (
    Baseline,
    Kind,
    Limits,
    Verdict,
    asks_for_original,
    asks_for_repeat,
    baseline,
    exit_status,
    numbers,
    of_reference,
    of_rewritten,
    reads_less,
)

CUDA, MPS, CPU = Way("cuda", "simulated"), Way("mps", "simulated"), Way("cpu", "cpu")
LIMITS = Limits()
HERE = Path("/project")
VALUE_ERROR = {"type": "ValueError", "message": "no 3 on cuda:0\nmore", "frames": []}


def outcome(
    output: str = "loss 0.5000\n",
    way: Way = CUDA,
    project: str = "rewritten",
    exit: int | None = 0,
    kernels: int | None = 7,
    random: int = 0,
    exception: dict[str, Any] | None = None,
    tail: tuple[str, ...] = (),
    stderr: str = "",
    peak: tuple[int, ...] = (10, 30),
    met: tuple[Swallowed, ...] = (),
    **rest: Any,
) -> Outcome:
    counted = None if way.evidence != "simulated" else kernels
    report = {"kernels": counted, "random_kernels": random, "peak_bytes": [*peak], "exception": exception, **rest}
    found = tuple(lines(output))
    run = Run(project, way)  # type: ignore[arg-type]
    return Outcome(
        run,
        exit,
        exit is None,
        1.0,
        found,
        tail,
        (report,),
        named=named_devices(output),
        logged=by_shape(lines(stderr)),
        swallowed=met,
    )


def base(output: str = "loss 0.5000\n", second: str | None = None, **about: Any) -> Baseline:
    first = outcome(output, project="original", **about)
    return baseline(first, outcome(output if second is None else second, project="original", **about))


def said(found: Outcome, against: Baseline | None = None, limits: Limits = LIMITS) -> tuple[str, str]:
    verdict = of_rewritten(found, base() if against is None else against, limits)
    return verdict.kind.value, verdict.reason


# ---- results


def test_the_same_numbers_pass() -> None:
    assert said(outcome()) == ("PASS", "1 number equal to original on cuda")
    assert said(outcome("loss 0.5006", MPS), base("loss 0.5005")) == (
        "PASS",
        "1 number within 0.001 of original on cuda",
    )
    rounded = "2 numbers within 0.001 of original on cuda, 1 of them but for the last digit printed"
    assert said(outcome("loss 0.02 in 7 steps", MPS), base("loss 0.03 in 7 steps")) == ("PASS", rounded)


def test_on_cuda_the_numbers_are_equal_to_the_digit() -> None:
    different = "stdout line 1: 0.5001 where the original printed 0.5000 (`loss 0.5001`)"
    assert said(outcome("loss 0.5001")) == ("DIFFERS", different)
    assert said(outcome("loss 0.61", MPS))[0] == "DIFFERS"
    assert said(outcome("loss 0.61", MPS), limits=Limits(tolerance=0.5))[0] == "PASS"


def test_a_program_that_prints_no_numbers() -> None:
    nothing = "ends as the original does, but there are no numbers to compare: let it print some"
    assert said(outcome("done"), base("done")) == ("UNCOMPARED", nothing)


def test_on_the_cpu_random_numbers_are_others() -> None:
    kind, reason = said(outcome("loss 0.9", CPU), base(random=2))
    assert kind == "UNCOMPARED"
    assert reason == (
        "ran to the end; numbers not compared: the original draws random numbers on its device (2 kernels), "
        "the CPU has others"
    )
    assert said(outcome("loss 0.5", CPU), base(random=2)) == ("PASS", "1 number within 0.001 of original on cuda")
    assert said(outcome("loss 0.9", CPU))[0] == "DIFFERS"
    assert said(outcome("loss 0.9", MPS), base(random=2))[0] == "DIFFERS"


def test_on_the_cpu_the_original_is_run_with_its_random_numbers() -> None:
    shared = replace(base(random=2), shared=outcome("loss 0.9", project="original"))
    alike = "1 number within 0.001 of original on cuda with the CPU's random numbers"
    assert said(outcome("loss 0.9", CPU), shared) == ("PASS", alike)
    assert said(outcome("loss 0.7", CPU), shared)[0] == "DIFFERS"
    failed = replace(base(random=2), shared=outcome("", project="original", exit=1, exception=VALUE_ERROR))
    assert said(outcome("loss 0.9", CPU), failed)[0] == "UNCOMPARED"


def test_against_real_hardware_random_numbers_may_be_the_reason() -> None:
    real = base(way=Way("cuda", "hardware"), random=0)
    (first, second) = (real.first, real.second)
    assert first and second
    first.reports[0]["random_kernels"] = None
    assert said(outcome("loss 0.9", MPS), real)[1].endswith(
        "random numbers drawn on the device, if any, differ between the two"
    )
    assert said(outcome("loss 0.5", Way("cuda", "hardware")), real) == ("PASS", "1 number equal to original on cuda")


# ---- what the numbers are worth


def altered(output: str, **about: Any) -> Baseline:
    """A reference of "seed 0 loss 0.5000", and what the original prints when it reads other values from the device."""
    made = base("seed 0 loss 0.5000\n")
    assert made.first
    return replace(made, evidence=evidence(made.reference, made.first, outcome(output, project="original", **about)))


def test_numbers_that_do_not_come_from_the_device_show_nothing() -> None:
    same = "seed 0 loss 0.5000\n"
    assert said(outcome(same, MPS), altered("seed 0 loss 0.5937\n")) == (
        "PASS",
        "2 numbers within 0.001 of original on cuda; 1 from the device",
    )
    constant = ("UNCOMPARED", "2 numbers as the original's, but none comes from the device: let it print a loss")
    assert said(outcome(same, MPS), altered(same)) == constant
    dies = {"type": "IndexError", "message": "index 9", "frames": []}
    hidden = "2 numbers as the original's, but none is known to come from the device: with altered numbers the original"
    assert said(outcome(same, MPS), altered(same, exit=1, exception=dies)) == (
        "UNCOMPARED",
        f"{hidden} ends otherwise: IndexError: index 9",
    )
    assert said(outcome(same, MPS), altered(same, exit=None))[1].startswith(f"{hidden} ends otherwise: still running")
    asserts = {"type": "AssertionError", "message": "", "frames": []}
    assert said(outcome(same, MPS), altered("", exit=1, exception=asserts))[0] == "PASS"


def test_with_steps_only_the_numbers_of_these_count() -> None:
    text = "step 1\nloss 0.5\n"
    made = base(text)
    assert made.first
    known = replace(made, evidence=evidence(made.reference, made.first, outcome("step 1\nloss 0.6\n")))
    assert said(outcome(text, MPS), known)[0] == "PASS"
    assert said(outcome(text, MPS), known, Limits(steps=1))[0] == "UNCOMPARED"


def test_tests_that_pass_are_results() -> None:
    ends = {"test_a": "passed", "test_b": "passed", "test_c": "skipped"}
    against = base("", tests=ends)
    assert said(outcome("", MPS, tests=ends), against) == ("PASS", "ends as the original does; 2 tests passed as there")
    skips = {**ends, "test_b": "skipped"}
    lost = "test test_b is skipped here, and passes in the original"
    assert said(outcome("", MPS, tests=skips), against) == ("DIFFERS", lost)
    assert said(outcome("", MPS), against)[1].endswith(
        "does not run here, and passes in the original, and 1 other as well"
    )


def test_a_file_that_only_cuda_has_to_write() -> None:
    def wrote(*names: str, way: Way = MPS, project: str = "rewritten", compared: tuple[str, ...] = ()) -> Outcome:
        files = {name: Written(name, tuple(lines("loss 0.5"))) for name in compared}
        return replace(outcome(way=way, project=project), made=frozenset(names), files=files)

    original = wrote("memory.pickle", "model.pt", way=CUDA, project="original", compared=("memory.pickle",))
    known, spares = baseline(original, original), Limits(only_on_cuda=("*.pickle",))
    kind, reason = said(wrote("model.pt"), replace(known, first=replace(original, files={})))
    assert kind == "DIFFERS"
    assert reason == "memory.pickle: written by the original, not here (--only-on-cuda, if no other backend has to)"
    one = "1 number within 0.001 of original on cuda; 1 file written on cuda alone (memory.pickle)"
    assert said(wrote("model.pt"), known, spares) == ("PASS", one)
    # on cuda it is written; where another one is missing, or this one holds something else, nothing is spared
    assert said(wrote("model.pt", way=CUDA), known, spares)[0] == "DIFFERS"
    lost = said(wrote(), known, spares)
    assert lost[0] == "DIFFERS" and lost[1].startswith("model.pt: written by the original, not here")
    other = replace(wrote("memory.pickle", "model.pt"), files={"memory.pickle": Written("x", tuple(lines("loss 0.9")))})
    assert said(other, known, spares)[0] == "DIFFERS"
    same = wrote("memory.pickle", "model.pt", compared=("memory.pickle",))
    assert "on cuda alone" not in said(same, known, spares)[1]


# ---- the original on the same backend


def beside(before: Outcome, reference: Baseline | None = None) -> Baseline:
    return replace(reference or base(), elsewhere={before.run.way.backend: before})


def test_what_the_original_did_there_is_not_lost() -> None:
    original = outcome("loss 0.5000\n", MPS, "original")
    died = outcome("", MPS, exit=1, exception=VALUE_ERROR)
    assert said(died, beside(original)) == (
        "REGRESSED",
        "ValueError: no 3 on cuda:0; the original works on mps",
    )
    dead = base(exit=1, exception=VALUE_ERROR)
    assert said(died, beside(original, dead)) == (
        "REGRESSED",
        "fails as the original does on cuda: ValueError: no 3 on cuda:0; the original works on mps",
    )
    cannot = outcome("", MPS, "original", exit=1, exception=VALUE_ERROR)
    assert said(died, beside(cannot))[0] == "UNPORTED"
    assert said(died, beside(cannot, dead))[0] == "SKIPPED"
    on_cpu = outcome("loss 0.5000\n", MPS, "original", kernels=0)
    assert said(outcome(way=MPS, kernels=0), beside(on_cpu))[0] == "UNPORTED"
    assert said(outcome(way=MPS, kernels=0), beside(original))[0] == "REGRESSED"


def test_other_numbers_are_compared_with_those_of_the_original_there() -> None:
    own = outcome("loss 0.7000\n", CPU, "original")
    assert said(outcome("loss 0.7001\n", CPU), beside(own)) == ("PASS", "1 number within 0.001 of original on cpu")
    assert said(outcome("loss 0.9\n", CPU), beside(own))[0] == "REGRESSED"


def test_a_device_that_is_named_in_place_of_the_own_one() -> None:
    own = outcome("device ('mps', 1) loss 0.5\n", MPS, "original")
    wrong = outcome("device ('cuda', 1) loss 0.5\n", MPS)
    against = beside(own, base("device ('cuda', 1) loss 0.5\n"))
    assert said(wrong, against) == (
        "REGRESSED",
        "names cuda as its device where the original names mps: `device ('@', #) loss #`",
    )
    assert asks_for_original(of_rewritten(wrong, base("device ('cuda', 1) loss 0.5\n"), LIMITS))
    assert said(outcome("device ('mps', 1) loss 0.5\n", MPS), against)[0] == "PASS"
    both = outcome("cuda or mps: 1 loss 0.5\n", MPS, "original")
    assert said(outcome("cuda or mps: 1 loss 0.5\n", MPS), beside(both, base("cuda or mps: 1 loss 0.5\n")))[0] == "PASS"


# ---- the work


def worked(way: Way, **amounts: int) -> Outcome:
    return outcome(way=way, project="original" if way == CUDA else "rewritten", **{"elements": 1000, **amounts})


@pytest.mark.parametrize(
    ("here", "what"),
    [
        ({"elements": 100}, "10% of the original's work was on mps"),
        ({"products": 40}, "10% of the original's work of matrix products, convolutions and the like was on mps"),
        ({"parameter_bytes": 8}, "8 B of parameters, of the original's 4.0 KiB was on mps"),
    ],
)
def test_most_of_the_work_is_done_on_the_device(here: dict[str, int], what: str) -> None:
    whole = {"elements": 1000, "products": 400, "parameter_bytes": 4096}
    made = baseline(worked(CUDA, **whole), worked(CUDA, **whole))
    kind, reason = said(worked(MPS, **{**whole, **here}), made)
    assert (kind, reason) == ("FAIL", f"ran mostly on the CPU: {what} (7 kernels, the original 7 on cuda)")
    less = {"elements": 600, "products": 380, "parameter_bytes": 2400}
    kind, reason = said(worked(MPS, **less), made)
    assert kind == "PASS"
    assert "; 95% of the original's work of matrix products, convolutions and the like on mps" in reason
    assert "; 60% of the original's work on mps" in said(worked(MPS, **{**less, "products": 399}), made)[1]
    assert "of the original's work" not in said(worked(MPS, **{**less, "elements": 950, "products": 399}), made)[1]


def test_products_are_done_on_the_device_but_for_a_few() -> None:
    made = baseline(worked(CUDA, products=400), worked(CUDA, products=400))
    kind, reason = said(worked(MPS, products=340), made)
    done = "85% of the original's work of matrix products, convolutions and the like was on mps"
    assert (kind, reason) == ("FAIL", f"ran in part on the CPU: {done} (7 kernels, the original 7 on cuda)")


# ---- where numbers come from

LOSSES = "step 0 loss 0.5000\nstep 1 loss 0.4000\n"
READ_OTHERS = "step 0 loss 0.6000\nstep 1 loss 0.5000\n"


def asked_for_source(found: str, known: str = LOSSES, given: str | None = None, **about: Any) -> tuple[str, str]:
    """What is said of a run that prints `known`, and `found` if it reads altered values, as the original does."""
    made = base(known)
    assert made.first
    depends = evidence(made.reference, made.first, outcome(READ_OTHERS, project="original"))
    if given is not None:
        others = outcome(given, project="original", altered=3)
        depends = without_constants(depends, made.reference, made.first, others)
    made = replace(made, evidence=depends, altered={"mps": outcome(found, MPS, **about)})
    return said(outcome(known, MPS), made)


def test_numbers_come_from_the_run_s_own_device() -> None:
    assert asked_for_source(READ_OTHERS)[0] == "PASS"
    kind, reason = asked_for_source(LOSSES)
    assert (kind, reason) == (
        "UNCOMPARED",
        "as the original, but stdout line 1 does not come from mps: `step 0 loss 0.5000`",
    )
    # a run that takes another way says nothing
    assert asked_for_source("step 0 loss 0.5000\n")[0] == "PASS"
    assert asked_for_source(LOSSES, exit=1, exception=VALUE_ERROR)[0] == "PASS"


def test_random_numbers_of_the_original_s_cpu_are_no_measure_of_a_device() -> None:
    """Found in pygcn: it prints on MPS what the original prints on CUDA, and the original is on the CPU there."""

    def beside_its_cpu(output: str, kernels: int, **about: Any) -> str:
        made = base(LOSSES, random=5)
        assert made.first
        depends = evidence(made.reference, made.first, outcome(READ_OTHERS, project="original"))
        there = outcome(READ_OTHERS, MPS, "original", kernels=kernels)
        altered = {"mps": outcome(output, MPS, random=5)}
        made = replace(made, evidence=depends, altered=altered, elsewhere={"mps": there})
        return said(outcome(output, MPS, random=5, **about), made)[0]

    assert beside_its_cpu(LOSSES, kernels=0) == "UNCOMPARED"
    assert beside_its_cpu(LOSSES, kernels=7) == "REGRESSED"  # it is on the device there
    assert beside_its_cpu(LOSSES.replace("0.5", "0.6"), kernels=0) == "REGRESSED"  # of no original


def test_checks_and_files_come_from_the_run_s_own_device(tmp_path: Path) -> None:
    made, text = base(LOSSES), lines("loss 0.5")
    assert made.first
    checks = replace(made, evidence=Evidence(checks=True), altered={"mps": outcome(LOSSES, MPS)})
    assert said(outcome(LOSSES, MPS), checks) == (
        "UNCOMPARED",
        "as the original, but its checks do not notice other values",
    )
    assert said(outcome(LOSSES, MPS), replace(checks, altered={"mps": outcome("", MPS, exit=1)}))[0] == "PASS"
    files = {"log.txt": Written("a", tuple(text))}
    first, second = (replace(each, files=files) for each in (made.first, made.second) if each)
    found = replace(outcome(LOSSES, MPS), files=files)
    written = replace(made, first=first, second=second, evidence=Evidence(files=frozenset(files)))
    same = replace(written, altered={"mps": found})
    assert said(found, same) == ("UNCOMPARED", "as the original, but log.txt does not come from mps")
    other = replace(written, altered={"mps": replace(found, files={"log.txt": Written("b", tuple(text))})})
    assert said(found, other)[0] == "PASS"


def test_numbers_that_stay_whatever_the_device_is_given_show_nothing() -> None:
    assert asked_for_source(READ_OTHERS, given=READ_OTHERS)[0] == "PASS"
    kind, reason = asked_for_source(READ_OTHERS, given=LOSSES)
    assert kind == "UNCOMPARED"
    assert "none depends on what the device is given" in reason
    assert asked_for_source(READ_OTHERS, given="step 0 loss 0.5000\n")[0] == "PASS"  # it took another way


def test_numbers_that_change_from_line_to_line_are_no_constants() -> None:
    one, several = base("loss 0.5000\n"), base("loss 0.5000\nloss 0.4000\n")
    for made, constant in ((one, True), (several, False)):
        places = frozenset((at, 0) for at in range(len(made.reference.lines)))
        assert may_be_constant(Evidence(places), made.reference) is constant
        assert not may_be_constant(Evidence(places, checks=True), made.reference)
        assert not may_be_constant(None, made.reference)


def test_a_run_that_reads_less_is_asked_where_its_numbers_come_from() -> None:
    made = base(reads=4)
    assert not reads_less(outcome(way=MPS, reads=4), made)
    assert reads_less(outcome(way=MPS, reads=3), made)
    met = Swallowed("TypeError: no @", "TypeError: no mps", "train.py:1", "train.py:2", End.ANSWERED, 1)
    assert reads_less(outcome(way=MPS, reads=4, met=(met,)), made)


def test_two_devices_do_twice_the_work_of_one() -> None:
    made = baseline(worked(CUDA), worked(CUDA))
    assert said(outcome(way=MPS, elements=300, peak_bytes=[10]), made)[0] == "PASS"


# ---- the end


def test_a_failure_and_what_is_said_of_it() -> None:
    assert said(outcome(exit=1, exception=VALUE_ERROR)) == ("FAIL", "ValueError: no 3 on cuda:0")
    assert said(outcome(exit=-11)) == ("FAIL", "ended by SIGSEGV")
    assert said(outcome(exit=None)) == ("FAIL", "still running when its time was up")
    assert said(outcome(exit=3, tail=("one", "two", ""))) == ("FAIL", "two")
    assert said(outcome(exit=3)) == ("FAIL", "exit status 3")
    assert said(outcome(exit=1, others=[{"type": "KeyError", "message": "'x'"}])) == ("FAIL", "KeyError: 'x'")


def test_a_plain_exit_status_is_compared() -> None:
    """As of a test runner, some of whose tests fail in the original already."""
    failing = base("2 failed, 3 passed", exit=1)
    assert failing.why is None
    same = "2 numbers equal to original on cuda; exit status 1, as the original's"
    assert said(outcome("2 failed, 3 passed", exit=1), failing) == ("PASS", same)
    assert said(outcome("3 failed, 2 passed", exit=1), failing)[0] == "DIFFERS"
    assert said(outcome("5 passed", exit=0), failing) == ("DIFFERS", "ends with 0, the original with 1")
    leaves = {"type": "SystemExit", "message": "1"}
    assert said(outcome("2 failed, 3 passed", exit=1, exception=leaves), failing)[0] == "PASS"


def test_the_same_failure_is_none_of_the_migration() -> None:
    failing = base(exit=1, exception=VALUE_ERROR)
    on_mps = {**VALUE_ERROR, "message": "no 3 on mps:0"}
    assert said(outcome(way=MPS, exit=1, exception=on_mps), failing) == (
        "SKIPPED",
        "fails as the original does: ValueError: no 3 on mps:0",
    )
    other = {**VALUE_ERROR, "message": "cannot add"}
    assert said(outcome(way=MPS, exit=1, exception=other), failing)[0] == "FAIL"
    worker = "-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  ...\n{}\n"
    first, second = (
        {"type": "ProcessRaisedException", "message": worker.format(e)} for e in ("KeyError: 1", "OSError")
    )
    assert said(outcome(exit=1, exception=second), base(exit=1, exception=first)) == ("FAIL", "OSError")
    assert said(outcome(exit=1, exception=first), base(exit=1, exception=first))[0] == "SKIPPED"
    late = base(exit=None)
    assert said(outcome(exit=None), late)[0] == "SKIPPED"
    assert said(outcome(exit=-6), base(exit=-6))[0] == "SKIPPED"
    assert said(outcome(exit=-11), base(exit=-6))[0] == "FAIL"


def test_without_a_reference_a_run_is_judged_by_itself() -> None:
    failing = base(exit=1, exception=VALUE_ERROR)
    alone = ("UNCOMPARED", "ran to the end; not compared: there is no reference")
    assert said(outcome(way=MPS), failing) == alone
    assert said(outcome(way=MPS, kernels=0), failing)[0] == "FAIL"
    never = Baseline(why="no C++ compiler")
    assert said(outcome(way=MPS), never) == alone


# ---- the device, the memory


def test_a_run_without_kernels_fails() -> None:
    assert said(outcome(way=MPS, kernels=0)) == ("FAIL", "ran on the CPU: no kernel was launched on mps")
    assert said(outcome(way=CPU))[0] == "PASS"
    assert said(outcome(way=Way("xpu", "hardware")))[0] == "PASS"  # not counted there
    silent = Outcome(Run("rewritten", MPS), 0, False, 1.0, tuple(lines("loss 0.5")))
    assert said(silent)[1].endswith(
        "no process reported: torch was not imported, PYTHONPATH was replaced, or os._exit ended it"
    )


def test_a_program_without_a_device_shows_nothing() -> None:
    nothing = ("SKIPPED", "nothing to show: the original launches no kernel on cuda")
    assert said(outcome(way=MPS, kernels=0), base(kernels=0)) == nothing
    assert said(outcome(way=MPS, kernels=7), base(kernels=0)) == nothing
    assert said(outcome(way=CPU), base(kernels=0)) == nothing


def test_poison_fails_unless_it_is_the_originals() -> None:
    reason = (
        "reads memory that no kernel or copy has written yet (a missing synchronize, or torch.empty): stdout line 1"
    )
    assert said(outcome("loss 3.3962e+38", MPS)) == ("FAIL", reason)
    assert said(outcome("x 3.3962e+38 loss 0.5", MPS), base("x 3.3962e+38 loss 0.5"))[0] == "PASS"


# ---- the reference


def test_the_reference_says_what_it_is_worth() -> None:
    assert of_reference(base(), LIMITS).reason == "the reference: 1 number"
    tests = base("1 failed", exit=1, others=[{"type": "KeyError", "message": "1"}])
    assert of_reference(tests, LIMITS).reason == "the reference: 1 number; exit status 1 (KeyError: 1)"
    shaky = base("a 1 took 3 ms\nb 2\nc 3\n", "a 1 took 4 ms\nb 2\n")
    assert of_reference(shaky, LIMITS).reason == (
        "the reference: 2 numbers; 1 left out (times, or not the same twice); "
        "from line 3 on its output is not the same twice"
    )


@pytest.mark.parametrize("about", [{"exit": 1, "exception": VALUE_ERROR}, {"exit": None}, {"exit": -9}])
def test_an_original_that_fails_is_no_reference(about: dict[str, Any]) -> None:
    found = of_reference(base(**about), LIMITS)
    assert found.kind is Kind.SKIPPED
    assert found.reason.startswith("no reference: the original itself fails on cuda: ")


def test_an_original_that_cannot_start_is_no_pass() -> None:
    found = of_reference(base("", exit=2, kernels=0, tail=("python: can't open file 'x.py'",)), LIMITS)
    assert found.kind is Kind.SKIPPED
    assert found.reason == "the original ends with 2 before it uses cuda: python: can't open file 'x.py'"


def test_an_original_that_ends_differently_is_no_reference() -> None:
    first, second = outcome(project="original", exit=0), outcome(project="original", exit=1)
    assert baseline(first, second).why == "the original ends with 0, then with 1"


def test_numbers_are_those_that_count() -> None:
    against = base("loss 0.5 in 3 ms\n")
    found = outcome("loss 0.6 in 9 ms\n", MPS)
    assert numbers(of_rewritten(found, against, LIMITS), against, LIMITS) == (0.6,)
    alone = Baseline(why="x")
    assert numbers(of_rewritten(found, alone, LIMITS), alone, LIMITS) == (0.6, 9.0)
    assert numbers(Verdict(Run("rewritten", MPS), Kind.SKIPPED, ""), against, LIMITS) == ()


# ---- the exit status


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        ("PASS", 0),
        ("PASS SKIPPED", 0),
        ("PASS FAIL", 1),
        ("DIFFERS", 1),
        ("PASS REGRESSED", 1),
        ("PASS UNPORTED", 2),
        ("UNPORTED FAIL", 1),
        ("UNCOMPARED", 2),
        ("SKIPPED", 2),
        ("SKIPPED FAIL", 1),
    ],
)
def test_exit_status(kinds: str, status: int) -> None:
    verdicts = [Verdict(Run("rewritten", MPS), Kind(kind), "") for kind in kinds.split()]
    assert exit_status([Verdict(Run("original", CUDA), Kind.PASS, ""), *verdicts]) == status
    without_reference = status or 2
    assert exit_status([Verdict(Run("original", CUDA), Kind.SKIPPED, ""), *verdicts]) == without_reference


def test_numbers_that_are_not_compared_on_the_cpu_alone_are_known() -> None:
    passed = [Verdict(Run("original", CUDA), Kind.PASS, ""), Verdict(Run("rewritten", MPS), Kind.PASS, "")]
    assert exit_status([*passed, Verdict(Run("rewritten", CPU), Kind.UNCOMPARED, "")]) == 0
    assert exit_status([*passed, Verdict(Run("rewritten", Way("xpu", "simulated")), Kind.UNCOMPARED, "")]) == 2


def test_sums_and_peaks_over_processes() -> None:
    two = (
        {"kernels": 2, "random_kernels": 1, "peak_bytes": [5, 9]},
        {"kernels": None, "peak_bytes": []},
        {"kernels": 3},
    )
    found = Outcome(Run("rewritten", MPS), 0, False, 1.0, reports=two)
    assert (found.kernels, found.random_kernels, found.peak_bytes) == (5, 1, 9)
    none = Outcome(Run("rewritten", MPS), 0, False, 1.0)
    assert (none.kernels, none.random_kernels, none.peak_bytes) == (None, None, None)


# ---- how they are shown


def shown(*found: Outcome) -> Any:
    """A result, as far as its reports look at it."""
    known = base()
    verdicts = (of_reference(known, LIMITS), *(of_rewritten(each, known, LIMITS) for each in found))
    return SimpleNamespace(verdicts=verdicts, migration=SimpleNamespace(known={}), project=SimpleNamespace(anchor=HERE))


LONG = ("Traceback (most recent call last):", '  File "train.py", line 3', "ValueError: " + "no tensor here " * 8)


@pytest.mark.parametrize("columns", [60, 79, 119, None])
def test_a_terminal_s_columns_are_kept(columns: int | None) -> None:
    out = io.StringIO()
    failed = outcome(way=MPS, exit=1, exception=VALUE_ERROR, tail=LONG)
    text(shown(outcome(), failed, outcome(way=CPU)), HERE, out, False, columns)
    printed = out.getvalue().splitlines()
    assert columns is None or max(map(len, printed)) <= columns
    words = " ".join(out.getvalue().split())
    assert "1 number within 0.001 of original on cuda" in words and " ".join(LONG[2].split()) in words
    assert any(line.startswith("rewritten  mps      simulated  FAIL") for line in printed)


def test_junit_s_ends() -> None:
    runs = (outcome(), outcome("loss 0.9", MPS), outcome("", CPU), Outcome(Run("rewritten", MPS), 0, False, 1.0))
    suite = ElementTree.fromstring(junit(shown(*runs), HERE))[0]
    assert [case[0].tag for case in suite] == ["system-out", "system-out", "failure", "failure", "failure"]
    nothing = replace(base(), why="it fails")
    verdicts = [of_reference(nothing, LIMITS), of_rewritten(outcome(way=MPS), nothing, LIMITS)]
    verdicts += [of_rewritten(outcome(way=CPU), nothing, LIMITS), Verdict(Run("rewritten", MPS), Kind.SKIPPED, "none")]
    result = shown()
    result.verdicts = verdicts
    suite = ElementTree.fromstring(junit(result, HERE))[0]
    assert [case[0].tag for case in suite] == ["error", "error", "skipped", "skipped"]
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("4", "2", "0")


# ---- what else tells of a broken port


def test_a_thread_that_dies_here_alone() -> None:
    dies = {"others": [{**VALUE_ERROR, "where": "in thread Thread-1"}]}
    fails = "ends as the original does, but a thread or process of it dies: ValueError: no 3 on cuda:0"
    assert said(outcome(**dies)) == ("FAIL", fails)
    assert said(outcome(exception=VALUE_ERROR)) == ("FAIL", fails)
    # in the original as well, in the main thread where it is caught, an echo of another's end, or beside tests
    assert said(outcome(**dies), base(**dies))[0] == "PASS"
    assert said(outcome(others=[{**VALUE_ERROR, "where": "in DataLoader worker process 0"}]))[0] == "PASS"
    echo = {"type": "ConnectionResetError", "message": "reset", "frames": [], "where": "in thread Thread-1"}
    assert said(outcome(others=[echo]))[0] == "PASS"
    assert said(outcome(**dies, tests={"a": "passed"}), base(tests={"a": "passed"}))[0] == "PASS"


def test_children_that_the_program_ends_itself() -> None:
    killed = {"stopped": {"python work.py": -9}}
    assert said(outcome(**killed)) == (
        "PASS",
        "1 number equal to original on cuda; it ends `python work.py` by SIGKILL, which the original does not",
    )
    assert "ends" not in said(outcome(**killed), base(**killed))[1]
    assert said(outcome(ended={"python work.py": -9}))[0] == "FAIL"


def test_words_that_follow_from_what_the_device_computes() -> None:
    def printed(text: str, way: Way = MPS, project: str = "rewritten", **about: Any) -> Outcome:
        return replace(outcome(text, way, project, **about), words=worded(text))

    text = "on cuda:0\nloss 0.5000\npredicted cat 3 times\n"
    first = printed(text, CUDA, "original")

    def known(altered: Outcome, first: Outcome = first) -> Baseline:
        made = baseline(first, first)
        return replace(made, evidence=evidence(made.reference, first, altered))

    moved = known(printed(text.replace("cat", "dog").replace("0.5", "0.7"), CUDA, "original"))
    lost = "stdout: the original's `predicted cat # times` is not there"
    assert said(printed(text.replace("cat", "dog")), moved) == ("DIFFERS", lost)
    assert said(printed(text.replace("cat", "dog")), moved, Limits(steps=1))[0] == "PASS"
    same = said(printed(text.replace("cuda:0", "the GPU of this Mac")), moved)
    assert same[0] == "PASS"
    # words that no number of the device changes, a run that took another way, and the CPU's random numbers
    stays = known(printed(text.replace("0.5", "0.7"), CUDA, "original"))
    assert said(printed(text.replace("cat", "dog")), stays)[0] == "PASS"
    dies = known(printed("", CUDA, "original", exit=1, exception=VALUE_ERROR))
    assert "is not there" not in said(printed(text.replace("cat", "dog")), dies)[1]
    drew = printed(text, CUDA, "original", random=2)
    moved = known(printed(text.replace("cat", "dog").replace("0.5", "0.7"), CUDA, "original"), drew)
    assert said(printed(text.replace("cat", "dog"), CPU), moved)[0] == "PASS"
    # what the original prints on the same backend is what counts there
    other = printed(text.replace("cat", "owl").replace("0.5", "0.8"), MPS, "original")
    assert said(printed(text.replace("cat", "owl").replace("0.5", "0.8")), beside(other, moved))[0] == "PASS"
    there = printed(text, MPS, "original")
    assert said(printed(text.replace("cat", "dog")), beside(there, moved)) == ("REGRESSED", f"{lost}, on mps")


LOG = "step 1 loss 0.5000\nstep 2 loss 0.4000\n"


def test_stderr_is_compared_where_it_depends_on_the_device() -> None:
    known = base(stderr=LOG)
    assert known.first and known.second
    altered = outcome(stderr=LOG.replace("0.5", "0.7"), project="original")
    known = replace(known, evidence=evidence(known.reference, known.first, altered))
    agreed = "1 number within 0.001 of original on cuda; none from the device; 2 numbers on stderr as there"
    assert said(outcome(way=MPS, stderr=LOG), known) == ("PASS", agreed)
    differs = "stderr line 2: 0.9000 where the original printed 0.4000 (`step 2 loss 0.9000`)"
    wrong = LOG.replace("0.4", "0.9")
    assert said(outcome(way=MPS, stderr=wrong), known) == ("DIFFERS", differs)
    assert said(outcome(way=MPS, stderr=wrong), known, Limits(steps=1))[0] == "PASS"
    # other lines between them, counters, and bars that are drawn as often as there is time
    assert said(outcome(way=MPS, stderr=f"a warning of 3 things\n{LOG}"), known)[0] == "PASS"
    assert said(outcome(way=MPS, stderr=LOG.replace("step 2", "step 9")), known)[0] == "PASS"
    assert said(outcome(way=MPS, stderr=wrong + wrong), known)[0] == "UNCOMPARED"


def test_stderr_that_is_not_the_same_twice_is_not_compared() -> None:
    known = replace(base(), second=outcome(stderr=LOG.replace("0.4", "0.3"), project="original"))
    known = replace(known, first=outcome(stderr=LOG, project="original"))
    assert known.first
    altered = outcome("loss 0.7", stderr=LOG.replace("0.5", "0.7"), project="original")
    known = replace(known, evidence=evidence(known.reference, known.first, altered))
    assert said(outcome(way=MPS, stderr=LOG.replace("0.4", "0.9")), known)[0] == "PASS"


def test_more_last_digits_than_rounding_changes() -> None:
    def losses(*values: str) -> str:
        return "".join(f"loss {value}\n" for value in values)

    known = base(losses("0.61", "0.52", "0.43", "0.34", "0.25"))
    many = "4 of 5 are one apart in the last digit, more than rounding explains"
    assert many in said(outcome(losses("0.61", "0.53", "0.44", "0.35", "0.26"), MPS), known)[1]
    assert said(outcome(losses("0.61", "0.53", "0.43", "0.35", "0.25"), MPS), known)[0] == "PASS"
    same = base(losses(*["0.5"] * 30))  # one number, thirty times: too few to be too many, and no evidence
    assert said(outcome(losses(*["0.6"] * 30), MPS), same)[0] == "UNCOMPARED"
    assert said(outcome(losses(*["0.5"] * 29, "0.6"), MPS), same)[0] == "PASS"
    # so many numbers that some are near the middle
    text = [f"{100 + at / 10:.1f}" for at in range(40)]
    other = [f"{100 + (at + at % 2) / 10:.1f}" for at in range(40)]
    assert said(outcome(losses(*other), MPS), base(losses(*text)))[0] == "PASS"


def test_processes_that_share_a_device() -> None:
    def ranks(way: Way, project: str, *peaks: tuple[int, ...]) -> Outcome:
        made = [outcome(way=way, project=project, peak=peak, elements=9) for peak in peaks]
        return replace(made[0], reports=tuple(each.reports[0] for each in made))

    two = ranks(CUDA, "original", (9, 0), (1, 9))
    known = baseline(two, two)
    shared = "its processes share 1 device of xpu, those of the original have 2"
    xpu = Way("xpu", "simulated")
    assert said(ranks(xpu, "rewritten", (9, 0), (9, 0)), known) == ("FAIL", shared)
    assert said(ranks(xpu, "rewritten", (9, 0), (0, 9)), known)[0] == "PASS"
    assert said(ranks(MPS, "rewritten", (9,), (9,)), known)[0] == "PASS"  # which has one
    one = ranks(CUDA, "original", (9, 8))  # data parallel, which others than CUDA do not have
    assert said(ranks(xpu, "rewritten", (9, 0)), baseline(one, one))[0] == "PASS"


def test_a_run_on_the_cpu_where_the_original_is_there_too() -> None:
    found, own = outcome(way=MPS, kernels=0), outcome(way=MPS, kernels=0, project="original")
    alone = "ran on the CPU: no kernel was launched on mps"
    assert said(found) == ("FAIL", alone)
    there = replace(base(), elsewhere={"mps": own})
    assert said(found, there) == ("UNPORTED", f"{alone}; so does the original there")
    assert of_rewritten(found, there, LIMITS).on_cpu  # the guards that sent it there are named
    # in part, on the CPU with other numbers, without a file, or without a test of the original's there
    known = baseline(worked(CUDA, products=400), worked(CUDA, products=400))
    part = said(worked(MPS, products=40), replace(known, elsewhere={"mps": own}))
    assert (part[0], part[1].rpartition("; ")[2]) == ("FAIL", "so does the original there")
    assert said(outcome("loss 0.9", MPS, kernels=0), there)[0] == "REGRESSED"
    wrote = replace(own, made=frozenset({"a.pt"}))
    lost = "a.pt: written by the original on mps, not here"
    assert said(found, replace(base(), elsewhere={"mps": wrote})) == ("REGRESSED", lost)
    tested = outcome(way=MPS, kernels=0, project="original", tests={"a": "passed"})
    assert said(found, replace(base(), elsewhere={"mps": tested}))[0] == "REGRESSED"


def died(project: str = "rewritten", line: int | None = 7, error: str = "ValueError: no 3 on cuda:0") -> Outcome:
    found = outcome(way=MPS, project=project, exit=1, tail=(error,))
    return replace(found, diagnosis=Diagnosis("train.py", line, (), "")) if line else found


def test_a_run_that_fails_where_the_original_does_too() -> None:
    """It is no regression, and says so; what runs is judged as if the original had not been there."""
    there = replace(base(), elsewhere={"mps": died("original")})
    as_before = ("UNPORTED", "fails as the original does there: ValueError: no 4 on mps:0")
    assert said(died(error="ValueError: no 4 on mps:0"), there) == as_before
    assert "original" not in said(died())[1]
    assert said(died(line=None), replace(base(), elsewhere={"mps": died("original", None)}))[0] == "UNPORTED"
    # at another place, of something else, or with another status
    kind, reason = said(died(line=9), there)
    assert (kind, reason.partition("; ")[2]) == ("FAIL", "the original fails there, too")
    reason = said(died(), replace(base(), elsewhere={"mps": died("original", error="KeyError: 3")}))
    assert reason[0] == "FAIL" and reason[1].endswith("; the original fails there, too, of something else: KeyError: 3")
    assert said(replace(died(), exit=2), there)[0] == "FAIL"
    passed = said(outcome(way=MPS), there)
    assert passed == ("PASS", "1 number within 0.001 of original on cuda")


def test_a_run_that_is_ended_as_the_original_is() -> None:
    def ended(exit: int | None, project: str = "rewritten") -> Outcome:
        return outcome(way=MPS, project=project, exit=exit)

    for exit, other in ((-6, -11), (None, -6)):
        there = replace(base(), elsewhere={"mps": ended(exit, "original")})
        assert said(ended(exit), there)[0] == "UNPORTED"
        assert said(ended(other), there)[0] == "FAIL"


def test_tests_that_fail_where_the_original_s_do_too() -> None:
    def tested(project: str, **ends: str) -> Outcome:
        return outcome("", MPS, project, exit=1, tail=("2 failed",), tests=ends)

    known = base("", tests={"a": "passed", "b": "passed"})
    there = replace(known, elsewhere={"mps": tested("original", a="failed", b="passed")})
    assert said(tested("rewritten", a="failed", b="passed"), there)[0] == "UNPORTED"
    assert said(tested("rewritten", a="passed", b="failed"), there)[0] == "FAIL"


def test_what_the_original_prints_otherwise_each_time_is_no_regression() -> None:
    output = "loss 0.5000\nmemory: {'mps': '%d'}\n"
    first, again = (outcome(output % free, MPS, "original") for free in (21_785_079_808, 21_665_505_280))
    found = outcome(output % 21_419_638_784, MPS)
    against = replace(base(output % 8_589_934_584), elsewhere={"mps": first})
    regressed = of_rewritten(found, against, LIMITS)
    assert (regressed.kind, asks_for_repeat(regressed)) == (Kind.REGRESSED, True)
    assert said(found, replace(against, again={"mps": again})) == (
        "PASS",
        "1 number within 0.001 of original on mps",
    )
    worse = outcome(output.replace("5000", "9000") % 21_419_638_784, MPS)
    assert said(worse, replace(against, again={"mps": again}))[0] == "REGRESSED"
    assert not asks_for_repeat(
        of_rewritten(outcome(way=MPS, kernels=0), replace(base(), elsewhere={"mps": first}), LIMITS)
    )


# ---- what the device refuses and the program gets over


def met(end: End, form: str = "TypeError: no float__", by: str = "train.py:14", count: int = 1) -> Swallowed:
    return Swallowed(form, form.replace("__", "64"), "train.py:12", by, end, count)


def test_what_the_device_refuses_and_the_program_drops() -> None:
    silent, added = met(End.SILENT), met(End.ADDED, "no such device", "train.py:3", 4)
    assert said(outcome(way=MPS, met=(silent,))) == (
        "FAIL",
        "mps refuses what runs on cuda, at train.py:12: TypeError: no float64; the program goes on, as a handler "
        "drops it (train.py:14)",
    )
    kind, reason = said(outcome(way=MPS, met=(added, silent, met(End.LOST))))
    assert kind == "FAIL" and "train.py:12, 4 times: no such device" in reason
    assert reason.endswith("that the original does not have (train.py:3); and 2 other calls so")
    assert said(outcome(way=CPU, met=(silent,)))[1].startswith("cpu cannot do what runs on cuda, at train.py:12")


def test_what_the_program_answers_is_counted() -> None:
    kind, reason = said(outcome(way=MPS, met=(met(End.ANSWERED, count=2), met(End.ANSWERED, by="train.py:20"))))
    assert kind == "PASS" and "3 calls refused that the program's own handlers answer" in reason


def test_a_constant_in_place_of_what_the_device_computes() -> None:
    constant = met(End.CONSTANT, count=3)
    assert said(outcome(way=MPS, met=(constant,))) == (
        "UNCOMPARED",
        "mps refuses what runs on cuda, at train.py:12, 3 times: TypeError: no float64; the program goes on, as a "
        "handler puts a constant in its place (train.py:14)",
    )
    # the original's own, there or on cuda; and other numbers are other numbers
    assert said(outcome(way=MPS, met=(constant,)), base(met=(constant,)))[0] == "PASS"
    there = outcome(way=MPS, project="original", met=(constant,))
    assert said(outcome(way=MPS, met=(constant,)), replace(base(), elsewhere={"mps": there}))[0] == "PASS"
    assert said(outcome("loss 0.9", MPS, met=(constant,)))[0] == "DIFFERS"
    # nor does it agree with the original's there, where that does not need it
    drew = replace(base(random=2), elsewhere={"mps": outcome("loss 0.9", MPS, "original")})
    assert said(outcome("loss 0.9", MPS, met=(constant,)), drew)[0] == "DIFFERS"


def test_what_the_original_drops_as_well_is_its_own() -> None:
    silent = met(End.SILENT)
    assert said(outcome(way=MPS, met=(silent,)), base(met=(silent,)))[0] == "PASS"
    there = outcome(way=MPS, project="original", met=(silent,))
    assert said(outcome(way=MPS, met=(silent,)), replace(base(), elsewhere={"mps": there}))[0] == "PASS"
    idle = outcome(way=MPS, project="original", kernels=0, met=(silent,))  # it did nothing on the device
    assert said(outcome(way=MPS, met=(silent,)), replace(base(), elsewhere={"mps": idle}))[0] == "FAIL"
    plain = outcome(way=MPS, project="original")
    assert said(outcome(way=MPS, met=(silent,)), replace(base(), elsewhere={"mps": plain}))[0] == "REGRESSED"


def test_a_test_that_fails_has_not_lost_its_exception() -> None:
    tests = {"test_a": "passed"}
    against = base(tests=tests)
    assert said(outcome(way=MPS, tests=tests, met=(met(End.LOST, by=""),)), against)[0] == "PASS"
    assert said(outcome(way=MPS, tests=tests, met=(met(End.SILENT),)), against)[0] == "FAIL"
