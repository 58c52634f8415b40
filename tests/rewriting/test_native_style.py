"""`--style native`: torch.accelerator where it is the same on every machine, and the helper elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Ran, planned, texts_after, write_tree

from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine import case_runner
from torchmigrate.rewriting import native_style
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.rules import packs

CURRENT = "torch.accelerator.current_accelerator()"
MOVE = "torch.accelerator.current_accelerator(check_available=True)"
OR_CPU = f'{MOVE} or torch.device("cpu")'
TYPE = f'{CURRENT}.type if torch.accelerator.is_available() else "cpu"'
ZERO = 'torch.device(0) if torch.accelerator.is_available() else torch.device("cpu")'
Cli = Callable[..., Ran]


def natively(rules: DispatchTable, text: str) -> str:
    return case_runner.migrate(text.encode(), rules, style="native")[0].decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.cuda()", f"x.to({MOVE})"),
        ("x.to('cuda')", f"x.to({MOVE})"),
        ("x.to(device='cuda')", f"x.to(device={MOVE})"),
        ("torch.ones(2, device='cuda')", f"torch.ones(2, device={OR_CPU})"),
        ("d = torch.device('cuda')", f"d = {OR_CPU}"),
        ("z = torch.device('cuda').type", f"z = ({OR_CPU}).type"),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'", f"device = {TYPE}"),
        ("d = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')", f"d = {ZERO}"),
        ("x.cuda(0)", f"x.to({ZERO})"),
        ("name = 'cuda:0' if torch.cuda.is_available() else 'cpu'", f"name = str({ZERO})"),
        ("ok = torch.cuda.is_available()", "ok = torch.accelerator.is_available()"),
        ("n = torch.cuda.device_count()", "n = torch.accelerator.device_count()"),
        ("OOM = torch.cuda.OutOfMemoryError", "OOM = torch.OutOfMemoryError"),
    ],
)
def test_the_same_anywhere(rules: DispatchTable, before: str, after: str) -> None:
    done = natively(rules, f"import torch\n{before}\n")
    assert done == f"import torch\n{after}\n"


LAZY = """\
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def move(x: "torch.Tensor") -> "torch.Tensor":
    from torch.cuda import is_available
    there = is_available()
    if there:
        x = x.cuda()
    return x
