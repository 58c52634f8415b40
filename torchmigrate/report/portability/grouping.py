"""Files to at most so many groups: the heaviest directories are opened first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def grouped(weights: Mapping[str, int], most: int) -> dict[str, list[str]]:
    """Names of files and directories (`pkg/`, or `pkg/*` for the files in it, not below) with their files. More
    than `most` only where the first level has more."""
    groups = _opened("./", sorted(weights))
    while True:
        heaviest = sorted(groups, key=lambda name: (-sum(weights[f] for f in groups[name]), name))
        for name in heaviest:
            parts = _opened(name, groups[name])
            if name not in parts and len(groups) - 1 + len(parts) <= max(most, len(groups)):
                del groups[name]
                groups |= parts
                break
        else:
            return groups


def _opened(name: str, files: Sequence[str]) -> dict[str, list[str]]:
    """One level down: subdirectories, and the files beside them together; files where there is nothing else."""
    if files == [name]:
        return {name: list(files)}
    prefix = name.removesuffix("*").removeprefix("./")
    parts: dict[str, list[str]] = {}
    for file in files:
        head, slash, _ = file.removeprefix(prefix).partition("/") if file.startswith(prefix) else (file, "", "")
        parts.setdefault(f"{prefix}{head}/" if slash else f"{prefix or './'}*", []).append(file)
    beside = parts.get(f"{prefix or './'}*", [])
    if (len(parts) == 1 and beside) or len(beside) == 1:
        parts.pop(f"{prefix or './'}*")
        parts |= {file: [file] for file in beside}
    return parts
