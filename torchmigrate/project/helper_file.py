"""The runtime helper as a file, and the project's own helper (`helper = "mypkg.device"`); neither is imported."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base import file_io, system
from torchmigrate.base.system import syntax_tree
from torchmigrate.base.text import UserError, did_you_mean
from torchmigrate.source.encoding import HELPER_MARK

if TYPE_CHECKING:
    from torchmigrate.config.settings import Settings


NAMES = ("accel", "torch_accel", "torchmigrate_accel")
PACKAGED = "torchmigrate.runtime"


def helper_name(files: Iterable[str], texts: Iterable[bytes], overlay: Mapping[str, bytes] | None = None) -> str:
    """Return the vendored helper's module name: an earlier one's, also if it is gone, else an unused one of NAMES."""
    known = overlay or {}
    stems: dict[str, list[str]] = {}  # casefolded, as Accel.py is accel.py on some file systems
    for path in (f for f in files if f.endswith(".py")):
        stems.setdefault(_module_name(path).casefold(), []).append(path)
    for name in NAMES:
        if any(is_ours(Path(p), known.get(p)) for p in stems.get(name, ())):
            return name
    words = {name: re.compile(rb"(?<![\w\"'.-])" + name.encode() + rb"(?![\w\"'-])") for name in NAMES}
    texts = list(texts)
    for name in NAMES:  # a copy that was removed
        if name not in stems and any(name.encode() in text and _is_called(text, name) for text in texts):
            return name
    for name in NAMES:
        if name not in stems and not any(name.encode() in text and words[name].search(text) for text in texts):
            return name
    return NAMES[-1]


def _is_called(text: bytes, name: str) -> bool:
    from torchmigrate.project import helper_parts  # the hook asks for the names of helpers alone

    return helper_parts.is_called(text, name)


def _module_name(path: str) -> str:
    name = os.path.basename(path)
    return os.path.basename(os.path.dirname(path)) if name == "__init__.py" else name.removesuffix(".py")


def is_ours(path: Path, text: bytes | None = None) -> bool:
    """Return whether torchmigrate wrote this helper; `text` is its overlay, if it has one."""
    if text is not None:
        return text.startswith(HELPER_MARK)
    try:
        return file_io.head(path, len(HELPER_MARK)) == HELPER_MARK
    except OSError:
        return False


def runtime_source() -> bytes:
    """Return the runtime helper with all its functions, as it is vendored where all are called."""
    from torchmigrate.project import helper_parts

    return helper_parts.vendored(helper_parts.everything())


# callables that return functions, beside those of the module's own functions which contain a nested one
_MAKERS = {"partial", "functools.partial", "cache", "functools.cache", "SimpleNamespace", "types.SimpleNamespace"}


@dataclass(frozen=True, slots=True)
class ProjectHelper:
    """The project's own helper module.

    `functions` maps names of the runtime helper to the module's, if they differ; `offers` are the names that can be
    called, with their parameters if known.
    """

    name: str
    path: str
    functions: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, ast.arguments | None] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """Return the last part of the module's dotted name."""
        return self.name.rpartition(".")[2]


def load(settings: Settings, files: Sequence[str]) -> ProjectHelper | None:
    """Return the helper that the settings name, or None; raises UserError if it cannot be used."""
    name = settings.helper
    if not name:
        if settings.helper_map:
            raise UserError("`helper-map` is of no use without `helper`", 'name the module: helper = "mypkg.device"')
        return None
    path = _locate_module(name, settings.root, files)
    if path is None:
        modules = {".".join(system.dotted(f, settings.root)).removesuffix(".py") for f in files}
        hint = did_you_mean(name, modules) or "it is read from the project's files, and never imported"
        raise UserError(f"`helper` names {name!r}: the project has no such module", hint)
    try:
        offers = _callables(syntax_tree(file_io.read(path)))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = getattr(error, "lineno", None) or 1
        what = getattr(error, "msg", None) or getattr(error, "strerror", None) or error
        raise UserError(f"{path}:{at}: {what}", "`helper` names this file: it must be readable Python") from None
    _check_map(settings.helper_map, name, offers)
    return ProjectHelper(name, path, settings.helper_map, offers)


def _locate_module(name: str, root: Path, files: Sequence[str]) -> str | None:
    """Return the path of the module `name`: at the root, in `src`, or else the shortest match among `files`."""
    *above, last = name.split(".")
    ends = (system.joined("", *above, f"{last}.py"), system.joined("", *above, last, "__init__.py"))
    known = [f"{root.resolve() / place}{end}" for place in ("", "src") for end in ends]
    inside = sorted((f for f in files if f.endswith(ends)), key=lambda f: (len(f), f))
    return next((p for p in (*known, *inside) if os.path.isfile(p)), None)


def _check_map(named: Mapping[str, str], name: str, offers: Mapping[str, object]) -> None:
    """Raise UserError if `helper-map` has an unknown function, or names one that the module lacks."""
    ours = _runtime_functions() if named else set()
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


def _runtime_functions() -> set[str]:
    """Return the public functions of the runtime helper, which rewrites may call."""
    from torchmigrate.project import helper_parts

    return {*helper_parts.everything()}


def _callables(tree: ast.Module) -> dict[str, ast.arguments | None]:
    return dict(_iterate_callables(tree))


def _iterate_callables(tree: ast.Module) -> Iterator[tuple[str, ast.arguments | None]]:
    """Yield the names of a module that can be called, with their parameters if known; constants cannot."""
    stack: list[ast.stmt] = list(reversed(tree.body))
    own = (f for f in stack if isinstance(f, ast.FunctionDef))
    makers = _MAKERS | {f.name for f in own if any(isinstance(s, ast.FunctionDef) for s in f.body)}
    while stack:
        match stack.pop():
            case ast.FunctionDef(name, args) as function:
                yield name, None if function.decorator_list else args
            case ast.ClassDef(name):
                yield name, None
            case ast.ImportFrom(module, names) if (module or "").partition(".")[0] != "torch":  # not torch.device
                yield from ((a.asname or a.name.partition(".")[0], None) for a in names)
            case ast.Assign(targets, ast.Name() | ast.Attribute() | ast.Lambda()):
                yield from ((t.id, None) for t in targets if isinstance(t, ast.Name))
            case ast.Assign(targets, ast.Call(func)) if ast.unparse(func) in makers:
                yield from ((t.id, None) for t in targets if isinstance(t, ast.Name))
            case ast.If() | ast.Try() as block:
                handlers = [s for h in getattr(block, "handlers", ()) for s in h.body]
                stack += reversed([*block.body, *handlers, *block.orelse])
