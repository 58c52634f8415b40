"""On a build without an accelerator every function gives what its docstring says, and nothing raises."""

from __future__ import annotations

import inspect
import io
import pickle
import types
import warnings

import pytest
import torch
from either_helper import accel

pytestmark = pytest.mark.usefixtures("either")


NAMES = [
    "device",
    "device_type",
    "is_available",
    "device_count",
    "current_device",
    "set_device",
    "device_guard",
    "device_of",
    "device_ids",
    "output_device",
    "is_accelerated",
    "is_nvidia",
    "non_blocking",
    "pin_memory",
    "pin",
    "map_location",
    "synchronize",
    "empty_cache",
    "Event",
    "Stream",
    "stream",
    "current_stream",
    "default_stream",
    "set_stream",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
    "memory_stats",
    "memory_summary",
    "mem_get_info",
    "ipc_collect",
    "set_per_process_memory_fraction",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
    "get_rng_state",
    "set_rng_state",
    "get_rng_state_all",
    "set_rng_state_all",
    "generator",
    "autocast",
    "grad_scaler",
    "custom_fwd",
    "custom_bwd",
    "is_bf16_supported",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "dist_backend",
    "convert_sync_batchnorm",
    "nvtx",
    "OutOfMemoryError",
    "tensor_type",
    "cast",
    "set_default_tensor_type",
    "double",
    "cpu_fallback",
    "sparse_tensor",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_surface_is_there_and_documented(name):
    assert inspect.getdoc(getattr(accel, name)), name


@pytest.mark.parametrize("asked", [None, 0, 3, "1", "cuda", "cuda:1", torch.device("cuda", 1), -1, "cpu", True])
def test_every_device_is_the_cpu_without_an_index(asked):
    assert accel.device(asked) == torch.device("cpu")


@pytest.mark.parametrize("asked", ["meta", torch.device("meta"), "xpu:1", torch.device("mps")])
def test_a_device_that_is_not_cuda_stays(asked):
    assert accel.device(asked) == torch.device(asked)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda: accel.device_type(), "cpu"),
        (lambda: accel.is_available(), False),
        (lambda: accel.device_count(), 0),
        (lambda: accel.current_device(), 0),
        (lambda: accel.set_device(1), None),
        (lambda: accel.set_device("cuda:1"), None),
        (lambda: accel.device_ids(0), None),
        (lambda: accel.device_ids([0, 1]), None),
        (lambda: accel.device_ids(None), None),
        (lambda: accel.output_device(0), None),
        (lambda: accel.output_device(None), None),
        (lambda: accel.is_nvidia(), False),
        (lambda: accel.non_blocking(), True),
        (lambda: accel.non_blocking(False), False),
        (lambda: accel.pin_memory(), False),
        (lambda: accel.synchronize(0), None),
        (lambda: accel.synchronize(device="cuda"), None),
        (lambda: accel.empty_cache(), None),
        (lambda: accel.set_stream(accel.Stream()), None),
        (lambda: accel.memory_allocated(), 0),
        (lambda: accel.max_memory_allocated(0), 0),
        (lambda: accel.memory_reserved(device=0), 0),
        (lambda: accel.max_memory_reserved(), 0),
        (lambda: accel.reset_peak_memory_stats(), None),
        (lambda: accel.reset_accumulated_memory_stats(0), None),
        (lambda: accel.memory_stats(), {}),
        (lambda: accel.memory_summary(None, True), "no summary"),
        (lambda: accel.mem_get_info(), (0, 0)),
        (lambda: accel.ipc_collect(), None),
        (lambda: accel.set_per_process_memory_fraction(0.5, 0), None),
        (lambda: accel.get_rng_state_all(), []),
        (lambda: accel.set_rng_state_all([torch.zeros(16, dtype=torch.uint8)]), None),
        (lambda: accel.set_rng_state(torch.zeros(16, dtype=torch.uint8), 0), None),
        (lambda: accel.initial_seed() == torch.initial_seed(), True),
        (lambda: accel.is_bf16_supported(including_emulation=False), False),
        (lambda: accel.get_device_name(0), "cpu"),
        (lambda: accel.get_device_capability(), (0, 0)),
        (lambda: accel.get_device_properties(0).total_memory, 0),
        (lambda: accel.get_device_properties().name, "cpu"),
        (lambda: accel.dist_backend(), "gloo"),
        (lambda: accel.dist_backend("mpi"), "mpi"),
        (lambda: type(accel.convert_sync_batchnorm(torch.nn.BatchNorm1d(2))), torch.nn.BatchNorm1d),
        (lambda: accel.generator(1).device, torch.device("cpu")),
        (lambda: accel.tensor_type(torch.float16), torch.HalfTensor),
        (lambda: accel.double(torch.ones(1)).dtype, torch.float64),
        (lambda: accel.double(torch.nn.Linear(1, 1)).weight.dtype, torch.float64),
        (lambda: accel.cpu_fallback(torch.linalg.eigvalsh)(torch.eye(2)).tolist(), [1.0, 1.0]),
        (lambda: "forward" in vars(accel.cpu_fallback(torch.nn.CTCLoss())), False),
    ],
)
def test_answers(call, answer):
    assert call() == answer


