"""Compare the outputs and written files of two runs: which numbers count, and which differ."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from torchmigrate.base.globs import Globs
from torchmigrate.base.text import shorten
from torchmigrate.torch_api.backends import EXTENSION, having
from torchmigrate.verify.sandbox import LARGE

DEVICES = "|".join((*having("helper"), EXTENSION, "cpu", "gpu"))
# Alternatives in this order: text with digits that is no quantity (devices, dates, times of day, versions and
# addresses, hexadecimal), a number, a name. The leftmost match is taken whole.
_TOKEN = re.compile(
    rf"(?P<device>\b(?:{DEVICES})\b(?::\d+)?)"
    r"|\b(?:rank|pid):\d+"
    r"|\b\d{4}-\d\d-\d\d(?:[T_ ]\d\d[:.-]\d\d[:.-]\d\d(?:[.,]\d+)?)?"
    r"|\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b"
    r"|\bv?\d+\.\d+\.\d+[\w.+-]*"
    r"|\b0[xX][0-9a-fA-F]+"
    r"|(?P<number>[+-]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)\b)"
    r"|[A-Za-z_]\w*(?:[-.]\w+)*",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\s*(?:(?:[nmuµ]?s|msecs?|secs?|seconds?|mins?|minutes?|hours?|hrs?|[hm])\b|\w*/(?:s|secs?|seconds?|min|hour)\b)"
)
_BYTES = re.compile(r"\s*(?:[KMGT]i?B|bytes|[kKMG]B)\b")
# What `warnings` prints where stderr goes to stdout: the place of the call, which a rewrite moves, then its source.
_WARNING = re.compile(r"(?:\S.*\.py|<\w+>):\d+: \w*Warning: ")
_UNIT_AHEAD = re.compile(
    r"(?:\b|_)(?:time|elapsed|took|duration|seconds|secs|eta|speed|throughput)\b\W{0,3}$", re.IGNORECASE
)
_BYTES_AHEAD = re.compile(r"(?:\b|_)(?:mem|memory|allocated|reserved)\b\W{0,3}$", re.IGNORECASE)  # `max mem: 2131`


class Kind(Enum):
    """The kind is what a number measures. Times are never compared; bytes only between runs on the same backend."""

    VALUE = "value"
    TIME = "time"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Number:
    """A number has its text as printed, and its value."""

    text: str
    value: float
    kind: Kind

    @property
    def unit(self) -> float:
        """Return one unit in the last printed place; 0 for a whole number, which is not rounded."""
        found = re.match(r"[+-]?[\d,]*\.?(\d*)(?:[eE]([+-]?\d+))?$", self.text)
        if found is None or not ("." in self.text or found[2]):
            return 0.0
        return float(10.0 ** max(-300, min(300, int(found[2] or 0) - len(found[1]))))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output, counted from 1, holds numbers; `shape` has `#` for each number and `@` for each device."""

    number: int
    text: str
    shape: str
    numbers: tuple[Number, ...]


def lines(output: str) -> list[Line]:
    """Return the lines that hold numbers; of a line overwritten with carriage returns, the last text counts."""
    found = (_parse_line(at, text) for at, text in _without_warnings(output))
    return [line for line in found if line.numbers]


