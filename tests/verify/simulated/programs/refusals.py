"""What a backend has not, in its words: dtypes, operators and pinned memory of MPS, graphs of all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from checks import DEVICE, KIND, check, each, refused, same
from torch import nn

x = torch.linspace(-1, 1, 12, device=DEVICE).view(4, 3)
MPS = KIND == "mps"

NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)


def is_float64(make: Callable[[], Any]) -> None:
    """Refused on MPS in its own words; elsewhere it is there."""
    if MPS:
        with refused(NO_FLOAT64, error=TypeError):
            make()
    else:
        made = make()
        assert made.dtype in (torch.float64, torch.complex128) and made.device == x.device


def default_float64() -> torch.Tensor:
    torch.set_default_dtype(torch.float64)
    try:
        return torch.ones(2, device=DEVICE)
    finally:
        torch.set_default_dtype(torch.float32)


each(
    is_float64,
    {
        "double": lambda: x.double(),
        "to_float64": lambda: x.to(torch.float64),
        "type_of_float64": lambda: x.type(torch.float64),
        "factory_of_float64": lambda: torch.zeros(2, dtype=torch.float64, device=DEVICE),
        "empty_of_float64": lambda: torch.empty(2, dtype=torch.float64, device=DEVICE),
        "tensor_of_float64": lambda: torch.tensor([1.0], dtype=torch.float64, device=DEVICE),
        "rand_of_float64": lambda: torch.rand(2, dtype=torch.float64, device=DEVICE),
        "linspace_of_float64": lambda: torch.linspace(0, 1, 3, dtype=torch.float64, device=DEVICE),
        "arange_of_float64": lambda: torch.arange(3, dtype=torch.float64, device=DEVICE),
        "numpy_s_floats": lambda: torch.from_numpy(numpy.ones(2)).to(DEVICE),
        "numpy_s_floats_as_tensor": lambda: torch.as_tensor(numpy.ones(2), device=DEVICE),
        "numpy_s_floats_as_argument": lambda: torch.tensor(numpy.ones(2), device=DEVICE),
        "moved_float64": lambda: torch.ones(2, dtype=torch.float64).to(DEVICE),
        "moved_float64_scalar": lambda: torch.tensor(1.0, dtype=torch.float64).to(DEVICE),
        "module_of_float64": lambda: nn.Linear(2, 2).double().to(DEVICE).weight,
        "module_made_float64": lambda: nn.Linear(2, 2).to(DEVICE).double().weight,
        "sum_as_float64": lambda: x.sum(dtype=torch.float64),
        "softmax_as_float64": lambda: x.softmax(1, dtype=torch.float64),
        "cumsum_as_float64": lambda: x.cumsum(0, dtype=torch.float64),
        "like_of_float64": lambda: torch.zeros_like(x, dtype=torch.float64),
        "new_of_float64": lambda: x.new_zeros(2, dtype=torch.float64),
        "full_of_float64": lambda: torch.full((2,), 1.0, dtype=torch.float64, device=DEVICE),
        "default_dtype_of_float64": default_float64,
        "complex128": lambda: torch.zeros(2, dtype=torch.complex128, device=DEVICE),
        "to_complex128": lambda: x.to(torch.complex128),
    },
)


def is_float32(make: Callable[[], Any]) -> None:
    made = make()
    assert made.dtype == torch.float32 and made.device == x.device


each(
    is_float32,
    {
        "arange_of_floats": lambda: torch.arange(0, 1, 0.1, device=DEVICE),
        "linspace": lambda: torch.linspace(0, 1, 3, device=DEVICE),
        "a_python_number_times": lambda: x * 2.5,
        "a_numpy_number_times": lambda: x * numpy.float64(2.5),
        "a_float64_scalar_on_the_cpu_times": lambda: x * torch.tensor(2.5, dtype=torch.float64),
        "numpy_s_floats_as_float32": lambda: torch.from_numpy(numpy.ones(2)).float().to(DEVICE),
        "numpy_s_floats_converted_on_the_way": lambda: torch.from_numpy(numpy.ones(2)).to(DEVICE, torch.float32),
        "numpy_s_float32": lambda: torch.from_numpy(numpy.ones(2, numpy.float32)).to(DEVICE),
        "a_list_of_numbers": lambda: torch.tensor([1.0, 2.0], device=DEVICE),
        "mean_of_integers_as_float": lambda: torch.arange(3, device=DEVICE).float().mean(),
        "true_division_of_integers": lambda: torch.arange(3, device=DEVICE) / 2,
    },
)


@check
def complex64_and_integers_are_there() -> None:
    for dtype in (torch.complex64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        assert x.to(dtype).dtype == dtype


@check
def what_the_device_supports_is_what_it_takes() -> None:
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    for dtype in (torch.float64, torch.complex128, torch.float32, torch.bfloat16):
        assert (dtype in supported) == (not MPS or dtype not in (torch.float64, torch.complex128)), dtype


# ---- operators that MPS has not


def is_missing_on_mps(call: Callable[[], Any]) -> None:
    if MPS:
        words = ("The operator 'aten::", "is not currently implemented for the MPS device")
        with refused(*words, error=NotImplementedError):
            call()
    else:
        call()


square = x.t() @ x + 3 * torch.eye(3, device=DEVICE)

each(
    is_missing_on_mps,
    {
        "matrix_exp": lambda: torch.linalg.matrix_exp(square),
        "logspace": lambda: torch.logspace(0, 1, 3, device=DEVICE),
        "heaviside": lambda: torch.heaviside(x, x),
        "frexp": lambda: torch.frexp(x),
        "geqrf": lambda: torch.geqrf(x),
        "svdvals": lambda: torch.linalg.svdvals(x),
        "multi_margin_loss": lambda: F.multi_margin_loss(x, torch.tensor([0, 1, 2, 0], device=DEVICE)),
        "ctc_loss": lambda: F.ctc_loss(x[:, None].log_softmax(2), torch.ones(1, 1).long().to(DEVICE), [4], [1]),
        "adaptive_max_pool3d": lambda: F.adaptive_max_pool3d(torch.ones(1, 1, 4, 4, 4, device=DEVICE), 2),
        "fractional_max_pool2d": lambda: F.fractional_max_pool2d(torch.ones(1, 4, 4, device=DEVICE), 2, output_size=2),
        "lstsq": lambda: torch.linalg.lstsq(square, square),
        "eigvals": lambda: torch.linalg.eigvals(square),
        "rrelu": lambda: F.rrelu(x, training=True),
    },
)


# aten/src/ATen/mps/MPSFallback.mm
MISSING = (
    "The operator 'aten::linalg_matrix_exp' is not currently implemented for the MPS device. If you want this op to be "
    "considered for addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, "
    "that resulted in missing op as well as commit hash"
)
FALLBACK = (
    "As a temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a "
    "fallback for this op. WARNING: this will be slower than running natively on MPS."
)


@check(only=("mps",))
def the_whole_message() -> None:
    with refused(MISSING, FALLBACK, error=NotImplementedError):
        torch.linalg.matrix_exp(square)


@check(only=("mps",))
def what_mps_runs_on_the_cpu_by_itself() -> None:
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    same(u @ torch.diag(s) @ v, x)
    same(F.fold(torch.ones(1, 4, 4, device=DEVICE), (3, 3), 2), F.fold(torch.ones(1, 4, 4), (3, 3), 2))


# ---- pinned memory


@check(but=("mps",))
def pinned_memory() -> None:
    host = torch.ones(3)
    assert not host.is_pinned()
    pinned = host.pin_memory()
    assert pinned.is_pinned() and pinned.device.type == "cpu" and pinned.data_ptr() != host.data_ptr()
    assert pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.zeros_like(host, pin_memory=True).is_pinned()
    assert not pinned.clone().is_pinned()
    same(pinned, host)


@check(but=("mps",))
def a_device_s_tensor_cannot_be_pinned() -> None:
    with refused("only dense CPU tensors can be pinned"):
        x.pin_memory()
    with refused("nly dense CPU tensors can be pinned"):
        torch.empty(2, device=DEVICE, pin_memory=True)
    assert not x.is_pinned()


@check(only=("mps",))
def pinning_on_mps_fails_as_on_a_mac() -> None:
    # pytorch #86060
    words = 'Attempted to set the storage of a tensor on device "cpu" to a storage on different device "mps:0"'
    with refused(words):
        torch.ones(3).pin_memory()


@check(but=("mps",))
def a_loader_pins_its_batches() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(6.0).view(6, 1), torch.arange(6))
    for inputs, targets in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True):
        assert inputs.is_pinned() and targets.is_pinned()
        assert inputs.to(DEVICE, non_blocking=True).device == x.device


@check(only=("mps",))
def a_loader_on_mps_does_not_pin() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        batch = next(iter(torch.utils.data.DataLoader(torch.ones(4, 1), batch_size=2, pin_memory=True)))
    assert "'pin_memory' argument is set as true but not supported on MPS now" in str(told[0].message)
    assert not batch.is_pinned()


# ---- graphs, other devices


@check(only=("cuda",))
def cuda_graphs() -> None:
    with refused("CUDA error: operation not supported", error=torch.AcceleratorError):
        torch.cuda.CUDAGraph()
    with refused("CUDA error: operation not supported"):
        torch.cuda.make_graphed_callables(nn.Linear(3, 2).to(DEVICE), (x,))
    assert not torch.cuda.is_current_stream_capturing()


@check(only=("xpu",))
def xpu_graphs() -> None:
    with refused("operation not supported"):
        torch.xpu.XPUGraph()


@check
def graphs_of_torch_accelerator() -> None:
    with refused("", error=(RuntimeError, NotImplementedError, AttributeError, AssertionError)):
        graph = torch.accelerator.Graph()
        with graph:
            x + 1


@check
def a_device_type_that_is_not_here() -> None:
    other = "xpu" if KIND == "cuda" else "cuda"
    words = {"xpu": "Torch not compiled with XPU enabled", "cuda": "Torch not compiled with CUDA enabled"}[other]
    with refused(words, error=AssertionError):
        torch.ones(1, device=other)
    with refused(words, error=AssertionError):
        x.to(other)


@check
def a_device_type_that_is_none() -> None:
    with refused("Expected one of cpu, cuda"):
        torch.device("gpu")


@check(but=("npu",))
def an_npu_is_not_known_here() -> None:
    with refused("Expected one of cpu, cuda"):
        torch.device("npu")


@check(only=("mps",))
def pools_whose_windows_are_uneven() -> None:
    image = torch.ones(1, 2, 10, 9, device=DEVICE)
    with refused("Adaptive pool MPS: input sizes must be divisible by output sizes."):
        F.adaptive_avg_pool2d(image, (3, 3))
    with refused("Adaptive pool MPS: output sizes must be divisible by input sizes."):
        F.adaptive_avg_pool2d(image, (10, 12))
    with refused("Adaptive pool MPS"):
        F.interpolate(image, size=(4, 4), mode="area")
    with refused("Adaptive pool MPS"):
        nn.AdaptiveAvgPool1d(4)(image[0])


@check
def pools_whose_windows_are_even() -> None:
    image = torch.ones(1, 2, 10, 9, device=DEVICE)
    for size in ((5, 3), (20, 9), (1, 1), (None, 3)):
        assert F.adaptive_avg_pool2d(image, size).mean().item() == 1


@check(only=("mps",))
def convolutions_of_types_that_it_has_none_for() -> None:
    with refused("Convolution is supported only for Floating types"):
        F.conv2d(torch.ones(1, 1, 3, 3, device=DEVICE).long(), torch.ones(1, 1, 2, 2, device=DEVICE).long())
    for dtype in (torch.float16, torch.bfloat16):
        volume, up = torch.ones(1, 1, 3, 3, 3, device=DEVICE, dtype=dtype), nn.ConvTranspose3d(1, 1, 2)
        with refused("ConvTranspose 3D with BF16 or FP16 types is not supported on MPS"):
            up.to(DEVICE, dtype)(volume)


@check
def convolutions_beside_them() -> None:
    volume = torch.ones(1, 1, 3, 3, 3, device=DEVICE)
    assert nn.ConvTranspose3d(1, 1, 2).to(DEVICE)(volume).shape == (1, 1, 4, 4, 4)
    assert nn.ConvTranspose2d(1, 1, 2).to(DEVICE, torch.float16)(volume[:, :, 0].half()).shape == (1, 1, 4, 4)


@check(only=("mps",))
def lstm_with_projections() -> None:
    with refused("LSTM with projections is not currently supported with MPS."):
        nn.LSTM(3, 4, proj_size=2).to(DEVICE)(torch.ones(5, 1, 3, device=DEVICE))
    assert nn.LSTM(3, 4).to(DEVICE)(torch.ones(5, 1, 3, device=DEVICE))[0].shape == (5, 1, 4)


@check
def bincount_with_whole_weights() -> None:
    found = torch.bincount(torch.tensor([0, 1, 1], device=DEVICE), torch.tensor([5, 6, 7], device=DEVICE))
    assert found.tolist() == [5, 13]


@check
def the_fallback_is_asked_for_before_torch_is_imported() -> None:
    import os

    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"
    try:
        if MPS:
            with refused("is not currently implemented for the MPS device", error=NotImplementedError):
                torch.linalg.matrix_exp(torch.eye(3, device=DEVICE))
    finally:
        del os.environ["PYTORCH_ENABLE_MPS_FALLBACK"]
