"""Every edit of a plan has passed the worlds check: what it holds back is not made, and said, in apply as in check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import planned, texts_after, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Status, Unchanged
from torchmigrate.engine import checking, planner
from torchmigrate.project.context import ProjectContext
from torchmigrate.source.edits import Edit, compose
from torchmigrate.worlds import check
from torchmigrate.worlds.check import Check, Rewritten

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
    assert any("line 5: a table lacks the device on MPS" in message for message in left), left  # below the import
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    assert plan.checked[0] > plan.checked[1] > 0


def test_check_announces_what_apply_does(tmp_path: Path) -> None:
    result = planned(write_tree(tmp_path, {"half.py": HALF}), "check")["half.py"]
    assert isinstance(result, Unchanged)
    assert {f.line for f in result.findings if f.fix} == {3}


def test_check_announces_what_hides_devices_from_the_helper(tmp_path: Path) -> None:
    """Found in Real-Time-Voice-Cloning: `apply` told the helper, and `check` said that a person has to."""
    hiding = "import os\nimport used\ndef main(cpu):\n    if cpu:\n        os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n"
    asking = f"{hiding}    return torch.ones(1).cuda()\n".replace("import os", "import os, torch", 1)
    used = "import torch\ndef place(x):\n    return x.cuda()\n"
    root = write_tree(tmp_path, {"used.py": used, "hiding.py": hiding, "asking.py": asking})
    found = planned(root, "check")
    for name in ("hiding.py", "asking.py"):
        assert [f.rule for f in found[name].findings if f.line == 5] == ["device/hidden-cuda"], name
    assert all("TORCH_ACCEL_DEVICE" in texts_after(root)[name] for name in ("hiding.py", "asking.py"))


def test_a_file_is_held_back_whole_where_no_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "ROUNDS", 0)
    found = planned(write_tree(tmp_path, {"half.py": HALF, "whole.py": WHOLE}))
    assert isinstance(found["half.py"], Unchanged)
    assert isinstance(found["whole.py"], Changed)


ABC = "import torch\na = torch.ones(1).cuda()\nb = torch.ones(2).cuda()\nc = torch.ones(3).cuda()\n"


@pytest.mark.parametrize(
    ("first", "again", "left"),
    [
        (["a", "b"], [], ""),
        (["a", "b"], ["a"], "a"),
        (["a", "b"], ["a", "b"], "ab"),
        (["a", "b"], ["c"], "ab"),  # what did no harm before is not lost
    ],
)
def test_what_is_held_back_is_checked_again_beside_what_did_no_harm(
    first: list[str], again: list[str], left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in nnU-Net and esm, where a second run rewrote more: an edit was held back for another one."""

    def held_back(self: check.Check, files: list[check.Rewritten], changed: object = None) -> check.Held:
        names = again if self._settled else first
        name = names.pop(0) if names else ""
        at = ABC.index(f"{name} = ") if name else 0
        return {file.path: {(at, ABC.index("\n", at)): "line 1: it is harmful"} for file in files if name}

    monkeypatch.setattr(check.Check, "held_back", held_back)
    found = planned(write_tree(tmp_path, {"main.py": ABC}))["main.py"]
    assert isinstance(found, Changed)
    assert "".join(n for n in "abc" if f"{n} = torch.ones({'abc'.index(n) + 1}).cuda()".encode() in found.after) == left


@pytest.mark.parametrize(("enough", "left"), [(4, 2), (5, 1), (10, 0)])
def test_no_more_edits_are_tried_again_after_enough_work(
    enough: int, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in yolov9, whose 21 programs share their modules: each attempt runs all of them in all worlds."""
    harmful = ["a", "", "b"]  # one edit of each file is held back; tried again at once, they cost another

    def held_back(self: check.Check, files: list[check.Rewritten], changed: object = None) -> check.Held:
        self.steps = 5
        name = harmful.pop(0) if harmful else ""
        at = ABC.index(f"{name} = ") if name else 0
        return {file.path: {(at, ABC.index("\n", at)): "line 1: it is harmful"} for file in files if name}

    monkeypatch.setattr(check.Check, "held_back", held_back)
    monkeypatch.setattr(checking, "ENOUGH", enough)
    found = planned(write_tree(tmp_path, {"main.py": ABC, "other.py": ABC}))
    assert sum(b"a = torch.ones(1).cuda()" in getattr(found[p], "after", b"") for p in ("main.py", "other.py")) == left


def test_what_was_held_for_a_file_far_away_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found in adversarial-robustness-toolbox, where a second run rewrote the tests of a class whose base came late."""
    first = ["base.py", "use.py"]
    original = check.Check.held_back

    def held_back(self: check.Check, files: list[check.Rewritten], changed: object = None) -> check.Held:
        # a check of few files does not read what imports their importers
        monkeypatch.setattr(check, "LARGEST_GROUP", 0 if self._settled else 40)
        original(self, files)  # forms the groups
        name = first.pop(0) if first else ""
        return (
            {file.path: {(0, len(file.before)): "line 1: it is harmful"} for file in files if file.path.endswith(name)}
            if name
            else {}
        )

    monkeypatch.setattr(check.Check, "held_back", held_back)
    monkeypatch.setattr(checking, "FEW", -1)
    move = "x = torch.ones(1).cuda()\n"
    files = {"base.py": f"import torch\n{move}", "mid.py": f"import torch\nimport base\n{move}"}
    found = planned(write_tree(tmp_path, {**files, "use.py": f"import torch\nimport mid\n{move}"}))
    assert {name for name in found if isinstance(found[name], Changed)} == {"accel.py", "base.py", "mid.py", "use.py"}


def test_what_holds_an_edit_is_named(tmp_path: Path) -> None:
    text = WHOLE + 'import ctranslate2\nctranslate2.Translator("model", device=device.type)\n'
    result = planned(write_tree(tmp_path, {"main.py": text}), "check")["main.py"]
    assert isinstance(result, Unchanged)
    told = [f.message for f in result.findings if f.status is Status.LEFT]
    assert any("line 4: this device is handed to ctranslate2, which takes auto or cpu or cuda only" in t for t in told)


@pytest.mark.parametrize("library", ["resemblyzer", "some_models"])
def test_what_a_library_with_devices_of_its_own_made_is_not_moved(tmp_path: Path, library: str) -> None:
    """Found in s3prl: a model of resemblyzer takes what it is given to the CPU or CUDA, wherever `.to()` puts it."""
    text = f"{WHOLE}from {library} import VoiceEncoder\nmodel = VoiceEncoder()\nmodel = model.to(device)\n"
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Unchanged) is (library == "resemblyzer")
    told = [f.message for f in result.findings if f.status is Status.LEFT]
    words = "line 5: this device is handed to resemblyzer, which takes cpu or cuda only"
    assert any(words in t for t in told) is (library == "resemblyzer")


FABRIC = """import torch
{using}
def main():
    precision = "bf16-true" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "32-true"
    return Fabric(devices=1, precision=precision)
main()
"""


@pytest.mark.parametrize("using", ["from lightning import Fabric", "def Fabric(**options):\n    print(options)"])
def test_how_precisely_a_library_computes_stays_where_it_chooses_the_device(tmp_path: Path, using: str) -> None:
    """Found in lit-llama: on XPU, Fabric takes the CPU, which would have computed in bfloat16."""
    result = planned(write_tree(tmp_path, {"main.py": FABRIC.format(using=using)}))["main.py"]
    assert isinstance(result, Unchanged) is ("lightning" in using)
    told = [f.message for f in result.findings if f.status is Status.LEFT]
    words = "line 5: lightning is told here how precisely to compute, and chooses its device itself"
    assert any(words in t for t in told) is ("lightning" in using)


FLAG = "import torch\nfast = torch.cuda.is_available(){more}\n"
PLACE = """import torch
from flags import fast
def place(model):
    if fast:
        model = model.to("cuda:0")
    return model
place(torch.nn.Linear(1, 1))
"""


@pytest.mark.parametrize("more", ["", " and torch.cuda.get_device_capability() >= (8, 0)"])
def test_a_device_behind_a_test_of_another_file_goes_with_the_test(tmp_path: Path, more: str) -> None:
    """Where the test has to stay, rewriting the device alone would only look portable."""
    found = planned(write_tree(tmp_path, {"main.py": PLACE, "flags.py": FLAG.format(more=more)}))
    assert isinstance(found["flags.py"], Unchanged) is bool(more)
    assert isinstance(found["main.py"], Unchanged) is bool(more)
    told = [f.message for f in found["main.py"].findings if f.status is Status.LEFT]
    assert any("line 5: only CUDA comes here, as what leads here stays" in t for t in told) is bool(more)


SPREAD = """import torch
def spread(model, x):
    ids = list(range(torch.cuda.device_count()))
    replicas = torch.nn.parallel.{by}(model, ids)
    return replicas[0](x)
"""
SPREADING = """import torch
from work import spread
def train(model, x):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, x = model.to(device), x.to(device)
    if device.type == "cuda" and torch.cuda.device_count() > 1:
        return spread(model, x)
    return model(x)
"""


@pytest.mark.parametrize("by", ["replicate", "own"])
def test_what_a_function_for_cuda_alone_gets_stays(tmp_path: Path, by: str) -> None:
    """Found in Real-Time-Voice-Cloning: a count that only torch.nn.parallel.replicate gets brought the helper."""
    found = planned(write_tree(tmp_path, {"main.py": SPREADING, "work.py": SPREAD.format(by=by)}))
    assert isinstance(found["main.py"], Changed)
    assert isinstance(found["work.py"], Unchanged) is (by == "replicate")
    told = [f.message for f in found["work.py"].findings if f.status is Status.LEFT]
    assert any("this runs on CUDA alone" in t for t in told) is (by == "replicate")


def test_a_device_after_a_place_that_still_dies_is_rewritten(tmp_path: Path) -> None:
    text = "import torch\nx = torch.ones(2)\ny = x.cuda()  # torchmigrate: ignore[device/tensor-cuda]\nz = x.cuda()\n"
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Changed)
    assert b"z = x.to(accel.device())" in result.after


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


QUEUE = """import torch
class Queue:
    def __init__(self): self.rows = {}
    def put(self, device, item): self.rows.setdefault(device, []).append(item)
    def get(self, device): return self.rows[device].pop()
def supports(device): return device.type == "cuda"
def build(device): return torch.nn.Linear(2, 2).to(device)
"""
ASKING = """import torch
from work import Queue, build, supports
def test_queue(pool):
    queue = Queue()
    queue.put("cuda:1", 3)
    assert queue.get(device="cuda:1") == 3
    pool.start(device="cuda:0")
    pool.set([torch.device("cuda:0"), torch.device("cuda:1")])
    assert supports(torch.device("cuda"))
"""
MOVING = """import torch
from work import build
def test_build():
    model = build(device="cuda:0")
    assert model(torch.zeros(2).to("cuda:0")) is not None
"""


def test_devices_that_a_test_names_and_torch_never_gets_stay(tmp_path: Path) -> None:
    files = {"work.py": QUEUE, "test_queue.py": ASKING, "test_build.py": MOVING, "main.py": ""}
    files["main.py"] = (
        "import torch\ndef run(pool, other):\n    pool.start(device='cuda:1')\n    torch.zeros(2, device='cuda:1')\n"
    )
    found = planned(write_tree(tmp_path, files))
    assert isinstance(found["test_queue.py"], Unchanged)
    built, main = found["test_build.py"], found["main.py"]
    assert isinstance(built, Changed)
    assert b'"cuda' not in built.after
    assert isinstance(main, Changed)
    assert b"pool.start(device='cuda:1')\n" in main.after
    assert b"torch.zeros(2, device=accel.device(1))" in main.after
    assert any("`start`, which is not seen to hand it to torch" in f.message for f in main.findings)


