"""Building the simulated device: once per torch, compiler and source; where it cannot be built, one line says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchmigrate.verify.backends import BUILD
from torchmigrate.verify.run import simulated_environment
from torchmigrate.verify.simulated.build import cache_folder

# Takes the place of g++: says which it is, and notes each compilation.
COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo "{version}"; exit; fi
echo compiled >> "{log}"
sleep {seconds}
while [ "$1" != -o ]; do shift; done
echo library > "$2"
{last}
"""


@pytest.fixture
def compiler(tmp_path: Path) -> Callable[..., Path]:
    def make(version: str = "g++ 1.0", seconds: float = 0, last: str = "", name: str = "g++") -> Path:
        path = tmp_path / name
        path.write_text(COMPILER.format(version=version, log=tmp_path / "log", seconds=seconds, last=last))
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts build.py with a cache of its own."""

    def start(*options: str, **variables: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "TORCHMIGRATE_CACHE_DIR": str(tmp_path / "cache"), **variables}
        command = [sys.executable, *options, str(BUILD)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    return start


def path_of(process: subprocess.Popen[str]) -> Path:
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    return Path(out.strip())


def refusal(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err.count("\n")) == (3, "", 1), err
    return err.strip()


def compilations(folder: Path) -> int:
    log = folder / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_it_is_built_once(build: Callable, compiler: Callable, tmp_path: Path) -> None:
    cxx = str(compiler())
    first = path_of(build(CXX=cxx))
    assert first.parent == tmp_path / "cache"
    assert first.read_text() == "library\n"
    assert path_of(build(CXX=cxx)) == first
    assert compilations(tmp_path) == 1


def test_another_compiler_builds_another(build: Callable, compiler: Callable) -> None:
    first = path_of(build(CXX=str(compiler())))
    second = path_of(build(CXX=str(compiler(version="g++ 2.0"))))
    third = path_of(build(CXX=str(compiler(version="g++ 2.0", name="clang++"))))
    assert len({first, second, third}) == 3


def test_another_source_builds_another(build: Callable, compiler: Callable, tmp_path: Path) -> None:
    cxx = str(compiler())
    first = path_of(build(CXX=cxx))
    copy = shutil.copytree(BUILD.parent, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "native" / "state.h").open("a") as file:
        file.write("// changed\n")
    environment = {**os.environ, "TORCHMIGRATE_CACHE_DIR": str(tmp_path / "cache"), "CXX": cxx}
    done = subprocess.run([sys.executable, str(copy / "build.py")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) != first


def test_two_at_once_build_one(build: Callable, compiler: Callable, tmp_path: Path) -> None:
    cxx = str(compiler(seconds=0.5))
    both = [build(CXX=cxx) for _ in range(2)]
    assert len({path_of(process) for process in both}) == 1
    assert compilations(tmp_path) == 1


def test_no_compiler(build: Callable, tmp_path: Path) -> None:
    told = refusal(build(PATH=str(tmp_path), CXX=""))
    assert told == "no C++ compiler (g++, clang++, c++): install g++, or set CXX"


def test_a_compiler_that_is_not_there(build: Callable, tmp_path: Path) -> None:
    assert refusal(build(CXX=str(tmp_path / "none"))).startswith(f"no C++ compiler ({tmp_path / 'none'})")


def test_a_compiler_that_fails(build: Callable, compiler: Callable, tmp_path: Path) -> None:
    cxx = compiler(last="echo 'a.h:1: note: n' >&2; echo 'a.h:2: error: no such type' >&2; exit 1")
    told = refusal(build(CXX=str(cxx)))
    assert told == f"{cxx} could not compile the simulated device: a.h:2: error: no such type"
    assert not list((tmp_path / "cache").glob("*.so"))
    compiler()
    assert path_of(build(CXX=str(cxx))).exists()  # a failure is not remembered


def test_a_cache_that_cannot_be_written(build: Callable, compiler: Callable) -> None:
    made = path_of(build(CXX=str(compiler()), TORCHMIGRATE_CACHE_DIR="/proc/nowhere"))
    try:
        assert made.read_text() == "library\n"
        assert made.parent.stat().st_mode & 0o077 == 0  # code is loaded from it
    finally:
        shutil.rmtree(made.parent)


def test_the_users_cache(build: Callable, compiler: Callable, tmp_path: Path) -> None:
    made = path_of(build(CXX=str(compiler()), TORCHMIGRATE_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path / "xdg")))
    assert made.parent == tmp_path / "xdg" / "torchmigrate"


def test_an_old_torch(build: Callable, compiler: Callable, tmp_path: Path) -> None:
    torch = tmp_path / "old" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("raise ImportError('not to be imported')")
    (torch / "version.py").write_text("__version__ = '2.8.0'")
    told = refusal(build(CXX=str(compiler()), PYTHONPATH=str(tmp_path / "old")))
    assert told == "torch 2.8.0 is older than 2.9, the first that a device can be simulated for"


def test_no_torch(build: Callable) -> None:
    assert refusal(build("-S", PYTHONPATH="")) == f"{sys.executable} has no torch"


def test_a_program_whose_device_cannot_be_built_ends_with_the_reason(tmp_path: Path) -> None:
    nothing = {"TORCHMIGRATE_LIBRARY": "", "TORCHMIGRATE_CACHE_DIR": str(tmp_path), "PATH": "", "CXX": ""}
    environment = {**simulated_environment("cuda"), **nothing}
    done = subprocess.run([sys.executable, "-c", "import torch"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("no C++ compiler (g++, clang++, c++): install g++, or set CXX")


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """The cache folder is found again, as its answer is kept."""
    cache_folder.cache_clear()
    yield
    cache_folder.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_its_own_variable_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() != tmp_path / "own"
    monkeypatch.setenv("TORCHMIGRATE_CACHE_DIR", str(tmp_path / "own"))
    cache_folder.cache_clear()
    assert cache_folder() == tmp_path / "own"
    assert cache_folder().is_dir()


@pytest.mark.usefixtures("asked_anew")
def test_then_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TORCHMIGRATE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "torchmigrate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    cache_folder.cache_clear()
    assert cache_folder() == tmp_path / ".cache" / "torchmigrate"


@pytest.mark.usefixtures("asked_anew")
def test_one_that_cannot_be_written_gives_way_to_a_private_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHMIGRATE_CACHE_DIR", str(tmp_path / "file" / "below"))
    folder = cache_folder()
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o077 == 0
    assert cache_folder() == folder
    folder.rmdir()


def test_a_build_for_cuda_answers_as_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA build simulates other accelerators, whose machines have builds without CUDA."""
    import torch
    from torch.distributed import distributed_c10d

    from torchmigrate.verify.simulated import activate

    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 1, raising=False)
    monkeypatch.setattr(torch._C, "_has_cuda", True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(distributed_c10d, "_NCCL_AVAILABLE", True)
    assert torch.cuda.is_available() and torch.backends.cuda.is_built()
    activate._forget_cuda()
    assert not (torch.cuda.is_available() or torch.backends.cuda.is_built() or torch.distributed.is_nccl_available())
    assert torch.version.cuda is None and torch.cuda.device_count() == 0
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.ones(1, device="cuda")
    torch._C._cuda_getDeviceCount = int  # type: ignore[attr-defined]  # monkeypatch deletes it, as it was not there
