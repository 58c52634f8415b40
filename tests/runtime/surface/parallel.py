"""Several devices, several processes: the backend of collectives, DDP, DataParallel."""

from __future__ import annotations

import contextlib
import copy
import pickle
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from . import KIND, ON_CUDA, accel, check, here, numbers, same

BACKEND = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl"}


@check
def the_backend_of_collectives() -> None:
    assert accel.dist_backend() == accel.dist_backend("nccl") == BACKEND.get(KIND, "gloo")
    assert accel.dist_backend("gloo") == "gloo"
    assert accel.dist_backend("mpi") == "mpi"


@contextlib.contextmanager
def group() -> Iterator[None]:
    """One process alone."""
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group(accel.dist_backend(), init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


NO_COLLECTIVES = ("mps", "mtia")  # no backend of collectives takes their tensors


@check(but=NO_COLLECTIVES)
def collectives() -> None:
    with group():
        x = numbers(3).to(accel.device(0))
        dist.all_reduce(x)
        dist.broadcast(x, src=0)
        gathered = [torch.empty_like(x)]
        dist.all_gather(gathered, x)
        dist.barrier(device_ids=accel.device_ids(0))
        same(gathered[0], numbers(3))


@check
def batch_norms_that_are_converted() -> None:
    made = type(accel.convert_sync_batchnorm(torch.nn.BatchNorm1d(3))).__name__
    assert made == ("BatchNorm1d" if KIND in ("cpu", "mps") else "SyncBatchNorm")


@check(but=NO_COLLECTIVES)
def synchronized_batch_norms() -> None:
    with group():
        made = accel.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.BatchNorm1d(3)), process_group=None)
        wrapped = torch.nn.parallel.DistributedDataParallel(made.to(accel.device(0)), device_ids=accel.device_ids(0))
        wrapped(numbers(4, 3).to(accel.device(0))).sum().backward()


@check(but=NO_COLLECTIVES)
def ddp() -> None:
    with group():
        model = torch.nn.Linear(3, 2).to(accel.device(0))
        wrapped = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=accel.device_ids(0), output_device=accel.output_device(0)
        )
        wrapped(numbers(4, 3).to(accel.device(0))).sum().backward()
        assert model.weight.grad.device == here(0)


def data_parallel(*ids: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return accel.data_parallel(torch.nn.Linear(3, 2).to(accel.device(0)), device_ids=ids, output_device=0)


def trains(model: torch.nn.Module, x: torch.Tensor) -> None:
    out = model(x)
    assert (out.device, tuple(out.shape)) == (here(0), (4, 2))
    out.sum().backward()
    same(model.module.weight.grad, numbers(4, 3).sum(0).expand(2, 3))


@check
def data_parallel_on_one_device() -> None:
    trains(data_parallel(0), numbers(4, 3).to(accel.device(0)))


@check(least=2)
def data_parallel_on_two_devices() -> None:
    """Both on CUDA, the first elsewhere."""
    trains(data_parallel(0, 1), numbers(4, 3).to(accel.device(0)))


@check
def data_parallel_takes_its_input_to_the_module() -> None:
    trains(data_parallel(0), numbers(4, 3))


TORCH_S_OWN = ("cuda",)  # where DataParallel is torch's own, which takes the module to the first device at once


@check(but=TORCH_S_OWN)
def data_parallel_leaves_a_module_on_the_cpu_that_is_kept_there() -> None:
    """`net.to("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")` ran there before."""
    for ids in ((), ([0],), (None, None)):
        model = accel.data_parallel(torch.nn.Linear(3, 2).to("cpu"), *ids)
        assert torch.nn.functional.mse_loss(model(numbers(4, 3)), torch.ones(4, 2)).device.type == "cpu"
        assert model.module.weight.device.type == "cpu"


@check
def data_parallel_goes_where_it_is_moved() -> None:
    trains(accel.data_parallel(torch.nn.Linear(3, 2).to(accel.device(0))).to(accel.device(0)), numbers(4, 3))
    if not ON_CUDA:
        model = accel.data_parallel(torch.nn.Linear(3, 2)).to(accel.device(0))
        trains(model, numbers(4, 3))
        assert model.cpu()(numbers(4, 3)).device.type == "cpu"


@check(but=TORCH_S_OWN)
def data_parallel_takes_a_module_that_nobody_moves_to_its_input() -> None:
    """As DataParallel takes it to the first GPU; an optimizer that knows the weights keeps them."""
    model = accel.data_parallel(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out = model(numbers(4, 3).to(accel.device(0)))
    (out * numbers(4, 2).to(accel.device(0))).sum().backward()
    optimizer.step()
    assert {x.device for x in (out, *model.parameters(), *model.buffers())} == {here(0)}
    assert model.module[1].bias.tolist() != [0.0, 0.0]


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Devices(torch.nn.Module):
    def forward(self, *inputs: Any, **options: Any) -> Any:
        pair, items, mapping, text = inputs
        found = [pair.left, pair.right, *items, mapping["x"], options["y"]]
        assert (type(pair), type(items), text) == (Pair, list, "a")
        assert {x.device for x in found} == {here(0)}
        return found[0]


@check
def data_parallel_scatters_what_holds_tensors() -> None:
    x = numbers(4, 3)
    module = Devices()
    module.register_buffer("scale", torch.ones(1, device=accel.device(0)))
    accel.data_parallel(module, device_ids=[0])(Pair(x, x), [x, x], {"x": x}, "a", y=x)


class Heir(torch.nn.DataParallel):
    def replicate(self, module: Any, device_ids: Any) -> Any:
        raise AssertionError("one device needs no replicas")


@check
def data_parallel_of_an_heir() -> None:
    torch.manual_seed(0)
    model = accel.data_parallel(torch.nn.Linear(3, 2).to(accel.device(0)), device_ids=[0], cls=Heir)
    assert type(model) is Heir
    trains(model, numbers(4, 3))


@check
def data_parallel_is_one() -> None:
    """To isinstance, in a checkpoint, when copied and when pickled."""
    model = data_parallel(0)
    assert type(model) is torch.nn.DataParallel
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    trains(copy.deepcopy(model), numbers(4, 3))
    trains(pickle.loads(pickle.dumps(model)), numbers(4, 3))
