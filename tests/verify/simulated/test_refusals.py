"""What a simulated backend refuses, as the real one does and in its words."""

from __future__ import annotations

from collections.abc import Callable

import pytest


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
