"""Notebooks on the command line: what is said of cells, where the helper lies, and a dry run that git can apply."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran, git, texts_after, write_tree

Cli = Callable[..., Ran]
IMPORT = "import torch\nx = torch.ones(2)"
MOVE = "y = x.cuda()"
BOUND = "import torch\nimport accel\nx = torch.ones(2)"


def notebook(*cells: str, language: str = "python", **metadata: object) -> str:
    made: list[dict[str, Any]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": c.splitlines(True)}
        for c in cells
    ]
    kernel = {"kernelspec": {"display_name": "k", "language": language, "name": "k"}}
    return json.dumps({"cells": made, "metadata": {**kernel, **metadata}, "nbformat": 4, "nbformat_minor": 4}, indent=1)


def cells(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def after(root: Path, *sources: str, name: str = "a.ipynb", **settings: object) -> list[str]:
    """The cells of a notebook after a run."""
    write_tree(root, {name: notebook(*sources)})
    return cells(texts_after(root, **settings)[name])


# ---- what was not read


def test_a_broken_cell_is_said_and_hides_no_other(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.ipynb": notebook(IMPORT, "x = 'x\nmodel = x.cuda(", MOVE), "b.py": f"{IMPORT}\n{MOVE}\n"})
    ran = cli("check", ".")
    error = "error: a.ipynb: cell 2, line 1: not Python 3 ("
    assert ran.status == 2
    assert error in ran.err
    assert "; the other cells were read\n" in ran.err
    assert "a.ipynb:cell 3:1:5: device/tensor-cuda" in ran.out
    assert "Found 2 problems in 2 of 2 files." in ran.last
    ran = cli("apply", ".")
    assert ran.status == 2
    assert ran.last.startswith("Rewrote 2 of 2 files and added accel.py: 2 edits by 1 rule.")
    assert cells((here / "a.ipynb").read_text())[1:] == ["x = 'x\nmodel = x.cuda(", "y = x.to(accel.device())"]
    ran = cli("check", "--output-format", "json", ".")
    (told,) = json.loads(ran.out)["errors"]
    assert told["file"] == "a.ipynb"
    assert told["message"].startswith("cell 2, line 1: not Python 3")
    ran = cli("apply", "--output-format", "github", ".")
    assert ran.out.count("::error file=") == ran.status - 1 == 1


def test_all_broken_cells_that_matter_are_named_once(here: Path, cli: Cli) -> None:
    broken = ["model = \nloss =", "lr =", "torch.nn.", "x.cuda(", IMPORT]
    write_tree(here, {"a.ipynb": notebook(*broken)})
    ran = cli("check", ".")
    assert (
        "error: a.ipynb: cells 3 and 4 cannot be read; cell 3, line 1: not Python 3 (invalid syntax); the other"
        in ran.err
    )
    write_tree(here, {"a.ipynb": notebook("lr =", IMPORT, MOVE)})  # nothing that a rule could look for
    assert cli("check", ".").status == 1
    write_tree(here, {"a.ipynb": notebook("torch.cuda.", "# torch")})
    write_tree(here, {"b.ipynb": notebook("torch.cuda.")})
    ran = cli("check", ".")
    assert "b.ipynb: cell 1, line 1: not Python 3 (invalid syntax)\n" in ran.err
    assert "No findings in 1 file. 2 errors." in ran.last


@pytest.mark.parametrize("command", [("check",), ("apply",), ("catalog", "--project"), ("report",)])
def test_every_command_says_what_it_did_not_read(here: Path, cli: Cli, command: tuple[str, ...]) -> None:
    write_tree(here, {"a.ipynb": notebook(IMPORT, "x.cuda(", MOVE)})
    ran = cli(*command, ".")
    assert "cell 2, line 1: not Python 3" in " ".join((ran.out + ran.err).split())
    assert ran.status == 2


def test_a_notebook_of_another_language_is_skipped(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.ipynb": notebook("x = cuda(x)", language="julia"), "b.py": "x = 'cuda'\n"})
    ran = cli("check", "-v", ".")
    assert ran.status == 0
    assert "skipped a.ipynb: a notebook in julia\n" in ran.err
    assert ran.last == "No findings in 1 file. 1 left alone (-v). 1 skipped."


def test_what_another_program_runs_is_told(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.ipynb": notebook(IMPORT, "\n%%writefile t.py\nx.cuda()", "%%html\n<b>", "%%bash\nls cuda")})
    ran = cli("check", "-v", ".")
    assert ran.status == 0
    assert "left a.ipynb:cell 2:1:1: notebook: `%%writefile t.py`: not this notebook's own code, and" in ran.err
    assert ran.last == "No findings in 1 file. 2 left alone (-v)."


HANDED = 'import ctranslate2\n\nctranslate2.Translator("model", device=device)'


def test_what_holds_an_edit_is_named_by_its_cell(here: Path, cli: Cli) -> None:
    chosen = 'import torch\n\ndevice = "cuda" if torch.cuda.is_available() else "cpu"'
    write_tree(here, {"a.ipynb": notebook(chosen, HANDED), "b.py": f"{chosen}\n{HANDED}\n"})
    ran = cli("check", "-v", ".")
    assert "a.ipynb:cell 1:3:10: device/device-idiom: " in ran.err
    assert "(left alone: cell 2, line 3: this device is handed to ctranslate2" in ran.err
    assert "(left alone: line 6: this device is handed to ctranslate2" in ran.err
    assert "4 left alone (-v). 4 of them stay on CUDA: a.ipynb, cell 2, line 3: this device is handed to" in ran.last
    other = HANDED.replace("ctranslate2", "faster_whisper").replace("Translator", "WhisperModel")
    write_tree(here, {"b.py": f"{chosen}\n{HANDED}\n", "c.py": f"{chosen}\n{other}\n"})
    told = cli("check", ".").last
    assert "6 of them stay on CUDA, 4 for one reason: a.ipynb, cell 2, line 3: this" in told
    assert told.endswith(", which takes auto or cpu or cuda only, as at 1 other place.")
    (here / "c.py").unlink()
    (here / "b.py").unlink()
    assert cli("check", "a.ipynb").last.count("2 left alone (-v). 2 of them stay on CUDA: a.ipynb, cell 2") == 1


# ---- comments of ours


@pytest.mark.parametrize("last", ["x = 1", "x = "])
def test_skip_file_stands_in_any_cell(here: Path, cli: Cli, last: str) -> None:
    write_tree(here, {"a.ipynb": notebook(IMPORT, MOVE, f"# torchmigrate: skip-file\n{last}")})
    assert cli("apply", ".").last == "No Python files read. 1 skipped."


def test_a_comment_covers_its_statement_never_the_next_cell(here: Path, cli: Cli) -> None:
    ignore = "# torchmigrate: ignore[device/tensor-cuda] meant"
    write_tree(here, {"a.ipynb": notebook(IMPORT, f"{ignore}\n{MOVE}", f"{MOVE}  {ignore}", f"z = 1\n{ignore}", MOVE)})
    ran = cli("check", "--output-format", "concise", ".")
    places = [line.split(": ")[:2] for line in ran.out.splitlines()]
    assert places == [["a.ipynb:cell 4:2:1", "suppression"], ["a.ipynb:cell 5:1:5", "device/tensor-cuda"]]
    assert "2 suppressed." in ran.last


def test_shell_lines_are_read_by_rules_about_requirements(here: Path, cli: Cli) -> None:
    ignore = "torchmigrate: ignore[build/requirement] kernels"
    write_tree(
        here,
        {
            "a.ipynb": notebook(
                "x = 'é'\n!pip install -q \\\n  xformers",
                "%%bash\n# pip install apex\npip install flash-attn",
                f"# {ignore}\n%pip install xformers\n!pip install xformers  # {ignore}",
                f"# {ignore}\nx = 'pip install xformers'\nprint(x)",
                "!pip install torch\nsubprocess.run('pip install xformers')",
            )
        },
    )
    ran = cli("check", "--output-format", "concise", ".")
    places = [line.split(": ")[:2] for line in ran.out.splitlines()]
    assert places == [
        ["a.ipynb:cell 1:3:3", "build/requirement"],
        ["a.ipynb:cell 2:3:13", "build/requirement"],
        ["a.ipynb:cell 4:1:1", "suppression"],
    ]
    assert "2 suppressed." in ran.last
    write_tree(here, {"a.ipynb": notebook("x = 1\n!pip install xformers")})  # and nothing else to look into
    assert cli("check", "--output-format", "concise", ".").out.startswith("a.ipynb:cell 1:2:14: build/requirement")
    assert cli("check", "--ignore", "build", ".").status == 0
    assert cli("apply", ".").status == 0


def test_idioms_do_not_reach_over_cells(tmp_path: Path) -> None:
    """Else the edit could not be written, and the notebook would be lost."""
    ladder = ['d = "cpu"', 'if torch.cuda.is_available():\n    d = "cuda"', "x.to(d)"]
    found = after(tmp_path, IMPORT, *ladder, MOVE)
    assert found[1] == ladder[0]
    assert found[-1] == "y = x.to(accel.device())"


# ---- the helper


@pytest.mark.parametrize(
    "files",
    [
        {"pkg/__init__.py": "", "pkg/nb/__init__.py": "", "pkg/nb/b.py": "from . import c\n", "pkg/nb/c.py": ""},
        {"pyproject.toml": "[project]\nname = 'pkg'\n", "pkg/__init__.py": "", "pkg/net.py": IMPORT + "\n" + MOVE},
        {"pkg/__init__.py": "", "pkg/net.py": ""},
    ],
)
def test_it_lies_beside_the_notebook(tmp_path: Path, files: dict[str, str]) -> None:
    first = "import sys\nsys.path.append('../..')\nfrom pkg import net"
    write_tree(tmp_path, {**files, "pkg/nb/a.ipynb": notebook(first, IMPORT, MOVE), "b.ipynb": notebook(IMPORT, MOVE)})
    found = texts_after(tmp_path)
    assert {"pkg/nb/accel.py", "accel.py"} <= found.keys()
    assert cells(found["pkg/nb/a.ipynb"])[1] == BOUND
    assert "import accel\n" in cells(found["b.ipynb"])[0]


@pytest.mark.parametrize("move", ["%cd ..", "import os; os.chdir('..')", "cd .."])
def test_it_is_found_where_the_kernel_goes_elsewhere_first(tmp_path: Path, move: str) -> None:
    """The import stays with torch's: what runs in between may set it up."""
    found = after(tmp_path, f"# here, cd ..\n{move}\n", "!nvidia-smi", IMPORT, MOVE)
    path = "import os, sys\nsys.path.append(os.getcwd())  # accel.py lies here\n"
    assert found[0] == f"# here, cd ..\n{path}{move}\n"
    assert found[2:] == [BOUND, "y = x.to(accel.device())"]
    later = f"x = 1\n{move}".removeprefix("x = 1\nimport os; ")
    assert after(tmp_path, IMPORT, later, MOVE) == [BOUND, later, "y = x.to(accel.device())"]


