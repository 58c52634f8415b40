"""Render the portability report as an HTML page, from elements that escape every text that is not markup."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from torchmigrate import __version__
from torchmigrate.base.text import counted
from torchmigrate.formats.portability.text import STATIC, apart, tally, verdict
from torchmigrate.surveys.portability import (
    DEFINITION,
    Entry,
    Module,
    Reason,
    Share,
    Stage,
    State,
    Survey,
    Waiting,
    percent,
)
from torchmigrate.torch_api.backends import TITLES

_VOID = {"meta", "input", "br"}


class Markup(str):
    """Text that is HTML; only `element` and `join` make it."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: str | bool | None) -> Markup:
    """Return `<tag a="b">children</tag>`; True makes an attribute without a value, None and False none.

    In attribute names a trailing underscore is dropped, other underscores become hyphens.
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    given = "".join(
        f" {name}" if value is True else f' {name}="{escape(value)}"'
        for name, value in named.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{join(*children)}</{tag}>")


def join(*children: str | None, between: str = "") -> Markup:
    """Join children, leaving out None."""
    return Markup(between.join(c if isinstance(c, Markup) else escape(c) for c in children if c is not None))


def prose(text: str) -> Markup:
    """Mark up a sentence, whose `words` in backticks become code; options are not broken across lines."""
    parts = re.split(r"`([^`]*)`", text)
    return join(*(_code(part) if i % 2 else part for i, part in enumerate(parts)))


def _code(text: str) -> Markup:
    return element("code", text, class_="option" if text.startswith("--") else None)


def breakable(path: str, long: int = 24) -> Markup:
    """Mark where a path may be broken: after slashes, and after underscores in names longer than `long`."""
    parts = re.split(r"(?<=/)", path)
    pieces = (piece for part in parts for piece in (re.split(r"(?<=_)", part) if len(part) > long else [part]))
    return join(*filter(None, pieces), between="<wbr>")


_MODULES = 40  # rows; more are folded
_STAGES = {Stage.BEFORE: "As it stands", Stage.AFTER: "After apply", Stage.AFTER_UNSAFE: "With --unsafe-fixes"}


def render(survey: Survey) -> str:
    """Return the whole page."""
    title = f"Portability of {survey.name}"
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    body = element("body", _header(survey), element("main", *_sections(survey)), _footer(survey))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _header(survey: Survey) -> Markup:
    return element(
        "header",
        element("p", "Portability report", class_="over"),
        element("h1", breakable(survey.name)),
        element("p", prose(verdict(survey)), class_="verdict"),
        element("p", prose(STATIC), class_="quiet"),
    )


def _sections(survey: Survey) -> Iterator[Markup]:
    if survey.sites:
        yield _section("score", "Score", _score(survey))
        yield _section("modules", "Modules", *_modules(survey))
        if survey.reasons:
            yield _section("reasons", "Findings by reason", *reasons(survey))
        if yours := survey.waiting(State.YOURS):
            yield _section(
                "yours", "Needs a person", *_waiting(yours, "No rewrite is right for all: somebody decides.")
            )
        if unsafe := survey.waiting(State.UNSAFE):
            rests = "Very probably right, but resting on what the code does not show. `--unsafe-fixes` applies them."
            yield _section("unsafe", "Waits for --unsafe-fixes", *_waiting(unsafe, rests))
    if said := list(apart(survey)):
        items = (element("li", prose(sentence)) for sentence in said)
        yield _section("apart", "Not in the score", element("ul", *items))
    if survey.sites:
        yield _section("definition", "What the score is", element("p", prose(DEFINITION)))


def _section(id: str, title: str, *children: Markup) -> Markup:
    return element("section", element("h2", title, id=id), *children, aria_labelledby=id)


def _footer(survey: Survey) -> Markup:
    torch = f"for torch {survey.torch}" if survey.torch else None
    parts = [element("code", survey.command), join(f"torchmigrate {__version__}"), torch]
    return element("footer", element("p", join(*parts, between=" · ")))


def _score(survey: Survey) -> Markup:
    stages = [s for s in Stage if s is not Stage.AFTER_UNSAFE or survey.count(State.UNSAFE)]
    heads = [element("th", _unbroken(_STAGES[stage]), scope="col", class_="number") for stage in stages]
    bar = element("th", element("span", "Share of sites that run", class_="hidden"), scope="col", class_="wide")
    head = element("tr", element("th", "Backend", scope="col"), bar, *heads)
    rows = (_score_row(backend, survey.share(backend), stages) for backend in survey.backends)
    keys = {"before": "as it stands", "after": "added by apply", "unsafe": "added by --unsafe-fixes"}
    entries = (
        element("span", element("span", class_=f"key {name}"), text, class_="entry")
        for name, text in list(keys.items())[: len(stages)]
    )
    legend = element("p", join(*entries, between=" "), class_="legend")
    note = f"Of {len(survey.sites):,} sites. CUDA is what the code was written for: the measure, not a gain."
    caption = element("caption", note if "cuda" in survey.backends else note.partition(".")[0] + ".")
    table = element("table", caption, element("thead", head), element("tbody", *rows), class_=f"score of-{len(stages)}")
    return join(table, legend)


def _unbroken(heading: str) -> Markup:
    """Keep an option in a heading on one line."""
    words, dashes, option = heading.partition("--")
    return join(words, element("span", dashes + option, class_="option") if dashes else None)


def _score_row(backend: str, share: Share, stages: Sequence[Stage]) -> Markup:
    parts = {Stage.BEFORE: share.before, Stage.AFTER: share.after, Stage.AFTER_UNSAFE: share.after_unsafe}
    cells = (_number(parts[stage], share.sites, stage is Stage.AFTER) for stage in stages)
    name = element("th", _title(backend), scope="row")
    return element("tr", name, element("td", _bar(share), class_="wide"), *cells)


def _number(part: int, whole: int, strong: bool) -> Markup:
    text = f"{percent(part, whole)} %"
    of = element("span", f"{part:,} of {whole:,}", class_="of")
    return element("td", element("strong", text) if strong else text, of, class_="number")


def _bar(share: Share) -> Markup:
    """Return a bar of up to three parts; the numbers beside it say the same, so it is hidden from screen readers."""
    lengths = {"before": share.before, "after": share.after - share.before, "unsafe": share.after_unsafe - share.after}
    spans = (
        element("span", class_=name, style=f"width:{100 * length / share.sites:.2f}%")
        for name, length in lengths.items()
        if length > 0
    )
    return element("span", *spans, class_="bar", aria_hidden="true")


def _modules(survey: Survey) -> Iterator[Markup]:
    yield element("p", "Per cent of a module's sites that run: as it stands, then after apply.", class_="quiet")
    yield _heat_map(survey, survey.modules[:_MODULES])
    if more := survey.modules[_MODULES:]:
        summary = element("summary", f"{len(more):,} more, with fewer sites")
        yield element("details", summary, _heat_map(survey, more))


def _heat_map(survey: Survey, modules: Sequence[Module]) -> Markup:
    heads = (element("th", _title(backend), scope="col", class_="number") for backend in survey.backends)
    sites = element("th", "Sites", scope="col", class_="number sites")
    head = element("tr", element("th", "Module", scope="col"), sites, *heads)
    rows = (_heat_row(survey, module) for module in modules)
    table = element("table", element("thead", head), element("tbody", *rows), class_="heat")
    return element("div", table, class_="scroll", role="region", aria_label="Modules and backends", tabindex="0")


def _heat_row(survey: Survey, module: Module) -> Markup:
    count = len(module.sites)
    said = element("span", counted(count, "site"), class_="of")
    name = element("th", element("code", breakable(module.name, 12)), said, scope="row")
    cells = (_heat_cell(survey.share(backend, module.sites)) for backend in survey.backends)
    return element("tr", name, element("td", f"{count:,}", class_="number sites"), *cells)


def _heat_cell(share: Share) -> Markup:
    before, after = percent(share.before, share.sites), percent(share.after, share.sites)
    was = element("span", f"{before} → ", class_="was") if before != after else None
    return element("td", was, f"{after}", class_=f"number heat-{after // 20}")


def _waiting(waiting: Sequence[Waiting], what: str) -> Iterator[Markup]:
    yield element("p", prose(what), class_="quiet")
    yield from (checklist(found) for found in waiting)


def _title(backend: str) -> str:
    return TITLES[backend].removeprefix("the ")


_PLACES = 20  # places of a reason, shown with source
_LISTED = 30  # items of a checklist that are not folded
_FOLDED = 500  # items of a checklist that are folded; more are left out
_STATES = {
    State.REWRITTEN: "rewritten by apply",
    State.UNSAFE: "by --unsafe-fixes",
    State.YOURS: "for a person",
}


def reasons(survey: Survey) -> Iterator[Markup]:
    """Yield a fold for each rule, the most frequent first."""
    yield element("p", "Open a row for why it matters, and for its places.", class_="quiet")
    yield from map(_reason, survey.reasons)


def _reason(reason: Reason) -> Markup:
    summary = element(
        "summary",
        element("span", f"{len(reason.entries):,}", class_="count"),
        element(
            "span",
            element("span", prose(reason.summary), class_="what"),
            element("span", element("code", reason.id), f" {tally(reason)}", class_="of"),
            class_="said",
        ),
    )
    shown = reason.entries[:_PLACES]
    more = _more(reason.id, len(reason.entries) - len(shown))
    return element("details", summary, _why(reason), *map(_place, shown), more, class_="reason")


def _why(reason: Reason) -> Markup | None:
    if reason.rule is None:
        return None
    links = (element("a", url, href=url, rel="noreferrer") for url in reason.rule.see)
    see = element("p", *links, class_="of") if reason.rule.see else None
    return element("div", element("p", prose(" ".join(reason.rule.why.split()))), see, class_="why")


def _more(rule: str, count: int) -> Markup | None:
    """Return the command that lists the places which the page leaves out."""
    if not count:
        return None
    command = element("code", f"torchmigrate check --select {rule}")
    return element("p", f"{counted(count, 'place')} more: ", command, class_="quiet")


def _place(entry: Entry) -> Markup:
    where = element("code", breakable(str(entry.place)))
    state = element("span", _STATES[entry.state], class_=f"state {entry.state.value}")
    return element("div", element("p", where, " ", state), _source(entry), class_="place")


def _source(entry: Entry) -> Markup | None:
    """Return the lines around a place; its own is marked by weight and an arrow, not by colour alone."""
    if not entry.lines:
        return None
    rows = []
    lines = textwrap.dedent("\n".join(entry.lines)).split("\n")
    for number, line in enumerate(lines, entry.first):
        mark = "›" if number == entry.place.line else " "
        text = f"{mark}{number:>5}  {line}"
        rows.append(element("b", text) if number == entry.place.line else join(text))
    return element("pre", join(*rows, between="\n"), tabindex="0")


def checklist(found: Waiting) -> Markup:
    """Return a checklist: the message, then a box for each place."""
    count = len(found.entries)
    items = [_item(entry) for entry in found.entries[: _LISTED + _FOLDED]]
    rest = None
    if count > _LISTED:
        summary = element("summary", f"{count - _LISTED:,} more")
        folded = element("ul", *items[_LISTED:], class_="checks")
        rest = element("details", summary, folded, _more(found.rule, count - len(items)))
    return element(
        "div",
        element("h3", element("code", found.rule), " ", element("span", f"{count:,}", class_="of")),
        element("p", prose(found.message)),
        element("ul", *items[:_LISTED], class_="checks"),
        rest,
        class_="todo",
    )


def _item(entry: Entry) -> Markup:
    box = element("input", type="checkbox")
    source = element("code", entry.source, class_="line") if entry.source else None
    return element("li", element("label", box, element("code", breakable(str(entry.place))), source))
