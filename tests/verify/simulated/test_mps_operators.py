"""hazard/mps-operator against the installed torch: each function that it lists fails on a simulated MPS, and torch's
own list of operators holds no other that people call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torchmigrate.fixers.hazard import mps
from torchmigrate.rules import packs
from torchmigrate.verify.simulated.torch_c.operators import facts

PROGRAM = Path(__file__).parent / "programs" / "mps_operators.py"
RULE = packs.load(cases=False).rules["hazard/mps-operator"]
THERE = 15
# what is missing besides: parts of others, what other rules speak about, and what the CPU's or CUDA's path alone calls
BESIDE = {
    "fake_quantize_per_channel_affine_cachemask", "fake_quantize_per_tensor_affine_cachemask", "quantize_per_channel",
    "quantize_per_tensor", "quantize_per_tensor_dynamic", "dequantize", "batch_norm_update_stats", "glu_jvp",
    "glu_backward_jvp", "hash_tensor", "slow_conv_dilated2d", "slow_conv_dilated3d", "slow_conv_transpose2d",
    "slow_conv_transpose3d", "sspaddmm",
}  # fmt: skip
# an out= variant is missing, the function itself is not
OUT_ALONE = {"max", "min", "std", "var"}
CALLED = {
    "linalg_eigvals": "eigvals", "linalg_ldl_factor_ex": "ldl_factor", "linalg_lu_solve": "",
    "multilabel_margin_loss_forward": "multilabel_margin_loss", "rrelu_with_noise": "rrelu",
    "rrelu_with_noise_": "rrelu",
}  # fmt: skip

pytestmark = pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the list is torch 2.13's")


@pytest.fixture(scope="module")
def listed() -> set[str]:
    return {key.rpartition(".")[2].lower().replace("_", "") for key in RULE.on}


def test_each_fails_for_want_of_a_kernel(simulate: Callable[..., Any]) -> None:
    said = simulate("mps", PROGRAM).result
    failing = {name for name, text in said.items() if "is not currently implemented for the MPS device" in text}
    uneven = {name for name, text in said.items() if "Adaptive pool MPS" in text}  # kernels for some sizes
    assert uneven == set(filter(mps.is_partial, RULE.on))
    failing |= uneven
    assert failing == set(RULE.on)
    assert len(said) - len(failing) == THERE
    assert [text for name, text in said.items() if name not in failing] == [""] * THERE


def test_each_works_on_cuda(simulate: Callable[..., Any]) -> None:
    said = simulate("cuda", PROGRAM).result
    wrong = {name: text for name, text in said.items() if text}
    assert not wrong


def test_torchs_list_holds_no_other(listed: set[str]) -> None:
    names = {name.removeprefix("aten::").partition(".")[0] for name in facts().missing_on_mps}
    public = {name for name in names if not name.startswith("_") and "backward" not in name} - BESIDE - OUT_ALONE
    unknown = set()
    for name in public:
        short = CALLED.get(name, name.removeprefix("linalg_").removeprefix("special_").rstrip("_"))
        if short.replace("_", "").lower() not in listed and short:
            unknown.add(name)
    assert not unknown
    assert names >= (BESIDE | OUT_ALONE | set(CALLED)) - {"linalg_eigvals"}
