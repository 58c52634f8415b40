"""Describe the interpreter, its torch and its devices as JSON on stdout; runs alone as `python -c`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from typing import Any
from urllib.parse import unquote, urlparse

BACKENDS = ("cuda", "mps", "xpu", "npu", "mtia", "hpu")


def devices(torch: Any) -> dict[str, Any]:
    """Return backends, e.g. {"cuda": {"count": 1, "name": "...", "error": null}}; an error: it does not compute."""
    found = {}
    for backend in BACKENDS:
        home = torch.backends if backend == "mps" else torch
        try:
            if getattr(home, backend).is_available():
                found[backend] = _probe_device(torch, backend)
        except Exception:  # not a backend of this build, or a driver that fails
            continue
    return found


def _probe_device(torch: Any, backend: str) -> dict[str, Any]:
    module = getattr(torch, backend, None)
    try:
        two = (torch.ones(2, device=backend) * 2).sum().item()
        error = None if two == 4 else "it computes wrong results"
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}".splitlines()[0]
    count, name = (
        getattr(module, "device_count", lambda: 1),
        getattr(module, "get_device_name", lambda _: platform.machine()),
    )
    return {"count": int(count()), "name": str(name(0)), "error": error}


def import_paths() -> list[str]:
    """Return the directories that modules are imported from, including those of editable installs."""
    found = [path for path in sys.path if os.path.isdir(path)]
    for distribution in importlib.metadata.distributions():
        try:
            data = json.loads(distribution.read_text("direct_url.json") or "{}")
        except (OSError, ValueError):
            continue
        if data.get("dir_info", {}).get("editable"):
            place = unquote(urlparse(data.get("url", "")).path)
            found += [path for path in (place, os.path.join(place, "src")) if os.path.isdir(path)]
    return found


def main() -> None:
    answer: dict[str, Any] = {"python": platform.python_version(), "executable": sys.executable}
    if importlib.util.find_spec("torch") is None:
        answer.update(torch=None, error="no torch")
    else:
        try:
            import torch

            build = {"cuda": torch.version.cuda, "rocm": torch.version.hip, "xpu": getattr(torch.version, "xpu", None)}
            answer.update(torch=torch.__version__, build=build, devices=devices(torch), error=None)
        except Exception as problem:
            answer.update(
                torch=None, error=f"torch does not import: {type(problem).__name__}: {problem}".splitlines()[0]
            )
    print(json.dumps({**answer, "paths": import_paths()}))


if __name__ == "__main__":
    main()
