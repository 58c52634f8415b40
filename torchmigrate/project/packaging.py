"""Read the settings files of a folder: which packages `pip install` brings along, and how long its lines are.

The torch floor is the least release of torch that a project takes, read from every file that may state one.
"""

from __future__ import annotations

import ast
import configparser
import functools
import itertools
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from torchmigrate.base import file_io, system
from torchmigrate.base.system import syntax_tree
from torchmigrate.syntax.resolver import chain_of, imported_as, last_name

# folders that are usually not installed
ASIDE = re.compile(r"(unit_?)?tests?|docs?|examples?|scripts|benchmarks?")
# folders that setuptools takes for no packages (FlatLayoutPackageFinder)
_NO_PACKAGES = re.compile(
    "benchmarks?|bin|build|changelog|ci|debian|docs?|documentation|examples?|exercises?|htmlcov|manpages|news|"
    "newsfragments|python|scripts|tests?|tools|unit_tests?|utils?"
)
_MAKERS = ("setuptools", "distutils", "numpy.distutils", "skbuild", "torch.utils.cpp_extension")


@dataclass(frozen=True, slots=True)
class _Selection:
    """The packages below the folder `source` that are installed are those of `names`, and all below `trees`.

    With `under`, these are names within the package of this name, which is not installed itself.
    """

    source: str
    names: frozenset[str] = frozenset()
    trees: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    namespaces: bool = False
    more: tuple[_Selection, ...] = ()  # of the same folder
    under: str = ""

    def holds(self, dotted: str) -> bool:
        """Return whether a package of this name is installed."""
        return self._holds(dotted) or any(each.holds(dotted) for each in self.more)

    def _holds(self, dotted: str) -> bool:
        if self.under:
            within, _, dotted = f"{dotted}.".partition(f"{self.under}.")
            if within or not dotted:
                return False
            dotted = dotted.removesuffix(".")
        if dotted in self.names or any(f"{dotted}.".startswith(f"{tree}.") for tree in self.trees):
            return True
        if not _matches(dotted, self.include) or _matches(dotted, self.exclude):
            return False
        return self.namespaces or all(map(os.path.isfile, self._inits(dotted)))

    def _inits(self, dotted: str) -> Iterator[str]:
        parts, top = dotted.split("."), os.path.join(self.source, *self.under.split("."))
        yield from (os.path.join(top, *parts[:n], "__init__.py") for n in range(1, len(parts) + 1))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@cache
def is_installable(root: str) -> bool:
    """Return whether a folder says how its packages are installed; a pyproject.toml may only hold settings."""
    return any(map(_has_packaging, _homes(root))) or _chosen(root) is not None


def _homes(root: str) -> tuple[str, ...]:
    """Return where the files lie that say how packages below a folder are installed: there, or above `src`."""
    return (root, os.path.dirname(root)) if os.path.basename(root) == "src" else (root,)


_KEYWORDS = "**"
_UNREAD = frozenset({"packages", "ext_modules", _KEYWORDS})  # arguments of setup() that list more than can be read


def installed_package(root: str, dotted: Iterable[str]) -> str | None:
    """Return the outermost package on the way to a module `dotted` below `root` that an installation brings along.

    It is the folder of that package; None if the module is in none, or cannot be.
    """
    parts = tuple(dotted)
    selection = _chosen(root)
    if selection is None:  # it does not say in plain words which ones it installs
        folder = os.path.join(root, *parts[:1])
        is_package = parts and is_installable(root) and os.path.isfile(os.path.join(folder, "__init__.py"))
        # what it builds in place is found as it lies, and what it installs besides has its package's copy either way
        given = {name for each in _homes(root) for name in _given(each)}
        if given & _UNREAD:
            return folder if is_package and os.path.isdir(os.path.join(root, *parts[:-1])) else None
        # where nothing is listed, setuptools installs nothing of several packages: neither modules nor what holds them
        inner = os.path.join(root, *parts)
        is_left_out = "py_modules" not in given and os.path.isfile(os.path.join(inner, "__init__.py"))
        return folder if is_package and os.path.isdir(inner) and not is_left_out else None
    for count in range(1, len(parts) + 1):
        folder = os.path.join(root, *parts[:count])
        if not os.path.isdir(folder):
            return None
        if selection.holds(".".join(parts[:count])) and not _is_namespace(folder, parts[count:]):
            return folder
    return None


