"""Whose `cuda()` an object has: what stays because a class of another file defines it, and its twin that must not."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import texts_after, write_tree

BASE = """import torch
class Loss:
    def cuda(self):
        return self
class CudaMixin:
    def cuda(self):
        return self
class Model(torch.nn.Module):
    def cuda(self):
        return super().cuda()
"""
FILES = {
    "pkg/__init__.py": "from .nll import NLL, NLL as Likelihood\nfrom .losses import *\n",
    "pkg/base.py": BASE,
    "pkg/nll.py": "from .base import *\nclass NLL(Loss):\n    pass\n",
    "pkg/losses.py": """from typing import Generic
import torch.nn as nn
from six import with_metaclass
from . import base as b, nll
try:
    from .nll import NLL as Fast
except ImportError:
    from torch.nn import NLLLoss as Fast
class Net(b.CudaMixin, nn.Module):
    pass
class Late(nn.Module, b.CudaMixin):
    pass
class Diamond(nn.Module):
    pass
class Both(Diamond, b.Model):
    pass
class Typed(nll.NLL, Generic[int]):
    pass
class Made(with_metaclass(type, b.Loss)):
    pass
class Loop(Loop):
    pass
class Plain:
    pass
def make(kind):
    criterion = nll.NLL()
    return criterion if kind else None
def tensor():
    return Late()
shared = nll.NLL()
""",
}
USER = [
    "from pkg.nll import NLL\nx = NLL()",
    "from pkg import NLL\nx = NLL()",
    "from pkg import Likelihood as L\nx = L()",
    "from pkg.losses import *\nx = Net()",
    "from pkg import *\nx = NLL()",
    "import pkg.nll\nx = pkg.nll.NLL()",
    "import pkg\nx = pkg.Net()",
    "import pkg.losses as p\nx = p.Typed()",
    "from pkg import losses\nx = losses.Made()",
    "from pkg.losses import Both\nx = Both()",
    "from pkg.base import Model as Other\nx = Other()",
    "from pkg.losses import make\nx = make(1)",
    "from pkg.losses import make\nfactory = make\nx = factory(1)",
    "from pkg.losses import shared as x",
    "from pkg.losses import Fast\nx = Fast()",
    "from pkg.nll import NLL\nclass Own(NLL):\n    pass\nx = Own()",
]
TORCH = [
    "from pkg.losses import Late\nx = Late()",
    "from pkg.losses import Diamond\nx = Diamond()",
    "from pkg.losses import Plain\nx = Plain()",
    "from pkg.losses import Loop\nx = Loop()",
    "from pkg.losses import tensor\nx = tensor()",
    "from pkg.losses import Late\nclass Own(Late):\n    pass\nx = Own()",
    "class Model(torch.nn.Module):\n    pass\nx = Model()",
    "class Loss(torch.nn.Module):\n    pass\nx = Loss()",
    "from torch.nn import NLLLoss as NLL\nx = NLL()",
    "x = torch.zeros(1)",
]


def after(tmp_path: Path, use: str) -> str:
    text = f"import torch\n{use}\n"
    return texts_after(write_tree(tmp_path, {**FILES, "use.py": text})).get("use.py", text)


@pytest.mark.parametrize("text", USER)
def test_what_has_a_cuda_of_the_projects_stays(text: str, tmp_path: Path) -> None:
    assert "x.cuda()" in after(tmp_path, f"{text}\nx.cuda()")


@pytest.mark.parametrize("text", TORCH)
def test_what_has_torchs_is_rewritten(text: str, tmp_path: Path) -> None:
    assert "x.to(accel.device())" in after(tmp_path, f"{text}\nx.cuda()")


@pytest.mark.parametrize(
    ("base", "stays"), [("NLL", True), ("Model", True), ("Net", True), ("Late", False), ("torch.nn.Module", False)]
)
def test_self_and_super(base: str, stays: bool, tmp_path: Path) -> None:
    head = "from pkg.base import Model\nfrom pkg.losses import *\nfrom pkg.nll import NLL\n"
    body = "    def move(self):\n        self.cuda()\n        super().cuda()"
    text = after(tmp_path, f"{head}class Own({base}):\n{body}")
    assert text.endswith(f"class Own({base}):\n{body}\n") is stays
    assert (text.count(".to(accel.device())") == 2) is not stays


def test_an_attribute_of_such_a_class(tmp_path: Path) -> None:
    head = "from pkg import NLL\nfrom pkg.losses import Late\nclass Trainer:\n    def __init__(self):\n"
    text = after(
        tmp_path, f"{head}        self.loss, x = NLL(), 0\n        self.net = Late()\n"
        "        self.criterion = NLL()\n        self.criterion.cuda()\n        self.net.cuda()"
    )  # fmt: skip
    assert "self.criterion.cuda()" in text
    assert "self.net.to(accel.device())" in text


def test_an_annotation_names_the_class(tmp_path: Path) -> None:
    text = after(tmp_path, "import pkg.nll as n\ndef f(loss: n.NLL, y: torch.Tensor):\n    loss.cuda()\n    y.cuda()")
    assert "loss.cuda()" in text
    assert "y.to(accel.device())" in text


def test_where_one_of_two_classes_has_it_the_fix_is_unsafe(tmp_path: Path) -> None:
    use = "from pkg import NLL\nfrom pkg.losses import Late\nx = Late()\nx = NLL()\nx.cuda()"
    assert "x.cuda()" in after(tmp_path, use)
    assert "x.to(accel.device())" in texts_after(tmp_path, unsafe_fixes=True)["use.py"]


def test_a_receiver_that_may_be_an_imported_heir_is_doubtful(tmp_path: Path) -> None:
    assert "y.cuda()" in after(tmp_path, "from pkg import Likelihood\ndef f(y):\n    y.cuda()\n    print(Likelihood)")


@pytest.mark.parametrize(
    ("bases", "stays"),
    [
        ("mmengine.BaseModel", True),
        ("Mixin, nn.Module", True),
        ("Mixed", True),
        ("nn.Module, Mixin", False),
        ("abc.ABC, nn.Module", False),
        ("lightning.LightningModule", False),
    ],
)
def test_super_of_a_class_of_another_library_is_doubtful(bases: str, stays: bool, tmp_path: Path) -> None:
    """The class above may define `cuda()`, which `super().to()` would pass by, on CUDA too."""
    head = "import abc, lightning, mmengine\nfrom elsewhere import Mixin\nfrom torch import nn\n"
    head += "class Mixed(mmengine.BaseModel):\n    pass\n"
    use = f"{head}class Own({bases}):\n    def cuda(self, device=None):\n        return super().cuda(device)"
    assert ("super().cuda(device)" in after(tmp_path, use)) is stays
    assert "super().to(accel.device(device))" in texts_after(tmp_path, unsafe_fixes=True)["use.py"]
