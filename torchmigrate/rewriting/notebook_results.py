"""Results of a notebook: findings in their cells, the rewritten file with its imports, and cells that were not read."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchmigrate.base.text import listed
from torchmigrate.diagnostics.finding import Changed, Finding, Safety, Status, shifted
from torchmigrate.helper import import_edits
from torchmigrate.helper.placement import Placement, placed, placement, stands_alone
from torchmigrate.project import helper_parts
from torchmigrate.project.context import ProjectContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source import notebook
from torchmigrate.source.edits import Edit, flatten
from torchmigrate.source.notebook import Notebook, Unread
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import first_line

if TYPE_CHECKING:
    from torchmigrate.rewriting.rewrite import Outcome


_CD = re.compile(rb"%?cd\b")
_SKIPS = re.compile(r"^\s*#\s*torchmigrate:\s*skip-file\b", re.M)
HasWork = Callable[[bytes], bool]


def in_cells(findings: Sequence[Finding], book: Notebook | None) -> Iterator[Finding]:
    """Yield the findings with the numbers of their cells, and with lines that count from the cell's first."""
    for finding in findings:
        if book is None:
            yield finding
            continue
        cell, line = book.cell_of(finding.start)
        last = book.cell_of(finding.end)[1]
        yield replace(finding, cell=cell, line=line, end_line=last)


def unread(book: Notebook, has_work: HasWork) -> str:
    """Return the error for cells that are no Python and in which a rule might have found something; else ""."""
    cells = [cell for cell in book.unread if cell.magic is None and _matters(cell, has_work)]
    if not cells:
        return ""
    first = cells[0]
    rest = "; the other cells were read" if book.cells else ""
    numbers = listed([str(cell.number) for cell in cells])
    several = f"cells {numbers} cannot be read; " if len(cells) > 1 else ""
    return f"{several}cell {first.number}, line {first.line}: {first.why}{rest}"


def skips_file(book: Notebook) -> bool:
    """Return whether a cell that is no Python says `skip-file`; that cell may be the reason for it."""
    return any(cell.magic is None and _SKIPS.search(cell.text) for cell in book.unread)


def _matters(cell: Unread, has_work: HasWork) -> bool:
    raw = cell.text.encode(errors="replace")
    return b"torch" in raw or has_work(raw)


def foreign(book: Notebook, has_work: HasWork) -> Iterator[Finding]:
    """Yield a note for each cell that another program runs, or that becomes a file, and in which a rule has work."""
    for cell in book.unread:
        if cell.magic and has_work(cell.text.encode(errors="replace")):
            message = f"`{cell.magic}`: not this notebook's own code, and not read"
            found = Finding("notebook", Safety.DISPLAY, 0, 0, message, status=Status.LEFT, cell=cell.number)
            yield replace(found, line=1, column=1, end_line=1, end_column=1 + len(cell.magic))


def changed(path: Path, raw: bytes, book: Notebook, outcome: Outcome, facts: ProjectContext) -> Changed:
    """Return the rewritten notebook, with the helper's import in a cell."""
    edits = flatten(outcome.passes, len(book.source.utf8))
    findings = outcome.remaining
    module = SemanticModel(path, book.source, facts)
    first_use = min((e.start for e in edits), default=len(book.source.utf8))
    alone = outcome.needs_helper and not import_edits.imports_helper(module) and stands_alone(facts, path, raw, book)
    first_use = _before_all_sections(module, book, edits, first_use, alone)
    helper = _own_cell(module, book, outcome, first_use) if alone else None
    for added in sorted(_added(module, book, outcome, [first_use, *(e.start for e in edits)], helper)):
        ahead = [e for e in edits if e.start < added.start]
        grown = sum(len(e.text.encode()) - (e.end - e.start) for e in ahead)
        moved = Edit(added.start + grown, added.start + grown, added.text)
        line = replace(book.source, utf8=outcome.text).position(moved.start)[0]
        findings = tuple(shifted(findings, moved, line))
        edits = sorted([*edits, added])
    after = book.join(edits)
    if helper and helper.number is not None:
        offset = next((cell.start for cell in book.cells if cell.number > helper.number), len(book.source.utf8))
        grown = sum(len(e.text.encode()) - (e.end - e.start) for e in edits if e.start < offset)
        cell = Edit(offset + grown, offset + grown, helper.text + notebook.SEPARATOR.decode())
        findings = tuple(shifted(findings, cell, 0))
        after = notebook.with_cell(after, helper.number, helper.text)
    applied = tuple(in_cells(outcome.applied, book))
    return Changed(path, raw, after, applied, tuple(in_cells(findings, notebook.split(after))))


