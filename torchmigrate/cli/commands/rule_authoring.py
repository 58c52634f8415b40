"""`rules test` runs the cases of rules, and `rules new` writes the skeleton of one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.text import UserError, counted
from torchmigrate.cli.commands.catalog import load
from torchmigrate.config import config_file
from torchmigrate.config.config_file import known, pack_errors
from torchmigrate.engine import case_runner
from torchmigrate.rules import packs
from torchmigrate.rules.model import Rule

_NAME = re.compile(r"[\w-]+")

_SKELETON = """\
summary = "`torch.cuda.{name}()` is not there on every device"
safety = "display"  # safe, unsafe or display: see docs/safety.md
backends = ["cpu", "mps"]  # where the original breaks, or does something else
why = '''
Say what breaks, where, and what people do instead.
'''
see = []

[[rewrite]]
match = "torch.cuda.{name}($$how)"
message = "torch.cuda.{name}() has no counterpart: say what to write"

[[case]]
title = "a call"
finding = true
before = '''
import torch
torch.cuda.{name}(1)
'''

[[case]]
title = "a function of that name is not torch's"
finding = false
before = '''
from mylib import {name}
{name}(1)
'''
"""


def test(names: Sequence[str]) -> int:
    """Run the cases of the named rules, packs, rule files or folders, or of all loaded rules; return 1 if one fails."""
    paths = [Path(name) for name in names if _is_path(name)]
    ids = [name for name in names if not _is_path(name)]
    roots = [_root(path) for path in paths]
    with pack_errors():
        ruleset = load(roots) if ids or not names else packs.load(roots)
    known(ruleset, ids)
    within = [Path(os.path.realpath(path)) for path in paths]

    def is_named(rule: Rule) -> bool:
        there = Path(os.path.realpath(rule.path))
        return not names or rule.id in ids or rule.pack in ids or any(there.is_relative_to(path) for path in within)

    tested = [rule for rule in ruleset.rules.values() if is_named(rule)]
    if not tested:
        where = ", ".join(f"`{name}`" for name in names)
        raise UserError(f"there is no rule in {where}", "name the folder that holds <pack>/<rule>.toml")
    count = failed = 0
    dots = sys.stderr.isatty()
    for rule, failures in case_runner.check_cases(ruleset, [rule.id for rule in tested]):
        count, failed = count + len(rule.cases), failed + len(failures)
        if dots:
            print("F" if failures else ".", end="", file=sys.stderr, flush=True)
        for failure in failures:
            print(f"{rule.path}:{failure.line}: {failure.rule}: {failure.title}: {failure.message}")
    sys.stdout.flush()
    if dots:
        print(file=sys.stderr)
    print(f"{count - failed} of {counted(count, 'case')} of {counted(len(tested), 'rule')} pass.", file=sys.stderr)
    return 1 if failed else 0


def _is_path(name: str) -> bool:
    """Return whether a name is a path: what exists here, or can be no name of a pack or rule."""
    return os.path.exists(name) or name.endswith(".toml") or not all(map(_NAME.fullmatch, name.split("/")[:2]))


def _root(path: Path) -> Path:
    """Return the folder of packs that a path names: itself, or the one above a pack or a rule's file."""
    if path.suffix == ".toml" and not path.is_dir():
        if not path.is_file():
            raise UserError(f"{path}: no such file", "name <pack>/<rule>.toml, a folder, a pack or a rule")
        return path.absolute().parent.parent
    is_pack = path.is_dir() and not any(path.glob("*/*.toml")) and any(path.glob("*.toml"))
    return path.absolute().parent if is_pack else path


def new(names: Sequence[str]) -> int:
    """Write the skeleton of a rule, PACK/NAME in the first folder of `rule-paths`, or FOLDER/PACK/NAME."""
    if len(names) != 1:
        raise UserError("`rules new` takes one name", "as in `torchmigrate rules new my-pack/my-rule`")
    path = Path(names[0].removesuffix(".toml"))
    parts = path.parts[-2:]
    if len(parts) < 2 or not all(map(_NAME.fullmatch, parts)):
        raise UserError(f"`{names[0]}` is no name of a rule", "write PACK/NAME, of letters, digits, _ and -")
    known_folders = config_file.load([Path()]).rule_paths
    folder = Path() if len(path.parts) > 2 else next(iter(known_folders), Path("rules"))
    target = folder / f"{path}.toml"
    if os.path.lexists(target):
        raise UserError(f"{target} exists already", "take another name")
    target.parent.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W", "_", path.name)
    file_io.add(target, _SKELETON.format(name=f"_{name}" if name[0].isdigit() else name).encode())
    print(f"{target}: edit it, then run `torchmigrate rules test {target}`")
    if target.parent.parent.resolve() not in {path.resolve() for path in known_folders}:
        print(f'to use it: [tool.torchmigrate] rule-paths = ["{target.parent.parent}"]', file=sys.stderr)
    return 0
