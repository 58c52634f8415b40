"""Portability of a project: the sites that tie it to a device, and how many run on each backend (docs/report.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path

from torchmigrate.diagnostics.finding import FileResult, Finding, Skipped, SourceLines, Status, Unchanged, failures
from torchmigrate.rules.model import Rule
from torchmigrate.torch_api.backends import having

SCORED = having("scored")  # the backends that rules name
OTHERS = frozenset(SCORED) - {*having("cuda")}  # the backends that a rule means if it names none
MODULES = 24  # if there are more files, they are shown by directory

DEFINITION = (
    "A site is a place in the code (file, line, column) at which a rule has a finding; several findings at one place "
    "are one site. As it stands, a site runs on a backend unless a rule with a finding there names that backend: "
    "there the code raises, passes the device by, or does something else than on CUDA. A rule that names no backend "
    "speaks of all but CUDA. After `torchmigrate apply` the findings with a safe rewrite are gone; the unsafe ones, "
    "which `--unsafe-fixes` applies, and those that need a person stay as they are. The score is the share of sites "
    "that run. Every site counts alike, whether it runs once or in each step. Not counted are findings that a comment "
    "suppresses, and code that is right as it is: a choice of devices that is portable already, or what a test for "
    "CUDA guards that must stay one. A place that was rewritten is no site any more, so before and after compare "
    "within one report, not from one to the next. Nothing is run: the score says what stands in the way, not that the "
    "program works; `verify` shows that."
)


class Stage(str, Enum):
    """The stage of a migration at which a site is asked whether it runs."""

    BEFORE = "before"
    AFTER = "after"  # after the safe fixes
    AFTER_UNSAFE = "after_unsafe"


class State(str, Enum):
    """The fate of an entry: rewritten by a safe fix, by an unsafe fix, or left to a person."""

    REWRITTEN = "rewritten"
    UNSAFE = "unsafe"  # rewritten by --unsafe-fixes only
    YOURS = "yours"


_UNTIL = {
    State.REWRITTEN: {Stage.BEFORE},
    State.UNSAFE: {Stage.BEFORE, Stage.AFTER},
    State.YOURS: set(Stage),
}


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A 1-based place in a file, relative to the project; `cell` is the notebook's cell, 0 in other files."""

    file: str
    cell: int
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{f'cell {self.cell}:' if self.cell else ''}{self.line}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule's finding at one place, with the source lines around it, numbered from `first`."""

    place: Place
    rule: str
    message: str
    backends: frozenset[str]
    state: State
    lines: tuple[str, ...] = ()
    first: int = 0
    found: int = 1  # findings of the rule there, as of two arguments of one call

    @property
    def source(self) -> str:
        """The source line of the place itself."""
        at = self.place.line - self.first
        return self.lines[at].strip() if 0 <= at < len(self.lines) else ""


@dataclass(frozen=True, slots=True)
class Site:
    """A place with the entries of all rules there."""

    place: Place
    entries: tuple[Entry, ...]

    def runs(self, backend: str, stage: Stage) -> bool:
        return not any(stage in _UNTIL[e.state] and backend in e.backends for e in self.entries)


@dataclass(frozen=True, slots=True)
class Share:
    """Counts of the sites, and of those that run at each stage."""

    sites: int
    before: int
    after: int
    after_unsafe: int


def percent(part: int, whole: int) -> int:
    """Return the rounded percentage, but 100 only for all and 0 only for none; `whole` must not be 0."""
    return part if part == 0 else 100 if part == whole else min(99, max(1, round(100 * part / whole)))


