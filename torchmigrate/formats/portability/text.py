"""Render the portability report as plain text for a terminal of 80 columns, of sentences that all its formats share."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from torchmigrate.base.text import counted, shorten, style, visible, visible_lines
from torchmigrate.project import discovery
from torchmigrate.surveys.portability import DEFINITION, Reason, Share, Stage, State, Survey, Waiting, percent

STATIC = "Read off the code; nothing was run. `torchmigrate verify` is the proof."
_NAMED = 5  # skipped files that are named


def verdict(survey: Survey) -> str:
    """Return the report in one or two sentences."""
    if not survey.sites:
        return _nothing_to_score(survey)
    sites = len(survey.sites)
    where = f"{survey.touched:,} of {counted(survey.files, 'file')}"
    before, after = survey.everywhere(Stage.BEFORE), survey.everywhere(Stage.AFTER)
    it = "it stands" if sites == 1 else "they stand"
    said = f"{counted(sites, 'device-bound site')} in {where}. "
    said += f"As {it}, {_count_runs(before, sites)} on {_backends(survey)}; "
    said += f"after `torchmigrate apply`, {_count_runs(after, sites, again=True)}."
    return " ".join(filter(None, (said, _describe_remaining(survey), _unread(survey))))


def _backends(survey: Survey) -> str:
    one = len(survey.backends) == 1
    return survey.backends[0] if one else f"every backend ({', '.join(survey.backends)})"


def _unread(survey: Survey) -> str:
    count = len(survey.errors)
    return f"{counted(count, 'more file')} could not be read." if count else ""


def _nothing_to_score(survey: Survey) -> str:
    said = f"No device-bound sites in {counted(survey.files, 'file')}" if survey.files else "No file was read"
    return " ".join(filter(None, (f"{said}: there is nothing to score.", _unread(survey))))


def _count_runs(part: int, whole: int, again: bool = False) -> str:
    number = "all" if part == whole > 1 else "none" if part == 0 else f"{part:,}"
    one = part < 2
    verb = ("does" if one else "do") if again else ("runs" if one else "run")
    return f"{number} {verb}"


def _describe_remaining(survey: Survey) -> str:
    left = {state: survey.count(state) for state in (State.UNSAFE, State.YOURS)}
    said = []
    if left[State.UNSAFE]:
        said.append(
            f"{counted(left[State.UNSAFE], 'fix', 'fixes')} wait{_verb_ending(left[State.UNSAFE])} for `--unsafe-fixes`"
        )
    if left[State.YOURS]:
        said.append(f"{counted(left[State.YOURS], 'finding')} need{_verb_ending(left[State.YOURS])} a person")
    return f"{'; '.join(said)}." if said else ""


def _verb_ending(count: int) -> str:
    return "s" if count == 1 else ""


def tally(reason: Reason) -> str:
    """Return what becomes of a rule's findings: `31 rewritten by apply, 2 by --unsafe-fixes, 1 for a person`."""
    said = {
        State.REWRITTEN: "rewritten by apply",
        State.UNSAFE: "by --unsafe-fixes",
        State.YOURS: "for a person",
    }
    return ", ".join(f"{reason.count(state):,} {text}" for state, text in said.items() if reason.count(state))


def first_places(reason: Reason, most: int) -> tuple[list[str], int]:
    """Return the first `most` places with a finding, and how many findings are at other places."""
    lines = list(dict.fromkeys(str(entry.place) for entry in reason.entries))
    shown = lines[:most]
    return shown, sum(str(entry.place) not in shown for entry in reason.entries)


def apart(survey: Survey) -> Iterator[str]:
    """Yield a sentence for each thing that the score leaves out."""
    out = survey.apart
    if out.suppressed:
        yield f"{counted(out.suppressed, 'finding')} suppressed by a comment (`# torchmigrate: ignore`)."
    if out.left:
        yield f"{counted(out.left, 'place')} left alone as right already (`torchmigrate check -v` names them)."
    if out.idle_comments:
        yield f"{counted(out.idle_comments, 'suppression comment')} without effect (`torchmigrate check` names them)."
    for rules in out.rules:
        yield f"Rules left out by a setting: {rules}."
    for why in dict.fromkeys(why for _, why in out.skipped):
        files = [file for file, reason in out.skipped if reason == why]
        more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
        yield f"{counted(len(files), 'file')} skipped ({why}): {', '.join(files[:_NAMED])}{more}."
    for file, message in survey.errors:
        yield f"Not read, so not in any figure: {file}: {message}."


