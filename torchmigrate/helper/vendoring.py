"""Vendoring: binds the helper in rewritten files, and collects the helper files that must be written."""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from torchmigrate.base import file_io, system
from torchmigrate.base.system import syntax_tree
from torchmigrate.base.text import counted
from torchmigrate.diagnostics.finding import (
    Changed,
    Failed,
    FileResult,
    Finding,
    Fix,
    Safety,
    Skipped,
    Unchanged,
    shifted,
)
from torchmigrate.helper.import_edits import imports_helper, isort_roots, with_class, with_import, with_imports
from torchmigrate.helper.placement import (
    Placement,
    SearchPath,
    absent_neighbour,
    beside,
    holds_helper,
    installed_above,
    placed,
    placement,
    runs_itself,
    search_path,
    stands_alone,
    test_copies,
)
from torchmigrate.project import helper_parts, packaging
from torchmigrate.project.context import ProjectContext, code
from torchmigrate.project.helper_file import ProjectHelper, is_ours
from torchmigrate.project.helper_parts import Form, Uses
from torchmigrate.project.import_graph import COMPUTED_NAMES, SEARCH_PATHS, Import, reached, read_imports
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import imported_by, spelled
from torchmigrate.source import encoding, notebook
from torchmigrate.source.edits import Edit, compose
from torchmigrate.source.encoding import Source, helper_class, holds_class
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import tree_of, walk


@dataclass(frozen=True, slots=True)
class Unbound:
    """A rewritten text that still lacks an import: the helper's, torch's, or both."""

    text: Source
    helper: bool
    torch: bool
    original: bytes  # before it was rewritten


_NAMED = 3  # functions that an edited helper lacks


