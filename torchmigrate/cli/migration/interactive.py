"""`apply -i`: show each hunk with its reason, and ask y, n, a, q or ?; write after the last answer."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base.text import UserError, columns, visible_lines
from torchmigrate.cli.output import coloured, colours
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine import divide
from torchmigrate.engine.divide import Choices, Group, Key, answered
from torchmigrate.formats import diff
from torchmigrate.rules import packs

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings
    from torchmigrate.engine.planner import Plan
    from torchmigrate.rules.model import Ruleset


HELP = """\
y  yes, rewrite this
n  no, leave it as it is
a  yes, and all the rest of {rules}
q  no more questions: write what had a yes
?  this text
Ctrl-C ends without writing anything."""


def refuse(dry_run: bool) -> None:
    """Raise UserError if nobody can be asked, or the answers would have no effect."""
    if dry_run:
        raise UserError("--interactive writes what you say yes to; --dry-run writes nothing", "pass one of them")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        help = "leave it out, or see what would change with --dry-run"
        raise UserError("--interactive needs a terminal to ask on", help)


def ask(plan: Plan, settings: Settings, name: Callable[[Path], str]) -> Plan:
    """Return the plan with the changes that the user accepts."""
    changes = [result for result in plan.results if isinstance(result, Changed) and result.applied]
    if not changes or plan.facts is None:
        return plan
    ruleset = packs.load(settings.rule_paths, cases=False).selected(settings.select, settings.ignore)
    choices = Choices(plan.facts, ruleset)
    asked = _Session(ruleset, choices, name)
    asked.run(changes)
    accepted = answered(asked.accepted)
    return replace(plan, results=choices.results(plan.results, accepted), facts=choices.narrowed(accepted))


@dataclass(slots=True)
class _Session:
    ruleset: Ruleset
    choices: Choices
    name: Callable[[Path], str]
    accepted: dict[Path, frozenset[Key]] = field(default_factory=dict)
    always: set[str] = field(default_factory=set)
    number: int = 0
    total: int = 0

    def run(self, changes: list[Changed]) -> None:
        groups = [(change, group) for change in changes for group in self.choices.groups(change)]
        self.total = len(groups)
        while groups:
            idle = [(change, group) for change, group in groups if not self._is_decided(change, group)]
            if len(idle) == len(groups) or "q" in self.always:
                return
            groups = idle  # groups that depend on another rewrite are asked about again once that is decided

    def _is_decided(self, change: Changed, group: Group) -> bool:
        """Return whether the group is decided, by an earlier answer or by asking now."""
        if "q" in self.always:
            return True
        before = self.accepted.get(change.path, frozenset())
        step = self.choices.step(change, before, group)
        if step is None:
            return False
        self.number += 1
        answer = "y" if self.always.issuperset(group.rules) else self._ask(step, group)
        if answer == "a":
            self.always |= set(group.rules)
        elif answer == "q":
            self.always.add("q")
        if answer in ("y", "a"):
            self.accepted[change.path] = before | group.keys
        return True

    def _ask(self, step: Changed, group: Group) -> str:
        text = diff.readable(step, self.name(step.path))
        print(*self._render_hunk(text, group), sep="\n", file=sys.stderr)
        while True:
            question = f"({self.number}/{self.total}) Rewrite this [y,n,a,q,?]? "
            print(question, end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:  # Ctrl-D is no answer: write nothing
                raise KeyboardInterrupt
            answer = line.strip().lower()[:1]
            if answer and answer in "ynaq":
                return answer
            print(HELP.format(rules=", ".join(group.rules)), file=sys.stderr)

    def _render_hunk(self, text: bytes, group: Group) -> Iterator[str]:
        text = visible_lines(text.decode(errors="surrogateescape")).encode()
        shown = coloured(text) if colours(sys.stderr) else text
        yield "\n" + shown.decode(errors="backslashreplace").rstrip("\n")
        width = min(columns(sys.stderr) or 100, 100)
        for rule in group.rules:
            why = divide.reason(self.ruleset.rules[rule])
            yield textwrap.fill(f"{rule}: {why}", width, subsequent_indent="    ", break_on_hyphens=False)
