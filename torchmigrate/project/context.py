"""The project context: everything about the project that rules may ask, collected before any file is rewritten."""

from __future__ import annotations

import ast
import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from torchmigrate.base import file_io
from torchmigrate.base.system import syntax_tree
from torchmigrate.base.text import UserError
from torchmigrate.config.settings import Settings
from torchmigrate.project import discovery, helper_file, packaging, process_facts
from torchmigrate.project.called_operators import (
    CompiledOperators,
    DoubleMakers,
    LibraryKernels,
    RaisingCalls,
    scripted,
)
from torchmigrate.project.class_hierarchy import ClassHierarchy
from torchmigrate.project.helper_file import NAMES, PACKAGED, ProjectHelper
from torchmigrate.project.import_graph import OTHERS, Components, Import, ImportIndex
from torchmigrate.project.packaging import ANY_MINOR, newest_of_pages, oldest_python, torch_floor
from torchmigrate.project.process_facts import UnderDefault
from torchmigrate.source import notebook
from torchmigrate.source.encoding import HELPER_MARK, helper_hidden, occurs_in_code
from torchmigrate.syntax.resolver import Resolver
from torchmigrate.syntax.scope import Scope, build_scopes, tree_of
from torchmigrate.torch_api import names
from torchmigrate.torch_api.libraries import BUILT_ON_TORCH
from torchmigrate.torch_api.names import canonical, version_of

_TEST = re.compile(r"(^|/)(tests?/|test_[^/]*$|conftest\.py$)|_test\.py$")


class OwnCuda(NamedTuple):
    """The names of the project's classes that define `cuda()`, and of those whose `cuda()` does less than torch's."""

    classes: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()  # it takes no argument
    void: frozenset[str] = frozenset()  # it gives nothing back


