"""`catalog --project`: what a project uses, by the names that its files mean, in scripts and notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.surveys import api_catalog
from torchmigrate.surveys.api_catalog import BACKENDS, Row, survey

Cli = Callable[..., Ran]

KINDS = {
    "torch.cuda": "module",
    "torch.cuda.synchronize": "function",
    "torch.cuda.Event": "class",
    "torch.cuda.amp.autocast": "class",
    "torch.backends.cudnn.benchmark": "attribute",
    "torch.device": "class",
    "torch.load": "function",
    "torch.zeros": "function",
    "torch.Tensor.cuda": "method",
    "torch.Tensor.to": "method",
    "torch.Tensor.is_cuda": "attribute",
    "torch.Tensor.device": "attribute",
    "torch.nn.DataParallel": "class",
}


def some_catalog() -> api_catalog.Catalog:
    verdicts = dict.fromkeys(BACKENDS, "works")
    row = Row("", "", verdicts, "reported", ("stream/stream",), "", "", "", "torch", "", "", Path(), 1)
    from dataclasses import replace

    return api_catalog.Catalog({name: replace(row, name=name, kind=kind) for name, kind in sorted(KINDS.items())})


def used(tmp_path: Path, text: str, **files: str) -> dict[str, int]:
    write_tree(tmp_path, {"train.py": text, **{name.replace("__", "."): body for name, body in files.items()}})
    found = survey(tmp_path, Settings(root=tmp_path), some_catalog())
    assert not found.failed
    return {name: len(places) for name, places in (found.places | found.unknown).items()}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("import torch\ntorch.cuda.synchronize()\n", {"torch.cuda.synchronize": 1}),
        ("import torch as th\nth.cuda.synchronize()\nth.cuda.synchronize()\n", {"torch.cuda.synchronize": 2}),
        ("from torch import cuda\ncuda.synchronize()\n", {"torch.cuda.synchronize": 1}),
        ("from torch.cuda import synchronize as sync\nsync()\n", {"torch.cuda.synchronize": 1}),
        ("from torch.cuda.streams import Event\nEvent()\n", {"torch.cuda.Event": 1}),
        ("from torch.cuda.amp.autocast_mode import autocast\nautocast()\n", {"torch.cuda.amp.autocast": 1}),
        ("import torch\nsync = torch.cuda.synchronize\nsync()\nsync()\n", {"torch.cuda.synchronize": 1}),
        ("import torch\nc = torch.cuda\nc.synchronize()\n", {"torch.cuda": 1, "torch.cuda.synchronize": 1}),
        ("import torch\ngetattr(torch.cuda, 'synchronize')()\n", {"torch.cuda.synchronize": 1}),
        ("import torch\ndef f(name): return getattr(torch.cuda, name)\n", {"torch.cuda": 1}),
        ("import torch\nclass A:\n    C = torch.cuda\n    def f(self): self.C.synchronize()\n",
         {"torch.cuda": 1, "torch.cuda.synchronize": 1}),
        ("import torch\ndef f(e: torch.cuda.Event): e.record()\n", {"torch.cuda.Event": 1}),
        ("import torch\nEvent = torch.cuda.Event.from_ipc_handle(1, 2)\n", {"torch.cuda.Event": 1}),
        ("import torch\ntorch.backends.cudnn.benchmark = True\n", {"torch.backends.cudnn.benchmark": 1}),
        ("from torch.backends import cudnn\ncudnn.benchmark = not cudnn.benchmark\n",
         {"torch.backends.cudnn.benchmark": 2}),
        ("import torch\n@torch.cuda.amp.autocast()\ndef f(): pass\n", {"torch.cuda.amp.autocast": 1}),
        ("import torch\nf = lambda: [torch.cuda.synchronize() for _ in range(2)]\n", {"torch.cuda.synchronize": 1}),
        # methods and attributes, of whatever may be a tensor or a module
        ("import torch\ndef f(x, m): return m.cuda()(x.cuda(0), x.to('cuda'))\n",
         {"torch.Tensor.cuda": 2, "torch.Tensor.to": 1, "torch.device": 1}),
        ("import torch\ndef f(x): return x.is_cuda\n", {"torch.Tensor.is_cuda": 1}),
        ("import torch\ndef f(x, args): return x.device, args.cuda\n", {}),
        ("def f(x): return x.cuda()\n", {}),
        ("import torch\nclass M:\n    def cuda(self): pass\nM().cuda()\n", {}),
        # device strings count for torch.device, once
        ("import torch\nx = torch.zeros(1, device='cuda:0')\n", {"torch.zeros": 1, "torch.device": 1}),
        ("import torch\nd = torch.device('cuda', 0)\n", {"torch.device": 1}),
        ("import torch\nd = torch.device(type='cuda')\n", {"torch.device": 1}),
        ("import torch\nd = torch.device('cuda' if torch.x else 'cpu')\n", {"torch.device": 1}),
        ("import torch\ndevice = 'mps'\n", {"torch.device": 1}),
        ("import torch\nself.device = f'cuda:{rank}'\n", {"torch.device": 1}),
        ("import torch\ndevice = 'cuda:%d' % rank\n", {"torch.device": 1}),
        ("import torch\ndef f(x, device='xpu:1', *, other=1, map_location='cuda'): pass\n", {"torch.device": 2}),
        ("import torch\ntorch.load(f, map_location='cuda')\n", {"torch.load": 1, "torch.device": 1}),
        ("import torch\nlog('cuda')\nbackend = 'cuda'\nprint(x == 'cuda')\n", {}),
        # what only looks like it
        ("import mylib as torch\ntorch.cuda.synchronize()\n", {}),
        ("from numba import cuda\ncuda.synchronize()\n", {}),
        ("def f(torch): torch.cuda.synchronize()\n", {}),
        ("'''torch.cuda.synchronize()'''\n# torch.cuda.synchronize()\n", {}),
        # names of device modules that have no row are said
        ("import torch\ntorch.cuda.unheard_of()\n", {"torch.cuda.unheard_of": 1}),
        ("import torch\nimport torch_npu\ntorch.npu.set_device(0)\n", {"torch.npu.set_device": 1}),
        ("import torch\ntorch.nn.Linear(1, 2)\n", {}),
    ],
)  # fmt: skip
def test_uses(tmp_path: Path, text: str, counts: dict[str, int]) -> None:
    assert used(tmp_path, text) == counts


def test_through_a_module_of_the_project(tmp_path: Path) -> None:
    files = {"compat__py": "from torch.cuda import synchronize\n"}
    assert used(tmp_path, "from compat import synchronize\nsynchronize()\n", **files) == {"torch.cuda.synchronize": 1}


def test_the_helper_that_we_wrote_is_not_the_projects(tmp_path: Path) -> None:
    assert used(tmp_path, "# torchmigrate-runtime\nimport torch\ntorch.cuda.synchronize()\n") == {}


# ---- the command, with the rows that ship


def notebook(*cells: str) -> str:
    made = [
        {"cell_type": "code", "source": cell, "metadata": {}, "outputs": [], "execution_count": None} for cell in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


ROWS = """\
source = "torch"

