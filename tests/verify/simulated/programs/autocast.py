"""Mixed precision: autocast on the device, gradient scaling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from checks import DEVICE, KIND, check, refused, same
from torch import nn

x = torch.linspace(-1, 1, 12, device=DEVICE).view(4, 3)
weight = torch.ones(2, 3, device=DEVICE)

DEFAULT = torch.float16 if KIND in ("cuda", "mps") else torch.get_autocast_dtype(KIND)


def autocast(**options: object) -> torch.autocast:
    return torch.autocast(KIND, **options)


@check
def the_default_dtype() -> None:
    # torch/amp: float16 on CUDA and MPS, what the backend says elsewhere
    assert torch.get_autocast_dtype(KIND) == DEFAULT
    with autocast():
        assert (x @ x.t()).dtype == DEFAULT


@check(but=("mtia",))
def both_lower_dtypes() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        with autocast(dtype=dtype):
            assert F.linear(x, weight).dtype == dtype


@check
def operators_that_are_lowered() -> None:
    with autocast(dtype=torch.bfloat16):
        lowered = [
            *(x @ x.t(), torch.mm(x, x.t()), torch.addmm(x @ x.t(), x, x.t()), F.linear(x, weight)),
            *(torch.bmm(x[None], x.t()[None]), torch.einsum("ij,kj->ik", x, x)),
            F.conv1d(x[None], torch.ones(1, 4, 1, device=DEVICE)),
            F.scaled_dot_product_attention(x[None], x[None], x[None]),
        ]
    assert {y.dtype for y in lowered} == {torch.bfloat16}


@check
def operators_that_stay_in_float32() -> None:
    half = x.bfloat16()
    with autocast(dtype=torch.bfloat16):
        kept = [
            *(half.exp(), half.softmax(1), half.log_softmax(1), half.sum(), half.abs().pow(2), half.cumsum(0)),
            *(F.layer_norm(half, (3,)), F.mse_loss(half, half), half.norm(), half.abs().log1p()),
            F.cross_entropy(half, torch.arange(4, device=DEVICE) % 3),
        ]
    assert {y.dtype for y in kept} == {torch.float32}, [y.dtype for y in kept]


@check
def softmax_turns_half_into_float_in_one_step() -> None:
    for softmax in (torch.softmax, torch.log_softmax):
        half = x.half().requires_grad_()
        plain = x.half().float().requires_grad_()
        with autocast(dtype=torch.float16):
            y = softmax(half, 1)
        z = softmax(half, 1, dtype=torch.float32)
        assert (y.dtype, z.dtype) == (torch.float32, torch.float32)
        (y.square().sum() + z.exp().sum()).backward()
        expected = softmax(plain, 1)
        (expected.square().sum() + softmax(plain, 1).exp().sum()).backward()
        same(y, expected)
        assert half.grad.dtype == torch.float16
        same(half.grad, plain.grad.half())


@check
def operators_that_take_the_widest() -> None:
    half = x.bfloat16()
    with autocast(dtype=torch.bfloat16):
        assert torch.cat([half, x]).dtype == torch.float32
        assert (half + x).dtype == torch.float32
        assert torch.stack([half, half]).dtype == torch.bfloat16


@check
def what_autocast_does_not_touch() -> None:
    with autocast(dtype=torch.bfloat16):
        assert x.relu().dtype == torch.float32
        assert (x * 2).dtype == torch.float32
        y = x.clone()
        y.add_(1)
        assert y.dtype == torch.float32


@check
def nested_and_disabled() -> None:
    with autocast(dtype=torch.bfloat16):
        with autocast(enabled=False):
            assert (x @ x.t()).dtype == torch.float32
        assert (x @ x.t()).dtype == torch.bfloat16
    assert (x @ x.t()).dtype == torch.float32
    assert not torch.is_autocast_enabled(KIND)


@check
def the_cpu_s_autocast_is_apart() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x.t()).dtype == torch.float32
        assert (x.cpu() @ x.cpu().t()).dtype == torch.bfloat16
    with autocast(dtype=torch.bfloat16):
        assert (x.cpu() @ x.cpu().t()).dtype == torch.float32


@check
def results_are_those_of_the_lower_precision() -> None:
    with autocast(dtype=torch.bfloat16):
        y = F.linear(x, weight)
    same(y, F.linear(x.bfloat16(), weight.bfloat16()))


@check
def casts_of_weights_are_cached() -> None:
    p = nn.Parameter(weight.clone())
    counts = torch.ops.torchmigrate_simulated.counts

    def copies() -> int:
        return sum(int(line.rpartition("=")[2]) for line in counts() if line.startswith("aten::copy_="))

    with autocast(dtype=torch.bfloat16):
        F.linear(x, p)
        before = copies()
        F.linear(x, p)
        assert copies() - before == 1  # the input's


@check
def a_decorated_function() -> None:
    @torch.autocast(KIND, dtype=torch.bfloat16)
    def forward(t: torch.Tensor) -> torch.Tensor:
        return t @ t.t()

    assert forward(x).dtype == torch.bfloat16


@check
def custom_functions_in_mixed_precision() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=KIND, cast_inputs=torch.float32)
        def forward(ctx: object, t: torch.Tensor) -> torch.Tensor:
            assert t.dtype == torch.float32 and not torch.is_autocast_enabled(KIND)
            return t * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type=KIND)
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    p = x.bfloat16().requires_grad_()
    with autocast(dtype=torch.bfloat16):
        Double.apply(p).sum().backward()
    same(p.grad, torch.full((4, 3), 2.0))


@check(but=("mps",))  # where torch has not banned it
def binary_cross_entropy_is_refused() -> None:
    with autocast(dtype=torch.bfloat16), refused("unsafe to autocast"):
        F.binary_cross_entropy(torch.rand(4, device=DEVICE), torch.ones(4, device=DEVICE))


def trained(device: object, dtype: torch.dtype, scaled: bool) -> tuple[list[float], float]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(KIND, enabled=scaled)
    inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(1)).to(device)
    targets, losses = (torch.arange(32) % 4).to(device), []
    for _ in range(5):
        opt.zero_grad()
        with torch.autocast(torch.device(device).type, dtype=dtype):
            out = net(inputs)
            loss = F.cross_entropy(out, targets)
        assert (out.dtype, loss.dtype) == (dtype, torch.float32)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    return losses, scaler.get_scale()


@check(but=("mtia",))
def training_in_float16_with_a_scaler() -> None:
    assert trained(DEVICE, torch.float16, scaled=True)[1] == 65536.0


@check
def training_in_bfloat16() -> None:
    losses, _ = trained(DEVICE, torch.bfloat16, scaled=False)
    expected, _ = trained("cpu", torch.bfloat16, scaled=False)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=0.02, atol=0.02)


def scaler_and_optimizer() -> tuple[torch.amp.GradScaler, nn.Parameter, torch.optim.Optimizer]:
    p = nn.Parameter(torch.ones(2, device=DEVICE))
    return torch.amp.GradScaler(KIND, init_scale=1024.0), p, torch.optim.SGD([p], lr=1.0)


@check
def an_overflow_skips_the_step_and_halves_the_scale() -> None:
    scaler, p, opt = scaler_and_optimizer()
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(opt)
    scaler.update()
    same(p, [1.0, 1.0])
    assert scaler.get_scale() == 512.0


@check
def gradients_are_unscaled() -> None:
    scaler, p, opt = scaler_and_optimizer()
    scaler.scale((p * 3).sum()).backward()
    same(p.grad, [3072.0] * 2)
    scaler.unscale_(opt)
    same(p.grad, [3.0] * 2)
    scaler.step(opt)
    same(p, [-2.0] * 2)


@check
def a_scaler_s_state() -> None:
    scaler, p, opt = scaler_and_optimizer()
    scaler.scale(p.sum()).backward()
    scaler.step(opt)
    scaler.update(256.0)
    other = torch.amp.GradScaler(KIND)
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 256.0


@check
def a_scaler_for_another_device_does_nothing() -> None:
    import warnings

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scaler = torch.amp.GradScaler("cuda" if KIND != "cuda" else "xpu")
    assert not scaler.is_enabled() or KIND == "cuda"
    assert told or KIND == "cuda"


@check(only=("cuda",))
def torch_cuda_amp() -> None:
    with torch.cuda.amp.autocast():
        assert (x @ x.t()).dtype == torch.float16
    scaler = torch.cuda.amp.GradScaler()
    assert scaler.is_enabled()
    assert torch.is_autocast_enabled() is False
    assert torch.cuda.is_bf16_supported()


@check(but=("cuda",))
def autocast_for_cuda_does_nothing_here() -> None:
    import warnings

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with torch.autocast("cuda"):
            assert (x @ x.t()).dtype == torch.float32
    assert "CUDA is not available" in str(told[0].message)


@check(only=("mps",))
def autocast_to_float64_has_no_way_on_mps() -> None:
    with refused("float64", error=TypeError), autocast(dtype=torch.float16):
        x.double()
