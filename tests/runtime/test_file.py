"""The file itself: what it may cost, import, and say; and the two environment variables."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import warm_torch

from torchmigrate import runtime
from torchmigrate.project.helper_parts import Form, vendored

SOURCE = Path(runtime.__file__)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a fork of a process that has imported torch."""
    own = {**os.environ, "PYTHONPATH": str(SOURCE.parent.parent), "CUDA_VISIBLE_DEVICES": "", **environment}
    return warm_torch.run(["-c", code], SOURCE.parent, own)


def test_it_is_one_readable_file():
    text = SOURCE.read_text(encoding="utf-8")
    assert text.splitlines()[0] == "# torchmigrate-runtime 2"
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert [f.name for f in functions if (f.end_lineno or 0) - f.lineno >= 20] == []
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    own = [*(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)), *classes]
    assert [n.name for n in own if "\n" in (ast.get_docstring(n) or "\n")] == []


def test_a_copy_says_whose_it_is():
    """In the form that licence scanners read, as no licence text lies beside it."""
    assert SOURCE.read_text(encoding="utf-8").splitlines()[1] == "# SPDX-License-Identifier: 0BSD"


def test_python_37_reads_it():
    ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 7))


def test_it_imports_torch_and_the_standard_library():
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= {"torch", *sys.stdlib_module_names}


PROBES = """
import sys, torch
def probed(*args, **options): raise AssertionError("probed at import")
torch.cuda.is_available = torch.cuda.device_count = torch.xpu.is_available = torch.backends.mps.is_available = probed
torch.cuda._lazy_init = torch.cuda.current_device = probed
if hasattr(torch, "accelerator"):
    torch.accelerator.is_available = torch.accelerator.device_count = torch.accelerator.current_accelerator = probed
    torch.accelerator.device_count = probed
before = set(sys.modules)
import torchmigrate.runtime as accel
print(sorted(name for name in set(sys.modules) - before if name.startswith("torch.")))
assert accel._device is None and not torch.cuda.is_initialized()
try:
    accel.device()
except AssertionError as error:
    print(error)
"""


