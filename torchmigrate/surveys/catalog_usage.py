"""Find the catalog's APIs in a project: resolved names, methods of tensors and modules, device strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.base import file_io
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Failed, FileResult, Finding, Safety, Skipped, Unchanged, failures
from torchmigrate.engine.worker import Done, Job, Worker
from torchmigrate.project import context, discovery
from torchmigrate.project.context import ProjectContext, project_root
from torchmigrate.rewriting import notebook_results
from torchmigrate.rewriting.visitor import DispatchTable, Visitor
from torchmigrate.rules.model import Prefilter, Ruleset
from torchmigrate.semantic.device_expr import DEVICE_NAME, carrier
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.receiver import Kind, receiver_kind
from torchmigrate.source import encoding, notebook
from torchmigrate.source.encoding import HELPER_MARK
from torchmigrate.surveys.catalog_rows import Catalog, Row
from torchmigrate.syntax.resolver import literal_getattr
from torchmigrate.syntax.scope import Scope
from torchmigrate.torch_api.backends import having, types_of

# A name of these torch modules is reported even if the catalog has no row for it; elsewhere in torch most names have
# nothing to do with devices.
_DEVICE_MODULES = {"accelerator", *having("module")}
_MAY_USE = re.compile(rb"torch|cuda")  # a file without these may still use what another one imports for it
_DEVICE = re.compile(rf"({'|'.join(types_of('accelerator'))})(:(\d+|%[dis]|\{{[^}}]*\}}?)?)?")


@dataclass(frozen=True, slots=True)
class Usage:
    """The places where a project uses each API, the most frequent API first.

    A place is a Finding whose `rule` is the API's name. `unknown` has the places of device modules' names without a
    row; `read` is the number of files read.
    """

    places: Mapping[str, Sequence[tuple[Path, Finding]]]
    unknown: Mapping[str, Sequence[tuple[Path, Finding]]]
    read: int
    skipped: Sequence[Skipped]
    failed: Sequence[Failed]


def survey(path: Path, settings: Settings, catalog: Catalog) -> Usage:
    """Survey the files that `check` would read; raises UserError."""
    results = sorted(_survey_files(path, settings, catalog), key=lambda result: str(result.path))
    places: dict[str, list[tuple[Path, Finding]]] = {}
    for result in results:
        for finding in result.findings if isinstance(result, Unchanged) else ():
            places.setdefault(finding.rule, []).append((result.path, finding))
    ordered = dict(sorted(places.items(), key=lambda item: (-len(item[1]), item[0])))
    return Usage(
        {name: found for name, found in ordered.items() if name in catalog.rows},
        {name: found for name, found in ordered.items() if name not in catalog.rows},
        sum(isinstance(result, Unchanged) for result in results),
        [result for result in results if isinstance(result, Skipped)],
        list(failures(results)),
    )


def _survey_files(path: Path, settings: Settings, catalog: Catalog) -> Iterator[FileResult]:
    found = discovery.discover([path], settings)
    jobs: list[Job] = []
    for item in found:
        if item.error is not None:
            yield Failed(item.path, item.error)
        elif item.skipped_reason is not None:
            yield Skipped(item.path, item.skipped_reason)
        else:
            try:
                jobs.append(Job(str(item.path), file_io.read(item.path), "check"))
            except file_io.TooLarge as error:
                yield Skipped(item.path, str(error.strerror))
            except OSError as error:
                yield Failed(item.path, f"cannot be read: {error.strerror or error}")
    classes = frozenset().union(*(context.cuda_classes(job.raw) for job in jobs))
    facts = ProjectContext(project_root([path]), settings, tuple(job.path for job in jobs), classes)
    surveyor = _Surveyor(catalog, facts)
    yield from (surveyor(job)[0] for job in jobs)


class _Surveyor(Worker):
    """A worker that collects API uses instead of findings of rules; isolation and errors are the worker's."""

    def __init__(self, catalog: Catalog, facts: ProjectContext) -> None:
        super().__init__(Ruleset({}), facts)
        self.catalog = catalog

    def __call__(self, job: Job) -> Done:
        done = super().__call__(job)
        if isinstance(done.result, Failed) and not _MAY_USE.search(job.raw):
            return Done(Unchanged(done.result.path))  # `check` does not look into such a file either
        return done

    def _process(self, path: Path, job: Job) -> Done:
        if job.raw.startswith(HELPER_MARK):
            return Done(Unchanged(path))
        book = notebook.split(job.raw) if path.suffix == ".ipynb" else None
        if book and book.language:
            return Done(Skipped(path, f"a notebook in {book.language}"))
        text = book.source if book else encoding.decode(job.raw)
        if b"torchmigrate: skip-file" in text.utf8 and suppressions.find(text).skip_file:
            return Done(Skipped(path, "# torchmigrate: skip-file"))
        places = list(Uses(SemanticModel(path, text, self.facts), self.catalog).places())
        places = list(notebook_results.in_cells(places, book))
        unread = notebook_results.unread(book, lambda raw: _MAY_USE.search(raw) is not None) if book else ""
        return Done(Unchanged(path, tuple(places), unread=unread))