WIDTH = 80
_PLACES = 3  # places of a reason
_MODULES = 60  # rows
_LISTED = 20  # places of each message that needs a person


def render(survey: Survey, colour: bool = False) -> str:
    """Return the whole report."""
    sections = [_head(survey)]
    if survey.sites:
        sections += [
            ["Score", *_score(survey)],
            ["Modules: % as it stands > after apply", *_modules(survey)],
            ["Why", *_reasons(survey)],
            ["Needs a person", *_waiting(survey, State.YOURS)],
            ["Waits for --unsafe-fixes", *_waiting(survey, State.UNSAFE)],
        ]
    sections.append(["Not in the score", *_wrapped(apart(survey))])
    if survey.sites:
        sections.append(["What the score is", *_wrapped([DEFINITION])])
    sections_shown = [
        [visible_lines(line) for line in s] for s in (sections[0], *(s for s in sections[1:] if len(s) > 1))
    ]
    for section in sections_shown:
        section[0] = style(section[0], bold=True) if colour else section[0]
    return "\n\n".join("\n".join(line.rstrip() for line in section) for section in sections_shown) + "\n"


_ON_VERIFY = "For `verify`, add arguments that make the run short; its Python must have torch."
_FIRST = 5  # places of `start` that need a person


def start(
    survey: Survey, where: str, program: Sequence[str], order: Sequence[str], applied: bool, colour: bool = False
) -> Iterator[str]:
    """Yield what the project is tied to, what runs where, and the commands that come next.

    `where` is the path as typed, `program` the words that start the program, if one is known, `order` the files that it
    reads first, `applied` whether `apply` wrote here.
    """

    def bold(text: str) -> str:
        return style(text, bold=True) if colour else text

    yours = survey.waiting(State.YOURS)
    torch = f", torch {survey.torch}" if survey.torch else ""
    yield bold(f"{visible(survey.name)}: {counted(survey.files, 'file')} read{torch}")
    if not survey.sites:
        if survey.errors:
            yield "Nothing that could be read is tied to CUDA. Mend the rest, and look again:"
            return
        yield "Nothing here is tied to CUDA." + (" `torchmigrate undo` takes the last apply back." if applied else "")
        return
    if survey.errors:
        yield f"Not counted: {counted(len(survey.errors), 'file')} that could not be read (below)"
    yield f"Tied to CUDA in {counted(len(survey.sites), 'place')} of {counted(survey.touched, 'file')}, most by"
    for reason in survey.reasons[:3]:
        yield f"  {len(reason.entries):>5}  {shorten(reason.summary, WIDTH - 9)}"
    yield f"  {'of these run on':<16}{'as it is':>10}{'after apply':>14}"
    for backend in (b for b in survey.backends if b != "cuda"):
        share = survey.share(backend)
        yield f"  {backend:<16}{percent(share.before, share.sites):>8} %{percent(share.after, share.sites):>12} %"
    if yours:
        head = f"Left for you after `apply` ({survey.findings(State.YOURS)}), the program's own files first"
        yield from ("", bold(head))
        yield from _first_to_do(yours, order)
    yield from ("", bold("Next"))
    yield from _steps(list(_next(survey, where, program, applied)))
    yield _ON_VERIFY


def _first_to_do(yours: Sequence[Waiting], order: Sequence[str]) -> Iterator[str]:
    """Yield the places that need a person, by file (the program's, other Python, the rest), then by backends."""

    def of_file(file: str) -> int:
        return order.index(file) if file in order else len(order) + (not file.endswith(discovery.SUFFIXES))

    def rank(waiting: Waiting) -> tuple[int, int]:
        return min(of_file(e.place.file) for e in waiting.entries), -len(waiting.entries[0].backends)

    for each in sorted(yours, key=rank)[:_FIRST]:
        more = f" and {len(each.entries) - 1} more" if len(each.entries) > 1 else ""
        first = min(each.entries, key=lambda e: (of_file(e.place.file), e.place))
        yield from textwrap.wrap(
            f"{first.place}{more}: {each.message}", WIDTH, initial_indent="  ", subsequent_indent="    "
        )
    if len(yours) > _FIRST:
        yield f"  and {len(yours) - _FIRST} more: `torchmigrate report`"


