"""Where tensors are, and whose memory they share."""

from __future__ import annotations

import copy

import torch
from checks import DEVICE, KIND, MODULE, check, refused, same
from nets import numbers
from torch import nn

accelerator = torch.accelerator


@check
def torch_names_it_the_accelerator() -> None:
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == torch.device(KIND)
    assert accelerator.current_accelerator(check_available=True) == torch.device(KIND)
    assert accelerator.device_count() == (1 if KIND == "mps" else 2)
    assert accelerator.current_device_index() == 0
    assert MODULE.is_available()


@check
def only_this_backend_is_there() -> None:
    there = {kind: torch.get_device_module(kind).is_available() for kind in ("cuda", "xpu", "mps", "mtia")}
    assert [kind for kind, is_there in there.items() if is_there] == ([KIND] if KIND != "npu" else [])


@check(but=("cuda",))
def cuda_stays_absent() -> None:
    with refused("Torch not compiled with CUDA enabled", error=AssertionError):
        torch.ones(1).cuda()
    with refused("Torch not compiled with CUDA enabled", error=AssertionError):
        torch.ones(1, device="cuda")


@check
def a_tensor_says_where_it_is() -> None:
    x = torch.ones(2).to(DEVICE)
    assert (x.device.type, x.device.index, x.get_device()) == (KIND, 0, 0)
    assert getattr(x, f"is_{KIND}") and not x.is_cpu
    assert f"device='{KIND}:0'" in repr(x)
    assert x.type() == f"torch.{KIND}.FloatTensor"


@check
def there_and_back() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64):
        x = numbers(4, 3).to(dtype)
        assert torch.equal(x.to(DEVICE).cpu(), x), dtype


@check
def strided_tensors_keep_their_strides() -> None:
    x = numbers(4, 6).t()
    y = x.to(DEVICE)
    assert y.stride() == x.stride()
    assert torch.equal(y.cpu(), x)
    assert torch.equal(y[::2, 1:3].cpu(), x[::2, 1:3])
    image = numbers(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert image.to(DEVICE).is_contiguous(memory_format=torch.channels_last)


@check
def every_factory_takes_the_device() -> None:
    made = [
        *(f(2, 3, device=DEVICE) for f in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn)),
        torch.full((2,), 3.0, device=DEVICE),
        torch.arange(5, device=DEVICE),
        torch.linspace(0, 1, 5, device=DEVICE),
        torch.eye(3, device=DEVICE),
        torch.tensor([1, 2], device=DEVICE),
        torch.as_tensor([1.0], device=DEVICE),
        torch.randint(9, (3,), device=DEVICE),
        torch.randperm(5, device=DEVICE),
        torch.tril_indices(3, 3, device=DEVICE),
        torch.hann_window(5, device=DEVICE),
        torch.empty_strided((2, 2), (1, 2), device=DEVICE),
        torch.scalar_tensor(1.0, device=DEVICE),
    ]
    assert {x.device for x in made} == {torch.device(KIND, 0)}


@check
def like_and_new_stay_on_the_device() -> None:
    x = torch.ones(2, device=DEVICE)
    made = [torch.zeros_like(x), torch.rand_like(x), x.new_tensor([1.0]), x.new_zeros(3), torch.full_like(x, 2.0)]
    assert {y.device for y in made} == {x.device}


@check
def the_default_device() -> None:
    torch.set_default_device(DEVICE)
    try:
        assert torch.ones(2).device == torch.device(KIND, 0)
        assert nn.Linear(2, 2).weight.device == torch.device(KIND, 0)
    finally:
        torch.set_default_device(None)
    with torch.device(DEVICE):
        assert torch.arange(3).device.type == KIND
    assert torch.ones(2).device.type == "cpu"


@check
def an_integer_is_a_device() -> None:
    assert torch.ones(2).to(0).device == torch.device(KIND, 0)
    assert torch.device(0) == torch.device(KIND, 0)
    assert torch.ones(2, device=0).device == torch.device(KIND, 0)