class Uses(Visitor):
    """A visitor yields all API uses of one module, from every statement and assignment target too."""

    def __init__(self, module: SemanticModel, catalog: Catalog) -> None:
        super().__init__(module, DispatchTable({}, (), Prefilter((), (), False)))
        self.catalog = catalog
        self.uses_torch = uses_torch(module)

    def places(self) -> Iterator[Finding]:
        for statement in self.module.scopes.statements:
            for node, scope in self._header(statement):
                if name := self._find_api(node, scope):
                    start, end = self.module.span(node)
                    line, column = self.module.source.position(start)
                    yield Finding(name, Safety.DISPLAY, start, end, "", line=line, column=column)

    def _find_api(self, node: ast.AST, scope: Scope) -> str | None:
        """Return the name of the row that a node counts for, or a name of a device module without a row."""
        match node:
            case ast.Constant(str(text)) if _DEVICE.fullmatch(text):
                return "torch.device" if self.uses_torch and self._is_device(node, scope) else None
            case ast.Attribute() | ast.Name(ctx=ast.Load()):
                return (
                    None if self._is_inner(node) or self._is_variable(node, scope) else self._resolve_api(node, scope)
                )
            case ast.Call() if literal_getattr(node) and not self._is_inner(node):
                return self._resolve_api(node, scope)
        return None

    def _is_inner(self, node: ast.AST) -> bool:
        """Return whether the node is part of a longer name; that longer name is counted instead."""
        up = self.parent.get(node)
        inner = isinstance(up, ast.Attribute) and up.value is node
        return inner or (isinstance(up, ast.Call) and up.args[:1] == [node] and literal_getattr(up) is not None)

    def _is_variable(self, node: ast.AST, scope: Scope) -> bool:
        """Return whether a name is a variable: `sync = torch.cuda.synchronize` counts, later reads of `sync` do not."""
        found = scope.find(node.id) if isinstance(node, ast.Name) else None
        return found is not None and all(binding.value is not None for binding in found[1])

    def _resolve_api(self, node: ast.AST, scope: Scope) -> str | None:
        name = self.module.resolve(node, scope)
        if name is None:
            return self._find_method(node, scope) if isinstance(node, ast.Attribute) else None
        if row := self.catalog.find(name):
            return row.name
        parts = name.split(".")
        return name if parts[0] == "torch" and parts[1:2] and parts[1] in _DEVICE_MODULES else None

    def _find_method(self, node: ast.Attribute, scope: Scope) -> str | None:
        """Return the row of `x.cuda()` or `x.is_cuda` if `x` may be a tensor or a module; `x.device` has none."""
        row = self.catalog.row(f"torch.Tensor.{node.attr}")
        if row is None or not self.uses_torch or self._is_helper(node):
            return None
        meant = node.attr.startswith("is_") if row.kind == "attribute" else self._called(node) is not node
        theirs = meant and receiver_kind(self.module, node.value, scope) is Kind.USER
        return row.name if meant and not theirs else None

    def _is_device(self, node: ast.AST, scope: Scope) -> bool:
        """Return whether a string is used as a device; the one in `torch.device("cuda")` counts with its call."""
        _, outer = carrier(self.module, node)
        match up := self.module.parent(outer):
            case ast.keyword(str(name)):
                return DEVICE_NAME.search(name) is not None and not self._is_constructor(self.module.parent(up), scope)
            case ast.Call(ast.Attribute(_, attribute)):
                name = self.module.resolve(up.func, scope) or ""
                return attribute == "to" or (name.startswith("torch.") and name != "torch.device")
            case ast.Assign(targets=[target]) | ast.AnnAssign(target) | ast.NamedExpr(target):
                return DEVICE_NAME.search(getattr(target, "id", getattr(target, "attr", ""))) is not None
            case ast.arguments():
                return DEVICE_NAME.search(_parameter_of(up, outer)) is not None
        return False

    def _is_constructor(self, call: ast.AST | None, scope: Scope) -> bool:
        return isinstance(call, ast.Call) and self.module.resolve(call.func, scope) == "torch.device"


def _parameter_of(arguments: ast.arguments, default: ast.AST) -> str:
    """Return the name of the parameter that has this default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(arg, value) for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    return next((arg.arg for arg, value in pairs if value is default), "")


@dataclass(frozen=True, slots=True)
class Found:
    """The row at an offset, the name found there (often a part of the row's API), and its byte range."""

    row: Row
    name: str
    start: int
    end: int


class Lookup(Uses):
    """A lookup by position; it also visits parts of names, imports and variables, which `Uses` does not count."""

    def at(self, offset: int) -> Found | None:
        """Return what stands at this byte offset of the module."""
        line = self.module.source.position(offset)[0]
        for statement in self.module.scopes.statements:
            first = min(node.lineno for node in (statement, *getattr(statement, "decorator_list", ())))
            if first <= line <= (statement.end_lineno or first):
                for node, scope in self._header(statement):
                    if (found := self._find_in(node, scope)) and found.start <= offset <= found.end:
                        return found
        return None

    def _find_in(self, node: ast.AST, scope: Scope) -> Found | None:
        name = self._resolve_name(node, scope)
        row = self.catalog.find(name) if name else None
        if name is None or row is None:
            return None
        start, end = self.module.span(node)
        if isinstance(node, ast.Attribute):
            start = end - len(node.attr.encode())
        return Found(row, name, start, end)

    def _resolve_name(self, node: ast.AST, scope: Scope) -> str | None:
        match node:
            case ast.Name() | ast.Attribute():
                method = isinstance(node, ast.Attribute) and self._find_method(node, scope)
                return self.module.resolve(node, scope) or method or None
            case ast.Call() if literal_getattr(node):
                return self.module.resolve(node, scope)
            case ast.alias(name):
                return self._imported_name(node, name)
            case ast.Constant(str()):
                return self._find_api(node, scope)
        return None

    def _imported_name(self, node: ast.alias, name: str) -> str | None:
        match self.parent.get(node) or self.module.parent(node):
            case ast.ImportFrom(module=str(module), level=0):
                return f"{module}.{name}"
            case ast.Import():
                return name
        return None
