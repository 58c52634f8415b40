"""DistributedDataParallel on two simulated devices: losses and weights of the same training with gloo on the CPU."""

from __future__ import annotations

import contextlib
import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch._dynamo  # which DistributedDataParallel imports: here once, not in each rank
import torch.distributed as dist
from checks import KIND, check, refused
from ranks import LIBRARY, here, ranks
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

warnings.simplefilter("ignore")
SMALL = {"bucket_cap_mb": 0.001}  # several buckets
STEPS = 4

Step = Callable[[nn.Module, int], Any]


class Net(nn.Module):
    """With a branch that is used in every other step only, if asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.middle, self.last = (
            nn.Linear(8, 16),
            nn.BatchNorm1d(16),
            nn.Linear(16, 16),
            nn.Linear(16, 4),
        )

    def forward(self, x: Tensor, whole: bool = True) -> Tensor:
        h = torch.relu(self.norm(self.first(x)))
        return self.last(self.middle(h) if whole else h)


def data(rank: int) -> DataLoader:
    generator = torch.Generator().manual_seed(1)
    made = TensorDataset(torch.randn(64, 8, generator=generator), torch.randint(4, (64,), generator=generator))
    return DataLoader(made, batch_size=8, sampler=DistributedSampler(made, seed=3))


def train(device: torch.device, options: dict, prepare: Callable[[Any], Any], context: Step, arguments: Step) -> list:
    """Losses of one epoch, then the weights and buffers."""
    torch.manual_seed(0)
    net = Net().to(device)
    net = prepare(
        DistributedDataParallel(net, device_ids=None if device.type == "cpu" else [device], **SMALL, **options)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step, (x, y) in enumerate(data(dist.get_rank())):
        with context(net, step):
            loss = nn.functional.cross_entropy(net(x.to(device), *arguments(net, step)), y.to(device))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert len(losses) == STEPS
    return losses + [v.cpu().tolist() for v in net.state_dict().values()]


def trains_as_on_the_cpu(
    prepare: Callable[[Any], Any] = lambda net: net,
    context: Step = lambda net, step: contextlib.nullcontext(),
    arguments: Step = lambda net, step: (),
    **options: Any,
) -> list:
    """Exactly: the kernels and the order of additions are the same."""
    expected = ranks(lambda rank: train(torch.device("cpu"), options, prepare, context, arguments), "gloo")
    actual = ranks(lambda rank: train(here(), options, prepare, context, arguments))
    assert actual == expected
    return actual


@check(only=("cuda", "xpu", "npu"))
def gradients_are_averaged() -> None:
    first, second = trains_as_on_the_cpu()
    assert first[:STEPS] != second[:STEPS] and first[STEPS] == second[STEPS]


@check(only=("cuda", "xpu", "npu"))
def gradients_as_views_of_the_buckets() -> None:
    trains_as_on_the_cpu(gradient_as_bucket_view=True)


@check(only=("cuda", "xpu", "npu"))
def unused_parameters_are_found() -> None:
    trains_as_on_the_cpu(arguments=lambda net, step: (step % 2 == 0,), find_unused_parameters=True)


@check(only=("cuda", "xpu", "npu"))
def unused_parameters_that_nobody_looks_for() -> None:
    def run(rank: int) -> None:
        with refused("Expected to have finished reduction in the prior iteration"):
            unused = lambda net, step: (False,)  # noqa: E731
            train(here(), {}, lambda net: net, lambda net, step: contextlib.nullcontext(), unused)

    ranks(run)


@check(only=("cuda", "xpu", "npu"))
def a_static_graph() -> None:
    trains_as_on_the_cpu(static_graph=True)


@check(only=("cuda", "xpu", "npu"))
def steps_without_synchronization() -> None:
    trains_as_on_the_cpu(context=lambda net, step: contextlib.nullcontext() if step % 2 else net.no_sync())


@check(only=("cuda", "xpu", "npu"))
def a_compressing_hook() -> None:
    def compress(net: Any) -> Any:
        net.register_comm_hook(None, fp16_compress_hook)
        return net

    trains_as_on_the_cpu(compress)


@check(only=("cuda", "xpu", "npu"))
def a_hook_on_the_works_future() -> None:
    def halve(state, bucket):  # torch wants no other annotations than its own
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / 2)

    def hook(net: Any) -> Any:
        net.register_comm_hook(None, halve)
        return net

    trains_as_on_the_cpu(hook)


@check(only=("cuda", "xpu", "npu"))
def uneven_inputs_join() -> None:
    def run(rank: int) -> list:
        torch.manual_seed(0)
        net = DistributedDataParallel(nn.Linear(2, 1).to(here()), device_ids=[here()])
        with net.join():
            for _ in range(1 + rank):
                net.zero_grad()
                net(torch.ones(1, 2, device=here())).sum().backward()
        return [p.grad.tolist() for p in net.parameters()]

    assert ranks(run)[1] == [[[0.5, 0.5]], [0.5]]  # divided by two to the end


@check(only=("cuda", "xpu", "npu"))
def the_processes_start_from_rank_0() -> None:
    def run(rank: int) -> list:
        torch.manual_seed(rank)
        return DistributedDataParallel(nn.Linear(3, 2).to(here()), device_ids=[rank]).module.weight.tolist()

    first, second = ranks(run)
    assert first == second


@check(only=("cuda", "xpu", "npu"))
def synchronized_batch_norm_is_batch_norm_of_the_whole_batch() -> None:
    x = torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(0))
    weights = torch.arange(96.0).view(8, 3, 4).cos()  # so that gradients differ

    def step(norm: nn.Module, part: Tensor, weight: Tensor) -> list[Tensor]:
        part = part.clone().requires_grad_()
        (norm(part) * weight).sum().backward()
        return [part.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var]

    def parted(rank: int) -> list:
        norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3)).to(here())
        mine = slice(0, 3) if rank == 0 else slice(3, 8)
        part = step(norm, x[mine].to(here()), weights[mine].to(here()))
        return [t.detach().cpu().numpy() for t in (*part, *step(nn.BatchNorm1d(3), x, weights))]

    (first, whole), (second, _) = ((told[:5], told[5:]) for told in ranks(parted))
    close = torch.testing.assert_close
    close(numpy.concatenate([first[0], second[0]]), whole[0], rtol=1e-5, atol=1e-6)
    for i in (1, 2):  # this process's part of the sums over the batch
        close(first[i] + second[i], whole[i], rtol=1e-5, atol=1e-5)
    for i in (3, 4):
        close(first[i], whole[i])
        close(second[i], whole[i])


def sharded(wrap: Callable[[nn.Module], nn.Module]) -> Callable[[int], list]:
    """Losses of a training whose weights are shared out."""

    def run(rank: int) -> list:
        torch.manual_seed(0)
        net = wrap(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(here()))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for x, y in data(rank):
            loss = nn.functional.cross_entropy(net(x.to(here())), y.to(here()))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    return run


def sharded_in_place(net: nn.Module) -> nn.Module:
    fully_shard(net)
    return net


@check(only=("cuda", "xpu", "npu"))
def sharded_weights_train_as_replicated_ones() -> None:
    torch.testing.assert_close(ranks(sharded(FullyShardedDataParallel)), ranks(sharded(DistributedDataParallel)))


@check(only=("cuda", "xpu"))
def weights_sharded_in_place_train_as_replicated_ones() -> None:
    torch.testing.assert_close(ranks(sharded(sharded_in_place)), ranks(sharded(DistributedDataParallel)))


@check(only=("npu",))
def fully_shard_averages_which_hccl_does_not() -> None:
    """An NPU's own package changes fully_shard for that; the simulation does not."""

    def run(rank: int) -> None:
        with refused("Cannot use ReduceOp.AVG with HCCL"):
            sharded(sharded_in_place)(rank)

    ranks(run)


