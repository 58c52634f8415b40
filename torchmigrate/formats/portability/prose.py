"""Sentences that all formats of the portability report share."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.base.text import counted
from torchmigrate.surveys.portability import Reason, Stage, State, Survey

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
