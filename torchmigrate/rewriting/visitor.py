"""The dispatch table of all rules with their prefilter, and the visitor that calls them on a file's statements."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers import registry
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.registry import rewrite_by_patterns
from torchmigrate.project.text_rules import NONE, TextRules, text_rules
from torchmigrate.rules.model import NODE_KINDS, Prefilter, Rule, Ruleset, prefilter, words_in
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.receiver import parallel_classes
from torchmigrate.semantic.references import HELPER, spelled
from torchmigrate.source.encoding import occurs_in_code
from torchmigrate.syntax.resolver import literal_getattr
from torchmigrate.syntax.scope import Scope, bind_target, children, first_line, function_scope
from torchmigrate.torch_api.names import SETTINGS, canonical, string_kind

Handler = Callable[[RuleContext], Iterator[Finding]]


@dataclass(frozen=True)
class DispatchTable:
    """All rules by the names and nodes that they handle; `wide` holds the `torch.cuda.*` forms, longest first."""

    by_key: Mapping[str, tuple[tuple[Rule, Handler], ...]]
    wide: tuple[tuple[str, tuple[tuple[Rule, Handler], ...]], ...]
    prefilter: Prefilter
    active: frozenset[str] = frozenset()  # names of the rules and packs in it
    known: frozenset[str] = frozenset()  # `active`, and the names of rules that are deselected
    texts: TextRules = NONE  # about files that are not Python
    words: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)  # by rule: a file must hold one of them

    @cached_property
    def _calls(self) -> Mapping[bytes, Sequence[bytes]]:
        """Return the literals `name(` and `.method(`, also with a space before the parenthesis, by their word."""
        plain = (key for key in self.by_key if key.startswith(("torch.", ".")) and "cuda" not in key)
        last = ((key.rpartition(".")[2], "." * key.startswith(".")) for key in plain)
        return {name.encode(): (f"{dot}{name}(".encode(), f"{dot}{name} (".encode()) for name, dot in last}

    def needles(self, raw: bytes) -> set[bytes]:
        """Return the prefilter literals that the file holds; a line is visited for one, or an imported name."""
        calls, words = self._calls, words_in(raw)
        blob = b" ".join(words)  # a tenth of the file: most literals are ruled out by it
        wanted = (*self.prefilter.anywhere, *self.prefilter.beside_torch)
        plain = (literal for literal, part in wanted if part in blob)
        return {*plain, *(literal for word in calls.keys() & words for literal in calls[word]), b".is_cuda"}

    def has_work(self, raw: bytes) -> bool:
        return self.prefilter.has_work(raw)

    def asleep(self, raw: bytes) -> frozenset[str]:
        """Return the rules none of whose prefilter literals occur in this file; their fixes are unsafe there."""
        if occurs_in_code(raw, b"cuda"):  # a word of all of them
            return frozenset()
        return frozenset(
            name for name, words in self.words.items() if not any(occurs_in_code(raw, word) for word in words)
        )

    def named(self, name: str) -> tuple[tuple[Rule, Handler], ...]:
        exact = self.by_key.get(name)
        if exact is not None:
            return exact
        return next((handlers for prefix, handlers in self.wide if name.startswith(prefix)), ())


@lru_cache(maxsize=8)
def dispatch_table(ruleset: Ruleset) -> DispatchTable:
    """Build the dispatch table of all rules. Raises PackError if a rule names a fixer that does not exist."""
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
        exact, longest, prefilter(ruleset), active, active | ruleset.names, text_rules(ruleset), _words(rules)
    )


def _words(rules: Sequence[Rule]) -> dict[str, tuple[bytes, ...]]:
    """Return the prefilter literals of rules that have `cuda`; others may apply because of importing files."""
    return {rule.id: tuple(word.encode() for word in rule.literals) for rule in rules if "cuda" in rule.literals}


_VISITED = {ast.Attribute, ast.Name, ast.Constant, ast.Call, *(getattr(ast, kind) for kind in NODE_KINDS)}


class Visitor:
    """Walks the statements that hold a prefilter literal and calls the rules for each candidate in them."""

    def __init__(self, module: SemanticModel, rules: DispatchTable) -> None:
        self.module, self.rules = module, rules
        self.asleep = rules.asleep(module.original)
        self.parent = module.scopes.parent
        self.hot = _hot_lines(module, rules)

    def findings(self) -> Iterator[Finding]:
        for statement in self.module.scopes.statements:
            if self._is_hot(statement):
                yield from self._walk(statement)

    def _is_hot(self, node: ast.stmt) -> bool:
        at = bisect.bisect_left(self.hot, first_line(node))
        return at < len(self.hot) and self.hot[at] <= (node.end_lineno or node.lineno)

    def _walk(self, statement: ast.stmt) -> Iterator[Finding]:
        """Yield the findings in a statement's own expressions; nested statements have their own turn."""
        for node, scope in self._header(statement):
            if type(node) in _VISITED:
                yield from self._visit(node, scope)

    def _header(self, statement: ast.stmt) -> list[tuple[ast.AST, Scope]]:
        """Return a statement's own nodes, outermost first, with their scopes, once all have their parents."""
        found: list[tuple[ast.AST, Scope]] = []
        stack: list[tuple[ast.AST, Scope]] = [(statement, self.module.scopes.scope_of[statement])]
        while stack:
            node, scope = stack.pop()
            found.append((node, scope))
            inner = self._inner_scope(node, scope)
            outside = getattr(node, "args", None) if inner is not scope else None  # a lambda's defaults
            for child in reversed(children(node)):
                if not isinstance(child, ast.stmt):
                    self.parent.setdefault(child, node)
                    stack.append((child, inner if child is not outside else scope))
        return found

    def _inner_scope(self, node: ast.AST, scope: Scope) -> Scope:
        if isinstance(node, ast.Lambda):
            inner = function_scope(node, scope)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            inner = Scope(node, scope)
            for generator in node.generators:
                bind_target(generator.target, None, inner)
        else:
            return scope
        own = (node.body,) if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)  # defaults lie outside
        self.module.expression_scope.update(dict.fromkeys(own, inner))
        return inner

    def _visit(self, node: ast.AST, scope: Scope) -> Iterator[Finding]:
        if isinstance(node, (ast.Attribute, ast.Name)):
            up = self.parent.get(node)
            outermost = not (isinstance(up, ast.Attribute) and up.value is node)
            if outermost and (isinstance(node.ctx, ast.Load) or self._is_setting(node, scope)):
                yield from self._reference(node, scope)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield from self._string(node, scope)
        elif isinstance(node, ast.Call) and literal_getattr(node):
            yield from self._reference(node, scope)
        kind = type(node).__name__
        if kind in NODE_KINDS:
            yield from self._call_rules(self.rules.by_key.get(kind, ()), node, node, scope, None)

    def _reference(self, node: ast.AST, scope: Scope) -> Iterator[Finding]:
        if isinstance(node, ast.Name) and _is_variable(node, scope):
            return  # `Tensor = torch.cuda.FloatTensor`: rewritten there, once
        name = self.module.resolve(node, scope)
        inner = node
        while name and name.startswith("torch."):
            handlers = self.rules.named(name)
            if handlers:
                yield from self._call_rules(handlers, self._called(inner), inner, scope, name)
                return
            if not isinstance(inner, ast.Attribute):
                return
            inner, name = inner.value, name.rpartition(".")[0]
        if isinstance(node, ast.Attribute) and (name is None or self._is_helper(node)):
            handlers = self.rules.by_key.get(f"{HELPER if self._is_helper(node) else ''}.{node.attr}", ())
            yield from self._call_rules(handlers, self._called(node), node, scope, None)

    def _is_setting(self, node: ast.AST, scope: Scope) -> bool:
        """Return whether an assignment sets a torch option; `torch.cuda.is_available = ...` replaces a function."""
        return isinstance(node, ast.Attribute) and (self.module.resolve(node, scope) or "").startswith(SETTINGS)

    def _is_helper(self, node: ast.Attribute) -> bool:
        """Return whether an attribute is the helper's, also in a second pass, before the helper's import is there."""
        return isinstance(node.value, ast.Name) and node.value.id == spelled(self.module)["accel"]

    def _called(self, ref: ast.AST) -> ast.AST:
        up = self.parent.get(ref)
        return up if isinstance(up, ast.Call) and up.func is ref else ref

    def _string(self, node: ast.Constant, scope: Scope) -> Iterator[Finding]:
        kind = string_kind(node, self.parent.get(node))
        if kind:
            yield from self._call_rules(self.rules.by_key.get(kind, ()), node, node, scope, None)

    def _call_rules(
        self,
        handlers: Sequence[tuple[Rule, Handler]],
        node: ast.AST,
        ref: ast.AST,
        scope: Scope,
        name: str | None,
    ) -> Iterator[Finding]:
        for rule, handler in handlers:
            found = handler(RuleContext(self.module, rule, node, ref, scope, name))
            yield from map(_unsure, found) if rule.id in self.asleep else found


