"""Every operator that torch tests itself (OpInfo): results and gradients on the device, and on the CPU.

Samples are torch's own, of float32 where the operator takes it. Random operators draw from one stream on both;
many samples seed it themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from checks import DEVICE, check, draw_alike
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

SAMPLES = 4  # of each operator
THIRDS = ("xpu", "npu", "mtia")
HERE = torch.device(DEVICE.type, 0)


draw_alike()


def moved(value: Any) -> Any:
    """The sample's argument on the device: with the memory around a view, since some operators reach there."""
    if isinstance(value, torch.Tensor):
        there = value.detach().to(HERE) if value.layout != torch.strided else _with_storage(value.detach())
        return there.requires_grad_(value.requires_grad)
    return HERE if isinstance(value, torch.device) or value == "cpu" else value


def _with_storage(value: torch.Tensor) -> torch.Tensor:
    whole = value.resolve_conj().resolve_neg()
    count = whole.untyped_storage().nbytes() // whole.itemsize
    flat = torch.as_strided(whole, (count,), (1,), 0).to(HERE)
    return torch.as_strided(flat, value.shape, whole.stride(), whole.storage_offset())


def tensors(values: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]


def scalar(results: list[torch.Tensor]) -> torch.Tensor:
    return sum(r.abs().sum() if r.is_complex() else r.sum() for r in results if r.requires_grad)


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.device == HERE, f"a result is on {actual.device}"
    dense = (x.to_dense() if x.layout != torch.strided else x for x in (actual.cpu(), expected))
    torch.testing.assert_close(*dense, rtol=1e-3, atol=1e-3, equal_nan=True, check_stride=False)


def difference(op: Any, sample: Any) -> tuple[str, str] | None:
    """Where a sample's outcome differs, and how; None for nowhere."""
    arguments = (sample.input, sample.args, sample.kwargs)
    try:
        torch.manual_seed(0)
        expected = tensors(op(arguments[0], *arguments[1], **arguments[2]))
        gradients = differentiated(expected, arguments) if op.supports_autograd else None
    except Exception:
        return None  # no sample for the CPU
    where = "result"
    try:
        there = tree_map(moved, arguments)
        torch.manual_seed(0)
        with HERE:
            actual = tensors(op(there[0], *there[1], **there[2]))
        if "empty" not in op.name:
            for pair in zip(actual, expected, strict=True):
                same(*pair)
        where = "gradient"
        if gradients is not None:
            for a, e in zip(differentiated(actual, there), gradients, strict=True):
                if e is not None:
                    same(a, e)
    except Exception as e:
        return where, f"{type(e).__name__}: {e}".splitlines()[0]
    return None


def differentiated(results: list[torch.Tensor], arguments: Any) -> tuple[torch.Tensor | None, ...]:
    wanted = [x for x in tensors(arguments) if x.requires_grad]
    if not wanted or not any(r.requires_grad for r in results):
        return ()
    return torch.autograd.grad(scalar(results), wanted, allow_unused=True)


def samples(op: Any) -> Iterator[Any]:
    dtypes = (torch.float32, torch.int64, torch.complex64, torch.bool)
    dtype = next(d for d in dtypes if op.supports_dtype(d, "cpu"))
    made = op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype.is_floating_point)
    for _, sample in zip(range(SAMPLES), made, strict=False):
        yield sample


