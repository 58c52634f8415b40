"""Operators that not every device has: what stays because it calls one, and its twin that must not."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import planned, texts_after, write_tree

FILES = {
    "setup.py": "from torch.utils.cpp_extension import CUDAExtension\n",
    "pkg/__init__.py": "",
    "pkg/layers/__init__.py": "from .nms import nms_rotated, plain, either\nfrom .align import Align\n"
    "from .mask import mask\nfrom .found import found\n",
    "pkg/layers/nms.py": """import torch
def nms_rotated(boxes):
    return torch.ops.pkg.nms_rotated(boxes)
def plain(boxes):
    return torch.ops.torchvision.nms(boxes)
def either(boxes):
    if boxes.is_cuda:
        return torch.ops.pkg.either(boxes)
    return boxes
""",
    "pkg/layers/align.py": """import torch
from pkg import _C
class _Align(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _C.align(x)
align = _Align.apply
class Align(torch.nn.Module):
    def forward(self, x):
        return align(x)
""",
}
FILES |= {
    "pkg/loader.py": """import importlib
def load(name, functions):
    return importlib.import_module("pkg." + name)
""",
    "pkg/layers/mask.py": """import torch
from .. import loader
ext = loader.load("_ext", ["mask"])
class _Mask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return ext.mask(x)
def mask(x):
    return _Mask.apply(x)
""",
    "pkg/layers/found.py": """from .. import loader
plugin = loader.load("plugin", ["found"])
def found(x):
    return plugin.found(x)
""",
    "pkg/plugin.py": "def found(x):\n    return x\n",
}
HEAD = "import unittest\nimport torch\nfrom pkg.layers import NAME\nclass Test(unittest.TestCase):\n"
BODIES = {
    "skipped": """    @unittest.skipIf(not torch.cuda.is_available(), "x")
    def test(self):
        NAME(torch.zeros(2).cuda())
""",
    "through a method": """    @unittest.skipIf(not torch.cuda.is_available(), "x")
    def test_cuda(self):
        self.test_cpu(device="cuda")
    def test_cpu(self, device="cpu"):
        NAME(torch.zeros(2, device=device))
""",
    "in a loop over devices": """    def test(self):
        for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
            NAME(torch.zeros(2, device=device))
""",
    "in a branch": """    def test(self):
        if torch.cuda.is_available():
            NAME(torch.zeros(2).cuda())
""",
    "after a branch": """    def test(self):
        x = torch.zeros(2)
        if torch.cuda.is_available():
            x = x.cuda()
        NAME(x)
""",
    "in a function that is handed on": """    def bench(self, measure):
        devices = ["cpu"]
        if torch.cuda.is_available():
            devices.append(torch.device("cuda"))
        def run(device):
            return NAME(torch.zeros(2, device=device))
        measure(run, devices)
""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("name", ["nms_rotated", "Align", "mask"])
def test_what_calls_a_compiled_operator_stays(name: str, body: str, tmp_path: Path) -> None:
    text = (HEAD + body).replace("NAME", name)
    assert _after(tmp_path, {**FILES, "test_it.py": text}) == text


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("name", ["plain", "either", "found"])
def test_what_calls_torchs_own_or_chooses_by_the_tensor_changes(name: str, body: str, tmp_path: Path) -> None:
    assert "is_available()" in (after := _after(tmp_path, {**FILES, "test_it.py": (HEAD + body).replace("NAME", name)}))
    assert "torch.cuda" not in after


def test_a_project_that_builds_nothing_has_no_such_operators(tmp_path: Path) -> None:
    text = (HEAD + BODIES["skipped"]).replace("NAME", "nms_rotated")
    assert "torch.cuda" not in _after(tmp_path, {**FILES, "setup.py": "", "test_it.py": text})


def test_tests_of_other_code_change(tmp_path: Path) -> None:
    kept, other = ((HEAD + BODIES["skipped"]).replace("NAME", name) for name in ("Align", "plain"))
    assert "torch.cuda" not in _after(tmp_path, {**FILES, "test_kept.py": kept, "test_it.py": other})


def test_a_device_that_is_asked_what_it_is_changes_with_the_device(tmp_path: Path) -> None:
    text = """import torch
from pkg.layers import Align
from other import Loss
def run():
    device = "cuda"
    loss = Loss(use_gpu=device.startswith("cuda"))
    return loss(Align()(torch.zeros(2, device=device)))
"""
    other = "class Loss:\n    def __init__(self, use_gpu):\n        self.gpu = use_gpu\n    def __call__(self, x):\n"
    other += "        return x.cuda() if self.gpu else x\n"
    after = _after(tmp_path, {**FILES, "run.py": text, "other.py": other}, "run.py")
    assert "accel.device_type()" in after
    assert "use_gpu=accel.is_accelerated(device)" in after


LIBRARY = """import torch
IMPORT
class Net(torch.nn.Module):
    def forward(self, x, index):
        return CALLED
"""
CHOICE = """import torch
from net import Net
def main(data):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return Net().to(device)(data.x.to(device), data.index.to(device))
"""


@pytest.mark.parametrize(
    ("name", "called", "stays"),
    [
        ("from torch_scatter import scatter_max", "scatter_max(x, index)[0]", True),
        ("import torch_cluster", "torch_cluster.knn_graph(x, 4)", True),
        ("from pytorch3d.ops import knn_points", "knn_points(x, index)", True),
        ("from pytorch3d.transforms import so3_log_map", "so3_log_map(x)", False),
        ("from torch_geometric.utils import scatter", "scatter(x, index)", False),
        ("import torch_scatter_like", "torch_scatter_like.f(x)", False),
        ("import torch_geometric.transforms as T", "T.NormalizeFeatures()(x)", False),
        ("from faiss import cast_integer_to_float_ptr as cast", "self.index.train_c(8, cast(x.data_ptr()))", True),
        ("from faiss import IndexFlatL2", "IndexFlatL2(8).search(x.cpu().numpy(), 4)", False),
        ("import ctypes", "ctypes.CDLL('libours.so').f(ctypes.c_void_p(x.data_ptr()), x.numel())", True),
        ("import ctypes", "x if x.data_ptr() == index.data_ptr() else x + ctypes.sizeof(ctypes.c_int)", False),
    ],
)
def test_a_choice_stays_that_comes_to_a_library_of_kernels_for_the_cpu_and_cuda(
    name: str, called: str, stays: bool, tmp_path: Path
) -> None:
    write_tree(tmp_path, {"main.py": CHOICE, "net.py": LIBRARY.replace("IMPORT", name).replace("CALLED", called)})
    assert ("main.py" not in texts_after(tmp_path)) is stays


@pytest.mark.parametrize(
    ("index", "stays"), [("cast(x.data_ptr())", True), ("IndexFlatL2(8).search(x.cpu().numpy(), 4)", False)]
)
def test_a_choice_stays_that_a_function_gives_beside_such_kernels_three_files_away(
    index: str, stays: bool, tmp_path: Path
) -> None:
    """Found in pytorch-dnc, whose memory points FAISS to its tensors: on a Mac they would lie on MPS."""
    faiss = "from faiss import IndexFlatL2, cast_integer_to_float_ptr as cast\ndef search(x):\n    return INDEX\n"
    files = {
        "pkg/__init__.py": "from .net import Net\n",
        "pkg/net.py": "import torch\nfrom .memory import recall\nclass Net(torch.nn.Module):\n    "
        "def forward(self, x):\n        return recall(x)\n",
        "pkg/memory.py": "def recall(x):\n    from .index import search\n    return search(x)\n",
        "pkg/index.py": faiss.replace("INDEX", index),
        "main.py": """import torch
from pkg import Net
def get_device(number):
    if number >= 0 and torch.cuda.is_available():
        return torch.device(f"cuda:{number}")
    return torch.device("cpu")
def main(number, x):
    device = get_device(number)
    return Net().to(device)(x.to(device))
""",
    }
    assert (_after(tmp_path, files, "main.py") == files["main.py"]) is stays


@pytest.mark.parametrize(
    ("head", "stays"),
    [
        ("from torch_scatter import scatter_mean", True),
        ("import torch_scatter.scatter as scatter_mean", True),
        ("try:\n    from torch_scatter import scatter_mean\nexcept ImportError:\n    scatter_mean = None", False),
        ("from torch_geometric.utils import scatter as scatter_mean", False),
    ],
)
@pytest.mark.parametrize("base", ["nn.Module", "Layer", "object"])
def test_a_choice_stays_beside_a_model_with_such_kernels_that_is_made_by_its_name(
    head: str, base: str, stays: bool, tmp_path: Path
) -> None:
    """Found in convolutional_occupancy_networks, whose encoders are looked up in tables."""
    files = {
        "src/__init__.py": "",
        "src/config.py": "from src.nets import by_name\ndef model(cfg):\n    return by_name[cfg['net']].Net()\n",
        "src/nets/__init__.py": "from src.nets import local\nby_name = {'local': local}\n",
        "src/nets/local.py": f"{head}\nfrom torch import nn\nclass Layer(nn.Module):\n    pass\n"
        f"class Net({base}):\n    def forward(self, x, index):\n        return scatter_mean(x, index)\n",
        "main.py": """import torch
from src.config import model
def main(cfg, x, index):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return model(cfg).to(device)(x.to(device), index.to(device))
""",
    }
    assert (_after(tmp_path, files, "main.py") == files["main.py"]) is (stays and base != "object")


_TRIED = "try:\n    from spatial_correlation_sampler import sample\nexcept ImportError as e:\n    "


@pytest.mark.parametrize(
    ("head", "stays"),
    [
        ("from spatial_correlation_sampler import sample", True),
        (f"{_TRIED}import warnings\n    warnings.warn('the custom module is missing', ImportWarning)", True),
        (f"{_TRIED}raise RuntimeError('install it') from e", True),
        (f"{_TRIED}from plain import sample", False),
        (f"{_TRIED}is_there = False", False),
        (f"{_TRIED}pass\nelse:\n    is_there = True", False),
        (f"sample = None\n{_TRIED}pass", False),
    ],
)
@pytest.mark.parametrize("read", ["correlate", "other"])
def test_a_choice_stays_beside_a_model_that_calls_a_function_with_such_a_kernel(
    head: str, stays: bool, read: str, tmp_path: Path
) -> None:
    """Found in FlowNetPytorch, where a `try` only warns of the library that one of its models cannot do without."""
    files = {
        "nets/__init__.py": "from .flow import *\n",
        "nets/util.py": f"{head}\ndef correlate(x, y):\n    return sample(x, y)\ndef other(x, y):\n    return x * y\n",
        "nets/flow.py": f"from torch import nn\nfrom .util import {read}\nclass Flow(nn.Module):\n"
        f"    def forward(self, x, y):\n        return {read}(x, y)\n",
        "main.py": """import torch
import nets
def main(arch, x, y):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return nets.__dict__[arch]().to(device)(x.to(device), y.to(device))
""",
    }
    assert (_after(tmp_path, files, "main.py") == files["main.py"]) is (stays and read == "correlate")


@pytest.mark.parametrize(("transform", "stays"), [("ToSparseTensor", True), ("NormalizeFeatures", False)])
def test_a_choice_stays_beside_what_makes_tensors_for_such_kernels(transform: str, stays: bool, tmp_path: Path) -> None:
    text = f"""import torch
import torch_geometric.transforms as T
from torch_geometric.datasets import Planetoid
def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return Planetoid("data", "Cora", transform=T.{transform}())[0].to(device)
"""
    assert (_after(tmp_path, {"main.py": text}, "main.py") == text) is stays


def test_a_loaded_operator(tmp_path: Path) -> None:
    loaded = "from torch.utils.cpp_extension import load\nfused = load('fused', sources=['fused.cu'])\n"
    files = {"op.py": f"{loaded}def act(x):\n    return fused.act(x)\n", "setup.py": ""}
    text = "import torch\nfrom op import act\ndef run():\n    d = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    text += "    return act(torch.zeros(2, device=d))\n"
    assert _after(tmp_path, {**files, "run.py": text}, "run.py") == text


def _after(root: Path, files: dict[str, str], name: str = "test_it.py") -> str:
    return texts_after(write_tree(root, files)).get(name, files[name])


# ---- float64, made in another file
METRIC = "def accuracy(output, labels):\n    return {}\n"
SCRIPT = """import torch
from metrics import accuracy
cuda = torch.cuda.is_available()
model = torch.nn.Linear(2, 2)
if cuda:
    model.cuda()
def train(x, labels):
    if cuda:
        x, labels = x.cuda(), labels.cuda()
    return accuracy(model(x), labels)
train(torch.ones(2), torch.ones(2))
"""
FUNCTION = """import torch
from metrics import accuracy
def evaluate(model, x, labels):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return accuracy(model.to(device)(x.to(device)), labels.to(device))
"""
MAKING = [
    "output.eq(labels).double()",
    "(output == labels).sum().double() / 2",
    "helper(output)",
    "output.sum().type(labels.type())",  # MPS takes the name of its own type for none
]
OTHERS = [
    "output.eq(labels).float()",
    "output.sum().type_as(labels)",
    "output.eq(labels).cpu().double()",
    "output.eq(labels).double().cpu()",
    "torch.ones(2).double()",
    "output.double() if output.is_cuda else output.float()",
    "output.float() if output.device.type == 'mps' else output.sum().double()",
]


LEFT_OUT = {
    SCRIPT: "cuda = accel.is_complete()\n",
    FUNCTION: '    device = accel.device() if accel.is_complete() else torch.device("cpu")\n',
}
OWN = """import torch
def is_available():
    return torch.cuda.is_available() or torch.xpu.is_available()
def device():
    return torch.device("cuda" if torch.cuda.is_available() else "xpu" if torch.xpu.is_available() else "cpu")
"""


@pytest.mark.parametrize("text", [SCRIPT, FUNCTION], ids=["a script", "a function"])
@pytest.mark.parametrize("made", MAKING)
def test_a_choice_of_a_device_that_comes_to_float64_leaves_mps_out(made: str, text: str, tmp_path: Path) -> None:
    """A Mac stays on the CPU, as before; all other accelerators are chosen."""
    more = "def helper(output):\n    return output.sum().double()\n"
    after = _after(tmp_path, {"train.py": text, "metrics.py": more + METRIC.format(made)}, "train.py")
    assert LEFT_OUT[text] in after
    assert "cuda()" not in after.replace("accel.", "")


@pytest.mark.parametrize("made", MAKING)
def test_a_helper_of_the_projects_own_asks_for_any_accelerator_so_the_choice_stays(made: str, tmp_path: Path) -> None:
    more = "def helper(output):\n    return output.sum().double()\n"
    files = {"train.py": SCRIPT, "metrics.py": more + METRIC.format(made), "gpu.py": OWN}
    assert "train.py" not in texts_after(write_tree(tmp_path, files), helper="gpu")


@pytest.mark.parametrize("text", [SCRIPT, FUNCTION], ids=["a script", "a function"])
@pytest.mark.parametrize("made", OTHERS)
def test_a_choice_changes_where_float64_is_made_on_the_cpu_or_not_at_all(made: str, text: str, tmp_path: Path) -> None:
    files = {"train.py": text, "metrics.py": "import torch\n" + METRIC.format(made)}
    assert "torch.cuda" not in _after(tmp_path, files, "train.py")


def test_a_choice_changes_together_with_the_float64_that_an_unsafe_fix_makes_on_the_cpu(tmp_path: Path) -> None:
    files = {"train.py": FUNCTION, "metrics.py": "import torch\n" + METRIC.format(MAKING[0])}
    after = texts_after(write_tree(tmp_path, files), unsafe_fixes=True)
    assert "accel.double(output.eq(labels))" in after["metrics.py"]
    assert "torch.cuda" not in after["train.py"]


WARPING = """import torch
import torch.nn.functional as F
def warp(image, grid):
    return WARPED
"""
TRAINING = """import torch
from ops import warp
def main(image, grid):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return warp(image.to(device), grid.to(device))
"""


@pytest.mark.parametrize("names_cuda", [False, True])
@pytest.mark.parametrize(
    ("warped", "raises"),
    [
        ("F.grid_sample(image, grid, padding_mode='border')", True),
        ("image.to_sparse_csr()", True),
        ("torch.sparse.FloatTensor(grid, image, (4, 4))", False),
        ("F.grid_sample(image.cpu(), grid.cpu(), padding_mode='border')", False),
        ("F.interpolate(image, scale_factor=2)", False),
        ("F.grid_sample(image, grid, padding_mode='border')  # torchmigrate: ignore[hazard/mps-grid-sample]", False),
    ],
)
def test_a_choice_leaves_mps_out_for_what_raises_there_in_a_file_that_stays(
    warped: str, raises: bool, names_cuda: bool, tmp_path: Path
) -> None:
    """Found in SfmLearner-Pytorch, r2d2 and MVSNet: on a Mac they ran on the CPU, and would raise."""
    cuda = "def seed(n):\n    torch.cuda.manual_seed_all(n)\n    torch.cuda.empty_cache()\n" * names_cuda
    files = {"main.py": TRAINING, "ops.py": WARPING.replace("WARPED", warped).replace("def", f"{cuda}def")}
    after = _after(tmp_path, files, "main.py")
    is_mended = names_cuda and "grid_sample" in warped  # by a safe fix there
    assert ("accel.is_complete()" in after) is (raises and not is_mended) and "torch.cuda" not in after
    is_mended = "grid_sample" in warped or not raises
    assert (
        not is_mended
        or "accel.is_complete()" not in texts_after(write_tree(tmp_path, files), unsafe_fixes=True)["main.py"]
    )


FLOW = """import torch
import flows.layers as layers
from flows.anchors import anchors
def main(x):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return USED
"""
MODULE = "import numpy as np\nimport torch\nfrom . import noise\n"
MODULE += "class Block(torch.nn.Module):\n    def __init__(self, p=0.5):\n"
MODULE += "        super().__init__()\n        HELD\n"
LEVELS = """def levels(n):
    found = np.exp(np.linspace(0, 1, n))
    return found
def steps(n):
    return np.arange(n)
def schedule(n):
    x = torch.linspace(0, n, n + 1, dtype=torch.float64)
    kept = torch.cos(x / n) ** 2
    kept = kept / kept[0]
    return torch.clip(1 - kept[1:] / kept[:-1], 0, 0.999)
"""
ARRAYS = """import numpy as np
import torch
def anchors(stride, shape, device):
    x = np.arange(START, shape[1], stride)
    y, other = np.arange(START, shape[0], stride), shape
    xv, yv = np.meshgrid(x, y)
    boxes = np.vstack((xv.reshape(-1), yv.reshape(-1)))KIND
    return torch.from_numpy(boxes).unsqueeze(0).to(device)
"""


@pytest.mark.parametrize(
    ("held", "is_double"),
    [
        ("self.p = torch.nn.Parameter(torch.tensor(np.log(p) - np.log(1.0 - p)))", True),
        ("self.p = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))", True),
        ("self.register_buffer('p', torch.tensor(p, dtype=torch.float64))", True),
        ("self.register_buffer('p', torch.from_numpy(np.linspace(0, 1, 5)))", True),
        ("self.register_buffer('p', torch.tensor(levels(5)))", True),
        ("self.register_buffer('p', torch.tensor(noise.levels(5)))", True),
        ("self.register_buffer('p', torch.tensor(noise.steps(5)))", False),
        ("betas = noise.schedule(5)\n        self.register_buffer('p', betas)", True),
        ("betas = noise.schedule(5).float()\n        self.register_buffer('p', betas)", False),
        ("betas = noise.schedule(5)\n        betas = betas.float()\n        self.register_buffer('p', betas)", False),
        ("self.register_buffer('p', torch.tensor(levels(5), dtype=torch.float32))", False),
        ("self.p = torch.nn.Parameter(torch.tensor(np.log(p) - np.log(1.0 - p)).float())", False),
        ("self.p = torch.nn.Parameter(torch.tensor(p))", False),
        ("self.register_buffer('p', torch.tensor(p, dtype=torch.float32))", False),
        ("self.register_buffer('p', torch.from_numpy(np.linspace(0, 1, 5, dtype=np.float32)))", False),
    ],
)
def test_a_choice_leaves_mps_out_for_a_module_that_holds_float64(held: str, is_double: bool, tmp_path: Path) -> None:
    """Found in residual-flows, whose model could not be moved on a Mac."""
    text = FLOW.replace("USED", "layers.Block().to(device)(x.to(device))")
    files = {
        "flows/layers/__init__.py": "from .block import *\n",
        "flows/layers/block.py": MODULE.replace("HELD", held) + LEVELS,
        "flows/layers/noise.py": "import numpy as np\nimport torch\n" + LEVELS,
    }
    files |= {"flows/__init__.py": "", "flows/anchors.py": "anchors = None\n"}
    after = _after(tmp_path, {**files, "main.py": text}, "main.py")
    assert ("accel.is_complete()" in after) is is_double
    assert "torch.cuda" not in after


@pytest.mark.parametrize(
    ("start", "kind", "is_double"),
    [
        ("stride / 2", "", True),
        ("0.5", "", True),
        ("0", "", False),
        ("stride / 2", ".astype(np.float32)", False),
    ],
)
def test_a_choice_leaves_mps_out_for_arrays_that_numpy_makes_with_float64(
    start: str, kind: str, is_double: bool, tmp_path: Path
) -> None:
    """Found in efficientdet-pytorch, whose anchors are made in each step."""
    text = FLOW.replace("USED", "anchors(8, x.shape, device)")
    arrays = ARRAYS.replace("START", start).replace("KIND", kind)
    files = {"flows/__init__.py": "", "flows/anchors.py": arrays, "flows/layers/__init__.py": ""}
    after = _after(tmp_path / "apart", {**files, "main.py": text}, "main.py")
    assert ("accel.is_complete()" in after) is is_double and "torch.cuda" not in after
    one_file = arrays + text.replace("import torch\n", "").replace("import flows.layers as layers\n", "").replace(
        "from flows.anchors import anchors\n", ""
    )
    after = _after(tmp_path / "together", {"main.py": one_file}, "main.py")
    assert ("accel.is_complete()" in after) is is_double and "torch.cuda" not in after


DIFFUSION = {
    "diffusion/__init__.py": "from .respace import Spaced\ndef create(steps):\n    return Spaced(steps)\n",
    "diffusion/respace.py": "from .gaussian import Gaussian\nclass Spaced(Gaussian):\n    pass\n",
    "diffusion/gaussian.py": """import torch
def extract(arr, steps, shape):
    return torch.from_numpy(arr).to(device=steps.device)[steps].float()
class Gaussian:
    def sample(self, x, steps):
        return extract(self.betas, steps, x.shape) * x
""",
    "sample.py": """import torch
from diffusion import create
def main(args):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(2, device=device)
    return create(10).sample(x, torch.tensor([1], device=device))
""",
}


@pytest.mark.parametrize("knows_cuda", [False, True])
def test_an_array_that_is_cast_after_its_move_leaves_mps_out_where_no_fix_casts_it_first(
    knows_cuda: bool, tmp_path: Path
) -> None:
    """Found in facebookresearch/DiT: a file without CUDA is not rewritten, and sample.py ran on a Mac's CPU."""
    files = {**DIFFUSION}
    if knows_cuda:
        files["diffusion/gaussian.py"] += "def free():\n    torch.cuda.empty_cache()\n"
    done = texts_after(write_tree(tmp_path, files))
    assert ("is_complete" in done["sample.py"]) is not knows_cuda
    assert ("float().to(device=" in done.get("diffusion/gaussian.py", "")) is knows_cuda


DEV = """import torch
def dev():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")
"""
MAIN = """def main(args):
    x = torch.randn(2, device=util.dev())
    return {}.sample(x, torch.tensor([1], device=x.device))
"""


@pytest.mark.parametrize(
    ("users", "is_left_out"),
    [
        ({"sample.py": MAIN.format("create(10)")}, True),
        ({"sample.py": "device = util.dev()\nspaced = create(10)\n"}, True),
        ({"sample.py": MAIN.format("args.made") + "def make():\n    return create(10)\n"}, False),
        ({"sample.py": "device = util.dev()\n", "other.py": "spaced = create(10)\n"}, False),
    ],
    ids=["in a function", "in a file", "in two functions", "in two files"],
)
def test_a_function_that_gives_the_device_leaves_mps_out_for_what_its_callers_lead_to(
    users: dict[str, str], is_left_out: bool, tmp_path: Path
) -> None:
    """Found in RePaint: `dist_util.dev()`, and float64 that the sampling of its caller moves."""
    users = {path: f"import torch\nimport util\nfrom diffusion import create\n{text}" for path, text in users.items()}
    done = texts_after(write_tree(tmp_path, {**DIFFUSION, "util.py": DEV, **users}))
    assert ("is_complete" in done["util.py"]) is is_left_out
    assert "torch.cuda" not in done["util.py"]


@pytest.mark.parametrize(
    ("cast", "is_left_out"),
    [
        ("X.to(self.device).float()", True),
        ("X.float().to(self.device)", False),
        ("X.to(self.device).float() / 255.0", False),
    ],
)
def test_a_class_that_asks_for_the_device_and_casts_after_the_move_leaves_mps_out(
    cast: str, is_left_out: bool, tmp_path: Path
) -> None:
    """Found in tabnet: its tables hold float64, which is moved and then cast."""
    model = f"""import torch
from util import dev
class Model:
    def __init__(self):
        self.device = dev()
    def fit(self, X):
        return {cast}
"""
    done = texts_after(write_tree(tmp_path, {"util.py": DEV, "model.py": model}))
    assert ("is_complete" in done["util.py"]) is is_left_out
    assert "torch.cuda" not in done["util.py"]


@pytest.mark.parametrize(
    ("body", "is_left_out"),
    [
        ("for p in params:\n        dist.broadcast(p, 0)", True),
        ("if dist.get_world_size() > 1:\n        dist.broadcast(params[0], 0)", False),
    ],
)
@pytest.mark.parametrize("gives", ["choice", "return"])
def test_a_function_that_gives_the_device_leaves_mps_out_where_its_file_has_collectives(
    body: str, is_left_out: bool, gives: str, tmp_path: Path
) -> None:
    """Found in consistency_models: one process of MPI's broadcasts, too, and no backend takes MPS's tensors."""
    chosen = 'def dev():\n    name = "cuda" if torch.cuda.is_available() else "cpu"\n    return name\n'
    util = (DEV.removeprefix("import torch\n") if gives == "return" else chosen) + f"def sync(params):\n    {body}\n"
    util = f"import torch\nimport torch.distributed as dist\n{util}"
    main = "import torch\nimport util\nx = torch.zeros(2, device=util.dev())\nutil.sync([x])\n"
    done = texts_after(write_tree(tmp_path, {"util.py": util, "main.py": main}))
    assert ("is_complete" in done["util.py"]) is is_left_out
    assert "torch.cuda" not in done["util.py"]


GROUP = """import os, sys
import torch
import torch.distributed as dist
SYNC
def start(args):
    if 'RANK' in os.environ:
        args.rank = int(os.environ['RANK'])
    elif torch.cuda.is_available():
        args.rank = 0
    else:
        sys.exit('no training without a GPU')
    dist.init_process_group('nccl', rank=args.rank)
"""
SYNC = "def sync(values):\n    t = torch.tensor(values, device='cuda')\n    dist.all_reduce(t)\n    return t.tolist()\n"


@pytest.mark.parametrize(("sync", "asked"), [(SYNC, "is_complete"), ("", "is_available")])
def test_a_refusal_before_a_process_group_leaves_mps_out_where_its_file_has_collectives(
    sync: str, asked: str, tmp_path: Path
) -> None:
    """Found in ibot: a Mac, which was refused, got as far as what MPS has no collectives for."""
    after = _after(tmp_path, {"run.py": GROUP.replace("SYNC", sync)}, "run.py")
    assert f"elif accel.{asked}():" in after


def test_a_finding_names_the_file_and_line_that_makes_float64(tmp_path: Path) -> None:
    files = {"train.py": FUNCTION, "metrics.py": "\n" + METRIC.format(MAKING[0])}
    reason = "metrics.py, line 3: the device comes to this, which raises on MPS"
    found = planned(write_tree(tmp_path, files), "check")["train.py"]
    assert found.findings[0].message.endswith(f"; MPS is left out, and what has no float64: {reason}")
    write_tree(tmp_path, {"gpu.py": OWN})
    found = planned(tmp_path, "check", helper="gpu")["train.py"]
    assert f"(left alone: {reason})" in found.findings[0].message
    assert found.findings[0].held == reason


@pytest.mark.parametrize(
    ("made", "is_left_out"), [("np.log(start)", True), ("np.log(start), dtype=torch.float32", False)]
)
def test_a_number_of_numpys_that_an_agent_moves_leaves_mps_out(made: str, is_left_out: bool, tmp_path: Path) -> None:
    """Found in curl, where `log_alpha` is float64: a Mac that trained on the CPU would die at the start."""
    files = {
        "agent.py": f"""import numpy as np
import torch
class Agent:
    def __init__(self, start, device):
        self.log_alpha = torch.tensor({made}).to(device)
""",
        "train.py": """import torch
from agent import Agent
def make_agent(args, device):
    return Agent(args.start, device)
def main(args):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return make_agent(args, device)
""",
    }
    done = texts_after(write_tree(tmp_path, files))
    assert ("is_complete" in done["train.py"]) is is_left_out
    assert "torch.cuda" not in done["train.py"]


# ---- what torch.jit.script compiles can call no helper

SCRIPTED = {
    "models.py": """import torch
class Head(torch.nn.Module):
    def forward(self, x):
        return x + torch.zeros(1, device="cuda")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()
    def forward(self, x):
        return self.head(self.moved(x))
    def moved(self, x):
        return x.cuda()
    @torch.jit.ignore
    def load(self, x):
        return x.cuda(0)
class Other(torch.nn.Module):
    def forward(self, x):
        return x.cuda()
""",
    "export.py": """import torch
from models import Net
def inner(x):
    return x.cuda()
@torch.jit.script
def outer(x):
    return inner(x)
def plain(x):
    return outer(x.cuda())
net = Net()
torch.jit.script(net).save("net.pt")
""",
}


def test_what_torchscript_compiles_stays_over_files(tmp_path: Path) -> None:
    after = texts_after(write_tree(tmp_path, SCRIPTED))
    models, export = after["models.py"], after["export.py"]
    assert models.count('device="cuda"') == 1
    assert "def moved(self, x):\n        return x.cuda()\n" in models
    assert "return x.to(accel.device(0))" in models
    assert models.endswith(
        "class Other(torch.nn.Module):\n    def forward(self, x):\n        return x.to(accel.device())\n"
    )
    assert "def inner(x):\n    return x.cuda()\n" in export
    assert "return outer(x.to(accel.device()))" in export


def test_without_a_compiler_the_same_is_rewritten(tmp_path: Path) -> None:
    plain = SCRIPTED["export.py"].replace("torch.jit.script(net)", "torch.jit.trace(net, None)")
    files = {**SCRIPTED, "export.py": plain.replace("@torch.jit.script\n", "")}
    after = texts_after(write_tree(tmp_path, files))
    assert "cuda" not in after["models.py"] + after["export.py"]


WRITTEN_FOR_IT = {
    "pack/__init__.py": "",
    "pack/check.py": """import torch
def check(x, what):
    if not torch.jit.is_scripting() and x is None:
        raise TypeError(what)
""",
    "run.py": "import torch\nfrom pack.check import check\ndef test(x):\n    check(x.cuda(), 'a tensor')\n",
    "pack/solve.py": """import torch
from pack.check import check
def values(x):
    check(x, "a tensor")
    return x.cuda()
def plain(x):
    return x.cuda()
""",
}


def test_what_is_written_to_be_compiled_by_users_stays(tmp_path: Path) -> None:
    """Found in kornia: users could not script its functions any more."""
    after = texts_after(write_tree(tmp_path, WRITTEN_FOR_IT))
    assert after["pack/solve.py"].count("x.cuda()") == 1
    assert "def plain(x):\n    return x.to(accel.device())" in after["pack/solve.py"]
    assert "check(x.to(accel.device()), 'a tensor')" in after["run.py"]


BY_OWN_DECORATOR = """import torch
def export_if_built():
    def decorator(function):
        if torch.ops.loaded_libraries:
            return torch.jit.{how}(function)
        return torch.jit.unused(function)
    return decorator
class Net(torch.nn.Module):
    @export_if_built()
    def run(self, x):
        return x.cuda()
"""


CELL = """import torch
class Cell(torch.jit.ScriptModule):
    def __init__(self, size, device="cuda"):
        super().__init__()
        self.size = size
        self.w = torch.nn.Linear(size, size).to(device)
    @torch.jit.script_method
    def forward(self, x):
        return self.w(x) + torch.zeros(2, self.size, PLACE)
"""


@pytest.mark.parametrize(("place", "stays"), [('device="cuda"', True), ("device=x.device", False)])
def test_a_class_stays_whose_compiled_method_is_bound_to_cuda(place: str, stays: bool, tmp_path: Path) -> None:
    text = CELL.replace("PLACE", place)
    assert (_after(tmp_path, {"cell.py": text}, "cell.py") == text) is stays


@pytest.mark.parametrize(("how", "stays"), [("export", True), ("ignore", False)])
def test_a_decorator_of_the_project_may_compile(tmp_path: Path, how: str, stays: bool) -> None:
    """Found in torchani: models could not be scripted any more where its extension is built."""
    after = texts_after(write_tree(tmp_path, {"net.py": BY_OWN_DECORATOR.format(how=how)}))
    assert ("net.py" not in after) is stays


@pytest.mark.parametrize("name", ["tools", "_C"])
def test_a_file_in_a_folder_without_init_is_no_compiled_module(name: str, tmp_path: Path) -> None:
    """Found in salesforce/LAVIS: `from lavis.common import dist_utils`, where common/ is no regular package."""
    meter = f"from pkg.common import {name}\nclass Meter:\n    def join(self):\n        {name}.barrier()\n"
    text = "import torch\nfrom pkg.common.meter import Meter\ndef log():\n    meter = Meter()\n"
    text += "    if torch.cuda.is_available():\n        meter.join(torch.zeros(2).cuda())\n"
    files = {**FILES, "pkg/common/meter.py": meter, "pkg/common/tools.py": "def barrier():\n    pass\n", "run.py": text}
    assert ("torch.cuda" in _after(tmp_path, files, "run.py")) is (name == "_C")


SAMPLER = """import torch
import torch.distributed as dist
class Sampler:
    def __init__(self, count=None):
        self.count = dist.get_world_size() if torch.cuda.is_available() else 1
        if torch.cuda.is_available():
            torch.cuda.set_device(dist.get_rank())
"""


@pytest.mark.parametrize(("start", "is_left"), [("import lightning", True), ("dist.init_process_group('gloo')", False)])
def test_a_test_before_what_needs_a_group_stays_where_a_library_starts_it(
    tmp_path: Path, start: str, is_left: bool
) -> None:
    """Found in GPT-SoVITS, whose trainer starts a process group where CUDA is."""
    program = f"import torch.distributed as dist\nfrom sampler import Sampler\n{start}\nprint(Sampler().count)\n"
    after = texts_after(write_tree(tmp_path, {"sampler.py": SAMPLER, "train.py": program}))
    assert ("sampler.py" not in after) is is_left


FOCAL = {
    "setup.py": "from torch.utils.cpp_extension import CUDAExtension\n",
    "pkg/__init__.py": "",
    "pkg/focal/__init__.py": "from .modules import Focal\n",
    "pkg/focal/functions.py": """from torch.autograd import Function
from . import focal_cuda
class _Focal(Function):
    @staticmethod
    def forward(ctx, x):
        return focal_cuda.forward(x)
focal = _Focal.apply
""",
    "pkg/focal/modules.py": """import torch
from .functions import focal
class Focal(torch.nn.Module):
    def forward(self, x):
        assert x.is_cuda
        return focal(x.view(-1))
""",
}


@pytest.mark.parametrize("is_left", [True, False])
def test_an_assertion_before_a_kernel_stays(tmp_path: Path, is_left: bool) -> None:
    """Found in TorchSeg: a file imports what another file makes of a class, `focal = _Focal.apply`."""
    plain = {} if is_left else {"pkg/focal/functions.py": "def focal(x):\n    return x * 2\n"}
    after = texts_after(write_tree(tmp_path, FOCAL | plain))
    assert ("pkg/focal/modules.py" not in after) is is_left


LOADED = """import torch
from torch.utils.cpp_extension import load
gpu = load("sums_gpu", ["operator.cpp", "sums.cu"], verbose=False)
class Sum(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad):
        if grad.is_cuda:
            return gpu.NAME(grad)
        raise NotImplementedError
"""


@pytest.mark.parametrize("name", ["sums_backward", "sums"])
def test_a_module_that_is_compiled_when_it_is_loaded_has_kernels(tmp_path: Path, name: str) -> None:
    assert texts_after(write_tree(tmp_path, {"sums.py": LOADED.replace("NAME", name)})) == {}
