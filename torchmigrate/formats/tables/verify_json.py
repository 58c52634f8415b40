"""The report of a verification for programs: `{version, torch, python, root, runs, notes}`, one run per row."""

from __future__ import annotations

import json
import math
from typing import Any

from torchmigrate import __version__
from torchmigrate.formats.tables.verify_text import worth
from torchmigrate.verify.session import Result
from torchmigrate.verify.verdict import Verdict, numbers


def render(result: Result) -> str:
    """Per run: `project` ("original" | "rewritten"), `backend`, `evidence` ("hardware" | "simulated" | "cpu"), `tier`
    ("native" | "python" where simulated, else null), `verdict`, `reason`, `exit` (-N for signal N; null: not run,
    or ended for its time), `error` (one line), `where` (`{path, line, rules, cause}` of the original, or null),
    `kernels` and `peak_bytes` (null where they were not counted), `numbers` (floats in the order printed; NaN and
    infinities, which JSON has not, as "nan", "inf", "-inf"), `seconds` (null: not run)."""
    interpreter = result.machine.interpreter
    data = {
        "version": __version__,
        "torch": interpreter.torch,
        "python": interpreter.python,
        "root": str(result.project.anchor),
        "runs": [_run(verdict, result) for verdict in result.verdicts],
        "notes": worth(result),
    }
    return json.dumps(data, indent=2, allow_nan=False)


def _run(verdict: Verdict, result: Result) -> dict[str, Any]:
    way, outcome = verdict.run.way, verdict.outcome
    return {
        "project": verdict.run.project,
        "backend": way.backend,
        "evidence": way.evidence,
        "tier": way.tier if way.evidence == "simulated" else None,
        "verdict": verdict.kind.value,
        "reason": verdict.reason,
        "exit": outcome.exit if outcome else None,
        "error": outcome.error if outcome else None,
        "where": _where(verdict),
        "kernels": outcome.kernels if outcome else None,
        "peak_bytes": outcome.peak_bytes if outcome else None,
        "numbers": [_number(n) for n in numbers(verdict, result.baseline, result.limits)],
        "seconds": round(outcome.seconds, 3) if outcome else None,
    }


def _where(verdict: Verdict) -> dict[str, Any] | None:
    found = verdict.outcome.diagnosis if verdict.outcome else None
    if found is None:
        return None
    return {"path": found.path, "line": found.line, "rules": list(found.rules), "cause": found.cause}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