def _without_warnings(output: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, from 1, but for Python's warnings, whose text and place belong to the machine and the rewrite.

    The line of source below a warning has an indent of two.
    """
    warned = False
    for at, text in enumerate(output.split("\n"), 1):
        source = warned and text.startswith("  ")
        warned = bool(_WARNING.match(text))
        if not (warned or source):
            yield at, text


Logged = Mapping[str, tuple[Line, ...]]


def by_shape(found: Iterable[Line]) -> Logged:
    """Return lines by their shape, for a stream in which other lines may come between them."""
    groups: dict[str, list[Line]] = {}
    for line in found:
        groups.setdefault(line.shape, []).append(line)
    return {form: tuple(group) for form, group in groups.items()}


def behind_cut(expected: Reference, found: Sequence[Line]) -> Logged:
    """Return the lines behind the place from which on the original's output is not the same twice, by their shape."""
    return {} if expected.cut is None else by_shape(found[len(expected.lines) :])


def named_devices(output: str) -> dict[str, frozenset[str]]:
    """Return the types of the devices that lines of output name, by the shape of the line.

    The `cuda` of `Namespace(cuda=True)` is the name of an option.
    """
    found: dict[str, frozenset[str]] = {}
    for _, line in _without_warnings(output):
        matches = (match for match in _TOKEN.finditer(line) if match["device"] and line[match.end() :][:1] != "=")
        types = {match["device"].partition(":")[0].lower() for match in matches}
        if types:
            form = shape(line.rstrip("\r").rpartition("\r")[2])
            found[form] = found.get(form, frozenset()) | types
    return found


def worded(output: str) -> frozenset[str]:
    """Return the forms of all lines that hold a word, as `shape` has them, without numbers and names of devices."""
    found = (shape(text.rstrip("\r").rpartition("\r")[2]) for _, text in _without_warnings(output))
    return frozenset(form for form in found if re.search(r"[^\W\d_]", form))


def _parse_line(at: int, text: str) -> Line:
    text = text.rstrip("\r").rpartition("\r")[2]
    numbers: list[Number] = []
    return Line(at, text, shape(text, numbers), tuple(numbers))


def shape(text: str, numbers: list[Number] | None = None) -> str:
    """Return the text with `#` for numbers (added to `numbers`), `@` for devices, `_` for other digits."""

    def replace_token(found: re.Match[str]) -> str:
        if found["device"]:
            return "@"
        if not found["number"]:
            return re.sub(r"\d", "_", found[0])
        if numbers is not None:
            value = float(found[0].replace(",", ""))
            numbers.append(Number(found[0], value, _kind_of(text, found.start(), found.end())))
        return "#"

    return " ".join(_TOKEN.sub(replace_token, text).split())


def _kind_of(text: str, start: int, end: int) -> Kind:
    ahead = text[max(0, start - 24) : start]
    if _TIME.match(text, end) or _UNIT_AHEAD.search(ahead):
        return Kind.TIME
    return Kind.BYTES if _BYTES.match(text, end) or _BYTES_AHEAD.search(ahead) else Kind.VALUE


# The simulator fills fresh memory with 0x7F bytes; these are the values they give in the types where such a value is no
# coincidence.
_POISON = (3.3961513649220713e38, 0x7F7F7F7F, 0x7F7F7F7F7F7F7F7F, 1.3824172084878715e306)


def is_poison(number: Number) -> bool:
    """Return whether a number shows memory of a simulated device that nothing has written.

    At least four digits must match: the largest float32, 3.4028e38, is a common mask, and 3.4e38 could be either.
    """
    digits = len(re.sub(r"[eE].*|\D", "", number.text).strip("0"))
    return digits >= 4 and any(_rounds_to(number.value, poison, digits) for poison in _POISON)


def _rounds_to(value: float, poison: float, digits: int) -> bool:
    shown = min(digits, 8)
    return float(f"{abs(value):.{shown - 1}e}") == float(f"{poison:.{shown - 1}e}")


_TEXT_LIMIT = 8 * LARGE  # bytes: larger written files are compared by digest
_QUOTED = 72  # characters of a line in a report


@dataclass(frozen=True, slots=True)
class Difference:
    """Outputs differ first at this line (from 1) of the run's or, past its end, of the reference's."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}"


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference has the original's lines; in both its runs number j of line i is the same if `counts[i][j]`."""

    lines: tuple[Line, ...]
    counts: tuple[tuple[bool, ...], ...]
    cut: int | None = None  # the first line at which the two runs differ in form
    unsteady: frozenset[tuple[str, int]] = frozenset()  # shape and place of the numbers that do not count

    @property
    def numbers(self) -> int:
        return sum(map(sum, self.counts))

    @property
    def left_out(self) -> int:
        return sum(map(len, self.counts)) - self.numbers


def reference(first: Sequence[Line], second: Sequence[Line]) -> Reference:
    """Build the reference from two runs of the original.

    A number counts if it is not a time, is the same in both runs, and so are the numbers at its place in all other
    lines of the same shape.
    """
    same = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a.shape != b.shape),
        min(len(first), len(second)),
    )
    kept = tuple(first[:same])
    unsteady = {
        (a.shape, j)
        for a, b in zip(kept, second, strict=False)
        for j, (x, y) in enumerate(zip(a.numbers, b.numbers, strict=True))
        if not equal(x, y) or x.kind is Kind.TIME or is_poison(x)
    }
    cut = None if same == len(first) == len(second) else (first[same] if same < len(first) else second[same]).number
    return _reference(kept, cut, frozenset(unsteady))


