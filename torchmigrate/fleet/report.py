"""One report over all repositories: a table, totals, and reasons for failures; as text, Markdown, JSON and HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any
from urllib.parse import quote

from torchmigrate import __version__
from torchmigrate.base.text import counted
from torchmigrate.fleet.task import FAILED, Summary
from torchmigrate.formats.markdown import cell, code, plain
from torchmigrate.formats.portability.html import Markup, element, join, prose
from torchmigrate.surveys.portability import clean, percent

HEADS = ("Repository", "Files", "Edits", "Fixable", "Unsafe", "Needs you", "Sites", "Portable", "Seconds", "Status")
LEGEND = (
    "`Fixable`, `Unsafe` and `Needs you` are the findings that are left: what `apply` would rewrite, what "
    "`--unsafe-fixes` would, and what a person has to decide. `Sites` are places that tie the code to a device, and "
    "`Portable` is the share of them that runs on every backend, before and after; see docs/report.md."
)
_TEXT = {0, 9, 10}  # indices of columns that are not numbers
_BROKEN = (FAILED, "incomplete")
_ORDER = ("migrated", "findings", "clean", "empty", "incomplete", FAILED)


@dataclass(frozen=True)
class Fleet:
    """The results of a run: a summary per repository, in order.

    `resumed` of them were done by an earlier run; `seconds` is wall time.
    """

    summaries: Sequence[Summary]
    command: str
    resumed: int
    seconds: float

    @cached_property
    def statuses(self) -> Counter[str]:
        return Counter(summary["status"] for summary in self.summaries)

    @property
    def status(self) -> int:
        """The exit status, as `apply` or `check` would give it for all repositories together."""
        if any(self.statuses[word] for word in _BROKEN):
            return 2
        if any(str(summary.get("verify", "same")) != "same" for summary in self.summaries):
            return 1
        left = ("findings",) if self.command == "check" else ("fixable", "unsafe", "dropped")
        return int(any(self.total(key) for key in left))

    def total(self, key: str) -> int:
        return sum(summary.get(key) or 0 for summary in self.summaries)

    @property
    def broken(self) -> list[Summary]:
        return [summary for summary in self.summaries if summary["status"] in _BROKEN]

    def sentence(self) -> str:
        """Return the last line."""
        names = {word: "with findings" if word == "findings" else word for word in _ORDER}
        parts = [f"{self.statuses[word]} {name}" for word, name in names.items() if self.statuses[word]]
        head = f"{counted(len(self.summaries), 'repository', 'repositories')}: {', '.join(parts)}."
        edits = f" {counted(self.total('edits'), 'edit')} in {counted(self.total('changed'), 'file')}."
        again = f" {self.resumed} done by an earlier run." if self.resumed else ""
        return head + (edits if self.command == "apply" else "") + again


def row(summary: Mapping[str, Any]) -> list[str]:
    """Return a repository's row of cells; unknown values are empty."""
    if summary["status"] == FAILED:
        return [summary["name"], *[""] * 7, _seconds(summary), FAILED]
    numbers = [f"{summary[key]:,}" for key in ("files", "edits", "fixable", "unsafe", "needs_you")]
    verified = f", verify: {summary['verify']}" if "verify" in summary else ""
    score = summary.get("score")
    sites = f"{score['sites']:,}" if score else ""
    return [summary["name"], *numbers, sites, _portable(score), _seconds(summary), summary["status"] + verified]


def _portable(score: Mapping[str, Any] | None) -> str:
    if not score or not score["sites"]:
        return ""
    shares = [f"{percent(score['everywhere'][stage], score['sites'])} %" for stage in ("before", "after")]
    return " → ".join(shares)


_LINKS = {"changes.patch": "patch", "findings.json": "findings", "log.txt": "log"}


