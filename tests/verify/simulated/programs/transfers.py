"""Copies to the host with non_blocking=True: what the host sees before it has synchronized is poison."""

from __future__ import annotations

from collections.abc import Callable

import torch
from checks import DEVICE, KIND, MODULE, check, same

accelerator = torch.accelerator
x = torch.arange(1.0, 7.0, device=DEVICE).view(2, 3)
POISON = 0x7F


def buffer(*shape: int, **options: object) -> torch.Tensor:
    """Where a copy lags: pinned memory; on MPS, which pins nothing, any."""
    host = torch.zeros(*shape, **options)
    return host if KIND == "mps" else host.pin_memory()


def lags(host: torch.Tensor) -> bool:
    """Whether the copy's values are not there yet."""
    raw = host.contiguous().view(torch.uint8)
    assert (raw == POISON).all() or not (raw == POISON).any(), host
    return bool((raw == POISON).all())


def started() -> torch.Tensor:
    host = buffer(2, 3)
    host.copy_(x, non_blocking=True)
    assert lags(host), host
    return host


def arrived(host: torch.Tensor, expected: torch.Tensor = x) -> None:
    assert torch.equal(host, expected.cpu()), host


# ---- what lags


@check
def to_cpu_lags() -> None:
    # torch itself makes the target pinned (aten/src/ATen/native/TensorConversions.cpp)
    host = x.to("cpu", non_blocking=True)
    assert host.is_pinned() == (KIND != "mps")
    assert lags(host), host
    accelerator.synchronize()
    arrived(host)


@check
def the_sum_of_what_has_not_arrived_is_wrong() -> None:
    host = started()
    assert host.sum().item() > 1e38
    accelerator.synchronize()
    assert host.sum().item() == 21


@check
def a_blocking_copy_is_there_at_once() -> None:
    arrived(x.to("cpu"))
    arrived(x.cpu())
    arrived(buffer(2, 3).copy_(x))


@check(but=("mps",))
def a_copy_into_pageable_memory_is_there_at_once() -> None:
    arrived(torch.zeros(2, 3).copy_(x, non_blocking=True))


@check(only=("mps",))
def on_mps_a_copy_into_any_memory_lags() -> None:
    host = torch.zeros(2, 3)
    host.copy_(x, non_blocking=True)
    assert lags(host)
    torch.mps.synchronize()
    arrived(host)


@check
def a_copy_to_the_device_is_right_at_once() -> None:
    host = buffer(2, 3)
    host.copy_(torch.arange(6.0).view(2, 3))
    there = host.to(DEVICE, non_blocking=True)
    host.zero_()
    same(there, torch.arange(6.0).view(2, 3))
    there.copy_(torch.ones(2, 3), non_blocking=True)
    same(there + 0, torch.ones(2, 3))


@check
def a_copy_within_the_device_is_right_at_once() -> None:
    same(torch.zeros_like(x).copy_(x, non_blocking=True), x)


@check
def a_part_of_a_buffer_lags_alone() -> None:
    host = buffer(3, 2, 3)
    host[1].copy_(x, non_blocking=True)
    assert lags(host[1]) and not lags(host[0]) and not lags(host[2])
    accelerator.synchronize()
    arrived(host[1])
    assert not host[0].any() and not host[2].any()


@check
def other_dtypes_lag() -> None:
    for dtype in (torch.float16, torch.int64, torch.uint8, torch.bool):
        host = buffer(2, 3, dtype=dtype)
        host.copy_(x.to(dtype), non_blocking=True)
        if dtype != torch.bool:
            assert lags(host), dtype
        accelerator.synchronize()
        arrived(host, x.to(dtype))


@check
def a_conversion_on_the_way_lags() -> None:
    host = buffer(2, 3, dtype=torch.float16)
    host.copy_(x, non_blocking=True)
    assert lags(host)
    accelerator.synchronize()
    arrived(host, x.half())


@check
def a_strided_source_lags() -> None:
    host = buffer(3, 2)
    host.copy_(x.t(), non_blocking=True)
    assert lags(host)
    accelerator.synchronize()
    arrived(host, x.t())


@check
def a_target_of_the_same_strides_lags() -> None:
    host = buffer(2, 3).t()
    host.copy_(x.t(), non_blocking=True)
    assert lags(host)
    accelerator.synchronize()
    arrived(host, x.t())


@check(but=("mps",))
def a_strided_target_is_there_at_once() -> None:
    # it needs a temporary one, which is pageable: aten/src/ATen/native/cuda/Copy.cu
    host = buffer(2, 6)[:, ::2]
    host.copy_(x, non_blocking=True)
    arrived(host)


@check(only=("mps",))
def a_strided_target_lags_on_mps() -> None:
    whole = buffer(2, 6)
    whole[:, ::2].copy_(x, non_blocking=True)
    assert lags(whole[:, ::2]) and not whole[:, 1::2].any()
    accelerator.synchronize()
    arrived(whole[:, ::2])
    assert not whole[:, 1::2].any()


