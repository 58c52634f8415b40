"""Apply the rules W1 to W4, which say what differences between the original and the rewritten project are faults."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from torchmigrate.source.edits import Edit, Span
from torchmigrate.torch_api.backends import types_of
from torchmigrate.torch_api.libraries import HOST, arguments, takes
from torchmigrate.worlds.observations import (
    ANSWER,
    ASKED,
    BOUND,
    BRANCH,
    CAST,
    CHOSEN,
    DEATH,
    DEFAULT,
    DEVICE,
    FALLBACK,
    FOREIGN,
    GIVEN,
    HALVED,
    HANDED,
    KEPT,
    LEGACY,
    LOST,
    MAPPED,
    NARROWED,
    NO_DOUBT,
    PRECISION,
    REFUSAL,
    SURE,
    TOLD,
    Doubts,
    Key,
    Observations,
    Place,
    device_of,
    is_cuda,
)
from torchmigrate.worlds.program import NONE, Edits
from torchmigrate.worlds.truth import WORLDS, World
from torchmigrate.worlds.values import NOTHING, OPEN, OPTIONS, OWN_TYPE, Atom, Const, Device, Unknown, Value, bare, join


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault says which rule the edits break: in which world, where, and in words."""

    edits: Edits
    world: World
    place: Place
    words: str


@dataclass(frozen=True, slots=True)
class Original:
    """The check compares with this knowledge of the original, for all worlds.

    `cuda` is what it does on CUDA. Of its own choice among accelerators `arms` are the positions for CUDA beside one
    for another, and `ends` those that either reaches. `programs` are the largest sets of files that run in one process,
    `rewritten` the spans of the edits, by path, and `begun` where each edit begins. It `knows_others` if it speaks of
    accelerators beside CUDA, and `has_choice` if its user gives options. `shared` are the files of portable packages.
    `uses` returns the files in which the project, without any edit, gives something a world's accelerator itself.
    `is_installed` returns whether a file is in a package that is installed.
    """

    cuda: Observations
    arms: frozenset[Place]
    ends: frozenset[Place]
    programs: Sequence[frozenset[str]]
    rewritten: Mapping[str, Sequence[Span]]
    begun: Mapping[int, Place]
    knows_others: bool
    has_choice: bool
    shared: Container[str]
    uses: Callable[[World], AbstractSet[str]]
    is_installed: Callable[[str], bool]

    def now(self, place: Place) -> Place:
        """Return where what stood at a place ends now: with the edit that rewrote it as a part of something larger."""
        path, offset = place
        return path, next((end for start, end in self.rewritten.get(path, ()) if start < offset < end), offset)

    def together(self, path: str, other: str) -> bool:
        return path == other or any(path in files and other in files for files in self.programs)

    def all_end(self, path: str, dying: frozenset[str]) -> bool:
        """Return whether each program with this file has one that is about to die; `dying` are the latter."""
        programs = [files for files in self.programs if path in files]
        return bool(programs) and not any(map(dying.isdisjoint, programs))


@dataclass(frozen=True, slots=True)
class Dying:
    """These files are about to die where there is no CUDA.

    In `tests` a test dies, or what an imported file does as a program, which ends no other program.
    """

    files: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.files or self.tests)

    def holds(self, key: Key, seen: Observations) -> bool:
        """Return whether what was seen at a place stands in such a file, or is what only tests come to, if one dies."""
        return key[1][0] in self.files or (bool(self.tests) and key in seen.in_tests)


def faults(
    world: World,
    old: Observations,
    new: Observations,
    original: Original,
    used: frozenset[int],
    alone: Callable[[], Observations],
) -> Iterator[Fault]:
    """Yield what the edits break in one world.

    `used` are the edits whose devices reach torch on CUDA. `alone` gives what the rewritten project does where the
    world has one accelerator.
    """
    dying = _dying(old) if world.kind != "cuda" else Dying()
    yield from _answers(world, old, new, original)
    yield from _deaths(world, old, new, dying, alone)
    yield from _given(world, old, new)
    yield from _handed(world, old, new, used)
    yield from _fallbacks(world, old, new)
    if world.is_portable:
        yield from _own_devices(world, old, new)
        yield from _own_tests(world, old, new, original)
        yield from _precision(world, old, new)
        yield from _halved(world, old, new, original)
        yield from _cast(world, old, new, original, dying)
        yield from _unscaled(world, old, new, original)
        yield from _mapped(world, old, new, original)
        yield from _unfollowed(world, old, new)
        yield from _two_ways(world, old, new, original)
        yield from _led_to_the_cpu(world, old, new, original)
        yield from _under_default(world, old, new, original)
        yield from _asked(world, old, new, original, dying)
        yield from _lifted(world, old, new, original)
        yield from _lifted_alone(world, old, new, original)
    else:
        yield from _told(world, old, new, used, dying)
        yield from _devices(world, old, new)
        yield from _cast_on_cpu(world, old, new, original)
        yield from _branches(world, old, new, original, dying)


def pointless(new: Mapping[World, Observations], original: Original) -> tuple[list[Fault], Edits]:
    """Return the edits of devices that CUDA alone comes to use, and those that others use.

    A test that stays CUDA's keeps all other accelerators from them, or a function that runs on CUDA alone gets them:
    they would only look as if the code were portable. Where their program still dies elsewhere, that may be why nothing
    comes to a device, so it is not returned. `new` is what the rewritten project does, by world.
    """
    portable = [seen for world, seen in new.items() if world.is_portable]
    dying = {path for each in map(_dying, portable) for path in each.files | each.tests}
    defaults = {key for seen in portable for key in _defaults(seen, original)}
    used = NONE.union(*(seen.all_edits(defaults) for seen in portable))
    running = NONE.union(*(seen.edits_that_run(defaults) for seen in portable))
    found = []
    for world, seen in new.items():
        for kind in (DEVICE, BOUND) if world.kind == "cuda" else ():
            for place, value in seen.of(kind):
                if (kind, place) in defaults:
                    continue
                alone = value.edits - (used if (kind, place) in seen.assumed else running)
                if alone and not (kind == DEVICE and any(original.together(place[0], path) for path in dying)):
                    found.append(Fault(alone, world, place, _ALONE[kind]))
    found += _needless(new, running, original.knows_others)
    return found, used


