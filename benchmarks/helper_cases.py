"""What helper_overhead.py compares: calls of the helper, each with what one would write for one backend, and programs.

Texts, since each is timed, traced by dynamo and run under valgrind; {kind} is a backend ("cpu", "cuda", ...), `x` a
tensor of 8 x 8 on the device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """`plain` is for backends with a torch.<kind> like torch.cuda; the CPU and MPS have one device and one queue."""

    name: str
    helper: str
    plain: str
    cpu: str = "pass"
    mps: str = "pass"
    setup: str = ""  # run once before the helper's
    plain_setup: str = ""  # run once before the plain one

    def plain_for(self, kind: str) -> tuple[str, str]:
        """Set-up and text to compare with on that backend; "pass" where one would write nothing."""
        text = {"cpu": self.cpu, "mps": self.mps}.get(kind, self.plain)
        return ("" if text == "pass" else self.plain_setup).replace("{kind}", kind), text.replace("{kind}", kind)

    def original(self) -> tuple[str, str]:
        """What a program nailed to CUDA has."""
        return self.plain_setup.replace("{kind}", "cuda"), self.plain.replace("{kind}", "cuda")


def _same(name: str, arguments: str = "", **others: str) -> Call:
    """A function that is called as torch.<kind>'s of the same name."""
    return Call(name, f"accel.{name}({arguments})", f"torch.{{kind}}.{name}({arguments})", **others)


_DOUBLE = """class Double(torch.autograd.Function):
    @staticmethod
    @decorator
    def forward(ctx, x):
        return x * 2
"""
_PLAIN_DOUBLE = "Double.apply(x)  # torch.amp.custom_fwd"
CALLS = (
    Call("device", "accel.device()", '"{kind}"', '"{kind}"', '"{kind}"'),
    Call("device (index)", "accel.device(0)", 'torch.device("{kind}", 0)', '"{kind}"', 'torch.device("{kind}", 0)'),
    Call("x.to", "x.to(accel.device())", "x.{kind}()", "x.cpu()", 'x.to("{kind}")'),
    Call("x.to (text)", "x.to(accel.device())", 'x.to("{kind}")', 'x.to("{kind}")', 'x.to("{kind}")'),
    Call("non_blocking", "accel.non_blocking()", "True", "True", "False"),
    Call("device_type", "accel.device_type()", '"{kind}"', '"{kind}"', '"{kind}"'),
    _same("is_available", cpu="False", mps="True"),
    _same("device_count", cpu="1", mps="1"),
    _same("current_device", cpu="0", mps="0"),
    Call("is_accelerated", "accel.is_accelerated(x)", "x.is_{kind}", "x.is_cpu", "x.is_mps"),
    Call("pin_memory", "accel.pin_memory()", "True", "False", "False"),
    Call("map_location", "accel.map_location()", "None", "None", "None"),
    _same("synchronize", mps="torch.mps.synchronize()"),
    _same("empty_cache", mps="torch.mps.empty_cache()"),
    _same("current_stream"),
    Call(
        "stream",
        "with accel.stream(queue): pass",
        "with torch.{kind}.stream(queue): pass",
        setup="queue = accel.current_stream()",
        plain_setup="queue = torch.{kind}.current_stream()",
    ),
    Call("device_guard", "with accel.device_guard(0): pass", "with torch.{kind}.device(0): pass"),
    Call("Event", "accel.Event(enable_timing=True)", "torch.{kind}.Event(enable_timing=True)"),
    _same("memory_allocated", cpu="0", mps="torch.mps.current_allocated_memory()"),
    _same("max_memory_allocated", cpu="0", mps="0"),
    _same("reset_peak_memory_stats"),
    _same("manual_seed", "0", mps="torch.mps.manual_seed(0)"),
    _same("get_rng_state", cpu="torch.get_rng_state()", mps="torch.mps.get_rng_state()"),
    Call(
        "autocast",
        "with accel.autocast(): pass",
        'with torch.autocast("{kind}", dtype=torch.float16): pass',
        'with torch.autocast("cpu", enabled=False): pass',
        'with torch.autocast("mps", dtype=torch.float16): pass',
    ),
    Call(
        "autocast (dtype)",
        "with torch.autocast(accel.autocast_type(), dtype=torch.bfloat16): pass",
        'with torch.autocast("{kind}", dtype=torch.bfloat16): pass',
        'with torch.autocast("cpu", enabled=False): pass',
        'with torch.autocast("mps", dtype=torch.bfloat16): pass',
    ),
    Call(
        "custom_fwd",
        "Double.apply(x)  # accel.custom_fwd",
        _PLAIN_DOUBLE,
        _PLAIN_DOUBLE,
        _PLAIN_DOUBLE,
        setup=_DOUBLE.replace("decorator", "accel.custom_fwd"),
        plain_setup=_DOUBLE.replace("decorator", 'torch.amp.custom_fwd(device_type="{kind}")'),
    ),
    Call(
        "nvtx",
        "accel.nvtx.range_push('a'); accel.nvtx.range_pop()",
        "torch.{kind}.nvtx.range_push('a'); torch.{kind}.nvtx.range_pop()",
        *["with torch.profiler.record_function('a'): pass"] * 2,
    ),
    _same("is_bf16_supported", cpu="False", mps="False"),
    _same("get_device_name", cpu='"cpu"', mps='"mps"'),
    _same("get_device_capability", cpu="(0, 0)", mps="(0, 0)"),
    _same("get_device_properties", cpu="None", mps="None"),
)

