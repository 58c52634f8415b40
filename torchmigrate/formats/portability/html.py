"""The portability report as one page: no scripts, no requests, readable in print, in the dark and on a phone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources

from torchmigrate import __version__
from torchmigrate.base.text import counted
from torchmigrate.formats.portability.html_findings import checklist, reasons
from torchmigrate.formats.portability.markup import Markup, breakable, element, join, prose
from torchmigrate.portability.prose import STATIC, apart, verdict
from torchmigrate.portability.score import DEFINITION, Module, Share, Stage, State, Survey, Waiting, percent

_MODULES = 40  # rows before the others are folded
_STAGES = {Stage.BEFORE: "As it stands", Stage.AFTER: "After apply", Stage.AFTER_UNSAFE: "With --unsafe-fixes"}


def render(survey: Survey) -> str:
    """The whole page."""
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
    """Broken before an option, not within it."""
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
    """Three lengths in a row; the numbers beside it say the same."""
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
    return "ROCm" if backend == "rocm" else backend.upper()
