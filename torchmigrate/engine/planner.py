"""Plan a run: find the files, analyse them, and rewrite them in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchmigrate.base import file_io
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Skipped
from torchmigrate.project import discovery
from torchmigrate.project.discovery import EVERYTHING, Selection
from torchmigrate.project.text_rules import TextRules, text_rules
from torchmigrate.rules import packs
from torchmigrate.rules.model import Prefilter, Ruleset, prefilter
from torchmigrate.source.encoding import HELPER_MARK

if TYPE_CHECKING:
    from torchmigrate.engine.worker import Progress, Read
    from torchmigrate.project.context import ProjectContext


@dataclass(frozen=True, slots=True)
class Plan:
    """A run's results, sorted by path, with the number of Python files (`files_seen`) and the `others` read."""

    results: list[FileResult]
    files_seen: int
    notes: list[str]
    others: frozenset[str] = frozenset()
    facts: ProjectContext | None = None  # None if no file had work
    checked: tuple[int, int] = (0, 0)  # edits that the worlds check looked at, and edits that it held back
    copies: tuple[tuple[str, bytes, tuple[str, ...]], ...] = ()  # copies of the helper: path, text, who imports each


class Tended(NamedTuple):
    """A run tends copies of the helper, files that may import one, and files that hold it as a class."""

    copies: list[str]
    users: list[Read]
    holders: list[Read]


def _imports_helper(path: str, raw: bytes) -> bool:
    from torchmigrate.project import helper_file, import_graph  # most files do not hold the word

    names = ({item.name, item.module.rpartition(".")[2]} for item in import_graph.read_imports(path, raw))
    return any(not each.isdisjoint(helper_file.NAMES) for each in names)


@dataclass(frozen=True, slots=True)
class Input:
    """The rules of a run, and the files that it finds."""

    ruleset: Ruleset
    rules: Prefilter
    texts: TextRules
    found: Sequence[discovery.DiscoveredFile]


def prepare(paths: Sequence[Path], settings: Settings, only: Selection = EVERYTHING) -> Input:
    """Load the rules and find the files, but read none. Raises PackError or UserError."""
    ruleset = packs.load(settings.rule_paths, cases=False).selected(settings.select, settings.ignore)
    if settings.rule_paths:  # a fixer that does not exist is an error, whatever the files hold; ours are tested
        from torchmigrate.rewriting.visitor import dispatch_table

        dispatch_table(ruleset)
    texts = text_rules(ruleset)
    found = only.completed(discovery.discover(paths, settings, texts), texts)
    return Input(ruleset, prefilter(ruleset), texts, found)


def plan_helpers(paths: Sequence[Path], settings: Settings) -> Plan:
    """Return a plan that writes copies of the helper alone, and names them all; raises PackError or UserError."""
    found = prepare(paths, settings).found
    none = Ruleset({})
    return plan(paths, settings, 1, "apply", given=Input(none, prefilter(none), text_rules(none), found))


def plan(
    paths: Sequence[Path],
    settings: Settings,
    jobs: int,
    mode: str,
    on_progress: Progress | None = None,
    only: Selection = EVERYTHING,
    given: Input | None = None,
) -> Plan:
    """Find problems and, in mode `apply`, rewrite files in memory; raises PackError or UserError.

    `mode` is check, apply or survey (`worker.Job`). Facts come from all files of the project, results only from those
    in `only`. `given` is the result of `prepare`, if the caller has it already.
    """
    given = given or prepare(paths, settings, only)
    ruleset, rules, found = given.ruleset, given.rules, given.found
    mine = [item for item in found if only.holds(item)]
    results, todo, maybe, tended = _read([item for item in mine if not item.text], given, only.texts)
    about_texts, others = given.texts.read([item for item in mine if item.text], settings, only.texts)
    seen = sum(not item.text for item in mine) + sum(isinstance(r, (Skipped, Failed)) for r in about_texts)
    results += about_texts
    if only.paths is not None or mode == "survey":
        tended = Tended([], [], [])  # a file on its own
    if not todo and not maybe and not any(tended):
        return Plan(sorted(results, key=lambda r: str(r.path)), seen, [], others)
    from torchmigrate.engine import checking  # imported here, as a run over clean files needs none of these
    from torchmigrate.helper.vendoring import Vendored
    from torchmigrate.project import context
    from torchmigrate.syntax.scope import tree_of

    tree_of.cache_clear()  # those of the run before: a server of an editor makes many

    inside = context.whole_project(paths, found, settings)
    around = context.code_of_other_files({*inside} - {str(item.path) for item in mine}, rules.has_work)
    texts = [
        *(context.code(path, raw) for path, raw in dict.fromkeys([*todo, *tended.users, *tended.holders])),
        *around,
    ]
    facts, notes = context.build_context(paths, inside, texts, settings, only.texts)
    if settings.style == "native" and mode != "check":
        context.refuse_old_torch(facts.torch, notes)
    if maybe:
        todo += [(path, raw) for path, raw in maybe if path in facts.under_default.files]
    if not todo:
        notes = []
    done, facts, checked = checking.run_checked(todo, mode, ruleset, facts, jobs, on_progress)
    vendored = Vendored(facts)
    lacking = {d.result.path: d.lacks for d in done if d.lacks and isinstance(d.result, Changed)}
    vendored.foresee(path for path, lacks in lacking.items() if lacks.helper)
    for result in (d.result for d in done):
        lacks = lacking.get(result.path)
        results.append(vendored.bind(result, lacks) if lacks else vendored.keep(result))
    vendored.tend(tended.copies, tended.users)
    results = vendored.tend_classes(results, tended.holders)
    results = vendored.outstanding(results) if mode == "check" else vendored.completed(results)
    results = checking.in_new_lines(results, facts)
    notes += vendored.edited()
    notes += vendored.notes()
    if settings.style == "native":
        notes += _note_remaining_calls(results, facts)
    copies = tuple(vendored.copies(tended.holders))
    return Plan(sorted(results, key=lambda r: str(r.path)), seen, notes, others, facts, checked, copies)