class Vendored:
    """Binds results to the helper, and collects the places where it is needed."""

    def __init__(self, facts: ProjectContext) -> None:
        self.facts = facts
        self.needed: dict[str, set[Path]] = {}  # helper files, and which files import each
        self._by_name: dict[str, set[str]] = {}  # helper files, and which rewritten files import each by its name alone
        self._restored: dict[str, str] = {}  # the helper files that are gone, by the file that imports each
        self.hosted: list[Path] = []  # notebooks that also run where only they are

    def keep(self, result: FileResult) -> FileResult:
        """Return a result that needs no import any more, as a rewritten notebook; note where its helper must lie."""
        if isinstance(result, Changed) and holds_class(result.after):
            after = self._with_class_updated(result.path, result.after)
            return replace(result, after=after) if after else result
        if self.facts.own is None and _is_bound_notebook(result, self.facts.helper):
            self._need(placement(self.facts, result.path), result.path)
            alone = stands_alone(self.facts, result.path, result.after, notebook.split(result.after))
            self.hosted += [result.path] if self.needed and alone else []
        return result

    def foresee(self, users: Iterable[Path]) -> None:
        """Note where copies for these files lie: for tests alone, or where isort takes them for the project's own."""
        facts = self.facts
        if facts.own is not None:
            return
        users = list(users)
        facts.test_copies = test_copies(facts, users)
        roots = isort_roots(facts)
        there = any(system.joined(root, f"{facts.helper}.py") in facts.index.files for root in roots)
        nearest = sorted(users, key=lambda path: len(path.parts))
        facts.helper_at_root = there or any(os.path.dirname(placement(facts, user).path) in roots for user in nearest)

    def bind(self, result: FileResult, lacks: Unbound) -> FileResult:
        """Add the imports that a rewritten file lacks."""
        assert isinstance(result, Changed)
        text = lacks.text
        module = SemanticModel(result.path, text, self.facts, lacks.original)
        if lacks.helper and holds_helper(module) and not imports_helper(module):
            return self._with_class(result, text, module)
        place = placed(module) if lacks.helper else Placement("", "")
        edits = with_import(module, place.statement, lacks.torch, place.root)
        if not text.hidden[0]:
            present = self._present(str(result.path), text.utf8)
            self._need(Placement(present, "") if present else place, result.path)
        if not edits:
            return self.keep(result)
        after = text.encode(compose(text.utf8, edits))
        findings: Iterable[Finding] = result.findings
        for edit in reversed(edits):
            findings = tuple(shifted(findings, edit, text.position(edit.start)[0]))
        return self.keep(Changed(result.path, result.before, after, result.applied, tuple(findings)))

    def _with_class(self, result: Changed, text: Source, module: SemanticModel) -> Changed:
        """Add the helper as a class to a rewritten script, with the imports that it needs."""
        code = helper_parts.as_class(helper_parts.used_by(text.utf8, self.facts.helper), self.facts.helper)
        after = with_class(result.path, text, code, self.facts)
        ends = zip(reversed(text.utf8), reversed(after), strict=False)
        same = [*itertools.takewhile(lambda pair: pair[0] == pair[1], ends)]
        lines, size = after.count(b"\n") - text.utf8.count(b"\n"), len(after) - len(text.utf8)
        at = len(text.utf8) - len(same)
        inserted = Edit(at, at, "\n" * lines + " " * (size - lines))
        findings = shifted(result.findings, inserted, text.position(at)[0])
        return Changed(result.path, result.before, text.encode(after), result.applied, tuple(findings))

    def _with_class_updated(self, path: Path, raw: bytes) -> bytes | None:
        """Return a file with the helper, a class in it, as this version writes it; None if nothing changes."""
        if not holds_class(raw) or self.facts.own:
            return None
        if path.suffix != ".ipynb":
            text = encoding.decode(raw)
            code = self._class_for(text.hidden[1].decode(), text.utf8)
            if code is None:
                return None
            text = replace(text, utf8=text.utf8.replace(text.hidden[0], code.encode().rstrip(), 1), hidden=(b"", b""))
            return text.encode(with_imports(path, text, code, self.facts))
        book = notebook.split(raw)
        for cell in book.cells:
            if found := helper_class(cell.text.encode()):
                utf8 = cell.text.encode()
                code = self._class_for(utf8[found[1] : found[2]].decode(), book.source.utf8)
                if code is None:
                    return None
                text = Source(utf8[: found[1]] + code.encode().rstrip() + utf8[found[2] :])
                return book.with_text(cell, with_imports(path, text, code, self.facts).decode())
        return None

    def _class_for(self, was: str, code: bytes) -> str | None:
        """Return the class for the functions that code calls, or None if it is as it should be."""
        if not was:
            return None
        new = helper_parts.as_class(helper_parts.used_by(code, self.facts.helper), self.facts.helper, was)
        return None if new.rstrip() == was.rstrip() else new

    def notes(self) -> Iterator[str]:
        """Yield what the user has to do beside this."""
        if self.hosted:
            first, more = min(self.hosted).name, len(self.hosted) - 1
            who = f"{first} and {counted(more, 'more notebook')} run" if more else f"{first} runs"
            name = f"{self.facts.helper}.py"
            yield f"{who} on Colab or Kaggle, too, where {name} is not: upload it, or have a first cell fetch it"

    def _need(self, place: Placement, path: Path) -> None:
        if place.path:
            for copy in filter(None, (place.path, place.other)):
                self.needed.setdefault(copy, set()).add(path)
            lines = [line.strip() for line in place.statement.splitlines()]
            if f"import {self.facts.helper}" in lines and (lines[1:] == [] or self._is_outside(path)):
                self._by_name.setdefault(place.path, set()).add(str(path))

    def completed(self, results: Iterable[FileResult]) -> list[FileResult]:
        """Return the results with the helper files to write: new ones, and outdated ones of ours.

        A file that is not ours, or was edited since, is never overwritten. If a helper cannot be had, no file is
        rewritten to import it.
        """
        results = list(results)
        after = {str(r.path): r.after for r in results if isinstance(r, Changed)}
        written = (
            _write(Path(path), self._used(path, after), self.facts.texts.get(path)) for path in sorted(self.needed)
        )
        helpers = [r for r in written if r]
        lost = {path: r.path.name for r in helpers if isinstance(r, Failed) for path in self.needed[str(r.path)]}
        return [*(_kept_back(r, lost) for r in results), *helpers]

    def tend(self, copies: Iterable[str], users: Iterable[tuple[str, bytes]]) -> None:
        """Note copies of the helper that this run found, and those that are gone though files import them."""
        if self.facts.own is not None or self.facts.settings.runtime == "package":
            return
        for path in copies:
            if self._is_copy(path):
                self.needed.setdefault(path, set())
        for path, raw in users:
            if place := self._gone(path, raw):
                self._restored[path] = place
                self._need(Placement(place, ""), Path(path))

    def tend_classes(self, results: Sequence[FileResult], holders: Iterable[tuple[str, bytes]]) -> list[FileResult]:
        """Return the results with the files whose helper, a class in them, is of another version or lacks functions."""
        by_path = {result.path: result for result in results}
        for path, raw in holders:
            known = by_path.get(Path(path), Unchanged(Path(path), ()))
            if isinstance(known, Unchanged) and (after := self._with_class_updated(known.path, raw)):
                by_path[known.path] = Changed(known.path, raw, after, (), known.findings)
        return [*by_path.values()]

    def _gone(self, path: str, raw: bytes) -> str:
        """Return where the helper was that a file imports and calls; "" if it is there, or is none of ours."""
        index, helper = self.facts.index, self.facts.helper
        for item in index.imports.get(path, ()):
            parts = (*item.module.split("."), item.name) if item.name else tuple(item.module.split("."))
            dotted = tuple(filter(None, parts))
            if dotted[-1:] != (helper,) or not helper_parts.used_by(code(path, raw), helper):
                continue
            if index.locate(path, item.level, dotted):
                place = placement(self.facts, Path(path))
                is_first = place == beside(path, helper) or bool(place.other)
                if is_first and dotted == (helper,) and not item.level and place.path not in index.files:
                    return place.path  # another folder's copy is not on a script's path
                continue
            if item.level:
                return f"{Path(path).parents[item.level - 1].joinpath(*dotted)}.py"
            above = index.locate(path, 0, dotted[:-1]) if dotted[1:] else None
            if above:
                return system.joined(os.path.dirname(above[0]), f"{helper}.py")
            return "" if dotted[1:] else self._beside(path)
        return ""

    def _present(self, path: str, raw: bytes) -> str:
        """Return the copy of the helper that a file imports already, or ""."""
        for item in read_imports(path, raw):
            dotted = tuple(filter(None, (*item.module.split("."), item.name)))
            found = self.facts.index.locate(path, item.level, dotted) if dotted[-1:] == (self.facts.helper,) else None
            if found is not None and is_ours(Path(found[0]), self.facts.texts.get(found[0])):
                return found[0]
        return ""

    def _beside(self, path: str) -> str:
        place = placement(self.facts, Path(path))
        helper = self.facts.helper
        is_by_name = f"import {helper}" in map(str.strip, place.statement.splitlines())
        return place.path if is_by_name else beside(path, helper).path

    def copies(self, holders: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes, tuple[str, ...]]]:
        """Yield each copy of the helper, b"" for one that is gone, and the files that import it; then each class."""
        for path in sorted(self.needed):
            raw = self.facts.index.read(path) if path in self.facts.index.files else b""
            yield path, raw, tuple(sorted(self._users(path)))
        yield from ((path, _shown(path, raw), ()) for path, raw in holders)

    def outstanding(self, results: Iterable[FileResult]) -> list[FileResult]:
        """Return the results of a run that only checks: a finding for each copy that `apply` would write."""
        tended = {r.path: _finding(r) for r in results if isinstance(r, Changed)}  # classes alone, as nothing else is
        return [*(tended.get(r.path, r) for r in results), *(_finding(each) for each in self.completed(()))]

    def edited(self) -> Iterator[str]:
        """Yield a note for each copy in which a person has written."""
        for path in sorted(self.needed):
            raw = self.facts.index.read(path) if path in self.facts.index.files else b""
            if raw and is_ours(Path(path), raw) and (names := helper_parts.edited(raw)):
                where = os.path.relpath(path, self.facts.root)
                was = "was" if len(names) == 1 else "were"
                yield f"{where}: {', '.join(names)} {was} edited by hand, and not updated"

    def _used(self, helper: str, after: Mapping[str, bytes]) -> Uses:
        """Return the functions that files call of this copy, rewritten or not: its users, and all of its programs."""
        index = self.facts.index
        users = self._users(helper) | self._found_by.get(helper, set())
        texts = [code(path, after[path] if path in after else index.read(path)) for path in users]
        uses = (helper_parts.used_by(text, self.facts.helper) for text in texts)
        is_library = installed_above(index, os.path.dirname(helper)) is not None
        is_compiled = is_library or not users.isdisjoint(self.facts.in_compiled_programs)
        is_deferring = not users.isdisjoint(self.facts.in_deferring_programs) or (
            is_library and any(helper_parts.asks_when_loaded(text, self.facts.helper) for text in texts)
        )  # who imports a library may fork afterwards
        without = (Form.EAGER if is_compiled else Form.ANY) | (Form.STARTS if is_deferring else Form.ANY)
        without |= Form.ANY if users.isdisjoint(self.facts.in_groups) else Form.ALONE
        return helper_parts.merged(uses, without)

    @functools.cached_property
    def _found_by(self) -> dict[str, set[str]]:
        """The files of all programs that may find a copy by its name alone, once it is known which are needed.

        Python loads the first on sys.path for the whole program: the one beside its script, unless a file puts folders
        before it, or else any that a file of the program is meant to find. A program that computes names of modules may
        import those in the folder that it names first, and all that find a copy in a folder which it adds to sys.path.
        One run of pytest is a program of all tests, and puts their folders first.
        """
        if len(self._named) < 2:
            return {}
        index, users = self.facts.index, {copy: self._users(copy) for copy in self._named}
        everyone: set[str] = set().union(*users.values())
        found: dict[str, set[str]] = {copy: set() for copy in users}
        programs = [self._program(path, everyone) for path in index.files if self._is_start(path)]
        unseen = everyone.difference(*(program.users for program in programs))
        for program in programs:
            more = {path for path in unseen if program.reaches_out or system.is_inside(path, program.folder)}
            more |= {path for path in everyone for each in program.named if system.is_inside(path, each)}
            more = more.union(*(users[copy] for copy in program.loads))
            files = program.users | more
            own = system.joined(program.folder, f"{self.facts.helper}.py")
            for copy in [own] if own in users and not program.may_find_others_first else users:
                found[copy] |= files if copy == own or not users[copy].isdisjoint(files) else set()
        tests = everyone.intersection(reached(filter(self._is_collected, index.files), index.may_import))
        return {copy: files | (tests if users[copy] & tests else set()) for copy, files in found.items()}

    def _is_collected(self, path: str) -> bool:
        """Return whether pytest finds tests in a file: by its name, and by what it defines."""
        name = os.path.basename(path)
        if not (name.endswith(".py") and name.startswith("test_")) and not name.endswith("_test.py"):
            return False
        tests = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        try:
            body = tree_of(path, self.facts.index.read(path)).body
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return True
        return any(isinstance(each, tests) and each.name.lower().startswith("test") for each in body)

    def _program(self, start: str, everyone: set[str]) -> _Program:
        index, folder = self.facts.index, os.path.dirname(start)
        files = {path for path in reached([start], index.may_import) if not self._is_copy(path)}
        edits = files & self._path_edits.keys()
        is_outside = any(not system.is_inside(path, folder) for path in files)
        is_wide = is_outside or bool(edits)
        # without an edit, a person sets PYTHONPATH, starts it with `python -m`, or copies the files
        is_first = any(self._path_edits[path].is_put_first for path in edits) or (is_outside and not edits)
        computes = not files.isdisjoint(self._computing)  # without, it only imports what it names
        loads = {copy for copy in self._named for path in edits if computes and self._may_add(path, copy)}
        named = {system.joined(folder, name) for path in files & self._computing for name in self._heads(path)}
        named |= set() if files.isdisjoint(self._loading_hubs) else self._loaded_by_hubs
        return _Program(folder, files & everyone, is_wide, is_first, named, loads)

    def _heads(self, path: str) -> Iterator[str]:
        """Yield the first parts of the names that a file computes for modules: `import_module(f"models.{name}")`."""
        try:
            tree = tree_of(path, code(path, self.facts.index.read(path)))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for call in (node for node in walk(tree) if isinstance(node, ast.Call) and node.args):
            name = call.args[0]
            while isinstance(name, ast.BinOp):
                name = name.left
            head = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else name
            if last_name(call.func) in ("import_module", "__import__") and isinstance(head, ast.Constant):
                yield str(head.value).partition(".")[0]

    def _may_add(self, path: str, copy: str) -> bool:
        """Return whether a file that speaks of sys.path may add the folder of a copy."""
        return self._path_edits[path].may_add(os.path.dirname(copy), path, self.facts.index.root)

    @functools.cached_property
    def _path_edits(self) -> dict[str, SearchPath]:
        """The files that speak of sys.path, and what each says."""
        index = self.facts.index
        files = set().union(*map(index.holding, SEARCH_PATHS))
        books = {path: index.read_or_nothing(path) for path in index.files if path.endswith(".ipynb")}
        files |= {path for path, raw in books.items() if any(word in raw for word in SEARCH_PATHS)}
        return {path: search_path(code(path, index.read(path))) for path in files}

    @functools.cached_property
    def _computing(self) -> set[str]:
        """The files that may import modules whose names they compute."""
        index = self.facts.index
        return {path for path in index.files if any(index.holds(path, word) for word in COMPUTED_NAMES)}

    @functools.cached_property
    def _hubs(self) -> list[str]:
        """The files by which torch.hub loads models of the project."""
        return [path for path in self.facts.index.files if os.path.basename(path) == "hubconf.py"]

    @functools.cached_property
    def _loaded_by_hubs(self) -> set[str]:
        """The packages of the project that torch.hub loads: folders beside a file for it, of what that leads to."""
        found: set[str] = set()
        for hub in self._hubs:
            folder = os.path.dirname(hub)
            inside = (p for p in reached([hub], self.facts.index.may_import) if system.is_inside(p, folder))
            found |= {system.joined(folder, system.dotted(path, folder)[0]) for path in inside}
        return found

    @functools.cached_property
    def _loading_hubs(self) -> set[str]:
        """The files that may have torch.hub load models of the project, whose modules find this program's helper."""
        index = self.facts.index
        return {path for path in index.files if self._hubs and b"hub.load" in index.read_or_nothing(path)}

    def _is_start(self, path: str) -> bool:
        """Return whether a file is run as a script, or may be: it is never imported and outside packages."""
        index = self.facts.index
        return (self._is_outside(path) and not index.importers.get(path)) or runs_itself(index, path)

    @functools.cached_property
    def _named(self) -> dict[str, set[str]]:
        """The copies that files import by their name alone, from sys.path, with the files that are to find each.

        A file finds the copy beside it if it is a script, else the one that the import graph will name once it is
        there, even if the file was meant to find another.
        """
        index, helper = self.facts.index, self.facts.helper
        known = {path for path, imports in index.imports.items() if self._finds_by_name(path, imports)}
        there = set(filter(self._is_copy, index.files))  # also what is not asked for
        folders = {os.path.dirname(copy) for copy in self.needed.keys() - {*self._restored.values()} | there}
        found: dict[str, set[str]] = {copy: set() for copy in self._by_name}
        for user in known.union(*self._by_name.values()) - self._restored.keys():
            own = os.path.dirname(user)
            home = own if own in folders and self._is_start(user) else index.nearest(folders, own)
            if home is not None or len(folders) == 1:
                found.setdefault(f"{home or next(iter(folders))}/{helper}.py", set()).add(user)
        return {copy: users for copy, users in found.items() if copy in self.needed}

    def _finds_by_name(self, path: str, imports: Iterable[Import]) -> bool:
        """Return whether a file imports the helper by its name alone, or does so where its relative import fails.

        That of a file in a package does not fail.
        """
        helper = self.facts.helper
        by_name = any(i.module == helper and not i.name and not i.level for i in imports)
        has_dots = any(i.level and helper in (i.module, i.name) for i in imports)
        return by_name and (not has_dots or self._is_outside(path))

    def _is_copy(self, path: str) -> bool:
        """Return whether a file is named as copies of the helper are: no program reaches out by importing one."""
        return os.path.basename(path) == f"{self.facts.helper}.py"

    def _is_outside(self, path: str | Path) -> bool:
        """Return whether a file lies in no package."""
        return not self.facts.index.is_package(os.path.dirname(path))

    def _users(self, helper: str) -> set[str]:
        uses = self.facts.index.importers.get(helper, ())
        by_path = {use.importer for use in uses if use.relative or len(use.dotted) > 1}
        users = {user for user in by_path if self._restored.get(user, helper) == helper}
        return users.union(map(str, self.needed[helper]), self._named.get(helper, ()))