"""


def test_the_helper_is_taken_where_torch_is_imported_for_type_checkers_alone(rules: DispatchTable) -> None:
    done = natively(rules, LAZY)
    assert "import accel\n    there = accel.is_available()" in done
    assert "torch.accelerator" not in done
    assert natively(rules, done) == done


def test_torch_is_taken_where_a_function_imports_it(rules: DispatchTable) -> None:
    text = "def f():\n    import torch\n    return torch.cuda.is_available()\n"
    assert "return torch.accelerator.is_available()" in natively(rules, text)


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.synchronize()", "torch.cuda.empty_cache()", "i = torch.cuda.current_device()",
        "m = torch.cuda.memory_allocated()", "x = x.cuda()",
        "x = x.cuda(0)",
    ],
)  # fmt: skip
def test_what_raises_without_an_accelerator_only_behind_a_test(rules: DispatchTable, line: str) -> None:
    bare = natively(rules, f"import torch\n{line}\n")
    guarded = natively(rules, f"import torch\nif torch.cuda.is_available():\n    {line}\n")
    assert "import accel\n" not in guarded
    assert "check_available" not in guarded
    assert ZERO not in guarded
    assert "import accel\n" in bare or "check_available=True" in bare or ZERO in bare


_WAIT = "torch.cuda.synchronize()"


@pytest.mark.parametrize(
    "text",
    [
        "if torch.cuda.is_available() and x: WAIT",
        "if not torch.cuda.is_available(): pass\nelse: WAIT",
        "def f():\n    if not torch.cuda.is_available():\n        return\n    WAIT",
        "def f():\n    assert torch.cuda.device_count() > 0\n    WAIT",
        "ok = torch.cuda.is_available()\ndef f():\n    if ok:\n        WAIT",
        "args.cuda = not args.no_cuda and torch.cuda.is_available()\nif args.cuda: WAIT",
        "if torch.cuda.device_count() >= 1: WAIT",
        "def f(x):\n    if x.is_cuda:\n        WAIT",
        "torch.cuda.is_available() and WAIT",
        "y = WAIT if torch.cuda.is_available() else None",
        "while torch.cuda.is_available(): WAIT",
        "ok = True if torch.cuda.is_available() else False\nif ok: WAIT",
        "use = torch.cuda.is_available()\nfast = use and x\nif fast: WAIT",
    ],
)
def test_what_counts_as_a_test(rules: DispatchTable, text: str) -> None:
    done = natively(rules, "import torch\n" + text.replace("WAIT", _WAIT) + "\n")
    assert "torch.accelerator.synchronize()" in done, done


@pytest.mark.parametrize(
    "text",
    [
        "if torch.cuda.is_available() or x: WAIT",
        "if not (torch.cuda.is_available() and x): pass\nelse: print(x)\nWAIT",
        "if torch.cuda.is_available(): x = x.cuda()\nelse: WAIT",
        "if torch.cuda.device_count() >= 0: WAIT",
        "if torch.cuda.device_count() < 2: WAIT",
        "ok = torch.cuda.is_available()\nok = x\nif ok: WAIT",
        "def f(ok=torch.cuda.is_available()):\n    if ok:\n        WAIT",
        "ok = torch.cuda.is_available() or x\nif ok: WAIT",
        "if not torch.cuda.is_available():\n    print('slow')\nWAIT",
        "if x and torch.cuda.is_available():\n    x = x.cuda()\nif x: WAIT",
        "args.cuda = torch.cuda.is_available()\nargs.cuda = True\nif args.cuda: WAIT",
    ],
)
def test_what_does_not(rules: DispatchTable, text: str) -> None:
    done = natively(rules, "import torch\n" + text.replace("WAIT", _WAIT) + "\n")
    assert "torch.accelerator.synchronize" not in done, done
    ast.parse(done)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("import multiprocessing\ndevice = torch.device('cuda')", "accel.device()"),
        ("import torch.multiprocessing as mp\nname = dict(device='cuda')", "accel.device_type()"),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '1'\ndevice = torch.device('cuda')", "accel.device()"),
        ("if torch.cuda.is_available():\n    torch.compile(f)\n    torch.cuda.empty_cache()", "accel.empty_cache()"),
        ("print(f'{torch.cuda.device_count()}')", "accel.device_count()"),
        ("x = x.cuda(1)", "accel.device(1)"),
        ("s = torch.cuda.Stream()", "accel.Stream()"),
        ("if torch.cuda.is_available():\n    torch.cuda.synchronize(1)", "accel.synchronize(1)"),
        ("if torch.cuda.is_available():\n    atexit.register(torch.cuda.synchronize)", "register(accel.synchronize)"),
        ("x = x.cuda(non_blocking=True)", "non_blocking=accel.non_blocking()"),
        ("if torch.cuda.is_available():\n    print(torch.cuda.max_memory_allocated())", "accel.max_memory_allocated()"),
    ],
)
def test_the_rest_is_the_helpers(rules: DispatchTable, text: str, kept: str) -> None:
    """Forks and CUDA_VISIBLE_DEVICES (is_available asks the driver), compiled code, quotes, indices, types, MPS."""
    assert kept in natively(rules, f"import torch\n{text}\n")


def test_a_driver_that_was_asked_before_is_asked_again(rules: DispatchTable) -> None:
    text = (
        "import torch\nimport multiprocessing\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    )
    assert f"device = {OR_CPU}\n" in natively(rules, text)


def test_a_class_with_a_to_of_its_own_gets_a_device(rules: DispatchTable) -> None:
    text = (
        "import torch\nclass Net(torch.nn.Module):\n    def to(self, device):\n        self.at = device\nNet().cuda()\n"
    )
    assert f"Net().to({OR_CPU})" in natively(rules, text)


def test_the_release_in_which_each_came(tmp_path: Path) -> None:
    text = "import torch\nif torch.cuda.is_available():\n    torch.cuda.synchronize()\n    torch.cuda.empty_cache()\n"
    write_tree(tmp_path, {"a.py": text})
    older, newer = (texts_after(tmp_path, style="native", torch=floor)["a.py"] for floor in (">=2.9", ">=2.13"))
    assert "torch.accelerator.synchronize()\n    accel.empty_cache()" in older  # which asserted on MPS before
    assert "torch.accelerator.synchronize()\n    torch.accelerator.empty_cache()" in newer


def test_nothing_is_vendored_where_nothing_calls_it(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "from torch import cuda, ones\nx = ones(2).cuda()\nok = cuda.is_available()\n"})
    done = f"from torch import ones\nimport torch\nx = ones(2).to({MOVE})\nok = torch.accelerator.is_available()\n"
    assert texts_after(tmp_path, style="native", torch=">=2.9") == {"a.py": done}


def test_what_an_earlier_run_wrote_stays(tmp_path: Path) -> None:
    """Only what this run writes is spelled natively: all else is the user's."""
    text = "import torch\nimport accel\nx = torch.ones(2).to(accel.device())\ny = x.cuda()\n"
    write_tree(tmp_path, {"a.py": text})
    done = texts_after(tmp_path, style="native", torch=">=2.9")["a.py"]
    assert f"x = torch.ones(2).to(accel.device())\ny = x.to({MOVE})\n" in done


