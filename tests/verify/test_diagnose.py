"""From the reports of a failed run to the line, the rule and the likely cause. Neither torch nor a device is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchmigrate.formats.verify import _findings
from torchmigrate.rules import packs
from torchmigrate.verify.diagnosis import causes
from torchmigrate.verify.diagnosis.diagnose import Diagnosis, conditions_left, diagnose
from torchmigrate.verify.migration import Origin, Origins

Record = dict[str, Any]
MIXED = "Expected all tensors to be on the same device, but got mat2 is on cpu, different from other tensors on mps:0"
TORCH = "/env/lib/python3.11/site-packages/torch/nn/functional.py"


def record(kind: str, message: str, *frames: tuple[str, int], **more: Any) -> Record:
    shown = [{"file": file, "line": line, "function": "f"} for file, line in frames]
    return {"type": kind, "message": message, "frames": shown, "time": 1.0, "cause": None, "where": "", **more}


def report(exception: Record | None, *others: Record, backend: str = "mps") -> Record:
    return {
        "pid": 1,
        "backend": backend,
        "evidence": "simulated",
        "torch": "2.13.0+cpu",
        "exception": exception,
        "others": list(others),
    }


def tensor(name: str, device: str, dtype: str = "torch.float32", **more: Any) -> Record:
    return {
        "name": name,
        "device": device,
        "dtype": dtype,
        "shape": [3],
        "made": None,
        "guard": None,
        "parts": 1,
        **more,
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("import accel\n\n\ndef main():\n    model(x)\n    y\n")
    (tmp_path / "accel.py").write_text("# torchmigrate-runtime 1\n" + "\n" * 20)
    return tmp_path


@pytest.fixture
def told(project: Path) -> Callable[..., Diagnosis]:
    """What is found for such reports; each line of the copy was one line further up in the original."""

    def origin(file: str, line: int) -> Origin | None:
        path = Path(file)
        if not path.is_relative_to(project) or path.name == "accel.py":
            return None
        return Origin(path.relative_to(project).as_posix(), line - 1, ("device/tensor-cuda",) if line == 5 else ())

    def told(*reports: Record, stderr: str = "") -> Diagnosis:
        found = diagnose(list(reports), origin, project, stderr)
        assert found is not None
        return found

    return told


# ---- the place


def test_innermost_line_of_the_project_as_the_original_has_it(told, project) -> None:
    frames = ((str(project / "train.py"), 3), (str(project / "train.py"), 5), (TORCH, 99))
    found = told(report(record("RuntimeError", "what?", *frames)))
    assert found == Diagnosis("train.py", 4, ("device/tensor-cuda",), "RuntimeError: what?", "RuntimeError: what?")
    assert found.place == "train.py:4"


def test_helper_is_not_the_projects_own(told, project) -> None:
    found = told(report(record("E", "", (str(project / "train.py"), 6), (str(project / "accel.py"), 9))))
    assert (found.path, found.line, found.rules) == ("train.py", 5, ())


def test_package_installed_below_the_project_is_not_its_own(told, project) -> None:
    inside = str(project / ".venv/lib/python3.11/site-packages/torch/x.py")
    assert told(report(record("E", "", (str(project / "train.py"), 6), (inside, 9)))).place == "train.py:5"


def test_no_line_of_the_project(told) -> None:
    found = told(report(record("RuntimeError", "what?", (TORCH, 99))))
    assert (found.path, found.line, found.place, found.cause) == (None, None, "", "RuntimeError: what?")


def test_nothing_failed(project) -> None:
    assert diagnose([report(None)], lambda file, line: None, project) is None
    assert diagnose([], lambda file, line: None, project) is None


# ---- which exception


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ProcessRaisedException", "\n\n-- Process 1 terminated with the following error:"),
        ("ProcessExitedException", "process 0 terminated with exit code 1"),
        ("ChildFailedError", "train.py FAILED"),
        ("SystemExit", "1"),
        ("KeyboardInterrupt", ""),
        ("RuntimeError", "DataLoader worker (pid(s) 17) exited unexpectedly"),
        ("RuntimeError", "Caught ValueError in DataLoader worker process 0."),
        ("RuntimeError", "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [::1]:21340"),
        ("DistBackendError", "Connection reset by peer"),
        ("ConnectionResetError", "[Errno 104]"),
        ("Empty", ""),
        ("CalledProcessError", "Command '...' returned non-zero exit status 1."),
    ],
)
def test_echo_of_another_process_is_no_cause(told, project, kind: str, message: str) -> None:
    place = (str(project / "train.py"), 6)
    echo = report(record(kind, message, place, time=0.5))
    assert told(echo, report(record("ValueError", "root", place, time=2.0))).exception == "ValueError: root"
    assert told(echo, report(None, record("ValueError", "root", place))).exception == "ValueError: root"


def test_earliest_of_several(told, project) -> None:
    place = (str(project / "train.py"), 6)
    late, early = (report(record("ValueError", text, place, time=t)) for text, t in (("late", 9.0), ("early", 2.0)))
    assert told(late, early).exception == "ValueError: early"


def test_what_ended_the_program_before_what_a_thread_survived(told, project) -> None:
    place = (str(project / "train.py"), 6)
    survived = record("OSError", "no such log", place, time=0.1)
    assert told(report(record("ValueError", "the end", place), survived)).exception == "ValueError: the end"


def test_exception_it_was_raised_from(told, project) -> None:
    place = (str(project / "train.py"), 6)
    inner = record("AssertionError", "Torch not compiled with CUDA enabled", place, where="from")
    found = told(report(record("RuntimeError", "cannot start", place, cause=inner)))
    assert found.cause.startswith("a call that only CUDA has is left")


def test_exception_that_was_being_handled(told, project) -> None:
    place = (str(project / "train.py"), 6)
    inner = record("AssertionError", "Torch not compiled with CUDA enabled", place, where="handling")
    assert "only CUDA has" in told(report(record("SystemExit", "1", place, cause=inner))).cause
    assert "only CUDA has" in told(report(record("RuntimeError", "cannot start", place, cause=inner))).cause
    # What is known of the second one is the better answer
    mixed = told(report(record("RuntimeError", MIXED, place, cause=inner)))
    assert mixed.cause.startswith("tensors on two devices meet")


def test_pool_passes_a_traceback_on_as_text(told, project) -> None:
    frame = f'  File "{project}/train.py", line 6, in work\n    f()\n'
    text = f'"""\nTraceback (most recent call last):\n{frame}ValueError: root\n"""'
    cause = record("RemoteTraceback", text, where="from")
    found = told(report(record("ValueError", "root", (str(project / "train.py"), 2), cause=cause)))
    assert (found.place, found.exception) == ("train.py:5", "ValueError: root")


def test_text_of_an_echo_where_its_root_left_no_report(told, project) -> None:
    text = (
        "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        f'  File "{TORCH}", line 3, in _worker_loop\n    data = fetch()\n'
        f'  File "{project}/train.py", line 6, in __getitem__\n    return x.cuda()\n'
        f'  File "{TORCH}", line 4, in _lazy_init\n    raise\n'
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use"
    )
    found = told(report(record("RuntimeError", text, (str(project / "train.py"), 2))))
    assert (found.place, "forked process" in found.cause) == ("train.py:5", True)


def test_traceback_on_stderr_where_no_report_tells(told, project) -> None:
    text = (
        f'Traceback (most recent call last):\n  File "{project}/train.py", line 6, in <module>\n    y\nNameError: y\n'
    )
    assert told(stderr=f"a warning\n{text}").place == "train.py:5"
    prefixed = "".join(f"[rank0]: {line}\n" for line in text.splitlines())
    found = told(report(record("SystemExit", "1")), stderr=prefixed)
    assert (found.place, found.exception) == ("train.py:5", "NameError: y")


def test_words_of_a_system_exit_are_looked_for_in_the_source(told, project) -> None:
    (project / "infer.py").write_text(
        "import torch\nif not torch.cuda.is_available():\n    raise SystemExit('needs a GPU')\n"
    )
    found = told(stderr="loading\nneeds a GPU\n")
    assert (found.place, found.exception) == ("infer.py:2", "SystemExit: needs a GPU")
    assert found.cause == (
        "the program itself refuses to run without CUDA: a CUDA-only branch is left"
        ", whose test is `not torch.cuda.is_available()`"
    )


# ---- the cause


KNOWN = [
    (
        "ModuleNotFoundError",
        "No module named 'yaml'",
        "`yaml` is not installed in the environment that runs the program",
    ),
    ("ModuleNotFoundError", "No module named 'apex.amp'", "made for CUDA, so its import likely wants a guard"),
    (
        "OutOfMemoryError",
        "MPS backend out of memory. Tried to allocate 9 bytes.",
        "whose size is simulated: MPS backend",
    ),
    ("TypeError", "can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to", "a `.cpu()` is missing"),
    (
        "RuntimeError",
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D mps:0 Long",
        "a `.cpu()` is missing",
    ),
    ("TypeError", "RNG state must be a torch.ByteTensor", "likely a `map_location` moved it"),
    (
        "RuntimeError",
        "Expected a 'mps' device type for generator but found 'cpu'",
        "the generator is a generator of the CPU",
    ),
    (
        "RuntimeError",
        "cannot pin 'XPUFloatType' only dense CPU tensors can be pinned",
        "only memory of the host can be",
    ),
    ("RuntimeError", MIXED, "tensors on two devices meet in `model(x)`"),
    ("RuntimeError", "Placeholder storage has not been allocated on MPS device!", "tensors on two devices meet"),
    ("RuntimeError", "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor)", "on two devices meet"),
    (
        "IndexError",
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        "two devices meet",
    ),
    ("RuntimeError", "Tensor for argument weight is on cpu but expected on mps", "two devices meet"),
    (
        "TypeError",
        "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.",
        "`model(x)` makes a float64 tensor, which mps does not have",
    ),
    (
        "NotImplementedError",
        "The operator 'aten::_ctc_loss' is not currently implemented for the MPS device. If you want",
        "torch 2.13.0+cpu has no `aten::_ctc_loss` for MPS: PYTORCH_ENABLE_MPS_FALLBACK=1 runs it on the CPU",
    ),
    (
        "NotImplementedError",
        "The operator 'c10d::allgather_' is not currently implemented for the MPS device. If you want",
        "needs a collective (c10d::allgather_), and MPS has none",
    ),
    ("NotImplementedError", "Could not run 'c10d::broadcast_' with arguments from the 'MPS' backend.", "MPS has none"),
    ("RuntimeError", "No backend type associated with device type mps", "needs a collective, and MPS has none"),
    ("NotImplementedError", "Could not run 'c10d::broadcast_' with arguments from the 'NPU' backend.", "for NPU"),
    (
        "NotImplementedError",
        "Could not run 'aten::mode' with arguments from the 'NPU' backend.",
        "no `aten::mode` for NPU",
    ),
    ("RuntimeError", "\"addmm_impl_cpu_\" not implemented for 'Half'", "and the real one's may take it"),
    (
        "RuntimeError",
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
        "`model(x)` reads tensors saved on cuda, which is not there: its `map_location` is missing or wrong",
    ),
    (
        "RuntimeError",
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with npu:0)",
        "saved on npu:0",
    ),
    ("RuntimeError", "Distributed package doesn't have NCCL built in", "which are not here for mps; gloo is"),
    ("RuntimeError", "No backend type associated with device type npu", "which are not here for mps; gloo is"),
    ("RuntimeError", "CUDA error: invalid device ordinal", "asks for a device that is not there"),
    ("RuntimeError", "invalid device index (mps:1 of 1 simulated)", "asks for a device that is not there"),
    ("AcceleratorError", "CUDA error: operation not supported (simulated devices capture no graphs)", "a CUDA graph"),
    ("RuntimeError", "Tried to instantiate dummy base class CUDAGraph", "captures a CUDA graph"),
    (
        "AttributeError",
        "module 'torch.mps' has no attribute 'current_device'",
        "`torch.mps` has no `current_device`: likely",
    ),
    ("AssertionError", "Torch not compiled with CUDA enabled", "a call that only CUDA has is left: `model(x)`"),
    ("AttributeError", "module 'torch._C' has no attribute '_cuda_setDevice'", "a call that only CUDA has is left"),
    ("RuntimeError", "Tried to instantiate dummy base class Event", "a call that only CUDA has is left"),
    ("RuntimeError", "Cannot access accelerator device when none is available.", "needs an accelerator"),
    ("IndexError", "index 9187201950435737471 is out of bounds", "likely a synchronize() is missing"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: 'train.npy'", "`train.npy` is not in the copy of PATH"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: '../data/a'", "`../data/a` is outside the project"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/a'", "`/data/a` does not exist on this machine"),
    (
        "RuntimeError",
        "An attempt has been made to start a new process before the\n current process has finished its bootstrapping",
        'belongs under `if __name__ == "__main__":`',
    ),
    ("KeyError", "'loss'", "KeyError: 'loss'"),
]


@pytest.mark.parametrize(("kind", "message", "words"), KNOWN, ids=[f"{k}-{m[:30]}" for k, m, _ in KNOWN])
def test_cause(told, project, kind: str, message: str, words: str) -> None:
    found = told(report(record(kind, message, (str(project / "train.py"), 6), expression="model(x)")))
    assert words in found.cause


def test_pinning_on_mps_is_told_from_other_storages(told, project) -> None:
    text = 'Attempted to set the storage of a tensor on device "cpu" to a storage on different device "mps:0".'
    place = (str(project / "train.py"), 6)
    assert "pinning has to be left out" in told(report(record("E", text, place, expression="x.pin_memory()"))).cause
    other = told(report(record("E", text, place, expression="x.set_(y)"))).cause
    assert other == "`x.set_(y)` gives a tensor on the CPU a storage on mps"


def mixed(project: Path, *suspects: Record, tensors: tuple[Record, ...] = ()) -> Record:
    return report(record("RuntimeError", MIXED, (str(project / "train.py"), 5), suspects=suspects, tensors=tensors))


def test_tensor_that_is_on_the_cpu(told, project) -> None:
    made = {"file": str(project / "train.py"), "line": 3}
    mask = tensor("self.mask", "cpu", made=made)
    assert told(mixed(project, mask)).cause == (
        "`self.mask` is still on the CPU, not on mps:0 as the rest; likely made at train.py:2"
    )
    several = told(mixed(project, mask, tensor("bias", "cpu"), tensor("model", "cpu", parts=4))).cause
    assert several.startswith("`self.mask`, `bias` and `model` (4 tensors) are still on the CPU")


def test_move_under_a_test_for_cuda(told, project) -> None:
    guard = {"file": str(project / "train.py"), "line": 4, "test": "use_cuda"}
    assert told(mixed(project, tensor("model", "cpu", guard=guard))).cause == (
        "`model` is still on the CPU, not on mps:0 as the rest: likely a CUDA-only branch,"
        " as train.py:3 moves what is needed only under `use_cuda`"
    )


def test_two_devices_of_one_type(told, project) -> None:
    text = "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!"
    x, y = tensor("x", "cuda:1"), tensor("y", "cuda:0")
    place = (str(project / "train.py"), 5)
    found = told(report(record("RuntimeError", text, place, suspects=[x], tensors=[x, y]), backend="cuda"))
    assert found.cause == "`x` is on cuda:1, not on cuda:0 as the rest"


@pytest.mark.parametrize("statement", ["raise RuntimeError('CUDA is needed')", "assert cuda", "sys.exit('no')"])
def test_refusal_by_the_program(told, project, statement: str) -> None:
    (project / "train.py").write_text(
        f"import torch\ncuda = torch.cuda.is_available()\nif not cuda:\n    {statement}\n"
    )
    found = told(report(record("RuntimeError", "CUDA is needed", (str(project / "train.py"), 4))))
    test = "cuda" if statement.startswith("assert") else "not cuda"
    assert found.cause == (
        f"the program itself refuses to run without CUDA: a CUDA-only branch is left, whose test is `{test}`"
    )


@pytest.mark.parametrize("test", ["not data", "use_cuda"])
def test_exception_of_the_programs_own_is_no_refusal(told, project, test: str) -> None:
    (project / "train.py").write_text(f"if {test}:\n    raise ValueError('no data')\n")
    found = told(report(record("ValueError", "no data", (str(project / "train.py"), 2))))
    assert found.cause == "ValueError: no data"


def test_refusal_in_an_else(told, project) -> None:
    (project / "train.py").write_text("if use_cuda:\n    pass\nelse:\n    raise ValueError('no device')\n")
    found = told(report(record("ValueError", "no device", (str(project / "train.py"), 4))))
    assert found.cause.endswith("a CUDA-only branch is left, whose test is `use_cuda`")


def test_exit_status_of_the_programs_own(told, project) -> None:
    found = told(report(record("SystemExit", "2", (str(project / "train.py"), 6))))
    assert (found.place, found.cause) == ("train.py:5", "the program itself ends with exit status 2")


# ---- what `check` says of it elsewhere


def test_a_failure_that_began_in_another_line(told, project) -> None:
    """Of a module of DataParallel, its call fails; `check` has named the line that makes it."""
    scatter = record("AttributeError", "module 'torch._C' has no attribute '_scatter'", (str(project / "train.py"), 5))
    found = told(report({**scatter, "expression": "model(x)"}, backend="xpu"))
    assert found.cause == "`model(x)` runs a module of DataParallel, which spreads over CUDA devices alone"
    assert found.about == ("device/data-parallel",)
    known = {
        ("nets.py", 7): ("device/data-parallel: it raises", "device/tensor-cuda: another"),
        ("unused.py", 1): ("device/data-parallel: not imported",),
    }
    outcome = SimpleNamespace(own_files={"train.py", "nets.py"})
    verdict, result = SimpleNamespace(outcome=outcome), SimpleNamespace(migration=SimpleNamespace(known=known))
    assert _findings(result, verdict, found) == ("nets.py:7: device/data-parallel: it raises",)
    here = SimpleNamespace(migration=SimpleNamespace(known={**known, ("train.py", 4): ("hazard/x: of this line",)}))
    assert _findings(here, verdict, found) == ("hazard/x: of this line",)


def test_rules_that_speak_of_failures_are_there() -> None:
    known = packs.load().rules.keys()
    assert {name for names in causes.ABOUT.values() for name in names} <= known


# ---- the conditions that are named for a run on the CPU


def test_conditions_that_name_cuda_come_first(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("if per_gpu is not None:\n    pass\nif here:\n    pass\n")
    (tmp_path / "b.py").write_text("device = 'cuda' if is_cuda_available() else 'cpu'\n")
    found = conditions_left(Origins(tmp_path), ["a.py", "b.py"])
    assert found == ["b.py:1 `is_cuda_available()`", "a.py:1 `per_gpu is not None`"]


def test_three_conditions_are_shown_each_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("".join(f"if gpu == {i}:\n    pass\n" for i in range(5)))
    assert len(conditions_left(Origins(tmp_path), ["a.py", "a.py"])) == 3
