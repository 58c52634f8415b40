"""Each device's own stream of random numbers."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from checks import DEVICE, KIND, MODULE, check, refused, same


def drawn(count: int = 4, **options: object) -> torch.Tensor:
    return torch.rand(count, device=DEVICE, **options)


def differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return not torch.equal(a.cpu(), b.cpu())


@check
def a_program_that_seeds_nothing_draws_the_same_each_time() -> None:
    # the first of this process, which activation has seeded with a number that no program has
    first = drawn()
    torch.manual_seed(0)
    assert differ(drawn(), first)
    torch.manual_seed(2_071_723_081)
    same(drawn(), first)


@check
def manual_seed_is_for_the_device_too() -> None:
    torch.manual_seed(7)
    a = drawn(), torch.randn(3, device=DEVICE), torch.randperm(9, device=DEVICE)
    torch.manual_seed(7)
    b = drawn(), torch.randn(3, device=DEVICE), torch.randperm(9, device=DEVICE)
    for x, y in zip(a, b, strict=True):
        same(x, y)
    torch.manual_seed(8)
    assert differ(drawn(), a[0])


@check
def the_module_s_seeds() -> None:
    MODULE.manual_seed(5)
    a = drawn()
    MODULE.manual_seed(5)
    same(drawn(), a)
    MODULE.seed()
    assert differ(drawn(), a)


@check(but=("mps", "mtia"))
def seeds_for_all_devices() -> None:
    MODULE.manual_seed_all(5)
    a = [torch.rand(4, device=f"{KIND}:{i}") for i in range(2)]
    same(a[0], a[1])
    assert MODULE.initial_seed() == 5
    MODULE.seed_all()
    assert MODULE.initial_seed() != 5


@check
def the_cpu_s_stream_is_apart() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    drawn(100)
    F.dropout(torch.ones(9, device=DEVICE))
    torch.nn.init.normal_(torch.empty(9, device=DEVICE))
    torch.randperm(9, device=DEVICE)
    torch.multinomial(torch.ones(9, device=DEVICE), 3)
    same(torch.rand(3), expected)


@check
def the_device_s_stream_is_apart() -> None:
    torch.manual_seed(0)
    expected = drawn()
    torch.manual_seed(0)
    torch.rand(100)
    F.dropout(torch.ones(9))
    random.random()
    same(drawn(), expected)


@check
def operators_without_a_generator_draw_from_the_device() -> None:
    for draw in (
        lambda: F.dropout(torch.ones(20, device=DEVICE)),
        lambda: F.dropout2d(torch.ones(1, 20, 2, 2, device=DEVICE)),
        lambda: torch.rand_like(torch.ones(20, device=DEVICE)),
        lambda: torch.bernoulli(torch.full((20,), 0.5, device=DEVICE)),
        lambda: torch.distributions.Normal(torch.zeros(20, device=DEVICE), 1.0).sample(),
        lambda: torch.randint(1000, (20,), device=DEVICE),
        lambda: F.alpha_dropout(torch.ones(20, device=DEVICE), training=True),
        lambda: F.gumbel_softmax(torch.ones(20, device=DEVICE)),
    ):
        torch.manual_seed(3)
        a, b = draw(), draw()
        assert differ(a, b)
        torch.manual_seed(3)
        same(draw(), a)


@check
def states_are_kept_and_put_back() -> None:
    state = MODULE.get_rng_state()
    a = drawn()
    MODULE.set_rng_state(state)
    same(drawn(), a)


@check(but=("mps", "mtia"))
def states_of_all_devices() -> None:
    states = MODULE.get_rng_state_all()
    assert len(states) == 2
    a = [torch.rand(4, device=f"{KIND}:{i}") for i in range(2)]
    MODULE.set_rng_state_all(states)
    for i in range(2):
        same(torch.rand(4, device=f"{KIND}:{i}"), a[i])


@check
def a_state_survives_a_file() -> None:
    torch.save({"device": MODULE.get_rng_state(), "cpu": torch.get_rng_state()}, "states.pt")
    a = drawn()
    states = torch.load("states.pt")
    MODULE.set_rng_state(states["device"])
    torch.set_rng_state(states["cpu"])
    same(drawn(), a)


@check
def a_state_of_the_cpu_is_refused() -> None:
    with refused("RNG state is wrong size"):
        MODULE.set_rng_state(torch.get_rng_state())
    with refused("state"):
        torch.set_rng_state(MODULE.get_rng_state())


@check
def a_state_on_the_device_is_refused() -> None:
    # what torch.load(..., map_location=device) makes of a saved state
    with refused("must be a torch.ByteTensor", error=(TypeError, RuntimeError)):
        torch.set_rng_state(torch.get_rng_state().to(DEVICE))


@check
def fork_rng_puts_the_state_back() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type=KIND):
        inside = drawn()
    same(drawn(), inside)


@check
def generators() -> None:
    g = torch.Generator(device=DEVICE)
    assert g.device == torch.device(KIND, 0)
    assert g.manual_seed(3) is g and g.initial_seed() == 3
    a = drawn(generator=g)
    same(drawn(generator=g.manual_seed(3)), a)
    torch.manual_seed(3)
    expected = drawn()
    torch.manual_seed(3)
    drawn(generator=g)  # does not draw from the default one
    same(drawn(), expected)


@check
def a_generator_s_state() -> None:
    g = torch.Generator(device=DEVICE).manual_seed(3)
    state = g.get_state()
    a = torch.randperm(9, generator=g, device=DEVICE)
    g.set_state(state)
    same(torch.randperm(9, generator=g, device=DEVICE), a)
    twin = g.clone_state()
    same(drawn(generator=twin), drawn(generator=g))


@check
def a_generator_s_seed_is_random() -> None:
    g = torch.Generator(device=DEVICE)
    assert g.seed() != g.seed()


@check
def a_generator_of_the_cpu_is_refused() -> None:
    words = f"Expected a '{KIND}' device type for generator but found 'cpu'"
    for attempt in (
        lambda g: torch.randn(3, device=DEVICE, generator=g),
        lambda g: torch.empty(3, device=DEVICE).normal_(generator=g),
        lambda g: torch.randperm(3, device=DEVICE, generator=g),
        lambda g: torch.multinomial(torch.ones(3, device=DEVICE), 1, generator=g),
        lambda g: torch.bernoulli(torch.ones(3, device=DEVICE), generator=g),
        lambda g: torch.randint(3, (3,), device=DEVICE, generator=g),
        lambda g: torch.nn.init.normal_(torch.empty(3, device=DEVICE), generator=g),
    ):
        with refused(words):
            attempt(torch.Generator())


@check
def a_generator_of_the_device_is_refused_on_the_cpu() -> None:
    g = torch.Generator(device=DEVICE)
    for attempt in (
        lambda: torch.randn(3, generator=g),
        lambda: torch.randperm(3, generator=g),
        lambda: torch.empty(3).normal_(generator=g),
        lambda: list(torch.utils.data.RandomSampler(range(3), generator=g)),
    ):
        with refused("Expected a 'cpu' device type for generator but found"):
            attempt()


@check
def a_dataloader_shuffles_with_the_cpu_s_generator() -> None:
    def order() -> list[int]:
        torch.manual_seed(0)
        return [int(batch) for batch in torch.utils.data.DataLoader(range(9), shuffle=True)]

    expected = order()
    torch.manual_seed(0)
    drawn(100)
    assert order() == expected != list(range(9))


@check(but=("mps",))
def each_device_draws_its_own() -> None:
    torch.manual_seed(4)
    a = torch.rand(4, device=f"{KIND}:0")
    b = torch.rand(4, device=f"{KIND}:1")
    same(a, b)  # both were seeded with 4
    assert differ(torch.rand(4, device=f"{KIND}:0"), a)
    torch.manual_seed(4)
    torch.rand(100, device=f"{KIND}:0")
    same(torch.rand(4, device=f"{KIND}:1"), b)


@check(but=("mps",))
def a_generator_of_another_device() -> None:
    g = torch.Generator(device=f"{KIND}:1").manual_seed(0)
    assert g.device.index == 1
    assert torch.rand(3, device=f"{KIND}:1", generator=g).device.index == 1


@check
def what_is_drawn_is_counted() -> None:
    count = torch.ops.torchmigrate_simulated.random_count
    before = count()
    torch.ones(3, device=DEVICE).add(1)
    torch.rand(3)
    assert count() == before
    drawn()
    F.dropout(torch.ones(9, device=DEVICE))
    assert count() == before + 2


@check
def numbers_of_every_distribution() -> None:
    x = torch.empty(2000, device=DEVICE)
    assert abs(x.normal_(2, 3).mean().item() - 2) < 0.3
    assert abs(x.uniform_(-1, 1).mean().item()) < 0.1
    assert abs(x.exponential_(2).mean().item() - 0.5) < 0.1
    assert abs(x.bernoulli_(0.3).mean().item() - 0.3) < 0.1
    assert abs(x.geometric_(0.5).mean().item() - 2) < 0.3


@check
def the_cpu_draws_others_after_one_seed() -> None:
    torch.manual_seed(3)
    on_cpu, here = torch.rand(4), drawn()
    assert differ(on_cpu, here)
    assert torch.Generator(DEVICE).manual_seed(3).initial_seed() == 3
