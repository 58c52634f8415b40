"""Devices with 64 MiB each: what is allocated, freed, refused, and what new memory holds."""

from __future__ import annotations

import threading
import time

import torch
from checks import DEVICE, KIND, MODULE, check, refused, same

accelerator = torch.accelerator
MIB = 1 << 20
CAPACITY = 64 * MIB

# Of all backends it is only MPS whose error has no type of its own.
OUT_OF_MEMORY = RuntimeError if KIND == "mps" else torch.OutOfMemoryError


def used(index: int = 0) -> int:
    return accelerator.memory_allocated(index)


def megabytes(n: float, device: object = DEVICE) -> torch.Tensor:
    return torch.empty(int(n * MIB), dtype=torch.uint8, device=device)


@check
def allocated_bytes_are_exact() -> None:
    before = used()
    kept = torch.empty(1000, 3, device=DEVICE)
    assert used() - before == 12_000
    del kept
    assert used() == before


@check
def an_empty_tensor_takes_nothing() -> None:
    before = used()
    kept = torch.empty(0, 5, device=DEVICE)
    assert used() == before, kept.shape


@check
def a_view_takes_nothing() -> None:
    kept = megabytes(1)
    before = used()
    views = [kept[10:], kept.view(1024, 1024), kept.t() if kept.dim() == 2 else kept.unsqueeze(0), kept.detach()]
    assert used() == before, len(views)


@check
def a_view_keeps_the_whole_memory() -> None:
    before = used()
    part = megabytes(1)[:1]
    assert used() - before == MIB, part.shape


@check
def an_operator_frees_its_temporaries() -> None:
    before = used()
    x = torch.ones(256, 256, device=DEVICE)
    y = torch.softmax(x @ x, 1)
    assert used() - before == 2 * 256 * 256 * 4, y.shape


@check
def an_in_place_operator_takes_nothing() -> None:
    x = torch.ones(1000, device=DEVICE)
    before = used()
    x.add_(1).mul_(x).clamp_(0, 3)
    assert used() == before


@check
def a_growing_out_argument_is_counted() -> None:
    before = used()
    out = torch.empty(0, device=DEVICE)
    torch.ones(1000, device=DEVICE, out=out)
    assert used() - before == 4000
    torch.add(out, out, out=out.resize_(0))
    assert used() - before == 4000


@check
def resize_is_counted() -> None:
    before = used()
    x = torch.arange(10.0, device=DEVICE).resize_(1000)
    assert used() - before == 4000
    same(x[:10], torch.arange(10.0))


@check(but=("mps",))
def a_storage_gives_its_memory_back() -> None:
    before = used()
    x = torch.arange(1000, device=DEVICE)
    x.untyped_storage().resize_(0)
    assert used() == before
    x.untyped_storage().resize_(8000)
    assert used() - before == 8000


@check(only=("mps",))
def torch_resizes_no_storage_there() -> None:
    with refused(f"UntypedStorage.resize_: got unexpected device type {KIND}"):
        torch.ones(3, device=DEVICE).untyped_storage().resize_(0)


@check
def set_shares_the_source_s_memory() -> None:
    before = used()
    a, b = torch.zeros(100, device=DEVICE), torch.zeros(100, device=DEVICE)
    b.set_(a)
    assert used() - before == 400
    a.fill_(3)
    same(b, torch.full((100,), 3.0))


@check
def autograd_frees_what_it_saved() -> None:
    before = used()
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    loss = (x.exp() * x).sum()
    loss.backward()
    del loss
    for _ in range(1000):  # the device's backward thread lets go of its last task after the main thread has gone on
        if used() - before == 2 * 4000:  # x and its gradient
            break
        time.sleep(0.02)
    assert used() - before == 2 * 4000


@check
def the_peak_is_the_most_at_once() -> None:
    before = used()
    accelerator.reset_peak_memory_stats()
    a = megabytes(8)
    del a
    b = megabytes(4)
    assert accelerator.max_memory_allocated() == before + 8 * MIB
    assert used() == before + 4 * MIB, b.shape