PRETENDING = """import torch
from work import build
def test_warning(model):
    model.device = torch.device("cuda")
    model.warn()
def test_build():
    device = torch.device("cuda")
    assert build(device=device) is not None
"""


@pytest.mark.parametrize("floor", ["2.0", "2.8"])
def test_a_device_that_a_test_only_pretends_stays(tmp_path: Path, floor: str) -> None:
    files = {"work.py": QUEUE, "test_warning.py": PRETENDING, "requirements.txt": f"torch>={floor}\n"}
    result = planned(write_tree(tmp_path, files))["test_warning.py"]
    assert isinstance(result, Changed)
    assert b'    model.device = torch.device("cuda")\n    model.warn()\n' in result.after
    assert b'    device = torch.device("cuda")\n' not in result.after


LOSSES = """import torch
def dice(output, target):
    onehot = torch.zeros(output.shape)
    if output.device.type == "cuda":
        onehot = onehot.cuda(output.device.index)
    return output * onehot.scatter_(1, target, 1)
"""
TRAINING = """import torch
from losses import dice
net = torch.nn.Linear(2, 2).cuda()
dice(net(torch.zeros(2, 2).cuda()), torch.zeros(2, 1).long().cuda()).sum().backward()
"""
TOLD = """import torch
from net import place
def test_place():
    out = place(torch.zeros(2), "cuda")
    assert out.device.type == "cuda"
"""
PLACING = """import torch
def place(x, device):
    return x.to(torch.device(device, 0)) if device == "cuda" else x
"""


def test_what_asks_a_tensor_where_it_is_names_no_device(tmp_path: Path) -> None:
    files = {"test/losses.py": LOSSES, "test/train.py": TRAINING, "tests/test_net.py": TOLD, "net.py": PLACING}
    found = planned(write_tree(tmp_path, files))
    losses = found["test/losses.py"]
    assert isinstance(losses, Changed)
    assert b"onehot.to(accel.device(output.device.index))" in losses.after
    assert isinstance(found["test/train.py"], Changed)
    assert isinstance(found["tests/test_net.py"], Unchanged)  # an assertion names what it expects


ASSERTING = """import pytest
import torch
from steps import KEY, OTHER, Config, Step, make

@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_set():
    config = Config()
    config.device = "cuda"
    config.place = torch.device("cuda")
    make(config)

@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_stays():
    device = torch.device("cuda:0")
    done = make(None)({KEY: torch.randn(12).to(device)})
    assert done[KEY].device == device
    tokens = Step()(torch.ones(2).cuda())
    assert tokens.device.type == "cuda"
"""
STEPS = """import torch
class Step:
    def __call__(self, x):
        device = self.detect(x)
        return {name: t.to(device) for name, t in x.items()} if device else x
    def detect(self, x):
        for value in x.values():
            if isinstance(value, torch.Tensor):
                return value.device
        return None
"""


def test_assertions_of_a_test_about_unknown_tensors_hold_nothing(tmp_path: Path) -> None:
    files = {"steps/__init__.py": "from .step import Step\n", "steps/step.py": STEPS, "tests/test_steps.py": ASSERTING}
    result = planned(write_tree(tmp_path, files))["tests/test_steps.py"]
    assert isinstance(result, Changed)
    assert b"cuda:0" not in result.after
    assert result.after.count(b"not accel.is_available()") == 2


RECORDED = """import torch
from LIBRARY import ConfigDict
from nets import build
def test_net():
    settings = dict(kind="net")
    if torch.cuda.is_available():
        settings["loss"] = None
        net = build(settings, ConfigDict(train_backbone=True)).cuda()
        net(torch.ones(2).cuda())
"""


@pytest.mark.parametrize(("library", "is_record"), [("mmcv", True), ("mmengine.config", True), ("tables", False)])
def test_a_library_that_makes_a_record_is_handed_nothing(library: str, is_record: bool, tmp_path: Path) -> None:
    files = {"test_net.py": RECORDED.replace("LIBRARY", library), "nets.py": ""}
    result = planned(write_tree(tmp_path, files))["test_net.py"]
    assert isinstance(result, Changed) is is_record
    if isinstance(result, Changed):
        assert b"cuda" not in result.after


def test_a_setting_right_below_an_import_that_goes_stays_a_setting(tmp_path: Path) -> None:
    """Found by the oracle, plain seed 301130905390841."""
    text = "import os\nimport torch\nNO_CUDA = False\nif not NO_CUDA and torch.cuda.is_available():\n"
    result = planned(write_tree(tmp_path, {"main.py": text + "    print('on', torch.device('cuda'))\n"}))["main.py"]
    assert isinstance(result, Changed)
    assert b"cuda" not in result.after


def test_settings_of_a_model_do_not_hold_its_data_parallel_back(tmp_path: Path) -> None:
    text = """import torch
hyp = {"lr": 1.0}
def train(model, hyp):
    model.to("cuda")
    if torch.cuda.device_count() > 1:
        model = torch.nn.DataParallel(model)
    model.hyp = hyp
    return torch.tensor([model.hyp["gain"]])
train(torch.nn.Linear(2, 2), hyp)
"""
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Changed)
    assert b"accel.data_parallel(model)" in result.after


RANKED = """import os
import torch
import torch.distributed as dist
RANK = int(os.getenv("RANK", "-1"))
def select_device(name):
    if name != "cpu" and torch.cuda.is_available():
        return torch.device("cuda:0")
    elif name == "mps" and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
def main(name):
    device = select_device(name)
    if RANK != -1:
        assert torch.cuda.device_count() > RANK, "too few devices for CUDA's DDP"
        torch.cuda.set_device(RANK)
        device = torch.device("cuda", RANK)
        dist.init_process_group(backend="nccl" if dist.is_nccl_available() else "gloo")
    torch.nn.Linear(2, 2).to(device)
main("")
"""


def test_what_is_said_of_one_rank_is_rewritten_whole_or_not_at_all(tmp_path: Path) -> None:
    plain = RANKED.replace("    device = select_device(name)\n", "").replace(
        '"nccl" if dist.is_nccl_available() else "gloo"', '"nccl"'
    )
    plain = plain[: plain.index("def select")] + plain[plain.index("def main") :].replace("if RANK != -1", "if True")
    found = planned(write_tree(tmp_path, {"kept.py": RANKED, "whole.py": plain}))
    kept, whole = found["kept.py"], found["whole.py"]
    assert isinstance(kept, Unchanged)
    left = [f.message for f in kept.findings if f.status is Status.LEFT]
    assert any("says the same of `RANK`, and stays bound to CUDA" in message for message in left), left
    assert isinstance(whole, Changed)
    assert b"torch.cuda" not in whole.after
    assert b'"cuda"' not in whole.after
    assert b"nccl" not in whole.after


def test_a_branch_that_imports_a_library_of_cuda_keeps_its_device(tmp_path: Path) -> None:
    text = """import torch
def load(path, kind):
    if kind == "engine":
        import tensorrt as trt
        device = torch.device("cuda:0")
    else:
        import numpy as np
        device = torch.device("cuda:0")
    return torch.load(path, device)
"""
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Changed)
    assert b'import tensorrt as trt\n        device = torch.device("cuda:0")\n' in result.after
    assert b"import numpy as np\n        device = accel.device(0)\n" in result.after


SETTLED = """import argparse
import pytest
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
{settling}

@pytest.mark.skipif(not args.use_cuda, reason="no CUDA")
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_it(device):
    print(torch.zeros(2, device=device).device)

def place(x):
    return x.cuda() if args.use_cuda else x
pytest.main()
"""
SETTLING = {
    "set anew": "args.use_cuda = args.use_cuda and torch.cuda.is_available()",
    "taken back": "if args.use_cuda and not torch.cuda.is_available():\n    args.use_cuda = False",
}


@pytest.mark.parametrize("settling", SETTLING.values(), ids=SETTLING)
def test_an_option_is_for_all_functions_what_the_head_of_the_file_leaves_of_it(tmp_path: Path, settling: str) -> None:
    """A test that nobody ran without CUDA would run with its "cuda" on MPS; found by the random programs."""
    found = planned(write_tree(tmp_path, {"main.py": SETTLED.format(settling=settling)}))["main.py"]
    assert isinstance(found, Unchanged)
    told = [f.message for f in found.findings if f.status is Status.LEFT]
    assert any('"cuda" would be reached on MPS' in t for t in told), told
    without = SETTLED.format(settling=settling).replace('["cuda", "cpu"]', '["cpu"]')
    assert isinstance(planned(write_tree(tmp_path / "twin", {"main.py": without}))["main.py"], Changed)


SORTED = """import torch
def sort(self, x):
    if x.type() == "torch.cuda.HalfTensor":
        halves.append(x)
def prepare(self):
    stash.is_sorted = True
"""


def test_a_tensor_that_is_asked_where_it_is_is_no_device_to_keep(tmp_path: Path) -> None:
    """Found in jukebox' apex: of the same test in four functions two stayed, for a device that x was taken for."""
    result = planned(write_tree(tmp_path, {"main.py": SORTED}))["main.py"]
    assert isinstance(result, Changed)
    assert b'HalfTensor":' not in result.after and b'FloatTensor":' not in result.after


def test_what_one_call_is_told_is_one_decision(tmp_path: Path) -> None:
    text = """import torch
import {0}
def main(args):
    return {0}.make(
        device="cuda:0" if torch.cuda.is_available() and args.cuda else "cpu",
        graphics=0 if torch.cuda.is_available() and args.cuda else -1,
    )
"""
    other = "import torch\ndef make(device, graphics):\n    return torch.zeros(graphics, device=device)\n"
    files = {"kept.py": text.format("isaacgymenvs"), "whole.py": text.format("own"), "own.py": other}
    found = planned(write_tree(tmp_path, files))
    assert isinstance(found["kept.py"], Unchanged)
    assert any("asks the same for the same call" in f.message for f in found["kept.py"].findings)
    whole = found["whole.py"]
    assert isinstance(whole, Changed)
    assert b"torch.cuda" not in whole.after


def test_a_file_that_makes_engines_for_cuda_stays(tmp_path: Path) -> None:
    text = "import torch\n{}\ndef main(model):\n    return convert(model.cuda(), [torch.ones(1).cuda()])\n"
    files = {
        "engine.py": text.format("from torch2trt import torch2trt as convert"),
        "optional.py": text.format(
            "try:\n    from torch2trt import torch2trt as convert\nexcept ImportError:\n    pass"
        ),
        "raw.py": text.format("from cupy.cuda import function"),
        "compiled.py": text.format("from pynvrtc.compiler import Program"),
        "kernels.py": text.format("from apex import amp"),  # people put something else in its place
        "arrays.py": text.format("import cupy"),
        "called.py": text.format("import cupy\ndef launch(code):\n    return cupy.cuda.compile_with_cache(code)"),
    }
    found = planned(write_tree(tmp_path, files))
    assert all(isinstance(found[name], Unchanged) for name in ("engine.py", "raw.py", "compiled.py", "called.py"))
    assert isinstance(found["arrays.py"], Changed)
    assert any("imports torch2trt, which runs on NVIDIA's" in f.message for f in found["engine.py"].findings)
    assert isinstance(found["optional.py"], Changed)
    assert isinstance(found["kernels.py"], Changed)