@pytest.mark.parametrize("move", ["%cd ..", "import os\nos.chdir('..')", 'import os\nos.chdir("../")'])
def test_the_helper_above_is_used_by_a_notebook_that_goes_there_for_its_imports(tmp_path: Path, move: str) -> None:
    files = {
        "src/__init__.py": "",
        "src/net.py": "",
        "run.py": "import src.net\nimport torch\ntorch.cuda.synchronize()\n",
    }
    write_tree(tmp_path, {**files, "nb/a.ipynb": notebook(move, IMPORT + "\nfrom src.net import *", MOVE)})
    found = texts_after(tmp_path)
    helpers = [name for name in found if name.endswith("accel.py")]
    assert helpers == ["accel.py"] and "def device(" in found["accel.py"]
    assert cells(found["nb/a.ipynb"]) == [
        move,
        f"{IMPORT}\nimport accel\nfrom src.net import *",
        "y = x.to(accel.device())",
    ]


@pytest.mark.parametrize(
    "cells_", [[IMPORT, "%cd ..", "from src.net import *"], ["%cd ..\n%cd src", IMPORT, "import src.net"]]
)
def test_it_lies_beside_a_notebook_that_goes_elsewhere_later_or_twice(tmp_path: Path, cells_: list[str]) -> None:
    files = {
        "src/__init__.py": "",
        "src/net.py": "",
        "run.py": "import src.net\nimport torch\ntorch.cuda.synchronize()\n",
    }
    write_tree(tmp_path, {**files, "nb/a.ipynb": notebook(*cells_, MOVE)})
    assert {"accel.py", "nb/accel.py"} <= texts_after(tmp_path).keys()


