"""Check rewritten files against the original project in all worlds, and tell which edits must not be made."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache, partial

from torchmigrate.helper.placement import installed_above
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.import_graph import Components, reached
from torchmigrate.source.edits import Edit, Span
from torchmigrate.source.encoding import HELPER_MARK
from torchmigrate.syntax.resolver import imported_as, last_name
from torchmigrate.syntax.scope import FUNCTIONS, walk
from torchmigrate.torch_api.backends import COLLECTIVES, types_of
from torchmigrate.torch_api.libraries import has_own_devices
from torchmigrate.worlds.compare import Fault, faults, known_of_original, moved_in, pointless, told_in_tests
from torchmigrate.worlds.observations import DEVICE, Observations, Place, devices, is_cuda
from torchmigrate.worlds.program import (
    NONE,
    Edits,
    File,
    FunctionInfo,
    Program,
    Version,
    line_of,
    name_of_call,
    remembered,
    text_of,
)
from torchmigrate.worlds.relevance import Relevance
from torchmigrate.worlds.statements import Statements
from torchmigrate.worlds.truth import WORDS_OF_CUDA, WORLDS, Setting, User, World
from torchmigrate.worlds.values import Device, Unknown, Value

MOST_EDITS = 1_000_000  # of a file
LARGEST_GROUP = 40  # files; in larger ones values are followed over two imports, or over direct ones only
ROUNDS = 2  # what a round finds out about attributes and parameters is known to the next
# words without which worlds cannot differ: those with a GPU that is not CUDA's, and builds for CUDA
_OTHERS = {*types_of("ladder"), *COLLECTIVES, *WORDS_OF_CUDA, "nccl", "accelerator", "is_complete"}
_BUILDS = {"version", "is_built", "has_cuda", "nccl", "is_nccl_available", "is_usable", "accelerator"}
# and words without which two GPUs that have process groups of their own cannot differ from each other; tensors have a
# method for XPU alone
_APART = {*(world.kind for world in WORLDS if world.is_portable and world.only_with), *COLLECTIVES, "getattr"}
_WORDS = {"others": _OTHERS, "builds": _BUILDS, "apart": _APART}
_ABOUT = (b"nccl", b"cpu", b"torch.device", b"nn.parallel", *(name.encode() for name in types_of("accelerator")))
_TOO_DEEP = "code here is nested too deeply to be checked in six worlds"
# by path, the spans of the original text whose edits must not be made, with the reasons
Held = dict[str, dict[Span, str]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten file has its text before and after, in UTF-8, and the edits from one to the other (sorted)."""

    path: str
    before: bytes
    after: bytes
    edits: tuple[Edit, ...]


@dataclass(slots=True)
class _Group:
    """A group has files that import each other, in both versions, with what the original does in each world."""

    paths: tuple[str, ...]
    roots: tuple[str, ...]  # the files whose functions are evaluated; those of the others only where they are called
    programs: tuple[frozenset[str], ...]  # files that none imports, each with all that it imports, directly or not
    imported: frozenset[str]  # files that others import
    entries: list[str] = field(default_factory=list)
    called: frozenset[str] = frozenset()  # those entries that something may call by name
    before: list[tuple[Setting, Observations]] = field(default_factory=list)


