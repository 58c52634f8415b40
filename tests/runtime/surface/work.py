"""Streams, events, synchronization, ranges."""

from __future__ import annotations

import time

import torch

from . import ON_CUDA, ON_MPS, accel, check, here, numbers, raises, same, tensor


@check
def synchronize_takes_what_torch_cuda_s_takes() -> None:
    for arguments in ((), (None,), (0,), ("cuda",), ("cuda:0",), (accel.device(),), (here(0),)):
        assert accel.synchronize(*arguments) is None
    assert accel.synchronize(device=0) is None


@check(least=2)
def synchronize_waits_for_the_device_that_is_named() -> None:
    copied = numbers(9).to(here(1)).to("cpu", non_blocking=True)
    accel.synchronize(0)
    assert not torch.equal(copied, numbers(9))
    accel.synchronize(1)
    same(copied, numbers(9))


@check
def events_measure_time() -> None:
    start, end = accel.Event(enable_timing=True), accel.Event(True, blocking=True, interprocess=False)
    start.record()
    time.sleep(0.05)
    end.record(accel.current_stream())
    end.synchronize()
    assert end.query()
    assert 50 <= start.elapsed_time(end) < 5000
    assert isinstance(start.elapsed_time(end), float)


@check
def an_event_without_timing_or_a_record_has_no_time() -> None:
    timed, untimed = accel.Event(enable_timing=True), accel.Event()
    timed.record()
    untimed.record()
    with raises((RuntimeError, ValueError)):
        timed.elapsed_time(untimed)
    with raises((RuntimeError, ValueError)):
        timed.elapsed_time(accel.Event(enable_timing=True))


@check
def an_event_waits_for_the_copies_before_it() -> None:
    event = accel.Event()
    copied = numbers(9).to(here()).to("cpu", non_blocking=True)
    event.record()
    event.synchronize()
    same(copied, numbers(9))


@check(only=("mps",))
def the_host_s_clock_is_read_after_a_synchronize() -> None:
    copied = numbers(9).to(here()).to("cpu", non_blocking=True)
    accel.Event().record()
    assert not torch.equal(copied, numbers(9))
    accel.Event(enable_timing=True).record()
    same(copied, numbers(9))


@check
def streams() -> None:
    side, main = accel.Stream(), accel.current_stream()
    assert (side == main) is ON_MPS
    side.wait_stream(main)
    with accel.stream(side):
        assert accel.current_stream() == side
        x = tensor(3) * 2
    main.wait_stream(side)
    assert accel.current_stream() == main == accel.default_stream()
    event = side.record_event()
    main.wait_event(event)
    event.wait(main)
    side.synchronize()
    assert side.query()
    same(x, [2, 2, 2])


@check
def a_stream_waits_for_its_own_copies() -> None:
    side = accel.Stream(priority=-1)
    with accel.stream(side):
        copied = numbers(9).to(here()).to("cpu", non_blocking=True)
    side.synchronize()
    same(copied, numbers(9))


@check
def the_stream_can_be_set() -> None:
    main, side = accel.current_stream(), accel.Stream(device=accel.device())
    accel.set_stream(side)
    assert accel.current_stream() == side
    accel.set_stream(None)
    assert accel.current_stream() == side
    accel.set_stream(main)
    assert accel.current_stream(0) == accel.current_stream("cuda:0") == main == accel.default_stream(0)


@check
def no_stream_is_no_change() -> None:
    main = accel.current_stream()
    with accel.stream(None):
        assert accel.current_stream() == main
    with accel.stream(stream=None):
        assert accel.current_stream() == main


@check(least=2)
def streams_of_the_second_device() -> None:
    side = accel.Stream("cuda:1")
    assert side.device == accel.Stream(1).device == here(1)
    with accel.stream(side):
        assert accel.current_device() == 1
        assert accel.current_stream() == accel.current_stream(1) == side
    assert accel.current_device() == 0
    assert accel.current_stream(1) == accel.current_stream(here(1)) != side
    assert accel.current_stream(1).device == here(1)


@check
def a_tensor_used_on_another_stream() -> None:
    told: list[object] = []
    x, side, real = tensor(3), accel.Stream(), torch.Tensor.record_stream

    class Told(torch.Tensor):
        def record_stream(self, stream: torch.Stream) -> None:
            told.append(stream)
            real(self, stream)

    accel.record_stream(x.as_subclass(Told), side)
    assert told == ([] if ON_MPS else [side])
    accel.record_stream(x, accel.current_stream())
    same(x, [1, 1, 1])


def profiled(run: object) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()  # type: ignore[operator]
    return {event.key for event in profile.key_averages()}


@check
def ranges() -> None:
    def run() -> None:
        accel.nvtx.range_push("outer")
        with accel.nvtx.range("step {}", 3):
            accel.nvtx.mark("here")
        accel.nvtx.range_pop()

    @accel.nvtx.range("decorated")
    def decorated() -> None:
        pass

    seen = profiled(lambda: (run(), decorated()))
    assert ON_CUDA or {"outer", "step 3", "decorated"} <= seen  # CUDA's go to NVIDIA's profiler


@check
def the_cache_is_emptied() -> None:
    del (kept := [tensor(1000)])[:]
    assert accel.memory_reserved() >= 4000, kept
    accel.empty_cache()
    assert accel.memory_reserved() == accel.memory_allocated()
