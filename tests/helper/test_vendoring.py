"""Vendoring: where the helper's import stands in whole projects, proven by running them, and where there is none."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import planned, texts_after, write_plan, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Finding, Unchanged
from torchmigrate.engine import planner
from torchmigrate.formats.model import kind
from torchmigrate.project import helper_parts


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
        "def g():\n    torch.cuda.synchronize()\n    torch.ones(1)\n",
        "accel.py",
        "import sys, torch\ndef add(): pass\nsys.path.insert(0, '..')\nfrom pkg.a import f\nimport accel\n",
    ),
    "a use above the edit": (
        "import sys, torch\ntorch.cuda.synchronize\nsys.path.insert(0, '..')\nfrom pkg.a import f\ntorch\n",
        "tools/accel.py",
        "import sys, torch\nimport accel\naccel.synchronize\nsys.path.insert(0, '..')\nfrom pkg.a import f\n",
    ),
    "an edit through another name": (
        "from site import addsitedir as add\nimport torch\n"
        "def g():\n    torch.cuda.synchronize()\nadd('..')\nfrom pkg.a import f\n",
        "accel.py",
        "add('..')\nfrom pkg.a import f\nimport accel\n",
    ),
    "an edit in a test for a script, with the imports that need it": (  # found in outlier-exposure: nothing started
        "import sys, torch\nfrom ops import h\nif __package__ is None:\n    sys.path.append('..')\n"
        "    from pkg.a import f\ndef g():\n    torch.cuda.synchronize()\n    torch.ones(1)\n",
        "accel.py",
        "    sys.path.append('..')\n    from pkg.a import f\nimport accel\n",
    ),
    "an edit for something else": (
        "import sys, torch\nfrom ops import h\nsys.path.insert(0, '..')\ndef g():\n"
        "    torch.cuda.synchronize()\n    torch.ones(1)\n",
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


@pytest.mark.parametrize("first", ["import torch", "import sys, torch"])
@pytest.mark.parametrize("magic", ["magic.py", "magic/__init__.py"], ids=["beside it", "installed"])
def test_the_import_stands_among_those_that_a_with_gives_another_folder(magic: str, first: str, tmp_path: Path) -> None:
    """Found in pytorch-auto-drive, with importmagician's: the helper was imported above, where nothing finds it."""
    text = (
        f"{first}\nfrom magic import imports_from\nwith imports_from('..'):\n    from pkg.a import f\n"
        "def g():\n    torch.cuda.synchronize()\n    torch.ones(1)\n"
    )
    manager = (
        "import contextlib, sys\n@contextlib.contextmanager\ndef imports_from(path):\n"
        "    sys.path.insert(0, path)\n    yield\n    sys.path.remove(path)\n"
    )
    write_tree(tmp_path, {"pkg/__init__.py": "", "pkg/a.py": "f = 1", "tools/run.py": text})
    if magic == "magic.py":
        write_tree(tmp_path, {"tools/magic.py": manager})
    after = write_plan(tmp_path)
    assert "    from pkg.a import f\n    import accel\n" in after["tools/run.py"].decode()
    assert [path for path in after if path.endswith("accel.py")] == ["accel.py"]
    write_tree(tmp_path, {f"tools/{magic}": manager})
    run(tmp_path, "run.py", folder="tools")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nfrom contextlib import suppress\nwith suppress(ImportError):\n    from pkg.a import f\n",
        "import torch, warnings\nfrom pkg import b\nwith warnings.catch_warnings():\n    from pkg.a import f\n",
    ],
    ids=["imports that may fail", "imports that find their folder without it"],
)
def test_a_with_that_gives_no_folder_holds_no_import_of_the_helper(text: str, tmp_path: Path) -> None:
    script = f"{text}def g():\n    torch.ones(1).cuda()\n"
    write_tree(tmp_path, {"pkg/__init__.py": "", "pkg/a.py": "f = 1", "pkg/b.py": "", "tools/run.py": script})
    assert "\nimport accel\n" in write_plan(tmp_path)["tools/run.py"].decode()


def test_a_function_that_imports_is_no_place_below_an_edit_of_sys_path(tmp_path: Path) -> None:
    """Found in metaseq: the import of the helper stood between two functions."""
    setup = "from setuptools import setup\nsetup(name='pkg', packages=['pkg'])\n"
    text = (
        "import sys\nimport torch\nfrom pkg import a\ndef add():\n    sys.path.insert(0, '..')\n"
        "def late():\n    from pkg.a import f\n    return torch.ones(1).cuda(), f\n"
    )
    write_tree(tmp_path, {"setup.py": setup, "pkg/__init__.py": "", "pkg/a.py": "f = 1", "pkg/utils.py": text})
    after = write_plan(tmp_path)["pkg/utils.py"].decode()
    assert "from pkg import a\nfrom pkg import accel\ndef add():" in after


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


GUEST = "import torch\nfrom .{} import Track\ndef f(x):\n    return Track(x.cuda())\n"


def test_files_for_a_folder_of_another_project_call_no_helper(tmp_path: Path) -> None:
    """Found in ByteTrack, whose tutorials say which file of another project they replace."""
    files = {"docs/tracker.py": GUEST.format("basetrack"), "docs/own.py": GUEST.format("tracker")}
    found = planned(write_tree(tmp_path, files))
    assert not isinstance(found["docs/tracker.py"], Changed)
    assert "imports `.basetrack`, which is not here" in found["docs/tracker.py"].findings[0].message
    assert isinstance(found["docs/own.py"], Changed)
    package = {**files, "docs/__init__.py": "", "docs/tracker.py": GUEST.format("_compiled")}
    assert isinstance(planned(write_tree(tmp_path, package))["docs/tracker.py"], Changed)


