"""Twice the file, twice the work: counted in calls of functions, which no other load on the machine changes."""

from __future__ import annotations

import cProfile
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import cpu_seconds, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Changed, FileResult, Finding, Unchanged
from torchmigrate.engine import planner
from torchmigrate.engine.case_runner import migrate
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.source import encoding

ASK = "torch.cuda.is_available()"
SHAPES: dict[str, Callable[[int], str]] = {
    "guards of nothing": lambda n: f"if {ASK}:\n    print(1)\n" * n,
    "guards of what moves": lambda n: f"if {ASK}:\n    x = x.cuda()\n" * n,
    "guards of what only NVIDIA has": lambda n: f"if {ASK}:\n    torch.cuda.cudart().x()\n" * n,
    "guards in functions": lambda n: "".join(f"def f{i}(x):\n    if {ASK}:\n        x.cuda()\n" for i in range(n)),
    "one flag": lambda n: f"use = {ASK}\n" + "if use:\n    x = x.cuda()\n" * n,
    "flags": lambda n: "".join(f"u{i} = {ASK}\nif u{i}:\n    x = x.cuda()\n" for i in range(n)),
    "a flag set often": lambda n: f"u = {ASK}\nif u:\n    x = x.cuda()\n" * n,
    "branches that leave": lambda n: "def f(x):\n" + f"    if not {ASK}:\n        return x\n    x.cuda()\n" * n,
    "refusals": lambda n: f"assert {ASK}\nx.cuda()\n" * n,
    "one long test": lambda n: f"if {' and '.join([ASK] * n)}:\n    x.cuda()\n",
    "device tests": lambda n: "def f(device):\n" + "    if device == 'cuda':\n        x.cuda()\n" * n,
    "device tests of functions": lambda n: (
        "def move(x):\n    return x.cuda()\ndef f(device, x):\n"
        + "    if device.type == 'cuda':\n        move(x)\n" * n
    ),
    "device tests handed on": lambda n: (
        "def g(x, on):\n    if on:\n        x.cuda()\n" + "g(x, d.type == 'cuda')\n" * n
    ),
    "device tests of nothing": lambda n: "".join(f"a{i} = d.type == 'cuda'\nh(x, a{i})\n" for i in range(n)),
    "corrections": lambda n: "".join(f"d{i} = 'cuda'\nif not {ASK}:\n    d{i} = 'cpu'\n" for i in range(n)),
    "flags for half precision": lambda n: "half = d.type != 'cpu'\n" * n,
    "ladders": lambda n: f"if torch.backends.mps.is_available():\n    d = 'mps'\nelif {ASK}:\n    d = 'cuda'\n" * n,
    "tests for NVIDIA": lambda n: "if torch.version.cuda:\n    torch.cuda.get_device_capability()\n" * n,
    "imports on a line": lambda n: "import " + ", ".join(f"m{i}" for i in range(n)) + "\nx.cuda()\n",
    "names on a line": lambda n: (
        "from torch.cuda import " + ", ".join(f"synchronize as m{i}" for i in range(n)) + "\n" + "m0()\n" * n
    ),
    "a list on a line": lambda n: f"y = [{', '.join(['x.cuda()'] * n)}]\n",
    "statements on a line": lambda n: "; ".join(["x.cuda()"] * n) + "\n",
    "ignores": lambda n: "x.cuda()  # torchmigrate: ignore[device/tensor-cuda]\n" * n,
    "ignores above": lambda n: "# torchmigrate: ignore[device/tensor-cuda]\nx.cuda()\n" * n,
    "ignores of nothing": lambda n: "x = 1  # torchmigrate: ignore[device/tensor-cuda]\n" * n,
    "one ignore of many": lambda n: f"x.cuda()  # torchmigrate: ignore[{','.join(f'a{i}' for i in range(n))}]\n",
    "a name bound often": lambda n: "a = torch.cuda\n" * n + "a.synchronize()\n" * n,
    "methods": lambda n: "".join(f"class C{i}:\n    def f(self):\n        self.x = y.cuda()\n" for i in range(n)),
    "attributes": lambda n: (
        "class C:\n    def f(self):\n"
        + "".join(f"        self.x{i} = y{i}\n        self.x{i}.cuda()\n" for i in range(n))
    ),
    "functions that return": lambda n: "".join(f"def f{i}(x):\n    return x.cuda()\nf{i}().cuda()\n" for i in range(n)),
    "numbers of devices": lambda n: "".join(f"n{i} = torch.cuda.device_count()\ny = 1 + n{i}\n" for i in range(n)),
    "extensions": lambda n: (
        "from torch.utils.cpp_extension import CUDAExtension\n" + "x = CUDAExtension('a', ['a.cu'])\n" * n
    ),
    "a sum": lambda n: f"y = {' + '.join(['x.cuda()'] * n)}\n",
    "a chain of methods": lambda n: f"y = x{'.cuda()' * n}\n",
    "a chain of arguments": lambda n: f"y = x.cuda(){'.add(x.cuda())' * n}\n",
    "one choice of many": lambda n: "y = " + "".join(f"x.cuda() if a == {i} else " for i in range(n)) + "x\n",
    "flags of the file's own": lambda n: "".join(f"if x{i}.is_cuda:\n    x{i}.cuda()\n" for i in range(n)),
}


