"""What this machine has: real devices, a compiler; and how each backend can be had: as hardware, simulated, or not
at all."""

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
    """A C++ compiler and the first line of what it says of itself."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Machine:
    """`native` is None where the C++ tier can run, else why it cannot. `drivers`: which tools of which vendor are
    on PATH, and what they say of their version."""

    interpreter: Interpreter
    compiler: Compiler | None
    native: str | None
    drivers: Mapping[str, str]
    library: str = ""  # the built simulated device


@dataclass(frozen=True, slots=True)
class Way:
    """How a backend can be had. `skip` says why it cannot, with advice."""

    backend: str
    evidence: Evidence
    tier: str = "native"
    skip: str | None = None


def machine(interpreter: Interpreter, tier: str = "native") -> Machine:
    """Looks at PATH; builds nothing. `tier` "python" rules the C++ one out."""
    found = compiler()
    return Machine(
        interpreter, found, "--tier python" if tier == "python" else _no_native(interpreter, found), drivers()
    )


def compiler() -> Compiler | None:
    """What simulated/build.py would take."""
    try:
        path = device.compiler()
    except device.BuildError:
        return None
    return Compiler(path, _said(path, "--version"))


def _said(*command: str) -> str:
    """The first line that says anything."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), "")


def drivers() -> dict[str, str]:
    """{"cuda": "driver 570.86 (nvidia-smi)"} of the vendors' tools that are on PATH."""
    found = {backend: path for backend, tool in TOOLS.items() if (path := shutil.which(tool))}
    return {backend: _driver(path) for backend, path in found.items()}


def _driver(path: str) -> str:
    name = os.path.basename(path)
    asked = ["--query-gpu=driver_version", "--format=csv,noheader"] if name == "nvidia-smi" else ["--version"]
    return f"{_said(path, *asked) or 'says nothing'} ({name})"


def _no_native(interpreter: Interpreter, found: Compiler | None) -> str | None:
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
    """Have the simulated device built for this torch, if the cache has none. On failure the machine without the
    C++ tier."""
    if machine.native is not None:
        return machine
    command = [machine.interpreter.executable, os.fspath(BUILD)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return replace(machine, native=f"building the simulated device took more than {_BUILD_SECONDS} s")
    if done.returncode == 0:
        return replace(machine, library=done.stdout.strip())
    said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return replace(machine, native=f"the simulated device could not be built: {said[-1]}")


def way(machine: Machine, backend: str) -> Way:
    """Hardware if it is really here, else simulated in C++; else npu alone, simulated in Python."""
    if backend == "cpu":
        return Way("cpu", "cpu")
    found = machine.interpreter.devices.get(backend)
    if found and found.error is None:
        return Way(backend, "hardware")
    if machine.native is None:
        skip = _cannot(machine.interpreter, backend)
        return Way(backend, "simulated", skip=skip)
    if backend == "npu":
        return Way("npu", "simulated", "python")
    return Way(backend, "simulated", skip=f"only the C++ tier can simulate {backend} ({machine.native})")


def _cannot(interpreter: Interpreter, backend: str) -> str | None:
    """torch cannot be two builds at once."""
    built = next((name for name in having("cuda") if name in interpreter.build), None)
    if backend == "cuda" and built:
        return f"this torch is built for {built}, of which no device is here; a CPU build of torch can simulate one"
    return None


def advice(machine: Machine) -> list[str]:
    """A line for each thing that is missing and can be had."""
    said = []
    if machine.interpreter.torch is None:
        said.append("torch: pip install 'torchmigrate[verify]', or name the project's own Python with --python")
    if machine.compiler is None:
        said.append("compiler: install g++ or clang++ to simulate cuda, mps, xpu and mtia too")
    elif machine.interpreter.torch and machine.native:
        said.append(f"simulated devices: {machine.native}")
    for name, found in machine.interpreter.devices.items():
        if found.error:
            said.append(f"{name}: torch says that it is there, but it does not compute: {found.error}")
    for name, driver in machine.drivers.items():
        if machine.interpreter.torch and name not in machine.interpreter.build and name in having("build"):
            said.append(
                f"{name}: there is a driver ({driver}), but this torch is not built for it: install the {name} build"
            )
    return said
