"""Read facts about torch's operators from native_functions.yaml, and hide kernels from torch.compile."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


def hide(*modules: types.ModuleType) -> None:
    """Let TorchDynamo skip these modules' functions and their callees, without importing torch._dynamo (slow)."""
    frames: Any = torch._C._dynamo.eval_frame
    as_it_is = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
    for module in modules:
        for code in _codes(module):
            frames.set_code_exec_strategy(code, as_it_is)


def _codes(module: types.ModuleType) -> Iterator[types.CodeType]:
    for value in vars(module).values():
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                yield from _nested(function.__code__)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


_LIST = Path("torchgen") / "packaged" / "ATen" / "native" / "native_functions.yaml"

_CPU_ON_MPS = ("embedding_renorm_", "linalg_svd", "linalg_svd.U", "col2im", "upsample_nearest3d.vec")


@dataclass(frozen=True)
class Facts:
    """Facts are sets of operators, by the dispatcher's names: "aten::add.Tensor", "aten::mm"."""

    all: frozenset[str]
    """All operators that torch registers from its list, including those that torchgen derives (`autogen:`)."""
    no_check: frozenset[str]
    """`device_check: NoCheck`: the operator itself checks devices, and may accept a CPU scalar."""
    missing_on_mps: frozenset[str]
    """Operators with kernels for the CPU and CUDA, none for MPS, and no composite.

    Structured functional and in-place variants have no kernel of their own: they call the out= variant, whose name is
    then listed here, and is in the error on a Mac.
    """
    structured: frozenset[str]
    """Functional and in-place variants that call an out= variant: composites on every backend."""
    missing_on_sparse_mps: frozenset[str]
    """The same for sparse COO tensors: a kernel for SparseCPU and SparseCUDA, none for SparseMPS, no composite."""
    structured_missing_on_mps: frozenset[str]
    """Members of `structured` whose out= variant MPS lacks; the error names that variant."""
    on_sparse_cuda: frozenset[str]
    """Operators with a kernel for CUDA's sparse COO tensors beside a composite that would do something else."""
    on_sparse_mps: frozenset[str]
    """The same for MPS's sparse COO tensors."""
    cpu_on_mps: frozenset[str]
    """Operators that aten/src/ATen/mps/MPSFallback.mm runs on the CPU unasked, with a warning.

    A simulated MPS has to take these whole: `linalg_svd` works on a Mac, while `_linalg_svd.U`, which it calls on other
    devices, is missing there, so that `svdvals` fails.
    """


@dataclass(frozen=True)
class _Entry:
    """An entry is one `- func:` of the list."""

    name: str
    derived: tuple[str, ...]
    checked: bool
    delegate: str
    """The out= variant that does the work of a structured operator; "" if the operator does its own."""
    kernels: frozenset[str]

    @property
    def composite(self) -> bool:
        """Return whether a composite of other operators is used on backends without a kernel."""
        return any(key.startswith("CompositeE") or key == "CompositeImplicitAutograd" for key in self.kernels)

    def missing(self, prefix: str = "") -> bool:
        """Return whether MPS lacks the operator; with `prefix` "Sparse", for sparse COO tensors."""
        has_kernel = {f"{prefix}CPU", f"{prefix}CUDA"} <= self.kernels and f"{prefix}MPS" not in self.kernels
        return has_kernel and not self.composite and not self.delegate and self.name not in _CPU_ON_MPS


@functools.cache
def facts() -> Facts:
    """Return the facts of the installed torch; raises FileNotFoundError if its wheel has no torchgen files."""
    entries = list(_entries(_path().read_text(encoding="utf-8")))
    registered = set(torch._C._dispatch_get_all_op_names())
    # in variants that torchgen derives, the operator that they call checks devices
    derived = _names(name for entry in entries for name in entry.derived)
    missing = {entry.name for entry in entries if entry.missing()}
    return Facts(
        all=(_names(entry.name for entry in entries) | derived) & registered,
        no_check=(_names(entry.name for entry in entries if not entry.checked) | derived) & registered,
        missing_on_mps=_names(missing) & registered,
        structured=_names(entry.name for entry in entries if entry.delegate) & registered,
        missing_on_sparse_mps=_names(entry.name for entry in entries if entry.missing("Sparse")) & registered,
        structured_missing_on_mps=_names(entry.name for entry in entries if entry.delegate in missing) & registered,
        on_sparse_cuda=_names(entry.name for entry in entries if entry.composite and "SparseCUDA" in entry.kernels),
        on_sparse_mps=_names(entry.name for entry in entries if entry.composite and "SparseMPS" in entry.kernels),
        cpu_on_mps=_names(_CPU_ON_MPS) & registered,
    )


def _path() -> Path:
    # next to torch, without importing torchgen, whose own dependencies may be missing
    path = Path(torch.__file__).parent.parent / _LIST
    if not path.is_file():
        raise FileNotFoundError(f"torch {torch.__version__} came without its list of operators: {path}")
    return path


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names)


def _entries(text: str) -> Iterator[_Entry]:
    for block in text.split("\n- func: ")[1:]:
        fields = _fields(block.splitlines()[1:])
        kernels = {key.strip() for line in fields.get("dispatch", [])[1:] for key in line.split(":")[0].split(",")}
        if "ufunc_inner_loop" in fields:  # torchgen generates these two kernels itself (UFUNC_DISPATCH_KEYS)
            kernels |= {"CPU", "CUDA"}
        yield _Entry(
            name=block.split("(", 1)[0],
            derived=tuple(fields["autogen"][0].split(", ")) if "autogen" in fields else (),
            checked=fields.get("device_check") != ["NoCheck"],
            delegate=fields.get("structured_delegate", [""])[0],
            kernels=frozenset(kernels),
        )


def _fields(lines: list[str]) -> dict[str, list[str]]:
    """Return each field's value followed by the lines one level below it; comments are left out."""
    fields: dict[str, list[str]] = {}
    last: list[str] = []
    for line in lines:
        line = line.split("#", 1)[0].rstrip()
        if line.startswith("    "):
            last.append(line.strip())
        elif line.startswith("  ") and ":" in line:
            name, _, value = line.strip().partition(":")
            last = fields[name] = [value.strip()]
    return fields