def calls(act: Callable[[], object]) -> int:
    """How many functions were called; the profiler in C costs a third of what a function of ours would."""
    profiler = cProfile.Profile()
    profiler.runcall(act)
    return sum(entry.callcount for entry in profiler.getstats())


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_as_the_file_does(shape: str, rules: DispatchTable) -> None:
    def work(n: int) -> int:
        raw = f"import torch\n{SHAPES[shape](n)}".encode()
        return calls(lambda: migrate(raw, rules, True))

    work(2)  # what is read and compiled once
    assert work(320) < 16 * work(40)


CHAIN = "".join(f"a{i + 1} = a{i}\n" for i in range(2_000))


@pytest.mark.parametrize(
    ("body", "last"),
    [
        (f"a0 = torch.cuda\n{CHAIN}a2000.synchronize()\n", "accel.synchronize()"),
        (f"a0 = f()\n{CHAIN}a2000.cuda()\n", "a2000.to(accel.device())"),
        (f"a0 = a2000\n{CHAIN}a2000.synchronize()\n", "a2000.synchronize()"),
        ("x0 = y\n" + "".join(f"x{i + 1} = x{i} if y else x{i}\n" for i in range(60)) + "x60.cuda()\n", "x60.to("),
    ],
    ids=["of torch.cuda", "of a value", "of themselves", "two ways each"],
)
def test_a_chain_of_names(body: str, last: str, rules: DispatchTable) -> None:
    after, _ = migrate(f"import torch\n{body}".encode(), rules, True)
    assert after.decode().splitlines()[-1].startswith(last)


@pytest.mark.parametrize("above", [True, False])
def test_comments_are_found_in_time(above: bool) -> None:
    """In processor time, the least of three, with room for a factor of five: comparisons are no calls."""
    mark = "# torchmigrate: ignore[device/tensor-cuda]"
    line = f"{mark}\nx.cuda()\n" if above else f"x.cuda()  {mark}\n"

    def seconds(n: int) -> float:
        text = encoding.decode(line.encode() * n)

        def find_and_ask() -> None:
            found = suppressions.find(text)
            lines = range(1, n * (1 + above) + 1)
            assert sum(found.status("device/tensor-cuda", at) for at in lines) == n

        return cpu_seconds(find_and_ask)

    assert seconds(8_000) < 80 * min(seconds(500) for _ in range(3))


# ---- whole runs, with the worlds check


def _chain(n: int) -> str:
    calls = "".join(f"def f{i}(x):\n    return f{i - 1}(x)\n" for i in range(1, n))
    return f"def f0(x):\n    return x.to('cuda')\n{calls}f{n - 1}(torch.zeros(1))\n"


