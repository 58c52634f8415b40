"""Who imports whom, and where the helper goes: placements are proven by running what was placed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import texts_after, write_tree
from windows_paths import Windows

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine import planner
from torchmigrate.helper.placement import vendored_place
from torchmigrate.project.import_graph import Import, ImportIndex, read_imports
from torchmigrate.project.packaging import installed_package, is_installable, linked_folders

EITHER = "try:\n    from . import accel\nexcept ImportError:  # run as a script\n    import accel"
OUTSIDE = "try:\n    from .. import accel\nexcept (ImportError, ValueError):  # run as a script\n    import accel"
OR_INSTALLED = "try:\n    import accel\nexcept ImportError:  # where it is installed\n    from pkg import accel"
LINKING = """import os
from setuptools import find_packages, setup
examples = os.path.join("pkg", "examples")
os.symlink(os.path.join("..", "examples"), examples)
setup(name="x", packages=find_packages(exclude=["examples", "tools"]))
"""
INSTALLABLE = {"setup.py": "from setuptools import setup\nsetup(name='x')\n"}


def notebook(*lines: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": [f"{line}\n" for line in lines]}]}, indent=1)


def index(root: Path) -> ImportIndex:
    files = sorted(str(p) for p in root.rglob("*") if p.suffix in (".py", ".ipynb"))
    return ImportIndex(root, files)


# files; for each file that needs the helper: where it is put, how it is imported; what must run (folder, arguments)
PLACES = {
    "a package without an __init__.py that is deployed alone: nothing lies beside it": (  # found in doctr
        {
            "api/app/main.py": "from app.vision import f",
            "api/app/vision.py": "import torch\nfrom .schemas import A\ndef f(): pass",
            "api/app/schemas.py": "A = 1",
            "api/tests/test_vision.py": "from app.vision import f\ndef test_f(): f()",
        },
        {"api/app/vision.py": ("api/app/accel.py", "from . import accel")},
        [],
    ),
    "a module with the name of its package, which a script beside it imports": (  # found in NGCF-PyTorch
        {
            "NGCF/__init__.py": "",
            "NGCF/NGCF.py": "class NGCF: pass",
            "NGCF/utility/helper.py": "A = 1",
            "NGCF/main.py": "import torch\nfrom NGCF import NGCF\nfrom utility.helper import *\nNGCF()",
        },
        {"NGCF/main.py": ("NGCF/accel.py", "import accel")},
        [(".", "NGCF/main.py"), ("NGCF", "main.py")],
    ),
    "a module with the name of its package, which a script in the package imports from above": (
        {
            "NGCF/__init__.py": "",
            "NGCF/NGCF.py": "class NGCF: pass",
            "NGCF/main.py": "import torch\nfrom NGCF.NGCF import NGCF\nNGCF()",
        },
        {"NGCF/main.py": ("accel.py", "import accel")},
        [(".", "-m NGCF.main")],
    ),
    "scripts that a page runs by their names, and scripts beside them": (  # found in pyro
        {
            "CONTRIBUTING.md": "Run `python -m profiler.hmm --help`.",
            "profiler/__init__.py": "",
            "profiler/hmm.py": "import argparse, torch\nprint(argparse)",
            "tools/__init__.py": "",
            "tools/hmm.py": "import argparse, torch\nprint(argparse)",
        },
        {
            "profiler/hmm.py": (
                "profiler/accel.py",
                "try:\n    from . import accel\nexcept ImportError:  # run as a script\n    import accel",
            ),
            "tools/hmm.py": ("tools/accel.py", "import accel"),
        },
        [("profiler", "hmm.py"), ("tools", "hmm.py")],
    ),
    "a script that a test imports by name, with the installed package that it shows": (  # found in piq
        {
            "setup.py": "from setuptools import setup\nsetup(name='pkg', packages=['pkg'])",
            "pkg/__init__.py": "import torch\ndef f(): pass",
            "examples/__init__.py": "",
            "examples/show.py": "import torch\nimport pkg\nif __name__ == '__main__':\n    pkg.f()",
            "tests/test_show.py": "from examples.show import torch",
            "README.md": "pip install pkg",
        },
        {"examples/show.py": ("accel.py", "import accel")},
        [],
    ),
    "an installed program that uses another package of its installation": (  # found in pro_gan_pytorch
        {
            "setup.py": "from setuptools import setup\nsetup(name='our-pkg', packages=['pkg', 'pkg_scripts'])",
            "pkg/__init__.py": "",
            "pkg/net.py": "f = 1",
            "pkg_scripts/__init__.py": "",
            "pkg_scripts/train.py": "from pkg.net import f\nif __name__ == '__main__':\n    print(f)",
            "README.md": "pip install our-pkg",
        },
        {"pkg_scripts/train.py": ("pkg/accel.py", "from pkg import accel")},
        [(".", "-m pkg_scripts.train")],
    ),
    "a package that torch.hub loads, and a program beside it": (  # found in proxylessnas
        {
            "hubconf.py": "from pkg.net import f",
            "pkg/__init__.py": "from .net import f",
            "pkg/net.py": "f = 1",
            "eval.py": "import argparse\nfrom pkg.net import f\nif __name__ == '__main__':\n    print(f)",
        },
        {"pkg/net.py": ("pkg/accel.py", "from . import accel"), "eval.py": ("pkg/accel.py", "from pkg import accel")},
        [(".", "eval.py")],
    ),
    "imports of an installed package's parts from before it had its name": (  # found in AutoDL-Projects
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/models/__init__.py": "from .net import f",
            "pkg/models/net.py": "f = 1",
            "pkg/utils/__init__.py": "",
            "pkg/utils/old.py": "from models import f",
            "main.py": "from pkg.models import f",
        },
        {"pkg/models/net.py": ("pkg/accel.py", "from .. import accel")},
        [(".", "main.py")],
    ),
    "imports of a package's parts from before it had its name": (  # found in CenterPoint
        {
            "pkg/__init__.py": "",
            "pkg/models/__init__.py": "from .net import f",
            "pkg/models/net.py": "f = 1",
            "pkg/utils/__init__.py": "",
            "pkg/utils/old.py": "def g():\n    from models import f",
            "main.py": "from pkg.models import f",
        },
        {"pkg/models/net.py": ("pkg/accel.py", "from .. import accel")},
        [(".", "main.py")],
    ),
    "imports of a package's parts that a program in its folder makes": (
        {
            "pkg/__init__.py": "",
            "pkg/models/__init__.py": "from .net import f",
            "pkg/models/net.py": "f = 1",
            "pkg/run.py": "from models import f\nif __name__ == '__main__':\n    print(f)",
            "main.py": "from pkg.models import f",
        },
        {"pkg/models/net.py": ("pkg/models/accel.py", "from . import accel")},
        [(".", "main.py"), (".", "pkg/run.py")],
    ),
    "imports of an installed package's parts that a program below puts on the search path": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/models/__init__.py": "from .net import f",
            "pkg/models/net.py": "f = 1",
            "pkg/utils/__init__.py": "",
            "pkg/utils/old.py": "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))\n"
            "from models import f",
            "main.py": "from pkg.models import f",
        },
        {"pkg/models/net.py": ("pkg/models/accel.py", "from . import accel")},
        [(".", "main.py"), (".", "pkg/utils/old.py")],
    ),
    "decisions of a package that is imported by dots below its top": (  # found in DECA, which another project holds
        {
            "train.py": "from net.deca import f",
            "net/__init__.py": "",
            "net/deca.py": "from .utils.renderer import f",
            "net/utils/renderer.py": "import torch\nfrom . import util\ndef f(): pass",
            "net/utils/util.py": "a = 1",
        },
        {"net/utils/renderer.py": ("net/accel.py", "from .. import accel")},
        [(".", "train.py")],
    ),
    "a module that asks whether it is a script, to import its neighbour": (  # found in outlier-exposure
        {
            "net/__init__.py": "",
            "net/layer.py": (
                "import torch\nif __name__ == '__main__':\n    from mult import f\nelse:\n    from .mult import f\n"
            ),
            "net/mult.py": "f = 1",
            "train.py": "from net.layer import f",
        },
        {
            "net/layer.py": (
                "net/accel.py",
                "try:\n    from . import accel\nexcept ImportError:  # run as a script\n    import accel",
            )
        },
        [(".", "train.py"), ("net", "layer.py")],
    ),
    "a package without an __init__.py, with files beside it": (
        {
            "src/net/entry.py": "from net.model import f",
            "src/net/model.py": "import torch\nfrom .layers import A\ndef f(): pass",
            "src/net/layers.py": "A = 1",
            "src/param.py": "width = 1",
            "src/tasks/train.py": "import torch\nfrom net.entry import f\nfrom param import width\nprint('cuda')",
        },
        {
            "src/net/model.py": ("src/accel.py", "import accel"),
            "src/tasks/train.py": ("src/accel.py", "import accel"),
        },
        [],
    ),
    "scripts whose neighbour puts the folder of their modules on sys.path": (
        {
            "tools/_init_paths.py": (
                "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'lib'))\n"
            ),
            "tools/train.py": "import _init_paths\nfrom core.loss import f\nimport sys\nprint(sys.argv)",
            "tools/plot.py": "import style\nimport sys\nprint(sys.argv)",
            "tools/style.py": "width = 1",
            "lib/core/loss.py": "import torch\ndef f(): pass",
            "lib/core/__init__.py": "",
        },
        {
            "tools/train.py": ("lib/accel.py", "import accel"),
            "tools/plot.py": ("tools/accel.py", "import accel"),
            "lib/core/loss.py": ("lib/accel.py", "import accel"),
        },
        [("tools", "train.py"), ("tools", "plot.py"), (".", "tools/train.py")],
    ),
    "several packages that setup() does not list, beside scripts": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='dpr')",
            "train.py": "from dpr.models import build\nimport torch\nprint('cuda')",
            "conf/train.yaml": "a: 1",
            "dpr/__init__.py": "",
            "dpr/options.py": "import torch\ndef setup(): pass",
            "dpr/models/__init__.py": "from .bert import build",
            "dpr/models/bert.py": "from dpr.options import setup\ndef build(): pass",
            "dpr/models/text.py": "from .bert import build\ndef other(): pass",
        },
        {
            "train.py": ("accel.py", "import accel"),
            "dpr/options.py": ("accel.py", "import accel"),
            "dpr/models/bert.py": ("accel.py", "import accel"),
            "dpr/models/text.py": ("accel.py", "import accel"),
        },
        [(".", "train.py")],
    ),
    "a package in a namespace that other installations share": (
        {
            "pyproject.toml": (
                '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
                '[tool.hatch.build.targets.wheel]\npackages = ["src/note"]\n'
            ),
            "src/note/audio/__init__.py": "",
            "src/note/audio/core.py": "from note.audio.io import read",
            "src/note/audio/io.py": "def read(): pass",
        },
        {
            "src/note/audio/core.py": ("src/note/audio/accel.py", "from note.audio import accel"),
            "src/note/audio/io.py": ("src/note/audio/accel.py", "from note.audio import accel"),
        },
        [],
    ),
    "a folder without an __init__ that poetry packs by the project's name": (
        {
            "pyproject.toml": '[tool.poetry]\nname = "my-net"\nversion = "1"\n',
            "my_net/model.py": "from my_net.utils import pick",
            "my_net/utils.py": "def pick(): pass",
        },
        {
            "my_net/model.py": ("my_net/accel.py", "from my_net import accel"),
            "my_net/utils.py": ("my_net/accel.py", "from my_net import accel"),
        },
        [],
    ),
    "modules that are imported by a name that is computed, with dots among them or without": (
        {
            "main.py": "import importlib\nGame = importlib.import_module('games.' + input()).Game",
            "games/base.py": "class Base: pass",
            "games/chess.py": "from .base import Base\nclass Game(Base): pass",
            "games/go.py": "import torch\nclass Game: pass",
            "games/play.py": "import sys\nif __name__ == '__main__':\n    print(sys.argv)",
            "other/base.py": "class Base: pass",
            "other/chess.py": "from .base import Base\nclass Game(Base): pass",
        },
        {
            "games/base.py": ("accel.py", "import accel"),
            "games/chess.py": ("accel.py", "import accel"),
            "games/go.py": ("games/accel.py", "import accel"),
            "games/play.py": ("games/accel.py", "import accel"),
            "other/chess.py": ("other/accel.py", "from . import accel"),
        },
        [],
    ),
    "modules that only define, beside no script": (
        {
            "main.py": "import importlib\nGame = importlib.import_module('games.' + input()).Game",
            "games/go.py": "import torch\nclass Game: pass",
            "plain/go.py": "import torch\nclass Game: pass",
        },
        {"games/go.py": ("accel.py", "import accel"), "plain/go.py": ("plain/accel.py", "import accel")},
        [],
    ),
    "a package with a stray __init__.py beside its setup.py, and in its examples": (
        {
            "third/nr/setup.py": "from setuptools import setup\nsetup(name='nr', packages=['nr'])",
            "third/nr/__init__.py": "",
            "third/nr/examples/__init__.py": "",
            "third/nr/examples/example1.py": "import nr\nprint(nr.make)",
            "third/nr/nr/__init__.py": "from .core import make",
            "third/nr/nr/core.py": "import nr\ndef make(): pass",
            "run.py": "import nr",
        },
        {
            "third/nr/nr/core.py": ("third/nr/nr/accel.py", "from nr import accel"),
            "third/nr/examples/example1.py": ("third/nr/nr/accel.py", "from nr import accel"),
            "run.py": ("accel.py", "import accel"),
        },
        [],
    ),
    "a script that names its module with dots, and finds it on sys.path where that fails": (
        {
            "run.py": "import sys\ntry:\n    from .layer import layer\nexcept:\n"
            "    sys.path.insert(0, './layer'); import layer",
            "layer/layer.py": "def f(): pass",
            "other.py": "from plain import plain\ntry:\n    from .absent import f\nexcept ImportError:\n    f = None",
            "plain/plain.py": "def f(): pass",
        },
        {
            "run.py": ("accel.py", EITHER),
            "layer/layer.py": ("layer/accel.py", EITHER),
            "other.py": ("accel.py", "import accel"),
            "plain/plain.py": ("accel.py", "import accel"),
        },
        [("", "run.py")],
    ),
    "a folder of an installed package below one without __init__.py, and a module called setup.py": (
        {
            "setup.py": "from setuptools import find_packages, setup\nsetup(name='pkg', packages=find_packages())",
            "pkg/__init__.py": "",
            "pkg/eval/__init__.py": "",
            "pkg/eval/setup.py": "from pkg.config import setup\ndef build(args): return setup(args)",
            "pkg/config.py": "def setup(args): pass",
            "pkg/eval/seg/__init__.py": "",
            "pkg/eval/seg/ops/modules/__init__.py": "from .attention import f",
            "pkg/eval/seg/ops/modules/attention.py": "def f(): pass",
            "run.py": "import pkg.eval.setup\nimport pkg.eval.seg.ops.modules",
        },
        {
            "pkg/eval/setup.py": ("pkg/accel.py", "from pkg import accel"),
            "pkg/eval/seg/ops/modules/attention.py": ("pkg/accel.py", "from pkg import accel"),
        },
        [("", "run.py")],
    ),
    "a package that setup() installs under another name of that function": (
        {
            "setup.py": "from distutils.core import setup\n"
            "from setuptools import setup as install, find_packages as found\n"
            "install(name='pkg', packages=found())",
            "pkg/__init__.py": "from pkg.inner import f",
            "pkg/inner.py": "from pkg import __init__\ndef f(): pass",
            "tests/__init__.py": "",
            "tests/check.py": "import unittest\nimport pkg",
        },
        {
            "pkg/inner.py": ("pkg/accel.py", "from pkg import accel"),
            "tests/check.py": ("pkg/accel.py", "from pkg import accel"),
        },
        [],
    ),
    "a script whose neighbour imports the package that is installed": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='x', packages=['pkg'])",
            "pkg/__init__.py": "",
            "pkg/nets.py": "def net(): pass",
            "recipes/denoise.py": "from model import load\nprint('cuda')",
            "recipes/model.py": "from pkg.nets import net\ndef load(): pass",
            "recipes/plot.py": "from style import width\nprint('cuda')",
            "recipes/style.py": "width = 1",
        },
        {
            "recipes/denoise.py": ("pkg/accel.py", "from pkg import accel"),
            "recipes/plot.py": ("recipes/accel.py", "import accel"),
        },
        [],
    ),
    "a module of a package that a script beside it names without dots": (
        {
            "train.py": "from local.loader import f\nprint('cuda')",
            "local/__init__.py": "",
            "local/loader/__init__.py": "from .frames import f",
            "local/loader/frames.py": "import torch\ndef f(): pass",
            "local/loader/make.py": "from frames import f\nprint('cuda')",
        },
        {
            "train.py": ("accel.py", "import accel"),
            "local/loader/frames.py": ("local/loader/accel.py", EITHER),
            "local/loader/make.py": ("local/loader/accel.py", "import accel"),
        },
        [(".", "train.py"), ("local/loader", "make.py")],
    ),
    "a script in a package that only prints and loops": (
        {
            "pkg/__init__.py": "",
            "pkg/sub/__init__.py": "from .enc import E",
            "pkg/sub/enc.py": "class E: pass",
            "pkg/sub/evaluate.py": "import math\nx = math.pi\nprint(x)",
            "pkg/sub/plain.py": "import math\nx = math.pi",
        },
        {
            "pkg/sub/evaluate.py": (
                "pkg/sub/accel.py",
                "try:\n    from . import accel\nexcept ImportError:  # run as a script\n    import accel",
            ),
            "pkg/sub/plain.py": ("pkg/sub/accel.py", "from . import accel"),
        },
        [("pkg/sub", "evaluate.py")],
    ),
    "a package that a notebook beside it and the scripts above name": (
        {
            "main.py": "from faces.src.net import Net\nimport torch\ntorch.cuda",
            "faces/src/first.py": "from .net import Net\nclass First: pass",
            "faces/src/__init__.py": "from .net import Net",
            "faces/src/net.py": "import math\nclass Net: pass",
            "faces/src/deep/late.py": "import math\nclass Late: pass",
            "faces/try.py": "from src import Net, first\nfrom src.first import First\nfrom src.deep.late import Late",
            "faces/fit.py": "import sys\nsys.path.append('..')\nfrom src.other import f",
            "faces/src/other.py": "f = 1",
            "faces/src/solo.py": "import math\nclass Solo: pass",
            "faces/both.py": "from src.solo import Solo",
            "more.py": "from faces.src.other import f\nfrom faces.src.deep.late import Late\nimport faces.src.solo",
        },
        {
            "faces/src/net.py": ("faces/src/accel.py", "from . import accel"),
            "faces/src/deep/late.py": ("faces/src/accel.py", "from .. import accel"),
            "faces/src/first.py": ("faces/src/accel.py", "from . import accel"),
            "faces/src/solo.py": ("faces/src/accel.py", "from . import accel"),
            "faces/src/other.py": ("accel.py", "import accel"),
        },
        [(".", "main.py"), (".", "more.py"), ("faces", "try.py"), ("faces", "both.py")],
    ),
    "an installed package that another one needs in a function only": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='a', packages=['a', 'tvm'])",
            "a/__init__.py": "",
            "a/net.py": "def f():\n    import tvm\n    from tvm import nvcc",
            "a/uses.py": "from a.net import f",
            "tvm/__init__.py": "",
            "tvm/nvcc.py": "",
            "scripts/fit.py": "from a.net import f",
        },
        {"a/net.py": ("a/accel.py", "from a import accel"), "scripts/fit.py": ("a/accel.py", "from a import accel")},
        [],
    ),
    "a package whose scripts name its modules from inside": (
        {
            "top/__init__.py": "",
            "top/face/__init__.py": "from .models.net import Net",
            "top/face/models/__init__.py": "",
            "top/face/models/net.py": "import math\nclass Net: pass",
            "top/face/models/convert.py": "from models.net import Net",
            "top/face/tests/check.py": "import sys\nsys.path.append('..')\nfrom models.net import Net",
        },
        {
            "top/face/models/net.py": (
                "top/face/accel.py",
                OUTSIDE,
            ),
        },
        [("top/face/tests", "check.py")],
    ),
    "scripts in one folder": (
        {"train.py": "import utils", "utils.py": ""},
        {"train.py": ("accel.py", "import accel"), "utils.py": ("accel.py", "import accel")},
        [(".", "train.py"), ("..", "project/train.py")],
    ),
    "modules that are imported by a name that is made up": (
        {
            "main.py": "import importlib, sys\nimportlib.import_module('models.' + 'vgg')",
            "models/vgg.py": "import math\nclass Model: pass",
            "models/resnet.py": "from models.blocks import f\nclass Model: pass",
            "models/blocks.py": "def f(): pass",
            "models/probe.py": "import math\ndef f(): pass\nf()",
        },
        {
            "models/vgg.py": ("accel.py", "import accel"),
            "models/resnet.py": ("accel.py", "import accel"),
            "models/blocks.py": ("accel.py", "import accel"),
            "models/probe.py": ("models/accel.py", "import accel"),
        },
        [(".", "main.py"), (".", "models/probe.py")],
    ),
    "modules that are imported by a name that is made up, beside a script": (
        {
            "main.py": "import importlib, sys\nimportlib.import_module('models.' + 'vgg')",
            "models/vgg.py": "class Model: pass",
            "models/resnet.py": "from models.blocks import f\nclass Model: pass",
            "models/blocks.py": "def f(): pass",
            "models/probe.py": "if __name__ == '__main__':\n    print()",
        },
        {"models/vgg.py": ("models/accel.py", "import accel"), "models/probe.py": ("models/accel.py", "import accel")},
        [(".", "models/probe.py")],
    ),
    "modules that are imported by a name that is made up, beside a script that is run from above": (
        {
            "main.py": "import importlib, sys\nimportlib.import_module('models.' + 'vgg')",
            "models/vgg.py": "class Model: pass",
            "models/resnet.py": "from models.blocks import f\nif __name__ == '__main__':\n    print()",
            "models/blocks.py": "def f(): pass",
        },
        {"models/vgg.py": ("accel.py", "import accel"), "models/resnet.py": ("accel.py", "import accel")},
        [(".", "main.py")],
    ),
    "a script of a package that says nothing but where it looks for modules": (
        {
            "utils/__init__.py": "",
            "utils/general.py": "from utils import plots",
            "utils/plots.py": "",
            "utils/aws/__init__.py": "",
            "utils/aws/resume.py": "import sys\nsys.path.append('./')\nfor x in 'ab':\n    print(x)",
            "utils/aws/known.py": "x = 1",
            "train.py": "from utils.general import x",
        },
        {
            "utils/aws/resume.py": (
                "utils/aws/accel.py",
                "try:\n    from . import accel\nexcept ImportError:  # run as a script\n    import accel",
            ),
            "utils/general.py": ("accel.py", "import accel"),
            "utils/aws/known.py": ("accel.py", "import accel"),
        },
        [(".", "utils/aws/resume.py")],
    ),
    "a script that asks for a release of the package, beside one that runs with its files": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='our-pkg', packages=['pkg'])\n",
            "pkg/__init__.py": "",
            "examples/old/train.py": "import pkg",
            "examples/old/requirements.txt": "numpy\nOur_Pkg>=1.0  # the last one\n",
            "examples/named/train.py": "from pkg import x",
            "examples/named/requirement.txt": "pkg\n",
            "examples/new/train.py": "import pkg",
            "examples/new/requirements.txt": "git+https://example.org/our-pkg\nour-pkg @ git+https://example.org/our-pkg\n",
            "examples/plain/train.py": "import pkg",
            "requirements.txt": "our-pkg\n",
        },
        {
            "examples/old/train.py": ("examples/old/accel.py", "import accel"),
            "examples/named/train.py": ("examples/named/accel.py", "import accel"),
            "examples/new/train.py": ("pkg/accel.py", "from pkg import accel"),
            "examples/plain/train.py": ("pkg/accel.py", "from pkg import accel"),
        },
        [],
    ),
    "a script outside the package whose release README installs": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='our-pkg', packages=['pkg'])\n",
            "README.md": "Install it:\n\n```\n$ pip install -U our_pkg\n# pip install git+https://example.org/our-pkg\n```\n",
            "pkg/__init__.py": "",
            "pkg/net.py": "from pkg.blocks import f",
            "pkg/blocks.py": "def f(): pass",
            "examples/train.py": "import pkg",
            "second/search/loader.py": "import pkg",
            "second/engine.py": "from second.search.loader import f",
            "run.py": "import pkg",
        },
        {
            "second/search/loader.py": ("accel.py", "import accel"),
            "pkg/net.py": ("pkg/accel.py", "from pkg import accel"),
            "examples/train.py": ("examples/accel.py", "import accel"),
            "run.py": ("pkg/accel.py", "from pkg import accel"),
        },
        [],
    ),
    "a script outside the package that README installs as a release, and from here": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='our-pkg', packages=['pkg'])\n",
            "README.md": "pip install our-pkg\n\nFrom source:\n\npip install -e .\n",
            "pkg/__init__.py": "",
            "examples/train.py": "import pkg",
            "benchmarks/speed.py": "import pkg",
        },
        {
            "examples/train.py": ("examples/accel.py", "import accel"),
            "benchmarks/speed.py": ("pkg/accel.py", "from pkg import accel"),
        },
        [],
    ),
    "an inner package that is imported by its own name, too": (
        {
            "setup.py": "from setuptools import find_packages, setup\nsetup(name='pkg', packages=find_packages())\n",
            "pkg/__init__.py": "",
            "pkg/encoders.py": "from pkg.clap.training.train import f",
            "pkg/clap/__init__.py": "",
            "pkg/clap/training/__init__.py": "",
            "pkg/clap/training/main.py": "from training.train import f\nif __name__ == '__main__':\n    f()",
            "pkg/clap/training/train.py": "from .loss import g\ndef f(): g()",
            "pkg/clap/training/loss.py": "def g(): pass",
        },
        {
            "pkg/encoders.py": ("pkg/accel.py", "from pkg import accel"),
            "pkg/clap/training/train.py": ("pkg/clap/training/accel.py", "from . import accel"),
            "pkg/clap/training/loss.py": ("pkg/clap/training/accel.py", "from . import accel"),
        },
        [("pkg/clap", "-m training.train"), ("", "-m pkg.encoders")],
    ),
    "an inner package that is called like a library, beside one that is imported by its own name": (
        {
            "setup.py": "from setuptools import find_packages, setup\nsetup(name='pkg', packages=find_packages())\n",
            "pkg/__init__.py": "",
            "pkg/encoders.py": "from pkg.clap.open_clip.openai import f",
            "pkg/clap/__init__.py": "",
            "pkg/clap/open_clip/__init__.py": "from .openai import f",
            "pkg/clap/open_clip/openai.py": "from .model import g\ndef f(): g()",
            "pkg/clap/open_clip/model.py": "def g(): pass",
            "pkg/clap/training/__init__.py": "",
            "pkg/clap/training/main.py": "from open_clip import f\nfrom training.data import h\n"
            "if __name__ == '__main__':\n    f()",
            "pkg/clap/training/data.py": "def h(): pass",
        },
        {"pkg/clap/open_clip/openai.py": ("pkg/clap/open_clip/accel.py", "from . import accel")},
        [("pkg/clap", "-m training.main"), ("", "-m pkg.encoders")],
    ),
    "a script outside the package that README installs from here": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='our-pkg', packages=['pkg'])\n",
            "README.md": "`pip install our-pkg`, or `pip install -e .[dev]`\n",
            "pkg/__init__.py": "",
            "examples/train.py": "import pkg",
        },
        {"examples/train.py": ("pkg/accel.py", "from pkg import accel")},
        [],
    ),
    "a module that nobody imports, among those that import each other by name": (
        {
            "src/__init__.py": "",
            "src/main.py": "import utility\nif __name__ == '__main__':\n    print()",
            "src/utility.py": "f = 1",
            "src/loader.py": "class Loader: pass",
        },
        {"src/utility.py": ("src/accel.py", "import accel"), "src/loader.py": ("src/accel.py", "import accel")},
        [("src", "main.py"), ("src", "loader.py")],
    ),
    "modules of a folder that nothing names": (
        {
            "models/vgg.py": "class Model: pass",
            "models/resnet.py": "from blocks import f\nclass Model: pass",
            "models/blocks.py": "def f(): pass",
        },
        {
            "models/vgg.py": ("models/accel.py", "import accel"),
            "models/resnet.py": ("models/accel.py", "import accel"),
        },
        [(".", "models/resnet.py")],
    ),
    "a script beside a package with a setup.py of its own, which is installed once": (
        {
            "warm-up/setup.py": "from setuptools import setup\nsetup(name='w', packages=['warm_up'])\n",
            "warm-up/warm_up/__init__.py": "from warm_up.scheduler import f",
            "warm-up/warm_up/scheduler.py": "def f(): pass",
            "warm-up/run.py": "from warm_up import f",
            "denoising/train.py": "from warm_up import f\nimport losses",
            "denoising/losses.py": "def g(): pass",
            "test.py": "from warm_up import f",
        },
        {
            "warm-up/run.py": ("warm-up/warm_up/accel.py", "from warm_up import accel"),
            "denoising/train.py": ("denoising/accel.py", "import accel"),
            "test.py": ("accel.py", "import accel"),
        },
        [],
    ),
    "a module of a package outside the one whose release README installs": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='our-pkg', packages=['pkg'])\n",
            "README.md": "Install it:\n\n```\n$ pip install our-pkg\n```\n",
            "pkg/__init__.py": "",
            "projects/__init__.py": "",
            "projects/wizard/__init__.py": "",
            "projects/wizard/agents.py": "import pkg\nfrom .modules import f",
            "projects/wizard/modules.py": "def f(): pass",
            "projects/wizard/train.py": "import pkg",
        },
        {
            "projects/wizard/agents.py": ("projects/wizard/accel.py", "from . import accel"),
            "projects/wizard/train.py": ("projects/wizard/accel.py", "import accel"),
        },
        [],
    ),
    "packages that a build script picks by how their names begin": (
        {
            "setup.py": "from setuptools import find_packages, setup\n"
            "setup(name='x', packages=[p for p in find_packages() if p.startswith('pkg')])\n",
            "pkg/__init__.py": "",
            "pkg/models/__init__.py": "from .net import f",
            "pkg/models/net.py": "from pkg.models.base import f",
            "pkg/models/base.py": "f = 1",
            "main.py": "from pkg.models.net import f",
        },
        {
            "pkg/models/net.py": ("pkg/accel.py", "from pkg import accel"),
            "pkg/models/base.py": ("pkg/accel.py", "from pkg import accel"),
            "main.py": ("pkg/accel.py", "from pkg import accel"),
        },
        [(".", "main.py"), (".", "-m pkg.models.net")],
    ),
    "a package of scripts, whose modules others of these names hide": (
        {
            "config.py": "x = 1",
            "main.py": "import config",
            "old/__init__.py": "",
            "old/config.py": "x = 1",
            "old/train.py": "from config import x",
            "old/tools.py": "x = 1",
        },
        {
            "old/config.py": ("old/accel.py", "import accel"),
            "old/train.py": ("old/accel.py", "import accel"),
            "old/tools.py": ("old/accel.py", "from . import accel"),
        },
        [(".", "old/train.py"), (".", "-m old.tools")],
    ),
    "an installable folder that is no package": (
        {**INSTALLABLE, "main.py": "from ns.model import f", "ns/model.py": "f = 1"},
        {"ns/model.py": ("ns/accel.py", "from ns import accel")},
        [(".", "main.py")],
    ),
    "packages of a namespace, of which some are installed": (
        {
            "pyproject.toml": "[project]\nname = 'x'\n[tool.setuptools.packages.find]\n"
            "include = ['ns.core', 'ns.core.*']\n",
            "ns/core/__init__.py": "from ns.core.a import f",
            "ns/core/a.py": "from ns.core.sub.b import f",
            "ns/core/sub/__init__.py": "",
            "ns/core/sub/b.py": "from ..c import f",
            "ns/core/c.py": "f = 1",
            "ns/more/__init__.py": "",
            "ns/more/d.py": "from ns.core.c import f",
            "main.py": "import ns.more.d",
        },
        dict.fromkeys(
            ("ns/core/__init__.py", "ns/core/a.py", "ns/more/d.py"),
            ("ns/core/accel.py", "from ns.core import accel"),
        )
        | {"ns/core/sub/b.py": ("ns/core/accel.py", "from .. import accel")},
        [(".", "main.py"), (".", "-m ns.core.a")],
    ),
    "two packages of one installation, one of which imports the other": (
        {
            "setup.py": "from setuptools import setup, find_packages\nsetup(name='x', packages=find_packages())\n",
            "a/__init__.py": "",
            "a/b.py": "f = 1",
            "c/__init__.py": "",
            "c/d.py": "from a.b import f",
            "c/e.py": "from c.d import f",
        },
        dict.fromkeys(("a/b.py", "c/d.py", "c/e.py"), ("a/accel.py", "from a import accel")),
        [(".", "-m c.e")],
    ),
    "packages that the list of packages leaves out": (
        {
            "setup.py": "import setuptools\n"
            "setuptools.setup(name='x', packages=setuptools.find_packages(exclude=['tasks']))\n",
            "a/__init__.py": "",
            "a/b.py": "f = 1",
            "tasks/__init__.py": "",
            "tasks/t.py": "f = 1",
            "main.py": "from tasks.t import f",
        },
        {"tasks/t.py": ("accel.py", "import accel"), "a/b.py": ("a/accel.py", "from . import accel")},
        [(".", "main.py"), (".", "-m a.b")],
    ),
    "a module below a folder of sources that setup.cfg names": (
        {
            "setup.cfg": "[metadata]\nname = x\n[options]\npackages = find_namespace:\n"
            "[options.packages.find]\nwhere = lib\n",
            "lib/ns/pkg/b.py": "from ns.pkg.c import f",
            "lib/ns/pkg/c.py": "f = 1",
        },
        {"lib/ns/pkg/c.py": ("lib/ns/accel.py", "from ns import accel")},
        [("lib", "-m ns.pkg.b")],
    ),
    "a script that imports the package in a function alone, or in a `try`": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/a.py": "f = 1",
            "tests/late.py": "def test():\n    from pkg.a import f",
            "tests/may.py": "try:\n    from pkg.a import f\nexcept ImportError:\n    f = None",
        },
        {"tests/late.py": ("tests/accel.py", "import accel"), "tests/may.py": ("tests/accel.py", "import accel")},
        [(".", "tests/late.py"), ("tests", "may.py")],
    ),
    "a script that ends, or goes on, without the package": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/a.py": "f = 1",
            "examples/ends/run.py": "try:\n    from pkg.a import f\nexcept ImportError:\n    raise ImportError('none')",
            "examples/exits/run.py": "import sys\ntry:\n    import pkg.a\nexcept ImportError:\n    sys.exit('no pkg')",
            "examples/goes/run.py": "try:\n    from pkg.a import f\nexcept ImportError:\n    print('no pkg')",
        },
        {
            "examples/ends/run.py": ("pkg/accel.py", "from pkg import accel"),
            "examples/exits/run.py": ("pkg/accel.py", "from pkg import accel"),
            "examples/goes/run.py": ("examples/goes/accel.py", "import accel"),
        },
        [("examples/goes", "run.py")],
    ),
    "a script that imports what is compiled into the package, or into another folder": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/a.py": "f = 1",
            "tools/setup.cfg": "[flake8]\n",
            "tools/ops/__init__.py": "",
            "benchmarks/run.py": "from pkg._compiled.ops import f",
            "benchmarks/other.py": "from ops._compiled import f",
        },
        {
            "benchmarks/run.py": ("pkg/accel.py", "from pkg import accel"),
            "benchmarks/other.py": ("benchmarks/accel.py", "import accel"),
        },
        [],
    ),
    "packages beside a setup.py that builds extensions in place, found in jwyang/faster-rcnn.pytorch": (
        {
            "run.py": "import paths\nfrom model.utils.net import f",
            "paths.py": "import sys\nsys.path.insert(0, 'lib')",
            "lib/setup.py": "from setuptools import setup\nsetup(name='x', ext_modules=[])\n",
            "lib/data/__init__.py": "",
            "lib/model/__init__.py": "",
            "lib/model/utils/__init__.py": "",
            "lib/model/utils/net.py": "from model.roi.layers import f",
            "lib/model/roi/__init__.py": "",
            "lib/model/roi/layers.py": "from ..roi import ops\nf = 1",
            "lib/model/roi/ops.py": "",
        },
        {
            "run.py": ("lib/model/accel.py", "from model import accel"),
            "lib/model/utils/net.py": ("lib/model/accel.py", "from model import accel"),
            "lib/model/roi/layers.py": ("lib/model/accel.py", "from .. import accel"),
        },
        [(".", "run.py")],
    ),
    "a package beside the installed one, which imports both": (
        {
            "setup.py": "import setuptools\n"
            "setuptools.setup(name='x', packages=setuptools.find_packages(exclude=['tasks']))\n",
            "a/__init__.py": "",
            "a/b.py": "f = 1",
            "tasks/__init__.py": "",
            "tasks/t.py": "from tasks.u import g\nfrom a.b import f",
            "tasks/u.py": "g = 1",
            "tasks/v.py": "from .u import g\nfrom a.b import f",
            "main.py": "from tasks.t import f\nimport tasks.v",
        },
        dict.fromkeys(("tasks/t.py", "tasks/v.py"), ("a/accel.py", "from a import accel"))
        | {"tasks/u.py": ("accel.py", "import accel")},
        [(".", "main.py")],
    ),
    "a script alone": ({"train.py": ""}, {"train.py": ("accel.py", "import accel")}, [(".", "train.py")]),
    "examples, each on its own": (
        {"mnist/main.py": "", "vae/main.py": "import ops", "vae/ops.py": ""},
        {
            "mnist/main.py": ("mnist/accel.py", "import accel"),
            "vae/main.py": ("vae/accel.py", "import accel"),
            "vae/ops.py": ("vae/accel.py", "import accel"),
        },
        [(".", "mnist/main.py"), ("vae", "main.py"), (".", "vae/main.py")],
    ),
    "a package with relative imports": (
        {
            "main.py": "from pkg.model import f",
            "pkg/__init__.py": "",
            "pkg/model.py": "from .ops import f",
            "pkg/ops.py": "f = 1",
        },
        {
            "pkg/model.py": ("pkg/accel.py", "from . import accel"),
            "pkg/ops.py": ("pkg/accel.py", "from . import accel"),
        },
        [(".", "main.py"), (".", "-m pkg.model")],
    ),
    "a package with relative imports beside a script that names CUDA, too": (
        {
            "main.py": "import torch\nfrom pkg.model import f\nassert 'cuda'",
            "pkg/__init__.py": "",
            "pkg/model.py": "from .ops import f",
            "pkg/ops.py": "f = 1",
        },
        dict.fromkeys(("main.py", "pkg/model.py", "pkg/ops.py"), ("accel.py", "import accel")),
        [(".", "main.py"), (".", "-m pkg.model")],
    ),
    "a package with absolute imports": (
        {
            "main.py": "from pkg.model import f",
            "pkg/__init__.py": "",
            "pkg/model.py": "from pkg.ops import f",
            "pkg/ops.py": "f = 1",
        },
        {
            "main.py": ("accel.py", "import accel"),
            "pkg/model.py": ("accel.py", "import accel"),
            "pkg/ops.py": ("accel.py", "import accel"),
        },
        [(".", "main.py"), (".", "-m pkg.model")],
    ),
    "a package's module that nobody imports": (
        {"pkg/__init__.py": "", "pkg/train.py": "from pkg.ops import f", "pkg/ops.py": "f = 1"},
        {"pkg/train.py": ("accel.py", "import accel"), "pkg/ops.py": ("accel.py", "import accel")},
        [(".", "-m pkg.train")],
    ),
    "a package of which one module imports it by its name": (
        {
            "main.py": "from pkg.model import f",
            "pkg/__init__.py": "",
            "pkg/model.py": "from .ops import f",
            "pkg/ops.py": "f = 1",
            "pkg/launch.py": "from pkg.ops import f",
        },
        dict.fromkeys(("main.py", "pkg/model.py", "pkg/ops.py", "pkg/launch.py"), ("accel.py", "import accel")),
        [(".", "main.py"), (".", "-m pkg.launch")],
    ),
    "a module that its neighbour imports by the package's name, and the __init__ with a dot": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "from .a import f",
            "pkg/a.py": "f = 1",
            "pkg/b.py": "from pkg.a import f",
        },
        dict.fromkeys(("pkg/a.py", "pkg/b.py"), ("pkg/accel.py", "from pkg import accel")),
        [(".", "-m pkg.b")],
    ),
    "a folder that is no package, of which one module is imported with a dot alone": (
        {"main.py": "from pkg.model import f", "pkg/model.py": "from .ops import f", "pkg/ops.py": "f = 1"},
        dict.fromkeys(("main.py", "pkg/model.py", "pkg/ops.py"), ("accel.py", "import accel")),
        [(".", "main.py"), (".", "-m pkg.model")],
    ),
    "subpackages, relative": (
        {
            "main.py": "import pkg.a.b",
            "pkg/__init__.py": "",
            "pkg/a/__init__.py": "",
            "pkg/a/b.py": "from ..c import d\nfrom . import e",
            "pkg/a/e.py": "",
            "pkg/c.py": "d = 1",
        },
        {"pkg/a/b.py": ("pkg/accel.py", "from .. import accel"), "pkg/c.py": ("pkg/accel.py", "from . import accel")},
        [(".", "main.py"), (".", "-m pkg.a.b")],
    ),
    "an installable package, absolute": (
        {**INSTALLABLE, "pkg/__init__.py": "", "pkg/a.py": "from pkg.b import f", "pkg/b.py": "f = 1"},
        {"pkg/a.py": ("pkg/accel.py", "from pkg import accel"), "pkg/b.py": ("pkg/accel.py", "from pkg import accel")},
        [(".", "-m pkg.a")],
    ),
    "a module of an installable package that nobody imports here, and a script in it": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "from pkg.a import f",
            "pkg/a.py": "f = 1",
            "pkg/b.py": "import os",
            "pkg/run.py": "import os\nif __name__ == '__main__': pass",
        },
        {
            "pkg/b.py": ("pkg/accel.py", "from . import accel"),
            "pkg/run.py": (
                "pkg/accel.py",
                "try:\n    from . import accel\nexcept ImportError:  # run as a script\n    import accel",
            ),
        },
        [(".", "-m pkg.b"), ("pkg", "run.py"), (".", "-m pkg.run")],
    ),
    "a module of a package that nobody imports here": (
        {"main.py": "from pkg.a import f", "pkg/__init__.py": "", "pkg/a.py": "f = 1", "pkg/b.py": ""},
        {"pkg/b.py": ("accel.py", "import accel")},
        [(".", "-m pkg.b")],
    ),
    "a module of a package of which nothing is known": (
        {"main.py": "", "pkg/__init__.py": "", "pkg/b.py": ""},
        {"pkg/b.py": ("pkg/accel.py", "from . import accel")},
        [(".", "-m pkg.b")],
    ),
    "a module and a script in a folder without an __init__ of an installable package": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/sub/patch.py": "",
            "pkg/sub/run.py": "if __name__ == '__main__': pass",
        },
        {
            "pkg/sub/patch.py": ("pkg/accel.py", "from pkg import accel"),
            "pkg/sub/run.py": ("pkg/sub/accel.py", EITHER),
        },
        [(".", "-m pkg.sub.patch"), (".", "-m pkg.sub.run"), (".", "pkg/sub/run.py")],
    ),
    "a script in a folder without an __init__ that is packed all the same, found in NVIDIA/Megatron-LM": (
        {
            "pyproject.toml": '[tool.setuptools.packages.find]\ninclude = ["pkg", "pkg.*"]\n',
            "pkg/__init__.py": "",
            "pkg/docs/scripts/run.py": "if __name__ == '__main__': pass",
            "pkg/tools/run.py": "import near\nif __name__ == '__main__': pass",
            "pkg/tools/near.py": "f = 1",
        },
        {
            "pkg/docs/scripts/run.py": ("pkg/docs/scripts/accel.py", EITHER),
            "pkg/tools/run.py": ("pkg/tools/accel.py", "import accel"),
        },
        [(".", "-m pkg.docs.scripts.run"), (".", "pkg/docs/scripts/run.py"), (".", "pkg/tools/run.py")],
    ),
    "a script in a folder without an __init__ that a list of packages leaves out": (
        {
            "setup.py": "from setuptools import find_packages, setup\nsetup(name='x', packages=find_packages())\n",
            "pkg/__init__.py": "",
            "pkg/scripts/run.py": "if __name__ == '__main__': pass",
        },
        {"pkg/scripts/run.py": ("pkg/scripts/accel.py", "import accel")},
        [(".", "pkg/scripts/run.py")],
    ),
    "a script without a main in an example": (
        {**INSTALLABLE, "pkg/__init__.py": "", "examples/__init__.py": "", "examples/x/update.py": "print(1)"},
        {"examples/x/update.py": ("examples/x/accel.py", "import accel")},
        [(".", "examples/x/update.py")],
    ),
    "packages with relative imports, run from their folder": (
        {
            "main.py": "from a.b import f\nimport c.d",
            "a/__init__.py": "",
            "a/b.py": "from .e import f",
            "a/e.py": "f = 1",
            "c/__init__.py": "",
            "c/d.py": "",
        },
        dict.fromkeys(("main.py", "a/b.py", "a/e.py", "c/d.py"), ("accel.py", "import accel")),
        [(".", "main.py")],
    ),
    "a folder without an __init__ whose modules import each other by dots": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/sub/a.py": "from .b import f",
            "pkg/sub/b.py": "f = 1",
            "other/a.py": "from .b import f",
            "other/b.py": "f = 1",
        },
        {
            "pkg/sub/b.py": ("pkg/accel.py", "from pkg import accel"),
            "other/b.py": ("other/accel.py", "from . import accel"),
        },
        [(".", "-m pkg.sub.a"), (".", "-m other.a")],
    ),
    "a module that is loaded by a name which is put together, and imports a neighbour of its folder": (
        {
            "src/main.py": "import sys\n__import__('models.' + 'net', fromlist=['f'])\nimport loader",
            "src/loader.py": "import utils.misc",
            "src/models/net.py": "import utils.misc as misc",
            "src/utils/misc.py": "f = 1",
            "src/other/alone.py": "import sys",
            "src/other/run.py": "import sys\nsys.path.append('..')\nimport utils.misc\nif __name__ == '__main__': pass",
        },
        {
            "src/models/net.py": ("src/accel.py", "import accel"),
            "src/loader.py": ("src/accel.py", "import accel"),
            "src/other/alone.py": ("src/other/accel.py", "import accel"),
            "src/other/run.py": ("src/accel.py", "import accel"),
        },
        [(".", "src/main.py"), ("src/other", "run.py"), ("src/other", "alone.py")],
    ),
    "scripts in folders that import what lies above them, found in xinntao/BasicSR": (
        {
            "base/models/net.py": "from base.utils import misc",
            "base/utils/misc.py": "f = 1",
            "scripts/metrics/score.py": "import sys\nsys.path.append('../..')\nimport base.models.net",
            "scripts/metrics/one.py": "import sys\nsys.path.append('../..')\nimport misc_of_others\nimport near",
            "scripts/metrics/near.py": "f = 1",
            "scripts/metrics/misc_of_others.py": "f = 1",
            "misc_of_others.py": "f = 1",
        },
        {
            "base/models/net.py": ("accel.py", "import accel"),
            "scripts/metrics/score.py": ("accel.py", "import accel"),
            "scripts/metrics/one.py": ("scripts/metrics/accel.py", "import accel"),
        },
        [("scripts/metrics", "score.py"), ("scripts/metrics", "one.py")],
    ),
    "a package that imports another one before itself": (
        {
            **INSTALLABLE,
            "base/__init__.py": "",
            "base/b.py": "f = 1",
            "more/setup.py": INSTALLABLE["setup.py"],
            "more/dense/__init__.py": "",
            "more/dense/a.py": "from base.b import f\nfrom dense.c import g",
            "more/dense/c.py": "g = 1",
            "more/run.py": "from base.b import f\nimport dense.a",
        },
        {
            "more/dense/a.py": ("more/dense/accel.py", "from dense import accel"),
            "more/run.py": ("accel.py", "import accel"),
        },
        [],
    ),
    "a script beside an __init__": (
        {"__init__.py": "", "run.py": "if __name__ == '__main__': pass"},
        {"run.py": ("accel.py", "import accel")},
        [(".", "run.py")],
    ),
    "a module of an installable package that is called as one of Python's": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/logging/__init__.py": "",
            "pkg/a.py": "import logging\nfrom pkg.b import f",
            "pkg/b.py": "f = 1",
            "pkg/c.py": "import logging",
        },
        {"pkg/a.py": ("pkg/accel.py", "from pkg import accel"), "pkg/c.py": ("pkg/accel.py", "from . import accel")},
        [(".", "-m pkg.a"), (".", "-m pkg.c")],
    ),
    "an installable package that imports its tests": (
        {
            **INSTALLABLE,
            "main.py": "from pkg.a import f",
            "pkg/__init__.py": "",
            "pkg/a.py": "from tests.b import f",
            "tests/__init__.py": "",
            "tests/b.py": "f = 1",
        },
        {"pkg/a.py": ("pkg/accel.py", "from pkg import accel")},
        [(".", "main.py")],
    ),
    "an example that needs the installed package, imported in its own way": (
        {
            **INSTALLABLE,
            "pkg/__init__.py": "",
            "pkg/b.py": "f = 1",
            "examples/x/run.py": "from models.net import f",
            "examples/x/models/net.py": "from pkg.b import f",
        },
        {"examples/x/models/net.py": ("pkg/accel.py", "from pkg import accel")},
        [],
    ),
    "packages that uv runs from their folder": (
        {
            "pyproject.toml": "[project]\nname = 'x'\n",
            "main.py": "from a.b import f",
            "a/__init__.py": "",
            "a/b.py": "from a.c import f",
            "a/c.py": "from c.d import f",
            "c/__init__.py": "",
            "c/d.py": "f = 1",
        },
        dict.fromkeys(("main.py", "a/b.py", "a/c.py", "c/d.py"), ("accel.py", "import accel")),
        [(".", "main.py")],
    ),
    "an installable package below src": (
        {
            "pyproject.toml": "[project]\nname = 'x'\n",
            "src/pkg/__init__.py": "",
            "src/pkg/a.py": "from pkg.b import f",
            "src/pkg/b.py": "f = 1",
        },
        {"src/pkg/a.py": ("src/pkg/accel.py", "from pkg import accel")},
        [("src", "-m pkg.a")],
    ),
    "tests beside an installable package": (
        {**INSTALLABLE, "pkg/__init__.py": "", "pkg/a.py": "", "tests/test_a.py": "from pkg.a import *"},
        {"tests/test_a.py": ("pkg/accel.py", "from pkg import accel")},
        [(".", "-m tests.test_a")],
    ),
    "tests beside a package that is not": (
        {"pkg/__init__.py": "", "pkg/a.py": "", "tests/__init__.py": "", "tests/test_a.py": "from pkg.a import *"},
        {"tests/test_a.py": ("accel.py", "import accel")},
        [(".", "-m tests.test_a")],
    ),
    "a folder of modules without __init__": (
        {"main.py": "from models.net import f", "models/net.py": "from models.ops import f", "models/ops.py": "f = 1"},
        {
            "main.py": ("accel.py", "import accel"),
            "models/net.py": ("accel.py", "import accel"),
            "models/ops.py": ("accel.py", "import accel"),
        },
        [(".", "main.py")],
    ),
    "a folder of modules without __init__, by dots": (
        {"main.py": "from models.net import f", "models/net.py": "from .ops import f", "models/ops.py": "f = 1"},
        {"models/net.py": ("accel.py", "import accel")},
        [(".", "main.py")],
    ),
    "scripts inside a package's folder": (
        {"pkg/__init__.py": "", "pkg/train.py": "from model import f", "pkg/model.py": "f = 1"},
        {"pkg/train.py": ("pkg/accel.py", "import accel"), "pkg/model.py": ("pkg/accel.py", "import accel")},
        [("pkg", "train.py"), (".", "pkg/train.py")],
    ),
    "an __init__ that needs it": (
        {"main.py": "import pkg", "pkg/__init__.py": ""},
        {"main.py": ("accel.py", "import accel"), "pkg/__init__.py": ("accel.py", "import accel")},
        [(".", "main.py")],
    ),
    "an __init__ with dots": (
        {"main.py": "import pkg", "pkg/__init__.py": "from .a import f", "pkg/a.py": "f = 1"},
        {
            "pkg/__init__.py": ("pkg/accel.py", "from . import accel"),
            "pkg/a.py": ("pkg/accel.py", "from . import accel"),
        },
        [(".", "main.py")],
    ),
    "scripts that setup.py links into a package": (  # found in facebookresearch/fairseq
        {
            "setup.py": LINKING,
            "pkg/__init__.py": "",
            "examples/dump/dump.py": "import math",
            "examples/dump/chain.py": "import names",
            "examples/dump/names.py": "f = 1",
            "examples/voice/models/pitch.py": "from .utils import f",
            "examples/voice/models/utils.py": "f = 1",
            "examples/voice/main.py": "from models.pitch import f",
            "examples/synth/tool.py": "from examples.synth.net.net import f",
            "examples/synth/net/net.py": "f = 1",
            "tools/dump.py": "import math",
            "installed.py": "import os\nos.symlink('../examples', 'pkg/examples')\n"
            "import pkg.examples.dump.dump, pkg.examples.voice.models.pitch, pkg.examples.synth.net.net",
            "away/check.py": "import os, sys\nos.mkdir('site')\nos.symlink('../../pkg', 'site/pkg')\n"
            "sys.path[0] = 'site'\nimport pkg.examples.dump.dump, pkg.examples.synth.net.net",
        },
        {
            "examples/dump/dump.py": ("examples/dump/accel.py", EITHER),
            "examples/dump/chain.py": ("examples/dump/accel.py", "import accel"),  # it is never of the package
            "examples/voice/models/pitch.py": ("examples/voice/accel.py", OUTSIDE),
            "examples/voice/main.py": ("examples/voice/accel.py", "import accel"),
            "examples/synth/tool.py": ("accel.py", "import accel"),
            "examples/synth/net/net.py": ("accel.py", OR_INSTALLED),
            "tools/dump.py": ("tools/accel.py", "import accel"),
        },
        [
            ("examples", "dump/dump.py"),
            ("examples/voice", "main.py"),
            (".", "tools/dump.py"),
            (".", "installed.py"),
            (".", "-m examples.synth.tool"),
            ("away", "check.py"),
        ],
    ),
    "two modules of one name": (
        {"a/main.py": "import utils", "a/utils.py": "", "b/main.py": "import utils", "b/utils.py": ""},
        {"a/utils.py": ("a/accel.py", "import accel"), "b/main.py": ("b/accel.py", "import accel")},
        [(".", "a/main.py"), (".", "b/main.py")],
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_on_windows_the_helper_lies_where_it_does_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, wanted, _ = PLACES[name]
    windows = Windows(write_tree(tmp_path, files))
    with monkeypatch.context() as patch:
        windows.start(patch)
        known = ImportIndex(windows.top, sorted(map(windows.name, files)))  # type: ignore[arg-type]
        places = {name: vendored_place(known, windows.name(name), "accel") for name in wanted}
    found = {name: (place.path, place.statement) for name, place in places.items()}
    assert found == {name: (windows.name(path), statement) for name, (path, statement) in wanted.items()}


@pytest.mark.parametrize("name", PLACES)
def test_placement(name: str, tmp_path: Path) -> None:
    files, wanted, _ = PLACES[name]
    root = write_tree(tmp_path / "project", files)
    found = index(root)
    places = {f: vendored_place(found, f"{root}/{f}", "accel") for f in wanted}
    assert {f: (p.path.removeprefix(f"{root}/"), p.statement) for f, p in places.items()} == wanted


@pytest.mark.parametrize("name", PLACES)
def test_what_is_placed_can_be_imported(name: str, tmp_path: Path) -> None:
    """Each file binds the helper as it was told to, and the project still starts."""
    files, wanted, runs = PLACES[name]
    root = write_tree(tmp_path / "project", files)
    found = index(root)
    places = {f: vendored_place(found, f"{root}/{f}", "accel") for f in wanted}
    for file, place in places.items():
        with (root / file).open("a") as stream:
            stream.write(f"\n{place.statement}\nassert accel.HERE\n")
        for copy in filter(None, (place.path, place.other)):
            Path(copy).write_text("HERE = True\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    for folder, arguments in runs:
        command = [sys.executable, *arguments.split()]
        ran = subprocess.run(command, cwd=root / folder, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr


def test_modules_that_one_script_imports_share_a_copy(tmp_path: Path) -> None:
    """Found in a public vocoder: one module of a folder took the root's copy, and its neighbour one of its own."""
    files = {
        "trainer.py": "from utils.train import train",
        "utils/train.py": "from model.net import Net\nfrom .validation import validate",
        "utils/validation.py": "import torch",
        "model/net.py": "import torch",
    }
    root = write_tree(tmp_path, files)
    found = index(root)
    places = {vendored_place(found, f"{root}/utils/{name}.py", "accel").path for name in ("train", "validation")}
    assert len(places) == 1


