"""The data model of rules, and the keys and prefilter literals by which their candidates are found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

from torchmigrate.base.system import expression_tree
from torchmigrate.diagnostics.finding import SUPPRESSES, Safety

CAPTURE = r"\$\$?(\w+)"


class PackError(ValueError):
    """A rule file cannot be used; the message is `file:line: what`, and a line `help: ...`."""


WHERE = {"literal", "integer", "string", "true"}


NODE_KINDS = {"Call", "If", "IfExp", "Compare", "Assert", "Lambda", "FunctionDef", "Import", "ImportFrom"}


STRING_KINDS = {
    "string:device", "string:type", "string:nccl", "string:environment", "string:provider", "string:backend",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One `[[rewrite]]` table of a rule: a `match` with its `with` (`template`; None: it only reports).

    `where` restricts captures, each to one kind of WHERE. `native` is the template for `--style native`, `torch` the
    version that it needs.
    """

    match: str
    template: str | None
    where: Mapping[str, str]
    safety: Safety
    message: str
    native: str | None = None
    torch: str | None = None
    backends: tuple[str, ...] = ()  # if they differ from the rule's
    key: str = ""  # the dispatch key of `match`, where it is known

    @property
    def helper(self) -> str | None:
        """Return the helper's function if the template is that alone, such as `accel.device`, else None."""
        found = re.fullmatch(r"accel\.(\w+)", self.template or "")
        return found and found[1]


@dataclass(frozen=True, slots=True)
class Case:
    """A before/after test of a rule, its header on `line`; without `after` the code must not change.

    `todo` cases must still fail. `together` cases need several rules and run only with all.
    """

    title: str
    before: str
    after: str | None
    todo: bool
    unsafe: bool
    finding: bool | None
    line: int
    together: bool = False
    file: str = ""  # the file's name, for a rule about files that are not Python
    native: str | None = None  # the result of --style native with the newest torch, if it is not `after`


@dataclass(frozen=True, slots=True)
class Where:
    """The files and lines in which a text rule looks for its patterns.

    It reads files that match `files` and not `but` (globs for the end of a path). It looks at lines that match `line`
    and not `unless`, in TOML and INI only below a `table.key` that matches `under` (regular expressions). It is silent
    if a file of the same directory matches `beside`, as the project offers a choice of devices there.
    """

    files: tuple[str, ...]
    line: str | None = None
    under: str | None = None
    unless: str | None = None
    but: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A pattern that a text rule searches for.

    `match` is a regular expression, whose group `at` is the place if it has one (None: the rule finds the file by its
    name). Lines that match `unless` are skipped, and so are files that match `alternative`, as they offer a choice of
    devices already; with `siblings`, `alternative` may match in any file of the directory. `files` narrows the rule's
    own globs. A group `library` or `variable` must capture a name that `torch_api.libraries` knows.
    """

    match: str | None
    message: str
    files: tuple[str, ...] = ()
    unless: str | None = None
    alternative: str | None = None
    siblings: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, read from a file `<pack>/<name>.toml`; its `id` is `<pack>/<name>`."""

    id: str
    path: Path
    summary: str
    safety: Safety
    backends: tuple[str, ...]
    why: str
    see: tuple[str, ...]
    message: str
    blocks: bool
    raises: bool
    guards: str
    fixer: str | None
    on: tuple[str, ...]
    literals: tuple[str, ...]
    rewrites: tuple[Rewrite, ...]
    cases: tuple[Case, ...]
    where: tuple[Where, ...] = ()  # set together with `patterns`: a rule for files that are not Python
    patterns: tuple[TextPattern, ...] = ()
    since: Mapping[str, str] = field(default_factory=dict)  # by name of `on`: the torch release that needs it no more

    @property
    def pack(self) -> str:
        return self.id.partition("/")[0]

    def keys(self) -> Iterator[str]:
        """Yield the keys of the dispatch table: `torch.x.y`, `.method`, `string:device` or a node kind."""
        yield from self.on
        yield from self.pattern_keys()

    def globs(self) -> Iterator[str]:
        """Return the globs of the files that a text rule reads."""
        return (glob for where in self.where for glob in where.files)

    @property
    def names_torch(self) -> bool:
        """Return whether the rule only concerns files that import torch: it matches functions of torch alone."""
        keys = list(self.keys())
        return any(key.startswith("torch.") for key in keys) and all("." in key for key in keys)

    def pattern_keys(self) -> Iterator[str]:
        """Yield the keys of the `[[rewrite]]` tables; those of `on` are for the fixer."""
        yield from (r.key or pattern_key(r.match) for r in self.rewrites)


@dataclass(frozen=True, slots=True)
class Pack:
    """A folder of rules, applied in the order of `order` and name; `subject` is its commit's."""

    name: str
    title: str
    subject: str
    order: int = 100


