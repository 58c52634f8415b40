"""Placement: the folder that the helper goes to for a file, and the file's import of it."""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.project.context import ProjectContext
from torchmigrate.project.import_graph import ASIDE, Import, ImportIndex, Use, is_installable
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.spelling import import_statement
from torchmigrate.source.encoding import Source
from torchmigrate.syntax.resolver import chain_of

_EITHER = "try:\n    from . import {0}\nexcept ImportError:  # run as a script\n    import {0}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the helper lies for a file, and the statement that imports it there."""

    path: str
    statement: str


def vendored_place(index: ImportIndex, path: str, helper: str) -> Placement:
    """Return a vendored helper's place: beside scripts, in a package, or at the root that imports prove."""
    directory = os.path.dirname(path)
    uses = index.importers.get(path, [])
    own = index.imports.get(path, [])
    in_package = index.is_package(directory)
    if in_package and _is_relative(index, directory, own, uses):
        return _relative(index, directory, own, helper)
    absolute = [
        u for u in uses if (not u.relative and len(u.dotted) > 1) or (u.dotted and path.endswith("__init__.py"))
    ]
    foreign = _package_used(index, path, own, directory)
    if foreign and (not absolute or (is_installable(foreign[0]) and not is_installable(absolute[0].root))):
        return _absolute(index, *foreign, helper)
    if absolute:
        return _absolute(index, absolute[0].root, absolute[0].dotted[0], helper)
    if _has_siblings(index, own, directory):
        return Placement(f"{directory}/{helper}.py", f"import {helper}")
    if in_package and not uses:
        return _of_package(index, path, own, directory, helper)
    if all(u.relative for u in uses) and not _runs_itself(index, path):
        if top := _installed_above(index, directory):
            return _absolute(index, *os.path.split(top), helper)
        if uses:
            return _relative(index, directory, own, helper)
    return Placement(f"{directory}/{helper}.py", f"import {helper}")


def _of_package(index: ImportIndex, path: str, own: list[Import], directory: str, helper: str) -> Placement:
    """Return the place for a file of a package that no file here imports: a library's module, a script, or both."""
    top = directory
    while index.is_package(os.path.dirname(top)):
        top = os.path.dirname(top)
    installable = is_installable(os.path.dirname(top))
    if _runs_itself(index, path):
        statement = _EITHER if installable or top in index.tops else "import {0}"
        return Placement(f"{directory}/{helper}.py", statement.format(helper))
    if top in index.tops and not installable:
        return _absolute(index, *os.path.split(top), helper)
    return _relative(index, directory, own, helper)


def _installed_above(index: ImportIndex, directory: str) -> str | None:
    """Return the installable package that holds a folder without an __init__, or None."""
    while directory.startswith(f"{index.root}/"):
        above, name = os.path.split(directory)
        if index.is_package(directory) and is_installable(above):
            return None if ASIDE.fullmatch(name) else directory
        directory = above
    return None


def _has_siblings(index: ImportIndex, own: list[Import], directory: str) -> bool:
    """Whether a file imports its neighbours by their names alone, as scripts do."""
    names = {i.module.partition(".")[0] for i in own if not i.level and i.module} - sys.stdlib_module_names
    return any(index.under(directory, (name,)) for name in names)


def _runs_itself(index: ImportIndex, path: str) -> bool:
    """Whether a file is a script: it asks for `__main__`, or reads a command line."""
    try:
        raw = index.read(path)
        has_sign = any(sign in raw for sign in (b"__main__", b"argparse", b"argv"))
        return has_sign and any(map(_is_of_script, ast.walk(ast.parse(raw))))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False


def _is_of_script(node: ast.AST) -> bool:
    match node:
        case ast.Constant("__main__"):
            return True
        case ast.alias(name) | ast.Name(name) | ast.ImportFrom(str(name)) if "argparse" in name:
            return True
    return isinstance(node, ast.Attribute) and chain_of(node) == "sys.argv"


def _is_relative(index: ImportIndex, directory: str, own: list[Import], uses: list[Use]) -> bool:
    """Whether a file of a package imports its neighbours with dots, or is imported so and shows no other habit."""
    if any(i.level for i in own):
        return True
    absolute = any(
        i.module.split(".")[0] == os.path.basename(top) for i in own for top in index.tops if directory.startswith(top)
    )
    return not absolute and any(u.relative for u in uses)


def _relative(index: ImportIndex, directory: str, own: list[Import], helper: str) -> Placement:
    """Return the place at the top of the package, as far as absolute imports or the file's own dots prove the top."""
    above = [directory]
    while index.is_package(os.path.dirname(above[-1])) and above[-1] != index.root:
        above.append(os.path.dirname(above[-1]))
    reached = min(max((i.level for i in own), default=1), len(above))
    proven = [n for n, folder in enumerate(above, 1) if folder in index.tops]
    dots = max(proven, default=max(reached, 1))
    if proven and _is_one_of_many(index, above[dots - 1]):
        return _absolute(index, *os.path.split(above[dots - 1]), helper)
    return Placement(f"{above[dots - 1]}/{helper}.py", f"from {'.' * dots} import {helper}")


def _is_one_of_many(index: ImportIndex, top: str) -> bool:
    """Whether other packages beside a package are run from the same folder; they share the helper there."""
    root = os.path.dirname(top)
    return not is_installable(root) and any(os.path.dirname(t) == root for t in index.tops - {top})


def _absolute(index: ImportIndex, root: str, package: str, helper: str) -> Placement:
    if index.is_package(f"{root}/{package}") and is_installable(root):
        return Placement(f"{root}/{package}/{helper}.py", f"from {package} import {helper}")
    return Placement(f"{root}/{helper}.py", f"import {helper}")


def _package_used(index: ImportIndex, path: str, own: list[Import], directory: str) -> tuple[str, str] | None:
    """Return (root, name) of a package that a script imports and that is above it or installable; else None."""
    for item in own:
        parts = tuple(p for p in item.module.split(".") if p)
        located = None if item.level else index.locate(path, 0, parts)
        if located is None or not parts:
            continue
        root = located[1]
        above = directory.startswith(f"{root}/")
        if index.is_package(f"{root}/{parts[0]}") and (above or is_installable(root)):
            return root, parts[0]
    return None


_PACKAGE = "from torchmigrate import runtime as accel"


def placement(facts: ProjectContext, path: Path) -> Placement:
    """Return the helper's place for a file. The path is "" if nothing is vendored."""
    if facts.settings.runtime == "package":
        return Placement("", _PACKAGE)
    if path.suffix == ".ipynb":  # a kernel starts in its notebook's folder; dots lead nowhere there
        return Placement(f"{path.parent.as_posix()}/{facts.helper}.py", f"import {facts.helper}")
    return vendored_place(facts.index, str(path), facts.helper)


def placed(facts: ProjectContext, path: Path, text: Source) -> Placement:
    """Return the helper's place for a file with this text, or its import of the project's own helper."""
    if facts.own:
        return Placement("", import_statement(SemanticModel(path, text, facts), facts.own))
    return placement(facts, path)
