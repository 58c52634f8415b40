"""torch.cuda.FloatTensor and its kin: torch has the classes in every build, and marks CUDA's as not available."""

from __future__ import annotations

import ctypes
import gc
from typing import Any


def allow() -> None:
    """Takes the mark off. All else is torch's own: the constructors, isinstance(), torch.set_default_tensor_type().

    The mark is `is_cuda` of PyTensorType in torch/csrc/tensor/python_tensor.cpp, which only the refusals read; what
    Python sees as `torch.cuda.FloatTensor.is_cuda` stays as it was. Where torch has changed that struct, the classes
    stay refused."""
    import torch

    known: Any = torch
    classes = [each for each in known._tensor_classes if each.is_cuda]
    offset = _mark(known.FloatTensor, known.cuda.FloatTensor)
    if offset:
        _show_as_cuda(type(known.FloatTensor), frozenset(classes))
        for each in classes:
            ctypes.c_bool.from_address(id(each) + offset).value = False


def _mark(cpu: Any, cuda: Any) -> int:
    """Its distance in bytes from the class's start, 0 if it is not found.

    It is behind pointers to the dtype and the layout, which are behind a PyTypeObject (408 bytes in Python 3.11)."""
    for offset in range(320, 464, ctypes.sizeof(ctypes.c_void_p)):
        words = (ctypes.c_void_p * 2).from_address(id(cuda) + offset)
        if list(words) == [id(cuda.dtype), id(cuda.layout)]:
            mark = offset + ctypes.sizeof(words)
            marks = [ctypes.c_uint8.from_address(id(each) + mark).value for each in (cpu, cuda)]
            return mark if marks == [0, 1] else 0
    return 0


def _show_as_cuda(kind: Any, classes: frozenset[Any]) -> None:
    (attributes,) = gc.get_referents(kind.__dict__)  # a static type's, which Python does not let one set
    attributes["is_cuda"] = property(lambda cls: cls in classes)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