def test_a_notebook(tmp_path: Path) -> None:
    cell = '{"cell_type": "code", "source": ["import torch\\n", "x = torch.ones(2).cuda()"], "outputs": []}'
    write_tree(tmp_path, {"a.ipynb": f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'})
    found = planned(tmp_path, style="native", torch=">=2.9")
    assert set(found) == {"a.ipynb"}
    assert isinstance(found["a.ipynb"], Changed)
    assert f"ones(2).to({MOVE})" in found["a.ipynb"].after.decode()


def test_a_pack_of_ones_own_says_what_is_native(tmp_path: Path) -> None:
    rule = (
        'summary = "a test"\nsafety = "safe"\nwhy = "a test"\n[[rewrite]]\nmatch = "torch.cuda.f($x)"\n'
        'with = "accel.f($x)"\nnative = "torch.accelerator.f($x)"\ntorch = ">=2.10"\n'
    )
    write_tree(tmp_path, {"rules/mine/f.toml": rule, "a.py": "import torch\ntorch.cuda.f(1)\n"})
    settings = {"rule_paths": (tmp_path / "rules",), "style": "native"}
    assert texts_after(tmp_path, torch=">=2.9", **settings)["a.py"].endswith("\naccel.f(1)\n")
    assert texts_after(tmp_path, torch=">=2.10", **settings) == {"a.py": "import torch\ntorch.accelerator.f(1)\n"}


@pytest.mark.parametrize(
    ("options", "floor", "message"),
    [
        ((), None, "nothing says which torch this project asks for"),
        ((), "torch>=2.4", "this project asks for torch >=2.4 (requirements.txt:1)"),
        (("--torch", ">=2.8"), "torch>=2.9", "this project asks for torch >=2.8"),
        (("--torch", ">=1.13"), None, "this project asks for torch >=1.13\n"),
    ],
)
def test_an_older_torch_is_refused(
    cli: Cli, here: Path, options: tuple[str, ...], floor: str | None, message: str
) -> None:
    write_tree(here, {"a.py": "import torch\ntorch.ones(2).cuda()\n", **({"requirements.txt": floor} if floor else {})})
    ran = cli("apply", "--style", "native", *options, ".")
    assert ran.status == 2
    assert message in ran.err
    assert "--torch '>=2.9'" in ran.err
    assert ".cuda()" in (here / "a.py").read_text()
    assert cli("check", ".").status == 1
    write_tree(here, {"pyproject.toml": '[tool.torchmigrate]\nstyle = "native"\n'})
    assert cli("check", ".").status == 1


def test_the_run_says_what_still_calls_the_helper(cli: Cli, here: Path) -> None:
    write_tree(here, {"a.py": "import torch\ntorch.cuda.synchronize()\n", "requirements.txt": "torch>=2.9"})
    ran = cli("apply", "-n", "--style", "native", ".")
    assert ran.status == 1
    assert "still called of the helper, where torch.accelerator is not the same: synchronize" in ran.err


@pytest.mark.slow
def test_every_case_comes_to_rest(rules: DispatchTable) -> None:
    for rule in packs.load().rules.values():
        for case in (case for case in rule.cases if not case.file):
            raw = case.before.lstrip("\n").encode()
            once, _ = case_runner.migrate(raw, rules, case.unsafe, "native")
            ast.parse(once)
            assert case_runner.migrate(once, rules, case.unsafe, "native")[0] == once, f"{rule.id}: {case.title}"


@pytest.mark.slow
def test_what_is_total_is_so() -> None:
    """On a machine without an accelerator, all others raise: this is why they need a test above them."""
    torch = pytest.importorskip("torch")
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    named = {r.native for rule in packs.load().rules.values() for r in rule.rewrites if r.native}
    named |= set(re.findall(r"torch\.accelerator\.\w+", " ".join(native_style._ANYWHERE.values())))
    for name in sorted(n for n in named if n.startswith("torch.accelerator.")):
        function = getattr(torch.accelerator, name.rpartition(".")[2])
        if native_style._is_total(name) or name.endswith("current_accelerator"):
            assert not function()
        else:
            with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
                function()
    assert torch.accelerator.current_accelerator(check_available=True) is None
    assert torch.ones(1).to(None).device == torch.nn.Linear(1, 1).to(None).weight.device == torch.device("cpu")
    assert torch.OutOfMemoryError is torch.cuda.OutOfMemoryError


@pytest.mark.slow
def test_torch_compile_traces_it() -> None:
    """None of the forms breaks a graph that torch.cuda's own did not break."""
    torch = pytest.importorskip("torch")
    from torch._dynamo import reset

    for form in (
        native_style._MOVE,
        native_style._OR_CPU,
        ZERO,
        f"torch.device({native_style._ANYWHERE['device_type']})",
    ):
        reset()
        code = f"lambda x: x.to({form}) + 1"
        function = torch.compile(eval(code, {"torch": torch}), backend="eager", fullgraph=True)
        assert function(torch.ones(1)).item() == 2


def test_the_page_says_what_is_native() -> None:
    page = (ROOT / "docs" / "helper.md").read_text(encoding="utf-8").split("## Without the helper")[1]
    rules = {r.native for rule in packs.load().rules.values() for r in rule.rewrites if r.native}
    for text in (*native_style._ANYWHERE.values(), native_style._MOVE, native_style._GUARDED["device"]):
        assert text in page or text.endswith(("is_available()", "device_count()"))
    for name in rules:
        assert name.rpartition(".")[2] in page


EARLY = f'{CURRENT} if torch.accelerator.is_available() else torch.device("cpu")'


@pytest.mark.parametrize(
    ("floor", "after"),
    [
        (">=2.9", f"x.to({MOVE})\nd = {TYPE}\n"),
        (">=2.7", f"x.to({OR_CPU})\nd = {TYPE}\n"),
        (">=2.6", f"x.to({EARLY})\nd = {TYPE}\n"),
        (">=2.5", "x.to(accel.device())\nd = accel.device_type()\n"),
        (None, "x.to(accel.device())\nd = accel.device_type()\n"),
    ],
)
def test_auto_is_native_where_the_projects_torch_has_it(tmp_path: Path, floor: str | None, after: str) -> None:
    write_tree(tmp_path, {"a.py": "import torch\nx.cuda()\nd = 'cuda' if torch.cuda.is_available() else 'cpu'\n"})
    done = texts_after(tmp_path, torch=floor)
    assert done["a.py"].removeprefix("import torch\n").removeprefix("import accel\n") == after
    assert ("accel.py" in done) is (floor in (None, ">=2.5"))


def test_auto_reads_the_floor_of_the_project(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "import torch\nx.cuda()\n", "requirements.txt": "torch>=2.9\n"})
    assert texts_after(tmp_path) == {"a.py": f"import torch\nx.to({MOVE})\n"}


@pytest.mark.parametrize("line", ["torch.cuda.Stream()", "x.cuda(1)", "torch.cuda.synchronize()", "x.cuda(0)"])
def test_auto_calls_the_helper_throughout_a_file_that_needs_it(tmp_path: Path, line: str) -> None:
    write_tree(tmp_path, {"a.py": f"import torch\nz.cuda()\n{line}\n", "b/b.py": "import torch\nz.cuda()\n"})
    done = texts_after(tmp_path, torch=">=2.6")
    assert "import accel\nz.to(accel.device())\n" in done["a.py"]
    assert "import accel" not in done["b/b.py"]


def test_auto_stays_with_a_helper_that_is_there(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "import torch\nx = x.cuda()\n"})
    write_tree(tmp_path, texts_after(tmp_path, style="helper"))
    text = (tmp_path / "a.py").read_text() + "y = y.cuda()\n"
    write_tree(tmp_path, {"a.py": text, "b.py": "import torch\nx.cuda()\n", "dev.py": "def device(): ...\n"})
    assert "y = y.to(accel.device())" in texts_after(tmp_path, torch=">=2.9")["a.py"]
    own = texts_after(tmp_path, torch=">=2.9", helper="dev")
    assert own["b.py"] == "import torch\nimport dev\nx.to(dev.device())\n"
    packaged = texts_after(tmp_path, torch=">=2.9", runtime="package")
    assert "from torchmigrate import runtime as accel" in packaged["b.py"]


