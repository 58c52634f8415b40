"""`rules` and `explain`: what the rule files say."""

from __future__ import annotations

# ruff: noqa: SIM118 (a Rule is no dict)
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from torchmigrate import config as config_
from torchmigrate import diff, pack
from torchmigrate.cli.migrate import known, pack_errors
from torchmigrate.cli.output import colours
from torchmigrate.edits import Changed
from torchmigrate.errors import UserError, did_you_mean
from torchmigrate.rule import Rule, Ruleset


def _load() -> Ruleset:
    with pack_errors():
        return pack.load(config_.load([Path()]).rule_paths)


def listing(names: Sequence[str]) -> int:
    """A line per rule: all, or those of the packs and rules named."""
    ruleset = _load()
    known(ruleset, names)
    rules = ruleset.selected(names, ()).rules.values()
    width = max((len(rule.id) for rule in rules), default=0)
    for rule in sorted(rules, key=lambda r: r.id):
        print(f"{rule.id:<{width}}  {rule.safety.value:<7}  {rule.summary}")
    print(f"{len(rules)} rules", file=sys.stderr)
    return 0


def test(directories: Sequence[Path]) -> int:
    """Run the cases: of the rules in these directories, or of all that are loaded."""
    from torchmigrate import cases  # and LibCST with it, which the other commands here do without

    with pack_errors():
        ruleset = pack.load(directories) if directories else _load()
    roots = [Path(os.path.realpath(directory)) for directory in directories]

    def mine(rule: Rule) -> bool:
        return not roots or any(Path(os.path.realpath(rule.path)).is_relative_to(root) for root in roots)

    tested = {rule.id: rule for rule in ruleset.rules.values() if mine(rule)}
    failures = cases.check_cases(ruleset, tested)
    for failure in failures:
        print(f"{tested[failure.rule].path}:{failure.line}: {failure.rule}: {failure.title}: {failure.message}")
    count = sum(len(rule.cases) for rule in tested.values())
    sys.stdout.flush()
    print(f"{count - len(failures)} of {count} cases of {len(tested)} rules pass.", file=sys.stderr)
    return 1 if failures else 0


def explain(name: str) -> int:
    """A rule; or for an API, the rules that look after it."""
    ruleset = _load()
    rule = ruleset.rules.get(name)
    found = [rule] if rule else handlers(ruleset, name)
    if not found:
        names = [*ruleset.rules, *(key for r in ruleset.rules.values() for key in r.keys())]
        help = did_you_mean(name, names) or "see `torchmigrate rules`"
        raise UserError(f"no rule is called `{name}`, and none speaks of it", help)
    if rule is None:
        print(f"{name}: see {len(found)} rule{'' if len(found) == 1 else 's'}\n")
    print("\n\n".join("\n".join(_lines(r, colours(sys.stdout))) for r in found))
    return 0


def handlers(ruleset: Ruleset, api: str) -> list[Rule]:
    """Rules whose patterns name the API: exactly, else by `torch.x.*`, else those whose examples use it."""
    name = re.sub(r"\(.*", "", api).strip()
    name = re.sub(r"^torch\.(Tensor|nn\.Module)(?=\.)", "", name)
    rules = ruleset.rules.values()
    exact = [r for r in rules if name in r.keys() or any(_mentions(rewrite.match, name) for rewrite in r.rewrites)]
    wide = [r for r in rules if any(k.endswith(".*") and name.startswith(k[:-1]) for k in r.keys())]
    return (
        exact
        or wide
        or [r for r in rules if "." in name and any(_mentions(c.before, name) for c in r.cases if c.after)]
    )


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text) is not None


def _lines(rule: Rule, colour: bool) -> Iterator[str]:
    yield typer.style(rule.id, bold=True) if colour else rule.id
    yield f"  {rule.summary}"
    yield f"  safety: {rule.safety.value}" + (f"; matters on: {', '.join(rule.backends)}" if rule.backends else "")
    yield ""
    yield from (f"  {line}".rstrip() for line in rule.why.splitlines())
    if rule.patterns:
        yield ""
        yield f"  reads: {', '.join(dict.fromkeys(rule.globs()))}"
        for case in rule.cases[:1]:
            yield from ("", f"    {case.file}: {case.title}")
            yield from (f"    | {line}" for line in case.before.strip("\n").splitlines())
    example = next((case for case in rule.cases if case.after is not None and not case.todo), None)
    if example and example.after is not None:
        yield ""
        change = Changed(Path("example.py"), example.before.encode(), example.after.encode(), ())
        shown = diff.unified(change, "example.py").decode().splitlines()[2:]
        yield from (f"    {line}" for line in shown if not line.startswith("@@"))
    if rule.see:
        yield ""
        yield from (f"  {url}" for url in rule.see)