[verdicts.x]
cuda = "works"
mps = "works through the helper"
xpu = "missing"
npu = "works"
hpu = "works"
mtia = "works"
cpu = "no-op"
"""


@pytest.fixture
def project(here: Path) -> Path:
    """Aliases, a notebook, a file that is no Python, one that is left out."""
    rows = "".join(
        f'[[api]]\nname = "{name}"\nkind = "function"\nverdicts = "x"\naction = "reported"\nrule = "hazard/cuda-only"\n'
        f'helper = "device"\n{more}'
        for name, more in (
            ("torch.zzz.sync", ""),
            ("torch.zzz.plain", "but = { xpu = 'works' }\n"),
            ("torch.zzz.no", ""),
        )
    )
    return write_tree(
        here,
        {
            "pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["rules"]\nextend-exclude = ["old"]\n',
            "rules/catalog/zzz.toml": ROWS + rows,
            "src/a.py": "import torch as th\nfrom torch import zzz\nth.zzz.sync()\nzzz.plain()\n",
            "src/b.ipynb": notebook("%matplotlib inline\nfrom torch.zzz import sync as s", "\ns(); s()"),
            "src/old/c.py": "import torch\ntorch.zzz.no()\n",
        },
    )


def matrix(ran: Ran) -> dict[str, int]:
    return {row["api"]: row["count"] for row in json.loads(ran.out) if row["api"].startswith("torch.zzz")}


def test_the_matrix(project: Path, cli: Cli) -> None:
    ran = cli("catalog", "--project", "src", "torch.zzz")
    assert ran.status == 0
    assert ran.out.splitlines()[3:] == [
        "cuda rocm mps  xpu  npu  hpu  mtia cpu   uses  API",
        " +    +    h    x    +    +    +    .       3  torch.zzz.sync   !! hazard/cuda-only",
        " +    +    h    +    +    +    +    .       1  torch.zzz.plain  !! hazard/cuda-only",
    ]
    assert ran.err.splitlines() == [
        "2 APIs in 4 uses, in 2 files read. 1 skipped.",
        "Uses of what is missing there, once migrated: xpu 3.",
    ]


def test_places(project: Path, cli: Cli) -> None:
    ran = cli("catalog", "--project", "src", "--output-format", "json", "torch.zzz.sync")
    (row,) = json.loads(ran.out)
    assert row["count"] == 3
    assert row["places"] == [
        {"file": "src/a.py", "cell": None, "line": 3, "column": 1},
        {"file": "src/b.ipynb", "cell": 2, "line": 2, "column": 1},
        {"file": "src/b.ipynb", "cell": 2, "line": 2, "column": 6},
    ]


def test_the_filters_hold_for_a_project(project: Path, cli: Cli) -> None:
    whole = cli("catalog", "--project", "src", "--output-format", "json")
    assert matrix(whole) == {"torch.zzz.sync": 3, "torch.zzz.plain": 1}
    some = cli("catalog", "--project", "src", "--output-format", "json", "--backend", "xpu")
    assert matrix(some) == {"torch.zzz.sync": 3}
    table = cli("catalog", "--project", "src", "--output-format", "markdown", "--backend", "xpu", "torch.zzz")
    assert table.out.splitlines()[2:] == [
        "| `torch.zzz.sync` | function | 3 | reported by hazard/cuda-only | missing |  | torch |"
    ]


def test_what_cannot_be_read_is_said(project: Path, cli: Cli) -> None:
    write_tree(
        project, {"src/bad.py": "import torch.cuda\nprint 'x'\n", "src/latin.py": b"import torch.cuda\n# \xff\n"}
    )
    write_tree(project, {"src/bad.ipynb": '{"cells": [cuda', "src/other.py": "print 'x'\n"})
    ran = cli("catalog", "--project", "src", "--output-format", "json")
    assert ran.status == 2
    assert matrix(ran) == {"torch.zzz.sync": 3, "torch.zzz.plain": 1}
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert [line.split(":")[1].strip() for line in errors] == ["src/bad.ipynb", "src/bad.py", "src/latin.py"]
    checked = [line for line in cli("check", "src").err.splitlines() if line.startswith("error: ")]
    assert sorted(errors) == sorted(checked), "as `check` says it"
    assert ran.err.splitlines()[-2].endswith(" 1 skipped. 3 errors.")


def test_names_without_a_row_are_said(project: Path, cli: Cli) -> None:
    write_tree(project, {"src/d.py": "import torch\n\ntorch.cuda.unheard_of(1)\ntorch.cuda.unheard_of(2)\n"})
    ran = cli("catalog", "--project", "src", "torch.zzz")
    assert ran.status == 0
    assert "note: the catalog has no row for torch.cuda.unheard_of (2 uses, first src/d.py:3)\n" in ran.err


def test_a_file_that_wants_to_be_left_out(project: Path, cli: Cli) -> None:
    write_tree(project, {"src/a.py": "# torchmigrate: skip-file\nimport torch\ntorch.zzz.sync()\n"})
    ran = cli("catalog", "--project", "src", "--output-format", "json")
    assert matrix(ran) == {"torch.zzz.sync": 2}
    assert "2 skipped." in ran.err


def test_a_single_file(project: Path, cli: Cli) -> None:
    assert matrix(cli("catalog", "--project", "src/a.py", "--output-format", "json")) == {
        "torch.zzz.sync": 1, "torch.zzz.plain": 1,
    }  # fmt: skip
