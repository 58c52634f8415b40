"""Activation by environment: every Python process of a program sees the device, however it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchmigrate.verify.run import simulated_environment

DEVICE = "from torch import accelerator as a; print(a.current_accelerator(), a.device_count())"


@pytest.fixture
def python(library: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python with these arguments where a device is simulated."""

    def run(backend: str, *arguments: str, count: int | None = None, evidence: str = "simulated", **more: str):
        known = simulated_environment(backend, count=count, evidence=evidence)
        own = {"TORCHMIGRATE_LIBRARY": library, "OMP_NUM_THREADS": "1"}
        command, pipe = [sys.executable, *arguments], {"capture_output": True, "text": True, "timeout": 600}
        return subprocess.run(command, env={**known, **own, **more}, cwd=tmp_path, **pipe)

    return run


def out(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_command(python: Callable) -> None:
    assert out(python("cuda", "-c", DEVICE, count=3)) == "cuda 3"


def test_a_module_and_its_arguments(python: Callable, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"import sys\nassert sys.argv[1:] == ['--epochs', '3']\n{DEVICE}")
    assert out(python("npu", "-m", "package", "--epochs", "3")) == "npu 1"


def test_pytest(python: Callable, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest, torch\n"
        "def test_mixing():\n"
        "    with pytest.raises(RuntimeError, match='same device'):\n"
        "        torch.ones(2, device='xpu') + torch.ones(2)\n"
    )
    assert "1 passed" in out(
        python("xpu", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_it.py")
    )


def test_a_child_process(python: Callable) -> None:
    child = (
        f"import subprocess, sys; print(subprocess.run([sys.executable, '-c', {DEVICE!r}], stdout=-1).stdout.decode())"
    )
    assert out(python("mtia", "-c", child, count=2)) == "mtia 2"


LOOKS_FIRST = """
import importlib.util, sys
assert importlib.util.find_spec("torch") is not None  # as `transformers` asks
assert "torch" not in sys.modules
import torch
assert torch.ones(2, device="cuda").is_cuda
print("found")
"""


def test_a_program_that_looks_for_torch_before_it_imports_it(python: Callable) -> None:
    assert out(python("cuda", "-c", LOOKS_FIRST)) == "found"


IN_A_THREAD = """
import threading
def work():
    import torch
    print(torch.ones(2, device="mps").device)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_torch_imported_in_a_thread(python: Callable) -> None:
    assert out(python("mps", "-c", IN_A_THREAD)) == "mps:0"


def test_a_sitecustomize_of_ones_own_has_its_turn(python: Callable, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os; os.environ['OWN'] = 'ran'")
    path = os.pathsep.join([simulated_environment("cuda")["PYTHONPATH"], str(own)])
    told = "import os, sys; print(os.environ.get('OWN'), sys.modules['sitecustomize'].__file__)"
    assert out(python("cuda", "-c", told, PYTHONPATH=path)) == f"ran {own / 'sitecustomize.py'}"


def test_a_process_that_never_imports_torch(python: Callable) -> None:
    told = "import sys; print('torch' in sys.modules, any('simulated-' in line for line in open('/proc/self/maps')))"
    assert out(python("cuda", "-c", told)) == "False False"


SEEDS = """
import json, random
{imports}
print(json.dumps([random.random(), numpy.random.rand(), torch.rand(1).item(), torch.rand(1, device="cuda").item()]))
"""


def test_a_program_that_seeds_nothing_draws_the_same(python: Callable) -> None:
    orders = ("import numpy, torch", "import torch, numpy")
    drawn = {out(python("cuda", "-c", SEEDS.format(imports=order))) for order in orders}
    assert len(drawn) == 1, drawn


@pytest.mark.parametrize(
    ("backend", "count", "words"),
    [
        ("tpu", 1, "'tpu' cannot be simulated; these can: cuda, mps, xpu, npu, mtia"),
        ("mps", 2, "mps has at most 1 device(s) in a process, not 2"),
        ("cuda", 17, "cuda has at most 16 device(s) in a process, not 17"),
        ("cuda", -1, "TORCHMIGRATE_BACKEND=cuda:-1 names no number of devices"),
    ],
)
def test_what_cannot_be_simulated_ends_the_process(python: Callable, backend: str, count: int, words: str) -> None:
    done = python(backend, "-c", "print('ran')", count=count)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"torchmigrate: {words}\n")


def test_evidence_of_the_cpu_simulates_nothing(python: Callable) -> None:
    assert out(python("cpu", "-c", "import torch; print(torch.accelerator.is_available())", evidence="cpu")) == "False"


ENDS = """
import sys, torch
x = torch.ones(3, device="cuda:1", requires_grad=True)
x.sum().backward()
{last}
"""


@pytest.mark.parametrize(
    ("last", "status", "words"),
    [
        ("sys.exit(7)", 7, ""),
        ("raise KeyError('lost')", 1, "KeyError: 'lost'"),
    ],
)
def test_how_a_program_ends_is_left_alone(python: Callable, last: str, status: int, words: str) -> None:
    done = python("cuda", "-c", ENDS.format(last=last), count=2)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in (done.stderr.splitlines() or [""])[-1]


VISIBLE = """
import os
import torch
{after}
try:
    torch.ones(1).cuda()
except RuntimeError as e:
    print(e)
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2"  # too late
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.accelerator.device_count())
"""


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("3", "True 1 1"),  # whichever it is, there is one
        ("0,1,2,3", "True 2 2"),
        ("-1", "No CUDA GPUs are available\nTrue 2 2"),  # nothing was used yet
    ],
)
def test_visible_devices(python: Callable, listed: str, expected: str) -> None:
    setting = f"os.environ['CUDA_VISIBLE_DEVICES'] = {listed!r}"
    assert out(python("cuda", "-c", VISIBLE.format(after=setting), count=2)) == expected


def test_devices_that_are_not_visible(python: Callable) -> None:
    told = "import torch; print(torch.cuda.is_available(), torch.accelerator.is_available(), torch.cuda.device_count())"
    assert out(python("cuda", "-c", told, CUDA_VISIBLE_DEVICES="")) == "False False 0"
