"""What a process tells when it ends, and which tensors it blames. `meta` stands in for a device where one is needed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import types as types_module
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torchmigrate.verify.run import simulated_environment

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
Record = dict[str, Any]


@pytest.fixture
def ended(tmp_path: Path) -> Callable[..., list[Record]]:
    """The reports of a program (its text), by their exceptions' types; each has the program's streams too."""

    def run(text: str, *command: str, status: int | None = 1, **variables: str) -> list[Record]:
        reports = tmp_path / "reports"
        (tmp_path / "program.py").write_text(textwrap.dedent(text))
        told = simulated_environment("cpu", evidence="cpu", reports=reports, project=tmp_path)
        words = [sys.executable, *(command or ("program.py",))]
        done = subprocess.run(
            words, cwd=tmp_path, env={**told, **variables}, capture_output=True, text=True, timeout=300
        )
        assert status is None or done.returncode == status, done.stderr
        found = [json.loads(path.read_text()) for path in reports.glob("*.json")]
        assert {path.suffix for path in reports.iterdir()} <= {".json"}, "a report was left half written"
        streams = {"out": done.stdout, "err": done.stderr}
        return sorted(({**report, **streams} for report in found), key=lambda report: json.dumps(types(report)))

    return run


def types(report: Record) -> tuple[str | None, list[str]]:
    """Of the exception that ended it, and of the others."""
    exception = report["exception"]
    return exception and exception["type"], [other["type"] for other in report["others"]]


def places(record: Record) -> list[str]:
    """program.py:3 and so on."""
    return [f"{os.path.basename(f['file'])}:{f['line']}" for f in record["frames"]]


# ---- the ways in which a process ends


def test_uncaught_exception_and_its_cause(ended) -> None:
    (report,) = ended(
        """
        def f():
            try:
                {}["a"]
            except KeyError as error:
                raise ValueError("x" * 5000) from error
        f()
        """
    )
    exception = report["exception"]
    assert (exception["type"], exception["message"]) == ("ValueError", "x" * 2000)
    assert places(exception) == ["program.py:7", "program.py:6"]
    assert (exception["cause"]["type"], exception["cause"]["where"]) == ("KeyError", "from")
    assert "ValueError: xxx" in report["err"]
    assert (report["torch"], report["backend"], report["kernels"], report["peak_bytes"]) == (None, "cpu", None, [])


def test_no_torch_and_no_exception_is_no_report(tmp_path, ended) -> None:
    (tmp_path / "reports").mkdir()
    assert ended("print(1)", status=0) == []


def test_hook_of_the_programs_own(ended) -> None:
    text = "import sys\nsys.excepthook = lambda *error: print('mine')\nraise ValueError('x')"
    (report,) = ended(text)
    assert (types(report), report["out"]) == (("ValueError", []), "mine\n")


def test_what_is_printed_and_returned_stays_as_it_is(tmp_path, ended) -> None:
    text = "import sys, threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nsys.exit('the end')"
    (report,) = ended(text)
    plain = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (report["out"], report["err"], plain.returncode) == (plain.stdout, plain.stderr, 1)


@pytest.mark.parametrize("call", ["sys.exit('no GPU')", "from sys import exit; exit('no GPU')"])
def test_sys_exit(ended, call: str) -> None:
    (report,) = ended(f"import sys\n{call}")
    assert (report["exception"]["type"], report["exception"]["message"]) == ("SystemExit", "no GPU")
    assert places(report["exception"]) == ["program.py:2"]


def test_sys_exit_that_hides_an_exception(ended) -> None:
    (report,) = ended("import sys\ntry:\n    1 / 0\nexcept Exception:\n    sys.exit(3)", status=3)
    assert report["exception"]["message"] == "3"
    assert report["exception"]["cause"]["type"] == "ZeroDivisionError"


def test_sys_exit_with_true_is_1(ended) -> None:
    (report,) = ended("import sys\nsys.exit(True)")
    assert report["exception"]["message"] == "1"


def test_exit_with_0_is_none(tmp_path, ended) -> None:
    (tmp_path / "reports").mkdir()
    assert ended("import sys\nsys.exit(0)", status=0) == []


def test_thread(ended) -> None:
    (report,) = ended("import threading\nthreading.Thread(target=lambda: 1 / 0, name='io').start()", status=0)
    assert types(report) == (None, ["ZeroDivisionError"])
    assert report["others"][0]["where"] == "in thread io"


def test_syntax_error_has_its_line(tmp_path, ended) -> None:
    (tmp_path / "broken.py").write_text("x = 1\ny = = 2\n")
    (report,) = ended("import broken")
    assert places(report["exception"])[-1] == "broken.py:2"


def test_reports_that_cannot_be_written_disturb_nothing(tmp_path, ended) -> None:
    (tmp_path / "file").touch()
    told = simulated_environment("cpu", evidence="cpu", reports=tmp_path / "file" / "x", project=tmp_path)
    (tmp_path / "program.py").write_text("raise ValueError('x')")
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=told, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "ValueError: x")
    assert "witness" not in done.stderr


def test_exception_that_cannot_be_printed(ended) -> None:
    (report,) = ended("class E(Exception):\n    def __str__(self): raise RuntimeError('no')\nraise E()")
    assert report["exception"]["message"] == "(its text cannot be read: RuntimeError)"


@forks
def test_child_of_a_fork_has_a_report_of_its_own(ended) -> None:
    child, parent = ended(
        """
        import os
        if os.fork() == 0:
            raise ValueError("child")
        os.wait()
        raise KeyError("parent")
        """
    )
    assert (types(parent), types(child)) == (("ValueError", []), ("KeyError", []))
    assert parent["pid"] != child["pid"]


MULTIPROCESSING = """
import multiprocessing, sys