@dataclass(frozen=True, slots=True)
class _Program:
    """A script's folder, the files that it leads to and that import the helper, and how it may find others.

    By names that it computes it may find the files in the folders `named`, and all users of the copies in `loads`.
    """

    folder: str
    users: set[str]
    reaches_out: bool
    may_find_others_first: bool
    named: set[str]
    loads: set[str]


def _shown(path: str, raw: bytes) -> bytes:
    """Return the code of a file that holds the helper as a class: of a notebook, that of the class's cell."""
    if not path.endswith(".ipynb"):
        return encoding.decode(raw).shown
    texts = (cell.text.encode() for cell in notebook.split(raw).cells)
    return next((text for text in texts if helper_class(text)), b"")


def _kept_back(result: FileResult, lost: Mapping[Path, str]) -> FileResult:
    helper = lost.get(result.path)
    if helper is None or not isinstance(result, Changed):
        return result
    return Failed(result.path, f"not rewritten: the helper that it would import, {helper}, cannot be had")


def _write(path: Path, uses: Uses, text: bytes | None) -> FileResult | None:
    """Return the helper's file with these functions, and those that it has already; None if it is as it should be."""
    if text is None and not os.path.lexists(path):
        return Changed(path, b"", helper_parts.vendored(uses), (), new=True)
    if text is None and path.is_symlink():
        return Failed(path, "is a symbolic link; the helper is not written through it: put a file there")
    if not is_ours(path, text):
        return Failed(path, "exists and was not written by torchmigrate; rename it, or use --runtime package")
    before = file_io.read(path) if text is None else text
    content = helper_parts.updated(before, uses)
    if content is not None:
        return None if helper_parts.is_same(before, content) else Changed(path, before, content, ())
    if lacks := helper_parts.lacking(uses, before):
        what = f"was edited since torchmigrate wrote it, so it is not updated; it lacks {', '.join(lacks[:_NAMED])}"
        return Failed(path, f"{what}{' and more' if lacks[_NAMED:] else ''}: move it away, apply, take the edits over")
    return Skipped(path, "was edited since torchmigrate wrote it, so it is not updated")


