"""`helper = "mypkg.utils.device"`: rewrites call what the project has, as each file reaches it, or say why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT, planned, texts_after, write_plan, write_tree

from torchmigrate.base.text import UserError
from torchmigrate.config import config_file
from torchmigrate.diagnostics.finding import Changed, Finding, Unchanged

HELPER = """
import functools
import torch

LIMIT = 3
device = torch.device("cpu")

def get_device(index=None):
    return torch.device("cuda" if torch.cuda.is_available() else "cpu", index)

def empty_cache(): ...

@functools.cache
def has_gpu(): ...

synchronize = torch.cuda.synchronize
"""
PACKAGE = {"mypkg/__init__.py": "", "mypkg/utils/__init__.py": "", "mypkg/utils/device.py": HELPER}
MAP = {"device": "get_device", "is_available": "has_gpu"}
SETTINGS = {"helper": "mypkg.utils.device", "helper_map": MAP}


def after(root: Path, name: str, text: str, **settings: object) -> str:
    """What becomes of one file of the project; its own text where nothing does."""
    write_tree(root, {**PACKAGE, name: text})
    return texts_after(root, **{**SETTINGS, **settings}).get(name, text)


def findings(root: Path, name: str, text: str, **settings: object) -> list[Finding]:
    write_tree(root, {**PACKAGE, name: text})
    result = planned(root, **{**SETTINGS, **settings})[name]
    assert isinstance(result, (Changed, Unchanged))
    return list(result.findings)


def test_it_is_called_under_its_names_and_nothing_is_vendored(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {**PACKAGE, "train.py": "import torch\ndef f(x):\n    torch.cuda.empty_cache()\n    return x.cuda(1)\n"},
    )
    assert texts_after(tmp_path, **SETTINGS) == {
        "train.py": "import torch\nfrom mypkg.utils import device\n"
        "def f(x):\n    device.empty_cache()\n    return x.to(device.get_device(1))\n"
    }


def test_the_name_is_taken(tmp_path: Path) -> None:
    text = "import torch\ndevice = torch.device('cuda')\ndef f(x):\n    return x.cuda(), [device for device in x]\n"
    assert after(tmp_path, "train.py", text) == (
        "import torch\nfrom mypkg.utils import device as accel\n"
        "device = accel.get_device()\ndef f(x):\n    return x.to(accel.get_device()), [device for device in x]\n"
    )


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from mypkg.utils import device", "device.get_device()"),
        ("from mypkg.utils import device as dev", "dev.get_device()"),
        ("import mypkg.utils.device as dev", "dev.get_device()"),
        ("from mypkg.utils.device import get_device", "get_device()"),
        ("from mypkg.utils.device import get_device as where", "where()"),
        ("from mypkg.utils import other, device as d", "d.get_device()"),
    ],
)
def test_an_import_that_is_there_is_used(tmp_path: Path, line: str, call: str) -> None:
    assert after(tmp_path, "train.py", f"import torch\n{line}\ny = torch.ones(2).cuda()\n") == (
        f"import torch\n{line}\ny = torch.ones(2).to({call})\n"
    )


def test_an_import_that_a_function_shadows_is_not_used(tmp_path: Path) -> None:
    text = "import torch\nfrom mypkg.utils import device\ndef f(x, device):\n    return x.cuda()\n"
    assert "import device as accel\ndef f(x, device):\n    return x.to(accel.get_device())" in after(
        tmp_path, "train.py", text
    )


@pytest.mark.parametrize(
    ("name", "neighbour", "line"),
    [
        ("mypkg/models/net.py", "from . import layers", "from ..utils import device"),
        ("mypkg/train.py", "from .models import layers", "from .utils import device"),
        ("mypkg/utils/misc.py", "from . import log", "from . import device"),
        ("mypkg/models/net.py", "from mypkg.models import layers", "from mypkg.utils import device"),
        ("scripts/run.py", "import mypkg", "from mypkg.utils import device"),
    ],
)
def test_relative_where_the_file_imports_so(tmp_path: Path, name: str, neighbour: str, line: str) -> None:
    others = {"mypkg/models/__init__.py": "", "mypkg/models/layers.py": "", "mypkg/utils/log.py": ""}
    write_tree(tmp_path, others)
    text = f"import torch\n{neighbour}\ny = torch.ones(2).cuda()\n"
    first, second = (line, neighbour) if line.startswith("from ..") else (neighbour, line)
    done = after(tmp_path, name, text)
    assert done == f"import torch\n{first}\n{second}\ny = torch.ones(2).to(device.get_device())\n"


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    text = "import torch\nif torch.cuda.is_available():\n    torch.cuda.empty_cache()\n    x = torch.ones(2).cuda()\n"
    write_tree(tmp_path, {**PACKAGE, "train.py": text})
    assert write_plan(tmp_path, **SETTINGS).keys() == {"train.py"}
    assert "if device.has_gpu():" in (tmp_path / "train.py").read_text()
    assert texts_after(tmp_path, **SETTINGS) == {}


def test_a_function_that_it_lacks_is_a_finding_that_says_so(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, "train.py", "import torch\ndef f():\n    torch.cuda.memory_allocated()\n")
    assert found.fix is None
    assert found.message.endswith(
        "`mypkg.utils.device` has no `memory_allocated`: add it, or name yours in `helper-map`"
    )


def test_a_guard_stays_with_what_could_not_be_rewritten(tmp_path: Path) -> None:
    text = "import torch\nif torch.cuda.is_available():\n    x = x.cuda()\n    torch.cuda.mem_get_info()\n"
    assert after(tmp_path, "train.py", text) == text


@pytest.mark.parametrize(
    "line",
    [
        "device = torch.device('cpu')",
        "from torch import device",
        "from torch.cuda import device",
        "import device",
        "device = 1",
        "device = get()",
    ],
)
def test_what_is_no_function_of_that_name(tmp_path: Path, line: str) -> None:
    write_tree(tmp_path, {"gpu.py": f"import torch\n{line}\n", "train.py": "import torch\nx = torch.ones(2).cuda()\n"})
    assert texts_after(tmp_path, helper="gpu") == {}


@pytest.mark.parametrize(
    "line",
    [
        "from impl import device",
        "from .impl import get as device",
        "device = functools.partial(get, 1)",
        "try:\n    from impl import device\nexcept ImportError:\n    def device(index=None): ...",
        "if torch.cuda.is_available():\n    def device(index=None): ...",
        "class device: ...",
        "device = get",
    ],
)
def test_what_is_a_function_of_that_name(tmp_path: Path, line: str) -> None:
    write_tree(tmp_path, {"gpu.py": f"import torch\n{line}\n", "train.py": "import torch\nx = torch.ones(2).cuda()\n"})
    assert texts_after(tmp_path, helper="gpu").keys() == {"train.py"}


@pytest.mark.parametrize("argument", ["0", "device=0", "'cuda:0'"])
def test_arguments_that_it_does_not_take(tmp_path: Path, argument: str) -> None:
    lean = {"mypkg/utils/device.py": "def get_device(): ...\n", "mypkg/__init__.py": "", "mypkg/utils/__init__.py": ""}
    text = f"import torch\ndef f(x):\n    return x.cuda({argument}), x.cuda()\n"
    write_tree(tmp_path, {**lean, "train.py": text})
    settings = {"helper": "mypkg.utils.device", "helper_map": {"device": "get_device"}}
    found = planned(tmp_path, **settings)["train.py"]
    assert isinstance(found, Changed)
    assert f"return x.cuda({argument}), x.to(device.get_device())" in found.after.decode()
    assert (
        "`mypkg.utils.device.get_device` does not take the arguments of `device.get_device("
        in found.findings[0].message
    )


def test_a_constant_of_that_name_is_no_function(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, "train.py", "import torch\ndef f(x):\n    return x.cuda()\n", helper_map={})
    assert "`mypkg.utils.device` has no `device`" in found.message


def test_the_helper_itself_and_what_it_imports_stay(tmp_path: Path) -> None:
    """`get_device` must not come to call itself, nor the modules go round in a circle."""
    below = "import torch\ndef f(x):\n    return x.cuda()\n"
    write_tree(tmp_path, {**PACKAGE, "mypkg/base.py": below, "train.py": below})
    (tmp_path / "mypkg/utils/device.py").write_text("from mypkg import base\n" + HELPER)
    assert texts_after(tmp_path, **SETTINGS).keys() == {"train.py"}
    result = planned(tmp_path, **SETTINGS)["mypkg/base.py"]
    assert isinstance(result, Unchanged)
    assert "`mypkg.utils.device` imports this file, and so cannot be called from here" in result.findings[0].message


def test_in_a_notebook(tmp_path: Path) -> None:
    cell = '{"cell_type": "code", "source": ["import torch\\n", "x = torch.ones(2).cuda()"], "outputs": []}'
    text = f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'
    assert "from mypkg.utils import device" in after(tmp_path, "run.ipynb", text)


def test_a_module_at_the_root(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"gpu.py": "def device(d=None): ...\n", "train.py": "import torch\nx = torch.ones(2).cuda()\n"}
    )
    assert texts_after(tmp_path, helper="gpu") == {
        "train.py": "import torch\nimport gpu\nx = torch.ones(2).to(gpu.device())\n"
    }


def test_under_src_and_in_a_subfolder_alone(tmp_path: Path) -> None:
    files = {f"src/{name}": text for name, text in PACKAGE.items()}
    write_tree(tmp_path, {**files, "scripts/run.py": "import torch\nx = torch.ones(2).cuda()\n"})
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine import planner

    settings = Settings(root=tmp_path, helper="mypkg.utils.device", helper_map=MAP)
    (result,) = planner.plan([tmp_path / "scripts"], settings, 1, "apply").results
    assert isinstance(result, Changed)
    assert b"from mypkg.utils import device\n" in result.after


@pytest.mark.parametrize(
    ("settings", "message", "help"),
    [
        ({"helper": "mypkg.utils.devices"}, "the project has no such module", "did you mean `mypkg.utils.device`?"),
        ({"helper": "accelerate"}, "the project has no such module", "never imported"),
        ({"helper_map": {"devise": "get_device"}}, "`helper-map` has `devise`", "did you mean `device`?"),
        ({"helper_map": {"device": "get_devices"}}, "has no such function", "did you mean `get_device`?"),
        ({"helper_map": {"os": "get_device"}}, "`helper-map` has `os`", ""),
        ({"helper_map": {"device": "LIMIT"}}, "has no such function", ""),
        ({"helper": None}, "`helper-map` is of no use without `helper`", "name the module"),
    ],
)
def test_mistakes_are_errors(tmp_path: Path, settings: dict[str, object], message: str, help: str) -> None:
    write_tree(tmp_path, {**PACKAGE, "train.py": "import torch\nx = torch.ones(2).cuda()\n"})
    with pytest.raises(UserError) as caught:
        planned(tmp_path, **{**SETTINGS, **settings})
    assert message in caught.value.message
    assert help in caught.value.help


def test_a_helper_that_is_no_python(tmp_path: Path) -> None:
    write_tree(tmp_path, {"gpu.py": "def device(:\n", "train.py": "import torch\nx = torch.ones(2).cuda()\n"})
    with pytest.raises(UserError, match=r"gpu\.py"):
        planned(tmp_path, helper="gpu")


def test_with_the_native_style_it_is_called_for_the_rest(tmp_path: Path) -> None:
    text = "import torch\ndef f(x):\n    torch.cuda.synchronize()\n    return x.cuda(1), x.cuda()\n"
    done = after(tmp_path, "train.py", text, style="native", torch=">=2.9")
    assert "device.synchronize()\n    return x.to(device.get_device(1)), x.to(torch.accelerator.current_" in done


def test_a_copy_of_ours_can_be_named_as_ones_own(tmp_path: Path) -> None:
    """It offers what rewrites ask for."""
    helper = (ROOT / "torchmigrate" / "runtime.py").read_text(encoding="utf-8").replace("# torchmigrate-runtime", "#")
    lines = "torch.cuda.empty_cache()\nx = y.cuda(non_blocking=True)\nwith torch.cuda.nvtx.range('a'): ...\n"
    write_tree(tmp_path, {"ours.py": helper, "train.py": f"import torch\n{lines}"})
    assert texts_after(tmp_path, helper="ours")["train.py"] == (
        "import torch\nimport ours\nours.empty_cache()\n"
        "x = y.to(ours.device(), non_blocking=ours.non_blocking())\nwith ours.nvtx.range('a'): ...\n"
    )


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "helper.md").read_text(encoding="utf-8").split("## The project's own helper")[1]
    toml, diff = (re.search(rf"^```{kind}\n(.*?)^```$", page, re.M | re.S) for kind in ("toml", "diff"))
    assert toml and diff
    write_tree(tmp_path, {"pyproject.toml": toml[1]})
    settings = config_file.load([tmp_path])
    assert (settings.helper, settings.helper_map) == ("mypkg.utils.device", MAP)
    lines = diff[1].splitlines()
    before, done = ("".join(f"{s[1:]}\n" for s in lines if s[0] in signs) for signs in (" -", " +"))
    assert after(tmp_path, "train.py", before) == done
