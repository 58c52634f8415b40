"""Facts about a whole project, from its paths and what its files say, before any file is rewritten."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torchmigrate import files, own_helper, project
from torchmigrate.config import Settings
from torchmigrate.errors import UserError
from torchmigrate.project import Facts

HELPER_FLOOR = (2, 1)
NATIVE_FLOOR = (2, 9)


def facts(
    paths: Sequence[Path], inside: list[str], texts: list[bytes], settings: Settings, standing_in: Mapping[str, bytes]
) -> tuple[Facts, list[str]]:
    """What rules may know, and what is to be said of how it was found. `texts` are those of files with work."""
    root = project_root(paths)
    notes = []
    floor = settings.torch
    if floor is None and (inferred := project.torch_floor(root)):
        floor = inferred[0]
        notes.append(f"torch {floor} inferred from {inferred[1]}")
    own = own_helper.load(settings, inside)
    if own is None and (project.version_of(floor) or HELPER_FLOOR) < HELPER_FLOOR:
        notes.append("the helper needs torch >=2.1, which is more than this project asks for: raise the floor there")
    known = Facts(
        root=root,
        settings=settings,
        files=tuple(inside),
        cuda_classes=frozenset().union(*map(project.cuda_classes, texts)),
        mentions_cuda=any(b"cuda" in raw for raw in texts),
        helper=project.helper_name(inside, texts, standing_in),
        torch=floor,
        own=own,
        texts=standing_in,
    )
    return known, notes


def refuse_old_torch(floor: str | None, notes: Sequence[str]) -> None:
    """Raises UserError where `torch.accelerator` may not be there."""
    if (project.version_of(floor) or HELPER_FLOOR) >= NATIVE_FLOOR:
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


def whole_project(paths: Sequence[Path], found: Sequence[files.DiscoveredFile], settings: Settings) -> list[str]:
    """All Python files of the project, also those that this run was not asked to rewrite."""
    root = project_root(paths)
    listed = [str(f.path) for f in found if f.skipped_reason is None and f.error is None and not f.text]
    if all(p.resolve() == root for p in paths):
        return listed
    around = files.discover([root], replace(settings, root=root)) if root.is_dir() else []
    return sorted({*(str(f.path) for f in around if f.skipped_reason is None), *listed})
