"""Facts about a project: the helper and its name, classes that define cuda(), torch's floor, re-exports."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from conftest import module, planned, texts_after, write_plan, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed, Unchanged
from torchmigrate.project.context import ProjectContext, cuda_methods, project_root
from torchmigrate.project.helper_file import helper_name, runtime_source
from torchmigrate.project.helper_parts import Form, is_untouched, vendored
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.source.encoding import HELPER_MARK
from torchmigrate.torch_api.names import version_of


def signed(body: bytes) -> bytes:
    """A helper of another version, as that version wrote it."""
    return HELPER_MARK + b" 0 " + hashlib.sha256(body).hexdigest()[:32].encode() + b"\n" + body


TRAIN = "import torch\nx = torch.ones(1).cuda()\n"
MOVED = "import torch\nimport accel\nx = torch.ones(1, device=accel.device())\n"


# ---- the helper's name
@pytest.mark.parametrize(
    ("files", "texts", "expected"),
    [
        ([], [], "accel"),
        (["/p/accel.py"], [], "torch_accel"),
        (["/p/accel/__init__.py"], [], "torch_accel"),
        (["/p/deep/down/accel.py"], [], "torch_accel"),
        (["/p/accel.py", "/p/torch_accel.py"], [], "torchmigrate_accel"),
        ([], [b"accel = 1"], "torch_accel"),
        ([], [b"def f(accel):"], "torch_accel"),
        ([], [b"x = accel.y"], "torch_accel"),
        ([], [b"cfg.accel = 1"], "accel"),  # an attribute is no name
        ([], [b"acceleration = 1; my_accel = 2"], "accel"),
        ([], [b"add('--accel')"], "accel"),
        ([], [b"x['accel']"], "accel"),
        (["/p/data/accel.txt", "/p/accel.ipynb"], [], "accel"),
    ],
)
def test_helper_name(files: list[str], texts: list[bytes], expected: str) -> None:
    assert helper_name(files, texts) == expected


def test_a_helper_of_ours_keeps_its_name(tmp_path: Path) -> None:
    ours = tmp_path / "torch_accel.py"
    ours.write_bytes(HELPER_MARK + b" 0.0.1\n")
    assert helper_name([str(ours)], [b"accel = 1", b"import torch_accel"]) == "torch_accel"


def test_a_colliding_name_is_avoided_in_text_and_file(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "other.py": "import torch\naccel = torch.ones(1).cuda()\n"})
    after = texts_after(root)
    assert "import torch_accel\nx = torch.ones(1, device=torch_accel.device())" in after["train.py"]
    assert "torch_accel.py" in after


def test_a_users_accel_module_is_never_overwritten(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "accel.py": "MINE = 1\n"})
    written = write_plan(root)
    assert (root / "accel.py").read_text() == "MINE = 1\n"
    assert set(written) == {"train.py", "torch_accel.py"}


def test_a_foreign_file_in_the_helpers_place_is_an_error(tmp_path: Path) -> None:
    """All names are taken, or a file is there that discovery does not see."""
    files = {f"{n}.py": "MINE = 1\n" for n in ("accel", "torch_accel", "torchmigrate_accel")}
    root = write_tree(tmp_path, {"train.py": TRAIN, **files})
    found = planned(root)
    assert isinstance(found["torchmigrate_accel.py"], Failed)
    assert "was not written by torchmigrate" in found["torchmigrate_accel.py"].error
    assert not [n for n in files if isinstance(found.get(n), Changed)]


def test_an_outdated_helper_is_updated(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "accel.py": signed(b"old = 1\n")})
    found = planned(root)
    helper = found["accel.py"]
    assert isinstance(helper, Changed)
    assert (helper.new, helper.after) == (False, vendored({"device": ~Form.ANY}))


def test_what_was_added_to_a_helper_stays(tmp_path: Path) -> None:
    edited = runtime_source() + b"\nmine = 1\n"
    root = write_tree(tmp_path, {"train.py": TRAIN, "accel.py": edited})
    assert set(texts_after(root)) == {"train.py"}  # it offers all that is called


@pytest.mark.parametrize(
    "text", [signed(b"old = 1\n") + b"mine = 1\n", HELPER_MARK + b" 1\nold = 1\n", HELPER_MARK + b"\n(("]
)
def test_an_edited_helper_that_lacks_functions_is_nothing_to_rely_on(tmp_path: Path, text: bytes) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "accel.py": text})
    found = planned(root)
    assert isinstance(found["accel.py"], Failed) and "it lacks " in found["accel.py"].error
    assert isinstance(found["train.py"], Failed) and "cannot be had" in found["train.py"].error


def test_a_helper_with_other_line_ends_is_as_it_was_written(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "accel.py": runtime_source().replace(b"\n", b"\r\n")})
    assert set(texts_after(root)) == {"train.py"}


@pytest.mark.parametrize("target", ["nowhere.py", "../outside.py"])
def test_the_helper_is_not_written_through_a_link(tmp_path: Path, target: str) -> None:
    root = write_tree(tmp_path / "project", {"train.py": TRAIN})
    outside = tmp_path / "outside.py"
    outside.write_bytes(signed(b"old = 1\n"))
    (root / "accel.py").symlink_to(target)
    found = planned(root)
    assert isinstance(found["accel.py"], Failed)
    assert isinstance(found["train.py"], Failed)


def test_a_name_that_differs_in_capitals_is_taken(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "Accel.py": "MINE = 1\n", "Torch_Accel/__init__.py": ""})
    assert set(texts_after(root)) == {"train.py", "torchmigrate_accel.py"}


def test_a_helper_that_is_current_is_not_written(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN, "accel.py": runtime_source()})
    assert set(texts_after(root)) == {"train.py"}


def test_the_helper_is_not_rewritten_itself(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"accel.py": runtime_source()})
    assert planned(root) == {}


def test_no_helper_where_nothing_needs_it(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": "import torch\nx = 'cuda' in name\n"})
    assert not [r for r in planned(root).values() if not isinstance(r, Unchanged)]


def test_the_helper_carries_its_marker() -> None:
    assert runtime_source().startswith(HELPER_MARK)
    assert is_untouched(runtime_source()) and not is_untouched(runtime_source() + b"x = 1\n")


def test_runtime_package_vendors_nothing(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"train.py": TRAIN})
    after = texts_after(root, runtime="package")
    assert after == {"train.py": MOVED.replace("import accel", "from torchmigrate import runtime as accel")}


def test_a_folder_that_no_import_can_name_is_no_package(tmp_path: Path) -> None:
    """A project that was unpacked without git holds an `__init__.py`: its neighbours were read as parts of it."""
    write_tree(tmp_path, {"net.pytorch/__init__.py": "", "net.pytorch/a.py": "", "net/__init__.py": "", "net/a.py": ""})
    assert project_root([tmp_path / "net.pytorch"]) == tmp_path / "net.pytorch"
    assert project_root([tmp_path / "net"]) == tmp_path


def test_one_helper_for_all_that_share_a_root(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": TRAIN, "b.py": TRAIN, "sub/c.py": TRAIN})
    assert set(texts_after(root)) == {"a.py", "b.py", "accel.py", "sub/c.py", "sub/accel.py"}


# ---- classes that define cuda()
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A:\n    def cuda(self): pass\n", {"A"}),
        ("class A:\n    x = 1\n    class B:\n        def cuda(self): pass\n", {"B"}),
        ("def cuda(): pass\n", set()),
        ("class A:\n    def cudas(self): pass\n", set()),
        ("class A:\n    def f(self):\n        def cuda(): pass\n", set()),
        ("class A:\n    def cuda(self): pass\nsyntax error here\n", set()),
        ("class A:\n    async def f(self): pass\n    @property\n    def cuda(self): pass\n", {"A"}),
    ],
)
def test_cuda_classes(text: str, expected: set[str]) -> None:
    assert {name for name, _ in cuda_methods(text.encode())} == expected


def test_a_value_is_not_of_a_class_whose_own_cuda_gives_nothing(tmp_path: Path) -> None:
    batch = "class Batch:\n    def cuda(self):\n        self.x = 1\n"
    use = "import torch\nfrom batch import Batch\ndef f(x):\n    x.cuda()\n    return x.cuda()\n"
    root = write_tree(tmp_path, {"batch.py": batch, "use.py": use})
    assert texts_after(root)["use.py"].endswith("    x.cuda()\n    return x.to(accel.device())\n")


def test_a_class_of_another_file_makes_its_receivers_doubtful(tmp_path: Path) -> None:
    batch = "class Batch:\n    def cuda(self):\n        return self\n"
    use = "import torch\nfrom batch import Batch\ndef f(x):\n    return x.cuda()\n"
    root = write_tree(tmp_path, {"batch.py": batch, "use.py": use})
    assert "use.py" not in texts_after(root)
    assert ".to(accel.device())" in texts_after(root, unsafe_fixes=True)["use.py"]


@pytest.mark.parametrize(
    ("floor", "spec", "expected"),
    [
        (None, ">=2.6", False),
        (">=2.5", ">=2.6", False),
        (">=2.6", ">=2.6", True),
        (">=2.10", ">=2.9", True),
        (">=3.0", ">=2.9", True),
        (None, None, True),
    ],
)
def test_torch_at_least(floor: str | None, spec: str | None, expected: bool) -> None:
    assert ProjectContext(Path("/"), Settings(), torch=floor).torch_at_least(spec) is expected


def test_versions() -> None:
    assert version_of(">=2.10.1") == (2, 10)
    assert version_of("any") is None
    assert version_of("<3.0, >=2.1") == version_of("!=2.4,~=2.1") == version_of("==2.1.*") == (2, 1)
    assert version_of("<3.0") is None
    assert version_of(">2") == (2, 0)
    assert version_of(None) is None


# ---- re-exports
USE = "from common import empty_cache\ndef f():\n    empty_cache()  # of cuda\n"


def test_a_reexport_is_seen_through(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"common.py": "from torch.cuda import empty_cache\n", "use.py": USE})
    assert "accel.empty_cache()" in texts_after(root)["use.py"]


@pytest.mark.parametrize(
    "common",
    [
        "from mylib import empty_cache\n",
        "def empty_cache(): pass\n",
        "try:\n    from torch.cuda import empty_cache\nexcept ImportError:\n    from mylib import empty_cache\n",
        "from torch.cuda import empty_cache\ndef empty_cache(): pass\n",
        "try:\n    from torch.cuda import empty_cache\nexcept ImportError:\n    empty_cache = None\n",
        "'''\nfrom torch.cuda import empty_cache\n'''\n",
        "def f():\n    from torch.cuda import empty_cache\n",
    ],
)
def test_a_doubtful_reexport_is_not(common: str, tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"common.py": common, "use.py": USE})
    assert "use.py" not in texts_after(root)


STARRED = {
    "by the modules of a package": ({"__init__": "from kit.own import *\n", "own": "import torch\n"}, True),
    "in a circle": ({"__init__": "from .own import *\n", "own": "from . import *\nimport torch\n"}, True),
    "by a library behind it": ({"__init__": "from .own import *\n", "own": "from mylib import *\n"}, True),
    "with a fallback": ({"__init__": "from .own import *\n", "own": "import torch\ntorch = y or torch\n"}, False),
    "bound anew": ({"__init__": "from .own import *\ntorch = 1\n", "own": "import torch\n"}, False),
    "by nobody": ({"__init__": "from .own import *\n", "own": "import numpy\n"}, False),
}  # fmt: skip


@pytest.mark.parametrize(("package", "is_torch"), STARRED.values(), ids=STARRED)
def test_torch_that_star_imports_bring(package: dict[str, str], is_torch: bool, tmp_path: Path) -> None:
    use = "from kit import *\nif torch.cuda.is_available():\n    torch.cuda.set_device(0)\n"
    root = write_tree(tmp_path, {**{f"kit/{name}.py": text for name, text in package.items()}, "use.py": use})
    assert ("accel.set_device(0)" in texts_after(root).get("use.py", "")) == is_torch


def test_what_another_file_imports_stays_bound(tmp_path: Path) -> None:
    """`common` loses its last use of a name that `use` imports from there."""
    common = "from torch.cuda.amp import autocast\ndef f():\n    with autocast():\n        pass\n"
    use = "from common import autocast\nprint(autocast)\n"
    root = write_tree(tmp_path, {"common.py": common, "use.py": use, "star.py": "from common import *\n"})
    after = texts_after(root)
    assert "from torch.cuda.amp import autocast" in after.get("common.py", common)


def test_reexports_that_go_in_circles_end(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a.py": "from b import cuda\nx = cuda.y()\n", "b.py": "from a import cuda\n"})
    assert texts_after(root) == {}


# ---- whose file is it
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch", True),
        ("import torchvision", True),
        ("from torch import nn", True),
        ("def f():\n    import torch", True),
        ("from .x import y", True),
        ("import numpy", False),
        ("import mytorch", False),
        ("x = 1", False),
    ],
)
def test_uses_torch(text: str, expected: bool) -> None:
    found = module(text)
    assert uses_torch(found) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accel", True),
        ("pkg.accel", True),
        ("torchmigrate.runtime", True),
        ("accelerate", False),
        ("accel.device", False),
    ],
)
def test_is_helper(name: str, expected: bool) -> None:
    assert ProjectContext(Path("/"), Settings()).is_helper(name) is expected


@pytest.mark.parametrize(("mark", "expected"), [(".git/HEAD", "mine"), ("setup.py", "mine"), ("other.py", ".")])
def test_what_lies_beside_a_project_that_is_a_package_does_not_belong_to_it(
    mark: str, expected: str, tmp_path: Path
) -> None:
    """Found in InsightFace_Pytorch, whose root has an `__init__.py`: its neighbours were read."""
    write_tree(tmp_path, {"mine/__init__.py": "", f"mine/{mark}": "", "mine/train.py": TRAIN})
    assert project_root([tmp_path / "mine"]) == tmp_path / expected