def test_what_launches_kernels_of_numba_stays(tmp_path: Path) -> None:
    text = """import torch
from numba import cuda
{}
def kernel(x):
    pass
def loss(x):
    if x.is_cuda:
        return launch(x.cuda())
    raise ValueError("inputs are needed on a 'cuda' device")
def launch(x):
    kernel[1, 1](x)
"""
    skipped = """import pytest
import torch
def test_loss():
    pytest.importorskip("{}")
    if torch.cuda.device_count() == 0:
        pytest.skip("no GPU")
    assert torch.ones(1, device="cuda").sum() == 1
"""
    files = {
        "kernels.py": text.format("@cuda.jit()"),
        "plain.py": text.format("").replace("from numba import cuda\n", ""),
    }
    files |= {"tests/test_loss.py": skipped.format("numba"), "tests/test_other.py": skipped.format("scipy")}
    found = planned(write_tree(tmp_path, files))
    assert isinstance(found["kernels.py"], Unchanged)
    assert isinstance(found["tests/test_loss.py"], Unchanged)
    assert isinstance(found["plain.py"], Changed)
    assert isinstance(found["tests/test_other.py"], Changed)


def test_memory_that_is_calculated_with_what_stays_stays(tmp_path: Path) -> None:
    text = """import torch
def fits(device, gb=1 << 30):
    properties = torch.cuda.get_device_properties(device)
    total = properties.total_memory / gb
    taken = torch.cuda.memory_reserved(device) / gb
    if total - taken > 2:
        return True
def tell(device, gb=1 << 30):
    print(torch.cuda.memory_reserved(device) / gb)
"""
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Changed)
    assert b"taken = torch.cuda.memory_reserved(device)" in result.after
    assert b"print(accel.memory_reserved(device) / gb)" in result.after


def test_a_skipped_test_of_a_cuda_kernel_stays_skipped(tmp_path: Path) -> None:
    test = """import pytest
import torch
from {0} import scale
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_scale():
    x = torch.ones(8, device="cuda")
    assert scale(x).sum() == 16
"""
    files = {
        "kernels.py": "import torch\nimport triton\n\ndef scale(x):\n    return x * 2\n",
        "optional.py": "try:\n    import triton\nexcept ImportError:\n    pass\ndef scale(x):\n    return x * 2\n",
        "test_kernels.py": test.format("kernels"),
        "test_optional.py": test.format("optional"),
    }
    found = planned(write_tree(tmp_path, files))
    assert isinstance(found["test_kernels.py"], Unchanged)
    assert any("stays bound to CUDA (line 7)" in f.message for f in found["test_kernels.py"].findings)
    optional = found["test_optional.py"]
    assert isinstance(optional, Changed)
    assert b"cuda" not in optional.after


def test_a_project_with_backends_of_other_machines_compares_with_nccl_itself(tmp_path: Path) -> None:
    timeout = 'import torch.distributed as dist\ndef seconds(backend):\n    return 1800 if backend != "nccl" else 600\n'
    files = {"timeout.py": timeout, "state.py": 'import torch.distributed as dist\ndist.init_process_group("nccl")\n'}
    alone = planned(write_tree(tmp_path / "alone", files))
    assert isinstance(alone["timeout.py"], Changed)
    files["other.py"] = 'def name(kind):\n    return "xccl" if kind == "xpu" else "nccl"\n'
    assert isinstance(planned(write_tree(tmp_path / "both", files))["timeout.py"], Unchanged)


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


def test_a_device_of_the_helper_is_not_none(tmp_path: Path) -> None:
    """A default for None is not reached with the device of a rank that cannot be followed; its twin says None."""
    text = """import torch
def constant(device=None):
    if device is None:
        device = torch.device("cpu")
    return torch.zeros(1, device=device)
def loop(rank):
    device = torch.device("cuda", rank)
    return constant(device=device), torch.ones(1, device=device)
"""
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Changed)
    assert b"device = accel.device(rank)\n    return constant(device=device)" in result.after


STATS = """import torch
_device = None  # as torch.device("cuda", 0)
def use(device):
    global _device
    _device = device
def total():
    return {0}
"""
RANK = """import torch
import stats
def run(rank, count):
    device = torch.device("cuda", rank)
    stats.use(device if count > 1 else None)
    return torch.ones(1, device=device)
def alone(rank, count):
    waiting = torch.device("cuda", rank) if count > 1 else None
    stats.use(waiting)
"""


@pytest.mark.parametrize("largest", [40, 1])
@pytest.mark.parametrize("is_used", [True, False])
def test_a_device_that_waits_in_a_global_is_followed(
    tmp_path: Path, largest: int, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a large project, where the functions of the other file are not all evaluated."""
    monkeypatch.setattr(check, "LARGEST_GROUP", largest)
    text = STATS.format("torch.zeros(1, device=_device)" if is_used else "repr(_device)")
    found = planned(write_tree(tmp_path, {"main.py": RANK, "stats.py": text}))["main.py"]
    assert isinstance(found, Changed)
    assert (b"waiting = accel.device(rank)" in found.after) is is_used


@pytest.mark.parametrize(
    ("name", "line", "is_mapped"),
    [
        ("tests/test_logits.py", "", False),
        ("tests/test_logits.py", "model.cuda()\n", True),
        ("example/test_logits.py", "import argparse\n", True),
        ("tests/test_logits.py", "import argparse\n", False),
        ("logits.py", "", True),
    ],
)
def test_a_test_that_speaks_of_no_cuda_loads_as_before(tmp_path: Path, name: str, line: str, is_mapped: bool) -> None:
    files = {"train.py": "import torch\nmodel.cuda()\n", name: f"import torch\nsaved = torch.load('a.pt')\n{line}"}
    result = planned(write_tree(tmp_path, files))[name]
    assert isinstance(result, Changed) is is_mapped
    assert any("loads what was saved beside it" in f.message for f in result.findings) is not is_mapped


WRITER = """import json
IMPORTED
def write(path):
    config = {"dist_backend": "nccl"}
    config["dist_backend"] = "nccl"
    with open(path, "w") as file:
        json.dump(config, file)

if __name__ == "__main__":
    write("config.json")
"""


@pytest.mark.parametrize(("imported", "is_told"), [("import os", False), ("import torch", True), ("import net", True)])
def test_a_program_that_uses_no_torch_chooses_no_backend(tmp_path: Path, imported: str, is_told: bool) -> None:
    """Found in TorchSSL and openfold, which write configurations for other machines."""
    net = "import torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\nx = torch.ones(1).cuda()\n"
    found = planned(write_tree(tmp_path, {"write.py": WRITER.replace("IMPORTED", imported), "net.py": net}))
    assert isinstance(found["write.py"], Changed) is is_told


REFUSING = """import torch
from nets import make

def run(opts):
    assert torch.cuda.is_available(), "no CUDA"
    net = make(opts.kind, opts.weights)
    return net.cuda()
"""
NETS = """import torch

def make(kind, weights):
    if kind == "small":
        net = torch.nn.Linear(2, 2)
        if weights is not None:
            net.load_state_dict(torch.load(weights))
        return net
    else:
        raise ValueError("there is no such kind")
"""


@pytest.mark.parametrize("largest", [1, 40])
def test_what_code_behind_a_refusal_refuses_holds_nothing(
    tmp_path: Path, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in AutoDL-Projects, which is large: the functions of the other file are entered from here alone."""
    monkeypatch.setattr(check, "LARGEST_GROUP", largest)
    found = planned(write_tree(tmp_path, {"main.py": REFUSING, "nets.py": NETS}))["main.py"]
    assert isinstance(found, Changed) and b"torch.cuda" not in found.after and b".cuda()" not in found.after


RESULT = """import pytest
import torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
def test_sum(device):
    assert {asserted}
"""


@pytest.mark.parametrize(
    ("asserted", "changes"),
    [
        ("torch.ones(2, device=device).sum() == 2", True),
        ("device == 'cpu' or torch.cuda.get_device_capability() >= (7, 0)", False),
    ],
)
def test_a_test_of_a_result_refuses_no_device(tmp_path: Path, asserted: str, changes: bool) -> None:
    """Once one such line held all tests of a file back: "the program would stop here on MPS"."""
    result = planned(write_tree(tmp_path, {"test_it.py": RESULT.format(asserted=asserted)}))["test_it.py"]
    assert isinstance(result, Changed) is changes


RESIZED = """import torch
import torch.nn.functional as F
def resize(images, height):
    count, channels, rows, columns = images.shape
    grid = torch.zeros(height, 2, device=images.device)
    grid = grid.unsqueeze(0).repeat(count, 1)
    if images.is_cuda:
        grid = grid.cuda()
    return F.grid_sample(images, grid)
"""
TRAINS = """import torch
import images
def train(settings):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images.get_model(settings).to(device)
"""


def test_a_tensor_that_goes_where_another_is_holds_no_device_back(tmp_path: Path) -> None:
    """`.to(images.device)` was not evaluated, as no word in it speaks of devices, and seemed to stay on the CPU."""
    found = planned(write_tree(tmp_path, {"images.py": RESIZED, "train.py": TRAINS}))
    moved, chosen = found["images.py"], found["train.py"]
    assert isinstance(moved, Changed) and b"grid = grid.to(images.device)" in moved.after
    assert isinstance(chosen, Changed) and b"device = accel.device()" in chosen.after


DEVICES = """import torch
def is_cuda_available():
    return torch.cuda.is_available()
def is_npu_available():
    try:
        import torch_npu
    except ImportError:
        return False
    return hasattr(torch, "npu") and torch.npu.is_available()
"""
WRAPPER = """import devices
class Wrapper:
    def __init__(self):
        assert {test}, "on no other device"
"""
SKIPPED = """import unittest
import torch
from wrapper import Wrapper
class Test(unittest.TestCase):
    @unittest.skipIf(not torch.cuda.is_available(), "needs a GPU")
    def test_wrapper(self):
        wrapper = Wrapper()
        self.assertIsNotNone(torch.ones(1).cuda())
"""
BRANCHED = """import torch
from wrapper import Wrapper
if torch.cuda.is_available():
    x = torch.ones(1).cuda(), Wrapper()
"""


@pytest.mark.parametrize("text", [SKIPPED, BRANCHED])
@pytest.mark.parametrize(
    ("test", "is_kept"),
    [
        ("devices.is_cuda_available() or devices.is_npu_available()", True),
        ("torch.cuda.is_available()", False),
        ("len('abc') == 3", False),
    ],
)
def test_what_refuses_on_other_devices_comes_to_run_on_none(
    tmp_path: Path, text: str, test: str, is_kept: bool
) -> None:
    wrapper = WRAPPER.format(test=test).replace("import devices", "import devices\nimport torch")
    root = write_tree(tmp_path, {"devices.py": DEVICES, "wrapper.py": wrapper, "test_it.py": text})
    assert isinstance(planned(root)["test_it.py"], Unchanged if is_kept else Changed)


@pytest.mark.parametrize("more", ["", " and q.size(-1) <= 256"])
@pytest.mark.parametrize("given", ["q.device", "'cuda'"])
def test_an_assertion_of_cuda_moves_with_what_comes_to_it(tmp_path: Path, more: str, given: str) -> None:
    """Found in Wan2.1: on MPS, "cuda" was taken to come past `assert q.device.type == "cuda"`, rewritten or not."""
    text = f"""import torch
def attend(q):
    assert q.device.type == "cuda"{more}
    return q * torch.ones(3).to(device={given})
def main():
    return attend(torch.ones(3).cuda())
main()
"""
    found = planned(write_tree(tmp_path, {"a.py": text}))["a.py"]
    assert isinstance(found, Changed)
    assert f"assert accel.is_accelerated(q.device){more}".encode() in found.after


KEEPER = """import inspect
import sys
def persistent(made):
    source = inspect.getsource(sys.modules[made.__module__])
    class Kept(made):
        def {name}(self):
            return print, (source,)
    return Kept
"""


@pytest.mark.parametrize("name", ["__reduce__", "describe"])
@pytest.mark.parametrize("called", ["kept.persistent", "kept.persistent()", "other"])
def test_a_file_whose_source_goes_with_pickles_stays(tmp_path: Path, name: str, called: str) -> None:
    """Found in edm2: snapshots of a training loaded nowhere any more but beside the helper."""
    loss = f"import torch\nimport kept\n@{called}\nclass Loss:\n    pass\ntorch.ones(1).cuda()\n"
    run = "import torch\nimport kept\nimport loss\nclass Run:\n    pass\ntorch.ones(1).cuda()\n"
    files = {"kept.py": KEEPER.format(name=name), "loss.py": loss, "run.py": run}
    found = planned(write_tree(tmp_path, files))
    assert isinstance(found["run.py"], Changed)
    stays = name == "__reduce__" and called != "other"
    assert isinstance(found["loss.py"], Unchanged) is stays
    told = ["line 4: pickles of this class hold the source" in f.message for f in found["loss.py"].findings]
    assert any(told) is stays


@pytest.mark.parametrize("named", ["is_npu_available", "is_ready"])
def test_what_refuses_is_found_in_large_projects_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(check, "LARGEST_GROUP", 0)
    wrapper = WRAPPER.format(test=f"is_cuda_available() or {named}()").replace(
        "import", "from .devices import *\nimport"
    )
    files = {"pkg/__init__.py": "from .wrapper import Wrapper\n", "pkg/wrapper.py": wrapper}
    files |= {"pkg/devices.py": DEVICES.replace("is_npu_available", named)}
    root = write_tree(tmp_path, {**files, "test_it.py": SKIPPED.replace("from wrapper", "from pkg")})
    assert isinstance(planned(root)["test_it.py"], Unchanged if named == "is_npu_available" else Changed)


BENCH = """import torch
from specs import spec
def run():
    {before}
        print(spec())
if __name__ == "__main__":
    run()
"""
SPECS = """import torch
SPECS = {"H100": 1}
def spec():
    name = torch.cuda.get_device_name(0)
    if name in SPECS:
        return SPECS[name]
    raise ValueError(name)
"""


@pytest.mark.parametrize("largest", [40, 1])
@pytest.mark.parametrize(
    ("before", "is_kept"),
    [
        ("with open(torch.cuda.get_device_name(0)):", False),
        ("if torch.cuda.is_available():", True),  # this program ran on a Mac
    ],
)
def test_what_stands_behind_a_death_may_refuse_in_a_function_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int, before: str, is_kept: bool
) -> None:
    monkeypatch.setattr(check, "LARGEST_GROUP", largest)
    results = planned(write_tree(tmp_path, {"bench.py": BENCH.format(before=before), "specs.py": SPECS}))
    assert isinstance(results["specs.py"], Changed)
    assert isinstance(results["bench.py"], Unchanged if is_kept else Changed)


