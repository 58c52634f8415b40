"""Render the effective configuration as text (a table) and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torchmigrate import __version__
from torchmigrate.base.text import counted
from torchmigrate.config.config_file import toml
from torchmigrate.config.settings import EXCLUDE
from torchmigrate.surveys.effective_config import INFERRED, OWN, PACKAGED, Helper, InForce, OneFile, Part, Setting

Row = tuple[str, str, str]
_EMPTY = {"select": "all", "ignore": "none", "backends": "all", "helper": "none", "torch": "unknown"}
_NAMED = 12


def text(found: InForce, here: Path, width: int | None = None) -> Iterator[str]:
    """Yield the lines for people; with `width`, a terminal's columns, as a table of at most that width."""
    yield from _align([*_heads(found, here)], width)
    yield ""
    rows = [row for setting in found.settings for row in _setting(setting, here)]
    yield from _align(rows, width, ("setting", "value", "from"))
    yield ""
    yield from _align([*_folders(found, here), *_helper(found.helper, here)], width)
    for file in found.files:
        yield ""
        yield from _align([*_file(file, here)], width)
    if found.notes:
        yield ""
        yield from (f"note: {_shorten_paths(note, here)}" for note in found.notes)


def _heads(found: InForce, here: Path) -> Iterator[Row]:
    yield "root", _path(found.root, here), ""
    yield "settings", _path(found.file, here) if found.file else "none", found.why


def _setting(setting: Setting, here: Path) -> Iterator[Row]:
    for number, part in enumerate(setting.parts):
        yield "" if number else setting.key, _value(setting.key, part, here), _origin_text(part, here)


def _value(key: str, part: Part, here: Path) -> str:
    value = part.value
    if value in (None, (), {}):
        return _EMPTY.get(key, "none")
    if value == EXCLUDE:
        return f"the usual {len(EXCLUDE)}: {', '.join(EXCLUDE[:3])}, ..."
    if isinstance(value, bool):
        return toml(value)
    shown = value if isinstance(value, str) else ", ".join(_path(v, here) if isinstance(v, Path) else v for v in value)
    return f"{part.entry}: {shown or 'none'}" if part.entry is not None else shown


def _origin_text(part: Part, here: Path) -> str:
    return f"inferred from {part.at}" if part.origin == INFERRED else _shorten_paths(part.at, here) or part.origin


def _folders(found: InForce, here: Path) -> Iterator[Row]:
    for number, folder in enumerate(found.folders):
        count, packs = sum(folder.packs.values()), counted(len(folder.packs), "pack")
        named = packs if folder.builtin else f"{packs}: {', '.join(folder.packs)}"
        on = "" if folder.on == count else f", {folder.on} of them on"
        whose = " (come with torchmigrate)" if folder.builtin else ""
        yield "" if number else "rules", f"{counted(count, 'rule')}{on}; {named}", f"{_path(folder.path, here)}{whose}"


def _helper(helper: Helper, here: Path) -> Iterator[Row]:
    if helper.error:
        yield "helper", f"{helper.name}, which cannot be used", helper.error
    elif helper.kind == PACKAGED:
        yield "helper", helper.name, "imported from this package, not copied"
    elif helper.kind == OWN:
        yield "helper", f"{helper.name}, the project's own", ", ".join(_path(path, here) for path in helper.files)
        yield from (("", f"{ours} is called {theirs}", "") for ours, theirs in helper.functions.items())
    elif not helper.files:
        yield "helper", f"{helper.name}, not there yet", "`apply` writes it where it is needed"
    for number, (path, same) in enumerate(helper.files.items() if helper.kind not in (PACKAGED, OWN) else ()):
        state = "as this version writes it" if same else "not as this version writes it: `apply` does"
        yield "" if number else "helper", f"{helper.name}, {_path(path, here)}", state


def _file(file: OneFile, here: Path) -> Iterator[Row]:
    yield "file", _path(file.path, here), ""
    yield "read", _shorten_paths(file.read, here), ""
    for number, (glob, (names, at)) in enumerate(file.ignores.items()):
        yield "" if number else "ignored here", f"{glob}: {', '.join(names) or 'none'}", _shorten_paths(at, here)
    if file.on or file.off:
        yield "rules", f"{len(file.on)} on" + (f", {len(file.off)} off: {_list_some(file.off)}" if file.off else ""), ""
    if file.asleep:
        yield "asleep", f"nothing here mentions CUDA, so these fixes are unsafe: {_list_some(file.asleep)}", ""


def _list_some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _path(path: Path, here: Path) -> str:
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)


def _shorten_paths(text: str, here: Path) -> str:
    return text.replace(os.path.join(here, ""), "")


def _align(rows: Sequence[Row], width: int | None, head: Row | None = None) -> Iterable[str]:
    if width is not None:
        return _table(rows, width, head)
    every = [head, *rows] if head else rows
    first = max(16, *(len(row[0]) for row in every)) if every else 0
    second = min(48, max((len(row[1]) for row in every if row[2]), default=0))
    return [f"{a:<{first}}  {b:<{second if c else 0}}  {c}".rstrip() for a, b, c in every]


def _table(rows: Sequence[Row], width: int, head: Row | None) -> list[str]:
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=head is not None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for name, style, least in zip(head or ("", "", ""), ("bold", "", "dim"), (16, None, None), strict=True):
        table.add_column(name, style=style, min_width=least, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(file=io.StringIO(), width=width, force_terminal=True, legacy_windows=False)
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().rstrip("\n").split("\n")]  # type: ignore[attr-defined]


def render(found: InForce) -> str:
    """Return JSON: `{version, root, file, why, settings, rules, helper, files, notes}`, with absolute paths."""
    data = {
        "version": __version__,
        "root": str(found.root),
        "file": str(found.file) if found.file else None,
        "why": found.why,
        "settings": {s.key: [_part_object(part) for part in s.parts] for s in found.settings},
        "rules": [
            {"path": str(f.path), "builtin": f.builtin, "packs": dict(f.packs), "on": f.on} for f in found.folders
        ],
        "helper": {
            "kind": found.helper.kind,
            "name": found.helper.name,
            "files": [{"path": str(path), "current": same} for path, same in found.helper.files.items()],
            "functions": dict(found.helper.functions),
            "error": found.helper.error or None,
        },
        "files": [_file_object(file) for file in found.files],
        "notes": list(found.notes),
    }
    return json.dumps(data, indent=2)


def _part_object(part: Part) -> dict[str, Any]:
    value = [str(v) for v in part.value] if isinstance(part.value, tuple) else part.value
    entry = {} if part.entry is None else {"entry": part.entry}
    return {**entry, "value": value, "origin": part.origin, "at": part.at or None}


def _file_object(file: OneFile) -> dict[str, Any]:
    return {
        "path": str(file.path),
        "read": file.is_read,
        "why": file.read,
        "per_file_ignores": [{"glob": g, "names": list(names), "at": at} for g, (names, at) in file.ignores.items()],
        "on": list(file.on),
        "off": list(file.off),
        "asleep": list(file.asleep),
    }
