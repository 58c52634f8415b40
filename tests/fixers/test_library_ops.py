"""library/cuda-operator says what is missing, for which devices, and the call that adds it, as the file spells it."""

from __future__ import annotations

import pytest

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.engine.case_runner import migrate
from torchmigrate.rewriting.visitor import DispatchTable

HEAD = 'import torch\nfrom torch.library import Library, custom_op\nlib = Library("ns", "DEF")\n'
FAKE = '@torch.library.register_fake("ns::op")\ndef _(x): return x\n'
EVERY = ("cpu", "mps", "xpu", "npu")
ACCELERATORS = ("mps", "xpu", "npu")

ADVICE = [
    ('@custom_op("ns::op", mutates_args=(), device_types="cuda")\ndef op(x): return x\n',
     ["`@op.register_kernel(None)`", "`@op.register_fake`"], EVERY),
    ('f = custom_op("ns::op", g, mutates_args=(), device_types=["cuda"])\n',
     ["`@f.register_kernel(None)`", "`@f.register_fake`"], EVERY),
    ('@custom_op("ns::op", mutates_args=(), device_types=("cpu", "cuda"))\ndef op(x): return x\n' + FAKE,
     ["kernels for CUDA and the CPU here", "`@op.register_kernel(None)`"], ACCELERATORS),
    ('torch.library.register_kernel("ns::op", "cuda", f)\n' + FAKE,
     ['`@torch.library.register_kernel("ns::op", None)`'], EVERY),
    ('@torch.library.impl("ns::op", "CUDA")\ndef op(x): return x\n' + FAKE,
     ['`@torch.library.impl("ns::op", "default")`'], EVERY),
    ('@torch.library.impl(lib, "op", "CUDA")\ndef op(x): return x\n',
     ['`@torch.library.impl(lib, "op", "CompositeExplicitAutograd")`', '`@torch.library.register_fake("ns::op")`'],
     EVERY),
    ('torch.library.impl("ns::op", "CUDA", f)\n' + FAKE, ['`@torch.library.impl("ns::op", "default")`'], EVERY),
    ('torch.library.impl(lib, "op", dispatch_key="CUDA")(f)\n' + FAKE,
     ['`@torch.library.impl(lib, "op", "CompositeExplicitAutograd")`'], EVERY),
    ('lib.impl("op", f, dispatch_key="CUDA")\nlib.impl("op", f, "XPU")\n' + FAKE,
     ['`ns::op` has kernels for CUDA and XPU', '`lib.impl("op", ..., "CompositeExplicitAutograd")`'],
     ("cpu", "mps", "npu")),
    ('torch.library.register_autocast("ns::op", "cuda", torch.bfloat16)\n',
     ['`torch.library.register_autocast("ns::op", "xpu", torch.bfloat16)`'], ACCELERATORS),
    ('op.register_autocast("cuda", torch.half)\n', ['`op.register_autocast("xpu", torch.half)`'], ACCELERATORS),
    ('lib.impl("op", f, "AutocastCUDA")\n', ['`lib.impl("op", ..., "AutocastXPU")`'], ACCELERATORS),
    ('lib.impl("op", f, "AutogradCUDA")\n', ['register it for "Autograd"'], EVERY),
]  # fmt: skip


DEVICES = {"CPU": "the CPU", "MPS": "MPS", "XPU": "XPU", "PrivateUse1": "NPU"}


def advice(body: str, rules: DispatchTable) -> list[Finding]:
    return [f for f in migrate((HEAD + body).encode(), rules)[1] if f.rule == "library/cuda-operator"]


@pytest.mark.parametrize(("body", "words", "backends"), ADVICE)
def test_the_call_to_add(body: str, words: list[str], backends: tuple[str, ...], rules: DispatchTable) -> None:
    (finding,) = advice(body, rules)
    assert all(word in finding.message for word in words), finding.message
    assert finding.backends == backends
    assert ("register_fake" in finding.message) == any("register_fake" in word for word in words)


def beside(kind: str, key: str) -> str:
    return "".join(f'lib.impl("op", f, "{kind}{k}")\n' for k in ("CUDA", key)) + FAKE


@pytest.mark.parametrize(("key", "device"), DEVICES.items())
def test_what_has_a_kernel_is_named(key: str, device: str, rules: DispatchTable) -> None:
    (finding,) = advice(beside("", key), rules)
    assert f"kernels for CUDA and {device} here" in finding.message
    assert len(finding.backends) == 3


@pytest.mark.parametrize("key", ["CPU", "MPS", "XPU"])
def test_a_gradient_or_a_cast_for_another_device_counts(key: str, rules: DispatchTable) -> None:
    assert not advice(beside("Autocast", key), rules)
    (finding,) = advice(beside("Autograd", key), rules)
    assert finding.backends == tuple(b for b in EVERY if b != key.lower())


@pytest.mark.parametrize("key", ["default", "CompositeExplicitAutograd", "CompositeImplicitAutograd"])
def test_a_kernel_for_all_is_enough(key: str, rules: DispatchTable) -> None:
    assert not advice(f'lib.impl("op", f, "CUDA")\nlib.impl("op", f, "{key}")\n' + FAKE, rules)


@pytest.mark.parametrize("body", [
    'lib.impl("op", f, "CUDA")\nlib.impl("op", f, "default")\n',
    'lib.impl("op", f, KEY)\n',
    '@custom_op("ns::op", mutates_args=())\ndef op(x): return x\n',
    'f = custom_op("ns::op", g, mutates_args=(), device_types=KINDS)\n',
    '@custom_op("ns::op", mutates_args=(), device_types="cuda")\ndef op(x): return x\nop.register_kernel(None)(g)\n',
    'other.impl("op", 1, 2)\n',
])  # fmt: skip
def test_nothing_is_missing(body: str, rules: DispatchTable) -> None:
    assert not advice(body, rules)
