"""Torch's own lists of what fails on MPS: a simulated MPS refuses each entry, or it is named here, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("expecttest")  # which torch.testing._internal imports
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the lists are torch 2.13's")
PROGRAM = Path(__file__).parent / "programs" / "mps_lists.py"
VERIFY = Path(__file__).parents[3] / "docs" / "verify.md"
LISTS = {
    "UNIMPLEMENTED_XFAILLIST": "forward: tried",
    "ON_MPS_XFAILLIST": "forward: tried",
    "grad_XFAILLIST_GRAD": "backward: tried",
    "grad_ON_MPS_XFAILLIST": "backward: tried",
    "UNIMPLEMENTED_XFAILLIST_SPARSE": "all in UNIMPLEMENTED_XFAILLIST, too",
    "UNDEFINED_XFAILLIST": "other numbers than the CPU's: nothing is refused",
    "EMPTY_OPS_SKIPLIST": "memory that nothing has written: nothing is refused",
    "MACOS_BEFORE_14_4_XFAILLIST": "an older macOS",
    "SKIPLIST": "works on some machines",
    "grad_SKIPLIST_GRAD": "half precision whose numbers vary",
    "error_inputs_XFAILLIST": "wrong arguments that MPS takes, and tensors of more than 16 dimensions",
}
WINDOWS = ("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming")
# what torch expects to fail, and a simulated MPS computes
NO_DERIVATIVE = "there is no derivative, or no gradient to ask for, on any device"
NUMBERS = "other numbers than the CPU's: drawn, or of equals, or of either sign; nothing is refused"
OF_THE_CPU = "the CPU fails, or gives another dtype"
UNKNOWN = "torch gives no reason that could be simulated; docs/verify.md names it"
COMPUTED = {
    **dict.fromkeys(
        ["unique_consecutive", "scalar_tensor", "igamma", "igammac", "special.zeta", "floor_divide"], NO_DERIVATIVE
    ),
    **dict.fromkeys(["histogramdd", "histogram", "allclose", "equal", "item", "randn", "eye", "unique"], NO_DERIVATIVE),
    **{f"signal.windows.{name}": NO_DERIVATIVE for name in (*WINDOWS, "hann", "kaiser", "nuttall")},
    "to_sparse": NO_DERIVATIVE,
    **{f"nn.functional.{name}": NUMBERS for name in ("dropout", "dropout2d", "dropout3d", "alpha_dropout")},
    "nn.functional.feature_alpha_dropoutwith_train": NUMBERS,
    **dict.fromkeys(["argsort", "sort", "msort", "pca_lowrank", "svd_lowrank"], NUMBERS),
    "bincount": OF_THE_CPU,
    "nn.functional.max_pool1d": OF_THE_CPU,
    **dict.fromkeys(["masked.median", "arange", "_chunk_cat", "linalg.householder_product"], UNKNOWN),
    **dict.fromkeys(["nn.functional.conv_transpose2d", "nn.functional.conv3d"], UNKNOWN),
}


def test_each_entry_is_refused_or_named(simulate: Callable[..., Any]) -> None:
    lists, answers = simulate("mps", PROGRAM).result
    assert set(lists) == set(LISTS)
    computed = {entry.split()[1] for entry, answer in answers.items() if answer == ""}
    assert computed == set(COMPUTED)
    refused = [entry for entry, answer in answers.items() if answer]
    assert len(refused) > 350, len(refused)
    # an entry without a sample is a name that torch's tests no longer have, or a dtype that no sample can be made of
    untried = {entry.split()[1] for entry, answer in answers.items() if answer is None}
    assert not untried - {
        name for name in untried if re.search("segment|unpool|symeig|mat$|norm$|_aa$|sparse.mm|scatter", name)
    }


def test_what_is_not_refused_for_no_known_reason_is_in_the_documentation() -> None:
    text = VERIFY.read_text(encoding="utf-8")
    names = {name.rpartition("functional.")[2] for name, reason in COMPUTED.items() if reason == UNKNOWN}
    assert not {name for name in names if f"`{name}`" not in text}
