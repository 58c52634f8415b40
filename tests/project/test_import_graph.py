"""Which program of a project a person would start first: told by what it does."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write_tree

from torchmigrate.project.import_graph import ImportIndex, Programs

NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
MAIN = "\n\nif __name__ == '__main__':\n    main()\n"
EVAL = "from net import Net\n\n\ndef main():\n    Net().eval()\n" + MAIN
TRAIN = "from net import Net\n\n\ndef main():\n    loss = Net()(1)\n    loss.backward()\n" + MAIN
SAVES = TRAIN.replace("loss.backward()\n", "loss.backward()\n    torch.save(loss, 'x.pt')\n").replace(
    "from net", "import torch\nfrom net"
)
ARGUMENTS = "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument({})\n"
# project -> the program to start first
PROJECTS: dict[str, tuple[dict[str, str], str]] = {
    "the name says nothing": ({"train.py": EVAL, "zz.py": TRAIN}, "zz.py"),
    "one that saves what it trains": ({"bench.py": TRAIN, "run.py": SAVES}, "run.py"),
    "one that builds a model whose forward calls backward, and shows what it makes of a picture": (
        {
            "a.py": "from trainer import Trainer\n\nTrainer().model.show().save('a.png')\n",
            "b.py": "from trainer import Trainer\n\ntrainer = Trainer()\ntrainer.update()\ntrainer.save()\n",
            "trainer.py": "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
            "        x.backward()\n\n\nclass Trainer:\n    def __init__(self):\n        self.model = Model()\n\n"
            "    def update(self):\n        self.model(1)\n        self.optimizer.step()\n",
        },
        "b.py",
    ),
    "one that asks for less": (
        {"a.py": ARGUMENTS.format("'data'") + TRAIN, "b.py": ARGUMENTS.format("'--data'") + TRAIN},
        "b.py",
    ),
    "one that asks for less, in other words": (
        {
            "a.py": ARGUMENTS.format("'--data', required=True") + TRAIN,
            "b.py": ARGUMENTS.format("'data', nargs='?'") + TRAIN,
        },
        "b.py",
    ),
    "training in another file, which a script for tests imports, too": (
        {
            "apply_model.py": "from model import Model\n\n\ndef main():\n    Model().test()\n" + MAIN,
            "optimise.py": "from model import Model\n\n\ndef main():\n    Model().optimize_parameters()\n" + MAIN,
            "model.py": "import torch\n\n\nclass Model:\n    def test(self):\n        self.forward()\n\n"
            "    def optimize_parameters(self):\n        self.backward_g()\n\n"
            "    def backward_g(self):\n        self.loss.backward()\n",
        },
        "optimise.py",
    ),
    "processes that are started with a function": (
        {
            "a.py": EVAL,
            "b.py": "import torch\n\n\ndef worker(i):\n    torch.ones(1).backward()\n\n\n"
            "if __name__ == '__main__':\n    torch.multiprocessing.spawn(worker, nprocs=2)\n",
        },
        "b.py",
    ),
    "a trainer of a library": (
        {
            "a.py": "import torch\nimport lightning\n\nmodel = torch.nn.Linear(1, 1)\nmodel.train()\n",
            "b.py": "import torch\nimport lightning\n\nmodel = torch.nn.Linear(1, 1)\nlightning.Trainer().fit(model)\n",
        },
        "b.py",
    ),
    "one that starts another program, as on a cluster": (
        {"a.py": "import submitit\nimport z\n\n\ndef main():\n    submitit.submit(z.main)\n" + MAIN, "z.py": SAVES},
        "z.py",
    ),
    "one that starts another program, which trains by what it imports under another name": (
        {
            "a.py": "import z\n\n\nclass Job:\n    def __call__(self):\n        z.main()\n\n\n"
            "def main():\n    Job()\n" + MAIN,
            "misc.py": "import torch\n\n\nclass ScalerThatCountsNorms:\n    def __call__(self, loss):\n"
            "        loss.backward()\n\n\ndef save():\n    torch.save(1, 'x.pt')\n",
            "z.py": "import misc\nfrom misc import ScalerThatCountsNorms as Scaler\nfrom net import Net\n\n\n"
            "def main():\n    scaler = Scaler()\n    scaler(Net()(1))\n    misc.save()\n" + MAIN,
        },
        "z.py",
    ),
    "one that takes a function from a program that only uses a model": (
        {"a.py": SAVES.replace("from net", "from z import main as show\nfrom net"), "z.py": EVAL},
        "a.py",
    ),
    "a script without a main": ({"a.py": "import torch\n\nfor i in range(3):\n    torch.ones(1).backward()\n"}, "a.py"),
    "below the project's folder": (
        {"pkg/__init__.py": "", "tools/go.py": SAVES},
        "tools/go.py",
    ),
    "what trains, further down than what does not": (
        {"demo.py": EVAL, "projects/add/add.py": SAVES},
        "projects/add/add.py",
    ),
    "nothing that uses torch": ({"setup.py": "import torch\n\ntorch.f()\n", "a.py": "print(1)\n"}, ""),
    "a package's own main, a test and torch.hub's file": (
        {
            "pkg/__main__.py": "from .net import Net\n" + MAIN,
            "tests/test_a.py": "import torch\nimport pytest\n" + MAIN,
            "hubconf.py": "import torch\n\nprint(torch)\n",
        },
        "",
    ),
    "a module that does something when it is imported": (
        {"options.py": "import torch\n\ntorch.manual_seed(0)\n", "use.py": "import options\n\nprint(options)\n"},
        "use.py",
    ),
    "a file that cannot be read": ({"a.py": "def f(:\n", "b.py": TRAIN}, "b.py"),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_the_program_to_start_first(name: str, tmp_path: Path) -> None:
    files, first = PROJECTS[name]
    root = write_tree(tmp_path, {"net.py": NET, **files}).resolve()
    found = Programs(ImportIndex(root, sorted(map(str, root.rglob("*.py"))))).first()
    assert (Path(found).relative_to(root).as_posix() if found else "") == first


def test_what_a_program_reads_is_told_from_near_to_far(tmp_path: Path) -> None:
    files = {
        "a.py": "import b\nimport c\n",
        "b.py": "import d\n",
        "c.py": "import a\n",
        "d.py": "",
        "e.py": "import a\n",
    }
    root = write_tree(tmp_path, files).resolve()
    programs = Programs(ImportIndex(root, sorted(map(str, root.rglob("*.py")))))
    assert [Path(path).name for path in programs.reads(f"{root}/a.py")] == ["a.py", "b.py", "c.py", "d.py"]


def test_a_folder_of_modules_is_told_from_a_file_of_its_name_above_it(tmp_path: Path) -> None:
    files = {"utils.py": "", "tool/utils/boxes.py": "", "tool/utils/util.py": "from utils import boxes\n", "a.py": ""}
    root = write_tree(tmp_path, {**files, "run.py": "from utils import boxes\n"})
    index = ImportIndex(root, [str(path) for path in sorted(root.rglob("*.py"))])
    assert index.imported_by(str(root / "tool/utils/util.py")) == [str(root / "tool/utils/boxes.py")]
    assert str(root / "utils.py") in index.imported_by(str(root / "run.py"))