@check
def reset_peak_starts_from_what_is_allocated() -> None:
    kept = megabytes(2)
    del kept
    other = megabytes(1)
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == used(), other.shape


@check
def freed_memory_stays_reserved_until_empty_cache() -> None:
    accelerator.empty_cache()
    assert accelerator.memory_reserved() == used()
    kept = megabytes(8)
    del kept
    assert accelerator.memory_reserved() == used() + 8 * MIB
    accelerator.empty_cache()
    assert accelerator.memory_reserved() == used()


@check
def reserved_memory_is_used_again() -> None:
    accelerator.empty_cache()
    kept = megabytes(8)
    del kept
    reserved = accelerator.memory_reserved()
    kept = megabytes(8)
    assert accelerator.memory_reserved() == reserved, kept.shape


@check
def statistics_name_what_torch_names() -> None:
    kept = megabytes(1)
    stats = accelerator.memory_stats()
    assert stats["allocated_bytes.all.current"] == used(), kept.shape
    assert stats["allocation.all.current"] >= 1
    assert stats["allocated_bytes.all.allocated"] - stats["allocated_bytes.all.freed"] == used()


@check
def accumulated_statistics_are_reset() -> None:
    kept = megabytes(1)
    del kept
    accelerator.reset_accumulated_memory_stats()
    stats = accelerator.memory_stats()
    assert stats["allocated_bytes.all.freed"] == stats["allocated_bytes.all.allocated"] == 0


@check
def free_and_total_memory() -> None:
    kept = megabytes(4)
    free, total = accelerator.get_memory_info()
    assert (free, total) == (CAPACITY - used(), CAPACITY), kept.shape


@check
def more_than_the_capacity_is_refused() -> None:
    with refused("out of memory", error=OUT_OF_MEMORY):
        megabytes(65)


@check(only=("mps",))
def the_refusal_on_mps_is_a_plain_runtime_error() -> None:
    # aten/src/ATen/mps/MPSAllocator.mm: TORCH_CHECK, so that `except torch.OutOfMemoryError` does not see it
    try:
        megabytes(65)
    except torch.OutOfMemoryError:
        raise AssertionError("on a Mac this is no torch.OutOfMemoryError") from None
    except RuntimeError as e:
        assert "MPS backend out of memory (MPS allocated: " in str(e), e
        assert "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0" in str(e), e


@check(but=("mps",))
def the_refusal_names_backend_and_sizes() -> None:
    with refused(f"{KIND.upper()} out of memory. Tried to allocate", "65.00 MiB", "64.00 MiB", error=OUT_OF_MEMORY):
        megabytes(65)


@check(only=("cuda",))
def torch_cuda_names_the_same_error() -> None:
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError


@check
def after_a_refusal_the_device_works_on() -> None:
    before = used()
    kept = []
    with refused("out of memory", error=OUT_OF_MEMORY):
        while True:
            kept.append(megabytes(16))
    assert len(kept) == (CAPACITY - before) // (16 * MIB)
    kept.clear()
    accelerator.empty_cache()
    assert used() == before
    same(torch.ones(3, device=DEVICE) + 1, [2.0, 2.0, 2.0])


@check
def the_capacity_itself_can_be_had() -> None:
    before = used()
    kept = torch.empty(CAPACITY - before, dtype=torch.uint8, device=DEVICE)
    assert accelerator.get_memory_info()[0] == 0, kept.shape
    with refused("out of memory", error=OUT_OF_MEMORY):
        torch.empty(1, device=DEVICE)


@check
def an_operator_that_needs_too_much_is_refused() -> None:
    x = torch.ones(5000, 1, device=DEVICE)
    with refused("out of memory", error=OUT_OF_MEMORY):
        x @ x.t()
    same(x.sum(), 5000.0)


@check
def a_batch_that_is_halved_after_a_refusal_fits() -> None:
    kept, size = None, 256
    while kept is None:
        try:
            kept = megabytes(size)
        except OUT_OF_MEMORY:
            size //= 2
    assert size == 64


