"""Shrink a broken program: delete statements as long as it stays broken."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from six_worlds.running import Project, run

LISTS = ("body", "orelse", "finalbody", "handlers")


def _removable(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int]]:
    """Yield each statement by its parent, the parent's field and the place in it, the last first."""
    for node in ast.walk(tree):
        for name in LISTS:
            found = getattr(node, name, None)
            if isinstance(found, list):
                yield from ((node, name, i) for i in reversed(range(len(found))))


def _without(source: str, number: int) -> str | None:
    """Return a module without its statement of that number, "" if nothing is left, or None if there is none."""
    tree = ast.parse(source)
    places = list(_removable(tree))
    if number >= len(places):
        return None
    parent, name, index = places[number]
    found = getattr(parent, name)
    removed = found.pop(index)
    if not found and name == "body" and not isinstance(parent, ast.Module):
        found.append(ast.Pass())
        if isinstance(removed, ast.Pass):
            return source
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n" if tree.body else ""


def _simpler(project: Project) -> Iterator[Project]:
    if project.argv:
        yield replace(project, argv=())
    for name in project.env:
        yield replace(project, env={k: v for k, v in project.env.items() if k != name})
    for name in project.files:
        if name not in ("main.py", "main.ipynb"):
            yield replace(project, files={k: v for k, v in project.files.items() if k != name})


def shrunk(project: Project, is_broken: Callable[[Project], bool]) -> Project:
    """Return a smaller program that is broken as well, and ends on CUDA and on the CPU as before."""

    def ends(candidate: Project) -> list[bool]:
        cuda = run(candidate, "cuda")
        if cuda.death and cuda.death.kind == "Hangs":
            return []
        cpu = run(candidate, "cpu")
        return [cuda.death is None, cpu.death is None, "cuda" in cpu.said]

    wanted = ends(project)

    def holds(candidate: Project) -> bool:
        return ends(candidate) == wanted and is_broken(candidate)

    if not holds(project):
        return project
    for candidate in _simpler(project):
        if holds(candidate):
            project = candidate
    smaller = True
    while smaller:
        smaller = False
        for name in [n for n in project.files if n.endswith(".py")]:
            number = 0
            while (text := _without(project.files[name], number)) is not None:
                candidate = replace(project, files={**project.files, name: text})
                if text != project.files[name] and holds(candidate):
                    project, smaller = candidate, True
                else:
                    number += 1
    return project