def is_set_up_above(root: str, directory: str) -> bool:
    """Return whether what installs the modules below `root` lies above a folder, as part of the same project.

    A package that lies beside it, with a setup.py of its own, is installed once, and then stays as it was.
    """
    return any(directory == home or system.is_inside(directory, home) for home in _homes(root))


def _is_namespace(folder: str, below: tuple[str, ...]) -> bool:
    """Return whether a folder holds one package and no module: the name above it is shared with other installations."""
    inner = os.path.join(folder, *below[:1])
    if os.path.isfile(os.path.join(folder, "__init__.py")) or not os.path.isfile(os.path.join(inner, "__init__.py")):
        return False
    shown = [name for name in os.listdir(folder) if not name.startswith((".", "__pycache__"))]
    modules = [name for name in shown if name.endswith(".py") or os.path.isdir(os.path.join(folder, name))]
    return modules == [os.path.basename(inner)]


@cache
def asks_for_release(folder: str, root: str, package: str) -> bool:
    """Return whether what runs in a folder below `root`, outside its package, is told to use a release of that.

    A list of requirements names the release, there or in a folder between, or the pages of the project install it. A
    list that fetches the package from a repository names no release, nor do pages that install what lies here first.
    Tests and benchmarks are of what lies here, and the packages of one installation of one release.
    """
    if folder == (own := system.joined(root, package)) or system.is_inside(folder, own):
        return False
    if installed_package(root, system.dotted(folder, root)):
        return False  # the release brings this package, too
    if not _OF_PROJECT.isdisjoint(system.dotted(folder, root)):
        return False
    homes = _homes(root)
    names = {canonicalize_name(name) for name in (package, *filter(None, map(_distribution, homes)))}
    below = [folder]
    while below[-1] not in homes and system.is_inside(below[-1], homes[-1]):
        below.append(os.path.dirname(below[-1]))
    asked = [_releases(each) for each in below[:-1]]
    if folder not in homes:
        asked.append(_installed_by_pages(homes[-1]))
    return not names.isdisjoint(frozenset().union(*asked))


_OF_PROJECT = {"test", "tests", "testing", "benchmark", "benchmarks"}  # folders


@cache
def _installed_by_pages(folder: str) -> frozenset[str]:
    """Return the normal names of the packages whose releases README installs, before it may install a folder."""
    found: set[str] = set()
    with suppress(OSError):
        pages = [page(folder, name) for name in sorted(os.listdir(folder)) if fnmatchcase(name.lower(), "readme*")]
        for line in (line for text in pages for line in text.splitlines()):
            asked = [word.strip("`*\"'") for word in line.partition("pip install ")[2].split()]
            if "setup.py" in line or any(word.startswith(("-e", "--editable", ".")) for word in asked):
                break
            found.update(map(_release, asked))
    return frozenset(found)


@cache
def _releases(folder: str) -> frozenset[str]:
    """Return the normal names of the packages whose releases a folder's lists of requirements ask for."""
    with suppress(OSError):
        lists = [name for name in os.listdir(folder) if fnmatchcase(name, "requirement*.txt")]
        return frozenset(_release(line) for name in lists for line in page(folder, name).splitlines())
    return frozenset()


def _release(line: str) -> str:
    """Return the normal name of the package whose release a line of requirements asks for, or ""."""
    try:
        asked = Requirement(_without_comment(line))
    except InvalidRequirement:
        return ""
    return "" if asked.url else canonicalize_name(asked.name)


def _distribution(folder: str) -> str:
    """Return the name under which a folder's package is released, or "" where its files do not say so plainly."""
    tables = _toml(folder)
    named = _table(tables, "project").get("name") or _table(tables, "tool", "poetry").get("name")
    named = named or _cfg(folder, "setup.cfg").get("metadata", "name", fallback="")
    named = named or _constant(_given(folder).get("name"), _assigned(folder))
    return named if isinstance(named, str) else ""


def is_installed_itself(root: str, dotted: Iterable[str]) -> bool:
    """Return whether an installation brings along the very folder `dotted` below `root`, not only one above it."""
    selection = _chosen(root)
    return selection is not None and selection.holds(".".join(dotted))


@cache
def _chosen(root: str) -> _Selection | None:
    """Return which packages below a folder of sources are installed; None if that cannot be read off the files."""
    folder = root
    for _ in range(3):
        found = _read_selection(folder)
        if found and found.source == root and not _is_only_editable(found):
            return found
        folder = os.path.dirname(folder)
    return None


def _is_only_editable(selection: _Selection) -> bool:
    """Return whether the list names packages as if they were modules, so that only the folder itself can be used."""
    return not (selection.names or selection.trees or selection.include)


