"""On CUDA the helper's functions are torch.cuda's: the same answers, random numbers, devices, streams, statistics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from . import COUNT, accel, check, here, numbers, tensor
from .precision import trained

only_cuda: Any = {"only": ("cuda",)}
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("is_available", (), {}),
    ("device_count", (), {}),
    ("current_device", (), {}),
    ("set_device", ("cuda:0",), {}),
    ("set_device", (-1,), {}),
    ("synchronize", (), {}),
    ("synchronize", (), {"device": "cuda:0"}),
    ("empty_cache", (), {}),
    ("Stream", (None, -1), {}),
    ("current_stream", (), {}),
    ("current_stream", (0,), {}),
    ("default_stream", (), {}),
    ("set_stream", (None,), {}),
    ("stream", (None,), {}),
    ("Event", (True,), {"blocking": True}),
    ("memory_allocated", (), {}),
    ("memory_allocated", (None,), {}),
    ("max_memory_allocated", (0,), {}),
    ("memory_reserved", (), {}),
    ("max_memory_reserved", (), {"device": "cuda"}),
    ("reset_peak_memory_stats", (), {}),
    ("reset_accumulated_memory_stats", (), {}),
    ("memory_stats", (), {}),
    ("memory_summary", (None, True), {}),
    ("mem_get_info", (), {}),
    ("mem_get_info", (0,), {}),
    ("ipc_collect", (), {}),
    ("set_per_process_memory_fraction", (0.5,), {"device": 0}),
    ("manual_seed", (1,), {}),
    ("manual_seed_all", (1,), {}),
    ("initial_seed", (), {}),
    ("get_rng_state", (), {}),
    ("get_rng_state", ("cuda:0",), {}),
    ("get_rng_state_all", (), {}),
    ("is_bf16_supported", (), {}),
    ("is_bf16_supported", (False,), {}),
    ("get_device_name", (0,), {}),
    ("get_device_capability", (), {}),
]


def plain(value: Any) -> Any:
    """For ==."""
    if isinstance(value, torch.Tensor):
        return str(value.device), value.dtype, value.tolist()
    if isinstance(value, (torch.Event, contextlib.AbstractContextManager)) or type(value) is torch.cuda.Stream:
        return type(value), getattr(value, "device", None), getattr(value, "priority", None)
    return [plain(each) for each in value] if isinstance(value, list) else value


def state() -> list[Any]:
    """What a call may change."""
    states = [torch.cuda.get_rng_state(i).tolist() for i in range(COUNT)]
    memory = [(torch.cuda.memory_allocated(i), torch.cuda.max_memory_allocated(i)) for i in range(COUNT)]
    return [states, memory, torch.cuda.current_device(), torch.cuda.current_stream(), torch.get_rng_state().tolist()]


def answer(call: Callable[[], Any]) -> tuple[Any, list[Any]]:
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(5)
    torch.cuda.set_device(0)
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    torch.rand(3, device="cuda")
    return plain(call()), state()


def same_as(ours: Callable[[], Any], cuda: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        answer(cuda)  # what is made once is made
        assert answer(ours) == answer(cuda)

    return run


def call(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Callable[[], None]:
    return same_as(lambda: getattr(accel, name)(*args, **options), lambda: getattr(torch.cuda, name)(*args, **options))


for _name, _args, _options in CALLS:
    _said = ", ".join([*map(repr, _args), *(f"{k}={v!r}" for k, v in _options.items())])
    check(call(_name, _args, _options), name=f"as torch.cuda's: {_name}({_said})", **only_cuda)


def inside(manager: Any) -> list[Any]:
    """What is so inside a context."""
    with manager:
        dtype = (tensor(2, 2) @ tensor(2, 2)).dtype
        return [dtype, torch.is_autocast_cache_enabled(), torch.cuda.current_device(), torch.cuda.current_stream()]


def states(generator: torch.Generator) -> list[Any]:
    return [generator.device, torch.rand(3, device="cuda", generator=generator.manual_seed(2)).tolist()]


def properties(found: Any) -> list[Any]:
    return [type(found), found.name, found.total_memory, found.major, found.minor, found.multi_processor_count]


def default(set_it: Callable[[], None]) -> list[Any]:
    try:
        set_it()
        return [torch.Tensor(2).type(), torch.ones(2).type(), torch.tensor([1.0]).type(), torch.get_default_dtype()]
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


def module(cast: Callable[[torch.nn.Module], torch.nn.Module]) -> list[str]:
    return [each.type() for each in cast(torch.nn.BatchNorm1d(2)).state_dict().values()]


cuda, half = torch.cuda, torch.float16
PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "device": (lambda: torch.rand(3, device=accel.device()), lambda: torch.rand(3, device="cuda")),
    "device(0)": (lambda: numbers(3).to(accel.device(0)), lambda: numbers(3).cuda(0)),
    "device_guard": (lambda: inside(accel.device_guard("cuda:0")), lambda: inside(cuda.device("cuda:0"))),
    "device_of": (lambda: inside(accel.device_of(tensor(1))), lambda: inside(cuda.device_of(tensor(1)))),
    "is_accelerated": (lambda: accel.is_accelerated(tensor(1)), lambda: tensor(1).is_cuda),
    "autocast": (lambda: inside(accel.autocast()), lambda: inside(cuda.amp.autocast())),
    "autocast with all": (
        lambda: inside(accel.autocast(True, torch.bfloat16, False)),
        lambda: inside(cuda.amp.autocast(True, torch.bfloat16, False)),
    ),
    "autocast_type": (lambda: inside(torch.autocast(accel.autocast_type())), lambda: inside(torch.autocast("cuda"))),
    "grad_scaler": (
        lambda: plain(trained(accel.grad_scaler(1024.0, growth_interval=1), spoil=True)),
        lambda: plain(trained(cuda.amp.GradScaler(1024.0, growth_interval=1), spoil=True)),
    ),
    "generator": (lambda: states(accel.generator(0)), lambda: states(torch.Generator("cuda:0"))),
    "get_device_properties": (
        lambda: properties(accel.get_device_properties(0)),
        lambda: properties(cuda.get_device_properties(0)),
    ),
    "tensor_type": (lambda: accel.tensor_type(half), lambda: cuda.HalfTensor),
    "tensor_type()": (lambda: accel.tensor_type(half)([1, 2]), lambda: cuda.HalfTensor([1, 2])),
    "cast": (lambda: accel.cast(torch.ones(2), half), lambda: torch.ones(2).type(cuda.HalfTensor)),
    "cast by name": (
        lambda: accel.cast(torch.ones(2), "torch.cuda.HalfTensor"),
        lambda: torch.ones(2).type("torch.cuda.HalfTensor"),
    ),
    "cast of a module": (
        lambda: module(lambda each: accel.cast(each, half)),
        lambda: module(lambda each: each.type(cuda.HalfTensor)),
    ),
    "double": (
        lambda: accel.double(numbers(2).cuda() > 0),
        lambda: (numbers(2).cuda() > 0).double(),
    ),
    "cpu_fallback": (
        lambda: accel.cpu_fallback(torch.linalg.eigvalsh)(torch.eye(2).cuda()),
        lambda: torch.linalg.eigvalsh(torch.eye(2).cuda()),
    ),
    "set_default_tensor_type": (
        lambda: default(lambda: accel.set_default_tensor_type(half)),
        lambda: default(lambda: torch.set_default_tensor_type(cuda.HalfTensor)),
    ),
    "sparse_tensor": (
        lambda: accel.sparse_tensor(torch.tensor([[1]]), numbers(1), (3,)).to_dense(),
        lambda: torch.sparse_coo_tensor(torch.tensor([[1]]), numbers(1), (3,), device="cuda").to_dense(),
    ),
    "pin": (lambda: accel.pin(numbers(2)).is_pinned(), lambda: numbers(2).pin_memory().is_pinned()),
    "OutOfMemoryError": (lambda: accel.OutOfMemoryError, lambda: cuda.OutOfMemoryError),
    "nvtx": (
        lambda: [accel.nvtx.range_push("a"), accel.nvtx.range_pop(), accel.nvtx.mark("a")],
        lambda: [cuda.nvtx.range_push("a"), cuda.nvtx.range_pop(), cuda.nvtx.mark("a")],
    ),
}
for _name, _pair in PAIRS.items():
    check(same_as(*_pair), name=f"as CUDA's own: {_name}", **only_cuda)


@check(only=("cuda",))
def a_random_seed_changes_the_device_s_numbers_only() -> None:
    for ours, theirs in ((accel.seed, cuda.seed), (accel.seed_all, cuda.seed_all)):
        first, second = answer(ours), answer(theirs)
        assert first[0] is second[0] is None
        assert first[1][0] != second[1][0]
        assert first[1][1:] == second[1][1:]


@check(only=("cuda",), least=2)
def the_second_device_as_torch_cuda_s() -> None:
    for name, args in (
        ("set_device", (1,)),
        ("manual_seed_all", (3,)),
        ("memory_allocated", (1,)),
        ("get_rng_state", (1,)),
    ):
        call(name, args, {})()
    same_as(lambda: inside(accel.device_guard(1)), lambda: inside(cuda.device(1)))()
    same_as(lambda: accel.Stream(1).device, lambda: cuda.Stream(1).device)()
    same_as(lambda: accel.current_stream(here(1)), lambda: cuda.current_stream(1))()
