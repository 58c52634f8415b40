"""Ports to accelerators that do it wrong: `verify` finds each one out, for its own reason, at its own line.

broken_ports/NAME: `original.py`, for CUDA, and `port.py`, what a careless port made of it. Both run as train.py, in
forks of processes that have imported torch; with fresh interpreters: cli/test_verify.py.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

pytest.importorskip("torch")

import warm_torch

from torchmigrate.verify import interpreter, session
from torchmigrate.verify.interpreter import Ended
from torchmigrate.verify.migration import Migration, Origins
from torchmigrate.verify.run import simulated_environment
from torchmigrate.verify.sandbox import Sandbox
from torchmigrate.verify.verdict import Kind, Verdict

PORTS = Path(__file__).parent / "broken_ports"


@dataclass(frozen=True)
class Broken:
    """`on`: backends where the port fails, `cause` there, and the line that fails; `passes`: where nobody sees it."""

    name: str
    cause: str
    line: str
    on: tuple[str, ...] = ("mps",)
    passes: tuple[str, ...] = ("cpu",)


EACH = (
    Broken(
        "left_on_cpu",
        r"`positions` is still on the CPU, not on {device}:0 as the rest; likely made at train.py:20$",
        "self.places(positions)",
        on=("mps", "npu"),
    ),
    Broken(
        "float64",
        r"`tensor` is float64, which mps does not have: float32 is needed there; likely made at train.py:18$",
        "tensor.to(DEVICE).float()",
    ),
    Broken(
        "cpu_generator",
        r"`generator` is a generator of the CPU, and the tensor is on {device}; likely made at train.py:19$",
        "generator=generator",
        on=("xpu",),
    ),
    Broken(
        "missing_map_location",
        r"`torch.load\(path\)` reads tensors saved on cuda, which is not there: its `map_location` is missing",
        "torch.load(path)",
        passes=(),  # no CUDA on the CPU either
    ),
    Broken("lost_synchronize", "a missing synchronize", ""),
    Broken(
        "device_index",
        r"`torch.linspace\(.*\).to\(device\)` asks for a device that is not there: invalid device index",
        ".to(device)",
    ),
    Broken(
        "missing_operator",
        r"torch \S+ has no `aten::_ctc_loss` for MPS: PYTORCH_ENABLE_MPS_FALLBACK=1 runs it on the CPU",
        "ctc(model(lines)",
    ),
    Broken(
        "cuda_only_branch",
        r"`weights` is still on the CPU, not on {device}:0 as the rest: likely a CUDA-only branch, as train.py:22 moves"
        r" what is needed only under `torch.cuda.is_available\(\)`$",
        "weight=weights",
    ),
    Broken(
        "nccl_left",
        r"`dist.init_process_group\(backend, .*\)`: the process group is one of nccl's",
        "dist.init_process_group",
    ),
    Broken(
        "pinned_memory",
        r"`part.pin_memory\(\)` pins memory, which on MPS makes a tensor of the device",
        "part.pin_memory()",
        passes=("cpu", "xpu"),
    ),
    Broken(
        "pinned_on_device",
        r"only memory of the host can be pinned: .* pins what is on the device already; likely made at train.py:",
        "enumerate(loader())",
        on=("xpu",),
        passes=("cpu", "mps"),  # on MPS the loader says that it does not pin
    ),
)


PROBE = functools.cache(interpreter.probe)


def forked(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    timeout: float,
    stop: Event,
) -> Ended:
    """What interpreter.run does, but for the fresh interpreter and the watch over what it leaves behind."""
    assert os.path.basename(command[0]).startswith("python")
    status = warm_torch.run_into(stdout, stderr, command[1:], directory, environment, warm_torch.TRAINING)
    return Ended(status, timed_out=False, seconds=0.1)


@pytest.fixture
def verified(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Broken], dict[str, Verdict]]:
    """`verify` of the original, where the port stands for what the migration made of it: a verdict per backend."""
    monkeypatch.setenv("TORCHMIGRATE_CACHE_DIR", str(Path(library).parent))
    monkeypatch.setattr(interpreter, "run", forked)
    monkeypatch.setattr(interpreter, "probe", PROBE)

    def run(broken: Broken) -> dict[str, Verdict]:
        folder, project = PORTS / broken.name, tmp_path / "project"
        project.mkdir()
        shutil.copy(folder / "original.py", project / "train.py")
        if (weights := folder / "make_weights.py").exists():
            subprocess.run([sys.executable, str(weights)], cwd=project, env=simulated_environment("cuda"), check=True)

        def careless(sandbox: Sandbox, settings: object) -> Migration:
            shutil.copy(folder / "port.py", sandbox.rewritten / "train.py")
            return Migration(Origins(sandbox.rewritten), files=1, edits=1, held=0)

        def on_the_cpu(found: Verdict) -> bool:
            """Spare the original beside each run that fails: tests/cli/test_verify.py shows what it is for."""
            return found.run.way.backend == "cpu" and found.kind is not Kind.PASS

        monkeypatch.setattr(session, "migrate", careless)
        monkeypatch.setattr(session.verdict, "asks_for_original", on_the_cpu)
        request = session.Request(
            project, ("python", "train.py"), backends=(*broken.on, *broken.passes), variables={"OMP_NUM_THREADS": "1"}
        )
        result = session.verify(request, print)
        assert result.baseline.why is None, result.baseline.why
        return {verdict.run.way.backend: verdict for verdict in result.verdicts if verdict.run.project == "rewritten"}

    return run


@pytest.mark.parametrize("broken", EACH, ids=lambda broken: broken.name)
def test_port_is_found_out(broken: Broken, verified) -> None:
    verdicts = verified(broken)
    for backend in broken.on:
        assert_fails(broken, backend, verdicts[backend])
    for backend in broken.passes:
        found = verdicts[backend]
        told = found.outcome.tail if found.outcome else ()
        assert found.kind is Kind.PASS, "\n".join([f"{backend}: {found.reason}", *told])


def assert_fails(broken: Broken, backend: str, verdict: Verdict) -> None:
    assert verdict.kind is Kind.FAIL, f"{backend}: {verdict}"
    assert verdict.outcome
    diagnosis = verdict.outcome.diagnosis
    if diagnosis is None:
        assert re.search(broken.cause, verdict.reason), verdict.reason
        return
    assert re.search(broken.cause.replace("{device}", backend), diagnosis.cause), diagnosis.cause
    assert diagnosis.path == "train.py"
    source = (PORTS / broken.name / "port.py").read_text(encoding="utf-8").splitlines()
    assert broken.line in source[(diagnosis.line or 0) - 1], diagnosis.place
