"""The helper's import where isort would put it, or in a file with another order beside the imports of its kind."""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import Edit

_Import = ast.Import | ast.ImportFrom
# isort's sections, in its order
_FUTURE, _STDLIB, _THIRD_PARTY, _FIRST_PARTY, _LOCAL = range(5)
_Key = tuple[int, bool, int, str]
_CONFIGURED = (".isort.cfg", "pyproject.toml", "setup.cfg", "tox.ini", "ruff.toml", ".ruff.toml")
_ISORT = re.compile(rb"isort|\[\s*[^\]]*[\"']I(?:001)?[\"']")


def in_order(module: SemanticModel, statement: str, last: ast.stmt | None, folder: str) -> Edit | None:
    """Return the edit that adds an import to the block which ends with the import `last`, in isort's order.

    `folder` is where `import accel` finds the helper. It is None if the block is not in that order, or may be so by
    chance.
    """
    block = _block(module, last)
    tree = ast.parse(statement).body
    if not block or len(tree) != 1 or not isinstance(tree[0], _Import):
        return None
    keys = [_key(module, each) for each in block]
    own = _key(module, tree[0], folder)
    if keys != sorted(keys) or not _is_spaced(module, block, keys):
        return None
    if len({key[0] for key in keys} - {_FUTURE}) < 2 and not _is_configured(str(module.facts.root)):
        return None
    newline = module.source.newline
    if own in keys and own[1]:
        same = block[keys.index(own)]
        if _is_configured(str(module.facts.root)):
            return _joined(module, same, tree[0].names[0])
        # no line of the project's changes unless it uses isort
        return _line(module, module.line_above(same), statement + newline)
    above = [at for at, key in enumerate(keys) if key < own]
    if above and keys[above[-1]][0] == own[0]:
        return _line(module, (block[above[-1]].end_lineno or 0) + 1, statement + newline)
    below = next((at for at, key in enumerate(keys) if key > own), None)
    if below is None:
        return _line(module, (block[-1].end_lineno or 0) + 1, newline + statement + newline)
    gap = "" if keys[below][0] == own[0] else newline
    return _line(module, module.line_above(block[below]), statement + newline + gap)


def beside_kin(module: SemanticModel, statement: str, last: ast.stmt | None, folder: str) -> Edit | None:
    """Return the edit that adds an import to a block in another order: beside those of its kind from the same place.

    `import accel` that comes after these goes below the project's imports of all kinds, and so does any without them.
    It is None if the block ends there, or if torch would be imported earlier than it is.
    """
    block = _block(module, last)
    tree = ast.parse(statement).body
    if not block or len(tree) != 1 or not isinstance(own := tree[0], _Import):
        return None
    newline = module.source.newline
    kin = [node for node in block if _is_kin(module, node, own, folder)]
    keys = [_key(module, node) for node in kin]
    below = next((node for node in kin if _key(module, node) > _key(module, own, folder)), None)
    if below is not None and keys == sorted(keys) and _is_free(module, block, block.index(below)):
        line = below.lineno
        if module.line_above(below) != line:  # comments may speak of it alone, or of all imports below
            line = (below.end_lineno or line) + 1
        return _line(module, line, statement + newline)
    named = kin if isinstance(own, ast.ImportFrom) else []
    above = (named or [node for node in block if _is_own(module, node)])[-1:]
    if not above or above[0] is last or not _is_free(module, block, block.index(above[0]) + 1):
        return None
    return _line(module, (above[0].end_lineno or 0) + 1, statement + newline)


def _is_free(module: SemanticModel, block: list[_Import], at: int) -> bool:
    """Return whether the helper may be imported before an item of a block: torch is there, no `*` takes its name."""
    before = itertools.takewhile(lambda statement: statement is not block[at], module.tree.body)
    has_torch = any(_names_torch(node) for node in before if isinstance(node, _Import))
    return has_torch and all(node.names[0].name != "*" for node in block[at:])


def _names_torch(node: _Import) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] == "torch"
    return any(alias.name.partition(".")[0] == "torch" for alias in node.names)


def _is_kin(module: SemanticModel, node: _Import, own: _Import, folder: str) -> bool:
    """Return whether an import is written as the helper's is, and finds its module where that finds the helper."""
    match own, node:
        case ast.Import(), ast.Import([ast.alias(name)]):
            found = module.facts.index.locate(str(module.path), 0, tuple(name.split(".")))
            return found is not None and found[1] == folder
        case ast.ImportFrom(level=0), ast.ImportFrom(level=0):
            return (node.module or "").partition(".")[0] == (own.module or "").partition(".")[0]
        case ast.ImportFrom(), ast.ImportFrom():
            return bool(own.level and node.level)
    return False


