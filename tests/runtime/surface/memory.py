"""What is allocated, reserved, free and too much: devices with 64 MiB each."""

from __future__ import annotations

import torch

from . import CAPACITY, KIND, MIB, ON_CUDA, ON_MPS, accel, check, here, raises


def megabytes(n: int, index: int = 0) -> torch.Tensor:
    return torch.empty(n * MIB, dtype=torch.uint8, device=here(index))


@check
def allocated_bytes_are_exact() -> None:
    before = accel.memory_allocated()
    kept = megabytes(3)
    for arguments in ((), (None,), (0,), ("cuda",), ("cuda:0",), (here(0),), (accel.device(),)):
        assert accel.memory_allocated(*arguments) == before + 3 * MIB, arguments
    assert accel.memory_allocated(device=0) == before + 3 * MIB
    assert accel.memory_reserved() >= before + kept.nbytes
    del kept
    assert accel.memory_allocated() == before


@check
def the_peak_is_what_was_allocated_at_most() -> None:
    accel.reset_peak_memory_stats()
    before = accel.memory_allocated()
    del (kept := [megabytes(3)])[:]
    kept.append(megabytes(1))
    peak = 0 if ON_MPS else before + 3 * MIB  # unknown there
    assert accel.max_memory_allocated() == accel.max_memory_allocated(0) == peak
    assert accel.max_memory_reserved() >= peak or KIND == "mtia"  # torch has none for it
    accel.reset_peak_memory_stats(0)
    assert accel.max_memory_allocated(device="cuda:0") == (0 if ON_MPS else before + MIB)
    assert accel.reset_accumulated_memory_stats() is None


@check(least=2)
def each_device_has_its_own() -> None:
    accel.reset_peak_memory_stats(1)
    before = [accel.memory_allocated(i) for i in range(2)]
    kept = megabytes(2, index=1)
    assert [accel.memory_allocated(i) for i in range(2)] == [before[0], before[1] + kept.nbytes]
    assert accel.memory_allocated("cuda:1") == accel.max_memory_allocated("cuda:1") == before[1] + kept.nbytes
    with accel.device_guard(1):
        assert accel.memory_allocated() == before[1] + kept.nbytes
    assert accel.memory_allocated() == before[0]


@check
def free_and_total() -> None:
    before, total = accel.mem_get_info()
    kept = megabytes(5)
    if KIND in ("mps", "mtia"):  # unknown
        assert accel.mem_get_info(0) == (before, total) == (0, 0)
        return
    assert total == CAPACITY
    for arguments in ((), (None,), (0,), ("cuda:0",), (here(0),)):
        assert tuple(accel.mem_get_info(*arguments)) == (before - kept.nbytes, total), arguments


@check(least=2, but=("mtia",))
def free_memory_of_the_second_device() -> None:
    before = accel.mem_get_info(1)[0]
    kept = megabytes(5, index=1)
    assert accel.mem_get_info(1)[0] == before - kept.nbytes


@check
def all_statistics() -> None:
    kept = megabytes(1)
    for found in (accel.memory_stats(), accel.memory_stats(0), accel.memory_stats(device="cuda:0")):
        assert isinstance(found, dict)
        if ON_MPS:
            assert found == {}
        elif KIND != "mtia":  # names of its own
            assert found["allocated_bytes.all.current"] == accel.memory_allocated() >= kept.nbytes


@check
def a_summary() -> None:
    for text in (accel.memory_summary(), accel.memory_summary(0), accel.memory_summary(device=None, abbreviated=True)):
        assert ("PyTorch CUDA memory summary" in text) is ON_CUDA
        assert ON_CUDA or text == "no summary"


@check
def what_others_do_not_have() -> None:
    assert accel.ipc_collect() is None
    assert accel.set_per_process_memory_fraction(1.0) is None
    assert accel.set_per_process_memory_fraction(1.0, 0) is None
    assert accel.set_per_process_memory_fraction(1.0, device="cuda:0") is None


@check
def out_of_memory() -> None:
    assert issubclass(accel.OutOfMemoryError, RuntimeError)
    error = RuntimeError if ON_MPS else accel.OutOfMemoryError  # MPS's has no type of its own
    with raises(error, "out of memory"):
        megabytes(65)
    accel.empty_cache()
    assert megabytes(60).nbytes == 60 * MIB