def _elifs(n: int) -> str:
    rungs = "".join(f"    elif d == 'x{i}':\n        return torch.zeros({i}).cuda()\n" for i in range(n))
    return f"def g(d):\n    if d == 'cuda':\n        return torch.zeros(1).cuda()\n{rungs}"


def _classes(n: int) -> str:
    below = "".join(
        f"class C{i}(C{i - 1}):\n    def m{i}(self):\n        return self.m().cuda()\n" for i in range(1, n)
    )
    return f"class C0:\n    def m(self):\n        return torch.zeros(1).cuda()\n{below}C{n - 1}().m()\n"


def _choices(n: int) -> str:
    return "x = torch.zeros(1)\ny = " + "".join(f"x.cuda() if a == {i} else " for i in range(n)) + "x\n"


def _variables(n: int) -> str:
    names = [f"d{i}" for i in range(n)]
    bound = "".join(f"{name} = 'cuda'\n" for name in names)
    return f"{bound}def f():\n    global {', '.join(names)}\n" + "".join(f"    x.to({name})\n" for name in names)


def _cells(n: int) -> dict[str, str]:
    codes = [f"x{i} = torch.zeros(1).cuda()\nif {ASK}:\n    x{i} = x{i}.cuda()\nprint(x{i})\n" for i in range(n)]
    cells = [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": [code]}
        for code in ("import torch\n", *codes)
    ]
    return {"a.ipynb": json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})}


def _stars(n: int) -> dict[str, str]:
    """Each file imports all of the next, and the last one all of the first."""
    text = "import torch\nfrom m{0} import *\n\n\ndef g{1}(x):\n    return g{0}(x.cuda())\n"
    return {f"m{i}.py": text.format((i + 1) % n, i) for i in range(n)}


def _ring(n: int) -> dict[str, str]:
    """Each file imports the next, and the last one the first."""
    text = "import torch\nfrom m{0} import g{0}\n\n\ndef g{1}(x):\n    return g{0}(x.cuda())\n"
    return {f"m{i}.py": text.format((i + 1) % n, i) for i in range(n)}


def _hub(n: int) -> dict[str, str]:
    text = "import torch\nfrom hub import DEVICE, use\n\nx = torch.zeros(1).to(DEVICE)\nif use:\n    x = x.cuda()\n"
    hub = f"import torch\n\nuse = {ASK}\nDEVICE = 'cuda' if use else 'cpu'\n"
    return {f"m{i}.py": text for i in range(n)} | {"hub.py": hub}


def _one(text: Callable[[int], str]) -> Callable[[int], dict[str, str]]:
    return lambda n: {"a.py": f"import torch\n\n{text(n)}"}


PROJECTS: dict[str, tuple[Callable[[int], dict[str, str]], int]] = {
    "chain of functions": (_one(_chain), 60),
    "elif ladder": (_one(_elifs), 30),
    "classes below classes": (_one(_classes), 20),
    "one f-string": (_one(lambda n: f"x = torch.zeros(1)\ns = f'{'{x.cuda()}' * n}'\n"), 50),
    "one f-string of many": (_one(lambda n: f"x = torch.zeros(1)\ns = f'{'{x.cuda()}' * n}'\n"), 150),
    "a sum": (_one(lambda n: f"x = torch.zeros(1)\ny = {' + '.join(['x.cuda()'] * n)}\n"), 150),
    "a sum that is too deep": (_one(lambda n: f"x = torch.zeros(1)\ny = {' + '.join(['x.cuda()'] * n)}\n"), 500),
    "a chain of methods": (_one(lambda n: f"x = torch.zeros(1)\ny = x{'.cuda()' * n}\n"), 75),
    "one choice of many": (_one(_choices), 100),
    "cells": (_cells, 100),
    "stars in a ring": (_stars, 60),
    "variables for the device": (_one(_variables), 150),
    "names bound in tests": (
        _one(lambda n: "".join(f"if (y{i} := x.cuda()) is not None:\n    y{i}.cuda()\n" for i in range(n))),
        120,
    ),
    "a list of devices": (
        _one(lambda n: f"d = {['cuda'] * n}\n" + "".join(f"x.to(d[{i}])\n" for i in range(n))),
        150,
    ),
    "f-strings": (_one(lambda n: "x = torch.zeros(1)\n" + "s = f'{x.cuda()}'\n" * n), 40),
    "functions": (_one(lambda n: "".join(f"def f{i}(x):\n    return x.cuda()\n" for i in range(n))), 50),
    "branches that leave": (_one(SHAPES["branches that leave"]), 40),
    "calls of one function": (_one(lambda n: "def f(x, d=0):\n    return x.to(d)\n" + "f(y, 'cuda')\n" * n), 40),
    "calls in a function and beside it": (
        _one(lambda n: "y = torch.randn(2).cuda()\n\n\ndef f():\n" + "    x = torch.randn(2).cuda()\n" * n),
        60,
    ),
    "files in a ring": (_ring, 45),
    "files around one": (_hub, 25),
}