class Check:
    """The check of a run knows the original, and is asked once for each version of the edits.

    `settled` are edits that did no harm, by path: with them, a version stands in the original's place.
    """

    def __init__(self, facts: ProjectContext, settled: Mapping[str, Rewritten] | None = None) -> None:
        self.facts = facts
        self._settled = settled or {}
        self._originals: dict[str, bytes | None] = {}
        self._old = Program(facts.index, self._original)
        self._groups: list[_Group] | None = None
        self._first: dict[str, int] = {}  # the number of each file's first edit
        self._known: dict[str, Edits] = {}  # the numbers of each file's settled edits
        self._kept: dict[str, File] = {}  # rewritten files, as parsed last
        self._staying: set[Place] = set()  # where a device hangs on edits that were held back
        self.steps = 0  # statements that were run, in all worlds: what the check costs
        self.without_mps = {**facts.without_mps}  # more are added: files to rewrite with MPS left out, and why

    def held_back(self, files: Sequence[Rewritten], changed: Iterable[str] | None = None) -> Held:
        """Return which edits break a rule in some world. `changed` are the files rewritten since the last call."""
        by_path = {file.path: file for file in files if file != self._settled.get(file.path)}
        for file in by_path.values():
            self._originals[file.path] = file.before
            first = self._first.setdefault(file.path, len(self._first) * MOST_EDITS)
            settled = {*self._settled[file.path].edits} if file.path in self._settled else ()
            self._known[file.path] = frozenset(n for n, edit in enumerate(file.edits, first) if edit in settled)
            if (kept := self._kept.get(file.path)) is not None and kept.text != file.after:
                del self._kept[file.path]
        if self._groups is None:
            self._groups = self._grouped(by_path)
        fresh = None if changed is None else set(changed)
        new = Program(self.facts.index, lambda path: self._rewritten(by_path, path), self._old, self._kept)
        held: Held = {}
        for group in self._groups:
            if fresh is None or fresh.intersection(group.paths):
                for path, spans in self._checked(group, new, by_path).items():
                    held.setdefault(path, {}).update(spans)
        return held

    def beside(self, paths: AbstractSet[str], others: AbstractSet[str]) -> set[str]:
        """Return those of some files that are checked together with one of the others."""
        groups = (set(group.paths) for group in self._groups or ())
        return set().union(*(paths & group for group in groups if not others.isdisjoint(group)))

    def _rewritten(self, by_path: Mapping[str, Rewritten], path: str) -> Version | None:
        file = by_path.get(path)
        if file is None:
            return self._original(path)
        return file.after, file.edits, self._first[path], self._known[path]

    def _original(self, path: str) -> Version | None:
        if (file := self._settled.get(path)) is not None:
            return file.after, file.edits, 0, frozenset(range(len(file.edits)))
        return self._unedited(path)

    def _unedited(self, path: str) -> Version | None:
        if path not in self._originals:
            self._originals[path] = text_of(self.facts.index, path)
        text = self._originals[path]
        return None if text is None else (text, (), 0, NONE)

    def _grouped(self, changed: Mapping[str, Rewritten]) -> list[_Group]:
        """Return the changed files and those that lead to them, in groups that import nothing of each other."""
        universe = dict.fromkeys(sorted(changed))
        fresh = list(universe)
        while fresh:  # those that import them, and, as long as they are few, that import these in turn
            found = {use.importer for path in fresh for use in self.facts.index.importers.get(path, ())}
            fresh = sorted(found - universe.keys())
            universe |= dict.fromkeys(fresh)
            if len(universe) > LARGEST_GROUP:
                break
        universe |= dict.fromkeys(self._imported(universe))
        self._add_bases(universe)
        components = Components()
        for path in universe:
            for target in self.facts.index.imported_by(path):
                if target in universe:
                    components.link(path, target)
        groups: dict[str, list[str]] = {}
        for path in universe:
            groups.setdefault(components.find(path), []).append(path)
        return [each for paths in groups.values() for each in self._divided(paths, changed)]

    def _divided(self, paths: list[str], changed: Mapping[str, Rewritten]) -> Iterator[_Group]:
        """Yield a group as it is, or, if it is large, each changed file with what it imports itself.

        Where few files are changed, it comes with those that name CUDA as text among what these import in turn, as
        they may compare a device. So are files that speak of CUDA and name the changed functions and classes of what
        they import, as they say where these run.
        """
        together = set(paths)

        def onward(path: str) -> list[str]:
            return [p for p in self.facts.index.imported_by(path) if p in together]

        @cache
        def beyond(path: str) -> list[str]:
            return self._beyond(path, onward)

        imported = frozenset(target for path in paths for target in onward(path) if target != path)
        if len(paths) <= LARGEST_GROUP:
            programs = {frozenset(reached([path], onward)) for path in paths}
            whole = tuple(p for p in programs if not any(p < other for other in programs))
            yield _Group(tuple(paths), tuple(paths), whole, imported)
            return
        names = {path: self._changed_names(file) for path, file in changed.items() if path in together}
        is_small = len(names) <= LARGEST_GROUP
        for path in paths:
            near = [p for p in onward(path) if p != path]
            if path not in changed:
                near = [p for p in near if p in names and self._asks_for(path, names[p])]
            if path in changed or near:
                far = [p for each in near for p in beyond(each)] if is_small else []
                files = tuple(dict.fromkeys([path, *near, *far]))[: LARGEST_GROUP + 1]
                yield _Group(files, (path,), (frozenset(files),), imported)

    def _beyond(self, path: str, onward: Callable[[str], Iterable[str]]) -> list[str]:
        """Return the files naming CUDA that a file imports, directly or through packages, and those packages."""

        def through(each: str) -> Iterable[str]:
            return onward(each) if each == path or each.endswith("__init__.py") else ()

        return _on_the_way([path], through, self._names_cuda)

    def _changed_names(self, rewritten: Rewritten) -> list[bytes]:
        """Return the names of the functions and classes of a file that edits change."""
        file = self._old.file(rewritten.path)
        places = [edit.start for edit in rewritten.edits]
        named = [n for n in file.tree.body if isinstance(n, (*FUNCTIONS, ast.ClassDef))] if file is not None else []
        spans = [(node.name.encode(), *file.original_span(node)) for node in named] if file is not None else []
        return [name for name, start, end in spans if any(start <= place < end for place in places)]

    def _names_cuda(self, path: str) -> bool:
        text = self._original(path)
        return text is not None and (b'"cuda' in text[0] or b"'cuda" in text[0])

    def _asks_for(self, path: str, names: Iterable[bytes]) -> bool:
        text = self._original(path)
        return text is not None and b"cuda" in text[0] and any(name in text[0] for name in names)

    def _imported(self, paths: Iterable[str]) -> list[str]:
        """Return the files that files import, directly or not, on the way to files that speak of devices."""
        return _on_the_way(paths, self.facts.index.imported_by, self._speaks_of_devices)

    def _add_bases(self, paths: dict[str, None]) -> None:
        """Add the files of base classes, whose methods may hand on what attributes hold, and of what takes a table."""
        todo = list(paths)
        while todo:
            file = self._old.file(path := todo.pop())
            bases = {last_name(base) for node in file.by_node for base in getattr(node, "bases", ())} if file else set()
            bases |= file.given_tables if file else set()
            for target in self.facts.index.imported_by(path) if bases else ():
                if target not in paths and self._defines(target, bases):
                    paths[target] = None
                    todo.append(target)

    def _defines(self, path: str, names: set[str]) -> bool:
        """Return whether a file defines a class of one of these names."""
        text = self._original(path)
        if text is None or not any(name.encode() in text[0] for name in names if name):
            return False
        file = self._old.file(path)
        return file is not None and any(getattr(node, "name", "") in names for node in file.by_node)

    def _speaks_of_devices(self, path: str) -> bool:
        text = self._original(path)
        if text is None or text[0].startswith(HELPER_MARK):
            return False  # what the helper gives is known
        if any(word in text[0] for word in (*_ABOUT, f"{self.facts.helper}.".encode())):
            return True
        if b"Tensor(" in text[0] and path in self.facts.under_default.files:
            return True
        imports = self.facts.index.imports.get(path, ())
        return any(has_own_devices((item.module or item.name).partition(".")[0]) for item in imports)

    def _checked(self, group: _Group, new: Program, by_path: Mapping[str, Rewritten]) -> Held:
        """Return what `_check` finds; what it cannot evaluate is held back whole."""
        changed = [path for path in group.paths if path in by_path]
        try:
            if all(program.file(path) is not None for program in (self._old, new) for path in changed):
                return self._check(group, new, by_path)
            words = _TOO_DEEP
        except RecursionError:
            words = _TOO_DEEP
        except Exception as error:  # a bug of ours must cost an edit, not the run
            words = f"this cannot be checked in six worlds ({type(error).__name__}: {error}); please report it"
        return {path: {(e.start, e.end): words for e in by_path[path].edits} for path in changed}

    def _check(self, group: _Group, new: Program, by_path: Mapping[str, Rewritten]) -> Held:
        owners = {
            number: (path, edit)
            for path in group.paths
            if path in by_path
            for number, edit in enumerate(by_path[path].edits, self._first[path])
            if number not in self._known[path]
        }
        if not owners:
            return {}
        both = [f for program in (self._old, new) for path in group.paths if (f := program.file(path)) is not None]
        in_tests = {number: owner for number, owner in owners.items() if self.facts.is_test(owner[0])}
        edits = {path: by_path[path].edits for path in group.paths if path in by_path}
        relevance = Relevance(both, self.facts.helper, edits, self.facts.own is None)
        if not group.entries:
            files = [f for path in group.roots if (f := new.file(path)) is not None]
            group.entries, group.called = _entries(files, relevance)
        found: list[Fault] = []
        worlds = _worlds(relevance)
        knows_others = relevance.speaks_of({*types_of("ladder"), "accelerator"})
        shared = set(filter(self.facts.is_in_portable_package, group.paths))
        runs: list[tuple[Setting, Observations]] = []  # of the rewritten version
        users = _users(relevance)
        for user in users:  # one is added below
            before = {world: self._seen(self._old, world, group, relevance, user, group.before) for world in worlds}
            known = knows_others, user.gives_flags, shared, self._uses(group, user, before), self._is_installed
            whole = known_of_original(before, group.programs, owners, *known)
            after = {world: self._seen(new, world, group, relevance, user, runs) for world in worlds}
            if user == users[0] and any(seen.has_new_defaults for seen in after.values()):
                users.append(User(gives_values=False))  # but flags, which lead to what has a default
            used = frozenset(after[worlds[0]].used)  # in CUDA's world
            for world in worlds:
                single = replace(world, single=True)
                alone = partial(self._seen, new, single, group, relevance, user, runs)
                found += faults(world, before[world], after[world], whole, used, alone)
                found += told_in_tests(world, before[world], used, in_tests)
            unused, others = pointless(after, whole) if not found else ([], NONE)
            if unused:
                unseen = [world for world in WORLDS if world.is_portable and world not in after]
                if unseen:
                    after |= {world: self._seen(new, world, group, relevance, user, runs) for world in unseen}
                    unused, others = pointless(after, whole)
                found += self._with_functions(unused, others, owners)
            if not found and self._staying:
                found += self._helper_alone(group, before, after, owners)
            broken = NONE.union(*(fault.edits for fault in found))
            self._staying |= {
                p for seen in after.values() for p, _ in seen.of(DEVICE) if broken & seen.edits(DEVICE, p)
            }
            if found:
                break  # the other users are asked when these edits have been held back
        held: Held = {}
        if spared := self._beside_what_leaves_mps_out(found, owners, by_path, after):
            self.without_mps |= spared
            return held  # once they are rewritten, the rest is checked again
        for fault in found:
            for number in sorted(fault.edits):
                path, edit = owners[number]
                held.setdefault(path, {}).setdefault((edit.start, edit.end), self._reason(fault, path))
        return held

    def _beside_what_leaves_mps_out(
        self,
        found: Iterable[Fault],
        owners: Mapping[int, tuple[str, Edit]],
        by_path: Mapping[str, Rewritten],
        after: Mapping[World, Observations],
    ) -> dict[str, str]:
        """Return the files, with reasons, whose devices move to MPS and leave those of a choice that leaves MPS out.

        Such a choice is made in the file of those devices, or reaches them.
        """
        spared: dict[str, str] = {}
        for fault in (each for each in found if each.world.kind == "mps"):
            file = by_path.get(fault.place[0]) or self._settled.get(fault.place[0])
            reaching = after[fault.world].edits(DEVICE, fault.place)
            edits = [*(file.edits if file else ()), *(owners[number][1] for number in reaching if number in owners)]
            if any("is_complete" in edit.text for edit in edits):
                paths = {owners[number][0] for number in fault.edits} - self.without_mps.keys()
                spared |= {path: self._reason(fault, path) for path in paths}
        return spared

    def _is_installed(self, path: str) -> bool:
        return not self.facts.is_test(path) and installed_above(self.facts.index, os.path.dirname(path)) is not None

    def _uses(
        self, group: _Group, user: User, before: Mapping[World, Observations]
    ) -> Callable[[World], AbstractSet[str]]:
        """Return a function that returns the files in which the project itself uses a world's accelerator."""
        program = Program(self.facts.index, self._unedited)
        runs: list[tuple[Setting, Observations]] = []

        @cache
        def relevance() -> Relevance:
            files = [file for path in group.paths if (file := program.file(path)) is not None]
            return Relevance(files, self.facts.helper, {})

        @cache
        def used(world: World) -> AbstractSet[str]:
            if self._settled.keys().isdisjoint(group.paths):
                return moved_in(world, before[world])
            return moved_in(world, self._seen(program, world, group, relevance(), user, runs))

        return used

    def _seen(
        self,
        program: Program,
        world: World,
        group: _Group,
        relevance: Relevance,
        user: User,
        runs: list[tuple[Setting, Observations]],
    ) -> Observations:
        """Return what one version does in one world, and with one user.

        `runs` are the evaluations of this version so far: one that asked nothing of which this world differs is taken.
        """
        known = next((seen for setting, seen in runs if setting.is_like(world, user)), None)
        if known is not None:
            return known
        setting = Setting(world, user)
        run = Statements(program, setting, self.facts.helper, relevance, group.imported)
        roots = [f for path in group.paths if path in group.roots and (f := program.file(path)) is not None]
        by_key: dict[str, FunctionInfo] = {info.key: info for file in roots for info in file.functions}
        near = [f for path in group.paths if path not in group.roots and (f := program.file(path)) is not None]
        readers = [info for file in near for info in _readers(file) if relevance.holds(info.node)]
        rounds = ROUNDS
        while rounds:
            rounds -= not run.new_round()
            for file in roots:
                run.body_of(file)
            for key in group.entries:
                if (info := by_key.get(key)) is not None:
                    run.seen.is_assumption = key in group.called
                    run.root(info)
            run.seen.is_assumption = True
            for info in readers:
                run.root(info)
            run.seen.is_assumption = False
            if not run.is_stale:
                break
        self.steps += run.steps
        runs.append((setting, run.seen))
        return run.seen

    def _with_functions(
        self,
        alone: Iterable[Fault],
        used: Edits,
        owners: Mapping[int, tuple[str, Edit]],
    ) -> Iterator[Fault]:
        """Yield the edits that only CUDA comes to use, each with all of its function that no other world uses.

        An edit that only deletes, or breaks a line, stays: no value tells whether a world uses it.
        """
        for fault in alone:
            path, offset = fault.place
            file = self._old.file(path)
            spans = [file.original_span(info.node) for info in file.functions] if file is not None else []
            start, end = max((span for span in spans if span[0] <= offset < span[1]), default=(0, MOST_EDITS))
            here = {n: edit for n, (p, edit) in owners.items() if p == path and start <= edit.start <= end}
            beside = {n for n, edit in here.items() if edit.end <= end and edit.text.strip()}
            whole = fault.edits | (beside - used if start else frozenset())
            yield Fault(whole, fault.world, fault.place, fault.words)

    def _helper_alone(
        self,
        group: _Group,
        before: Mapping[World, Observations],
        after: Mapping[World, Observations],
        owners: Mapping[int, tuple[str, Edit]],
    ) -> Iterator[Fault]:
        """Yield the edits that bring the helper into programs that all stay on CUDA, as their devices are held back.

        Only where the original has a device on CUDA, a program is made portable; it does not stay there if it chooses
        another accelerator itself. Each test is a program of its own, and of a divided group the other programs of its
        files are not known.
        """
        places = dict(before[WORLDS[0]].of(DEVICE))
        chosen = NONE.union(*(seen.edits(DEVICE, place) for seen in after.values() for place in places))
        portable = {owners[n][0] for n in chosen if n in owners}  # files in which a program takes any accelerator
        portable |= {path for world, seen in before.items() for path, _ in _own_choices(world, seen)}
        staying = {place for place in self._staying & places.keys() if _may_be_cudas(places[place])}
        first = {place[0]: place for place in sorted(staying, reverse=True)}
        tests = {path for files in group.programs for path in files if self.facts.is_test(path)}
        is_divided = group.roots != group.paths
        for number, (path, edit) in owners.items():
            is_known = not is_divided or (path in group.roots and path not in self.facts.index.importers)
            if path in tests or not is_known or f"{self.facts.helper}." not in edit.text:
                continue
            programs = [files - tests for files in group.programs if path in files]
            stays = [first[each] for files in programs for each in sorted(files) if each in first]
            if stays and all(portable.isdisjoint(files) and first.keys() & files for files in programs):
                place = first.get(path, stays[0])
                yield Fault(
                    frozenset({number}), WORLDS[0], place, _STAYS if is_cuda(devices(places[place])) else _IS_LOST
                )

    def _reason(self, fault: Fault, edited: str) -> str:
        """Return a fault in words, with its line, and with its file unless that is the edited one."""
        path, offset = fault.place
        text = self._settled[path].before if path in self._settled else text_of(self.facts.index, path)
        if text is None:
            return fault.words
        where = "" if path == edited else f"{os.path.relpath(path, self.facts.index.root)}, "
        return f"{where}{line_of(self.facts.index, path, text, offset)}: {fault.words}"


