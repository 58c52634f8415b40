"""The facts read from torch's own list of operators, against what torch itself says elsewhere."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from torchmigrate.verify.simulated.torch_c import operators
from torchmigrate.verify.simulated.torch_c.operators import facts


def test_known_rows() -> None:
    known = facts()
    assert {"aten::add.Tensor", "aten::mul.Tensor", "aten::index.Tensor"} <= known.no_check
    assert not {"aten::mm", "aten::cat", "aten::convolution", "aten::index_select"} & known.no_check
    assert {"aten::heaviside.out", "aten::linalg_eig", "aten::_ctc_loss", "aten::_linalg_svd.U"} <= known.missing_on_mps
    assert not {"aten::add.out", "aten::mm", "aten::relu", "aten::linear"} & known.missing_on_mps
    assert {"aten::add.Tensor", "aten::add_.Tensor", "aten::heaviside"} <= known.structured
    assert known.no_check | known.missing_on_mps | known.structured | known.cpu_on_mps <= known.all


def test_what_a_mac_runs_on_its_cpu_is_not_missing() -> None:
    assert {"aten::linalg_svd", "aten::col2im", "aten::embedding_renorm_"} <= facts().cpu_on_mps
    assert not facts().cpu_on_mps & facts().missing_on_mps


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="counted in torch 2.13")
def test_counts() -> None:
    known = facts()
    assert (len(known.all), len(known.no_check), len(known.missing_on_mps)) == (3101, 1395, 129)


def test_all_are_registered() -> None:
    assert facts().all <= set(torch._C._dispatch_get_all_op_names())


def test_structured_ones_are_composites_everywhere() -> None:
    """So a backend's fallback meets only their out= variant: the name that `missing_on_mps` has."""
    key = "CompositeExplicitAutogradNonFunctional"
    assert all(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for name in facts().structured)
    assert not facts().structured & facts().missing_on_mps


def listed_by_torch() -> set[str]:
    """Operators that torch's own tests expect to be unimplemented on MPS, for all dtypes."""
    spec = importlib.util.find_spec("torch.testing._internal.common_mps")
    assert spec is not None and spec.origin is not None
    for node in ast.walk(ast.parse(Path(spec.origin).read_text())):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "UNIMPLEMENTED_XFAILLIST":
            lists: Any = node.value
            pairs = zip(lists.keys, lists.values, strict=True)
            return {key.value for key, value in pairs if ast.unparse(value) == "None"}
    raise AssertionError("torch has no such list")


def test_what_torch_lists_as_unimplemented_on_mps_is_missing() -> None:
    """Of its names, those that are an operator with kernels of its own; the rest are compositions and variants."""
    missing = {name.split("::")[1].split(".")[0] for name in facts().missing_on_mps}
    own = {name.replace("nn.functional.", "").replace(".", "_") for name in listed_by_torch()}
    with_kernels = {
        name
        for name in own
        if any(
            torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}{variant}", "CPU")
            for variant in ("", ".out")
            if f"aten::{name}{variant}" in facts().all
        )
    }
    assert len(with_kernels) >= 20
    # These two have a kernel on MPS, which refuses some arguments.
    assert with_kernels - missing == {"norm", "adaptive_avg_pool2d"}


def test_it_reads_the_file_as_torchgen_does() -> None:
    pytest.importorskip("yaml", reason="torchgen reads its list with PyYAML, which torch does not bring")
    from torchgen.gen import parse_native_yaml
    from torchgen.model import DeviceCheckType, DispatchKey

    path = operators._path()
    parsed = parse_native_yaml(str(path), str(path.parent / "tags.yaml"))
    has = {key: parsed.backend_indices[DispatchKey[key]].has_kernel for key in ("CPU", "CUDA", "MPS")}
    names = {f"aten::{f.func.name}": f for f in parsed.native_functions}
    missing = {
        name
        for name, f in names.items()
        if has["CPU"](f) and has["CUDA"](f) and not has["MPS"](f)
        if not f.has_composite_kernel and f.structured_delegate is None
    }
    assert facts().all == names.keys()
    assert facts().no_check == {n for n, f in names.items() if f.device_check == DeviceCheckType.NoCheck}
    assert facts().missing_on_mps == missing - facts().cpu_on_mps


def test_a_torch_without_the_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    with pytest.raises(FileNotFoundError, match="came without its list of operators"):
        facts.__wrapped__()
