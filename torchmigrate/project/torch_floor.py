"""The torch floor: the least release of torch that a project takes, read from every file that may state one."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from torchmigrate.base import file_io
from torchmigrate.project.packaging import parsed_cfg, parsed_toml


class _Stated(NamedTuple):
    """A floor as (major, minor), and the file and line that state it."""

    floor: tuple[int, int]
    name: str
    line: int


def torch_floor(root: Path) -> tuple[str, str] | None:
    """Return the torch floor (`>=X.Y`) from the project's own dependencies, and the `file:line` that states it.

    What the package asks for comes first; of files that only list what to install, the lowest floor counts.
    """
    package = (_of_pyproject, _of_setup_cfg, _of_setup)
    found = next((stated for read in package for stated in read(root)), None)
    found = found or min(_of_lists(root), key=lambda stated: stated.floor, default=None)
    return (f">={found.floor[0]}.{found.floor[1]}", f"{found.name}:{found.line}") if found else None


def _of_lists(root: Path) -> Iterator[_Stated]:
    yield from _of_pipfile(root)
    seen: set[Path] = set()
    for pattern in ("requirements*.txt", "requirements*.in", "requirements/*.txt", "requirements/*.in"):
        for path in sorted(root.glob(pattern)):
            yield from _of_requirements(root, path, seen)
    for pattern in ("env*.y*ml", "conda*.y*ml"):
        for path in sorted(root.glob(pattern)):
            yield from _of_conda(path)


_NAME = re.compile(r"(?:[\w-]+::)?(?:torch|pytorch)(?:-gpu|-cpu)?(?![\w.-])\s*(?:\[([^\]]*)\])?", re.I)
_CLAUSE = re.compile(r"\(?\s*(>=|={1,3}|~=|>|\^|~|)\s*v?(\d{1,9})(?:\.(\d{1,9}))?(?![\d])")
_WHEEL = re.compile(r"/torch-(\d{1,9})\.(\d{1,9})\.")


def _floor(requirement: str) -> tuple[int, int] | None:
    """Return the floor that `torch>=2.1`, `pytorch=1.7=py3.8` or `torch ^2.1` state; None for other packages."""
    name = _NAME.match(requirement.strip())
    if name is None:
        return None
    rest = requirement.strip()[name.end() :].partition(";")[0].strip()
    if rest.startswith("@"):
        wheel = _WHEEL.search(rest)
        return (int(wheel[1]), int(wheel[2])) if wheel else None
    if not rest and "version" in (name[1] or ""):  # pytorch[version='>=1.7']
        rest = name[1].partition("=")[2].strip("'\" ")
    choices = (_least(choice) for choice in rest.split("||"))
    return min(filter(None, choices), default=None)


def _least(clauses: str) -> tuple[int, int] | None:
    found = (_CLAUSE.match(clause) for clause in clauses.split(","))
    return max(((int(m[2]), int(m[3] or 0)) for m in found if m), default=None)


def _text(path: Path) -> str:
    try:
        return file_io.read_text(path)
    except OSError:
        return ""


def _stated(requirements: Iterable[str], name: str, text: str) -> Iterator[_Stated]:
    """Yield the floors of requirements, each on the first line of the text that has it."""
    for requirement in requirements:
        if floor := _floor(requirement):
            at = max(text.find(requirement), 0)
            yield _Stated(floor, name, text.count("\n", 0, at) + 1)


def _of_pyproject(root: Path) -> Iterator[_Stated]:
    text = _text(root / "pyproject.toml")
    tables = parsed_toml(text)
    tools = tables.get("tool")
    own = {**tables, "tool": {**tools, "torchmigrate": None}} if isinstance(tools, dict) else tables
    yield from _of_table({**own, "build-system": None}, "pyproject.toml", text)


def _of_pipfile(root: Path) -> Iterator[_Stated]:
    text = _text(root / "Pipfile")
    yield from _of_table(parsed_toml(text), "Pipfile", text)


def _of_table(table: object, name: str, text: str) -> Iterator[_Stated]:
    """Yield the floors in a TOML table: requirements in lists, and keys `torch` of tables."""
    stack = [table]
    while stack:
        match stack.pop(0):
            case dict() as inner:
                for key, value in inner.items():
                    spec = value.get("version") if isinstance(value, dict) else value
                    if key in ("torch", "pytorch") and isinstance(spec, str) and (floor := _floor(f"torch {spec}")):
                        line = re.search(rf"^\s*[\"']?{key}[\"']?\s*=|^\[.*\.{key}\]", text, re.M)
                        yield _Stated(floor, name, text.count("\n", 0, line.end() if line else 0) + 1)
                stack += [value for value in inner.values() if isinstance(value, (dict, list))]
            case list() as items:
                yield from _stated((item for item in items if isinstance(item, str)), name, text)
                stack += [item for item in items if isinstance(item, dict)]


def _of_setup_cfg(root: Path) -> Iterator[_Stated]:
    text = _text(root / "setup.cfg")
    parser = parsed_cfg(text)
    for section in ("options", "options.extras_require"):
        if parser.has_section(section):
            values = (value for _, value in parser.items(section) if value)
            yield from _stated((line for value in values for line in value.splitlines()), "setup.cfg", text)


def _of_setup(root: Path) -> Iterator[_Stated]:
    """Yield the floors in the strings of setup.py."""
    try:
        tree = ast.parse(_text(root / "setup.py"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (floor := _floor(node.value)):
            yield _Stated(floor, "setup.py", node.lineno)


def _of_requirements(root: Path, path: Path, seen: set[Path]) -> Iterator[_Stated]:
    """Yield the floors of a requirements file, and of those inside the project that it includes."""
    path = Path(os.path.normpath(path))
    if path in seen or not path.is_relative_to(root):
        return
    seen.add(path)
    for number, line in enumerate(_text(path).splitlines(), 1):
        code = re.sub(r"(^|\s)#.*", "", line).strip()
        if code.startswith("-"):
            for included in _included(code):
                yield from _of_requirements(root, path.parent / included, seen)
        elif floor := _floor(code):
            yield _Stated(floor, path.relative_to(root).as_posix(), number)


def _included(line: str) -> Iterator[str]:
    """Yield the files that `-r FILE`, `-rFILE`, `--requirement=FILE` and their kin for constraints name."""
    found = re.match(r"(?:-[rc]|--requirement|--constraint)(?:\s*=\s*|\s+|(?=[^-\s=]))(.+)", line)
    try:
        yield from shlex.split(found[1])[:1] if found else ()
    except ValueError:
        return


def _of_conda(path: Path) -> Iterator[_Stated]:
    """Yield the floors in the items of lists of a conda environment, those for pip included."""
    for number, line in enumerate(_text(path).splitlines(), 1):
        item = re.sub(r"\s#.*", "", line).strip()
        if item.startswith("- ") and (floor := _floor(item[2:].strip(" '\""))):
            yield _Stated(floor, path.name, number)
