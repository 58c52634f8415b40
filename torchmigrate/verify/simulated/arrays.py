"""Compare the arrays in files that two runs wrote; a script for the interpreter of the project, whose torch it imports.

It reads a list of `[first, second, found, tolerance]` from stdin: the paths of a file as two runs of the original wrote
it, and as another run did. It prints a list of `{"values", "difference", "unreadable"}`: how many values agree, the
first that does not, and why a file could not be read.
"""

from __future__ import annotations

import functools
import json
import math
import struct
import sys
from collections.abc import Iterator
from typing import Any

import torch

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".webp")
_SAFETENSORS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
_SMALLEST = 1e-3  # below it, the tolerance is absolute, as for printed numbers


@functools.lru_cache(maxsize=8)
def read(path: str) -> dict[str, torch.Tensor]:
    """Return the arrays and numbers of a file by their place in it; raises an exception if it cannot be read."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if suffix in (".npy", ".npz"):
        import numpy

        loaded = numpy.load(path, allow_pickle=False)
        return dict(_flat("", dict(loaded) if suffix == ".npz" else loaded))
    if suffix in _IMAGES:
        import numpy
        from PIL import Image  # type: ignore[import-not-found,unused-ignore]

        return dict(_flat("", numpy.asarray(Image.open(path))))
    if suffix == ".safetensors":
        return dict(_safetensors(path))
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:
        loaded = torch.load(
            path, map_location="cpu", weights_only=False
        )  # classes of the project, which has run anyway
    return dict(_flat("", loaded))


def _safetensors(path: str) -> Iterator[tuple[str, torch.Tensor]]:
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            flat = torch.frombuffer(bytearray(data[start:end]), dtype=_SAFETENSORS[entry["dtype"]])
            yield name, flat.reshape(entry["shape"])


def _flat(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the arrays and numbers inside a value; strings of bytes, as random states are, are left out."""
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, dict):
        for key in value:
            yield from _flat(f"{name}.{key}" if name else str(key), value[key])
    elif isinstance(value, (list, tuple)):
        for at, each in enumerate(value):
            yield from _flat(f"{name}[{at}]", each)
    elif isinstance(value, torch.Tensor):
        if value.layout == torch.strided and not (value.dtype == torch.uint8 and value.dim() == 1):
            yield name, value.detach()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, torch.tensor(value, dtype=torch.float64)
    elif hasattr(value, "__array_interface__"):
        yield from _flat(name, torch.from_numpy(value.copy()))


def compare(first: str, second: str, found: str, tolerance: float) -> dict[str, Any]:
    """Compare a file with the original's; what the original does not write alike twice is left out."""
    try:
        before, again, after = read(first), read(second), read(found)
    except Exception as error:
        return {"values": 0, "difference": None, "unreadable": f"{type(error).__name__}: {error}".splitlines()[0]}
    values = 0
    for name in before:
        if name in again and _differs(before[name], again[name], 0.0):
            continue
        if name not in after:
            return {"values": values, "difference": f"`{name}` is missing", "unreadable": None}
        if said := _differs(before[name], after[name], tolerance):
            return {"values": values, "difference": f"`{name}`{said}", "unreadable": None}
        values += before[name].numel()
    extra = next((name for name in after if name not in before), None)
    said = None if extra is None else f"`{extra}`, which the original does not have"
    return {"values": values, "difference": said, "unreadable": None}


def _differs(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> str | None:
    """Return how two arrays differ, or None: NaN equals NaN, and precision may differ where the values do not."""
    if a.shape != b.shape:
        return f" has the shape {list(b.shape)} where the original has {list(a.shape)}"
    if not a.numel():
        return None
    x, y = (torch.view_as_real(t) if t.is_complex() else t for t in (a.resolve_conj(), b.resolve_conj()))
    x, y = x.to(torch.float64).reshape(-1), y.to(torch.float64).reshape(-1)
    size = torch.maximum(x.abs(), y.abs()).clamp(min=_SMALLEST)
    wrong = ~((x == y) | (x.isnan() & y.isnan()) | ((x - y).abs() <= tolerance * size))
    if not bool(wrong.any()):
        return None
    at = int(wrong.nonzero()[0])
    share = f" ({int(wrong.sum())} of {len(x)} values differ)" if len(x) > 1 else ""
    return f" has {_shown(float(y[at]))} where the original has {_shown(float(x[at]))}{share}"


def _shown(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else str(value)


if __name__ == "__main__":
    json.dump([compare(*task) for task in json.load(sys.stdin)], sys.stdout)
