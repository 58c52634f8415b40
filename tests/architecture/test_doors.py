"""One door each for git, files and parsing: no other module starts git, opens a file or parses Python by itself."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest
from conftest import ROOT

PACKAGE = ROOT / "torchmigrate"
GIT = "vcs/hardening.py"
FILES = "base/file_io.py"
# What runs with the rights and the code of a project, or in its interpreter; and modules that read what ships.
APART = ("verify/", "runtime.py")
# (module, what it calls): why it needs no door.
EXEMPT = {
    ("apply/journal.py", "open"): "originals, in a new folder of its own in the state folder",
    ("base/system.py", "open"): "what Linux tells of a process",
    ("cli/app.py", "open"): "the null device",
    ("cli/app.py", "os.open"): "the null device",
    ("fleet/processes.py", "os.open"): "the null device",
    ("cli/commands/github_action.py", "open"): "the runner's own files",
    ("cli/commands/github_action.py", "read_text"): "reports that it has just had written",
    ("cli/commands/github_action.py", "read_bytes"): "reports that it has just had written",
    ("fixers/registry.py", "read_text"): "a module that ships",
    ("formats/portability/html.py", "read_text"): "a style sheet that ships",
    ("fleet/report.py", "read_text"): "a style sheet that ships",
    ("project/helper_parts.py", "read_bytes"): "the helper that ships",
    ("config/config_file.py", "read_bytes"): "a schema that ships",
    ("torch_api/__init__.py", "read_text"): "facts that ship",
}
_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "open"}


@functools.cache
def modules() -> dict[str, ast.Module]:
    names = (path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))
    kept = [name for name in names if not name.startswith(APART)]
    return {name: ast.parse((PACKAGE / name).read_text(encoding="utf-8")) for name in kept}


def opened(tree: ast.Module) -> Iterator[str]:
    """What a module calls to open, read or write a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name("open"):
                yield "open"
            case ast.Attribute(ast.Name("os" | "io" as owner), "open"):
                yield f"{owner}.open"
            case ast.Attribute(ast.Name(owner), name) if name in _METHODS and owner not in _OURS:
                yield name
            case ast.Attribute(value, name) if name in _METHODS - {"open"} and not isinstance(value, ast.Name):
                yield name


_OURS = {"file_io", "folder", "self", "distribution"}


def runs_git(tree: ast.Module) -> bool:
    """Whether a module imports GitPython, or has a list of words that begins with git."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names) if any(alias.name.partition(".")[0] == "git" for alias in names):
                return True
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] == "git":
                return True
            case ast.List([ast.Constant("git"), *_]) | ast.Tuple([ast.Constant("git"), *_]):
                return True
    return False


def test_parsing_has_one_door() -> None:
    """`ast.parse` raises SystemError by chance in Python before 3.11.8; what handles it is in base/system.py."""
    calls = {name for name, tree in modules().items() for node in ast.walk(tree) if parses(node)}
    assert calls == {"base/system.py"}


def parses(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "ast.parse"


def test_git_has_one_door() -> None:
    assert [name for name, tree in modules().items() if runs_git(tree)] == [GIT]


def test_files_have_one_door() -> None:
    found = {(name, call) for name, tree in modules().items() if name != FILES for call in opened(tree)}
    assert found == set(EXEMPT)


@pytest.mark.parametrize(
    "text",
    ["import git", "import git.exc", "from git import Repo", 'subprocess.run(["git", "status"])', 'x = ("git", *more)'],
)
def test_a_second_door_for_git_is_seen(text: str) -> None:
    assert runs_git(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    ["open(a)", "os.open(a, 0)", "io.open(a)", "path.read_text()", "Path(a).read_bytes()", "(a / b).write_text(c)"],
)
def test_a_second_door_for_files_is_seen(text: str) -> None:
    assert [*opened(ast.parse(text))]


@pytest.mark.parametrize("text", ["file_io.read_text(a)", "git_tree.repository(a)", "x = 'git'"])
def test_what_goes_through_the_doors_is_not(text: str) -> None:
    assert not runs_git(ast.parse(text)) and not [*opened(ast.parse(text))]
