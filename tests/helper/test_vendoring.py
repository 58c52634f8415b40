"""Vendoring: where the helper's import stands in whole projects, proven by running them, and where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import planned, write_plan, write_tree

from torchmigrate.diagnostics.finding import Changed, Finding, Unchanged


def run(root: Path, *arguments: str, folder: str = ".") -> None:
    """Run a program of the project; the helper takes the stand-in for torch that lies beside it."""
    (root / "stubs").mkdir(exist_ok=True)
    (root / "stubs" / "torch.py").write_text(
        "class device: pass\nclass Generator: pass\n__version__ = '1.7.0'\n_utils = None\n"
    )
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        "PYTHONPATH": str(root / "stubs"),
    }
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root / folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


PATH_EDITS = {
    "an edit of sys.path above the imports that need it": (
        "import sys, torch\ndef add(): pass\nsys.path.insert(0, '..')\nfrom pkg.a import f\n"
        "def g():\n    torch.cuda.synchronize()\n",
        "accel.py",
        "import sys, torch\ndef add(): pass\nsys.path.insert(0, '..')\nfrom pkg.a import f\nimport accel\n",
    ),
    "a use above the edit": (
        "import sys, torch\ntorch.cuda.synchronize\nsys.path.insert(0, '..')\nfrom pkg.a import f\n",
        "tools/accel.py",
        "import sys, torch\nimport accel\naccel.synchronize\nsys.path.insert(0, '..')\nfrom pkg.a import f\n",
    ),
    "an edit through another name": (
        "from site import addsitedir as add\nimport torch\n"
        "def g():\n    torch.cuda.synchronize()\nadd('..')\nfrom pkg.a import f\n",
        "accel.py",
        "add('..')\nfrom pkg.a import f\nimport accel\n",
    ),
    "an edit for something else": (
        "import sys, torch\nfrom ops import h\nsys.path.insert(0, '..')\ndef g():\n    torch.cuda.synchronize()\n",
        "tools/accel.py",
        "import sys, torch\nfrom ops import h\nimport accel\nsys.path.insert",
    ),
}


@pytest.mark.parametrize("name", PATH_EDITS)
def test_the_import_stands_below_the_edit_of_sys_path_that_it_needs(name: str, tmp_path: Path) -> None:
    text, helper, wanted = PATH_EDITS[name]
    write_tree(tmp_path, {"pkg/__init__.py": "", "pkg/a.py": "f = 1", "tools/run.py": text, "tools/ops.py": "h = 1"})
    after = write_plan(tmp_path)
    assert wanted in after["tools/run.py"].decode()
    assert [path for path in after if path.endswith("accel.py")] == [helper]
    run(tmp_path, "run.py", folder="tools")


def findings(result: object) -> list[Finding]:
    assert isinstance(result, Unchanged)
    return list(result.findings)


BUILT = """import torch
from setuptools import setup
from build_tools.cuda import flags
setup(name="x", ext_modules=[1] * torch.cuda.device_count())
"""
FLAGS = "import torch\nflags = [torch.cuda.get_device_name()]\n"


def test_build_scripts_call_no_helper(tmp_path: Path) -> None:
    """Nothing of the project can be imported where pip builds it, and there is no device to choose either."""
    conf = "import torch\nextensions = []\nname = torch.cuda.get_device_name()\n"
    write_tree(tmp_path, {"setup.py": BUILT, "build_tools/cuda.py": FLAGS, "docs/conf.py": conf})
    results = planned(tmp_path)
    assert not [r for r in results.values() if isinstance(r, Changed)]
    said = "; not rewritten: it runs while the project is built, where the helper cannot be imported"
    assert all(any(said in f.message for f in findings(r)) for r in results.values())


def test_modules_with_names_of_build_scripts_do(tmp_path: Path) -> None:
    files = {
        "setup.py": FLAGS,
        "conf.py": FLAGS,
        "main.py": "import setup, conf\nfrom build_tools import cuda\n",
        "build_tools/cuda.py": FLAGS,
    }
    write_tree(tmp_path, {**files, "tools/setup.py": BUILT})
    assert {"setup.py", "conf.py", "build_tools/cuda.py"} <= {*write_plan(tmp_path)}


def test_two_copies_that_one_program_may_find_hold_the_same_functions(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "train.py": "import paths\nimport torch\nfrom ops.net import f\ntorch.cuda.synchronize()\n",
            "paths.py": "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))\n",
            "lib/ops/__init__.py": "",
            "lib/ops/net.py": "import torch\ndef f():\n    torch.cuda.empty_cache()\nf()\n",
            "other/alone.py": "import torch\ntorch.cuda.manual_seed_all(0)\n",
            "package/__init__.py": "",
            "package/a.py": "from . import b\nimport torch\ntorch.cuda.ipc_collect()\n",
            "package/b.py": "",
        },
    )
    copies = {name: r.after.decode() for name, r in planned(tmp_path).items() if name.endswith("accel.py")}
    both = [text for text in copies.values() if "def synchronize" in text]
    assert len(copies) == 4 and len(both) == 2, sorted(copies)
    assert all("def empty_cache" in text and "def manual_seed_all" not in text for text in both)
