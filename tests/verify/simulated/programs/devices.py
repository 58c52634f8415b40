"""Two devices, and those that are not there."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from checks import KIND, MODULE, check, refused, same
from nets import losses, mlp, numbers
from torch import nn

accelerator = torch.accelerator


@check(but=("mps",))
def the_second_device() -> None:
    second = torch.device(KIND, 1)
    assert torch.ones(2, device=second).device == second
    assert (torch.ones(2, device=second) * 2).device == second
    same(torch.tensor(losses(second, mlp, torch.optim.Adam)), torch.tensor(losses("cpu", mlp, torch.optim.Adam)))


@check(but=("mps",))
def the_current_device() -> None:
    with accelerator.device_index(1):
        assert torch.ones(2, device=KIND).device.index == accelerator.current_device_index() == 1
        assert torch.ones(2).to(KIND).device.index == 1
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index(1)
    try:
        assert torch.ones(2, device=KIND).device.index == 1
    finally:
        accelerator.set_device_index(0)


@check(but=("mps",))
def the_backend_s_own_device_context() -> None:
    with MODULE.device(1):
        assert MODULE.current_device() == 1
        assert torch.ones(2, device=KIND).device.index == 1
        with MODULE.device(0):
            assert MODULE.current_device() == 0
    assert MODULE.current_device() == 0
    MODULE.set_device(1)
    assert MODULE.current_device() == 1
    MODULE.set_device(torch.device(KIND, 0))
    assert MODULE.current_device() == 0


@check(but=("mps",))
def devices_do_not_mix() -> None:
    a, b = torch.ones(2, 2, device=f"{KIND}:0"), torch.ones(2, 2, device=f"{KIND}:1")
    for mixed in (
        lambda: a + b,
        lambda: a @ b,
        lambda: torch.cat([a, b]),
        lambda: a.add_(b),
        lambda: F.linear(a, b),
        lambda: a.gather(0, b.long()),
        lambda: torch.where(a > 0, a, b),
        lambda: F.embedding(a.long(), b),
        lambda: torch.add(a, a, out=torch.empty_like(b)),
        lambda: a.index_copy_(0, torch.tensor([0, 1], device=b.device), a.clone()),
        lambda: torch.stack([a, b]),
    ):
        with refused("Expected all tensors to be on the same device", f"{KIND}:0", f"{KIND}:1"):
            mixed()


@check(but=("mps",))
def a_scalar_on_another_device_does_not_mix() -> None:
    with refused("Expected all tensors to be on the same device"):
        torch.ones(2, device=f"{KIND}:0") * torch.tensor(2.0, device=f"{KIND}:1")


@check(but=("mps",))
def tensors_move_between_devices() -> None:
    x = numbers(3, 4).to(f"{KIND}:0")
    y = x.t().to(f"{KIND}:1")
    assert y.device.index == 1
    same(y, x.t())
    x.copy_(y.t() * 2)
    same(x, y.t() * 2)


@check(but=("mps",))
def a_model_spread_over_two_devices_trains() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4).to(f"{KIND}:0"), nn.Linear(4, 2).to(f"{KIND}:1")
    second(first(numbers(3, 4).to(f"{KIND}:0")).relu().to(f"{KIND}:1")).sum().backward()
    assert first.weight.grad.device.index == 0
    assert second.weight.grad.device.index == 1


@check
def a_device_that_is_not_there() -> None:
    wrong = f"{KIND}:{accelerator.device_count()}"
    words = {"cuda": "CUDA error: invalid device ordinal"}.get(KIND, "invalid device index")
    for make in (torch.empty, torch.ones, lambda *size, device: torch.ones(*size).to(device)):
        with refused(words):
            make(1, device=wrong)


@check
def selecting_a_device_that_is_not_there() -> None:
    with refused("5"):
        accelerator.set_device_index(5)
    with refused("5"), accelerator.device_index(5):
        pass
    assert accelerator.current_device_index() == 0


@check
def the_build_says_what_it_is() -> None:
    assert "PyTorch built with" in torch.__config__.show()


@check(only=("cuda",))
def the_cache_of_plans_for_fft() -> None:
    plans = torch.backends.cuda.cufft_plan_cache
    assert (plans.size, plans.max_size) == (0, 4096)
    plans.max_size = 10
    plans.clear()
    assert plans[0].max_size == 10