def _finding(result: FileResult) -> FileResult:
    """Return what `check` says of a copy of the helper that `apply` would write."""
    if not isinstance(result, Changed):
        return result
    what = "is missing, and files import it" if result.new else "lacks functions, or is of another version"
    message = f"the helper {what}: `torchmigrate apply` writes it"
    fix = Fix((), Safety.SAFE)  # another file is written, or the whole of this one
    found = Finding("helper", Safety.SAFE, 0, 0, message, fix=fix, line=1, column=1, end_line=1, end_column=1)
    return Unchanged(result.path, (*result.findings, found), result.before)


def _is_bound_notebook(result: FileResult, helper: str) -> TypeGuard[Changed]:
    return isinstance(result, Changed) and result.path.suffix == ".ipynb" and f"{helper}.".encode() in result.after


@query
def is_build_script(module: SemanticModel) -> bool:
    """Return whether a file runs while the project is built, or is a module that only such files import."""
    path = str(module.path)
    return packaging.is_build_script(path, module.source.utf8) or path in module.facts.index.built


@query
def no_helper_here(module: SemanticModel) -> str:
    """Return why a file cannot import the helper, or ""."""
    if is_build_script(module):
        return "it runs while the project is built, where the helper cannot be imported"
    missing = absent_neighbour(module.facts.index, str(module.path)) if module.facts.files else ""
    return f"it imports `{missing}`, which is not here: where this file belongs, there is no helper" if missing else ""


