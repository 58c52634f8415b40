"""What a simulated backend refuses, as the real one does and in its words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import torchmigrate

PACKAGE = Path(torchmigrate.__file__).parent


@pytest.mark.checks("refusals")
def test_refusals(passes: Callable[[], None]) -> None:
    passes()


FALLBACK = """
import json, warnings
import torch

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    x = torch.eye(3, device="mps")
    y = [torch.linalg.matrix_exp(x) for _ in range(3)]
print(json.dumps([y[0].device.type, round(y[0][0, 0].item(), 4), [str(w.message) for w in told]]))
"""


def test_missing_operators_run_on_the_cpu_where_that_is_wished(simulate: Callable) -> None:
    device, value, told = simulate("mps", FALLBACK, PYTORCH_ENABLE_MPS_FALLBACK="1", PYTHONWARNINGS="").result
    assert (device, value) == ("mps", 2.7183)
    assert len(told) == 1
    words = "is not currently supported on the MPS backend and will fall back to run on the CPU."
    assert told[0].startswith(f"The operator 'aten::linalg_matrix_exp' {words} This may have performance implications.")


def test_missing_operators_are_refused_where_it_is_switched_off(simulate: Callable) -> None:
    ran = simulate("mps", FALLBACK, PYTORCH_ENABLE_MPS_FALLBACK="0")
    assert ran.status == 1
    assert "NotImplementedError: The operator 'aten::linalg_matrix_exp' is not currently implemented" in ran.err


ARC = """
import torch

wide = torch.ones(3, dtype=torch.float64).to("xpu")
assert wide.cpu().tolist() == [1.0] * 3 and wide.dtype == torch.float64
assert torch.ones(3, device="xpu").sum().item() == 3
said = []
for make in (lambda: wide + 1, lambda: wide.float(), lambda: torch.ones(2, device="xpu").sum(dtype=torch.float64),
             lambda: torch.zeros(2, dtype=torch.float64, device="xpu")):
    try:
        make()
    except RuntimeError as error:
        said.append(str(error).splitlines()[0])
assert said == ["Required aspect fp64 is not supported on the device"] * 4, said
"""


def test_an_arc_has_no_kernel_for_float64(simulate: Callable) -> None:
    ran = simulate("xpu", ARC, TORCHMIGRATE_PROFILE="arc")
    assert ran.status == 0, ran.err


def test_the_helper_makes_float64_on_the_cpu_where_an_arc_cannot(simulate: Callable) -> None:
    program = (
        "import json, torch\nfrom torchmigrate import runtime as accel\n"
        "made = accel.double(torch.ones(3, device='xpu') > 0)\nprint(json.dumps([str(made.device), str(made.dtype)]))"
    )
    assert simulate("xpu", program, TORCHMIGRATE_PROFILE="arc").result == ["cpu", "torch.float64"]
    assert simulate("xpu", program, TORCHMIGRATE_PROFILE="").result == ["xpu:0", "torch.float64"]


ATLAS = """
import torch

wide, bias = torch.ones(3, 3, dtype=torch.float64).to("npu"), torch.ones(3, device="npu")
assert (wide + 1).sum().item() == 18 and (wide.float() @ bias).sum().item() == 9
assert (bias.bfloat16().view(1, 3) @ bias.bfloat16().view(3, 1)).item() == 3
said = []
for make in (lambda: wide @ wide, lambda: torch.nn.functional.linear(wide, wide),
             lambda: torch.bmm(wide[None], wide[None]), lambda: torch.nn.functional.conv1d(wide[None], wide[None])):
    try:
        make()
    except RuntimeError as error:
        said.append("is not in the list of dtypes that Ascend's devices support" in str(error))
assert said == [True] * 4, said
"""


def test_an_atlas_has_no_products_of_float64(simulate: Callable) -> None:
    ran = simulate("npu", ATLAS, TORCHMIGRATE_PROFILE="atlas")
    assert ran.status == 0, ran.err


TOLD = """
import sys, threading
import torch

device = sys.argv[1]
x = torch.ones(3, device=device)

class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad + torch.ones(3)

def refuse(call):
    try:
        call()
    except RuntimeError:
        return
    raise AssertionError("taken")

refuse(lambda: torch.mv(torch.ones(2, 3), x))
refuse(lambda: torch.compile(lambda y: torch.mv(torch.ones(2, 3), y), backend="eager")(x))
y = torch.ones(3, device=device, requires_grad=True)
refuse(lambda: Backward.apply(y).sum().backward())
thread = threading.Thread(target=refuse, args=(lambda: x + torch.ones(3),))
thread.start()
thread.join()
"""


@pytest.mark.parametrize(("backend", "tier"), [("xpu", "native"), ("mps", "native"), ("npu", "python")])
def test_what_is_refused_is_told(simulate: Callable, tmp_path: Path, backend: str, tier: str) -> None:
    reports = {"TORCHMIGRATE_REPORTS": str(tmp_path / "reports"), "TORCHMIGRATE_TIER": tier}
    ran = simulate(backend, TOLD, backend, **reports)
    assert ran.status == 0, ran.err
    (report,) = [json.loads(path.read_text()) for path in (tmp_path / "reports").glob("*.json")]
    told = [(each["message"], [frame["function"] for frame in each["frames"]]) for each in report["refused"]]
    assert next(stack[:2] for message, stack in told if "mv" in message and "<lambda>" in stack) == [
        "<module>",
        "refuse",
    ]
    assert any("add" in message and "backward" in stack for message, stack in told), told
    assert any("add" in message and "run" in stack for message, stack in told), told
    assert sum(each["count"] for each in report["refused"] if "mv" in each["message"]) >= 1
    files = [Path(frame["file"]) for each in report["refused"] for frame in each["frames"]]
    assert not [file for file in files if not file.is_absolute() or file.is_relative_to(PACKAGE)], files
