"""One module asks on which system it runs; what others do the same everywhere cannot differ by system."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "torchmigrate"
# The module itself, and programs that run by themselves in another interpreter.
ALONE = (
    "base/system.py",
    "runtime.py",
    "verify/probe.py",
    "verify/simulated/",
)
ATTRIBUTES = {"sys": {"platform"}, "os": {"name", "sep", "altsep", "killpg", "getpgrp", "fork", "geteuid", "getuid"}}
MODULES = {"fcntl", "msvcrt", "_winapi", "winreg", "pwd", "grp", "resource", "termios", "platform"}
# (module, what it asks): where the answer is no path and no process
EXEMPT = {
    ("verify/interpreter.py", "os.sep"): "the top folder, where nothing of a project lies",
}


@functools.cache
def asked(path: Path) -> tuple[tuple[str, int], ...]:
    return tuple(_asked(path))


def _asked(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(ast.Name(module), name) if name in ATTRIBUTES.get(module, ()):
                yield f"{module}.{name}", node.lineno
            case ast.Import(names):
                yield from ((alias.name, node.lineno) for alias in names if alias.name in MODULES)
            case ast.ImportFrom(str(module)) if module in MODULES:
                yield module, node.lineno
            case ast.keyword(str(name)) if name in ("start_new_session", "preexec_fn", "creationflags"):
                yield name, node.value.lineno


FILES = sorted(path for path in PACKAGE.rglob("*.py") if not path.relative_to(PACKAGE).as_posix().startswith(ALONE))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_one_module_asks_which_system_this_is(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    found = [f"{name}:{line}: {what}" for what, line in asked(path) if (name, what) not in EXEMPT]
    assert not found, f"ask torchmigrate.base.system, which answers for all: {found}"


def test_no_exemption_is_left_over() -> None:
    found = {(path.relative_to(PACKAGE).as_posix(), what) for path in FILES for what, _ in asked(path)}
    assert found == set(EXEMPT)
