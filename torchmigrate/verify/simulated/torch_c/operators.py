"""Keeps torch.compile out of the kernels that are written in Python: they run beneath the code that it has compiled."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


def hide(*modules: types.ModuleType) -> None:
    """TorchDynamo runs their functions, and what these call, as they are. It is not imported: that takes seconds."""
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
    """Names are the dispatcher's: "aten::add.Tensor", "aten::mm"."""

    all: frozenset[str]
    """Every operator that torch registers from its list, those that torchgen derives (`autogen:`) included."""
    no_check: frozenset[str]
    """`device_check: NoCheck`: the operator itself decides which devices go together, and may let a CPU scalar in."""
    missing_on_mps: frozenset[str]
    """The CPU and CUDA have a kernel, MPS has none, and no composite of other operators stands in. Structured
    functional and in-place variants have no kernel of their own: they call the out= one, whose name is then here, as
    it is in a Mac's error."""
    structured: frozenset[str]
    """The functional and in-place variants that call an out= one: each is a composite on every backend."""
    missing_on_sparse_mps: frozenset[str]
    """The same of sparse COO tensors: a kernel for SparseCPU and SparseCUDA, none for SparseMPS, and no composite."""
    structured_missing_on_mps: frozenset[str]
    """Of `structured`, those whose out= variant is missing there, which is what they call and what the error names."""
    on_sparse_cuda: frozenset[str]
    """Kernels of their own for CUDA's sparse COO tensors, where a composite would do something else."""
    on_sparse_mps: frozenset[str]
    """The same for MPS's."""
    cpu_on_mps: frozenset[str]
    """What aten/src/ATen/mps/MPSFallback.mm runs on the CPU without being asked, with a warning. A simulated MPS has to
    take these whole: `linalg_svd` works on a Mac, while `_linalg_svd.U`, to which it comes down on other devices, is
    missing there, so that `svdvals` fails."""


@dataclass(frozen=True)
class _Entry:
    """One `- func:` of the list."""

    name: str
    derived: tuple[str, ...]
    checked: bool
    delegate: str
    """The out= variant that does the work of a structured one, "" if it does its own."""
    kernels: frozenset[str]

    @property
    def composite(self) -> bool:
        """Whether other operators stand in where a backend has no kernel."""
        return any(key.startswith("CompositeE") or key == "CompositeImplicitAutograd" for key in self.kernels)

    def missing(self, prefix: str = "") -> bool:
        """On MPS; `prefix` "Sparse": for its sparse COO tensors."""
        has_kernel = {f"{prefix}CPU", f"{prefix}CUDA"} <= self.kernels and f"{prefix}MPS" not in self.kernels
        return has_kernel and not self.composite and not self.delegate and self.name not in _CPU_ON_MPS


@functools.cache
def facts() -> Facts:
    """What the installed torch says. FileNotFoundError where its wheel came without torchgen's files."""
    entries = list(_entries(_path().read_text(encoding="utf-8")))
    registered = set(torch._C._dispatch_get_all_op_names())
    # torchgen checks no devices in the variants that it derives: the operator they call does.
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
    # Beside torch, without an import of torchgen: what its __init__ needs is not ours to say.
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
        if "ufunc_inner_loop" in fields:  # torchgen writes these two kernels itself (UFUNC_DISPATCH_KEYS)
            kernels |= {"CPU", "CUDA"}
        yield _Entry(
            name=block.split("(", 1)[0],
            derived=tuple(fields["autogen"][0].split(", ")) if "autogen" in fields else (),
            checked=fields.get("device_check") != ["NoCheck"],
            delegate=fields.get("structured_delegate", [""])[0],
            kernels=frozenset(kernels),
        )


def _fields(lines: list[str]) -> dict[str, list[str]]:
    """Field -> its own value, then the lines one level below it; comments are left out."""
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
