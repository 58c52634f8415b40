"""Facts about libraries: which devices they take, which need NVIDIA's software and what people use in their place."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from torchmigrate.torch_api import facts
from torchmigrate.torch_api.backends import types_of

_DATA = facts("libraries")
# by the name that is imported: what to use in place of a library that needs NVIDIA's software
CUDA_ONLY: Mapping[str, str] = _DATA["cuda-only"]
HOST = frozenset(_DATA["host"])
ENGINES = frozenset(_DATA["engines"])
BUILT_ON_TORCH = frozenset(_DATA["built-on-torch"])
_TAKES: Mapping[str, frozenset[str]] = {
    name: frozenset(devices.replace("+", "").split()) for name, devices in _DATA["takes"].items()
}
_EVERY = frozenset(types_of("helper")) | {"cpu"}
# "cuda" in a call of such a library means no device of torch
FOREIGN = frozenset({*_DATA["foreign"], *(name for name in _TAKES if "." not in name)}) - BUILT_ON_TORCH
# frameworks whose own tensors have a `cuda()`
FRAMEWORKS = frozenset(_DATA["frameworks"])
# libraries that call a model with data on CUDA, or else the CPU, unless they are told a device
CHOOSING = frozenset(_DATA["choosing"])
# top-level names that NVIDIA's packages share
NAMESPACES = frozenset(_DATA["namespaces"])
# namespaces of `torch.ops` that no project compiles
OPERATORS = frozenset(_DATA["operators"])
# libraries of operators that have kernels for the CPU and CUDA alone
KERNELS = frozenset(_DATA["kernels"])
KERNEL_ROOTS = sorted({name.partition(".")[0] for name in KERNELS})  # in order, as rules are compiled with them
# modules for files that are packed and run without the rest of a project
ALONE = frozenset(_DATA["alone"])
# libraries that hand what a program has made, such as its options, to programs on other machines
LAUNCHERS = frozenset(_DATA["launchers"])
# what makes an object of a table or of keywords, whose items are its attributes
RECORDS = frozenset(_DATA["records"])
# libraries of environments, whose `step` and `reset` give what may be float64
ENVIRONMENTS = frozenset(_DATA["environments"])
# by the name that is imported: what pip calls the library, in lower case with `_`; "" where there is no package
PACKAGES: Mapping[str, str] = {name: _DATA["packages"].get(name, name).lower() for name in CUDA_ONLY}
_BY_NAME = {name: advice for library, advice in CUDA_ONLY.items() for name in (library.lower(), PACKAGES[library])}

VARIABLES = {
    "CUDA_VISIBLE_DEVICES": (
        "CUDA and ROCm alone heed it; ZE_AFFINITY_MASK is Intel's (XPU), ASCEND_RT_VISIBLE_DEVICES Huawei's (NPU), "
        "MPS has one device"
    ),
    "CUDA_LAUNCH_BLOCKING": (
        "CUDA and ROCm alone heed it; ASCEND_LAUNCH_BLOCKING is Huawei's (NPU), UR_L0_SERIALIZE=2 Intel's (XPU)"
    ),
    "PYTORCH_CUDA_ALLOC_CONF": (
        "CUDA and ROCm alone heed it; since torch 2.9 it is PYTORCH_ALLOC_CONF for every accelerator, before that "
        "PYTORCH_NPU_ALLOC_CONF is Huawei's; MPS has PYTORCH_MPS_HIGH_WATERMARK_RATIO"
    ),
}


def of_library(name: str) -> str | None:
    """Return what to use in place of a library, by the name that is imported or installed: `flash-attn`, `GPUtil`."""
    return _BY_NAME.get(re.sub(r"[-_.]+", "_", name).lower())


def takes(library: str) -> frozenset[str] | None:
    """Return the devices that a library takes, by the name that is imported: `faiss`, `cv2.cuda.GpuMat`.

    They are those that it runs on, as torch calls them ("cuda" for faiss, which takes numbers), and its own names
    ("gpu"). What is built on torch takes every device; None stands for a library that nothing is known of. An argument
    that takes numbers (`lightning.gpus`) takes CUDA's.
    """
    owner, _, argument = library.rpartition(".")
    if arguments(owner).get(argument) in ("number", "precision"):
        return frozenset({"cuda"})
    name = row_of(library, _TAKES)
    if name is not None:
        return _TAKES[name]
    root = library.partition(".")[0]
    if root in CUDA_ONLY:
        return frozenset({"cuda"})
    return _EVERY if root in BUILT_ON_TORCH else None


def knows_cuda_alone(library: str) -> bool:
    """Return whether a library is known to take no accelerator but CUDA's."""
    known = takes(library)
    return known is not None and known.isdisjoint(_EVERY - {"cuda", "cpu"})


def has_own_devices(library: str) -> bool:
    """Return whether a library takes devices in its own way: it is known here, and not built on torch."""
    return library not in BUILT_ON_TORCH and takes(library) is not None


def arguments(library: str) -> Mapping[str, str]:
    """Return how the arguments of a library speak of devices, by keyword: "name", "number", "flag" or "precision"."""
    kinds: Mapping[str, str] = _DATA["arguments"].get(row_of(library, _DATA["arguments"]), {})
    return {argument: kind for kind, named in kinds.items() for argument in named.split()}


def row_of(library: str, table: Container[str]) -> str | None:
    """Return the row for a library or for the part of it that a dotted name belongs to; None if there is none."""
    while library not in table:
        library, dot, _ = library.rpartition(".")
        if not dot:
            return None
    return library
