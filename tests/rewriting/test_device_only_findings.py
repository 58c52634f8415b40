"""What is reported of projects for devices alone, before and after they are migrated."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchmigrate.config.settings import Settings
from torchmigrate.project.context import build_context
from torchmigrate.project.helper_file import runtime_source
from torchmigrate.rewriting.rewrite import rewrite
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.source.encoding import decode

PROGRAM = b"""import torch
def program(path, model, x):
    torch.ao.quantization.prepare_qat(model)
    torch.ao.quantization.prepare_qat(model)
    x = torch.utils.checkpoint.checkpoint(torch.dropout, x, 0.5, True, use_reentrant=False)
    return torch.jit.load(path), torch.export.load(path), torch.quantize_per_tensor(x, 1, 0, torch.qint8)
"""


def reported(rules: DispatchTable, folder: Path, files: tuple[str, ...], texts: list[bytes]) -> list[str]:
    if "accel.py" in files:
        (folder / "accel.py").write_bytes(runtime_source())
    facts, _ = build_context([folder], [str(folder / name) for name in files], texts, Settings(), {})
    return sorted(f.rule for f in rewrite(folder / "a.py", decode(PROGRAM), rules, facts).remaining)


@pytest.mark.parametrize(("files", "texts"), [(("a.py",), [b"x.cuda()"]), (("a.py", "accel.py"), [PROGRAM])])
def test_a_project_for_devices(
    files: tuple[str, ...], texts: list[bytes], rules: DispatchTable, tmp_path: Path
) -> None:
    expected = ["export/device", "hazard/mps-checkpoint", "jit/load", "quantization/backend", "quantization/backend"]
    assert reported(rules, tmp_path, files, texts) == expected  # training: once


def test_a_project_for_the_cpu(rules: DispatchTable, tmp_path: Path) -> None:
    assert reported(rules, tmp_path, ("a.py", "accelerate.py"), [PROGRAM, b"# x.cuda()"]) == []
