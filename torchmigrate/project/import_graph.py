"""Who imports whom in a project, and which of its files are programs."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from torchmigrate.base import file_io, system
from torchmigrate.config.settings import Settings
from torchmigrate.project import discovery, packaging
from torchmigrate.source.encoding import helper_hidden
from torchmigrate.syntax.resolver import last_name
from torchmigrate.syntax.scope import children, tree_of, walk
from torchmigrate.torch_api.backends import types_of
from torchmigrate.torch_api.libraries import BUILT_ON_TORCH, KERNEL_ROOTS

# words that `process_facts` and others look for in all files
SETTER, *TF32 = b"set_default_tensor_type", b"allow_tf32", b"float32_matmul_precision"
BACKENDS = b"nccl", b"NCCL", b"dist_backend"
EXTENSION = b"cpp_extension"  # a file with it builds operators, or loads them
EXTENSION_OF_OLD = b"torch.utils.ffi"  # a file with it builds them for torch < 1.0
DATA_POINTER = b".data_ptr("  # a file with it may hand the memory of a tensor to code in C
OF_KERNELS = tuple(map(str.encode, KERNEL_ROOTS))
FROM_NUMPY = b"from_numpy("
# a file with one of these may make float64, or cast to the name of a type
DOUBLE = (
    b".double(",
    b"torch.float64",
    b"torch.double",
    b").float()",
    b").type(torch.float",
    FROM_NUMPY,
    b"tensor(np.",
    b"tensor(numpy.",
    b".type())",
)
MOCKS = b"mock", b"monkeypatch"  # a file with one of these may replace functions of torch's in a test
SEARCH_PATHS = b"sys.path", b"sys import"  # a file with one of these may change where imports are looked for
COMPUTED_NAMES = b"import_module", b"__import__", b"hydra.utils", b"pydoc"  # may import what no statement names
OWN_PLACE = b"def get_device(self"  # a class has a method that may give anything, where a tensor's gives a number
SCRIPTING = b"jit"  # without this, nothing is TorchScript
COMPILING = b"compile", b"dynamo", b"torch.export"  # without these, nothing is compiled
# without these, nothing needs CUDA to start late: no process is copied, and all its devices stay visible
DEFERRING = b"multiprocessing", b"fork", b"ProcessPool", b"joblib", b"pathos", b"CUDA_VISIBLE_DEVICES"
# without one of these, which libraries and collectives are among, the processes of a program form no group
GROUPING = b"init_process_group", b"init_distributed", b"init_dist", b"all_reduce", b"all_gather"
_INSTALLED = sys.stdlib_module_names | BUILT_ON_TORCH | {"numpy"}
CUDA = b"cuda"
PARALLEL = b"DataParallel"
# an accelerator beside CUDA, by name
OTHERS = tuple(f"{quote}{name}{quote}".encode() for name in types_of("helper") if name != "cuda" for quote in "'\"")
KEEPING_SOURCE = b"getsource"  # as `inspect.getsource` does, for pickles that bring the code of their classes
TRAINING = b".backward("  # without it, nothing asks for gradients
BORDER = b'"border"', b"'border'"  # a padding of `grid_sample`
WORDS = (
    SETTER,
    KEEPING_SOURCE,
    *TF32,
    *BACKENDS,
    EXTENSION,
    EXTENSION_OF_OLD,
    DATA_POINTER,
    OWN_PLACE,
    *OF_KERNELS,
    *DOUBLE,
    SCRIPTING,
    *MOCKS,
    *SEARCH_PATHS,
    *COMPUTED_NAMES,
    *COMPILING,
    *DEFERRING,
    *GROUPING,
    CUDA,
    PARALLEL,
    *OTHERS,
    TRAINING,
    *BORDER,
)


@dataclass(frozen=True, slots=True)
class Use:
    """One file imports another: under the dotted name `dotted` below the directory `root`, or relatively."""

    importer: str
    root: str
    dotted: tuple[str, ...]
    relative: bool


class Components:
    """Files in groups that are linked to each other, directly or not (union-find)."""

    def __init__(self) -> None:
        self._homes: dict[str, str] = {}

    def find(self, path: str) -> str:
        """Return the file that stands for a group."""
        while (up := self._homes.setdefault(path, path)) != path:
            self._homes[path] = self._homes[up]
            path = up
        return path

    def link(self, path: str, other: str) -> None:
        self._homes[self.find(path)] = self.find(other)


def reached(starts: Iterable[str], onward: Callable[[str], Iterable[str]]) -> list[str]:
    """Return the files to which others lead, directly or not, these included: each once, in the order of a walk."""
    todo = [*dict.fromkeys(starts)]
    seen = set(todo)
    found: list[str] = []
    while todo:
        found.append(todo.pop())
        fresh = [path for path in dict.fromkeys(onward(found[-1])) if path not in seen]
        seen.update(fresh)
        todo += fresh
    return found


class ImportIndex:
    """The project's import graph; paths are absolute strings, `texts` the overlay: contents by path."""

    def __init__(self, root: Path, files: Sequence[str], texts: Mapping[str, bytes] | None = None) -> None:
        self.root = str(root)
        self.texts = texts or {}
        self.files = frozenset(files)
        self._imported: dict[str, list[str]] = {}
        self._maybe_imported: dict[str, list[str]] = {}
        self._started: dict[str, frozenset[str]] = {}
        self._by_tail: dict[str, list[tuple[str, str]]] = {}  # (stem, file) by the last part of the stem
        for path in (f for f in files if f.endswith(".py")):
            stem = module_stem(path)
            self._by_tail.setdefault(os.path.basename(stem), []).append((stem, path))

    @cached_property
    def imports(self) -> dict[str, list[Import]]:
        """Return the imports of each file, by path."""
        return {path: imports for path, (imports, _) in self._imports_and_words.items()}

    def holding(self, word: bytes) -> set[str]:
        """Return the Python modules whose text contains a word, which must be one of WORDS."""
        return self._files_by_word.get(word, set())

    def holds(self, path: str, word: bytes) -> bool:
        """Return whether the text of a file contains a word, which must be one of WORDS."""
        return word in self._imports_and_words[path][1]

    @cached_property
    def _files_by_word(self) -> dict[bytes, set[str]]:
        found: dict[bytes, set[str]] = {}
        for path, (_, words) in self._imports_and_words.items():
            for word in words if path.endswith(".py") else ():
                found.setdefault(word, set()).add(path)
        return found

    @cached_property
    def folders_of_computed_names(self) -> dict[str, list[str]]:
        """Return by folder the files that may import what no statement names."""
        found: dict[str, list[str]] = {}
        for path, (_, words) in self._imports_and_words.items():
            if not set(COMPUTED_NAMES).isdisjoint(words):
                found.setdefault(os.path.dirname(path), []).append(path)
        return found

    @cached_property
    def _imports_and_words(self) -> dict[str, tuple[list[Import], list[bytes]]]:
        """Return for each file its imports, and which of WORDS occur in it; this reads all files once."""
        found: dict[str, tuple[list[Import], list[bytes]]] = {}
        for path in sorted(self.files):
            try:
                raw = self._whole(path)
            except OSError:
                raw = b""
            code = helper_hidden(raw)[0]  # in its place stands an import of no file
            found[path] = list(read_imports(path, raw)), [word for word in WORDS if word in code]
        return found

    def read(self, path: str) -> bytes:
        """Return the bytes of a file, or its overlay, without a helper that it holds. Raises OSError."""
        return helper_hidden(self._whole(path))[0]

    def _whole(self, path: str) -> bytes:
        text = self.texts.get(path)
        return file_io.read(path) if text is None else text

    @cached_property
    def importers(self) -> dict[str, list[Use]]:
        """Return for each file the ways in which other files import it."""
        found: dict[str, list[Use]] = {}
        for path, imports in self.imports.items():
            for item in imports:
                for target, use in self._targets(path, item):
                    if target != path:
                        found.setdefault(target, []).append(use)
        return found

    @cached_property
    def commands(self) -> dict[str, list[Use]]:
        """Return for each file how commands of an installation import it: `train = scripts.train:main` in setup.py."""
        found: dict[str, list[Use]] = {}
        for path in (path for path in self.files if os.path.basename(path) == "setup.py"):
            for module in packaging.commands(os.path.dirname(path)):
                parts = tuple(module.split("."))
                if target := self.locate(path, 0, parts):
                    found.setdefault(target[0], []).append(Use(path, target[1], parts, relative=False))
        return found

    @cached_property
    def built(self) -> frozenset[str]:
        """Return the build scripts, and the modules that only such scripts import, directly or through others."""
        named = (path for path in self.files if os.path.basename(path) in packaging.BUILD_SCRIPTS)
        scripts = {path for path in named if packaging.is_build_script(path, self.read_or_nothing(path))}
        if not scripts:
            return frozenset()

        def onward(path: str) -> list[str]:
            return [target for target in self.imported_by(path) if target not in scripts]

        others = self.files - scripts
        run = [path for path in others if path not in self.importers or self.is_package(os.path.dirname(path))]
        return frozenset(reached(scripts, onward)) - frozenset(reached(run, onward))

    def read_or_nothing(self, path: str) -> bytes:
        """Return what `read` gives, or b"" for a file that cannot be read."""
        try:
            return self.read(path)
        except OSError:
            return b""

    def imported_by(self, path: str) -> list[str]:
        """Return the files of the project that a file imports, each once."""
        if path not in self._imported:
            found = (target for item in self.imports.get(path, ()) for target, _ in self._targets(path, item))
            self._imported[path] = [*dict.fromkeys(found)]
        return self._imported[path]

    def importing(self, path: str) -> set[str]:
        """Return the files of the project that import a file."""
        return {use.importer for use in self.importers.get(path, ())}

    def may_import(self, path: str) -> list[str]:
        """Return the files that a file imports, with each that an ambiguous name may mean."""
        if path not in self._maybe_imported:
            names = (tuple(filter(None, i.module.split("."))) for i in self.imports.get(path, ()) if not i.level)
            unclear = (name for name in names if self.locate(path, 0, name) is None)
            found = [*self.imported_by(path), *(file for name in unclear for _, file in self._named(name))]
            self._maybe_imported[path] = [*dict.fromkeys(found)]
        return self._maybe_imported[path]

    @cached_property
    def _named_plainly(self) -> frozenset[tuple[str, str]]:
        """Return each folder with the modules that its files import by one name, wherever these are."""
        found = ((path, item.module) for path, imports in self.imports.items() for item in imports if not item.level)
        return frozenset((os.path.dirname(path), name) for path, name in found if name not in _INSTALLED)

    def is_named_beside(self, path: str) -> bool:
        """Return whether a file of the same folder imports a module of this one's name, which a script finds here."""
        return (os.path.dirname(path), os.path.basename(path).removesuffix(".py")) in self._named_plainly

    @cached_property
    def folders_of_scripts(self) -> frozenset[str]:
        """Return the folders whose files import each other by one name: they are run from there."""
        uses = ((os.path.dirname(path), use) for path, uses in self.importers.items() for use in uses)
        plain = ((folder, use) for folder, use in uses if not use.relative and len(use.dotted) == 1)
        return frozenset(folder for folder, use in plain if os.path.dirname(use.importer) == folder)

    @cached_property
    def folders_of_files(self) -> frozenset[str]:
        """Return the folders in which files lie."""
        return frozenset(map(os.path.dirname, self.files))

    def _targets(self, path: str, item: Import) -> Iterator[tuple[str, Use]]:
        """Yield the files of the project that an import statement may import, with how it names them."""
        parts = tuple(p for p in item.module.split(".") if p)
        inner = (*parts, item.name)
        below = self.locate(path, item.level, inner) if item.name else None
        target = self.locate(path, item.level, parts)
        # `from a import b` means the program's own folder `a`, and not a file `a.py` further up
        is_hidden = below and target and below[1] != target[1] and system.is_inside(path, below[1])
        if target and not is_hidden:
            yield target[0], Use(path, target[1], parts, bool(item.level))
        if below:
            yield below[0], Use(path, below[1], inner, bool(item.level))

    def find(self, path: str, level: int, module: str, name: str) -> str | None:
        """Return the file that `from module import name` in `path` imports: the submodule `name`, else the module."""
        parts = tuple(p for p in module.split(".") if p)
        found = self.locate(path, level, (*parts, name) if name else parts) or self.locate(path, level, parts)
        return found[0] if found else None

    def is_taken(self, path: str, name: str) -> bool:
        """Return whether another file may use `name` from the module `path`."""
        return any(self.takers(path, name))

    def takers(self, path: str, name: str) -> Iterator[str]:
        """Yield the files that may use `name` from the module `path`; none uses a name that is empty."""
        uses = self.importers.get(path, ()) if name else ()
        return (use.importer for use in uses if self._takes(use.importer, path, name))

    def _takes(self, importer: str, path: str, name: str) -> bool:
        """Return whether one importer of the module `path` may use `name` of it."""
        modules: set[str] = set()  # the last names under which the importer has the module itself
        for item in self.imports[importer]:
            is_of_it = bool(item.name) and self.find(importer, item.level, item.module, "") == path
            if is_of_it and item.name in (name, "*"):
                return True
            if not is_of_it and self.find(importer, item.level, item.module, item.name) == path:
                modules.add(item.alias or item.name or item.module.rpartition(".")[2])
        try:
            return any(f"{each}.{name}".encode() in self.read(importer) for each in modules)
        except OSError:
            return True

    def locate(self, path: str, level: int, dotted: tuple[str, ...]) -> tuple[str, str] | None:
        """Return (file, root directory) for a dotted name that `path` imports with `level` leading dots, or None.

        Among several candidates, the nearest root above `path` wins, preferably one that is no package, unless other
        imports start there. If no root is above, the result is certain only if all candidates share one.
        """
        if level:
            base = os.path.dirname(path)
            for _ in range(level - 1):
                base = os.path.dirname(base)
            return self.under(base, dotted)
        roots = self._named(dotted, path)
        here = os.path.dirname(path)
        if roots and self.is_package(here) and here in self._starting_in(path):
            module = system.joined(here, f"{dotted[0]}.py")
            if module in self.files:  # it hides a package of that name, and has no modules in it
                return (module, here) if len(dotted) == 1 else None
        nearest = self.nearest((root for root, _ in roots), here)
        best = next((item for item in roots if item[0] == nearest), None)
        best = best or (roots[0] if len({r for r, _ in roots}) == 1 else None)
        return (best[1], best[0]) if best else None

    def nearest(self, folders: Iterable[str], here: str) -> str | None:
        """Return the nearest of some folders that are above a folder, or it; preferably one that is no package."""
        above = (folder for folder in folders if here == folder or system.is_inside(here, folder))
        return max(above, key=lambda folder: (not self.is_package(folder), len(folder)), default=None)

    def _named(self, dotted: tuple[str, ...], path: str = "") -> list[tuple[str, str]]:
        """Return (root directory, file) for each file that a dotted name may mean, in the file `path` or in any."""
        if not dotted or dotted[-1] not in self._by_tail:  # most imports are of other projects' modules
            return []
        if dotted[0] == "torch":
            return []  # a folder of that name would hide what all the others need
        tail = system.joined("", *dotted)
        roots = [(stem[: -len(tail)], file) for stem, file in self._by_tail[dotted[-1]] if stem.endswith(tail)]
        if dotted[0] in _INSTALLED:  # `import numpy` in a package does not mean its numpy.py, nor another folder's
            here = os.path.dirname(path)
            around = [(root, c) for root, c in roots if here == root or system.is_inside(here, root)]
            return [(root, c) for root, c in around if not self.is_package(root) or root in self._starting_in(path)]
        return roots

    def _starting_in(self, path: str) -> frozenset[str]:
        """Return the packages around a file in which its absolute imports of the project's own modules start, alone."""
        if path not in self._started:
            here = os.path.dirname(path)
            named = {tuple(i.module.split(".")) for i in self.imports.get(path, ()) if i.module and not i.level}
            named |= {dotted[:1] for dotted in named}  # a folder of modules may have no file of its own
            found = ({r for r, _ in self._named(dotted)} for dotted in sorted(named) if dotted[0] not in _INSTALLED)
            alone = (min(roots) for roots in found if len(roots) == 1)
            around = (root for root in alone if here == root or system.is_inside(here, root))
            self._started[path] = frozenset(filter(self.is_package, around))
        return self._started[path]

    def neighbour_for_paths(self, path: str, dotted: tuple[str, ...]) -> str:
        """Return the file beside `path` that it imports by this name, if that speaks of sys.path; else ""."""
        at = self.locate(path, 0, dotted) if dotted else None
        if at is None or os.path.dirname(at[0]) != os.path.dirname(path):
            return ""
        return at[0] if any(self.holds(at[0], word) for word in SEARCH_PATHS) else ""

    def is_package(self, directory: str) -> bool:
        """Return whether a folder has an __init__.py.

        A folder that installs a package of its own name is none: names start in it, whatever lies beside its setup.py.
        """
        if system.joined(directory, "__init__.py") not in self.files:
            return False
        inner = system.joined(directory, os.path.basename(directory), "__init__.py")
        return inner not in self.files or system.joined(directory, "setup.py") not in self.files

    def under(self, base: str, dotted: tuple[str, ...]) -> tuple[str, str] | None:
        """Return (file, root directory) for a dotted name below the folder `base`, or None."""
        stem = system.joined(base, *dotted)
        files = f"{stem}.py", system.joined(stem, "__init__.py")
        return next(((path, base) for path in files if path in self.files), None)

    @cached_property
    def own_folders(self) -> frozenset[str]:
        """Return the first names of modules in folders of the project that some file imports.

        Of a module that is not here, as it is compiled or gone, it is that of a package which the project installs.
        """
        uses = (use for found in self.importers.values() for use in found)
        here = {use.dotted[0] for use in uses if not use.relative and len(use.dotted) > 1}
        named = ((path, item) for path, imports in self.imports.items() for item in imports if not item.level)
        others = {(path, top) for path, item in named if (top := item.module.partition(".")[0]) != item.module}
        return frozenset(here.union(top for path, top in others if top not in here and self._installs(path, top)))

    def _installs(self, path: str, name: str) -> bool:
        """Return whether a name in a file means a package that the project brings along where it is installed."""
        found = self.locate(path, 0, (name,))
        return found is not None and packaging.installed_package(found[1], (name,)) is not None

    @cached_property
    def tops(self) -> dict[str, str]:
        """Return the outermost packages that are imported by absolute names, each with the folder where names start.

        Relative imports reach no higher. A folder above the project counts where no name starts within it: a checkout
        may have any name.
        """
        uses = (u for found in self.importers.values() for u in found if not u.relative and u.dotted)
        names = sorted({(u.root, u.dotted[:n]) for u in uses for n in range(1, len(u.dotted) + 1)}, reverse=True)
        names.sort(key=lambda name: name[0] == self.root or system.is_inside(name[0], self.root))
        tops = {system.joined(root, *dotted): root for root, dotted in names if not self._is_within(root, dotted[:-1])}
        return {top: root for top, root in tops.items() if self.is_package(top)}

    @cached_property
    def named_with_folder(self) -> dict[str, str]:
        """Return the folders that imports name before a module of theirs, each with the folder where names start."""
        found: dict[str, set[str]] = {}
        for target, uses in self.importers.items():
            roots = {use.root for use in uses if not use.relative and len(use.dotted) > 1}
            found.setdefault(os.path.dirname(target), set()).update(roots)
        return {
            folder: min(roots) for folder, roots in found.items() if len(roots) == 1 and not self.is_package(folder)
        }

    @cached_property
    def named_folders(self) -> frozenset[tuple[str, str]]:
        """Return the folders below those where names start, after these, in which files are imported by such names."""
        uses = {(use.root, target) for target, found in self.importers.items() for use in found if not use.relative}
        named = ((root, system.dotted(target, root)) for root, target in uses)
        return frozenset((root, system.joined(root, *names[:n])) for root, names in named for n in range(1, len(names)))

    @cached_property
    def between_tops(self) -> Counter[tuple[str, str]]:
        """Return how many times files of one of the outermost packages import from one by its name, or from itself."""
        return Counter((own, top) for own, top, _ in self.uses_of_tops if own)

    @cached_property
    def beside_tops(self) -> dict[str, set[str]]:
        """Return for each of the outermost packages the files beside it that import from it by its name."""
        found: dict[str, set[str]] = {}
        for _, top, importer in self.uses_of_tops:
            if os.path.dirname(importer) == self.tops[top]:
                found.setdefault(top, set()).add(importer)
        return found

    @cached_property
    def uses_of_tops(self) -> list[tuple[str, str, str]]:
        """Return each import by name from an outermost package: the importer's own or "", that one, the importer."""
        named = ((top, uses) for target, uses in self.importers.items() if (top := self.top_of(target)))
        return [(self.top_of(u.importer), top, u.importer) for top, uses in named for u in uses if not u.relative]

    def top_of(self, path: str) -> str:
        """Return the outermost package that a file stands in, or ""."""
        return next((top for top in self.tops if system.is_inside(path, top)), "")

    def _is_within(self, root: str, dotted: tuple[str, ...]) -> bool:
        """Return whether one of a module's folders below `root` is a package."""
        return any(self.is_package(system.joined(root, *dotted[:n])) for n in range(1, len(dotted) + 1))


