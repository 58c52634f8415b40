"""What a result depends on, as one name: the source, torchmigrate with its rules, and what was asked for. The same on
every machine."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from torchmigrate import __version__
from torchmigrate.base import user_cache
from torchmigrate.engine.model import Input
from torchmigrate.engine.plan_cache import describing, sources
from torchmigrate.fleet.task import Task
from torchmigrate.project.builder import project_root
from torchmigrate.rules import packs

_ASKED = ("mode", "per_pack", "branch", "author", "verify", "score", "isolated", "rev")


def digest_of(task: Task, words: Sequence[str], root: Path | None = None, given: Input | None = None) -> str:
    """`words` name a commit; a plain folder has none, and its files are read instead."""
    asked = json.dumps([*(getattr(task, name) for name in _ASKED), dict(task.flags)], sort_keys=True)
    files: list[str] = []
    if root is not None and given is not None:
        files = sorted(str(item.path) for item in given.found if item.skipped_reason is None)
        files += describing(files, project_root([root]))
    return user_cache.key([*words, asked, __version__, _ourselves()], files)


@functools.cache
def _ourselves() -> str:
    """The code and the rules, which change within a version in a checkout."""
    digest = hashlib.blake2b(digest_size=20)
    code, rules = Path(__file__).parents[1], packs.builtin()
    for top, paths in ((code, map(Path, sources())), (rules, sorted(rules.glob("*/*.toml")))):
        for path in paths:
            data = path.read_bytes()
            digest.update(f"{path.relative_to(top).as_posix()} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()
