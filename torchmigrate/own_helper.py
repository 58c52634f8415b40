"""The project's own device helper (`helper = "mypkg.device"`): what it offers, never imported; how a file spells it."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate import regular
from torchmigrate.errors import UserError, did_you_mean
from torchmigrate.helper import public, runtime_source
from torchmigrate.memo import once
from torchmigrate.scope import Binding, chain_of

if TYPE_CHECKING:
    from torchmigrate.config import Settings
    from torchmigrate.module import Module


# of functions, beside the module's own that define one
_MAKERS = {"partial", "functools.partial", "cache", "functools.cache", "SimpleNamespace", "types.SimpleNamespace"}


@dataclass(frozen=True, slots=True)
class OwnHelper:
    """`functions`: the vendored helper's names to the project's, where they differ. `offers`: what can be called, with
    its parameters where they are known."""

    name: str
    path: str
    functions: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, ast.arguments | None] = field(default_factory=dict)

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


def load(settings: Settings, files: Sequence[str]) -> OwnHelper | None:
    """The helper that the settings name. Raises UserError where it, or what they say about it, is not there."""
    name = settings.helper
    if not name:
        if settings.helper_map:
            raise UserError("`helper-map` is of no use without `helper`", 'name the module: helper = "mypkg.device"')
        return None
    path = _locate(name, settings.root, files)
    if path is None:
        modules = {os.path.relpath(f, settings.root).removesuffix(".py").replace(os.sep, ".") for f in files}
        hint = did_you_mean(name, modules) or "it is read from the project's files, and never imported"
        raise UserError(f"`helper` names {name!r}: the project has no such module", hint)
    try:
        offers = _offers(ast.parse(regular.read(path)))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = getattr(error, "lineno", None) or 1
        what = getattr(error, "msg", None) or getattr(error, "strerror", None) or error
        raise UserError(f"{path}:{at}: {what}", "`helper` names this file: it must be readable Python") from None
    _check_map(settings.helper_map, name, offers)
    return OwnHelper(name, path, settings.helper_map, offers)


def _locate(name: str, root: Path, files: Sequence[str]) -> str | None:
    stem = name.replace(".", "/")
    ends = (f"{stem}.py", f"{stem}/__init__.py")
    known = [str(root.resolve() / place / end) for place in ("", "src") for end in ends]
    inside = sorted((f for f in files if f.endswith(tuple(f"/{end}" for end in ends))), key=lambda f: (len(f), f))
    return next((p for p in (*known, *inside) if os.path.isfile(p)), None)


def _check_map(named: Mapping[str, str], name: str, offers: Mapping[str, object]) -> None:
    ours = _vendored() if named else set()
    for key, theirs in named.items():
        if key not in ours:
            raise UserError(
                f"`helper-map` has `{key}`, which is none of the helper's functions",
                did_you_mean(key, sorted(ours)) or "docs/helper.md lists them",
            )
        if theirs not in offers:
            raise UserError(
                f"`helper-map` has {key} = {theirs!r}, and `{name}` has no such function",
                did_you_mean(theirs, offers) or "define it there, or name another",
            )


def _vendored() -> set[str]:
    """What rewrites may ask of a helper."""
    return {*public(runtime_source())}


def _offers(tree: ast.Module) -> dict[str, ast.arguments | None]:
    return dict(_names(tree))


def _names(tree: ast.Module) -> Iterator[tuple[str, ast.arguments | None]]:
    """What a module binds that can be called: a constant such as `device = torch.device("cuda")` cannot."""
    stack: list[ast.stmt] = list(reversed(tree.body))
    own = (f for f in stack if isinstance(f, ast.FunctionDef))
    makers = _MAKERS | {f.name for f in own if any(isinstance(s, ast.FunctionDef) for s in f.body)}
    while stack:
        match stack.pop():
            case ast.FunctionDef(name, args) as function:
                yield name, None if function.decorator_list else args
            case ast.ClassDef(name):
                yield name, None
            case ast.ImportFrom(module, names) if (module or "").partition(".")[0] != "torch":  # `torch.device` is none
                yield from ((a.asname or a.name.partition(".")[0], None) for a in names)
            case ast.Assign(targets, ast.Name() | ast.Attribute() | ast.Lambda()):
                yield from ((t.id, None) for t in targets if isinstance(t, ast.Name))
            case ast.Assign(targets, ast.Call(func)) if ast.unparse(func) in makers:
                yield from ((t.id, None) for t in targets if isinstance(t, ast.Name))
            case ast.If() | ast.Try() as block:
                handlers = [s for h in getattr(block, "handlers", ()) for s in h.body]
                stack += reversed([*block.body, *handlers, *block.orelse])


# ---- how a file spells it


HELPER = "accel"


@once
def spelled(module: Module) -> Mapping[str, str]:
    """How this file spells the helper and torch: `accel`, `torch`, and `accel.f` for what is called otherwise."""
    torch = {"torch": _bound_as(module, "torch".__eq__) or "torch"}
    if module.facts.own:
        return names(module, module.facts.own) | torch
    return {HELPER: helper_bound(module) or module.facts.helper} | torch


@once
def helper_bound(module: Module) -> str | None:
    """The name by which this file imports the helper already."""
    own = module.facts.own
    return bound(module, own) if own else _bound_as(module, module.facts.is_helper)


def helper_function(module: Module, node: ast.AST) -> str | None:
    """What the helper calls the function that `node` names, or None where it names none of the helper's."""
    chain = chain_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    if chain is None:
        return None
    plain = chain.partition(".") if chain.count(".") == 1 else ("", "", None)
    return _by_spelling(module).get(chain) or (plain[2] if plain[0] == spelled(module)[HELPER] else None)


