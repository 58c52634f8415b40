"""The branches for CUDA, XPU, NPU and MPS, on stand-ins: which function is called, and with what."""

from __future__ import annotations

import contextlib
import inspect
import types

import pytest
import torch
from either_helper import accel

pytestmark = pytest.mark.usefixtures("either")


NOTHING = {"set_device", "synchronize", "empty_cache", "set_stream", "ipc_collect", "manual_seed", "manual_seed_all"}
NOTHING |= {"seed", "seed_all", "set_rng_state", "set_per_process_memory_fraction"}
NOTHING |= {"reset_peak_memory_stats", "reset_accumulated_memory_stats"}  # torch.cuda's return None
CUDA_CALLS = [
    ("device_count", (), {}),
    ("current_device", (), {}),
    ("set_device", ("cuda:1",), {}),
    ("set_device", (-1,), {}),
    ("device_of", ("tensor",), {}),
    ("synchronize", (), {}),
    ("synchronize", (), {"device": "cuda:1"}),
    ("empty_cache", (), {}),
    ("Stream", (None, -1), {}),
    ("current_stream", (0,), {}),
    ("default_stream", (), {}),
    ("set_stream", (None,), {}),
    ("stream", (None,), {}),
    ("memory_allocated", (None,), {}),
    ("max_memory_allocated", (1,), {}),
    ("memory_reserved", (), {}),
    ("max_memory_reserved", (), {}),
    ("reset_peak_memory_stats", (), {}),
    ("reset_accumulated_memory_stats", (), {}),
    ("memory_stats", (), {}),
    ("memory_summary", (None, True), {}),
    ("mem_get_info", (), {}),
    ("ipc_collect", (), {}),
    ("set_per_process_memory_fraction", (0.5,), {"device": 1}),
    ("manual_seed", (1,), {}),
    ("manual_seed_all", (1,), {}),
    ("seed", (), {}),
    ("seed_all", (), {}),
    ("initial_seed", (), {}),
    ("get_rng_state", (), {}),
    ("set_rng_state", ("state", 1), {}),
    ("is_bf16_supported", (), {"including_emulation": False}),
    ("get_device_name", (0,), {}),
    ("get_device_properties", (0,), {}),
    ("get_device_capability", (0,), {}),
]


SIGNATURES = {name: inspect.signature(getattr(torch.cuda, name)) for name, _, _ in CUDA_CALLS}


def with_defaults(name, args, options):
    """A call as the function sees it."""
    bound = SIGNATURES[name].bind(*args, **options)
    bound.apply_defaults()
    return name, bound.arguments


@pytest.mark.parametrize(("name", "args", "options"), CUDA_CALLS)
def test_on_cuda_each_is_torch_cuda_s_own(backend, name, args, options):
    cuda = backend("cuda")
    answer = getattr(accel, name)(*args, **options)
    assert answer == cuda.answers.get(name, f"{name}'s answer") or (answer is None and name in NOTHING)
    assert [with_defaults(*call) for call in cuda.calls] == [with_defaults(name, args, options)]


def test_on_cuda_guard_event_and_ranges_are_torch_cuda_s_own(backend):
    cuda = backend("cuda")
    cuda.nvtx = type(cuda)("nvtx")
    accel.device_guard(1)
    accel.Event(enable_timing=True, blocking=True)
    accel.nvtx.range_push("a")
    accel.nvtx.range("{}", 1)
    accel.nvtx.range_pop()
    options = {"enable_timing": True, "blocking": True, "interprocess": False}
    assert cuda.calls == [("device", (1,), {}), ("Event", (), options)]
    assert cuda.nvtx.calls == [("range_push", ("a",), {}), ("range", ("{}", 1), {}), ("range_pop", (), {})]


def test_on_cuda_nothing_is_reinterpreted(backend):
    backend("cuda", device_count=1)
    assert accel.device() == torch.device("cuda")
    assert accel.device(3) == accel.device("cuda:3") == accel.device("3") == torch.device("cuda", 3)
    assert accel.map_location() is None
    assert accel.map_location({"cuda:0": "cuda:1"}) == {"cuda:0": "cuda:1"}
    assert accel.map_location("cuda:1") == torch.device("cuda:1")
    assert accel.device_ids(2) == [2]
    assert accel.device_ids(["cuda:1"]) == ["cuda:1"]
    assert accel.device_ids(range(2)) == [0, 1]
    assert accel.output_device(0) == 0
    assert accel.dist_backend() == "nccl"
    assert accel.non_blocking() and accel.pin_memory()
    with pytest.raises(RuntimeError, match="negative"):
        accel.device(-1)