def test_the_helper_lies_in_a_project_whose_own_folder_is_named(tmp_path: Path) -> None:
    """Found in ChatTTS: its notebook names the checkout, and the helper lay beside this, outside of the repository."""
    net = "import torch\n\n\ndef f(x):\n    return x.cuda()\n"
    files = {"utils/net.py": net, "train.py": f"from nets.utils import net\n{net}"}
    done = texts_after(write_tree(tmp_path / "nets", files))
    assert done["utils/net.py"].startswith("import torch\nfrom nets import accel\n")
    write_tree(tmp_path / "nets", done)
    assert texts_after(tmp_path / "nets") == {} and not (tmp_path / "accel.py").exists()
    setup = "from setuptools import setup\nsetup(packages=['nets'])\n"
    files = {"nets/__init__.py": "", "nets/f.py": net, "setup.py": setup, "look/a.py": "from nets.nets import f"}
    done = texts_after(write_tree(tmp_path / "two" / "nets", files))
    assert {*done} == {"nets/accel.py", "nets/f.py"}


def test_placement_does_not_hang_on_the_order_of_files(tmp_path: Path) -> None:
    for name, (files, wanted, _) in PLACES.items():
        root = write_tree(tmp_path / name, files)
        paths = sorted(str(p) for p in root.rglob("*.py"))
        forth, back = ImportIndex(root, paths), ImportIndex(root, paths[::-1])
        assert [vendored_place(forth, f"{root}/{f}", "accel") for f in wanted] == [
            vendored_place(back, f"{root}/{f}", "accel") for f in wanted
        ]


