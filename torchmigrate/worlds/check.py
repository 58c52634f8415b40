"""Check rewritten files against the original project in all worlds, and tell which edits must not be made."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchmigrate.project.context import ProjectContext
from torchmigrate.source.edits import Edit, Span
from torchmigrate.worlds.compare import Fault, faults
from torchmigrate.worlds.observations import Observations
from torchmigrate.worlds.program import File, FunctionInfo, Program, text_of
from torchmigrate.worlds.statements import Statements
from torchmigrate.worlds.truth import WORLDS

ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file's text before and after, in UTF-8, and the edits from one to the other (sorted)."""

    path: str
    before: bytes
    after: bytes
    edits: tuple[Edit, ...]


Held = dict[str, dict[Span, str]]  # by path, the spans of the original text whose edits must not be made, with the reasons


def held_back(files: Sequence[Rewritten], facts: ProjectContext, all_of_file: bool = False) -> Held:
    """Return which edits break a rule in some world; with `all_of_file` all edits of a file with such an edit."""
    by_path = {f.path: f for f in files}
    first: dict[str, int] = {}
    owners: list[tuple[str, Edit]] = []
    for file in files:
        first[file.path] = len(owners)
        owners += [(file.path, edit) for edit in file.edits]

    def read(path: str, new: bool) -> tuple[bytes, Sequence[Edit], int] | None:
        known = by_path.get(path)
        if known is not None:
            return (known.after, known.edits, first[path]) if new else (known.before, (), 0)
        text = text_of(facts.index, path)
        return None if text is None else (text, (), 0)

    old = Program(facts.index, lambda path: read(path, False))
    new = Program(facts.index, lambda path: read(path, True))
    paths = _universe(by_path, facts)
    entries = _entries(old, new, paths)
    seen = {}
    for world in WORLDS:
        seen[world] = _evaluated(old, world, entries, paths, facts), _evaluated(new, world, entries, paths, facts)
    found: list[Fault] = []
    for world in WORLDS:
        found += faults(world, *seen[world], seen[WORLDS[0]][0])
    held: Held = {}
    for fault in found:
        words = _reason(fault, old, facts)
        for number in sorted(fault.edits):
            path, edit = owners[number]
            held.setdefault(path, {}).setdefault((edit.start, edit.end), words)
    if all_of_file:
        for path, spans in held.items():
            words = next(iter(spans.values()))
            spans |= {(edit.start, edit.end): words for edit in by_path[path].edits if (edit.start, edit.end) not in spans}
    return held


def _universe(changed: Mapping[str, Rewritten], facts: ProjectContext) -> list[str]:
    """Return the changed files and those that import them."""
    found = dict.fromkeys(sorted(changed))
    for path in sorted(changed):
        found |= dict.fromkeys(sorted({use.importer for use in facts.index.importers.get(path, ())}))
    return list(found)


def _entries(old: Program, new: Program, paths: Sequence[str]) -> list[str]:
    """Return the keys of the functions to evaluate: those with edits, and what calls them, callers first."""
    files = [f for path in paths if (f := new.file(path)) is not None]
    functions = [info for file in files for info in file.functions]
    touched = {info.key: info for info in functions if info.file.has_edits(info.node)}
    calls = {info.key: _called(info.node) for info in functions}
    names = {info.name for info in touched.values()}
    grown = True
    while grown:
        grown = False
        for info in functions:
            if info.key not in touched and calls[info.key] & names:
                touched[info.key] = info
                if info.name not in names:
                    names.add(info.name)
                    grown = True
    called = set().union(*(calls[key] for key in touched)) if touched else set()
    for file in files:
        called |= _called(file.tree)
    order = sorted(touched.values(), key=lambda i: (i.name in called or i.outer is not None, i.key))
    return [info.key for info in order]


def _called(node: ast.AST) -> set[str]:
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            func = inner.func
            found.add(func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", ""))
    return found - {""}


def _evaluated(program: Program, world: object, entries: Sequence[str], paths: Sequence[str], facts: ProjectContext) -> Observations:
    run = Statements(program, world, facts.helper)
    files = [f for path in paths if (f := program.file(path)) is not None]
    by_key: dict[str, FunctionInfo] = {info.key: info for file in files for info in file.functions}
    for _ in range(ROUNDS):
        run.new_round()
        for file in files:
            run.body_of(file)
        for key in entries:
            if (info := by_key.get(key)) is not None:
                run.root(info)
        if not run.changed:
            break
    return run.seen


def _reason(fault: Fault, old: Program, facts: ProjectContext) -> str:
    path, offset = fault.place
    file = old.file(path)
    if file is None:
        return fault.words
    line = file.text.count(b"\n", 0, offset) + 1
    return f"line {line}: {fault.words}"


__all__ = ["File", "Held", "Rewritten", "held_back"]