def _links(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the files of a repository that a report leads to: a word and a path beside the report for each."""
    there = summary.get("outputs", ())
    return [(word, f"{quote(summary['name'])}/{file}") for file, word in _LINKS.items() if file in there]


def _by_rule(fleet: Fleet) -> list[tuple[str, int, int]]:
    """Return each rule with its places and the repositories that have some, the most frequent first."""
    places, having = Counter[str](), Counter[str]()
    for summary in fleet.summaries:
        rules = summary.get("rules", {})
        places.update(rules)
        having.update(rules.keys())
    return [(rule, places[rule], having[rule]) for rule in sorted(places, key=lambda rule: (-places[rule], rule))]


def _seconds(summary: Mapping[str, Any]) -> str:
    seconds = summary.get("run", {}).get("seconds")
    return "" if seconds is None else f"{seconds:.1f}"


def _total(fleet: Fleet) -> list[str]:
    keys = ("files", "edits", "fixable", "unsafe", "needs_you")
    scores = [score for summary in fleet.summaries if (score := summary.get("score"))]
    stages = ("before", "after")
    whole = {
        "sites": sum(score["sites"] for score in scores),
        "everywhere": {stage: sum(score["everywhere"][stage] for score in scores) for stage in stages},
    }
    return [
        *("All", *(f"{fleet.total(key):,}" for key in keys), f"{whole['sites']:,}", _portable(whole)),
        f"{sum(summary.get('run', {}).get('seconds') or 0 for summary in fleet.summaries):.1f}",
        "",
    ]


def _reasons(fleet: Fleet) -> Iterator[tuple[str, str]]:
    for summary in fleet.summaries:
        said = [summary.get("reason") or "", *summary.get("notes", ())]
        yield from ((summary["name"], clean(text)) for text in said if text)


def text(fleet: Fleet) -> str:
    """Return a table for the terminal, with notes on single repositories below it."""
    rows = [list(HEADS), *(row(summary) for summary in fleet.summaries), _total(fleet)]
    widths = [max(len(line[i]) for line in rows) for i in range(len(HEADS))]
    lines = ["  ".join(_pad(c, widths[i], i) for i, c in enumerate(line)).rstrip() for line in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    lines.insert(len(lines) - 1, lines[1])
    said = [f"{name}: {why}" for name, why in _reasons(fleet)]
    return "\n".join([*lines, *([""] if said else []), *said]) + "\n"


def _pad(value: str, width: int, column: int) -> str:
    return value.ljust(width) if column in _TEXT else value.rjust(width)


def markdown(fleet: Fleet) -> str:
    """Return Markdown for an issue or a job summary."""
    rows = [[code(cells[0]), *cells[1:-1], plain(clean(cells[-1]))] for cells in map(row, fleet.summaries)]
    rows.append([f"**{value}**" if value else "" for value in _total(fleet)])
    table = [f"| {' | '.join(HEADS)} |", "|" + "".join("---|" if i in _TEXT else "---:|" for i in range(len(HEADS)))]
    table += [f"| {' | '.join(map(cell, cells))} |" for cells in rows]
    links = [
        f"- {code(s['name'])}: {', '.join(f'[{word}]({path})' for word, path in _links(s))}"
        for s in fleet.summaries
        if _links(s)
    ]
    by_rule = [f"| {code(rule)} | {places:,} | {having:,} |" for rule, places, having in _by_rule(fleet)]
    if by_rule:
        by_rule = ["| Rule | Places | Repositories |", "|---|---:|---:|", *by_rule]
    said = [f"- {code(name)}: {plain(why)}" for name, why in _reasons(fleet)]
    parts = ["## Fleet report", fleet.sentence(), "\n".join(table), LEGEND]
    parts += ["### By rule", "\n".join(by_rule)] if by_rule else []
    parts += ["### Files", "\n".join(links)] if links else []
    parts += ["### Notes", "\n".join(said)] if said else []
    return "\n\n".join([*parts, f"torchmigrate {__version__}"]) + "\n"


def as_json(fleet: Fleet) -> str:
    """Return JSON: `{version, command, statuses, totals, rules, repositories}`; a repository is its summary.json."""
    totals = {key: fleet.total(key) for key in ("files", "changed", "edits", "findings", "fixable", "unsafe")}
    totals |= {key: fleet.total(key) for key in ("dropped", "needs_you", "suppressed", "skipped", "errors")}
    data = {
        "version": __version__,
        "command": fleet.command,
        "statuses": {word: fleet.statuses[word] for word in _ORDER},
        "totals": totals,
        "rules": {rule: {"places": places, "repositories": having} for rule, places, having in _by_rule(fleet)},
        "repositories": list(fleet.summaries),
    }
    return json.dumps(data, indent=2) + "\n"


def html(fleet: Fleet) -> str:
    """Return one HTML page that requests nothing; its own script sorts the tables, which can be read without it."""
    style = resources.files("torchmigrate.formats.portability").joinpath("page.css").read_text(encoding="utf-8")
    sort = resources.files("torchmigrate.fleet").joinpath("sort.js").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", "Fleet report"),
        element("style", Markup(style)),
    )
    said = [element("li", element("code", name), f": {why}") for name, why in _reasons(fleet)]
    by_rule = [
        element("tr", element("td", rule), *(element("td", f"{each:,}", class_="number") for each in numbers))
        for rule, *numbers in _by_rule(fleet)
    ]
    heads = ("Rule", "Places", "Repositories")
    row_of_heads = element("tr", *(element("th", h, class_="number" if i else None) for i, h in enumerate(heads)))
    counted_ = element("table", element("thead", row_of_heads), element("tbody", *by_rule), class_="sortable")
    rules = element("section", element("h2", "By rule"), element("div", counted_, class_="scroll")) if by_rule else None
    notes = element("section", element("h2", "Notes"), element("ul", *said)) if said else None
    main = element("main", element("section", element("div", _table(fleet), class_="scroll")), rules, notes)
    top = element("header", element("h1", "Fleet report"), element("p", fleet.sentence(), class_="verdict"))
    script = element("script", Markup(sort))
    foot = element("footer", element("p", prose(LEGEND)), element("p", f"torchmigrate {__version__}"))
    return f"<!doctype html>\n{element('html', head, element('body', top, main, foot, script), lang='en')}\n"


def _table(fleet: Fleet) -> Markup:
    def line(tag: str, cells: Sequence[str], *more: Markup) -> Markup:
        kinds = (None if i in _TEXT else "number" for i in range(len(cells)))
        found = (element(tag, clean(c), class_=kind) for c, kind in zip(cells, kinds, strict=True))
        return element("tr", *found, *more)

    def linked(summary: Summary) -> Markup:
        links = [element("a", word, href=path) for word, path in _links(summary)]
        return line("td", row(summary), element("td", join(*links, between=" ")))

    rows = [linked(summary) for summary in fleet.summaries]
    return element(
        "table",
        element("thead", line("th", HEADS, element("th", "Results", class_="fixed"))),
        element("tbody", *rows),
        element("tfoot", line("th", [*_total(fleet), ""])),
        class_="sortable",
    )
