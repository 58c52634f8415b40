"""Facts about libraries: which need NVIDIA's software, what people use in their place, which are built on torch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torchmigrate.torch_api import facts

_DATA = facts("libraries")
# by the name that is imported: what to use in place of a library that needs NVIDIA's software
CUDA_ONLY: Mapping[str, str] = _DATA["cuda-only"]
BUILT_ON_TORCH = frozenset(_DATA["built-on-torch"])
# "cuda" in a call of such a library means no device of torch
FOREIGN = frozenset(_DATA["foreign"])
# top-level names that NVIDIA's packages share
NAMESPACES = frozenset(_DATA["namespaces"])
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