def work():
    raise ValueError("worker")

if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 1
"""


@forks
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(ended, method: str) -> None:
    (report,) = ended(MULTIPROCESSING, "program.py", method, status=0)
    assert types(report) == ("ValueError", [])
    assert places(report["exception"])[-1] == "program.py:5"
    assert report["err"].count("ValueError: worker") == 1
    assert "witness" not in report["err"]


@forks
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_lines_of_processes_that_share_stdout_stay_apart(tmp_path: Path, unbuffered: str) -> None:
    (tmp_path / "program.py").write_text(
        "import os\nchild = os.fork()\nfor i in range(3000):\n    print('loss', 0.5)\n"
        "print('an end', end='')\nif child:\n    os.waitpid(child, 0)\n"
    )
    environment = {**simulated_environment("cpu", evidence="cpu"), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.count("loss 0.5\n") == 6000
    assert done.stdout.count("an end") == 2


@forks
def test_killed_worker_has_told_before(ended) -> None:
    reports = ended(
        """
        import os, signal, threading
        if os.fork() == 0:
            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start()
            thread.join()
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        """,
        status=0,
    )
    assert [types(report) for report in reports] == [(None, ["ZeroDivisionError"])]


def test_failing_tests_of_pytest(tmp_path, ended) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_a(): assert 1 == 2\n"
        "def test_b(): {}['x']\n"
        "def test_c(): pytest.skip()\n"
        "@pytest.mark.xfail\n"
        "def test_d(): assert 0\n"
        "def test_e(): pass\n"
    )
    (report,) = ended(
        "", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error", "test_it.py"
    )
    assert sorted(types(report)[1]) == ["AssertionError", "KeyError"], report["out"]  # in any order of tests
    assert [other["where"] for other in report["others"]] == [
        "in test test_it.py::test_a",
        "in test test_it.py::test_b",
    ]
    assert places(report["others"][1])[-1] == "test_it.py:3"


# ---- with torch


@needs_torch
def test_torch_without_exception(ended) -> None:
    (report,) = ended("import torch", status=0)
    import torch

    assert (report["torch"], report["exception"], report["others"]) == (torch.__version__, None, [])


DATA_LOADER = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        size = torch.ones(3, 2)
        return size @ size

if __name__ == "__main__":
    for batch in DataLoader(Data(), num_workers=1, multiprocessing_context=sys.argv[1]):
        print(batch)
"""


@needs_torch
@forks
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_worker(ended, method: str) -> None:
    main, worker = sorted(ended(DATA_LOADER, "program.py", method), key=lambda report: len(report["others"]))
    assert main["exception"]["message"].startswith("Caught RuntimeError in DataLoader worker process 0.")
    other = worker["others"][0]
    assert (worker["exception"], other["where"]) == (None, "in DataLoader worker process 0")
    assert places(other)[-1] == "program.py:12"
    assert [(each["name"], each["device"]) for each in other["tensors"]] == [("size", "cpu")]


