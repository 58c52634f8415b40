"""Put the rules into the wheel in a form that loads fast; a checkout, and an editable install, read the TOML files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface):  # type: ignore[misc, type-arg]
    """Adds `torchmigrate/data/rules.compiled` to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the rules, unless the wheel is an editable one."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from torchmigrate.rules import packs
        finally:
            sys.path.remove(self.root)
        made = Path(self.directory, packs.COMPILED)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(packs.compile_builtin())
        build_data["force_include"][str(made)] = f"torchmigrate/data/{packs.COMPILED}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file that the wheel has now."""
        for made in build_data["force_include"]:
            if made.endswith("rules.compiled"):
                Path(made).unlink(missing_ok=True)