def test_a_notebook_counts_as_an_importer(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path, {"nb.ipynb": notebook("from models.net import Net", "x = 1"), "models/net.py": "", "other.py": ""}
    )
    found = index(root)
    assert [u.importer for u in found.importers[f"{root}/models/net.py"]] == [f"{root}/nb.ipynb"]
    assert vendored_place(found, f"{root}/models/net.py", "accel").path == f"{root}/accel.py"
    assert f"{root}/other.py" not in found.importers


# ---- reading import lines
READ = [
    ("import a", ["a"]),
    ("import a.b as c, d", ["a.b", "d"]),
    ("import a; import b", ["a"]),  # the second is not looked for: rare, and a placement does not hang on it
    ("import a; x = 1", ["a"]),
    ("sys.path.insert(0, './a'); import a", ["a"]),
    ("from a import b; x = 1", ["a:b"]),
    ("import a  # from x import y", ["a"]),
    ("from a import b", ["a:b"]),
    ("from a import b as c, d", ["a:b", "a:d"]),
    ("from a import b  # why, oh", ["a:b"]),
    ("from a import (b,\n    c)  # x", ["a:b", "a:c"]),
    ("from a import (\n    b,  # one, two (three)\n    c as d,\n)", ["a:b", "a:c"]),
    ("from a import b, \\\n    c", ["a:b", "a:c"]),
    ("from . import a", [".:a"]),
    ("from .. import a", ["..:a"]),
    ("from ..a.b import c", ["..a.b:c"]),
    ("from .a import *", [".a:*"]),
    ("try:\n    import a\nexcept ImportError:\n\timport b", ["a", "b"]),
    ("if x: import a", []),
    ("important = 1\nfromage = 2", []),
    ("x = 'import a'", []),
    ("importa", []),
    ("import a\r\nfrom b import c\r\n", ["a", "b:c"]),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_imports_are_read(text: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(text.encode())
    found = ["." * i.level + i.module + (f":{i.name}" if i.name else "") for i in read_imports(str(path))]
    assert found == expected


def test_what_cannot_be_read_imports_nothing(tmp_path: Path) -> None:
    assert list(read_imports(str(tmp_path / "absent.py"))) == []
    (tmp_path / "x.py").write_bytes(b"\xff\xfe\0import a\n\0")
    list(read_imports(str(tmp_path / "x.py")))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, False),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}, False),
        ({"setup.cfg": "[flake8]\n"}, False),
        ({"setup.py": "from torch.utils import cpp_extension\n"}, False),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, True),
        ({"pyproject.toml": "[project]\nname = 'x'\n", "a/__init__.py": "", "tests/__init__.py": ""}, True),
        ({"pyproject.toml": "[project]\nname = 'x'\n", "a/__init__.py": "", "utils/__init__.py": ""}, False),
        (
            {
                "pyproject.toml": "[build-system]\nbuild-backend = 'hatchling.build'\n",
                "a/__init__.py": "",
                "b/__init__.py": "",
            },
            True,
        ),
        (
            {
                "pyproject.toml": "[build-system]\n[tool.setuptools.packages.find]\n",
                "a/__init__.py": "",
                "b/__init__.py": "",
            },
            True,
        ),
        ({**INSTALLABLE, "pyproject.toml": "[project]\n", "a/__init__.py": "", "b/__init__.py": ""}, True),
        ({"pyproject.toml": "[tool.poetry]\nname = 'x'\n"}, True),
        ({"pyproject.toml": "[build-system]\n"}, True),
        ({"setup.cfg": "[metadata]\nname = x\n"}, True),
        (INSTALLABLE, True),
    ],
)
def test_installable(files: dict[str, str], expected: bool, tmp_path: Path) -> None:
    assert is_installable(str(write_tree(tmp_path, files))) is expected


