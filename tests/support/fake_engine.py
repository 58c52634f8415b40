"""An engine with four made-up rules, for the command line's own contract: what is said, where, with which status."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import (
    Changed,
    Failed,
    FileResult,
    Finding,
    Fix,
    Safety,
    Skipped,
    Status,
    Unchanged,
)
from torchmigrate.engine.planner import Plan
from torchmigrate.project import discovery
from torchmigrate.project.discovery import EVERYTHING, Selection
from torchmigrate.source import encoding
from torchmigrate.source.edits import Edit, compose

RULES = (
    (rb"\.cuda\(\)", "device/tensor-cuda", Safety.SAFE, ".to(accel.device())"),
    (rb"\.cuda\(\d\)", "device/tensor-cuda-index", Safety.UNSAFE, ".to(accel.device(0))"),
    (rb"\.double\(\)", "hazard/float64", Safety.DISPLAY, None),
    (rb"dropped", "test/dropped", Safety.SAFE, "x"),
    (rb"hush", "test/hushed", Safety.SAFE, "x"),
)
STATUS = {"test/dropped": Status.DROPPED, "test/hushed": Status.SUPPRESSED, "hazard/float64": Status.OPEN}


def plan(
    paths: Sequence[Path],
    settings: Settings,
    jobs: int,
    mode: str,
    on_progress: Callable[[int, int], None] | None = None,
    only: Selection = EVERYTHING,
    given: object = None,
) -> Plan:
    found = [file for file in discovery.discover(paths, settings) if only.holds(file)]
    results = [_one(file, settings, mode) for file in found]
    return Plan(results, len(found), ["torch 1.10 inferred from requirements.txt"])


def _one(file: discovery.DiscoveredFile, settings: Settings, mode: str) -> FileResult:
    if file.error:
        return Failed(file.path, file.error)
    if file.skipped_reason:
        return Skipped(file.path, file.skipped_reason)
    raw = file.path.read_bytes()
    try:
        text = encoding.decode(raw)
        ast.parse(text.utf8)
    except encoding.UnreadableSource as error:
        return Failed(file.path, str(error))
    except SyntaxError as error:
        return Failed(file.path, f"line {error.lineno}: {error.msg}")
    findings = _findings(text, settings)
    edits = [e for f in findings if f.status is Status.APPLIED and f.fix for e in f.fix.edits]
    if mode == "check" or not edits:
        return Unchanged(file.path, tuple(findings))
    after = text.encode(compose(text.utf8, edits))
    done = tuple(f for f in findings if f.status is Status.APPLIED)
    left = tuple(f for f in _findings(encoding.decode(after), settings) if f.status is not Status.APPLIED)
    return Changed(file.path, raw, after, done, left)


def _findings(text: encoding.Source, settings: Settings) -> list[Finding]:
    found = []
    for pattern, rule, safety, new in RULES:
        for match in re.finditer(pattern, text.utf8):
            line, column = text.position(match.start())
            fix = Fix((Edit(match.start(), match.end(), new),), safety) if new else None
            held = safety is Safety.UNSAFE and not settings.unsafe_fixes
            status = STATUS.get(rule, Status.HELD if held else Status.APPLIED)
            place = {
                "line": line,
                "column": column,
                "end_line": line,
                "end_column": column + match.end() - match.start(),
            }
            found.append(
                Finding(
                    rule,
                    safety,
                    match.start(),
                    match.end(),
                    "needs CUDA",
                    ("mps",),
                    fix,
                    status,
                    see="https://x.test",
                    **place,
                )
            )
    return found
