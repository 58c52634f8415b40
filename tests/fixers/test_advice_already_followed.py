"""Findings whose advice is followed already are left alone, with the reason; the contrary of the test keeps them."""

from __future__ import annotations

import pytest

from torchmigrate.diagnostics.finding import Finding, Status
from torchmigrate.engine.case_runner import migrate
from torchmigrate.rewriting.visitor import DispatchTable

HEAD = "import torch\nimport accel\n"
GRAPH = "g = torch.cuda.CUDAGraph()"  # hazard/cuda-only
DOUBLE = "y = x.double()"  # hazard/double, for MPS alone

NVIDIA = {
    "a test": f"if accel.is_nvidia():\n    {GRAPH}\n",
    "its other branch": f"if not accel.is_nvidia():\n    f()\nelse:\n    {GRAPH}\n",
    "after a refusal": f"def f():\n    if not accel.is_nvidia():\n        return\n    {GRAPH}\n",
    "one of two conditions": f"if h and accel.is_nvidia() and not torch.version.hip:\n    {GRAPH}\n",
    "the toolkit": f"if torch.version.cuda is not None:\n    {GRAPH}\n",
    "a choice": "g = torch.cuda.CUDAGraph() if torch.version.cuda else None\n",
    "the other arm": "g = None if not accel.is_nvidia() else torch.cuda.CUDAGraph()\n",
    "a loop": f"while accel.is_nvidia():\n    {GRAPH}\n",
}
OPEN = {
    "no test": f"{GRAPH}\n",
    "the contrary": f"if not accel.is_nvidia():\n    {GRAPH}\n",
    "the other branch": f"if accel.is_nvidia():\n    f()\nelse:\n    {GRAPH}\n",
    "one of two is enough": f"if h or accel.is_nvidia():\n    {GRAPH}\n",
    "compared": f"if torch.version.cuda == wanted:\n    {GRAPH}\n",
    "no toolkit": f"if torch.version.cuda is None:\n    {GRAPH}\n",
    "beside it": f"if accel.is_nvidia():\n    f()\n{GRAPH}\n",
    "a test for MPS says nothing of CUDA": f'if x.device.type != "mps":\n    {GRAPH}\n',
}
MPS = {
    "unless": f'if x.device.type != "mps":\n    {DOUBLE}\n',
    "otherwise": f"if torch.backends.mps.is_available():\n    f()\nelse:\n    {DOUBLE}\n",
    "after it left": f"def f(x):\n    if is_mps:\n        return x\n    {DOUBLE}\n",
    "a choice": 'y = x if x.device.type == "mps" else x.double()\n',
}


def found(body: str, rules: DispatchTable, rule: str) -> list[Finding]:
    return [f for f in migrate((HEAD + body).encode(), rules)[1] if f.rule == rule]


@pytest.mark.parametrize("body", NVIDIA.values(), ids=list(NVIDIA))
def test_behind_a_test_for_nvidia(body: str, rules: DispatchTable) -> None:
    (finding,) = found(body, rules, "hazard/cuda-only")
    assert finding.status is Status.LEFT
    assert finding.message.endswith("(left alone: behind a test for NVIDIA's devices)")


@pytest.mark.parametrize("test", ["torch.version.hip", "torch.version.hip is not None", "torch.version.hip and h"])
def test_behind_a_test_for_rocm(test: str, rules: DispatchTable) -> None:
    (finding,) = found(f"if {test}:\n    {GRAPH}\n", rules, "hazard/cuda-only")
    assert finding.message.endswith("(left alone: behind a test for ROCm)")
    (other,) = found(f"if {test}:\n    f()\nelse:\n    {GRAPH}\n", rules, "hazard/cuda-only")
    assert other.status is Status.OPEN


@pytest.mark.parametrize("body", OPEN.values(), ids=list(OPEN))
def test_not_behind_one(body: str, rules: DispatchTable) -> None:
    (finding,) = found(body, rules, "hazard/cuda-only")
    assert finding.status is Status.OPEN


@pytest.mark.parametrize("body", MPS.values(), ids=list(MPS))
def test_beside_a_test_for_mps(body: str, rules: DispatchTable) -> None:
    (finding,) = found(body, rules, "hazard/double")
    assert finding.status is Status.LEFT
    assert finding.message.endswith("(left alone: beside a test for MPS)")


def test_a_guard_that_guards_nothing_else_stays(rules: DispatchTable) -> None:
    body = f"if torch.cuda.is_available():\n    if accel.is_nvidia():\n        {GRAPH}\n"
    after, _ = migrate((HEAD + body).encode(), rules)
    assert body in after.decode()


@pytest.mark.parametrize(
    ("test", "body"),
    [
        ("accel.is_nvidia()", GRAPH),
        ("accel.is_nvidia() and torch.cuda.get_device_capability()[0] < 7", "print('slow')"),
    ],
)
def test_a_guard_around_it_is_rewritten_with_what_else_it_guards(test: str, body: str, rules: DispatchTable) -> None:
    body = f"use_cuda = torch.cuda.is_available()\nif use_cuda and {test}:\n    {body}\nif use_cuda:\n    x.cuda()\n"
    after, _ = migrate((HEAD + body).encode(), rules)
    wanted = body.replace("torch.cuda.is_available()", "accel.is_available()")
    assert after.decode() == HEAD + wanted.replace("x.cuda()", "x.to(accel.device())")
    kept, _ = migrate((HEAD + body.replace("accel.is_nvidia()", "flag")).encode(), rules)
    assert "use_cuda = torch.cuda.is_available()" in kept.decode()
