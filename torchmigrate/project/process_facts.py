"""Find what files do that share a process or a run: CUDA default tensor types, old TF32 switches, nccl."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from torchmigrate.base import system
from torchmigrate.base.system import syntax_tree
from torchmigrate.project.helper_file import NAMES
from torchmigrate.project.helper_parts import compiles, defers_cuda, forms_groups
from torchmigrate.project.import_graph import BACKENDS, COMPILING, DEFERRING, GROUPING, SETTER, TF32, Import, reached
from torchmigrate.source.encoding import HELPER_MARK
from torchmigrate.syntax.resolver import Resolver, argument_of, chain_of, last_name
from torchmigrate.syntax.scope import Scope, build_scopes
from torchmigrate.torch_api.backends import COLLECTIVES, OF_HELPER
from torchmigrate.torch_api.libraries import LAUNCHERS
from torchmigrate.torch_api.names import TYPE

if TYPE_CHECKING:
    from torchmigrate.project.import_graph import ImportIndex


_SETTER = SETTER.decode()
_DEVICE = re.compile(  # a prefilter: a file without a match is not parsed
    rb"\bset_default_device\(|^[ \t]*with (?:[^\n]*, )?(?:self\.|th\.|torch\.|accel\.)?device[(:,]", re.M
)


@dataclass(frozen=True, slots=True)
class UnderDefault:
    """The files that share a process with a call that makes a CUDA tensor type the default.

    `devices` are those that also share a process with a default device.
    """

    files: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()


def files_under_default(index: ImportIndex) -> UnderDefault:
    """Return the files that run with a CUDA tensor type as the default."""
    setters = {path for path in index.holding(SETTER) if makes_default(_read(path, index))}
    if not setters:
        return UnderDefault()
    under = together(setters, index)
    devices = {path for path in under if sets_device(_read(path, index))}
    return UnderDefault(frozenset(under), frozenset(together(devices, index)))


def _read(path: str, index: ImportIndex) -> bytes:
    """Return the text of a Python file; b"" for other files, and for the runtime helper, which has such calls."""
    raw = index.read_or_nothing(path) if path.endswith(".py") else b""
    return b"" if raw.startswith(HELPER_MARK) else raw


@lru_cache(maxsize=4)
def sets_device(raw: bytes) -> bool:
    """Return whether a file sets a default device, which `torch.tensor` follows and `torch.Tensor` does not."""
    if _DEVICE.search(raw) is None:
        return False
    try:
        nodes = ast.walk(syntax_tree(raw))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(_sets_device(node) for node in nodes)


_DEVICES = {"device", *(f"{owner}.device" for owner in ("self", "th", "torch", *NAMES))}


def _sets_device(node: ast.AST) -> bool:
    """Return whether a node is a call of `set_default_device`, or a `with` that enters a device."""
    match node:
        case ast.Call(ast.Name(name) | ast.Attribute(_, name)):
            return name == "set_default_device"
        case ast.With(items):
            entered = (i.context_expr for i in items)
            return any(chain_of(e.func if isinstance(e, ast.Call) else e) in _DEVICES for e in entered)
    return False


def together(files: set[str], index: ImportIndex, with_packages: bool = False) -> set[str]:
    """Return the files that may share a process with one of `files`: all that a common importer imports.

    Python loads the `__init__.py` files above a module, too: they count only `with_packages`.
    """
    imported: dict[str, set[str]] = {}
    for target, uses in index.importers.items():
        for use in uses:
            imported.setdefault(use.importer, set()).add(target)
    for path in index.files if with_packages else ():
        if (package := _package_of(path, index)) is not None:
            imported.setdefault(path, set()).add(package)
    importers: dict[str, set[str]] = {}
    for path, targets in imported.items():
        for target in targets:
            importers.setdefault(target, set()).add(path)
    return _reachable(_reachable(files, importers), imported)


def _package_of(path: str, index: ImportIndex) -> str | None:
    """Return the `__init__.py` that Python loads before a module, or None."""
    folder, name = os.path.split(path)
    above = os.path.dirname(folder) if name == "__init__.py" else folder
    return system.joined(above, "__init__.py") if index.is_package(above) else None


def _reachable(files: set[str], edges: dict[str, set[str]]) -> set[str]:
    found, todo = set(files), list(files)
    while todo:
        more = edges.get(todo.pop(), set()) - found
        found |= more
        todo += more
    return found


@lru_cache(maxsize=4)
def makes_default(raw: bytes) -> bool:
    """Return whether a file makes a CUDA tensor type the default, by torch's function or the helper's."""
    if SETTER not in raw:
        return False
    try:
        scopes = build_scopes(syntax_tree(raw))
    except (SyntaxError, ValueError, RecursionError):
        return False
    for statement in scopes.statements:
        if hasattr(statement, "body"):
            continue
        calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call))
        if any(is_cuda_default(call, scopes.scope_of[statement], Resolver()) for call in calls):
            return True
    return False


def is_cuda_default(call: ast.Call, scope: Scope, resolver: Resolver) -> bool:
    """Return whether a call makes a CUDA tensor type the default."""
    chain = chain_of(call.func) or ""
    if chain.rpartition(".")[0] in NAMES and chain.endswith(f".{_SETTER}"):
        return True
    if qualified(chain, scope, resolver) != f"torch.{_SETTER}" or not call.args:
        return False
    return _names_cuda_type(call.args[0], scope, resolver)


def qualified(chain: str, scope: Scope, resolver: Resolver) -> str:
    """Resolve a name as if `import torch` were there, as the migration adds it to files that lack it."""
    unseen = chain.startswith("torch.") and scope.find("torch") is None
    return resolver.dotted(chain, scope) or (chain if unseen else "")


def _names_cuda_type(value: ast.expr, scope: Scope, resolver: Resolver, depth: int = 3) -> bool:
    """Return whether an expression contains a CUDA tensor type, following at most `depth` assignments."""
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TYPE.fullmatch(node.value):
            return True
        chain = chain_of(node) if isinstance(node, (ast.Attribute, ast.Name)) else None
        if chain is None:
            continue
        name = qualified(chain, scope, resolver)
        if (name.startswith("torch.cuda.") and name.endswith("Tensor")) or chain in _HELPERS:
            return True
        found = scope.find(node.id) if isinstance(node, ast.Name) and depth else None
        values = [b.value for b in found[1] if b.value is not None] if found else []
        if found and any(_names_cuda_type(v, found[0], resolver, depth - 1) for v in values):
            return True
    return False


_HELPERS = {f"{name}.tensor_type" for name in NAMES}


Resolve = Callable[[ast.AST], str | None]
OLD = frozenset(
    {
        "torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32",
        "torch.set_float32_matmul_precision", "torch.get_float32_matmul_precision",
    }
)  # fmt: skip


def old_precision_by_file(index: ImportIndex) -> Mapping[str, tuple[str, ast.expr]]:
    """Return for each file the first old TF32 switch, as its path and node, that shares a process with it."""
    files = set[str]().union(*map(index.holding, TF32))
    found = {path: place for path in sorted(files) if (place := _first_old(path, index)) is not None}
    beside: dict[str, tuple[str, ast.expr]] = {}
    for path, place in found.items():
        for other in together({path}, index):
            beside.setdefault(other, (path, place))
    return beside


def _first_old(path: str, index: ImportIndex) -> ast.expr | None:
    """Return the first old TF32 switch of a file, or None."""
    try:
        raw = index.read(path)
    except OSError:
        return None
    if raw.startswith(HELPER_MARK):
        return None
    try:
        scopes = build_scopes(syntax_tree(raw))
    except (SyntaxError, ValueError, RecursionError):
        return None
    resolver = Resolver()
    for statement in scopes.statements:
        scope = scopes.scope_of[statement]
        found = first_old(statement, lambda node, scope=scope: qualified(chain_of(node) or "", scope, resolver))  # type: ignore[misc]
        if found is not None:
            return found
    return None


def first_old(statement: ast.stmt, resolve: Resolve) -> ast.expr | None:
    """Return the first old TF32 switch in the statement's own expressions, nested statements excluded, or None."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Attribute, ast.Name)) and resolve(node) in OLD:
            return node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return None