def test_what_auto_wrote_stays(tmp_path: Path) -> None:
    body = "    a.cuda()\n    b.cuda()\n    return torch.cuda.is_available()\n"
    write_tree(tmp_path, {"a.py": f"import torch\n\n\ndef f():\n{body}"})
    done = texts_after(tmp_path, torch=">=2.6")
    assert f"    device = {EARLY}\n    a.to(device)\n    b.to(device)\n    return torch" in done["a.py"]
    write_tree(tmp_path, done)
    assert not texts_after(tmp_path, torch=">=2.6")


@pytest.mark.parametrize(("more", "expected"), [("x.cuda(1)", "accel.device_type()"), ("", TYPE)])
def test_auto_writes_no_choice_out_where_a_file_beside_calls_the_helper(
    tmp_path: Path, more: str, expected: str
) -> None:
    choice = "import torch\nd = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    write_tree(tmp_path, {"a.py": f"import torch\n{more}\n", "b.py": choice, "apart/c.py": choice})
    done = texts_after(tmp_path, torch=">=2.6")
    assert f"\nd = {expected}\n" in done["b.py"]
    assert f"\nd = {TYPE}\n" in done["apart/c.py"]
    write_tree(tmp_path, done)
    assert not texts_after(tmp_path, torch=">=2.6")
