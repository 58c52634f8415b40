"""Mixed precision: autocast, the scaler, the decorators of autograd functions."""

from __future__ import annotations

import torch

from . import KIND, accel, check, numbers, same, tensor


def product_dtype() -> torch.dtype:
    return (tensor(2, 2) @ tensor(2, 2)).dtype


@check
def autocast_is_on_and_in_half_precision() -> None:
    assert accel.autocast_type() == accel.scaler_type() == KIND
    with accel.autocast():
        assert torch.is_autocast_enabled(KIND)
        assert product_dtype() == torch.float16
        assert tensor(2).sum().dtype == torch.float32
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        with accel.autocast(enabled=False):
            assert product_dtype() == torch.float32
    assert product_dtype() == torch.float32


@check
def autocast_takes_what_torch_cuda_amp_s_takes() -> None:
    for arguments, options in (((True, torch.bfloat16), {}), ((), {"dtype": torch.bfloat16, "cache_enabled": False})):
        with accel.autocast(*arguments, **options):
            assert product_dtype() == torch.bfloat16
            assert torch.is_autocast_cache_enabled() is options.get("cache_enabled", True)
    with accel.autocast(False):
        assert product_dtype() == torch.float32


@check
def autocast_decorates() -> None:
    assert accel.autocast()(product_dtype)() == torch.float16


class Double(torch.autograd.Function):
    """Says under which precision it ran."""

    seen: dict[str, object]

    @staticmethod
    @accel.custom_fwd
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        Double.seen = {"forward": torch.is_autocast_enabled(KIND)}
        return x * 2

    @staticmethod
    @accel.custom_bwd
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        Double.seen["backward"] = torch.is_autocast_enabled(KIND)
        return grad * 2


class HalfDouble(Double):
    @staticmethod
    @accel.custom_fwd(cast_inputs=torch.float16)
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        Double.seen = {"forward": torch.is_autocast_enabled(KIND), "dtype": x.dtype}
        return x * 2


@check
def a_custom_function_runs_as_its_forward_did() -> None:
    for enabled in (True, False):
        x = tensor(2).requires_grad_()
        with accel.autocast(enabled=enabled):
            y = Double.apply(x)
        y.sum().backward()
        same(x.grad, [2, 2])
        assert Double.seen == {"forward": enabled, "backward": enabled}


@check
def a_custom_function_casts_its_inputs() -> None:
    x = tensor(2).requires_grad_()
    with accel.autocast():
        HalfDouble.apply(x).float().sum().backward()
    same(x.grad, [2, 2])
    assert Double.seen == {"forward": False, "dtype": torch.float16, "backward": False}


def trained(scaler: object, steps: int = 3, spoil: bool = False) -> list[torch.Tensor]:
    """Parameters after each step; `spoil` makes the gradients of the second infinite."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2).to(accel.device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, found = numbers(8, 4).to(accel.device()), []
    for step in range(steps):
        optimizer.zero_grad()
        with accel.autocast():
            loss = model(x).square().mean()
        scaler.scale(loss).backward()  # type: ignore[attr-defined]
        if spoil and step == 1:
            model.weight.grad.mul_(float("inf"))
        scaler.unscale_(optimizer)  # type: ignore[attr-defined]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)  # type: ignore[attr-defined]
        scaler.update()  # type: ignore[attr-defined]
        found.append(model.weight.detach().clone())
    return found


@check
def a_training_step_with_the_scaler() -> None:
    scaler = accel.grad_scaler()
    assert scaler.is_enabled()
    assert scaler.get_scale() == 65536.0
    weights = trained(scaler)
    assert not torch.equal(weights[0], weights[1])
    assert scaler.get_scale() == 65536.0
    for scaled, plain in zip(weights, trained(accel.grad_scaler(enabled=False)), strict=True):
        torch.testing.assert_close(scaled, plain, rtol=1e-3, atol=1e-3)


@check
def the_scaler_skips_a_step_with_infinite_gradients() -> None:
    scaler = accel.grad_scaler(init_scale=1024.0, growth_interval=1)
    weights = trained(scaler, spoil=True)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert scaler.get_scale() == 1024.0 * 2 * 0.5 * 2


@check
def the_scaler_takes_what_torch_cuda_amp_s_takes() -> None:
    scaler = accel.grad_scaler(256.0, 3.0, 0.25, 7, True)
    scaler.scale(tensor(1).sum())
    expected = {
        "scale": 256.0,
        "growth_factor": 3.0,
        "backoff_factor": 0.25,
        "growth_interval": 7,
        "_growth_tracker": 0,
    }
    assert scaler.state_dict() == expected
    other = accel.grad_scaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == expected
    assert not accel.grad_scaler(256.0, 3.0, 0.25, 7, False).is_enabled()