def _defaults(seen: Observations, original: Original) -> Iterator[Key]:
    """Yield what was seen where an option of the command line gets its default: nothing uses that there."""
    for place, value in seen.of(HANDED):
        if seen.told.get((HANDED, place)) == "add_argument":
            yield HANDED, place
            yield from ((DEVICE, original.begun[edit]) for edit in value.edits)


_ALONE = {DEVICE: "only CUDA comes here, as what leads here stays", BOUND: "this runs on CUDA alone"}


def _needless(new: Mapping[World, Observations], running: Edits, knows_others: bool) -> Iterator[Fault]:
    """Yield tests that ask for CUDA instead of "not the CPU" where that is not needed, or not enough.

    No other accelerator comes to them, or the project `knows_others` or lets the user name one, with which they came
    out otherwise. What is not known may be one if `running` edits, other than this, bring one to the program.
    """
    needed, asked = NONE, {}
    is_given = any(seen.of(GIVEN) for seen in new.values())
    for world, seen in new.items():
        for place, value in seen.of(NARROWED):
            edits = seen.paths[NARROWED, place]
            asked[place] = Fault(edits, world, place, "no accelerator but CUDA's comes to this test")
            if knows_others:
                yield Fault(edits, world, place, "the project chooses the device that this test asks about")
            elif is_given and Unknown() in value:
                yield Fault(edits | value.edits, world, place, "the user may name the device that this test asks about")
            others = any(device is not None and device.type == world.kind != "cuda" for device in map(device_of, value))
            if others or (Unknown() in value and running - edits):
                needed |= edits
    yield from (fault for fault in asked.values() if not fault.edits & needed)