def like(known: Reference | None, found: Sequence[Line], again: Sequence[Line] | None = None) -> Reference:
    """Build a reference from another run of the original, and one more of the same kind, if there is one.

    What is `known` to be unsteady is left out, too.
    """
    own = reference(found, found if again is None else again)
    if known is None:
        return own
    cuts = [each.cut for each in (own, known) if each.cut is not None]
    return _reference(own.lines, min(cuts, default=None), own.unsteady | known.unsteady)


def _reference(kept: tuple[Line, ...], cut: int | None, unsteady: frozenset[tuple[str, int]]) -> Reference:
    counts = tuple(tuple((line.shape, j) not in unsteady for j in range(len(line.numbers))) for line in kept)
    return Reference(kept, counts, cut, unsteady)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance says how far numbers may differ.

    `relative`: 0 asks for equality. `same_backend`: bytes of memory are compared too. `steps`: compare only the first
    so many lines with numbers that count; None compares all.
    """

    relative: float
    same_backend: bool
    steps: int | None = None

    def agree(self, expected: Number, found: Number) -> bool:
        """Return whether two numbers (or NaNs) agree within the tolerance, which is absolute below 1e-3."""
        if self.relative == 0 or not (math.isfinite(expected.value) and math.isfinite(found.value)):
            return equal(expected, found)
        size = max(abs(expected.value), abs(found.value), 1e-3)
        return abs(expected.value - found.value) <= self.relative * size

    def rounds(self, expected: Number, found: Number) -> bool:
        """Return whether two numbers differ by one in the last printed place: the unrounded values may agree."""
        apart = abs(expected.value - found.value)
        return self.relative > 0 and expected.unit == found.unit and apart <= 1.001 * expected.unit

    def chance(self, number: Number) -> float:
        """Return how likely it is at most that rounding alone changes a number's last printed digit."""
        size = self.relative * max(abs(number.value), 1e-3)
        return min(1.0, size / number.unit) if number.unit and math.isfinite(size) else 0.0

    def wants(self, number: Number) -> bool:
        return number.kind is Kind.VALUE or (number.kind is Kind.BYTES and self.same_backend)