def test_importing_it_probes_and_imports_nothing():
    own = {**os.environ, "PYTHONPATH": str(SOURCE.parent.parent)}
    done = subprocess.run([sys.executable, "-c", PROBES], env=own, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["[]", "probed at import"], done.stderr


def test_the_environment_picks_the_device():
    done = run("import torchmigrate.runtime as a; print(a.device(1), a.is_available())", TORCH_ACCEL_DEVICE="cpu")
    assert done.stdout.split() == ["cpu", "False"], done.stderr


@pytest.mark.parametrize("name", ["bogus", "nn", "cuda:1", "hpu"])
def test_a_device_that_is_not_here_is_torch_s_error_which_names_it(name):
    code = "import torch, torchmigrate.runtime as a; print(torch.ones(1).to(a.device()))"
    done = run(code, TORCH_ACCEL_DEVICE=name)
    assert name.partition(":")[0] in done.stderr.splitlines()[-1].lower()
    assert (done.returncode, done.stdout) == (1, "")


def test_an_index_becomes_the_current_device():
    code = """
import torch, torchmigrate.runtime as accel
torch.xpu.is_available, torch.xpu.device_count = lambda: True, lambda: 2
torch.xpu.set_device = lambda device: print("set", device)
print(accel.device(), accel.device_type())
"""
    done = run(code, TORCH_ACCEL_DEVICE="xpu:1")
    assert done.stdout.splitlines() == ["set 1", "xpu xpu"], done.stderr


LOGGING = """import torchmigrate.runtime as accel
for _ in range(3):
    accel.memory_allocated()
accel.memory_allocated()
accel.device()
def allocated():
    return accel.memory_allocated()
allocated()
"""


@pytest.mark.parametrize(
    ("wish", "lines"), [("1", ["<string>:3", "<string>:4", "<string>:7"]), ("0", []), ("", []), (None, [])]
)
def test_the_log_names_each_call_site_once(wish, lines):
    done = run(LOGGING, **({} if wish is None else {"TORCH_ACCEL_LOG": wish}))
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == lines
    said = "no memory_allocated on cpu. Return the bytes that tensors take; 0 on the CPU."
    assert all(said in line for line in done.stderr.splitlines())


def test_the_log_goes_where_the_program_sends_it():
    code = "import logging, sys; logging.basicConfig(stream=sys.stdout, format='%(name)s %(levelname)s');" + LOGGING
    done = run(code, TORCH_ACCEL_LOG="1")
    assert done.stdout.splitlines() == ["accel WARNING"] * 3, done.stderr


@pytest.mark.parametrize("accelerator", [True, False])
def test_resolution(monkeypatch, accelerator):
    import torch

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    if accelerator:  # what it says settles it
        assert runtime.device_type() == "cpu"
    else:  # before torch 2.6
        monkeypatch.delattr(torch, "accelerator")
        assert runtime.device_type() == "mps"


def test_before_torch_2_6_cudas_devices_are_counted_which_keeps_fork_usable(monkeypatch):
    import torch

    monkeypatch.delattr(torch, "accelerator")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("it starts CUDA, for the children too"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert runtime.device_type() == "cuda"


def test_a_cuda_build_without_a_gpu_is_a_cpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert runtime.device_type() == "cpu"
    monkeypatch.setattr(runtime, "_device", None)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    assert runtime.device() == torch.device("cuda")


# ---- the copies of programs that compile nothing: they find the device anew at each call, or remember it by a cache

NAMES = ("device", "device_type", "is_available")
COPIES = {"once": ~Form.ANY, "eager": Form.SHORT | Form.EAGER}


@pytest.fixture(params=COPIES)
def fresh_copy(request, monkeypatch):
    """Make a copy that knows no device yet, as a new process does."""
    monkeypatch.delenv("TORCH_ACCEL_DEVICE", raising=False)

    def make():
        module = types.ModuleType("accel")
        exec(compile(vendored(dict.fromkeys(NAMES, COPIES[request.param])), "accel.py", "exec"), vars(module))
        assert not hasattr(module, "_device") and hasattr(module, "functools") is (request.param == "eager")
        return module

    return make


@pytest.mark.parametrize("accelerator", [True, False])
@pytest.mark.parametrize("there", ["mps", "xpu", ""])
def test_a_plain_copy_finds_what_the_whole_finds(monkeypatch, fresh_copy, accelerator, there):
    import torch

    for kind, home in (("mps", torch.backends.mps), ("xpu", torch.xpu)):
        monkeypatch.setattr(home, "is_available", lambda kind=kind: kind == there)
    if accelerator:
        found = torch.device(there) if there else None
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: int(bool(there)))
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: bool(there))
    else:  # before torch 2.6
        monkeypatch.delattr(torch, "accelerator")
    copy = fresh_copy()
    assert copy.device() == runtime.device() == torch.device(there or "cpu")
    assert copy.device_type() == (there or "cpu") and copy.is_available() is bool(there)


def test_a_plain_copy_takes_a_cuda_build_without_a_gpu_for_a_cpu(monkeypatch, fresh_copy):
    import torch

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert fresh_copy().device() == torch.device("cpu")
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert fresh_copy().device() == torch.device("cuda")


def test_the_environment_picks_the_device_of_a_plain_copy(monkeypatch, fresh_copy):
    import torch

    said = []
    monkeypatch.setattr(torch.xpu, "set_device", said.append)
    for wish in ("xpu:1", "xpu", "cpu"):
        monkeypatch.setenv("TORCH_ACCEL_DEVICE", wish)
        assert fresh_copy().device() == torch.device(wish.partition(":")[0])
    assert said == [1]


def test_a_copy_that_is_asked_again_and_again_looks_once(monkeypatch):
    import torch

    copy = types.ModuleType("accel")
    exec(
        compile(vendored({"set_device": ~Form.ANY, "device": Form.SHORT | Form.EAGER}), "accel.py", "exec"), vars(copy)
    )
    looked = []
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: looked.append(1) or 0)
    assert copy.device() is copy.device() and len(looked) == 1


def test_a_plain_copy_knows_all_devices_that_the_whole_knows():
    kinds = repr(runtime._KINDS).replace("'", '"').encode()
    assert vendored({"device": ~Form.ANY}).count(kinds) == 1


def test_a_copy_that_knows_the_first_device_alone(monkeypatch):
    import torch

    uses = {"device": Form.FIRST, "device_type": Form.ANY}
    copy = types.ModuleType("accel")
    exec(compile(vendored(uses), "accel.py", "exec"), vars(copy))
    assert copy.device(0) == copy.device() == torch.device("cpu")
    for kind in ("xpu", "mps", "cuda"):
        monkeypatch.setattr(copy, "_device", torch.device(kind))
        monkeypatch.setattr(runtime, "_device", torch.device(kind))
        assert copy.device() == runtime.device() == torch.device(kind)
        assert copy.device(0) == runtime.device(0) == torch.device(kind, 0)