@check
def item_tolist_and_bool_read_from_the_device() -> None:
    x = torch.tensor([1.5, 2.5], device=DEVICE)
    assert (x[0].item(), x.tolist(), float(x[1]), int(x[1]), bool(x[0] > 1)) == (1.5, [1.5, 2.5], 2.5, 2, True)
    assert f"{x[0]:.2f}" == "1.50"
    assert torch.tensor([x[0], x[1]]).device.type == "cpu"


@check
def numpy_is_refused_with_torch_s_words() -> None:
    x = torch.ones(2, device=DEVICE)
    with refused("can't convert", "numpy", "Tensor.cpu()", error=TypeError):
        x.numpy()
    with refused("can't convert", error=TypeError):
        __import__("numpy").asarray(x)
    assert x.cpu().numpy().sum() == 2


@check
def its_capability_is_told() -> None:
    supported = accelerator.get_device_capability()["supported_dtypes"]
    assert torch.float32 in supported
    assert (torch.float64 in supported) == (KIND != "mps")


# ---- views and memory


@check
def views_write_through() -> None:
    def write(device: object) -> torch.Tensor:
        z = torch.zeros(3, 4, device=device)
        z[1] = 5
        z.t()[2, :] = 1
        z[:, 0].add_(2)
        z.view(-1)[3] = 9
        z[z > 4] += 1
        z.unfold(1, 2, 2).mul_(2)
        z.diagonal().copy_(torch.arange(3.0))
        z.chunk(2, 1)[1].sub_(1)
        return z

    same(write(DEVICE), write("cpu"))


@check
def views_share_memory() -> None:
    x = torch.zeros(4, 3, device=DEVICE)
    views = [x[1:], x.t(), x.view(3, 4), x.flatten(), x.detach(), x[None], x.view(torch.int32), x.expand(2, 4, 3)]
    assert {v.untyped_storage().data_ptr() for v in views} == {x.untyped_storage().data_ptr()}


@check
def complex_views() -> None:
    x = torch.view_as_complex(numbers(4, 2)).to(DEVICE)
    same(torch.view_as_real(x), torch.view_as_real(x.cpu()))
    same(x.conj().imag, -x.imag.cpu())
    same((x.conj() * x).real, x.abs().cpu() ** 2)
    same(x.real, x.cpu().real)


@check
def out_arguments() -> None:
    x = torch.ones(4, 3, device=DEVICE)
    grown = torch.add(x, x, out=torch.empty(0, device=DEVICE))
    assert grown.shape == (4, 3)
    part = torch.zeros(8, 3, device=DEVICE)
    torch.mul(x, 3, out=part[::2])
    same(part, torch.tensor([3.0, 0.0]).repeat(4).unsqueeze(1).expand(8, 3))
    values, indices = torch.empty(0, device=DEVICE), torch.empty(0, dtype=torch.long, device=DEVICE)
    torch.max(x.cumsum(0), 0, out=(values, indices))
    same(values, [4.0] * 3)
    same(indices, [3] * 3)


@check
def overlapping_memory_is_refused_as_on_the_cpu() -> None:
    x = torch.zeros(5, device=DEVICE)
    with refused("unsupported operation", "memory"):
        x[1:].add_(x[:-1].expand(4)).add(0, out=x[:1].expand(4))


@check
def deepcopy_and_parameters() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(DEVICE)
    twin = copy.deepcopy(module)
    assert {p.device for p in [*twin.parameters(), *twin.buffers()]} == {torch.device(KIND, 0)}
    assert twin[0].weight.data_ptr() != module[0].weight.data_ptr()
    same(twin[0].weight, module[0].weight)


@check
def modules_are_made_on_the_device() -> None:
    assert nn.Linear(2, 2, device=DEVICE).weight.device.type == KIND
    meta = nn.Linear(2, 2, device="meta").to_empty(device=DEVICE)
    assert meta.weight.device.type == KIND
