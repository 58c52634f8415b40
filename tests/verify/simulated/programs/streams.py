"""Streams, events and the current device."""

from __future__ import annotations

import threading
import time

import torch
from checks import DEVICE, KIND, MODULE, check, refused, same

accelerator = torch.accelerator
x = torch.ones(3, device=DEVICE)


def event(**options: object) -> torch.Event:
    return torch.Event(DEVICE, **options)


@check
def the_default_stream_is_current_at_first() -> None:
    stream = accelerator.current_stream()
    assert (stream.device, stream.stream_id) == (torch.device(KIND, 0), 0)


@check(but=("mps",))
def new_streams_are_different() -> None:
    a, b = torch.Stream(DEVICE), torch.Stream(DEVICE)
    assert a != b != accelerator.current_stream()
    assert len({a, b, accelerator.current_stream()}) == 3


@check(only=("mps",))
def every_stream_of_a_mac_is_the_default_one() -> None:
    assert torch.Stream(DEVICE) == accelerator.current_stream()


@check
def a_stream_is_a_context() -> None:
    before, side = accelerator.current_stream(), torch.Stream(DEVICE)
    with side:
        assert accelerator.current_stream() == side
        y = x * 2
    assert accelerator.current_stream() == before
    accelerator.current_stream().wait_stream(side)
    same(y, [2.0] * 3)


@check(but=("mps",))
def contexts_nest() -> None:
    a, b, outside = torch.Stream(DEVICE), torch.Stream(DEVICE), accelerator.current_stream()
    with a:
        with b:
            assert accelerator.current_stream() == b
        assert accelerator.current_stream() == a
    assert accelerator.current_stream() == outside


@check(but=("mps",))
def set_stream() -> None:
    before, side = accelerator.current_stream(), torch.Stream(DEVICE)
    accelerator.set_stream(side)
    assert accelerator.current_stream() == side
    accelerator.set_stream(before)
    assert accelerator.current_stream() == before


@check(but=("mps",))
def each_thread_has_a_current_stream() -> None:
    seen: list[torch.Stream] = []
    with torch.Stream(DEVICE):
        thread = threading.Thread(target=lambda: seen.append(accelerator.current_stream()))
        thread.start()
        thread.join()
    assert seen == [accelerator.current_stream()]


@check
def record_stream_is_taken() -> None:
    side = torch.Stream(DEVICE)
    y = torch.ones(3, device=DEVICE)
    y.record_stream(side)
    same(y, [1.0] * 3)


@check
def events_take_time() -> None:
    start, end = event(enable_timing=True), event(enable_timing=True)
    begun = time.monotonic()
    start.record()
    time.sleep(0.02)
    (x @ x).item()
    end.record()
    end.synchronize()
    assert 20 <= start.elapsed_time(end) <= 1000 * (time.monotonic() - begun) + 1
    assert end.elapsed_time(start) <= -20


@check
def an_event_can_be_recorded_again() -> None:
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    end.record()
    time.sleep(0.01)
    end.record()
    assert start.elapsed_time(end) >= 10


@check
def an_event_without_timing_tells_no_time() -> None:
    start, end = event(), event()
    start.record()
    end.record()
    with refused("Both events must be created with argument 'enable_timing=True'", error=(ValueError, RuntimeError)):
        start.elapsed_time(end)


@check
def an_event_that_was_not_recorded_tells_no_time() -> None:
    start, end = event(enable_timing=True), event(enable_timing=True)
    with refused("Both events must be recorded before calculating elapsed time", error=(ValueError, RuntimeError)):
        start.elapsed_time(end)
    start.record()
    with refused("Both events must be recorded before calculating elapsed time", error=(ValueError, RuntimeError)):
        start.elapsed_time(end)


@check
def an_event_that_was_not_recorded_has_nothing_to_wait_for() -> None:
    fresh = event()
    assert fresh.query()
    fresh.synchronize()
    fresh.wait(accelerator.current_stream())


@check
def queries_say_that_the_work_is_done() -> None:
    recorded = event()
    recorded.record()
    assert recorded.query() and accelerator.current_stream().query()


@check
def a_stream_records_and_waits_for_events() -> None:
    side = torch.Stream(DEVICE)
    recorded = side.record_event()
    accelerator.current_stream().wait_event(recorded)
    given = event()
    assert side.record_event(given) is given or given.query()
    recorded.wait(side)