STEP = """
def step():
    inputs = images.to({device}, non_blocking={non_blocking})
    target = labels.to({device}, non_blocking={non_blocking})
    optimizer.zero_grad(set_to_none=True)
    with {autocast}:
        loss = functional.cross_entropy(model(inputs), target)
    {scaler}.scale(loss).backward()
    {scaler}.step(optimizer)
    {scaler}.update()
    accelerated = {is_available}
    {synchronize}
    return loss
"""
SETUP = """
import torch
from torch import nn
from torch.nn import functional
import accel

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))

def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))

def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

torch.manual_seed(0)
model = {model}().to("{kind}")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn({shape}), torch.arange({shape}[0]) % 4
plain_scaler, scaler = {plain_scaler}, accel.grad_scaler()
"""
PROGRAMS = {"mlp": ("mlp", (32, 16)), "cnn": ("cnn", (16, 3, 32, 32)), "transformer": ("Block", (8, 32, 64))}
_PLACES = {
    "device": "accel.device()",
    "non_blocking": "accel.non_blocking()",
    "autocast": "accel.autocast()",
    "is_available": "accel.is_available()",
    "synchronize": "accel.synchronize()",
    "scaler": "scaler",
}


def setup_for(program: str, kind: str) -> str:
    """The text that makes the model, the optimizer and the data of a program on that backend."""
    model, shape = PROGRAMS[program]
    enabled = ", enabled=False" if kind == "cpu" else ""
    plain_scaler = f'torch.amp.GradScaler("{kind}"{enabled})'
    places = {"model": model, "kind": kind, "shape": str(shape), "plain_scaler": plain_scaler}
    return re.sub(r"\{(\w+)\}", lambda hole: places[hole[1]], SETUP)


def helper_step() -> str:
    """A training step as a migrated program has it."""
    return STEP.format(**_PLACES)


def plain_step(kind: str) -> str:
    """The same step as one would write it for that backend alone."""
    by_name = {call.name: call.plain_for(kind)[1] for call in CALLS}
    places = {place: by_name[place] for place in _PLACES if place in by_name}
    places["autocast"] = by_name["autocast"].removeprefix("with ").removesuffix(": pass")
    return STEP.format(**places, scaler="plain_scaler")


def calls_per_step() -> dict[str, int]:
    """How often each of CALLS is made in one step; the step has no branch and no loop."""
    found = re.findall(r"accel\.(\w+)\(", helper_step())
    return {name: found.count(name) for name in sorted(set(found))}