@pytest.mark.parametrize(
    ("call", "linked"),
    [
        ("os.symlink('../examples', 'pkg/examples')", ["examples"]),
        ("link = os.path.join('pkg', 'deep', 'data')\nos.symlink('../../data', link)", ["data"]),
        ("os.symlink('../examples', 'build/examples')", []),
        ("os.symlink('examples', 'pkg')", []),
        ("os.symlink('../examples', os.path.join('pkg', name))", []),
        ("os.symlink(*pair)", []),
        ("os.readlink('../examples', 'pkg/examples')", []),
    ],
)
def test_folders_that_a_build_script_links_into_a_package(call: str, linked: list[str], tmp_path: Path) -> None:
    setup = f"import os\nfrom setuptools import setup\n{call}\nsetup(packages=['pkg', 'pkg.deep'])\n"
    root = str(write_tree(tmp_path, {"setup.py": setup, "pkg/__init__.py": "", "pkg/deep/__init__.py": ""}))
    assert [*linked_folders(root)] == [f"{root}/{name}" for name in linked]


def test_an_import_means_the_nearest_file(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {"utils.py": "", "a/utils.py": "", "a/main.py": "", "b/main.py": "", "pkg/__init__.py": "", "pkg/x.py": ""},
    )
    found = index(root)
    assert found.find(f"{root}/a/main.py", 0, "utils", "f") == f"{root}/a/utils.py"
    assert found.find(f"{root}/b/main.py", 0, "utils", "f") == f"{root}/utils.py"
    assert found.find(f"{root}/pkg/x.py", 1, "", "x") == f"{root}/pkg/x.py"
    assert found.find(f"{root}/b/main.py", 0, "pkg", "x") == f"{root}/pkg/x.py"
    assert found.find(f"{root}/b/main.py", 0, "pkg", "name") == f"{root}/pkg/__init__.py"
    assert found.find(f"{root}/b/main.py", 0, "torch", "cuda") is None
    assert found.find(f"{root}/b/main.py", 1, "absent", "x") is None


