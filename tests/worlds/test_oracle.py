"""Random programs keep their decisions on devices in six worlds; the judge itself catches planted faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import ROOT
from six_worlds import constructs, cross_check, oracle
from six_worlds.fake_torch import no_torch
from six_worlds.judge import faults
from six_worlds.migrating import migrated, rules_read_once
from six_worlds.running import Project, run
from six_worlds.shrinking import shrunk

from torchmigrate.rewriting import guard_policy
from torchmigrate.semantic import guard_regions
from torchmigrate.worlds.check import Check, Held

assert constructs


@pytest.fixture(scope="module", autouse=True)
def _without_torch() -> Iterator[None]:
    with no_torch(), rules_read_once():
        yield


def broken(seed: int, first: int, end: int, plain: bool = False) -> list[str]:
    """Of the programs of a seed, some by their numbers: those that break a rule."""
    found = [r for r in oracle.judge_batch(oracle.numbered(seed, end)[first:], plain) if r["faults"]]
    return [f"seed {r['seed']}: {r['faults'][0][0]} in {r['faults'][0][1]}" for r in found]


@pytest.mark.parametrize(
    ("seed", "first", "end"),
    [(14, 0, 12), pytest.param(14, 12, 40, marks=pytest.mark.slow), pytest.param(11, 0, 210, marks=pytest.mark.slow)],
)
def test_random_programs_keep_their_decisions(seed: int, first: int, end: int) -> None:
    assert broken(seed, first, end) == []


@pytest.mark.parametrize(
    ("seed", "first", "end"),
    [(15, 0, 8), pytest.param(15, 8, 20, marks=pytest.mark.slow), pytest.param(12, 0, 100, marks=pytest.mark.slow)],
)
def test_plain_programs_keep_their_decisions_and_reach_mps(seed: int, first: int, end: int) -> None:
    assert broken(seed, first, end, plain=True) == []


@pytest.mark.parametrize(
    ("seed", "plain"),
    [
        (61006183969, False),  # a line that was broken, beside a ladder of the project's own
        (72020216798, False),  # the CPU with a number, and without
        (72000216894, False),  # a refusal, without the choice behind it
        (71015213576, True),  # a device in a list, in a pair, in a tuple
        (72017216768, True),
        (75005225543, True),
        (71029213473, True),  # arguments that are forwarded in order
    ],
)
def test_a_program_that_broke_once(seed: int, plain: bool) -> None:
    assert oracle.judge_seed(seed, plain)["faults"] == []


@pytest.mark.slow
@pytest.mark.parametrize("world", ["cpu", "xpu"])
def test_the_fake_torch_answers_as_the_real_one(world: str) -> None:
    assert list(cross_check.differences(40, 13, world)) == []


# ---- the judge

TWIN = 'import torch\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nprint("s1", device)\n'


def rules(before: str, after: str) -> set[str]:
    helper = (ROOT / "torchmigrate" / "runtime.py").read_text(encoding="utf-8")
    old = Project({"main.py": before})
    return {f"{f.rule} {f.world}" for f in faults(old, Project({"main.py": after, "accel.py": helper}))}


def test_a_plain_choice_is_migrated_and_reaches_mps() -> None:
    project = Project({"main.py": TWIN})
    after = migrated(project)
    assert list(faults(project, after, plain=True)) == []
    assert [run(after, world).text for world in ("cuda", "nogpu", "cpu", "mps", "xpu", "npu")] == [
        *("s1 cuda", "s1 cpu", "s1 cpu", "s1 mps", "s1 xpu", "s1 npu")
    ]


def test_a_choice_that_is_left_does_not_reach_mps() -> None:
    project = Project({"main.py": TWIN})
    assert [(f.rule, f.world) for f in faults(project, project, plain=True)] == [("plain", "mps")]


def test_half_of_a_choice_breaks_w3() -> None:
    half = TWIN.replace("import torch", "import accel\nimport torch", 1).replace("torch.cuda.is", "accel.is")
    assert rules(TWIN, half) == {"W3 mps", "W3 xpu", "W3 npu"}


def test_another_answer_on_cuda_breaks_w1() -> None:
    assert "W1 cuda" in rules(TWIN, TWIN.replace('"cuda" if', '"cuda:0" if'))


def test_another_choice_without_an_accelerator_breaks_w2() -> None:
    assert rules(TWIN, TWIN.replace("torch.cuda.is_available()", "torch.backends.cuda.is_built()")) == {"W2 nogpu"}


def test_a_backend_that_the_original_chose_stays() -> None:
    own = TWIN.replace('else "cpu"', 'else "mps" if torch.mps.is_available() else "cpu"')
    assert rules(own, own.replace('"mps" if torch.mps.is_available() else', "")) == {"W3 mps"}


REFUSES = 'import torch\nassert torch.cuda.is_available(), "{}"\nprint("s1", torch.zeros(2, device="cuda").device)\n'


@pytest.mark.parametrize(
    ("message", "broken"),
    [
        ("CPU training is not allowed", {"W2 cpu", "W2 nogpu"}),
        ("needs CUDA", set()),
        ("needs a GPU", {"W2 cpu", "W2 nogpu"}),
    ],
)
def test_a_refusal_that_speaks_of_the_cpu_stays(message: str, broken: set[str]) -> None:
    before = REFUSES.format(message)
    after = 'import accel\nimport torch\nprint("s1", torch.zeros(2, device=accel.device()).device)\n'
    assert rules(before, after) == broken


def test_a_cuda_literal_behind_a_portable_guard_breaks_w4() -> None:
    before = REFUSES.format("needs CUDA")
    after = before.replace("torch.cuda.is_available()", "True")
    assert rules(before, after) == {f"W4 {world}" for world in ("nogpu", "cpu", "mps", "xpu", "npu")}


def test_a_cuda_literal_that_a_portable_choice_lets_through_breaks_w4() -> None:
    before = TWIN + 'print("s2", torch.zeros(2, device=device).device)\nprint("s3", torch.zeros(2).cuda().device)\n'
    after = before.replace("torch.cuda.is_available()", "torch.accelerator.is_available()")
    assert rules(before, after) == {f"W4 {world}" for world in ("mps", "xpu", "npu")}


MIXES = """import torch
left = torch.ones(2, device="xpu" if torch.xpu.is_available() else "cpu")
right = torch.ones(2)
if torch.cuda.is_available():
    left, right = left.cuda(), right.cuda()