@check(only=("mps",))
def synchronized_batch_norm_is_not_for_mps() -> None:
    def run(rank: int) -> None:
        with refused("SyncBatchNorm expected input tensor to be on", error=ValueError):
            nn.SyncBatchNorm(3).to("mps")(torch.ones(2, 3, device="mps"))

    ranks(run, "gloo")


@check(only=("mps",))
def mps_trains_with_gloo_on_no_device() -> None:
    def run(rank: int) -> None:
        with refused("is not currently implemented for the MPS device", error=NotImplementedError):
            DistributedDataParallel(nn.Linear(2, 2).to("mps"))

    ranks(run, "gloo")


@check(only=("xpu", "npu"))
def gloo_trains_on_no_such_device() -> None:
    def run(rank: int) -> None:
        with refused(f"No backend type associated with device type {KIND}"):
            DistributedDataParallel(nn.Linear(2, 2).to(here()), device_ids=[rank])

    ranks(run, "gloo")


@check(only=("cuda",))
def gloo_trains_on_cuda() -> None:
    def run(rank: int) -> list:
        nothing = lambda net, step: contextlib.nullcontext()  # noqa: E731
        return train(here(), {}, lambda net: net, nothing, lambda net, step: ())

    assert ranks(run, "gloo") == ranks(run, LIBRARY)


@check(only=("cuda", "xpu", "npu"))
def a_group_that_only_a_module_holds_ends_with_work_under_way() -> None:
    """Gloo's threads need Python's lock to drop what a work has kept, and the module is dropped under that lock."""

    def run(rank: int) -> None:
        signal.alarm(60)  # ends a rank that hangs
        torch._C._stash_obj_in_tls("kept", object())
        for _ in range(5):
            group = [dist.new_group([each]) for each in range(2)][rank]
            net = DistributedDataParallel(nn.Linear(3, 2).to(here()), device_ids=[here()], process_group=group)
            for _ in range(200):
                dist.all_reduce(torch.ones(100_000, device=here()), group=group, async_op=True)
            dist.destroy_process_group(group)
            del group, net
        signal.alarm(0)

    ranks(run)