def _before_all_sections(
    module: SemanticModel, book: Notebook, edits: Sequence[Edit], first_use: int, alone: bool
) -> int:
    """Return the end of the cell that imports torch first, if several cells use the helper: a reader may run some only.

    A helper that is imported stays where the path to it is set.
    """
    imports = (n for n in module.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)))
    torch = next((n for n in imports if import_edits.names_torch(n)), None)
    if torch is None or len({book.cell_at(e.start).number for e in edits}) == 1:
        return first_use
    if not alone and (_sets_paths(module, first_use) or any(_moves(module, book))):
        return first_use
    return min(first_use, book.cell_at(module.span(torch)[0]).end)


class _Own(NamedTuple):
    """The helper's code in a notebook: after the cell of this number, above the code at this byte, or with imports."""

    text: str
    number: int | None = None
    above: int | None = None


def _own_cell(module: SemanticModel, book: Notebook, outcome: Outcome, first_use: int) -> _Own:
    """Return the helper for a notebook that stands alone, and its place: after torch's import, above its use."""
    name = module.facts.helper
    code = helper_parts.as_class(helper_parts.used_by(outcome.text, name), name)
    place = _imports(module, book, [""], first_use).start
    home, cell = book.cell_at(place), book.cell_at(first_use)
    shell = any(end <= first_use and start >= cell.head for start, end in cell.masked)  # it may install torch
    if module.facts.settings.runtime == "inline" or cell.alone:
        text = _with_imports(code, ())
        return _Own(text, home.number if home is not cell else None if shell else cell.number - 1)
    # the notebook keeps its cells and their numbers
    if home is cell:
        text = _with_imports(code, _imported(module, cell.start, place))
        return _Own(text if text.startswith(("import ", "from ")) else f"\n\n{text}")
    head = next(at for node in module.tree.body if (at := module.span(node)[0]) >= cell.head)
    above = first_use if shell else min(head, first_use)
    return _Own(_with_imports(code, _imported(module, cell.start, above)), above=above)


def _with_imports(code: str, there: Collection[str]) -> str:
    """Return the class with the imports that it needs above it, but for those that are `there`."""
    imports = {bound: line for bound, line in helper_parts.imports_for(code).items() if line not in there}
    lines = [line for bound, line in imports.items() if bound != "torch"]
    torch = [imports["torch"]] if "torch" in imports else []
    gap = [""] if lines and torch else []
    return "\n".join([*lines, *gap, *torch, *(["", ""] if lines or torch else []), code.rstrip()])


def _imported(module: SemanticModel, start: int, end: int) -> set[str]:
    """Return the imports of one name each that stand between two bytes at the top of a notebook's code."""
    imports = (n for n in module.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)))
    return {ast.unparse(n) for n in imports if start <= module.span(n)[0] and module.span(n)[1] <= end}


