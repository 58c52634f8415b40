"""torch's own database of operators (OpInfo), forward and backward: each on the device as on the CPU.

python operators.py [n]: every n-th operator. The last line is JSON: how many are right, what is wrong with the others.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from checks import draw_alike
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

KIND = torch.accelerator.current_accelerator().type
DEVICE = torch.device(KIND, 0)
SAMPLES = 4
# Results that are not the same twice, or on purpose on the CPU.
INCOMPARABLE = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
UNDEFINED = {"as_strided.partial_views": "reads past what it was given"}


draw_alike()


def on_device(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
    return DEVICE if value == "cpu" or isinstance(value, torch.device) else value


def tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def gradients(results: Any, inputs: Any) -> list[torch.Tensor | None]:
    """Of the results' sum; by the inputs that have one."""
    sums = [(t.abs() if t.is_complex() else t).sum() for t in tensors(results) if t.requires_grad]
    wanted = [t for t in tensors(inputs) if t.requires_grad]
    return list(torch.autograd.grad(sums, wanted, allow_unused=True)) if sums and wanted else []


def of_the_cpu(compute: Callable[[], Any]) -> Any:
    """None where the CPU has no answer: then there is nothing to compare with."""
    try:
        return compute()
    except Exception:
        return None


def compare(op: Any, sample: Any) -> None:
    """AssertionError, or whatever the device raises."""
    inputs = (sample.input, sample.args, sample.kwargs)
    torch.manual_seed(0)
    expected = of_the_cpu(lambda: op(sample.input, *sample.args, **sample.kwargs))
    if expected is None:
        return
    moved = tree_map(on_device, inputs)
    torch.manual_seed(0)
    actual = op(moved[0], *moved[1], **moved[2])
    for here, there in zip(tensors(actual), tensors(expected), strict=True):
        assert here.device == DEVICE or there.numel() == 0, f"a result on {here.device}"
        if op.name not in INCOMPARABLE:
            close(here, there, 1e-3)
    expected_gradients = of_the_cpu(lambda: gradients(expected, inputs)) if op.supports_autograd else None
    if expected_gradients:
        for here, there in zip(gradients(actual, moved), expected_gradients, strict=True):
            if there is not None:
                close(here, there, 1e-2)


def close(actual: torch.Tensor, expected: torch.Tensor, rtol: float) -> None:
    torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=1e-3, equal_nan=True, check_stride=False)


def main(step: int) -> None:
    warnings.simplefilter("ignore")
    right, wrong = 0, {}
    for op in op_db[::step]:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if not op.supports_dtype(torch.float32, "cpu") or name in UNDEFINED:
            continue
        try:
            samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
            for sample, _ in zip(samples, range(SAMPLES), strict=False):
                compare(op, sample)
            right += 1
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}"[:300]
    print(json.dumps({"right": right, "wrong": wrong}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