def test_findings_below_added_lines_stand_at_their_places(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.ipynb": notebook("%cd ..\n" + IMPORT + "\n" + MOVE + "\ntorch.cuda.CUDAGraph()")})
    places = [line.split(": ")[0] for line in cli("apply", "--output-format", "concise", ".").out.splitlines()]
    assert places == ["a.ipynb:cell 1:8:1"]
    assert cells((here / "a.ipynb").read_text())[0].split("\n")[7] == "torch.cuda.CUDAGraph()"


def test_a_name_of_the_notebooks_own_is_not_taken(tmp_path: Path) -> None:
    found = after(tmp_path, IMPORT, "accel = 9.81", MOVE)
    assert found == [BOUND.replace("accel", "torch_accel"), "accel = 9.81", "y = x.to(torch_accel.device())"]


@pytest.mark.parametrize("head", ["%%capture", "%%time", "%%capture out\n%%time", "\n%%time"])
def test_nothing_goes_above_a_cell_magic(tmp_path: Path, head: str) -> None:
    found = after(tmp_path, f"{head}\nimport torch; x = torch.ones(2).cuda()")
    assert found == [f"{head}\nimport accel\nimport torch; x = torch.ones(2, device=accel.device())"]
    made = after(tmp_path, head, "def f(x: 'torch.Tensor'):\n    import torch\n    return torch.ones(1).cuda()")
    assert made[0] == f"{head}\nimport accel"


def test_a_cell_that_keeps_its_names_gets_no_import(tmp_path: Path) -> None:
    found = after(tmp_path, IMPORT, "%%timeit\nimport math\nmath.sin(1)", MOVE)
    assert found[:2] == [BOUND, "%%timeit\nimport math\nmath.sin(1)"]


def test_a_projects_own_helper_is_imported_once_it_can_be_found(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"mypkg/__init__.py": "", "mypkg/device.py": "import torch\ndef device():\n    return 'cpu'\n"}
    )
    first = "import torch\nimport sys\nsys.path.append('..')"
    found = after(tmp_path, first, "x = torch.ones(2)", MOVE, name="nb/a.ipynb", helper="mypkg.device")
    assert found == [first, "x = torch.ones(2)", "from mypkg import device\ny = x.to(device.device())"]


