"""The fixer of rules that need no Python: match, then replace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.rules.model import pattern_key


def rewrite_by_patterns(site: RuleContext) -> Iterator[Finding]:
    """What a rule without a fixer in Python does: the first `[[rewrite]]` that matches."""
    for rewrite in site.rule.rewrites:
        if site.qualified not in (None, pattern_key(rewrite.match)):
            continue  # another of the rule's functions, which an f-string may hold as well
        template = rewrite.template
        node = None if rewrite.match.endswith(")") else site.ref
        if rewrite.native and not rewrite.helper and site.module.facts.is_native(rewrite.torch):
            template = rewrite.native
        if template is None:
            found = site.rewrite(rewrite.match, "None", node, where=rewrite.where)
            found = found and site.note(rewrite.message)
        else:
            found = site.rewrite(rewrite.match, template, node, rewrite.safety, rewrite.message, rewrite.where)
            if found and rewrite.safety is Safety.DISPLAY:
                found = site.note(rewrite.message)
        if found:
            yield replace(found, backends=rewrite.backends)
            return
