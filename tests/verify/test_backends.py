"""What is here: which Python, which devices, what can be simulated, and what is said of what cannot."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Ran

from torchmigrate.base.text import UserError
from torchmigrate.verify import backends, interpreter
from torchmigrate.verify.backends import Compiler, Machine, Way, advice, build, way
from torchmigrate.verify.interpreter import Device, Interpreter, choose, probe, resolve

Cli = Callable[..., Ran]
CPU_BUILD = Interpreter("/bin/python", "3.11.0", "2.13.0+cpu")
GXX = Compiler("/usr/bin/g++", "g++ 12.2.0")


def machine(found: Interpreter = CPU_BUILD, native: str | None = None, **drivers: str) -> Machine:
    return Machine(found, GXX, native, drivers)


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_python(path: Path, torch: str | None = "2.13.0") -> Path:
    """Answers the probe as a Python with this torch would."""
    told = {"python": "3.11.0", "executable": str(path), "torch": torch, "error": None if torch else "no torch"}
    return executable(path, f"#!/bin/sh\necho some chatter\ncat <<'END'\n{json.dumps(told)}\nEND\n")


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH but the system's."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}/bin{os.pathsep}/usr/bin")
    return directory


# ---- which Python


def test_python_is_the_one_on_path_if_it_has_torch(on_path: Path, tmp_path: Path) -> None:
    python = fake_python(on_path / "python3")
    found = resolve(["python3", "train.py"], tmp_path)
    assert found.words == (str(python), "train.py")
    assert (found.interpreter.torch, found.note) == ("2.13.0", "")


def test_else_it_is_ours_and_that_is_said(on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_python(on_path / "python", None)
    ours = fake_python(tmp_path / "ours" / "python")
    monkeypatch.setattr(sys, "executable", str(ours))
    found = resolve(["python", "-m", "train"], tmp_path)
    assert found.words == (str(ours), "-m", "train")
    assert found.note == f"using {ours} (python on PATH: no torch)"


def test_without_torch_there_is_no_run(on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = fake_python(on_path / "python", None)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(UserError, match=r"no Python with torch found\n.*: no torch"):
        resolve(["python"], tmp_path)
    other = fake_python(tmp_path / "project/.venv/bin/python", None)
    with pytest.raises(UserError, match=f"{other}: no torch"):
        resolve([".venv/bin/python"], tmp_path / "project")


def test_a_script_is_run_by_the_python_that_it_names(on_path: Path, tmp_path: Path) -> None:
    python = fake_python(tmp_path / "venv" / "python")
    script = executable(tmp_path / "venv" / "torchrun", f"#!{python}\n")
    executable(on_path / "torchrun", "").unlink()
    (on_path / "torchrun").symlink_to(script)
    found = resolve(["torchrun", "train.py"], tmp_path)
    assert found.words == (str(on_path / "torchrun"), "train.py")
    assert found.interpreter.executable == str(python)
    fake_python(on_path / "python3", "2.12.0")
    executable(tmp_path / "run.py", "#!/usr/bin/env python3\n")
    assert resolve(["./run.py"], tmp_path).interpreter.torch == "2.12.0"


def test_a_command_of_another_kind_uses_python_from_path(on_path: Path, tmp_path: Path) -> None:
    fake_python(on_path / "python")
    executable(tmp_path / "run.sh", "#!/bin/sh\n")
    found = resolve(["./run.sh"], tmp_path)
    assert found.words == (str(tmp_path / "run.sh"),)
    assert found.interpreter.torch == "2.13.0"


def test_commands_beside_our_python_are_found(on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = fake_python(tmp_path / "ours" / "python")
    executable(tmp_path / "ours" / "torchrun", f"#!{ours}\n")
    monkeypatch.setattr(sys, "executable", str(ours))
    assert resolve(["torchrun"], tmp_path).words == (str(tmp_path / "ours" / "torchrun"),)


def test_a_python_that_does_not_answer(tmp_path: Path) -> None:
    assert probe(str(executable(tmp_path / "python", "#!/bin/sh\necho hello\n"))).error == "it does not run Python code"
    assert probe(str(tmp_path / "nowhere")).error == "it does not run Python code"


def test_a_python_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "SECONDS", 0.2)
    slow = executable(tmp_path / "python", "#!/bin/sh\nexec sleep 20\n")
    assert probe(str(slow)).error == "importing torch took more than 0.2 s"


def test_choosing_one(tmp_path: Path) -> None:
    assert choose(fake_python(tmp_path / "python")).torch == "2.13.0"
    with pytest.raises(UserError, match="nowhere: no such command"):
        choose(tmp_path / "nowhere")
    with pytest.raises(UserError, match="it does not run Python code"):
        choose(executable(tmp_path / "sh", "#!/bin/sh\n"))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_asking_a_real_python() -> None:
    found = probe(sys.executable)
    assert found.executable == sys.executable
    assert (found.python, found.error) == (sys.version.partition(" ")[0], None)
    assert found.torch and found.torch[0].isdigit()
    assert any("site-packages" in path for path in found.paths)


# ---- which way


def test_hardware_first_then_simulated() -> None:
    devices = {"cuda": Device(2, "H200"), "xpu": Device(1, "x", "RuntimeError: it does not")}
    found = machine(replace(CPU_BUILD, devices=devices))
    assert way(found, "cuda") == Way("cuda", "hardware")
    assert way(found, "xpu") == Way("xpu", "simulated")
    assert way(found, "mps") == Way("mps", "simulated")
    assert way(found, "cpu") == Way("cpu", "cpu")


def test_without_the_native_tier_there_is_npu_alone() -> None:
    found = machine(native="no C++ compiler")
    assert way(found, "npu") == Way("npu", "simulated", "python")
    assert way(found, "mps").skip == "only the C++ tier can simulate mps (no C++ compiler)"
    assert way(found, "cpu").skip is None


def test_a_cuda_build_without_its_device_cannot_simulate_one() -> None:
    found = machine(replace(CPU_BUILD, build={"cuda": "12.8"}))
    assert "a CPU build of torch can simulate one" in (way(found, "cuda").skip or "")
    assert way(found, "mps").skip is None


def test_what_rules_the_native_tier_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "compiler", lambda: GXX)
    monkeypatch.setattr(backends, "drivers", dict)
    assert backends.machine(CPU_BUILD).native is None
    assert backends.machine(CPU_BUILD, "python").native == "--tier python"
    assert backends.machine(replace(CPU_BUILD, torch="2.8.1")).native == "torch 2.8.1 is older than 2.9"
    assert backends.machine(replace(CPU_BUILD, torch="2.10.0")).native is None
    assert backends.machine(replace(CPU_BUILD, torch=None, error="no torch")).native == "no torch"
    monkeypatch.setattr(backends, "compiler", lambda: None)
    monkeypatch.delenv("CXX", raising=False)
    assert backends.machine(CPU_BUILD).native == "no C++ compiler: install g++ or clang++"
    monkeypatch.setenv("CXX", "nowhere")
    assert backends.machine(CPU_BUILD).native == "no C++ compiler: $CXX is nowhere, which is not there"


def test_the_compiler_is_cxx_or_the_first_on_path(on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(on_path))
    monkeypatch.delenv("CXX", raising=False)
    assert backends.compiler() is None
    path = executable(on_path / "clang++", "#!/bin/sh\necho\necho clang version 19\n")
    assert backends.compiler() == Compiler(str(path), "clang version 19")
    monkeypatch.setenv("CXX", "nowhere")
    assert backends.compiler() is None


def test_drivers_are_those_whose_tools_are_on_path(on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{on_path}")
    assert backends.drivers() == {}
    executable(on_path / "nvidia-smi", '#!/bin/sh\n[ "$1" = --query-gpu=driver_version ] && echo 570.86\n')
    executable(on_path / "npu-smi", "#!/bin/sh\nexit 1\n")
    assert backends.drivers() == {"cuda": "570.86 (nvidia-smi)", "npu": "says nothing (npu-smi)"}


def test_a_build_that_fails_takes_the_native_tier_away(tmp_path: Path) -> None:
    broken = executable(tmp_path / "python", "#!/bin/sh\necho noise >&2; echo 'g++ failed: no' >&2; exit 3\n")
    found = build(machine(replace(CPU_BUILD, executable=str(broken))))
    assert found.native == "the simulated device could not be built: g++ failed: no"
    fine = machine(replace(CPU_BUILD, executable=str(executable(tmp_path / "ok", "#!/bin/sh\necho /x.so\n"))))
    assert build(fine) == replace(fine, library="/x.so")
    assert build(machine(native="none")) == machine(native="none")


# ---- what is said of it


def test_advice_has_a_line_for_each_thing_that_is_missing() -> None:
    assert advice(machine()) == []
    bare = Machine(Interpreter("/p", "3.11.0", None, "no torch"), None, "no torch", {})
    assert [line.partition(":")[0] for line in advice(bare)] == ["torch", "compiler"]
    old = machine(replace(CPU_BUILD, torch="2.8.0"), "torch 2.8.0 is older than 2.9")
    assert advice(old) == ["simulated devices: torch 2.8.0 is older than 2.9"]
    broken = machine(replace(CPU_BUILD, devices={"mps": Device(1, "arm64", "RuntimeError: out of memory")}))
    says = "mps: torch says that it is there, but it does not compute: RuntimeError: out of memory"
    assert advice(broken) == [says]
    unused = "cuda: there is a driver (570.86), but this torch is not built for it: install the cuda build"
    assert advice(machine(cuda="570.86")) == [unused]
    assert advice(machine(replace(CPU_BUILD, build={"cuda": "12.8"}), cuda="570.86")) == []


@pytest.fixture
def here_is(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def make(found: Interpreter, native: str | None = None) -> None:
        monkeypatch.setattr(interpreter, "choose", lambda path: found)
        monkeypatch.setattr(backends, "machine", lambda chosen: machine(chosen, native))

    return make


def test_backends_for_people(here_is: Callable[..., None], cli: Cli) -> None:
    here_is(replace(CPU_BUILD, devices={"xpu": Device(1, "Max 1550")}, build={"xpu": "20250101"}))
    ran = cli("backends")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "python    3.11.0 (/bin/python)",
        "torch     2.13.0+cpu, built for xpu 20250101",
        "compiler  g++ 12.2.0 (/usr/bin/g++)",
        "",
        "cuda      simulated (C++)",
        "mps       simulated (C++)",
        "xpu       hardware: 1 x Max 1550",
        "npu       simulated (C++)",
        "mtia      simulated (C++)",
        "cpu       here",
    ]


def test_backends_without_torch(here_is: Callable[..., None], cli: Cli) -> None:
    here_is(Interpreter("/bin/python", "3.11.0", None, "no torch"), "no torch")
    out = cli("backends").out
    assert "torch     none (no torch)\n" in out
    assert "simulated" not in out
    assert "advice:\n  torch: pip install 'torchmigrate[verify]'" in out


def test_backends_for_programs(here_is: Callable[..., None], cli: Cli) -> None:
    here_is(CPU_BUILD, "no C++ compiler")
    data = json.loads(cli("backends", "--output-format", "json").out)
    assert (data["torch"], data["executable"], data["build"]) == ("2.13.0+cpu", "/bin/python", {})
    assert data["compiler"] == {"path": "/usr/bin/g++", "version": "g++ 12.2.0"}
    assert data["backends"]["npu"] == {"evidence": "simulated", "tier": "python", "reason": None}
    reason = "only the C++ tier can simulate mps (no C++ compiler)"
    assert data["backends"]["mps"] == {"evidence": None, "tier": None, "reason": reason}
    assert data["backends"]["cpu"] == {"evidence": "cpu", "tier": None, "reason": None}
    assert data["advice"] == ["simulated devices: no C++ compiler"]


def test_backends_of_a_python_that_is_named(cli: Cli, tmp_path: Path) -> None:
    ran = cli("backends", "--python", str(fake_python(tmp_path / "python", "2.8.0")))
    assert f"python    3.11.0 ({tmp_path / 'python'})\ntorch     2.8.0, built for the CPU\n" in ran.out
    assert cli("backends", "--python", "nowhere/python").status == 2