def project_starts_nccl(index: ImportIndex) -> bool:
    """Return whether a file of the project starts process groups with nccl, or with the helper's backend."""
    return any(
        _file_starts_nccl(_read(path, index)) for path in sorted(set[str]().union(*map(index.holding, BACKENDS)))
    )


def starter_of_given_backends(index: ImportIndex) -> str:
    """Return a file that starts process groups with a backend that it is given, or "" if none or a library does so."""
    if any(item.name == "init_dist" and _top(item) in _OPENMMLAB for items in index.imports.values() for item in items):
        return ""
    return next((path for path in sorted(index.holding(_START.encode())) if _starts_given(_read(path, index))), "")


@lru_cache(maxsize=256)
def _starts_given(raw: bytes) -> bool:
    try:
        calls = [node for node in ast.walk(syntax_tree(raw)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError):
        return False
    given = (argument_of(call, "backend", 0) for call in calls if last_name(call.func) == _START)
    return any(isinstance(backend, (ast.Name, ast.Attribute, ast.Subscript)) for backend in given)


_START = "init_process_group"
_OPENMMLAB = ("mmcv", "mmengine")  # whose `init_dist` hands a backend to torch as it is


def files_compiled(index: ImportIndex) -> frozenset[str]:
    """Return the files that may share a process with code which compiles functions (torch.compile), or may."""
    return _in_programs_with(index, COMPILING, compiles, (b"torch.compile", b"dynamo"))


def files_deferring(index: ImportIndex) -> frozenset[str]:
    """Return the files that may share a process with code which has to run before CUDA starts."""
    return _in_programs_with(index, DEFERRING, defers_cuda, (b"CUDA_VISIBLE_DEVICES", b"multiprocessing"))


def files_in_groups(index: ImportIndex) -> frozenset[str]:
    """Return the files that may share a process with code which makes the process one of a group."""
    return _in_programs_with(index, GROUPING, forms_groups, GROUPING)


def _in_programs_with(
    index: ImportIndex, words: Iterable[bytes], does: Callable[[bytes], bool], in_notebooks: Iterable[bytes]
) -> frozenset[str]:
    """Return the files that may share a process with a module which does something, or a notebook with such a word.

    A module without any of `words` does not.
    """
    found = {path for path in set[str]().union(*map(index.holding, words)) if does(_read(path, index))}
    notebooks = ((path, index.read_or_nothing(path)) for path in index.files if path.endswith(".ipynb"))
    found |= {path for path, raw in notebooks if any(word in raw for word in in_notebooks)}
    return frozenset(together(found, index, with_packages=True)) if found else frozenset()


def files_sent_off(index: ImportIndex) -> frozenset[str]:
    """Return the files whose results may go to other machines: a program that starts jobs there imports them."""
    starting = (path for path, imports in index.imports.items() if any(_top(i) in LAUNCHERS for i in imports))
    return frozenset(reached(starting, index.imported_by))


def _top(item: Import) -> str:
    return "" if item.level else item.module.partition(".")[0]


def project_has_collectives(index: ImportIndex) -> bool:
    """Return whether a file of the project names the backends of other accelerators itself, beside nccl."""
    return any(map(_names_collectives, (_read(p, index) for p in sorted(index.holding(b"nccl")))))


@lru_cache(maxsize=256)
def _names_collectives(raw: bytes) -> bool:
    """Return whether code names a backend such as xccl; the list that this tool writes does not count."""
    if HELPER_MARK in raw or not any(name.encode() in raw for name in COLLECTIVES):
        return False
    try:
        todo: list[ast.AST] = [syntax_tree(raw)]
    except (SyntaxError, ValueError, RecursionError):
        return False
    while todo:
        node = todo.pop()
        match node:
            case ast.Tuple(elts) if [getattr(e, "value", None) for e in elts] == ["nccl", *OF_HELPER]:
                continue
            case ast.Constant(str(text)) if text in COLLECTIVES:
                return True
        todo += ast.iter_child_nodes(node)
    return False


def _file_starts_nccl(raw: bytes) -> bool:
    try:
        return starts_nccl(ast.walk(syntax_tree(raw)))
    except (SyntaxError, ValueError, RecursionError):
        return False


def starts_nccl(nodes: Iterable[ast.AST]) -> bool:
    """Return whether code gives "nccl" to something called a backend, or asks the helper for a backend."""
    return any(
        _call_starts_nccl(node)
        if isinstance(node, ast.Call)
        else any(name.lower().endswith("backend") and _may_be_nccl(value) for name, value in _given(node))
        for node in nodes
    )


def _call_starts_nccl(call: ast.Call) -> bool:
    """Return whether a call starts nccl: `dist_backend()`, `init_process_group("nccl")`, or a `--backend` option."""
    name = last_name(call.func)
    if name in ("dist_backend", "init_process_group"):
        return name == "dist_backend" or any(map(_may_be_nccl, call.args[:1]))
    texts = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
    default = next((k.value for k in call.keywords if k.arg == "default"), None)
    return default is not None and _may_be_nccl(default) and any(text.endswith("backend") for text in texts)


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that a node gives a value to, with the value; not parameters, whose defaults stay."""
    match node:
        case ast.Assign(targets, value):
            yield from ((_target(target), value) for target in targets)
        case ast.AnnAssign(target, value=ast.expr() as value):
            yield _target(target), value
        case ast.keyword(str(name), value):
            yield name, value
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            yield from ((str(k.value), value) for k, value in pairs if isinstance(k, ast.Constant))


def _target(target: ast.expr) -> str:
    match target:
        case ast.Subscript(_, ast.Constant(str(name))):
            return name
    return last_name(target)


def _may_be_nccl(value: ast.expr) -> bool:
    """Return whether a value is "nccl", on its own or as one of the values of a choice."""
    match value:
        case ast.IfExp(_, body, orelse):
            return _may_be_nccl(body) or _may_be_nccl(orelse)
        case ast.BoolOp(_, values):
            return any(map(_may_be_nccl, values))
        case ast.Attribute(_, "NCCL"):
            return True
    return isinstance(value, ast.Constant) and str(value.value).lower().startswith("nccl")