@cache
def _read_selection(folder: str) -> _Selection | None:
    tables = _toml(folder)
    tools = _table(tables, "tool")
    backend = str(_table(tables, "build-system").get("build-backend", "setuptools"))
    if "poetry" in tools:
        return _of_poetry(folder, _table(tools, "poetry"))
    if backend.partition(".")[0] == "pdm":
        return _of_pdm(folder, _table(tools, "pdm", "build"))
    if backend.partition(".")[0] in ("hatchling", "flit_core", "flit_scm", "uv_build"):
        return _of_one_package(folder, tables)
    for found in (_of_toml(folder, _table(tools, "setuptools")), _of_cfg(folder), _of_setup(folder)):
        if found is not None:
            return found
    return _discovered(folder, _table(tools, "setuptools")) if _has_packaging(folder) else None


def _discovered(folder: str, table: Mapping[str, Any]) -> _Selection | None:
    """Return what setuptools finds where nothing is listed: `src`, or the only folder that may be a package."""
    if "py-modules" in table or {*_UNREAD, "py_modules"} & {*_given(folder)}:
        return None
    source = os.path.join(folder, "src")
    if os.path.isdir(source):
        return _Selection(source, include=("*",), namespaces=True)
    names = [n for n in os.listdir(folder) if n.isidentifier() and os.path.isdir(os.path.join(folder, n))]
    found = [n for n in names if not _NO_PACKAGES.fullmatch(n) and not n.startswith("_")]
    return _Selection(folder, include=(found[0], f"{found[0]}.*"), namespaces=True) if len(found) == 1 else None


def _toml(folder: str, name: str = "pyproject.toml") -> Mapping[str, Any]:
    return parsed_toml(page(folder, name))


def _cfg(folder: str, name: str) -> configparser.ConfigParser:
    return parsed_cfg(page(folder, name))


def page(folder: str, name: str) -> str:
    """Return the text of a file in a folder, or "" if it cannot be read."""
    try:
        return file_io.read_text(Path(folder, name))
    except (OSError, ValueError):
        return ""


def parsed_toml(text: str) -> Mapping[str, Any]:
    """Return the tables of a TOML file, none where it is broken."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def parsed_cfg(text: str) -> configparser.ConfigParser:
    """Return the sections of a file like setup.cfg, none where it is broken."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except (ValueError, configparser.Error):
        return configparser.ConfigParser()
    return parser


@cache
def known_first_party(folder: str) -> frozenset[str]:
    """Return the modules that isort, or ruff's rules for imports, are told to be of the project itself."""
    tool = _table(_toml(folder), "tool")
    told = [_table(tool, "isort").get("known_first_party")]
    told += [_table(tool, "ruff", *at, "isort").get("known-first-party") for at in ((), ("lint",))]
    for name in ("ruff.toml", ".ruff.toml"):
        told += [_table(_toml(folder, name), *at, "isort").get("known-first-party") for at in ((), ("lint",))]
    for name, section in ((".isort.cfg", "settings"), ("setup.cfg", "isort"), ("tox.ini", "isort")):
        told.append(_cfg(folder, name).get(section, "known_first_party", fallback="").replace(",", " ").split())
    return frozenset(str(module) for modules in told if isinstance(modules, list) for module in modules)


@cache
def line_length(folder: str) -> int | None:
    """Return the line length that black, ruff or flake8 is told for a folder; of black's and ruff's the shorter."""
    tool = _table(_toml(folder), "tool")
    for tables in (
        (_table(tool, "black"), _table(tool, "ruff")),
        (_toml(folder, "ruff.toml"),),
        (_toml(folder, ".ruff.toml"),),
    ):
        if told := [length for table in tables if isinstance(length := table.get("line-length"), int)]:
            return min(told)
    for name in ("setup.cfg", "tox.ini", ".flake8"):
        told_by_flake8 = _cfg(folder, name).get("flake8", "max-line-length", fallback="")
        with suppress(ValueError):
            return int(told_by_flake8)
    return None