SPREADS = """import torch
from helpers import workaround
def main():
    if torch.cuda.is_available():
        device = torch.device("cuda")
        if 4 % torch.cuda.device_count() != 0:
            raise ValueError("divisible")
    else:
        device = torch.device("cpu")
    model = torch.nn.Linear(3, 3).to(device)
    for x in [torch.ones(4, 3)]:
        x = x.to(device)
        y = workaround(model, x) if device.type == "cuda" and torch.cuda.device_count() > 1 else model(x)
main()
"""
WORKAROUND = """import torch
def workaround(model, x):
    ids = list(range(torch.cuda.device_count()))
    {}
    return torch.nn.parallel.parallel_apply(replicas, [(x,)] * len(ids))
"""


@pytest.mark.parametrize(
    ("replicas", "is_kept"),
    [("replicas = torch.nn.parallel.replicate(model, ids)", True), ("replicas = [model] * len(ids)", False)],
)
def test_what_only_several_accelerators_lead_to_keeps_the_question_how_many_there_are(
    tmp_path: Path, replicas: str, is_kept: bool
) -> None:
    """Found in WaveRNN: with two XPUs, it came to torch.nn.parallel.replicate, which is made for CUDA alone."""
    files = {"train.py": SPREADS, "helpers.py": WORKAROUND.format(replicas)}
    after = texts_after(write_tree(tmp_path, files))["train.py"]
    assert "device = accel.device()" in after
    assert ("torch.cuda.device_count() > 1" in after) is is_kept


MAKES = """import torch
import maker
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(maker.make(device))
"""
CODES = """def code(device):
    if device.type not in {types}:
        raise ValueError(device)
    return device
"""


@pytest.mark.parametrize(
    ("types", "is_kept"), [('("cpu", "cuda")', True), ('("cpu", "cuda", "mps", "xpu", "npu")', False)]
)
def test_a_device_is_followed_over_two_imports_in_a_large_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: str, is_kept: bool
) -> None:
    monkeypatch.setattr(check, "LARGEST_GROUP", 3)
    files = {"run.py": MAKES, "maker.py": "import coder\ndef make(device):\n    return coder.code(device)\n"}
    files |= {"coder.py": CODES.format(types=types), "again.py": MAKES}
    results = planned(write_tree(tmp_path, files))
    assert isinstance(results["run.py"], Unchanged if is_kept else Changed)


TABLE = """import torch
TABLE = {table}
def size(x):
    return TABLE[x.device.type]
"""
ASKS = """import torch
from table import size
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(1).to(device)
print(size(x))
"""


@pytest.mark.parametrize(
    ("table", "is_kept"),
    [
        ('{"cuda": 1, "cpu": 2}', True),
        ('{"cuda": 1, "cpu": 2, "mps": 3, "xpu": 4, "npu": 5}', False),
        ('{"float": 1, "double": 2}', False),
    ],
)
def test_a_table_that_is_asked_for_a_tensors_device_keeps_the_tensor_where_it_was(
    tmp_path: Path, table: str, is_kept: bool
) -> None:
    root = write_tree(tmp_path, {"table.py": TABLE.format(table=table), "run.py": ASKS})
    assert isinstance(planned(root)["run.py"], Unchanged if is_kept else Changed)


def test_a_table_that_nothing_asks_keeps_nothing(tmp_path: Path) -> None:
    text = TABLE.format(table='{"cuda": 1, "cpu": 2}').replace("x.device.type", "'cpu'")
    assert isinstance(planned(write_tree(tmp_path, {"table.py": text, "run.py": ASKS}))["run.py"], Changed)


CHOSEN = """import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--no_cuda", action="store_true")
opt = parser.parse_args()
device = torch.device("cpu" if opt.no_cuda else "cuda")
model = torch.nn.Linear(2, 1)
{body}
"""
MOVED = 'if device.type == "cuda":\n    model = model.cuda()\nprint(model(torch.ones(1, 2, device=device)))'
TO_IT = 'if device.type == "cuda":\n    model = model.to(device)\nprint(model(torch.ones(1, 2, device=device)))'
AGAIN = 'if device.type == "cuda":\n    device = torch.device("cuda:0")\nprint(model.to(device))'
WRAPPED = """def wrap(model, device):
    if torch.initial_seed():
        torch.distributed.init_process_group("nccl")
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
        model.to(device)
    elif device.type == "cuda":
        model = torch.nn.DataParallel(model).cuda()
    return model
print(wrap(model, device)(torch.ones(1, 2, device=device)))"""
TOLD = 'if device.type == "cuda":\n    print("faster")\n    batch = 64\nprint(model(torch.ones(batch, 2)))'
CAUGHT = """if device.type == "cuda":
    try:
        model = model.cuda()
    except AssertionError:
        print("on the CPU")
print(model(torch.ones(1, 2)))"""


@pytest.mark.parametrize("body", [MOVED, TO_IT, AGAIN, WRAPPED])
def test_a_test_of_a_device_that_an_option_chooses_changes_with_the_device(tmp_path: Path, body: str) -> None:
    """Whoever chose CUDA where there is none died: that the test comes out otherwise harms nobody."""
    result = planned(write_tree(tmp_path, {"main.py": CHOSEN.format(body=body)}))["main.py"]
    assert isinstance(result, Changed)
    text = result.after.decode()
    assert "if accel.is_accelerated(device)" in text
    assert '"cuda"' not in text


@pytest.mark.parametrize("body", [TOLD, CAUGHT])
def test_a_test_of_a_device_stays_where_who_chose_cuda_ran_without_it(tmp_path: Path, body: str) -> None:
    assert isinstance(planned(write_tree(tmp_path, {"main.py": CHOSEN.format(body=body)}))["main.py"], Unchanged)


HELD_BELOW = """import torch
from dataclasses import dataclass, field
y = torch.ones(2)
if torch.cuda.is_available():
    y = y.cuda()
has_mps = torch.backends.mps.is_available()
x = torch.zeros(2, device="cuda" if torch.cuda.device_count() > 0 else "mps" if has_mps else "cpu")
print((x + (torch.ones(2).cuda() if x.get_device() >= 0 else torch.ones(2))).device)

@dataclass
class Settings:
    device: str = "cuda"
    gpu: bool = torch.cuda.is_available()

    def __post_init__(self):
        self.device = self.device if self.gpu else "cpu"
match Settings().device.split(":")[0]:
    case "cuda" if torch.cuda.is_available():
        print(torch.device("cuda"))
    case "mps" | "xpu":
        pass
    case "cpu":
        pass
    case other:
        raise ValueError("unknown device " + other)
print(torch.zeros(2, device=Settings().device).device)
"""


def test_one_edit_that_is_held_back_holds_no_others_however_they_are_written(tmp_path: Path) -> None:
    """Where `device = accel.device()` stands above, the place of an edit below is still found in the original."""
    result = planned(write_tree(tmp_path, {"main.py": HELD_BELOW}))["main.py"]
    assert isinstance(result, Changed)
    text = result.after.decode()
    assert 'device: str = "cuda"' in text
    assert "device=accel.device()" in text


UNDER_DEFAULT = """import torch
from scaled import scale
{guard}
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
net = torch.nn.Linear(2, 2)
x = torch.rand(1, 2)
if torch.cuda.is_available():
    x = x.cuda()
print(net(x) * scale(x.shape))
"""
ONLY_WITH_CUDA = "if torch.cuda.is_available():"


@pytest.mark.parametrize(
    ("guard", "made", "is_kept"),
    [
        (ONLY_WITH_CUDA, "torch.Tensor(shape)", True),
        (ONLY_WITH_CUDA, "torch.Tensor(shape).repeat(2)", True),
        (ONLY_WITH_CUDA, "torch.Tensor(shape).float().detach()", True),
        (ONLY_WITH_CUDA, "torch.Tensor(shape).to(torch.float16)", True),
        (ONLY_WITH_CUDA, "torch.Tensor(shape).type(torch.float32)", True),
        (ONLY_WITH_CUDA, "torch.Tensor(shape).detach().to(torch.get_default_device())", False),
        (ONLY_WITH_CUDA, "torch.tensor(shape)", False),
        (ONLY_WITH_CUDA, "torch.Tensor(shape).to(torch.get_default_device())", False),
        (ONLY_WITH_CUDA, "torch.nn.Parameter(torch.Tensor(shape))", False),
        ("if True:", "torch.Tensor(shape)", False),  # it died, and is told what is left to do
    ],
)
def test_a_default_that_torch_tensor_does_not_follow_stays(
    tmp_path: Path, guard: str, made: str, is_kept: bool
) -> None:
    """`torch.Tensor(...)` follows a CUDA tensor type, and no default device: on a Mac, all was on the CPU."""
    scaled = f"import torch\ndef scale(shape):\n    return {made}\n"
    root = write_tree(tmp_path, {"main.py": UNDER_DEFAULT.format(guard=guard), "scaled.py": scaled})
    assert isinstance(planned(root)["main.py"], Unchanged if is_kept else Changed)