def _read(
    found: Sequence[discovery.DiscoveredFile], given: Input, texts: Mapping[str, bytes]
) -> tuple[list[FileResult], list[Read], list[Read], Tended]:
    """Return the results of files that are not analysed, the files with work, those that may have some, and others."""
    tended = Tended([], [], [])
    results: list[FileResult] = []
    todo: list[Read] = []
    maybe: list[Read] = []
    for item in found:
        if item.error is not None:
            results.append(Failed(item.path, item.error))
        elif item.skipped_reason is not None:
            results.append(Skipped(item.path, item.skipped_reason))
        else:
            _sort(item.path, texts.get(str(item.path)), given, results, todo, maybe, tended)
    return results, todo, maybe, tended


def _sort(
    path: Path,
    raw: bytes | None,
    given: Input,
    results: list[FileResult],
    todo: list[Read],
    maybe: list[Read],
    tended: Tended,
) -> None:
    """Put one file into the list where it belongs: `results`, `todo` or `maybe`, and `tended` for the helper's sake."""
    if raw is None:
        try:
            raw = file_io.read(path)
        except file_io.TooLarge as error:
            results.append(Skipped(path, str(error.strerror)))
            return
        except OSError as error:
            results.append(Failed(path, f"cannot be read: {error.strerror or error}"))
            return
    if raw.startswith(HELPER_MARK):
        tended.copies.append(str(path))
        return
    if HELPER_MARK in raw:
        tended.holders.append((str(path), raw))
    elif b"accel" in raw and _imports_helper(str(path), raw):
        tended.users.append((str(path), raw))
    if given.rules.has_work(raw) or (path.suffix == ".ipynb" and given.texts.concerns_notebook(str(path), raw)):
        todo.append((str(path), raw))
    elif given.rules.may_have_work(raw):
        maybe.append((str(path), raw))


def _note_remaining_calls(results: Sequence[FileResult], facts: ProjectContext) -> Iterator[str]:
    """Yield a note that names the helper's functions that are still called in native style."""
    called = re.compile(rf"(?<![\w.]){facts.helper}\.([a-z]\w+)".encode())
    texts = (r.after for r in results if isinstance(r, Changed) and not r.new and not facts.own)
    found = sorted({word.decode() for text in texts for word in called.findall(text)})
    if found:
        yield f"still called of the helper, where torch.accelerator is not the same: {', '.join(found)}"


def text_selection(path: Path, raw: bytes) -> Selection:
    """Return the selection of a single file with this text; the path is a real one, the file need not exist."""
    return Selection(frozenset({str(path)}), {str(path): raw})


def plan_text(
    path: Path,
    raw: bytes,
    settings: Settings,
    mode: str,
    on_progress: Progress | None = None,
    helpers: Mapping[str, bytes] | None = None,
) -> Plan:
    """Return the plan of a run over one path, as if the file contained `raw`; excluded files stay excluded.

    `helpers` are texts, by path, of helpers that are not saved yet. Raises PackError or UserError.
    """
    from torchmigrate.project import discovery

    if pattern := discovery.exclusion(path, settings):
        return Plan([Skipped(path, f"excluded by `{pattern}`")], 1, [])
    only = Selection(frozenset({str(path)}), {**(helpers or {}), str(path): raw})
    return plan([path], settings, 1, mode, on_progress, only)
