"""torch.cuda.FloatTensor and its kin, which have no successor on other backends."""

from __future__ import annotations

import warnings

import torch

from . import KIND, ON_CUDA, ON_MPS, accel, check, here, numbers, same, tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


@check
def a_type_makes_tensors_on_the_device() -> None:
    for dtype in DTYPES:
        made = accel.tensor_type(dtype)
        assert accel.tensor_type(dtype) is made
        for found, shape in ((made(2, 3), (2, 3)), (made(torch.Size([2])), (2,)), (made(), (0,)), (made([1, 0]), (2,))):
            assert (found.device, found.dtype, tuple(found.shape)) == (here(0), dtype, shape), made
        same(made([1, 0]).to(torch.int64), [1, 0])
        assert made.dtype == dtype
    same(accel.tensor_type(torch.float32)(numbers(3).to(here())), numbers(3))
    assert accel.tensor_type(torch.float32).__name__ == "FloatTensor"


@check(but=("cuda",))
def elsewhere_a_type_moves_a_tensor_of_the_cpu() -> None:
    assert accel.tensor_type(torch.int64)(torch.ones(2)).device == here(0)


@check
def a_tensor_is_an_instance_of_its_type() -> None:
    Float, Long = accel.tensor_type(torch.float32), accel.tensor_type(torch.int64)
    assert isinstance(tensor(1), Float)
    assert isinstance(Float(1), (torch.FloatTensor, Float))
    assert not isinstance(tensor(1), Long)
    assert not isinstance(torch.ones(1), Float)
    assert not isinstance(tensor(1), torch.FloatTensor)


@check
def a_cast_changes_the_type_and_moves() -> None:
    wanted = (torch.float16, "torch.cuda.HalfTensor", torch.cuda.HalfTensor, accel.tensor_type(torch.float16))
    for x in (torch.ones(2), tensor(2)):
        for each in wanted:
            cast = accel.cast(x, each)
            assert (cast.device, cast.dtype) == (here(0), torch.float16), each
        for each in (torch.IntTensor, "torch.IntTensor"):
            cast = accel.cast(x, each)
            assert (cast.device.type, cast.dtype) == ("cpu", torch.int32), each


@check(least=2)
def a_cast_leaves_a_tensor_on_its_device() -> None:
    assert accel.cast(tensor(2, index=1), torch.float16).device == here(1)


@check
def a_cast_of_a_module() -> None:
    for wanted in (torch.float16, "torch.cuda.HalfTensor"):
        weight = accel.cast(torch.nn.Linear(2, 2), wanted).weight
        assert (weight.device, weight.dtype) == (here(0), torch.float16)
        assert isinstance(weight, torch.nn.Parameter)


@check
def the_default_type() -> None:
    dtype = torch.float16 if ON_MPS else torch.float64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            accel.set_default_tensor_type(dtype)
            made = [torch.ones(2), torch.zeros(2), torch.tensor([1.0]), torch.nn.Linear(2, 2).weight]
            assert {(x.device.type, x.dtype) for x in made} == {(KIND, dtype)}
            same(torch.arange(3), [0, 1, 2])
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)
            torch.set_default_device(None)
    assert (torch.ones(1).device.type, torch.ones(1).dtype) == ("cpu", torch.float32)


@check
def doubles() -> None:
    made = accel.double(numbers(3).to(here()) > 0)
    assert (made.device.type, made.dtype) == ("cpu" if ON_MPS else KIND, torch.float64)
    same(made, (numbers(3) > 0).double())
    assert accel.double(torch.nn.Linear(2, 2)).weight.dtype == torch.float64


@check
def what_mps_lacks_comes_to_the_cpu() -> None:
    matrix = torch.tensor([[2.0, 1.0], [1.0, 2.0]], requires_grad=True)
    there = matrix.detach().to(here()).requires_grad_()
    values, vectors = (made := accel.cpu_fallback(torch.linalg.eigh)(there, UPLO="U"))
    assert (values.device.type, vectors.device.type, type(made).__name__) == (KIND, KIND, "linalg_eigh")
    same(values, torch.linalg.eigh(matrix).eigenvalues)
    values.sum().backward()
    assert there.grad is not None and there.grad.device.type == KIND
    same(accel.cpu_fallback(torch.linalg.eigh)(matrix)[0], values)
    log_probs = torch.log_softmax(numbers(4 * 1 * 3).reshape(4, 1, 3), 2)
    targets, lengths = torch.tensor([[1, 2]]), (torch.tensor([4]), torch.tensor([2]))
    criterion = accel.cpu_fallback(torch.nn.CTCLoss(blank=0)).to(here())
    assert isinstance(criterion, torch.nn.CTCLoss) and not criterion.state_dict()
    loss = criterion(log_probs.to(here()), targets.to(here()), *(length.to(here()) for length in lengths))
    assert loss.device.type == KIND
    same(loss, torch.nn.functional.ctc_loss(log_probs, targets, *lengths))
    same(accel.cpu_fallback(torch.nn.functional.ctc_loss)(log_probs, targets, *lengths), loss)


@check
def sparse_tensors() -> None:
    indices, values = torch.tensor([[0, 2]]), numbers(2)
    for i, v in ((indices, values), (indices.to(here()), values.to(here()))):
        made = accel.sparse_tensor(i, v)
        assert (made.device, made.layout, made.dtype) == (here(0), torch.sparse_coo, torch.float32)
        same(made.to_dense(), torch.sparse_coo_tensor(indices, values).to_dense())
        assert accel.sparse_tensor(i, v, torch.Size([5])).shape == accel.sparse_tensor(i, v, (5,)).shape == (5,)


@check(least=2)
def a_sparse_tensor_is_where_its_values_are() -> None:
    made = accel.sparse_tensor(torch.tensor([[0]]).to(here(1)), tensor(1, index=1))
    assert made.device == here(1)
    assert ON_CUDA or accel.device() == here()