BEHIND_A_DEATH = """import torch
def attend(q, bias, n):
    if n > 2:
        torch.cuda.synchronize()
        if bias is not None:
            assert bias.is_cuda
            bias = bias.expand(2, 2)
    return q, bias
"""


def test_a_refusal_behind_a_place_that_died_is_no_harm(tmp_path: Path) -> None:
    """Found in apex: a second run made the edit, as its group of files was another."""
    result = planned(write_tree(tmp_path, {"main.py": BEHIND_A_DEATH}))["main.py"]
    assert isinstance(result, Changed)
    assert "assert accel.is_accelerated(bias)" in result.after.decode()


@pytest.mark.parametrize(
    ("made", "is_left"),
    [("torch.Tensor(shape)", True), ("torch.tensor(shape)", False)],
)
def test_no_helper_comes_into_a_program_whose_devices_all_stay(tmp_path: Path, made: str, is_left: bool) -> None:
    """Found in ssd.pytorch: 54 lines of helper for a DataParallel beside a `.cuda()` that was held back."""
    scaled = f"import torch\ndef scale(shape):\n    return {made}\n"
    main = UNDER_DEFAULT.format(guard=ONLY_WITH_CUDA).replace("print(", 'net.load(torch.load("w.pt"))\nprint(')
    main = main.replace("x = torch.rand", "net = torch.nn.DataParallel(net)\nx = torch.rand")
    apart = "import torch\nx = torch.ones(1).cuda()\nnet = torch.nn.DataParallel(x)\n"
    found = planned(write_tree(tmp_path, {"main.py": main, "scaled.py": scaled, "apart.py": apart}))
    assert isinstance(found["main.py"], Unchanged) is is_left
    assert isinstance(found["apart.py"], Changed), "another program's devices come first there"
    told = [f.message for f in found["main.py"].findings if f.status is Status.LEFT]
    assert any("line 4: this device stays CUDA's, and its program with it" in t for t in told) is is_left, told


def test_a_program_that_stays_does_so_in_a_second_run(tmp_path: Path) -> None:
    """Found in first-order-model: the helper of another program's file counted as a choice of its own."""
    scaled = "import torch\ndef scale(shape):\n    return torch.Tensor(shape)\n"
    main = UNDER_DEFAULT.format(guard=ONLY_WITH_CUDA).replace("print(", "shared.wait()\nprint(")
    main = main.replace("x = torch.rand", "import shared\nnet = torch.nn.DataParallel(net)\nx = torch.rand")
    shared = "import torch\ndef wait():\n    torch.cuda.synchronize()\n"
    demo = "import torch\nimport shared\nnet = torch.nn.Linear(1, 1).cuda()\nshared.wait()\n"
    root = write_tree(tmp_path, {"main.py": main, "scaled.py": scaled, "shared.py": shared, "demo.py": demo})
    once = texts_after(root)
    assert once.keys() == {"shared.py", "demo.py", "accel.py"}
    assert texts_after(write_tree(tmp_path, once)) == {}


ITS_OWN_LADDER = """import torch
import torch.distributed as dist
def pick():
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
def setup(device_type, ranked=False):
    assert device_type in ["cuda", "mps", "cpu"]
    if ranked and device_type == "cuda":
        device = torch.device("cuda", 0)
        torch.cuda.set_device(device)
        dist.init_process_group(backend="nccl", device_id=device)
    else:
        device = torch.device(device_type)
    return device
if __name__ == "__main__":
    device_type = pick()
    device = setup(device_type)
    x = torch.ones(2, device=device)
    torch.cuda.synchronize()
    wait = torch.cuda.synchronize if device_type == "cuda" else lambda: None
    wait()
    print(x)
"""


def test_the_helper_comes_into_a_program_that_chooses_mps_itself(tmp_path: Path) -> None:
    """Found in nanochat: a bare `torch.cuda.synchronize()` stayed for a device that only CUDA's branch makes."""
    result = planned(write_tree(tmp_path, {"main.py": ITS_OWN_LADDER}))["main.py"]
    assert isinstance(result, Changed)
    after = result.after.decode()
    assert "\n    accel.synchronize()\n" in after
    assert 'wait = torch.cuda.synchronize if device_type == "cuda" else' in after, "only CUDA comes to this arm"


def test_a_helper_call_stays_where_a_device_of_its_program_is_rewritten(tmp_path: Path) -> None:
    """One device of the program is held back, another one is not: what goes with it is rewritten, too."""
    text = HALF + "net = torch.nn.DataParallel(torch.nn.Linear(1, 1)).to(device)\n"
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Changed)
    assert b"accel.data_parallel(" in result.after


OWN_LADDER = """import torch
def get_device():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
"""
SKIPS = 'pytest.mark.skipif(not {}, reason="needs a GPU")'
MARKED = {
    "a flag of a class": "class TestIt:\n    has_cuda = {cuda}\n    @{flag}\n    def test_it(_):\n        {body}\n",
    "a mark of the class": "@{mark}\nclass TestIt:\n    def test_it(self):\n        {body}\n",
    "a mark by name": "needs_gpu = {mark}\n@needs_gpu\ndef test_it():\n    {body}\n",
    "a mark of a function": "def needs_gpu():\n    return {mark}\n@needs_gpu()\ndef test_it():\n    {body}\n",
    "a mark of the file": "pytestmark = {mark}\ndef test_it():\n    {body}\n",
    "marks of the file": "pytestmark = [pytest.mark.slow, {mark}]\ndef test_it():\n    {body}\n",
    "a mark of unittest": "needs_gpu = unittest.skipUnless({cuda}, 'no GPU')\n@needs_gpu\ndef test_it():\n    {body}\n",
}


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize(
    ("body", "is_left"),
    [('assert get_device().type == "cuda"', True), ("assert torch.ones(2).cuda().sum() == 2", False)],
)
def test_a_test_that_fails_elsewhere_stays_skipped_there(tmp_path: Path, name: str, body: str, is_left: bool) -> None:
    """Found in torchtune: on a Mac, tests of `get_device` would no longer be skipped, and fail."""
    cuda = "torch.cuda.is_available()"
    parts = {"cuda": cuda, "mark": SKIPS.format(cuda), "flag": SKIPS.format("has_cuda"), "body": body}
    head = "import unittest\nimport pytest\nimport torch\nfrom chosen import get_device\n"
    files = {"chosen.py": OWN_LADDER, "tests/test_it.py": head + MARKED[name].format(**parts)}
    result = planned(write_tree(tmp_path, files))["tests/test_it.py"]
    assert isinstance(result, Unchanged if is_left else Changed)
    assert is_left or "accel.is_available()" in result.after.decode()  # type: ignore[union-attr]


def test_a_test_that_stays_holds_nothing_of_the_code_that_it_tries(tmp_path: Path) -> None:
    """Found in torchtune: a file of the package stayed as it was, as its only test did."""
    tried = "import torch\ndef start():\n    torch.cuda.synchronize()\n    return torch.load('w.pt')\n"
    test = "import torch\nfrom tried import start\ndef test_it():\n    torch.cuda.set_device(0)\n"
    test += "    open(str(torch.device('cuda', 0)))\n    start()\n"
    found = planned(write_tree(tmp_path, {"tried.py": tried, "tests/test_it.py": test}))
    assert isinstance(found["tried.py"], Changed)


TESTS_OF_DEVICES = """import pytest
import torch


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_number():
    assert torch.cuda.device_count() > 0


def place(name):
    return {"cpu": 0, "cuda": 1}[name]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_place():
    assert place(torch.ones(1, device="cuda").device.type) == 1
"""


def test_a_device_that_one_test_keeps_holds_no_other_test_back(tmp_path: Path) -> None:
    """Found in ignite: nothing of a file of tests was rewritten, as one of them keeps its device."""
    result = planned(write_tree(tmp_path, {"tests/test_devices.py": TESTS_OF_DEVICES}))["tests/test_devices.py"]
    assert isinstance(result, Changed)
    assert b"assert accel.device_count() > 0" in result.after
    assert b'place(torch.ones(1, device="cuda")' in result.after


@pytest.mark.parametrize(("name", "is_left"), [("torch", False), ("checks", True)])
def test_a_module_of_a_package_is_not_what_an_installed_one_is(tmp_path: Path, name: str, is_left: bool) -> None:
    """Found in mamba: its utils/torch.py was taken for torch, and no device of a test seemed to reach torch."""
    test = f"import torch\nimport {name}\ndef test_it():\n    device = 'cuda'\n    {name}.ones(2, device=device)\n"
    files = {"pkg/__init__.py": "", "pkg/utils/__init__.py": "", f"pkg/utils/{name}.py": "def f(): pass\n"}
    result = planned(write_tree(tmp_path, files | {"tests/test_it.py": test}))["tests/test_it.py"]
    assert isinstance(result, Unchanged if is_left else Changed)


SCALED = """import torch
from {} import NativeScaler
def train(model, autocast, scaler, device):
    with autocast():
        loss = model(torch.ones(2).to(device)).sum()
    scaler(loss, None)
device = torch.device("cuda")
train(torch.nn.Linear(2, 2).to(device), torch.cuda.amp.autocast, NativeScaler(), device)
"""


@pytest.mark.parametrize(("library", "is_left"), [("timm.utils", True), ("timm.optim", False)])
def test_mixed_precision_stays_with_a_scaler_of_a_library(tmp_path: Path, library: str, is_left: bool) -> None:
    """Found in poolformer, which died without CUDA before it came to either."""
    result = planned(write_tree(tmp_path, {"main.py": SCALED.format(library)}))["main.py"]
    assert b"torch.device(" not in result.after
    assert (b"torch.cuda.amp.autocast" in result.after) is is_left
    said = [f.message for f in result.findings if "autocast" in f.rule]
    assert all("the gradients' scaler stays CUDA's" in message for message in said) and bool(said) is is_left


CAM = """import argparse
import torch
{}
parser = argparse.ArgumentParser()
parser.add_argument("--use-cuda", action="store_true")
args = parser.parse_args()
args.use_cuda = args.use_cuda and torch.cuda.is_available()
with {}["cam"](use_cuda=args.use_cuda) as made:
    print(made)
"""
OWN_CAM = """class Cam:
    def __init__(self, use_cuda):
        self.kind = "cuda" if use_cuda else "cpu"
METHODS = {"cam": Cam}
"""


@pytest.mark.parametrize(
    ("start", "methods", "is_left"),
    [("from cams import GradCAM", "{'cam': GradCAM}", True), ("from own import METHODS", "METHODS", False)],
)
def test_a_flag_for_cuda_is_not_handed_to_what_is_not_known(
    tmp_path: Path, start: str, methods: str, is_left: bool
) -> None:
    """Found in poolformer: pytorch_grad_cam calls `.cuda()` where it is told to use CUDA."""
    text = CAM.format(start, methods)
    result = planned(write_tree(tmp_path, {"main.py": text, "own.py": OWN_CAM}))["main.py"]
    assert isinstance(result, Unchanged) is is_left


