"""torch.compile(fullgraph=True) goes through whatever it went through with torch.cuda."""

from __future__ import annotations

import contextlib

import pytest
import torch

from torchmigrate import runtime as accel


class Double(torch.autograd.Function):
    @staticmethod
    @accel.custom_fwd
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @accel.custom_bwd
    def backward(ctx, grad):
        return grad * 2


def within(manager):
    def function(x):
        with manager():
            return x @ x

    return function


def after(call):
    def function(x):
        y = x + 1
        call()
        return y

    return function


CASES = {
    "device": lambda x: x.to(accel.device()) + 1,
    "index": lambda x: x.to(accel.device(0)) + 1,
    "name": lambda x: x + torch.zeros(1, device=accel.device("cuda:0")),
    "non_blocking": lambda x: x.to(accel.device(), non_blocking=accel.non_blocking()) + 1,
    "is_available": lambda x: x + 1 if accel.is_available() else x - 1,
    "device_type": lambda x: x + 1 if accel.device_type() == "cuda" else x - 1,
    "is_accelerated": lambda x: x + 1 if accel.is_accelerated(x) else x - 1,
    "is_accelerated device": lambda x: x + 1 if accel.is_accelerated(x.device) else x - 1,
    "current_device": lambda x: x + accel.current_device(),
    "capability": lambda x: x + accel.get_device_capability()[0],
    "cast": lambda x: accel.cast(x, torch.float64),
    "custom_fwd": lambda x: Double.apply(x),
    "synchronize": after(lambda: accel.synchronize()),
    "empty_cache": after(lambda: accel.empty_cache()),
    "event": after(lambda: accel.Event(enable_timing=True).record()),
    "autocast": within(lambda: accel.autocast()),
    "autocast bfloat16": within(lambda: accel.autocast(dtype=torch.bfloat16)),
    "no stream": within(lambda: accel.stream(None)),
    "current stream": within(lambda: accel.stream(accel.current_stream())),
    "guard": within(lambda: accel.device_guard(0)),
    "range": within(lambda: accel.nvtx.range("forward")),
}


@pytest.fixture
def compiled(monkeypatch):
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, backend="eager", fullgraph=True)
    torch._dynamo.reset()


@pytest.mark.parametrize("log", ["0", "1"])
@pytest.mark.parametrize("name", CASES)
def test_one_graph(compiled, monkeypatch, name, log):
    for each in accel._LOGGED if log == "1" else ():
        monkeypatch.setattr(accel, each, accel._logged(getattr(accel, each)))
    accel.device()
    x = torch.ones(2, 2)
    assert torch.equal(compiled(CASES[name])(x), CASES[name](x))


@pytest.mark.parametrize("name", ["device", "synchronize", "autocast", "is_available"])
def test_one_graph_at_the_first_call_of_all(compiled, name):
    compiled(CASES[name])(torch.ones(2, 2))
    with contextlib.suppress(KeyError):
        assert accel.device() == torch.device("cpu")


def test_these_cases_can_fail(compiled):
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(after(lambda: print("a side effect that dynamo refuses")))(torch.ones(2, 2))
