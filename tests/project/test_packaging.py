"""The torch floor: every file that states one is read, and no other package is taken for torch."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from conftest import write_tree

from torchmigrate import runtime
from torchmigrate.project.context import HELPER_PYTHON
from torchmigrate.project.packaging import newest_of_pages, oldest_python, torch_floor

CONDA = "name: x\nchannels:\n  - pytorch\ndependencies:\n  - python=3.8\n  - {}\n  - pip\n  - pip:\n    - numpy\n"
POETRY = '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\npython = "^3.8"\n'
EXTRAS = "[project.optional-dependencies]\n"
PROJECT = '[project]\nname = "x"\n'
STATED: list[tuple[dict[str, str], tuple[str, str] | None]] = [
    ({}, None),
    ({"requirements.txt": "torchvision>=0.20\n"}, None),
    ({"requirements.txt": "pytorch-lightning>=2.0\ntorch-geometric==2.1\ntorch_scatter>=2.0\ntorch.x>=2\n"}, None),
    ({"requirements.txt": "# torch>=2.6\n"}, None),
    ({"requirements.txt": "numpy\ntorch>=2.6\n"}, (">=2.6", "requirements.txt:2")),
    ({"requirements.txt": "torch>=2.6  # why\n"}, (">=2.6", "requirements.txt:1")),
    ({"requirements.txt": "torch == 2.1.0+cu118\n"}, (">=2.1", "requirements.txt:1")),
    ({"requirements.txt": "torch>=2\n"}, (">=2.0", "requirements.txt:1")),
    ({"requirement.txt": "torch==0.3.1\n"}, (">=0.3", "requirement.txt:1")),  # found in EnlightenGAN
    ({"requirements.txt": "torch[opt]>=1.9,<2.5; python_version > '3.7'\n"}, (">=1.9", "requirements.txt:1")),
    ({"requirements.txt": "torch<3\n"}, None),
    ({"requirements.txt": "torch!=2.1\n"}, None),
    ({"requirements.txt": "torch\n"}, None),
    ({"requirements.txt": "torch @ file:///w/torch-1.13.1%2Bcu117-cp310.whl\n"}, (">=1.13", "requirements.txt:1")),
    ({"requirements.txt": "-r deps/base.txt\n", "deps/base.txt": "torch~=1.8\n"}, (">=1.8", "deps/base.txt:1")),
    ({"requirements.txt": "--requirement=a.txt\n-cb.txt\n", "b.txt": "torch==1.8\n"}, (">=1.8", "b.txt:1")),
    ({"requirements.txt": "-r requirements.txt\n-r /etc/absent\n-r 'a\n-e .\n"}, None),
    ({"requirements/base.txt": "\ntorch>=1.7\n"}, (">=1.7", "requirements/base.txt:2")),
    ({"requirements.txt": "torch>=2.1", "requirements-old.txt": "torch==1.7"}, (">=1.7", "requirements-old.txt:1")),
    ({"pyproject.toml": PROJECT + 'dependencies = [\n"numpy",\n"torch~=2.9"]\n'}, (">=2.9", "pyproject.toml:5")),
    ({"pyproject.toml": EXTRAS + 'gpu = ["torch>=2"]\n'}, (">=2.0", "pyproject.toml:2")),
    ({"pyproject.toml": PROJECT + '[dependency-groups]\na = ["torch>=2.4"]\n'}, (">=2.4", "pyproject.toml:4")),
    ({"pyproject.toml": '[build-system]\nrequires = ["torch>=2.6"]\n'}, None),
    ({"pyproject.toml": '[tool.torchmigrate]\ntorch = ">=2.6"\n'}, None),
    ({"pyproject.toml": POETRY + 'torch = "^1.13"\n'}, (">=1.13", "pyproject.toml:5")),
    ({"pyproject.toml": POETRY + 'torch = "^1.13 || ^2.0"\n'}, (">=1.13", "pyproject.toml:5")),
    ({"pyproject.toml": POETRY + 'torch = {version = "~2.1", optional = true}\n'}, (">=2.1", "pyproject.toml:5")),
    ({"pyproject.toml": POETRY + 'torch = "*"\n'}, None),
    ({"pyproject.toml": POETRY + 'torch = "2.1.*"\n'}, (">=2.1", "pyproject.toml:5")),
    ({"pyproject.toml": "[[[", "requirements.txt": "torch>=2.6"}, (">=2.6", "requirements.txt:1")),
    ({"pyproject.toml": PROJECT + 'dependencies = ["torch>=2.6"]\n', "environment.yml": CONDA.format("pytorch=1.7")},
     (">=2.6", "pyproject.toml:3")),
    ({"Pipfile": '[packages]\nnumpy = "*"\ntorch = ">=1.9"\n'}, (">=1.9", "Pipfile:3")),
    ({"setup.py": "install_requires=['torch>=1.7']\n"}, (">=1.7", "setup.py:1")),
    ({"setup.py": "# torch>=1.7\nx = 'numpy'\n"}, None),
    ({"setup.cfg": "[options]\ninstall_requires =\n    numpy\n    torch>=1.10\n"}, (">=1.10", "setup.cfg:4")),
    ({"setup.cfg": "[options.extras_require]\nall = torch>=1.10\n"}, (">=1.10", "setup.cfg:2")),
    ({"environment.yml": CONDA.format("pytorch=1.7.1")}, (">=1.7", "environment.yml:6")),
    ({"environment.yaml": CONDA.format("pytorch::pytorch==1.12.1=py3.8_cuda11")}, (">=1.12", "environment.yaml:6")),
    ({"environment.yaml": CONDA.format("'pytorch>=2'")}, (">=2.0", "environment.yaml:6")),
    ({"env.yml": CONDA.format("pytorch 1.9.*  # old")}, (">=1.9", "env.yml:6")),
    ({"conda.yaml": CONDA.format("x") + "    - torch==1.13.1\n"}, (">=1.13", "conda.yaml:10")),
    ({"environment.yml": CONDA.format("pytorch-cuda=11.8")}, None),
    ({"environment.yml": CONDA.format("torchvision=0.8")}, None),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), STATED)
def test_torch_floor(files: dict[str, str], expected: tuple[str, str] | None, tmp_path: Path) -> None:
    assert torch_floor(write_tree(tmp_path, files)) == expected


def test_nothing_outside_the_project_is_read(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"out.txt": "torch>=2.6", "p/requirements.txt": "-r ../out.txt\n"}) / "p"
    assert torch_floor(root) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("requirements.txt", "environment.yml", "Pipfile", "setup.cfg"):
        os.mkfifo(tmp_path / name)
    assert torch_floor(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text", "oldest"),
    [
        ("setup.py", "setup(classifiers=['Programming Language :: Python :: 2.7', 'Topic :: Software'])", (2, 7)),
        ("setup.py", "setup(name='a', python_requires='>=3.5')", (3, 5)),
        ("setup.py", "setup(python_requires='>3.8', classifiers=['Programming Language :: Python :: 2.7'])", (3, 8)),
        ("setup.py", "setup(classifiers=['Programming Language :: Python :: 3'])", None),
        ("setup.cfg", "[options]\npython_requires = >=3.6\n", (3, 6)),
        ("setup.cfg", "[metadata]\nclassifiers =\n    Programming Language :: Python :: 3.5\n", (3, 5)),
        ("pyproject.toml", "[project]\nrequires-python = '>=3.9,<4'\n", (3, 9)),
        ("pyproject.toml", "[project]\nname = 'a'\n", None),
        ("environment.yml", CONDA.replace("3.8", "3.5.2=0"), (3, 5)),
        ("environment.yml", CONDA.replace("3.8", "3"), None),
        ("environment.yml", CONDA.replace("python=3.8", "ipython=3.5"), None),
        ("environment.yml", CONDA.replace("python=3.8", "msgpack-python=0.6.1"), None),
        ("envs/gpu.yaml", CONDA.replace("python=3.8", "conda-forge::python >=3.6,<3.9"), (3, 6)),
    ],
)
def test_the_oldest_python_that_a_package_runs_on(
    name: str, text: str, oldest: tuple[int, int] | None, tmp_path: Path
) -> None:
    head = "from setuptools import setup\n" if name == "setup.py" else ""
    write_tree(tmp_path, {name: head + text})
    found = oldest_python(tmp_path)
    assert found == (None if oldest is None else (oldest, name))


@pytest.mark.parametrize(
    ("what", "text", "newest"),
    [
        ("Python", "## Dependencies\npython 2.7\n", (2, 7)),  # found in AttnGAN
        ("Python", "Python 2.7 or Python 3.6 with PyTorch 1.0", (3, 6)),
        ("Python", "Python 2.7+ / 3.5", (3, 5)),
        ("Python", "Code works with Python 2 & 3", (3, 99)),
        ("Python", "Python 2.7, 3.5 and 3.6; 4.5 GB", (3, 6)),
        ("Python", "It relies on Python 3.5 and PyTorch 0.4.1", (3, 5)),
        ("Python", "- a Python installation version 2.7", (2, 7)),  # found in deepcluster
        ("Python", "runs with Python 2", (2, 99)),
        ("Python", "Python: 2.7\n\nPyTorch: 0.4.0", (2, 7)),  # found in CSRNet-pytorch
        ("PyTorch", "Python: 2.7\n\nPyTorch: 0.4.0", (0, 4)),
        ("Python", "pip install python-dateutil==2.8, and `python 01_train.py`", None),
        ("Python", "PyTorch 0.4.1", None),
        ("PyTorch", "Python 3.6 and PyTorch 0.3.1", (0, 3)),  # found in rethinking-network-pruning
        ("PyTorch", "PyTorch (>=1.0) or torch 2.1", (2, 1)),
        ("PyTorch", "- a PyTorch install version 0.1.8", (0, 1)),
        ("PyTorch", "needs PyTorch and torchvision 0.4", None),
    ],
)
def test_the_newest_version_that_readme_speaks_of(
    what: str, text: str, newest: tuple[int, int] | None, tmp_path: Path
) -> None:
    write_tree(tmp_path, {"README.md": text, "train.py": "import torch\n"})
    assert newest_of_pages(tmp_path, what) == (None if newest is None else (newest, "README.md"))


def test_the_helper_is_syntax_of_the_python_that_it_asks_for() -> None:
    text = Path(runtime.__file__).read_text(encoding="utf-8")
    ast.parse(text, feature_version=HELPER_PYTHON)
    with pytest.raises(SyntaxError):
        ast.parse(text, feature_version=(HELPER_PYTHON[0], HELPER_PYTHON[1] - 1))
