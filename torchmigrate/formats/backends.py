"""What is here: the interpreter and its torch, devices, drivers, the compiler, and how each backend can be had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from torchmigrate import __version__
from torchmigrate.verify.backends import KNOWN, Machine, Way, advice, way


def lines(machine: Machine) -> Iterator[str]:
    """For people."""
    interpreter = machine.interpreter
    yield f"python    {interpreter.python or '?'} ({interpreter.executable})"
    yield f"torch     {_torch(machine)}"
    yield f"compiler  {f'{machine.compiler.version} ({machine.compiler.path})' if machine.compiler else 'none'}"
    yield from (f"driver    {name}: {said}" for name, said in machine.drivers.items())
    yield ""
    yield from (f"{name:<8}  {_said(way(machine, name), machine)}" for name in KNOWN if interpreter.torch)
    if said := advice(machine):
        yield "\nadvice:"
        yield from (f"  {line}" for line in said)


def _torch(machine: Machine) -> str:
    interpreter = machine.interpreter
    if interpreter.torch is None:
        return f"none ({interpreter.error})"
    built = ", ".join(f"{name} {version}" for name, version in interpreter.build.items())
    return f"{interpreter.torch}, built for {built or 'the CPU'}"


def _said(found: Way, machine: Machine) -> str:
    if found.skip:
        return f"not here: {found.skip}"
    if found.evidence == "cpu":
        return "here"
    if found.evidence == "hardware":
        device = machine.interpreter.devices[found.backend]
        return f"hardware: {device.count} x {device.name}"
    return f"simulated ({'C++' if found.tier == 'native' else 'pure Python'})"


def render(machine: Machine) -> str:
    """For programs: `{version, python, executable, torch, build, compiler, drivers, devices, backends, advice}`."""
    interpreter = machine.interpreter
    compiler = machine.compiler
    data = {
        "version": __version__,
        "python": interpreter.python or None,
        "executable": interpreter.executable,
        "torch": interpreter.torch,
        "build": dict(interpreter.build),
        "compiler": {"path": compiler.path, "version": compiler.version} if compiler else None,
        "drivers": dict(machine.drivers),
        "devices": {n: {"count": d.count, "name": d.name, "error": d.error} for n, d in interpreter.devices.items()},
        "backends": {name: _way(way(machine, name)) for name in KNOWN} if interpreter.torch else {},
        "advice": advice(machine),
    }
    return json.dumps(data, indent=2)


def _way(found: Way) -> dict[str, Any]:
    tier = found.tier if found.evidence == "simulated" and not found.skip else None
    return {"evidence": None if found.skip else found.evidence, "tier": tier, "reason": found.skip}