@check
def an_empty_copy() -> None:
    host = buffer(0, 3)
    host.copy_(x[:0], non_blocking=True)
    accelerator.synchronize()
    assert host.shape == (0, 3)


@check
def a_parameter_s_value_lags() -> None:
    host = buffer(2, 3)
    host.copy_(torch.nn.Parameter(x).detach(), non_blocking=True)
    assert lags(host)
    accelerator.synchronize()
    arrived(host)


@check
def a_state_dict_that_is_offloaded() -> None:
    net = torch.nn.Linear(3, 2).to(DEVICE)
    state = {name: buffer(*p.shape).copy_(p.detach(), non_blocking=True) for name, p in net.state_dict().items()}
    assert all(lags(host) for host in state.values())
    accelerator.synchronize()
    for name, p in net.state_dict().items():
        arrived(state[name], p)


@check
def gradients_flow_through_a_lagging_copy() -> None:
    p = torch.nn.Parameter(x.clone())
    host = p.to("cpu", non_blocking=True)
    accelerator.synchronize()
    host.sum().backward()
    same(p.grad, torch.ones(2, 3))


# ---- what the host waits for


def lands(synchronize: Callable[[], object]) -> None:
    host = started()
    synchronize()
    arrived(host)


@check
def the_accelerator_s_synchronize() -> None:
    lands(accelerator.synchronize)


@check
def the_module_s_synchronize() -> None:
    lands(MODULE.synchronize)


@check
def the_current_stream_s_synchronize() -> None:
    lands(lambda: accelerator.current_stream().synchronize())


@check
def a_stream_s_query() -> None:
    lands(lambda: accelerator.current_stream().query())


@check
def item() -> None:
    lands(lambda: x[0, 0].item())


@check
def tolist_and_printing() -> None:
    lands(x.tolist)
    lands(lambda: repr(x))


@check
def a_condition() -> None:
    lands(lambda: bool((x > 0).all()))


@check
def another_blocking_copy() -> None:
    lands(x.cpu)
    lands(lambda: torch.ones(3).to(DEVICE))


@check
def a_shape_that_depends_on_values() -> None:
    lands(lambda: (x > 2).nonzero())
    lands(lambda: x[x > 2])
    lands(x.unique)


@check
def an_event_recorded_afterwards() -> None:
    host = started()
    event = torch.Event(DEVICE)
    event.record()
    event.synchronize()
    arrived(host)


@check
def a_query_of_an_event() -> None:
    host = started()
    event = torch.Event(DEVICE)
    event.record()
    assert event.query()
    arrived(host)


@check
def an_event_recorded_before_is_not_enough() -> None:
    event = torch.Event(DEVICE)
    event.record()
    host = started()
    event.synchronize()
    assert lags(host)
    accelerator.synchronize()
    arrived(host)


@check(only=("mps",))
def an_event_of_torch_mps() -> None:
    before, after = torch.mps.Event(), torch.mps.Event()
    before.record()
    host = started()
    after.record()
    before.synchronize()
    assert lags(host)
    after.synchronize()
    arrived(host)


@check
def launching_kernels_is_not_enough() -> None:
    host = started()
    y = x * 2
    y += 1
    assert lags(host), y.shape
    accelerator.synchronize()


@check
def emptying_the_cache_is_not_enough() -> None:
    host = started()
    accelerator.empty_cache()
    assert accelerator.memory_allocated() > 0
    assert lags(host)
    accelerator.synchronize()


@check
def work_on_the_cpu_is_not_enough() -> None:
    host = started()
    (torch.ones(100, 100) @ torch.ones(100, 100)).sum().item()
    assert lags(host)
    accelerator.synchronize()


# ---- streams (a Mac has one)


@check(but=("mps",))
def a_stream_of_its_own_has_to_be_waited_for() -> None:
    side = torch.Stream(DEVICE)
    with side:
        host = started()
    accelerator.current_stream().synchronize()
    assert lags(host)
    x.sum().item()  # the current stream's
    assert lags(host)
    side.synchronize()
    arrived(host)


@check(but=("mps",))
def a_side_stream_does_not_land_the_default_one_s() -> None:
    host, side = started(), torch.Stream(DEVICE)
    side.synchronize()
    assert lags(host)
    accelerator.synchronize()
    arrived(host)


@check(but=("mps",))
def the_device_s_synchronize_lands_every_stream_s() -> None:
    hosts = []
    for _ in range(3):
        with torch.Stream(DEVICE):
            hosts.append(started())
    accelerator.synchronize()
    for host in hosts:
        arrived(host)


@check(but=("mps",))
def wait_stream() -> None:
    side = torch.Stream(DEVICE)
    with side:
        host = started()
    accelerator.current_stream().wait_stream(side)
    assert lags(host)  # the device waits, the host does not
    accelerator.current_stream().synchronize()
    arrived(host)


