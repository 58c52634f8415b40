"""Comments change no decision: they add no finding, take none away and make no fix safe."""

from __future__ import annotations

import pytest
from conftest import module

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.rewriting.rewrite import inspect
from torchmigrate.rewriting.visitor import DispatchTable

# the code, and a comment that a search of the text would take for code
PAIRS = [
    ('MODE = "cuda"', "was once given to x.to(MODE)"),
    ('MODE = "cuda"', "device = MODE"),
    ("x = torch.load(f)", "torch.accelerator.is_available() is another way"),
    ("x.to(rank)", "torch.accelerator.device_count()"),
    ("n = torch.cuda.device_count()\nx = a", "y = b // n"),
    ("n = torch.cuda.device_count()\nx = a % n", "nprocs=n"),
    ("if x.is_cuda:\n    x = x.cuda()", "x.is_cuda = True"),
    ('class A:\n    device: str = field(default="cuda")', "read off A.device"),
    ('def f(device="cuda"):\n    return torch.zeros(1, device=device)', "device is None"),
    ("if torch.cuda.is_available():\n    x = x.cuda()", "not src.gpu.psamask_forward(x)"),
    ("if torch.cuda.is_available():\n    x = x.cuda()  # roi_align.forward_cuda(x)", "correlation_cuda.forward(x)"),
    ("if torch.cuda.is_available() and x:  # not for mps\n    x = x.cuda()", "mps"),
    ("def f(data):\n    x = [1.0]\n    return torch.cuda.FloatTensor(x)", "global x"),
]


def found(text: str, rules: DispatchTable) -> list[tuple[object, ...]]:
    it = module(f"import torch\nfrom dataclasses import field\n{text}\n", mentions_cuda=True)
    return [_said(finding) for finding in inspect(it, rules, it.facts)]


def _said(finding: Finding) -> tuple[object, ...]:
    edits = tuple((e.start, e.end, e.text) for e in finding.fix.edits) if finding.fix else ()
    return finding.rule, finding.start, finding.status, finding.safety, finding.message, edits


@pytest.mark.parametrize(("code", "comment"), PAIRS)
def test_a_comment_changes_no_decision(code: str, comment: str, rules: DispatchTable):
    assert found(f"{code}\n# {comment}", rules) == found(code, rules)
    assert found(f'{code}\n"""\n{comment}\n"""', rules) == found(code, rules)


def test_a_comment_in_a_test_is_no_part_of_it(rules: DispatchTable):
    plain = "if (torch.cuda.is_available()\n{}\n    and x):\n    x = x.cuda()"
    without, commented = (found(plain.format(" " * 10 + note), rules) for note in ("#          ", "# or on mps"))
    assert without == commented


@pytest.mark.parametrize("name", ["Net", "Generator"])
def test_a_class_in_a_comment_is_no_receiver(name: str, rules: DispatchTable):
    facts = {"mentions_cuda": True, "cuda_classes": frozenset({"Generator"})}
    it = module(f"import torch\n# {name}\ndef f(x):\n    x.cuda()\n", **facts)
    assert [f.message for f in inspect(it, rules, it.facts)] == ["`.cuda()` moves to CUDA and to nothing else"]
