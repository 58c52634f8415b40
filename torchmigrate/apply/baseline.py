"""A baseline lists the findings that a project already knows; it is a JSON file with one finding per line."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.base import file_io, system
from torchmigrate.base.text import UserError
from torchmigrate.diagnostics.finding import FileResult, Finding, SourceLines, Status

_FORMAT = "torchmigrate-baseline"
_VERSION = 1
_SETTLED = (Status.SUPPRESSED, Status.LEFT)
_FIELDS = ("file", "rule", "fingerprint")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One known finding: a file relative to the baseline, and a fingerprint of the text of the finding's lines."""

    file: str
    rule: str
    fingerprint: str


def entries(result: FileResult, findings: Sequence[Finding], directory: Path) -> Iterator[tuple[Finding, Entry]]:
    """Yield a file's findings with their entries, equal ones numbered; suppressed and left ones have none."""
    lines = SourceLines(result, True)
    file = system.relative(result.path, directory)
    seen: Counter[str] = Counter()
    for finding in sorted(findings, key=lambda f: (f.cell or 0, f.line, f.column, f.rule)):
        if finding.status in _SETTLED:
            continue
        text = "".join("".join(lines.lines_of(finding)).split())  # ignore white space and so formatting
        key = "\0".join((finding.rule, file, text))
        yield finding, Entry(file, finding.rule, _digest(f"{key}\0{seen[key]}"))
        seen[key] += 1


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def read(file: Path) -> frozenset[Entry]:
    """Return the entries of a baseline. Raises UserError if the file is missing or not a baseline."""
    try:
        data = json.loads(file_io.read(file))
    except FileNotFoundError:
        raise UserError(f"{file}: no such baseline", "--write-baseline makes it") from None
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise UserError(f"{file}: {what}", "--baseline wants a file that --write-baseline wrote") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:{error.lineno}: not JSON ({error.msg})", _rewrite_hint(file)) from None
    except (ValueError, RecursionError):
        raise UserError(f"{file}: not JSON", _rewrite_hint(file)) from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise UserError(f"{file}: JSON, but no baseline of torchmigrate's", "name another file")
    if data.get("version") != _VERSION:
        what = f"{file}: a baseline of version {data.get('version')!r}; this torchmigrate reads version {_VERSION}"
        raise UserError(what, f"use the torchmigrate that wrote it, or {_rewrite_hint(file)}")
    return frozenset(_entries(data.get("findings"), file))


def _rewrite_hint(file: Path) -> str:
    return f"delete {file} and write it anew with --write-baseline"


def _entries(data: object, file: Path) -> Iterator[Entry]:
    if not isinstance(data, list):
        raise UserError(f"{file}: `findings` must be a list", _rewrite_hint(file))
    for number, item in enumerate(data, 1):
        values = [item.get(field) for field in _FIELDS] if isinstance(item, dict) else []
        if not values or not all(isinstance(value, str) for value in values):
            raise UserError(f"{file}: finding {number} lacks one of {', '.join(_FIELDS)}", _rewrite_hint(file))
        yield Entry(*map(str, values))


def render(found: Iterable[Entry]) -> bytes:
    """Return the file's bytes: sorted, one entry per line."""
    rows = [f"  {json.dumps({name: getattr(entry, name) for name in _FIELDS})}" for entry in sorted(found)]
    body = "[\n" + ",\n".join(rows) + "\n ]" if rows else "[]"
    return f'{{\n "format": "{_FORMAT}",\n "version": {_VERSION},\n "findings": {body}\n}}\n'.encode()
