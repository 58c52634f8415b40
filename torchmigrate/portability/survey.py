"""From what the engine found to sites: the plan with the safe fixes and the one with the unsafe ones, laid over each
other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.diagnostics.finding import Finding, Status
from torchmigrate.diagnostics.results import FileResult, Skipped, Unchanged, failures
from torchmigrate.diagnostics.source_lines import SourceLines
from torchmigrate.portability.score import OTHERS, Apart, Entry, Place, Site, State

_COMMENT = "suppression"  # findings about our own comments
_AROUND = 2  # lines of source above and below
_LONGEST = 300  # characters of a line
Key = tuple[Place, str]  # and the rule


@dataclass(frozen=True, slots=True)
class Found:
    """A finding, and the file that it is in."""

    result: Unchanged
    finding: Finding


def named(path: Path, root: Path) -> str:
    """Relative to the project where it lies below, slash-separated, nothing in it that a terminal obeys."""
    return clean((path.relative_to(root) if path.is_relative_to(root) else path).as_posix())


def clean(text: str) -> str:
    """Control characters, and bytes that were no text, as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def sites(safe: Sequence[FileResult], unsafe: Sequence[FileResult], root: Path) -> tuple[Site, ...]:
    """Each place at which one of the plans has a finding. The results are those of the engine's `survey`."""
    plans = _by_place(safe, root), _by_place(unsafe, root)
    live = {key for plan in plans for key, found in plan.items() if any(_counts(f.finding) for f in found)}
    lines: dict[Path, SourceLines] = {}
    places: dict[Place, list[Entry]] = {}
    for place, rule in sorted(live):
        found = (plan.get((place, rule), []) for plan in plans)
        places.setdefault(place, []).append(_entry((place, rule), lines, *found))
    return tuple(Site(place, tuple(entries)) for place, entries in places.items())


def apart(safe: Sequence[FileResult], root: Path, counted: Sequence[Site], rules: Sequence[str]) -> Apart:
    """What is not in the score. `rules`: the settings that leave rules out."""
    keys = {(entry.place, entry.rule) for site in counted for entry in site.entries}
    plan = _by_place(safe, root)
    resting = [f.finding for key, found in plan.items() if key not in keys for f in found]
    return Apart(
        suppressed=sum(f.finding.status is Status.SUPPRESSED for found in plan.values() for f in found),
        left=sum(f.status is Status.LEFT for f in resting),
        idle_comments=sum(f.rule == _COMMENT for f in resting),
        skipped=tuple((named(r.path, root), r.reason) for r in safe if isinstance(r, Skipped)),
        rules=tuple(rules),
    )


def errors(safe: Sequence[FileResult], unsafe: Sequence[FileResult], root: Path) -> tuple[tuple[str, str], ...]:
    """Files that could not be read, in either plan."""
    failed = failures((*safe, *unsafe))
    return tuple(dict.fromkeys((named(r.path, root), clean(r.error)) for r in failed))


def _by_place(results: Sequence[FileResult], root: Path) -> Mapping[Key, list[Found]]:
    plan: dict[Key, list[Found]] = {}
    for result in results:
        if isinstance(result, Unchanged):
            file = named(result.path, root)
            for f in result.findings:
                plan.setdefault((Place(file, f.cell or 0, f.line, f.column), f.rule), []).append(Found(result, f))
    return plan


def _counts(finding: Finding) -> bool:
    return finding.rule != _COMMENT and finding.status not in (Status.LEFT, Status.SUPPRESSED)


def _entry(key: Key, lines: dict[Path, SourceLines], safe: list[Found], unsafe: list[Found]) -> Entry:
    left, left_unsafe = list(_remaining(safe)), list(_remaining(unsafe))
    state = State.REWRITTEN if not left else State.UNSAFE if not left_unsafe else State.YOURS
    all_ = [f for f in (*left, *safe, *left_unsafe, *unsafe) if f.finding.status is not Status.SUPPRESSED]
    shown = next((f for f in all_ if f.finding.status is not Status.LEFT), all_[0])
    backends = frozenset().union(*(f.finding.backends or OTHERS for f in all_))
    source = lines.setdefault(shown.result.path, SourceLines(shown.result, True))
    around = source.around(shown.finding, _AROUND)
    text = tuple(clean(line)[:_LONGEST] for _, line in around)
    first = around[0][0] if around else 0
    return Entry(key[0], key[1], clean(shown.finding.message), backends, state, text, first)


def _remaining(found: list[Found]) -> Iterator[Found]:
    return (f for f in found if f.finding.status not in (Status.APPLIED, Status.SUPPRESSED))


def grouped(weights: Mapping[str, int], most: int) -> dict[str, list[str]]:
    """Names of files and directories (`pkg/`, or `pkg/*` for the files in it, not below) with their files. More
    than `most` only where the first level has more."""
    groups = _opened("./", sorted(weights))
    while True:
        heaviest = sorted(groups, key=lambda name: (-sum(weights[f] for f in groups[name]), name))
        for name in heaviest:
            parts = _opened(name, groups[name])
            if name not in parts and len(groups) - 1 + len(parts) <= max(most, len(groups)):
                del groups[name]
                groups |= parts
                break
        else:
            return groups


def _opened(name: str, files: Sequence[str]) -> dict[str, list[str]]:
    """One level down: subdirectories, and the files beside them together; files where there is nothing else."""
    if files == [name]:
        return {name: list(files)}
    prefix = name.removesuffix("*").removeprefix("./")
    parts: dict[str, list[str]] = {}
    for file in files:
        head, slash, _ = file.removeprefix(prefix).partition("/") if file.startswith(prefix) else (file, "", "")
        parts.setdefault(f"{prefix}{head}/" if slash else f"{prefix or './'}*", []).append(file)
    beside = parts.get(f"{prefix or './'}*", [])
    if (len(parts) == 1 and beside) or len(beside) == 1:
        parts.pop(f"{prefix or './'}*")
        parts |= {file: [file] for file in beside}
    return parts
