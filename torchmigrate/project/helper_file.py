"""The runtime helper as a file: its names, how to tell it, its digest and its public functions."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from torchmigrate.base import safe_read

NAMES = ("accel", "torch_accel", "torchmigrate_accel")
PACKAGED = "torchmigrate.runtime"


def helper_name(files: Iterable[str], texts: Iterable[bytes], standing_in: Mapping[str, bytes] | None = None) -> str:
    """`accel`, unless something of the project's is called that; a helper of ours that is there keeps its name, also
    one that has only a text that stands in for it."""
    known = standing_in or {}
    stems: dict[str, list[str]] = {}  # in small letters: on some disks Accel.py is accel.py
    for path in (f for f in files if f.endswith(".py")):
        stems.setdefault(_module_name(path).casefold(), []).append(path)
    for name in NAMES:
        if any(is_ours(Path(p), known.get(p)) for p in stems.get(name, ())):
            return name
    words = {name: re.compile(rb"(?<![\w\"'.-])" + name.encode() + rb"(?![\w\"'-])") for name in NAMES}
    texts = list(texts)
    for name in NAMES:
        if name not in stems and not any(name.encode() in text and words[name].search(text) for text in texts):
            return name
    return NAMES[-1]


def _module_name(path: str) -> str:
    parts = path.rsplit("/", 2)
    return parts[-2] if parts[-1] == "__init__.py" else parts[-1].removesuffix(".py")


def is_ours(path: Path, text: bytes | None = None) -> bool:
    """Whether a file, or the text that stands in for it, is a helper that torchmigrate wrote."""
    if text is not None:
        return text.startswith(MARKER)
    try:
        return safe_read.read(path, len(MARKER)) == MARKER
    except OSError:
        return False


MARKER = b"# torchmigrate-runtime"  # how our helper begins


def unix_lines(raw: bytes) -> bytes:
    """git may check out other line ends."""
    return raw.replace(b"\r\n", b"\n")


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def is_untouched(raw: bytes) -> bool:
    """Whether a vendored helper is as torchmigrate wrote it: its first line has the digest of the others."""
    first, _, body = unix_lines(raw).partition(b"\n")
    found = re.fullmatch(rb"# torchmigrate-runtime \S+ ([0-9a-f]{32})", first)
    return found is not None and found[1].decode() == _digest(body)


def public(raw: bytes) -> Iterable[str]:
    """What a helper offers; nothing where it is no Python."""
    try:
        body = ast.parse(raw).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in body:
        match statement:
            case ast.FunctionDef(name) | ast.ClassDef(name):
                names = [name]
            case ast.Assign(targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


@cache
def runtime_source() -> bytes:
    """The text of the runtime helper, as it is vendored: with a digest, which tells later whether it was edited."""
    raw = unix_lines(resources.files("torchmigrate").joinpath("runtime.py").read_bytes())
    first, _, body = raw.partition(b"\n")
    assert first.startswith(MARKER)
    return first + b" " + _digest(body).encode() + b"\n" + body