def test_what_an_import_binds() -> None:
    found = [
        (Import(0, "torch.cuda", ""), "torch", "torch"),
        (Import(0, "torch.cuda", "", "tc"), "tc", "torch.cuda"),
        (Import(0, "torch", "cuda"), "cuda", "torch"),
        (Import(0, "torch", "cuda", "tc"), "tc", "torch"),
    ]
    for each, bound, qualified in found:
        assert each.bound == bound
        assert each.name or each.qualified == qualified


PDM = "[build-system]\nbuild-backend = 'pdm.backend'\n"
UV = "[build-system]\nbuild-backend = 'uv_build'\n"
HATCH = "[build-system]\nbuild-backend = 'hatchling.build'\n"


@pytest.mark.parametrize(
    ("settings", "installed"),
    [
        (f"{PDM}[tool.pdm.build]\npackage-dir = 'src'\nincludes = ['src/a', 'src/b/**/*.py']\n", ["a", "b"]),
        (f"{PDM}[tool.pdm.build]\nincludes = ['src/b']\n", ["b"]),
        (PDM, ["a", "b", "c"]),
        (f"{UV}[tool.uv.build-backend]\nmodule-name = ['a', 'c']\n", ["a", "c"]),
        (f"{UV}[tool.uv.build-backend]\nmodule-name = 'b'\nmodule-root = 'src'\n", ["b"]),
        (f"{HATCH}[tool.hatch.build.targets.wheel]\nonly-include = ['src/a']\n", ["a"]),
    ],
)
def test_packages_that_a_build_backend_is_told(settings: str, installed: list[str], tmp_path: Path) -> None:
    """Sources: the pages on building of pdm-backend, uv and hatch."""
    files = {f"src/{name}/__init__.py": "" for name in "abc"}
    root = write_tree(tmp_path, {"pyproject.toml": settings, **files})
    found = {name: installed_package(f"{root}/src", (name, "module")) for name in "abc"}
    assert found == {name: f"{root}/src/{name}" if name in installed else None for name in "abc"}


