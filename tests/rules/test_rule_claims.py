"""What the findings of library/, distributed/, quantization/, jit/ and nested/ say of torch, measured on this build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
torchgen = pytest.importorskip("torchgen")

from torchmigrate import runtime as accel  # noqa: E402

cpu_only = pytest.mark.skipif(accel.device_type() != "cpu", reason="what the CPU does")


def kernels(operator: str) -> set[str]:
    """The backends that torch's own list has a kernel of an operator for."""
    listed = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    start = re.search(rf"^- func: {re.escape(operator)}\(.*?(?=^- func: |\Z)", listed.read_text(), re.M | re.S)
    assert start, f"torch has no {operator}"
    dispatch = re.search(r"^  dispatch:\n((?:    .*\n)+)", start.group(), re.M)
    keys = (line.partition(":")[0] for line in (dispatch.group(1) if dispatch else "").splitlines())
    return {key.strip() for line in keys for key in line.split(",")}


@pytest.mark.parametrize(
    "operator",
    [
        "_nested_tensor_from_mask_left_aligned", "_jagged_to_padded_dense_forward", "quantize_per_tensor",
        "quantize_per_channel", "fake_quantize_per_tensor_affine_cachemask", "_fused_moving_avg_obs_fq_helper",
        "_to_sparse_csr", "_to_sparse_bsc", "hspmm",
    ],
)  # fmt: skip
def test_operators_that_cuda_has_and_mps_has_not(operator: str) -> None:
    found = kernels(operator)
    assert any("CUDA" in key for key in found)
    assert not any("MPS" in key for key in found)


def test_operators_of_cuda_alone_and_the_int4_kernels_of_each() -> None:
    assert kernels("_cslt_sparse_mm") == {"CUDA"}
    assert kernels("_spsolve") == {"SparseCsrCUDA"}
    assert kernels("_weight_int4pack_mm") == {"CUDA", "MPS"}
    assert kernels("_weight_int4pack_mm_for_cpu") == {"CPU"}
    assert kernels("_weight_int4pack_mm_with_scales_and_zeros") == {"XPU"}


def test_coo_tensors_have_kernels_on_mps() -> None:
    for operator in ("_to_sparse", "_coalesce", "mm", "sum", "_sparse_coo_tensor_with_dims_and_tensors"):
        assert "SparseMPS" in kernels(operator), operator


@cpu_only
def test_a_kernel_for_all_devices_serves_those_without_one() -> None:
    library = torch.library

    @library.custom_op("torchmigrate_test::scale", mutates_args=(), device_types="cuda")
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with pytest.raises(NotImplementedError, match="with arguments from the 'CPU' backend"):
        scale(torch.ones(1))
    scale.register_kernel(None)(lambda x: x * 3)
    assert scale(torch.ones(1)).item() == 3


@cpu_only
def test_an_autocast_registered_for_cuda_casts_nothing_on_the_cpu() -> None:
    @torch.library.custom_op("torchmigrate_test::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    same.register_autocast("cuda", torch.float16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(torch.ones(1)).dtype is torch.float32
    same.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same(torch.ones(1)).dtype is torch.bfloat16


def test_a_script_is_loaded_without_functions(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), path)
    with pytest.raises(ValueError, match="map_location should be"):
        torch.jit.load(path, map_location=lambda storage, location: storage)
    assert torch.jit.load(path, map_location=torch.device("cpu"))


@cpu_only
def test_a_profiler_that_is_told_cuda_alone_refuses_to_start() -> None:
    profiler = torch.profiler
    with pytest.raises(AssertionError, match="No activities"), pytest.warns(UserWarning):  # noqa: SIM117
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]):
            pass
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as recorded:
        torch.ones(1) + 1
    assert recorded.key_averages().table(sort_by="self_cuda_time_total")


@pytest.fixture
def gloo() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@cpu_only
def test_a_process_group_takes_no_cpu() -> None:
    with pytest.raises(ValueError, match="must be an accelerator with an index"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cpu"))
    assert accel.output_device(accel.device(0)) is None


@cpu_only
def test_what_gloo_does_and_does_not(gloo: None) -> None:
    x, out = torch.ones(2), torch.zeros(2)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    dist.reduce_scatter_tensor(out, x)
    dist.all_gather_into_tensor(out, x)
    dist.all_to_all_single(out, x)
    dist.all_reduce(x.bfloat16())
    dist.barrier(device_ids=accel.device_ids(0))
    assert out.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="PREMUL_SUM"):
        dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0))
    if not dist.is_nccl_available():
        assert not hasattr(dist, "ProcessGroupNCCL")


@cpu_only
def test_fsdp_takes_the_helpers_device_on_the_cpu_and_no_index(gloo: None) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp").FullyShardedDataParallel
    with pytest.raises(RuntimeError, match="non-CPU accelerator"):
        fsdp(torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
        fsdp(torch.nn.Linear(2, 2), device_id=0)
    model = fsdp(torch.nn.Linear(2, 2), device_id=accel.device(0))
    model(torch.ones(1, 2)).sum().backward()
    assert model.compute_device == torch.device("cpu")