def test_nvidia_is_cuda_without_hip(backend, monkeypatch):
    backend("cuda")
    monkeypatch.setattr(torch.version, "hip", None)
    assert accel.is_nvidia()
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert not accel.is_nvidia()


@pytest.mark.parametrize("kind", ["xpu", "npu"])
def test_other_backends_get_their_own_devices(backend, kind):
    module = backend(kind)
    accel.synchronize()
    accel.manual_seed(3)
    accel.set_rng_state("state")
    accel.set_device(-1)
    accel.stream("a stream")
    assert module.calls == [
        ("synchronize", (), {}),
        ("manual_seed", (3,), {}),
        ("set_rng_state", ("state",), {}),
        ("set_device", (-1,), {}),
        ("stream", ("a stream",), {}),
    ]


@pytest.mark.parametrize("kind", ["xpu", "npu"])
def test_other_backends_are_asked_nothing_of_the_cpu(backend, kind):
    """A program that was told "cpu" skipped what stands behind `if torch.cuda.is_available():` there (s3prl)."""
    module = backend(kind)
    for device in ("cpu", torch.device("cpu")):
        with accel.device_guard(device):
            accel.synchronize(device)
        assert accel.memory_allocated(device) == 0
    assert module.calls == []


def test_xpu_translates_cuda_devices(backend):
    xpu = backend("xpu")
    accel.memory_allocated("cuda:1")
    accel.set_per_process_memory_fraction(0.5, device=torch.device("cuda", 1))
    accel.Stream(None, -1)
    accel.device_guard("cuda:1")
    accel.Event(True, True)
    place = torch.device("xpu", 1)
    assert [call for call in xpu.calls if call[0] != "device_count"] == [
        ("memory_allocated", (place,), {}),
        ("set_per_process_memory_fraction", (0.5, place), {}),
        ("Stream", (), {"priority": -1}),
        ("device", (place,), {}),
        ("Event", (), {"enable_timing": True}),
    ]
    assert accel.device_ids("cuda:1", 0) == [place, 0]
    assert accel.get_device_capability() == (0, 0)
    assert accel.is_accelerated("cuda") and accel.is_accelerated("torch.xpu.FloatTensor")
    assert accel.is_accelerated(torch.device("xpu:1")) and not accel.is_accelerated(torch.ones(1))


def test_index_0_is_a_device_and_what_is_no_device_stays(backend):
    xpu = backend("xpu")
    accel.memory_allocated(0)
    accel.device_of("a tensor")
    assert xpu.calls == [("memory_allocated", (torch.device("xpu", 0),), {})]


def test_on_cuda_data_parallel_is_torch_s_own(backend, monkeypatch):
    backend("cuda")
    monkeypatch.setattr(torch.nn, "DataParallel", lambda *arguments: arguments)
    assert accel.data_parallel("net", [0, 1], 0, 1) == ("net", [0, 1], 0, 1)


@pytest.mark.parametrize("release", ["1.13.1", "2.13.0"])
def test_inputs_of_data_parallel_are_moved_by_any_torch(backend, monkeypatch, release):
    """The hooks of torch 1 know no `with_kwargs`, and its `_pytree` no `tree_map_only`."""
    hook = torch.nn.Module.register_forward_pre_hook
    backend("mps")
    monkeypatch.setattr(accel, "_version", torch.torch_version.TorchVersion(release))
    if release < "2":
        monkeypatch.setattr(torch.nn.Module, "register_forward_pre_hook", lambda self, hooked: hook(self, hooked))
        monkeypatch.delattr(torch.utils._pytree, "tree_map_only")
    wrapped = accel.data_parallel(torch.nn.Bilinear(2, 2, 1))
    assert wrapped(torch.ones(3, 2), torch.ones(3, 2)).shape == wrapped(torch.ones(3, 2), input2=torch.ones(3, 2)).shape