@dataclass(frozen=True, slots=True)
class Module:
    """A group of sites: a file, a directory (`pkg/`), or the files directly in a directory (`pkg/*`)."""

    name: str
    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule and its entries, the ones that need a person first; `rule` is None if the rule is not loaded."""

    id: str
    rule: Rule | None
    entries: tuple[Entry, ...]

    @property
    def summary(self) -> str:
        return self.rule.summary if self.rule else self.entries[0].message

    def count(self, state: State) -> int:
        return sum(entry.state is state for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Entries of one rule with the same message, waiting for a person or for --unsafe-fixes."""

    rule: str
    message: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """Findings, files and rules that the score leaves out."""

    suppressed: int = 0
    left: int = 0
    idle_comments: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # file, reason
    rules: tuple[str, ...] = ()  # settings that leave rules out, as `--ignore amp`


@dataclass(frozen=True)
class Survey:
    """The data of a portability report."""

    root: Path
    command: str
    torch: str | None
    files: int  # number of files read
    sites: tuple[Site, ...]
    rules: Mapping[str, Rule]
    apart: Apart
    errors: tuple[tuple[str, str], ...]  # file, message
    wanted: tuple[str, ...] = ()  # the backends asked for; empty means all

    @property
    def name(self) -> str:
        return self.root.name or str(self.root)

    @cached_property
    def backends(self) -> tuple[str, ...]:
        """Return the backends shown; ROCm, which torch presents as CUDA, only if asked for or named by a finding."""
        if self.wanted:
            return tuple(b for b in SCORED if b in self.wanted)
        named = {b for site in self.sites for entry in site.entries for b in entry.backends}
        return tuple(b for b in SCORED if b != "rocm" or b in named)

    def share(self, backend: str, sites: Sequence[Site] | None = None) -> Share:
        """Count the sites that run on a backend at each stage; of all sites unless `sites` are given."""
        mine = self.sites if sites is None else sites
        return Share(len(mine), *(sum(site.runs(backend, stage) for site in mine) for stage in Stage))

    def everywhere(self, stage: Stage) -> int:
        """Count the sites that run on every backend shown."""
        return sum(all(site.runs(b, stage) for b in self.backends) for site in self.sites)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries that concern a backend shown."""
        shown = set(self.backends)
        return tuple(e for site in self.sites for e in site.entries if not shown.isdisjoint(e.backends))

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The rules with their entries, the most frequent rule first."""
        by_rule: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_rule.setdefault(entry.rule, []).append(entry)
        order = sorted(by_rule, key=lambda rule: (-len(by_rule[rule]), rule))
        weight = list(State)[::-1].index
        found = (sorted(by_rule[i], key=lambda e: (weight(e.state), e.place)) for i in order)
        return tuple(Reason(i, self.rules.get(i), tuple(e)) for i, e in zip(order, found, strict=True))

    def waiting(self, state: State) -> list[Waiting]:
        """Return the entries in this state, grouped by rule and message."""
        by_message: dict[tuple[str, str], list[Entry]] = {}
        for reason in self.reasons:
            for entry in reason.entries:
                if entry.state is state:
                    by_message.setdefault((reason.id, entry.message), []).append(entry)
        return [Waiting(rule, message, tuple(entries)) for (rule, message), entries in by_message.items()]

    def count(self, state: State) -> int:
        """Count the entries in this state that concern a backend shown."""
        return sum(entry.state is state for entry in self.entries)

    def of_check(self) -> Survey:
        """Return the survey of the places that `check` tells, without those that are left alone."""
        told = (replace(s, entries=e) for s in self.sites if (e := tuple(e for e in s.entries if e.found)))
        return replace(self, sites=tuple(told))

    def findings(self, state: State) -> int:
        """Count the findings in this state that concern a backend shown, as `check` and `apply` count them."""
        return sum(entry.found for entry in self.entries if entry.state is state)

    @cached_property
    def touched(self) -> int:
        """The number of files that have a site."""
        return len({site.place.file for site in self.sites})

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """The sites by file, or by directory if there are more than MODULES files; most sites first."""
        by_file: dict[str, list[Site]] = {}
        for site in self.sites:
            by_file.setdefault(site.place.file, []).append(site)
        groups = grouped({file: len(sites) for file, sites in by_file.items()}, MODULES)
        found = [Module(n, tuple(s for f in files for s in by_file[f])) for n, files in groups.items()]
        return tuple(sorted(found, key=lambda m: (-len(m.sites), m.name)))


