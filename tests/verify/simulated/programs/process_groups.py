"""Which library a process group has for which tensors, and what it refuses."""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
import torch.distributed as dist
from checks import KIND, MODULE, check, refused
from ranks import LIBRARY, empty, here, ranks, reduced, tensor

warnings.simplefilter("ignore")
Op = dist.ReduceOp


@check(only=("cuda", "xpu", "npu"))
def a_group_has_its_librarys_name_and_only_its_device() -> None:
    def run(rank: int) -> list:
        group = dist.group.WORLD
        return [dist.get_backend(), group._get_backend(here()).name(), [d.type for d in group._device_types]]

    assert ranks(run) == [[LIBRARY, LIBRARY, [KIND]]] * 2


@check(only=("cuda", "xpu", "npu"))
def without_a_name_it_is_the_devices_own() -> None:
    def run(rank: int) -> list:
        return [str(dist.get_backend_config()), dist.get_default_backend_for_device(KIND), reduced(Op.SUM)(rank)]

    assert ranks(run, None) == [[f"{KIND}:{LIBRARY}", LIBRARY, [3.0, 9.0]]] * 2


@check(only=("cuda", "xpu", "npu"))
def cpu_tensors_are_refused() -> None:
    def run(rank: int) -> None:
        with refused("No backend type associated with device type cpu"):
            dist.all_reduce(torch.ones(1))
        with refused("Tensors must be", "dense", error=ValueError):
            dist.all_gather([torch.ones(1)] * 2, tensor([1.0]))

    ranks(run)


@check(only=("cuda", "xpu", "npu"))
def a_tensor_that_is_not_contiguous_is_refused() -> None:
    def run(rank: int) -> None:
        with refused("Tensors must be contiguous", error=ValueError):
            dist.all_reduce(empty(2, 3).t())

    ranks(run)


@check(only=("cuda", "xpu", "npu"))
def two_ranks_on_one_device_are_refused() -> None:
    def run(rank: int) -> None:
        MODULE.set_device(0)
        with refused("invalid usage", "Duplicate", f"both on {KIND}:0", error=dist.DistBackendError):
            dist.all_reduce(torch.ones(1, device=KIND))

    ranks(run)


@check(only=("cuda", "xpu", "npu"))
def two_libraries_in_one_group() -> None:
    def run(rank: int) -> list:
        on_cpu = torch.tensor([1.0])
        dist.all_reduce(on_cpu)
        return [reduced(Op.SUM)(rank), on_cpu.tolist()]

    assert ranks(run, f"cpu:gloo,{KIND}:{LIBRARY}") == [[[3.0, 9.0], [2.0]]] * 2


@check(only=("cuda", "xpu", "npu"))
def a_new_group_of_some() -> None:
    def run(rank: int) -> list:
        alone, both = dist.new_group([1]), dist.new_group([0, 1], backend="gloo")
        x, on_cpu = tensor([1.0]), torch.ones(1)
        dist.all_reduce(on_cpu, group=both)
        if rank == 1:
            dist.all_reduce(x, group=alone)
        return [dist.get_rank(alone), x.item(), on_cpu.item()]

    assert ranks(run) == [[-1, 1.0, 2.0], [0, 1.0, 2.0]]


@check(only=("cuda", "xpu", "npu"))
def a_group_bound_to_its_device() -> None:
    def run(rank: int) -> list:
        dist.barrier()
        group = dist.new_group([0, 1])
        x = tensor([1.0])
        dist.all_reduce(x, group=group)
        return [dist.group.WORLD.bound_device_id == here(), x.item()]

    assert ranks(run, device_id=lambda rank: torch.device(KIND, rank)) == [[True, 2.0]] * 2


@check(only=("cuda",))
def options_of_nccl() -> None:
    def options(rank: int) -> Any:
        made = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
        made.config.max_ctas = 4
        return made

    def run(rank: int) -> bool:
        return isinstance(dist.group.WORLD._get_backend(here()), dist.ProcessGroupNCCL)

    assert ranks(run, pg_options=options) == [True, True]


@check
def only_the_devices_own_library_is_there() -> None:
    available = {"nccl": dist.is_nccl_available(), "xccl": dist.is_xccl_available()}
    assert available == {"nccl": KIND == "cuda", "xccl": KIND == "xpu"}
    assert dist.is_gloo_available()


@check(but=("cuda",))
def nccl_elsewhere_is_refused() -> None:
    def run(rank: int) -> None:
        with refused("Distributed package doesn't have NCCL built in"):
            dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)

    ranks(run, joins=False)


@check(only=("mtia",))
def mtia_has_no_default() -> None:
    def run(rank: int) -> None:
        with refused("We detected accelerator mtia", "Please specify the `backend` argument", error=ValueError):
            dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)

    ranks(run, joins=False)


# ---- gloo


@check
def gloo_takes_cpu_tensors() -> None:
    def run(rank: int) -> list:
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x)
        dist.barrier()
        return x.tolist()

    assert ranks(run, "gloo") == [[3.0]] * 2


@check(only=("cuda",))
def gloo_takes_cuda_tensors() -> None:
    def run(rank: int) -> list:
        gathered = [empty(1), empty(1)]
        dist.all_gather(gathered, tensor([float(rank)]))
        bits = tensor([rank + 2])
        dist.all_reduce(bits, Op.BAND)
        return [reduced(Op.SUM)(rank), [t.item() for t in gathered], bits.item()]

    assert ranks(run, "gloo") == [[[3.0, 9.0], [0.0, 1.0], 2]] * 2


@check(only=("cuda",))
def gloo_sends_no_cuda_tensors() -> None:
    def run(rank: int) -> None:
        with refused("ProcessGroupGloo::send: unsupported device type cuda"):
            dist.send(tensor([1.0]), 1 - rank)
        with refused("ProcessGroupGloo::recv: unsupported device type cuda"):
            dist.recv(tensor([1.0]), 1 - rank)

    ranks(run, "gloo")


@check(only=("xpu", "npu", "mtia"))
def gloo_takes_no_other_devices_tensors() -> None:
    def run(rank: int) -> None:
        with refused(f"No backend type associated with device type {KIND}"):
            dist.all_reduce(torch.ones(1, device=KIND))

    ranks(run, "gloo")


@check(only=("mps",))
def mps_has_no_collectives() -> None:
    def run(rank: int) -> str:
        with refused(
            "The operator 'c10d::allreduce_' is not currently implemented for the MPS", error=NotImplementedError
        ):
            dist.all_reduce(torch.ones(1, device="mps"))
        with refused("'c10d::send'", error=NotImplementedError):
            dist.send(torch.ones(1, device="mps"), 1 - rank)
        return str(dist.get_backend_config())

    assert ranks(run, "gloo") == ["cpu:gloo,cuda:gloo"] * 2
    assert ranks(run, None) == ["mps:gloo"] * 2


@check(only=("xpu", "mps"))
def gloos_threads_have_time_to_drop_their_tensors() -> None:
    """They need Python's lock for it, and a group is deleted under that lock: 1 of 140 programs waits for ever."""

    def run(rank: int) -> float:
        for _ in range(20):
            dist.all_reduce(torch.ones(1000))
        began = time.monotonic()
        dist.destroy_process_group()
        return time.monotonic() - began

    assert min(ranks(run, "gloo")) >= 0.1
