"""What the tier in Python answers itself, where the other has C++: generators, streams, autocast, pinned memory."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import os
import pickle
import sys
import time

import torch
import torch.nn.functional as F
from checks import DEVICE, MODULE, check, refused, same
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def draw(seed: int | None = None, device: object = DEVICE, **options: object) -> torch.Tensor:
    if seed is not None:
        torch.manual_seed(seed)
    return torch.randn(5, device=device, **options).cpu()


# ---- random numbers


@check(only=("npu",))
def a_seed_makes_the_same_numbers() -> None:
    assert torch.equal(draw(3), draw(3))
    assert not torch.equal(draw(3), draw(4))


@check(only=("npu",))
def the_cpu_s_numbers_do_not_depend_on_the_device_s() -> None:
    torch.manual_seed(0)
    draw()
    F.dropout(torch.ones(5, device=DEVICE))
    mixed = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(mixed, torch.rand(3))


@check(only=("npu",))
def kernels_without_a_generator_draw_from_the_device() -> None:
    torch.manual_seed(0)
    first = F.dropout(torch.ones(99, device=DEVICE)).cpu()
    torch.rand(1)
    state = MODULE.get_rng_state()
    second = F.dropout(torch.ones(99, device=DEVICE)).cpu()
    MODULE.set_rng_state(state)
    assert torch.equal(second, F.dropout(torch.ones(99, device=DEVICE)).cpu())
    assert not torch.equal(first, second)


@check(only=("npu",))
def generators_of_the_device() -> None:
    generator = torch.Generator(DEVICE).manual_seed(7)
    assert generator.device == torch.device("npu:0")
    first = draw(generator=generator)
    assert not torch.equal(first, draw(generator=generator))
    assert torch.equal(first, draw(generator=generator.manual_seed(7)))
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)


@check(only=("npu",))
def generators_of_the_cpu_stay_what_they_are() -> None:
    generator = torch.Generator().manual_seed(7)
    assert generator.device == torch.device("cpu")
    torch.rand(1, generator=generator)
    with refused("Expected a 'npu' device type for generator but found 'cpu'"):
        draw(generator=generator)


@check(only=("npu",))
def copies_of_a_generator_go_on_from_its_place() -> None:
    generator = torch.Generator(DEVICE).manual_seed(7)
    draw(generator=generator)
    copies = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state()]
    expected = draw(generator=generator)
    for made in copies:
        assert made.device == generator.device
        assert torch.equal(draw(generator=made), expected)


@check(only=("npu",))
def fork_rng_puts_the_device_s_state_back() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type="npu"):
        inside = draw()
    assert torch.equal(inside, draw())


# ---- streams and events


@check(only=("npu",))
def events_tell_the_time_between_them() -> None:
    start, end = torch.Event(DEVICE, enable_timing=True), MODULE.Event(enable_timing=True)
    begun = time.monotonic()
    start.record()
    time.sleep(0.02)
    end.record()
    torch.accelerator.synchronize()
    end.synchronize()
    assert end.query()
    assert 20 <= start.elapsed_time(end) <= 1000 * (time.monotonic() - begun) + 1


@check(only=("npu",))
def events_that_cannot_tell_it_say_so() -> None:
    with refused("enable_timing=True", error=ValueError):
        torch.Event(DEVICE).elapsed_time(torch.Event(DEVICE))
    timed = [torch.Event(DEVICE, enable_timing=True) for _ in range(2)]
    with refused("must be recorded", error=ValueError):
        timed[0].elapsed_time(timed[1])


@check(only=("npu",))
def streams_record_and_wait() -> None:
    stream = torch.Stream(DEVICE)
    with stream:
        assert torch.accelerator.current_stream() == stream
        event = stream.record_event()
    torch.accelerator.current_stream().wait_event(event)
    torch.accelerator.current_stream().wait_stream(stream)
    timed = torch.Event(enable_timing=True)
    assert stream.record_event(timed) is timed
    assert isinstance(torch.accelerator.current_stream(), torch.Stream)
    stream.synchronize()
    assert stream.query()


# ---- autocast


def trained(dtype: torch.dtype) -> tuple[list[float], float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(DEVICE)
    optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=0.05), torch.amp.GradScaler("npu")
    inputs, targets, losses = torch.randn(32, 8).to(DEVICE), (torch.arange(32) % 4).to(DEVICE), []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=dtype):
            outputs = model(inputs)
            loss = F.cross_entropy(outputs, targets)
        assert (outputs.dtype, loss.dtype) == (dtype, torch.float32)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, scaler.get_scale()


@check(only=("npu",))
def mixed_precision_training_learns() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        losses, scale = trained(dtype)
        assert losses[-1] < 0.7 * losses[0], losses
        assert scale == 65536


@check(only=("npu",))
def a_loss_that_overflows_is_skipped() -> None:
    parameter = nn.Parameter(torch.ones(2, device=DEVICE))
    optimizer, scaler = torch.optim.SGD([parameter], lr=1.0), torch.amp.GradScaler("npu", init_scale=8.0)
    scaler.scale((parameter * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    same(parameter, [1.0, 1.0])
    assert scaler.get_scale() == 4.0


@check(only=("npu",))
def autocast_s_policies() -> None:
    half, single = torch.ones(2, 2, device=DEVICE).half(), torch.ones(2, 2, device=DEVICE)
    with torch.autocast("npu", dtype=torch.float16):
        assert (single @ single).dtype == torch.float16  # AT_FORALL_LOWER_PRECISION_FP
        assert F.conv1d(single[None], single[None].mT).dtype == torch.float16
        assert half.exp().dtype == torch.float32  # AT_FORALL_FP32
        assert (half**2).dtype == torch.float32
        assert half.softmax(0).dtype == half.sum().dtype == torch.float32  # AT_FORALL_FP32_SET_OPT_DTYPE
        assert half.softmax(0, dtype=torch.float16).dtype == torch.float16
        assert half.norm().dtype == half.norm(2, 1).dtype == torch.float32
        assert torch.addcmul(half, half, single).dtype == torch.float32  # AT_FORALL_PROMOTE
        assert torch.addcmul(half, half, half).dtype == torch.float16
        assert half.relu().dtype == torch.float16  # in none of them
        assert (single.double() @ single.double()).dtype == torch.float64
        with torch.autocast("npu", enabled=False):
            assert (single @ single).dtype == torch.float32
    assert (single @ single).dtype == torch.float32


@check(only=("npu",))
def autocast_differentiates() -> None:
    weight, x = nn.Parameter(torch.ones(2, 2, device=DEVICE)), torch.ones(2, device=DEVICE)
    with torch.autocast("npu", dtype=torch.bfloat16):
        (weight @ x).float().sum().backward()
    assert weight.grad.dtype == torch.float32
    same(weight.grad, torch.ones(2, 2))


# ---- files and other processes


@check(only=("npu",))
def saved_and_loaded() -> None:
    file, model = io.BytesIO(), nn.Linear(3, 2).to(DEVICE)
    torch.save({"model": model.state_dict(), "x": torch.arange(3, device=DEVICE)}, file)
    for where, device in ((None, "npu:0"), ("cpu", "cpu"), (DEVICE, "npu:0"), ("npu:0", "npu:0")):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert {str(t.device) for t in (loaded["x"], *loaded["model"].values())} == {device}
        same(loaded["model"]["weight"], model.weight)


@check(only=("npu",))
def pickled() -> None:
    same(pickle.loads(pickle.dumps(torch.arange(3, device=DEVICE))), [0, 1, 2])


@check(only=("npu",))
def storages() -> None:
    assert torch.UntypedStorage(5, device="npu").device == torch.device("npu:0")
    assert torch.UntypedStorage([1, 2], device="npu").tolist() == [1, 2]
    assert torch.UntypedStorage(device="npu").nbytes() == 0
    storage = torch.ones(3).untyped_storage().npu()
    assert storage.cpu().tolist() == torch.ones(3).untyped_storage().tolist()


@check(only=("npu",))
def pinned_memory() -> None:
    x = torch.ones(3)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert (pinned.is_pinned(), pinned.device.type) == (True, "cpu")
    same(pinned.to(DEVICE, non_blocking=True), x)
    assert pinned.to(DEVICE).to("cpu", non_blocking=True).is_pinned()
    with refused("only dense CPU tensors can be pinned"):
        x.to(DEVICE).pin_memory()


@check(only=("npu",))
def a_used_device_does_not_survive_a_fork() -> None:
    torch.ones(1, device=DEVICE)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(RuntimeError):
            torch.ones(1, device=DEVICE)
            os._exit(1)
        os._exit(0 if MODULE._is_in_bad_fork() else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not MODULE._is_in_bad_fork()


@check(only=("npu",))
def loaders_pin() -> None:
    for workers in (0, 1):
        loader = DataLoader(TensorDataset(torch.arange(6.0)), batch_size=3, pin_memory=True, num_workers=workers)
        batches = [batch for (batch,) in loader]
        assert all(batch.is_pinned() for batch in batches)
        same(torch.cat(batches).to(DEVICE), torch.arange(6.0))


# ---- memory, and what ends with an exception


@check(only=("npu",))
def an_exception_frees_its_frames_tensors() -> None:
    def fail() -> None:
        kept = [torch.ones(100, device=DEVICE) for _ in range(10)]
        raise KeyError(len(kept))

    before = torch.accelerator.memory_allocated()
    for _ in range(3):
        with refused("10", error=KeyError):
            fail()
    gc.collect()
    assert torch.accelerator.memory_allocated() == before


@check(only=("npu",))
def out_of_memory_in_a_kernel_and_in_backward() -> None:
    free, _ = MODULE.mem_get_info()
    x = torch.ones(free // 4 // 3, device=DEVICE, requires_grad=True)
    with refused("NPU out of memory", error=torch.OutOfMemoryError):
        torch.cat([x] * 4)
    doubled = x * 2
    with refused("NPU out of memory", error=torch.OutOfMemoryError):
        (doubled * doubled).sum().backward()
    del x, doubled
    until = time.monotonic() + 60  # autograd's own thread may hold the failed graph a little longer
    while MODULE.mem_get_info()[0] < free and time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    torch.ones(free // 8, device=DEVICE)


@check(only=("npu",))
def resized_out_arguments() -> None:
    for size in (0, 1, 5):
        out = torch.empty(size, device=DEVICE)
        assert torch.add(torch.ones(3, device=DEVICE), 1, out=out) is out
        same(out, [2.0, 2.0, 2.0])
    base = torch.zeros(5, device=DEVICE)
    torch.add(torch.ones(3, device=DEVICE), 1, out=base[1:4])
    same(base, [0.0, 2.0, 2.0, 2.0, 0.0])


@check(only=("npu",))
def numbers_where_the_schema_says_tensor() -> None:
    same(torch.remainder(torch.arange(4, device=DEVICE), 3), [0, 1, 2, 0])
    assert torch.remainder(torch.arange(4, device=DEVICE), 1.5).dtype == torch.float32


# ---- what it cannot do


@check(only=("npu",))
def there_is_one_device() -> None:
    for use in (
        lambda: torch.ones(2, device="npu:1"),
        lambda: torch.ones(2).to("npu:1"),
        lambda: MODULE.set_device(1),
        lambda: torch.accelerator.set_device_index(1),
        lambda: torch.accelerator.memory_allocated(1),
    ):
        with refused("npu:1 of 1 simulated"):
            use()


@check(only=("npu",))
def tensors_that_it_has_not() -> None:
    with refused("the simulated device has no torch.sparse_coo tensors", error=NotImplementedError):
        torch.eye(2, device=DEVICE).to_sparse()
    with refused("the simulated device has no torch.quint8 tensors", error=NotImplementedError):
        torch.quantize_per_tensor(torch.ones(2, device=DEVICE), 0.1, 0, torch.quint8)
    with refused("Cannot copy out of meta tensor", error=NotImplementedError):
        torch.ones(2, device="meta").to(DEVICE)


@check(only=("npu",))
def what_ran_is_counted() -> None:
    activate = sys.modules["torchmigrate_simulated.activate"]
    before = activate.statistics()
    x = torch.ones(100, device=DEVICE)
    (x @ x, F.dropout(x))
    after = activate.statistics()
    assert after["operators"]["aten::dot"] == before["operators"].get("aten::dot", 0) + 1
    assert after["kernels"] == sum(after["operators"].values())
    assert after["random_kernels"] == before["random_kernels"] + 1
    assert after["peak_bytes"][0] >= 1200


@check(only=("npu",))
def kernels_are_not_compiled() -> None:
    def two_steps(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).relu() @ x.t()

    torch._dynamo.reset()
    compiled = torch.compile(two_steps, backend="eager")
    for n in (3, 5):
        same(compiled(torch.ones(n, 4, device=DEVICE)), two_steps(torch.ones(n, 4)))
    frames = torch._dynamo.utils.counters["frames"]
    assert frames["ok"] <= 2, frames  # two_steps, and once more for any size
