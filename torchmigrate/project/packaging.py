"""Whether the packages of a folder can be installed: what its packaging files say."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from torchmigrate.base import safe_read

_PACKAGING = {
    "setup.py": r"setup\(",
    "setup.cfg": r"^\[metadata\]",
    "pyproject.toml": r"^\[(project|tool\.poetry|build-system)\]",
}
# folders that are not installed
ASIDE = re.compile(r"(unit_?)?tests?|docs?|examples?|scripts|benchmarks?")
_LISTED = re.compile(r"^\[tool\.(setuptools\.packages|poetry)|^(packages|py-modules)\s*=", re.M)
_BACKEND = re.compile(r"^build-backend\s*=\s*[\"'](?!setuptools)", re.M)


@cache
def is_installable(root: str) -> bool:
    """Whether a folder says how to install what it holds (a pyproject.toml may hold tools' settings alone)."""
    folders = (root, os.path.dirname(root)) if os.path.basename(root) == "src" else (root,)
    return any(map(_says_so, folders))


def _says_so(folder: str) -> bool:
    for name, sign in _PACKAGING.items():
        try:
            text = safe_read.text(Path(folder, name))
        except OSError:
            continue
        if re.search(sign, text, re.M):
            return name != "pyproject.toml" or not _is_refused(folder, text)
    return False


def _is_refused(folder: str, text: str) -> bool:
    """Whether it lists no packages and there is more than one: setuptools, which builds where nothing else is named,
    refuses that, or leaves one out (setuptools/discovery.py). All is run from that folder then, as for uv."""
    if _LISTED.search(text) or _BACKEND.search(text):
        return False
    return sum(1 for p in Path(folder).glob("*/__init__.py") if not ASIDE.fullmatch(p.parent.name)) > 1