def _next(survey: Survey, where: str, program: Sequence[str], applied: bool) -> Iterator[tuple[str, str]]:
    fixable, unsafe = survey.findings(State.REWRITTEN), survey.findings(State.UNSAFE)
    if fixable:
        yield f"torchmigrate apply --dry-run{where}", "show the diff, write nothing"
        yield f"torchmigrate apply{where}", f"make {counted(fixable, 'edit')}"
    if unsafe:
        yield f"torchmigrate apply --unsafe-fixes{where}", f"{unsafe:,} more, for you to review"
    run = visible(shlex.join(program)) or "COMMAND"
    yield f"torchmigrate verify{where or ' .'} -- {run}", "run it on real and simulated devices"
    if applied or fixable:
        yield f"torchmigrate undo{where}", "take the rewrite back"


def _steps(steps: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield commands with what they do beside them, or below those that leave no room."""
    room = WIDTH - 4 - max(len(what) for _, what in steps)
    width = max((len(command) for command, _ in steps if len(command) <= room), default=0)
    for command, what in steps:
        if len(command) <= room:
            yield f"  {command:<{width}}  {what}"
        else:
            yield from (f"  {command}", f"  {'':<{width}}  {what}")


def _head(survey: Survey) -> list[str]:
    title = shorten(f"Portability of {survey.name}", WIDTH)
    return [title, *textwrap.wrap(verdict(survey), WIDTH), *textwrap.wrap(STATIC, WIDTH)]


def _wrapped(sentences: Iterator[str] | list[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(sentence, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _score(survey: Survey) -> Iterator[str]:
    unsafe = bool(survey.count(State.UNSAFE))
    heads = ["as it stands", "after apply", *(["with --unsafe-fixes"] if unsafe else [])]
    yield f"  {'':<6}{'sites':>7}" + "".join(f"{head:>{max(18, len(head) + 2)}}" for head in heads)
    for backend in survey.backends:
        share = survey.share(backend)
        parts = [share.before, share.after, *([share.after_unsafe] if unsafe else [])]
        cells = (_part(part, share) for part in parts)
        row = "".join(f"{cell:>{max(18, len(head) + 2)}}" for cell, head in zip(cells, heads, strict=True))
        yield f"  {backend:<6}{share.sites:>7,}{row}"


def _part(part: int, share: Share) -> str:
    return f"{part:,}  {percent(part, share.sites):>3} %"


def _modules(survey: Survey) -> Iterator[str]:
    column = 10
    width = WIDTH - 2 - 7 - column * len(survey.backends)
    yield f"  {'':<{width}}{'sites':>7}" + "".join(f"{backend:>{column}}" for backend in survey.backends)
    for module in survey.modules[:_MODULES]:
        shares = [survey.share(backend, module.sites) for backend in survey.backends]
        cells = "".join(f"{_change(share):>{column}}" for share in shares)
        name = module.name
        if len(name) > width - 1:  # a line of its own
            yield f"  {_end_of(name, WIDTH - 2)}"
            name = ""
        yield f"  {name:<{width}}{len(module.sites):>7,}{cells}"
    if len(survey.modules) > _MODULES:
        yield f"  and {len(survey.modules) - _MODULES:,} more, with fewer sites"


def _change(share: Share) -> str:
    before, after = percent(share.before, share.sites), percent(share.after, share.sites)
    return f"{before} > {after}" if before != after else str(after)


def _end_of(text: str, most: int) -> str:
    """Cut a path at its beginning, which says less than its end."""
    return text if len(text) <= most else "..." + text[3 - most :]


def _reasons(survey: Survey) -> Iterator[str]:
    for reason in survey.reasons:
        said = f"{reason.id}: {counted(len(reason.entries), 'finding')} ({tally(reason)})"
        yield from textwrap.wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
        yield from textwrap.wrap(reason.summary, WIDTH - 4, initial_indent="    ", subsequent_indent="    ")
        yield from textwrap.wrap(_list_places(reason), WIDTH, initial_indent="    ", subsequent_indent="    ")


def _list_places(reason: Reason) -> str:
    shown, more = first_places(reason, _PLACES)
    return ", ".join(shown) + (f", and {more:,} more" if more else "")


def _waiting(survey: Survey, state: State) -> Iterator[str]:
    for found in survey.waiting(state):
        said = f"{found.rule}: {found.message}"
        yield from textwrap.wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
        for entry in found.entries[:_LISTED]:
            yield f"    {_end_of(str(entry.place), WIDTH - 4)}"
            yield f"      {shorten(entry.source, WIDTH - 6)}"
        if len(found.entries) > _LISTED:
            yield f"    and {len(found.entries) - _LISTED:,} more: torchmigrate check --select {found.rule}"