@check
def refusals_are_counted() -> None:
    before = accelerator.memory_stats()["num_ooms"]
    with refused("out of memory", error=OUT_OF_MEMORY):
        megabytes(65)
    assert accelerator.memory_stats()["num_ooms"] == before + 1


@check
def new_memory_is_poisoned() -> None:
    assert set(torch.empty(100, dtype=torch.uint8, device=DEVICE).tolist()) == {0x7F}
    assert (torch.empty(100, device=DEVICE) > 1e38).all().item()
    assert torch.empty(100, dtype=torch.float16, device=DEVICE).isnan().all().item()


@check
def poison_shows_in_what_is_computed_from_it() -> None:
    forgotten = torch.empty(10, device=DEVICE)
    assert (forgotten * 1e3).isinf().all().item()


@check
def memory_that_is_used_again_is_poisoned_anew() -> None:
    for _ in range(3):
        x = torch.empty(1000, dtype=torch.uint8, device=DEVICE)
        assert set(x.tolist()) == {0x7F}
        x.zero_()
        del x


@check
def new_empty_and_empty_like_are_poisoned_too() -> None:
    x = torch.zeros(4, dtype=torch.uint8, device=DEVICE)
    for made in (x.new_empty(4), torch.empty_like(x), torch.empty_strided((4,), (1,), dtype=x.dtype, device=DEVICE)):
        assert set(made.tolist()) == {0x7F}


@check
def freed_in_another_thread() -> None:
    before = used()
    kept = [megabytes(1)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert used() == before


@check
def threads_that_allocate_at_once_are_all_counted() -> None:
    before = used()

    def work() -> None:
        for _ in range(200):
            torch.ones(100, device=DEVICE).sum().item()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert used() == before


@check(but=("mps",))
def each_device_counts_its_own() -> None:
    first, second = used(0), used(1)
    kept = megabytes(3, f"{KIND}:1")
    assert (used(0), used(1)) == (first, second + 3 * MIB), kept.shape


@check(but=("mps",))
def memory_is_freed_on_its_own_device() -> None:
    first, second = used(0), used(1)
    kept = megabytes(3, f"{KIND}:1")
    with accelerator.device_index(0):
        del kept
    assert (used(0), used(1)) == (first, second)


@check(but=("mps",))
def a_result_is_made_where_its_arguments_are() -> None:
    first, second = used(0), used(1)
    x = torch.ones(1000, device=f"{KIND}:1")
    y = x.exp() + 1
    assert (used(0), used(1)) == (first, second + 8000), y.device


@check(but=("mps",))
def each_device_has_the_capacity() -> None:
    kept = [megabytes(40, f"{KIND}:{i}") for i in (0, 1)]
    with refused("out of memory", error=OUT_OF_MEMORY):
        megabytes(40, f"{KIND}:1")
    assert len(kept) == 2


@check(but=("mps",))
def a_refusal_names_its_device() -> None:
    with refused("1 has a total capacity", error=OUT_OF_MEMORY):
        megabytes(65, f"{KIND}:1")


@check(but=("mps",))
def statistics_of_a_device_that_is_not_there() -> None:
    with refused("2"):
        accelerator.memory_allocated(2)


@check(only=("cuda", "xpu", "npu", "mtia"))
def the_backend_s_own_module_tells_the_same() -> None:
    kept = megabytes(2)
    assert MODULE.memory_allocated() == used(), kept.shape
    assert MODULE.max_memory_allocated() == accelerator.max_memory_allocated()
    assert MODULE.memory_stats()["allocated_bytes.all.current"] == used()


@check(only=("mps",))
def torch_mps_tells_the_same() -> None:
    torch.mps.empty_cache()
    kept = megabytes(2)
    assert torch.mps.current_allocated_memory() == used(), kept.shape
    assert torch.mps.driver_allocated_memory() == accelerator.memory_reserved()
    assert torch.mps.recommended_max_memory() == CAPACITY
