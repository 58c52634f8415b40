"""The keys of a rule file's tables, and what each holds. What is ours was read in tests: a migration does without."""

from __future__ import annotations

from collections.abc import Mapping

from torchmigrate.config import BACKENDS
from torchmigrate.config.keys import SPEC
from torchmigrate.edits import Safety
from torchmigrate.kinds import BOOLEAN, STRING, TABLE, TABLES, Kind, elsewhere, member, strings

_BACKENDS = strings(member(BACKENDS, "backend"))
_END = {"type": "string", "pattern": r"^(?!\.?/)(?!.*\.\.)(?!.*/$).+$"}  # a glob of the end of a path
_GLOBS = elsewhere({"type": "array", "minItems": 1, "items": _END})
_REGEX = elsewhere({"type": "string", "minLength": 1})
_SAFETY = elsewhere({"enum": [level.value for level in Safety]})
_NEEDED = elsewhere({"type": "string"})

KEYS: Mapping[str, Mapping[str, Kind]] = {
    "rule": {
        "summary": _NEEDED, "safety": _SAFETY, "backends": _BACKENDS, "why": _NEEDED, "see": strings(),
        "message": STRING, "blocks": BOOLEAN, "transform": STRING, "on": strings(), "literals": strings(),
        "rewrite": TABLES, "case": TABLES, "files": _GLOBS, "where": TABLES, "pattern": TABLES,
    },
    "rewrite": {
        "match": _NEEDED, "with": STRING, "native": STRING, "torch": SPEC, "where": TABLE, "safety": _SAFETY,
        "message": STRING, "backends": _BACKENDS,
    },
    "case": {
        "title": _NEEDED, "before": _NEEDED, "after": STRING, "todo": BOOLEAN, "unsafe": BOOLEAN, "finding": BOOLEAN,
        "together": BOOLEAN, "file": _NEEDED, "native": STRING,
    },
    "where": {
        "files": _GLOBS, "but": _GLOBS, "beside": _GLOBS, "line": _REGEX, "under": _REGEX, "unless": _REGEX,
    },
    "pattern": {
        "match": _REGEX, "message": STRING, "files": _GLOBS, "unless": _REGEX, "alternative": _REGEX,
        "siblings": BOOLEAN,
    },
}  # fmt: skip
