"""Which helper rewritten code would call: a copy in the project, the packaged one, or the project's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchmigrate import own_helper, project
from torchmigrate.config import Settings
from torchmigrate.errors import UserError
from torchmigrate.helper import runtime_source
from torchmigrate.table import Table

VENDORED, PACKAGED, OWN = "vendored", "packaged", "own"


@dataclass(frozen=True, slots=True)
class Helper:
    """`files`: where it lies, and whether that is what would be written today. `error`: why it cannot be used."""

    kind: str
    name: str
    files: Mapping[Path, bool] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def of(settings: Settings, files: Sequence[str], rules: Table) -> Helper:
    """The helper for a project with these files."""
    try:
        own = own_helper.load(settings, files)
    except UserError as error:
        return Helper(OWN, settings.helper or "", error=f"{error.message}; {error.help}".removesuffix("; "))
    if own:
        return Helper(OWN, own.name, {Path(own.path): True}, own.functions)
    if settings.runtime == "package":
        return Helper(PACKAGED, project.PACKAGED)
    name = project.helper_name(files, project.telling(files, rules.has_work))
    content = runtime_source()
    there = [Path(f) for f in files if f.endswith((f"/{name}.py", f"/{name}/__init__.py")) and project.is_ours(Path(f))]
    return Helper(VENDORED, name, {path: path.read_bytes() == content for path in there})
