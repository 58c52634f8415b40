"""What is mutated, and the tests meant for it, in stages: one runs only if those before it noticed nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# module of the engine: the tests of its own, besides tests/test_<module>.py
_ENGINE: Mapping[str, tuple[str, ...]] = {
    "bindings": (), "cells": ("notebook", "notebook_files"), "edits": ("diff",),
    "engine": ("notebook_files", "native"), "guards": (), "import_lines": ("imports",), "imports": (),
    "journal": ("undo", "write"), "kinds": ("bindings",), "ladders": ("guards",), "magics": ("notebook",),
    "module": ("rewrite",), "notebook": ("notebook_files",), "passes": ("edits",), "placement": ("imports",),
    "pattern": (), "receiver": ("bindings",), "regions": ("guards",), "rewrite": (), "scan": ("scope", "rewrite"),
    "scope": (), "scopes": ("scope",), "source": (), "spelling": ("pattern",), "split": ("commit",), "suppress": (),
    "table": ("rewrite",), "undo": (), "write": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """`stages` of tests for every file, after those in `own`; `imports` are made once, before the forks."""

    patterns: Sequence[str]
    common: Sequence[tuple[str, ...]]
    imports: Sequence[str]
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def files(self, root: Path) -> list[str]:
        return sorted(p.relative_to(root).as_posix() for pattern in self.patterns for p in root.glob(pattern))

    def stages(self, path: str) -> list[tuple[str, ...]]:
        own = self.own.get(path)
        return [own, *self.common] if own else [*self.common]


def _tests(*names: str, in_: str = "") -> tuple[str, ...]:
    return tuple(f"tests/{in_}test_{name}.py" for name in names)


def _cases(root: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Transform -> the cases of the rules that come to it, by their `transform` or through its imports."""
    rules = {f"{path.parent.name}/{path.stem}": path.read_text("utf-8") for path in sorted(root.glob("rules/*/*.toml"))}
    texts = {path.stem: path.read_text("utf-8") for path in (root / "torchmigrate/transforms").glob("*.py")}
    imports = {
        name: {other for other in texts if re.search(rf"^from torchmigrate\.transforms.*\b{other}\b", text, re.M)}
        for name, text in texts.items()
    }
    for name in texts:
        users = {name}
        while more := {other for other in texts if imports[other] & users} - users:
            users |= more
        ids = [rule for rule, text in rules.items() if re.search(rf'^transform *= *"({"|".join(users)})"', text, re.M)]
        if ids:
            yield (
                f"torchmigrate/transforms/{name}.py",
                ("tests/test_rules.py", "-k", f"test_case and ({' or '.join(ids)})"),
            )


def _own(root: Path, module: str) -> tuple[str, ...]:
    names = (module, *_ENGINE[module])
    return tuple(test for test in _tests(*names) if (root / test).exists())


_ROOT = Path(__file__).parents[2]
# the rules whose cases the engine's mutants are shown: one of each kind of pattern and transform, a fifth of all
_SOME = "amp/ or memory/ or stream/ or is-available or tensor-cuda or device-test or nccl"
_LIGHT = ("pytest", "hypothesis", "libcst", "rich", "typer")
GROUPS = {
    "transforms": Group(
        ["torchmigrate/fixers/*/[a-z]*.py"],
        [_tests("transforms", "library_ops", "left_alone", "once", "guards")],
        _LIGHT,
        dict(_cases(_ROOT)),
    ),
    "engine": Group(
        [f"torchmigrate/{module}.py" for module in _ENGINE],
        [(*_tests("rules"), "-k", f"test_case and ({_SOME})"), _tests("once", "left_alone", "rewrite", "guards")],
        _LIGHT,
        {f"torchmigrate/{module}.py": _own(_ROOT, module) for module in _ENGINE},
    ),
    "helper": Group(
        ["torchmigrate/runtime.py"],
        [_tests("backends", "cpu", in_="runtime/"), _tests("compile", in_="runtime/"), _tests("file", in_="runtime/")],
        (*_LIGHT, "torch", "numpy"),
    ),
}
