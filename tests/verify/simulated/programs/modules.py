"""torch.cuda, torch.xpu, torch.mps, torch.mtia and torch.npu: every function answers, or says why not."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Iterator
from typing import Any

import torch
from checks import DEVICE, KIND, MODULE, check, refused, same

x = torch.ones(4, device=DEVICE)

# Other packages, which these functions ask torch's users to install; and what only a real device can do
ABSENT = ("nvidia-ml-py", "pyzes is required", "CUDA error: operation not supported")
NO_FUNCTIONS = ("annotate", "custom_fwd", "make_graphed_callables")


def functions() -> Iterator[tuple[str, Any]]:
    """Public functions of the backend's module and its submodules that need no argument."""
    inside = [m for m in vars(MODULE).values() if isinstance(m, types.ModuleType)]
    for module in (MODULE, *(m for m in inside if m.__name__.startswith(f"torch.{KIND}"))):
        for name, function in sorted(vars(module).items()):
            if inspect.isfunction(function) and not name.startswith("_") and name not in NO_FUNCTIONS:
                kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                parameters = inspect.signature(function).parameters.values()
                if not any(p.default is p.empty and p.kind in kinds for p in parameters):
                    yield f"{module.__name__}.{name}", function


@check
def every_function_answers_or_says_why_not() -> None:
    called, wrong = 0, []
    for name, function in functions():
        called += 1
        try:
            function()
        except Exception as e:
            if not any(words in str(e) for words in ABSENT):
                wrong.append(f"{name}: {type(e).__name__}: {e}")
    assert not wrong, "\n".join(wrong)
    assert called > {"cuda": 80, "xpu": 40, "mps": 10, "mtia": 20, "npu": 25}[KIND], called


@check
def the_device_s_facts() -> None:
    if KIND == "mps":
        assert torch.backends.mps.is_available() and torch.backends.mps.is_built()
        assert torch.backends.mps.is_macos13_or_newer()
        assert torch.mps.device_count() == 1
        return
    assert MODULE.device_count() == 2
    assert MODULE.current_device() == 0
    if KIND != "mtia":
        assert "simulated" in MODULE.get_device_name(1)
        assert MODULE.get_device_properties(0).total_memory == 64 << 20
    assert MODULE.is_initialized()


@check(only=("cuda",))
def torch_is_one_that_was_built_for_cuda() -> None:
    assert torch.version.cuda == "12.8"
    assert torch.backends.cuda.is_built()
    assert torch.cuda.get_arch_list() == ["sm_80"]
    assert torch.cuda.get_device_capability() == (8, 0)
    assert torch.cuda.is_bf16_supported() and torch.cuda.is_tf32_supported()
    assert torch.cuda.has_half and torch.cuda.get_allocator_backend() == "native"


@check(only=("cuda",))
def properties() -> None:
    p = torch.cuda.get_device_properties("cuda:1")
    assert (p.major, p.minor, p.warp_size) == (8, 0, 32)
    assert p.multi_processor_count > 0 and "simulated" in repr(p)
    with refused("Invalid device id", error=AssertionError):
        torch.cuda.get_device_properties(2)


@check(only=("cuda",))
def cudnn_s_settings() -> None:
    cudnn = torch.backends.cudnn
    assert cudnn.is_available() and cudnn.version() >= 90000
    assert cudnn.is_acceptable(x)
    cudnn.benchmark, cudnn.deterministic = True, True
    with cudnn.flags(enabled=False, benchmark=False, deterministic=False):
        assert not cudnn.enabled
    assert cudnn.enabled and cudnn.benchmark
    cudnn.benchmark_limit = 5
    assert cudnn.benchmark_limit == 5


@check(only=("cuda",))
def cuda_s_settings() -> None:
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = True
    assert matmul.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_flash_sdp(False)
    assert not torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.preferred_linalg_library("cusolver")
    assert torch.backends.cuda.cufft_plan_cache is not None
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.use_deterministic_algorithms(False)


@check(only=("cuda",))
def attention_backends_can_be_chosen() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 4, 8, device=DEVICE)
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel([backend, SDPBackend.MATH]):
            assert torch.nn.functional.scaled_dot_product_attention(q, q, q).shape == q.shape


@check(only=("cuda",))
def nvtx_ranges() -> None:
    nvtx = torch.cuda.nvtx
    assert (nvtx.range_push("a"), nvtx.range_push("b"), nvtx.range_pop(), nvtx.range_pop()) == (0, 1, 1, 0)
    nvtx.mark("here")
    nvtx.range_end(nvtx.range_start("c"))
    with nvtx.range("d {}", 1):
        x.exp()
    with refused("Can't use NVTX profiler"), torch.autograd.profiler.emit_nvtx():  # in C++, of a CPU build
        pass


@check(only=("cuda",))
def the_profiler_of_cuda() -> None:
    with torch.cuda.profiler.profile():
        x.exp()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        x.exp()
    assert "aten::exp" in profile.key_averages().table()


@check(only=("cuda", "xpu"))
def memory_reports() -> None:
    assert "memory summary" in MODULE.memory_summary() if KIND == "cuda" else True
    assert MODULE.mem_get_info()[1] == 64 << 20
    assert MODULE.memory_stats()["allocated_bytes.all.current"] == MODULE.memory_allocated()
    MODULE.reset_peak_memory_stats()
    assert MODULE.max_memory_allocated() == MODULE.memory_allocated()
    MODULE.set_per_process_memory_fraction(0.5)
    assert MODULE.get_per_process_memory_fraction() == 0.5
    assert MODULE.memory_snapshot() == []


