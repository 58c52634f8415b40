"""Find and load rule files; a rule's id is its path below the folder of packs (`device/tensor-cuda`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torchmigrate.rules.model import Pack, Rule, Ruleset
from torchmigrate.rules.reader import PackError, Reader, read_toml

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
        for path in _files(root):
            rule = load_rule(path, cases or number > 0)  # built-in rules are validated in tests
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
    """Whether a TOML file in a folder of packs holds a rule: neither rows of the catalog nor a pack's description."""
    return path.parent.name != "catalog" and path.name != PACK


_CASE = re.compile(r"^\[\[case\]\]\n(?:(?!\[\[(?:rewrite|pattern|where)\]\]$).*\n?)*", re.M)


def load_rule(path: Path, cases: bool = True) -> Rule:
    """Read one rule file, without `cases` faster and not validated; raises PackError."""
    text, data = read_toml(path, "a rule", None if cases else _CASE)
    return Reader(path, text, cases).rule(data)


def load_pack(folder: Path) -> Pack:
    """Read `pack.toml`, the description of the pack in a folder, which need not have one. Raises PackError."""
    name, file = folder.name, folder / PACK
    default = Pack(name, name, f"Apply the rules of {name}")
    if not file.is_file():
        return default
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
