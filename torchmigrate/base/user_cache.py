"""Keep results in the user's cache directory; one that cannot be read, written or trusted counts as empty."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchmigrate.base import file_io, system, user_state

FORMAT = b"torchmigrate cache 1\n"
KEPT = 16  # entries; older ones are removed
LIMIT = 32_000_000  # bytes of one entry


def folder() -> Path:
    return system.cache_home() / "torchmigrate" / "results"


def key(words: Iterable[str], files: Iterable[str]) -> str:
    """Return a digest of all that a run depends on: `words` (version, settings), and names and bytes of files."""
    digest = hashlib.blake2b(digest_size=20)
    for word in words:
        digest.update(f"{len(word)}:{word}".encode(errors="surrogateescape"))
    for path in files:
        data = _read_or_error(path)
        digest.update(b"%d:%s%d:" % (len(os.fsencode(path)), os.fsencode(path), len(data)))
        digest.update(data)
    return digest.hexdigest()


def _read_or_error(path: str) -> bytes:
    try:
        return file_io.read(path)
    except OSError as error:
        return f"cannot be read: {error.errno}".encode()


def load(name: str) -> bytes | None:
    """Return the bytes that were stored under a key, or None if there are none or they are damaged."""
    try:
        user_state.check(folder())
        data = file_io.read(folder() / name, LIMIT + 200)
    except OSError:
        return None
    head = FORMAT + name.encode() + b"\n"
    body = data[len(head) + 41 :]
    if data != head + _checksum(body) + b"\n" + body:
        return None  # truncated, written by another version, or edited
    return body


def store(name: str, body: bytes) -> None:
    """Store bytes under a key, atomically: concurrent readers see the old entry or the new one."""
    if len(body) > LIMIT:
        return
    try:
        place = folder()
        user_state.opened(place)
        file_io.put(
            Path(os.path.realpath(place)) / name, FORMAT + name.encode() + b"\n" + _checksum(body) + b"\n" + body
        )
        _prune(place)
    except OSError:
        return


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=20).hexdigest().encode()


def _prune(place: Path) -> None:
    """Remove all but the newest KEPT files, temporary ones of killed runs included."""
    for old in sorted(_files_with_times(place), reverse=True)[KEPT:]:
        Path(old[1]).unlink(missing_ok=True)


def _files_with_times(place: Path) -> Iterator[tuple[int, str]]:
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.path