@needs_torch
def test_spawned_ranks(ended) -> None:
    reports = ended(
        """
        import torch.multiprocessing

        def work(rank):
            if rank == 1:
                raise ValueError("rank 1")

        if __name__ == "__main__":
            torch.multiprocessing.spawn(work, nprocs=2)
        """
    )
    by_type = {types(report)[0]: report["exception"] for report in reports}
    assert set(by_type) >= {"ProcessRaisedException", "SystemExit"}
    cause = by_type["SystemExit"]["cause"]
    assert (cause["type"], places(cause)[-1]) == ("ValueError", "program.py:6")


# ---- tensors that are blamed


MIXED = "Expected all tensors to be on the same device, but got other is on cpu, different from other tensors on meta"
LIBRARY = """
ran = []


def combine(*tensors, message=%r):
    raise RuntimeError(message)
"""


@pytest.fixture
def blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Record]]:
    """The record of what a program raises in this process: `library` is not its own."""
    pytest.importorskip("torch")
    from torchmigrate.verify.simulated.recorder import suspects

    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project, elsewhere):
        folder.mkdir()
    (elsewhere / "library.py").write_text(LIBRARY % MIXED)
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.syspath_prepend(str(project))

    def run(text: str, **files: str) -> Record:
        for name, content in {"program": "import torch\nfrom library import combine\n" + text, **files}.items():
            (project / f"{name}.py").write_text(content)
        with pytest.raises(Exception) as caught:
            importlib.import_module("program")
        return suspects.of_exception(caught.value, str(project))

    yield run
    for name in [n for n, m in sys.modules.items() if (getattr(m, "__file__", None) or "").startswith(str(tmp_path))]:
        del sys.modules[name]


def suspects(record: Record) -> list[tuple[str, str, str | None]]:
    """(name, device, where it was made)."""
    made = [
        each["made"] and f"{os.path.basename(each['made']['file'])}:{each['made']['line']}"
        for each in record["suspects"]
    ]
    return [(each["name"], each["device"], place) for each, place in zip(record["suspects"], made, strict=True)]


def test_variable(blamed) -> None:
    record = blamed(
        "x = torch.ones(2, device='meta')\nmask = torch.ones(2)\nif mask is not None:\n    combine(x, mask)\n"
    )
    assert record["expression"] == "combine(x, mask)"
    assert [each["name"] for each in record["tensors"]] == ["x", "mask"]
    assert suspects(record) == [("mask", "cpu", "program.py:4")]


def test_assignment_before_the_line_and_not_after(blamed) -> None:
    record = blamed("mask = torch.ones(2)\nmask = mask * 2\ncombine(mask)\nmask = None\n")
    assert suspects(record) == [("mask", "cpu", "program.py:4")]


NET = """
import torch
from library import combine


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(2))
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.mask = torch.ones(2)

    @property
    def never(self):
        raise AssertionError("a property was run")

    def forward(self, x):
        return combine(x, self.{name})
"""


@pytest.mark.parametrize(("name", "line"), [("scale", 9), ("weight", 10), ("mask", 11)])
def test_attribute_of_a_module_is_made_in_its_class(blamed, name: str, line: int) -> None:
    record = blamed("from net import Net\nNet()(torch.ones(2, device='meta'))\n", net=NET.replace("{name}", name))
    assert suspects(record) == [(f"self.{name}", "cpu", f"net.py:{line}")]


def test_parameter_is_followed_to_the_caller(blamed) -> None:
    text = """
def loss(model, batch):
    x, y = batch
    return combine(x, y)

def main():
    there = torch.ones(2, device="meta")
    y = torch.ones(2)
    loss(None, (there, y))

main()
"""
    assert suspects(blamed(text)) == [("y", "cpu", "program.py:10")]


def test_argument_without_a_name(blamed) -> None:
    text = "def f(x):\n    combine(x)\n\nf(torch.ones(2))\n"
    assert suspects(blamed(text)) == [("x", "cpu", "program.py:6")]


def test_operand_without_a_name(blamed) -> None:
    record = blamed("x = torch.ones(2, device='meta')\ncombine(x, torch.ones(2))\n")
    assert suspects(record) == [("torch.ones(2)", "cpu", "program.py:4")]