@pytest.mark.parametrize("kind", ["cpu", "mps", "xpu"])
def test_off_cuda_data_parallel_has_one_device(backend, kind):
    """Found in GMA and SMASH: `accel.device(model.device_ids[0])`, and `[w] * len(model.device_ids)`."""
    backend(kind)
    wrapped = accel.data_parallel(torch.nn.Linear(2, 1), device_ids=[0, 1])
    assert (len(wrapped.device_ids), accel.device(wrapped.device_ids[0]).type) == (1, kind)
    assert wrapped(torch.ones(3, 2)).shape == (3, 1)


def test_on_cuda_a_cast_to_a_legacy_type_is_torch_s_own(backend):
    kind = torch.cuda.FloatTensor
    backend("cuda")
    assert accel.cast(types.SimpleNamespace(type=lambda wanted: [wanted]), kind) == [kind]


def test_what_xpu_lacks(backend, monkeypatch):
    xpu = backend(
        "xpu", absent=("default_stream", "ipc_collect", "memory_summary", "range_push", "range_pop"), synchronize=None
    )
    monkeypatch.setattr(torch, "accelerator", None)
    assert accel.default_stream() == "current_stream's answer"
    assert [name for name, _, _ in xpu.calls] == ["current_stream"]
    assert accel.ipc_collect() is None
    assert accel.memory_summary() == "no summary"
    with accel.stream(None):
        accel.set_stream(None)
    accel.nvtx.range_push("a")
    accel.nvtx.range_pop()


def test_torch_accelerator_stands_in(backend, monkeypatch):
    backend("xpu", absent=("memory_allocated",))
    monkeypatch.setattr(torch, "accelerator", types.SimpleNamespace(memory_allocated=lambda device=None, /: device))
    assert accel.memory_allocated(device=1) == torch.device("xpu", 1)


@pytest.mark.parametrize(("built", "expected"), [(True, "xccl"), (False, "gloo")])
def test_collectives_on_xpu(backend, monkeypatch, built, expected):
    backend("xpu")
    monkeypatch.setattr(torch.distributed, "is_xccl_available", lambda: built, raising=False)
    assert accel.dist_backend() == expected


@pytest.mark.parametrize(("kind", "expected"), [("npu", "hccl"), ("hpu", "hccl"), ("mps", "gloo"), ("mtia", "gloo")])
def test_collectives_elsewhere(backend, kind, expected):
    backend(kind)
    assert accel.dist_backend() == expected


