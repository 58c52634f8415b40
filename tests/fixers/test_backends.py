"""rules/backends: attention kernels by their successor's name, and TF32 across the files of a project."""

from __future__ import annotations

import itertools
import os
import warnings
from pathlib import Path

import pytest
import torch
import warm_torch
from conftest import planned, texts_after, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.engine import planner
from torchmigrate.project.process_facts import OLD

FLAGS = ("enable_flash", "enable_math", "enable_mem_efficient", "enable_cudnn")
KERNEL = "import torch\n\n\ndef f(net, x):\n    with {}:\n        return net(x)\n"
NEW = 'import torch\n\n\ndef fast():\n    torch.backends.cuda.matmul.fp32_precision = "tf32"\n'
OLD_SWITCH = "import torch\n\n\ndef slow():\n    torch.backends.cudnn.allow_tf32 = False\n"


def migrated(call: str, root: Path, floor: str = "2.6") -> str | None:
    tree = write_tree(root, {"requirements.txt": f"torch>={floor}\n", "net.py": KERNEL.format(call)})
    text = texts_after(tree).get("net.py")
    return text and text.split("with ")[1].split(":\n")[0]


def state(manager: str) -> tuple[bool, ...]:
    """What is enabled within."""
    cuda = torch.backends.cuda
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with eval(manager):
            return tuple(getattr(cuda, f"{name}_sdp_enabled")() for name in ("flash", "math", "mem_efficient", "cudnn"))


@pytest.mark.parametrize("flags", list(itertools.product((True, False, None), repeat=4)), ids=str)
def test_the_successor_enables_the_same(flags: tuple[bool | None, ...], tmp_path: Path) -> None:
    given = ", ".join(f"{name}={flag}" for name, flag in zip(FLAGS, flags, strict=True) if flag is not None)
    call = f"torch.backends.cuda.sdp_kernel({given})"
    after = migrated(call, tmp_path)
    if flags[0] is False and flags[1] is False:
        assert after is None  # nothing of it runs on the CPU: a finding
        return
    assert after is not None
    assert after.startswith("torch.nn.attention.sdpa_kernel([")
    assert state(after) == state(call)


@pytest.mark.parametrize(
    ("call", "floor"),
    [
        ("torch.backends.cuda.sdp_kernel(True, True)", "2.5"),
        ("torch.backends.cuda.sdp_kernel(flash)", "2.6"),
        ("torch.backends.cuda.sdp_kernel(*flags)", "2.6"),
        ("torch.backends.cuda.sdp_kernel(enable_flash=1)", "2.6"),
        ("torch.backends.cuda.sdp_kernel(  # fast\n        True)", "2.6"),
    ],
)
def test_a_finding_instead(call: str, floor: str, tmp_path: Path) -> None:
    assert migrated(call, tmp_path, floor) is None
    found = planned(tmp_path)["net.py"].findings  # type: ignore[union-attr]
    assert [(f.rule, f.fix) for f in found] == [("backends/sdp-kernel", None)]


def test_positional_flags(tmp_path: Path) -> None:
    after = migrated("torch.backends.cuda.sdp_kernel(False, True, False)", tmp_path)
    assert after is not None
    assert "MATH, torch.nn.attention.SDPBackend.CUDNN_ATTENTION]" in after


@pytest.mark.parametrize("name", ["EFFICIENT_ATTENTION", "CUDNN_ATTENTION"])
def test_what_the_cpu_has_no_kernel_for(name: str) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    x = torch.ones(1, 1, 2, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), sdpa_kernel([SDPBackend.MATH, getattr(SDPBackend, name)]):
        attend(x, x, x)
    with (
        sdpa_kernel(getattr(SDPBackend, name)),
        pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention was found"),
    ):
        attend(x, x, x)


# ---- TF32


def tf32(root: Path, files: dict[str, str]) -> list[tuple[str, str]]:
    write_tree(root, files)
    results = planner.plan([root], Settings(root=root, select=("backends/tf32",)), 1, "check").results
    return [(r.path.name, f.message) for r in results for f in getattr(r, "findings", ())]


def test_both_switches_through_imports(tmp_path: Path) -> None:
    files = {"main.py": "import fast\nimport slow\n", "fast.py": NEW, "slow.py": OLD_SWITCH}
    [(name, message)] = tf32(tmp_path, files)
    assert name == "fast.py"
    assert "the old switch in slow.py, line 5" in message


@pytest.mark.parametrize(
    "files",
    [
        {"fast.py": NEW, "slow.py": OLD_SWITCH},
        {"main.py": "import fast\n", "fast.py": NEW},
        {"main.py": "import fast\nimport slow\n", "fast.py": NEW, "slow.py": "# torch.backends.cudnn.allow_tf32\n"},
        {
            "main.py": "import fast\nimport slow\n",
            "fast.py": NEW,
            "slow.py": OLD_SWITCH.replace("torch\n", "jax as torch\n", 1),
        },
    ],
    ids=["two programs", "one switch", "a comment", "another library"],
)
def test_no_mixture(files: dict[str, str], tmp_path: Path) -> None:
    assert tf32(tmp_path, files) == []


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ('torch.backends.fp32_precision = "tf32"', "torch.backends.cuda.matmul.allow_tf32"),
        ('torch.backends.cuda.matmul.fp32_precision = "tf32"', "torch.get_float32_matmul_precision()"),
        ('torch.backends.cudnn.conv.fp32_precision = "ieee"', "torch.backends.cudnn.allow_tf32"),
        ('torch.backends.cudnn.conv.fp32_precision = "ieee"', "torch.backends.cudnn.flags().__enter__()"),
        ('torch.backends.mkldnn.matmul.fp32_precision = "bf16"', "torch.get_float32_matmul_precision()"),
    ],
)
def test_torch_refuses_the_mixture(new: str, old: str, tmp_path: Path) -> None:
    """What the rule says, in a fork of its own, as the switches are torch's own."""
    refused = f"try:\n    {old}\nexcept RuntimeError as e:\n    assert 'PyTorch is checking' in str(e)\n"
    code = f"import torch\n{old}\n{new}\n{refused}else:\n    raise SystemExit('no error')"
    done = warm_torch.run(["-c", code], tmp_path, os.environ)
    assert done.returncode == 0, done.stderr


def test_the_old_switches_exist() -> None:
    for name in OLD:
        owner = eval(name.rpartition(".")[0])
        assert hasattr(owner, name.rpartition(".")[2])
