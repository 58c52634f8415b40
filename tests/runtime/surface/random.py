"""Seeds, states and generators: each device draws numbers of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import COUNT, accel, check, here


def drawn(index: int | None = None) -> list[float]:
    return torch.rand(4, device=here(index)).tolist()


def repeated(seed: Callable[[], object], index: int | None = None) -> bool:
    """Whether the same numbers come after each `seed()`."""
    seed()
    first = drawn(index)
    assert drawn(index) != first
    seed()
    return drawn(index) == first


@check
def a_seed_is_the_device_s() -> None:
    host = torch.get_rng_state()
    assert repeated(lambda: accel.manual_seed(7))
    assert repeated(lambda: accel.manual_seed_all(7))
    accel.manual_seed(7)
    seven = drawn()
    accel.manual_seed(8)
    assert drawn() != seven
    torch.manual_seed(7)
    assert drawn() == seven
    torch.set_rng_state(host)
    accel.manual_seed(9)
    accel.seed()
    accel.seed_all()
    assert torch.equal(torch.get_rng_state(), host)  # the CPU's generator is not concerned


@check
def the_seed_can_be_asked() -> None:
    torch.manual_seed(3)
    accel.manual_seed(11)
    assert accel.initial_seed() == 11
    accel.manual_seed_all(12)
    assert accel.initial_seed() == 12
    assert torch.initial_seed() == 3


@check
def a_random_seed_is_another_each_time() -> None:
    seeds = set()
    for function in (accel.seed, accel.seed_all) * 2:
        accel.manual_seed_all(1)
        function()
        seeds.add(accel.initial_seed())
    assert len(seeds | {1}) == 5


@check(least=2)
def one_device_is_seeded_or_all() -> None:
    accel.manual_seed_all(5)
    assert drawn(0) == drawn(1)
    accel.manual_seed(6)
    assert drawn(0) != drawn(1)
    with accel.device_guard(1):
        accel.manual_seed(6)
        assert accel.initial_seed() == 6
    accel.manual_seed(6)
    assert drawn(0) == drawn(1)
    accel.seed_all()
    assert drawn(0) == drawn(1)
    accel.seed()
    assert drawn(0) != drawn(1)


@check
def a_state_comes_back() -> None:
    for arguments in ((), (0,), ("cuda",), ("cuda:0",), (here(0),), (accel.device(),)):
        state = accel.get_rng_state(*arguments)
        assert (state.device.type, state.dtype) == ("cpu", torch.uint8)
        first = drawn()
        assert accel.set_rng_state(state, *arguments) is None
        assert drawn() == first, arguments
    accel.set_rng_state(state, device="cuda:0")
    accel.set_rng_state(new_state=accel.get_rng_state(device=0))
    assert drawn() == first


@check
def all_states_come_back() -> None:
    states = accel.get_rng_state_all()
    assert len(states) == COUNT
    first = [drawn(i) for i in range(COUNT)]
    accel.set_rng_state_all(states)
    assert [drawn(i) for i in range(COUNT)] == first


@check(least=2)
def the_state_of_the_second_device() -> None:
    accel.manual_seed_all(0)
    state = accel.get_rng_state(1)
    first, other = drawn(1), drawn(0)
    accel.set_rng_state(state, "cuda:1")
    assert drawn(1) == first
    assert drawn(0) != other


@check
def generators() -> None:
    before = accel.get_rng_state()
    for asked in (None, 0, "cuda", "cuda:0", here(0)):
        made = accel.generator(asked)
        assert made.device == here(0) or made.device == here()
        numbers = [torch.rand(3, device=accel.device(), generator=made.manual_seed(4)).tolist() for _ in range(2)]
        assert numbers[0] == numbers[1]
    assert torch.equal(accel.get_rng_state(), before)


@check(least=2)
def a_generator_of_the_second_device() -> None:
    made = accel.generator("cuda:1").manual_seed(4)
    assert made.device == here(1)
    assert torch.rand(3, device=here(1), generator=made).device == here(1)
    with accel.device_guard(1):
        assert accel.generator().device == here(1)