@pytest.mark.parametrize(
    ("name", "setup", "is_left"),
    [("use_cuda_if_available", True, True), ("use_cuda_if_available", False, False), ("best_device", True, False)],
)
def test_a_function_named_for_cuda_keeps_its_answer_where_others_ask_it(
    tmp_path: Path, name: str, setup: bool, is_left: bool
) -> None:
    """Found in pytorch-metric-learning, whose users bring the model, and keep it on the CPU."""
    tools = f"import torch\ndef {name}():\n    return torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    files = {"pkg/__init__.py": "", "pkg/tools.py": tools}
    files["pkg/use.py"] = f"import torch\nfrom .tools import {name}\nprint(torch.ones(2).to({name}()))\n"
    files |= {"setup.py": "from setuptools import setup\nsetup(name='x', packages=['pkg'])\n"} if setup else {}
    result = planned(write_tree(tmp_path, files))["pkg/tools.py"]
    assert isinstance(result, Unchanged) is is_left


PAIRS = """import itertools
import pytest
import torch
kind = "cuda"
devices = ("cpu", kind) if torch.cuda.is_available() else ("cpu",)
@pytest.mark.parametrize("device, size", PAIRS)
def test_it(device, size):
    assert torch.ones(size).to(device).sum() == size
"""


@pytest.mark.parametrize(
    ("pairs", "is_left"),
    [
        ("itertools.product(devices, [2, 3])", True),
        ("[(d, 2) for d in devices]", True),
        ("[('cpu', len(devices))]", False),
    ],
)
def test_devices_reach_a_test_beside_other_parameters(tmp_path: Path, pairs: str, is_left: bool) -> None:
    """Found in advertorch: more tests would run, on a device that stays."""
    result = planned(write_tree(tmp_path, {"test_it.py": PAIRS.replace("PAIRS", pairs)}))["test_it.py"]
    assert isinstance(result, Unchanged) is is_left


@pytest.mark.parametrize("name", ["torch", "plain"])
def test_a_folder_called_torch_hides_torch_from_nobody(tmp_path: Path, name: str) -> None:
    """Found in GPT-SoVITS, by BigVGAN's `alias_free_activation/torch`: no test for CUDA was followed."""
    text = "import torch\nx = torch.ones(2)\nif torch.cuda.is_available():\n    x = x.cuda()\nprint(x.sum())\n"
    files = {f"gan/act/{name}/__init__.py": "from .act import f\n", f"gan/act/{name}/act.py": "def f(): pass\n"}
    result = planned(write_tree(tmp_path, files | {"main.py": text, f"gan/act/{name}/run.py": text}))
    assert all(isinstance(result[path], Changed) for path in ("main.py", f"gan/act/{name}/run.py"))


@pytest.mark.parametrize(("library", "is_left"), [("mpi4py", False), ("somewhere", True)])
def test_a_library_that_knows_no_devices_holds_no_code_of_cuda(tmp_path: Path, library: str, is_left: bool) -> None:
    """Found in improved-diffusion, where the rank of MPI is the index of the device."""
    text = f"import torch\nfrom {library} import MPI\ndef dev():\n    if torch.cuda.is_available():\n"
    text += "        return torch.device(f'cuda:{MPI.rank()}')\n    return torch.device('cpu')\n"
    text += "print(torch.ones(1).to(dev()))\n"
    result = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(result, Unchanged if is_left else Changed)


LOADER = """import torch
from {name} import Loader
loader = Loader([1, 2], device={device})
model = torch.nn.Linear(2, 2).cuda()
for batch in loader:
    model(batch)
"""


@pytest.mark.parametrize(
    ("device", "name", "reason"),
    [
        ('"cuda"', "pkg.data", ""),
        ('"cuda"', "pkg.sub.data", ""),
        ('"cuda:0"', "pkg.data", "`Loader`, which is not seen to hand it to torch"),
        ('"cuda"', "other.data", "other, which may have devices of its own"),  # whose folder is not installed
        ('"cuda"', "absent.data", "absent, which may have devices of its own"),
    ],
)
def test_a_module_of_an_installed_package_that_is_not_here_is_no_other_library(
    tmp_path: Path, device: str, name: str, reason: str
) -> None:
    """Found in pytorch-struct, whose examples import a module that moved."""
    files = {"setup.py": "from setuptools import setup\nsetup(name='x', packages=['pkg'])\n", "pkg/__init__.py": ""}
    files |= {"examples/tree.py": LOADER.format(name=name, device=device), "third/other/__init__.py": ""}
    result = planned(write_tree(tmp_path, files))["examples/tree.py"]
    assert isinstance(result, Changed)
    assert (device.encode() in result.after) == bool(reason)
    assert any(reason in f.message for f in result.findings) == bool(reason)


def test_an_assertion_of_a_tensor_type_refuses_no_other_devices_than_before(tmp_path: Path) -> None:
    """Found in jukebox: on CUDA it seemed to refuse the CPU anew, as what it asks of became a device."""
    text = "import torch\nclass Prior(torch.nn.Module):\n    def forward(self, x):\n        x = x.long()\n"
    text += "        assert isinstance(x, torch.cuda.LongTensor)\n        return x\n"
    result = planned(write_tree(tmp_path, {"prior.py": text}))["prior.py"]
    assert isinstance(result, Changed)
    assert "assert accel.is_accelerated(x) and x.dtype == torch.int64" in result.after.decode()


def test_a_file_that_calls_the_helper_of_its_package_imports_no_torch_for_it(tmp_path: Path) -> None:
    """Found in InvokeAI: the choice was written out with torch's own functions first, and `import torch` stayed."""
    settings = (
        "[project]\nname = 'pkg'\nversion = '1'\ndependencies = ['torch>=2.7']\n[tool.setuptools]\npackages = ['pkg']\n"
    )
    load = """from pkg.memory import said
from safetensors.torch import load_file
def main(x):
    model = load_file("x")
    if x:
        model = model.to("cuda")
    else:
        model = model.to("cuda")
    return model
"""
    files = {
        "pyproject.toml": settings,
        "pkg/__init__.py": "",
        "pkg/load.py": load,
        "pkg/memory.py": "import torch\nsaid = torch.cuda.memory_summary()\n",
    }
    found = planned(write_tree(tmp_path, files))["pkg/load.py"]
    assert isinstance(found, Changed)
    text = found.after.decode()
    assert "device = accel.device()" in text
    assert "import torch\n" not in text


NAMING = """import pytest
import torch
from pool import Pool, is_fast
def make(device="cuda"):
    pool = Pool()
    pool.device = torch.device(device)
    return pool
def test_it():
    pool = make()
    with pytest.raises(RuntimeError):
        with pool:
            raise RuntimeError("no")
    assert pool.lent() == torch.device("cuda:0")
    assert is_fast(torch.device("cuda"))
"""
POOL = """import torch
class Pool:
    def __enter__(self): return self
    def __exit__(self, *_): return None
    def lent(self): return self.device
def is_fast(device):
    if device.type == "cuda":
        return True
    if device.type != "xpu":
        return False
    return bool(torch.zeros(2).to(normal(device)).sum() == 0)
"""


def test_devices_that_a_test_expects_stay_where_torch_gets_others(tmp_path: Path) -> None:
    """Found in InvokeAI: behind `pytest.raises`, as a default, and beside devices that the code hands to torch."""
    found = planned(write_tree(tmp_path, {"pool.py": POOL, "tests/test_pool.py": NAMING}))["tests/test_pool.py"]
    assert isinstance(found, Unchanged)
    left = {f.line for f in found.findings if f.status is Status.LEFT}
    assert left >= {4, 13, 14}


APART = """import pytest
import torch
@pytest.mark.parametrize("device", [
    pytest.param({cuda}, marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")),
    pytest.param({mps}, marks=pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no MPS")),
])
def test_both(device):
    torch.ones(2, device=device)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_one():
    torch.ones(2).cuda()
"""


@pytest.mark.parametrize("form", ["{!r}", "torch.device({!r})"])
def test_a_device_beside_another_one_keeps_its_mark_and_holds_no_other_test(tmp_path: Path, form: str) -> None:
    """Found in InvokeAI: `pytest.param("cuda", marks=...)` came to run where there is another accelerator."""
    text = APART.format(cuda=form.format("cuda"), mps=form.format("mps"))
    result = planned(write_tree(tmp_path, {"test_it.py": text}))["test_it.py"]
    assert isinstance(result, Changed)
    after = result.after.decode()
    assert f"pytest.param({form.format('cuda')}, marks=pytest.mark.skipif(not torch.cuda.is_available()" in after
    assert "@pytest.mark.skipif(not accel.is_available()" in after
    assert "torch.ones(2, device=accel.device())" in after or "torch.ones(2).to(accel.device())" in after


ENVIRONMENT = """import torch
def cuda_environment():
    device = torch.cuda.current_device()
    print(torch.cuda.get_device_properties("cuda:{}".format(device)).name)
"""
TRAINER = """import torch
from environment import cuda_environment
cuda = TEST
if cuda:
    cuda_environment()
"""


@pytest.mark.parametrize("largest", [40, 1])
@pytest.mark.parametrize(
    ("test", "is_kept"), [("torch.cuda.is_available() and torch.version.cuda is not None", True), ("True", False)]
)
def test_a_file_without_edits_says_where_a_function_of_another_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int, test: str, is_kept: bool
) -> None:
    monkeypatch.setattr(check, "LARGEST_GROUP", largest)
    root = write_tree(tmp_path, {"environment.py": ENVIRONMENT, "trainer.py": TRAINER.replace("TEST", test)})
    results = planned(root)
    assert isinstance(results["trainer.py"], Unchanged)
    assert isinstance(results["environment.py"], Unchanged if is_kept else Changed)


FOLLOWED = {
    "the same flag was asked before": """import argparse
import torch
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--dist-backend", default="nccl", type=str)
parser.add_argument("--many", action="store_true")
def main():
    args.distributed = args.world_size > 1 or args.many
    count = torch.cuda.device_count()
    if args.many:
        args.world_size = count * args.world_size
    if args.distributed:
        if args.dist_url == "env://" and args.rank == -1:
            args.rank = args.rank * count + gpu
        dist.init_process_group(backend=args.dist_backend, world_size=args.world_size, rank=args.rank)
    if args.distributed:
        model.cuda(args.gpu)
""",
    "an assertion is about the same device": """import torch
def check(gpu):
    found = torch.ones(2).cuda(gpu)
    assert found.equal(torch.ones(2, device=f"cuda:{gpu}"))
    print(torch.zeros(2, device=f"cuda:{gpu}"))
def main(count):
    for gpu in range(count):
        check(gpu)
""",
    "a program ends before it comes to a device": """import sys
import torch
class Clipper:
    def __init__(self, fused):
        if fused.available:
            self.buffer = torch.cuda.nccl.version()
        else:
            raise RuntimeError("clipping requires extensions")
def main(fused):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    count = torch.cuda.device_count()
    model = torch.nn.Linear(2, 2).to(device)
    if len(sys.argv) > 1:
        clipper = Clipper(fused)
        for batch in range(3):
            if count == 1:
                model(torch.ones(2, 2).to(device))
""",
    "a device is asked like its text": """import argparse
import torch
def place(x):
    number = x.get_device()
    return torch.device(f"cuda:{number}") if number >= 0 else torch.device("cpu")
def seed(options):
    if options.device.startswith("cuda"):
        print(torch.cuda.current_device())
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu", choices=["cpu", "cuda:0"])
options = parser.parse_args()
seed(options)
options.device = torch.device(options.device)
print(torch.ones(2).to(place(torch.ones(2))), options.device)
""",
    "a global is set behind a place that died": """import torch
device = None
def forward(run, partition, *args):
    global device
    if partition:
        if device is None:
            device = torch.cuda.current_device()
            stream = torch.cuda.Stream(device=device)
    return run(*args)
""",
    "a table is filled by what cannot be followed": """import torch
def evaluate(settings):
    print(settings["id"])
def main(options):
    settings = {"split": "val", "id": "1"}
    if torch.cuda.is_available():
        settings = {"split": "val"}
        settings.update(vars(options))
    evaluate(settings)
    model = torch.nn.Linear(2, 2)
    if torch.cuda.is_available():
        model.cuda()
""",
    "no tensor has a type of CUDA elsewhere": """import torch
class Net(torch.nn.Module):
    def forward(self, x):
        if isinstance(x.data, torch.cuda.FloatTensor) and self.count > 1:
            return self.main(x)
        return self.main(x.contiguous())
""",
    "what may be a device keeps its attributes": """import torch
class Optimizer:
    def __init__(self, groups):
        for group in groups:
            for i, param in enumerate(group["params"]):
                if param.requires_grad:
                    if param.type() == "torch.cuda.HalfTensor":
                        master = param.detach().clone().float()
                        master.requires_grad = True
                        group["params"][i] = master
                    elif param.type() == "torch.cuda.FloatTensor":
                        group["params"][i] = param
                    else:
                        raise TypeError("a parameter must be on a GPU, not " + param.type())
""",
    "both ways to a device died": """import torch
class Classifier:
    def __init__(self, params):
        if params["hidden"] == 0:
            self.model = torch.nn.Sequential(torch.nn.Linear(2, 2)).cuda()
        else:
            self.model = torch.nn.Sequential(torch.nn.Linear(params["hidden"], 2)).cuda()
        self.loss = torch.nn.CrossEntropyLoss().cuda()
class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = torch.nn.LSTM(2, 2)
    def is_cuda(self):
        return self.enc.bias_hh_l0.data.is_cuda
    def encode(self, batch):
        if self.is_cuda():
            batch = batch.cuda()
        return self.enc(batch)
def run(params):
    words = Words()
    words.encode(torch.ones(2))
    Classifier(params)
""",
}


