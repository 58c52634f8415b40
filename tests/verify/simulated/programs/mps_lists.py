"""What torch's own tests expect to fail on MPS (common_mps.py), tried where MPS is simulated.

The last line is JSON: the names of the lists; and of each entry, by list, name and dtype, "" or what the device said;
null: there is nothing to try.
"""

from __future__ import annotations

import ast
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import opinfo
import torch
import torch.testing._internal.common_mps as source
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

LISTS = ("UNIMPLEMENTED_XFAILLIST", "ON_MPS_XFAILLIST", "XFAILLIST_GRAD")
ABSENT = (torch.float64, torch.complex128, torch.complex32)
SAMPLES = 60
OPS: dict[str, Any] = {op.name + op.variant_test_name: op for op in reversed(op_db)}


def lists() -> dict[str, dict[str, Any]]:
    """The lists, which are local names of functions, and exist on a Mac only; those that are not tried are empty."""
    found: dict[str, dict[str, Any]] = {}
    for function in ast.walk(ast.parse(Path(source.__file__).read_text())):
        for statement in function.body if isinstance(function, ast.FunctionDef) else ():
            target = (
                statement.target if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [None])[0]
            )
            if not isinstance(target, ast.Name) or (not target.id.endswith("LIST") and "LIST_" not in target.id):
                continue
            kind = function.name.removeprefix("mps_ops_").removesuffix("modifier")
            value = ast.Expression(statement.value)  # type: ignore[attr-defined]
            made = eval(compile(value, source.__file__, "eval"), {"torch": torch}) if target.id in LISTS else {}
            found[kind + target.id] = made if isinstance(made, dict) else {}
    return found


def said(op: Any, dtype: torch.dtype, grad: bool) -> str | None:
    """What the device says of the first sample that it refuses and the CPU may or may not."""
    try:
        wanted = grad and op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=wanted), SAMPLES))
    except Exception:
        return None
    for sample in samples:
        try:
            there = tree_map(opinfo.moved, (sample.input, sample.args, sample.kwargs))
            with opinfo.HERE:
                results = opinfo.tensors(op(there[0], *there[1], **there[2]))
            if wanted:
                opinfo.differentiated(results, there)
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
    return "" if samples else None


warnings.simplefilter("ignore")
answers: dict[str, str | None] = {}
known_lists = lists()
for name, entries in known_lists.items():
    for key, dtypes in entries.items():
        op = OPS.get(key)
        known = () if op is None else dtypes or (dtype for dtype in op.dtypes if dtype not in ABSENT)
        tried = {str(dtype).removeprefix("torch."): said(op, dtype, "grad" in name) for dtype in known}
        answers |= {f"{name} {key} {dtype}": answer for dtype, answer in (tried or {"-": None}).items()}
print(json.dumps([sorted(known_lists), answers]))