@pytest.mark.parametrize(
    ("settings", "installed"),
    [
        ("[tool.hatch.build.targets.wheel]\ninclude = ['a', '/b/**/*.py', '*.md', 'none']\n", ["a", "b"]),
        ("[tool.hatch.build]\ninclude = ['a/*']\n", ["a"]),
    ],
)
def test_packages_that_hatch_includes_by_a_pattern(settings: str, installed: list[str], tmp_path: Path) -> None:
    """Found in cleanrl, whose wheel has two folders, of which one has no `__init__.py`."""
    root = write_tree(tmp_path, {"pyproject.toml": HATCH + settings, **{f"{name}/a.py": "" for name in "abc"}})
    assert [name for name in "abc" if installed_package(str(root), (name, "a"))] == installed


@pytest.mark.parametrize(
    ("picked", "installed"),
    [
        ("[p for p in find_packages() if p.startswith('a')]", ["a", "ab"]),
        ("[p for p in find_packages() if not p.startswith('a')]", ["b"]),
        ("[p for p in find_packages() if p.startswith('a') and p]", ["a", "ab", "b"]),  # it is not read
        ("[p for p in ['a', 'b'] if p.startswith('b')]", ["b"]),
        ("['a', *[p for p in find_packages()]]", ["a", "ab", "b"]),
    ],
)
def test_packages_that_a_build_script_picks(picked: str, installed: list[str], tmp_path: Path) -> None:
    files = {f"{name}/{file}": "" for name in ("a", "ab", "b") for file in ("__init__.py", "module/__init__.py")}
    script = f"from setuptools import find_packages, setup\nsetup(name='x', packages={picked})\n"
    root = write_tree(tmp_path, {"setup.py": script, **files})
    found = {name: installed_package(str(root), (name, "module")) for name in ("a", "ab", "b")}
    assert found == {name: f"{root}/{name}" if name in installed else None for name in found}


