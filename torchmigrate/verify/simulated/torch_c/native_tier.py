"""Start the C++ tier: load the built library before torch's Python code runs, and configure it afterwards."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from ..build import library, torch_folder, torch_version
from ..profiles import Settings
from . import c_module

_BEFORE_OURS = ("libtorch_global_deps.so", "libtorch_cpu.so", "libtorch.so")


def start(settings: Settings) -> None:
    """Load the library before `import torch`, which caches backend hooks; raises BuildError or RuntimeError."""
    torch = torch_folder()
    for name in _BEFORE_OURS:
        if (torch / "lib" / name).exists():
            ctypes.CDLL(str(torch / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    loaded = ctypes.CDLL(str(_library(torch)))
    loaded.torchmigrate_start.restype = ctypes.c_char_p
    loaded.torchmigrate_start.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t)
    kind = settings.backend if settings.profile.in_tree else "privateuseone"
    wrong = loaded.torchmigrate_start(kind.encode(), settings.count, settings.memory)
    if wrong:
        raise RuntimeError(f"cannot simulate {settings.backend}: {wrong.decode()}")


def _library(torch: Path) -> Path:
    """Return the path of the library, built once per program: children with the same torch inherit it."""
    known = os.environ.get("TORCHMIGRATE_LIBRARY", "")
    if f"simulated-{torch_version(torch)}-" not in known or not os.path.exists(known):
        known = os.environ["TORCHMIGRATE_LIBRARY"] = str(library())
    return Path(known)


def bind(settings: Settings) -> None:
    """Set the backend's names in torch._C; call it just before torch.cuda or torch.xpu runs."""
    c_module.install(settings.profile, settings.count)


def configure(settings: Settings) -> Any:
    """Pass the backend's rules to C++ after `import torch`; return torch.ops.torchmigrate_simulated."""
    import torch

    from .operators import facts

    profile, known, ops = settings.profile, facts(), torch.ops.torchmigrate_simulated
    numbers = {name: i for i, name in enumerate(_SCALAR_TYPES.split())}
    is_mps = profile.backend == "mps"
    structured = known.structured - known.structured_missing_on_mps if is_mps else known.structured
    sparse = known.on_sparse_mps if is_mps else known.on_sparse_cuda
    ops.configure(
        sorted(known.no_check),
        sorted(known.missing_on_mps) if is_mps else [],
        profile.missing_message,
        sorted(known.missing_on_sparse_mps) if is_mps else [],
        [numbers[name] for name in profile.banned],
        profile.dtype_message,
        [numbers[name] for name in profile.incapable],
        _unqualified(known.cpu_on_mps) if is_mps else [],
        _unqualified(structured),
        _unqualified(sparse & known.all),
        [numbers[name] for name in profile.memory_only],
        profile.memory_only_message,
        list(profile.narrow),
        [numbers[name] for name in profile.narrow_dtypes],
        profile.narrow_message,
    )
    return ops


def _unqualified(names: frozenset[str]) -> list[str]:
    return sorted(name.split("::")[1] for name in names)


# the members of c10::ScalarType (torch/headeronly/core/ScalarType.h), in order
_SCALAR_TYPES = """
    uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32
    bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz
    float8_e4m3fnuz uint16 uint32 uint64
"""
