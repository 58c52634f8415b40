from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.project import process_facts
from torchmigrate.project.helper_file import PACKAGED, ProjectHelper
from torchmigrate.project.import_graph import ImportIndex
from torchmigrate.project.process_facts import UnderDefault
from torchmigrate.syntax.resolver import Resolver
from torchmigrate.syntax.scope import Scope, build_scopes
from torchmigrate.torch_api.names import canonical, version_of

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings


@dataclass
class ProjectContext:
    """What rules may know about the project around a file. Sent to workers; what is derived is derived there."""

    root: Path
    settings: Settings
    files: tuple[str, ...] = ()
    cuda_classes: frozenset[str] = frozenset()
    mentions_cuda: bool = True
    helper: str = "accel"
    torch: str | None = None
    own: ProjectHelper | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)  # by path, of files that are not on disk as they are read
    fixing: frozenset[str] | None = None  # packs whose fixes are applied; None: all (split.py)
    accepted: Mapping[str, frozenset[tuple[str, int]]] | None = None  # by path: (rule, start); None: all (choices.py)
    _exports: dict[Path, Mapping[str, str]] = field(default_factory=dict, compare=False, repr=False)
    _scopes: dict[str, Scope | None] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def index(self) -> ImportIndex:
        return ImportIndex(self.root, self.files, self.texts)

    @cached_property
    def under_default(self) -> UnderDefault:
        """Which files run with a CUDA tensor type as the default; all files are read, once a rule asks."""
        return process_facts.files_under_default(self.index)

    @cached_property
    def old_precision(self) -> Mapping[str, tuple[str, ast.expr]]:
        """For each file, an old switch for TF32 (its file and place) in the same process; read once a rule asks."""
        return process_facts.old_precision_by_file(self.index)

    @cached_property
    def of_own_helper(self) -> frozenset[str]:
        """The project's own helper and all files that it imports: none of them can import it."""
        found: set[str] = set()
        stack = [self.own.path] if self.own else []
        while stack:
            path = stack.pop()
            if path not in found:
                found.add(path)
                stack += self.index.imported_by(path)
        return frozenset(found)

    def is_helper(self, qualified: str) -> bool:
        """Whether an import means the vendored helper (or the packaged one)."""
        return qualified == PACKAGED or qualified.rpartition(".")[2] == self.helper

    def reexport(self, path: Path, level: int, name: str, attribute: str) -> str | None:
        """What `from name import attribute` means where that module of the project imports it from elsewhere."""
        if not self.files:
            return None
        target = self.index.find(str(path), level, name, "")
        if target is None:
            return None
        found = self._exported(Path(target)).get(attribute)
        return found if found and self._is_certain(target, attribute, found) else None

    def _exported(self, path: Path) -> Mapping[str, str]:
        """What a module imports from torch, by the name it gives it; read from its import lines alone."""
        if path not in self._exports:
            found = self.index.imports.get(str(path), ())
            ours = [i for i in found if not i.level and i.module.partition(".")[0] == "torch"]
            self._exports[path] = {i.bound: f"{i.module}.{i.name}" if i.name else i.qualified for i in ours}
        return self._exports[path]

    def _is_certain(self, target: str, name: str, qualified: str) -> bool:
        """Whether the module binds the name to that alone: no fallback, no function of the same name."""
        if target not in self._scopes:
            try:
                self._scopes[target] = build_scopes(ast.parse(self.index.read(target))).module
            except (OSError, SyntaxError, ValueError, RecursionError):
                self._scopes[target] = None
        scope = self._scopes[target]
        return scope is not None and Resolver().dotted(name, scope) == canonical(qualified)

    def is_native(self, spec: str | None) -> bool:
        """Whether rewrites speak in torch's own words, and the project's torch has these."""
        return self.settings.style == "native" and self.torch_at_least(spec)

    def torch_at_least(self, spec: str | None) -> bool:
        """Whether the project's torch floor is at or above `>=X.Y`."""
        wanted, floor = version_of(spec), version_of(self.torch)
        return wanted is None or (floor is not None and floor >= wanted)