@check(only=("cuda",))
def raw_memory() -> None:
    before = torch.cuda.memory_allocated()
    address = torch.cuda.caching_allocator_alloc(1000)
    assert address and torch.cuda.memory_allocated() == before + 1000
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == before


@check(only=("cuda",))
def settings_keep_what_they_are_given() -> None:
    torch.cuda.set_sync_debug_mode("warn")
    assert torch.cuda.get_sync_debug_mode() == 1
    torch.cuda.set_sync_debug_mode(0)
    torch.cuda.tunable.enable(True)
    assert torch.cuda.tunable.is_enabled()
    torch.cuda.tunable.set_filename("tuned.csv", True)
    assert torch.cuda.tunable.get_filename() == "tuned.csv"
    torch.cuda.tunable.set_numerical_check_tolerances(True)


@check(only=("cuda",))
def what_reaches_a_driver_is_refused() -> None:
    for attempt in (
        lambda: torch.cuda.CUDAGraph(),
        lambda: torch.cuda.nccl.unique_id(),
        lambda: torch.cuda.nccl.init_rank(1, b"", 0),
        lambda: torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x; }")(x),
    ):
        with refused("CUDA error: operation not supported", error=torch.AcceleratorError):
            attempt()


@check(only=("cuda",))
def errors_of_the_runtime() -> None:
    torch.cuda.check_error(0)
    assert torch.cuda.cudart().cudaMemGetInfo(0)[1] == 64 << 20
    assert torch.cuda.cudart().cudaProfilerStart() == 0
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)
    assert issubclass(torch.cuda.AcceleratorError, RuntimeError)


@check(only=("cuda", "xpu"))
def streams_from_elsewhere() -> None:
    side = MODULE.Stream()
    handle = side.cuda_stream if KIND == "cuda" else side.sycl_queue
    assert MODULE.get_stream_from_external(handle).stream_id == side.stream_id


@check(only=("cuda", "xpu"))
def peers() -> None:
    assert MODULE.can_device_access_peer(0, 1)


@check(only=("cuda",))
def a_cuda_device_as_an_argument_of_every_kind() -> None:
    for where in (1, "cuda:1", torch.device("cuda:1")):
        assert x.cuda(where).device.index == 1
        with torch.cuda.device(where):
            assert torch.cuda.current_device() == 1
        assert torch.nn.Linear(2, 2).cuda(where).weight.device.index == 1
    assert x.cpu().cuda().device.index == 0
    assert x.cpu().cuda(non_blocking=True).is_cuda
    assert x.cpu().pin_memory().cuda(0, True).is_cuda


@check(only=("xpu", "npu"))
def the_module_s_methods_of_tensors() -> None:
    assert getattr(x.cpu(), KIND)().device == x.device
    assert getattr(torch.nn.Linear(2, 2), KIND)(1).weight.device.index == 1
    assert getattr(x, f"is_{KIND}")


@check(only=("npu",))
def torch_npu_can_be_imported() -> None:
    import importlib.util

    import torch_npu

    assert importlib.util.find_spec("torch_npu") is not None
    assert torch_npu.npu is torch.npu


@check(only=("npu",))
def dtypes_of_autocast() -> None:
    assert torch.npu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert torch.npu.is_bf16_supported()


@check(only=("mps",))
def torch_mps_s_own() -> None:
    assert torch.mps.recommended_max_memory() == 64 << 20
    torch.mps.set_per_process_memory_fraction(0.5)
    torch.mps.profiler.start()
    x.exp()
    torch.mps.profiler.stop()
    with torch.mps.profiler.profile():
        x.exp()
    assert not torch.mps.profiler.is_metal_capture_enabled()
    with refused("no Metal"):
        torch.mps.compile_shader("kernel void f() {}")
    assert torch.backends.mps.get_core_count() > 0


@check(only=("mps",))
def what_torch_cuda_s_functions_do_on_a_mac() -> None:
    # they ask torch.accelerator, whose module is torch.mps, or find that there is no CUDA
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    torch.cuda.empty_cache()
    torch.cuda.manual_seed_all(0)
    with refused("Torch not compiled with CUDA enabled", error=AssertionError):
        torch.cuda.current_device()
    with refused("Torch not compiled with CUDA enabled", error=AssertionError):
        torch.cuda.synchronize()


@check(only=("mtia",))
def torch_mtia_s_own() -> None:
    assert torch.mtia.memory_stats()["dram"]["allocated_bytes"] == torch.accelerator.memory_allocated()
    assert torch.mtia.get_device_properties()["total_memory"] == 64 << 20
    assert torch.mtia.get_device_capability() == (0, 0)


@check
def torch_accelerator_s_own() -> None:
    accelerator = torch.accelerator
    accelerator.empty_cache()
    accelerator.synchronize()
    assert accelerator.memory_allocated() >= 16
    assert not math.isnan(accelerator.get_memory_info()[0])
    same(x, [1.0] * 4)
    if hasattr(accelerator, "empty_host_cache"):
        accelerator.empty_host_cache()
