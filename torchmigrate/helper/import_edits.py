"""Import edits at the end of a file's rewrite: the helper's import is added, imports without a use left are dropped.

The import goes where isort would put it, or in a file with another order beside the imports of its kind.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.base.system import expression_tree, syntax_tree
from torchmigrate.project import helper_parts
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.import_graph import ImportIndex
from torchmigrate.project.packaging import known_first_party
from torchmigrate.semantic.dominance import for_types, know_parents
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import helper_bound, spelled
from torchmigrate.source.edits import Edit, compose
from torchmigrate.source.encoding import Source
from torchmigrate.syntax.resolver import chain_of, last_name, own_blocks
from torchmigrate.syntax.scope import FUNCTIONS, Function, first_line

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
    tree = syntax_tree(statement).body
    if not block or len(tree) != 1 or not isinstance(tree[0], _Import):
        return None
    keys = [_key(module, each) for each in block]
    own = _key(module, tree[0], folder)
    if keys != sorted(keys) or not _is_spaced(module, block, keys):
        return None
    if not _has_sections(keys) and not _is_configured(str(module.facts.root)) and not _shows_order(module):
        return None
    newline = module.source.newline
    if own in keys and own[1]:
        same = block[keys.index(own)]
        if _is_configured(str(module.facts.root)):
            return _joined(module, same, tree[0].names[0])
        # the project's own lines stay as they are unless it uses isort
        return _line(module, module.line_above(same), statement + newline)
    above = [at for at, key in enumerate(keys) if key < own]
    if above and keys[above[-1]][0] == own[0]:
        return _line(module, (block[above[-1]].end_lineno or 0) + 1, statement + newline)
    below = next((at for at, key in enumerate(keys) if key > own), None)
    if below is None:
        return _line(module, (block[-1].end_lineno or 0) + 1, newline + statement + newline)
    gap = "" if keys[below][0] == own[0] else newline
    return _line(module, module.line_above(block[below]), statement + newline + gap)


def _has_sections(keys: Iterable[_Key]) -> bool:
    """Return whether imports are of several sections, so that they are hardly in order by chance."""
    return len({key[0] for key in keys} - {_FUTURE}) > 1


def _shows_order(module: SemanticModel) -> bool:
    """Return whether another block of imports in the file has several sections in isort's order."""
    runs = (list(run) for is_run, run in itertools.groupby(module.tree.body, _is_import) if is_run)
    blocks = (block for run in runs if (block := _block(module, run[-1])))
    found = ((block, [_key(module, node) for node in block]) for block in blocks)
    return any(_has_sections(keys) and keys == sorted(keys) and _is_spaced(module, each, keys) for each, keys in found)


def beside_kin(module: SemanticModel, statement: str, last: ast.stmt | None, folder: str) -> Edit | None:
    """Return the edit that adds an import to a block in another order: beside those of its kind from the same place.

    `import accel` that comes after these goes below the project's imports of all kinds, and so does any without them.
    It is None if the block ends there, or if torch would be imported earlier than it is.
    """
    block = _block(module, last)
    tree = syntax_tree(statement).body
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
    has_torch = any(names_torch(node) for node in before if isinstance(node, _Import))
    return has_torch and all(node.names[0].name != "*" for node in block[at:])