BADGE = "[![Open](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/x)"
ALONE = {
    "Colab's metadata": notebook(IMPORT, MOVE, colab={"name": "a"}),
    "Kaggle's metadata": notebook(IMPORT, MOVE, kaggle={}),
    "Colab's package": notebook("from google.colab import drive", IMPORT, MOVE),
    "a badge": notebook(f"# {BADGE}", IMPORT, MOVE),
    "a clone": notebook("!git clone -q https://host/project\n%cd project", "from pkg import net", IMPORT, MOVE),
    "packages": notebook("%pip install -q torch", IMPORT, MOVE),
    "packages by Python": notebook("!python -m pip install torch", IMPORT, MOVE),
}


LINK = "[![Open In Colab](badge.svg)](https://colab.research.google.com/github/me/it/blob/main/{})"


@pytest.mark.parametrize(
    ("page", "text", "first", "is_alone"),
    [
        ("README.md", LINK.format("nb/a%20b.ipynb"), "x = 1", True),
        ("nb/index.rst", LINK.format("nb/a%20b.ipynb"), "x = 1", True),
        ("README.md", LINK.format("nb/b.ipynb"), "x = 1", False),
        ("README.md", "nb/a%20b.ipynb, or colab.research.google.com", "x = 1", False),
        ("README.md", LINK.format("nb/a%20b.ipynb"), "from net import f", False),
    ],
)
def test_a_notebook_that_a_page_opens_on_colab_stands_alone(
    page: str, text: str, first: str, is_alone: bool, here: Path, cli: Cli
) -> None:
    """Found in pytorch-seq2seq. One that imports the project's modules does not run there as it is."""
    write_tree(here, {page: text, "nb/a b.ipynb": notebook(IMPORT, first, MOVE), "nb/net.py": "f = 1"})
    assert cli("apply").last.startswith("Rewrote 1 of ")
    assert ("class accel:" in (here / "nb/a b.ipynb").read_text()) == is_alone
    assert (here / "nb/accel.py").exists() != is_alone