@pytest.mark.parametrize("shape", PROJECTS)
def test_work_of_a_run_grows_as_the_project_does(shape: str, tmp_path: Path) -> None:
    make, size = PROJECTS[shape]

    def work(n: int, name: str) -> int:
        root = write_tree(tmp_path / name, make(n))
        return calls(lambda: planner.plan([root], Settings(root=root), 1, "apply"))

    work(3, "warm")  # what is read and compiled once
    assert work(2 * size, "two") <= 2.5 * work(size, "one")


def _applied(text: str, root: Path) -> tuple[FileResult, tuple[Finding, ...]]:
    plan = planner.plan([write_tree(root, {"a.py": text})], Settings(root=root), 1, "apply")
    result = next(each for each in plan.results if each.path.name == "a.py")
    assert isinstance(result, (Changed, Unchanged))
    return result, result.findings


@pytest.fixture
def _pythons_own_stack() -> Iterator[None]:
    """Set the limit that Python starts with: torch's compiler raises it for the whole process."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("_pythons_own_stack")
@pytest.mark.parametrize(("terms", "done"), [(50, True), (600, False), (1_500, False)])
def test_an_expression_that_is_too_deep_for_the_six_worlds(terms: int, done: bool, tmp_path: Path) -> None:
    """It is left and told of, at whichever step Python's stack is full."""
    text = f"import torch\n\nx = torch.zeros(1)\ny = {' + '.join(['x.cuda()'] * terms)}\n"
    result, remaining = _applied(text, tmp_path)
    assert isinstance(result, Changed) is done
    left = [f.message for f in remaining if "left alone" in f.message]
    assert len(left) == (0 if done else terms)
    assert all("nested too deeply to be checked in six worlds" in message for message in left)


def test_an_f_string_with_too_many_places(tmp_path: Path) -> None:
    few, many = (f"s{n} = f'{'{x.cuda()}' * n}'\n" for n in (50, 201))
    text = f"import torch\n\nx = torch.zeros(1)\n{few}{many}"
    result, remaining = _applied(text, tmp_path)
    assert isinstance(result, Changed)
    assert many in result.after.decode() and few not in result.after.decode()
    assert len([f for f in remaining if "more than 200 edits in one f-string" in f.message]) == 201


def test_imports_may_go_as_far_as_they_like(tmp_path: Path) -> None:
    """Further than Python calls functions in functions."""
    made = _ring(sys.getrecursionlimit() + 200)
    few = {name: text if int(name[1:-3]) % 100 == 0 else text.replace(".cuda()", "") for name, text in made.items()}
    plan = planner.plan([write_tree(tmp_path, few)], Settings(root=tmp_path), 1, "apply")
    assert sum(isinstance(result, Changed) for result in plan.results) == len(few) // 100 + 1