def names_torch(node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether an import is of torch, or of a module in it."""
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


def isort_roots(facts: ProjectContext) -> tuple[str, str]:
    """Return the folders in which isort looks for modules of the project itself."""
    root = str(facts.root)
    return root, os.path.join(root, "src")


def _section(module: SemanticModel, top: str, folder: str) -> int:
    if top == "__future__":
        return _FUTURE
    if top in sys.stdlib_module_names:
        return _STDLIB
    roots = isort_roots(module.facts)
    if folder in roots or (folder and module.facts.helper_at_root):
        return _FIRST_PARTY
    if top in known_first_party(roots[0]):
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


_OURS = ("torch.cuda", "torch.amp", "torch.autocast", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel")


def removals(before: SemanticModel, after: SemanticModel, tidy: bool = False) -> list[Edit]:
    """Return edits to `after` that drop the imports from torch.cuda and the like that only `before` used.

    With `tidy`, imports of torch itself go as well: at the head of a module, beside others that show where the helper's
    goes. In notebooks they stay, as readers may use torch in new cells.
    """
    if before.path.name == "__init__.py":
        return []  # what an __init__ imports may be its interface
    imports = [s for s in after.scopes.statements if isinstance(s, (ast.Import, ast.ImportFrom))]
    is_tidied = tidy and before.path.suffix == ".py" and b"# type:" not in after.original and not _runs_text(after)
    heads = [s for s in imports if is_tidied and isinstance(after.parent(s), ast.Module)]
    heads = [] if all(map(of_torch, heads)) else heads
    found = [(s, names) for s in imports if (names := _removable(after, s, _is_of_torch if s in heads else _is_ours))]
    if not found:
        return []  # walking all expressions costs more than the whole scan
    index, path = after.facts.index, str(after.path)
    gone = {_name(alias) for _, names in found for alias in names} & _used(before) - _used(after)
    if not gone:
        return []
    gone -= _in_strings(after.tree, gone)
    edits: list[Edit] = []
    for statement, names in found:
        own = after.function(statement) is not None  # no other file takes what a function imports
        dead = [a for a in names if _name(a) in gone and (own or not index.is_taken(path, _name(a)))]
        only = _test_for_import_alone(after, statement)
        if only is not None and len(dead) == len(statement.names):
            edits += _drop_line(after, *after.span(only))
        elif dead and only is None:
            edits += _drop(after, statement, dead)
    return edits


def _name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _in_strings(tree: ast.AST, names: set[str]) -> set[str]:
    """Return the names in short strings, which may be annotations or items of `__all__`, not in prose."""
    texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    found = ((text, names.intersection(re.findall(r"\w+", text))) for text in texts if len(text) < 80)
    return {word for text, words in found if words and _may_be_code(text) for word in words}


def _runs_text(module: SemanticModel) -> bool:
    """Return whether a file runs text as code, or looks names up by text: `eval("torch.optim." + name)`."""
    return not _used(module).isdisjoint(("eval", "exec", "globals", "locals", "vars"))


def _may_be_code(text: str) -> bool:
    try:
        return not text.startswith("-") and bool(expression_tree(text.strip()))
    except (SyntaxError, ValueError):
        return False


def _removable(
    module: SemanticModel, statement: ast.Import | ast.ImportFrom, is_ours: Callable[[_Import, ast.alias], bool]
) -> list[ast.alias]:
    """Return those names of an import that may be dropped, if its block holds more than imports.

    A block may also hold that import alone: it goes with its plain test. An import in a `try` statement may ask whether
    the name is there, so it stays.
    """
    ours = [alias for alias in statement.names if is_ours(statement, alias)]
    up = module.parent(statement) if ours else None
    if up is None or not (_holds_more(up, statement) or _test_for_import_alone(module, statement)):
        return []
    while up is not None and not isinstance(up, (ast.Module, *FUNCTIONS)):
        if isinstance(up, (ast.Try, ast.TryStar)):
            return []
        up = module.parent(up)
    return ours


def _holds_more(up: ast.AST, statement: ast.stmt) -> bool:
    return any(statement in block and not all(map(_is_import, block)) for block in own_blocks(up))


def _test_for_import_alone(module: SemanticModel, statement: ast.stmt) -> ast.If | None:
    """Return the `if` in a function that asks a name, or an attribute of one, to run this import and nothing else."""
    up = module.parent(statement) if module.function(statement) is not None else None
    if not isinstance(up, ast.If) or up.body != [statement] or up.orelse or chain_of(up.test) is None:
        return None
    if "#" in module.text(up):
        return None
    around = module.parent(up)
    is_beside = around is not None and any(up in block and len(block) > 1 for block in own_blocks(around))
    return up if is_beside else None


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _is_ours(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    if isinstance(statement, ast.ImportFrom):
        full = f"{statement.module}.{alias.name}" if not statement.level else ""
        return full.startswith(_OURS)
    return alias.name.startswith(_OURS) and alias.asname is not None


def _is_of_torch(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return names_torch(statement)
    return alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is not None)


@query
def _used(module: SemanticModel) -> set[str]:
    return {n.id for n in module.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _drop(module: SemanticModel, statement: ast.Import | ast.ImportFrom, dead: list[ast.alias]) -> Iterator[Edit]:
    kept = [a for a in statement.names if a not in dead]
    start, end = module.span(statement)
    if not kept:
        yield from _drop_line(module, start, end)
        return
    parts = [module.text(a) for a in kept]
    first, last = module.span(statement.names[0])[0], module.span(statement.names[-1])[1]
    between = module.source.utf8[first:last]
    if b"#" in between or (b"\n" in between and b"\\" not in between):
        yield from _drop_each(module, statement, dead)
    else:
        yield Edit(first, last, ", ".join(parts))


def _drop_each(module: SemanticModel, statement: ast.Import | ast.ImportFrom, dead: list[ast.alias]) -> Iterator[Edit]:
    """Yield edits that drop names of a parenthesised list, each with its comma and, if it is alone, its line."""
    text = module.source.utf8
    for alias in dead:
        start, end = module.span(alias)
        while text[end : end + 1] in (b",", b" ", b"\t"):
            end += 1
        line = module.source.offset(alias.lineno, 0)
        if not text[line:start].strip() and text[end : end + 1] in (b"\n", b"\r"):
            start, end = line, end + (2 if text[end : end + 2] == b"\r\n" else 1)
        yield Edit(start, end, "")


def _drop_line(module: SemanticModel, start: int, end: int) -> Iterator[Edit]:
    text = module.source.utf8
    line_start = text.rfind(b"\n", 0, start) + 1
    stop = end
    while stop < len(text) and text[stop : stop + 1] in (b" ", b"\t"):
        stop += 1
    if text[line_start:start].strip() or text[stop : stop + 1] not in (b"\n", b"\r", b""):
        if text[stop : stop + 1] == b";":
            while text[stop : stop + 1] in (b";", b" "):
                stop += 1
            yield Edit(start, stop, "")
        return  # a comment or other code shares the line: it stays
    stop = _next_line(text, stop)
    above = text[:line_start].rstrip(b" \t\r\n")
    if above.endswith(b":") or text[len(above) : line_start].count(b"\n") > 1:  # no two blank lines where one was
        following = _next_line(text, stop)
        stop = stop if text[stop:following].strip() else following
    yield Edit(line_start, min(stop, len(text)), "")


def _next_line(text: bytes, at: int) -> int:
    """Return where the line after this one begins, or where the text ends."""
    return text.find(b"\n", at) + 1 or len(text)


def imports_helper(module: SemanticModel) -> bool:
    """Return whether the file binds the helper already."""
    return helper_bound(module) is not None


def insertion(
    module: SemanticModel, statements: list[str], first_use: int, before: bool = False, after: ast.stmt | None = None
) -> Edit:
    """Insert imports after the last top-level import before `first_use`, else before the first statement.

    `before`: at the head of that import's line instead. `after`: after this statement instead.
    """
    source = module.source
    text = "".join(s.replace("\n", source.newline) + source.newline for s in statements)
    place = after or _anchor(module.tree, module, first_use)
    if place is not None and (at := _beside(module, place, first_use)) is not None:
        lines = (s.rpartition("\n")[2].lstrip() for s in statements)  # of a `try`, what a script needs
        return Edit(at, at, "".join(f"{line}; " for line in lines))
    shared = place is not None and source.position(first_use)[0] == place.end_lineno and first_use < len(source.utf8)
    if place is None or ((before or shared) and isinstance(place, (ast.Import, ast.ImportFrom))):
        at = source.offset(module.line_above(place or module.tree.body[0]), 0)
        return Edit(at, at, text)
    if text.startswith("try:") and isinstance(place, (ast.Import, ast.ImportFrom)):
        text = source.newline + text  # isort wants a blank line below imports
    end_line = place.end_lineno or place.lineno
    at = source.line_starts[end_line] if end_line < len(source.line_starts) else len(source.utf8)
    if at == len(source.utf8) and not source.utf8.endswith((b"\n", b"\r")):
        return Edit(at, at, source.newline + text.removesuffix(source.newline))
    return Edit(at, at, text)


def _beside(module: SemanticModel, place: ast.stmt, first_use: int) -> int | None:
    """Return where the statement after `place` begins, if the import must stand between the two on one line.

    It must if the line's statements go on over the next line, or if the statement is the first use and `place` has to
    be first in the file.
    """
    last = place.end_lineno or place.lineno
    after = next((s for s in module.tree.body if s.lineno == last and s.col_offset > place.col_offset), None)
    if after is None or isinstance(after, (*FUNCTIONS, ast.ClassDef)):
        return None
    same_line = [s for s in module.tree.body if s.lineno == last]
    goes_on = any((s.end_lineno or 0) > last for s in same_line)
    is_head = isinstance(place, ast.Expr) or (isinstance(place, ast.ImportFrom) and place.module == "__future__")
    uses = is_head and module.source.position(first_use)[0] == last and first_use < len(module.source.utf8)
    return module.span(after)[0] if goes_on or uses else None


def _anchor(tree: ast.Module, module: SemanticModel, first_use: int) -> ast.stmt | None:
    place: ast.stmt | None = None
    documented = ast.get_docstring(tree, clean=False) is not None
    for i, node in enumerate(tree.body):
        if module.span(node)[0] > first_use or (place and isinstance(node, (*FUNCTIONS, ast.ClassDef))):
            break  # imports below the first definition are late ones
        if (i == 0 and documented) or isinstance(node, (ast.Import, ast.ImportFrom)):
            place = node
    return place


@query
def import_below_path_edit(module: SemanticModel, root: str) -> ast.stmt | None:
    """Return the first top-level statement that imports from the folder `root`, if sys.path is edited above it.

    The file does so itself, or imports a neighbour that does, or a `with` gives its own imports another folder.
    """
    if not root:
        return None
    index, path = module.facts.index, str(module.path)
    may_edit = any(word in module.source.text for word in ("sys", "addsitedir"))
    is_edited, is_there = False, os.path.dirname(path) == root  # the folder is found without more
    for statement in module.tree.body:
        is_there = is_there or _imports_from(index, path, statement, root)
        if not is_there and any(_imports_from(index, path, node, root) for node in _given_a_folder(statement)):
            return statement
        edits = (n for n in ast.walk(statement) if may_edit and _edits_path(module, n))
        edited = min((module.span(node)[0] for node in edits), default=None)
        if (is_edited or edited is not None) and not isinstance(statement, FUNCTIONS):
            named = (node for node in ast.walk(statement) if _imports_from(index, path, node, root))
            if any(is_edited or module.span(node)[0] > (edited or 0) for node in named):
                return statement  # `if __package__ is None:` may add the folder and import from it, too
        is_edited = is_edited or edited is not None or _imports_setter(index, path, statement)
    return None


def _given_a_folder(statement: ast.stmt) -> list[ast.stmt]:
    """Return the body of a `with` that may let its imports find more, which `suppress(ImportError)` does not."""
    if not isinstance(statement, ast.With):
        return []
    calls = [item.context_expr for item in statement.items if isinstance(item.context_expr, ast.Call)]
    return statement.body if calls and all(last_name(call.func) != "suppress" for call in calls) else []


def _imports_setter(index: ImportIndex, path: str, statement: ast.stmt) -> bool:
    """Return whether a statement imports a neighbour of the file that speaks of sys.path, as `_init_paths` does."""
    names = statement.names if isinstance(statement, ast.Import) else ()
    return any(index.neighbour_for_paths(path, tuple(alias.name.split("."))) for alias in names)


def _edits_path(module: SemanticModel, node: ast.AST) -> bool:
    if not isinstance(node, (ast.Attribute, ast.Name)):
        return False
    name = module.resolver.dotted(chain_of(node) or "", module.scopes.module)
    return name in ("sys.path", "site.addsitedir")


def _imports_from(index: ImportIndex, path: str, node: ast.AST, root: str) -> bool:
    match node:
        case ast.Import(names):
            dotted = [tuple(alias.name.split(".")) for alias in names]
        case ast.ImportFrom(str(name), names, 0):
            dotted = [(*name.split("."), *more) for more in ((), *((alias.name,) for alias in names))]
        case _:
            return False
    found = (index.locate(path, 0, name) for name in dotted)
    return any(target is not None and target[1] == root for target in found)


@query
def first_import_time_use(module: SemanticModel, name: str) -> int:
    """Return the offset of the first use of `name` at import time, also through functions, or the file's end."""
    uses = [_uses(statement) for statement in module.tree.body]
    users: dict[str, list[str]] = {}  # the functions in whose statements a name stands
    for node, (now, later) in zip(module.tree.body, uses, strict=True):
        if isinstance(node, FUNCTIONS):
            for used in now | later:
                users.setdefault(used, []).append(node.name)
    names, todo = {name}, [name]
    while todo:
        found = set(users.get(todo.pop(), ())) - names
        names |= found
        todo += found
    at_import = (node for node, (now, _) in zip(module.tree.body, uses, strict=True) if not names.isdisjoint(now))
    first = next(at_import, None)
    return len(module.source.utf8) if first is None else module.span(first)[0]


def _uses(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the names that a top-level statement uses at once, and those in the body of the function that it is."""
    later = statement.body if isinstance(statement, FUNCTIONS) else []
    fields = (value for _, value in ast.iter_fields(statement) if value is not later)
    return _names(node for value in fields for node in (value if isinstance(value, list) else [value])), _names(later)


def _names(nodes: Iterable[object]) -> set[str]:
    trees = (node for node in nodes if isinstance(node, ast.AST))
    return {n.id for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Name)}


def with_import(module: SemanticModel, statement: str, torch: bool = False, root: str = "") -> tuple[Edit, ...]:
    """Return the edits that bind the helper (and torch) in a rewritten file; none if nothing is to be bound.

    `root` is the folder that has to be on sys.path: where the file puts it there, the import stands below.
    """
    if statement and not torch and not imports_helper(module):
        edits = _beside_torch(module, statement)
        if edits is not None:
            syntax_tree(compose(module.source.utf8, edits).decode())
            return edits
    statements = ["import torch"] if torch else []
    if statement and not imports_helper(module):
        statements.append(statement)
    if not statements:
        return ()
    names = [spelled(module)["torch"]] if torch else []
    names += [spelled(module)["accel"]] if len(statements) > len(names) else []
    first_use = min(first_import_time_use(module, name) for name in names)
    last = _anchor(module.tree, module, first_use)
    folder = root or str(module.path.parent)
    edit = None
    if statements == [statement]:
        edit = in_order(module, statement, last, folder)
        edit = edit or beside_kin(module, statement, last, folder)
    edit = edit or insertion(module, statements, first_use)
    proof = import_below_path_edit(module, root) if statement in statements else None
    if proof is not None and _stands_above(module, edit, proof) and first_use > module.span(proof)[1]:
        last = proof.body[-1] if isinstance(proof, ast.With) else None
        inside = _after_import(module, last, statement) if last and _is_import(last) and not torch else None
        edit = inside or insertion(module, statements, first_use, after=proof)
    syntax_tree(compose(module.source.utf8, [edit]).decode())
    return (edit,)


def _stands_above(module: SemanticModel, edit: Edit, proof: ast.stmt) -> bool:
    """Return whether an import would stand above what proves the path; right before another import it is as good."""
    start = module.span(proof)[0]
    is_next = _is_import(proof) and not module.source.utf8[edit.start : start].strip()
    return edit.start <= start and not is_next


def with_class(path: Path, text: Source, code: str, facts: ProjectContext) -> bytes:
    """Return the text of a file that holds the helper as a class, with the imports that the class needs."""
    module = SemanticModel(path, text, facts)
    first_use = first_import_time_use(module, spelled(module)["accel"])
    last = _anchor(module.tree, module, first_use)
    edit = insertion(module, ["", "", *code.rstrip("\n").split("\n")], first_use)
    at = edit.end
    below = text.utf8[at:].lstrip(b" \t")
    gap = 2 - (len(below) - len(below.lstrip(b"\r\n"))) // len(text.newline)
    if last is not None and below.strip():
        edit = Edit(edit.start, edit.end, edit.text + text.newline * max(gap, 0))
    return with_imports(path, replace(text, utf8=compose(text.utf8, [edit])), code, facts)


def with_imports(path: Path, text: Source, code: str, facts: ProjectContext) -> bytes:
    """Return the text of a file with the imports that the class which it holds needs, and that it lacks."""
    for name, statement in helper_parts.imports_for(code).items():
        module = SemanticModel(path, text, facts)
        if name in module.scopes.module.names:
            continue
        held = next(s for s in module.tree.body if isinstance(s, ast.ClassDef) and s.name == facts.helper)
        first_use = module.span(held)[0]
        last = _anchor(module.tree, module, first_use)
        edit = in_order(module, statement, last, "") or insertion(module, [statement], first_use)
        text = replace(text, utf8=compose(text.utf8, [edit]))
    return text.utf8


def _beside_torch(module: SemanticModel, statement: str) -> tuple[Edit, ...] | None:
    """Return the edits that import the helper where the file imports torch, if the file needs no torch to be imported.

    The helper imports torch: at the head of such a file it would be needed at once. None: the file's head will do.
    """
    imports = [s for s in module.scopes.statements if isinstance(s, (ast.Import, ast.ImportFrom)) and of_torch(s)]
    lazy = [s for s in imports if not isinstance(module.parent(s), ast.Module) and not for_types(module, s)]
    if any(isinstance(module.parent(s), ast.Module) for s in imports) or _imported_at_head(module.original):
        return None
    if not lazy and not (imports and _imported_lazily(module.original)):
        return None
    know_parents(module)
    name = spelled(module)["accel"]
    uses = sorted((n for n in module.nodes if isinstance(n, ast.Name) and n.id == name), key=module.span)
    guarded = next((s for s in lazy if module.function(s) is None), None)
    below = None if guarded is None else _after_import(module, _last_of_its_module(module, guarded), statement)
    if guarded is not None and below is None:
        return None
    edits = [below] if below and uses and below.start <= module.span(uses[-1])[0] else []
    first: dict[Function, ast.Name] = {}
    for use in uses:
        if below and below.start <= module.span(use)[0]:
            continue
        around: list[Function] = [*module.enclosing(use, *FUNCTIONS)]  # type: ignore[list-item]
        if below and not any(module.function(s) in around for s in lazy):
            return None
        if not around or not _is_deferred(use, around[-1]):
            return None
        first.setdefault(next((f for f in around if any(module.function(s) is f for s in lazy)), around[-1]), use)
    for function, use in first.items():
        if any(name in (a.asname or a.name for a in s.names) for s in _imports_in(module, function)):
            continue
        before = (s for s in lazy if module.function(s) is function and module.span(s) < module.span(use))
        place = next(before, None)
        edit = _at_head(module, function, statement) if place is None else _after_import(module, place, statement)
        if edit is None:
            return None
        edits.append(edit)
    return tuple(sorted(edits))


def _imported_at_head(original: bytes) -> bool:
    """Return whether a file imported torch whenever it was loaded, before its import of torch was dropped."""
    return any(isinstance(s, (ast.Import, ast.ImportFrom)) and of_torch(s) for s in syntax_tree(original).body)


def _imported_lazily(original: bytes) -> bool:
    """Return whether a function of the file imported torch, before its import of torch.cuda was dropped."""
    functions = (node for node in ast.walk(syntax_tree(original)) if isinstance(node, FUNCTIONS))
    inside = (node for function in functions for node in ast.walk(function))
    return any(isinstance(node, (ast.Import, ast.ImportFrom)) and of_torch(node) for node in inside)


def _last_of_its_module(module: SemanticModel, first: ast.Import | ast.ImportFrom) -> ast.Import | ast.ImportFrom:
    """Return the last of the imports on the lines below that take from the same module, which cannot fail any more."""
    block, at = module.blocks.place(first)
    last = first
    for node in block[at + 1 :]:
        if not isinstance(node, ast.ImportFrom) or node.lineno != (last.end_lineno or 0) + 1:
            break
        if isinstance(first, ast.Import) or node.module != first.module:
            break
        last = node
    return last


def _is_deferred(node: ast.Name, function: Function) -> bool:
    """Return whether a name lies in the body of a function, not in its decorators or defaults."""
    inside = function.body[0]
    return (node.lineno, node.col_offset) >= (inside.lineno, inside.col_offset)


def of_torch(statement: ast.Import | ast.ImportFrom) -> bool:
    """Return whether an import needs torch: its own modules, and torchvision, torchaudio and the like."""
    if isinstance(statement, ast.ImportFrom):
        return not statement.level and (statement.module or "").startswith("torch")
    return any(alias.name.startswith("torch") for alias in statement.names)


def _imports_in(module: SemanticModel, function: Function) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in module.scopes.statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and module.function(statement) is function:
            yield statement


def _after_import(module: SemanticModel, place: ast.stmt, statement: str) -> Edit | None:
    """Return the edit that adds lines after an import, in its block; None if it shares its line with other code."""
    source = module.source
    start, end = module.span(place)
    line = source.offset(place.lineno, 0)
    indent = source.utf8[line:start]
    after = place.end_lineno or place.lineno
    stop = source.line_starts[after] if after < len(source.line_starts) else len(source.utf8)
    rest = source.utf8[end:stop].strip()
    if indent.strip() or (rest and not rest.startswith(b"#")) or stop == len(source.utf8):
        return None
    return Edit(stop, stop, _indented(source, statement, indent))


def _at_head(module: SemanticModel, function: Function, statement: str) -> Edit | None:
    """Return the edit that adds lines at the head of a function's body; None if the body shares the `def`'s line."""
    has_doc = ast.get_docstring(function, clean=False) is not None
    first = function.body[1:][0] if has_doc and len(function.body) > 1 else function.body[0]
    indent = module.source.line_at(module.source.offset(first_line(first), 0))[: first.col_offset]
    at = module.source.offset(module.line_above(first), 0)
    return None if indent.strip() else Edit(at, at, _indented(module.source, statement, indent))


def _indented(source: Source, statement: str, indent: bytes) -> str:
    return "".join(indent.decode() + line + source.newline for line in statement.split("\n"))