def test_a_notebook_from_colab_that_imports_its_neighbours_finds_the_helper_beside_them(here: Path, cli: Cli) -> None:
    """Found in siamese-triplet: `trainer.py`, which the notebook imports, imports the helper, too."""
    own = notebook(IMPORT, "from net import f", MOVE, colab={"name": "a"})
    write_tree(here, {"a.ipynb": own, "net.py": "import torch\ndef f(x):\n    return x.cuda()\n"})
    assert cli("apply").last.startswith("Rewrote 2 of ")
    text = (here / "a.ipynb").read_text()
    assert "class accel:" not in text and "import accel" in text
    assert (here / "accel.py").exists()


@pytest.mark.parametrize("first", ["!pip install git+https://host/net", "x = 1"])
def test_a_notebook_from_colab_that_imports_a_package_from_above_stands_alone(first: str, here: Path, cli: Cli) -> None:
    """Found in CLIP: the package is installed there, and no file lies beside the notebook."""
    own = notebook(first, IMPORT, "from net import f", MOVE, colab={"name": "a"})
    package = {"setup.py": "from setuptools import setup\nsetup(name='net', packages=['net'])\n"}
    write_tree(here, {**package, "net/__init__.py": "f = 1\n", "nb/a.ipynb": own})
    assert cli("apply").last.startswith("Rewrote 1 of ")
    assert "class accel:" in (here / "nb/a.ipynb").read_text()


@pytest.mark.parametrize("name", ALONE)
def test_a_notebook_that_stands_alone_holds_the_functions_where_they_are_used_first(
    name: str, here: Path, cli: Cli
) -> None:
    """All cells keep their numbers."""
    write_tree(here, {"a.ipynb": ALONE[name], "pkg/__init__.py": "", "pkg/net.py": ""})
    before = cells(ALONE[name])
    assert "a.ipynb:cell " in cli("apply", "-n", "-v").out
    assert cli("apply").last.startswith("Rewrote 1 of ")
    text = (here / "a.ipynb").read_text()
    *first, own = cells(text)
    assert first == before[:-1] and own.endswith("\n\n\ny = x.to(accel.device())")
    assert own.startswith("import os\n\nimport torch\n\n\nclass accel:\n")
    assert not (here / "accel.py").exists()
    assert cli("check").status == 0 and cli("apply").last.startswith("Nothing to rewrite")
    json.loads(text)
    cli("undo")
    assert (here / "a.ipynb").read_text() == ALONE[name]


