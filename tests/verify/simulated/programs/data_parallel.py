"""torch.nn.DataParallel and torch.cuda.nccl on two simulated CUDA devices."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.parallel.comm as comm
from checks import check, refused, same
from torch import Tensor, nn
from torch.nn.parallel import data_parallel, replicate


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, inputs: dict[str, Tensor], *, scale: float) -> dict[str, Any]:
        logits = self.last(torch.relu(self.first(inputs["x"]))) * scale
        assert self.first.weight.device == logits.device == torch.device("cuda", torch.cuda.current_device())
        return {"logits": logits, "ran": torch.ones(1, device=logits.device)}


def losses(devices: list[int] | None) -> tuple[list[float], int]:
    """Of five steps, without DataParallel or with it; and on how many devices the net ran."""
    torch.manual_seed(0)
    net = Net().cuda()
    wrapped = net if devices is None else nn.DataParallel(net, devices)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1)
    told = []
    for _ in range(5):
        x, y = torch.randn(10, 8, generator=generator), torch.randint(4, (10,), generator=generator).cuda()
        out = wrapped({"x": x.cuda() if devices is None else x}, scale=2.0)
        loss = nn.functional.cross_entropy(out["logits"], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told.append(loss.item())
    return told, int(out["ran"].sum())


def on(index: int, *values: float) -> Tensor:
    return torch.tensor(values, device=f"cuda:{index}")


@check(only=("cuda",))
def one_device_trains_as_without() -> None:
    assert losses([0]) == losses(None)


@check(only=("cuda",))
def two_devices_train_as_without() -> None:
    expected, _ = losses(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual, devices = losses([0, 1])
    assert devices == 2
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0)


@check(only=("cuda",))
def all_devices_are_the_default() -> None:
    assert nn.DataParallel(nn.Linear(2, 2).cuda()).device_ids == [0, 1]


@check(only=("cuda",))
def a_batch_shorter_than_the_devices_uses_fewer() -> None:
    net = nn.DataParallel(nn.Linear(2, 3).cuda())
    x = torch.ones(1, 2, device="cuda")
    same(net(x), net.module(x))


@check(only=("cuda",))
def buffers_are_the_first_devices() -> None:
    norm = nn.DataParallel(nn.BatchNorm1d(2, momentum=1.0).cuda())
    norm(torch.tensor([[1.0, 2.0], [3.0, 4.0], [50.0, 60.0], [70.0, 80.0]], device="cuda"))
    same(norm.module.running_mean, [2.0, 3.0])


@check(only=("cuda",))
def replicas_are_where_they_belong() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).cuda()
    copies = replicate(net, [0, 1])
    assert [c[0].weight.get_device() for c in copies] == [0, 1]
    assert [c[1].running_mean.get_device() for c in copies] == [0, 1]
    same(copies[1][0].weight, net[0].weight)


@check(only=("cuda",))
def gradients_reach_the_module() -> None:
    layer = nn.Linear(2, 1).cuda()
    data_parallel(layer, torch.ones(4, 2, device="cuda"), [0, 1]).sum().backward()
    same(layer.weight.grad, [[4.0, 4.0]])
    assert layer.weight.grad.get_device() == 0


@check(only=("cuda",))
def the_output_device_is_chosen() -> None:
    out = nn.DataParallel(nn.Linear(2, 2).cuda(), output_device=1)(torch.ones(4, 2, device="cuda"))
    assert out.get_device() == 1


@check(only=("cuda",))
def scalars_become_a_vector() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same(nn.DataParallel(Mean().cuda())(torch.tensor([1.0, 3.0, 5.0, 7.0], device="cuda")), [2.0, 6.0])
    assert any("will instead unsqueeze" in str(w.message) for w in told)


@check(only=("cuda",))
def a_module_on_the_cpu_is_refused() -> None:
    with refused("must have its parameters and buffers on device cuda:0", "cpu"):
        nn.DataParallel(nn.Linear(2, 2))(torch.ones(4, 2))


@check(only=("cuda",))
def a_tensor_that_the_module_keeps_stays_on_its_device() -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = torch.ones(2, device="cuda:0")  # no buffer: replicas share it

        def forward(self, x: Tensor) -> Tensor:
            return x * self.kept

    with refused("Expected all tensors to be on the same device", "cuda:1", "cuda:0"):
        nn.DataParallel(Kept())(torch.ones(4, 2, device="cuda"))


@check(only=("cuda",))
def scatter_and_gather() -> None:
    x = torch.arange(6.0)
    first, second = comm.scatter(x, [0, 1])
    assert (first.get_device(), second.get_device()) == (0, 1)
    same(comm.gather([first, second]), x)
    assert comm.gather([first, second], destination=1).get_device() == 1
    assert comm.gather([first, second], destination="cpu").device.type == "cpu"
    assert [part.tolist() for part in comm.scatter(x, [1, 0], [2, 4])] == [[0.0, 1.0], [2.0, 3.0, 4.0, 5.0]]
    rows = comm.scatter(x.view(2, 3), [0, 1], [1, 2], dim=1)
    assert [row.tolist() for row in rows] == [[[0.0], [3.0]], [[1.0, 2.0], [4.0, 5.0]]]
    with refused("given chunk sizes don't sum up to the tensor's size (sum(chunk_sizes) == 3, but expected 6)"):
        comm.scatter(x, [0, 1], [1, 2])
    with refused("Gather expects all inputs to have CUDA type"):
        comm.gather([x, x])


@check(only=("cuda",))
def scatter_and_gather_into_tensors() -> None:
    out = [torch.zeros(1, device="cuda:1"), torch.zeros(2, device="cuda:0")]
    comm.scatter(torch.arange(3.0), out=out)
    whole = torch.zeros(3, device="cuda:1")
    same(comm.gather(out, out=whole), [0.0, 1.0, 2.0])
    same(whole, [0.0, 1.0, 2.0])


@check(only=("cuda",))
def broadcast_and_reduce() -> None:
    x = on(0, 1.0, 2.0)
    copies = comm.broadcast(x, [0, 1])
    assert copies[0] is x and copies[1].get_device() == 1
    same(copies[1], x)
    with refused("device of broadcasted tensor must appear as the first on devices list"):
        comm.broadcast(x, [1, 0])
    out = [torch.zeros(2, device="cuda:1")]
    comm.broadcast(x, out=out)
    same(out[0], x)
    total = comm.reduce_add([x, on(1, 10.0, 20.0)], destination=1)
    assert total.get_device() == 1
    same(total, [11.0, 22.0])


@check(only=("cuda",))
def coalesced_copies_do_not_share_a_version() -> None:
    (_, _), (first, second) = comm.broadcast_coalesced([on(0, 1.0), on(0, 2.0)], [0, 1])
    first.add_(1)
    assert (first._version, second._version) == (1, 0)


@check(only=("cuda",))
def nccl_in_one_process() -> None:
    nccl = torch.cuda.nccl
    x = [on(0, 1.0, 2.0), on(1, 10.0, 20.0)]
    nccl.all_reduce(x)
    assert [t.tolist() for t in x] == [[11.0, 22.0]] * 2
    nccl.broadcast([on(0, 5.0, 6.0), x[1]])
    same(x[1], [5.0, 6.0])
    nccl.all_gather(x, wholes := [torch.zeros(4, device=f"cuda:{i}") for i in (0, 1)])
    assert [t.tolist() for t in wholes] == [[11.0, 22.0, 5.0, 6.0]] * 2
    nccl.reduce_scatter(wholes, parts := [torch.zeros(2, device=f"cuda:{i}") for i in (0, 1)])
    assert [t.tolist() for t in parts] == [[22.0, 44.0], [10.0, 12.0]]
    nccl.reduce(parts, total := torch.zeros(2, device="cuda:0"))
    same(total, [32.0, 56.0])


@check(only=("xpu", "npu"))
def other_backends_cannot() -> None:
    """Their torch has none of these functions either."""
    net = nn.DataParallel(nn.Linear(2, 2).to("xpu" if torch.xpu.is_available() else "npu"), [0, 1])
    with refused("has no attribute '_scatter'", error=AttributeError):
        net(torch.ones(4, 2))