def equal(a: Number, b: Number) -> bool:
    """Return whether two numbers have the same value; NaN equals NaN."""
    return a.value == b.value or (math.isnan(a.value) and math.isnan(b.value))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two outputs were compared: `places` (line, number) agree, `rounded` of them but for the last digit."""

    places: frozenset[tuple[int, int]] = frozenset()
    difference: Difference | None = None
    rounded: frozenset[tuple[int, int]] = frozenset()

    @property
    def numbers(self) -> int:
        return len(self.places)


def compare(expected: Reference, found: Sequence[Line], tolerance: Tolerance) -> Comparison:
    """Compare the numbers line by line in order; the text around them may differ."""
    agreed: set[tuple[int, int]] = set()
    apart: dict[tuple[str, str], Difference] = {}
    chances: dict[str, float] = {}
    rounded: set[tuple[int, int]] = set()
    steps = 0
    for at, (line, counts) in enumerate(zip(expected.lines, expected.counts, strict=True)):
        wanted = [j for j, counted in enumerate(counts) if counted and tolerance.wants(line.numbers[j])]
        if tolerance.steps is not None and wanted and steps == tolerance.steps:
            return Comparison(frozenset(agreed), None, frozenset(rounded))
        steps += bool(wanted)
        difference = _compare_form(line, found, at) or _compare_values(line, found[at], wanted, tolerance)
        if difference:
            return Comparison(frozenset(agreed), difference, frozenset(rounded))
        agreed.update((at, j) for j in wanted)
        for j in wanted:
            own, other = line.numbers[j], found[at].numbers[j]
            chances[own.text] = tolerance.chance(own)
            if not tolerance.agree(own, other):
                rounded.add((at, j))
                what = f"{other.text} where the original printed {own.text} (`{_quote(found[at])}`)"
                apart.setdefault((own.text, other.text), Difference(found[at].number, what))
    if _are_too_many(len(apart), sum(chances.values())):
        first = next(iter(apart.values()))
        many = (
            f"{first.what}; {len(apart)} of {len(chances)} are one apart in the last digit, more than rounding explains"
        )
        return Comparison(frozenset(agreed), Difference(first.line, many), frozenset(rounded))
    extra = _find_extra_output(expected, found) if tolerance.steps is None else None
    return Comparison(frozenset(agreed), extra, frozenset(rounded))


def steady(first: Logged, second: Logged) -> frozenset[tuple[str, int]]:
    """Return the shape and place of the numbers that two runs write alike to stderr, as often; times are none."""
    return frozenset(
        (form, j)
        for form, group in first.items()
        if len(group) == len(second.get(form, ()))
        for j in range(len(group[0].numbers))
        if all(equal(a.numbers[j], b.numbers[j]) for a, b in zip(group, second[form], strict=True))
        and not any(line.numbers[j].kind is Kind.TIME or is_poison(line.numbers[j]) for line in group)
    )


def compare_logged(
    expected: Logged, places: Iterable[tuple[str, int]], found: Logged, tolerance: Tolerance
) -> tuple[Difference | None, int]:
    """Return the first difference in lines of stderr, and how many numbers agree before it.

    Other lines may come between them, and a line that is not written as often is not compared: progress bars and
    warnings differ between machines. One that is not written at all is a difference, unless it holds a time.
    """
    agreed = 0
    for form, j in sorted(places):
        group, own = expected[form], found.get(form, ())
        if not own and not any(number.kind is Kind.TIME for line in group for number in line.numbers):
            return Difference(group[0].number, f"the original's `{_quote(group[0])}` is not written"), agreed
        if len(group) != len(own):
            continue
        for line, other in list(zip(group, own, strict=True))[: tolerance.steps]:
            if difference := _compare_values(line, other, [j], tolerance):
                return difference, agreed
            agreed += 1
    return None, agreed


_RARE = 1e-4


def _are_too_many(found: int, expected: float) -> bool:
    """Return whether so many numbers differ in their last digit by rounding with a chance of less than _RARE.

    By Poisson's distribution. One or two are never too many: a count of right answers moves in steps of its own.
    """
    if found < 3 or not expected:
        return found >= 3
    fewer = sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(found))
    return 1 - fewer < _RARE


def _compare_form(line: Line, found: Sequence[Line], at: int) -> Difference | None:
    if at >= len(found):
        return Difference(line.number, f"the output ends before the original's `{_quote(line)}`")
    if len(found[at].numbers) != len(line.numbers):
        return Difference(found[at].number, f"`{_quote(found[at])}` where the original printed `{_quote(line)}`")
    return None


def _compare_values(line: Line, found: Line, wanted: Sequence[int], tolerance: Tolerance) -> Difference | None:
    for j in wanted:
        a, b = line.numbers[j], found.numbers[j]
        if not tolerance.agree(a, b) and not tolerance.rounds(a, b):
            return Difference(found.number, f"{b.text} where the original printed {a.text} (`{_quote(found)}`)")
    return None


def _find_extra_output(expected: Reference, found: Sequence[Line]) -> Difference | None:
    if expected.cut is not None or len(found) <= len(expected.lines):
        return None
    extra = found[len(expected.lines)]
    return Difference(extra.number, f"`{_quote(extra)}` where the original's output has ended")


def _quote(line: Line) -> str:
    return shorten(" ".join(line.text.split()), _QUOTED)


def comparable(expected: Reference, found: Sequence[Line], steps: int | None) -> Iterator[float]:
    """Yield the run's values of the numbers that count, as long as its lines have the reference's form."""
    lines_seen = 0
    for counts, own in zip(expected.counts, found, strict=False):
        if lines_seen == steps or len(own.numbers) != len(counts):
            return
        lines_seen += any(counts)
        yield from (number.value for number, counted in zip(own.numbers, counts, strict=True) if counted)


# ---- files


@dataclass(frozen=True, slots=True)
class Written:
    """A written file has a SHA-256 digest, its lines with numbers if it is text, else the place where it is `kept`.

    `words`: the forms of its lines that hold words.
    """

    digest: str
    lines: tuple[Line, ...] | None
    kept: str = ""
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of two files were compared: so many values agree; the first difference; why one is unreadable."""

    values: int
    difference: str | None
    unreadable: str | None