@pytest.mark.parametrize("badge", [BADGE, ""], ids=["alone", "in a project"])
def test_several_sections_find_the_helper_in_the_cell_that_imports_torch(badge: str, tmp_path: Path) -> None:
    """A reader may run some sections alone: Jukebox's notebook tells them to."""
    sections = ("import math\nx = x.cuda()", "import cmath\ny = y.cuda()")
    shared, first, second = after(tmp_path, f"# {badge}\nimport torch\nx = y = torch.ones(1)", *sections)
    assert ("class accel:" if badge else "import accel\n") in shared
    assert (first, second) == ("import math\nx = x.to(accel.device())", "import cmath\ny = y.to(accel.device())")


@pytest.mark.parametrize("again", ["import torch\nimport math", "from torch import nn", "import torch"])
def test_a_cell_that_imports_torch_again_imports_the_helper_again(again: str, tmp_path: Path) -> None:
    """Found in Autoformer's: a cell at its head only looks at the GPU, and is not needed to predict."""
    look = "import torch\nprint(torch.cuda.current_device())"
    *_, second, use, third = after(tmp_path, look, again, MOVE, "import torch\nz = 1")
    assert sorted(second.split("\n")) == sorted([*again.split("\n"), "import accel"])
    assert use == "y = x.to(accel.device())"
    assert third == "import torch\nz = 1"


def test_a_section_that_does_not_use_the_helper_has_no_import_of_it(tmp_path: Path) -> None:
    """Found in semi-supervised-pytorch's, where three cells import parts of torch and one moves."""
    first, idle, last, use = after(
        tmp_path,
        "import torch\nprint(torch.cuda.current_device())",
        "from torch import nn\ny = 1",
        "import torch",
        MOVE,
    )[-4:]
    assert ("import accel" in first, idle) == (True, "from torch import nn\ny = 1")
    assert sorted(last.split("\n")) == ["import accel", "import torch"]
    assert use == "y = x.to(accel.device())"


def test_a_section_that_uses_it_alone_holds_it(tmp_path: Path) -> None:
    shared, first, second = after(
        tmp_path, f"# {BADGE}\nimport torch\nx = torch.ones(1)", "x = x.cuda()", "y = x.cpu()"
    )
    assert "accel" not in shared + second and "class accel:" in first


def test_what_the_cell_imports_already_is_not_imported_again(tmp_path: Path) -> None:
    _, cell = after(
        tmp_path, f"# {BADGE}", "import functools\nimport os\nimport torch\n\n\ndef f(net):\n    net.cuda()"
    )
    assert (
        cell.count("import functools\n")
        == cell.count("import torch\n")
        == cell.count("import os\n")
        == cell.count("class accel:")
        == 1
    )
    assert "import torch\n\n\nclass accel:\n" in cell
    assert '        return torch.device(wanted or "cpu")\n\n\ndef f(net):\n' in cell


@pytest.mark.parametrize("blank", [0, 1, 2, 3])
def test_two_blank_lines_stand_below_the_functions(blank: int, tmp_path: Path) -> None:
    _, cell = after(tmp_path, f"# {BADGE}", "import torch\n" + "\n" * blank + "x = torch.zeros(1).cuda()")
    below = "\n" * max(blank, 2) + "x = torch.zeros(1, device=accel.device())"
    assert cell.endswith(f'        return torch.device(wanted or "cpu")\n{below}')


