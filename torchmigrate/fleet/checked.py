"""`--verify`: the repository's own command, before and after, as `torchmigrate verify` does it. Runs its code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.config import Settings
from torchmigrate.errors import UserError
from torchmigrate.fleet.task import Task

_WORDS = {0: "same", 1: "differs", 2: "could not be verified"}


@dataclass(frozen=True, slots=True)
class Verified:
    """`told` in words; `report` is that of verify, as JSON, None where it could not begin."""

    told: str
    report: bytes | None


def verify(task: Task, root: Path, settings: Settings) -> Verified:
    """With the settings of the migration, on those of its backends that can be run on."""
    from torchmigrate.report import verify_json
    from torchmigrate.verify import backends, session
    from torchmigrate.verify.verdict import exit_status

    names = tuple(name for name in settings.backends if name in backends.KNOWN) or backends.DEFAULT
    try:
        result = session.verify(session.Request(root, task.verify, names, settings=settings), lambda line: None)
    except UserError as error:
        return Verified(f"{_WORDS[2]}: {error.message}", None)
    status, reason = exit_status(result.verdicts), result.verdicts[0].reason
    report = json.loads(verify_json.render(result)) | {"root": task.shown}  # not a place that is gone
    told = f"{_WORDS[status]}: {reason}" if status == 2 and reason else _WORDS[status]
    return Verified(told, json.dumps(report, indent=2).encode() + b"\n")