def test_operand_without_a_name_in_a_list(blamed) -> None:
    """Numbers are no tensors, and what is asked for its shape says nothing of a device."""
    text = "x = torch.ones(2, device='meta')\ncombine([x, torch.ones(1).expand(x.shape)], -1)\n"
    assert suspects(blamed(text)) == [("torch.ones(1).expand(x.shape)", "cpu", "program.py:4")]


def test_operand_without_a_name_beside_a_model_that_keeps_something_on_the_cpu(blamed) -> None:
    text = "net = torch.nn.Linear(2, 2).to('meta')\nnet.history = [torch.ones(2)]\ncombine(net, torch.ones(2))\n"
    assert suspects(blamed(text)) == [("torch.ones(2)", "cpu", "program.py:5")]
    again = blamed_again(blamed, text.replace("torch.ones(2))", "2)"))
    assert suspects(again) == [("net.history[0]", "cpu", "program.py:4")]


def test_inside_containers_and_objects(blamed) -> None:
    text = """
class Batch:
    def __init__(self):
        self.x = torch.ones(2, device="meta")
        self.masks = [torch.ones(2)]

batch = Batch()
extra = {"y": torch.ones(2), 3: (torch.ones(2, device="meta"),)}
combine(batch, extra)
"""
    assert [(name, device) for name, device, _ in suspects(blamed(text))] == [
        ("batch.masks[0]", "cpu"),
        ("extra['y']", "cpu"),
    ]


def test_whole_model_is_named_once(blamed) -> None:
    text = "net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))\ncombine(net)\n"
    record = blamed(text)
    assert suspects(record) == [("net", "cpu", "program.py:3")]
    assert record["suspects"][0]["parts"] == 4


def test_one_parameter_of_a_model_has_its_path(blamed) -> None:
    text = """
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).to("meta")
net[1].bias = torch.nn.Parameter(torch.ones(2))
combine(net)
"""
    assert [name for name, _, _ in suspects(blamed(text))] == ["net[1].bias"]


def test_inside_torch_it_has_the_programs_name(blamed) -> None:
    text = """
from torch.nn import functional
net = torch.nn.Linear(2, 2)
functional.linear = lambda *arguments: combine()
def run(values):
    return net(values)
try:
    run(torch.ones(1, 2, device="meta"))
finally:
    functional.linear = torch._C._nn.linear
"""
    assert [name for name, _, _ in suspects(blamed(text))] == ["net"]


def test_move_under_a_test_for_cuda(blamed) -> None:
    text = "use_cuda = False\nnet = torch.nn.Linear(2, 2)\nif use_cuda:\n    net.to('meta')\ncombine(net)\n"
    (suspect,) = blamed(text)["suspects"]
    assert (suspect["name"], suspect["made"]["line"]) == ("net", 4)
    assert (suspect["guard"]["line"], suspect["guard"]["test"]) == (6, "use_cuda")
    inside = "cuda = True\nif cuda:\n    x = torch.ones(2)\n    combine(x)\n"
    (suspect,) = blamed_again(blamed, inside)["suspects"]
    assert (suspect["made"]["line"], suspect["guard"]) == (5, None)


def blamed_again(blamed: Callable[..., Record], text: str) -> Record:
    sys.modules.pop("program", None)
    import linecache

    from torchmigrate.verify.simulated.recorder import frames

    linecache.clearcache()
    frames.tree.cache_clear()
    return blamed(text)


def test_other_kinds_of_blame(blamed) -> None:
    wide = 'message="Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn\'t support float64"'
    record = blamed(f"import numpy\nx = numpy.ones(2)\ny = torch.ones(2)\ncombine(x, y, {wide})\n")
    assert suspects(record) == [("x", "numpy", "program.py:4")]
    drawn = "message=\"Expected a 'mps' device type for generator but found 'cpu'\""
    record = blamed_again(blamed, f"g = torch.Generator()\ncombine(g, torch.ones(2), {drawn})\n")
    assert suspects(record) == [("g", "cpu", "program.py:3")]
    assert record["suspects"][0]["dtype"] == "torch.Generator"


def test_number_on_the_cpu_is_blamed_last(blamed) -> None:
    text = "n = torch.tensor(2.0)\nmask = torch.ones(2)\ncombine(n, mask)\n"
    assert suspects(blamed(text)) == [("mask", "cpu", "program.py:4")]
    assert suspects(blamed_again(blamed, "n = torch.tensor(2.0)\ncombine(n)\n")) == [("n", "cpu", "program.py:3")]