@pytest.mark.parametrize(
    "thing", [torch.ones(1), torch.device("cuda"), "cuda:0", "torch.cuda.FloatTensor", 0, None, -1]
)
def test_nothing_is_accelerated(thing):
    assert accel.is_accelerated(thing) is False


def test_seeding_leaves_the_generator_of_the_cpu_alone():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    accel.manual_seed(1)
    accel.manual_seed_all(2)
    accel.seed()
    accel.seed_all()
    assert torch.equal(accel.get_rng_state(), before)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("index", [None, -1, 0, "cuda:1", torch.device("cuda", 1)])
def test_guards_are_no_ops(index):
    with accel.device_guard(index), accel.device_of(torch.ones(1)):
        assert torch.ones(1).device.type == "cpu"


def test_streams_and_events_keep_time():
    start, end = accel.Event(enable_timing=True), accel.Event(True, blocking=True, interprocess=False)
    side = accel.Stream(priority=-1)
    start.record()
    with accel.stream(side), accel.stream(None):
        sum(range(20_000))
    end.record(side)
    side.wait_stream(accel.current_stream())
    side.wait_event(end)
    assert end.query()
    assert 0 < start.elapsed_time(end) < 60_000
    assert type(accel.current_stream()).__name__ == type(accel.default_stream()).__name__ == "_Queue"
    assert accel.current_stream().record_event(end) is end


def test_an_event_that_was_not_recorded_has_no_time():
    event = accel.Event()
    event.record()
    with pytest.raises(RuntimeError, match="enable_timing"):
        event.elapsed_time(accel.Event(enable_timing=True))
    start = accel.Event(enable_timing=True)
    start.record()
    for first, second in ((start, event), (event, start)):
        with pytest.raises(RuntimeError, match="enable_timing"):
            first.elapsed_time(second)


def test_a_stream_makes_the_event_that_it_records():
    assert accel.current_stream().record_event().query()


def test_pin_gives_the_tensor_itself():
    tensor = torch.ones(2)
    assert accel.pin(tensor) is tensor


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_checkpoint_from_an_accelerator_loads(weights_only, monkeypatch):
    file = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:1")
        torch.save({"a": torch.arange(3)}, file)
    file.seek(0)
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="CUDA"):  # the second before torch 2.1
        torch.load(file, weights_only=weights_only)
    for location in (accel.map_location(), accel.map_location(0), accel.map_location({"cuda:1": "cuda:0"})):
        file.seek(0)
        assert torch.load(file, map_location=location, weights_only=weights_only)["a"].tolist() == [0, 1, 2]


def test_map_location_keeps_functions():
    def place(storage, location):
        return storage

    assert accel.map_location(place) is place


def test_autocast_is_disabled_as_torch_cuda_amp_was():
    weight = torch.ones(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with accel.autocast(), accel.autocast(True, torch.bfloat16):
            assert (weight @ weight).dtype == torch.float32
    assert accel.autocast()(lambda: weight @ weight)().dtype == torch.float32


SCALER_OF_THE_CPU = pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="from torch 2.3 on")


def losses_with(scaler):
    """Return the losses of a short training in which everything of a scaler is called, and the weights after it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(20):
        batch = torch.randn(16, 8)
        with accel.autocast():
            loss = torch.nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, [weight.detach().clone() for weight in model.parameters()]


@SCALER_OF_THE_CPU
def test_the_scaler_is_disabled_as_that_of_cuda_was():
    """An enabled one skips steps once its scale has grown too far, and refuses optimizers without gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = accel.grad_scaler(65536.0, 2.0, 0.5, 2000, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "enabled, but CUDA is not available. Disabling"
        others = torch.cuda.amp.GradScaler(), torch.amp.GradScaler(accel.scaler_type())
    for other in others:
        assert (scaler.is_enabled(), scaler.get_scale(), scaler.state_dict()) == (False, 1.0, {})
        assert (other.is_enabled(), other.get_scale(), other.state_dict()) == (False, 1.0, {})
    (losses, weights), (plain, expected) = losses_with(scaler), losses_with(others[0])
    assert losses == plain
    assert all(map(torch.equal, weights, expected))
    scaler.step(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1))
    scaler.load_state_dict({"scale": 8.0})
    assert scaler.get_scale() == 1.0


@SCALER_OF_THE_CPU
def test_a_checkpoint_of_a_disabled_scaler_is_resumed():
    """A Mac's had one before the migration, and `{}` in its checkpoints; an enabled one of torch's refuses that."""
    assert torch.amp.GradScaler("cpu", enabled=False).state_dict() == {}
    with pytest.raises(RuntimeError, match="disabled instance"):
        torch.amp.GradScaler("cpu").load_state_dict({})
    scaler = accel._Scaler("cpu", 1024.0)
    scaler.load_state_dict({})
    assert isinstance(scaler, torch.amp.GradScaler) and scaler.is_enabled() and scaler.get_scale() == 1024.0
    scaler.load_state_dict({**scaler.state_dict(), "scale": 8.0})
    assert scaler.get_scale() == 8.0


