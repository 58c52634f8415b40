"""The project's own device helper (`helper = "mypkg.device"`): what it offers. It is read, never imported."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base import safe_read
from torchmigrate.base.errors import UserError, did_you_mean
from torchmigrate.project.helper_file import public, runtime_source

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings


# of functions, beside the module's own that define one
_MAKERS = {"partial", "functools.partial", "cache", "functools.cache", "SimpleNamespace", "types.SimpleNamespace"}


@dataclass(frozen=True, slots=True)
class ProjectHelper:
    """`functions`: the vendored helper's names to the project's, where they differ. `offers`: what can be called, with
    its parameters where they are known."""

    name: str
    path: str
    functions: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, ast.arguments | None] = field(default_factory=dict)

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


def load(settings: Settings, files: Sequence[str]) -> ProjectHelper | None:
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
        offers = _offers(ast.parse(safe_read.read(path)))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = getattr(error, "lineno", None) or 1
        what = getattr(error, "msg", None) or getattr(error, "strerror", None) or error
        raise UserError(f"{path}:{at}: {what}", "`helper` names this file: it must be readable Python") from None
    _check_map(settings.helper_map, name, offers)
    return ProjectHelper(name, path, settings.helper_map, offers)


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