Files = Mapping[str, Written]


def made(base: Path, root: Path) -> frozenset[str]:
    """Return the files, by path relative to the copy `root`, that the run made; caches and hidden ones are left out."""
    found = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not (name.startswith(".") or name in _CACHES)]
        inside = os.path.relpath(folder, root)
        for name in names:
            path = os.path.normpath(os.path.join(inside, name))
            if not (name.startswith(".") or name.endswith(".pyc") or os.path.lexists(base / path)):
                found.add(path)
    return frozenset(found)


def lost_file(first: frozenset[str], second: frozenset[str], found: frozenset[str]) -> str | None:
    """Return a file that both runs of the original made and this one did not.

    Numbers and types of devices in a name may be others.
    """
    there = {_file_form(name) for name in found}
    return next((name for name in sorted(first & second) if _file_form(name) not in there), None)


_CACHES = {"__pycache__", "node_modules"}
_IN_FILE_NAME = re.compile(rf"(?<![A-Za-z])(?:{DEVICES})(?![A-Za-z])", re.IGNORECASE)


def _file_form(name: str) -> str:
    return re.sub(r"[\d.+-]*\d", "#", _IN_FILE_NAME.sub("@", name))


def written(base: Path, root: Path, globs: Sequence[str], keep: Path) -> dict[str, Written]:
    """Return the files, by path relative to the copy `root`, that match and that the run made or changed."""
    wanted = Globs(globs)
    found = {}
    for path in root.rglob("*") if globs else ():
        name = path.relative_to(root).as_posix()
        if path.is_file() and not path.is_symlink() and wanted.match(name) and "__pycache__" not in path.parts:
            content = path.read_bytes()
            old = base / name
            as_before = old.is_file() and old.stat().st_mtime_ns == path.stat().st_mtime_ns
            if not (as_before and old.read_bytes() == content):
                found[name] = _summarize(content, path, keep / name)
    return found


def _summarize(content: bytes, path: Path, keep: Path) -> Written:
    digest = hashlib.sha256(content).hexdigest()
    if len(content) <= _TEXT_LIMIT and b"\0" not in content[:4096]:
        with suppress(UnicodeDecodeError):
            return Written(digest, tuple(lines(content.decode())), words=worded(content.decode()))
    keep.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, keep)
    return Written(digest, None, str(keep))


def compare_files(
    first: Files, second: Files, found: Files, tolerance: Tolerance, arrays: Mapping[str, Arrays]
) -> tuple[str | None, list[str]]:
    """Return a description of the first file that differs, or None, and the names of those whose content agrees.

    Text is compared by its numbers, other files by their arrays (`arrays`, by where the run's file is kept). Where they
    cannot be read, files must be identical on the same backend; across backends their presence is enough.
    """
    agreed: list[str] = []
    for name in sorted({*first, *found}):
        if (name in first) != (name in second):
            continue  # the original itself does not always write this file
        if name not in first:
            return f"{name}: written here, not by the original", agreed
        if name not in found:
            return f"{name}: written by the original, not here", agreed
        problem, content = _compare_file(first[name], second[name], found[name], tolerance, arrays)
        if problem:
            return f"{name}: {problem}", agreed
        agreed += [name] if content else []
    return None, agreed


def _compare_file(
    first: Written, second: Written, found: Written, tolerance: Tolerance, arrays: Mapping[str, Arrays]
) -> tuple[str | None, bool]:
    """Return how a file differs, or None, and whether its content was compared."""
    if first.digest == found.digest:
        return None, True
    if first.lines is not None and second.lines is not None and found.lines is not None:
        comparison = compare(reference(first.lines, second.lines), found.lines, tolerance)
        return str(comparison.difference) if comparison.difference else None, bool(comparison.numbers)
    known = arrays.get(found.kept)
    if known and known.unreadable is None and (known.values or known.difference):
        return known.difference, True
    if not tolerance.same_backend or first.digest != second.digest:
        return None, False
    return "its bytes differ from those that the original wrote", True
