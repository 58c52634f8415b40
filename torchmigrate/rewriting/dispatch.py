"""All rules by what they are called for, and by which bytes a file must hold for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.patterns import rewrite_by_patterns
from torchmigrate.rules.model import Rule, Ruleset, literals_of
from torchmigrate.textcheck.rules import NONE, TextRules, text_rules

_WORD = re.compile(rb"\w+")
_SPACED = bytes(code if _WORD.match(bytes((code,))) else 32 for code in range(256))  # all but words
Handler = Callable[[RuleContext], Iterator[Finding]]


@dataclass(frozen=True)
class DispatchTable:
    """All rules by what they are called for; `wide` holds the `torch.cuda.*` forms, longest first."""

    by_key: Mapping[str, tuple[tuple[Rule, Handler], ...]]
    wide: tuple[tuple[str, tuple[tuple[Rule, Handler], ...]], ...]
    literals: tuple[bytes, ...]
    of_torch: tuple[bytes, ...] = ()  # more of them, of which a file must hold one beside the word torch
    active: frozenset[str] = frozenset()  # names of the rules and packs in it
    known: frozenset[str] = frozenset()  # ... and of those that this run does not look at
    texts: TextRules = NONE  # about files that are not Python
    words: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)  # of which a file must hold one, by rule

    @cached_property
    def _calls(self) -> Mapping[bytes, bytes]:
        """`name(` and `.method(` by their word."""
        plain = (key for key in self.by_key if key.startswith(("torch.", ".")) and "cuda" not in key)
        last = ((key.rpartition(".")[2], "." * key.startswith(".")) for key in plain)
        return {name.encode(): f"{dot}{name}(".encode() for name, dot in last}

    def needles(self, raw: bytes) -> set[bytes]:
        """One of which a line of this file must hold, or a name that it imports; without those that it cannot hold."""
        calls, words = self._calls, _words_in(raw)
        blob = b" ".join(words)  # a tenth of the file: most literals are ruled out by it
        plain = (literal for literal, part in (*self._anywhere, *self._beside_torch) if part in blob)
        return {*plain, *(calls[word] for word in calls.keys() & words), b".is_cuda"}

    @cached_property
    def _anywhere(self) -> list[tuple[bytes, bytes]]:
        return [(literal, _longest_word(literal)) for literal in self.literals]

    @cached_property
    def _beside_torch(self) -> list[tuple[bytes, bytes]]:
        return [(literal, _longest_word(literal)) for literal in self.of_torch]

    def has_work(self, raw: bytes) -> bool:
        if self.literals and self.literals[0] in raw:
            return True  # `cuda`, for most files with work
        blob = b" ".join(_words_in(raw))
        if any(part in blob and literal in raw for literal, part in self._anywhere):
            return True
        return b"torch" in blob and any(part in blob and literal in raw for literal, part in self._beside_torch)

    def asleep(self, raw: bytes) -> frozenset[str]:
        """Rules that wait for a word of theirs, which this file lacks: another rule's woke it. Their fixes are unsafe
        there, so that files without a mention of CUDA stay as they are."""
        if b"cuda" in raw:  # a word of all of them
            return frozenset()
        return frozenset(name for name, words in self.words.items() if not any(word in raw for word in words))

    def may_have_work(self, raw: bytes) -> bool:
        """Whether there is work if the file runs with a CUDA tensor type as the default (default_type.py)."""
        return b"Tensor(" in raw and bool(self.by_key.get("torch.Tensor"))

    def named(self, name: str) -> tuple[tuple[Rule, Handler], ...]:
        exact = self.by_key.get(name)
        if exact is not None:
            return exact
        return next((handlers for prefix, handlers in self.wide if name.startswith(prefix)), ())


def _words_in(raw: bytes) -> set[bytes]:
    return set(raw.translate(_SPACED).split())


def _longest_word(literal: bytes) -> bytes:
    words: list[bytes] = _WORD.findall(literal)
    return max(words, key=len)


def dispatch_table(ruleset: Ruleset) -> DispatchTable:
    """One dispatch table for all rules. Raises PackError where a rule names a fixer that does not exist."""
    from torchmigrate.fixers import registry

    entries: dict[str, list[tuple[Rule, Handler]]] = {key: [] for key in ruleset.claimed if not key.endswith(".*")}
    for rule in ruleset.rules.values():
        handlers: dict[str, Handler] = dict.fromkeys(rule.pattern_keys(), rewrite_by_patterns)
        if rule.fixer:
            handlers |= dict.fromkeys(rule.on, registry.find(rule))
        for key, handler in handlers.items():
            entries.setdefault(key, []).append((rule, handler))
    wide = [(key[:-1], tuple(found)) for key, found in entries.items() if key.endswith(".*")]
    exact = {key: tuple(found) for key, found in entries.items() if not key.endswith(".*")}
    rules = list(ruleset.rules.values())
    active = frozenset(name for rule in rules for name in (rule.id, rule.pack))
    longest = tuple(sorted(wide, key=lambda item: -len(item[0])))
    return DispatchTable(
        exact, longest, *_triggers(rules), active, active | ruleset.names, text_rules(ruleset), _words(rules)
    )


def _triggers(rules: Sequence[Rule]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """What a file must hold for any of them; apart what counts only in one that speaks of torch."""
    anywhere = literals_of([rule for rule in rules if "cuda" in rule.literals or not rule.names_torch])
    more = [word for word in literals_of(rules) if not any(known in word for known in anywhere)]
    return (*anywhere, b"torchmigrate:"), tuple(more)  # a comment of ours may be wrong in a file without work


def _words(rules: Sequence[Rule]) -> dict[str, tuple[bytes, ...]]:
    """Of those that ask for a mention of CUDA. Others may speak of a file for what its importers do."""
    return {rule.id: tuple(word.encode() for word in rule.literals) for rule in rules if "cuda" in rule.literals}
