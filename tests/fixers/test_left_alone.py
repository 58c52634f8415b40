"""Nothing is passed over in silence: what is right as it is says so, and is no finding for anybody who did not ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, planned, texts_after, write_tree

from torchmigrate.diagnostics.finding import Changed, Status

LEFT = {
    "random/manual-seed": "torch.manual_seed(1)\ntorch.cuda.manual_seed(1)\n",
    "device/map-location": "device = torch.accelerator.current_accelerator()\nx = torch.load('f')\n",
    "device/is-available": "print('cuda:', torch.cuda.is_available())\n",
    "device/device-test": "def f(node):\n    return str(node.value()).startswith('cuda')\n",
    "device/device-idiom": "def f(net, use_cuda):\n    return net.module if use_cuda else net\n",
    "device/device-index": "d = torch.device(0) if torch.accelerator.is_available() else None  # not cuda\n",
    "hazard/nvidia-library": "def f(net, fp16):\n    if fp16:\n        from apex import amp\n",
    "backends/sdp-kernel": "a = torch.nn.attention.sdpa_kernel\nb = torch.backends.cuda.sdp_kernel\n",
}


@pytest.mark.parametrize(("rule", "text"), LEFT.items(), ids=list(LEFT))
def test_it_says_why(rule: str, text: str, tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": f"import torch\n{text}", "b.py": "import torch\nx = torch.zeros(1).cuda()\n"})
    found = planned(root, "check")["a.py"].findings  # type: ignore[union-attr]
    assert [(f.rule, f.status) for f in found] == [(rule, Status.LEFT)]
    assert "(left alone: " in found[0].message
    assert found[0].fix is None


def test_a_choice_that_asks_the_helper_is_nothing_left(tmp_path: Path) -> None:
    text = "import torch\ndef f(use_cuda):\n    return torch.device('cuda' if use_cuda else 'cpu')\n"
    root = write_tree(tmp_path, {"a.py": text})
    result = planned(root)["a.py"]
    assert isinstance(result, Changed)
    assert b"torch.device(accel.device_type() if use_cuda else 'cpu')" in result.after
    assert [f for f in result.findings if f.status is Status.LEFT] == []


def test_pinning_is_cudas(tmp_path: Path) -> None:
    text = "import torch\nloader = torch.utils.data.DataLoader([], pin_memory=torch.cuda.is_available())\n"
    (found,) = planned(write_tree(tmp_path, {"a.py": text}), "check")["a.py"].findings  # type: ignore[union-attr]
    assert found.status is Status.LEFT


def test_only_v_tells(here: Path, cli: Callable[..., Ran]) -> None:
    write_tree(here, {"a.py": f"import torch\n{LEFT['random/manual-seed']}"})
    quiet, told = cli("check", "."), cli("check", "-v", ".")
    assert (quiet.status, told.status) == (0, 0)
    assert "random/manual-seed" not in quiet.out + quiet.err
    assert "torch.manual_seed beside it seeds every device" in told.err


def test_a_fix_is_unsafe_in_a_file_that_does_not_mention_cuda(tmp_path: Path) -> None:
    """Another rule's word wakes the file; nothing in it shows that it is for CUDA."""
    text = "import torch\nmodel = torch.nn.DataParallel(model)\nx = torch.load('f')\n"
    root = write_tree(tmp_path, {"a.py": text, "b.py": "import torch\nx = torch.zeros(1).cuda()\n"})
    found = {f.rule: f for f in planned(root, "check")["a.py"].findings}  # type: ignore[union-attr]
    assert found["device/data-parallel"].status is Status.HELD
    assert "does not mention CUDA" in found["device/data-parallel"].message
    assert found["device/map-location"].status is Status.OPEN


