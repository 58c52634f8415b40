"""Placement: the folder that the helper goes to for a file, and the file's import of it."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from torchmigrate.base import system
from torchmigrate.base.system import syntax_tree
from torchmigrate.helper.import_edits import first_import_time_use, import_below_path_edit, of_torch
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.import_graph import CUDA, SEARCH_PATHS, Import, ImportIndex, Use, read_imports
from torchmigrate.project.packaging import (
    ASIDE,
    asks_for_release,
    installed_package,
    is_installed_itself,
    is_set_up_above,
    linked_folders,
    page,
)
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import HELPER, import_statement, spelled
from torchmigrate.source.notebook import Notebook
from torchmigrate.syntax.resolver import chain_of, ends_program, last_name
from torchmigrate.syntax.scope import tree_of, walk

_OR_INSTALLED = "try:\n    import {0}\nexcept ImportError:  # where it is installed\n    {1}"
_EITHER = "try:\n    from {1} import {0}\nexcept {2}:  # run as a script\n    import {0}"
_BEYOND = "(ImportError, ValueError)"  # Python < 3.9 raises the second where dots lead out of the outermost package


_MANY_DOTS = 3  # more of them are harder to read than the package's name


@dataclass(frozen=True, slots=True)
class Placement:
    """A placement says where the helper lies for a file, and which statement imports it there.

    `root` is the folder that must be on sys.path for that; "" if it is always, or if the import is relative. `other` is
    a second copy, which the statement imports where there is no first one.
    """

    path: str
    statement: str
    root: str = ""
    other: str = ""


def beside(path: str, helper: str) -> Placement:
    """Return the place in a file's own folder, where a script finds it whatever else is on sys.path."""
    return Placement(system.joined(os.path.dirname(path), f"{helper}.py"), f"import {helper}")


def vendored_place(index: ImportIndex, path: str, helper: str) -> Placement:
    """Return a vendored helper's place: beside scripts, in a package, or at the root that imports prove.

    A script whose folder is linked into a package, or packed with it, is also a module where that is installed. A
    module that is a script too finds the second copy, beside it, by the same statement.
    """
    directory = os.path.dirname(path)
    if _is_found_both_ways(index, path, helper):
        return replace(beside(path, helper), statement=_either(helper, directory, directory))
    place = _where_it_lies(index, path, helper)
    if place.statement != f"import {helper}":
        return place
    folder = os.path.dirname(place.path)
    is_both = _is_module_and_neighbour(index, path) or _is_run_by_name(index.root, directory)
    if directory == folder and is_both:
        return replace(place, statement=_either(helper, directory, folder))
    package = _linked_into(index.root, directory)
    if package is None and not (directory == folder and _is_packed(index, directory)):
        is_both = directory != folder and _runs_from_its_folder(index, path)
        return replace(place, other=beside(path, helper).path) if is_both else place
    named = (_located(index, path, item) for item in _certain_imports(index, path))
    if any(at and not _is_installed(at[1], parts) for parts, at in named):
        return place  # what names its neighbours without dots is a script only
    if package and _linked_into(index.root, folder) is None:
        other = _absolute(index, *package, helper)
        return replace(place, statement=_OR_INSTALLED.format(helper, other.statement), other=other.path)
    return replace(place, statement=_either(helper, directory, folder))


def _is_found_both_ways(index: ImportIndex, path: str, helper: str) -> bool:
    """Return whether a file imports its neighbours with dots and, where that fails, without, or is imported so."""
    if _names_both_ways(index, path) - {helper}:
        return True
    name = os.path.basename(path).removesuffix(".py")
    return any(name in _names_both_ways(index, use.importer) for use in index.importers.get(path, ()))


def _is_module_and_neighbour(index: ImportIndex, path: str) -> bool:
    """Return whether one file imports another with dots, from a package, and a script beside it does by its name."""
    uses = index.importers.get(path, ())
    return any(use.relative for use in uses) and any(not use.relative and len(use.dotted) == 1 for use in uses)


