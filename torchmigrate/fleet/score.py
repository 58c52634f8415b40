"""The portability score of one repository, as `torchmigrate report` counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchmigrate import config, engine
from torchmigrate.config import Settings
from torchmigrate.edits import Status, Unchanged
from torchmigrate.engine import Input
from torchmigrate.report.portability import Apart, Stage, Survey, survey


def score(paths: Sequence[Path], settings: Settings, given: Input) -> dict[str, Any]:
    """`{sites, everywhere: {before, after, after_unsafe}, backends: {NAME: {before, after, after_unsafe}}}`, counts of
    sites; `everywhere`: on each of the backends."""
    safe = engine.plan(paths, replace(settings, unsafe_fixes=False), 1, "survey", given=given).results
    held = any(f.status is Status.HELD for r in safe if isinstance(r, Unchanged) for f in r.findings)
    unsafe = safe
    if held:
        unsafe = engine.plan(paths, replace(settings, unsafe_fixes=True), 1, "survey", given=given).results
    root = config.common_parent(paths)
    sites = survey.sites(safe, unsafe, root)
    found = Survey(root, "", None, 0, sites, {}, Apart(), (), tuple(settings.backends))
    stages = {stage.value: stage for stage in Stage}
    runs = {
        b: {name: sum(site.runs(b, stage) for site in sites) for name, stage in stages.items()} for b in found.backends
    }
    return {
        "sites": len(sites),
        "everywhere": {name: found.everywhere(stage) for name, stage in stages.items()},
        "backends": runs,
    }
