"""torch.cuda.FloatTensor and its kin on a simulated CUDA device."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

import torch
from checks import check, refused, same
from torch import nn

warnings.simplefilter("ignore")
DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
}
CUDA = torch.device("cuda", 0)


@contextlib.contextmanager
def default(kind: object) -> Iterator[None]:
    torch.set_default_tensor_type(kind)
    try:
        yield
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)


@check(only=("cuda",))
def of_sizes_they_are_uninitialised() -> None:
    x = torch.cuda.FloatTensor(2, 3)
    assert (x.shape, x.device, x.dtype) == ((2, 3), CUDA, torch.float32)
    assert x.min() > 1e38, "device memory is poisoned"
    assert torch.cuda.FloatTensor().shape == (0,)
    assert torch.cuda.FloatTensor(torch.Size([4])).shape == (4,)


@check(only=("cuda",))
def of_values_they_are_on_the_device() -> None:
    for name, dtype in DTYPES.items():
        x = getattr(torch.cuda, f"{name}Tensor")([[1, 0], [1, 1]])
        assert (x.device, x.dtype) == (CUDA, dtype)
        same(x, torch.tensor([[1, 0], [1, 1]], dtype=dtype))


@check(only=("cuda",))
def of_a_tensor_they_are_a_view() -> None:
    x = torch.ones(2, device="cuda")
    y = torch.cuda.FloatTensor(x)
    y[0] = 5
    same(x, [5.0, 1.0])


@check(only=("cuda",))
def a_tensor_of_another_kind_is_refused() -> None:
    for wrong in (torch.ones(1), torch.ones(1, device="cuda", dtype=torch.float64)):
        with refused("expected", "got", error=TypeError):
            torch.cuda.FloatTensor(wrong)
    with refused("expected", "device=cpu", error=TypeError):
        torch.FloatTensor(torch.ones(1, device="cuda"))


@check(only=("cuda",))
def they_follow_the_current_device() -> None:
    with torch.cuda.device(1):
        assert torch.cuda.FloatTensor([1]).get_device() == 1
    assert torch.cuda.FloatTensor([1], device="cuda:1").get_device() == 1


@check(only=("cuda",))
def they_say_what_they_are() -> None:
    for name, dtype in DTYPES.items():
        kind = getattr(torch.cuda, f"{name}Tensor")
        assert (kind.dtype, kind.layout, kind.is_cuda, kind.is_sparse) == (dtype, torch.strided, True, False)
        assert repr(kind) == f"<class 'torch.cuda.{name}Tensor'>" and kind.__module__ == "torch.cuda"
        assert getattr(torch, f"{name}Tensor").is_cuda is False


@check(only=("cuda",))
def isinstance_looks_at_device_and_dtype() -> None:
    x, kind = torch.ones(1, device="cuda"), torch.cuda.FloatTensor
    assert isinstance(x, kind) and isinstance(nn.Parameter(x), kind)
    assert not isinstance(x.cpu(), kind) and not isinstance(x.half(), kind) and not isinstance(x, torch.FloatTensor)
    assert isinstance(x.half(), torch.cuda.HalfTensor) and isinstance(x.cpu(), torch.FloatTensor)


@check(only=("cuda",))
def type_moves_and_converts() -> None:
    x = torch.tensor([1.5])
    for kind in (torch.cuda.FloatTensor, "torch.cuda.FloatTensor"):
        assert x.type(kind).type() == "torch.cuda.FloatTensor" and x.type(kind).device == CUDA
    assert x.type(torch.cuda.LongTensor).tolist() == [1]
    assert x.cuda().type(torch.FloatTensor).device.type == "cpu"
    assert x.cuda().type(torch.float16).type() == "torch.cuda.HalfTensor"
    on_second = torch.ones(1, device="cuda:1")
    assert on_second.type(torch.cuda.HalfTensor).get_device() == 1
    assert x.type_as(on_second).get_device() == 1


@check(only=("cuda",))
def new_stays_where_it_is() -> None:
    x = torch.ones(1, device="cuda:1")
    assert x.new(2, 2).shape == (2, 2) and x.new(2).get_device() == 1
    same(x.new([3, 4]), [3.0, 4.0])


@check(only=("cuda",))
def modules_change_their_type() -> None:
    for kind in (torch.cuda.HalfTensor, "torch.cuda.HalfTensor"):
        assert nn.Linear(1, 1).type(kind).weight.type() == "torch.cuda.HalfTensor"


@check(only=("cuda",))
def storages() -> None:
    assert torch.cuda.FloatStorage(3).device == CUDA
    assert torch.ones(2, device="cuda").storage().type() == "torch.cuda.FloatStorage"


@check(only=("cuda",))
def a_default_type_makes_tensors_on_the_device() -> None:
    for kind in (torch.cuda.DoubleTensor, "torch.cuda.DoubleTensor"):
        with default(kind):
            made = (
                torch.ones(1),
                torch.zeros(2),
                torch.tensor([1.0]),
                torch.Tensor([1]),
                torch.empty(3),
                torch.randn(2),
            )
            assert {(x.device, x.dtype) for x in made} == {(CUDA, torch.float64)}
            assert torch.arange(3).device == CUDA and nn.Linear(1, 1).weight.device == CUDA
            assert torch.tensor([1.0], device="cpu").device.type == "cpu"
            assert isinstance(torch.ones(1), kind if not isinstance(kind, str) else torch.cuda.DoubleTensor)
    assert (torch.ones(1).device.type, torch.ones(1).dtype) == ("cpu", torch.float32)


@check(only=("cuda",))
def under_a_default_type_cpu_generators_are_refused() -> None:
    """So a shuffling DataLoader without a generator of the device fails, as on CUDA."""
    with default("torch.cuda.FloatTensor"), refused("Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.randperm(3, generator=torch.Generator())


@check(only=("cuda",))
def sparse_types_make_sparse_tensors() -> None:
    kind = torch.cuda.sparse.FloatTensor
    x = kind(torch.cuda.LongTensor([[0, 2]]), torch.cuda.FloatTensor([3, 4]), torch.Size([3]))
    assert x.is_sparse and x.device == CUDA and isinstance(x, kind) and x.type() == "torch.cuda.sparse.FloatTensor"
    same(x.to_dense(), [3.0, 0.0, 4.0])
    assert kind.is_cuda and kind.is_sparse


@check(only=("cuda",))
def pickled_by_name() -> None:
    file = io.BytesIO()
    torch.save({"kind": torch.cuda.FloatTensor}, file)
    file.seek(0)
    assert torch.load(file, weights_only=False)["kind"] is torch.cuda.FloatTensor


@check(only=("mps", "xpu", "npu", "mtia"))
def elsewhere_they_are_not_available() -> None:
    with refused("type torch.cuda.FloatTensor not available. Torch not compiled with CUDA enabled.", error=TypeError):
        torch.cuda.FloatTensor(1)
    with refused("not available", error=TypeError):
        torch.set_default_tensor_type(torch.cuda.FloatTensor)
    assert torch.cuda.FloatTensor.is_cuda
