"""torch.compile(fullgraph=True) goes through whatever it goes through with torch.cuda on CUDA."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import KIND, ON_CUDA, accel, check, same, tensor

Function = Callable[[torch.Tensor], Any]


@dataclass(frozen=True)
class Case:
    """The helper's form, and what that was on CUDA."""

    ours: Function
    cuda: Function
    traces: bool = True
    """Whether torch.compile takes the original on CUDA."""
    breaks: tuple[str, ...] = ()
    """Backends on which it does not take ours although it took the original."""


class Double(torch.autograd.Function):
    @staticmethod
    @accel.custom_fwd
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    @accel.custom_bwd
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def after(call: Function) -> Function:
    """Only what the call does counts."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        call(x)
        return y

    return function


def within(manager: Function) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        with manager(x):
            return x @ x

    return function


def either(condition: Function) -> Function:
    return lambda x: x + 1 if condition(x) else x - 1


def caught(kind: Callable[[], Any]) -> Function:
    """As code that runs out of memory is written."""

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            return x + 1
        except kind():
            return x - 1

    return function


cuda = torch.cuda
# dynamo takes torch.mtia's streams for nothing at all, and knows torch.npu's only once torch_npu has told it
MTIA, NPU, BOTH = ("mtia",), ("npu",), ("npu", "mtia")
CASES = {
    "device": Case(lambda x: x.to(accel.device()) + 1, lambda x: x.to("cuda") + 1),
    "device with an index": Case(lambda x: x.to(accel.device(0)) + 1, lambda x: x.cuda(0) + 1),
    "device by its name": Case(
        lambda x: x + torch.zeros(1, device=accel.device("cuda:0")), lambda x: x + torch.zeros(1, device="cuda:0")
    ),
    "device_type": Case(either(lambda x: accel.device_type() == KIND), either(lambda x: x.device.type == "cuda")),
    "non_blocking": Case(
        lambda x: x.to(accel.device(), non_blocking=accel.non_blocking()) + 1,
        lambda x: x.to("cuda", non_blocking=True) + 1,
    ),
    "is_available": Case(either(lambda x: accel.is_available()), either(lambda x: cuda.is_available())),
    "current_device": Case(
        lambda x: x.to(accel.device(accel.current_device())) + accel.current_device(),
        lambda x: x.cuda(cuda.current_device()) + cuda.current_device(),
    ),
    "device_count": Case(lambda x: x + accel.device_count(), lambda x: x + cuda.device_count(), traces=False),
    "set_device": Case(after(lambda x: accel.set_device(0)), after(lambda x: cuda.set_device(0)), traces=False),
    "device_guard": Case(within(lambda x: accel.device_guard(0)), within(lambda x: cuda.device(0)), breaks=BOTH),
    "device_of": Case(within(lambda x: accel.device_of(x)), within(lambda x: cuda.device_of(x)), traces=False),
    "is_accelerated": Case(either(lambda x: accel.is_accelerated(x)), either(lambda x: x.is_cuda)),
    "is_accelerated device": Case(
        either(lambda x: accel.is_accelerated(x.device)), either(lambda x: x.device.type == "cuda")
    ),
    "is_nvidia": Case(either(lambda x: accel.is_nvidia()), either(lambda x: torch.version.hip is None)),
    "is_bf16_supported": Case(
        either(lambda x: accel.is_bf16_supported()), either(lambda x: cuda.is_bf16_supported()), traces=False
    ),
    "is_usable": Case(either(lambda x: accel.is_usable()), either(lambda x: cuda.is_available())),
    "pin_memory": Case(either(lambda x: accel.pin_memory()), either(lambda x: True)),
    "pin": Case(lambda x: accel.pin(x.cpu()) + 1, lambda x: x.cpu().pin_memory() + 1, traces=False),
    "device_ids": Case(either(lambda x: accel.device_ids(0)), either(lambda x: [0])),
    "output_device": Case(either(lambda x: accel.output_device(0) is None), either(lambda x: False)),
    "dist_backend": Case(either(lambda x: accel.dist_backend() == "nccl"), either(lambda x: True)),
    "synchronize": Case(after(lambda x: accel.synchronize()), after(lambda x: cuda.synchronize())),
    "synchronize a device": Case(after(lambda x: accel.synchronize(0)), after(lambda x: cuda.synchronize(0))),
    "empty_cache": Case(after(lambda x: accel.empty_cache()), after(lambda x: cuda.empty_cache())),
    "no stream": Case(within(lambda x: accel.stream(None)), within(lambda x: cuda.stream(None)), traces=False),
    "current_stream": Case(
        within(lambda x: accel.stream(accel.current_stream())),
        within(lambda x: cuda.stream(cuda.current_stream())),
        breaks=MTIA,
    ),
    "Stream": Case(
        within(lambda x: accel.stream(accel.Stream())), within(lambda x: cuda.stream(cuda.Stream())), breaks=BOTH
    ),
    "wait_stream": Case(
        after(lambda x: accel.current_stream().wait_stream(accel.Stream())),
        after(lambda x: cuda.current_stream().wait_stream(cuda.Stream())),
        breaks=NPU,
    ),
    "default_stream": Case(after(lambda x: accel.default_stream()), after(lambda x: cuda.default_stream()), False),
    "set_stream": Case(
        after(lambda x: accel.set_stream(accel.current_stream())),
        after(lambda x: cuda.set_stream(cuda.current_stream())),
    ),
    "record_stream": Case(
        after(lambda x: accel.record_stream(x, accel.current_stream())),
        after(lambda x: x.record_stream(cuda.current_stream())),
    ),
    "Event": Case(
        after(lambda x: accel.Event(enable_timing=True).record()),
        after(lambda x: cuda.Event(enable_timing=True).record()),
        breaks=NPU,
    ),
    "waiting for an Event": Case(
        after(lambda x: accel.Event().wait()), after(lambda x: cuda.Event().wait()), breaks=NPU
    ),
    "autocast": Case(within(lambda x: accel.autocast()), within(lambda x: cuda.amp.autocast())),
    "autocast in bfloat16": Case(
        within(lambda x: accel.autocast(dtype=torch.bfloat16)), within(lambda x: torch.autocast("cuda", torch.bfloat16))
    ),
    "autocast_type": Case(
        within(lambda x: torch.autocast(accel.autocast_type())), within(lambda x: torch.autocast("cuda"))
    ),
    "scaler_type": Case(either(lambda x: accel.scaler_type() == KIND), either(lambda x: True)),
    "custom_fwd": Case(lambda x: Double.apply(x), lambda x: x * 2),
    "get_device_capability": Case(
        lambda x: x + accel.get_device_capability(0)[0], lambda x: x + cuda.get_device_capability(0)[0]
    ),
    "get_device_properties": Case(
        lambda x: x + accel.get_device_properties(0).major,
        lambda x: x + cuda.get_device_properties(0).major,
        breaks=("xpu", "npu", "mtia"),  # of their functions dynamo makes no constants
    ),
    "cast": Case(lambda x: accel.cast(x, torch.float16), lambda x: x.type(torch.cuda.HalfTensor)),
    "double": Case(
        after(lambda x: accel.double(x.eq(x))),
        after(lambda x: x.eq(x).double()),
        breaks=("xpu",),  # it asks for the properties of an XPU
    ),
    "cpu_fallback": Case(lambda x: accel.cpu_fallback(torch.mode)(x)[0], lambda x: torch.mode(x)[0]),
    "cast by name": Case(lambda x: accel.cast(x, "torch.cuda.HalfTensor"), lambda x: x.type("torch.cuda.HalfTensor")),
    "cast by name to the CPU": Case(lambda x: accel.cast(x, "torch.HalfTensor"), lambda x: x.type("torch.HalfTensor")),
    "ranges": Case(within(lambda x: accel.nvtx.range("a")), within(lambda x: cuda.nvtx.range("a")), traces=False),
    "a mark": Case(after(lambda x: accel.nvtx.mark("a")), after(lambda x: cuda.nvtx.mark("a"))),
    "ipc_collect": Case(after(lambda x: accel.ipc_collect()), after(lambda x: cuda.ipc_collect())),
    "reset_peak_memory_stats": Case(
        after(lambda x: accel.reset_peak_memory_stats()), after(lambda x: cuda.reset_peak_memory_stats()), breaks=BOTH
    ),
    "get_device_name": Case(
        after(lambda x: accel.get_device_name()), after(lambda x: cuda.get_device_name()), traces=False
    ),
    "get_rng_state": Case(after(lambda x: accel.get_rng_state()), after(lambda x: cuda.get_rng_state()), traces=False),
    "get_rng_state_all": Case(
        after(lambda x: accel.get_rng_state_all()), after(lambda x: cuda.get_rng_state_all()), traces=False
    ),
    "initial_seed": Case(after(lambda x: accel.initial_seed()), after(lambda x: cuda.initial_seed()), traces=False),
    "manual_seed": Case(after(lambda x: accel.manual_seed(1)), after(lambda x: cuda.manual_seed(1)), traces=False),
    "manual_seed_all": Case(
        after(lambda x: accel.manual_seed_all(1)), after(lambda x: cuda.manual_seed_all(1)), traces=False
    ),
    "seed": Case(after(lambda x: accel.seed()), after(lambda x: cuda.seed()), breaks=BOTH),
    "seed_all": Case(after(lambda x: accel.seed_all()), after(lambda x: cuda.seed_all()), breaks=BOTH),
    "memory_allocated": Case(
        after(lambda x: accel.memory_allocated()), after(lambda x: cuda.memory_allocated()), traces=False
    ),
    "max_memory_allocated": Case(
        after(lambda x: accel.max_memory_allocated()), after(lambda x: cuda.max_memory_allocated()), traces=False
    ),
    "memory_reserved": Case(
        after(lambda x: accel.memory_reserved()), after(lambda x: cuda.memory_reserved()), traces=False
    ),
    "max_memory_reserved": Case(
        after(lambda x: accel.max_memory_reserved()), after(lambda x: cuda.max_memory_reserved()), traces=False
    ),
    "memory_stats": Case(after(lambda x: accel.memory_stats()), after(lambda x: cuda.memory_stats()), traces=False),
    "memory_summary": Case(
        after(lambda x: accel.memory_summary()), after(lambda x: cuda.memory_summary()), traces=False
    ),
    "reset_accumulated_memory_stats": Case(
        after(lambda x: accel.reset_accumulated_memory_stats()),
        after(lambda x: cuda.reset_accumulated_memory_stats()),
        breaks=BOTH,
    ),
    "set_per_process_memory_fraction": Case(
        after(lambda x: accel.set_per_process_memory_fraction(1.0)),
        after(lambda x: cuda.set_per_process_memory_fraction(1.0)),
        breaks=("xpu",),
    ),
    "range_push": Case(
        after(lambda x: accel.nvtx.range_push("a")), after(lambda x: cuda.nvtx.range_push("a")), traces=False
    ),
    "range_pop": Case(after(lambda x: accel.nvtx.range_pop()), after(lambda x: cuda.nvtx.range_pop()), traces=False),
    "grad_scaler": Case(
        after(lambda x: accel.grad_scaler()), after(lambda x: torch.amp.GradScaler("cuda")), traces=False
    ),
    "map_location": Case(either(lambda x: accel.map_location() is None), either(lambda x: True)),
    "tensor_type": Case(
        after(lambda x: accel.tensor_type(torch.float32)),
        after(lambda x: torch.cuda.FloatTensor),
        breaks=("mps", "xpu", "npu", "mtia"),  # a class of the helper's, made there
    ),
    "sparse_tensor": Case(
        after(lambda x: accel.sparse_tensor(x.long(), x[0], (2, 2))),
        after(lambda x: cuda.sparse.FloatTensor(x.long(), x[0], (2, 2))),
        traces=False,
    ),
    "OutOfMemoryError": Case(caught(lambda: accel.OutOfMemoryError), caught(lambda: cuda.OutOfMemoryError)),
    "mem_get_info": Case(after(lambda x: accel.mem_get_info()), after(lambda x: cuda.mem_get_info()), breaks=NPU),
}


def refusal(function: Function) -> str:
    """ "" if one graph holds the function, and gives what the plain one gives."""
    torch._dynamo.reset()
    accel.device()
    x = tensor(2, 2)
    try:
        result = torch.compile(function, backend="eager", fullgraph=True)(x)
    except Exception as error:  # dynamo has many kinds
        return f"{type(error).__name__}: {error}"
    same(result, function(x))
    return ""


def checked(case: Case) -> Callable[[], None]:
    def run() -> None:
        ours = refusal(case.ours)
        if not ON_CUDA:
            assert case.traces is False or (KIND in case.breaks) is bool(ours), ours or "it is taken after all"
            return
        assert case.traces is not bool(refusal(case.cuda))
        assert case.traces is not bool(ours), ours

    return run


for name, case in CASES.items():
    check(checked(case), most_only=True, name=f"compiled: {name}")


@check(most_only=True)
def compiled_at_the_first_call_of_all() -> None:
    """The device is found while dynamo traces."""
    for name in ("device", "is_available", "synchronize", "autocast"):
        torch._dynamo.reset()
        importlib.reload(accel)
        torch.compile(CASES[name].ours, backend="eager", fullgraph=True)(tensor(2, 2))
        assert accel.device() == torch.device(KIND)


@check(most_only=True)
def compiled_with_a_refusal() -> None:
    """So that the checks above can fail."""
    assert "print" in refusal(after(lambda x: print("a side effect that dynamo refuses")))


@check(most_only=True)
def what_is_compiled_in_pieces_answers_as_ever() -> None:
    """torch.npu's own name has no counterpart in torch.accelerator."""
    torch._dynamo.reset()
    x, condition = tensor(2, 2), either(lambda x: accel.is_bf16_supported())
    same(torch.compile(condition, backend="eager")(x), condition(x))