@pytest.mark.parametrize("kept", ["f'a.{name}'", "'a.' + name"])
def test_packages_that_a_build_script_finds_within_another(kept: str, tmp_path: Path) -> None:
    """Found in texar-pytorch, which got a helper that is not installed."""
    script = f"from setuptools import find_packages, setup\nsetup(packages=[{kept} for name in find_packages('a')])\n"
    files = {"a/__init__.py": "", "a/b/__init__.py": "", "a/b/c/__init__.py": "", "d/b/__init__.py": ""}
    root = write_tree(tmp_path, {"setup.py": script, **files, "a/e/module.py": ""})
    found = [installed_package(str(root), name) for name in (("a", "b", "c"), ("a", "e"), ("a",), ("d", "b"))]
    assert found == [f"{root}/a/b", None, None, None]


NAMESPACE = "find_namespace_packages(include=['plugins.*'])"
SUMS = {
    "two searches": (f"setup(packages=find_packages(exclude=('b',)) + {NAMESPACE})", ["a", "plugins.c"]),
    "a name for two searches": (
        f"found = find_packages(exclude=['b']) + {NAMESPACE}\nsetup(packages=found)",
        ["a", "plugins.c"],
    ),
    "a search added": (
        f"found = find_packages()\nfound += {NAMESPACE}\nsetup(packages=found)",
        ["a", "b", "plugins.c"],
    ),
    "lists added": (
        "found = ['a']\nfound.append('b')\nfound.extend(['plugins.c'])\nsetup(packages=found)",
        ["a", "b", "plugins.c"],
    ),
    "a list and a search": ("setup(packages=['plugins.c'] + find_packages(include=['a*']))", ["a", "plugins.c"]),
    "a list of a search": ("setup(packages=list(find_packages(include=['a*'])))", ["a"]),
    "what is excluded in two lists": ("no = ['b']\nsetup(packages=find_packages(exclude=no + ['a.*']))", ["a"]),
    "a sum of which one half is not read": ("setup(packages=find_packages(include=['a*']) + more())", ["a", "b"]),
    "two searches in two folders": ("setup(packages=find_packages() + find_packages('lib'))", ["a", "b"]),
    "what a function returns": ("setup(packages=more())", ["a", "b"]),
    "a table of arguments": ("setup(**more())", ["a", "b"]),
    "a name that names itself": ("found = found + ['a']\nsetup(packages=found)", ["a", "b"]),
    "no packages, of two folders": ("setup(name='x')", []),  # setuptools refuses to choose one
    "a list that names one": ("setup(packages=['a'] + ['c'])", ["a"]),
}


@pytest.mark.parametrize("name", SUMS)
def test_packages_of_which_a_build_script_adds_up_the_names(name: str, tmp_path: Path) -> None:
    """Found in vissl. Of what cannot be read, each package has its own copy, which it finds installed or not."""
    setup, installed = SUMS[name]
    head = "from setuptools import find_namespace_packages, find_packages, setup\nfrom more import more\n"
    root = str(write_tree(tmp_path, {"setup.py": head + setup, "a/__init__.py": "", "b/__init__.py": ""}))
    write_tree(tmp_path, {"a/net.py": "", "b/net.py": "", "plugins/c/net.py": ""})
    modules = [("a", "net"), ("b", "net"), ("plugins", "c", "net")]
    found = [installed_package(root, module) for module in modules]
    assert [os.path.relpath(each, root).replace(os.sep, ".") for each in found if each] == installed


@pytest.mark.parametrize("packages", [f"find_packages() + {NAMESPACE}", "more()"])
def test_an_installed_package_whose_modules_name_it_finds_its_helper(packages: str, tmp_path: Path) -> None:
    """Found in vissl, of which some modules took the helper from a folder that is not installed."""
    files = {
        "setup.py": "from setuptools import find_namespace_packages, find_packages, setup\nfrom more import more\n"
        f"setup(name='x', packages={packages})\n",
        "more.py": "def more(): return []\n",
        "pkg/__init__.py": "",
        "pkg/hooks/__init__.py": "from pkg.hooks.log import f\n",
        "pkg/hooks/log.py": "import torch\ndef f():\n    torch.cuda.synchronize()\n",
        "tools/run.py": "import torch\nfrom pkg.hooks import f\ntorch.cuda.synchronize()\n",
    }
    write_tree(tmp_path, files)
    results = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply").results
    changed = {os.path.relpath(r.path, tmp_path): r.after.decode() for r in results if isinstance(r, Changed)}
    assert changed.keys() == {"pkg/accel.py", "pkg/hooks/log.py", "tools/run.py"}
    assert all("from pkg import accel\n" in changed[name] for name in ("pkg/hooks/log.py", "tools/run.py"))


