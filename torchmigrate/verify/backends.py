"""Find out how each backend is available on this machine: as hardware, simulated, or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from torchmigrate.torch_api.backends import TOOLS, having
from torchmigrate.verify.interpreter import Interpreter
from torchmigrate.verify.simulated import build as device

KNOWN = having("verify")
DEFAULT = having("verify", "default")
Evidence = Literal["hardware", "simulated", "cpu"]
BUILD = Path(__file__).parent / "simulated" / "build.py"
_BUILD_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler has a path, and the first line of its `--version`."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine has an interpreter, a compiler and drivers.

    `native`: why the C++ tier of the simulated devices cannot run, None if it can. `drivers`: version of each vendor's
    tool on PATH, by backend. `library`: path of the built simulated device.
    """

    interpreter: Interpreter
    compiler: Compiler | None
    native: str | None
    drivers: Mapping[str, str]
    library: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """The plan says how a backend is run, or why it is not, with advice (`skip`)."""

    backend: str
    evidence: Evidence
    tier: str = "native"
    skip: str | None = None


def machine(interpreter: Interpreter, tier: str = "native") -> Machine:
    """Describe this machine without building anything; `tier` "python" rules out the C++ tier."""
    found = compiler()
    return Machine(
        interpreter, found, "--tier python" if tier == "python" else _why_no_native(interpreter, found), drivers()
    )


def compiler() -> Compiler | None:
    """Return the compiler that simulated/build.py would use, or None."""
    try:
        path = device.compiler()
    except device.BuildError:
        return None
    return Compiler(path, _first_line(path, "--version"))


def _first_line(*command: str) -> str:
    """Run a command and return the first non-blank line of its output, "" if it fails to start."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), "")


def drivers() -> dict[str, str]:
    """Return the version of each vendor tool on PATH, e.g. {"cuda": "driver 570.86 (nvidia-smi)"}."""
    found = {backend: path for backend, tool in TOOLS.items() if (path := shutil.which(tool))}
    return {backend: _driver(path) for backend, path in found.items()}


def _driver(path: str) -> str:
    name = os.path.basename(path)
    asked = ["--query-gpu=driver_version", "--format=csv,noheader"] if name == "nvidia-smi" else ["--version"]
    return f"{_first_line(path, *asked) or 'says nothing'} ({name})"


def _why_no_native(interpreter: Interpreter, found: Compiler | None) -> str | None:
    if interpreter.torch is None:
        return interpreter.error or "no torch"
    if found is None:
        wanted = os.environ.get("CXX")
        return (
            f"no C++ compiler: $CXX is {wanted}, which is not there"
            if wanted
            else "no C++ compiler: install g++ or clang++"
        )
    return device.too_old(interpreter.torch)


def build(machine: Machine) -> Machine:
    """Build the simulated device for this torch if the cache has none; on failure, do without the C++ tier."""
    if machine.native is not None:
        return machine
    command = [machine.interpreter.executable, os.fspath(BUILD)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return replace(machine, native=f"building the simulated device took more than {_BUILD_SECONDS} s")
    if done.returncode == 0:
        return replace(machine, library=done.stdout.strip())
    errors = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return replace(machine, native=f"the simulated device could not be built: {errors[-1]}")


def way(machine: Machine, backend: str) -> Way:
    """Choose how to run a backend: on hardware if present, else simulated (without C++, only npu can be)."""
    if backend == "cpu":
        return Way("cpu", "cpu")
    found = machine.interpreter.devices.get(backend)
    if found and found.error is None:
        return Way(backend, "hardware")
    if machine.native is None:
        skip = _why_not_simulated(machine.interpreter, backend)
        return Way(backend, "simulated", skip=skip)
    if backend == "npu":
        return Way("npu", "simulated", "python")
    return Way(backend, "simulated", skip=f"only the C++ tier can simulate {backend} ({machine.native})")


def _why_not_simulated(interpreter: Interpreter, backend: str) -> str | None:
    """Return why this torch cannot simulate the backend, or None; a CUDA or ROCm build has its own `cuda`."""
    built = next((name for name in having("cuda") if name in interpreter.build), None)
    if backend == "cuda" and built:
        return f"this torch is built for {built}, of which no device is here; a CPU build of torch can simulate one"
    return None


def advice(machine: Machine) -> list[str]:
    """Return a line of advice for each component that is missing and can be installed."""
    lines = []
    if machine.interpreter.torch is None:
        lines.append("torch: pip install 'torchmigrate[verify]', or name the project's own Python with --python")
    if machine.compiler is None:
        lines.append("compiler: install g++ or clang++ to simulate cuda, mps, xpu and mtia too")
    elif machine.interpreter.torch and machine.native:
        lines.append(f"simulated devices: {machine.native}")
    for name, found in machine.interpreter.devices.items():
        if found.error:
            lines.append(f"{name}: torch says that it is there, but it does not compute: {found.error}")
    for name, driver in machine.drivers.items():
        if machine.interpreter.torch and name not in machine.interpreter.build and name in having("build"):
            lines.append(
                f"{name}: there is a driver ({driver}), but this torch is not built for it: install the {name} build"
            )
    return lines
