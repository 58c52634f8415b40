"""Find and load rule files; a rule's id is its path below the folder of packs (`device/tensor-cuda`)."""

from __future__ import annotations

import binascii
import marshal
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torchmigrate.base import file_io
from torchmigrate.diagnostics.finding import Safety
from torchmigrate.rules.model import Pack, PackError, Rewrite, Rule, Ruleset, TextPattern, Where

PACK = "pack.toml"  # describes the folder that it lies in


def builtin() -> Path:
    """Return the folder of the built-in rules: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "data" / "rules"
    return inside if inside.is_dir() else package.parent / "rules"


def load(rule_paths: Sequence[Path] = (), cases: bool = True) -> Ruleset:
    """Load the built-in rules (without `cases`: unvalidated) and those of `rule_paths`; raises PackError."""
    rules: dict[str, Rule] = {}
    for number, root in enumerate(roots(rule_paths)):
        files = _files(root)
        known = {} if cases or number else _compiled(files)
        for path in files:
            rule = known.get(path) or load_rule(path, cases or number > 0)  # built-in rules are validated in tests
            if rule.id in rules:
                raise PackError(
                    f"{path}:1: rule {rule.id} exists already ({rules[rule.id].path})\n"
                    "help: rename the file; to have it in place of the other, `ignore` that one by its name"
                )
            rules[rule.id] = rule
    return Ruleset(rules)


def roots(rule_paths: Sequence[Path]) -> list[Path]:
    """Return the folders of packs, the built-in one first, each once."""
    found: dict[Path, Path] = {}
    for path in (builtin(), *rule_paths):
        found.setdefault(path.resolve(), path)
    return list(found.values())


def _files(root: Path) -> list[Path]:
    """List the rule files in a folder of packs. Raises PackError if it contains none."""
    help = "rule-paths wants a folder of <pack>/<rule>.toml"
    if not root.is_dir():
        raise PackError(f"{root}: no such directory of rules\nhelp: {help}")
    found = sorted(root.glob("*/*.toml"))
    if not found:
        above = f": name the folder above, {root.resolve().parent}" if next(root.glob("*.toml"), None) else ""
        raise PackError(f"{root}: there are no rules in it\nhelp: {help}{above}")
    return [path for path in found if is_rule(path)]


def is_rule(path: Path) -> bool:
    """Return whether a TOML file in a folder of packs holds a rule, not catalog rows or a pack's description."""
    return path.parent.name != "catalog" and path.name != PACK


_CASE = r"(?m)^\[\[case\]\]\n(?:(?!\[\[(?:rewrite|pattern|where)\]\]$).*\n?)*"


def load_rule(path: Path, cases: bool = True) -> Rule:
    """Read one rule file, without `cases` faster and not validated; raises PackError."""
    from torchmigrate.rules.reader import Reader, read_toml  # not where the rules were compiled

    text, data = read_toml(path, "a rule", None if cases else re.compile(_CASE))
    return Reader(path, text, cases).rule(data)


def load_pack(folder: Path) -> Pack:
    """Read `pack.toml`, the description of the pack in a folder, which need not have one. Raises PackError."""
    name, file = folder.name, folder / PACK
    default = Pack(name, name, f"Apply the rules of {name}")
    if not file.is_file():
        return default
    from torchmigrate.rules.reader import Reader, read_toml

    text, data = read_toml(file, "the description of a pack")
    reader = Reader(file, text)
    reader.check_keys(data, "pack", 1)
    reader.check_printable(data)
    return replace(
        default,
        title=data.get("title", name),
        subject=data.get("commit", default.subject),
        order=data.get("order", default.order),
    )


# ---- rules as the wheel has them, beside their TOML files: values of marshal, which holds no code that runs
COMPILED = "rules.compiled"
_TABLES = {"rewrites": Rewrite, "where": Where, "patterns": TextPattern}
_VERSION = 2  # of marshal's format: each Python reads it


def compile_builtin() -> bytes:
    """Return the built-in rules, without cases, as the wheel holds them; they count only with the same TOML files."""
    files = _files(builtin())
    rows = [(path.parent.name, path.name, _row(load_rule(path, cases=False))) for path in files]
    return marshal.dumps((_digest(files), rows), _VERSION)


def _compiled(files: Sequence[Path]) -> dict[Path, Rule]:
    """Return the compiled rules by file; none in a checkout, or if a file has changed since the wheel was built."""
    package = Path(__file__).parent.parent
    root = builtin()
    if root.parent.parent != package:  # beside the package, in a checkout
        return {}
    try:
        digest, rows = marshal.loads(file_io.read(package / "data" / COMPILED))
        return {} if digest != _digest(files) else {(path := root / a / b): _rule(path, row) for a, b, row in rows}
    except (OSError, ValueError, TypeError, EOFError):
        return {}


def _digest(files: Iterable[Path]) -> list[tuple[str, str, int, int]]:
    """Return what tells other rules from these: each file's name, size and checksum."""
    texts = ((path, file_io.read(path)) for path in files)
    return [(path.parent.name, path.name, len(text), binascii.crc32(text)) for path, text in texts]


def _row(record: Any) -> dict[str, Any]:
    """Return the fields of a rule or of one of its tables as plain values."""
    row = {each.name: getattr(record, each.name) for each in fields(record) if each.name not in ("path", "cases")}
    if isinstance(record, Rule):
        row |= {name: tuple(map(_row, row[name])) for name in _TABLES}
    if "safety" in row:
        row["safety"] = row["safety"].value
    return row


def _rule(path: Path, row: dict[str, Any]) -> Rule:
    tables = {name: tuple(_record(kind, each) for each in row[name]) for name, kind in _TABLES.items()}
    return Rule(**{**row, **tables, "path": path, "cases": (), "safety": Safety(row["safety"])})


def _record(kind: Any, row: dict[str, Any]) -> Any:
    return kind(**{**row, "safety": Safety(row["safety"])}) if "safety" in row else kind(**row)