def _table(within: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = within.get(name)
        within = found if isinstance(found, dict) else {}
    return within


def _strings(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, (list, tuple)) else ()


def _of_toml(folder: str, table: Mapping[str, Any]) -> _Selection | None:
    """Return what [tool.setuptools] says."""
    packages = table.get("packages")
    if isinstance(packages, list):
        source = os.path.join(folder, str(_table(table, "package-dir").get("", "")))
        return _Selection(os.path.normpath(source), frozenset(_strings(packages)))
    find = _table(table, "packages", "find")
    if not isinstance(packages, dict) or "find" not in packages:
        return None
    where = _strings(find.get("where")) or (".",)
    include = _strings(find.get("include")) or ("*",)
    source = os.path.normpath(os.path.join(folder, where[0]))
    namespaces = find.get("namespaces", True) is not False
    return _Selection(source, include=include, exclude=_strings(find.get("exclude")), namespaces=namespaces)


def _of_cfg(folder: str) -> _Selection | None:
    """Return what [options] of setup.cfg says."""
    parser = _cfg(folder, "setup.cfg")
    said = parser.get("options", "packages", fallback="").strip()
    if not said:
        return None
    if not said.startswith("find"):
        places = parser.get("options", "package_dir", fallback="").splitlines()
        source = next((place for name, _, place in (line.partition("=") for line in places) if not name.strip()), "")
        return _Selection(os.path.normpath(os.path.join(folder, source.strip())), frozenset(_listed(said)))
    find = {key: parser.get("options.packages.find", key, fallback="") for key in ("where", "include", "exclude")}
    where, include, exclude = map(_listed, find.values())
    source = os.path.normpath(os.path.join(folder, *where[:1]))
    return _Selection(source, include=include or ("*",), exclude=exclude, namespaces="namespace" in said)


def _listed(text: str) -> tuple[str, ...]:
    """Return the items of a list in a configuration file: one a line, or with commas between."""
    return tuple(filter(None, re.split(r"[,\s]+", text)))


def _of_poetry(folder: str, table: Mapping[str, Any]) -> _Selection | None:
    """Return what [tool.poetry] says: its packages, or the one with the project's name."""
    packages = [item for item in table.get("packages") or () if isinstance(item, dict) and "include" in item]
    if packages:
        source = os.path.normpath(os.path.join(folder, str(packages[0].get("from", "."))))
        named = tuple(str(item["include"]).strip("/").replace("/", ".") for item in packages)
        return _Selection(source, trees=named) if not any("*" in name for name in named) else None
    return _named(folder, str(table.get("name", "")), marker="")


def _of_one_package(folder: str, tables: Mapping[str, Any]) -> _Selection | None:
    """Return what a build backend takes that packs the package with the project's name, if nothing else is said."""
    tools = _table(tables, "tool")
    if found := _of_hatch(folder, _table(tools, "hatch", "build")):
        return found
    uv = _table(tools, "uv", "build-backend")
    if named := _strings(uv.get("module-name")) or _strings([uv.get("module-name")]):
        return _Selection(os.path.normpath(os.path.join(folder, str(uv.get("module-root", "src")))), trees=named)
    name = _table(tools, "flit", "module").get("name") or _table(tables, "project").get("name", "")
    return _named(folder, str(name))


def _of_hatch(folder: str, table: Mapping[str, Any]) -> _Selection | None:
    """Return what [tool.hatch.build] says: its packages, or the folders at the root that its patterns include."""
    wheel = {**table, **_table(table, "targets", "wheel")}
    if paths := _strings(wheel.get("packages")) or _strings(wheel.get("only-include")):
        source, names = os.path.dirname(paths[0]), tuple(os.path.basename(path) for path in paths)
        return _Selection(os.path.normpath(os.path.join(folder, source)), trees=names)
    heads = [pattern.strip("/").split("/")[0] for pattern in _strings(wheel.get("include"))]
    names = tuple(name for name in heads if name.isidentifier() and os.path.isdir(os.path.join(folder, name)))
    return _Selection(folder, trees=names) if names and "src" not in names and "sources" not in wheel else None


def _of_pdm(folder: str, table: Mapping[str, Any]) -> _Selection:
    """Return what [tool.pdm.build] says: the folders that it includes, or all packages below the folder of sources."""
    default = "src" if os.path.isdir(os.path.join(folder, "src")) else ""
    source = os.path.normpath(os.path.join(folder, str(table.get("package-dir", default))))
    plain = (
        itertools.takewhile(lambda part: "*" not in part, path.split("/")) for path in _strings(table.get("includes"))
    )
    included = [system.dotted(os.path.join(folder, *parts), source) for parts in plain]
    trees = tuple(".".join(parts) for parts in included if parts[0] not in (os.curdir, os.pardir))
    return _Selection(source, trees=trees) if trees else _Selection(source, include=("*",))


def _named(folder: str, name: str, marker: str = "__init__.py") -> _Selection | None:
    """Return the package with the project's name, if its folder holds the marker; poetry takes any folder."""
    module = re.sub(r"[-.]+", "_", name)
    places = (folder, os.path.join(folder, "src"))
    for stem in dict.fromkeys((module, module.lower())):
        for place in places:
            if stem and os.path.exists(os.path.join(place, stem, marker)):
                return _Selection(place, trees=(stem,))
    return None


def _of_setup(folder: str) -> _Selection | None:
    """Return what the call of setup() in setup.py says, as far as it is written out."""
    given = _given(folder)
    values = _assigned(folder)
    where = _constant(given.get("package_dir"), values)
    source = str(where.get("", "")) if isinstance(where, dict) else ""
    return _packages(folder, source, given.get("packages"), values) if "packages" in given else None


@cache
def _given(folder: str) -> Mapping[str, ast.expr]:
    """Return the named arguments of the only call of setup() in setup.py; those of a table under `**`."""
    calls = [n for n in ast.walk(_setup(folder)) if isinstance(n, ast.Call) and last_name(n.func) == "setup"]
    return {k.arg or _KEYWORDS: k.value for k in calls[0].keywords} if len(calls) == 1 else {}


def commands(folder: str) -> Iterator[str]:
    """Yield the modules that setup.py's commands import: `scripts.train` of `train = scripts.train:main`."""
    given = _constant(_given(folder).get("entry_points"), _assigned(folder))
    for group in given.values() if isinstance(given, dict) else ():
        lines = group.splitlines() if isinstance(group, str) else group if isinstance(group, (list, tuple)) else ()
        yield from (str(line).partition("=")[2].partition(":")[0].strip() for line in lines)


@cache
def _setup(folder: str) -> ast.Module:
    """Return the code of setup.py, in which `from setuptools import setup as install` is called by its own name."""
    try:
        tree = syntax_tree(file_io.read(Path(folder, "setup.py")))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
    own = imported_as(tree)
    for name in (n for n in ast.walk(tree) if isinstance(n, ast.Name)):
        name.id = own.get(name.id, name.id)
    return tree


@cache
def _assigned(folder: str) -> Mapping[str, ast.expr]:
    """Return the values of names that setup.py assigns once, with what it adds to each."""
    found: dict[str, list[ast.expr]] = {}
    added: dict[str, list[ast.expr]] = {}
    for node in ast.walk(_setup(folder)):
        match node:
            case ast.Assign(targets, value):
                for target in targets:
                    found.setdefault(chain_of(target) or "", []).append(value)
            case ast.AugAssign(ast.Name(name), ast.Add(), value) | ast.Call(
                ast.Attribute(ast.Name(name), "extend"), [value], []
            ):
                added.setdefault(name, []).append(value)
            case ast.Call(ast.Attribute(ast.Name(name), "append"), [value], []):
                added.setdefault(name, []).append(ast.List([value], ast.Load()))
    return {
        name: functools.reduce(lambda left, right: ast.BinOp(left, ast.Add(), right), [*values, *added.get(name, ())])
        for name, values in found.items()
        if len(values) == 1
    }


def _constant(node: ast.expr | None, values: Mapping[str, ast.expr], deep: int = 0) -> object:
    if isinstance(node, ast.Name):
        node = values.get(node.id) if deep < _DEEPEST else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        match [_constant(side, values, deep + 1) for side in (node.left, node.right)]:
            case [str(left), str(right)]:
                return left + right
            case [list(first), list(second)]:
                return [*first, *second]
        return None
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, RecursionError):
        return None


