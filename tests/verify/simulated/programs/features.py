"""Operators of many kinds, compilers, profilers: the results are the CPU's."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from checks import DEVICE, KIND, check, refused, same
from nets import mlp, numbers
from torch import nn

accelerator = torch.accelerator


@check
def sorting_and_searching() -> None:
    x = numbers(5, 4)
    y = x.to(DEVICE)
    for f in (
        lambda t: t.topk(2)[0],
        lambda t: t.sort()[1],
        lambda t: t.argsort(descending=True),
        lambda t: (t > 0).nonzero(),
        lambda t: t[t > 0],
        lambda t: (t * 2).round().unique(return_counts=True)[1],
        lambda t: (t * 2).round().unique_consecutive(),
        lambda t: t.masked_select(t < 0),
        lambda t: torch.where(t > 0)[0],
        lambda t: torch.searchsorted(t.flatten().sort()[0], t),
        lambda t: t.kthvalue(2)[0],
        lambda t: torch.bincount((t.flatten() * 2).round().long().abs()),
    ):
        same(f(y), f(x))


@check
def einsum_linalg_and_fft() -> None:
    x = numbers(3, 3)
    y = x.to(DEVICE)
    for f in (
        lambda t: torch.einsum("ij,kj->ik", t, t),
        lambda t: torch.linalg.inv(t),
        lambda t: torch.linalg.norm(t),
        lambda t: torch.linalg.svd(t)[1],
        lambda t: torch.fft.rfft(t).abs(),
        lambda t: torch.linalg.solve(t, t),
    ):
        torch.testing.assert_close(f(y).cpu(), f(x), rtol=1e-3, atol=1e-3)


@check
def images() -> None:
    x = numbers(1, 2, 5, 5)
    y = x.to(DEVICE)
    grid = torch.zeros(1, 3, 3, 2)
    for f in (
        lambda t: F.interpolate(t, scale_factor=2),
        lambda t: F.interpolate(t, size=7, mode="bilinear"),
        lambda t: F.pad(t, (1, 1, 0, 2), mode="reflect"),
        lambda t: F.unfold(t, 2),
        lambda t: F.grid_sample(t, grid.to(t.device), align_corners=False),
        lambda t: F.avg_pool2d(t, 2),
        lambda t: F.pixel_shuffle(t.repeat(1, 2, 1, 1), 2),
    ):
        same(f(y), f(x))


@check
def in_place_operators_on_lists() -> None:
    xs = [torch.ones(3, device=DEVICE), torch.ones(2, device=DEVICE)]
    torch._foreach_add_(xs, 1)
    torch._foreach_mul_(xs, [2.0, 3.0])
    same(xs[0], [4.0] * 3)
    same(xs[1], [6.0] * 2)
    same(torch.stack(torch._foreach_norm(xs)), [4 * 3**0.5, 6 * 2**0.5])


# ---- torch.compile, profilers, interchange


def function(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + 1).relu().sum()


@check
def compiled_functions() -> None:
    x = numbers(5).to(DEVICE).requires_grad_()
    compiled = torch.compile(function)
    same(compiled(x).detach(), function(x).detach())
    (grad,) = torch.autograd.grad(compiled(x), x)
    same(grad, torch.autograd.grad(function(x), x)[0])


@check
def compiled_modules_and_options() -> None:
    x = numbers(4, 8).to(DEVICE)
    net = mlp().to(DEVICE)
    expected = net(x).detach()
    same(torch.compile(net, mode="max-autotune", dynamic=True)(x).detach(), expected)
    same(torch.compile(net, fullgraph=True, options={"triton.cudagraphs": True})(x).detach(), expected)
    decorated = torch.compile(dynamic=False)(function)
    same(decorated(x), function(x))
    net.compile()
    same(net(x).detach(), expected)


@check
def a_compiler_of_one_s_own_is_used() -> None:
    seen: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        seen.append(len(list(graph.graph.nodes)))
        return graph.forward

    torch.compile(function, backend=backend)(numbers(5).to(DEVICE))
    assert seen


@check
def scripted_and_traced_modules() -> None:
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).to(DEVICE)
    x = numbers(3, 8).to(DEVICE)
    for compiled in (torch.jit.script(net), torch.jit.trace(net, x)):
        for _ in range(3):  # the executor optimizes after the first
            y = compiled(x)
            y.sum().backward()
        same(y, net(x))
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(net), file)
    file.seek(0)
    same(torch.jit.load(file, map_location=DEVICE)(x), net(x))


@check
def exported_modules() -> None:
    net = nn.Linear(8, 4).to(DEVICE)
    x = numbers(3, 8).to(DEVICE)
    same(torch.export.export(net, (x,)).module()(x), net(x))


@check
def the_profiler() -> None:
    with torch.profiler.profile() as profile:
        torch.ones(3, device=DEVICE).exp()
    assert "aten::exp" in {event.key for event in profile.key_averages()}


@check(only=("cuda", "mps", "xpu"))
def dlpack() -> None:
    x = torch.ones(2, device=DEVICE)
    assert torch.from_dlpack(x).device == x.device


@check(only=("npu", "mtia"))
def dlpack_is_refused_by_torch() -> None:
    with refused(f"Unknown device type {KIND} for Dlpack", error=ValueError):
        torch.from_dlpack(torch.ones(2, device=DEVICE))


@check
def sparse_tensors() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]], device=DEVICE)
    sparse = x.to_sparse()
    assert sparse.is_sparse and sparse.device == sparse.values().device == x.device
    same(sparse.to_dense(), x)
    same(sparse @ x, x @ x)
    same(sparse.cpu().to_dense(), x)
    same((sparse + sparse).coalesce().values(), [2.0, 4.0])
    with refused("on the same device"):
        sparse @ x.cpu()


@check(but=("mtia",))  # torch.sparse has no constructor for "SparseMTIA"
def sparse_gradients_of_an_embedding() -> None:
    def run(device: object) -> torch.Tensor:
        torch.manual_seed(0)
        net = nn.Embedding(9, 4, sparse=True).to(device)
        opt = torch.optim.SparseAdam(net.parameters(), lr=0.1)
        net(torch.tensor([1, 2, 1], device=device)).square().sum().backward()
        assert net.weight.grad.is_sparse and net.weight.grad.device == net.weight.device
        opt.step()
        return net.weight.detach()

    same(run(DEVICE), run("cpu"))


@check
def types_that_the_cpu_s_kernels_alone_lack() -> None:
    mask = torch.tensor([True, False, True], device=DEVICE)
    there = torch.zeros(0, dtype=torch.bool, device=DEVICE)
    assert torch.abs(mask, out=there) is there and there.tolist() == [True, False, True]
    assert mask.abs().sum().item() == 2 and mask.clone().abs_().dtype == torch.bool
    assert torch.eye(3, dtype=torch.bool, device=DEVICE).trace().item() == 3
    whole = torch.tensor([1, 2, 2, 9], device=DEVICE)
    if KIND != "mps":
        assert torch.histc(whole, 3, 0, 3).tolist() == [0, 1, 2]
        volume = torch.rand(1, 1, 4, 4, 4).half()
        pooled = torch.nn.functional.avg_pool3d(volume.to(DEVICE), 2)
        assert pooled.dtype == torch.float16
        same(pooled, torch.nn.functional.avg_pool3d(volume.float(), 2).half())
