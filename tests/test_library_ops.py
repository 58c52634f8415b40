"""library/cuda-operator says what is missing, for which devices, and the call that adds it, as the file spells it."""

from __future__ import annotations

import pytest

from torchmigrate.cases import migrate
from torchmigrate.edits import Finding
from torchmigrate.scan import Table

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
    ('lib.impl("op", f, dispatch_key="CUDA")\nlib.impl("op", f, "XPU")\n' + FAKE,
     ['`ns::op` has kernels for CUDA and XPU', '`lib.impl("op", ..., "CompositeExplicitAutograd")`'],
     ("cpu", "mps", "npu")),
    ('torch.library.register_autocast("ns::op", "cuda", torch.bfloat16)\n',
     ['`torch.library.register_autocast("ns::op", "xpu", torch.bfloat16)`'], ACCELERATORS),
    ('op.register_autocast("cuda", torch.half)\n', ['`op.register_autocast("xpu", torch.half)`'], ACCELERATORS),
    ('lib.impl("op", f, "AutocastCUDA")\n', ['`lib.impl("op", ..., "AutocastXPU")`'], ACCELERATORS),
    ('lib.impl("op", f, "AutogradCUDA")\n', ['register it for "Autograd"'], EVERY),
]  # fmt: skip


def advice(body: str, rules: Table) -> list[Finding]:
    return [f for f in migrate((HEAD + body).encode(), rules)[1] if f.rule == "library/cuda-operator"]


@pytest.mark.parametrize(("body", "words", "backends"), ADVICE)
def test_the_call_to_add(body: str, words: list[str], backends: tuple[str, ...], rules: Table) -> None:
    (finding,) = advice(body, rules)
    assert all(word in finding.message for word in words), finding.message
    assert finding.backends == backends
    assert ("register_fake" in finding.message) == any("register_fake" in word for word in words)


@pytest.mark.parametrize("body", [
    'lib.impl("op", f, "CUDA")\nlib.impl("op", f, "default")\n',
    'lib.impl("op", f, KEY)\n',
    '@custom_op("ns::op", mutates_args=())\ndef op(x): return x\n',
    'f = custom_op("ns::op", g, mutates_args=(), device_types=KINDS)\n',
    '@custom_op("ns::op", mutates_args=(), device_types="cuda")\ndef op(x): return x\nop.register_kernel(None)(g)\n',
    'other.impl("op", 1, 2)\n',
])  # fmt: skip
def test_nothing_is_missing(body: str, rules: Table) -> None:
    assert not advice(body, rules)
