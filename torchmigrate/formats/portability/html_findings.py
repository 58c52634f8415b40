"""The findings of the page: by reason, folded, each with its source; and as a checklist."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from torchmigrate.base.text import counted
from torchmigrate.formats.portability.markup import Markup, breakable, element, join, prose
from torchmigrate.portability.prose import tally
from torchmigrate.portability.score import Entry, Reason, State, Survey, Waiting

_PLACES = 20  # of a reason, with their source
_LISTED = 30  # of what needs a person, before the rest is folded
_FOLDED = 500  # and of those
_STATES = {
    State.REWRITTEN: "rewritten by apply",
    State.UNSAFE: "by --unsafe-fixes",
    State.YOURS: "for a person",
}


def reasons(survey: Survey) -> Iterator[Markup]:
    """A fold for each rule, the most frequent first."""
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
    """Where the places are that the page leaves out."""
    if not count:
        return None
    command = element("code", f"torchmigrate check --select {rule}")
    return element("p", f"{counted(count, 'place')} more: ", command, class_="quiet")


def _place(entry: Entry) -> Markup:
    where = element("code", breakable(str(entry.place)))
    state = element("span", _STATES[entry.state], class_=f"state {entry.state.value}")
    return element("div", element("p", where, " ", state), _source(entry), class_="place")


def _source(entry: Entry) -> Markup | None:
    """The lines around a place; its own is marked by weight and by an arrow, not by colour alone."""
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
    """What is to be done, then a box for each place."""
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
