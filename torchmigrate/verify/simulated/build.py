"""Compile native/device.cpp once per torch, compiler and source; run as a script, print the library's path.

If it cannot be built, the script exits with status 3 and one line on stderr.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

NATIVE = Path(__file__).resolve().parent / "native"
FLAGS = ["-std=c++20", "-O1", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-w"]
OLDEST = (2, 9)  # the first torch with c10::DeviceAllocator


class BuildError(RuntimeError):
    """The simulated device cannot be built here; the message is one line that says why."""


@functools.cache
def cache_folder() -> Path:
    """Return the cache folder, created if necessary.

    It is `$TORCHMIGRATE_CACHE_DIR`, else `torchmigrate` in `$XDG_CACHE_HOME` or `~/.cache`. If it is not writable, this
    process gets a new private folder: code is loaded from here, so nobody else may write to it.
    """
    try:
        folder = _preferred_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: the user has no home directory
        return Path(tempfile.mkdtemp(prefix="torchmigrate-"))


def _preferred_folder() -> Path:
    if own := os.environ.get("TORCHMIGRATE_CACHE_DIR"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "torchmigrate"


def torch_folder() -> Path:
    """Return torch's folder without importing torch, which would fix its hooks before ours are in place."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildError(f"{sys.executable} has no torch")
    return Path(spec.origin).parent


def torch_version(folder: Path) -> str:
    """Return torch's version as in torch/version.py: "2.13.0+cpu"."""
    names: dict[str, str] = {}
    exec((folder / "version.py").read_text(), names)
    return names["__version__"]


def compiler() -> str:
    """Return the C++ compiler: $CXX, else g++, clang++ or c++ on PATH; raises BuildError if there is none."""
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    found = next(filter(None, map(shutil.which, wanted)), None)
    if found is None:
        raise BuildError(f"no C++ compiler ({', '.join(wanted)}): install g++, or set CXX")
    return found


def too_old(torch: str) -> str | None:
    """Return why this torch version is too old to simulate devices, or None."""
    old = tuple(int(part) for part in torch.split(".")[:2]) < OLDEST
    return f"torch {torch} is older than {OLDEST[0]}.{OLDEST[1]}" if old else None


def _digest(version: str, cxx: str) -> str:
    compiler_version = subprocess.run([cxx, "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    sources = b"".join(path.read_bytes() for path in sorted(NATIVE.iterdir()))
    return hashlib.sha256("\0".join([version, cxx, compiler_version, *FLAGS]).encode() + sources).hexdigest()[:16]


def _command(cxx: str, folder: Path, out: str) -> list[str]:
    include, lib = folder / "include", folder / "lib"
    paths = [f"-I{include}", f"-I{include / 'torch/csrc/api/include'}", f"-L{lib}"]
    return [cxx, *FLAGS, *paths, str(NATIVE / "device.cpp"), "-o", out, "-ltorch_cpu", "-lc10", "-ltorch"]


def _compile(cxx: str, folder: Path, target: Path) -> None:
    handle, made = tempfile.mkstemp(dir=target.parent, suffix=".so")
    os.close(handle)
    try:
        done = subprocess.run(_command(cxx, folder, made), capture_output=True, text=True)
        if done.returncode:
            wrong = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise BuildError(f"{cxx} could not compile the simulated device: {wrong.strip()}")
        os.replace(made, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl  # Windows has no fcntl; everything but building works there

    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def library() -> Path:
    """Return the library for this interpreter's torch, built (about 30 s) if the cache has none.

    Raises BuildError: no torch, a torch before 2.9, no compiler, or a compilation that fails.
    """
    folder = torch_folder()
    version = torch_version(folder)
    if old := too_old(version):
        raise BuildError(f"{old}, the first that a device can be simulated for")
    cxx = compiler()
    target = cache_folder() / f"simulated-{version}-{_digest(version, cxx)}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            if not target.exists():
                _compile(cxx, folder, target)
    return target


if __name__ == "__main__":
    try:
        print(library())
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(3)