def _added(
    module: SemanticModel, book: Notebook, outcome: Outcome, uses: Sequence[int], helper: _Own | None
) -> Iterator[Edit]:
    """Yield the missing imports, and the helper's folder for `sys.path` if the kernel leaves it before them.

    `uses` are the places where the helper is used, the first one first.
    """
    missing = ["import torch"] if outcome.needs_torch else []
    place = Placement("", "")
    if helper and helper.above is not None:
        yield _above(module, helper.above, [*helper.text.split("\n"), "", ""])
    elif helper:
        missing += [f"{helper.text}\n\n"] if helper.number is None else []
    elif outcome.needs_helper and not import_edits.imports_helper(module):
        facts, path = module.facts, module.path
        place = placed(SemanticModel(path, book.source, facts)) if facts.own else placement(facts, path)
        missing.append(place.statement)
    if not missing:
        return
    added = _imports(module, book, missing, uses[0])
    below = module.source.utf8[added.end :]
    if helper and below.startswith(b"\n"):  # two blank lines below the class, with those that are there
        blank = len(below) - len(below.lstrip(b"\n"))
        added = replace(added, text=added.text.rstrip() + "\n" * (1 + max(2 - blank, 0)))
    yield added
    if place.path:
        yield from _again(module, book, place.statement, added.start, uses)
    is_beside = place.path and Path(place.path).parent == module.path.parent
    if is_beside and (move := min(_moves(module, book), default=added.start)) < added.start:
        # the import itself stays: cells in between may install torch, or tell it of devices
        where = f"sys.path.append(os.getcwd())  # {Path(place.path).name} lies here"
        yield _above(module, move, ["import os, sys", where])


def _again(module: SemanticModel, book: Notebook, statement: str, start: int, uses: Sequence[int]) -> Iterator[Edit]:
    """Yield the helper's import for each further cell that imports torch again and leads to a use of the helper.

    Who runs such a section may skip the cells above.
    """
    nodes = [n for n in module.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) and import_edits.names_torch(n)]
    cells = {book.cell_at(at).number: node for node in nodes if start < (at := module.span(node)[0])}
    begins = [book.cell_at(module.span(node)[0]).start for node in cells.values()]
    sections = zip(cells.values(), begins, [*begins, len(book.source.utf8)][1:], strict=True)
    torch = [node for node, begin, end in sections if any(begin <= use < end for use in uses)]
    for node in torch:
        cell = book.cell_at(module.span(node)[0])
        if not cell.alone and cell is not book.cell_at(start - 1):
            added = import_edits.insertion(module, [statement], cell.end, after=node)
            is_last = added.start > cell.end  # the line has no end
            yield import_edits.insertion(module, [statement], cell.end, before=True, after=node) if is_last else added


def _moves(module: SemanticModel, book: Notebook) -> Iterator[int]:
    """Yield the offsets where the kernel leaves the notebook's folder."""
    for cell in book.cells:
        text = cell.text.encode()
        yield from (start for start, end in cell.masked if _CD.match(text[start - cell.start : end - cell.start]))
    if b"chdir" in module.source.utf8:
        calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
        yield from (module.span(call)[0] for call in calls if last_name(call.func).endswith("chdir"))


def _imports(module: SemanticModel, book: Notebook, statements: list[str], first_use: int) -> Edit:
    """Return the edit that imports before the first use, in a shared cell, once `sys.path` is set."""
    if module.facts.own and _sets_paths(module, first_use):
        return _above(module, first_use, statements)
    added = import_edits.insertion(module, statements, first_use)
    if added.start > book.cell_at(added.start - 1).end:  # below a line without an end, which would change, too
        added = import_edits.insertion(module, statements, first_use, before=True)
    while (inside := book.cell_at(added.start)).alone and inside is not book.cells[0]:
        added = import_edits.insertion(module, statements, inside.start - 1)
    return added


def _sets_paths(module: SemanticModel, before: int) -> bool:
    """Return whether `sys.path` stands in the notebook before this byte."""
    attributes = (n for n in module.nodes if isinstance(n, ast.Attribute) and n.attr == "path")
    return any(chain_of(n) == "sys.path" and module.span(n)[1] <= before for n in attributes)


def _above(module: SemanticModel, offset: int, statements: list[str]) -> Edit:
    """Return the edit that adds lines above the statement that holds this byte, or above the last one before it."""
    holder = max((n for n in module.tree.body if module.span(n)[0] <= offset), key=lambda n: n.lineno)
    at = module.source.offset(first_line(holder), 0)
    return Edit(at, at, "".join(f"{statement}{module.source.newline}" for statement in statements))