def _answers(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield functions named for CUDA that would answer otherwise.

    Projects ask them beside those for other devices, and others ask those of a package that is installed.
    """
    for place, value in new.of(ANSWER):
        before, edits = old.get(ANSWER, place), new.edits(ANSWER, place)
        if before is None or not edits or _is_answered(before, value):
            continue
        name = new.told.get((ANSWER, place), "")
        if original.knows_others or (not name.startswith("_") and original.is_installed(place[0])):
            words = f"`{name}` is named for CUDA, and would no longer answer for CUDA alone"
            yield Fault(edits, world, place, words)


def _is_answered(before: Value, now: Value) -> bool:
    """Return whether two results tell the same about a machine. Tensors, and collections of more than names, do not."""
    told, tells = ({atom for atom in bare(value) if _is_told(atom)} for value in (before, now))
    is_sure = bool(told) and len(told) == len(set(before))
    return told == tells and not (is_sure and Unknown() in now)


def _is_told(atom: object) -> bool:
    if isinstance(atom, tuple):  # a collection
        return all(_is_told(inner) for element in atom[-1] for inner in element)
    return isinstance(atom, Device) or (isinstance(atom, Const) and atom.value is not None)


def _precision(world: World, old: Observations, new: Observations) -> Iterator[Fault]:
    """Yield flags that would turn half precision on where it was off, or off where the project's own device has it."""
    on = Const(True, bool)
    for place, value in new.of(PRECISION):
        before = old.get(PRECISION, place)
        if before is not None and (on in value) != (on in before) and (edits := new.edits(PRECISION, place)):
            name, way = new.told.get((PRECISION, place), ""), "on" if on in value else "off"
            yield Fault(edits, world, place, f"`{name}` would turn half precision {way}, on {world.title}")


def _halved(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield half precision that only the edits lead to, where all devices stay what they are.

    These are the devices of the same file, or, if it has none, those of its programs.
    """
    used = {place[0] for place, _ in new.of(DEVICE)}
    moved = moved_in(world, new)
    for place, _ in new.of(HALVED):
        path = place[0]
        is_moved = path in moved or (path not in used and any(original.together(path, other) for other in moved))
        if not is_moved and old.get(HALVED, place) is None and (edits := new.edits(HALVED, place)):
            yield Fault(edits, world, place, f"the CPU would compute in half precision on {world.title}")


def _cast(world: World, old: Observations, new: Observations, original: Original, dying: Dying) -> Iterator[Fault]:
    """Yield mixed precision that would be on where the world's accelerator is in use already, without it.

    The program uses it itself, or leaves devices to the callers of a package that knows accelerators beside CUDA.
    """
    moved = moved_in(world, new)
    for place, value in new.of(CAST):
        before = old.get(CAST, place)
        if before is None or world.kind in _types(before) or world.kind not in _types(value):
            continue
        is_dying = dying.holds((CAST, place), new) or original.all_end(place[0], dying.files)
        words = f"the project uses {world.title} itself, without mixed precision, which this would turn on there"
        knows_it = any(original.together(place[0], path) for path in original.uses(world))
        if place[0] in original.shared and not any(original.together(place[0], path) for path in moved):
            knows_it = True
            words = f"callers choose the device, and this would turn on mixed precision on {world.title}"
        if knows_it and not is_dying and (edits := new.edits(CAST, place)):
            yield Fault(edits, world, place, words)


def _unscaled(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield mixed precision that would be on in programs whose gradient scaler stays off there, and such scalers."""
    moved = {place for place, value in new.of(CAST) if world.kind in _types(value)}
    scalers = {place: place in moved for place, value in new.of(CAST) if new.told.get((CAST, place)) and value}
    casts = {place: place in moved for place, _ in new.of(CAST) if place not in scalers}
    for place in moved:
        before = old.get(CAST, place)
        if world.kind in _types(before or NOTHING) or not (edits := new.edits(CAST, place)):
            continue
        others = casts if place in scalers else scalers
        beside = [is_moved for other, is_moved in others.items() if original.together(place[0], other[0])]
        if beside and not any(beside):
            words = f"the gradients' scaler stays CUDA's, and half precision would be on without it on {world.title}"
            if place in scalers:
                words = f"mixed precision stays off, but the gradients' scaler would be on, on {world.title}"
            yield Fault(edits, world, place, words)


def _cast_on_cpu(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield mixed precision for CUDA, which is off where there is none, and would be the CPU's, and on.

    Where the same device dies without CUDA, nothing was computed on the CPU before.
    """
    for place, value in new.of(CAST):
        before = old.get(CAST, place)
        comes = before is not None and "cpu" in _types(value) and "cpu" not in _types(before)
        if not comes or not (edits := new.edits(CAST, place)):
            continue
        if not original.all_end(place[0], _dying_by_choice(old, new, edits, (CAST, place), original.has_choice)):
            yield Fault(edits, world, place, f"the CPU would compute in mixed precision on {world.title}")


def _mapped(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield files that would be loaded to the accelerator, not to the CPU, in programs that use it for nothing else."""
    moved = moved_in(world, new)
    for place, _ in new.of(MAPPED):
        before, value = old.get(DEVICE, place), new.get(DEVICE, place)
        if before is None or value is None or world.kind in _types(before) or world.kind not in _types(value):
            continue
        if Unknown() in before and Unknown() not in value:
            continue  # instead of None, by which a file is loaded to where it was saved
        is_moved = any(original.together(place[0], path) for path in moved)
        if "cpu" in _types(before) and not is_moved and (edits := new.edits(DEVICE, place)):
            yield Fault(
                edits, world, place, f"this file would be loaded to {world.title}, where nothing else is seen to be"
            )


def moved_in(world: World, seen: Observations) -> set[str]:
    """Return the files in which something gets the world's accelerator, beside what is loaded to it or computed on.

    What is only supposed to be a device, as a test asks about it, counts for none.
    """
    loads = {place for place, _ in seen.of(MAPPED)}
    sure = {(DEVICE, place): value for place, value in seen.of(SURE)}
    return {
        key[1][0]
        for key, value in seen.found.items()
        if key[0] not in (CAST, KEPT) and key[1] not in loads and world.kind in _types(sure.get(key, value))
    }


def _deaths(
    world: World, old: Observations, new: Observations, dying: Dying, alone: Callable[[], Observations]
) -> Iterator[Fault]:
    """Yield code of CUDA that runs and did not before, unless the program only got past the place where it died.

    A size that is no multiple of the number of accelerators is refused wherever there are several.
    """
    past = [*_behind_deaths(old, new), *_other_branches(old, new)]

    @cache
    def after_dead_branches() -> list[tuple[Place, int]]:
        dead = [place for place, wanted in old.ends if _only_dies(old, place, Const(wanted, bool))]
        return [(place, new.entries[home].span[1]) for place in dead if (home := new.home(place)) is not None]

    for kind in (DEATH, DEVICE, KEPT):
        for place, value in new.of(kind):
            if world.kind == "cuda" or (kind != DEATH and not is_cuda(value)):
                continue
            before = old.get(kind, place)
            key = kind, place
            comes_to_run = place not in new.made and any(
                key in was and key not in now for was, now in _only_assumed(old, new)
            )
            loses_fallback = before is not None and not _all_cuda(before) and _all_cuda(value)
            is_refused = OWN_TYPE in value  # the rewritten code dies here of what the helper gives
            was_there = before is not None and (kind == DEATH or is_cuda(before))
            if was_there and not (comes_to_run or loses_fallback or is_refused):
                continue
            if (before is None or not is_cuda(before)) and _is_in_any(place, past):
                continue
            if _is_only_asked_for(value, new.get(SURE, place)) and _is_in_any(place, after_dead_branches()):
                continue  # the same users died before
            if before is not None and Unknown() in before and Unknown("other") in value:
                continue  # a test told apart what is not known either way
            edits = new.edits(kind, place)
            if (asking := edits & new.numbers) and (key not in (lone := alone()).found or key in lone.assumed):
                edits = asking  # one accelerator would not lead there
            if edits:
                what = new.told.get((kind, place), '"cuda"')
                yield Fault(edits, world, place, f"{what} would be reached on {world.title}")
    refused = {place[0] for place in _gone_past(old, new)} if world.kind != "cuda" else set()
    behind = _entered_behind(lambda place: place[0] in refused, _entered_now(old, new), new) if refused else set()
    past += (new.entries[key].span for key in sorted(behind))
    opened = [(place, end) for place, end in old.shut.items() if place not in new.shut]
    for kind in (LOST, REFUSAL):
        for place, value in new.of(kind):
            gone_past = (
                dying.holds((kind, place), new)
                or place[0] in refused
                or _is_in_any(place, past)
                or (kind == REFUSAL and _is_in_any(place, opened))
            )
            is_setting = kind == LOST and not any(map(device_of, value))  # other code may fill such a table
            edits = value.edits if is_setting else new.edits(kind, place)
            before = old.get(kind, place)
            comes_to_run = (kind, place) in new.certain & (new.called - old.called) and world.is_portable
            if before is not None and kind == REFUSAL and not comes_to_run:  # other devices are refused than before
                # else the test asked what is no device's name
                told = Unknown("other") in before or any(isinstance(atom, Device) for atom in before)
                more = [a for a in value if told and isinstance(a, Device) and a.type not in _types(before)]
                edits = NONE.union(*(value.atoms[a] | new.paths[kind, place] for a in more))
            if (before is None or kind == REFUSAL) and not gone_past and edits:
                if place in new.divided and world.is_portable and alone().get(kind, place) is None:
                    continue
                if place in new.counted and world.is_portable:
                    continue  # who ran here before asked for none
                what = "the program would stop here" if kind == REFUSAL else "a table lacks the device"
                yield Fault(edits, world, place, f"{what} on {world.title}")


def _is_between(place: Place, start: Place, end: int) -> bool:
    return place[0] == start[0] and start[1] <= place[1] <= end


def _is_in_any(place: Place, parts: Iterable[tuple[Place, int]]) -> bool:
    """Return whether a place stands in one of these parts, of which each has its begin and end."""
    return any(_is_between(place, start, end) for start, end in parts)


def _other_branches(old: Observations, new: Observations) -> Iterator[tuple[Place, int]]:
    """Yield where a branch begins and ends that is taken now in place of one that only died."""
    for ((path, at), wanted), (start, end) in old.beside.items():
        outcome, now = Const(wanted, bool), new.get(BRANCH, (path, at))
        if now is not None and outcome not in now and _only_dies(old, (path, at), outcome):
            yield (path, start), end


def _is_only_asked_for(value: Value, sure: Value | None) -> bool:
    """Return whether a device position gets CUDA only where a user asks; `sure` is what the program gives."""
    cuda = [atom for atom in value if isinstance(atom, Device) and atom.type == "cuda"]
    return bool(cuda) and sure is not None and not any(atom in sure or value.atoms[atom] for atom in cuda)


def _only_assumed(old: Observations, new: Observations) -> Iterator[tuple[set[Key], set[Key]]]:
    """Yield what nothing is known to lead to, in both versions: to the function around it, or to what calls that."""
    yield old.assumed, new.assumed
    yield old.idle, new.idle


def _all_cuda(value: Value) -> bool:
    return bool(value) and all(isinstance(atom, Device) and atom.type == "cuda" for atom in value)


def _given(world: World, old: Observations, new: Observations) -> Iterator[Fault]:
    """Yield calls of other libraries that would get something else."""
    for place, found in new.of(FOREIGN):
        before = old.get(FOREIGN, place)
        value = _without_open(found)
        was = _without_open(before or NOTHING)
        name = new.told[FOREIGN, place]
        if name.endswith("()") and before is not None:  # its model is where the devices of the file are
            found, was = (join(*(v for p, v in seen.of(DEVICE) if p[0] == place[0])) for seen in (new, old))
            value = found
        is_lost = any(device_of(atom) and atom not in value for atom in was)  # something open took a device's place
        edits = new.paths[FOREIGN, place] | (found if is_lost else value).edits
        if edits and (before is None or _plain(was) != _plain(value)):
            taken = takes(name)
            library = name.partition(".")[0]
            if not value and library in HOST:
                continue
            if not value and not taken and before is None and _is_behind_a_death(place, old, new):
                continue  # it is given no device, and nothing but a death kept the original from it
            if name.endswith("="):
                words = f"this is handed on as `{name}`, which is not seen to mean {world.title}"
            elif value or taken:
                what = f"takes {_listed(set(taken))} only" if taken else "may have devices of its own"
                words = f"this device is handed to {library}, which {what}"
                if arguments(name.rpartition(".")[0]).get(name.rpartition(".")[2]) == "precision":
                    words = f"{library} is told here how precisely to compute, and chooses its device itself"
            elif is_lost:
                words = f"{library} would no longer be told {_listed(_types(was))} on {world.title}"
            else:
                words = f"this code, which calls {library}, ran on CUDA alone, and would run on {world.title}"
            yield Fault(edits, world, place, words)


def _without_open(value: Value) -> Value:
    return value.only(atom for atom in value if not isinstance(atom, Unknown))


def _handed(world: World, old: Observations, new: Observations, used: frozenset[int]) -> Iterator[Fault]:
    """Yield devices with an index, explicit choices, that are handed on where torch is not seen to get them."""
    for place, value in new.of(HANDED):
        before = old.get(HANDED, place)
        chosen = {a for a in before or () if isinstance(a, Device) and a.type == "cuda" and a.index is not None}
        if chosen.isdisjoint(value) and chosen and value.edits and value.edits.isdisjoint(used):
            name = new.told.get((HANDED, place))  # what `{...}[key](...)` calls has none
            taker = f"`{name}`" if name else "a call"
            words = f"this device is handed to {taker}, which is not seen to hand it to torch, on {world.title}"
            yield Fault(value.edits, world, place, words)


def _told(world: World, old: Observations, new: Observations, used: frozenset[int], dying: Dying) -> Iterator[Fault]:
    """Yield devices that are told, and that torch never gets, where the program lives on and would tell another."""
    for place, value in new.of(TOLD):
        before = old.get(TOLD, place)
        is_other = before is not None and is_cuda(before) and _types(value) != _types(before)
        lives_on = (TOLD, place) not in old.assumed | old.in_tests and not dying.holds((TOLD, place), new)
        if is_other and lives_on and value.edits and value.edits.isdisjoint(used):
            yield Fault(value.edits, world, place, f"this device is only told, and would be another on {world.title}")


def told_in_tests(
    world: World, old: Observations, used: frozenset[int], edits: Mapping[int, tuple[str, Edit]]
) -> Iterator[Fault]:
    """Yield devices of CUDA that a test names where there is none, runs on, and never gives to torch.

    Such a test asks what the project does with the name, and compares the answer. `edits` are those of the tests.
    """
    if world.kind:
        return
    named: dict[str, list[int]] = {}
    for path, start in sorted(old.named):
        named.setdefault(path, []).append(start)
    for number, (path, edit) in edits.items():
        starts = named.get(path, [])
        at = bisect.bisect_left(starts, edit.start)
        naming = number + _ELSEWHERE.get(edit.text, 0)
        is_here = naming in edits and edits[naming][0] == path
        if is_here and naming not in used and at < len(starts) and starts[at] < edit.end:
            words = "a test names this device and does not hand it to torch"
            yield Fault(frozenset({number, naming}), world, (path, edit.start), f"{words}, on {world.title}")


def _plain(value: Value) -> set[object]:
    return {("cuda" if isinstance(a, Device) and a.index == 0 else a) for a in value}


def _falls_to_the_cpu(old: Observations, new: Observations, place: Place, now: Place) -> bool:
    """Return whether who names CUDA gets the CPU here, as before, whatever others get.

    `if name == "cuda" and not torch.cuda.is_available(): name = "cpu"`
    """
    sure, before, there = old.get(SURE, place), old.get(DEVICE, place), new.get(DEVICE, now)
    if sure is None or before is None or there is None or _types(sure) != {"cpu"} or "cuda" in _types(before):
        return False
    return "cuda" not in _types(there) and Device("cpu") in there and not there.atoms[Device("cpu")]


def _own_devices(world: World, old: Observations, new: Observations) -> Iterator[Fault]:
    """Yield device positions at which the original chose the accelerator itself, and would no longer."""
    for place, before in old.of(DEVICE):
        value = new.get(DEVICE, place)
        chosen = _types(before)
        if value is None or chosen.isdisjoint(_LADDER):
            continue
        if (sure := old.get(SURE, place)) is not None and not _types(sure):
            differs = any(atom not in value for atom in before)  # a user chooses here, and gets all as before
        else:
            differs = _types(value) != chosen or _gets_index(before, value)
        if differs and "cuda" not in chosen and (edits := new.edits(DEVICE, place)):
            yield Fault(edits, world, place, f"the project chooses {_listed(chosen)} itself here on {world.title}")


def _own_tests(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield tests that told CUDA from the accelerator that the project chose itself, and would no longer.

    A program that certainly refused its own choice may get past that.
    """
    revived = {place[0] for place in _gone_past(old, new)}
    for place, value in new.of(CHOSEN):
        key = CHOSEN, place
        is_ours = not new.told.get(key) or (place[0] in original.shared and key not in new.in_tests)
        if is_ours and not any(original.together(place[0], path) for path in revived):
            comes = "may come here from callers" if new.told.get(key) else "comes here already"
            words = f"{_listed(_types(value))} {comes}, and this test is false for it"
            yield Fault(value.edits, world, place, words)


def _gets_index(before: Value, now: Value) -> bool:
    """Return whether "mps" would become "mps:0", which is written otherwise."""
    types = {a.type for a in before if isinstance(a, Device) and a.index is None}
    return any(isinstance(a, Device) and a.index is not None and a.type in types and a not in before for a in now)


def _fallbacks(world: World, old: Observations, new: Observations) -> Iterator[Fault]:
    """Yield tests that chose the CPU for what a user may ask for, and never would again."""
    falls = Const(True, bool)
    for place, value in new.of(FALLBACK):
        before = old.get(FALLBACK, place)
        is_asked = not OPTIONS.isdisjoint(value)
        is_lost = before is not None and falls in before and falls not in value and is_asked
        if is_lost and (edits := new.edits(FALLBACK, place)):
            yield Fault(edits, world, place, f"what a user asks for would lose its fallback on {world.title}")
        kept = value.only(atom for atom in value if isinstance(atom, Device) and atom.type == "cuda")
        if world.kind != "cuda" and kept.edits and before is not None and not is_cuda(before):
            yield Fault(kept.edits, world, place, f"a device of CUDA would lose its fallback on {world.title}")


def _unfollowed(world: World, old: Observations, new: Observations) -> Iterator[Fault]:
    """Yield device positions that got a known device and would get one that cannot be followed.

    The known one may be the CPU that a fallback puts in the place of what is not followed.
    """
    for place, value in new.of(DEVICE):
        before = old.get(DEVICE, place)
        if before is None or not _open(value):
            continue
        if "cpu" in _types(before) and "cpu" not in _types(value) and _open(before):
            asked = (own for atom, own in value.atoms.items() if isinstance(atom, Unknown) and atom.of != "tensor")
            if edits := NONE.union(*asked):
                yield Fault(edits, world, place, f"what a user asks for would lose its fallback on {world.title}")
                continue
        if "cuda" in _types(before):
            continue
        heard = NONE.union(*(edits for atom, edits in value.atoms.items() if atom in OPTIONS and atom in before))
        if heard and "cpu" in _types(before):  # `args.device = args.device if torch.cuda.is_available() else "cpu"`
            yield Fault(heard, world, place, f"what a user asks for would be heard on {world.title}")
            continue
        if _open(before) and ("cpu" not in _types(before) or _types(value)):
            continue
        # what a user asks for is not followed either: `--device cuda` came to the CPU where there is no CUDA
        open_atoms = {Unknown()} if _open(before) else OPEN
        edits = new.paths[DEVICE, place].union(*(e for a, e in value.atoms.items() if a in open_atoms))
        if edits and not open_atoms.isdisjoint(value):
            yield Fault(edits, world, place, f"a device that cannot be followed would be reached on {world.title}")


def _behind_deaths(old: Observations, new: Observations) -> list[tuple[Place, int]]:
    """Return where the original died, which the rewritten code gets past, with the end of what was not reached then.

    Functions that the original did not enter, and that only such code calls, were not reached either.
    """
    past = _died_in_the_original(old, new)
    behind = _entered_behind(lambda place: _is_in_any(place, past), _entered_now(old, new), new) if past else set()
    return [*past, *(new.entries[key].span for key in sorted(behind))]


def _died_in_the_original(old: Observations, new: Observations) -> list[tuple[Place, int]]:
    return [(p, end) for p, end in old.cut.items() if p not in old.caught and new.get(DEATH, p) is None]


def _entered_now(old: Observations, new: Observations) -> set[str]:
    return new.entries.keys() - old.entries.keys()


def _entered_behind(is_past: Callable[[Place], bool], fresh: AbstractSet[str], new: Observations) -> set[str]:
    """Return those functions of `fresh` that only code in such places leads to."""
    behind: set[str] = set()

    def comes_from(caller: tuple[str, Place] | None) -> bool:
        return caller is not None and (caller[0] in behind or is_past(caller[1]))

    while found := {key for key in fresh - behind if all(map(comes_from, new.entries[key].callers))}:
        behind |= found
    return behind


def _is_called_behind_a_death(place: Place, old: Observations, new: Observations) -> bool:
    """Return whether nothing called the function of a place in the original, and only what died before calls it now.

    The original was evaluated there with arguments that are not known.
    """
    fresh = {key for key in new.entries if key in old.entries and old.entries[key].callers == {None}}
    past = _died_in_the_original(old, new)
    return new.home(place) in _entered_behind(lambda each: _is_in_any(each, past), fresh, new)


def _is_behind_a_death(place: Place, old: Observations, new: Observations) -> bool:
    return _is_in_any(place, _behind_deaths(old, new))


def _two_ways(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield devices that leave the others: code that ran on the CPU here is moved as a whole or not at all."""
    moved: list[Place] = []
    stays: list[Place] = []
    gone_past = next(_gone_past(old, new), None) is not None  # nothing ran here before
    keys = [(seen, (DEATH, place)) for seen in (old, new) for place, _ in seen.of(DEATH)]
    certain = [(key[1], seen) for seen, key in keys if key in seen.certain]
    deaths = [(place, seen) for place, seen in certain if (DEATH, place) not in seen.in_tests]
    is_death_of_a_test = len(deaths) < len(certain)
    dead = {place[0] for place, seen in deaths if (DEATH, place) not in seen.assumed}
    # what moves behind a device that moves, and died before, did not run on the CPU
    past = [(p, end) for p, end in _behind_deaths(old, new) if world.kind in _types(new.get(DEVICE, p) or NOTHING)]
    doubtful = {place[0] for place, _ in deaths}
    ended = [*new.stops.values(), *new.shut.items(), *new.spare.items()]
    for place, there in original.cuda.of(DEVICE):
        before, now = old.get(DEVICE, place), new.get(DEVICE, original.now(place))
        key = DEVICE, place
        is_alone = _is_called_on_cuda_alone(place, old, new, original)
        if is_alone:
            before = now = None
        if place in original.cuda.made:
            continue
        if place[0] in (doubtful if key in original.cuda.assumed and not is_alone else dead):
            continue
        if is_death_of_a_test and key in original.cuda.in_tests:
            continue
        falls_back = _open(there) and before is not None and not _open(before)  # what a user asks for, or the CPU
        if "cuda" in _types(there) and _falls_to_the_cpu(old, new, place, original.now(place)):
            stays.append(place)
        elif ("cuda" in _types(there) or falls_back) and (before is None or _types(before) == {"cpu"}):
            if now is not None and world.kind in _types(now):
                if before is not None or not _is_in_any(place, past):
                    moved.append(place)
            elif now is not None and (not _types(now) or (gone_past and before is None)):
                continue  # where a tensor is (`y.to(x.device)`): it moves with that; or nothing came here before
            elif now is None and _is_in_any(place, ended):
                continue  # the program ends before it comes here, or in another branch; or this is for several devices
            elif (now is not None or place not in original.arms) and not (gone_past and place in original.ends):
                stays.append(place)
    tests = {place: original.cuda.test_of(place) for place in (*moved, *stays)}

    def is_apart(place: Place, other: Place) -> bool:
        return tests[place] != tests[other] and None not in (tests[place], tests[other])

    for place in moved:
        together = (other for other in stays if original.together(place[0], other[0]))
        pin = next((other for other in together if not is_apart(place, other)), None)
        if pin is not None and (edits := new.edits(DEVICE, place)):
            yield Fault(edits, world, pin, f"this device stays the CPU on {world.title}")


_TRUE, _FALSE = (frozenset[object]({Const(answer, bool)}) for answer in (True, False))


def _is_called_on_cuda_alone(place: Place, old: Observations, new: Observations, original: Original) -> bool:
    """Return whether only CUDA sees a call of the function of a place, behind a test that no edit reaches."""
    home = original.cuda.home(place)
    if home is None or home not in old.entries or home not in new.entries:
        return False
    there, *here = (seen.entries[home].callers for seen in (original.cuda, old, new))
    if here != [{None}, {None}]:
        return False
    return any(caller is not None and _is_behind_a_test_that_stays(caller[1], new, original) for caller in there)


def _is_behind_a_test_that_stays(place: Place, new: Observations, original: Original) -> bool:
    """Return whether a test before a place in its function is true on CUDA and false here, whatever the edits do."""
    start = original.cuda.entries[home].span[0][1] if (home := original.cuda.home(place)) else 0
    for test, there in original.cuda.of(BRANCH):
        here = new.get(BRANCH, test) if test[0] == place[0] and start <= test[1] < place[1] else None
        if here is not None and not here.edits and (bare(there), bare(here)) == (_TRUE, _FALSE):
            return True
    return False


def _led_to_the_cpu(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield devices whose code died here, and would live on to a call after which another device stays the CPU."""

    def now(place: Place) -> Value:
        return new.get(DEVICE, original.now(place)) or NOTHING

    there = [(place, value) for place, value in original.cuda.of(DEVICE) if place not in original.cuda.made]
    kept = [place for place, value in there if "cuda" in _types(value) and _types(now(place)) == {"cpu"}]
    reached = {place: _calls_to(original.now(place), new) for place in kept}
    for place, value in old.of(DEVICE) if kept else ():
        if _types(value) == {"cuda"} and world.kind in _types(now(place)) and place not in original.cuda.made:
            home = new.home(place) or ""
            led = (pin for pin in kept if reached[pin].get(home, -1) > place[1])
            pin = next((pin for pin in led if original.together(place[0], pin[0])), None)
            if pin is not None and (edits := new.edits(DEVICE, original.now(place))):
                yield Fault(edits, world, pin, f"this device stays the CPU on {world.title}")


def _calls_to(place: Place, seen: Observations) -> dict[str, int]:
    """Return the last call in each function that leads to the function of a place, by function."""
    found: dict[str, int] = {}
    todo = [key for key in [seen.home(place)] if key is not None]
    while todo:
        for caller in seen.entries[todo.pop()].callers:
            if caller is not None:
                key, at = caller
                todo += [key] if key not in found and key in seen.entries else []
                found[key] = max(at[1], found.get(key, -1))
    return found


def _under_default(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield all devices of a program that ran without a CUDA tensor type as its default, and with what ignores another.

    `torch.Tensor(...)` makes tensors on CUDA under such a default, and on the CPU under a default device.
    """
    setters = [p for p, value in new.of(DEFAULT) if old.get(DEFAULT, p) is None and world.kind in _types(value)]
    legacy = [p for p, _ in new.of(LEGACY) if any(original.together(p[0], other[0]) for other in setters)]
    for place, value in new.of(DEVICE) if legacy else ():
        pin = next((other for other in legacy if original.together(place[0], other[0])), None)
        if pin is not None and world.kind in _types(value) and (edits := new.edits(DEVICE, place)):
            yield Fault(edits, world, pin, f"`torch.Tensor(...)` follows no default device on {world.title}")


def _asked(world: World, old: Observations, new: Observations, original: Original, dying: Dying) -> Iterator[Fault]:
    """Yield devices that tensors come to where a table of the program has no item for them: they were on the CPU."""
    asked = [place for place, _ in new.of(ASKED) if not dying.holds((ASKED, place), new)]
    for place, value in new.of(DEVICE) if asked else ():
        before = old.get(DEVICE, place)
        comes_here = world.kind in _types(value) and (before is None or world.kind not in _types(before))
        table = next((other for other in asked if original.together(place[0], other[0])), None)
        is_dying = dying.holds((DEVICE, place), new)
        if comes_here and table is not None and not is_dying and (edits := new.edits(DEVICE, place)):
            yield Fault(edits, world, table, f"a table lacks the device on {world.title}")


def _lifted(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield tests that would no longer refuse a device in programs that die of CUDA all the same, and later."""
    dead = _dying(new)
    dying = dead.files | dead.tests
    for place, value in new.of(BRANCH) if dying else ():
        before, refuses = old.get(BRANCH, place), Const(new.refuses.get(place), bool)
        if before is None or not new.told.get((BRANCH, place)) or refuses not in before or refuses in value:
            continue
        if (edits := new.edits(BRANCH, place)) and any(original.together(place[0], path) for path in dying):
            yield Fault(edits, world, place, f"this would no longer refuse {world.title}, and the program dies later")


def _lifted_alone(world: World, old: Observations, new: Observations, original: Original) -> Iterator[Fault]:
    """Yield refusals that would be gone while the device that their function chooses behind them stays CUDA's."""
    gone = [place for place, _ in old.of(REFUSAL) if new.get(REFUSAL, place) is None]
    for refusal in gone:
        home = new.home(refusal)
        if home is None:
            continue
        inner = refusal, new.entries[home].span[1]
        here = [place for place, _ in original.cuda.of(DEVICE) if _is_between(place, *inner)]
        chosen = [place for place in here if "cuda" in _types(original.cuda.found[DEVICE, place])]
        now = {place: _types(new.get(DEVICE, place) or NOTHING) for place in chosen}
        if chosen and all(kinds == {"cpu"} for kinds in now.values()):
            edits = NONE.union(*(new.paths[DEVICE, place] for place in chosen))
            if edits:
                yield Fault(edits, world, chosen[0], f"this device stays the CPU where {world.title} was refused")


def known_of_original(
    seen: Mapping[World, Observations],
    programs: Sequence[frozenset[str]],
    edits: Mapping[int, tuple[str, Edit]],
    knows_others: bool,
    has_choice: bool,
    shared: Container[str],
    uses: Callable[[World], AbstractSet[str]],
    is_installed: Callable[[str], bool],
) -> Original:
    """Return what is known of the original; `seen` is what it does, by world."""
    rewritten: dict[str, list[Span]] = {}
    for path, edit in edits.values():
        rewritten.setdefault(path, []).append((edit.start, edit.end))
    begun = {number: (path, edit.start) for number, (path, edit) in edits.items()}
    there = {place for world, found in seen.items() if world.kind == "cuda" for place, _ in found.of(DEVICE)}
    here = {
        place
        for world, found in seen.items()
        for place, value in found.of(DEVICE)
        if world.is_portable and world.kind in _types(value)
    }
    pairs = (pair for pair in pairwise(sorted(there | here)) if pair[0][0] == pair[1][0])
    arms = {place for pair in pairs for place in pair if place in there - here and (here - there).intersection(pair)}
    both = frozenset(there & here)
    cuda, known = seen[WORLDS[0]], (knows_others, has_choice, shared, uses, is_installed)
    return Original(cuda, frozenset(arms), both, programs, rewritten, begun, *known)


def _types(value: Value) -> set[str]:
    return {atom.type for atom in value if isinstance(atom, Device)}


def _devices(world: World, old: Observations, new: Observations) -> Iterator[Fault]:
    """Yield device positions that would get another device on CUDA or on the CPU."""
    for place, value in new.of(DEVICE):
        before = old.get(DEVICE, place)
        if before is None or not (edits := new.edits(DEVICE, place)):
            continue
        chosen, now = _types(before), _types(value)
        if world.kind != "cuda" and "cuda" in chosen:
            continue  # it died, or was about to
        if now - chosen and not _open(before):
            yield Fault(edits, world, place, f"{_listed(now)} instead of {_listed(chosen)} on {world.title}")
        elif world.kind != "cuda" and _gets_index(before, value):
            yield Fault(edits, world, place, f"the CPU would have a number on {world.title}")


def _open(value: Value) -> bool:
    return any(isinstance(atom, Unknown) for atom in value)


# what is left where another edit of the same fix names the device, and how far away that is: `x.to("cuda")` becomes an
# argument before it, a parameter's default a statement below it
_ELSEWHERE = {"": -1, "None": 1}
_LADDER = frozenset(types_of("ladder"))
_OF_CUDA = re.compile(r"cuda|gpu|nvidia", re.I)
_OF_CPU = re.compile(r"\bcpu\b", re.I)


def _branches(world: World, old: Observations, new: Observations, original: Original, dying: Dying) -> Iterator[Fault]:
    """Yield tests that would come out otherwise on CUDA or on the CPU; what refused for want of CUDA may run."""
    lives_on = bool(dying) or any(new.get(DEATH, place) is None for place, _ in old.of(DEATH))
    for place, value in new.of(BRANCH):
        before = old.get(BRANCH, place)
        if before is None or bare(before) == bare(value) or not (edits := new.edits(BRANCH, place)):
            continue
        is_dying = original.all_end(place[0], dying.files) or dying.holds((BRANCH, place), new)
        if is_dying or (lives_on and _gains_only(old, new, place, original)):
            continue
        if world.kind != "cuda" and set(value) < set(before):  # whoever made the test come out otherwise dies
            lost = set(before) - set(value)
            if _is_called_behind_a_death(place, old, new):
                continue
            if all(_only_dies(old, place, atom) for atom in lost) or original.all_end(
                place[0], _dying_by_choice(old, new, edits, (BRANCH, place), original.has_choice)
            ):
                continue
        words, refuses = old.told.get((BRANCH, place), ""), Const(old.refuses.get(place), bool)
        refusal = refuses in before and refuses not in value and _OF_CUDA.search(words)
        if world.name == "cpu" and refusal and not _OF_CPU.search(words):
            continue
        yield Fault(edits, world, place, f"this test would come out otherwise on {world.title}")


def _gains_only(old: Observations, new: Observations, place: Place, original: Original) -> bool:
    """Return whether a test only gained outcomes that come from a program which no longer dies.

    No edit made them, or only edits behind places that the original never got past, or the same flag was asked before,
    and who got this answer died.
    """
    before, now = old.found[BRANCH, place], new.found[BRANCH, place]
    still = set(new.stops.values())
    opened = [stop for stop in old.stops.values() if stop not in still]

    def is_behind(edit: int) -> bool:
        return _is_in_any(original.begun[edit], opened)

    gained = (atom for atom in now if atom not in before)
    return all(atom in now for atom in before) and all(
        all(map(is_behind, now.atoms[atom])) or _died_before(old, place, atom) for atom in gained
    )


def _died_before(old: Observations, place: Place, outcome: Atom) -> bool:
    """Return whether a function asked for the same flag before it came to this place, and died of this outcome."""
    flag = old.flags.get(place)
    earlier = (p for p, other in old.flags.items() if flag is not None and other == flag and p < place)
    return any(outcome in (old.get(BRANCH, p) or ()) and _only_dies(old, p, outcome) for p in earlier)


def _gone_past(old: Observations, new: Observations) -> Iterator[Place]:
    """Yield the places where the original certainly refused to run, and which the rewritten code gets past."""
    return (p for p, _ in old.of(REFUSAL) if (REFUSAL, p) in old.certain and new.get(REFUSAL, p) is None)


def _dying(seen: Observations) -> Dying:
    """Return what asks for CUDA where there is none, and nothing catches it: it is about to die.

    Those do not which may never get there: a test that cannot be followed stands before it.
    """
    keys = [(DEATH, place) for place, _ in seen.of(DEATH) if (DEATH, place) in seen.certain]
    for place, value in seen.of(DEVICE):
        if (DEVICE, place) in seen.certain and place not in seen.caught and place not in seen.made and _all_cuda(value):
            keys.append((DEVICE, place))
    return Dying(
        frozenset(key[1][0] for key in keys if key not in seen.in_tests),
        frozenset(key[1][0] for key in keys if key in seen.in_tests),
    )


def _only_dies(seen: Observations, place: Place, outcome: Atom) -> bool:
    """Return whether the branch that runs if a test comes out like this dies, and nothing catches that."""
    ends = seen.ends.get((place, outcome.value), set()) if isinstance(outcome, Const) else set()
    return bool(ends) and None not in ends and ends.isdisjoint(seen.caught)


def _dying_by_choice(old: Observations, new: Observations, edits: Edits, key: Key, has_choice: bool) -> frozenset[str]:
    """Return the files that are about to die where a user's choice, which these edits decide, falls on CUDA.

    They certainly are, or whoever comes to the place of this key is. A user without a choice only dies where all
    comes to CUDA.
    """
    leading = old.doubts.get(key, NO_DOUBT)
    return frozenset(
        place[0]
        for place, value in old.of(DEVICE)
        if ((DEVICE, place) in old.certain or _follows(place, key[1], old.doubts.get((DEVICE, place)), leading))
        and place not in old.caught
        and place not in old.made
        and (is_cuda(value) if has_choice or _open(value) else _all_cuda(value))
        and not edits.isdisjoint(new.edits(DEVICE, place))
    )


def _follows(place: Place, test: Place, doubts: Doubts | None, leading: Doubts) -> bool:
    """Return whether whoever comes to a test comes to a place behind it, too: no further test leads there."""
    return place[0] == test[0] and place[1] > test[1] and doubts is not None and doubts <= leading


def _listed(kinds: set[str]) -> str:
    return " or ".join(sorted(kinds)) or "nothing"
