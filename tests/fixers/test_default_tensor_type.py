"""A CUDA default tensor type in one file, `torch.Tensor(...)` in others; what takes its place gives the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import planned, texts_after, write_plan, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Status
from torchmigrate.engine import planner
from torchmigrate.project.process_facts import makes_default, sets_device

SETTER = "import torch\nimport rays\n\ntorch.set_default_tensor_type('torch.cuda.FloatTensor')\nrays.f(1)\n"
RAYS = "import torch\n\n\ndef f(x):\n    return x + torch.Tensor([1e10])\n"
DONE = RAYS.replace("torch.Tensor", "torch.tensor")
LEGACY = "tensor_type/legacy-constructor"


def alone(root: Path, name: str) -> str | None:
    """One file as the hook passes it; None where it stays as it is."""
    found = planner.plan([root / name], Settings(root=root, unsafe_fixes=True), 1, "apply").results
    return next((r.after.decode() for r in found if isinstance(r, Changed) and r.path.name == name), None)


def test_it_is_not_done_unasked(tmp_path: Path) -> None:
    """Nothing in the file itself speaks of CUDA."""
    found = planned(write_tree(tmp_path, {"train.py": SETTER, "rays.py": RAYS}))["rays.py"]
    assert [(f.rule, f.status) for f in found.findings] == [(LEGACY, Status.HELD)]  # type: ignore[union-attr]


def test_a_file_without_a_word_of_cuda(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": SETTER, "rays.py": RAYS})
    after = texts_after(root, unsafe_fixes=True)
    assert after["rays.py"] == DONE
    assert "accel.set_default_tensor_type(torch.float32)" in after["train.py"]


def test_one_file_alone_and_in_any_order(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"pyproject.toml": "", "train.py": SETTER, "rays.py": RAYS})
    assert alone(root, "rays.py") == DONE
    write_plan(root, unsafe_fixes=True)
    assert (root / "rays.py").read_text() == DONE
    assert not any(isinstance(r, Changed) for r in planned(root, unsafe_fixes=True).values())
    (root / "rays.py").write_text(RAYS)
    assert alone(root, "rays.py") == DONE  # the other file speaks of the helper by now


@pytest.mark.parametrize(
    "files",
    [
        {"rays.py": RAYS},
        {"train.py": SETTER.replace("cuda.", ""), "rays.py": RAYS},
        {"train.py": SETTER.replace("torch.set", "# torch.set"), "rays.py": RAYS},
        {"train.py": SETTER.replace("import rays\n", "").replace("rays.f(1)", ""), "rays.py": RAYS},
        {"a/train.py": SETTER, "a/rays.py": "def f(x): ...", "b/train.py": "import rays", "b/rays.py": RAYS},
        {"train.py": SETTER.replace("torch\n", "jax as torch\n", 1), "rays.py": RAYS},
    ],
    ids=["none", "the CPU's", "a comment", "another program", "another folder", "another torch"],
)
def test_files_that_no_such_call_reaches(files: dict[str, str], tmp_path: Path) -> None:
    found = planned(write_tree(tmp_path, files), unsafe_fixes=True)
    assert not [f for r in found.values() if isinstance(r, Changed) for f in r.applied if f.rule == LEGACY]
    assert not any(path.endswith("rays.py") for path in found)


def test_through_the_file_that_imports_both(tmp_path: Path) -> None:
    setup = "import torch\n\n\ndef go():\n    torch.set_default_tensor_type(torch.cuda.HalfTensor)\n"
    files = {
        "main.py": "import model\nimport setup_torch\n",
        "setup_torch.py": setup,
        "model.py": "from rays import f\n",
    }
    assert texts_after(write_tree(tmp_path, {**files, "rays.py": RAYS}), unsafe_fixes=True)["rays.py"] == DONE


def test_a_default_device_beside_it(tmp_path: Path) -> None:
    train = SETTER + "with torch.device('meta'):\n    rays.f(2)\n"
    found = planned(write_tree(tmp_path, {"train.py": train, "rays.py": RAYS}), unsafe_fixes=True)
    [finding] = found["rays.py"].findings  # type: ignore[union-attr]
    assert (finding.rule, finding.fix) == (LEGACY, None)
    assert "default device" in finding.message


def test_a_default_device_of_another_program(tmp_path: Path) -> None:
    other = SETTER.replace("rays", "other") + "torch.set_default_device('cpu')\n"
    files = {"train.py": SETTER, "rays.py": RAYS, "more.py": other, "other.py": RAYS}
    after = texts_after(write_tree(tmp_path, files), unsafe_fixes=True)
    assert after["rays.py"] == DONE
    assert "other.py" not in after


def test_deselected(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": SETTER, "rays.py": RAYS})
    assert "rays.py" not in planned(root, ignore=(LEGACY,), unsafe_fixes=True)


def test_a_project_without_it_has_no_notes(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"rays.py": RAYS, "requirements.txt": "torch>=2.6\n"})
    plan = planner.plan([root], Settings(root=root), 1, "apply")
    assert (plan.results, plan.notes) == ([], [])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", True),
        ("torch.set_default_tensor_type('torch.cuda.HalfTensor')", True),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor if c else torch.FloatTensor)", True),
        ("torch.set_default_tensor_type(kind)", True),
        ("torch.set_default_tensor_type(moved)", True),
        ("torch.set_default_tensor_type(Half)", True),
        ("set_default(Half)", True),
        ("accel.set_default_tensor_type(torch.float32)", True),
        ("torch_accel.set_default_tensor_type(torch.float32)", True),
        ("if c:\n    accel.set_default_tensor_type(torch.float32)", True),
        ("torch.set_default_tensor_type(torch.FloatTensor)", False),
        ("torch.set_default_tensor_type(args.kind)", False),
        ("torch.set_default_tensor_type()", False),
        ("self.set_default_tensor_type(torch.cuda.FloatTensor)", False),
        ("'torch.set_default_tensor_type(torch.cuda.FloatTensor)'", False),
        ("set_default_tensor_type = (", False),
    ],
)
def test_what_makes_a_cuda_type_the_default(call: str, expected: bool) -> None:
    head = "import torch\nfrom torch import set_default_tensor_type as set_default\n"
    names = "from torch.cuda import HalfTensor as Half\nmoved = accel.tensor_type(torch.float32)\n"
    kind = "kind = 'torch.cuda.FloatTensor' if c else 'torch.FloatTensor'\n"
    assert makes_default(f"{head}{names}{kind}{call}\n".encode()) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.set_default_device('cpu')", True),
        ("def f():\n    with torch.device('meta'): pass", True),
        ("with torch.no_grad(), torch.device('meta'): pass", True),
        ("with device: pass", True),
        ("with self.device, x: pass", True),
        ("with accel.device(): pass", True),
        ("with torch.cuda.device(1): pass", False),
        ("with accel.device_guard(1): pass", False),
        ("with torch.autocast(device_type=device.type): pass", False),
        ("# goes with device: see there", False),
        ("# torch.set_default_device(d)", False),
        ("with device: no Python", False),
    ],
)
def test_what_sets_a_default_device(text: str, expected: bool) -> None:
    assert sets_device(f"import torch\n{text}\n".encode()) is expected


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("data", [[1e10], [[1, 2.5], [-3, 1 / 3]], [], [[], []], (1.5,)], ids=repr)
def test_numbers_are_the_same_without_a_dtype(data: object, default: torch.dtype) -> None:
    with _default(default):
        _same(torch.Tensor(data), torch.tensor(data))


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize(
    "data",
    [
        *([1, 2], [True], (2, 3), range(3), [np.float64(1.1)], [np.float32(1.1), 2.0], [torch.tensor(3)], [np.ones(2)]),
        *(np.arange(6.0).reshape(2, 3), np.arange(3), np.ones(2, np.float32), np.broadcast_to(np.ones(2), (3, 2))),
        *(np.array([True]), np.zeros((0, 3)), np.ones((3, 4)).T, np.ones((3, 4))[:, ::2]),
    ],
    ids=repr,
)
def test_data_are_the_same_with_the_default_dtype(data: object, default: torch.dtype) -> None:
    with _default(default):
        _same(torch.Tensor(data), torch.tensor(data, dtype=torch.get_default_dtype()))


@pytest.mark.parametrize(
    "sizes", [(2, 3), (0,), (torch.Size([2, 2]),), (torch.tensor(2), 3), (np.int64(2), 3)], ids=repr
)
def test_sizes_are_the_same(sizes: tuple[int, ...]) -> None:
    old, new = torch.Tensor(*sizes), torch.empty(*sizes)
    assert (old.shape, old.dtype, old.device) == (new.shape, new.dtype, new.device)
    _same(torch.Tensor(), torch.empty(0))


@contextlib.contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _same(old: torch.Tensor, new: torch.Tensor) -> None:
    assert (old.shape, old.dtype, old.device, old.requires_grad) == (
        new.shape,
        new.dtype,
        new.device,
        new.requires_grad,
    )
    assert torch.equal(old, new)


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("torch.set_default_tensor_type(torch.FloatTensor)", 1),
        ("torch.set_default_tensor_type('torch.DoubleTensor')", 1),
        ("torch.set_default_tensor_type(kind)", 0),
        ("torch.set_default_device(None)\ntorch.set_default_tensor_type(torch.FloatTensor)", 0),
        ("torch.set_default_dtype(torch.float32)", 0),
    ],
)
def test_a_type_that_is_put_back(reset: str, expected: int, tmp_path: Path) -> None:
    """Off CUDA the default device is not: it is torch.set_default_device's."""
    text = f"import torch\ntorch.set_default_tensor_type(torch.cuda.HalfTensor)\nf()\n{reset}\n"
    found = planned(write_tree(tmp_path, {"train.py": text}))["train.py"].findings  # type: ignore[union-attr]
    assert sum("puts the default dtype back" in f.message for f in found) == expected


def test_a_cpu_type_leaves_the_default_device() -> None:
    torch.set_default_device("meta")
    try:
        torch.set_default_tensor_type(torch.FloatTensor)
        assert torch.zeros(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
