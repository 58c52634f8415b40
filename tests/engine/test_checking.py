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


TABLE = """import torch
index = 0
places = {"cuda": 1, "cpu": 2, "mps": 3, "xpu": 4}
print(places[("cuda:%d" % index if torch.cuda.is_available() else "cpu").split(":")[0]])
"""
MAY_SAY_CUDA = 'where = "cpu"\nif torch.device(where).type == "cuda":\n    print(torch.device("cuda:%d" % index))\n'
CLASS = """import torch
class Config:
    def __init__(self):
        self.gpu = torch.cuda.is_available()
    def where(self):
        if self.gpu:
            return "cuda"
        return "cpu"
config = Config()
print({})
"""
SETTINGS = """import json, torch
config = json.loads(open("config.json").read())
if config["device"] == "cuda" and not torch.cuda.is_available():
    {}
print(torch.device(config["device"]))
"""
MATCH = """import torch
def pick_device():
    if torch.cuda.is_available():
        return "cuda"
    return "cpu"
match pick_device().split(":")[0]:
    case "cuda" | "mps" | "xpu":
        print("fast")
    case "cpu":
        print("slow")
    case other:
        {}
"""


@pytest.mark.parametrize(
    ("text", "twin", "rewritten"),
    [
        # what stands behind a test that cannot be followed does not tell that the program dies anyway
        (TABLE + MAY_SAY_CUDA, TABLE.replace('"xpu": 4', '"xpu": 4, "npu": 5') + MAY_SAY_CUDA, b"(index))).split"),
        # a function returns a device if the file hands what it returns to torch as one
        (CLASS.format("config.where()"), CLASS.format("torch.device(config.where())"), b"return accel.device_type()"),
        # what `match` refuses on an NPU was not refused: the function returned "cpu"
        (MATCH.format("raise ValueError(other)"), MATCH.format('print("other")'), b"return accel.device_type()"),
    ],
)
def test_an_edit_that_breaks_a_program_is_left_and_in_its_innocent_twin_it_is_made(
    tmp_path: Path, text: str, twin: str, rewritten: bytes
) -> None:
    found = planned(write_tree(tmp_path, {"trap.py": text, "twin.py": twin}))
    trap, innocent = found["trap.py"], found["twin.py"]
    assert not isinstance(trap, Changed) or rewritten not in trap.after
    assert isinstance(innocent, Changed)
    assert rewritten in innocent.after


def test_a_fallback_that_updates_settings_that_cannot_be_followed_stays(tmp_path: Path) -> None:
    trap = SETTINGS.format('config.update(device="cpu")')
    found = planned(write_tree(tmp_path, {"trap.py": trap, "twin.py": WHOLE}))
    assert isinstance(found["trap.py"], Unchanged)
    assert isinstance(found["twin.py"], Changed)