def named(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


compared: set[str] = set()  # by name and variant


def different(ops: Sequence[Any] = op_db) -> dict[str, tuple[str, str]]:
    """Operator -> where it differs, and how."""
    compared.clear()
    found = {}
    for op in ops:
        try:
            given = list(samples(op))
        except Exception:
            continue
        compared.add(named(op))
        found[named(op)] = next(filter(None, (difference(op, sample) for sample in given)), None)
    assert len(compared) > 0.98 * len(ops) > 100, compared
    return {name: outcome for name, outcome in found.items() if outcome}


# What differs, and why
SPARSE_CSR = "sparse CSR tensors are not simulated"
KNOWN = {
    "sparse.sampled_addmm": SPARSE_CSR,
    "sparse.mm.reduce": SPARSE_CSR,
    "tensor_split": "torch wants the indices on the CPU",
}
# aten/src/ATen/mps/MPSFallback.mm runs `linalg_svd` on the CPU, without a derivative: a Mac warns, and goes on
NO_DERIVATIVE_ON_MPS = {"svd", "svd_lowrank", "pca_lowrank", "linalg.svd"}


# aten/src/ATen/native/mps/operations/AdaptivePooling.mm wants one size to divide the other
UNEVEN_ON_MPS = {
    "nn.functional.adaptive_avg_pool1d",
    "nn.functional.adaptive_avg_pool2d",
    "nn.functional.interpolate.area",
}


def is_refusal(words: str) -> bool:
    missing = "NotImplementedError: The operator 'aten::" in words
    return (missing and "not currently implemented for the MPS device" in words) or "doesn't support float64" in words


# How many of them agree: torch 2.13's, all that have samples for the CPU. docs/verify.md says these numbers.
AGREE = {"cuda": (694, 697), "mps": (636, 697)}


def agree(found: dict[str, tuple[str, str]]) -> None:
    if torch.__version__.startswith("2.13."):
        assert (len(compared) - len(found), len(compared)) == AGREE[DEVICE.type]


@check(only=("cuda",))
def operators_give_the_cpu_s_results_and_gradients() -> None:
    found = different()
    assert found.keys() == KNOWN.keys(), found
    agree(found)


# What CUDA takes in a type for which the CPU has no kernel, and a simulated device does not
NOT_WIDENED = {
    "nansum": "the CPU refuses complex numbers",
    "nanmean": "the CPU refuses complex numbers",
    "torch.ops.aten._flash_attention_forward": "CUDA's own kernel",
    "torch.ops.aten._efficient_attention_forward": "CUDA's own kernel",
}


@check(only=("cuda",))
def operators_take_the_types_that_cuda_takes_and_the_cpu_does_not() -> None:
    found, tried = {}, 0
    for op in op_db:
        name = named(op)
        for dtype in set(op.dtypesIfCUDA) - set(op.dtypes) - {torch.complex32}:
            if name.startswith("fft.") or name in NOT_WIDENED:  # fft: in half precision, of powers of two only
                continue
            for sample in itertools.islice(
                op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point), SAMPLES
            ):
                tried += 1
                arguments = tree_map(moved, (sample.input, sample.args, sample.kwargs))
                try:
                    with HERE:
                        differentiated(tensors(op(arguments[0], *arguments[1], **arguments[2])), arguments)
                except Exception as e:
                    found[f"{name} {dtype}"] = str(e)
    assert tried > 50 and not found, found


@check(but=("cuda", "mps"))
def operators_of_a_third_give_the_cpu_s_results_and_gradients() -> None:
    """Each backend has another third: their kernels are those of cuda, under another dispatch key."""
    ops = op_db[THIRDS.index(DEVICE.type) :: len(THIRDS)]
    assert different(ops).keys() == KNOWN.keys() & {named(op) for op in ops}


@check(only=("mps",))
def operators_give_the_cpu_s_results_and_gradients_or_are_refused() -> None:
    found = different()
    others = {name: outcome for name, outcome in found.items() if not is_refusal(outcome[1])}
    assert others.keys() == KNOWN.keys() | NO_DERIVATIVE_ON_MPS | UNEVEN_ON_MPS, others
    assert {others[name][0] for name in NO_DERIVATIVE_ON_MPS} == {"gradient"}
    assert all("sizes must be divisible" in others[name][1] for name in UNEVEN_ON_MPS)
    assert 30 < len(found) - len(others) < 90, found
    agree(found)
