"""Every operator of torch's own tests: on a simulated device it gives the CPU's results and gradients.

What differs is listed, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import PROGRAMS

SPARSE_CSR = "sparse CSR tensors are not simulated"
KNOWN = {
    "sparse.sampled_addmm": SPARSE_CSR,
    "sparse.mm.reduce": SPARSE_CSR,
    "tensor_split": "torch wants the indices on the CPU",
}
# aten/src/ATen/mps/MPSFallback.mm runs `linalg_svd` on the CPU, without a derivative: a Mac warns, and goes on
NO_DERIVATIVE_ON_MPS = ("svd", "svd_lowrank", "pca_lowrank", "linalg.svd")


@pytest.fixture
def compared(simulate: Callable[..., Any]) -> Callable[[str], dict[str, Any]]:
    pytest.importorskip("expecttest")  # which torch.testing._internal imports

    def run(backend: str) -> dict[str, Any]:
        found = simulate(backend, PROGRAMS / "opinfo.py").result
        assert found["compared"] > 690, "torch's own list of operators was not read as a whole"
        return found

    return run


@pytest.mark.parametrize("backend", ["cuda", "xpu", "npu", "mtia"])
def test_operators_give_the_cpus_results(compared: Callable[[str], dict[str, Any]], backend: str) -> None:
    assert compared(backend)["different"].keys() == KNOWN.keys()


def is_refusal(words: str) -> bool:
    missing = "NotImplementedError: The operator 'aten::" in words
    return (missing and "not currently implemented for the MPS device" in words) or "doesn't support float64" in words


def test_operators_on_mps_give_the_cpus_results_or_its_refusals(compared: Callable[[str], dict[str, Any]]) -> None:
    different = compared("mps")["different"]
    others = {name for name, (_, words) in different.items() if not is_refusal(words)}
    assert others == {*KNOWN, *NO_DERIVATIVE_ON_MPS}
    assert {different[name][0] for name in NO_DERIVATIVE_ON_MPS} == {"gradient"}
    assert 30 < len(different) - len(others) < 90
