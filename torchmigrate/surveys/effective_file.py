"""What holds for one file: whether it is read, what is ignored in it, and which rules speak of it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchmigrate.base.text import UserError
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics import suppressions
from torchmigrate.project import discovery, helper_file
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules.model import Ruleset
from torchmigrate.source import encoding, notebook, text_file
from torchmigrate.surveys.effective_config import Setting, origin_of


@dataclass(frozen=True, slots=True)
class OneFile:
    """`read`: what becomes of the file; `ignores`: the entries of `per-file-ignores` that speak of it, each with its
    place; `off`: rules that these switch off; `asleep`: rules whose fixes are unsafe here, as it does not mention what
    they are about."""

    path: Path
    is_read: bool
    read: str
    ignores: Mapping[str, tuple[Sequence[str], str]] = field(default_factory=dict)
    on: Sequence[str] = ()
    off: Sequence[str] = ()
    asleep: Sequence[str] = ()


def of(path: Path, settings: Settings, said: Sequence[Setting], ruleset: Ruleset, listed: bool) -> OneFile:
    """`listed`: a run over the whole project reads it, too. Raises UserError where there is no such file."""
    if not path.is_file():
        raise UserError(f"{os.path.relpath(path)}: no such file or directory", "name a file or a folder of a project")
    if glob := discovery.exclusion(path, settings):
        return OneFile(path, False, f"no: excluded by `{glob}` ({origin_of(said, glob)})")
    entries = settings.ignores_of(path)
    places = {p.entry: p.at for setting in said if setting.key == "per-file-ignores" for p in setting.parts}
    ignores = {glob: (names, places.get(glob, "")) for glob, names in entries.items()}
    rules = dispatch_table(ruleset)
    is_text = not path.name.endswith(discovery.SUFFIXES) and bool(rules.texts.readable.match(path.as_posix()))
    raw = path.read_bytes()
    speaking = [*_speaking(path, rules, ruleset, is_text)]
    on = [name for name in speaking if not {name, name.partition("/")[0]} & set(settings.ignored_in(path))]
    try:
        read, text = _text(path, raw, rules, is_text)
    except (ValueError, SyntaxError, RecursionError) as error:  # UnreadableSource and UnreadableNotebook are the first
        return OneFile(path, False, f"no: {_told(error)}", ignores, on)
    if read.startswith("yes") and not listed:
        read += "; only where it is named: git ignores it, or it lies elsewhere"
    asleep = () if is_text else sorted(rules.asleep(text) & {*on})
    off = [name for name in speaking if name not in on]
    return OneFile(path, read.startswith("yes"), read, ignores, on, off, asleep)


def _told(error: Exception) -> str:
    return f"line {error.lineno}: {encoding.syntax_message(error)}" if isinstance(error, SyntaxError) else str(error)


def _speaking(path: Path, rules: DispatchTable, ruleset: Ruleset, is_text: bool) -> Iterator[str]:
    if is_text:
        yield from (r.rule.id for r in rules.texts.rules if r.names.match(path.as_posix()))
    else:
        yield from (rule.id for rule in ruleset.rules.values() if not rule.patterns)


def _text(path: Path, raw: bytes, rules: DispatchTable, is_text: bool) -> tuple[str, bytes]:
    """What becomes of it, and its text as rules see it. Raises what parsing raises."""
    if is_text:
        decoded = text_file.decode(raw)
        if decoded is None:
            return "no: not a text file", raw
        hidden = suppressions.find_in_text(text_file.TextFile(path.name, decoded))
        return _skipped(raw) if hidden.skip_file else "yes", raw
    if raw.startswith(helper_file.MARKER):
        return "no: a helper that torchmigrate wrote", raw
    text = notebook.split(raw).source if path.suffix == ".ipynb" else encoding.decode(raw)
    tree = ast.parse(text.utf8)
    if suppressions.find(text, tree).skip_file:
        return _skipped(text.utf8), text.utf8
    return "yes" if rules.has_work(raw) else "yes, and it holds nothing that a rule looks for", text.utf8


def _skipped(raw: bytes) -> str:
    found = re.search(rb"torchmigrate:\s*skip-file", raw)
    line = raw.count(b"\n", 0, found.start()) + 1 if found else 1
    return f"no: `torchmigrate: skip-file` on line {line}"