@cache
def linked_folders(root: str) -> Mapping[str, tuple[str, ...]]:
    """Return the folders that setup.py links into a package, which brings their files along, each with its name."""
    values = _assigned(root)
    calls = [n for n in ast.walk(_setup(root)) if isinstance(n, ast.Call) and chain_of(n.func) == "os.symlink"]
    pairs = [[_path(each, values) for each in call.args[:2]] for call in calls]
    found = {}
    for target, link in (pair for pair in pairs if len(pair) == 2 and all(pair)):
        package = os.path.dirname(os.path.normpath(os.path.join(root, link)))
        dotted = system.dotted(package, root)
        if package != root and installed_package(root, dotted):
            found[os.path.normpath(os.path.join(package, target))] = dotted
    return found


def _path(node: ast.expr, values: Mapping[str, ast.expr]) -> str:
    """Return a path that setup.py spells in a string or with os.path.join, or ""."""
    match values.get(node.id, node) if isinstance(node, ast.Name) else node:
        case ast.Constant(str(text)):
            return text
        case ast.Call(func, parts, []) if chain_of(func) == "os.path.join":
            names = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            return os.path.join(*names) if names and len(names) == len(parts) else ""
    return ""


_DEEPEST = 3  # names for names, and parts of parts


def _packages(
    folder: str, source: str, value: ast.expr | None, values: Mapping[str, ast.expr], deep: int = 0
) -> _Selection | None:
    """Return what the value of `packages=` says: a list, a call of find_packages(), or a name, sum or part of these."""
    place = os.path.normpath(os.path.join(folder, source))
    if isinstance(value, ast.Name) and deep < _DEEPEST:
        return _packages(folder, source, values.get(value.id), values, deep + 1)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        left, right = (_packages(folder, source, side, values, deep + 1) for side in (value.left, value.right))
        return _union(left, right)
    if isinstance(value, ast.Call) and last_name(value.func) in ("find_packages", "find_namespace_packages"):
        return _of_find(folder, value, values)
    if isinstance(value, ast.Call) and chain_of(value.func) in ("list", "sorted") and len(value.args) == 1:
        return _packages(folder, source, value.args[0], values, deep + 1)
    if isinstance(value, ast.ListComp) and len(value.generators) == 1 and deep < _DEEPEST:
        found = _packages(folder, source, value.generators[0].iter, values, deep + 1)
        return _part(found, value.elt, value.generators[0]) if found is not None else None
    listed = _constant(value, values)
    return _Selection(place, frozenset(_strings(listed))) if isinstance(listed, (list, tuple)) else None


