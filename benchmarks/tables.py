"""Results of run.py as Markdown: a tree's commands, and the goals with what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commands import (
    AGAIN,
    APPLY,
    AST,
    CHECK,
    CLEAN,
    COPIES,
    J1,
    LIBCST,
    ONE,
    PLAIN,
    READ,
    RUFF,
    RULES,
    TORCHFIX,
    TYPER,
    WARM,
)

NOT_FOR_CLEAN = ("libcst", "git", "torch", "yaml")


@dataclass(frozen=True, slots=True)
class Goal:
    """`top` / `bottom` of what is named is to be at most `most`, on trees of at least `lines`."""

    top: str
    bottom: str
    of: str  # cpu, wall or peak
    most: float
    lines: int = 0
    whole: bool = True  # whether it depends on the tree


GOALS = (
    Goal(J1, AST, "cpu", 1.8),
    Goal(CHECK, RUFF, "cpu", 2.0, 900_000),
    Goal(CHECK, RUFF, "wall", 1.6, 900_000),
    Goal(CHECK, TORCHFIX, "cpu", 1 / 250),
    Goal(APPLY, CHECK, "cpu", 3),
    Goal(APPLY, RUFF, "cpu", 3),
    Goal(APPLY, PLAIN, "cpu", 1 / 80, 100_000),
    Goal(AGAIN, WARM, "wall", 0.5),
    Goal(AGAIN, READ, "cpu", 3),
    Goal(CLEAN, TYPER, "wall", 1.5, whole=False),
    Goal(ONE, LIBCST, "wall", 1.6, whole=False),
    Goal(J1, AST, "peak", 2),
    Goal(COPIES, J1, "cpu", 4.2),
    Goal(COPIES, J1, "peak", 1.15),
    Goal(RULES, J1, "cpu", 1.25),
)


def report(result: Mapping[str, Any]) -> str:
    """The tree, its commands, each in multiples of the floor, and what was left out."""
    rows = [_row(command, _named(result, AST)) for command in result["commands"]]
    head = ("command", "rounds", "CPU s", "spread", "wall s", "peak MB", "CPU / ast floor", "status")
    parts = [f"### {result['name']}", _shares(result["shares"]), _table(head, rows)]
    if result["absent"]:
        parts.append(f"Not installed here: {', '.join(result['absent'])}.")
    if result["left_out"]:
        parts.append(f"Left out on this tree: {', '.join(result['left_out'])}.")
    return "\n" + "\n\n".join(parts)


def _shares(of: Mapping[str, int]) -> str:
    files, lines = max(of["files"], 1), max(of["lines"], 1)
    return (
        f"{of['files']:,} files, {of['lines']:,} lines. With a trigger: {of['work'] / files:.0%} of the files, "
        f"{of['work_lines'] / lines:.0%} of the lines. With `cuda`: {of['cuda'] / files:.0%} of the files; "
        f"{of['cuda_lines'] / lines:.2%} of the lines hold it."
    )


def _row(command: Mapping[str, Any], floor: Mapping[str, Any] | None) -> Sequence[str]:
    cpu, more = command["cpu"], "> " if command["stopped"] else ""
    status = ", ".join(map(str, command["statuses"]))
    peak = f"{command['peak'] / 1e6:.0f}" if command["peak"] else "-"
    times = f"{ratio(command, floor, 'cpu')[0]:.2f}" if floor else "-"
    spread, wall = f"{min(cpu):.3f}-{max(cpu):.3f}", statistics.median(command["wall"])
    name, middle = command["name"], f"{more}{statistics.median(cpu):.3f}"
    return (name, str(len(cpu)), middle, spread, f"{wall:.3f}", peak, times, status)


def ratio(top: Mapping[str, Any], bottom: Mapping[str, Any], of: str) -> tuple[float, float, float]:
    """Median, smallest and largest ratio: inside each round, or to the other's median where one ran once."""
    above, below = ([c[of]] if of == "peak" else c[of] for c in (top, bottom))
    if len(above) != len(below):
        above, below = ((v if len(v) > 1 else v * max(len(above), len(below))) for v in (above, below))
    found = [a / max(b, 1e-6) for a, b in zip(above, below, strict=True)]
    return statistics.median(found), min(found), max(found)


def _named(result: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((command for command in result["commands"] if command["name"] == name), None)


def goals(results: Sequence[Mapping[str, Any]]) -> str:
    """The goals of the project with what was measured on each tree."""
    head = ("ratio", "of", "goal", *(f"{r['shares']['lines']:,} lines" for r in results))
    rows = [_goal(goal, results) for goal in GOALS]
    modules = [_modules(r["modules"]) for r in results]
    rows.append(("modules imported by a check of a clean file", "", f"none of {', '.join(NOT_FOR_CLEAN)}", *modules))
    return f"\n### Goals\n\nMedian of the rounds (smallest-largest). {_met(results)}\n\n{_table(head, rows)}"


def _goal(goal: Goal, results: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    most = f"<= 1/{1 / goal.most:.0f}" if goal.most < 0.1 else f"<= {goal.most:g}"
    most += f", from {goal.lines:,} lines" if goal.lines else ""
    return (f"{goal.top} / {goal.bottom}", goal.of, most, *(_cell(goal, result) for result in results))


def _cell(goal: Goal, result: Mapping[str, Any]) -> str:
    top, bottom = _named(result, goal.top), _named(result, goal.bottom)
    if not top or not bottom or (goal.of == "peak" and not (top["peak"] and bottom["peak"])):
        return "-"
    median, low, high = ratio(top, bottom, goal.of)
    text = f"{_number(median)} ({_number(low)}-{_number(high)})" if goal.of != "peak" else _number(median)
    if result["shares"]["lines"] < goal.lines:
        return text
    stopped = ", at most" if bottom["stopped"] else ""
    return f"{text}{stopped} {'met' if median <= goal.most else '**missed**'}"


def _number(value: float) -> str:
    return f"1/{1 / value:.0f}" if 0 < value < 0.1 else f"{value:.2f}"


def _met(results: Sequence[Mapping[str, Any]]) -> str:
    cells = [cell for goal in GOALS for cell in (_cell(goal, result) for result in results)]
    met, missed = (sum(cell.endswith(word) for cell in cells) for word in (" met", "**missed**"))
    return f"Met: {met}; missed: {missed}; the others have no goal for that size, or were not measured."


def _modules(names: Sequence[str]) -> str:
    tops = {name.partition(".")[0] for name in names}
    unwanted = sorted(tops & {*NOT_FOR_CLEAN})
    return f"{len(names)} modules, {', '.join(unwanted) or 'none of these'} {'**missed**' if unwanted else 'met'}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(_lines(head, rows))


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + " --- |" * len(head)
    yield from (f"| {' | '.join(row)} |" for row in rows)