print("s1", (left + right).device)
"""


def test_what_comes_after_two_devices_met_is_judged_by_what_guards_it() -> None:
    portable = ('device="xpu" if torch.xpu.is_available() else "cpu"', "device=accel.device()")
    chosen = MIXES + 'print("s2", torch.ones(2, device=os.getenv("RUN_ON") or "cpu").device)\n'
    before = Project({"main.py": "import os\n" + chosen}, env={"RUN_ON": "cuda"})
    moved = before.files["main.py"].replace("right = torch.ones(2)", "right = torch.ones(2, device=left.device)")
    after = Project({"main.py": moved}, env=before.env)
    assert {f"{f.rule} {f.world}" for f in faults(before, after)} == set()
    guarded = MIXES + 'if torch.cuda.is_available():\n    print("s2", torch.ones(2).cuda().device)\n'
    let_through = guarded.replace(*portable).replace(
        "right = torch.ones(2)", "right = torch.ones(2, device=left.device)"
    )
    let_through = "import accel\n" + let_through.replace("torch.cuda.is_available()", "accel.is_available()")
    assert "W4 xpu" in rules(guarded, let_through)


@pytest.mark.parametrize(("named", "broken"), [("os.getenv('RUN_ON') or 'cpu'", set()), ("'cuda'", {"W4 mps"})])
def test_what_a_user_names_is_no_literal_that_a_guard_lets_through(named: str, broken: set[str]) -> None:
    chosen = f"import os\nimport torch\nif not torch.cuda.is_available():\n    raise ValueError('no')\nx = {named}\n"
    before = Project({"main.py": chosen + 'print("s1", torch.ones(2, device=x).device)\n'}, env={"RUN_ON": "cuda"})
    after = before.files["main.py"].replace("torch.cuda.is_available()", "torch.accelerator.is_available()")
    found = {f"{f.rule} {f.world}" for f in faults(before, Project({"main.py": after}, env=before.env))}
    assert found & {"W4 mps"} == broken


def test_a_second_place_that_needs_cuda_breaks_nothing() -> None:
    """The migrated program gets further than the original, up to what stays."""
    before = 'import torch\nprint("s1", torch.zeros(2).cuda().device)\nprint("s2", torch.ones(2).cuda().device)\n'
    after = before.replace("import torch", "import accel\nimport torch", 1).replace(
        "2).cuda()", "2).to(accel.device())", 1
    )
    assert rules(before, after) == set()


def test_dying_where_the_original_died_breaks_nothing() -> None:
    before = 'import torch\nprint("s1", torch.zeros(2).cuda().device)\n'
    assert rules(before, before.replace("print", "None\nprint")) == set()


def test_tensors_in_two_places_break_w3() -> None:
    before = "import torch\nuse = torch.cuda.is_available()\nx, y = torch.zeros(2), torch.zeros(2)\n"
    before += 'if use:\n    x = x.cuda()\nif use:\n    y = y.cuda()\nprint("s1", (x + y).device.type)\n'
    after = before.replace("import torch", "import accel\nimport torch", 1).replace("x.cuda()", "x.to(accel.device())")
    after = after.replace("use = torch.cuda.is_available()", "use = accel.is_available()").replace("y.cuda()", "y")
    assert rules(before, after) == {"W1 cuda", "W3 mps", "W3 xpu", "W3 npu"}


def test_a_program_is_made_smaller() -> None:
    text = TWIN + 'x = 1\nif x:\n    print("s2", x)\n    y = 2\n'
    small = shrunk(Project({"main.py": text}), lambda p: "s2" in run(p, "cpu").text)
    assert small.files == {"main.py": "x = 1\nif x:\n    print('s2', x)\n"}


def test_worlds_answer_as_their_machines_do() -> None:
    asks = (
        "import torch\nprint(torch.cuda.is_available(), torch.version.cuda is None, torch.accelerator.device_count())\n"
    )
    said = [run(Project({"main.py": asks}), world).text for world in ("cuda", "nogpu", "cpu", "mps", "xpu", "npu")]
    assert said == ["True False 2", "False False 0", "False True 0", *["False True 1"] * 3]


def test_the_input_of_a_user_reaches_the_program() -> None:
    project = Project(
        {"main.py": 'import os, sys\nprint(sys.argv[1], os.environ["ASKED"])\n'}, ("{own}",), {"ASKED": "1"}
    )
    assert run(project, "xpu").text == "xpu 1"
    assert run(replace(project, argv=("cpu",)), "xpu").text == "cpu 1"


# ---- faults planted in the logic that keeps decisions together

KERNEL = """import torch
x = torch.zeros(2)
if torch.cuda.is_available():
    x = x.cuda()
    print("s1", torch.cuda.get_device_capability(0)[0] >= 99)