_COMMENT = "suppression"  # the rule of findings about our own suppression comments
_AROUND = 2  # lines of source shown above and below
_LONGEST = 300  # characters of a line
Key = tuple[Place, str]  # a place and a rule id


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with the result of its file."""

    result: Unchanged
    finding: Finding


def named(path: Path, root: Path) -> str:
    """Return the path relative to the project if it lies below, with slashes and control characters escaped."""
    return clean((path.relative_to(root) if path.is_relative_to(root) else path).as_posix())


def clean(text: str) -> str:
    """Escape control characters, and bytes that could not be decoded."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def sites(safe: Sequence[FileResult], unsafe: Sequence[FileResult], root: Path) -> tuple[Site, ...]:
    """Return each place with a finding in the `survey` results with safe fixes, or with unsafe ones too."""
    plans = _by_place(safe, root), _by_place(unsafe, root)
    live = {key for plan in plans for key, found in plan.items() if any(_is_counted(f.finding) for f in found)}
    lines: dict[Path, SourceLines] = {}
    places: dict[Place, list[Entry]] = {}
    for place, rule in sorted(live):
        found = (plan.get((place, rule), []) for plan in plans)
        places.setdefault(place, []).append(_make_entry((place, rule), lines, *found))
    return tuple(Site(place, tuple(entries)) for place, entries in places.items())


def apart(safe: Sequence[FileResult], root: Path, counted: Sequence[Site], rules: Sequence[str]) -> Apart:
    """Collect what the score leaves out; `rules`: the settings that leave rules out."""
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
    """Return the files that could not be read, in either plan."""
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


def _is_counted(finding: Finding) -> bool:
    return finding.rule != _COMMENT and finding.status not in (Status.LEFT, Status.SUPPRESSED)


def _make_entry(key: Key, lines: dict[Path, SourceLines], safe: list[Found], unsafe: list[Found]) -> Entry:
    left, left_unsafe = list(_remaining(safe)), list(_remaining(unsafe))
    state = State.REWRITTEN if not left else State.UNSAFE if not left_unsafe else State.YOURS
    all_ = [f for f in (*left, *safe, *left_unsafe, *unsafe) if f.finding.status is not Status.SUPPRESSED]
    shown = next((f for f in all_ if f.finding.status is not Status.LEFT), all_[0])
    backends = frozenset().union(*(f.finding.backends or OTHERS for f in all_))
    source = lines.setdefault(shown.result.path, SourceLines(shown.result, True))
    around = source.around(shown.finding, _AROUND)
    text = tuple(clean(line)[:_LONGEST] for _, line in around)
    first = around[0][0] if around else 0
    number = sum(_is_counted(f.finding) for f in safe)
    return Entry(key[0], key[1], clean(shown.finding.message), backends, state, text, first, number)


def _remaining(found: list[Found]) -> Iterator[Found]:
    return (f for f in found if f.finding.status not in (Status.APPLIED, Status.SUPPRESSED))


def grouped(weights: Mapping[str, int], most: int) -> dict[str, list[str]]:
    """Group files under at most `most` names, unless the first level alone has more.

    `weights`: sites by file. A name is a file, a directory (`pkg/`), or the files directly in one (`pkg/*`).
    """
    groups = _split_group("./", sorted(weights))
    while True:
        heaviest = sorted(groups, key=lambda name: (-sum(weights[f] for f in groups[name]), name))
        for name in heaviest:
            parts = _split_group(name, groups[name])
            if name not in parts and len(groups) - 1 + len(parts) <= max(most, len(groups)):
                del groups[name]
                groups |= parts
                break
        else:
            return groups


def _split_group(name: str, files: Sequence[str]) -> dict[str, list[str]]:
    """Split a group into its subdirectories and the files beside them, or, without subdirectories, into files."""
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