@pytest.mark.parametrize("text", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_a_decision_that_can_be_followed_is_rewritten_as_a_whole(tmp_path: Path, text: str) -> None:
    found = planned(write_tree(tmp_path, {"main.py": text}))["main.py"]
    assert isinstance(found, Changed)
    left = (f.message for f in found.findings if f.status is Status.LEFT)
    assert [message for message in left if "left alone: line" in message] == []


def test_a_test_that_comes_to_run_may_make_a_device_that_another_caller_names(tmp_path: Path) -> None:
    metric = """import torch
class Usage:
    def __init__(self, *args):
        super().__init__()
class Metric:
    def __init__(self, device=torch.device("cpu")):
        if torch.device(device).type == "xla":
            raise ValueError("no metric is made on XLA")
"""
    test = """import pytest
import torch
from metric import Metric
class First(Metric):
    pass
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_completed():
    class Second(Metric):
        def compute(self):
            return torch.ones(2, device="cuda")
    assert Second().compute().sum() == 2
"""
    found = planned(write_tree(tmp_path, {"metric.py": metric, "test_metric.py": test}))["test_metric.py"]
    assert isinstance(found, Changed)
    assert b"cuda" not in found.after


HANDED = """import os
import torch
import other
def one():
    return other.generator("cuda" if torch.cuda.is_available() else "cpu")
def two(x):
    return x.cuda()
"""
OTHER = """import ctranslate2
import torch
def three(x):
    return x.cuda()
def generator(device):
    return ctranslate2.Generator("x", device=device)
"""


def test_reasons_tell_lines_as_the_rewritten_files_have_them(tmp_path: Path) -> None:
    """Found in audiocraft: an entry for line 50 said that line 49, which was the same, is handed to demucs."""
    found = planned(write_tree(tmp_path, {"main.py": HANDED, "other.py": OTHER}))
    assert b"x.to(accel.device())" in found["other.py"].after
    lines = found["other.py"].after.decode().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if "ctranslate2.Generator" in line)
    assert number == OTHER.splitlines().index('    return ctranslate2.Generator("x", device=device)') + 2
    left = [f for f in found["main.py"].findings if f.held]
    assert left
    assert all(f.held.startswith(f"other.py, line {number}: this device is handed to ctranslate2") for f in left)
    assert all(f"(left alone: {f.held})" in f.message for f in left)
    for name in ("main.py", "other.py"):  # the second run reads on in a file that names the helper alone
        (tmp_path / name).write_bytes(found[name].after)
    assert isinstance(planned(tmp_path)["main.py"], Unchanged)


def test_what_runs_with_python_2_alone_is_left(tmp_path: Path) -> None:
    move = "def move(x):\n    return x.cuda()\n"
    files = {
        "main.py": f"import torch\nimport batch, lib, model\n{move}",
        "start.py": f"import torch\nimport main\n{move}",
        "model.py": f"import torch\nprint 'a model'\n{move}",
        "batch.py": f"import torch\n{move}",  # only main.py imports it
        "lib.py": f"import torch\n{move}",
        "new.py": f"import torch\nimport lib\n{move}",
    }
    write_tree(tmp_path, files)
    found = planned(tmp_path, "apply")
    assert {name for name, result in found.items() if isinstance(result, Changed)} == {"lib.py", "new.py", "accel.py"}
    left = planned(tmp_path, "check")["start.py"].findings
    assert "runs together with model.py, which looks like Python 2" in left[0].message