@once
def _by_spelling(module: Module) -> Mapping[str, str]:
    return {called: name.removeprefix("accel.") for name, called in spelled(module).items() if "." in name}


def asks_accelerator(module: Module, for_what: str = "") -> bool:
    """Whether the file already uses `torch.accelerator` (or the given attribute of it)."""
    return any(f"{torch}.accelerator{for_what}" in module.source.text for torch in ("torch", spelled(module)["torch"]))


def _bound_as(module: Module, test: Callable[[str], bool]) -> str | None:
    for name, bindings in sorted(module.scopes.module.names.items(), key=lambda item: item[0] != "torch"):
        if all(isinstance(b.node, (ast.Import, ast.ImportFrom)) and _import_is(b, test) for b in bindings):
            return name
    return None


def _import_is(binding: Binding, test: Callable[[str], bool]) -> bool:
    found = [binding.qualified] if binding.qualified else []
    if binding.local:
        found.append(".".join(filter(None, binding.local[1:])))
    return any(test(n) for n in found)


def import_statement(module: Module, own: OwnHelper) -> str:
    """The import of the project's helper for a file: relative as its others are, under an alias where the name is
    taken."""
    alias = spelled(module)["accel"]
    parent = _relative(own, module) or own.name.rpartition(".")[0]
    suffix = "" if alias == own.last else f" as {alias}"
    return f"from {parent} import {own.last}{suffix}" if parent else f"import {own.last}{suffix}"


def names(module: Module, own: OwnHelper) -> dict[str, str]:
    """`accel`, and `accel.f` for each function that is called something else here."""
    alias = bound(module, own) or _free(module, own)
    spelled = {f"accel.{ours}": f"{alias}.{theirs}" for ours, theirs in own.functions.items()}
    back = {theirs: ours for ours, theirs in own.functions.items()}
    for name, imported in imported_by(module, own):
        if imported and imported not in own.functions:
            spelled[f"accel.{back.get(imported, imported)}"] = name
    return {"accel": alias, **spelled}


def bound(module: Module, own: OwnHelper) -> str | None:
    """The name by which a file imports the helper already."""
    return next((name for name, imported in imported_by(module, own) if not imported), None)


def imported_by(module: Module, own: OwnHelper) -> Iterator[tuple[str, str]]:
    """Names that mean the helper (""), or one of its functions, wherever they stand in the file."""
    for name, bindings in module.scopes.module.names.items():
        meant = {_meaning(module, own, b.node, b.qualified, b.local) for b in bindings}
        if len(meant) == 1 and None not in meant and _times_bound(module, name) == 1:
            yield name, str(meant.pop())


def _meaning(
    module: Module, own: OwnHelper, node: ast.AST, qualified: str | None, local: tuple[int, str, str] | None
) -> str | None:
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return None
    if qualified == own.name:
        return ""
    if local is None:
        return None
    level, home, name = local
    find, path = module.facts.index.find, str(module.path)
    inside = find(path, level, home, "") if home or level else None
    if inside == own.path:
        return name
    return "" if find(path, level, f"{home}.{name}".strip("."), "") == own.path else None


def _times_bound(module: Module, name: str) -> int:
    """How often a name is bound anywhere in the file, whichever scope it is in."""
    return sum(name == _bound_by(node) for node in module.nodes)


def _bound_by(node: ast.AST) -> str | None:
    match node:
        case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
            return name
        case ast.alias(name, asname):
            return asname or name.partition(".")[0]
        case ast.MatchMapping(rest=name):
            return name
    found = getattr(node, "name", None)  # functions, classes, handlers, patterns
    return found if isinstance(found, str) else None


def _free(module: Module, own: OwnHelper) -> str:
    """The module's own name, or `accel` where the file has something else of that name."""
    return module.facts.helper if module.scopes.module.stars or _times_bound(module, own.last) else own.last


def _relative(own: OwnHelper, module: Module) -> str:
    """`..utils`, in a package whose file imports its neighbours with dots; else ""."""
    index, here = module.facts.index, os.path.dirname(module.path)
    if not any(item.level for item in index.imports.get(str(module.path), ())):
        return ""
    stem = own.path.removesuffix("/__init__.py").removesuffix(".py")
    dots, folder = ".", here
    while f"{folder}/__init__.py" in index.files:
        if stem.startswith(f"{folder}/"):
            return dots + ".".join(stem[len(folder) + 1 :].split("/")[:-1])
        dots, folder = f"{dots}.", os.path.dirname(folder)
    return ""
