"""What tests replace of torch's stays in the code that they run; other code of the same file is rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import planned, texts_after, write_tree

from torchmigrate.diagnostics.finding import Status, Unchanged

CODE = """import torch


def peak():
    return torch.cuda.max_memory_allocated() / 1e9


def told():
    return f"{peak()} GB"


def free():
    torch.cuda.empty_cache()


class Log:
    def report(self):
        torch.cuda.synchronize()
"""
KEPT = {"peak": "torch.cuda.max_memory_allocated()", "report": "torch.cuda.synchronize()"}
GONE = {"peak": "accel.max_memory_allocated()", "report": "accel.synchronize()"}
HEAD = "from unittest import mock\nfrom unittest.mock import patch\nimport pytest\nimport torch\nimport pkg.memory\n"
PEAK = HEAD + "from pkg.memory import Log, peak, told\n"


def code_after(tmp_path: Path, test: str, **more: str) -> str:
    files = {"pkg/__init__.py": "", "pkg/memory.py": CODE, "tests/test_memory.py": test, **more}
    return texts_after(write_tree(tmp_path, files))["pkg/memory.py"]


WITH = "def test_peak():\n    with {}:\n        peak()\n"
GIVEN = "def test_peak(mocker, monkeypatch):\n    {}\n    peak()\n"
FIXTURE = (
    "@pytest.fixture{}\ndef full(monkeypatch):\n    monkeypatch.setattr(torch.cuda, 'max_memory_allocated', int)\n\n"
)


@pytest.mark.parametrize(
    "test",
    [
        WITH.format('patch("torch.cuda.max_memory_allocated", return_value=2e9)'),
        WITH.format('patch("torch.cuda") as cuda'),
        WITH.format('mock.patch.object(torch.cuda, "max_memory_allocated")'),
        WITH.format('patch.multiple("torch.cuda", max_memory_allocated=int)'),
        WITH.format('patch("pkg.memory.torch") as fake'),
        WITH.format('patch("torch.cuda.max_memory_allocated")').replace("peak()\n", "pkg.memory.peak()\n"),
        GIVEN.format('mocker.patch("torch.cuda.memory.max_memory_allocated", return_value=1)'),
        GIVEN.format('monkeypatch.setattr(torch.cuda, "max_memory_allocated", int)'),
        GIVEN.format('monkeypatch.setattr("torch.cuda.max_memory_allocated", int)'),
        '@patch("torch.cuda.max_memory_allocated", lambda: 2e9)\ndef test_peak():\n    assert told() == "2.0 GB"\n',
        '@patch("pkg.memory.torch.cuda.max_memory_allocated")\nclass TestIt:\n def test(self, fake): peak()\n',
        FIXTURE.format("") + "def test_peak(full):\n    peak()\n",
    ],
)
def test_what_a_test_replaces_stays_in_what_it_runs(tmp_path: Path, test: str) -> None:
    after = code_after(tmp_path, PEAK + test)
    assert KEPT["peak"] in after
    assert GONE["report"] in after
    assert "accel.empty_cache()" in after


def test_a_method_is_known_by_its_name(tmp_path: Path) -> None:
    test = 'def test(monkeypatch):\n    monkeypatch.setattr(torch.cuda, "synchronize", print)\n    Log().report()\n'
    after = code_after(tmp_path, PEAK + test)
    assert KEPT["report"] in after
    assert GONE["peak"] in after


def test_a_fixture_that_is_always_used_holds_for_all_tests_below_it(tmp_path: Path) -> None:
    more = {"tests/conftest.py": HEAD + FIXTURE.format("(autouse=True)")}
    assert KEPT["peak"] in code_after(tmp_path, PEAK + "def test_peak():\n    peak()\n", **more)


@pytest.mark.parametrize(
    "test",
    [
        WITH.format('patch("torch.cuda.max_memory_reserved", return_value=2e9)'),
        WITH.format('patch("os.path.getsize")'),
        WITH.format('patch("pkg.memory.free")'),
        WITH.format('patch("torch.cuda.max_memory_allocated")').replace("peak()\n", "Log()\n"),
        FIXTURE.format("") + "def test_peak():\n    peak()\n",
    ],
)
def test_what_no_mock_is_about_is_rewritten(tmp_path: Path, test: str) -> None:
    after = code_after(tmp_path, PEAK + test)
    assert GONE["peak"] in after
    assert GONE["report"] in after


def test_a_mocked_method_of_tensors_stays(tmp_path: Path) -> None:
    place = "import torch\n\ndef place(x):\n    return x.cuda()\n\ndef other(x: torch.Tensor):\n    return x.cuda()\n"
    test = "import torch\nfrom unittest.mock import patch\nfrom place import place\n\n\ndef test_place():\n"
    test += "    with patch.object(torch.Tensor, 'cuda', lambda self: self):\n        place(torch.ones(1))\n"
    files = {"place.py": place, "test_place.py": test}
    after = texts_after(write_tree(tmp_path, files))["place.py"]
    assert "def place(x):\n    return x.cuda()" in after
    assert "def other(x: torch.Tensor):\n    return x.to(accel.device())" in after


def test_the_reason_names_the_mock(tmp_path: Path) -> None:
    test = PEAK + WITH.format('patch("torch.cuda.max_memory_allocated")')
    root = write_tree(tmp_path, {"pkg/__init__.py": "", "pkg/memory.py": CODE, "tests/test_memory.py": test})
    result = planned(root, "check")["pkg/memory.py"]
    assert isinstance(result, Unchanged)
    told = [f.message for f in result.findings if f.status is Status.LEFT]
    assert any("tests/test_memory.py, line 8: a test of it replaces `torch.cuda.max_memory" in t for t in told), told


CAST = """import torch
cuda = torch.cuda.is_available()
Float = torch.cuda.FloatTensor if cuda else torch.FloatTensor
def cast(x):
    return x.type(Float) + Float(2, 3)
"""


def test_a_fix_with_an_edit_in_replaced_code_is_held_whole(tmp_path: Path) -> None:
    """Its place is elsewhere, so it was made again and again, without an end."""
    test = "import torch, work\ndef test_cast(monkeypatch):\n    monkeypatch.setattr(torch.Tensor, 'type', id)\n"
    root = write_tree(tmp_path, {"work.py": CAST, "test_work.py": f"{test}    work.cast(torch.ones(2))\n"})
    result = planned(root)["work.py"]
    assert isinstance(result, Unchanged)
    assert any("replaces `torch.Tensor.type`" in f.message for f in result.findings if f.status is Status.LEFT)


@pytest.mark.parametrize(
    ("with_", "kept"),
    [
        ('patch("torch.cuda.get_device_name", return_value="RTX")', True),
        ('patch("os.getcwd")', False),
    ],
)
def test_a_test_that_plays_a_machine_with_cuda_names_its_devices(tmp_path: Path, with_: str, kept: bool) -> None:
    """Found in InvokeAI: the test passed on machines without a GPU, which then asked for the name of the CPU."""
    code = "import torch\ndef name(device):\n    return torch.cuda.get_device_name(device).lower()\n"
    test = f"{HEAD}from code_ import name\ndef test_name():\n    x = torch.ones(2)\n    with {with_}:\n"
    test += '        x.to(torch.device("cuda"))\n    name("cpu")\n'
    files = {"pkg/__init__.py": "", "pkg/memory.py": "", "code_.py": code, "test_name.py": test}
    after = texts_after(write_tree(tmp_path, files)).get("test_name.py", test)
    assert ('torch.device("cuda")' in after) is kept