def _is_own(module: SemanticModel, node: _Import) -> bool:
    """Return whether an import names a module of the project."""
    index, path = module.facts.index, str(module.path)
    if isinstance(node, ast.ImportFrom):
        dotted = tuple((node.module or "").split("."))
        names = [dotted, *((*dotted, alias.name) for alias in node.names)]
        return bool(node.level) or any(index.locate(path, 0, name) for name in names)
    return any(index.locate(path, 0, tuple(alias.name.split("."))) for alias in node.names)


def _line(module: SemanticModel, line: int, text: str) -> Edit | None:
    if line > len(module.source.line_starts):
        return None  # the file ends without a newline
    at = module.source.line_starts[line - 1]
    return Edit(at, at, text)


def _block(module: SemanticModel, last: ast.stmt | None) -> list[_Import]:
    """Return the imports without other code between them that end with `last`, each on lines of its own."""
    found: list[_Import] = []
    for statement in module.tree.body:
        if not isinstance(statement, _Import):
            found = []
            continue
        found.append(statement)
        if statement is last:
            break
    after = next((s for s in module.tree.body if last is not None and s.lineno > last.lineno), None)
    shared = after is not None and last is not None and after.lineno == last.end_lineno
    alone = all(a.end_lineno != b.lineno for a, b in pairwise(found)) and not shared
    return found if found and found[-1] is last and alone and not isinstance(after, _Import) else []


def _key(module: SemanticModel, node: _Import, folder: str = "") -> _Key:
    """Return the sort key of an import: its section, plain ones first, then by name."""
    if isinstance(node, ast.Import):
        name = node.names[0].name
        return (_section(module, name.partition(".")[0], folder), False, 0, name.lower())
    name = node.module or ""
    if node.level:
        return (_LOCAL, True, -node.level, name.lower())
    return (_section(module, name.partition(".")[0], ""), True, 0, name.lower())


def _section(module: SemanticModel, top: str, folder: str) -> int:
    if top == "__future__":
        return _FUTURE
    if top in sys.stdlib_module_names:
        return _STDLIB
    root = str(module.facts.root)
    roots = (root, os.path.join(root, "src"))
    if folder in roots:
        return _FIRST_PARTY
    heads = tuple(os.path.join(base, top, "") for base in roots)
    own = any(module.facts.index.under(base, (top,)) for base in roots)
    return _FIRST_PARTY if own or any(path.startswith(heads) for path in module.facts.files) else _THIRD_PARTY


def _is_spaced(module: SemanticModel, block: list[_Import], keys: list[_Key]) -> bool:
    """Return whether one blank line divides sections, none the imports in them, and each import names one module."""
    for (one, key), (other, next_key) in pairwise(zip(block, keys, strict=True)):
        apart = other.lineno - (one.end_lineno or one.lineno) - 1
        if apart != (key[0] != next_key[0]):
            return False
        if apart and module.source.line_at(module.source.line_starts[other.lineno - 2]).strip():
            return False
    return all(len(node.names) == 1 for node in block if isinstance(node, ast.Import))


def _joined(module: SemanticModel, node: _Import, added: ast.alias) -> Edit | None:
    """Return the edit that adds a name to an import from the same module, on one line; None for other forms."""
    text = module.text(node)
    if any(alias.asname for alias in (*node.names, added)) or any(sign in text for sign in "(\\\n") or "*" in text:
        return None
    after = next((alias for alias in node.names if _member(alias.name) > _member(added.name)), None)
    at = module.span(after)[0] if after else module.span(node.names[-1])[1]
    return Edit(at, at, f"{added.name}, " if after else f", {added.name}")


def _member(name: str) -> tuple[int, str]:
    """Return the sort key of a name in a from-import: constants, classes, then the rest."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name.lower()


@lru_cache(maxsize=8)
def _is_configured(root: str) -> bool:
    """Return whether a settings file of the project speaks of isort, or of ruff's rules for imports."""
    for name in _CONFIGURED:
        try:
            if _ISORT.search(file_io.read(Path(root, name))):
                return True
        except OSError:
            continue
    return False
