"""Results of runs over trees that have not changed since, in the user's cache. A cache that cannot be read, written or
trusted is as good as none: nothing here raises."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

FORMAT = b"torchmigrate cache 1\n"
KEPT = 16  # entries; the oldest go
LIMIT = 32_000_000  # bytes of one entry


def home() -> Path:
    """Where this user's programs keep what can be made again."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base)
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    except RuntimeError:  # a user without a home, as containers have
        return Path(os.devnull, "no-home-directory")  # nothing is there, and nothing can be written there


def folder() -> Path:
    return home() / "torchmigrate" / "results"


def key(words: Iterable[str], files: Iterable[str]) -> str:
    """One name for what a run depends on: words (version, settings) and the names and bytes of files."""
    digest = hashlib.blake2b(digest_size=20)
    for word in words:
        digest.update(f"{len(word)}:{word}".encode(errors="surrogateescape"))
    for path in files:
        data = _bytes(path)
        digest.update(b"%d:%s%d:" % (len(os.fsencode(path)), os.fsencode(path), len(data)))
        digest.update(data)
    return digest.hexdigest()


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read()
    except OSError as error:
        return f"cannot be read: {error.errno}".encode()


def load(name: str) -> bytes | None:
    """What was stored under a key, whole and unchanged, or None."""
    try:
        with open(folder() / name, "rb") as stream:
            data = stream.read(LIMIT + 200)
    except OSError:
        return None
    head = FORMAT + name.encode() + b"\n"
    body = data[len(head) + 41 :]
    if data != head + _checksum(body) + b"\n" + body:
        return None  # cut short, of another version, or edited
    return body


def store(name: str, body: bytes) -> None:
    """In one step: whoever reads meanwhile sees the old or the new."""
    if len(body) > LIMIT:
        return
    try:
        place = folder()
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=place, suffix=".tmp")
        try:
            with open(handle, "wb") as stream:
                stream.write(FORMAT + name.encode() + b"\n" + _checksum(body) + b"\n" + body)
            os.replace(temporary, place / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _prune(place)
    except OSError:
        return


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=20).hexdigest().encode()


def _prune(place: Path) -> None:
    """Also what a killed run left."""
    for old in sorted(_aged(place), reverse=True)[KEPT:]:
        Path(old[1]).unlink(missing_ok=True)


def _aged(place: Path) -> Iterator[tuple[int, str]]:
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.path
