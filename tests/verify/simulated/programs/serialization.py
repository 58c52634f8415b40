"""Saving, loading, copying: where tensors come back."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import torch
from checks import DEVICE, KIND, MODULE, check, refused, same
from torch import nn

x = torch.arange(6.0, device=DEVICE).view(2, 3)
HERE = torch.device(KIND, 0)


def saved(thing: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(thing, file, **options)
    file.seek(0)
    return file


def reloaded(thing: Any, **options: Any) -> Any:
    return torch.load(saved(thing), **options)


@check
def a_tensor_comes_back_where_it_was() -> None:
    y = reloaded(x)
    assert y.device == HERE
    same(y, x)


# What files say about a place. (MTIA's tensors are kept as those of the CPU, with the device beside them.)
TAG = "mps" if KIND == "mps" else f"{KIND}:0"


@check
def map_location_to_the_cpu() -> None:
    for location in ("cpu", torch.device("cpu"), {TAG: "cpu"}):
        y = reloaded(x, map_location=location)
        assert y.device.type == "cpu", location
        same(y, x)


@check
def map_location_to_the_device() -> None:
    for location in (KIND, f"{KIND}:0", DEVICE, HERE, {"cpu": KIND}):
        y = reloaded(x.cpu(), map_location=location)
        assert y.device == HERE, location
        same(y, x)


@check(but=("mtia",))
def map_location_as_a_function() -> None:
    seen: list[str] = []
    y = reloaded(x, map_location=lambda storage, where: seen.append(where) or storage)
    assert y.device.type == "cpu" and seen == [TAG]
    assert reloaded(x, map_location=lambda storage, where: None).device == HERE


@check(but=("mps", "mtia"))
def map_location_as_a_function_that_moves() -> None:
    assert reloaded(x.cpu(), map_location=lambda storage, where: storage.to(device=DEVICE)).device == HERE


@check(only=("mps",))
def torch_moves_no_storage_to_mps() -> None:
    with refused("module 'torch.mps' has no attribute 'device'", error=AttributeError):
        x.cpu().untyped_storage().to(device=DEVICE)


@check(only=("mtia",))
def torch_calls_no_map_location_for_mtia() -> None:
    with refused("Callable map_location not supported"):
        reloaded(x, map_location=lambda storage, where: storage)


@check(but=("mtia",))
def storages_and_views_stay_shared() -> None:
    whole = torch.arange(6.0, device=DEVICE)
    a, b = reloaded([whole, whole[2:]])
    b.zero_()
    same(a, [0.0, 1.0, 0, 0, 0, 0])


@check
def all_dtypes() -> None:
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]
    for dtype in dtypes + ([torch.float64] if KIND != "mps" else []):
        y = reloaded(x.to(dtype))
        assert (y.dtype, y.device) == (dtype, HERE)
        same(y, x.to(dtype))


@check(but=("mtia",))
def the_old_file_format() -> None:
    y = torch.load(saved(x, _use_new_zipfile_serialization=False))
    assert y.device == HERE
    same(y, x)


@check
def mapped_files() -> None:
    torch.save(x.cpu(), "mapped.pt")
    y = torch.load("mapped.pt", mmap=True, map_location=DEVICE)
    assert y.device == HERE
    same(y, x)


@check
def whole_modules() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(DEVICE)
    other = reloaded(net, weights_only=False)
    assert {t.device for t in [*other.parameters(), *other.buffers()]} == {HERE}
    same(other(x), net(x))


@check
def parameters_and_gradients_needed() -> None:
    p = reloaded(nn.Parameter(x), weights_only=False)
    assert isinstance(p, nn.Parameter) and p.requires_grad and p.device == HERE


def checkpoint(device: object) -> tuple[nn.Module, torch.optim.Optimizer, dict[str, Any]]:
    torch.manual_seed(0)
    net = nn.Linear(3, 2).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=0.1)
    net(x.to(device)).square().sum().backward()
    opt.step()
    return net, opt, {"net": net.state_dict(), "opt": opt.state_dict(), "epoch": 3}


def continued(device: object, state: dict[str, Any]) -> torch.Tensor:
    net, opt, _ = checkpoint(device)
    net.load_state_dict(state["net"])
    opt.load_state_dict(state["opt"])
    opt.zero_grad()
    net(x.to(device)).square().sum().backward()
    opt.step()
    return net.weight.detach()


@check
def a_checkpoint_is_continued() -> None:
    _, _, state = checkpoint(DEVICE)
    same(continued(DEVICE, reloaded(state)), continued("cpu", reloaded(state, map_location="cpu")))


@check
def a_checkpoint_goes_from_and_to_the_cpu() -> None:
    expected = continued("cpu", reloaded(checkpoint("cpu")[2]))
    same(continued(DEVICE, reloaded(checkpoint("cpu")[2])), expected)
    same(continued(DEVICE, reloaded(checkpoint("cpu")[2], map_location=DEVICE)), expected)
    same(continued("cpu", reloaded(checkpoint(DEVICE)[2], map_location="cpu")), expected)


@check
def an_optimizer_s_state_moves_to_its_parameters() -> None:
    net, opt, _ = checkpoint(DEVICE)
    opt.load_state_dict(reloaded(opt.state_dict(), map_location="cpu"))
    state = opt.state[net.weight]
    assert state["exp_avg"].device == HERE
    assert state["step"].device.type == "cpu"  # torch.optim keeps it there


@check
def deepcopy() -> None:
    y = copy.deepcopy(x)
    assert y.device == HERE and y.data_ptr() != x.data_ptr()
    same(y, x)
    net = copy.deepcopy(nn.LSTM(3, 2).to(DEVICE))
    assert net(x[None])[0].device == HERE


@check
def pickle_round_trip() -> None:
    y = pickle.loads(pickle.dumps(x))
    assert y.device == HERE
    same(y, x)


@check
def storages() -> None:
    storage = x.untyped_storage()
    assert (storage.device, storage.nbytes()) == (HERE, 24)
    assert storage.cpu().device.type == "cpu"
    assert bytes(storage.cpu().tolist()) == x.cpu().numpy().tobytes()
    twin = storage.clone()
    assert twin.device == HERE and twin.data_ptr() != storage.data_ptr()
    made = torch.UntypedStorage(8, device=DEVICE)
    assert (made.device, made.nbytes()) == (HERE, 8)
    assert torch.empty(0, device=DEVICE).set_(made, 0, (2,)).shape == (2,)


@check
def typed_storages() -> None:
    storage = x.storage()
    assert storage.device == HERE
    assert storage.tolist() == [0.0, 1, 2, 3, 4, 5]
    assert storage.cpu().device.type == "cpu"


@check
def sharing_memory_changes_nothing() -> None:
    y = x.clone()
    address = y.data_ptr()
    assert y.share_memory_().device == HERE
    assert y.data_ptr() == address


@check
def a_module_s_device_is_kept_by_its_state_dict() -> None:
    state = nn.Linear(3, 2).to(DEVICE).state_dict()
    assert {t.device for t in state.values()} == {HERE}
    net = nn.Linear(3, 2)
    net.load_state_dict(state)
    assert net.weight.device.type == "cpu"
    net.load_state_dict(state, assign=True)
    assert net.weight.device == HERE


@check(but=("mps",))
def the_second_device_comes_back_as_the_second() -> None:
    y = reloaded(x.to(f"{KIND}:1"))
    assert y.device == torch.device(KIND, 1)
    for location in (f"{KIND}:0", {f"{KIND}:1": f"{KIND}:0"}):
        assert reloaded(x.to(f"{KIND}:1"), map_location=location).device == HERE


@check
def a_file_of_a_device_that_is_not_there() -> None:
    file = saved(x)
    for attempt in (
        lambda: torch.load(file, map_location={KIND: f"{KIND}:9", f"{KIND}:0": f"{KIND}:9"}),
        lambda: torch.load(saved(x.cpu()), map_location=f"{KIND}:9"),
    ):
        if KIND == "mps":
            continue  # there torch takes any index for the one device
        with refused("9"):
            attempt()


def elsewhere() -> str:
    return "cuda" if KIND != "cuda" else "xpu"


@check
def a_file_of_a_backend_that_is_not_here() -> None:
    raw = io.BytesIO(_relocated(elsewhere()))
    words = {"cuda": "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False"}
    with refused(words.get(elsewhere(), elsewhere().upper()), error=(RuntimeError, AssertionError, AttributeError)):
        torch.load(raw)
    raw.seek(0)
    assert torch.load(raw, map_location="cpu").device.type == "cpu"
    raw.seek(0)
    assert torch.load(raw, map_location=DEVICE).device == HERE


def _relocated(backend: str) -> bytes:
    """A file that says that its tensor was on another backend."""

    original = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: f"{backend}:0"
    try:
        return saved(x.cpu()).getvalue()
    finally:
        torch.serialization.location_tag = original


@check
def safe_globals_hold() -> None:
    class Mine:
        pass

    globals()["Mine"] = Mine
    Mine.__qualname__ = "Mine"
    with refused("Weights only load failed", error=pickle.UnpicklingError):
        reloaded(Mine())


@check
def random_states_in_a_checkpoint() -> None:
    state = reloaded({"rng": MODULE.get_rng_state()}, map_location=lambda storage, where: storage)
    MODULE.set_rng_state(state["rng"])
    with refused("must be a torch.ByteTensor", error=(TypeError, RuntimeError)):
        torch.set_rng_state(reloaded({"rng": torch.get_rng_state()}, map_location=DEVICE)["rng"])