_STAYS = "this device stays CUDA's, and its program with it"
_IS_LOST = "this device cannot be followed, and its program stays on CUDA"


def _may_be_cudas(value: Value) -> bool:
    """Return whether a value may be a device of CUDA's: it names one, or cannot be followed."""
    return Unknown() in value or is_cuda(devices(value))


def _own_choices(world: World, seen: Observations) -> set[Place]:
    """Return where the original takes the accelerator of a world that has not CUDA's."""
    return {place for place, there in seen.of(DEVICE) if world.is_portable and Device(world.kind) in there}


def _users(relevance: Relevance) -> list[User]:
    """Return the users whose choices can differ for this code; the first may choose anything."""
    users = [User()]
    if relevance.has_options:
        users.append(User(gives_flags=False, gives_values=False))
    if relevance.settings:
        users.append(User(changes_settings=False))
    return users


def _worlds(relevance: Relevance) -> list[World]:
    """Return the worlds that can differ for code with these words; CUDA comes first."""
    spoken = {name for name, words in _WORDS.items() if relevance.speaks_of(words)}
    return [world for world in WORLDS if not world.only_with or world.only_with in spoken]


def _entries(files: Sequence[File], relevance: Relevance) -> tuple[list[str], frozenset[str]]:
    """Return the keys of the functions to evaluate, and those of them that something calls by name.

    Callers come first: what they call gets its arguments from them, and is not evaluated with such as nobody knows.
    """
    functions = [info for file in files for info in file.functions if relevance.holds(info.node)]
    inside: dict[str, set[str]] = {}  # what the functions of a name call
    names = {info: name_of_call(info.name, info.owner.node.name if info.owner else "") for info in functions}
    for info, name in names.items():
        inside.setdefault(name, set()).update(_called(info.node, info.file))
    of_functions = set().union(*inside.values())
    called = of_functions.union(*(_called(file.tree, file) for file in files))
    depth = {name: int(name in called) for name in names.values() if name not in of_functions}
    for name in reached(sorted(depth), lambda name: sorted(inside.get(name, ()))):
        depth.setdefault(name, len(depth) + 1)
    last = len(depth) + 1  # functions in functions, and those that only call each other
    order = sorted(functions, key=lambda i: (last if i.outer is not None else depth.get(names[i], last), i.key))
    return [info.key for info in order], frozenset(info.key for info in functions if info.name in called)


