"""The catalog of device APIs: its rows, the reader of `catalog/*.toml`, lookup by name, and its uses in a project.

Uses are found by resolved names, methods of tensors and modules, and device strings.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from torchmigrate.base import file_io
from torchmigrate.base.text import did_you_mean
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Failed, FileResult, Finding, Safety, Skipped, Unchanged, failures
from torchmigrate.engine.worker import Done, Job, Worker
from torchmigrate.project import context, discovery
from torchmigrate.project.context import ProjectContext, project_root
from torchmigrate.rewriting import notebook_results
from torchmigrate.rewriting.visitor import DispatchTable, Visitor
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError, Prefilter, Ruleset
from torchmigrate.rules.reader import read_toml
from torchmigrate.semantic.device_expr import DEVICE_NAME, carrier
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.receiver import Kind, receiver_kind
from torchmigrate.source import encoding, notebook
from torchmigrate.source.encoding import HELPER_MARK
from torchmigrate.syntax.resolver import literal_getattr
from torchmigrate.syntax.scope import Scope, parameter_of
from torchmigrate.torch_api.backends import COLUMNS, having, types_of
from torchmigrate.torch_api.names import ALIASES, canonical

WORKS, HELPER, NO_OP, DIFFERENT, MISSING, NO_TORCH = VERDICTS = (
    "works", "works through the helper", "no-op", "different", "missing", "not a torch device"
)  # fmt: skip
SIGNS = {WORKS: "+", HELPER: "h", NO_OP: ".", DIFFERENT: "~", MISSING: "x", NO_TORCH: "/"}  # where there is no room
BACKENDS = COLUMNS
KINDS = ("module", "function", "class", "method", "attribute")
REWRITTEN, REPORTED, LEFT = ACTIONS = ("rewritten", "reported", "left alone")


@dataclass(frozen=True, slots=True)
class Row:
    """A row describes one API: a verdict for each of BACKENDS, the ids of rules about it, its first torch release.

    `since` is "" for 2.1 and older.
    """

    name: str
    kind: str
    backends: Mapping[str, str]
    action: str
    rules: tuple[str, ...]
    helper: str
    why: str
    since: str
    source: str
    measure: str
    gives: str
    path: Path
    line: int

    @property
    def rule(self) -> str:
        """The id of the first rule that handles this API, or ""."""
        return self.rules[0] if self.rules else ""

    def departs(self, backends: Iterable[str]) -> bool:
        """Return whether the API gives anything but plain "works" on one of these backends."""
        return any(self.backends[name] != WORKS for name in backends)


_TEXTS = ("name", "kind", "action", "helper", "why", "since", "source", "measure", "gives")
_KEYS = (*_TEXTS, "rule", "also", "verdicts", "but")
_NAME = re.compile(r"torch(\.[A-Za-z_]\w*)*")


def read(path: Path, rules: Collection[str] | None = None) -> list[Row]:
    """Read the rows of one file; raises PackError."""
    text, data = read_toml(path, "a catalog")
    return _Reader(path, text, rules).rows(data)


class _Reader:
    """A reader checks the tables of one file. tomllib keeps no positions, so lines are looked up."""

    def __init__(self, path: Path, text: str, rules: Collection[str] | None) -> None:
        self.path, self.known_rules = path, rules
        self.lines = text.splitlines()
        self.heads = [i for i, line in enumerate(self.lines, 1) if re.match(r"\[\[\s*api\s*\]\]", line)]
        self.sets: dict[str, Mapping[str, str]] = {}

    def rows(self, data: dict[str, Any]) -> list[Row]:
        self.known(data, ("source", "verdicts", "api"), 0)
        source = self.text(data, "source", 0)
        for name, table in self.tables(data, "verdicts").items():
            self.sets[name] = self.complete(table, self.find(1, rf"\[\s*verdicts\.\W?{re.escape(name)}\W?\s*\]"))
        tables = data.get("api", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self.fail(0, "api", "`api` is no list of tables", "write [[api]], once per row")
        heads = self.heads if len(self.heads) == len(tables) else [1] * len(tables)
        return [row for table, head in zip(tables, heads, strict=True) for row in self.row(table, head, source)]

    def row(self, table: dict[str, Any], head: int, source: str) -> Iterator[Row]:
        self.known(table, _KEYS, head)
        values = {key: self.text(table, key, head) for key in _TEXTS}
        values["source"] = values["source"] or source
        if not _NAME.fullmatch(values["name"]):
            raise self.fail(head, "name", f"`name` is {values['name']!r}", 'write name = "torch.cuda.f", without ()')
        for key, choices in (("kind", KINDS), ("action", ACTIONS)):
            self.one_of(values[key], choices, key, head)
        rule = table.get("rule", [])
        rules = self.strings([rule] if isinstance(rule, str) else rule, "rule", head, "memory/empty-cache")
        row = Row(**values, rules=rules, backends=self.verdicts(table, head), path=self.path, line=head)
        self.check(row)
        yield row
        for name in self.strings(table.get("also", []), "also", head, "torch.cuda.memory.f"):
            yield replace(row, name=name, measure="", gives="")  # another name of the same API

    def strings(self, value: object, key: str, head: int, example: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.fail(head, key, f"`{key}` is {value!r}", f'write {key} = ["{example}"]')
        return tuple(value)

    def check(self, row: Row) -> None:
        """Raise PackError unless the row has what its action and verdicts require."""
        name = row.name
        if row.action == LEFT:
            self.need(row, not row.rule, "rule", f"`{name}` is left alone, by no rule", "drop `rule`, or the action")
            self.need(row, row.why, "action", f"`{name}` is left alone without a `why`", "say why, as a clause")
        else:
            self.need(
                row, row.rule, "action", f"`{name}` is {row.action} without a `rule`", "name the rule that does it"
            )
        for rule in row.rules:
            if self.known_rules is not None and rule not in self.known_rules:
                near = did_you_mean(rule, self.known_rules) or "see `torchmigrate rules`"
                raise self.fail(row.line, "rule", f"`{name}`: unknown rule `{rule}`", near)
        helped = row.helper or HELPER not in row.backends.values()
        self.need(row, helped, "verdicts", f"`{name}` {HELPER} without a `helper`", "name the helper's function")
        self.need(row, row.source, "name", f"`{name}` has no source", "give the row or the file a `source`")
        both = bool(row.measure) == bool(row.gives)
        self.need(row, both, "measure", f"`{name}`: `measure` and `gives` belong together", "give both, or neither")
        since = not row.since or re.fullmatch(r"\d+\.\d+", row.since)
        self.need(row, since, "since", f"`{name}`: since is {row.since!r}", 'write a torch release, as "2.6"')

    def need(self, row: Row, holds: object, key: str, what: str, way_out: str) -> None:
        if not holds:
            raise self.fail(row.line, key, what, way_out)

    def verdicts(self, table: dict[str, Any], head: int) -> Mapping[str, str]:
        """Return the row's verdicts: a named set or a table of its own, changed by `but`, plus MLX."""
        named = table.get("verdicts")
        if named is None:
            raise self.fail(head, "name", f"`{table['name']}` has no `verdicts`", "name a [verdicts.x] of this file")
        if isinstance(named, str):
            self.one_of(named, tuple(self.sets), "verdicts", head)
            found = dict(self.sets[named])
        else:
            found = dict(self.complete(named, self.at(head, "verdicts")))
        if but := table.get("but"):
            found |= self.pairs(but, self.at(head, "but"))
        return {name: NO_TORCH if name == "mlx" else found[name] for name in BACKENDS}

    def complete(self, table: object, line: int) -> Mapping[str, str]:
        """Return a verdict for each backend but MLX; ROCm takes CUDA's unless given."""
        found = self.pairs(table, line)
        if "cuda" in found:
            found.setdefault("rocm", found["cuda"])
        if missing := [name for name in BACKENDS if name not in found and name != "mlx"]:
            raise self.fail(line, "", f"no verdict for {', '.join(missing)}", "a set speaks of every backend but mlx")
        return found

    def pairs(self, table: object, line: int) -> dict[str, str]:
        if not isinstance(table, dict):
            raise self.fail(line, "", "verdicts are a table", 'write { cuda = "works", ... }')
        for name, verdict in table.items():
            if name == "mlx" or name not in BACKENDS:
                known = tuple(b for b in BACKENDS if b != "mlx")
                hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
                raise self.fail(line, name, f"unknown backend `{name}`", hint)
            self.one_of(verdict, VERDICTS, name, line)
        return dict(table)

    def known(self, table: Mapping[str, Any], keys: Sequence[str], head: int) -> None:
        for key in table:
            if key not in keys:
                hint = did_you_mean(key, keys) or f"known keys: {', '.join(keys)}"
                raise self.fail(head, key, f"unknown key `{key}`", hint)

    def one_of(self, value: object, choices: Sequence[str], key: str, head: int) -> None:
        if value not in choices:
            hint = did_you_mean(str(value), choices) or f"one of: {', '.join(choices)}"
            what = f"`{key}` is missing" if value in ("", None) else f"`{key}` is {value!r}"
            raise self.fail(head, key, what, hint)

    def text(self, table: Mapping[str, Any], key: str, head: int) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self.fail(head, key, f"`{key}` is {value!r}", "write a string")
        return " ".join(value.split()) if key == "why" else value

    def tables(self, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = data.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
            raise self.fail(0, key, f"`{key}` is no table of tables", f"write [{key}.name]")
        return value

    def at(self, head: int, key: str) -> int:
        """Return the line of a key in the table that begins at line `head` (0: the file's top level), else `head`."""
        if not head:
            return self.find(1, rf"\[*\s*{re.escape(key)}\W") if key else 1
        for number, line in enumerate(self.lines[head:], head + 1):
            if line.startswith("["):
                break
            if key and re.match(rf"\s*\W?{re.escape(key)}\W?\s*=", line):
                return number
        return head

    def find(self, start: int, pattern: str) -> int:
        return next((i for i in range(start, len(self.lines) + 1) if re.match(pattern, self.lines[i - 1])), start)

    def fail(self, head: int, key: str, what: str, way_out: str) -> PackError:
        return PackError(f"{self.path}:{self.at(head, key)}: {what}\nhelp: {way_out}")


@dataclass(frozen=True)
class Catalog:
    """A catalog maps API names to rows, sorted by name."""

    rows: Mapping[str, Row]

    def row(self, name: str) -> Row | None:
        """Return the API's row, also for another path of a documented name (`torch.cuda.random.seed`)."""
        return self.rows.get(name) or self._twins.get(canonical(name))

    def find(self, name: str) -> Row | None:
        """Return the API's row, else that of the class or attribute that the name is a part of; never a module's."""
        while "." in name:
            if row := self.row(name):
                return row
            name = name.rpartition(".")[0]
            if (above := self.row(name)) and above.kind == "module":
                return None
        return None

    @cached_property
    def _twins(self) -> dict[str, Row]:
        """Rows by the name that torch documents, e.g. `torch.cuda.X` for a row named `torch.cuda.memory.X`."""
        return {canonical(name): row for name, row in self.rows.items()}

    def matching(self, names: Sequence[str]) -> list[Row]:
        """Return the rows that match one of these names, prefixes (`torch.cuda`) or globs, or all if there are none."""
        tests = [
            re.compile(fnmatch.translate(n) if re.search(r"[*?\[]", n) else re.escape(n) + r"(\..*)?") for n in names
        ]
        return [row for name, row in self.rows.items() if not tests or any(t.fullmatch(name) for t in tests)]


@cache
def public_names() -> Mapping[str, tuple[str, ...]]:
    """Return the public names of torch by module, and those of some classes by class."""
    text = file_io.read_text(Path(__file__).parent.parent / "data" / "public_names.txt")
    rows = (row.partition(": ") for row in text.splitlines() if not row.startswith("#"))
    return {module: tuple(names.split()) for module, _, names in rows}


def public(name: str) -> list[str]:
    """Return the full names of what a typed name can be, as `torch.relu` and others for `relu`; the shortest first."""
    table = public_names()
    first, dot, rest = name.partition(".")
    name = f"{ALIASES.get(first, first)}{dot}{rest}" if dot else name
    owner, _, last = name.rpartition(".")
    if name in table or last in table.get(owner, ()):
        return [name]
    homes = [
        module for module, names in table.items() if last in names and (not owner or f".{module}".endswith(f".{owner}"))
    ]
    shown = (
        module for module in homes if not any(module.startswith(f"{other}.") for other in homes if other != "torch")
    )
    return [f"{module}.{last}" for module in sorted(shown, key=lambda module: (module.count("."), module))]


def load(rule_paths: Sequence[Path] = ()) -> Catalog:
    """Read `catalog/*.toml` below the built-in rules and `rule_paths`; raises PackError."""
    roots = packs.roots(rule_paths)
    rules = {
        f"{path.parent.name}/{path.stem}" for root in roots for path in root.glob("*/*.toml") if packs.is_rule(path)
    }
    return gather((path for root in roots for path in sorted((root / "catalog").glob("*.toml"))), rules)


def gather(files: Iterable[Path], rules: Collection[str] | None = None) -> Catalog:
    """Read the rows of these files, which may name these `rules` (None: any); raises PackError."""
    rows: dict[str, Row] = {}
    for path in files:
        for row in read(path, rules):
            if first := rows.get(row.name):
                raise PackError(
                    f"{row.path}:{row.line}: `{row.name}` has a row already ({first.path}:{first.line})\n"
                    "help: an API has one row"
                )
            rows[row.name] = row
    return Catalog(dict(sorted(rows.items())))


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
    own = context.own_cuda(job.raw for job in jobs)
    facts = ProjectContext(project_root([path]), settings, tuple(job.path for job in jobs), own)
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
                return DEVICE_NAME.search(parameter_of(up, outer)) is not None
        return False

    def _is_constructor(self, call: ast.AST | None, scope: Scope) -> bool:
        return isinstance(call, ast.Call) and self.module.resolve(call.func, scope) == "torch.device"


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
