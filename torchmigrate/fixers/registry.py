"""Finds the fixer that a rule names; there is no list of them.

`fixer = "device/tensor_cuda"` is the function `tensor_cuda` of `fixers/device/tensor_cuda.py`, a generator of findings;
`fixer = "hazard/mps:sparse"` is the function `sparse` of `fixers/hazard/mps.py`.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from torchmigrate.base.text import did_you_mean
from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.rules.model import PackError, Rule, pattern_key
from torchmigrate.rules.packs import builtin

_HERE = Path(__file__).parent
_BUILTIN = builtin()
_FIXER = re.compile(r"^def ([a-z]\w*)\(context: RuleContext\) -> Iterator\[Finding\]:", re.M | re.ASCII)
# A rule file is data: it names a fixer that ships, no other module.
_PATH = re.compile(r"([a-z]\w*/([a-z]\w*))(?::([a-z]\w*))?", re.ASCII)


@dataclass(frozen=True)
class Fixer:
    """A generator of findings, whose module is imported at the first call, so that idle runs do not pay."""

    module: str
    function: str

    @cached_property
    def _generator(self) -> Callable[[RuleContext], Iterator[Finding]]:
        return getattr(importlib.import_module(self.module), self.function)  # type: ignore[no-any-return]

    def __call__(self, context: RuleContext) -> Iterator[Finding]:
        return self._generator(context)


def find(rule: Rule) -> Fixer:
    """Return the generator that the rule's `fixer` names. Raises PackError if no fixer of that name ships.

    Built-in rules are validated in tests, so only the rules of other packs are looked up here.
    """
    named = _PATH.fullmatch(rule.fixer or "")
    path, last, function = named.groups() if named else ("", "", "")
    name = function or last
    if not rule.path.is_relative_to(_BUILTIN) and name not in fixers_of(path):
        known = [f"{path}:{each}" for each in sorted(fixers_of(path))] or modules()
        asked = str(rule.fixer) if fixers_of(path) else path or str(rule.fixer)
        near = did_you_mean(asked, known) or f"they are in: {', '.join(modules())}"
        raise PackError(f"{rule.path}:1: there is no fixer {rule.fixer!r}\nhelp: {near}")
    return Fixer(f"torchmigrate.fixers.{path.replace('/', '.')}", name)


@cache
def fixers_of(module: str) -> frozenset[str]:
    """Return the fixers of a module, as `device/tensor_cuda`: its functions from a rule context to findings."""
    file = _HERE / f"{module}.py"
    return frozenset(_FIXER.findall(file.read_text(encoding="utf-8")) if module and file.is_file() else ())


def modules() -> list[str]:
    """Return the modules that hold fixers, as rules name them: `device/tensor_cuda`."""
    return sorted(f.relative_to(_HERE).with_suffix("").as_posix() for f in _HERE.glob("*/[a-z]*.py"))


def rewrite_by_patterns(context: RuleContext) -> Iterator[Finding]:
    """Yield the finding of a rule without a fixer in Python: that of the first `[[rewrite]]` that matches."""
    for rewrite in context.rule.rewrites:
        if context.qualified not in (None, pattern_key(rewrite.match)):
            continue  # this table is about another function of the rule, which the same f-string may hold
        template = rewrite.template
        node = None if rewrite.match.endswith(")") else context.ref
        if rewrite.native and not rewrite.helper and context.module.facts.is_native(rewrite.torch):
            template = rewrite.native
        if template is None:
            found = context.rewrite(rewrite.match, "None", node, where=rewrite.where)
            found = found and context.note(rewrite.message)
        else:
            found = context.rewrite(rewrite.match, template, node, rewrite.safety, rewrite.message, rewrite.where)
            if found and rewrite.safety is Safety.DISPLAY:
                found = context.note(rewrite.message)
        if found:
            yield replace(found, backends=rewrite.backends)
            return
    named = context.call is None and (context.qualified or "").startswith("torch.cuda.")
    if named and not isinstance(context.parent, ast.alias):
        yield context.left("it is named here, not called")