def module_stem(path: str) -> str:
    """Return a module's path as imports name it: without ".py"; for a package, its folder."""
    return os.path.dirname(path) if os.path.basename(path) == "__init__.py" else path.removesuffix(".py")


_REST = rb"(?:\\\r?\n|[^\n;])*"  # the rest of a line, with its continuations after a backslash
_NAMES = rb"\((?:[^)#]|#[^\n]*)*\)|" + _REST
_IMPORT = re.compile(
    rb"(?:\n|(?<=\));)[ \t]*"
    rb"(?:from[ \t]+(\.*)[ \t]*([\w.]*)[ \t]+import[ \t]+(" + _NAMES + rb")|import[ \t]+(" + _REST + rb"))"
)
_NOISE = re.compile(rb"#[^\n]*|[()\\;\"]")
_JSON_LINE = re.compile(rb"[\n\[,:]\s*\"( *(?:from|import) [^\"\\]*)(\"?)")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name ("" for `import module`), with the number of leading dots, and its `as` name."""

    level: int
    module: str
    name: str
    alias: str = ""

    @property
    def bound(self) -> str:
        """Return the name that this import binds."""
        return self.alias or self.name or self.module.partition(".")[0]

    @property
    def qualified(self) -> str:
        """Return the module that `import module` binds: with an alias the module itself, else its top package."""
        return self.module if self.alias else self.module.partition(".")[0]


def read_imports(path: str, text: bytes | None = None) -> Iterator[Import]:
    """Yield the imports of one file, or of `text` if it is given; a file that cannot be read has none."""
    try:
        raw = b"\n" + (file_io.read(path) if text is None else text)
    except OSError:
        return
    if path.endswith(".ipynb"):  # the lines of a notebook are JSON strings; only import lines are of interest
        raw = _JSON_LINE.sub(lambda m: b"\n" + m[1] + b"\n" * bool(m[2]), raw).replace(b"\\n", b"\n")
    for dots, module, names, plain in _IMPORT.findall(raw):
        words = [part.split() for part in _NOISE.sub(b" ", plain or names).decode(errors="replace").split(",")]
        for word in filter(None, words):
            alias = word[2] if len(word) > 2 and word[1] == "as" else ""
            if plain:
                yield Import(0, word[0], "", alias)
            else:
                yield Import(len(dots), module.decode(errors="replace"), word[0], alias)


_STARTED = ("__init__", "__call__", "forward")  # what runs of a class whose name is called
_DEPTH = 3  # folders between the project's and a program, with its own name
_LEARNS, _STEPS = "backward", "step"  # the methods of losses and optimizers without which nothing is trained
_LOADED = (*packaging.BUILD_SCRIPTS, "hubconf.py")  # by tools that look for these names
_FITS = ("fit", "train")  # methods of trainers, which learn; `model.train()` takes no data


@dataclass(slots=True)
class _File:
    """One file calls these names: at its top, and in each function.

    `is_program`: it asks whether it is started. `acts`: it does something at its top. `demands` counts the arguments
    that its command line must have.
    """

    calls: set[str] = field(default_factory=set)
    functions: dict[str, set[str]] = field(default_factory=dict)
    is_program: bool = False
    acts: bool = False
    uses_torch: bool = False
    is_elsewhere: bool = False  # a runner of tests starts it, or `python -m`, as it imports with dots
    demands: int = 0

    def imports(self, module: str) -> None:
        top = module.partition(".")[0]
        self.uses_torch |= top == "torch"
        self.is_elsewhere |= top in ("pytest", "unittest")


class Programs:
    """The programs among the Python files of a project."""

    def __init__(self, index: ImportIndex) -> None:
        self.index = index
        self._files: dict[str, _File] = {}

    def first(self) -> str:
        """Return the program to start first, of the project's folder or else of one below it; "" if there is none.

        One that trains and saves goes before one that only trains or builds what could be trained, this before one that
        uses a model, then a program before another that starts it, as on a cluster, and one that asks for less on its
        command line before another.
        """
        ranked = {rank[-1]: rank for rank in self._ranked()}

        def place(path: str) -> tuple[object, ...]:
            trains, depth, lacks, *others = ranked[path]
            as_good = (ranked[other] for other in self.index.imported_by(path) if other in ranked)
            is_launcher = any((other[0], other[2]) <= (trains, lacks) for other in as_good)
            return trains, depth, lacks, is_launcher, *others

        return min(ranked, key=place, default="")

    def reads(self, program: str) -> list[str]:
        """Return what a program runs: its own file, then those that it imports, the nearest first."""
        found, seen = [program], {program}
        for path in found:
            fresh = [other for other in self.index.imported_by(path) if other not in seen]
            seen.update(fresh)
            found += fresh
        return found

    def _ranked(self) -> Iterator[tuple[bool, int, int, int, int, str]]:
        """Yield the programs that use torch, each after what puts it behind others."""
        for path in sorted(path for path in self.index.files if path.endswith(".py")):
            depth = len(Path(os.path.relpath(path, self.index.root)).parts)
            if depth > _DEPTH:
                continue
            file = self._file(path)
            is_program = file.is_program or (file.acts and path not in self.index.importers)
            if not is_program or file.is_elsewhere or os.path.basename(path) in _LOADED:
                continue
            parts = [self._file(each) for each in reached([path], self.index.imported_by)]
            if any(part.uses_torch for part in parts):
                done = _names_reached(file, parts)
                trains, saves = _LEARNS in done, any(name.startswith("save") for name in done)
                lacks = (_STEPS not in done) + (not saves) if trains else 2
                yield not trains, depth, lacks, file.demands, -len(parts), path

    def _file(self, path: str) -> _File:
        if path not in self._files:
            try:
                self._files[path] = _read(tree_of(path, self.index.read(path)))
            except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
                self._files[path] = _File()
        return self._files[path]


def of_project(root: Path, paths: Sequence[Path], settings: Settings) -> Programs:
    """Return the programs at and below some paths."""
    found = discovery.discover(paths, settings)
    files = (str(item.path) for item in found if not item.error and not item.skipped_reason)
    return Programs(ImportIndex(root, sorted(file for file in files if file.endswith(".py"))))


def _names_reached(program: _File, parts: Iterable[_File]) -> list[str]:
    """Return what a program calls, directly or in the functions that it calls, by the names in its files."""
    named: dict[str, set[str]] = {}
    for part in parts:
        for name, inside in part.functions.items():
            named.setdefault(name, set()).update(inside)
    return reached(program.calls, lambda name: named.get(name, ()))


def _read(tree: ast.Module) -> _File:
    found = _File()
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                _look(statement, found, [])
                for each in statement.decorator_list:
                    _look(each, found, [found.calls])
            case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Assign() | ast.AnnAssign():
                _look(statement, found, [found.calls])
            case ast.If(test) if any(isinstance(n, ast.Constant) and n.value == "__main__" for n in walk(test)):
                found.is_program = True
                _look(statement, found, [found.calls])
            case _:
                _look(statement, found, [found.calls])
                found.acts |= isinstance(statement, (ast.Expr, ast.For, ast.While, ast.With))
    return found


def _look(top: ast.AST, found: _File, around: list[set[str]]) -> None:
    """Note what a node says, and what it calls also in the sets of all that is `around` it."""
    stack = [(top, around)]
    while stack:
        node, callers = stack.pop()
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                callers = [*callers, found.functions.setdefault(name, set())]
            case ast.ClassDef(name, body=body):
                methods = {each.name for each in body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
                found.functions.setdefault(name, set()).update(methods.intersection(_STARTED))
            case ast.Import(names):
                for alias in names:
                    found.imports(alias.name)
            case ast.ImportFrom(module, names, level):
                for alias in names:
                    if alias.asname:  # who calls it by its name here calls what it is there
                        found.functions.setdefault(alias.asname, set()).add(alias.name)
                if level or not module:
                    found.is_elsewhere = True
                else:
                    found.imports(module)
            case ast.Call(func, args, keywords):
                for names_called in callers:
                    names_called.update(_called(node))
                if isinstance(func, ast.Attribute) and func.attr == "add_argument":
                    found.demands += _is_demanded(args, keywords)
        stack += [(child, callers) for child in children(node)]


def _is_demanded(args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    """Return whether an argument of a command line must be given: a positional one, or one that is required."""
    given = {keyword.arg: keyword.value for keyword in keywords}
    if isinstance(given.get("required"), ast.Constant):
        return bool(given["required"].value)  # type: ignore[attr-defined]
    name = args[0].value if args and isinstance(args[0], ast.Constant) else "-"
    nargs = given.get("nargs")
    is_free = isinstance(nargs, ast.Constant) and nargs.value in ("?", "*")
    return isinstance(name, str) and not name.startswith("-") and not is_free and "default" not in given


def _called(call: ast.Call) -> Iterator[str]:
    """Yield the names of what is called and handed to the call; of a trainer's `fit(data)` also what it does."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    yield from (name for each in (call.func, *given) if (name := last_name(each)))
    if last_name(call.func) in _FITS and any(not isinstance(value, ast.Constant) for value in given):
        yield from (_LEARNS, _STEPS)
