"""Moving tensors: copies that do not wait, pinned memory, checkpoints."""

from __future__ import annotations

import io

import torch

from . import COUNT, KIND, ON_CUDA, ON_MPS, accel, check, environment, here, numbers, same, tensor


@check
def a_copy_to_the_host_that_is_read_at_once() -> None:
    """What programs do; where the copy may lag, on MPS, non_blocking() is False."""
    assert accel.non_blocking() is not ON_MPS
    assert accel.non_blocking(False) is False
    x = numbers(100).to(accel.device(), non_blocking=accel.non_blocking())
    copied = x.to("cpu", non_blocking=accel.non_blocking())
    if not ON_MPS:
        accel.synchronize()
    same(copied, numbers(100))


@check
def without_it_the_copy_is_not_there_yet() -> None:
    """So that the check above can fail; a synchronize brings it."""
    copied = numbers(100).to(here()).to("cpu", non_blocking=True)
    assert not torch.equal(copied, numbers(100))
    accel.synchronize()
    same(copied, numbers(100))


@check
def pinned_memory() -> None:
    assert accel.pin_memory() is not ON_MPS
    assert accel.pin_memory(False) is False
    host = numbers(3)
    pinned = accel.pin(host)
    assert pinned.is_pinned() is not ON_MPS
    assert (pinned is host) is ON_MPS
    same(pinned.to(accel.device(), non_blocking=accel.non_blocking()), host)


@check
def a_loader_that_pins() -> None:
    data = torch.utils.data.TensorDataset(numbers(8, 2))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=accel.pin_memory()):
        assert batch.is_pinned() is not ON_MPS
        assert batch.to(accel.device(), non_blocking=accel.non_blocking()).device == here(0)


def saved(index: int | None, **more: object) -> io.BytesIO:
    """A checkpoint with x on that device, or on the CPU, and y on the CPU."""
    file = io.BytesIO()
    x = numbers(3) if index is None else numbers(3).to(here(index))
    torch.save({"x": x, "y": torch.arange(2), **more}, file)
    return file


def from_cuda(index: int = 0) -> io.BytesIO:
    """The file that a program on CUDA writes: of the tensor only the name of its place differs."""
    tag = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: "cpu" if storage.nbytes() == 16 else f"cuda:{index}"
    try:
        return saved(None)  # y has 16 bytes
    finally:
        torch.serialization.location_tag = tag


def loaded(file: io.BytesIO, location: object, weights_only: bool = True) -> dict[str, torch.Tensor]:
    file.seek(0)
    return torch.load(file, map_location=location, weights_only=weights_only)


def places(file: io.BytesIO, location: object, weights_only: bool = True) -> tuple[str, str]:
    found = loaded(file, location, weights_only)
    same(found["x"], numbers(3))
    same(found["y"], [0, 1])
    return str(found["x"].device), str(found["y"].device)


@check
def without_a_location_a_checkpoint_goes_where_it_was() -> None:
    for weights_only in (True, False):
        assert places(saved(0), accel.map_location(), weights_only) == (f"{KIND}:0", "cpu")
        assert places(saved(None), accel.map_location(), weights_only) == ("cpu", "cpu")
        assert places(from_cuda(), accel.map_location(), weights_only) == (f"{KIND}:0", "cpu")


@check
def a_checkpoint_goes_where_it_is_told() -> None:
    for target in (0, "cuda:0", torch.device("cuda", 0), "cuda", accel.device()):
        for file in (saved(0), saved(None), from_cuda()):
            assert places(file, accel.map_location(target)) == (f"{KIND}:0", f"{KIND}:0"), target
    for file in (saved(0), from_cuda()):
        assert places(file, accel.map_location("cpu")) == ("cpu", "cpu")


@check(least=2)
def a_checkpoint_of_the_second_device() -> None:
    assert places(saved(1), accel.map_location()) == (f"{KIND}:1", "cpu")
    assert places(from_cuda(1), accel.map_location()) == (f"{KIND}:{int(ON_CUDA)}", "cpu")
    for file in (saved(1), from_cuda(1)):
        assert places(file, accel.map_location(0)) == (f"{KIND}:0", f"{KIND}:0")
        assert places(file, accel.map_location("cuda:1")) == (f"{KIND}:1", f"{KIND}:1")
    with accel.device_guard(1):
        assert places(from_cuda(0), accel.map_location()) == (f"{KIND}:{int(not ON_CUDA)}", "cpu")
        assert places(from_cuda(0), accel.map_location("cuda")) == (f"{KIND}:1", f"{KIND}:1")


@check
def a_checkpoint_of_a_second_device_that_is_not_here() -> None:
    if COUNT == 1 and not ON_CUDA:  # where torch itself refuses
        assert places(from_cuda(1), accel.map_location()) == (f"{KIND}:0", "cpu")
        assert places(from_cuda(1), accel.map_location("cuda:1")) == (f"{KIND}:0", f"{KIND}:0")


@check
def a_dictionary_of_locations() -> None:
    assert places(from_cuda(1), accel.map_location({"cuda:1": "cuda:0"})) == (f"{KIND}:0", "cpu")
    assert places(from_cuda(0), accel.map_location({"cuda:0": "cpu"})) == ("cpu", "cpu")
    assert places(from_cuda(0), accel.map_location({"cuda:1": "cpu"})) == (f"{KIND}:0", "cpu")
    assert places(from_cuda(0), accel.map_location({"cuda:0": "cpu", "cpu": "cuda:0"})) == ("cpu", f"{KIND}:0")


@check(least=2)
def a_dictionary_that_exchanges_two_devices() -> None:
    swap = {"cuda:0": "cuda:1", "cuda:1": "cuda:0"}
    assert places(from_cuda(0), accel.map_location(swap)) == (f"{KIND}:1", "cpu")
    assert places(from_cuda(1), accel.map_location(swap)) == (f"{KIND}:0", "cpu")


@check
def a_function_of_locations_stays() -> None:
    def keep(storage: object, location: str) -> object:
        return storage

    assert accel.map_location(keep) is keep
    assert places(from_cuda(), accel.map_location(keep)) == ("cpu", "cpu")


@check(only=("cuda",))
def on_cuda_the_location_is_the_program_s_own() -> None:
    assert accel.map_location() is None
    assert accel.map_location({"cuda:0": "cpu"}) == {"cuda:0": "cpu"}


@check
def a_checkpoint_of_a_device_loads_on_the_cpu() -> None:
    files = saved(0), from_cuda()
    with environment(TORCH_ACCEL_DEVICE="cpu"):
        for target in (None, 0, "cuda", {"cuda:0": "cuda:0"}):
            assert [places(file, accel.map_location(target)) for file in files] == [("cpu", "cpu")] * 2


@check
def a_model_s_and_an_optimizer_s_state() -> None:
    model = torch.nn.Linear(2, 2).to(accel.device())
    optimizer = torch.optim.Adam(model.parameters())
    model(tensor(1, 2)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    state = loaded(file, accel.map_location(accel.device()))
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    optimizer.step()
    assert state["model"]["weight"].device == here(0)