def _names_both_ways(index: ImportIndex, path: str) -> set[str]:
    """Return the modules that a file imports by `try: from .a import f` and, where that fails, by `from a import f`.

    A file may also ask for `__name__ == "__main__"`: then it is a script.
    """
    own = index.imports.get(path, ())
    dotted = {(item.module or item.name).rpartition(".")[2] for item in own if item.level}
    if not any(item.module.rpartition(".")[2] in dotted for item in own if not item.level):
        return set()
    try:
        tree = tree_of(path, index.read(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for block in (node for node in walk(tree) if isinstance(node, ast.Try)):
        handled = [each for handler in block.handlers if _catches_import_error(handler) for each in handler.body]
        found |= _imported_in(block.body, dots=True) & _imported_in(handled, dots=False)
    for branch in (node for node in tree.body if isinstance(node, ast.If)):
        if any(isinstance(node, ast.Constant) and node.value == "__main__" for node in ast.walk(branch.test)):
            ways = (branch.body, branch.orelse), (branch.orelse, branch.body)
            found |= {name for own, other in ways for name in _imported_in(own, True) & _imported_in(other, False)}
    return found


def _imported_in(body: Iterable[ast.stmt], dots: bool) -> set[str]:
    """Return the last parts of the modules that statements import with dots, or without."""
    found: set[str] = set()
    for node in (node for statement in body for node in ast.walk(statement)):
        match node:
            case ast.ImportFrom(str(module), _, level) if bool(level) is dots:
                found.add(module.rpartition(".")[2])
            case ast.ImportFrom(None, aliases) if dots:
                found.update(alias.name for alias in aliases)
            case ast.Import(aliases) if not dots:
                found.update(alias.name.rpartition(".")[2] for alias in aliases)
    return found


def _either(helper: str, directory: str, folder: str) -> str:
    """Return the statement by which modules of a package, and scripts, in `directory` find the helper in `folder`."""
    dots = _dots(directory, folder)
    return _EITHER.format(helper, dots, "ImportError" if dots == "." else _BEYOND)


def _dots(directory: str, folder: str) -> str:
    """Return the dots by which modules in `directory` name a folder above, or their own."""
    return "." if directory == folder else "." * (1 + len(system.dotted(directory, folder)))


def _runs_from_its_folder(index: ImportIndex, path: str) -> bool:
    """Return whether a file that others import is a script too, which needs nothing of the folders above its own."""
    directory = os.path.dirname(path)
    if not index.importers.get(path) or any(index.holds(path, word) for word in SEARCH_PATHS):
        return False
    own = _certain_imports(index, path)
    named = (_located(index, path, item) for item in own)
    others = [(parts, at[1]) for parts, at in named if at is not None and at[1] != directory]
    is_alone = not any(item.level for item in own) and all(_is_installed(root, parts) for parts, root in others)
    return is_alone and runs_itself(index, path)


def _is_packed(index: ImportIndex, directory: str) -> bool:
    """Return whether an installation brings a folder along though it has no `__init__.py`: as a namespace package."""
    above = None if index.is_package(directory) else installed_above(index, directory)
    return above is not None and is_installed_itself(*above)


def _linked_into(root: str, folder: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the root and the name of the package that a setup.py above a folder links it into, or one that holds it.

    None if there is none.
    """
    above = [folder]
    while above[-1] != root and system.is_inside(above[-1], root):
        above.append(os.path.dirname(above[-1]))
    found = (
        (each, links[linked])
        for each in above
        for links in [linked_folders(each)]
        for linked in above
        if linked in links
    )
    return next(found, None)


def _where_it_lies(index: ImportIndex, path: str, helper: str) -> Placement:
    """Return a vendored helper's place as the files lie in the project."""
    directory = os.path.dirname(path)
    uses = index.importers.get(path, [])
    own = _certain_imports(index, path)
    if any(i.module == helper and not (i.name or i.level) for i in index.imports.get(path, ())):
        own = [i for i in own if i.name != helper]  # what only stands in for the helper says nothing
    in_package = index.is_package(directory)
    if not in_package and (commands := index.commands.get(path)):
        uses = [*uses, *commands]
        own = index.imports.get(path, [])  # where it runs, the packages of the same installation are there
    absolute = [
        u for u in uses if (not u.relative and len(u.dotted) > 1) or (u.dotted and path.endswith("__init__.py"))
    ]
    foreign = _package_used(index, path, own, directory)
    if foreign and asks_for_release(directory, foreign[0], foreign[1][0]):  # a release that is out has no helper
        if not absolute and not (in_package and _is_relative(index, directory, own, uses)):
            return beside(path, helper)
        foreign = None
    if foreign and _is_installed(*foreign) and not installed_above(index, directory):
        return _absolute(index, *foreign, helper)
    if in_package and _is_relative(index, directory, own, uses):
        return _relative(index, directory, own, helper)
    if foreign and (not absolute or (_is_installed(*foreign) and not _is_installed(*_named(absolute)))):
        return _absolute(index, *foreign, helper)
    if absolute:
        place = _absolute(index, *_named(absolute), helper)
        folder = os.path.dirname(place.path)
        if place.statement != f"import {helper}":
            return place
        if any(i.level for i in own) and not index.folders_of_files.intersection(u.root for u in absolute):
            return _relative(index, directory, own, helper)  # no file beside the package says that it is found there
        if in_package and _joins_its_package(index, path, absolute, folder):
            return _relative(index, directory, own, helper)
        if index.is_package(folder) and any(u.relative for u in uses):  # scripts name it from inside its package
            return replace(place, statement=_either(helper, directory, folder))
        if inner := _inner_use(index, absolute, folder):
            package = system.joined(inner.root, inner.dotted[0])
            statement = f"from {_dots(directory, package)} import {helper}"
            return Placement(system.joined(package, f"{helper}.py"), statement)
        return place
    if proven := _root_used(index, own, path, helper, 2):  # what is named in full is nobody else's
        return _absolute(index, *proven, helper)
    if not uses and (used := _set_up_by_neighbour(index, path, own)):
        return _absolute(index, *used, helper)
    if _has_siblings(index, own, directory):
        used = None if uses or absolute else _installed_for_neighbours(index, path, own)
        return _absolute(index, *used, helper) if used else beside(path, helper)
    if in_package and not uses:
        return _of_package(index, path, own, directory, helper)
    if all(u.relative for u in uses) and not runs_itself(index, path):
        if top := installed_above(index, directory):
            return _absolute(index, *top, helper)
        is_module = any(i.level for i in own)  # a script cannot import with dots
        if named := _named_above(index, path):
            package = system.joined(named[0], named[1][0])
            if is_module and index.is_package(package) and system.is_inside(directory, package):
                statement = f"from {_dots(directory, package)} import {helper}"
                return Placement(system.joined(package, f"{helper}.py"), statement)
            return _absolute(index, *named, helper)
        is_named = not in_package and _is_named_by_computing(index, directory)
        if is_named and (is_module or uses or _is_no_script(index, path, helper)):
            return _absolute(index, os.path.dirname(directory), (os.path.basename(directory),), helper)
        if uses:
            return _relative(index, directory, own, helper)
        if above := _root_used(index, own, path, helper):
            return _absolute(index, *above, helper)
        root = index.named_with_folder.get(directory, "")
        if root and _is_no_script(index, path, helper):
            return _absolute(index, root, system.dotted(path.removesuffix(".py"), root), helper)
        if is_module:
            return _relative(index, directory, own, helper)
    return beside(path, helper)


def _is_named_by_computing(index: ImportIndex, directory: str) -> bool:
    """Return whether a file beside a folder may import from it by a name that is computed at run time."""
    above, name = os.path.dirname(directory), os.fsencode(os.path.basename(directory))
    computing = index.folders_of_computed_names.get(above, ())
    return any(name in index.read_or_nothing(path) for path in computing) and not index.is_package(above)


def _inner_use(index: ImportIndex, uses: list[Use], root: str) -> Use | None:
    """Return how a script below `root` names a module, if names start in the script's own folder; the innermost one.

    Such a script finds no copy in `root`, unless it sets up its own imports.
    """
    below = [u for u in uses if os.path.dirname(u.importer) == u.root != root and system.is_inside(u.root, root)]
    named = [use for use in below if len(use.dotted) > 1]
    plain = (use for use in named if not any(index.holds(use.importer, word) for word in SEARCH_PATHS))
    return max(plain, key=lambda use: len(use.root), default=None)


def _is_no_script(index: ImportIndex, path: str, helper: str) -> bool:
    """Return whether a file only defines what others import, in a folder without a script."""
    return _defines(index, path) and not _has_scripts(index, os.path.dirname(path), helper)


def _defines(index: ImportIndex, path: str) -> bool:
    """Return whether all that a file does is to define functions and classes."""
    try:
        body = tree_of(path, index.read(path)).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    kinds = {type(node) for node in body if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant)}
    return bool(kinds & _DEFINING) and kinds <= _DEFINING | {ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign}


def _has_scripts(index: ImportIndex, directory: str, helper: str) -> bool:
    """Return whether a script lies in a folder: it finds the folder's copy before any other.

    One that always imports from a folder above runs from there only, as with `python -m`.
    """
    scripts = (each for each in index.imports if os.path.dirname(each) == directory and runs_itself(index, each))
    return any(not _root_used(index, _certain_imports(index, each), each, helper) for each in scripts)


_DEFINING = {ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef}


def _named(uses: list[Use]) -> tuple[str, tuple[str, ...]]:
    """Return the root and the dotted name by which a module is imported.

    One that can be installed goes first, then the outermost of a script that lies where its names start.
    """
    starting = [u for u in uses if os.path.dirname(u.importer) == u.root] or uses[:1]
    best = next((u for u in uses if _is_installed(u.root, u.dotted)), min(starting, key=lambda use: len(use.root)))
    return best.root, best.dotted


def _named_above(index: ImportIndex, path: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the root and the name of a module that is imported with dots alone: by modules that are named so."""
    seen, stack = {path}, [path]
    while stack:
        for use in index.importers.get(stack.pop(), ()):
            if not use.relative and len(use.dotted) > 1 and system.is_inside(path, use.root):
                return use.root, system.dotted(path.removesuffix(".py"), use.root)
            if use.relative and use.importer not in seen:
                seen.add(use.importer)
                stack.append(use.importer)
    return None


def _is_installed(root: str, dotted: tuple[str, ...]) -> bool:
    return _installed(root, dotted) is not None


def _installed(root: str, dotted: tuple[str, ...]) -> str | None:
    """Return the outermost package around a module that comes into other programs: by installation, or torch.hub."""
    package = os.path.join(root, *dotted[:1])
    of_hub = dotted[:1] and dotted[0] in _given_to_hub(root) and os.path.isfile(os.path.join(package, "__init__.py"))
    return installed_package(root, dotted) or (package if of_hub else None)


@cache
def _given_to_hub(root: str) -> frozenset[str]:
    """Return the outermost packages that the file imports which torch.hub looks for in a project."""
    imports = read_imports(os.path.join(root, "hubconf.py"))
    return frozenset(item.module.partition(".")[0] for item in imports if not item.level)


def _certain_imports(index: ImportIndex, path: str, skips: bool = False) -> list[Import]:
    """Return the imports that are made whenever a file is loaded: none in functions, none without which it goes on.

    `skips` says that a file which only takes note of a failed import, and imports nothing instead, does nothing then.
    """
    found = index.imports.get(path, [])
    try:
        tree = tree_of(path, index.read(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    names: set[tuple[int, str]] = set()
    stack: list[ast.AST] = [*tree.body]
    while stack:
        match stack.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.Import(aliases):
                names |= {(0, alias.name) for alias in aliases}
            case ast.ImportFrom(module, _, level):
                names.add((level, module or ""))
            case ast.Try() as block:
                caught = any(_goes_on_without(handler, skips) for handler in block.handlers)
                stack += [*([] if caught else block.body), *block.orelse, *block.finalbody]
                stack += [statement for handler in block.handlers for statement in handler.body]
            case node:
                stack += ast.iter_child_nodes(node)
    return [item for item in found if (item.level, item.module) in names]


def absent_neighbour(index: ImportIndex, path: str) -> str:
    """Return the module that a file always imports with dots and that is not here, or "".

    Such a file is meant for a folder of another project. A package may be without what a build makes.
    """
    if index.is_package(os.path.dirname(path)):
        return ""
    for item in _certain_imports(index, path):
        parts = tuple(filter(None, item.module.split(".")))
        names = (parts, (*parts, item.name)) if parts else ((item.name,),)
        if item.level and not any(index.locate(path, item.level, each) for each in names):
            return "." * item.level + (item.module or item.name)
    return ""


def _goes_on_without(handler: ast.ExceptHandler, skips: bool) -> bool:
    """Return whether a file does its work though the import that failed is one that the handler catches."""
    if not _catches_import_error(handler) or ends_program(handler.body):
        return False
    return not skips or any(isinstance(n, (ast.Import, ast.ImportFrom)) for s in handler.body for n in ast.walk(s))


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    return any(kind is None or (chain_of(kind) or "").rpartition(".")[2] in names for kind in kinds)


def _of_package(index: ImportIndex, path: str, own: list[Import], directory: str, helper: str) -> Placement:
    """Return the place for a file of a package that no file here imports: a library's module, a script, or both."""
    top = directory
    while index.is_package(os.path.dirname(top)):
        top = os.path.dirname(top)
    installed = installed_above(index, directory)
    is_named = bool(installed) or top in index.tops
    is_certain = (
        runs_itself(index, path)
        or any(index.holds(path, word) for word in SEARCH_PATHS)  # nobody imports what sets up its own imports
        or index.is_named_beside(path)
        or (directory in index.folders_of_scripts and not is_named)
    )
    if is_certain or _acts(index, path):
        is_plain = is_certain and not is_named
        statement = f"import {helper}" if is_plain else _either(helper, directory, directory)
        return Placement(system.joined(directory, f"{helper}.py"), statement)
    if top in index.tops and not installed and not _has_copy(index, top, path):
        return _absolute(index, os.path.dirname(top), (os.path.basename(top),), helper)
    return _relative(index, directory, own, helper)


def _joins_its_package(index: ImportIndex, path: str, uses: list[Use], root: str) -> bool:
    """Return whether a module that others name in full can import the copy that its package has for other modules."""
    tops = {system.joined(use.root, use.dotted[0]) for use in uses}
    top = tops.pop() if len(tops) == 1 else ""
    is_below = os.path.dirname(top) == root and index.is_package(top)
    return is_below and not runs_itself(index, path) and _has_copy(index, top, path)


def _has_copy(index: ImportIndex, top: str, path: str) -> bool:
    """Return whether a package that is not installed gets a copy in any case: a module with dots may call for one."""
    if top not in index.tops or _is_shared(index, top):
        return False
    return any(other != path for other in _calling_with_dots(index, top))


_with_dots: WeakKeyDictionary[ImportIndex, dict[str, list[str]]] = WeakKeyDictionary()


def _calling_with_dots(index: ImportIndex, top: str) -> list[str]:
    """Return the modules of a package that name CUDA and import their neighbours with dots."""
    known = _with_dots.setdefault(index, {})
    if top not in known:
        inside = (path for path in index.imports if system.is_inside(path, top) and index.holds(path, CUDA))
        known[top] = [path for path in inside if any(item.level for item in _certain_imports(index, path))]
    return known[top]


@cache
def _is_run_by_name(root: str, directory: str) -> bool:
    """Return whether the pages of a project tell to run modules of a folder by their names: `python -m tools.train`."""
    name = ".".join(system.dotted(directory, root))
    names = os.listdir(root) if name and os.path.isdir(root) else []
    pages = [each for each in names if each.lower().startswith(("readme", "contributing", "makefile"))]
    return any(f"-m {name}." in page(root, each) for each in pages)


def installed_above(index: ImportIndex, directory: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the root and the name of the outermost installable package that holds a folder, or None."""
    root = directory
    while system.is_inside(root, index.root):
        root = os.path.dirname(root)
        dotted = system.dotted(directory, root)
        if folder := _installed(root, dotted):
            return None if ASIDE.fullmatch(os.path.basename(folder)) else (root, dotted)
    return None


def _set_up_by_neighbour(index: ImportIndex, path: str, own: list[Import]) -> tuple[str, tuple[str, ...]] | None:
    """Return (root, name) of a module that is always imported from a folder which a neighbour adds to sys.path."""
    named = [(parts, at[1]) for parts, at in (_located(index, path, item) for item in own) if at is not None]
    setters = [setter for parts, _ in named if (setter := index.neighbour_for_paths(path, parts))]
    said = [(setter, search_path(index.read_or_nothing(setter))) for setter in setters]
    for parts, root in named:
        if root != os.path.dirname(path) and any(each.may_add(root, setter, index.root) for setter, each in said):
            return root, parts
    return None


def _installed_for_neighbours(index: ImportIndex, path: str, own: list[Import]) -> tuple[str, tuple[str, ...]] | None:
    """Return (root, name) of a package that is installed, and which a script's neighbours always import."""
    directory = os.path.dirname(path)
    named = [at for _, at in (_located(index, path, item) for item in own) if at is not None and at[1] == directory]
    for neighbour, _ in named:
        found = _package_used(index, neighbour, _certain_imports(index, neighbour), directory)
        if found and _is_installed(*found) and not asks_for_release(directory, found[0], found[1][0]):
            return found
    return None


def _has_siblings(index: ImportIndex, own: list[Import], directory: str) -> bool:
    """Return whether a file imports its neighbours by their names alone, as scripts do."""
    names = {i.module.partition(".")[0] for i in own if not i.level and i.module} - sys.stdlib_module_names
    return any(index.under(directory, (name,)) for name in names)


def runs_itself(index: ImportIndex, path: str) -> bool:
    """Return whether a file is a script: it asks for `__main__`, or reads a command line and does more than define."""
    try:
        raw = index.read(path)
        has_sign = any(sign in raw for sign in (b"__main__", b"argparse", b"argv"))
        found = list(filter(_is_of_script, walk(tree_of(path, raw)))) if has_sign else []
        return any(isinstance(node, ast.Constant) for node in found) or (bool(found) and not _defines(index, path))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False


def _acts(index: ImportIndex, path: str) -> bool:
    """Return whether a file prints or loops where it is imported, as a script without `__main__` does."""
    try:
        body = tree_of(path, index.read(path)).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = (node.value.func for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    return any(isinstance(node, (ast.For, ast.While)) for node in body) or any(last_name(f) == "print" for f in calls)


def _is_of_script(node: ast.AST) -> bool:
    match node:
        case ast.Constant("__main__"):
            return True
        case ast.alias(name) | ast.Name(name) | ast.ImportFrom(str(name)) if "argparse" in name:
            return True
    return isinstance(node, ast.Attribute) and chain_of(node) == "sys.argv"


@dataclass(frozen=True, slots=True)
class SearchPath:
    """What a file says of sys.path: whether it may put folders before those which are there, and which it may add.

    These have a name that it spells, or lie at most so many folders above its own; "." is where a program starts.
    """

    is_put_first: bool
    names: frozenset[str] = frozenset()
    above: int = -1

    def may_add(self, folder: str, path: str, root: str) -> bool:
        """Return whether the file with this path may add a folder; `root` is the project's."""
        is_above = system.is_inside(path, folder) and len(system.dotted(path, folder)) - 1 <= self.above
        return is_above or (os.curdir if folder == root else os.path.basename(folder)) in self.names


@lru_cache(maxsize=64)
def search_path(raw: bytes) -> SearchPath:
    """Return what a file says of sys.path. It puts folders first if it does more than append."""
    try:
        tree = syntax_tree(raw)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return SearchPath(True)
    nodes = [*ast.walk(tree)]
    sources = (n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == "sys")
    names = {"sys.path"} | {alias.asname or alias.name for n in sources for alias in n.names if alias.name == "path"}
    said = [n for n in nodes if isinstance(n, (ast.Attribute, ast.Name)) and chain_of(n) in names]
    keeps = {id(part) for node in nodes for part in _keeping_order(node)}
    around = (n for n in nodes if isinstance(n, (ast.Expr, ast.Assign, ast.AugAssign)))
    parts = _with_values([n for n in around if any(each in said for each in ast.walk(n))], nodes)
    spelled_out = [part for node in parts for part in _parts_of_path(node)]
    ups, climbs = spelled_out.count(os.pardir), sum(map(_climbs, parts))  # the first climb leads to the file's folder
    above = ups + max(climbs - 1, 0) if ups or climbs else -1
    return SearchPath(any(id(n) not in keeps for n in said), frozenset(spelled_out), above)


def _with_values(starts: list[ast.AST], nodes: list[ast.AST]) -> list[ast.AST]:
    """Return all parts of some nodes, and of what the names in them may stand for, as far as the file says so."""
    values: dict[str, list[ast.expr]] = {}
    given: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets, value):
                for target in targets:
                    values.setdefault(chain_of(target) or "", []).append(value)
            case ast.For(target, value):
                values.setdefault(chain_of(target) or "", []).append(value)
            case ast.Call(func, arguments, keywords):
                given.setdefault(last_name(func), []).extend([*arguments, *(each.value for each in keywords)])
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            for parameter in node.args.args:
                values.setdefault(parameter.arg, []).extend(given.get(node.name, ()))
    values.pop("", None)  # what has no plain name
    found: dict[ast.AST, None] = {}
    stack = [*starts]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            chain = chain_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            stack += [*ast.iter_child_nodes(node), *values.get(chain or "", ())]
    return [*found]


def _parts_of_path(node: ast.AST) -> list[str]:
    """Return the last name of a path that a node spells, and each `..` in it."""
    match node:
        case ast.Constant(str(text)):
            parts = text.rstrip("/").split("/")
            return [*(part for part in parts[:-1] if part == os.pardir), parts[-1]]
        case ast.Attribute(attr="pardir"):
            return [os.pardir]
        case ast.Attribute(attr="getcwd" | "cwd"):
            return [os.curdir]
    return []


def _climbs(node: ast.AST) -> int:
    """Return how many folders up from a file a node leads."""
    match node:
        case ast.Attribute(attr="dirname" | "parent") | ast.Name("dirname"):
            return 1
        case ast.Subscript(ast.Attribute(attr="parents"), ast.Constant(int(count))):
            return count + 1
    return 0


def _keeping_order(node: ast.AST) -> list[ast.expr]:
    """Return the parts of a node that may be a list whose first items stay as they are."""
    match node:
        case ast.Call(ast.Attribute(owner, "append" | "extend" | "remove")):
            return [owner]
        case ast.Call(ast.Attribute(owner, "insert"), [ast.Constant(int(at)), _]) if at > 0:
            return [owner]
        case ast.Compare(comparators=parts):
            return parts
        case ast.AugAssign(part, ast.Add()) | ast.For(iter=part) | ast.Subscript(part, ctx=ast.Load()):
            return [part]
    return []


def _is_relative(index: ImportIndex, directory: str, own: list[Import], uses: list[Use]) -> bool:
    """Return whether a file of a package imports its neighbours with dots, or is imported so and has no other habit."""
    if any(i.level for i in own):
        return True
    above = [system.dotted(top, root) for top, root in index.tops.items() if directory.startswith(top)]
    absolute = any(tuple(i.module.split("."))[: len(top)] == top for i in own for top in above)
    inside = [
        u for u in uses if system.is_inside(u.importer, directory) and os.path.basename(u.importer) != "__init__.py"
    ]
    return not absolute and any(u.relative for u in inside or uses)  # an __init__ says little about the others' habit


def _relative(index: ImportIndex, directory: str, own: list[Import], helper: str) -> Placement:
    """Return the place at the top of the package, as far as absolute imports or the file's own dots prove the top."""
    above = [directory]
    while index.is_package(os.path.dirname(above[-1])) and above[-1] != index.root:
        above.append(os.path.dirname(above[-1]))
    reached = min(max((i.level for i in own), default=1), len(above))
    proven = [n for n, folder in enumerate(above, 1) if folder in index.tops and not _is_named_in_vain(index, folder)]
    installed = installed_above(index, directory)
    top = _installed(*installed) if installed else None
    if not proven and top in above:
        proven = [above.index(top) + 1]
    if not proven and installed and top is not None:
        return _absolute(index, *installed, helper)  # a folder between them has no `__init__.py`
    dots = min(proven, default=max(reached, 1))  # under the name of an inner package, dots reach no higher
    folder = above[dots - 1]
    is_named_twice = len(proven) > 1 and (index.tops[above[max(proven) - 1]], folder) in index.named_folders
    if folder in index.tops and not is_named_twice and (dots > _MANY_DOTS or _is_shared(index, folder)):
        return _absolute(index, *_by_name(index, folder), helper)
    if folder == top and installed and (serving := _serving(index, installed[0], folder)) != folder:
        return _absolute(index, *_by_name(index, serving), helper)
    return Placement(system.joined(folder, f"{helper}.py"), f"from {'.' * dots} import {helper}")


def _is_named_in_vain(index: ImportIndex, top: str) -> bool:
    """Return whether imports name a part of a package as if it lay outside: nothing puts it there.

    Such imports are left from before the package had its name.
    """
    root = index.tops[top]
    if root not in index.tops or index.beside_tops.get(top):
        return False
    editing = index.holding(SEARCH_PATHS[0])
    return not any(search_path(index.read_or_nothing(path)).may_add(root, path, index.root) for path in editing)


def _by_name(index: ImportIndex, top: str) -> tuple[str, tuple[str, ...]]:
    root = index.tops[top]
    return root, system.dotted(top, root)


def _is_shared(index: ImportIndex, top: str) -> bool:
    """Return whether one program finds the helper of a package that is not installed in the folder where names start.

    There it is for other packages that are run from this folder, and for files that import the package by its name.
    Scripts beside the package have one copy with it.
    """
    root, dotted = _by_name(index, top)
    others = {other for other, its in index.tops.items() if its == root} - {top}
    is_named = bool(others or index.between_tops.get((top, top)))
    users = index.beside_tops.get(top, ())  # of these, those that name CUDA have a use for the helper themselves
    if len(dotted) > 1:  # a script between that folder and the package finds no copy there
        uses = [use for target, uses in index.importers.items() if system.is_inside(target, top) for use in uses]
        if _inner_use(index, [use for use in uses if not use.relative], root):
            return False
    return not _is_installed(root, dotted) and (is_named or any(index.holds(user, CUDA) for user in users))


def _serving(index: ImportIndex, root: str, top: str) -> str:
    """Return the package whose copy serves an installed one: another of the same installation, if it needs that."""
    counts = index.between_tops
    others = [
        (counts[top, other], other)
        for other, its in index.tops.items()
        if its == root
        and counts.get((top, other), 0) > counts.get((other, top), 0)
        and is_installed_top(index, other)
        and _needs(index, top, other)
    ]
    return max(others)[1] if others else top


def _needs(index: ImportIndex, top: str, other: str) -> bool:
    """Return whether a file of one of the outermost packages always imports another, not only in a function."""
    importers = {importer for own, used, importer in index.uses_of_tops if (own, used) == (top, other)}
    located = (_located(index, path, item)[1] for path in importers for item in _certain_imports(index, path))
    return any(at and system.is_inside(at[0], other) for at in located)


def is_installed_top(index: ImportIndex, top: str) -> bool:
    """Return whether one of the packages that absolute imports name is installed under that name."""
    return _installed(*_by_name(index, top)) == top


def _absolute(index: ImportIndex, root: str, dotted: tuple[str, ...], helper: str) -> Placement:
    if top := _installed(root, dotted):
        top = _serving(index, root, top)
        return Placement(
            system.joined(top, f"{helper}.py"), f"from {'.'.join(system.dotted(top, root))} import {helper}", root
        )
    if system.is_inside(index.root, root):  # names start above the project, and its own folder is the first of them
        above = system.dotted(index.root, root)
        if _installed(index.root, dotted[len(above) :]):
            return _absolute(index, index.root, dotted[len(above) :], helper)
        return Placement(system.joined(index.root, f"{helper}.py"), f"from {'.'.join(above)} import {helper}", root)
    return Placement(system.joined(root, f"{helper}.py"), f"import {helper}", root)


def _package_used(
    index: ImportIndex, path: str, own: list[Import], directory: str
) -> tuple[str, tuple[str, ...]] | None:
    """Return (root, name) of a package that a file imports and that is above it or installable; its own goes first.

    Another one that is installed goes before its own that is not.
    """
    own_one: tuple[str, tuple[str, ...]] | None = None
    others: list[tuple[str, tuple[str, ...]]] = []
    for item in own:
        parts, located = _located(index, path, item)
        if located is None:
            continue
        root = located[1]
        own_top = system.joined(root, parts[0])
        is_installed = _is_installed(root, parts)
        if directory == own_top or system.is_inside(directory, own_top):
            if is_installed:
                return root, parts
            own_one = own_one or ((root, parts) if index.is_package(own_top) else None)
        elif (is_installed and is_set_up_above(root, directory)) or (
            system.is_inside(directory, root) and index.is_package(own_top)
        ):
            others.append((root, parts))
    if own_one:
        return next((each for each in others if _is_installed(*each)), own_one)
    return others[0] if others else None


def _located(index: ImportIndex, path: str, item: Import) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Return the parts of the module that an absolute import names, and its file and root, or None for another one.

    Of a module that is not here, as it is compiled or generated, it is the installed package of the project above it.
    """
    parts = tuple(p for p in item.module.split(".") if p)
    if item.level or not parts:
        return parts, None
    if found := index.locate(path, 0, parts) or index.locate(path, 0, (*parts, item.name)):
        return parts, found
    for count in range(len(parts) - 1, 0, -1):
        found = index.locate(path, 0, parts[:count])
        if found and os.path.basename(found[0]) == "__init__.py" and _is_installed(found[1], parts[:count]):
            return parts[:count], found
    return parts, None


def _root_used(
    index: ImportIndex, own: list[Import], path: str, helper: str, least: int = 1
) -> tuple[str, tuple[str, ...]] | None:
    """Return (root, name) of a module that a file always imports from a folder above its own, so from sys.path.

    The name has at least so many parts.
    """
    for item in own:
        parts = tuple(p for p in item.module.split(".") if p)
        located = None if item.level or len(parts) < least else index.locate(path, 0, parts)
        if parts == (helper,):
            continue  # another folder's copy says nothing of one that is gone
        if located is not None and system.is_inside(os.path.dirname(path), located[1]):
            return located[1], parts
    return None


_PACKAGE = "from torchmigrate import runtime as accel"


def placement(facts: ProjectContext, path: Path) -> Placement:
    """Return the helper's place for a file. The path is "" if nothing is vendored."""
    if facts.settings.runtime == "package":
        return Placement("", _PACKAGE)
    if path.suffix == ".ipynb":
        return _of_notebook(facts.index, str(path), facts.helper)
    place = vendored_place(facts.index, str(path), facts.helper)
    if facts.is_test(str(path)) and not _is_in_installed(facts.index, place) and (tested := _tested(facts, str(path))):
        place = _absolute(facts.index, *tested, facts.helper)
    if place.path in facts.test_copies:
        own, directory = beside(str(path), facts.helper), os.path.dirname(path)
        if not facts.index.is_package(directory):
            return own
        is_script = runs_itself(facts.index, str(path))
        dots = f"from . import {facts.helper}"
        return replace(own, statement=_either(facts.helper, directory, directory) if is_script else dots)
    return place


def test_copies(facts: ProjectContext, users: Sequence[Path]) -> frozenset[str]:
    """Return the copies that a package would be installed with for the tests of one folder alone.

    Tests of several folders share the package's. Where pytest is told to put no folder on sys.path, tests find no copy
    beside them.
    """
    found: dict[str, list[Path]] = {}
    for user in users if any(facts.is_test(str(user)) for user in users) else ():
        place = placement(facts, user)
        if place.path not in facts.index.files and _is_in_installed(facts.index, place):
            found.setdefault(place.path, []).append(user)
    told = (page(str(facts.root), name) for name in ("pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini"))
    if not found or any("import-mode=importlib" in text for text in told):
        return frozenset()
    alone = {copy: them for copy, them in found.items() if all(facts.is_test(str(user)) for user in them)}
    return frozenset(copy for copy, them in alone.items() if len({user.parent for user in them}) == 1)


def _of_notebook(index: ImportIndex, path: str, helper: str) -> Placement:
    """Return the place beside a notebook, where its kernel starts, or where what it imports lies.

    That is an installed package, or the folder above the notebook at which the full name of a module starts.

    A notebook that fetches a package may get one without the helper, as may one beside pages that install its release,
    and one that changes where modules are looked for may find another; dots lead nowhere.
    """
    own = index.imports.get(path, [])
    used = _package_used(index, path, own, os.path.dirname(path))
    raw = index.read_or_nothing(path)
    is_here = not _FETCHED.search(raw) and not any(word in raw for word in SEARCH_PATHS)
    is_here = is_here and not (used and asks_for_release(os.path.dirname(path), used[0], used[1][0]))
    if used and is_here and _is_installed(*used):
        return _absolute(index, *used, helper)
    proven = _root_used(index, own, path, helper, 2) if is_here else None
    above = os.path.dirname(os.path.dirname(path))
    moves = [found.start() for found in _MOVES.finditer(raw)]
    if proven and (not moves or (proven[0] == above and _goes_up(raw, moves))):
        return _absolute(index, *proven, helper)
    return beside(path, helper)


def _goes_up(raw: bytes, moves: list[int]) -> bool:
    """Return whether a notebook leaves its folder once, for the one above, before it imports torch."""
    torch = re.search(b"import torch|from torch", raw)
    return len(moves) == 1 and torch is not None and moves[0] < torch.start() and bool(_UP.match(raw, moves[0]))


def _is_in_installed(index: ImportIndex, place: Placement) -> bool:
    folder = os.path.dirname(place.path)
    if place.root and installed_package(place.root, system.dotted(folder, place.root)) == folder:
        return True
    return folder in index.tops and is_installed_top(index, folder)


_SIBLINGS = 8  # files that show what the tests of a folder import


def _tested(facts: ProjectContext, path: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the root and the name of an installed package that a test imports, or most others of its folder.

    The test is of this package and skips itself where that fails, or the others import it at their heads. Where these
    run, a test can import the package's helper: it needs no copy of its own. One that imports the package in its tests
    alone does.
    """
    index, folder = facts.index, os.path.dirname(path)
    certain = _certain_imports(index, path, skips=True)
    for item in certain:
        parts, own = _located(index, path, item)
        if own and _is_installed(own[1], parts) and system.is_inside(path, system.joined(own[1], parts[0])):
            return own[1], parts
    later = (_located(index, path, item) for item in index.imports.get(path, ()) if item not in certain)
    if any(own and _is_installed(own[1], parts) for parts, own in later):
        return None  # its tests import the package, so that it can be collected without what the package needs
    files = (file for file in sorted(index.files) if os.path.dirname(file) == folder and file.endswith(".py"))
    others = [file for file in files if file != path and os.path.basename(file) != "__init__.py"][:_SIBLINGS]
    found = Counter(top for file in others for top in _tops_used(index, file))
    for top, count in found.most_common(1):
        if count > 1 and 2 * count >= len(others):
            return top
    return None


_Top = tuple[str, tuple[str, ...]]
_tops: WeakKeyDictionary[ImportIndex, dict[str, set[_Top]]] = WeakKeyDictionary()


def _tops_used(index: ImportIndex, file: str) -> set[_Top]:
    """Return the roots and the names of the installed packages that a file imports at its head; read once."""
    known = _tops.setdefault(index, {})
    if file not in known:
        named = (_located(index, file, item) for item in _certain_imports(index, file))
        tops = ((at[1], installed_package(at[1], parts)) for parts, at in named if at is not None)
        known[file] = {(root, system.dotted(top, root)) for root, top in tops if top is not None}
    return known[file]


# signs that a notebook is opened alone, without the project, and the commands of its first cells there
_HOSTED = re.compile(rb'"colab"\s*:|google\.colab|colab\.research\.google\.com|"kaggle"\s*:')
_COLAB_LINK = re.compile(r"colab\.research\.google\.com(/[^\s()\"'<>\[\]]+?\.ipynb)")
_FETCHES = ("git clone", "pip install", "python -m pip install")
_MOVES = re.compile(b"%cd|chdir")  # of the kernel to another folder
_UP = re.compile(rb"""(%cd[ ]+|chdir\(\\?["'])\.\./?(\\n|\\?["'])""")
_FETCHED = re.compile(rf"({'|'.join(_FETCHES)})(?! -r )".encode())  # a file of requirements names other packages


def holds_helper(module: SemanticModel) -> bool:
    """Return whether a file is to hold the helper itself: a script without any other file, if that is asked for."""
    facts, path = module.facts, str(module.path)
    if facts.own or facts.settings.runtime != "inline" or facts.index.importers.get(path):
        return False
    tops = (s for s in module.tree.body if isinstance(s, (ast.Import, ast.ImportFrom)))
    return any(of_torch(s) for s in tops) and not _imports_project(facts.index, path)


def stands_alone(facts: ProjectContext, path: Path, raw: bytes, book: Notebook) -> bool:
    """Return whether a notebook is to hold the helper itself, as it is opened where no file lies beside it."""
    if facts.own or facts.settings.runtime == "package":
        return False
    if facts.settings.runtime == "inline":
        return True
    fetched = {words for line in book.magics() if (words := _fetched(line))}
    if "git clone" in fetched:
        return True
    if _HOSTED.search(raw):  # modules beside it came along, and so does the helper; packages may be installed
        return bool(fetched) or not _has_siblings(facts.index, facts.index.imports.get(str(path), []), str(path.parent))
    is_alone = not _imports_project(facts.index, str(path))
    return is_alone and (bool(fetched) or _is_linked_to_colab(facts.index.root, path))


def _is_linked_to_colab(root: str, path: Path) -> bool:
    """Return whether a page beside a notebook, or above it, has a link that opens the notebook on Colab."""
    for folder in path.parents:
        end = f"/{path.relative_to(folder).as_posix()}"
        if any(link.endswith(end) for link in _colab_links(str(folder))):
            return True
        if str(folder) == root:
            break
    return False


@cache
def _colab_links(folder: str) -> tuple[str, ...]:
    """Return the notebooks that the pages in a folder open on Colab, as the links spell them."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    texts = (page(folder, name) for name in names if name.lower().endswith((".md", ".rst")))
    return tuple(unquote(link) for text in texts for link in _COLAB_LINK.findall(text))


def _fetched(line: str) -> str:
    """Return the first words of a shell line if they fetch something."""
    words = " ".join(line.lstrip("!% \t").split()) + " "
    return next((known for known in _FETCHES if words.startswith(f"{known} ")), "")


def _imports_project(index: ImportIndex, path: str) -> bool:
    """Return whether a file imports another one of the project."""
    found = index.imports.get(path, ())
    return any(index.find(path, i.level, i.module, i.name) or index.find(path, i.level, i.module, "") for i in found)


def placed(module: SemanticModel) -> Placement:
    """Return the helper's place for a file as it is rewritten, or its import of the project's own helper."""
    facts = module.facts
    if facts.own:
        return Placement("", import_statement(module, facts.own))
    place = placement(facts, module.path)
    if not place.root:
        return place
    proof = import_below_path_edit(module, place.root)
    if proof is None or first_import_time_use(module, spelled(module)[HELPER]) > module.span(proof)[1]:
        return place
    return beside(str(module.path), facts.helper)  # it is called above the edit of sys.path
