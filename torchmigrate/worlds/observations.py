"""Note what one version does in one world, by place: devices used, calls that die, refusals, and so on."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice

from torchmigrate.torch_api.backends import types_of
from torchmigrate.worlds.program import NONE, Edits
from torchmigrate.worlds.values import NOTHING, Atom, Const, Device, Value, is_index, join

Place = tuple[str, int]  # path, and offset in the original text
Key = tuple[str, Place]
Doubts = frozenset[object]  # tests that lead to a place of a function and could come out otherwise
NO_DOUBT: Doubts = frozenset()

DEVICE = "device"  # a device position of torch: the devices that reach it
KEPT = "kept"  # a device of CUDA that is stored or returned without CUDA
SURE = "sure"  # those of a device position's devices that the program gives, where a user may name others
DEATH = "death"  # code of CUDA that runs without CUDA
REFUSAL = "refusal"  # raise, assert, sys.exit
BOUND = "bound"  # what a function gets that runs on CUDA alone, where CUDA is there
FOREIGN = "foreign"  # what another library is given
HANDED = "handed"  # a device that is named as text or made, and handed to code of the project or to something unknown
TOLD = "told"  # a device that is printed or logged
ANSWER = "answer"  # what a function named for CUDA returns
PRECISION = "precision"  # a flag named for half precision
GIVEN = "given"  # a device that the user may name
NARROWED = "narrowed"  # what an edit compares with "cuda" that the original compared with "cpu"
MAPPED = "mapped"  # a file that torch loads to a device that it is told
CAST = "cast"  # mixed precision that may be enabled, or a scaler for it: the devices that it is for
SCALER = "scaler"  # what is said of such a scaler
HALVED = "halved"  # a type of half precision
BRANCH = "branch"  # how a test comes out
# how a test comes out that only chooses the CPU, with what of its choice nobody knows, and the devices that it leaves
FALLBACK = "fallback"
LOST = "lost"  # a key that a table does not have
DEFAULT = "default"  # the device of a tensor type that becomes the default
LEGACY = "legacy"  # `torch.Tensor(...)`, which follows a default of CUDA alone
CHOSEN = "chosen"  # an accelerator of the project's own choice, which a rewritten test takes for CUDA
ASKED = "asked"  # a table without the device that is here, asked for the device of a tensor


@dataclass(slots=True)
class Entry:
    """An entered function has its begin and end, and its callers, None where it was evaluated on its own.

    A caller is a function's key and the place of the statement with the call.
    """

    span: tuple[Place, int]
    callers: set[tuple[str, Place] | None] = field(default_factory=set)


class Observations:
    """Observations hold the places of one version in one world, by kind."""

    def __init__(self) -> None:
        self.found: dict[Key, Value] = {}
        self.paths: dict[Key, Edits] = {}  # the edits that let the place be reached
        self.told: dict[Key, str] = {}  # words for messages
        self.assumed: set[Key] = set()  # seen only in functions that nothing which runs was seen to call
        self.idle: set[Key] = set()  # those of them that were seen only in such functions themselves
        self.certain: set[Key] = set()  # reached whatever tests that are not known come out to
        self.doubts: dict[Key, Doubts] = {}  # the tests of its function that lead there each time it is reached
        self.called: set[Key] = set()  # seen in functions that some call led to
        self.in_tests: set[Key] = set()  # seen only in tests, or in what an imported file does as a program
        self.caught: set[Place] = set()  # where something died, or refused, that a handler catches
        self.made: set[Place] = set()  # where torch.device only makes a device, which is used elsewhere
        self.ends: dict[tuple[Place, bool], set[Place | None]] = {}  # by outcome of a test, where its branch dies
        self.beside: dict[tuple[Place, bool], tuple[int, int]] = {}  # and where the other branch begins and ends
        self.cut: dict[Place, int] = {}  # where a block dies, the offset at which it ends: nothing runs between them
        # where a branch for several devices begins that a test passes by, and the offset at which it ends
        self.spare: dict[Place, int] = {}
        self.shut: dict[Place, int] = {}  # where a block refuses, whatever is not known, the offset at which it ends
        # what never gets past itself: where it begins, and the offset at which its block ends
        self.stops: dict[ast.stmt, tuple[Place, int]] = {}
        self.passed: set[ast.stmt] = set()  # what was seen to get past itself
        # where a test only reads a name: its function's key, and the name
        self.flags: dict[Place, tuple[str, str]] = {}
        self.refuses: dict[Place, bool] = {}  # how a test comes out where its branch refuses to run
        self.entries: dict[str, Entry] = {}  # the functions that were entered, by key
        self.tests: set[tuple[Place, int]] = set()  # where tests, and what imported files do as programs, begin and end
        self.divided: set[Place] = set()  # where something is refused for the remainder of a division
        self.counted: set[Place] = set()  # where more devices than there are are refused, and without CUDA any at all
        self.numbers: set[int] = set()  # edits that ask how many accelerators there are, where that may be several
        self.used: set[int] = set()  # edits whose values torch itself gets
        self.named: set[Place] = set()  # where texts that name a device of CUDA begin, as far as they are evaluated
        self.has_new_defaults = False  # an edit sets the default of an option
        self.is_assumption = False
        self.is_called = False
        self.is_test = False

    def add(
        self, kind: str, place: Place, value: Value, path: Edits, words: str = "", doubts: Doubts | None = None
    ) -> None:
        key = kind, place
        if doubts is not None:
            self.doubts[key] = self.doubts.get(key, doubts) & doubts
        if doubts == NO_DOUBT:
            self.certain.add(key)
        if self.is_called:
            self.called.add(key)
        if not self.is_test:
            self.in_tests.discard(key)
        elif key not in self.found:
            self.in_tests.add(key)
        if not self.is_assumption:
            self.assumed.discard(key)
        elif key not in self.found:
            self.assumed.add(key)
        if not self.is_assumption or self.is_called:
            self.idle.discard(key)
        elif key not in self.found:
            self.idle.add(key)
        self.found[key] = join(self.found.get(key, NOTHING), value)
        self.paths[key] = self.paths.get(key, NONE) | path
        if words:
            self.told.setdefault(key, words)

    def since(self, mark: int, kinds: tuple[str, ...]) -> list[Key]:
        """Return the keys of these kinds that were found after the first `mark` ones, the last one first."""
        found = islice(reversed(self.found), len(self.found) - mark)
        return [key for key in found if key[0] in kinds]

    def catch(self, key: Key) -> None:
        """Drop an observation that turned out to be caught."""
        self.forget(key)
        self.caught.add(key[1])

    def forget(self, key: Key) -> None:
        """Drop an observation."""
        del self.found[key], self.paths[key]
        self.doubts.pop(key, None)
        self.certain.discard(key)
        self.assumed.discard(key)
        self.idle.discard(key)
        self.called.discard(key)
        self.in_tests.discard(key)

    def go_past(self, statement: ast.stmt) -> None:
        """Note that something comes past a statement."""
        self.passed.add(statement)
        self.stops.pop(statement, None)

    def stop(self, statement: ast.stmt, place: Place, end: int) -> None:
        """Note that a statement which begins at a place dies or refuses in any way; its block ends at an offset."""
        if statement not in self.passed:
            self.stops[statement] = place, end

    def clear(self) -> None:
        """Drop what a round found; the words stay, and the places where a device is only made."""
        keys = self.assumed, self.idle, self.certain, self.called, self.in_tests
        for each in (
            self.found,
            self.paths,
            self.doubts,
            *keys,
            self.caught,
            self.ends,
            self.beside,
            self.cut,
            self.spare,
            self.shut,
            self.stops,
            self.passed,
            self.flags,
            self.refuses,
            self.entries,
            self.tests,
            self.divided,
            self.counted,
            self.numbers,
            self.used,
            self.named,
        ):
            each.clear()

    def home(self, place: Place) -> str | None:
        """Return the key of the innermost function around a place, of those that were entered; None for none."""
        path, offset = place
        spans = ((start, end, key) for key, entry in self.entries.items() for start, end in [entry.span])
        around = [(end, key) for start, end, key in spans if start[0] == path and start[1] <= offset <= end]
        return min(around, default=(0, None))[1]

    def test_of(self, place: Place) -> Place | None:
        """Return where the test begins in which a place stands, or None."""
        path, offset = place
        return next((start for start, end in self.tests if start[0] == path and start[1] <= offset <= end), None)

    def of(self, kind: str) -> list[tuple[Place, Value]]:
        return [(place, value) for (k, place), value in self.found.items() if k == kind]

    def get(self, kind: str, place: Place) -> Value | None:
        return self.found.get((kind, place))

    def all_edits(self, but: Collection[Key] = ()) -> Edits:
        """Return the edits that any place depends on, `but` for some."""
        return NONE.union(*(self.paths[key] | self.found[key].edits for key in self.found if key not in but))

    def edits_that_run(self, but: Collection[Key] = ()) -> Edits:
        """Return the edits that places depend on which something that runs was seen to come to, `but` for some."""
        return self.all_edits({*but, *self.assumed})

    def places(self) -> set[Place]:
        """Return all places at which something was seen."""
        return {place for _, place in self.found}

    def edits(self, kind: str, place: Place) -> Edits:
        """Return the edits that this place depends on."""
        key = kind, place
        return self.paths.get(key, NONE) | self.found.get(key, NOTHING).edits


def devices(value: Value) -> Value:
    """Return the devices that a value names, each as a Device."""
    found: dict[Atom, Edits] = {}
    for atom, edits in value.atoms.items():
        device = device_of(atom)
        if device is not None:
            found[device] = found.get(device, NONE) | edits
    return Value(found)


_TYPES = frozenset((*types_of("setting"), "meta"))


def is_cuda(value: Value) -> bool:
    """Return whether a value may be a device of CUDA's; `devices` gives those that it names."""
    return any(isinstance(atom, Device) and atom.type == "cuda" for atom in value)


def device_of(atom: object) -> Device | None:
    """Return the device that a text or a device names, or None."""
    if isinstance(atom, Device):
        return atom
    if isinstance(atom, Const) and isinstance(atom.value, str):
        kind, _, index = atom.value.partition(":")
        if kind in _TYPES:
            return Device(kind, int(index) if is_index(index) else None)
    return None
