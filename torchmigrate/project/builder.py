"""Facts about a whole project, from its paths and what its files say, before any file is rewritten."""

from __future__ import annotations

import ast
import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.text import UserError
from torchmigrate.config.settings import Settings
from torchmigrate.project import discovery, helper_file
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.helper_file import MARKER, NAMES
from torchmigrate.source import notebook
from torchmigrate.torch_api import names

HELPER_FLOOR = (2, 1)
NATIVE_FLOOR = (2, 9)


def facts(
    paths: Sequence[Path], inside: list[str], texts: list[bytes], settings: Settings, standing_in: Mapping[str, bytes]
) -> tuple[ProjectContext, list[str]]:
    """What rules may know, and what is to be said of how it was found. `texts` are those of files with work."""
    root = project_root(paths)
    notes = []
    floor = settings.torch
    if floor is None and (inferred := torch_floor(root)):
        floor = inferred[0]
        notes.append(f"torch {floor} inferred from {inferred[1]}")
    own = helper_file.load(settings, inside)
    if own is None and (names.version_of(floor) or HELPER_FLOOR) < HELPER_FLOOR:
        notes.append("the helper needs torch >=2.1, which is more than this project asks for: raise the floor there")
    known = ProjectContext(
        root=root,
        settings=settings,
        files=tuple(inside),
        cuda_classes=frozenset().union(*map(cuda_classes, texts)),
        mentions_cuda=any(b"cuda" in raw for raw in texts),
        helper=helper_file.helper_name(inside, texts, standing_in),
        torch=floor,
        own=own,
        texts=standing_in,
    )
    return known, notes


def refuse_old_torch(floor: str | None, notes: Sequence[str]) -> None:
    """Raises UserError where `torch.accelerator` may not be there."""
    if (names.version_of(floor) or HELPER_FLOOR) >= NATIVE_FLOOR:
        return
    asks = f"this project asks for torch {floor}" if floor else "nothing says which torch this project asks for"
    where = next((f" ({note.rpartition(' ')[2]})" for note in notes if " inferred from " in note), "")
    raise UserError(
        f"--style native needs torch >=2.9; {asks}{where}",
        "raise the floor there, or pass --torch '>=2.9'; --style helper runs from torch 2.1 on",
    )


def project_root(paths: Sequence[Path]) -> Path:
    """The folder that was named; for single files, the nearest one that looks like a project."""
    resolved = [p.resolve() for p in paths]
    base = Path(os.path.commonpath(resolved)) if resolved else Path.cwd()
    if not base.is_dir():
        base = base.parent
        marks = (".git", "pyproject.toml", "setup.py", "setup.cfg")
        base = next((up for up in (base, *base.parents) if any((up / mark).exists() for mark in marks)), base)
    while (base / "__init__.py").exists() and base.parent != base:
        base = base.parent
    return base


def whole_project(paths: Sequence[Path], found: Sequence[discovery.DiscoveredFile], settings: Settings) -> list[str]:
    """All Python files of the project, also those that this run was not asked to rewrite."""
    root = project_root(paths)
    listed = [str(f.path) for f in found if f.skipped_reason is None and f.error is None and not f.text]
    if all(p.resolve() == root for p in paths):
        return listed
    around = discovery.discover([root], replace(settings, root=root)) if root.is_dir() else []
    return sorted({*(str(f.path) for f in around if f.skipped_reason is None), *listed})


_DEF_CUDA = re.compile(rb"\n[ \t]+def cuda\(")


def cuda_classes(raw: bytes) -> set[str]:
    """Classes in a file that define `cuda()` themselves."""
    if not _DEF_CUDA.search(raw):
        return set()
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        tree = ast.parse(raw)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    classes = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    return {c.name for c in classes if any(isinstance(f, ast.FunctionDef) and f.name == "cuda" for f in c.body)}


def telling(paths: Iterable[str], has_work: Callable[[bytes], bool]) -> Iterator[bytes]:
    """The texts of files that this run does not rewrite, where facts are made of what they say."""
    for path in sorted(paths):
        try:
            raw = file_io.read(path)
        except OSError:
            continue
        mentions = b"cuda" in raw or NAMES[0].encode() in raw  # most do not: cheaper than to look for work
        if mentions and not raw.startswith(MARKER) and has_work(raw):
            yield code(path, raw)


def code(path: str, raw: bytes) -> bytes:
    """The Python of a file: of a notebook, its cells."""
    if not path.endswith(".ipynb"):
        return raw
    try:
        return notebook.split(raw).source.utf8
    except notebook.UnreadableNotebook:
        return b""


_FLOOR = re.compile(r"""["']?\btorch\s*(?:>=|==|~=|>)\s*(\d{1,9}\.\d{1,9})(?!\d)""")


def torch_floor(root: Path) -> tuple[str, str] | None:
    """(`>=X.Y`, the file and line that say so) from the project's own dependencies."""
    for name in ("pyproject.toml", "setup.cfg", "setup.py", *sorted(p.name for p in root.glob("requirements*.txt"))):
        try:
            text = file_io.text(root / name)
        except OSError:
            continue
        if found := _FLOOR.search(text):
            return f">={found.group(1)}", f"{name}:{text.count(chr(10), 0, found.end()) + 1}"
    return None
