"""A project has programs, and a person would start some of them first: both are found by what files do."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchmigrate.config.settings import Settings
from torchmigrate.project import discovery, packaging
from torchmigrate.project.import_graph import ImportIndex, reached
from torchmigrate.syntax.resolver import last_name
from torchmigrate.syntax.scope import children, tree_of, walk

_STARTED = ("__init__", "__call__", "forward")  # what runs of a class whose name is called
_DEPTH = 3  # folders between the project's and a program, with its own name
_LEARNS = "backward"  # the method without which nothing is trained
_LOADED = (*packaging.BUILD_SCRIPTS, "hubconf.py")  # by tools that look for these names
_FITS = ("fit", "train")  # methods of trainers, which learn; `model.train()` takes no data


@dataclass(slots=True)
class _File:
    """One file calls these names: at its top, and in each function.

    `is_program`: it asks whether it is started. `acts`: it does something at its top. `demands` counts the arguments
    that its command line must have.
    """

    calls: set[str] = field(default_factory=set)
    functions: dict[str, set[str]] = field(default_factory=dict)
    is_program: bool = False
    acts: bool = False
    uses_torch: bool = False
    is_elsewhere: bool = False  # a runner of tests starts it, or `python -m`, as it imports with dots
    demands: int = 0

    def imports(self, module: str) -> None:
        top = module.partition(".")[0]
        self.uses_torch |= top == "torch"
        self.is_elsewhere |= top in ("pytest", "unittest")


class Programs:
    """The programs among the Python files of a project."""

    def __init__(self, index: ImportIndex) -> None:
        self.index = index
        self._files: dict[str, _File] = {}

    def first(self) -> str:
        """Return the program to start first, of the project's folder or else of one below it; "" if there is none.

        One that trains and saves goes before one that only trains, this before one that uses a model, then a program
        before another that starts it, as on a cluster, and one that asks for less on its command line before another.
        """
        ranked = {rank[-1]: rank for rank in self._ranked()}

        def place(path: str) -> tuple[object, ...]:
            trains, depth, no_model, *others = ranked[path]
            as_good = (ranked[other] for other in self.index.imported_by(path) if other in ranked)
            is_launcher = any((other[0], other[2]) <= (trains, no_model) for other in as_good)
            return trains, depth, no_model, is_launcher, *others

        return min(ranked, key=place, default="")

    def reads(self, program: str) -> list[str]:
        """Return what a program runs: its own file, then those that it imports, the nearest first."""
        found, seen = [program], {program}
        for path in found:
            fresh = [other for other in self.index.imported_by(path) if other not in seen]
            seen.update(fresh)
            found += fresh
        return found

    def _ranked(self) -> Iterator[tuple[bool, int, bool, int, int, str]]:
        """Yield the programs that use torch, each after what puts it behind others."""
        for path in sorted(path for path in self.index.files if path.endswith(".py")):
            depth = len(Path(os.path.relpath(path, self.index.root)).parts)
            if depth > _DEPTH:
                continue
            file = self._file(path)
            is_program = file.is_program or (file.acts and path not in self.index.importers)
            if not is_program or file.is_elsewhere or os.path.basename(path) in _LOADED:
                continue
            parts = [self._file(each) for each in reached([path], self.index.imported_by)]
            if any(part.uses_torch for part in parts):
                done = _names_reached(file, parts)
                trains, saves = _LEARNS in done, any(name.startswith("save") for name in done)
                yield not trains, depth, not (trains and saves), file.demands, -len(parts), path

    def _file(self, path: str) -> _File:
        if path not in self._files:
            try:
                self._files[path] = _read(tree_of(path, self.index.read(path)))
            except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
                self._files[path] = _File()
        return self._files[path]


def of_project(root: Path, paths: Sequence[Path], settings: Settings) -> Programs:
    """Return the programs at and below some paths."""
    found = discovery.discover(paths, settings)
    files = (str(item.path) for item in found if not item.error and not item.skipped_reason)
    return Programs(ImportIndex(root, sorted(file for file in files if file.endswith(".py"))))


def _names_reached(program: _File, parts: Iterable[_File]) -> list[str]:
    """Return what a program calls, directly or in the functions that it calls, by the names in its files."""
    named: dict[str, set[str]] = {}
    for part in parts:
        for name, inside in part.functions.items():
            named.setdefault(name, set()).update(inside)
    return reached(program.calls, lambda name: named.get(name, ()))


def _read(tree: ast.Module) -> _File:
    found = _File()
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                _look(statement, found, [])
                for each in statement.decorator_list:
                    _look(each, found, [found.calls])
            case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Assign() | ast.AnnAssign():
                _look(statement, found, [found.calls])
            case ast.If(test) if any(isinstance(n, ast.Constant) and n.value == "__main__" for n in walk(test)):
                found.is_program = True
                _look(statement, found, [found.calls])
            case _:
                _look(statement, found, [found.calls])
                found.acts |= isinstance(statement, (ast.Expr, ast.For, ast.While, ast.With))
    return found


def _look(top: ast.AST, found: _File, around: list[set[str]]) -> None:
    """Note what a node says, and what it calls also in the sets of all that is `around` it."""
    stack = [(top, around)]
    while stack:
        node, callers = stack.pop()
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                callers = [*callers, found.functions.setdefault(name, set())]
            case ast.ClassDef(name, body=body):
                methods = {each.name for each in body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
                found.functions.setdefault(name, set()).update(methods.intersection(_STARTED))
            case ast.Import(names):
                for alias in names:
                    found.imports(alias.name)
            case ast.ImportFrom(level=0, module=str(module)):
                found.imports(module)
            case ast.ImportFrom():
                found.is_elsewhere = True
            case ast.Call(func, args, keywords):
                for names_called in callers:
                    names_called.update(_called(node))
                if isinstance(func, ast.Attribute) and func.attr == "add_argument":
                    found.demands += _is_demanded(args, keywords)
        stack += [(child, callers) for child in children(node)]


def _is_demanded(args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    """Return whether an argument of a command line must be given: a positional one, or one that is required."""
    given = {keyword.arg: keyword.value for keyword in keywords}
    if isinstance(given.get("required"), ast.Constant):
        return bool(given["required"].value)  # type: ignore[attr-defined]
    name = args[0].value if args and isinstance(args[0], ast.Constant) else "-"
    nargs = given.get("nargs")
    is_free = isinstance(nargs, ast.Constant) and nargs.value in ("?", "*")
    return isinstance(name, str) and not name.startswith("-") and not is_free and "default" not in given


def _called(call: ast.Call) -> Iterator[str]:
    """Yield the names of what is called, and of what is handed to the call; of a trainer's `fit(data)` also _LEARNS."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    yield from (name for each in (call.func, *given) if (name := last_name(each)))
    if last_name(call.func) in _FITS and any(not isinstance(value, ast.Constant) for value in given):
        yield _LEARNS