@check(but=("mps",))
def wait_event_in_a_chain() -> None:
    a, b, c = (torch.Stream(DEVICE) for _ in range(3))
    with a:
        host = started()
    b.wait_event(a.record_event())
    c.wait_event(b.record_event())
    assert lags(host)
    c.synchronize()
    arrived(host)


@check(but=("mps",))
def a_wait_before_the_copy_is_not_enough() -> None:
    side = torch.Stream(DEVICE)
    accelerator.current_stream().wait_stream(side)
    with side:
        host = started()
    accelerator.current_stream().synchronize()
    assert lags(host)
    side.synchronize()
    arrived(host)


@check(but=("mps",))
def an_event_recorded_before_its_stream_waits_is_not_enough() -> None:
    a, b = torch.Stream(DEVICE), torch.Stream(DEVICE)
    with a:
        host = started()
    early = b.record_event()
    b.wait_stream(a)
    early.synchronize()
    assert lags(host)
    b.record_event().synchronize()
    arrived(host)


@check(but=("mps",))
def copies_land_in_their_order() -> None:
    host = buffer(2, 3)
    host.copy_(x, non_blocking=True)
    host.copy_(x * 2, non_blocking=True)
    accelerator.synchronize()
    arrived(host, x * 2)


@check
def many_at_once() -> None:
    hosts = [buffer(4) for _ in range(500)]
    for i, host in enumerate(hosts):
        host.copy_(torch.full((4,), float(i), device=DEVICE), non_blocking=True)
    assert all(lags(host) for host in hosts)
    accelerator.synchronize()
    assert [host[0].item() for host in hosts] == list(range(500))


@check
def many_one_after_another() -> None:
    for i in range(500):
        host = buffer(4)
        host.copy_(torch.full((4,), float(i), device=DEVICE), non_blocking=True)
        accelerator.synchronize()
        assert host[0].item() == i


@check
def a_target_that_is_dropped_before_it_lands() -> None:
    for _ in range(50):
        buffer(1000).copy_(torch.ones(1000, device=DEVICE), non_blocking=True)
    accelerator.synchronize()


@check
def a_target_that_grows_before_it_lands() -> None:
    host = torch.zeros(2, 3) if KIND == "mps" else torch.zeros(2, 3, pin_memory=True)
    host.copy_(x, non_blocking=True)
    host.resize_(1000, 1000)
    accelerator.synchronize()
    assert host.shape == (1000, 1000)


@check
def a_source_that_is_dropped_or_changed_before_it_lands() -> None:
    source, host = x.clone(), buffer(2, 3)
    host.copy_(source, non_blocking=True)
    source.zero_()
    del source
    accelerator.synchronize()
    arrived(host)


@check
def what_never_lands_does_not_disturb_the_end_of_the_process() -> None:
    started()


@check
def a_thread_of_its_own_copies_and_waits() -> None:
    import threading

    hosts: list[torch.Tensor] = []

    def work() -> None:
        hosts.append(started())
        accelerator.synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    arrived(hosts[0])


@check
def a_copy_back_in_the_same_stream_is_right() -> None:
    # as activations are kept on the host: the device does in order what one stream was given
    host = started()
    back = host.to(DEVICE, non_blocking=True)
    assert lags(host)
    same(back * 1, x)
    same(host[1:].to(DEVICE), x[1:])


@check(but=("mps",))
def a_copy_back_in_another_stream_has_to_wait() -> None:
    host, side = started(), torch.Stream(DEVICE)
    with side:
        early = host.to(DEVICE, non_blocking=True)
    side.wait_stream(accelerator.current_stream())
    with side:
        back = host.to(DEVICE, non_blocking=True)
    accelerator.synchronize()
    assert lags(early.cpu())
    same(back, x)


# ---- two devices


@check(but=("mps",))
def a_device_s_synchronize_is_for_its_own_copies() -> None:
    host = buffer(2, 3)
    host.copy_(x.to(f"{KIND}:1"), non_blocking=True)
    accelerator.synchronize(0)
    assert lags(host)
    accelerator.synchronize(1)
    arrived(host)


@check(but=("mps",))
def default_streams_of_two_devices_are_two() -> None:
    host = buffer(2, 3)
    host.copy_(x.to(f"{KIND}:1"), non_blocking=True)
    event = torch.Event(f"{KIND}:0")
    event.record(accelerator.current_stream(0))
    event.synchronize()
    assert lags(host)
    accelerator.current_stream(1).synchronize()
    arrived(host)


@check(but=("mps",))
def a_stream_waits_for_another_device_s() -> None:
    host = started()  # on device 0
    event = accelerator.current_stream(0).record_event()
    accelerator.current_stream(1).wait_event(event)
    accelerator.current_stream(1).synchronize()
    arrived(host)


@check(but=("mps",))
def a_copy_between_devices_waits_for_nothing() -> None:
    host = started()
    same(x.to(f"{KIND}:1").sum() * 0, 0)  # (reads from device 1)
    assert lags(host)
    accelerator.synchronize()
    arrived(host)