def _part(found: _Selection, kept: ast.expr, picks: ast.comprehension) -> _Selection | None:
    """Return what is left of packages that a comprehension keeps, or drops, by how their names begin.

    It may give them the name of the package that holds them: `[f"pkg.{name}" for name in find_packages("pkg")]`.
    """
    name = chain_of(picks.target)
    above, each = _named_within(kept)
    if name is None or each != name or found.more or found.under:
        return None
    if above:
        folder = os.path.join("", *above.split("."))  # a name ends with a dot, as a folder with a slash
        if not f"{found.source}/".endswith(f"/{folder}") or not above.endswith("."):
            return None
        found = replace(found, source=f"{found.source}/".removesuffix(f"/{folder}"), under=above.removesuffix("."))
    for test in picks.ifs:
        drops = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        match test.operand if isinstance(test, ast.UnaryOp) and drops else test:
            case ast.Call(ast.Attribute(asked, "startswith"), [ast.Constant(str(start))], []) if chain_of(
                asked
            ) == name and (drops or found.include in ((), ("*",))):
                names = frozenset(package for package in found.names if package.startswith(start) is not drops)
                pattern = (f"{start}*",) if found.include else ()
                include, exclude = (found.include, pattern) if drops else (pattern, ())
                found = replace(found, names=names, include=include, exclude=(*found.exclude, *exclude))
            case _:
                return None
    return found


def _named_within(kept: ast.expr) -> tuple[str, str | None]:
    """Return what stands before each name that a comprehension gives, and the variable that holds the name."""
    match kept:
        case ast.JoinedStr([ast.Constant(str(above)), ast.FormattedValue(ast.Name(name), -1, None)]):
            return above, name
        case ast.BinOp(ast.Constant(str(above)), ast.Add(), ast.Name(name)):
            return above, name
    return "", chain_of(kept)


def _of_find(folder: str, call: ast.Call, values: Mapping[str, ast.expr]) -> _Selection | None:
    names = ("where", "exclude", "include")
    given: dict[str, ast.expr] = dict(zip(names, call.args, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg}
    read = {name: _constant(given[name], values) for name in names if name in given}
    if any(k.arg is None for k in call.keywords) or None in read.values():
        return None
    where = os.path.normpath(os.path.join(folder, str(read.get("where", "."))))
    include, exclude = _strings(read.get("include", ("*",))), _strings(read.get("exclude", ()))
    return _Selection(where, include=include, exclude=exclude, namespaces="namespace" in last_name(call.func))


def _union(left: _Selection | None, right: _Selection | None) -> _Selection | None:
    if left is None or right is None:
        return None
    finder, other = (left, right) if left.include else (right, left)
    if not other.include:  # a list names packages below the folder that is searched
        return replace(finder, names=left.names | right.names)
    return replace(finder, more=(*finder.more, other)) if finder.source == other.source else None


BUILD_SCRIPTS = ("setup.py", "conf.py", "hatch_build.py", "build.py")  # what such a script is called


def is_build_script(path: str, raw: bytes) -> bool:
    """Return whether a file is run to build, install or document the project, where its modules cannot be imported."""
    name = os.path.basename(path)
    if name not in BUILD_SCRIPTS:
        return False
    try:
        tree = syntax_tree(raw)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if name == "setup.py":
        return any(module.startswith(_MAKERS) for module in _imported(tree))
    if name == "conf.py":  # of Sphinx
        return {"extensions", "html_theme"} & {
            t.id for s in tree.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)
        } != set()
    tools = _table(_toml(os.path.dirname(path)), "tool")
    script = _table(tools, "poetry", "build").get("script") or _table(tools, "poetry").get("build")
    return name == "hatch_build.py" or script == name


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


