"""Render the portability report as Markdown for a pull request: tables, and a checklist of what needs a person."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchmigrate import __version__
from torchmigrate.base.text import counted, shorten
from torchmigrate.formats.markdown import cell, code, folded, plain
from torchmigrate.formats.portability.text import STATIC, apart, first_places, tally, verdict
from torchmigrate.surveys.portability import DEFINITION, Reason, Share, State, Survey, Waiting, percent

_PLACES = 3  # places of a reason
_LISTED = 10  # places of each message: a pull request's body is limited to 65,536 characters
_SOURCE = 80  # characters of a source line
_MOST = 100  # items of a checklist
_MODULES = 60  # rows


def render(survey: Survey) -> str:
    """Return the whole report."""
    parts = [f"## Portability of {plain(survey.name)}", plain(verdict(survey)), STATIC]
    if survey.sites:
        parts += [_table(*_score(survey)), "### Modules", _table(*_modules(survey)), *_lists(survey)]
    if survey.reasons:
        parts.append(folded(f"Findings by reason ({counted(len(survey.reasons), 'rule')})", _table(*_reasons(survey))))
    if said := list(apart(survey)):
        parts += ["### Not in the score", "\n".join(f"- {plain(sentence)}" for sentence in said)]
    if survey.sites:
        parts.append(folded("What the score is", DEFINITION))
    parts.append(f"{code(survey.command)}, torchmigrate {__version__}")
    return "\n\n".join(parts) + "\n"


def _lists(survey: Survey) -> Iterator[str]:
    yours, unsafe = survey.waiting(State.YOURS), survey.waiting(State.UNSAFE)
    if yours:
        yield "### Needs a person"
        yield "\n".join(_checklist(yours))
    if unsafe:
        body = "\n".join(_checklist(unsafe))
        yield folded(f"Waits for `--unsafe-fixes` ({survey.count(State.UNSAFE)})".replace("`", ""), body)


def _checklist(waiting: Sequence[Waiting]) -> Iterator[str]:
    """Yield a checklist: a heading for each message, an item for each place."""
    left = _MOST
    for found in waiting:
        yield f"- {code(found.rule)}: {plain(found.message)}"
        shown = found.entries[: min(_LISTED, left)]
        left -= len(shown)
        for entry in shown:
            source = f": {code(shorten(entry.source, _SOURCE))}" if entry.source else ""
            yield f"  - [ ] {code(str(entry.place))}{source}"
        if more := len(found.entries) - len(shown):
            yield f"  - and {more:,} more: {code(f'torchmigrate check --select {found.rule}')}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; columns that hold only numbers are aligned right."""
    right = [all(re.fullmatch(r"[\d,.%()→ ]*", row[i]) for row in rows) for i in range(len(heads))]
    lines = [f"| {' | '.join(heads)} |", "|" + "".join("---:|" if r else "---|" for r in right)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _score(survey: Survey) -> tuple[list[str], list[list[str]]]:
    unsafe = bool(survey.count(State.UNSAFE))
    heads = ["backend", "sites", "as it stands", "after apply", *(["with --unsafe-fixes"] if unsafe else [])]
    rows = []
    for backend in survey.backends:
        share = survey.share(backend)
        parts = [share.before, share.after, *([share.after_unsafe] if unsafe else [])]
        rows.append([backend, f"{share.sites:,}", *(f"{p:,} ({percent(p, share.sites)} %)" for p in parts)])
    return heads, rows


def _modules(survey: Survey) -> tuple[list[str], list[list[str]]]:
    rows = [
        [cell(code(m.name)), f"{len(m.sites):,}", *(_change(survey.share(b, m.sites)) for b in survey.backends)]
        for m in survey.modules[:_MODULES]
    ]
    if more := len(survey.modules) - len(rows):
        rows.append([f"and {more:,} more, with fewer sites", *[""] * (1 + len(survey.backends))])
    return ["% as it stands → after apply", "sites", *survey.backends], rows


def _change(share: Share) -> str:
    before, after = percent(share.before, share.sites), percent(share.after, share.sites)
    return f"{before} → {after}" if before != after else str(after)


def _reasons(survey: Survey) -> tuple[list[str], list[list[str]]]:
    return ["rule", "findings", "what becomes of them", "what", "where"], [_reason(r) for r in survey.reasons]


def _reason(reason: Reason) -> list[str]:
    shown, more = first_places(reason, _PLACES)
    where = ", ".join(map(code, shown)) + (f", and {more:,} more" if more else "")
    cells = [code(reason.id), f"{len(reason.entries):,}", tally(reason), plain(reason.summary), where]
    return [cell(text) for text in cells]
