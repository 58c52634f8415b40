"""Facts about operators, from the installed torch's own list of them (`native_functions.yaml`, which torchgen brings along).

Read line by line: torch does not depend on PyYAML, which torchgen needs, and its file keeps to one plain form, two blanks to a
level. Takes about 5 ms, so nothing is cached.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

_LIST = Path("torchgen") / "packaged" / "ATen" / "native" / "native_functions.yaml"

_CPU_ON_MPS = ("embedding_renorm_", "linalg_svd", "linalg_svd.U", "col2im", "upsample_nearest3d.vec")


@dataclass(frozen=True)
class Facts:
    """Names are the dispatcher's: "aten::add.Tensor", "aten::mm"."""

    all: frozenset[str]
    """Every operator that torch registers from its list, those that torchgen derives (`autogen:`) included."""
    no_check: frozenset[str]
    """`device_check: NoCheck`: the operator itself decides which devices go together; a 0-dim CPU tensor may come in."""
    missing_on_mps: frozenset[str]
    """The CPU and CUDA have a kernel, MPS has none, and no composite of other operators stands in. A functional or in-place
    variant that is `structured` has no kernel of its own anywhere: it calls its out= one, and that is the name listed here,
    as in the error that a Mac gives."""
    structured: frozenset[str]
    """Functional and in-place variants that call an out= one: torch registers a composite for each, on every backend."""
    cpu_on_mps: frozenset[str]
    """What aten/src/ATen/mps/MPSFallback.mm runs on the CPU without being asked, with a warning. A simulated MPS has to take
    these whole: `linalg_svd` works on a Mac, while `_linalg_svd.U`, to which it comes down on other devices, is missing
    there, so that `svdvals` fails."""


@dataclass(frozen=True)
class _Entry:
    """One `- func:` of the list."""

    name: str
    derived: tuple[str, ...]
    checked: bool
    delegates: bool
    kernels: frozenset[str]

    @property
    def missing_on_mps(self) -> bool:
        has_kernel = {"CPU", "CUDA"} <= self.kernels and "MPS" not in self.kernels
        composite = any(key.startswith("CompositeE") or key == "CompositeImplicitAutograd" for key in self.kernels)
        return has_kernel and not composite and not self.delegates and self.name not in _CPU_ON_MPS


@functools.cache
def facts() -> Facts:
    """What the installed torch says of its operators. FileNotFoundError where its wheel came without torchgen's files."""
    entries = list(_entries(_path().read_text(encoding="utf-8")))
    registered = set(torch._C._dispatch_get_all_op_names())
    # torchgen checks no devices in the variants that it derives: the operator they call does.
    derived = _names(name for entry in entries for name in entry.derived)
    return Facts(
        all=(_names(entry.name for entry in entries) | derived) & registered,
        no_check=(_names(entry.name for entry in entries if not entry.checked) | derived) & registered,
        missing_on_mps=_names(entry.name for entry in entries if entry.missing_on_mps) & registered,
        structured=_names(entry.name for entry in entries if entry.delegates) & registered,
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
            delegates="structured_delegate" in fields,
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