def _readers(file: File) -> list[FunctionInfo]:
    """Return the functions that read what other functions bind: they need not be called to get it."""
    shared = file.shared
    return [info for info in file.functions if not shared.isdisjoint(_read(info.node))] if shared else []


@remembered
def _read(node: ast.AST) -> set[str]:
    """Return the names that are read in a function."""
    return {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


_imported_as = remembered(imported_as)  # by file, which is asked for each of its functions


def _called(node: ast.AST, file: File) -> set[str]:
    """Return the last names of all that is called in a function or file, and what they are imported by."""
    names, imported = _last_names(node), _imported_as(file.tree)
    return names.union(imported[name] for name in names if name in imported)


@remembered
def _last_names(node: ast.AST) -> set[str]:
    """Return the last names of all that is called in a function or file; a decorator is called by what it decorates."""
    found: set[str] = set()
    for each in walk(node):
        found.update(map(last_name, getattr(each, "decorator_list", ())))
        if isinstance(each, ast.Call):
            found.add(last_name(each.func))
    return found - {""}


def _on_the_way(
    starts: Iterable[str], onward: Callable[[str], Iterable[str]], is_wanted: Callable[[str], bool]
) -> list[str]:
    """Return the files that some import, directly or not, and that are wanted or lead to one that is."""
    importers: dict[str, list[str]] = {}
    for path in reached(starts, onward):
        for target in onward(path):
            importers.setdefault(target, []).append(path)
    leading = {*reached(filter(is_wanted, importers), lambda path: importers.get(path, ()))}
    return [target for target in importers if target in leading]