@pytest.mark.parametrize(("line", "kind"), [("print 'a model'", Unchanged), ("x = = 1", Changed)])
def test_a_notebook_of_python_2_is_left(tmp_path: Path, line: str, kind: type) -> None:
    """Found in CSRNet-pytorch: its helper is no Python 2, and the cell that was not read moved to CUDA, too."""
    cells = ["import torch\nmodel = torch.nn.Linear(2, 2)\nmodel.cuda()", f"{line}\nx = torch.ones(2).cuda()"]
    made = ({"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells)
    book = {"cells": [*made], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    write_tree(tmp_path, {"val.ipynb": json.dumps(book)})
    assert isinstance(planned(tmp_path)["val.ipynb"], kind)


@pytest.mark.parametrize(("line", "is_old"), [("print 'read'", True), ("print('read')", False)])
def test_what_runs_with_a_file_of_python_2_that_names_no_device_is_left(
    tmp_path: Path, line: str, is_old: bool
) -> None:
    """Found in fpn.pytorch: its data sets are Python 2's, and nothing else of a run reads them."""
    main = "import torch\nimport data\ndef move(x):\n    return x.cuda()\n"
    found = planned(write_tree(tmp_path, {"main.py": main, "data.py": "import voc\n", "voc.py": f"{line}\n"}), "apply")
    assert isinstance(found["main.py"], Unchanged) is is_old
    assert any("runs together with voc.py, which" in f.message for f in found["main.py"].findings) is is_old


@pytest.mark.parametrize("word", ["async", "non_blocking"])
def test_what_runs_only_with_a_file_that_new_pythons_do_not_read_is_left(tmp_path: Path, word: str) -> None:
    """Found in manifold_mixup: its main program stayed as it was, and all that it imports took the helper."""
    files = {
        "main.py": f"import torch\nimport nets\nx = torch.zeros(3).cuda({word}=True)\n",
        "nets.py": "import torch\ndef zeros():\n    return torch.zeros(3).cuda()\n",
        "look.py": "import torch\nimport shared\n",
        "new.py": "import torch\nimport look\ntorch.zeros(3).cuda()\n",
        "shared.py": "import torch\ndef ones():\n    return torch.ones(3).cuda()\n",
    }
    found = planned(write_tree(tmp_path, files), "apply")
    is_old = word == "async"
    assert isinstance(found["nets.py"], Unchanged) is is_old
    assert any("main.py, which no Python since 3.7 reads" in f.message for f in found["nets.py"].findings) is is_old
    assert isinstance(found["shared.py"], Changed)


@pytest.mark.parametrize(("line", "is_old"), [("import cPickle", True), ("import pickle as cPickle", False)])
def test_what_runs_with_a_module_that_python_3_renamed_is_left(tmp_path: Path, line: str, is_old: bool) -> None:
    """Found in bottom-up-attention-vqa: its data set imports cPickle, and the helper is no Python 2."""
    files = {
        "main.py": "import torch\nimport data\nprint(torch.zeros(3).cuda())\n",
        "data.py": f"{line}\nimport utils\nprint('cuda')\n",
        "tools/score.py": f"{line}\nimport sys\nsys.path.append('.')\nimport utils\n",
        "utils.py": "import torch\ndef load(path):\n    return torch.load(path).cuda()\n",
    }
    found = planned(write_tree(tmp_path, files), "apply")
    for name in ("main.py", "utils.py"):
        assert isinstance(found[name], Unchanged) is is_old
        assert any(", which looks like Python 2" in f.message for f in found[name].findings) is is_old


@pytest.mark.parametrize(
    ("page", "line", "is_old"),
    [
        ("Python >= 2.7", "rows = xrange(3)", True),
        ("Python >= 2.7 or 3.5", "rows = xrange(3)", False),
        ("Python >= 2.7", "xrange = range\nrows = xrange(3)", False),
        ("Python >= 2.7", "from six.moves import xrange\nrows = xrange(3)", False),
    ],
)
def test_what_calls_builtins_of_python_2_is_left_where_readme_speaks_of_that_alone(
    tmp_path: Path, page: str, line: str, is_old: bool
) -> None:
    """Found in treelstm.pytorch: Python 2 cannot read the helper, and its programs ended where they import it."""
    files = {"README.md": page, "main.py": f"import torch\n{line}\nprint(torch.zeros(3).cuda())\n"}
    assert isinstance(planned(write_tree(tmp_path, files), "apply")["main.py"], Unchanged) is is_old


@pytest.mark.parametrize("reader", ["", "from settings import train\n"], ids=["by its path", "as a module"])
def test_settings_that_are_read_by_their_path_import_no_helper(tmp_path: Path, reader: str) -> None:
    """Found in pytorch-auto-drive: its programs write the names of 94 such files as JSON, and died of a module."""
    files = {
        "main.py": f"import torch\n{reader}def main(train):\n    torch.nn.Linear(2, 2).to(train['device'])\n",
        "settings.py": "import os\ntrain = dict(\n    device='cuda',\n    save=os.curdir,\n)\ntrain.update(rows=2)\n",
    }
    found = planned(write_tree(tmp_path, files), "check")["settings.py"].findings  # type: ignore[union-attr]
    assert ["change them by hand" in f.message for f in found] == [not reader]


def test_the_message_of_an_assertion_stays_with_what_it_asserts(tmp_path: Path) -> None:
    """Found in metaseq: the assertion asked CUDA for its devices, and its message any accelerator."""
    text = """import ctranslate2
import torch
def init():
    assert 1 <= torch.cuda.device_count(), f"{torch.cuda.device_count()} devices"
    return ctranslate2.Translator("small", device="cuda")
def other():
    assert 1 <= torch.cuda.device_count(), f"{torch.cuda.device_count()} devices"
    return torch.ones(1).cuda()
if __name__ == "__main__":
    init()
"""
    after = texts_after(write_tree(tmp_path, {"run.py": text}))["run.py"]
    assert 'assert 1 <= torch.cuda.device_count(), f"{torch.cuda.device_count()} devices"' in after
    assert 'assert 1 <= accel.device_count(), f"{accel.device_count()} devices"' in after


@pytest.mark.parametrize(
    ("chosen", "changes"),
    [('"cpu" if not torch.cuda.is_available() else args.device', False), ("args.device", True)],
    ids=["behind a test that stays", "alone"],
)
def test_a_default_that_only_cuda_comes_to_stays(tmp_path: Path, chosen: str, changes: bool) -> None:
    """Found in brain-segmentation-pytorch: its default changed, and its test stayed for who says `--device cuda`."""
    text = f"""import argparse
import torch
def main(args):
    torch.nn.Linear(2, 2).to(torch.device({chosen}))
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    main(parser.parse_args())
"""
    assert isinstance(planned(write_tree(tmp_path, {"train.py": text}))["train.py"], Changed) is changes


PLACED = """import torch
def get_device(tensor):
    device = torch.device("cpu")
    if tensor.is_cuda:
        device = tensor.get_device()
    return device
def template():
    return {"points": None}
def fill(device):
    data = template()
    data["points"] = torch.ones(2).to(device)
    return data
def spread(data, grid):
    return grid.to(get_device(data["points"]))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
spread(fill(device), torch.zeros(2))
"""


def test_a_tensor_that_is_not_followed_gives_its_place(tmp_path: Path) -> None:
    """Found in latent_ode and Greedy_InfoMax, whose functions give the place of a batch: nothing was rewritten."""
    found = planned(write_tree(tmp_path, {"plot.py": PLACED}))["plot.py"]
    assert isinstance(found, Changed)
    assert b"device = tensor.device" in found.after
    assert b"device = accel.device()" in found.after


STREAM = """import contextlib
{imported}import torch
class Model:
    def __init__(self, net):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        {handed}
        self.net = net.to(self.device)
        self.context = contextlib.nullcontext()
        if torch.cuda.is_available():
            self.context = torch.cuda.stream(torch.cuda.Stream({given}self.device))
Model(torch.nn.Linear(2, 2))
"""


@pytest.mark.parametrize("given", ["", "device="])
@pytest.mark.parametrize(
    ("imported", "handed", "changes"),
    [("import ctranslate2\n", 'ctranslate2.Translator("x", device=self.device.type)', False), ("", "pass", True)],
    ids=["stays", "moves"],
)
def test_a_stream_of_a_device_stays_with_it(
    tmp_path: Path, given: str, imported: str, handed: str, changes: bool
) -> None:
    """Found in CosyVoice: XPU's stream refuses the CPU, where a device had stayed and the test before it changed."""
    text = STREAM.format(imported=imported, handed=handed, given=given)
    found = planned(write_tree(tmp_path, {"model.py": text}))["model.py"]
    assert isinstance(found, Changed) is changes
    if changes:
        assert b"accel.stream(accel.Stream(" in found.after
    else:
        assert any("a stream of the CPU would be reached on" in f.message for f in found.findings)


@pytest.mark.parametrize(("use", "changes"), [("x.type(FLOAT)", False), ("FLOAT(x)", True)])
def test_a_tensor_type_that_another_file_casts_to_stays(tmp_path: Path, use: str, changes: bool) -> None:
    """Found in pytorch-ddpg: `x.type` refuses what the helper has in place of CUDA's type on MPS, XPU and NPU."""
    types = "import torch\nFLOAT = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n"
    uses = f"from types_here import FLOAT\ndef made(x):\n    return {use}\n"
    found = planned(write_tree(tmp_path, {"types_here.py": types, "use.py": uses}))["types_here.py"]
    assert isinstance(found, Changed) is changes
    assert changes or any("use.py, line 3: `.type` of a type" in f.message for f in found.findings)


@pytest.mark.parametrize(("index", "changes"), [("5", False), ("-1", True)])
def test_a_letter_of_a_device_stays_where_another_device_has_none(tmp_path: Path, index: str, changes: bool) -> None:
    """Found in AGCRN: `"xpu:0"[5]` raises, where `"cuda:0"[5]` is the number."""
    text = f"""import torch
DEVICE = "cuda:0"
if torch.cuda.is_available():
    torch.cuda.set_device(int(DEVICE[{index}]))
else:
    DEVICE = "cpu"
torch.nn.Linear(2, 2).to(DEVICE)
"""
    found = planned(write_tree(tmp_path, {"run.py": text}))["run.py"]
    assert isinstance(found, Changed) is changes
    assert changes or any('"[5] would be reached on' in f.message for f in found.findings)


def test_xpu_is_asked_where_mps_alone_is_left_out(tmp_path: Path) -> None:
    """Found in AGCRN: what is chosen for XPU and not for MPS was evaluated for MPS alone."""
    text = """import numpy as np
import torch
DEVICE = "cuda:0"
if torch.cuda.is_available():
    torch.cuda.set_device(int(DEVICE[5]))
else:
    DEVICE = "cpu"
torch.from_numpy(np.random.rand(3)).to(DEVICE)
"""
    found = planned(write_tree(tmp_path, {"run.py": text}))["run.py"]
    assert any("would be reached on XPU" in f.message for f in found.findings)


DEFAULT = """import torch
def validate(net, data, device="cuda:0"):
    if {test}:
        net = torch.nn.DataParallel(net).to(device)
    else:
        net = net.to({other})
    for images in data:
        net(images.to(device))
"""


@pytest.mark.parametrize(
    ("test", "other"),
    [
        ('"cuda" in device', "device"),
        ('device.startswith("cuda")', "device"),
        ('device == "cuda:0"', "device"),
        ('"cuda" in device', '"cpu"'),
    ],
)
def test_a_default_changes_beside_its_test(tmp_path: Path, test: str, other: str) -> None:
    """Found in once-for-all: who says "cuda" without CUDA dies in the other branch, as in the first one before."""
    found = planned(write_tree(tmp_path, {"nets.py": DEFAULT.format(test=test, other=other)}))["nets.py"]
    assert isinstance(found, Changed)
    assert b"device = str(accel.device(0))" in found.after
    is_whole = b"accel.data_parallel(net)" in found.after
    assert is_whole is (other == '"cpu"')  # else a Mac's user may say "mps", and comes to the other branch


def test_a_handler_that_raises_again_demands_the_library(tmp_path: Path) -> None:
    """Found in CCNet, which cannot start without apex."""
    text = "try:\n    from apex.parallel import DistributedDataParallel\nexcept ImportError:\n    {}\n"
    files = {"a.py": text.format('raise ImportError("Please install apex")'), "b.py": text.format("pass")}
    found = planned(write_tree(tmp_path, {**files, "c.py": "import torch\ntorch.ones(2).cuda()\n"}))
    told = {name: [f.status for f in found[name].findings] for name in files}
    assert told == {"a.py": [Status.OPEN], "b.py": [Status.LEFT]}


BLOCK = """import torch
class DropBlock(torch.nn.Module):
    def forward(self, x):
        mask = torch.ones(2)
        if torch.cuda.is_available():
            mask = mask.cuda()
        return mask * x
"""
PROGRAM = """import torch
import accel
from block import DropBlock
if __name__ == '__main__':
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), DropBlock())

    if torch.cuda.is_available():
        model = MOVED
    model(torch.ones(2))
"""


@pytest.mark.parametrize("line", ["", "    device = accel.device()\n"], ids=["alone", "with a line of its own"])
@pytest.mark.parametrize(
    ("moved", "new"),
    [
        ("model.cuda()", "model.to(accel.device())"),
        ("model.type(torch.cuda.HalfTensor)", "accel.cast(model, torch.half)"),
    ],
    ids=["move", "cast"],
)
def test_a_program_is_checked_also_where_a_line_is_put_into_it(tmp_path: Path, line: str, moved: str, new: str) -> None:
    """Found in FEAT: with such a line the program was taken for one that never runs; and casts were no moves."""
    before = PROGRAM.replace("MOVED", moved)
    write_tree(tmp_path, {"block.py": BLOCK, "train.py": before})
    path = str(tmp_path / "train.py")
    at, asked, of = before.index("    if torch"), before.index("torch.cuda.is_available"), before.index(moved)
    edits = [Edit(asked, asked + len("torch.cuda.is_available"), "accel.is_available"), Edit(of, of + len(moved), new)]
    edits = [*([Edit(at, at, line)] if line else ()), *edits]
    after = compose(before.encode(), edits)
    facts = ProjectContext(tmp_path, Settings(root=tmp_path), files=(path, str(tmp_path / "block.py")))
    held = Check(facts).held_back([Rewritten(path, before.encode(), after, tuple(edits))])
    assert any("block.py, line 6: this device stays the CPU" in why for why in held.get(path, {}).values())


@pytest.mark.parametrize(("use", "changes"), [("x.type(kind)", False), ("kind(2, 2) * x", True)])
def test_a_tensor_type_without_a_choice_stays_where_it_is_cast_to(tmp_path: Path, use: str, changes: bool) -> None:
    """Found in svg, whose scripts died of CUDA's type, and would have died of the helper's."""
    text = "import torch\nfrom use import made\nkind = torch.cuda.FloatTensor\nprint(made(torch.ones(2), kind))\n"
    waits = "import torch\ndef wait():\n    torch.cuda.synchronize()\n"
    files = {"train.py": text, "use.py": f"{waits}def made(x, kind):\n    return {use}\n"}
    found = planned(write_tree(tmp_path, files))["train.py"]
    assert isinstance(found, Changed) is changes


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (
            "def init_dist(backend='nccl', **kwargs):\n    dist.init_process_group(backend=backend, **kwargs)\n",
            "hands it",
        ),
        ("def init_dist(**kwargs):\n    dist.init_process_group('nccl', **kwargs)\n", "change them by hand"),
        ("from mmcv.runner import init_dist\ndef init(b):\n    dist.init_process_group(b)\n", "change them by hand"),
    ],
    ids=["the project's own start", "a start that names nccl", "a library's start"],
)
def test_a_backend_in_settings_is_reported_unless_the_project_hands_it_to_the_helper(
    tmp_path: Path, start: str, reason: str
) -> None:
    """Found in ttfnet: 145 settings were to be changed by hand, and its `init_dist` asks the helper."""
    settings = "model = dict(type='Net')\ndist_params = dict(backend='nccl')\n"
    write_tree(tmp_path, {"configs/net.py": settings, "env.py": f"import torch.distributed as dist\n{start}"})
    (found,) = planned(tmp_path, "check")["configs/net.py"].findings
    assert reason in found.message


LOGGER = """import torch
class Value:
    def synchronize(self):
        return torch.tensor([1.0], dtype=torch.float64, device="cuda")
class Logger:
    def synchronize(self):
        for meter in self.meters.values():
            meter.synchronize()
    def log_every(self, rows, {parameter}):
        {given}
        if torch.cuda.is_available():
            words = " ".join(["{{rows}}", "{{memory}}"])
        else:
            words = " ".join(["{{rows}}"])
        time = Value()
        for row in rows:
            yield row
            if torch.cuda.is_available():
                say(words.format(rows=str(self), memory=torch.cuda.max_memory_allocated()))
            else:
                say(words.format(rows=str(self)))
"""


@pytest.mark.parametrize(
    ("parameter", "given", "question"),
    [
        ("logger=None", "say = print if logger is None else logger.info", "is_complete"),
        ("logger=None", "say = print", "is_available"),
        ("say", "pass", "is_complete"),
    ],
    ids=["one of two", "what only tells", "what may do anything"],
)
def test_all_questions_of_a_function_come_out_the_same(
    tmp_path: Path, parameter: str, given: str, question: str
) -> None:
    """Found in DAB-DETR: on MPS one question said that there is an accelerator, and the next one that there is none."""
    write_tree(tmp_path, {"misc.py": LOGGER.format(parameter=parameter, given=given)})
    assert texts_after(tmp_path)["misc.py"].count(f"if accel.{question}():") == 2