def test_modules_with_names_of_build_scripts_do(tmp_path: Path) -> None:
    files = {
        "setup.py": FLAGS,
        "conf.py": FLAGS,
        "main.py": "import setup, conf\nfrom build_tools import cuda\n",
        "build_tools/cuda.py": FLAGS,
    }
    write_tree(tmp_path, {**files, "tools/setup.py": BUILT})
    assert {"setup.py", "conf.py", "build_tools/cuda.py"} <= {*write_plan(tmp_path)}


# ---- in the file itself
SCRIPT = """\"\"\"A script.\"\"\"
import sys

import torch


def main():
    torch.cuda.synchronize()
    print(torch.ones(2).cuda().device, file=sys.stderr)
    torch.cuda.CUDAGraph()


main()
"""


def inlined(root: Path, mode: str = "apply") -> dict[str, object]:
    plan = planner.plan([root], Settings(root=root, runtime="inline"), 1, mode)
    changed = [r for r in plan.results if isinstance(r, Changed)]
    for result in changed if mode == "apply" else ():
        result.path.write_bytes(result.after)
    return {result.path.relative_to(root).as_posix(): result for result in plan.results}


def told(root: Path) -> list[str]:
    results = inlined(root, "check").values()
    return [f.message for r in results for f in getattr(r, "findings", ()) if f.rule == "helper"]


def test_a_single_file_script_holds_the_functions_itself(tmp_path: Path) -> None:
    write_tree(tmp_path, {"run.py": SCRIPT, "a.py": "import torch, b\ntorch.cuda.synchronize()\n", "b.py": FLAGS})
    results = inlined(tmp_path)
    text = (tmp_path / "run.py").read_text()
    imports = "import functools\nimport os\nimport sys\nfrom typing import Any\n\nimport torch\n"
    head = f'"""A script."""\n{imports}\n\nclass accel:\n    """'
    assert text.startswith(head) and "import accel" not in text and text.count("\n\n\ndef main():\n    accel.sync") == 1
    assert {*results} == {"run.py", "a.py", "b.py", "accel.py"}, "those that import each other share a copy"
    lines = text.splitlines()
    (_,) = (f for f in results["run.py"].findings if "CUDAGraph" in lines[f.line - 1])
    compile(text, "run.py", "exec")
    assert not [r for r in inlined(tmp_path).values() if isinstance(r, Changed)]
    assert not [
        f for r in inlined(tmp_path, "check").values() for f in getattr(r, "findings", ()) if f.rule == "helper"
    ]


def test_the_functions_in_a_script_are_updated_also_where_nothing_else_is_to_rewrite(tmp_path: Path) -> None:
    write_tree(tmp_path, {"run.py": SCRIPT})
    inlined(tmp_path)
    text = (tmp_path / "run.py").read_text()
    (tmp_path / "run.py").write_text(text.replace("main()\n", "accel.device(1)\nmain()\n"))
    assert told(tmp_path) == ["the helper lacks functions, or is of another version: `torchmigrate apply` writes it"]
    inlined(tmp_path)
    after = (tmp_path / "run.py").read_text()
    assert (
        "def device(index_or_device" in after and after.count("import warnings\n") == 1 and "def synchronize" in after
    )
    assert after.count("class accel:") == 1 and after.endswith("accel.device(1)\nmain()\n")
    compile(after, "run.py", "exec")
    crlf = after.replace("\n", "\r\n").replace("accel.device(1)", "accel.device(1); torch.cuda.empty_cache()")
    (tmp_path / "run.py").write_bytes(crlf.encode())
    inlined(tmp_path)
    assert "def empty_cache" in (tmp_path / "run.py").read_bytes().decode()
    assert not [r for r in inlined(tmp_path).values() if isinstance(r, Changed)]


@pytest.mark.parametrize("name", helper_parts.everything())
def test_the_members_of_the_class_know_each_other(name: str) -> None:
    text = helper_parts.as_class({name: False}, "accel")
    tree = ast.parse(text)
    (owner,) = tree.body
    assert isinstance(owner, ast.ClassDef)
    members = {*helper_parts._defined(owner.body)}
    assert name in members
    named = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "accel"]
    assert {n.attr for n in named} <= members
    bare = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith("_")} - {"_", "__file__"}
    assert bare <= members | {"_BaseScaler"}
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Global)]
    assert helper_parts.as_class({}, "accel", text) == text


# ---- kept alive
PACKAGE = {
    "main.py": "import torch\ntorch.ones(1).cuda()\n",
    "pkg/__init__.py": "",
    "pkg/a.py": "import torch\nfrom .b import g\ndef f(x):\n    torch.cuda.synchronize()\n",
    "pkg/b.py": "import torch\ndef g(x):\n    return x.cuda()\n",
    "tools/x.py": "import torch\ntorch.cuda.empty_cache()\n",
}
COPIES = ["pkg/accel.py", "tools/accel.py"]


def migrated(root: Path) -> Path:
    write_tree(root, PACKAGE)
    after = write_plan(root)
    assert sorted(path for path in after if path.endswith("accel.py")) == ["accel.py", *COPIES]
    assert write_plan(root) == {}
    return root


def checked(root: Path) -> dict[str, str]:
    """What `check` says of copies of the helper."""
    found = planned(root, "check")
    return {
        path: f.message
        for path, r in found.items()
        if isinstance(r, Unchanged)
        for f in r.findings
        if f.rule == "helper"
    }


@pytest.mark.parametrize("copy", ["accel.py", *COPIES])
def test_a_copy_that_is_gone_is_restored(copy: str, tmp_path: Path) -> None:
    root = migrated(tmp_path)
    text = (root / copy).read_bytes()
    (root / copy).unlink()
    assert checked(root) == {copy: "the helper is missing, and files import it: `torchmigrate apply` writes it"}
    assert write_plan(root) == {copy: text} and checked(root) == {}


