"""Render the catalog of APIs, or the part that a project uses, as text, Markdown and JSON; describe a row in words."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchmigrate.base.text import listed
from torchmigrate.diagnostics.finding import Finding
from torchmigrate.surveys.api_catalog import (
    BACKENDS,
    DIFFERENT,
    HELPER,
    LEFT,
    MISSING,
    NO_OP,
    NO_TORCH,
    REWRITTEN,
    SIGNS,
    WORKS,
    Row,
)
from torchmigrate.torch_api.backends import TITLES

_WIDEST = 44  # columns for names; a longer name moves the rest of its line to the right


@dataclass(frozen=True)
class Selection:
    """The rows to print, with columns for `backends`; `places` are a project's uses by API, shown from `here`."""

    rows: Sequence[Row]
    backends: Sequence[str]
    places: Mapping[str, Sequence[tuple[Path, Finding]]] | None = None
    here: Path = field(default_factory=Path)

    def count(self, row: Row) -> int:
        return len((self.places or {}).get(row.name, ()))


_LEGEND = "-> rewritten by, !! reported by, = left alone (`torchmigrate explain NAME` says why); mlx is no torch device"


def text(selection: Selection, room: int | None = None) -> Iterator[str]:
    """Yield a legend, then a line per API with a mark per backend, and the action, below it if `room` is short.

    MLX has the same mark in every row, so its column is left out unless asked for alone.
    """
    columns = [name for name in selection.backends if name != "mlx" or len(selection.backends) == 1]
    signs = ", ".join(f"{mark} {verdict}" for verdict, mark in SIGNS.items())
    for line in (signs, _LEGEND):
        yield from textwrap.wrap(line, room) if room else [line]
    yield ""
    counts = selection.places is not None
    yield " ".join([f"{name:<4}" for name in columns]) + ("  uses" if counts else "") + "  API"
    width = min(_WIDEST, max((len(row.name) for row in selection.rows), default=0))
    for row in selection.rows:
        marks = " ".join(f" {SIGNS[row.backends[name]]}  " for name in columns)
        count = f"{selection.count(row):6}" if counts else ""
        line = f"{marks}{count}  {row.name:<{width}}  {_arrow(row)}"
        if room is None or len(line) <= room:
            yield line
        else:
            yield f"{marks}{count}  {row.name}"
            yield f"{'':{len(marks) + len(count) + 4}}{_arrow(row)}"


def _arrow(row: Row) -> str:
    if row.action == LEFT:
        return "="
    more = f" (+{len(row.rules) - 1})" if row.rules[1:] else ""
    return f"{'->' if row.action == REWRITTEN else '!!'} {row.rule}{more}"


def markdown(selection: Selection) -> Iterator[str]:
    """Yield the lines of one Markdown table."""
    uses = ["uses"] if selection.places is not None else []
    head = ["API", "kind", *uses, "what becomes of it", *selection.backends, "since", "source"]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in selection.rows:
        count = [str(selection.count(row))] if uses else []
        verdicts = [row.backends[name] for name in selection.backends]
        cells = [f"`{row.name}`", row.kind, *count, _describe_action(row), *verdicts, row.since, row.source]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _describe_action(row: Row) -> str:
    return f"left alone: {row.why}" if row.action == LEFT else f"{row.action} by {', '.join(row.rules)}"


def render(selection: Selection) -> str:
    """Return a JSON list."""
    return json.dumps([_row_object(selection, row) for row in selection.rows], indent=2)


def _row_object(selection: Selection, row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {
        "api": row.name,
        "kind": row.kind,
        "action": row.action,
        "rule": row.rule or None,
        "rules": list(row.rules),
        "helper": row.helper or None,
        "why": row.why or None,
        "backends": {name: row.backends[name] for name in selection.backends},
        "since": row.since or None,
        "source": row.source,
    }
    if selection.places is not None:
        places = selection.places.get(row.name, ())
        found |= {"count": len(places), "places": [_place_object(selection.here, *place) for place in places]}
    return found


def _place_object(here: Path, path: Path, use: Finding) -> dict[str, Any]:
    name = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()
    return {"file": name, "cell": use.cell, "line": use.line, "column": use.column}


def every(names: Sequence[str]) -> tuple[str, ...]:
    """Return the named backends in the catalog's order; all if none is named."""
    return tuple(name for name in BACKENDS if not names or name in names)


NAMES = {name: TITLES[name] for name in BACKENDS}


def paragraph(row: Row, name: str = "") -> str:
    """Return all that a row says, as a paragraph; `name` is the part of the row's API that was asked for."""
    return " ".join(_sentences(row, name or row.name))


def _sentences(row: Row, name: str) -> Iterator[str]:
    if name == row.name:
        yield f"`{name}` is {_article(row.kind)}."
    else:
        yield f"`{name}` belongs to `{row.name}`, {_article(row.kind)}."
    yield _action(row)
    yield f"In a migrated project it {verdicts(row)}."
    if row.since:
        yield f"torch has it since {row.since}."
    yield f"Source: {row.source}"


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "attribute" else f"a {kind}"


def _action(row: Row) -> str:
    why = row.why.rstrip(".").removeprefix("because ")
    if row.action == LEFT:
        return f"It is left alone because {why}."
    return f"It is {row.action} by the rule{'s' if row.rules[1:] else ''} {listed(row.rules)}" + (
        f": {why}." if why else "."
    )


def verdicts(row: Row) -> str:
    """Return the verdicts in words: `works on CUDA and ROCm; does nothing on the CPU; MLX is no torch device`."""
    helper = f"works through the helper (`accel.{row.helper}`) on"
    verbs = {
        WORKS: "works on", HELPER: helper, DIFFERENT: "behaves differently on", NO_OP: "does nothing on",
        MISSING: "is missing on",
    }  # fmt: skip
    grouped = {verdict: [NAMES[b] for b, v in row.backends.items() if v == verdict] for verdict in (*verbs, NO_TORCH)}
    parts = [f"{verb} {listed(grouped[verdict])}" for verdict, verb in verbs.items() if grouped[verdict]]
    if none := grouped[NO_TORCH]:
        parts.append(f"{listed(none)} {'is no torch device' if len(none) == 1 else 'are no torch devices'}")
    return "; ".join(parts)