def test_an_old_torch_has_no_scaler_for_the_cpu(monkeypatch):
    monkeypatch.setattr(accel, "_version", torch.torch_version.TorchVersion("2.2.2"))
    assert accel.scaler_type() == "cuda"
    assert not accel.grad_scaler().is_enabled()


def test_autocast_leaves_an_autocast_of_the_cpu_as_it_is():
    weight = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16), accel.autocast():
        assert (weight @ weight).dtype == torch.bfloat16


def test_custom_functions_run():
    class Double(torch.autograd.Function):
        @staticmethod
        @accel.custom_fwd(cast_inputs=torch.float16)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @accel.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    y = Double.apply(x)
    y.sum().backward()
    assert y.dtype == torch.float32
    assert x.grad.tolist() == [2, 2]


def test_ranges_nest_and_show_in_the_profiler():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        accel.nvtx.range_push("outer")
        with accel.nvtx.range("step {}", 3):
            accel.nvtx.mark("here")
        accel.nvtx.range_pop()
        accel.nvtx.range_pop()
    assert {"outer", "step 3"} <= {event.key for event in profile.key_averages()}


@pytest.mark.parametrize(
    ("wanted", "dtype"),
    [
        (torch.float16, torch.float16),
        (torch.cuda.DoubleTensor, torch.float64),
        (torch.LongTensor, torch.int64),
        ("torch.cuda.HalfTensor", torch.float16),
        ("torch.IntTensor", torch.int32),
    ],
)
def test_cast(wanted, dtype):
    assert accel.cast(torch.ones(2), wanted).dtype == dtype
    if dtype.is_floating_point:
        assert accel.cast(torch.nn.Linear(2, 2), wanted).weight.dtype == dtype


def test_default_tensor_type_is_the_default_dtype(monkeypatch):
    def refuse(device):
        pytest.fail("the default device was set")

    monkeypatch.setattr(torch, "set_default_device", refuse, raising=False)  # from torch 2.0 on
    try:
        accel.set_default_tensor_type(torch.float64)
        assert torch.ones(1).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_sparse_tensors():
    indices, values = torch.tensor([[0, 1]]), torch.ones(2)
    assert accel.sparse_tensor(indices, values).to_dense().tolist() == [1, 1]
    assert accel.sparse_tensor(indices, values, (3,)).shape == (3,)


def test_things_without_a_device_are_not_accelerated(backend):
    backend("xpu")
    assert accel.is_accelerated(types.SimpleNamespace(is_cuda=True)) is True
    assert accel.is_accelerated(object()) is False


@pytest.mark.parametrize(("kind", "is_there"), [("cpu", False), ("mps", False), ("xpu", True), ("npu", True)])
def test_mps_is_no_complete_accelerator(backend, kind, is_there):
    backend(kind, get_device_properties=types.SimpleNamespace(has_fp64=True))
    assert accel.is_complete() is is_there


def test_an_xpu_without_float64_is_no_complete_accelerator(backend):
    backend("xpu", get_device_properties=types.SimpleNamespace(has_fp64=False))
    assert accel.is_complete() is False


def test_a_refusal_gives_way_where_torch_was_not_built_for_cuda(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    assert accel.is_usable()
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    assert not accel.is_usable()
    monkeypatch.setenv("TORCH_ACCEL_DEVICE", "cpu")
    assert accel.is_usable()


def test_the_question_for_a_device_is_torchs_own_on_cuda(monkeypatch):
    """`torch.cuda.is_available()` starts CUDA: CUDA_VISIBLE_DEVICES, if it is set later (Informer), has no effect."""
    asked = []
    monkeypatch.setattr(accel, "_device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: asked.append("cuda") or True)
    assert accel.is_available() is True
    assert asked == ["cuda"]


def test_record_stream_needs_no_queue_on_the_cpu():
    assert accel.record_stream(torch.ones(1), accel.current_stream()) is None
    asked = []
    tensor = type("Tensor", (), {"record_stream": lambda self, stream: asked.append(stream)})()
    accel.record_stream(tensor, "a stream")
    assert asked == ["a stream"]


def test_cast_to_torch_tensor_is_the_default_type():
    """`Tensor = torch.cuda.FloatTensor if cuda else torch.Tensor`."""
    assert accel.cast(torch.ones(2, dtype=torch.float64), torch.Tensor).dtype is torch.float32


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_a_negative_index_is_the_cpu_where_there_is_no_cuda(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU tensor's `get_device()` is -1, and users ask for the CPU with it (avalanche's `--cuda -1`)."""
    monkeypatch.setattr(accel, "_device", torch.device(kind))
    assert accel.device(-1) == torch.device("cpu")