def test_the_only_copy_is_restored(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": PACKAGE["pkg/b.py"]})
    text = write_plan(tmp_path)["accel.py"]
    (tmp_path / "accel.py").unlink()
    assert [*checked(tmp_path)] == ["accel.py"]
    result = planned(tmp_path, "check")["accel.py"]
    assert isinstance(result, Unchanged)
    assert [kind(found) for found in result.findings] == ["fixable"], "apply writes it: nobody has to"
    assert write_plan(tmp_path) == {"accel.py": text}


def signed(text: str) -> str:
    """A helper whose header has the digests of its text, as another version of torchmigrate would have written it."""
    lines = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("# digest"))
    header = helper_parts._header(helper_parts._whole()[0], (), helper_parts._digests(text))
    return "".join([*lines[:at], header.splitlines(keepends=True)[-1], *lines[at + 1 :]])


def test_copies_of_another_version_are_updated_all_at_once(tmp_path: Path) -> None:
    root = migrated(tmp_path)
    texts = {copy: (root / copy).read_bytes() for copy in COPIES}
    for copy, text in texts.items():
        old = signed(text.decode().replace('"cpu"', '"CPU"'))
        assert old.encode() != text and helper_parts.is_untouched(old.encode())
        (root / copy).write_text(old)
    said = "the helper lacks functions, or is of another version: `torchmigrate apply` writes it"
    assert checked(root) == dict.fromkeys(COPIES, said)
    assert write_plan(root) == texts and checked(root) == {}


def test_a_copy_that_lacks_what_is_called_is_completed(tmp_path: Path) -> None:
    root = migrated(tmp_path)
    (root / "pkg/b.py").write_text(
        "from . import accel\ndef g(x):\n    return x.to(accel.device()), accel.device_count()\n"
    )
    assert [*checked(root)] == ["pkg/accel.py"]
    assert b"def device_count" in write_plan(root)["pkg/accel.py"]


def test_a_formatter_s_work_is_left(tmp_path: Path) -> None:
    root = migrated(tmp_path)
    for copy in COPIES:
        text = (root / copy).read_text().replace("    ", "\t").replace("\n\n\n", "\n\n")
        (root / copy).write_text(text)
    assert checked(root) == {} and write_plan(root) == {}


def test_an_edited_function_stays_and_is_told(tmp_path: Path) -> None:
    root = migrated(tmp_path)
    copy = root / "pkg/accel.py"
    copy.write_text(
        copy.read_text().replace(
            '    native = _native("synchronize")\n', "    print('mine')\n    native = _native(\"synchronize\")\n"
        )
    )
    mine = copy.read_text()
    assert "mine" in mine and checked(root) == {} and write_plan(root) == {}
    assert any("pkg/accel.py: " in note and "edited by hand" in note for note in plan_of(root).notes)
    (root / "pkg/b.py").write_text(
        "import torch\nfrom . import accel\ndef g(x):\n    torch.cuda.empty_cache()\n    return x.to(accel.device())\n"
    )
    text = write_plan(root)["pkg/accel.py"].decode()
    assert "print('mine')" in text and "def empty_cache" in text


def test_the_command_shows_and_updates_copies_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
    root = migrated(tmp_path)
    monkeypatch.chdir(root)
    write_tree(root, {"more.py": "import torch\ntorch.cuda.empty_cache()\n"})
    shown = cli("helper")
    assert shown.status == 0 and shown.out.startswith("accel.py: version 2, is up to date\n  functions: device\n")
    assert "pkg/accel.py: version 2, is up to date\n" in shown.out and "  called by: pkg/a.py, pkg/b.py\n" in shown.out
    text = (root / "accel.py").read_text()
    (root / "accel.py").unlink()
    edited = (
        (root / "tools/accel.py")
        .read_text()
        .replace("return torch.device(wanted", "# mine\n    return 1 and torch.device(wanted")
    )
    (root / "tools/accel.py").write_text(edited)
    (root / "pkg/b.py").write_text("from . import accel\n" + "accel.device_count()\n")
    shown = cli("helper").out
    assert "accel.py: is missing\n  called by: main.py\n" in shown
    assert "pkg/accel.py: version 2, is old, or lacks functions\n" in shown
    assert "  edited by hand, and left so: _here\n" in shown
    assert cli("helper", "--update").out == "wrote accel.py\nwrote pkg/accel.py\n"
    assert (root / "accel.py").read_text() == text and "def device_count" in (root / "pkg/accel.py").read_text()
    assert (root / "more.py").read_text() == "import torch\ntorch.cuda.empty_cache()\n"
    assert cli("helper", "--update").out == "All copies are up to date.\n"
    assert "0BSD" in cli("helper", "--explain").out


def test_what_only_has_the_name_is_not_restored(tmp_path: Path) -> None:
    """Another package `accel`, or a module of that name without the helper's functions."""
    write_tree(tmp_path, {"a.py": "import accel\naccel.run()\n", "b.py": "from accel import thing\nthing()\n"})
    assert write_plan(tmp_path) == {} and checked(tmp_path) == {}


def plan_of(root: Path, mode: str = "apply") -> planner.Plan:
    return planner.plan([root], Settings(root=root), 1, mode)


