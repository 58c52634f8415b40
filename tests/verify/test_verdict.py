"""From what runs did to what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from torchmigrate.verify.backends import Way
from torchmigrate.verify.compare import lines
from torchmigrate.verify.run import Outcome, Run
from torchmigrate.verify.verdict import (
    Baseline,
    Kind,
    Limits,
    Verdict,
    baseline,
    exit_status,
    numbers,
    of_reference,
    of_rewritten,
)

CUDA, MPS, CPU = Way("cuda", "simulated"), Way("mps", "simulated"), Way("cpu", "cpu")
LIMITS = Limits()
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
    **rest: Any,
) -> Outcome:
    counted = None if way.evidence != "simulated" else kernels
    report = {"kernels": counted, "random_kernels": random, "peak_bytes": [10, 30], "exception": exception, **rest}
    found = tuple(lines(output))
    return Outcome(Run(project, way), exit, exit is None, 1.0, found, tail, (report,))  # type: ignore[arg-type]


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
    assert said(outcome("done"), base("done")) == ("PASS", "ends as the original does; no numbers to compare")


def test_on_the_cpu_random_numbers_are_others() -> None:
    kind, reason = said(outcome("loss 0.9", CPU), base(random=2))
    assert kind == "PASS"
    assert reason == (
        "ran to the end; numbers not compared: the original draws random numbers on its device (2 kernels), "
        "the CPU has others"
    )
    assert said(outcome("loss 0.5", CPU), base(random=2)) == ("PASS", "1 number within 0.001 of original on cuda")
    assert said(outcome("loss 0.9", CPU))[0] == "DIFFERS"
    assert said(outcome("loss 0.9", MPS), base(random=2))[0] == "DIFFERS"


def test_against_real_hardware_random_numbers_may_be_the_reason() -> None:
    real = base(way=Way("cuda", "hardware"), random=0)
    (first, second) = (real.first, real.second)
    assert first and second
    first.reports[0]["random_kernels"] = None
    assert said(outcome("loss 0.9", MPS), real)[1].endswith(
        "random numbers drawn on the device, if any, differ between the two"
    )
    assert said(outcome("loss 0.5", Way("cuda", "hardware")), real) == ("PASS", "1 number equal to original on cuda")


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
    alone = ("PASS", "ran to the end; not compared: there is no reference")
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
    assert said(silent)[1].endswith("no process reported: torch was not imported, or os._exit ended it")


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
    [("PASS", 0), ("PASS SKIPPED", 0), ("PASS FAIL", 1), ("DIFFERS", 1), ("SKIPPED", 2), ("SKIPPED FAIL", 1)],
)
def test_exit_status(kinds: str, status: int) -> None:
    verdicts = [Verdict(Run("rewritten", MPS), Kind(kind), "") for kind in kinds.split()]
    assert exit_status([Verdict(Run("original", CUDA), Kind.PASS, ""), *verdicts]) == status
    assert exit_status([Verdict(Run("original", CUDA), Kind.SKIPPED, ""), *verdicts]) == status


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