@pytest.mark.parametrize("kind", ["xpu", "mps"])
def test_one_device_gives_index_0_and_one_warning(backend, kind):
    backend(kind, device_count=1)
    with pytest.warns(UserWarning, match=f"only {kind}:0") as caught:
        assert accel.holding("device").device(2) == torch.device(kind, 0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert accel.device(0) == torch.device(kind, 0)
    assert accel.device() == torch.device(kind)


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_a_random_state_of_another_kind_of_device_is_not_set(backend, kind):
    def refuse(state, *place):
        raise RuntimeError("RNG state is wrong size")

    backend(kind).set_rng_state = refuse
    if kind == "cuda":
        with pytest.raises(RuntimeError, match="wrong size"):
            accel.set_rng_state("state")
    else:  # a project that asked for CUDA first came here with no CUDA, and went on
        with pytest.warns(UserWarning, match="this random state is not set: RNG state is wrong size"):
            accel.set_rng_state("state", 0)


def test_mps_gets_no_devices_and_no_streams(backend):
    mps = backend("mps")
    accel.synchronize(0)
    accel.empty_cache()
    accel.manual_seed_all(3)
    accel.get_rng_state(device="cuda")
    accel.set_rng_state("state", 0)
    accel.set_per_process_memory_fraction(0.5, 0)
    with accel.stream(accel.Stream(device=0, priority=-1)), accel.device_guard(0), accel.device_of(torch.ones(1)):
        accel.set_device(1)
    assert mps.calls == [
        ("synchronize", (), {}),
        ("empty_cache", (), {}),
        ("manual_seed", (3,), {}),
        ("get_rng_state", (), {}),
        ("set_rng_state", ("state",), {}),
        ("set_per_process_memory_fraction", (0.5,), {}),
    ]


@pytest.mark.parametrize("name", ["Event", "Stream", "stream", "current_stream", "default_stream", "set_stream"])
def test_the_streams_of_a_later_torch_mps_are_not_used(backend, name):
    mps = backend("mps")
    setattr(mps, name, lambda *args, **options: pytest.fail(f"torch.mps.{name} was called"))
    getattr(accel, name)(*["a stream"] * (name in ("stream", "set_stream")))


def test_mps_seeds_its_one_device_at_random(backend):
    mps = backend("mps")
    accel.seed_all()
    assert mps.calls == [("seed", (), {})]


def test_mps_says_what_it_knows_and_no_more(backend):
    backend("mps", current_allocated_memory=5, driver_allocated_memory=9)
    assert (accel.memory_allocated(), accel.memory_reserved()) == (5, 9)
    assert (accel.max_memory_allocated(), accel.max_memory_reserved()) == (0, 0)
    assert accel.memory_stats() == {}
    assert (accel.device_count(), accel.is_available(), accel.current_device()) == (1, True, 0)
    assert accel.device_ids(0) is None and accel.output_device(0) is None
    assert not accel.non_blocking() and not accel.pin_memory()
    assert accel.dist_backend() == "gloo"
    assert accel.get_device_name() == "mps"


def test_mps_restores_all_states(backend):
    mps = backend("mps")
    accel.set_rng_state_all(["first", "second"])
    assert accel.get_rng_state_all() == ["get_rng_state's answer"]
    assert mps.calls == [("set_rng_state", ("first",), {}), ("get_rng_state", (), {})]


def test_mps_events_synchronize_before_the_clock(backend):
    mps = backend("mps")
    event = accel.Event(enable_timing=True)
    event.record()
    accel.Event().record()
    assert mps.calls == [("synchronize", (), {})]


@pytest.mark.parametrize(("version", "enabled"), [("2.4.1", False), ("2.13.0", True)])
def test_autocast_on_mps(backend, monkeypatch, version, enabled):
    backend("mps")
    monkeypatch.setattr(accel, "_version", torch.torch_version.TorchVersion(version))
    with accel.autocast():
        assert torch.is_autocast_enabled("mps") is enabled
        assert not enabled or torch.get_autocast_dtype("mps") is torch.float16


@pytest.mark.parametrize(("version", "enabled"), [("2.6.0", False), ("2.13.0", True)])
def test_scaler_on_mps(backend, monkeypatch, version, enabled):
    backend("mps")
    monkeypatch.setattr(accel, "_version", torch.torch_version.TorchVersion(version))
    assert accel.grad_scaler(growth_interval=10).is_enabled() is enabled
    assert not accel.grad_scaler(enabled=False).is_enabled()


def test_old_torch_has_only_the_scaler_and_the_decorators_of_cuda(monkeypatch):
    made = types.SimpleNamespace(GradScaler=lambda *args, **options: (args, options), custom_bwd=lambda f: ("old", f))
    monkeypatch.setattr(accel, "_version", torch.torch_version.TorchVersion("2.2.2"))
    monkeypatch.setattr(torch, "amp", types.SimpleNamespace())
    monkeypatch.setattr(accel, "_BaseScaler", object)
    monkeypatch.setattr(torch.cuda, "amp", made)
    assert accel.grad_scaler(2.0) == ((2.0,), {"enabled": False})
    assert accel.custom_bwd(len) == ("old", len)


def test_scaler_on_cuda_is_the_very_one(backend, monkeypatch):
    class Made(torch.amp.GradScaler):
        def __new__(cls, *args, **options):
            return args, options

    backend("cuda")
    monkeypatch.setattr(torch.amp, "GradScaler", Made)
    assert accel.grad_scaler(4.0, 2.0, 0.5, 9, False) == (("cuda", 4.0, 2.0, 0.5, 9), {"enabled": False})


def test_legacy_types_on_cuda_are_literal(backend, monkeypatch):
    cuda = backend("cuda")
    cuda.HalfTensor = torch.HalfTensor
    assert accel.tensor_type(torch.float16) is torch.HalfTensor
    assert accel.cast(torch.ones(1), torch.HalfTensor).dtype == torch.float16
    set_to = []
    monkeypatch.setattr(torch, "set_default_tensor_type", set_to.append)
    accel.set_default_tensor_type(torch.float16)
    assert set_to == ["torch.cuda.HalfTensor"]


@pytest.fixture
def meta(monkeypatch):
    """An accelerator that tensors can really be on: the device "meta"."""
    monkeypatch.setattr(accel, "_device", torch.device("meta"))


def test_tensor_types_elsewhere(meta):
    Float = accel.tensor_type(torch.float32)
    assert accel.tensor_type(torch.float32) is Float and accel.tensor_type(torch.int64) is not Float
    assert Float.__name__ == "FloatTensor" and Float.dtype == torch.float32
    assert Float(2, 3).shape == Float(torch.Size([2, 3])).shape == (2, 3)
    assert Float([2, 3]).shape == Float(torch.ones(2, dtype=torch.int64)).shape == (2,)
    assert isinstance(Float(1), Float) and Float(1).device.type == "meta"
    assert not isinstance(torch.ones(1), Float) and not isinstance(accel.tensor_type(torch.int64)(1), Float)


def test_cast_moves(meta):
    moved = accel.cast(torch.ones(2), torch.float16)
    assert (moved.device.type, moved.dtype) == ("meta", torch.float16)
    assert accel.cast(moved, accel.tensor_type(torch.int64)).device.type == "meta"
    assert accel.cast(torch.ones(2), "torch.cuda.LongTensor").device.type == "meta"
    assert accel.cast(torch.ones(2), "torch.mps.HalfTensor").dtype == torch.float16  # Tensor.type takes it for no type
    assert accel.cast(torch.ones(2), torch.cuda.LongTensor).dtype == torch.int64
    assert accel.cast(torch.ones(2), torch.DoubleTensor).device.type == "cpu"
    assert accel.cast(torch.nn.Linear(2, 2), torch.float16).weight.device.type == "meta"


def test_default_type_is_dtype_and_device(meta):
    try:
        accel.set_default_tensor_type(torch.float64)
        assert (torch.ones(1).dtype, torch.ones(1).device.type) == (torch.float64, "meta")
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def test_only_what_another_accelerator_saved_moves(backend):
    backend("xpu")
    places = {"cpu": "cpu", "meta": "meta", "cuda:1": "xpu", "cuda": "xpu", "mps": "xpu", "xpu:1": "xpu:1"}
    assert {saved: accel.map_location().get(saved, saved) for saved in places} == places
    to_one = accel.map_location({"cuda:1": "cuda:0", "cpu": "cuda:1"})
    assert [to_one.get(saved, saved) for saved in ("cuda:1", "cpu", "cuda:0")] == ["xpu:0", "xpu:1", "xpu"]
    assert accel.map_location({"cuda:0": "cuda:1"})["xpu:0"] == "xpu:1"
    assert accel.map_location("cuda:1") == accel.map_location(1) == torch.device("xpu", 1)


def test_npu_s_own_bfloat16_question_takes_no_arguments(backend):
    npu = backend("npu", is_bf16_supported=True)
    assert accel.is_bf16_supported(including_emulation=False) is accel.is_bf16_supported(True) is True
    assert npu.calls == [("is_bf16_supported", (), {})] * 2
    xpu = backend("xpu")
    accel.is_bf16_supported(False)
    assert xpu.calls == [("is_bf16_supported", (False,), {})]


@pytest.mark.parametrize(
    "found", [types.SimpleNamespace(total_memory=8, gpu_eu_count=3), {"total_memory": 8, "gpu_eu_count": 3}]
)
def test_properties_have_cuda_s_names(backend, found):
    backend("xpu", get_device_properties=found, get_device_name="Arc", mem_get_info=(1, 2))
    told = accel.get_device_properties(0)
    assert (told.name, told.total_memory) == ("Arc", 8)
    assert (told.major, told.minor, told.multi_processor_count) == (0, 0, 0)


def test_mps_tells_its_own_seed(backend):
    backend("mps", _get_default_mps_generator=torch.Generator().manual_seed(20_261_122))
    assert accel.initial_seed() == 20_261_122 != torch.initial_seed()


def test_packed_sequences_and_storages(meta):
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2)])
    assert not accel.is_accelerated(packed)
    assert accel.is_accelerated(torch.ones(1, device="meta").untyped_storage())
    assert accel.is_accelerated(0) and not accel.is_accelerated(-1)


def test_guard_of_a_tensor_without_a_native_one(backend, monkeypatch):
    xpu = backend("xpu", absent=("device_of",), device=contextlib.nullcontext())
    monkeypatch.setattr(torch, "accelerator", None)
    with accel.device_of(torch.ones(1)):
        assert xpu.calls == []