def test_a_device_of_another_library_stays(tmp_path: Path) -> None:
    files = {
        "other.py": "import whisperx\nmodel = whisperx.load_model('small', device='cuda')\n",
        "torchs.py": "import sentence_transformers as st\nmodel = st.SentenceTransformer('small', device='cuda')\n",
    }
    plans = planned(write_tree(tmp_path, files), "check")
    assert [f.rule for f in plans["torchs.py"].findings if f.fix] == ["device/device-string"]  # type: ignore[union-attr]
    assert not any(f.fix for f in getattr(plans.get("other.py"), "findings", ()))


LOAD = """import torch
from nets import make
net = make()
if net:
    net = net.cuda()
net.load_state_dict(torch.load("a"))
"""
NETS = "import torch.nn as nn\nclass Net(nn.Module):\n    pass\ndef make():\n    return Net()\n"


@pytest.mark.parametrize(
    ("nets", "place"),
    [
        (NETS, '"cpu"'),
        (NETS.replace("nn.Module", "nn.Module, Unknown"), "accel.map_location()"),
        (NETS.replace("pass", "def load_state_dict(self, s): self.s = s"), "accel.map_location()"),
        (
            f"{NETS}class Part(nn.Module):\n    def _load_from_state_dict(self, s, *_): self.s = s\n",
            "accel.map_location()",
        ),
        (NETS.replace("nn.Module", "dict"), "accel.map_location()"),
        (NETS.replace("return Net()", "return unknown"), "accel.map_location()"),
    ],
)
def test_a_state_for_a_module_alone_needs_no_helper(nets: str, place: str, tmp_path: Path) -> None:
    done = texts_after(write_tree(tmp_path, {"main.py": LOAD, "nets.py": nets}))
    assert f'torch.load("a", map_location={place})' in done["main.py"]


BUILT_WITH_CUDA = """import torch
if torch.cuda.device_count() > 0:
    from pkg import gpu


def run(x):
    if x.is_cuda:
        return gpu.run(x)
    return x
"""


@pytest.mark.parametrize(
    ("files", "is_left"),
    [
        ({}, True),
        ({"pkg/gpu.py": ""}, False),
        ({"pkg/__init__.py": "from . import cpu as gpu\n"}, False),
        ({"pkg/__init__.py": "from .all_of_it import *\n"}, False),
    ],
    ids=["built", "a file", "a name of the package", "perhaps a name of the package"],
)
def test_a_test_stays_before_a_module_that_is_built_with_cuda_alone(
    files: dict[str, str], is_left: bool, tmp_path: Path
) -> None:
    """Found in PyTorch-Encoding: `import encoding` failed on a Mac, where setup.py builds no `encoding.gpu`."""
    whole = {"pkg/__init__.py": "", "pkg/ops.py": BUILT_WITH_CUDA, **files}
    found = planned(write_tree(tmp_path, whole), "check")["pkg/ops.py"].findings  # type: ignore[union-attr]
    assert [f.status is Status.LEFT for f in found if f.rule == "device/count"] == [is_left]


WEIGHTS = """import numpy as np
import torch


def weights(labels, n):
    counts = np.bincount(labels, minlength=n){cast}
    counts[counts == 0] = 1
    counts = {made}
    return torch.from_numpy(counts)
"""
TRAINS = "import numpy as np\nimport torch\nfrom made import weights\nw = weights(labels, 3).to(device)\nx = x.cuda()\n"


@pytest.mark.parametrize(
    ("made", "cast", "is_told"),
    [("1 / counts", "", True), ("1 / counts", ".astype(np.float32)", False), ("counts * 2", "", False)],
)
def test_doubles_that_a_function_of_another_file_gives_are_told_where_they_move(
    made: str, cast: str, is_told: bool, tmp_path: Path
) -> None:
    """Found in yolov7, whose class weights are float64: training on a Mac died, and nothing had said so."""
    files = {"made.py": WEIGHTS.format(made=made, cast=cast), "train.py": TRAINS}
    found = planned(write_tree(tmp_path, files), "check")["train.py"].findings  # type: ignore[union-attr]
    assert ("hazard/float64" in {f.rule for f in found}) is is_told