def test_two_copies_that_one_program_may_find_hold_the_same_functions(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "train.py": "import paths\nimport torch\nfrom ops.net import f\ntorch.cuda.synchronize()\n",
            "paths.py": "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'l' + 'ib'))\n",
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


@pytest.mark.parametrize("beside", [False, True])
def test_a_script_that_runs_with_files_of_another_folder_finds_its_functions_there(
    beside: bool, tmp_path: Path
) -> None:
    """Found in PC-DARTS, whose scripts for one GPU are copied over those of the root: each has its helper there."""
    files = {
        "train.py": "import torch\nimport utils\ntorch.cuda.synchronize()\n",
        "utils.py": "import torch\ntorch.cuda.empty_cache()\n",
        "gpu_1.0/train.py": "import torch\nimport utils\nif __name__ == '__main__':\n    torch.cuda.set_device(1)\n",
        "other/alone.py": "import torch\ntorch.cuda.manual_seed_all(0)\n",
    }
    done = texts_after(write_tree(tmp_path, files | ({"gpu_1.0/utils.py": files["utils.py"]} if beside else {})))
    assert "def set_device" in done["gpu_1.0/accel.py"]
    assert ("def set_device" in done["accel.py"]) is not beside
    assert "def manual_seed_all" not in done["accel.py"]


@pytest.mark.parametrize("how", ["append", "insert"])
def test_a_copy_in_a_package_that_is_imported_by_its_name_alone(how: str, tmp_path: Path) -> None:
    """RAFT's shape: train.py puts the folder of a package on sys.path, whose files import each other by name.

    Appended, it is found after the copy beside train.py, which so serves both; put first, either may be found.
    """
    edit = {"append": "append('core')", "insert": "insert(0, 'core')"}[how]
    write_tree(
        tmp_path,
        {
            "train.py": f"import sys\nsys.path.{edit}\nimport net\nimport torch\ntorch.cuda.synchronize",
            "core/__init__.py": "",
            "core/net.py": "import torch\nfrom other import g\ndef f():\n    torch.cuda.empty_cache\nf()\n",
            "core/other.py": "def g(): pass\n",
        },
    )
    copies = {name: r.after.decode() for name, r in planned(tmp_path).items() if name.endswith("accel.py")}
    assert copies.keys() == {"accel.py", "core/accel.py"}
    assert "def synchronize" in copies["accel.py"] and all("def empty_cache" in text for text in copies.values())
    assert ("def synchronize" in copies["core/accel.py"]) == (how == "insert")
    for name, text in copies.items():
        (tmp_path / name).write_text(text)
    assert write_plan(tmp_path).keys() == {"train.py", "core/net.py"}
    assert checked(tmp_path) == {}
    run(tmp_path, "train.py")


def test_a_file_that_imports_a_copy_above_it_is_no_program_that_reaches_out(tmp_path: Path) -> None:
    """KAIR's shape: models/loss.py runs itself, and nobody leads to face/net.py; a second run once joined them."""
    write_tree(
        tmp_path,
        {
            "train.py": "import torch\nfrom models.loss import f\nf(torch.ones(2).cuda())\n",
            "models/loss.py": "import torch\ndef f(x):\n    return x.cuda()\n"
            "if __name__ == '__main__':\n    torch.cuda.synchronize()\n",
            "face/detect.py": "import os, sys\nimport torch\nsys.path.insert(0, os.path.dirname(__file__))\n"
            "import layers.boxes\ntorch.cuda.empty_cache()\n",
            "face/layers/__init__.py": "",
            "face/layers/boxes.py": "",
            "face/layers/loss.py": "import torch\ndef g(x):\n    return x.cuda()\n",
            "test_face.py": "import torch\nfrom face.detect import torch\ntorch.cuda.ipc_collect()\n",
        },
    )
    assert any(name.endswith("face/accel.py") for name in write_plan(tmp_path))
    assert write_plan(tmp_path) == {}


SHARED = {
    "a name that two modules have": {
        "tools/train.py": "import paths, models\nimport torch\ntorch.cuda.synchronize()\n",
        "tools/paths.py": "import sys\nsys.path.insert(0, 'lib')\n",
        "lib/models/__init__.py": "import models.net\n",
        "lib/models/net.py": "import torch\ntorch.cuda.empty_cache()\n",
        "lib/config/models.py": "",
        "lib/config/__init__.py": "",
        "hubconf.py": "from lib.models.net import *\n",
    },
    "a library of which no script is seen, and a script that may lead to it": {
        "tools/run.py": "import sys, near\nsys.path.insert(0, 'lib')\nimport torch\ntorch.cuda.synchronize()\n",
        "tools/near.py": "",
        "lib/net/__init__.py": "from net.a import x\n",
        "lib/net/a.py": "import torch\nx = torch.cuda.empty_cache()\n",
    },
}


@pytest.mark.parametrize("how, is_shared", [("append('..')", False), ("insert(0, '..')", True)])
def test_a_notebook_that_puts_a_folder_on_sys_path(how: str, is_shared: bool, tmp_path: Path) -> None:
    cells = [f"import sys, torch\nsys.path.{how}\nfrom net import f\n", "torch.cuda.synchronize()\n"]
    book = {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "nbformat": 4}
    write_tree(tmp_path, {"demo/demo.ipynb": json.dumps(book), "demo/near.py": "", "net.py": PACKAGE["pkg/b.py"]})
    copies = {name: r.after.decode() for name, r in planned(tmp_path).items() if name.endswith("accel.py")}
    assert "def synchronize" in copies["demo/accel.py"] and "def device(" in copies["demo/accel.py"]
    assert ("def synchronize" in copies["accel.py"]) == is_shared


SETUP = "from setuptools import setup\nsetup(name='net', packages=['net'])\n"


@pytest.mark.parametrize(
    ("files", "first", "taken"),
    [
        ({"setup.py": SETUP}, "import torch\nfrom net import f\n", "net/accel.py"),
        ({}, "import torch\nfrom net import f\n", "net/demo/accel.py"),
        ({}, "import torch\nfrom net.a import f\n", "accel.py"),
        ({}, "import sys, torch\nsys.path.append('..')\nfrom net.a import f\n", "net/demo/accel.py"),
        ({}, "!pip install more\nimport torch\nfrom net.a import f\n", "net/demo/accel.py"),
        ({}, "!pip install -r requirements.txt\nimport torch\nfrom net.a import f\n", "accel.py"),
        ({}, "%cd ../..\nimport torch\nfrom net.a import f\n", "net/demo/accel.py"),
        ({"net/demo/net/a.py": "f = 1\n"}, "import torch\nfrom net.a import f\n", "net/demo/accel.py"),
        ({"setup.py": SETUP}, "import torch, numpy\n", "net/demo/accel.py"),
        ({"setup.py": SETUP}, "import sys, torch\nsys.path.append('..')\nfrom net import f\n", "net/demo/accel.py"),
        ({"setup.py": SETUP}, "!pip install net\nimport torch\nfrom net import f\n", "net/demo/accel.py"),
    ],
)
def test_a_notebook_imports_the_helper_of_the_installed_package_that_it_imports(
    files: dict[str, str], first: str, taken: str, tmp_path: Path
) -> None:
    book = {
        "cells": [{"cell_type": "code", "source": cell} for cell in (first, "torch.cuda.synchronize()\n")],
        "nbformat": 4,
    }
    package = {
        "net/__init__.py": "from net.a import f\n",
        "net/a.py": "f = 1\n",
        "net/demo/demo.ipynb": json.dumps(book),
    }
    write_tree(tmp_path, {**files, **package})
    done = {name: r.after.decode() for name, r in planned(tmp_path).items()}
    assert {name for name in done if name.endswith("accel.py")} == {taken}
    statement = "from net import accel" if taken == "net/accel.py" else "import accel"
    assert f'"{statement}\\n"' in done["net/demo/demo.ipynb"] or f"\\n{statement}\\n" in done["net/demo/demo.ipynb"]


@pytest.mark.parametrize("name", SHARED)
def test_copies_that_may_be_found_in_each_other_s_place(name: str, tmp_path: Path) -> None:
    """They hold the same functions, and nothing is left to do after `apply`."""
    write_tree(tmp_path, SHARED[name])
    copies = {name: r.after.decode() for name, r in planned(tmp_path).items() if name.endswith("accel.py")}
    assert len(copies) >= 2
    assert all("def synchronize" in text and "def empty_cache" in text for text in copies.values()), copies.keys()
    for path, text in copies.items():
        (tmp_path / path).write_text(text)
    write_plan(tmp_path)
    assert checked(tmp_path) == {} and write_plan(tmp_path) == {}


ALONE = {
    "programs that share a file without calls": {
        "main.py": "import torch, ops\nfrom lib.net import f\ntorch.cuda.synchronize\n",
        "lib/net.py": "import ops\ndef f(): pass\n",
        "ops.py": "",
        "external/test.py": "import torch, ops, near\ntorch.cuda.empty_cache\n",
        "external/near.py": "",
    },
    "a copy beside a file that is meant to find another": {
        "main.py": "import torch\nfrom pkg.models.used import *\ntorch.cuda.synchronize\n",
        "pkg/models/used.py": "import torch\ntorch.cuda.empty_cache\n",
        "pkg/models/alone.py": "import torch\ntorch.cuda.empty_cache\n",
    },
    "files that append to sys.path, and ask for what is there": {
        "main.py": "import sys, torch\nif 'lib' not in sys.path:\n    sys.path.append('lib')\nimport net\n"
        "torch.cuda.synchronize\nfor folder in sys.path:\n    print(sys.path[0], folder)\n",
        "lib/net.py": "import torch\nimport near\ntorch.cuda.empty_cache\n",
        "lib/near.py": "",
    },
    "a library of which no script is seen, after the script's folder on sys.path": {
        "main.py": "import torch\ntorch.cuda.synchronize\nif __name__ == '__main__': pass\n",
        "lib/net/__init__.py": "from net.a import x\n",
        "lib/net/a.py": "import torch\nx = torch.cuda.empty_cache\n",
    },
}


@pytest.mark.parametrize("name", ALONE)
def test_copies_hold_no_more_than_what_programs_call_that_find_them(name: str, tmp_path: Path) -> None:
    write_tree(tmp_path, ALONE[name])
    write_plan(tmp_path)
    copies = {path.parent.name: path.read_text() for path in tmp_path.rglob("accel.py")}
    (other,) = (text for folder, text in copies.items() if folder != tmp_path.name)
    assert len(copies) == 2 and "def empty_cache" in other and "def synchronize" not in other
    assert ("def empty_cache" in copies[tmp_path.name]) == (name != next(iter(ALONE)))
    assert checked(tmp_path) == {} and write_plan(tmp_path) == {}
    run(tmp_path, "main.py")


LOADED = {
    "sub/ldm/__init__.py": "",
    "sub/ldm/enc.py": "import torch\ndef make():\n    return torch.cuda.empty_cache\n",
    "sub/run.py": "from ldm.enc import make\nmake()\n",
}
LOADING = "import importlib, os, sys, torch\n{}\nmake = importlib.import_module('ldm.' + 'enc').make\n"
APPENDED = "HERE = os.path.join(os.path.dirname(__file__), {})\nif HERE not in sys.path:\n    sys.path.append(HERE)"


@pytest.mark.parametrize(
    ("path", "head", "is_shared"),
    [
        ("cli.py", LOADING.format("sys.path.append('./sub')"), True),
        ("cli.py", LOADING.format(APPENDED.format("'sub'")), True),
        ("cli.py", LOADING.format("for each in ['sub/', 'more']:\n    sys.path.append(each)"), True),
        ("sub/tools/cli.py", LOADING.format("sys.path.append('..')"), True),
        ("sub/tools/cli.py", LOADING.format(APPENDED.format("os.pardir")), True),
        ("cli.py", LOADING.format("sys.path.append('./more')\nprint('sub')"), False),
        ("cli.py", LOADING.format("print(sys.argv, 'sub')"), False),
        ("sub/tools/cli.py", LOADING.format("sys.path.append(os.path.dirname(__file__))"), False),
        ("cli.py", "import sys, torch\nsys.path.append('./sub')\nmake = print\n", False),
    ],
)
def test_what_a_program_loads_by_a_computed_name_from_a_folder_that_it_adds(
    path: str, head: str, is_shared: bool, tmp_path: Path
) -> None:
    """Found in instruct-pix2pix, whose scripts load `ldm` by names in a config: the copy beside them is found first."""
    write_tree(tmp_path, {**LOADED, path: f"{head}torch.cuda.synchronize\nmake()\n"})
    write_plan(tmp_path)
    first, other = ((tmp_path / folder / "accel.py").read_text() for folder in (os.path.dirname(path), "sub"))
    assert "def synchronize" in first and ("def empty_cache" in first) == is_shared
    assert "def empty_cache" in other and "def synchronize" not in other
    assert checked(tmp_path) == {} and write_plan(tmp_path) == {}
    if is_shared:
        run(tmp_path, os.path.basename(path), folder=os.path.dirname(path) or ".")


PLUGIN = "import torch\ndef setup():\n    torch.cuda.empty_cache\nif __name__ == '__main__':\n    setup()\n"
SERVER = "import importlib, torch\ntorch.cuda.synchronize\nname = 'whisper'\nimportlib.import_module({}).setup()\n"


@pytest.mark.parametrize(
    ("computed", "is_shared"),
    [
        ("f'extensions.{name}.script'", True),
        ("'extensions.' + name + '.script'", True),
        ("'.'.join(['extensions', name, 'script'])", False),
    ],
)
def test_what_a_program_loads_by_a_computed_name_from_a_folder_below_it(
    computed: str, is_shared: bool, tmp_path: Path
) -> None:
    """Found in text-generation-webui: its extensions, also scripts, find the copy beside its server."""
    write_tree(tmp_path, {"extensions/whisper/script.py": PLUGIN, "server.py": SERVER.format(computed)})
    write_plan(tmp_path)
    first = (tmp_path / "accel.py").read_text()
    assert "def synchronize" in first and ("def empty_cache" in first) == is_shared
    assert (tmp_path / "extensions/whisper/accel.py").exists()
    assert checked(tmp_path) == {} and write_plan(tmp_path) == {}
    if is_shared:
        run(tmp_path, "server.py")


@pytest.mark.parametrize(("hub", "is_shared"), [("hubconf.py", True), ("conf.py", False)])
def test_what_torch_hub_loads_of_the_project_finds_the_copy_beside_a_script(
    hub: str, is_shared: bool, tmp_path: Path
) -> None:
    """Found in Metric3D: its exporter loads the model by torch.hub, and the model asked for what its copy lacks."""
    files = {
        hub: "from net.enc import make\n",
        "net/enc.py": "import torch\ndef make():\n    return torch.cuda.empty_cache\n",
        "train.py": "from net.enc import make\nmake()\n",
        "onnx/export.py": "import torch\ntorch.cuda.synchronize()\nmodel = torch.hub.load('me/net', 'make')\n",
    }
    write_tree(tmp_path, files)
    write_plan(tmp_path)
    own = (tmp_path / "onnx/accel.py").read_text()
    assert "def synchronize" in own and ("def empty_cache" in own) == is_shared
    assert checked(tmp_path) == {} and write_plan(tmp_path) == {}


def test_a_run_over_one_folder_leaves_the_users_of_other_copies_aside(tmp_path: Path) -> None:
    """A folder with an `__init__.py` belongs to the folder above it, with all that lies there."""
    alone = "import torch\ntorch.cuda.synchronize()\n"
    write_tree(
        tmp_path, {"one/__init__.py": "", "one/main.py": alone, "two/main.py": "import torch\ntorch.cuda.seed()\n"}
    )
    for folder in ("two", "one", "one", "two"):
        for result in planner.plan([tmp_path / folder], Settings(root=tmp_path), 1, "apply").results:
            if isinstance(result, Changed):
                result.path.write_bytes(result.after)
    assert "def seed" not in (tmp_path / "one/accel.py").read_text()
    assert "def synchronize" not in (tmp_path / "two/accel.py").read_text()


def test_a_later_run_links_no_copies_that_the_first_kept_apart(tmp_path: Path) -> None:
    """3D-ResNets' shape: `import accel` of a script in a folder could mean the root's copy by its name alone."""
    write_tree(
        tmp_path,
        {
            "main.py": "import torch\nfrom model import f\ntorch.cuda.synchronize\n",
            "model.py": "import torch\nfrom models import resnet\ndef f():\n    torch.cuda.empty_cache\nf()\n",
            "models/resnet.py": "import torch\ndef g(x):\n    return x.cuda()\n",
            "tools/strip.py": "import argparse\nimport torch\nprint(torch.load('x'), argparse)\ntorch.cuda.seed()\n",
        },
    )
    write_plan(tmp_path)
    assert "def seed" not in (tmp_path / "accel.py").read_text()
    assert checked(tmp_path) == {} and write_plan(tmp_path) == {}


def test_a_name_behind_a_relative_import_finds_the_same_copy(tmp_path: Path) -> None:
    """Apex's shape: a test runs as a part of its package and as a script, and finds what lies beside it."""
    test = (
        "import torch\ntry:\n    from apex.ops import op\nexcept ImportError:\n    op = None\n"
        "def test_op():\n    torch.cuda.synchronize()\nif __name__ == '__main__': test_op()\n"
    )
    write_tree(
        tmp_path,
        {
            "apex/__init__.py": "",
            "setup.py": "from setuptools import setup, find_packages\n"
            "setup(name='apex', packages=find_packages(exclude=('apex.test*',)))\n",
            "apex/ops.py": "def op(): pass\n",
            "apex/near/__init__.py": "",
            "apex/near/bottleneck.py": "class B: pass\n",
            "apex/near/test.py": "import torch\nfrom bottleneck import B\ntorch.cuda.empty_cache()\n",
            "apex/test/conv/__init__.py": "",
            "apex/test/conv/test_conv.py": test,
        },
    )
    write_plan(tmp_path)
    assert checked(tmp_path) == {} and write_plan(tmp_path) == {}


MOVES = "import torch\n\n\ndef move(x):\n    return x.cuda()\n"
SETUP = "from setuptools import setup\nsetup(name='x', packages=['pkg'])\n"
LOADS = {
    "run.py": "import pkg.slow\n" + MOVES,
    "pkg/slow.py": "",
    "pkg/fast.py": "import torch\nf = torch.compile(abs)\n",
}


@pytest.mark.parametrize(
    ("files", "copy", "is_aware"),
    [
        ({"run.py": MOVES}, "accel.py", False),
        ({"run.py": MOVES + "move = torch.compile(move)\n"}, "accel.py", True),
        ({"run.py": "import torch\nimport lib\nf = torch.compile(lib.move)\n", "lib.py": MOVES}, "accel.py", True),
        ({"a/run.py": MOVES, "b/run.py": "import torch\nf = torch.compile(abs)\n"}, "a/accel.py", False),
        ({"run.py": "import re\nre.compile('a')\n" + MOVES}, "accel.py", False),
        ({"setup.py": SETUP, "pkg/__init__.py": "", "pkg/lib.py": MOVES}, "pkg/accel.py", True),
        ({**LOADS, "pkg/__init__.py": "import pkg.fast\n"}, "accel.py", True),
        ({**LOADS, "pkg/__init__.py": ""}, "accel.py", False),
    ],
    ids=[
        *("nobody", "itself", "who imports it", "another program", "regular expressions", "who installs it"),
        *("the package of what it imports", "a package that loads no such module"),
    ],
)
def test_a_helper_knows_of_torch_compile_where_one_may_compile_its_callers(
    tmp_path: Path, files: dict[str, str], copy: str, is_aware: bool
) -> None:
    text = write_plan(write_tree(tmp_path, files))[copy].decode()
    assert ("global _device" in text, "lru_cache" in text) == (is_aware, not is_aware)


def test_a_program_that_begins_to_compile_gets_a_helper_that_knows(tmp_path: Path) -> None:
    write_plan(write_tree(tmp_path, {"run.py": MOVES}))
    assert "lru_cache" in (tmp_path / "accel.py").read_text() and checked(tmp_path) == {}
    (tmp_path / "run.py").write_text((tmp_path / "run.py").read_text() + "move = torch.compile(move)\n")
    assert [*checked(tmp_path)] == ["accel.py"]
    assert "global _device" in write_plan(tmp_path)["accel.py"].decode() and checked(tmp_path) == {}


CHOICE = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\nimport lib\n"
CHOOSES = {"cells": [{"cell_type": "code", "source": CHOICE}], "nbformat": 4}
FORKS = "import multiprocessing as mp\nimport lib\nmp.Process(target=lib.move).start()\n"


LIBRARY = {"setup.py": "from setuptools import setup\nsetup(name='pkg', packages=['pkg'])\n", "pkg/__init__.py": ""}
DECORATED = """import torch
from torch.amp import autocast
class Net(torch.nn.Module):
    @autocast("cuda", enabled=False)
    def forward(self, x):
        return x
"""


@pytest.mark.parametrize(
    ("files", "copy", "starts"),
    [
        ({"lib.py": MOVES}, "accel.py", True),
        ({"lib.py": MOVES, "run.py": FORKS}, "accel.py", False),
        ({"lib.py": MOVES, "run.py": FORKS.replace("Process", "spawn")}, "accel.py", True),
        ({"a/run.py": MOVES, "b/run.py": FORKS.replace("lib", "os")}, "a/accel.py", True),
        ({"lib.py": "from multiprocessing import Pool\n" + MOVES}, "accel.py", False),
        ({"lib.py": MOVES, "run.py": CHOICE}, "accel.py", False),
        ({"lib.py": MOVES, "run.ipynb": json.dumps(CHOOSES)}, "accel.py", False),
        ({"lib.py": "from multiprocessing.pool import ThreadPool\n" + MOVES}, "accel.py", True),
        ({"lib.py": "from multiprocessing.dummy import Pool\n" + MOVES}, "accel.py", True),
    ],
    ids=[
        *("nobody", "who imports it", "anew", "another program", "itself", "who chooses", "a notebook that chooses"),
        *("threads", "threads again"),
    ],
)
def test_a_helper_starts_cuda_only_where_nothing_has_to_come_before(
    tmp_path: Path, files: dict[str, str], copy: str, starts: bool
) -> None:
    text = write_plan(write_tree(tmp_path, files))[copy].decode()
    assert ("accelerator.is_available()" in text, "device_count" in text) == (starts, not starts)


@pytest.mark.parametrize(("text", "counts"), [(MOVES, False), (DECORATED, True)], ids=["a function", "a decorator"])
def test_importing_a_library_does_not_start_cuda(text: str, counts: bool, tmp_path: Path) -> None:
    """Found in lucidrains/denoising-diffusion-pytorch: who imports it may fork afterwards."""
    done = texts_after(write_tree(tmp_path, {**LIBRARY, "pkg/net.py": text}))
    assert ("device_count" in done["pkg/accel.py"]) is counts
    write_tree(tmp_path, done)
    assert texts_after(tmp_path) == {}


def test_a_file_that_may_find_either_of_two_copies_finds_its_functions_in_both(tmp_path: Path) -> None:
    """Found in facebookresearch/fairseq, which installs its examples as modules of a package."""
    setup = (
        "import os\nfrom setuptools import setup\nos.symlink('../examples', 'pkg/examples')\nsetup(packages=['pkg'])\n"
    )
    files = {
        "setup.py": setup,
        "pkg/__init__.py": "import torch\nx = torch.zeros(2).cuda()\n",
        "examples/run.py": "from examples.net.net import f\n",
        "examples/net/net.py": "import torch\n\n\ndef f(path):\n    return torch.load(path)\n",
    }
    write_tree(tmp_path, files)
    done = texts_after(tmp_path)
    either = "try:\n    import accel\nexcept ImportError:  # where it is installed\n    from pkg import accel\n"
    assert f"import torch\n\n{either}\n" in done["examples/net/net.py"]
    assert "def map_location" in done["accel.py"] and "def device" not in done["accel.py"]
    assert "def map_location" in done["pkg/accel.py"] and "def device" in done["pkg/accel.py"]
    write_tree(tmp_path, done)
    assert {*texts_after(tmp_path).items()} <= {*done.items()}
    for copy in ("accel.py", "pkg/accel.py"):
        (tmp_path / copy).unlink()
        assert texts_after(tmp_path) == {copy: done[copy]}
        write_tree(tmp_path, done)


SELF_TEST = """import torch

from torch import nn


def loss(x):
    torch.cuda.synchronize()
    return x


if __name__ == "__main__":
    print(loss)
"""
MAIN = "import torch\nfrom utils.loss import loss\n\n\ndef train():\n    torch.cuda.empty_cache()\n    loss(torch)\n"


@pytest.mark.parametrize(
    "loss, beside",
    [
        (SELF_TEST.replace("from torch import nn\n", ""), True),
        (SELF_TEST.replace("from torch import nn", "import metrics"), True),
        (SELF_TEST.replace("from torch import nn", "from utils import metrics"), False),  # runs from the root alone
        (SELF_TEST.replace("from torch import nn", "import sys\nsys.path.append('.')"), False),
        (SELF_TEST.partition("if __name__")[0].replace("from torch import nn\n", ""), False),  # no script
    ],
)
def test_a_module_that_is_a_script_too_finds_a_copy_beside_it(loss: str, beside: bool, tmp_path: Path) -> None:
    """Found in jfzhang95/pytorch-deeplab-xception: utils/loss.py tests itself, and train.py imports utils.loss."""
    write_tree(
        tmp_path, {"train.py": MAIN, "utils/loss.py": loss, "utils/metrics.py": "", "other.py": "import utils\n"}
    )
    copies = {name for name in write_plan(tmp_path) if name.endswith("accel.py")}
    assert copies == {"accel.py", *(["utils/accel.py"] if beside else [])}
    assert "def synchronize" in (tmp_path / "accel.py").read_text()
    if "import metrics" not in loss:
        run(tmp_path, "train.py")
    if beside:
        assert "def empty_cache" not in (tmp_path / "utils" / "accel.py").read_text()
        run(tmp_path, "loss.py", folder="utils")
    assert write_plan(tmp_path) == {}
    (tmp_path / "accel.py").unlink()
    assert write_plan(tmp_path).keys() == {"accel.py"}


GROUP = "import torch\nimport torch.distributed as dist\n{}\ndist.init_process_group('nccl')\ntorch.zeros(2).cuda()\n"


@pytest.mark.parametrize(
    ("train", "are_grouped"),
    [
        (GROUP.format("from pkg import net"), True),
        (GROUP.format("import os"), False),  # another program
        ("import torch\nfrom pkg import net\nprint('init_process_group')\ntorch.zeros(2).cuda()\n", False),
        ("import deepspeed\nfrom pkg import net\ndeepspeed.init_distributed('nccl')\n", True),
        ("import torch\nfrom pkg import net\ntorch.distributed.all_reduce(torch.zeros(2).cuda())\n", True),
    ],
)
def test_all_copies_of_a_program_in_a_process_group_ask_how_many_there_are(
    train: str, are_grouped: bool, tmp_path: Path
) -> None:
    """Found in microsoft/LoRA: of two processes on a Mac, a library's copy chose MPS and the script's the CPU."""
    files = {
        "setup.py": "from setuptools import setup\nsetup(name='pkg', packages=['pkg'])\n",
        "pkg/__init__.py": "",
        "pkg/net.py": MOVES,
        "examples/train.py": train,
        "examples/neighbour.py": "import train\n",
    }
    done = texts_after(write_tree(tmp_path, files))
    assert ('"WORLD_SIZE"' in done["pkg/accel.py"]) == are_grouped
    write_tree(tmp_path, done)
    assert texts_after(tmp_path) == {}
    write_tree(tmp_path, {"examples/train.py": GROUP.format("from pkg import net")})
    assert '"WORLD_SIZE"' in texts_after(tmp_path).get("pkg/accel.py", done["pkg/accel.py"])


@pytest.mark.parametrize(
    ("names", "are_shared"),
    [
        (("test_one.py", "test_two.py"), True),
        (("one.py", "two.py"), False),  # scripts
        (("test_one.py", "two.py"), False),
    ],
)
def test_the_copies_of_all_tests_hold_the_same_functions(
    names: tuple[str, str], are_shared: bool, tmp_path: Path
) -> None:
    """Found in state-spaces/mamba: one run of pytest loads the copy beside its first test for all of them."""
    one = "import torch\n\ndef test_one():\n    torch.cuda.synchronize()\n"
    two = "import torch\n\nclass TestTwo:\n    def test_two(self):\n        torch.cuda.empty_cache()\n"
    done = texts_after(write_tree(tmp_path, {f"tests/a/{names[0]}": one, f"tests/b/{names[1]}": two}))
    copies = [text for name, text in done.items() if name.endswith("accel.py")]
    assert len(copies) == 2
    assert ["def synchronize" in c and "def empty_cache" in c for c in copies] == [are_shared] * 2
    write_tree(tmp_path, done)
    assert texts_after(tmp_path) == {}
