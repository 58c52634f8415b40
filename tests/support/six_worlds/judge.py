"""Judge a migration by what original and migrated program did in six worlds: the rules W1 to W4.

W1  cuda: nothing that is printed differs.
W2  cpu and nogpu: nothing differs where the original ran; where it refused, it still refuses, unless the message speaks
    of CUDA and not of the CPU; where it died of CUDA, the migrated one may run.
W3  mps, xpu and npu, where the original neither died nor said cuda: nor does the migrated one, and each line in which
    the original named a backend stays. A program whose tensors are in two places on cuda is not judged there.
W4  where the original died, the migrated one does not die of a CUDA literal that its own guard let through.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from six_worlds.running import Death, Outcome, Project, lines_reached, run, run_everywhere, texts

SPEAKS_OF_CUDA = re.compile(r"\bcuda\b")
PORTABLE = ("mps", "xpu", "npu")
SPEAKS_OF_BACKEND = re.compile(r"\b(mps|xpu|npu)\b")


@dataclass(frozen=True)
class Fault:
    """A rule that a migration breaks in a world."""

    rule: str
    world: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.rule} in {self.world}:\n{_indented(self.before)}\n  becomes\n{_indented(self.after)}"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines() or ["(nothing)"])


def is_fine(outcome: Outcome) -> bool:
    """Whether a program that has no CUDA ran, and did not speak of it."""
    return outcome.death is None and not SPEAKS_OF_CUDA.search(outcome.said)


def is_in_two_places(outcome: Outcome) -> bool:
    """Whether a program died of its own mistake: the tensors of a calculation are on different devices."""
    return outcome.death is not None and outcome.death.message.startswith("Expected all tensors to be on the same")


def by_label(said: str) -> dict[str, str]:
    return {label: rest for label, _, rest in (line.partition(" ") for line in said.splitlines())}


def may_differ(old: Outcome) -> bool:
    """Whether an original without an accelerator died of CUDA, so that the migrated one may do what it likes."""
    death = old.death
    if death is None:
        return False
    said = old.said.splitlines()
    message = (said[-1] if said and death.kind == "SystemExit" and death.message.isdigit() else death.message).lower()
    return bool(death.lacks) or (death.refused and "cuda" in message and "cpu" not in message)


def broken(world: str, old: Outcome, new: Outcome) -> str:
    """Return the first of the rules W1 to W3 that a world's pair of outcomes breaks, or ""."""
    if world == "cuda":
        return "W1" if old.text != new.text else ""
    if world in ("cpu", "nogpu"):
        return "W2" if old.text != new.text and not may_differ(old) else ""
    if not is_fine(old):
        return ""
    if not is_fine(new):
        return "W3"
    now = by_label(new.said)  # lines that a guard covers may come in between
    kept = (now.get(label) == rest for label, rest in by_label(old.said).items() if SPEAKS_OF_BACKEND.search(rest))
    return "" if all(kept) else "W3"


def lines_before(before: Project, after: Project, file: str, line: int) -> set[int]:
    """Return the lines of the original that a line of the migrated program was made of."""
    was, now = texts(before.files).get(file, "").splitlines(), texts(after.files)[file].splitlines()
    for _, start, end, first, last in difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if first < line <= last:
            same = end - start == last - first
            return {start + line - first} if same else set(range(start + 1, end + 1))
    return set()


def chose_cuda(after: Project, world: str, death: Death) -> bool:
    """Return whether the user named CUDA (`RUN_ON=cuda`), and the program does not die there for who names the CPU."""

    def other(text: str) -> str:
        return "cpu" if text.partition(":")[0] == "cuda" else text

    eased = replace(after, argv=tuple(map(other, after.argv)), env={k: other(v) for k, v in after.env.items()})
    if eased == after:
        return False
    found = run(eased, world).death
    return found is None or found.trail[-1:] != death.trail[-1:]


def lets_cuda_through(before: Project, after: Project, world: str, old: Outcome, new: Outcome) -> bool:
    """Whether a migrated program dies of CUDA where the original did not.

    That is a place that the original passed alive, or one that it would not have reached, had it lived on.
    """
    death = new.death
    if old.death is None or death is None or death.lacks != "cuda" or chose_cuda(after, world, death):
        return False
    trail = [place for place in death.trail if place[0] in texts(before.files)]  # the helper's lines are no guard's
    if not trail:
        return False
    file, number = trail[-1]
    places = {(file, line) for line in lines_before(before, after, file, number)}
    if old.death.trail and old.death.trail[-1] in places:
        return False
    return bool(places & lines_reached(before, world)) or not places & lines_reached(before, world, lenient=True)


def faults(before: Project, after: Project, plain: bool = False) -> Iterator[Fault]:
    """Yield each rule that a migration breaks; the plain ones must also reach mps if they reach cuda."""
    if before.files == after.files and not plain:
        return
    old, new = run_everywhere(before), run_everywhere(after)
    found = False
    for world, was in old.items():
        if world in PORTABLE and is_in_two_places(old["cuda"]):
            continue
        rule = broken(world, was, new[world])
        if not rule and world != "cuda" and lets_cuda_through(before, after, world, was, new[world]):
            rule = "W4"
        if rule:
            found = True
            yield Fault(rule, world, was.text, new[world].text)
    if plain and not found and "cuda" in old["cuda"].said:
        mps = new["mps"]
        if not is_fine(mps) or "mps" not in mps.said:
            yield Fault("plain", "mps", old["mps"].text, mps.text)