@pytest.mark.parametrize("made", ["pytest.mark.skipif(any(found), reason='too few')", "any(found)"])
def test_a_mark_for_tests_of_other_files_keeps_its_count(made: str, tmp_path: Path) -> None:
    """Found in lightning-hydra-template: the tests ask Lightning for GPUs, which it has for CUDA and MPS alone."""
    text = f"""import pytest
import torch
def run_if(min_gpus=0):
    found = []
    if min_gpus:
        found.append(torch.cuda.device_count() < min_gpus)
    return {made}
"""
    files = {"tests/__init__.py": "", "tests/helpers/run_if.py": text, "net.py": "import torch\ntorch.ones(2).cuda()\n"}
    result = planned(write_tree(tmp_path, files))["tests/helpers/run_if.py"]
    assert isinstance(result, Changed) is ("skipif" not in made)


REFINE = """import torch
def refine(net, x):
    with torch.autocast("cuda", dtype=torch.float16):
        return net(x)
"""


@pytest.mark.parametrize(
    ("known", "stays"), [("def best(there):\n    return 'mps' if there else 'cpu'\n", True), ("", False)]
)
def test_a_portable_library_leaves_devices_to_its_callers(known: str, stays: bool, tmp_path: Path) -> None:
    """Found in kornia: a Mac's users got half precision that was for CUDA alone."""
    files = {"pack/__init__.py": "", "pack/refine.py": REFINE, "pack/other.py": known}
    files["run.py"] = "from pack.refine import refine\nprint(refine)\n"
    result = planned(write_tree(tmp_path, files))["pack/refine.py"]
    assert isinstance(result, Changed) is not stays


SCRIPTABLE = """import torch
CAST = torch.amp.custom_fwd(cast_inputs=torch.float32, device_type="cuda")
def device():
    for name in ("mps", "xpu"):
        if getattr(torch, name).is_available():
            return name
    return "cpu"
def match(net, x):
    with torch.autocast("cuda"):
        return net(x.to(device()))
"""


def test_a_decorator_for_cuda_s_casts_ends_no_program(tmp_path: Path) -> None:
    result = planned(write_tree(tmp_path, {"match.py": SCRIPTABLE}), "check")["match.py"]
    left = [f.message for f in result.findings if f.rule == "amp/autocast-device"]  # type: ignore[union-attr]
    assert any("mixed precision" in message for message in left)


@pytest.mark.parametrize(("parameters", "is_moved"), [("self", True), ("self, non_blocking=False", False)])
def test_a_call_with_arguments_is_torchs_where_no_cuda_of_the_project_takes_any(
    parameters: str, is_moved: bool, tmp_path: Path
) -> None:
    """Found in DrQA: its Predictor, in another file, has a `cuda()` without arguments as well."""
    files = {
        "reader.py": (
            "import torch\nfrom predictor import Predictor\n"
            "def moved(inputs):\n    return [each.cuda(non_blocking=True) for each in inputs]\n"
        ),
        "predictor.py": f"class Predictor:\n    def cuda({parameters}):\n        return self.model.cuda()\n",
    }
    write_tree(tmp_path, files)
    found = planned(tmp_path, "apply")["reader.py"]
    assert isinstance(found, Changed) is is_moved


SHIM = """import functools
import torch
@functools.wraps(torch.cuda.synchronize)
def synchronize():
    torch.cuda.empty_cache()
def install(mine):
    {}.synchronize = synchronize
"""


@pytest.mark.parametrize(("home", "is_left"), [("torch.cuda", True), ("mine", False)])
def test_a_file_that_gives_torch_cuda_its_own_functions_stays(home: str, is_left: bool, tmp_path: Path) -> None:
    """Found in sd-scripts, whose `library/ipex` makes torch.cuda of torch.xpu: the helper called itself."""
    after = texts_after(write_tree(tmp_path, {"a.py": SHIM.format(home)}))
    assert (after == {}) is is_left