def _unsure(finding: Finding) -> Finding:
    """Make a fix unsafe, in a file that does not mention CUDA: nothing in the file shows that it is for CUDA."""
    if finding.fix is None or finding.fix.safety is not Safety.SAFE:
        return finding
    fix = replace(finding.fix, safety=Safety.UNSAFE)
    return replace(
        finding, fix=fix, safety=Safety.UNSAFE, message=f"{finding.message} (this file does not mention CUDA)"
    )


def _is_variable(node: ast.Name, scope: Scope) -> bool:
    """Return whether a name is bound by assignment in this file, not by an import."""
    found = scope.find(node.id)
    return found is not None and all(binding.value is not None for binding in found[1])


def _hot_lines(module: SemanticModel, rules: DispatchTable) -> list[int]:
    """Return the sorted line numbers with a prefilter literal or a name that stands for an API of a rule."""
    source = module.source
    needles = {*rules.needles(source.utf8), *(n.encode() for n in _aliases(module, rules))}
    found: set[int] = set()
    for needle in needles:
        at = source.utf8.find(needle)
        while at >= 0:
            found.add(at)
            at = source.utf8.find(needle, at + len(needle))
    return sorted({bisect.bisect_right(source.line_starts, at) for at in found})


def _aliases(module: SemanticModel, rules: DispatchTable) -> Iterator[str]:
    for scope, name, bindings in ((home, *item) for home in module.scopes for item in home.names.items()):
        for binding in bindings:
            value = binding.qualified or (
                binding.value and module.resolver.resolve(binding.value, module.scopes.module)
            )
            value = canonical(value) if value else None
            is_torchs = value and value.startswith("torch.") and (rules.named(value) or "cuda" in value)
            if is_torchs or (binding.local and module.facts.reexport(module.path, *binding.local)):
                yield name
        if parallel_classes(module, scope, name):
            yield name
