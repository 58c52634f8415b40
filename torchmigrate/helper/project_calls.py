"""What the project's own helper cannot be asked for: calls that it has no function for, or that would not take them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from torchmigrate.project.project_helper import ProjectHelper
from torchmigrate.semantic.spelling import imported_by, spelled
from torchmigrate.source.edits import Edit, compose

if TYPE_CHECKING:
    from torchmigrate.semantic.model import SemanticModel


def refusal(module: SemanticModel, own: ProjectHelper, edits: Sequence[Edit]) -> str:
    """Why edits cannot call the helper, or ""."""
    used = dict(_used(module, (e.text for e in edits)))
    if not used:
        return ""
    if str(module.path) in module.facts.of_own_helper:
        is_itself = str(module.path) == own.path
        return f"`{own.name}` {'is' if is_itself else 'imports'} this file, and so cannot be called from here"
    missing = sorted(theirs for theirs in used.values() if theirs not in own.offers)
    if missing:
        return f"`{own.name}` has no `{missing[0]}`: add it, or name yours in `helper-map`"
    try:
        tree = ast.parse(compose(module.source.utf8, edits))
    except (SyntaxError, ValueError):
        return ""  # told by whoever applies them
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        theirs = used.get(ast.unparse(call.func), "") if isinstance(call.func, (ast.Name, ast.Attribute)) else ""
        parameters = own.offers.get(theirs)
        if parameters is not None and not _takes(parameters, call):
            return f"`{own.name}.{theirs}` does not take the arguments of `{ast.unparse(call)}`"
    return ""


def _used(module: SemanticModel, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each function that texts call, as it is spelled, with the helper's name for it."""
    text, alias = " ".join(texts), spelled(module)["accel"]
    yield from ((f"{alias}.{name}", name) for name in re.findall(rf"(?<![\w.]){re.escape(alias)}\.(\w+)", text))
    imported = {n: i for n, i in imported_by(module, module.facts.own) if i} if module.facts.own else {}
    yield from ((n, i) for n, i in imported.items() if re.search(rf"(?<![\w.]){re.escape(n)}\b", text))


def _takes(parameters: ast.arguments, call: ast.Call) -> bool:
    """Whether Python would accept the call."""
    names = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    given = {k.arg for k in call.keywords}
    if None in given or any(isinstance(a, ast.Starred) for a in call.args):
        return True
    left = names[len(call.args) :]
    required = [n for n in names[: len(names) - len(parameters.defaults)] if n in left]
    required += [a.arg for a, d in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if d is None]
    known = {*left, *(a.arg for a in parameters.kwonlyargs)}
    fits = len(call.args) <= len(names) or parameters.vararg is not None
    return fits and given >= set(required) and (given <= known or parameters.kwarg is not None)