@check(only=("mps",))
def events_of_torch_mps() -> None:
    start, end = torch.mps.event.Event(enable_timing=True), torch.mps.event.Event(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert start.query() and end.query()
    end.wait()


@check(only=("mps",))
def an_unrecorded_event_of_torch_mps() -> None:
    with refused("recorded"):
        torch.mps.event.Event(enable_timing=True).elapsed_time(torch.mps.event.Event(enable_timing=True))


# ---- the backend's own classes


@check(but=("mps",))
def the_module_s_streams() -> None:
    side = MODULE.Stream()
    with MODULE.stream(side):
        assert MODULE.current_stream() == side
        y = x + 1
    MODULE.current_stream().wait_stream(side)
    side.synchronize()
    assert side.query()
    same(y, [2.0] * 3)


@check(only=("cuda", "npu", "mtia"))
def the_module_s_default_stream() -> None:
    assert MODULE.current_stream() == MODULE.default_stream()
    with MODULE.stream(MODULE.Stream()):
        assert MODULE.current_stream() != MODULE.default_stream()


@check(but=("mps",))
def the_module_s_stream_may_be_none() -> None:
    before = MODULE.current_stream()
    with MODULE.stream(None):
        assert MODULE.current_stream() == before


@check(but=("mps",))
def the_module_s_events() -> None:
    start, end = MODULE.Event(enable_timing=True), MODULE.Event(enable_timing=True)
    start.record()
    end.record(MODULE.current_stream())
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    MODULE.current_stream().wait_event(end)
    assert start.query()
    with refused("Both events must be created with argument 'enable_timing=True'", error=ValueError):
        MODULE.Event().elapsed_time(end)
    with refused("Both events must be recorded before calculating elapsed time", error=ValueError):
        start.elapsed_time(MODULE.Event(enable_timing=True))


@check(only=("cuda", "xpu"))
def streams_have_priorities_and_handles() -> None:
    side = MODULE.Stream(priority=-1)
    assert isinstance(side.cuda_stream if KIND == "cuda" else side.sycl_queue, int)
    assert side == MODULE.Stream(stream_id=side.stream_id, device_index=side.device_index, device_type=side.device_type)
    assert side != MODULE.current_stream()
    assert hash(side) == hash(MODULE.Stream(stream_id=side.stream_id, device_index=0, device_type=side.device_type))
    assert side.priority in (-1, 0)
    assert f"torch.{KIND}.Stream" in repr(side)


@check(only=("cuda", "xpu"))
def streams_and_events_of_the_module_are_torch_s() -> None:
    assert isinstance(MODULE.Stream(), torch.Stream)
    assert isinstance(MODULE.Event(), torch.Event)
    recorded = MODULE.Stream().record_event()
    assert isinstance(recorded, MODULE.Event) and recorded.query()


@check(only=("cuda",))
def an_external_stream() -> None:
    side = torch.cuda.Stream()
    external = torch.cuda.ExternalStream(side.cuda_stream)
    with torch.cuda.stream(external):
        same(x + 1, [2.0] * 3)


# ---- devices


@check(but=("mps",))
def each_device_has_a_current_stream() -> None:
    side = torch.Stream(f"{KIND}:1")
    assert side.device == torch.device(KIND, 1)
    with side:
        assert accelerator.current_stream(1) == side
        assert accelerator.current_stream(0).stream_id == 0
        assert accelerator.current_device_index() == 1
    assert accelerator.current_stream(1).stream_id == 0
    assert accelerator.current_device_index() == 0


@check(only=("cuda", "xpu", "npu"))
def the_module_s_stream_context_changes_the_device() -> None:
    with MODULE.stream(MODULE.Stream(1)):
        assert torch.ones(1, device=KIND).device.index == 1
    assert MODULE.current_device() == 0


@check(but=("mps",))
def each_thread_has_a_current_device() -> None:
    seen: list[int] = []
    with accelerator.device_index(1):
        thread = threading.Thread(target=lambda: seen.append(accelerator.current_device_index()))
        thread.start()
        thread.join()
    assert seen == [0]


@check
def streams_of_a_device_that_is_not_there() -> None:
    for attempt in (
        lambda: torch.Stream(f"{KIND}:7"),
        lambda: accelerator.current_stream(7),
        lambda: accelerator.synchronize(7),
        lambda: torch.Generator(f"{KIND}:7"),
    ):
        with refused("7"):
            attempt()


@check(only=("cuda", "xpu", "npu"))
def the_module_s_functions_for_a_device_that_is_not_there() -> None:
    for attempt in (
        lambda: MODULE.set_device(7),
        lambda: MODULE.synchronize(7),
        lambda: MODULE.current_stream(7),
        lambda: MODULE.memory_allocated(7),
        lambda: MODULE.get_rng_state(7),
        lambda: MODULE.get_device_properties(7),
        lambda: MODULE.mem_get_info(7),
        lambda: MODULE.get_device_name(7),
    ):
        with refused("", error=(RuntimeError, AssertionError, IndexError)):
            attempt()


@check(only=("cuda", "xpu"))
def device_of_and_negative_indices() -> None:
    y = torch.ones(1, device=f"{KIND}:1")
    with MODULE.device_of(y):
        assert MODULE.current_device() == 1
    with MODULE.device(-1):
        assert MODULE.current_device() == 0
    MODULE.set_device(-1)
    assert MODULE.current_device() == 0


@check(only=("cuda",))
def an_invalid_device_is_an_accelerator_error() -> None:
    with refused("CUDA error: invalid device ordinal", error=torch.AcceleratorError):
        torch.ones(1, device="cuda:2")