def test_nothing_of_the_program_is_run(blamed) -> None:
    text = """
from library import ran
class Tricky(dict):
    def __getattr__(self, name):
        ran.append(name)
        raise AttributeError(name)
    def __missing__(self, key):
        ran.append(key)
        return 1
    @property
    def value(self):
        ran.append("value")
        return torch.ones(2)
class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, kinds, arguments=(), options=None):
        ran.append(function)
        return super().__torch_function__(function, kinds, arguments, options or {})
tricky, own = Tricky(), torch.ones(2).as_subclass(Own)
ran.clear()
combine(own, tricky, tricky["a"] if tricky.get("a") else None, tricky.get("b") and tricky.value)
"""
    record = blamed(text)
    assert [name for name, _, _ in suspects(record)] == ["own"]
    assert sys.modules["library"].ran == []


def test_statement_where_python_does_not_tell_the_expression(tmp_path) -> None:
    """Before Python 3.11."""
    from torchmigrate.verify.simulated.recorder import frames

    (tmp_path / "program.py").write_text("for x in (1,):\n    z = combine(x, other.y)\n")
    code = types_module.SimpleNamespace(co_filename=str(tmp_path / "program.py"))
    scope = {"x": 1, "other": types_module.SimpleNamespace(y=2)}
    frame: Any = types_module.SimpleNamespace(f_code=code, f_locals=scope, f_globals={})
    statement = frames.failed_expression(frames.Entry(frame, 2, 0))
    assert statement is not None
    assert dict(frames.readable(statement, frame)) == {"x": 1, "other.y": 2}
    loop = frames.failed_expression(frames.Entry(frame, 1, 0))
    assert loop is not None
    assert dict(frames.readable(loop, frame)) == {"x": 1}


def test_message_without_devices_blames_nobody(blamed) -> None:
    record = blamed("combine(torch.ones(2), message='shapes do not match')\n")
    assert record["suspects"] == []


KILLED = """
import os, signal, subprocess, sys, time
{words}
"""
SLEEP = "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])"
DIES = "child = subprocess.Popen([sys.executable, '-S', '-c', 'import os; os.kill(os.getpid(), {})'])"


@needs_torch
@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (f"{SLEEP}; child.kill(); child.wait()", ({}, -9)),
        (f"{SLEEP}; child.send_signal(signal.SIGUSR1); child.wait()", ({}, -10)),
        (f"{SLEEP[:-1]}, start_new_session=True); os.killpg(child.pid, 9); child.wait()", ({}, -9)),
        (f"{DIES.format(9)}; child.wait()", (-9, {})),
        (f"{DIES.format(10)}; child.send_signal(0); child.wait()", (-10, {})),  # another signal than it was sent
        (f"{SLEEP}; child.terminate(); child.wait()", ({}, {})),
    ],
)
def test_children_that_the_program_ends_itself(words: str, ends: tuple[Any, Any], ended) -> None:
    (report,) = ended("import torch\n" + KILLED.format(words=words), status=0)
    found = [list(report[key].values()) for key in ("ended", "stopped")]
    assert found == [[each] if each else [] for each in ends]


@needs_torch
def test_processes_that_the_program_ends_itself(ended) -> None:
    found = ended(
        """
        import torch, time, torch.multiprocessing as mp
        if __name__ == "__main__":
            child = mp.get_context("fork").Process(target=time.sleep, args=(600,))
            child.start()
            child.kill()
            child.join()
        """,
        status=0,
    )
    assert [(report["ended"], report["stopped"]) for report in found] == [({}, {"multiprocessing": -9})]


# ---- what the device, or torch for want of one, refuses


@needs_torch
def test_calls_that_are_refused_for_want_of_cuda(ended) -> None:
    (report,) = ended(
        """
        import torch
        def f(x):
            for _ in range(3):
                try:
                    x.cuda()
                except AssertionError:
                    pass
        f(torch.ones(1))
        """,
        status=0,
    )
    (refused,) = report["refused"]
    assert (refused["type"], refused["count"]) == ("AssertionError", 3)
    assert "not compiled with CUDA" in refused["message"] or "no NVIDIA driver" in refused["message"]
    assert [(f["function"], f["line"], f["first"]) for f in refused["frames"] if f["file"].endswith("program.py")] == [
        ("<module>", 9, 1),
        ("f", 6, 3),
    ]
