"""Keeps torch.compile out of the kernels that are written in Python: they run beneath the code that it has compiled."""

from __future__ import annotations

import types
from collections.abc import Iterator
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