print("s2", x.device)
"""
FLAG = """import torch
use_cuda = torch.cuda.is_available()
if use_cuda:
    print("s1", torch.cuda.get_device_capability(0)[0] >= 99)
print("s2", use_cuda)
"""
LADDER = """import torch
def is_cuda_available():
    return torch.cuda.is_available()
def backend():
    if is_cuda_available():
        return "cu" + "da"  # no string that a rule knows: it stays
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"
print("s1", torch.device(backend()))
"""


def _lets_guards_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards no longer stay with what they guard."""
    monkeypatch.setattr(guard_policy, "_bound_left", lambda module, findings, regions: findings)


def _forgets_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags that hold the answer of a guard no longer guard anything."""
    monkeypatch.setattr(guard_regions, "_cover_flag", lambda *args: None)
    monkeypatch.setattr(guard_policy, "_idle_left", lambda module, findings, regions: findings)


def _knows_no_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that answer for CUDA alone are rewritten like all others."""
    monkeypatch.setattr(guard_policy, "reasons", lambda module, findings: {})


PLANTED = [(_lets_guards_go, KERNEL), (_forgets_flags, FLAG), (_knows_no_predicates, LADDER)]


@pytest.mark.parametrize(("plant", "text"), PLANTED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_fault_planted_in_the_guard_policy_is_caught_by_the_check_and_by_the_judge(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], text: str
) -> None:
    project = Project({"main.py": text})
    assert list(faults(project, migrated(project))) == []
    plant(monkeypatch)
    assert list(faults(project, migrated(project))) == []  # the worlds check holds the half edits back
    held: list[Held] = []
    monkeypatch.setattr(Check, "held_back", _noting(held))
    after = migrated(project)
    assert held[0]
    assert after.files != project.files
    assert {f.rule for f in faults(project, after)} & {"W2", "W3", "W4"}


def _noting(held: list[Held]) -> Callable[..., Held]:
    """Return a check that notes what it would hold back, and holds nothing."""
    real = Check.held_back

    def held_back(self: Check, *args: Any) -> Held:
        held.append(real(self, *args))
        return {}

    return held_back
