"""The tables of helper_overhead.py, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helper_cases import calls_per_step

SIDES = ("helper", "plain", "original")
WORDS = {"simulated": "a simulated device", "hardware": "the device itself", "cpu": "the CPU"}


def report(found: Mapping[str, Any]) -> str:
    """Sections for the parts that were measured."""
    title = f"### On {found['backend']} ({found['evidence']})\n\ntorch {found['torch']}, Python {found['python']}, "
    parts = [f"{title}{found['machine']}: measured on {WORDS[found['evidence']]}.", _steps(found), _calls(found)]
    return "\n\n".join(part for part in [*parts, _memory(found), _imports(found), _breaks(found)] if part)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


# ---- a step
def _steps(found: Mapping[str, Any]) -> str:
    if not (found.get("steps") or found.get("instructions")):
        return ""
    counted, timed = found.get("instructions", {}), {row["program"]: row for row in found.get("steps", [])}
    programs = timed or counted.get("steps", {})
    head = (
        "step",
        "plain, CPU us",
        "helper: time",
        "noise",
        "helper: instructions",
        "noise",
        "calls x ns",
        "losses",
    )
    rows = [_step(name, timed.get(name), counted.get("steps", {}).get(name), found) for name in programs]
    made = ", ".join(f"{count} x {name}" for name, count in calls_per_step().items())
    absent = f"\n\nInstructions were not counted: {counted['absent']}." if "absent" in counted else ""
    return f"{_table(head, rows)}\n\nHelper calls in a step: {made}.{absent}"


def _step(name: str, timed: Any, counted: Any, found: Mapping[str, Any]) -> list[str]:
    cells = [name, *(["-"] * 7)]
    if timed:
        cells[1:4] = [f"{timed['plain_us']:.0f}", _interval(timed["helper_percent"]), _interval(timed["noise_percent"])]
        cells[6] = _budget(found, timed["plain_us"])
        cells[7] = "equal" if timed["equal"] else "DIFFERENT"
    if counted:
        cells[4:6] = [f"{counted['helper_percent']:+.2f} %", f"{counted['noise_percent']:+.2f} %"]
    return cells


def _interval(percent: Mapping[str, float]) -> str:
    return f"{percent['median']:+.2f} % ({percent['low']:+.2f} to {percent['high']:+.2f})"


def _budget(found: Mapping[str, Any], micros: float) -> str:
    """Calls in a step times what each takes more than the plain one, as a share of the step."""
    ns = {(row["call"], row["side"]): row["ns"] for row in found.get("calls", []) if "ns" in row}
    if not all((name, "helper") in ns for name in calls_per_step()):
        return "-"
    more = sum(count * (ns[name, "helper"] - ns.get((name, "plain"), 0)) for name, count in calls_per_step().items())
    return f"{more / micros / 10:+.2f} %"


# ---- a call
def _calls(found: Mapping[str, Any]) -> str:
    timed, counted = found.get("calls", []), found.get("instructions", {}).get("calls", {})
    if not timed:
        return ""
    rows = {row["call"]: row["statement"] for row in timed if row["side"] == "helper"}
    plain = {row["call"]: row["statement"] for row in timed if row["side"] == "plain"}
    ns = {(row["call"], row["side"]): f"{max(0, row['ns']):.0f}" if "ns" in row else "raises" for row in timed}
    head = (
        "call",
        "plain",
        "helper, ns",
        "plain, ns",
        "torch.cuda's, ns",
        "helper, instructions",
        "plain, instructions",
    )
    table = [
        (f"`{text}`", f"`{plain[name]}`", *(ns.get((name, side), "") for side in SIDES), *_instructions(counted, name))
        for name, text in rows.items()
    ]
    return _table(head, table)


def _instructions(counted: Mapping[str, Any], name: str) -> list[object]:
    counts = counted.get(name, {})
    return [max(0, counts[side]) if side in counts else "-" for side in ("helper", "plain")]


# ---- memory, import, compile
def _memory(found: Mapping[str, Any]) -> str:
    if "memory" not in found:
        return ""
    memory, after = found["memory"], found["memory"]["after_steps"]
    added = memory["rss_added"]
    rows = [
        ("resident with torch alone", f"{memory['rss_torch'] / 1e6:.1f} MB"),
        ("resident, added by the helper", "{:.0f} kB ({:.0f} to {:.0f})".format(*(v / 1e3 for v in added.values()))),
        ("Python's heap, added by the helper (tracemalloc)", f"{memory['heap'] / 1e3:.0f} kB"),
        ("tensors, at import", f"{memory['tensors_at_import']} bytes"),
        ("tensors after 5 steps of the transformer: plain, helper", _both(after, "tensors")),
        ("peak on the device: plain, helper", _both(after, "peak") if after["plain"]["peak"] else "not counted there"),
    ]
    return _table(("memory", ""), rows)


def _both(after: Mapping[str, Any], what: str) -> str:
    return f"{after['plain'][what]}, {after['helper'][what]} bytes"


def _imports(found: Mapping[str, Any]) -> str:
    if "imports" not in found:
        return ""
    parts = {what: found["imports"][what] for what in ("with .pyc", "without .pyc")}
    rows = [
        (what, *(f"{v['median']:.2f} ({v['low']:.2f}-{v['high']:.2f})" for v in part.values()))
        for what, part in parts.items()
    ]
    head = ("CPU ms", "import torch", "import accel after it", "its first device()")
    return f"{_table(head, rows)}\n\nModules that torch had not imported: {', '.join(found['imports']['modules'])}."


def _breaks(found: Mapping[str, Any]) -> str:
    rows = found.get("graph_breaks", [])
    if not rows:
        return ""
    calls: dict[str, dict[str, str]] = {}
    for row in rows:
        calls.setdefault(row["call"], {})[row["side"]] = str(row.get("breaks", "raises" if "error" in row else "fails"))
    table = [(name, *(sides.get(side, "") for side in SIDES)) for name, sides in calls.items() if _any(sides)]
    without = sum(not _any(sides) for sides in calls.values())
    head = ("graph breaks", "helper", "plain", "torch.cuda's")
    return f"{_table(head, table)}\n\nThe other {without} calls break no graph, nor do their counterparts."


def _any(sides: Mapping[str, str]) -> bool:
    return any(value not in ("0", "raises") for value in sides.values())
