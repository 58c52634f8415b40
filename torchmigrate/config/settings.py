"""The settings of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path

from torchmigrate.base import system
from torchmigrate.base.globs import Globs

EXCLUDE = (
    *(".git", ".hg", ".svn", ".bzr", "__pycache__", ".ipynb_checkpoints", "site-packages", "node_modules"),
    *(".venv", "venv", ".tox", ".nox", ".eggs", ".direnv", ".pyenv", "__pypackages__", "buck-out"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".pytype", ".hypothesis"),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one run; `root` holds the nearest pyproject.toml, else is the paths' common parent."""

    root: Path = Path()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    rule_paths: tuple[Path, ...] = ()
    torch: str | None = None
    runtime: str = "vendor"
    style: str = "auto"
    helper: str | None = None
    helper_map: Mapping[str, str] = field(default_factory=dict)
    torch_libraries: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    no_cache: bool = False

    def ignored_in(self, path: Path) -> tuple[str, ...]:
        """Return the names of packs and rules that `per-file-ignores` switches off in this file."""
        return tuple(name for names in self.ignores_of(path).values() for name in names)

    def ignores_of(self, path: Path) -> Mapping[str, tuple[str, ...]]:
        """Return the entries of `per-file-ignores` for this file; `!glob` applies where it does not match."""
        if not self.per_file_ignores:
            return {}
        inside = system.relative(path, self.root)
        return {glob: names for glob, names in self.per_file_ignores.items() if _applies_to(glob, inside)}


def _applies_to(glob: str, inside: str) -> bool:
    return bool(_compiled(glob.removeprefix("!")).match(inside)) is not glob.startswith("!")


@cache
def _compiled(glob: str) -> Globs:
    return Globs((glob,))


class Runtime(str, Enum):
    """The setting says where the helper comes from."""

    VENDOR = "vendor"
    PACKAGE = "package"
    INLINE = "inline"


class Style(str, Enum):
    """The style says whose functions rewritten code calls."""

    AUTO = "auto"
    HELPER = "helper"
    NATIVE = "native"