@dataclass
class ProjectContext:
    """The facts about the project around a file that rules ask for; each worker computes cached properties."""

    root: Path
    settings: Settings
    files: tuple[str, ...] = ()
    own_cuda: OwnCuda = field(default_factory=OwnCuda)
    is_for_devices: bool = True  # it mentions CUDA, or has the helper because it mentioned CUDA before it was migrated
    helper: str = "accel"
    torch: str | None = None
    own: ProjectHelper | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)  # overlay: contents by path that replace those on disk
    fixing: frozenset[str] | None = None  # packs whose fixes are applied (engine.divide); None: all
    # accepted findings by path, as (rule, start) (engine.divide); None: all
    accepted: Mapping[str, frozenset[tuple[str, int]]] | None = None
    helpers: frozenset[str] = frozenset()  # paths of the helper's copies that files of this run import
    askers: frozenset[str] = frozenset()  # files that this run makes ask the helper
    test_copies: frozenset[str] = frozenset()  # of a package that has no other need of the helper: tests have their own
    helper_at_root: bool = False  # a copy lies where isort looks for the project's own modules, or will do so
    # spans of the original text whose fixes the worlds check holds back, by path, with the reasons (engine.planner)
    held: Mapping[str, Mapping[tuple[int, int], str]] = field(default_factory=dict)
    # lines of the original texts that raise on MPS and stay as they are, by path (engine.checking)
    raising: Mapping[str, frozenset[int]] = field(default_factory=dict)
    # files that leave MPS out of all that they ask the helper for, with the reasons (engine.checking)
    without_mps: Mapping[str, str] = field(default_factory=dict)
    _exports: dict[Path, Mapping[str, str]] = field(default_factory=dict, compare=False, repr=False)
    _scopes: dict[str, Scope | None] = field(default_factory=dict, compare=False, repr=False)
    _torch_names: dict[tuple[str, str], dict[str, str | None]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def index(self) -> ImportIndex:
        """Return the import graph, which is built on first use."""
        return ImportIndex(self.root, self.files, self.texts)

    @cached_property
    def hierarchy(self) -> ClassHierarchy:
        """Return the classes of the project, which are followed over its files on demand."""
        return ClassHierarchy(self.index)

    @cached_property
    def compiled(self) -> CompiledOperators:
        """Return what the project compiles for CUDA, which is followed over its files on demand."""
        return CompiledOperators(self.index, self.hierarchy)

    @cached_property
    def kernels(self) -> LibraryKernels:
        """Return what leads to libraries' kernels for the CPU and CUDA alone, which is followed on demand."""
        return LibraryKernels(self.index, self.hierarchy)

    @cached_property
    def scripted(self) -> Mapping[str, frozenset[str]]:
        """Return the functions that torch.jit.script compiles, by file."""
        return scripted(self.index, self.hierarchy)

    @cached_property
    def doubles(self) -> DoubleMakers:
        """Return what makes float64 in the project, which is followed over its files on demand."""
        return DoubleMakers(self.index, self.hierarchy)

    @cached_property
    def raisers(self) -> RaisingCalls:
        """Return what raises on MPS and stays as it is, which is followed over the files on demand."""
        return RaisingCalls(self.index, self.hierarchy, self.raising)

    @property
    def built_on_torch(self) -> frozenset[str]:
        """Return the libraries whose objects are torch's: those that are known, and the project's `torch-libraries`."""
        return BUILT_ON_TORCH.union(self.settings.torch_libraries)

    @cached_property
    def under_default(self) -> UnderDefault:
        """Return which files run with a CUDA tensor type as the default; this reads all files."""
        return process_facts.files_under_default(self.index)

    @cached_property
    def old_precision(self) -> Mapping[str, tuple[str, ast.expr]]:
        """Return for each file the first old TF32 switch (path, node) in the same process; this reads all files."""
        return process_facts.old_precision_by_file(self.index)

    @cached_property
    def _portable_packages(self) -> frozenset[str]:
        naming = (path for word in OTHERS for path in self.index.holding(word))
        return frozenset(map(self.index.top_of, naming)) - {""}

    def is_in_portable_package(self, path: str) -> bool:
        """Return whether a file's outermost package names accelerators beside CUDA in some file."""
        return bool(self._portable_packages) and self.index.top_of(path) in self._portable_packages

    @cached_property
    def starts_nccl(self) -> bool:
        """Return whether a file of the project starts nccl, or the helper's backend; this reads all files."""
        return process_facts.project_starts_nccl(self.index)

    @cached_property
    def starter_of_given_backends(self) -> str:
        """Return a file that starts process groups with a backend that it is given, or ""; this reads all files."""
        return process_facts.starter_of_given_backends(self.index)

    def line_length(self, path: Path) -> int | None:
        """Return the line length that a formatter or linter is told for a file, in the nearest folder, or None."""
        root = Path(self.root)
        inside = [folder for folder in path.parents if folder.is_relative_to(root)] or [root]
        return next((length for folder in inside if (length := packaging.line_length(str(folder)))), None)

    @cached_property
    def in_compiled_programs(self) -> frozenset[str]:
        """Return the files that may share a process with code which compiles functions; this reads all files."""
        return process_facts.files_compiled(self.index)

    @cached_property
    def in_deferring_programs(self) -> frozenset[str]:
        """Return the files that may share a process with code which has to run before CUDA starts."""
        return process_facts.files_deferring(self.index)

    @cached_property
    def in_groups(self) -> frozenset[str]:
        """Return the files that may share a process with code which makes the process one of a group."""
        return process_facts.files_in_groups(self.index)

    @cached_property
    def sent_off(self) -> frozenset[str]:
        """Return the files whose results may go to other machines."""
        return process_facts.files_sent_off(self.index)

    @cached_property
    def has_collectives(self) -> bool:
        """Return whether the project names backends of other accelerators (xccl) itself; this reads all files."""
        return process_facts.project_has_collectives(self.index)

    @cached_property
    def of_own_helper(self) -> frozenset[str]:
        """Return the project's own helper and all files that it imports, none of which can import it."""
        found: set[str] = set()
        stack = [self.own.path] if self.own else []
        while stack:
            path = stack.pop()
            if path not in found:
                found.add(path)
                stack += self.index.imported_by(path)
        return frozenset(found)

    def is_helper(self, qualified: str) -> bool:
        """Return whether an imported name means the runtime helper, vendored or packaged."""
        return qualified == PACKAGED or qualified.rpartition(".")[2] == self.helper

    def reexport(self, path: Path, level: int, name: str, attribute: str) -> str | None:
        """Return the torch name of `from name import attribute` in `path`, else None.

        `name` must be a module of the project that imports the attribute from torch, or takes it with `import *` from
        one that does, and binds it to nothing else.
        """
        target = self.index.find(str(path), level, name, "") if self.files else None
        return self._torch_name(target, attribute) if target else None

    def star_export(self, path: Path, level: int, name: str, attribute: str) -> str | None:
        """Return the torch name of `attribute` after `from name import *` in `path`, else None.

        `torch` is torch itself where a library may bring it, as the files of a library are not read.
        """
        if self.index.find(str(path), level, name, "") is None:
            return attribute if attribute == "torch" else None
        return self.reexport(path, level, name, attribute)

    def _torch_name(self, target: str, attribute: str) -> str | None:
        """Return the torch name that a module binds a name to, itself or by its star imports, or None."""
        group = self._star_groups.get(target, [target])
        key = group[0], attribute
        if key not in self._torch_names:
            self._torch_names[key] = self._named_in(group, attribute)
        return self._torch_names[key].get(target)

    @cached_property
    def _star_groups(self) -> dict[str, list[str]]:
        """Return the modules that are linked by star imports, directly or not, for each of them."""
        links = Components()
        for path in self.index.imports:
            for taken in self._star_imported(path):
                links.link(path, taken)
        groups: dict[str, list[str]] = {}
        for path in self.index.imports:
            groups.setdefault(links.find(path), []).append(path)
        return {path: group for group in groups.values() for path in group}

    def _named_in(self, group: list[str], attribute: str) -> dict[str, str | None]:
        """Return the torch name that each module of a group binds a name to; None where it is not certain."""
        exports = [path for path in group if attribute in self._exported(Path(path))]
        if not exports and (attribute != "torch" or len(group) == 1):
            return {}
        found: dict[str, str | None] = {}
        takers: dict[str, list[str]] = {}
        for path in group:
            for taken in self._star_imported(path):
                takers.setdefault(taken, []).append(path)
            if (known := self._exported(Path(path)).get(attribute)) is not None:
                found[path] = known if self._is_certain(path, attribute, known) else None
            elif (scope := self._scope(path)) is None or attribute in scope.names:
                found[path] = None
            elif attribute == "torch" and self._takes_library(path):
                found[path] = attribute
        own, todo = {*found}, [*found]
        while todo:
            path = todo.pop()
            for taker in takers.get(path, ()):
                meaning = found[path] if found.get(taker, found[path]) == found[path] else None
                if taker not in own and (taker not in found or found[taker] != meaning):
                    found[taker] = meaning
                    todo.append(taker)
        return found

    def _star_imported(self, path: str) -> list[str]:
        """Return the files of the project whose names a file takes with `import *`."""
        found = (self.index.find(path, i.level, i.module, "") for i in self._stars(path))
        return [target for target in found if target]

    def _takes_library(self, path: str) -> bool:
        """Return whether a file takes the names of something with `import *` that is no file of the project."""
        return any(self.index.find(path, i.level, i.module, "") is None for i in self._stars(path))

    def _stars(self, path: str) -> Iterator[Import]:
        return (item for item in self.index.imports.get(path, ()) if item.name == "*")

    def _exported(self, path: Path) -> Mapping[str, str]:
        """Return what a module imports from torch, by the name that it binds, read from its import lines alone."""
        if path not in self._exports:
            found = self.index.imports.get(str(path), ())
            ours = [i for i in found if not i.level and i.module.partition(".")[0] == "torch"]
            self._exports[path] = {i.bound: f"{i.module}.{i.name}" if i.name else i.qualified for i in ours}
        return self._exports[path]

    def _is_certain(self, target: str, name: str, qualified: str) -> bool:
        """Return whether a module binds the name to that object alone, without a fallback or another definition."""
        scope = self._scope(target)
        return scope is not None and Resolver().dotted(name, scope) == canonical(qualified)

    def _scope(self, path: str) -> Scope | None:
        """Return the names of a module, read once; None if it cannot be read."""
        if path not in self._scopes:
            try:
                self._scopes[path] = build_scopes(tree_of(path, self.index.read(path))).module
            except (OSError, SyntaxError, ValueError, RecursionError):
                self._scopes[path] = None
        return self._scopes[path]

    def is_test(self, path: str) -> bool:
        """Return whether a file holds tests, by its path in the project."""
        return _TEST.search(os.path.relpath(path, self.root)) is not None

    @property
    def writes_native(self) -> bool:
        """Return whether rewrites call torch.accelerator where they can: as asked, or as the project's torch has it."""
        settings = self.settings
        if settings.style != "auto":
            return settings.style == "native"
        return self.own is None and settings.runtime == "vendor" and self.torch_at_least(ACCELERATOR)

    def is_native(self, spec: str | None) -> bool:
        """Return whether rewrites use native style, and the project's torch satisfies `spec`."""
        return self.writes_native and self.torch_at_least(spec)

    def torch_at_least(self, spec: str | None) -> bool:
        """Return whether the project's torch floor is at least `spec` (`>=X.Y`); None is always satisfied."""
        wanted, floor = version_of(spec), version_of(self.torch)
        return wanted is None or (floor is not None and floor >= wanted)


HELPER_FLOOR = (1, 7)
HELPER_PYTHON = (3, 6)  # its f-strings and annotated variables
NATIVE_FLOOR = (2, 9)
ACCELERATOR = ">=2.6"  # the first torch with torch.accelerator


def build_context(
    paths: Sequence[Path], inside: list[str], texts: list[bytes], settings: Settings, overlay: Mapping[str, bytes]
) -> tuple[ProjectContext, list[str]]:
    """Return the project context, and notes for the user; raises UserError for an unusable configured helper.

    `inside` are the Python files of the project, `texts` the code of those with work, `overlay` unsaved contents.
    """
    root = project_root(paths)
    notes = []
    floor, place = settings.torch, ""
    if floor is None and (inferred := torch_floor(root)):
        floor, place = inferred
        notes.append(f"torch {floor} inferred from {inferred[1]}")
    own = helper_file.load(settings, inside)
    if own is None and (names.version_of(floor) or HELPER_FLOOR) < HELPER_FLOOR:
        needs = f"torch>={HELPER_FLOOR[0]}.{HELPER_FLOOR[1]}"
        asks = f"{place} asks for torch {floor.removeprefix('>=')}" if floor and place else f"`torch` is {floor}"
        notes.append(f"accel.py is written for {needs}, {asks}: try it with that, or ask for {needs}")
    if own is None and (oldest := oldest_python(root)) and oldest[0] < HELPER_PYTHON:
        (major, minor), file = oldest
        needs = f"Python {HELPER_PYTHON[0]}.{HELPER_PYTHON[1]}"
        notes.append(f"accel.py needs {needs}, and {file} names {major}.{minor}, too")
    elif own is None:
        notes += _older(root, "Python", HELPER_PYTHON, "Python {}")
    if own is None and floor is None:
        notes += _older(root, "PyTorch", HELPER_FLOOR, "torch>={}")
    helper = helper_file.helper_name(inside, texts, overlay)
    has_helper = any(path.endswith(f"/{helper}.py") for path in inside)
    known = ProjectContext(
        root=root,
        settings=settings,
        files=tuple(inside),
        own_cuda=own_cuda(texts),
        is_for_devices=has_helper or any(occurs_in_code(raw, b"cuda") for raw in texts),
        helper=helper,
        torch=floor,
        own=own,
        texts=overlay,
    )
    return known, notes


def _older(root: Path, what: str, needed: tuple[int, int], words: str) -> Iterator[str]:
    """Yield a note where README speaks of nothing newer than what the helper needs."""
    newest = newest_of_pages(root, what)
    if newest is not None and newest[0] < needed:
        (major, minor), file = newest
        named = f"{major}.{minor}" if minor < ANY_MINOR else f"{major}"
        needs = words.format(".".join(map(str, needed)))
        yield f"accel.py is written for {needs}, and {file} speaks of {what} {named} alone"


def refuse_old_torch(floor: str | None, notes: Sequence[str]) -> None:
    """Raise UserError if the torch that the project asks for may lack `torch.accelerator`."""
    if (names.version_of(floor) or HELPER_FLOOR) >= NATIVE_FLOOR:
        return
    asks = f"this project asks for torch {floor}" if floor else "nothing says which torch this project asks for"
    where = next((f" ({note.rpartition(' ')[2]})" for note in notes if " inferred from " in note), "")
    raise UserError(
        f"--style native needs torch >=2.9; {asks}{where}",
        "raise the floor there, or pass --torch '>=2.9'; --style helper runs from torch 1.7 on",
    )


def project_root(paths: Sequence[Path]) -> Path:
    """Return the project's root: the folder named, for files the nearest that looks like one; above a package.

    A repository, or a folder that is built, is a project though it has an `__init__.py`: what lies beside it does not
    belong to it. A folder whose name no import can say is no package either.
    """
    resolved = [p.resolve() for p in paths]
    base = Path(os.path.commonpath(resolved)) if resolved else Path.cwd()
    if not base.is_dir():
        base = base.parent
        base = next((up for up in (base, *base.parents) if _is_marked(up)), base)
    while (base / "__init__.py").exists() and base.name.isidentifier() and not _is_marked(base):
        base = base.parent
    return base


def _is_marked(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in (".git", "pyproject.toml", "setup.py", "setup.cfg"))


def whole_project(paths: Sequence[Path], found: Sequence[discovery.DiscoveredFile], settings: Settings) -> list[str]:
    """Return all Python files of the project, including those that this run is not asked to rewrite."""
    root = project_root(paths)
    listed = [str(f.path) for f in found if f.skipped_reason is None and f.error is None and not f.text]
    if all(p.resolve() == root for p in paths):
        return listed
    around = discovery.discover([root], replace(settings, root=root)) if root.is_dir() else []
    return sorted({*(str(f.path) for f in around if f.skipped_reason is None), *listed})


_DEF_CUDA = re.compile(rb"\n[ \t]+def cuda\(")


def cuda_methods(raw: bytes) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the names of classes in a file that define a method `cuda`, each with the method."""
    if not _DEF_CUDA.search(raw):
        return
    try:
        tree = syntax_tree(raw.removeprefix(codecs.BOM_UTF8))
    except (SyntaxError, ValueError, RecursionError):
        return
    classes = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    yield from ((c.name, f) for c in classes for f in c.body if isinstance(f, ast.FunctionDef) and f.name == "cuda")


def own_cuda(texts: Iterable[bytes]) -> OwnCuda:
    """Return which of the project's classes define `cuda()`, and what they do not do in it."""
    methods = [item for text in texts for item in cuda_methods(text)]
    classes = frozenset(name for name, _ in methods)
    taking = {name for name, method in methods if not _is_bare(method.args)}
    giving = {name for name, method in methods if any(_gives(node) for node in ast.walk(method))}
    return OwnCuda(classes, classes - taking, classes - giving)


def _gives(node: ast.AST) -> bool:
    return isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None


def _is_bare(arguments: ast.arguments) -> bool:
    """Return whether a method takes `self` alone."""
    more = arguments.vararg or arguments.kwonlyargs or arguments.kwarg
    return len(arguments.posonlyargs + arguments.args) == 1 and not more


def code_of_other_files(paths: Iterable[str], has_work: Callable[[bytes], bool]) -> Iterator[bytes]:
    """Yield the code of files that this run does not rewrite, but which the project context takes into account."""
    for path in sorted(paths):
        try:
            raw = file_io.read(path)
        except OSError:
            continue
        mentions = b"cuda" in raw or NAMES[0].encode() in raw  # most files do not; this is cheaper than `has_work`
        if mentions and not raw.startswith(HELPER_MARK) and has_work(raw):
            yield code(path, raw)


def code(path: str, raw: bytes) -> bytes:
    """Return the Python code of a file, without a helper that it holds; for a notebook, that of its cells."""
    if not path.endswith(".ipynb"):
        return helper_hidden(raw)[0]
    try:
        return notebook.split(raw).source.utf8
    except notebook.UnreadableNotebook:
        return b""
