"""What a rule is: Rule, Rewrite, Case, Ruleset, and the keys and literals by which candidates are found."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from torchmigrate.diagnostics.finding import Safety

CAPTURE = re.compile(r"\$\$?(\w+)")


WHERE = {"literal", "integer", "string", "true"}


NODE_KINDS = {"If", "IfExp", "Assert", "Lambda", "FunctionDef", "Import", "ImportFrom"}


STRING_KINDS = {
    "string:device", "string:type", "string:nccl", "string:environment", "string:provider", "string:backend",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One `match` with its `with` (None: a finding only). `where` restricts captures, each to one of WHERE."""

    match: str
    template: str | None
    where: Mapping[str, str]
    safety: Safety
    message: str
    native: str | None = None
    torch: str | None = None
    backends: tuple[str, ...] = ()  # where they are not the rule's

    @property
    def helper(self) -> str | None:
        """The helper's function, where `with` is that alone; what is native for it depends on the place (native.py)."""
        found = re.fullmatch(r"accel\.(\w+)", self.template or "")
        return found and found[1]


@dataclass(frozen=True, slots=True)
class Case:
    """A before/after test; no `after` means that it must not change. `todo` cases must still fail, `together` ones run
    with all rules on only: what they show takes several. `native`: what `--style native` gives, torch being new."""

    title: str
    before: str
    after: str | None
    todo: bool
    unsafe: bool
    finding: bool | None
    line: int
    together: bool = False
    file: str = ""  # of a rule for other files than Python: what the file is called
    native: str | None = None  # what --style native gives, where that is not `after`


@dataclass(frozen=True, slots=True)
class Where:
    """Where a text rule looks: in `files` but not in `but` (globs that match the end of a path), at lines that hold
    `line` and not `unless`, of TOML and INI at what stands `under` a table and key (regular expressions). Not where a
    file of the directory matches `beside`: a choice is offered there."""

    files: tuple[str, ...]
    line: str | None = None
    under: str | None = None
    unless: str | None = None
    but: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextPattern:
    """What a text rule finds: `match`, a regular expression (None: the file, by its name), of it the group `at`, if
    there is one. Not on lines that hold `unless`, nor in files that hold `alternative`: those offer a choice already;
    with `siblings`, any file of the directory that the rule reads may hold it. `files` narrows the rule's own. A group
    `library` or `variable` must be one that counterparts.py knows."""

    match: str | None
    message: str
    files: tuple[str, ...] = ()
    unless: str | None = None
    alternative: str | None = None
    siblings: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One file of a pack."""

    id: str
    path: Path
    summary: str
    safety: Safety
    backends: tuple[str, ...]
    why: str
    see: tuple[str, ...]
    message: str
    blocks: bool
    fixer: str | None
    on: tuple[str, ...]
    literals: tuple[str, ...]
    rewrites: tuple[Rewrite, ...]
    cases: tuple[Case, ...]
    where: tuple[Where, ...] = ()  # with `patterns`: a rule for other files than Python
    patterns: tuple[TextPattern, ...] = ()
    since: Mapping[str, str] = field(default_factory=dict)  # by name of `on`: the torch release that needs it no more

    @property
    def pack(self) -> str:
        return self.id.partition("/")[0]

    def keys(self) -> Iterator[str]:
        """Where the dispatch table holds this rule: `torch.x.y`, `.method`, `string:device` or a node kind."""
        yield from self.on
        yield from self.pattern_keys()

    def globs(self) -> Iterator[str]:
        """Which files a text rule reads."""
        return (glob for where in self.where for glob in where.files)

    @property
    def names_torch(self) -> bool:
        """Whether a file that it speaks about imports torch: it knows functions of torch, no imports and no text."""
        keys = list(self.keys())
        return any(key.startswith("torch.") for key in keys) and all("." in key for key in keys)

    def pattern_keys(self) -> Iterator[str]:
        """What its `[[rewrite]]` tables match; `on` is for its fixer."""
        yield from (pattern_key(r.match) for r in self.rewrites)


@dataclass(frozen=True, slots=True)
class Ruleset:
    """All rules that are loaded, by id. `claimed`: what deselected rules speak about, so that no other does instead."""

    rules: Mapping[str, Rule]
    claimed: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()  # of the deselected
    globs: frozenset[str] = frozenset()  # of files that deselected text rules read

    def selected(self, select: Sequence[str], ignore: Sequence[str]) -> Ruleset:
        """Packs or rules by name; no `select` means all."""

        def named(rule: Rule, names: Sequence[str]) -> bool:
            return rule.id in names or rule.pack in names

        kept = {i: r for i, r in self.rules.items() if (not select or named(r, select)) and not named(r, ignore)}
        dropped = [rule for rule in self.rules.values() if rule.id not in kept]
        claimed = self.claimed | {key for rule in dropped for key in rule.keys()}  # noqa: SIM118
        names = self.names | {name for rule in dropped for name in (rule.id, rule.pack)}
        return Ruleset(kept, claimed, names, self.globs | {glob for rule in dropped for glob in rule.globs()})

    def unknown(self, names: Sequence[str]) -> dict[str, str | None]:
        """Names that are neither a rule nor a pack, each with the closest one that is."""
        known = sorted({r.pack for r in self.rules.values()} | set(self.rules))
        return {n: next(iter(difflib.get_close_matches(n, known, 1)), None) for n in names if n not in known}


@cache
def pattern_key(match: str) -> str:
    """`torch.cuda.f` or `.method`: what a candidate must be called. Raises ValueError."""
    source = CAPTURE.sub(lambda m: ("*__" if m.group().startswith("$$") else "__") + m.group(1), match)
    try:
        node: ast.AST = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"`{match}` is not an expression: {error.msg}") from None
    if isinstance(node, ast.Call):
        node = node.func
    if not isinstance(node, ast.Attribute):
        raise ValueError(f"`{match}` names neither a torch function nor a method")
    name = ast.unparse(node)
    return name if name.startswith("torch.") else f".{node.attr}"


def literals_of(rules: Sequence[Rule]) -> tuple[bytes, ...]:
    """What a file must hold, as plain bytes, for any of `rules` to have work in it."""
    found: set[str] = set()
    for rule in rules:
        if not rule.patterns:
            found.update(rule.literals or filter(None, map(_literal, rule.keys())))
    shortest = sorted(found, key=lambda text: (len(text), text))
    needed = [t for i, t in enumerate(shortest) if not any(s in t for s in shortest[:i])]
    return tuple(t.encode() for t in sorted(needed, key=lambda t: t != "cuda"))


def _literal(key: str) -> str | None:
    if key.startswith("string:") or key in NODE_KINDS:
        return None
    parts = key.removesuffix(".*").split(".")
    return "cuda" if "cuda" in parts else parts[-1]