NEEDING = "import torch\ndef f():\n    torch.cuda.empty_cache()\n"
CONFTEST = "import pytest\nimport torch\n@pytest.fixture\ndef freed():\n    torch.cuda.empty_cache()\n"


@pytest.mark.parametrize(
    ("head", "helper"),
    [("from pkg.net import f", "from pkg import accel"), ("def test():\n    from pkg.net import f", "import accel")],
)
def test_tests_take_the_helper_of_the_package_that_they_import_at_their_heads(
    tmp_path: Path, head: str, helper: str
) -> None:
    """Found in litgpt, where tests/ and tests/generate/ had copies of their own."""
    tests = {f"tests/test_{name}.py": f"{head}\n" for name in "abc"}
    package = {"pkg/__init__.py": "", "pkg/net.py": NEEDING}
    write_tree(tmp_path, {**INSTALLABLE, **package, **tests, "tests/conftest.py": CONFTEST})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    changed = {r.path.name: r.after.decode() for r in plan.results if isinstance(r, Changed)}
    assert f"\n{helper}\n" in changed["conftest.py"]


@pytest.mark.parametrize(
    ("extra", "helper"),
    [
        ({}, "tests/accel.py"),
        ({"tests/__init__.py": ""}, "tests/accel.py"),
        ({"tests/ops/test_ops.py": "from pkg.net import f\nimport torch\ntorch.cuda.empty_cache()\n"}, "pkg/accel.py"),
        ({"pkg/more.py": NEEDING}, "pkg/accel.py"),
        ({"pytest.ini": "[pytest]\naddopts = --import-mode=importlib\n"}, "pkg/accel.py"),
    ],
)
def test_a_package_is_not_installed_with_a_helper_that_tests_of_one_folder_alone_need(
    extra: dict[str, str], helper: str, tmp_path: Path
) -> None:
    """Found in doctr and torchdiffeq, whose wheels would have had one; tests of several folders share the package's."""
    tests = {f"tests/test_{name}.py": "from pkg.net import f\n" for name in "abc"}
    package = {"pkg/__init__.py": "", "pkg/net.py": "f = 1\n"}
    write_tree(tmp_path, {**INSTALLABLE, **package, **tests, "tests/conftest.py": CONFTEST, **extra})
    done = texts_after(tmp_path)
    assert [path for path in done if path.endswith("accel.py")] == [helper]
    statement = "from pkg" if helper == "pkg/accel.py" else "from ." if "tests/__init__.py" in extra else ""
    assert f"\n{statement} import accel\n".replace("\n ", "\n") in done["tests/conftest.py"]
    write_tree(tmp_path, done)
    assert texts_after(tmp_path) == {}


def test_a_program_among_tests_finds_the_helper_that_lies_beside_them(tmp_path: Path) -> None:
    """Found in avalanche, whose distributed tests did not start any more."""
    program = "import os\ndef run():\n    if os.environ.get('GPU'):\n        import torch\n"
    program += "        print(torch.cuda.device_count())\nif __name__ == '__main__':\n    run()\n"
    files = {"pkg/__init__.py": "", "tests/__init__.py": "", "tests/run_tests.py": program, "tests/unit.py": "f = 1\n"}
    packages = "from setuptools import setup\nsetup(name='pkg', packages=['pkg', 'tests'])\n"
    done = texts_after(
        write_tree(tmp_path, {**files, "setup.py": packages, "tests/test_a.py": "from tests.unit import f\n"})
    )
    assert "            from . import accel\n        except ImportError:" in done["tests/run_tests.py"]
    assert "tests/accel.py" in done


def test_a_test_that_imports_the_package_late_can_be_collected_without_it(tmp_path: Path) -> None:
    """Found in state-spaces/mamba, whose package needs triton: a test that skips itself failed to be collected."""
    tests = {f"tests/test_{name}.py": "from pkg.net import f\n" for name in "abc"}
    late = "import torch\ndef test():\n    from pkg.net import f\n    torch.cuda.empty_cache()\n"
    package = {"pkg/__init__.py": "import triton\n", "pkg/net.py": "f = 1\n"}
    write_tree(tmp_path, {**INSTALLABLE, **package, **tests, "tests/test_late.py": late})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    changed = {r.path.name: r.after.decode() for r in plan.results if isinstance(r, Changed)}
    assert "\nimport accel\n" in changed["test_late.py"]


def test_tests_take_the_helper_of_a_package_within_a_folder_that_is_not_installed(tmp_path: Path) -> None:
    """Found in InvokeAI, which installs `invokeai.app` without `invokeai`: its tests had a copy beside the project."""
    settings = """[project]
name = "pkg"
version = "1"
dependencies = ["torch"]
[tool.setuptools.packages.find]
include = ["pkg.app*"]
"""
    package = {"pkg/__init__.py": "", "pkg/app/__init__.py": "", "pkg/app/net.py": NEEDING}
    tests = {f"tests/test_{name}.py": "from pkg.app.net import f\n" for name in "abc"}
    tests["tests/test_own.py"] = "import torch\nfrom pkg.app.net import f\ntorch.cuda.empty_cache()\n"
    write_tree(tmp_path, {"pyproject.toml": settings, **package, **tests, "tests/conftest.py": CONFTEST})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    changed = {r.path.name: r.after.decode() for r in plan.results if isinstance(r, Changed)}
    assert all("\nfrom pkg.app import accel\n" in changed[name] for name in ("conftest.py", "test_own.py"))


SKIPPING = "import torch\ntry:\n    from pkg.ops import f\nexcept ImportError as error:\n    {}\n"
CODE = "def test():\n    torch.cuda.empty_cache()\nif __name__ == '__main__':\n    test()\n"


@pytest.mark.parametrize(
    ("path", "handler", "helper"),
    [
        ("pkg/tests/ops/test_ops.py", "missing = error", "from pkg import accel"),
        ("pkg/tests/ops/test_ops.py", "from ops import f", "import accel"),  # it runs without the package, too
        ("tests/ops/test_ops.py", "missing = error", "import accel"),  # as it is no part of the package
    ],
)
def test_a_test_of_a_package_that_skips_itself_without_its_parts_takes_the_package_s_helper(
    tmp_path: Path, path: str, handler: str, helper: str
) -> None:
    """Found in apex, where each folder of tests had a copy of its own."""
    package = {"pkg/__init__.py": "", "pkg/ops.py": "from pkg._compiled import f\n", "pkg/net.py": NEEDING}
    write_tree(tmp_path, {**INSTALLABLE, **package, path: SKIPPING.format(handler) + CODE})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    changed = {r.path.name: r.after.decode() for r in plan.results if isinstance(r, Changed)}
    assert f"\n{helper}\n" in changed["test_ops.py"]


@pytest.mark.parametrize(
    ("first", "helper"),
    [
        ("from pkg.net import f", "from pkg import accel"),
        ("# README: Run **`pip install pkg`**\nfrom pkg.net import f", "import accel"),
        ("!pip install pkg\nfrom pkg.net import f", "import accel"),  # what others have has no helper
        ("import sys\nsys.path.append('..')\nfrom pkg.net import f", "import accel"),
        ("from other.net import f", "import accel"),
    ],
)
def test_a_notebook_that_imports_the_package_takes_its_helper(tmp_path: Path, first: str, helper: str) -> None:
    """Found in minGPT, which got a copy beside a notebook, too."""
    package = {"pkg/__init__.py": "", "pkg/net.py": "f = 1\n", "scripts/other/net.py": "f = 1\n"}
    package["README.md"] = first.partition("README: ")[2].partition("\n")[0]
    lines = (*first.split("\n"), "import torch", "x = torch.ones(2).cuda()")
    write_tree(tmp_path, {**INSTALLABLE, **package, "scripts/a.ipynb": notebook(*lines)})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    changed = {r.path.name: r.after.decode() for r in plan.results if isinstance(r, Changed)}
    assert f'"{helper}\\n"' in changed["a.ipynb"] and "accel.py" in changed


MOVING = "import torch\n\n\ndef f():\n    return torch.ones(2).cuda()\n"


@pytest.mark.parametrize("script", ["", "if __name__ == '__main__':\n    print(1)\n"])
@pytest.mark.parametrize("main", ["from src.nets import f\nfrom src.tools import f\n", "from src.nets import f\n"])
def test_a_module_without_dots_takes_the_copy_of_its_package(tmp_path: Path, main: str, script: str) -> None:
    """Found in UnsupervisedMT, which got one copy in its package and one beside it; a script imports with no dots."""
    nets = {"src/__init__.py": "", "src/words.py": "W = 1\n", "src/nets.py": "from .words import W\n" + MOVING}
    write_tree(tmp_path, {"main.py": main, **nets, "src/tools.py": MOVING + script})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    written = {
        r.path.relative_to(tmp_path).as_posix(): r.after.decode() for r in plan.results if isinstance(r, Changed)
    }
    assert "\nfrom . import accel\n" in written["src/nets.py"] and "src/accel.py" in written
    assert ("\nfrom . import accel\n" in written["src/tools.py"]) == (not script)
    assert script or "accel.py" not in written


COMMANDS = (
    "from setuptools import setup\nsetup(name='x', packages=['pkg'], entry_points={{'console_scripts': ['{}']}})\n"
)


@pytest.mark.parametrize(
    ("command", "imported", "statement", "copy"),
    [
        ("env = scripts.tools:f", "    from pkg.net import f\n", "from pkg import accel", "pkg/accel.py"),
        ("env = scripts.tools:f", "", "import accel", "accel.py"),
        ("env = pkg.net:f", "", "import accel", "scripts/accel.py"),
    ],
    ids=["of an installed package", "of none", "of another file"],
)
def test_what_a_command_imports_by_name_is_no_script(
    tmp_path: Path, command: str, imported: str, statement: str, copy: str
) -> None:
    """Found in nnDetection: `nndet_env = scripts.utils:env` imports a file whose folder is on no path."""
    moving = MOVING.replace("def f():\n", f"def f():\n{imported}")
    files = {"setup.py": COMMANDS.format(command), "pkg/__init__.py": "", "pkg/net.py": "f = 1\n"}
    write_tree(tmp_path, {**files, "scripts/tools.py": moving})
    plan = planner.plan([tmp_path], Settings(root=tmp_path), 1, "apply")
    written = {
        r.path.relative_to(tmp_path).as_posix(): r.after.decode() for r in plan.results if isinstance(r, Changed)
    }
    assert copy in written and f"\n{statement}\n" in written["scripts/tools.py"].replace("\n    ", "\n")