def refusal(module: SemanticModel, own: ProjectHelper, edits: Sequence[Edit]) -> str:
    """Return the reason why edits cannot call the project's helper, or ""."""
    used = dict(_used(module, (e.text for e in edits)))
    if not used:
        return ""
    if str(module.path) in module.facts.of_own_helper:
        is_itself = str(module.path) == own.path
        return f"`{own.name}` {'is' if is_itself else 'imports'} this file, and so cannot be called from here"
    missing = sorted(theirs for theirs in used.values() if theirs not in own.offers)
    if missing:
        return f"`{own.name}` has no `{missing[0]}`: add it, or name yours in `helper-map`"
    try:
        tree = syntax_tree(compose(module.source.utf8, edits))
    except (SyntaxError, ValueError):
        return ""  # the code that applies the edits reports this
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        theirs = used.get(chain_of(call.func) or "", "")
        parameters = own.offers.get(theirs)
        if parameters is not None and not _takes(parameters, call):
            return f"`{own.name}.{theirs}` does not take the arguments of `{ast.unparse(call)}`"
    return ""


def _used(module: SemanticModel, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each function of the helper that texts call: its spelling in the file, and the helper's name for it."""
    text, alias = " ".join(texts), spelled(module)["accel"]
    yield from ((f"{alias}.{name}", name) for name in re.findall(rf"(?<![\w.]){re.escape(alias)}\.(\w+)", text))
    imported = {n: i for n, i in imported_by(module, module.facts.own) if i} if module.facts.own else {}
    yield from ((n, i) for n, i in imported.items() if re.search(rf"(?<![\w.]){re.escape(n)}\b", text))


def _takes(parameters: ast.arguments, call: ast.Call) -> bool:
    """Return whether Python would accept the call."""
    names = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    given = {k.arg for k in call.keywords}
    if None in given or any(isinstance(a, ast.Starred) for a in call.args):
        return True
    left = names[len(call.args) :]
    required = [n for n in names[: len(names) - len(parameters.defaults)] if n in left]
    required += [a.arg for a, d in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if d is None]
    known = {*left, *(a.arg for a in parameters.kwonlyargs)}
    fits = len(call.args) <= len(names) or parameters.vararg is not None
    return fits and given >= set(required) and (given <= known or parameters.kwarg is not None)