_PACKAGING = {
    "setup.py": r"setup\(",
    "setup.cfg": r"^\[metadata\]",
    "pyproject.toml": r"^\[(project|tool\.poetry|build-system)\]",
}
_LISTED = re.compile(r"^\[tool\.(setuptools\.packages|poetry)|^(packages|py-modules)\s*=", re.M)
_BACKEND = re.compile(r"^build-backend\s*=\s*[\"'](?!setuptools)", re.M)


def _has_packaging(folder: str) -> bool:
    for name, sign in _PACKAGING.items():
        try:
            text = file_io.read_text(Path(folder, name))
        except OSError:
            continue
        is_in_package = name == "setup.py" and os.path.isfile(os.path.join(folder, "__init__.py"))
        if is_in_package and not any(maker in text for maker in _MAKERS):
            continue  # a module of a package
        if re.search(sign, text, re.M):
            return name != "pyproject.toml" or not _is_refused(folder, text)
    return False


def _is_refused(folder: str, text: str) -> bool:
    """Return whether setuptools cannot install a folder's packages, so that the project runs from the folder.

    setuptools, which builds unless another backend is named, refuses a folder that lists no packages and contains
    several, or leaves one out (setuptools/discovery.py).
    """
    if _LISTED.search(text) or _BACKEND.search(text):
        return False
    return sum(1 for p in Path(folder).glob("*/__init__.py") if not ASIDE.fullmatch(p.parent.name)) > 1


class _Stated(NamedTuple):
    """A floor as (major, minor), and the file and line that state it."""

    floor: tuple[int, int]
    name: str
    line: int


def torch_floor(root: Path) -> tuple[str, str] | None:
    """Return the torch floor (`>=X.Y`) from the project's own dependencies, and the `file:line` that states it.

    What the package asks for comes first; of files that only list what to install, the lowest floor counts.
    """
    package = (_of_pyproject, _of_setup_cfg, _floor_of_setup)
    found = next((stated for read in package for stated in read(root)), None)
    found = found or min(_of_lists(root), key=lambda stated: stated.floor, default=None)
    return (f">={found.floor[0]}.{found.floor[1]}", f"{found.name}:{found.line}") if found else None


_PYTHON = re.compile(r"Programming Language :: Python :: (\d+)\.(\d+)$|\s*>=?\s*(\d+)\.(\d+)")
_CONDA_PYTHON = re.compile(r"^\s*- *['\"]?(?:[\w-]+::)?python *[=~>]=? *(\d+)\.(\d+)", re.M)


def oldest_python(root: Path) -> tuple[tuple[int, int], str] | None:
    """Return the oldest Python that a project says it runs on, and the file that says so.

    What the package says comes first, then the environments that conda is to make.
    """
    folder = str(root)
    table, cfg, given = _table(_toml(folder), "project"), _cfg(folder, "setup.cfg"), _given(folder)
    values = _assigned(folder) if given else {}
    told = {
        "pyproject.toml": (table.get("requires-python"), table.get("classifiers")),
        "setup.cfg": (
            cfg.get("options", "python_requires", fallback=None),
            cfg.get("metadata", "classifiers", fallback="").split("\n"),
        ),
        "setup.py": tuple(_constant(given.get(name), values) for name in ("python_requires", "classifiers")),
    }
    for name, (needs, classifiers) in told.items():
        texts = [needs] if isinstance(needs, str) else _strings(classifiers)
        found = [_PYTHON.match(text) for text in texts]
        versions = [(int(m[1] or m[3]), int(m[2] or m[4])) for m in found if m]
        if versions:
            return min(versions), name
    conda = ((path, _CONDA_PYTHON.search(_text_of_file(path))) for path in _conda_files(root, nested=True))
    made = (((int(m[1]), int(m[2])), path.relative_to(root).as_posix()) for path, m in conda if m)
    return min(made, default=None)


