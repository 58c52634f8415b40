"""What is mutated, and the tests meant for it, in stages: one runs only if those before it noticed nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# The folders of the engine, and tests of a module besides those of its own folder.
_ENGINE = ("apply", "diagnostics", "engine", "helper", "project", "rewriting", "semantic", "source", "syntax")
_MORE: Mapping[str, tuple[str, ...]] = {
    "semantic/receiver": ("helper/import_edits",),
    "source/edits": ("formats/diff",),
    "syntax/pattern": ("fixers/fixers",),
}


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


def _tests(*names: str) -> tuple[str, ...]:
    """The test files of `folder/name`."""
    return tuple("tests/{}/test_{}.py".format(*name.split("/")) for name in names)


def _cases(root: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each fixer's module, with the cases of the rules that come to it, by their `fixer` or through its imports."""
    rules = {f"{path.parent.name}/{path.stem}": path.read_text("utf-8") for path in sorted(root.glob("rules/*/*.toml"))}
    fixers = root / "torchmigrate" / "fixers"
    texts = {f"{path.parent.name}/{path.stem}": path.read_text("utf-8") for path in fixers.glob("*/[a-z]*.py")}
    imports = {
        name: {
            other for other in texts if re.search(rf"^from torchmigrate\.fixers.*\b{other.split('/')[1]}\b", text, re.M)
        }
        for name, text in texts.items()
    }
    for name in texts:
        users = {name}
        while more := {other for other in texts if imports[other] & users} - users:
            users |= more
        ids = [rule for rule, text in rules.items() if re.search(rf'^fixer *= *"({"|".join(users)})[":]', text, re.M)]
        if ids:
            shipped = _tests("rules/shipped_rules")
            yield f"torchmigrate/fixers/{name}.py", (*shipped, "-k", f"test_case and ({' or '.join(ids)})")


def _own(root: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each module of the engine, with the test file named for it, else with all those of its folder."""
    for folder in _ENGINE:
        beside = sorted(
            f"{folder}/{path.stem.removeprefix('test_')}" for path in root.glob(f"tests/{folder}/test_*.py")
        )
        for path in sorted((root / "torchmigrate" / folder).glob("[a-z]*.py")):
            name = f"{folder}/{path.stem}"
            light = [each for each in beside if each not in _HEAVY]
            names = [name] if name in beside else light
            yield f"torchmigrate/{name}.py", _tests(*names, *_MORE.get(name, ()))


_ROOT = Path(__file__).parents[2]
_HEAVY = {"apply/faults", "engine/fixtures", "rewriting/migrated_notebook"}
# the rules whose cases the engine's mutants are shown: one of each kind of pattern and fixer, a fifth of all
_SOME = "amp/ or memory/ or stream/ or is-available or tensor-cuda or device-test or nccl"
_LIGHT = ("pytest", "hypothesis", "libcst", "rich", "typer")
_GUARDS = ("fixers/left_alone", "rewriting/device_only_findings", "semantic/guard_regions")
GROUPS = {
    "fixers": Group(
        ["torchmigrate/fixers/*/[a-z]*.py"],
        [_tests("fixers/fixers", "fixers/library_ops", *_GUARDS)],
        _LIGHT,
        dict(_cases(_ROOT)),
    ),
    "engine": Group(
        [f"torchmigrate/{folder}/[a-z]*.py" for folder in _ENGINE],
        [
            (*_tests("rules/shipped_rules"), "-k", f"test_case and ({_SOME})"),
            _tests("rewriting/rewrite", *_GUARDS),
        ],
        _LIGHT,
        dict(_own(_ROOT)),
    ),
    "helper": Group(
        ["torchmigrate/runtime.py"],
        [_tests("runtime/backends", "runtime/cpu"), _tests("runtime/compile"), _tests("runtime/file")],
        (*_LIGHT, "torch", "numpy"),
    ),
}
