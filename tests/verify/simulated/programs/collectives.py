"""torch.distributed's operations between two simulated devices, by the backend's own library."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from checks import KIND, MODULE, check, refused
from ranks import LIBRARY, empty, here, ranks, reduced, tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

warnings.simplefilter("ignore")
Op = dist.ReduceOp
counts = torch.ops.torchmigrate_simulated.counts


# ---- reductions


@check(only=("cuda", "xpu", "npu"))
def all_reduce_adds() -> None:
    assert ranks(reduced(Op.SUM)) == [[3.0, 9.0]] * 2


@check(only=("cuda", "xpu", "npu"))
def all_reduce_multiplies_and_compares() -> None:
    def run(rank: int) -> list:
        return [reduced(op)(rank) for op in (Op.PRODUCT, Op.MIN, Op.MAX)]

    assert ranks(run) == [[[2.0, 18.0], [1.0, 3.0], [2.0, 6.0]]] * 2


@check(only=("cuda", "xpu", "npu"))
def all_reduce_takes_the_dtypes_of_training() -> None:
    dtypes = (torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8, torch.uint8)
    assert ranks(lambda rank: [reduced(Op.SUM, d)(rank) for d in dtypes]) == [[[3, 9]] * len(dtypes)] * 2


@check(only=("cuda", "xpu", "npu"))
def all_reduce_adds_complex_numbers() -> None:
    assert ranks(reduced(Op.SUM, torch.complex64)) == [[3 + 0j, 9 + 0j]] * 2


@check(only=("cuda", "xpu", "npu"))
def a_sum_of_booleans_is_any() -> None:
    def run(rank: int) -> list:
        x = tensor([True, rank == 0, False])
        dist.all_reduce(x)
        return x.view(torch.uint8).tolist()

    assert ranks(run) == [[1, 1, 0]] * 2


@check(only=("cuda", "xpu"))
def avg_divides() -> None:
    assert ranks(reduced(Op.AVG)) == [[1.5, 4.5]] * 2


@check(only=("cuda", "xpu"))
def avg_of_integers_truncates() -> None:
    assert ranks(reduced(Op.AVG, torch.int64)) == [[1, 4]] * 2


@check(only=("cuda", "xpu"))
def avg_of_booleans_is_refused() -> None:
    def run(rank: int) -> None:
        with refused("Cannot use ReduceOp.AVG with boolean inputs", error=TypeError):
            dist.all_reduce(tensor([True]), Op.AVG)

    ranks(run)


@check(only=("npu",))
def hccl_has_no_avg() -> None:
    def run(rank: int) -> None:
        with refused("Cannot use ReduceOp.AVG with HCCL"):
            dist.all_reduce(tensor([1.0]), Op.AVG)

    ranks(run)


@check(only=("npu",))
def hccl_reduces_no_float64() -> None:
    def run(rank: int) -> list:
        x = tensor([float(rank)], torch.float64)
        with refused("HCCL allreduce: Unsupported data type at::kDouble"):
            dist.all_reduce(x)
        dist.broadcast(x, 1)  # which moves any
        return x.tolist()

    assert ranks(run) == [[1.0]] * 2


@check(only=("cuda", "xpu"))
def float64_is_reduced() -> None:
    assert ranks(reduced(Op.SUM, torch.float64)) == [[3.0, 9.0]] * 2


@check(only=("cuda", "xpu", "npu"))
def bitwise_reductions_are_refused() -> None:
    def run(rank: int) -> None:
        with refused(f"Cannot use ReduceOp.BAND with {LIBRARY.upper()}", error=(ValueError, RuntimeError)):
            dist.all_reduce(tensor([1]), Op.BAND)

    ranks(run)


@check(only=("cuda", "xpu"))
def int16_is_refused() -> None:
    def run(rank: int) -> None:
        with refused(
            f"Input tensor data type is not supported for {LIBRARY.upper()} process group: Short", error=TypeError
        ):
            dist.all_reduce(tensor([1], torch.int16))

    ranks(run)


@check(only=("cuda", "xpu", "npu"))
def a_limit_of_the_simulation_says_so() -> None:
    def run(rank: int) -> None:
        with refused(f"simulated {LIBRARY}", "gloo", error=NotImplementedError):
            dist.broadcast(tensor([1.0]).to(torch.float8_e4m3fn), 0)

    ranks(run)


@check(only=("cuda", "xpu", "npu"))
def reduce_changes_the_destination_only() -> None:
    def run(rank: int) -> list:
        x = tensor([1.0, rank])
        dist.reduce(x, 1)
        return x.tolist()

    assert ranks(run) == [[1.0, 0.0], [2.0, 1.0]]


@check(only=("cuda", "xpu", "npu"))
def reduce_scatter_gives_each_its_part() -> None:
    def run(rank: int) -> list:
        single, listed = empty(2), empty(2)
        whole = tensor([0.0, 1, 2, 3]) + rank
        dist.reduce_scatter_tensor(single, whole)
        dist.reduce_scatter(listed, list(whole.chunk(2)))
        return [single.tolist(), listed.tolist(), whole.tolist()]

    first, second = ranks(run)
    assert first == [[1.0, 3.0], [1.0, 3.0], [0.0, 1.0, 2.0, 3.0]]
    assert second == [[5.0, 7.0], [5.0, 7.0], [1.0, 2.0, 3.0, 4.0]]


@check(only=("cuda", "xpu"))
def reduce_scatter_averages() -> None:
    def run(rank: int) -> list:
        out = empty(1)
        dist.reduce_scatter_tensor(out, tensor([0.0, 4.0]) + rank, Op.AVG)
        return out.tolist()

    assert ranks(run) == [[0.5], [4.5]]


# ---- moving tensors


@check(only=("cuda", "xpu", "npu"))
def broadcast_gives_the_source() -> None:
    def run(rank: int) -> list:
        x = tensor([float(rank)] * 3)
        dist.broadcast(x, 1)
        return x.tolist()

    assert ranks(run) == [[1.0] * 3] * 2


@check(only=("cuda", "xpu", "npu"))
def all_gather_gives_all() -> None:
    def run(rank: int) -> list:
        out = [empty(2) for _ in range(2)]
        dist.all_gather(out, tensor([float(rank), 5.0]))
        assert all(t.device == here() for t in out)
        return [t.tolist() for t in out]

    assert ranks(run) == [[[0.0, 5.0], [1.0, 5.0]]] * 2


@check(only=("cuda", "xpu", "npu"))
def all_gather_takes_parts_of_different_sizes() -> None:
    def run(rank: int) -> list:
        out = [empty(1), empty(2)]
        dist.all_gather(out, torch.full((rank + 1,), float(rank), device=here()))
        return [t.tolist() for t in out]

    assert ranks(run) == [[[0.0], [1.0, 1.0]]] * 2


@check(only=("cuda", "xpu", "npu"))
def all_gather_into_tensor_fills_the_buffer_whatever_its_shape() -> None:
    def run(rank: int) -> list:
        flat, row = empty(4), empty(1, 4)
        part = tensor([float(rank), 5.0])
        dist.all_gather_into_tensor(flat, part)
        dist.all_gather_into_tensor(row, part)
        return [flat.tolist(), row.tolist()]

    assert ranks(run) == [[[0.0, 5.0, 1.0, 5.0], [[0.0, 5.0, 1.0, 5.0]]]] * 2


@check(only=("cuda", "xpu", "npu"))
def a_buffer_of_the_wrong_size_is_refused() -> None:
    def run(rank: int) -> None:
        with refused("output tensor size must be equal to world_size times input tensor size", error=ValueError):
            dist.all_gather_into_tensor(empty(3), empty(2))

    ranks(run)


@check(only=("cuda", "xpu", "npu"))
def gather_gives_all_to_one() -> None:
    def run(rank: int) -> list | None:
        out = [empty(1) for _ in range(2)] if rank == 0 else None
        dist.gather(tensor([rank + 7.0]), out)
        return out and [t.tolist() for t in out]

    assert ranks(run) == [[[7.0], [8.0]], None]


@check(only=("cuda", "xpu", "npu"))
def scatter_gives_each_its_own() -> None:
    def run(rank: int) -> list:
        out = empty(1)
        dist.scatter(out, [tensor([3.0]), tensor([4.0])] if rank == 0 else None)
        return out.tolist()

    assert ranks(run) == [[3.0], [4.0]]


@check(only=("cuda", "xpu", "npu"))
def all_to_all_exchanges() -> None:
    def run(rank: int) -> list:
        lists, single, uneven = [empty(1), empty(1)], empty(2), empty(rank + 1 + (rank + 1))
        dist.all_to_all(lists, [tensor([10.0 * rank]), tensor([10.0 * rank + 1])])
        dist.all_to_all_single(single, tensor([10.0 * rank, 10.0 * rank + 1]))
        parts = tensor([rank, rank + 0.1, rank + 0.2])  # one to rank 0, two to rank 1
        dist.all_to_all_single(uneven, parts, [rank + 1] * 2, [1, 2])
        return [[t.item() for t in lists], single.tolist(), [round(v, 1) for v in uneven.tolist()]]

    assert ranks(run) == [
        [[0.0, 10.0], [0.0, 10.0], [0.0, 1.0]],
        [[1.0, 11.0], [1.0, 11.0], [0.1, 0.2, 1.1, 1.2]],
    ]


@check(only=("cuda", "xpu", "npu"))
def send_reaches_recv() -> None:
    def run(rank: int) -> list:
        x = tensor([rank + 1.0])
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
        return x.tolist()

    assert ranks(run) == [[1.0]] * 2


@check(only=("cuda", "xpu", "npu"))
def isend_and_irecv_can_be_polled() -> None:
    def run(rank: int) -> list:
        x = tensor([rank + 1.0])
        work = dist.isend(x, 1) if rank == 0 else dist.irecv(x, 0)
        deadline = time.monotonic() + 120
        while not work.is_completed():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        work.wait()
        return x.tolist()

    assert ranks(run) == [[1.0]] * 2


@check(only=("cuda", "xpu", "npu"))
def batched_sends_and_receives_cross() -> None:
    def run(rank: int) -> list:
        out, mine = empty(1), tensor([rank + 1.0])
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, out, 1 - rank)])
        assert len(works) == 1  # as NCCL's, which are one group call
        works[0].wait()
        return out.tolist()

    assert ranks(run) == [[2.0], [1.0]]


@check(only=("cuda", "xpu", "npu"))
def a_coalescing_manager_runs_what_is_in_it() -> None:
    def run(rank: int) -> list:
        sums, wholes = [tensor([1.0]), tensor([rank, 2.0])], [empty(2), empty(4)]
        with dist._coalescing_manager(device=here()):
            for x in sums:
                dist.all_reduce(x)
        with dist._coalescing_manager(device=here(), async_ops=True) as works:
            for whole, x in zip(wholes, sums, strict=True):
                dist.all_gather_into_tensor(whole, x)
        works.wait()
        return [x.tolist() for x in (*sums, *wholes)]

    assert ranks(run) == [[[2.0], [1.0, 4.0], [2.0, 2.0], [1.0, 4.0, 1.0, 4.0]]] * 2


@check(only=("cuda", "xpu", "npu"))
def objects_travel() -> None:
    def run(rank: int) -> list:
        gathered, sent = [None, None], [{"from": rank}, rank]
        dist.all_gather_object(gathered, {"rank": rank})
        dist.broadcast_object_list(sent, 1)
        return [gathered, sent]

    assert ranks(run) == [[[{"rank": 0}, {"rank": 1}], [{"from": 1}, 1]]] * 2


# ---- works


@check(only=("cuda", "xpu", "npu"))
def a_work_gives_the_devices_tensors() -> None:
    def run(rank: int) -> list:
        x = tensor([1.0])
        work = dist.all_reduce(x, async_op=True)
        assert work.wait() and work.is_completed()
        (of_future,) = work.get_future().value()
        assert of_future.device == x.device and of_future.data_ptr() == x.data_ptr()
        return work.get_future().then(lambda f: f.value()[0] / 2).wait().tolist()

    assert ranks(run) == [[1.0]] * 2


@check(only=("cuda", "xpu", "npu"))
def a_reduce_scatter_has_a_future_too() -> None:
    def run(rank: int) -> list:
        out = empty(1)
        work = dist.reduce_scatter_tensor(out, tensor([1.0, 2.0]), async_op=True)
        return work.get_future().wait()[0].tolist()

    assert ranks(run) == [[2.0], [4.0]]


@check(only=("cuda", "xpu", "npu"))
def a_collective_takes_no_device_memory_and_is_counted() -> None:
    def run(rank: int) -> bool:
        x = torch.ones(1000, device=here())
        dist.all_reduce(x)  # the first one connects
        before = torch.accelerator.memory_stats()["allocation.all.allocated"]
        dist.all_reduce(x)
        return (
            torch.accelerator.memory_stats()["allocation.all.allocated"] == before and "c10d::allreduce_=2" in counts()
        )

    assert ranks(run) == [True, True]


@check(only=("cuda", "xpu", "npu"))
def a_dropped_tensor_is_kept_until_its_work_is_done() -> None:
    def run(rank: int) -> list:
        if rank == 1:
            time.sleep(0.2)
        works = [dist.all_reduce(torch.full((1000,), float(i), device=here()), async_op=True) for i in range(20)]
        others = [torch.zeros(1000, device=here()) for _ in range(20)]
        return [w.get_future().wait()[0].sum().item() for w in works] + [sum(x.sum().item() for x in others)]

    assert ranks(run) == [[2000.0 * i for i in range(20)] + [0.0]] * 2


@check(only=("cuda", "xpu", "npu"))
def barrier_waits_for_all() -> None:
    def run(rank: int) -> list[bool]:
        waited = []
        for turn, options in enumerate(({}, {"device_ids": [rank]})):
            last = Path(folder, f"the last has come to barrier {turn}")
            if rank == 1:
                time.sleep(0.1)
                last.touch()
            dist.barrier(**options)
            waited.append(last.exists())
        return waited

    with tempfile.TemporaryDirectory() as folder:
        assert ranks(run) == [[True, True]] * 2


@check(only=("cuda", "xpu", "npu"))
def a_barrier_may_come_before_the_device_is_chosen() -> None:
    def run(rank: int) -> list:
        MODULE.set_device(0)
        dist.barrier()
        MODULE.set_device(rank)
        return reduced(Op.SUM)(rank)

    assert ranks(run) == [[3.0, 9.0]] * 2


@check(only=("cuda", "xpu", "npu"))
def functional_collectives_and_distributed_tensors() -> None:
    def run(rank: int) -> list:
        mesh = init_device_mesh(KIND, (2,))
        total = functional.all_reduce(tensor([rank + 1.0]), "sum", mesh).tolist()
        x = distribute_tensor(torch.arange(4.0, device=here()), mesh, [Shard(0)])
        return [total, x.to_local().tolist(), (x + x).full_tensor().tolist()]

    first, second = ranks(run)
    assert first == [[3.0], [0.0, 1.0], [0.0, 2.0, 4.0, 6.0]]
    assert second == [[3.0], [2.0, 3.0], [0.0, 2.0, 4.0, 6.0]]
