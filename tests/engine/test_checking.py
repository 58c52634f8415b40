"""Every edit of a plan has passed the worlds check: what it holds back is not made, and said, in apply as in check."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import planned, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Status, Unchanged
from torchmigrate.engine import checking, planner

HALF = """import torch
half = torch.cuda.is_available() and torch.cuda.get_device_capability(0)[0] >= 8
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
where = {"cuda": 1, "cpu": 2}["cuda" if torch.cuda.is_available() else "cpu"]
"""
WHOLE = 'import torch\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


def test_an_edit_that_breaks_a_program_is_left_and_the_others_are_made(tmp_path: Path) -> None:
    found = planned(write_tree(tmp_path, {"half.py": HALF, "whole.py": WHOLE}))
    half, whole = found["half.py"], found["whole.py"]
    assert isinstance(half, Changed)
    assert isinstance(whole, Changed)
    assert b"device = accel.device()" in half.after
    assert b'where = {"cuda": 1, "cpu": 2}["cuda" if torch.cuda.is_available() else "cpu"]' in half.after
    left = [f.message for f in half.findings if f.status is Status.LEFT]
    assert any("line 4: a table lacks the device on MPS" in message for message in left), left
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    assert plan.checked[0] > plan.checked[1] > 0


def test_check_announces_what_apply_does(tmp_path: Path) -> None:
    result = planned(write_tree(tmp_path, {"half.py": HALF}), "check")["half.py"]
    assert isinstance(result, Unchanged)
    assert {f.line for f in result.findings if f.fix} == {3}


def test_a_file_is_held_back_whole_where_no_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "ROUNDS", 0)
    found = planned(write_tree(tmp_path, {"half.py": HALF, "whole.py": WHOLE}))
    assert isinstance(found["half.py"], Unchanged)
    assert isinstance(found["whole.py"], Changed)


def test_what_holds_an_edit_is_named(tmp_path: Path) -> None:
    text = WHOLE + 'import ctranslate2\nctranslate2.Translator("model", device=device.type)\n'
    result = planned(write_tree(tmp_path, {"main.py": text}), "check")["main.py"]
    assert isinstance(result, Unchanged)
    told = [f.message for f in result.findings if f.status is Status.LEFT]
    assert any("line 4: this device is handed to ctranslate2, which takes auto or cpu or cuda only" in t for t in told)


FLAG = "import torch\nfast = torch.cuda.is_available(){more}\n"
PLACE = """import torch
from flags import fast
def place(model):
    return model.to("cuda:0") if fast else model
place(torch.nn.Linear(1, 1))
"""


@pytest.mark.parametrize("more", ["", " and torch.cuda.get_device_capability() >= (8, 0)"])
def test_a_device_behind_a_test_of_another_file_goes_with_the_test(tmp_path: Path, more: str) -> None:
    """Where the test has to stay, rewriting the device alone would only look portable."""
    found = planned(write_tree(tmp_path, {"main.py": PLACE, "flags.py": FLAG.format(more=more)}))
    assert isinstance(found["flags.py"], Unchanged) is bool(more)
    assert isinstance(found["main.py"], Unchanged) is bool(more)
    told = [f.message for f in found["main.py"].findings if f.status is Status.LEFT]
    assert any("line 4: a test that stays lets only CUDA come here" in t for t in told) is bool(more)


BASIC = """import torch
class Basic:
    def __init__(self, args):
        self.args = args
        self.device = self.place()
    def place(self):
        if self.args.use_gpu:
            return torch.device("cuda:{}".format(self.args.gpu))
        return torch.device("cpu")
"""
GUARDED = """import argparse, torch
from basic import Basic
parser = argparse.ArgumentParser()
parser.add_argument("--use_gpu", type=bool, default=True)
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
args.use_gpu = True if torch.cuda.is_available() and args.use_gpu else False
Basic(args)
"""
UNGUARDED = GUARDED.replace(
    "args.use_gpu = True if torch.cuda.is_available() and args.use_gpu else False",
    "torch.cuda.set_device(0)\nargs.use_gpu = True",
)


def test_a_program_that_dies_without_cuda_does_not_hold_another_back(tmp_path: Path) -> None:
    """The unguarded program comes to choose the accelerator; the guarded one still chooses the CPU where it did."""
    found = planned(write_tree(tmp_path, {"basic.py": BASIC, "run.py": GUARDED, "demo.py": UNGUARDED}))
    run = found["run.py"]
    assert isinstance(run, Changed)
    assert b"True if accel.is_available() and args.use_gpu else False" in run.after
    assert all(isinstance(each, Changed) for each in found.values())
