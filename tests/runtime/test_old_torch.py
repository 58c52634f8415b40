"""The helper on releases of torch that are not here: this one, without what came later, must do."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
import warm_torch

from torchmigrate.project.helper_parts import everything, vendored

# what the helper asks for -> the release that brought it
SINCE = {
    "utils._pytree": (1, 8),
    "profiler": (1, 8),
    "autocast": (1, 10),
    "amp": (1, 10),
    "cuda.is_bf16_supported": (1, 10),
    "cuda.mem_get_info": (1, 11),
    "backends.mps": (1, 12),
    "cuda.OutOfMemoryError": (1, 13),
    "mps": (2, 0),
    "set_default_device": (2, 0),
    "compiler": (2, 1),
    "_utils.is_compiling": (2, 1),
    "mtia": (2, 1),
    "amp.GradScaler": (2, 3),
    "xpu": (2, 3),
    "amp.custom_fwd": (2, 4),
    "amp.custom_bwd": (2, 4),
    "accelerator": (2, 6),
}
RELEASES = [(1, 7), (1, 9), (1, 11), (1, 13), (2, 0), (2, 2), (2, 5)]

PROGRAM = """
import sys, types, warnings, torch
warnings.simplefilter("ignore")
class View(types.ModuleType):  # torch as the helper sees it: torch itself needs all of its names
    def __init__(self, module, path=""):
        super().__init__(module.__name__)
        vars(self).update(_module=module, _path=path)
    def __getattr__(self, name):
        if self._path + name in {gone}:
            raise AttributeError(name)
        if self._path + name == "__version__":
            return "{release}.0"
        if self._path + name == "autocast" and "{release}" in ("1.10", "1.11", "1.13", "2.0"):
            return old_autocast
        found = getattr(self._module, name)
        return View(found, self._path + name + ".") if isinstance(found, types.ModuleType) else found
def old_autocast(device_type, enabled=True, **options):
    assert None not in options.values() and {{*options}} <= {{"dtype", "cache_enabled"}}, options
    assert device_type != "cuda" or options["dtype"] != torch.bfloat16, "measured with 1.13.1 and 2.0.1 without a GPU"
    return torch.autocast(device_type, enabled=enabled, **options)
sys.modules["torch"] = View(torch)
import accel
sys.modules["torch"] = torch
def scaled():
    scaler = accel.grad_scaler()
    assert not scaler.is_enabled()
@accel.custom_fwd
def forward(ctx, x):
    return x
x = torch.ones(2)
assert accel.device() == torch.device("cpu") == accel.device(1) and accel.device_type() == "cpu"
assert not accel.is_available() and accel.device_count() == 0 and accel.current_device() == 0
for name in ("synchronize", "empty_cache", "ipc_collect", "seed", "seed_all", "reset_peak_memory_stats"):
    getattr(accel, name)()
accel.set_device(0); accel.manual_seed(1); accel.manual_seed_all(1)
for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
    assert getattr(accel, name)() == 0
assert accel.memory_stats() == {{}} and accel.mem_get_info() == (0, 0) and accel.memory_summary() == "no summary"
with accel.device_guard(0), accel.device_of(x), accel.stream(accel.Stream()), accel.nvtx.range("a"):
    accel.current_stream().synchronize()
with accel.autocast(), accel.autocast(False, torch.bfloat16):
    pass
scaled()
accel.nvtx.range_push("b"); accel.nvtx.range_pop(); accel.nvtx.mark("c")
a, b = accel.Event(enable_timing=True), accel.Event(enable_timing=True)
a.record(); b.record(); assert a.elapsed_time(b) >= 0
assert accel.map_location()["cuda:1"] == "cpu" and "cpu" not in accel.map_location()
assert accel.map_location("cuda:0") == torch.device("cpu")
assert accel.pin(x) is x and not accel.pin_memory() and accel.non_blocking()
assert accel.get_device_name() == "cpu" and accel.get_device_capability() == (0, 0) and not accel.is_bf16_supported()
assert accel.get_device_properties().total_memory == 0 and accel.dist_backend() == "gloo" and not accel.is_nvidia()
assert not accel.is_accelerated(x) and accel.device_ids([0]) is None and accel.output_device(0) is None
assert len(accel.get_rng_state()) and accel.get_rng_state_all() == []
accel.set_rng_state(accel.get_rng_state()); accel.set_rng_state_all([])
assert accel.generator().device == torch.device("cpu") and accel.initial_seed() == torch.initial_seed()
assert accel.data_parallel(torch.nn.Linear(2, 1))(x).shape == (1,) and accel.is_usable() in (True, False)
assert accel.tensor_type(torch.float32) is torch.FloatTensor and accel.cast(x, torch.float64).dtype == torch.float64
assert accel.sparse_tensor([[0], [1]], [1.0]).is_sparse and issubclass(accel.OutOfMemoryError, RuntimeError)
accel.record_stream(x, accel.current_stream()); accel.set_stream(accel.default_stream())
assert forward(types.SimpleNamespace(), x) is x
accel.set_default_tensor_type(torch.float32)
print("done")
"""


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: ".".join(map(str, release)))
def test_every_function_works_on_the_cpu_of_an_old_torch(release: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "accel.py").write_bytes(vendored(everything()))
    gone = [name for name, since in SINCE.items() if since > release]
    code = PROGRAM.format(gone=gone, release=".".join(map(str, release)))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    done = warm_torch.run(["-c", code], tmp_path, environment)
    assert done.stdout.endswith("done\n"), done.stderr


class Old:
    """Stands for torch 1.7 while the helper is imported: it has these names, and notes others."""

    KNOWN = frozenset(("device", "Generator", "Tensor", "dtype", "__version__", "cuda", "_utils", "nn", "version"))

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> object:
        self.asked.add(name)
        if name not in self.KNOWN:
            raise AttributeError(name)
        return "1.7.0" if name == "__version__" else type(name, (), {})


def test_an_import_asks_torch_for_nothing_new() -> None:
    text = vendored(everything())
    old = Old()
    namespace: dict[str, object] = {"torch": old, "__name__": "accel"}
    exec(compile(text.replace(b"\nimport torch\n", b"\n"), "accel.py", "exec"), namespace)
    assert old.asked <= {*Old.KNOWN, "amp", "compiler"}  # asked for with a default


def test_python_37_reads_what_is_vendored() -> None:
    ast.parse(vendored(everything()), feature_version=(3, 7))
