"""The environment in which every Python process of a program, torchrun's children and workers too, sees one backend."""

from __future__ import annotations

import os
from pathlib import Path

SITE = Path(__file__).resolve().parents[1] / "simulated" / "site"


def environment(
    backend: str,
    *,
    count: int | None = None,
    evidence: str = "simulated",
    tier: str = "native",
    memory: int | None = None,
    reports: Path | None = None,
    project: Path | None = None,
) -> dict[str, str]:
    """os.environ and what simulated/startup.py reads.

    `backend`: cuda, mps, xpu, npu, mtia or cpu; `count` devices (default 1); `evidence`: "simulated" activates a
    simulated device, "hardware" and "cpu" only report; `tier`: "native" (C++) or "python"; `memory`: bytes of one
    simulated device; `reports`: a folder for one JSON file per process; `project`: the root of the program's own code.
    """
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH", "")])),
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "TORCHMIGRATE_BACKEND": f"{backend}:{count or 1}",
        "TORCHMIGRATE_EVIDENCE": evidence,
        "TORCHMIGRATE_TIER": tier,
        "TORCHMIGRATE_MEMORY": str(memory or ""),
        "TORCHMIGRATE_REPORTS": str(reports or ""),
        "TORCHMIGRATE_PROJECT": str(project or ""),
    }
    return {**_without_hardware(backend, evidence), **variables}


_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES")


def _without_hardware(backend: str, evidence: str) -> dict[str, str]:
    """os.environ, so changed that a real device is seen where it is meant, and only there."""
    if evidence == "hardware":
        return {**os.environ, "TORCH_ACCEL_DEVICE": backend}
    if evidence == "cpu":
        return {**os.environ, **dict.fromkeys(_VISIBLE, ""), "TORCH_ACCEL_DEVICE": "cpu"}
    kept = {name: value for name, value in os.environ.items() if name not in (*_VISIBLE, "TORCH_ACCEL_DEVICE")}
    return kept if backend == "cuda" else {**kept, **dict.fromkeys(_VISIBLE, "")}
