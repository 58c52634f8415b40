"""Who imports whom inside a project, and where the helper goes for each file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchmigrate import regular
from torchmigrate.import_lines import Import, read_imports
from torchmigrate.installable import ASIDE, is_installable

# what default_type.py and precision.py ask of all files
WORDS = SETTER, *TF32 = b"set_default_tensor_type", b"allow_tf32", b"float32_matmul_precision"
_EITHER = "try:\n    from . import {0}\nexcept ImportError:  # run as a script\n    import {0}"


@dataclass(frozen=True, slots=True)
class Use:
    """How one file imports another: as `dotted` under `root`, or relatively."""

    importer: str
    root: str
    dotted: tuple[str, ...]
    relative: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the helper lies for a file, and the statement that imports it there."""

    path: str
    statement: str


class ImportIndex:
    """The project's import graph. Paths are strings, absolute. `texts` stand in for what is on disk."""

    def __init__(self, root: Path, files: Sequence[str], texts: Mapping[str, bytes] | None = None) -> None:
        self.root = str(root)
        self.texts = texts or {}
        self.files = frozenset(files)
        self._by_tail: dict[str, list[tuple[str, str]]] = {}  # (stem, file) by the last part of the stem
        for path in (f for f in files if f.endswith(".py")):
            stem = _stem(path)
            self._by_tail.setdefault(os.path.basename(stem), []).append((stem, path))

    @cached_property
    def imports(self) -> dict[str, list[Import]]:
        return {path: imports for path, (imports, _) in self._seen.items()}

    def holding(self, word: bytes) -> set[str]:
        """The modules whose text has one of WORDS."""
        return {path for path, (_, words) in self._seen.items() if word in words and path.endswith(".py")}

    @cached_property
    def _seen(self) -> dict[str, tuple[list[Import], list[bytes]]]:
        """Of each file its imports and those of WORDS that it has. All are read for this, once."""
        found: dict[str, tuple[list[Import], list[bytes]]] = {}
        for path in sorted(self.files):
            try:
                raw = self.read(path)
            except OSError:
                raw = b""
            found[path] = list(read_imports(path, raw)), [word for word in WORDS if word in raw]
        return found

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises OSError."""
        text = self.texts.get(path)
        return regular.read(path) if text is None else text

    @cached_property
    def importers(self) -> dict[str, list[Use]]:
        """For each file, how others import it."""
        found: dict[str, list[Use]] = {}
        for path, imports in self.imports.items():
            for item in imports:
                for target, use in self._targets(path, item):
                    if target != path:
                        found.setdefault(target, []).append(use)
        return found

    def imported_by(self, path: str) -> list[str]:
        """The files of the project that a file imports."""
        return [target for item in self.imports.get(path, ()) for target, _ in self._targets(path, item)]

    def _targets(self, path: str, item: Import) -> Iterator[tuple[str, Use]]:
        parts = tuple(p for p in item.module.split(".") if p)
        for dotted in dict.fromkeys((parts, (*parts, item.name) if item.name else parts)):
            target = self._locate(path, item.level, dotted)
            if target:
                yield target[0], Use(path, target[1], dotted, bool(item.level))

    def find(self, path: str, level: int, module: str, name: str) -> str | None:
        parts = tuple(p for p in module.split(".") if p)
        found = self._locate(path, level, (*parts, name) if name else parts) or self._locate(path, level, parts)
        return found[0] if found else None

    def is_taken(self, path: str, name: str) -> bool:
        """Whether another file may use `name` as `path` binds it."""
        return any(self._takes(use.importer, path, name) for use in self.importers.get(path, ()))

    def _takes(self, importer: str, path: str, name: str) -> bool:
        for item in self.imports[importer]:
            if item.name in (name, "*") and self.find(importer, item.level, item.module, "") == path:
                return True
        try:
            return f".{name}".encode() in self.read(importer)  # `import common`, then `common.name`
        except OSError:
            return True

    def _locate(self, path: str, level: int, dotted: tuple[str, ...]) -> tuple[str, str] | None:
        """(file, root directory) that `dotted` means when `path` imports it."""
        if level:
            base = os.path.dirname(path)
            for _ in range(level - 1):
                base = os.path.dirname(base)
            return self._under(base, dotted)
        if not dotted or dotted[-1] not in self._by_tail:  # most imports are of other projects
            return None
        tail = "/" + "/".join(dotted)
        roots = [(stem[: -len(tail)], file) for stem, file in self._by_tail[dotted[-1]] if stem.endswith(tail)]
        here = os.path.dirname(path)
        if dotted[0] in sys.stdlib_module_names:  # pkg/logging.py is not what `import logging` means in pkg
            roots = [(root, c) for root, c in roots if not self._is_package(root)]
        above = [(root, c) for root, c in roots if here == root or here.startswith(root + "/")]
        best = max(above, key=lambda item: (not self._is_package(item[0]), len(item[0])), default=None)
        best = best or (roots[0] if len({r for r, _ in roots}) == 1 else None)
        return (best[1], best[0]) if best else None

    def _is_package(self, directory: str) -> bool:
        return f"{directory}/__init__.py" in self.files

    def _under(self, base: str, dotted: tuple[str, ...]) -> tuple[str, str] | None:
        stem = "/".join((base, *dotted))
        return next(((p, base) for p in (f"{stem}.py", f"{stem}/__init__.py") if p in self.files), None)

    # ---- where the helper goes
    def placement(self, path: str, helper: str) -> Placement:
        """Beside scripts; in the package for packages; at the root that the project's own imports prove."""
        directory = os.path.dirname(path)
        uses = self.importers.get(path, [])
        own = self.imports.get(path, [])
        in_package = self._is_package(directory)
        if in_package and self._is_relative(directory, own, uses):
            return self._relative(directory, own, helper)
        absolute = [
            u for u in uses if (not u.relative and len(u.dotted) > 1) or (u.dotted and path.endswith("__init__.py"))
        ]
        foreign = self._package_used(path, own, directory)
        if foreign and (not absolute or (is_installable(foreign[0]) and not is_installable(absolute[0].root))):
            return self._absolute(*foreign, helper)
        if absolute:
            return self._absolute(absolute[0].root, absolute[0].dotted[0], helper)
        if self._has_siblings(own, directory):
            return Placement(f"{directory}/{helper}.py", f"import {helper}")
        if in_package and not uses:
            return self._of_package(path, own, directory, helper)
        if all(u.relative for u in uses) and not self._runs_itself(path):
            if top := self._installed_above(directory):
                return self._absolute(*os.path.split(top), helper)
            if uses:
                return self._relative(directory, own, helper)
        return Placement(f"{directory}/{helper}.py", f"import {helper}")

    def _of_package(self, path: str, own: list[Import], directory: str, helper: str) -> Placement:
        """For a file that nobody here imports: a module of its package for others, a script in it, or both."""
        top = directory
        while self._is_package(os.path.dirname(top)):
            top = os.path.dirname(top)
        installable = is_installable(os.path.dirname(top))
        if self._runs_itself(path):
            statement = _EITHER if installable or top in self._tops else "import {0}"
            return Placement(f"{directory}/{helper}.py", statement.format(helper))
        if top in self._tops and not installable:
            return self._absolute(*os.path.split(top), helper)
        return self._relative(directory, own, helper)

    def _installed_above(self, directory: str) -> str | None:
        """The package to install that holds a folder without an __init__."""
        while directory.startswith(f"{self.root}/"):
            above, name = os.path.split(directory)
            if self._is_package(directory) and is_installable(above):
                return None if ASIDE.fullmatch(name) else directory
            directory = above
        return None

    def _has_siblings(self, own: list[Import], directory: str) -> bool:
        """Whether it imports what lies beside it by the name alone, as scripts do."""
        names = {i.module.partition(".")[0] for i in own if not i.level and i.module} - sys.stdlib_module_names
        return any(self._under(directory, (name,)) for name in names)

    def _runs_itself(self, path: str) -> bool:
        try:
            raw = self.read(path)
        except OSError:
            return False
        return any(sign in raw for sign in (b"__main__", b"argparse", b"sys.argv"))

    def _is_relative(self, directory: str, own: list[Import], uses: list[Use]) -> bool:
        """Whether a file of a package imports its neighbours with dots, or is imported so and shows no other habit."""
        if any(i.level for i in own):
            return True
        absolute = any(
            i.module.split(".")[0] == os.path.basename(top)
            for i in own
            for top in self._tops
            if directory.startswith(top)
        )
        return not absolute and any(u.relative for u in uses)

    @cached_property
    def _tops(self) -> frozenset[str]:
        """Folders of packages that are imported by their absolute names: the tops that relative imports may reach."""
        uses = (u for found in self.importers.values() for u in found if not u.relative and u.dotted)
        tops = {f"{u.root}/{u.dotted[0]}" for u in uses}
        return frozenset(top for top in tops if self._is_package(top))

    def _relative(self, directory: str, own: list[Import], helper: str) -> Placement:
        """The package's top, as far as absolute imports or the file's own dots prove that it is one."""
        above = [directory]
        while self._is_package(os.path.dirname(above[-1])) and above[-1] != self.root:
            above.append(os.path.dirname(above[-1]))
        reached = min(max((i.level for i in own), default=1), len(above))
        proven = [n for n, folder in enumerate(above, 1) if folder in self._tops]
        dots = max(proven, default=max(reached, 1))
        if proven and self._is_one_of_many(above[dots - 1]):
            return self._absolute(*os.path.split(above[dots - 1]), helper)
        return Placement(f"{above[dots - 1]}/{helper}.py", f"from {'.' * dots} import {helper}")

    def _is_one_of_many(self, top: str) -> bool:
        """Whether packages lie beside it that are run from their folder, too: they share the helper there."""
        root = os.path.dirname(top)
        return not is_installable(root) and any(os.path.dirname(t) == root for t in self._tops - {top})

    def _absolute(self, root: str, package: str, helper: str) -> Placement:
        if self._is_package(f"{root}/{package}") and is_installable(root):
            return Placement(f"{root}/{package}/{helper}.py", f"from {package} import {helper}")
        return Placement(f"{root}/{helper}.py", f"import {helper}")

    def _package_used(self, path: str, own: list[Import], directory: str) -> tuple[str, str] | None:
        """A package of the project that a script imports from elsewhere than its own folder, or that is installed."""
        for item in own:
            parts = tuple(p for p in item.module.split(".") if p)
            located = None if item.level else self._locate(path, 0, parts)
            if located is None or not parts:
                continue
            root = located[1]
            above = directory.startswith(f"{root}/")
            if self._is_package(f"{root}/{parts[0]}") and (above or is_installable(root)):
                return root, parts[0]
        return None


def _stem(path: str) -> str:
    """A module's path as imports spell it: without ".py", a package's is its folder."""
    return os.path.dirname(path) if path.endswith("/__init__.py") else path.removesuffix(".py")