@pytest.mark.parametrize(("base", "stays"), [("ts.torch_handler.base_handler", True), ("my.base_handler", False)])
def test_a_handler_that_is_packed_alone_stays(base: str, stays: bool, tmp_path: Path) -> None:
    """Found in ViTPose: TorchServe archives this file without the package that has the helper."""
    text = f"""import torch
try:
    from {base} import BaseHandler
except ImportError:
    raise ImportError("Please install it.")
class Handler(BaseHandler):
    def initialize(self, context):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
    root = write_tree(tmp_path, {"tools/handler.py": text, "net.py": "import torch\nx = torch.zeros(1).cuda()\n"})
    found = planned(root)["tools/handler.py"]
    assert isinstance(found, Changed) is not stays
    assert any("packed and run without" in f.message for f in found.findings) is stays  # type: ignore[union-attr]


@pytest.mark.parametrize(("utils", "stays"), [("triton_python_backend_utils", True), ("my_backend_utils", False)])
def test_a_model_for_triton_brings_no_helper(utils: str, stays: bool, tmp_path: Path) -> None:
    """Found in wenet: each of ten folders of models would have had a copy of the helper."""
    text = f"""import torch
import {utils} as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
    files = {"repo/scoring/1/model.py": text, "net.py": "import torch\nx = torch.zeros(1).cuda()\n"}
    after = texts_after(write_tree(tmp_path, files))
    assert ("repo/scoring/1/model.py" in after) is not stays
    assert "net.py" in after


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        ("face_alignment", "face_alignment takes cpu or cuda or mps only"),
        ("aligner", "a device string names CUDA"),
    ],
)
def test_what_a_library_takes_is_the_reason_where_it_is_known(library: str, reason: str, tmp_path: Path) -> None:
    """Found in MakeItTalk."""
    text = f"import torch\nimport {library}\np = {library}.FaceAlignment(1, device='cuda')\nx = torch.ones(1).cuda()\n"
    found = planned(write_tree(tmp_path, {"main.py": text}), "check")["main.py"]
    told = [f.message for f in found.findings if f.line == 3]  # type: ignore[union-attr]
    assert any(reason in message for message in told), told
    assert any("only" in message for message in told) is (library == "face_alignment")


SAVES = """from unittest import mock
import torch
@mock.patch("torch.cuda.Stream")
def test_save(mock_cuda_stream, saved):
    assert torch.load(saved / "x.pt") == {}
"""


@pytest.mark.parametrize(("more", "is_left"), [("", True), ("def test_move(x):\n    x.cuda()\n", False)])
def test_what_a_test_replaces_is_no_word_of_cuda(more: str, is_left: bool, tmp_path: Path) -> None:
    files = {"main.py": "import torch\nprint(torch.ones(2).cuda())\n", "tests/test_save.py": SAVES + more}
    done = texts_after(write_tree(tmp_path, files)).get("tests/test_save.py", SAVES)
    assert ("map_location" in done) != is_left


@pytest.mark.parametrize(
    ("set_to", "told"), [("'cpu'", "it sets the CPU in place of"), ("None", "it may stay as it is")]
)
def test_a_test_for_cuda_that_sets_the_cpu_is_told_as_one(set_to: str, told: str, tmp_path: Path) -> None:
    text = (
        f"import torch\ndef update(config):\n    if not torch.cuda.is_available():\n        config.device = {set_to}\n"
    )
    root = write_tree(tmp_path, {"a.py": text, "b.py": "import torch\nx = torch.zeros(1).cuda()\n"})
    found = [f for f in planned(root, "check")["a.py"].findings if f.status is Status.LEFT]  # type: ignore[union-attr]
    assert [told in f.message for f in found] == [True]
