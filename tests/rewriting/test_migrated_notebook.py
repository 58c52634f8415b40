"""A migrated notebook runs on the CPU, by a real kernel, beside its helper."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran

from torchmigrate.source import notebook

nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
nbformat = pytest.importorskip("nbformat", reason="nbformat reads notebooks for nbclient")
pytest.importorskip("ipykernel", reason="a kernel for notebooks")
pytest.importorskip("torch", reason="the notebook imports torch")


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of this interpreter, and no other's settings."""
    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({**spec, "display_name": "Python 3"}), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("PYTHONPATH", "")  # what lies beside the notebook, and is installed
    monkeypatch.setenv("TORCH_ACCEL_DEVICE", "cpu")


def executed(path: Path) -> list[str]:
    """What each code cell of a notebook prints, run in its own folder as an editor does."""
    book = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    return ["".join(output.get("text", "") for output in cell["outputs"]) for cell in cells]


def code(*cells: str) -> str:
    empty: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    made = [{**empty, "id": f"c{i}", "source": cell.splitlines(keepends=True)} for i, cell in enumerate(cells)]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_the_fixture_and_what_IPython_adds(here: Path, kernels: None, cli: Any) -> None:
    """One kernel for all: it takes seconds to start."""
    notebooks = here / "notebooks"
    notebooks.mkdir()
    cells = json.loads((ROOT / "fixtures/notebook/train.ipynb").read_text(encoding="utf-8"))["cells"]
    fixture = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    more = [
        "%%capture caught\n%%time\ntotal = x.cuda().sum()\n",
        "%cd -q ..\nnames = !echo one two",
        "%%writefile made.py\nx.cuda(",
        "%time z = torch.zeros(2).cuda()\nprint(names, z.device, 'Wall time' in caught.stdout)",
        "import asyncio\nawait asyncio.sleep(0)\nlen?\nprint('end')",
    ]
    (notebooks / "a.ipynb").write_text(code(*more[1:2], *fixture, *more[:1], *more[2:]), encoding="utf-8")
    ran: Ran = cli("apply", "--unsafe-fixes", ".")
    assert ran.status == 0, ran.err
    assert (notebooks / "accel.py").is_file()
    printed = executed(notebooks / "a.ipynb")
    assert "step 5 loss 0.4271" in "".join(printed)
    assert printed[-2].splitlines()[-1] == "['one two'] cpu True"
    assert printed[-1] == "end\n"
    assert (here / "made.py").read_text() == "x.cuda(\n"


@pytest.mark.parametrize(("options", "count"), [((), 6), (("--runtime", "inline"), 7)])
def test_one_that_is_opened_where_only_it_is_runs_there(
    options: tuple[str, ...], count: int, here: Path, tmp_path: Path, kernels: None, cli: Any
) -> None:
    """As on Colab: an empty folder, and nothing installed but torch."""
    badge = "# https://colab.research.google.com/github/someone/project/blob/main/a.ipynb"
    cells = [
        f"{badge}\n!echo installing",
        "import torch\nfrom torch import nn",
        "torch.cuda.manual_seed_all(0)\nmodel = nn.Linear(2, 1).cuda()\nscaler = torch.cuda.amp.GradScaler()",
        "x = torch.ones(4, 2).cuda()\nwith torch.cuda.amp.autocast():\n    loss = model(x).sum()",
        "scaler.scale(loss).backward()",
        "torch.cuda.synchronize()\nprint(loss.device, torch.cuda.max_memory_allocated(), scaler.get_scale())",
    ]
    (here / "a.ipynb").write_text(code(*cells), encoding="utf-8")
    ran: Ran = cli("apply", *options, ".")
    assert ran.status == 0, ran.err
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "a.ipynb").write_bytes((here / "a.ipynb").read_bytes())
    assert [path.name for path in here.rglob("*.py")] == []
    printed = executed(empty / "a.ipynb")
    assert len(printed) == count and printed[-1] == "cpu 0 1.0\n"
    nbformat.validate(nbformat.read(here / "a.ipynb", as_version=4))


IPYTHON = [
    "%matplotlib inline\nx = 1",
    "!pip install a \\\n   b 'it''s'\nx = 1",
    "if True:\n    !ls 'it\n    y = 1",
    "files = !ls\nfiles",
    "a, b = !ls (",
    "x = d['a'] = %env A",
    "x: int = !ls",
    "t = %timeit -o f(')')\n",
    "torch.cuda?\n?x\nx??",
    "f('x?')\nx?",
    "def f():\n    %time g()\n    return 1",
    "s = '''\n!ls\n'''\n!ls {s}",
    "x = (1 +\n  2)\n%time x",
    'd = {"a = %b": 1,\n "c": 2}\n!ls',
    "\n\n%%time\nx",
    "%%capture\n%%time\nx",
    "!ls # it's\nx = '#'\n%cd ..",
    "# only a comment\n%pip install x\n# end",
    "x = 1 \\\n  + 2\n!ls",
    'f"""\n{x}\n%time\n"""\n%time y',
    "await f()\n!ls",
]


@pytest.mark.parametrize("cell", IPYTHON)
def test_what_is_masked_is_what_IPython_transforms(cell: str) -> None:
    """The lines that IPython rewrites, or that a `%%` line stands in, are the ones that stand in for something here."""
    manager = pytest.importorskip("IPython.core.inputtransformer2", reason="IPython").TransformerManager()
    masked = notebook.masked(cell)
    body = cell[masked.head :] if masked.head else cell
    own = {line for line in manager.transform_cell(body).split("\n") if "get_ipython()" not in line}
    hidden = set()
    for start, end in masked.spans:
        first, last = (cell.encode()[:at].count(b"\n") for at in (start, end))
        hidden |= set(range(first, last + 1))
    for number, line in enumerate(cell.split("\n")):
        if number not in hidden and line.strip():
            assert line in own, (line, own)
    python = masked.utf8.decode().split("\n")
    assert all(python[n].strip(" #").startswith(tuple("0#ifabdtx")) or not python[n].strip(" #") for n in hidden)
    kept = [line for n, line in enumerate(python) if n not in hidden]
    assert kept == [line for n, line in enumerate(cell.split("\n")) if n not in hidden]