@dataclass(frozen=True, slots=True, eq=False)  # one by identity, so that what is derived from it can be kept
class Ruleset:
    """All loaded rules by id; `claimed` are dispatch keys of deselected ones, which no other rule takes over."""

    rules: Mapping[str, Rule]
    claimed: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()  # ids and packs of the deselected rules
    globs: frozenset[str] = frozenset()  # the files that deselected text rules read

    def selected(self, select: Sequence[str], ignore: Sequence[str]) -> Ruleset:
        """Return the rules whose pack or id is in `select` (empty: all) and not in `ignore`."""
        if not select and not ignore:
            return self

        def named(rule: Rule, names: Collection[str]) -> bool:
            return rule.id in names or rule.pack in names

        only, never = frozenset(select), frozenset(ignore)
        kept = {i: r for i, r in self.rules.items() if (not only or named(r, only)) and not named(r, never)}
        dropped = [rule for rule in self.rules.values() if rule.id not in kept]
        claimed = self.claimed | {key for rule in dropped for key in rule.keys()}  # noqa: SIM118
        names = self.names | {name for rule in dropped for name in (rule.id, rule.pack)}
        return Ruleset(kept, claimed, names, self.globs | {glob for rule in dropped for glob in rule.globs()})

    def unknown(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the names that are neither a rule nor a pack, each with the closest known name or None."""
        known = {r.pack for r in self.rules.values()} | set(self.rules)
        lost = [name for name in dict.fromkeys(names) if name not in known]
        import difflib  # a hint needs it, and little else

        close = {n: next(iter(difflib.get_close_matches(n, sorted(known), 1)), None) for n in lost[:_HINTS]}
        return {name: close.get(name) for name in lost}


_HINTS = 20  # names that are spelled wrong and get a hint, which takes milliseconds each


@cache
def pattern_key(match: str) -> str:
    """Return a pattern's dispatch key, `torch.cuda.f` or `.method`; raises ValueError if it has neither."""
    import ast  # rules that were compiled with the package have their keys

    source = re.sub(CAPTURE, lambda m: ("*__" if m.group().startswith("$$") else "__") + m.group(1), match)
    try:
        node: ast.AST = expression_tree(source)
    except SyntaxError as error:
        raise ValueError(f"`{match}` is not an expression: {error.msg}") from None
    if isinstance(node, ast.Call):
        node = node.func
    if not isinstance(node, ast.Attribute):
        raise ValueError(f"`{match}` names neither a torch function nor a method")
    name = ast.unparse(node)
    return name if name.startswith("torch.") else f".{node.attr}"


def literals_of(rules: Sequence[Rule]) -> tuple[bytes, ...]:
    """Return the prefilter literals: a file that contains none of them has no work for `rules`."""
    found: set[str] = set()
    for rule in rules:
        if not rule.patterns:
            found.update(rule.literals or filter(None, map(_literal, rule.keys())))
    shortest = sorted(found, key=lambda text: (len(text), text))
    needed = [t for i, t in enumerate(shortest) if not any(s in t for s in shortest[:i])]
    return tuple(t.encode() for t in sorted(needed, key=lambda t: t != "cuda"))


def _literal(key: str) -> str | None:
    """Return the prefilter literal of a dispatch key, or None if it has none."""
    if key.startswith("string:") or key in NODE_KINDS:
        return None
    parts = key.removesuffix(".*").split(".")
    return "cuda" if "cuda" in parts else parts[-1]


_SPACED = bytes(code if bytes((code,)).isalnum() or code == 95 else 32 for code in range(256))  # all but words


@dataclass(frozen=True)
class Prefilter:
    """Decides from a file's bytes whether rules can have work there, before anything is parsed."""

    literals: tuple[bytes, ...]
    of_torch: tuple[bytes, ...]  # literals that count only in a file with the word torch
    tensors: bool  # whether a rule is about `torch.Tensor`

    @cached_property
    def anywhere(self) -> list[tuple[bytes, bytes]]:
        """The literals, each with its longest word."""
        return [(literal, _longest_word(literal)) for literal in self.literals]

    @cached_property
    def beside_torch(self) -> list[tuple[bytes, bytes]]:
        """The literals that count beside the word torch, each with its longest word."""
        return [(literal, _longest_word(literal)) for literal in self.of_torch]

    def has_work(self, raw: bytes) -> bool:
        if self.literals and self.literals[0] in raw:
            return True  # `cuda`, for most files with work
        blob = b" ".join(words_in(raw))
        if any(part in blob and literal in raw for literal, part in self.anywhere):
            return True
        return b"torch" in blob and any(part in blob and literal in raw for literal, part in self.beside_torch)

    def may_have_work(self, raw: bytes) -> bool:
        """Return whether a file has work if it runs with a CUDA tensor type as the default."""
        return b"Tensor(" in raw and self.tensors


def words_in(raw: bytes) -> set[bytes]:
    return set(raw.translate(_SPACED).split())


def _longest_word(literal: bytes) -> bytes:
    words: list[bytes] = re.findall(rb"\w+", literal)
    return max(words, key=len)


@lru_cache(maxsize=8)
def prefilter(ruleset: Ruleset) -> Prefilter:
    """Return the prefilter of all rules."""
    rules = list(ruleset.rules.values())
    anywhere = literals_of([rule for rule in rules if "cuda" in rule.literals or not rule.names_torch])
    more = tuple(word for word in literals_of(rules) if not any(known in word for known in anywhere))
    of_tensors = any("torch.Tensor" in rule.keys() for rule in rules)  # noqa: SIM118 (a generator)
    # the check reads files without work too, as a suppression in them may be wrong
    return Prefilter((*anywhere, SUPPRESSES), more, of_tensors)