ANY_MINOR = 99  # of "Python 2"
_SPOKEN = {
    "Python": re.compile(r"\bpython *(?:install(?:ation)? *)?(?:version|v|[=>]=?|:)? *([23])(?:\.(\d+))?(?!\w)", re.I),
    "PyTorch": re.compile(
        r"\b(?:py)?torch *(?:install(?:ation)? *)?\(? *(?:version|v|[=>]=?|:)? *(\d)\.(\d+)(?!\w)", re.I
    ),
}


def newest_of_pages(root: Path, what: str) -> tuple[tuple[int, int], str] | None:
    """Return the newest "Python", or "PyTorch", that README speaks of, and its name; None if it names no version."""
    names = sorted(n for n in os.listdir(root) if fnmatchcase(n.lower(), "readme*")) if root.is_dir() else []
    told = ((m, name) for name in names for m in _versions(_SPOKEN[what], page(str(root), name)))
    return max((((int(m[1]), int(m[2] or ANY_MINOR)), name) for m, name in told), default=None)


_ANOTHER = re.compile(r"\+? *(?:or|and|/|,|&|-|to) *v?(\d)(?:\.(\d+))?(?!\w)", re.I)


def _versions(spoken: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the versions that a text names, and those that it names beside one: `Python 2.7 or 3.5`."""
    for first in spoken.finditer(text):
        found: re.Match[str] | None = first
        while found:
            yield found
            found = _ANOTHER.match(text, found.end())


def _of_lists(root: Path) -> Iterator[_Stated]:
    yield from _of_pipfile(root)
    seen: set[Path] = set()
    for pattern in ("requirement*.txt", "requirements*.in", "requirements/*.txt", "requirements/*.in"):
        for path in sorted(root.glob(pattern)):
            yield from _of_requirements(root, path, seen)
    for path in _conda_files(root):
        yield from _of_conda(path)


def _conda_files(root: Path, *, nested: bool = False) -> Iterator[Path]:
    for pattern in ("env*.y*ml", "conda*.y*ml", *(["env*/*.y*ml"] if nested else [])):
        yield from sorted(root.glob(pattern))


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


def _text_of_file(path: Path) -> str:
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
    text = _text_of_file(root / "pyproject.toml")
    tables = parsed_toml(text)
    tools = tables.get("tool")
    own = {**tables, "tool": {**tools, "torchmigrate": None}} if isinstance(tools, dict) else tables
    yield from _of_table({**own, "build-system": None}, "pyproject.toml", text)


def _of_pipfile(root: Path) -> Iterator[_Stated]:
    text = _text_of_file(root / "Pipfile")
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
    text = _text_of_file(root / "setup.cfg")
    parser = parsed_cfg(text)
    for section in ("options", "options.extras_require"):
        if parser.has_section(section):
            values = (value for _, value in parser.items(section) if value)
            yield from _stated((line for value in values for line in value.splitlines()), "setup.cfg", text)


def _floor_of_setup(root: Path) -> Iterator[_Stated]:
    """Yield the floors in the strings of setup.py."""
    try:
        tree = syntax_tree(_text_of_file(root / "setup.py"))
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
    for number, line in enumerate(_text_of_file(path).splitlines(), 1):
        code = _without_comment(line)
        if code.startswith("-"):
            for included in _included(code):
                yield from _of_requirements(root, path.parent / included, seen)
        elif floor := _floor(code):
            yield _Stated(floor, path.relative_to(root).as_posix(), number)


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#.*", "", line).strip()


def _included(line: str) -> Iterator[str]:
    """Yield the files that `-r FILE`, `-rFILE`, `--requirement=FILE` and their kin for constraints name."""
    found = re.match(r"(?:-[rc]|--requirement|--constraint)(?:\s*=\s*|\s+|(?=[^-\s=]))(.+)", line)
    try:
        yield from shlex.split(found[1])[:1] if found else ()
    except ValueError:
        return


def _of_conda(path: Path) -> Iterator[_Stated]:
    """Yield the floors in the items of lists of a conda environment, those for pip included."""
    for number, line in enumerate(_text_of_file(path).splitlines(), 1):
        item = re.sub(r"\s#.*", "", line).strip()
        if item.startswith("- ") and (floor := _floor(item[2:].strip(" '\""))):
            yield _Stated(floor, path.name, number)