def test_with_runtime_inline_they_get_a_cell_of_their_own(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.ipynb": notebook(IMPORT, MOVE)})
    assert cli("apply", "--runtime", "inline").last.startswith("Rewrote 1 of ")
    first, own, move = cells((here / "a.ipynb").read_text())
    assert first == IMPORT and move == "y = x.to(accel.device())"
    assert own.startswith("import os\n\nimport torch\n\n\nclass accel:\n")
    assert not (here / "accel.py").exists()


def test_one_that_imports_its_neighbours_or_takes_the_package_does_not(here: Path, cli: Cli) -> None:
    """Packages are installed for notebooks beside a project's files, too."""
    write_tree(here, {"a.ipynb": notebook("!pip install torch", IMPORT + "\nimport utils", MOVE), "utils.py": ""})
    assert cli("apply", "-n").err.count("add accel.py") == 1
    write_tree(here, {"a.ipynb": ALONE["a badge"]})
    assert "class accel" not in cli("apply", "-n", "--runtime", "package").out


def test_the_functions_in_a_cell_are_updated_and_an_edited_one_stays(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.ipynb": ALONE["a badge"]})
    cli("apply", "--runtime", "inline")
    book = json.loads((here / "a.ipynb").read_text())
    book["cells"][-1]["source"] = ["accel.manual_seed(0)\n", "torch.cuda.synchronize()"]
    last = "return torch.device(wanted"
    own = "".join(book["cells"][-2]["source"]).replace(last, f"print('mine')\n        {last}")
    book["cells"][-2]["source"] = own.splitlines(keepends=True)
    (here / "a.ipynb").write_text(json.dumps(book))
    assert "a.ipynb:cell 4" in cli("check", "--output-format", "concise").out
    assert cli("apply").status == 0
    own, last = cells((here / "a.ipynb").read_text())[-2:]
    assert "def synchronize" in own and "def manual_seed(" in own and "print('mine')" in own
    assert last == "accel.manual_seed(0)\naccel.synchronize()"
    assert cli("check").status == 0 and cli("apply").last.startswith("Nothing to rewrite")
    book["cells"][-2]["source"] = own.replace("Return whether torch finds a device", "Find").splitlines(keepends=True)
    book["cells"][-1]["source"] = "accel.empty_cache()"
    (here / "a.ipynb").write_text(json.dumps(book))
    assert "lacks functions, or is of another version" in cli("check").out
    assert cli("apply").status == 0 and "def empty_cache" in (here / "a.ipynb").read_text()


def test_what_is_installed_in_the_cell_of_the_import_is_there_first(tmp_path: Path) -> None:
    (cell,) = after(tmp_path, "!pip install torch\nimport torch\nx = torch.ones(2).cuda()")
    places = [cell.index(part) for part in ("!pip", "import torch", "class accel:", "x = torch.ones(2, device=accel")]
    assert places == sorted(places)


# ---- a dry run


def test_the_patch_of_a_dry_run_gives_what_apply_writes(here: Path, cli: Cli) -> None:
    """Of notebooks too, in any layout, and beside a script; also where it goes to a file."""
    one_line = json.dumps(json.loads(notebook(IMPORT, MOVE)))
    files = {
        "a.ipynb": notebook("# é", IMPORT, "%time " + MOVE, "# end"),
        "sub dir/b.ipynb": one_line,
        "c.ipynb": "\ufeff" + notebook(IMPORT, MOVE).replace("\n", "\r\n") + "\r\n",
        "d.py": f"{IMPORT}\n{MOVE}\n",
    }
    git(here, "init", "-q")
    write_tree(here, files)
    git(here, "add", ".")
    git(here, "commit", "-qm", "all")
    ran = cli("apply", "-n", ".")
    assert ran.status == 1
    assert "# a.ipynb:cell 3 (for reading; " in ran.out
    hunks = re.findall(r"^@@ .* @@ ?(.*)$", ran.out.split("+++ b/a.ipynb\n")[1], re.M)[:2]
    assert hunks == ["", "device/tensor-cuda"]  # the import, the rewrite
    assert cli("apply", "-n", "-o", "patch", ".").out == ""
    patch = (here / "patch").read_bytes()
    (here / "patch").unlink()
    assert patch == ran.raw
    subprocess.run(["git", "apply", "--check", "-"], input=patch, check=True, cwd=here)
    assert cli("apply", ".").status == 0
    wanted = {path: path.read_bytes() for path in here.rglob("*") if path.is_file() and ".git" not in path.parts}
    git(here, "checkout", "-q", ".")
    git(here, "clean", "-dfq")
    subprocess.run(["git", "apply", "-"], input=patch, check=True, cwd=here)
    assert {path: path.read_bytes() for path in wanted} == wanted
    assert len(wanted) == 6  # with two helpers


def test_on_a_terminal_a_notebook_is_for_reading_alone(here: Path) -> None:
    write_tree(here, {"a.ipynb": json.dumps(json.loads(notebook(IMPORT, MOVE)))})
    code = "import pty, sys; sys.exit(pty.spawn([sys.executable, '-m', 'torchmigrate', 'apply', '-n', 'a.ipynb']) >> 8)"
    environment = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    ran = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True)
    assert "# +y = x.to(accel.device())" in ran.stdout
    assert "--- a/a.ipynb" not in ran.stdout
    assert "+ accel.py, " in ran.stdout
    assert ran.returncode == 1


def test_annotations_point_into_the_file_however_cells_are_written(here: Path, cli: Cli) -> None:
    book = json.loads(notebook(IMPORT, MOVE))
    book["cells"][1]["source"] = "a = 1\nb = 2\n" + MOVE
    write_tree(here, {"a.ipynb": json.dumps(book, indent=1), "b.ipynb": json.dumps(book)})
    lines = (here / "a.ipynb").read_text().splitlines()
    ran = cli("check", "--output-format", "github", ".")
    first, second = ran.out.splitlines()
    line = int(first.split("line=")[1].split(",")[0])
    assert MOVE in lines[line - 1]
    assert "cell 2, line 3: " in first
    assert "file=b.ipynb,line=1,endLine=1," in second


def test_what_a_notebook_repeats_is_told_by_cell(here: Path, cli: Cli) -> None:
    write_tree(here, {"a.ipynb": notebook(f"{IMPORT}\n{MOVE}", f"{MOVE}\n{MOVE}", MOVE)})
    assert "= and 3 more in this file: cell 2: lines 1, 2; cell 3: line 1\n" in cli("check").out


def test_what_a_notebook_loads_and_moves_comes_where_the_device_is(tmp_path: Path) -> None:
    """Found in glow-tts: `waveglow` was moved to the accelerator, and could not be loaded there."""
    moved = "net = torch.load('a.pt')['model']\nnet = net.eval()\n_ = net.cuda()"
    found = after(tmp_path, "import torch", moved, "kept = torch.load('b.pt')['model']")
    assert "net = torch.load('a.pt', map_location=accel.map_location())['model']" in found[1]
    assert found[2] == "kept = torch.load('b.pt')['model']"


def test_a_state_that_a_notebook_loads_at_once_is_loaded_anywhere(tmp_path: Path) -> None:
    """Found in LoFTR: only the module itself learns of what is loaded there."""
    loads = "net.load_state_dict(torch.load('a.pt')['state'])\nnet.restore(torch.load('a.pt')['state'])"
    found = after(tmp_path, "import torch\nfrom net import net", f"{loads}\nx = torch.ones(2).cuda()")[1]
    assert "net.load_state_dict(torch.load('a.pt', map_location=accel.map_location())['state'])" in found
    assert "net.restore(torch.load('a.pt')['state'])" in found


@pytest.mark.parametrize(("ends", "stays"), [("import os\nos._exit(0)", True), ("print('os._exit(0)')", False)])
def test_what_stands_below_the_end_of_a_kernel_stays(tmp_path: Path, ends: str, stays: bool) -> None:
    """Found in ParallelWaveGAN: the helper, a class in the first cell, was gone in the last."""
    found = after(tmp_path, "import torch\nx = torch.ones(2).cuda()", ends, "import torch\ny = torch.ones(2).cuda()")
    assert "x = torch.ones(2, device=accel.device())" in found[0]
    assert ("y = torch.ones(2).cuda()" in found[2]) is stays
