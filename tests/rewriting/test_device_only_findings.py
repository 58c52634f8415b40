"""What is reported of projects for devices alone, before and after they are migrated."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchmigrate.config.settings import Settings
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting.rewrite import rewrite
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.source.encoding import decode

PROGRAM = b"""import torch
def program(path, model, x):
    torch.ao.quantization.prepare_qat(model)
    torch.ao.quantization.prepare_qat(model)
    return torch.jit.load(path), torch.export.load(path), torch.quantize_per_tensor(x, 1, 0, torch.qint8)
"""


def reported(rules: DispatchTable, files: tuple[str, ...], cuda: bool) -> list[str]:
    facts = ProjectContext(Path("/p"), Settings(), files=files, mentions_cuda=cuda)
    return sorted(f.rule for f in rewrite(Path("/p/a.py"), decode(PROGRAM), rules, facts).remaining)


@pytest.mark.parametrize(("files", "cuda"), [(("/p/a.py",), True), (("/p/a.py", "/p/accel.py"), False)])
def test_a_project_for_devices(files: tuple[str, ...], cuda: bool, rules: DispatchTable) -> None:
    expected = ["export/device", "jit/load", "quantization/backend", "quantization/backend"]  # training: once
    assert reported(rules, files, cuda) == expected


def test_a_project_for_the_cpu(rules: DispatchTable) -> None:
    assert reported(rules, ("/p/a.py", "/p/accelerate.py"), False) == []
