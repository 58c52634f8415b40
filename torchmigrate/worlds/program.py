"""Read one version of a project, original or rewritten: files, functions and classes, with each expression's edits."""

from __future__ import annotations

import ast
import bisect
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import TypeVar

from torchmigrate.project.import_graph import ImportIndex
from torchmigrate.source import encoding, notebook
from torchmigrate.source.edits import Edit, Span
from torchmigrate.syntax import resolver
from torchmigrate.syntax.scope import FUNCTIONS, children, given_defaults, tree_of, walk

Edits = frozenset[int]  # numbers of edits
NONE: Edits = frozenset()
ROUTINES = (*FUNCTIONS, ast.Lambda)


_Answer = TypeVar("_Answer")


def remembered(ask: Callable[[ast.AST], _Answer]) -> Callable[[ast.AST], _Answer]:
    """Keep a question's answer with the node that it is about: each world, version and group asks it again."""
    key = f"_{ask.__module__}.{ask.__name__}"

    @wraps(ask)
    def asked(node: ast.AST) -> _Answer:
        known = node.__dict__
        try:
            answer: _Answer = known[key]
        except KeyError:
            answer = known[key] = ask(node)
        return answer

    return asked


_chain = remembered(resolver.attribute_chain)


def attribute_chain(node: ast.AST) -> str | None:
    """Return `a.b.c` for a name and its attributes, or None; it is kept with the node."""
    if type(node) is ast.Name:
        return node.id
    return _chain(node) if type(node) is ast.Attribute else None


@remembered
def parameters_of(args: ast.AST) -> list[str]:
    """Return the names of the parameters, those of `*args` and `**options` excepted."""
    assert isinstance(args, ast.arguments)
    return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


@remembered
def defaults_of(args: ast.AST) -> dict[str, ast.expr]:
    """Return the defaults of the parameters that have one, by name."""
    assert isinstance(args, ast.arguments)
    return {parameter.arg: value for parameter, value in given_defaults(args)}


def is_setter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a method is called where an attribute is assigned: `@device.setter`."""
    return any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in node.decorator_list)


def name_of_call(name: str, owner: str) -> str:
    """Return the name by which a function is called: a constructor by that of its class, `owner`; "" is none."""
    return owner if owner and name == "__init__" else name


@dataclass(eq=False, slots=True)
class FunctionInfo:
    """The info is about a function of the project, or about the body of a file (`node` is its ast.Module)."""

    file: File
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
    owner: ClassInfo | None = None
    outer: FunctionInfo | None = None
    key: str = ""  # the same in both versions
    holds_functions: bool = False  # functions or lambdas are written in it

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "")

    def parameters(self) -> list[str]:
        return [] if isinstance(self.node, ast.Module) else parameters_of(self.node.args)


@dataclass(eq=False, slots=True)
class ClassInfo:
    """The info is about a class of the project, with its own methods, and the setters of its properties, by name."""

    file: File
    node: ast.ClassDef
    key: str
    methods: dict[str, FunctionInfo] = field(default_factory=dict)
    setters: dict[str, FunctionInfo] = field(default_factory=dict)


class File:
    """A File belongs to one version. `edits` lead from the original text to this one; the original version has none.

    No value depends on the edits with the numbers `known`: they were found to do no harm.
    """

    def __init__(self, path: str, text: bytes, edits: Sequence[Edit] = (), first: int = 0, known: Edits = NONE) -> None:
        self.path, self.text, self.edits, self._known = path, text, edits, known
        self.tree = tree_of(path, text)
        self._starts = encoding.Source(text).line_starts
        self._new: list[tuple[int, int, int]] = []  # spans of this text that edits wrote, with their numbers
        shift = 0
        for number, edit in enumerate(edits, first):
            start, length = edit.start + shift, len(edit.text.encode())
            self._new.append((start, start + length, number))
            shift += length - (edit.end - edit.start)
        self._begins = [start for start, _, _ in self._new]
        self._ends = [end for _, end, _ in self._new]
        self.functions: list[FunctionInfo] = []
        self._locals: dict[ast.AST, Locals] = {}
        self.body = FunctionInfo(self, self.tree, key=f"{path}:")
        self.by_node: dict[ast.AST, FunctionInfo | ClassInfo] = {self.tree: self.body}
        self._collect(self.tree, None, None, "")
        self._written: dict[ast.AST, Edits] = {}
        self._locate()

    @cached_property
    def by_base(self) -> dict[str, list[ClassInfo]]:
        """Return the classes of the file by the last names of their bases."""
        found: dict[str, list[ClassInfo]] = {}
        for kind in (each for each in self.by_node.values() if isinstance(each, ClassInfo)):
            for base in kind.node.bases:
                found.setdefault(resolver.last_name(base), []).append(kind)
        return found

    @cached_property
    def given_tables(self) -> set[str]:
        """Return the names of what is called with a table that is written there: `Options({"lr": 0.1})`."""
        if b"({" not in self.text:
            return set()
        calls = (node for node in walk(self.tree) if isinstance(node, ast.Call) and node.args)
        return {resolver.last_name(call.func) for call in calls if isinstance(call.args[0], ast.Dict)}

    def _collect(self, node: ast.AST, owner: ClassInfo | None, outer: FunctionInfo | None, prefix: str) -> None:
        for child in children(node):
            if isinstance(child, ROUTINES):
                own = f"lambda@{self.original(self.span(child)[0])}" if isinstance(child, ast.Lambda) else child.name
                name = f"{prefix}.{own}"
                info = FunctionInfo(self, child, owner, outer, f"{self.path}:{name}")
                self.functions.append(info)
                if outer is not None:
                    outer.holds_functions = True
                self.by_node[child] = info
                if owner and not isinstance(child, ast.Lambda):
                    named = owner.setters if is_setter(child) else owner.methods
                    named.setdefault(child.name, info)
                self._collect(child, None, info, name)
            elif isinstance(child, ast.ClassDef):
                made = ClassInfo(self, child, f"{self.path}:{prefix}.{child.name}")
                self.by_node[child] = made
                self._collect(child, made, outer, f"{prefix}.{child.name}")
            else:
                self._collect(child, owner if isinstance(child, ast.stmt) else None, outer, prefix)

    @cached_property
    def shared(self) -> frozenset[str]:
        """Return the names that functions bind as `global` or `nonlocal`."""
        return frozenset().union(*(self.locals_of(info.node).shared for info in self.functions))

    def locals_of(self, node: ast.AST) -> Locals:
        """Return the names that a function, class or the file itself binds."""
        if node not in self._locals:
            self._locals[node] = Locals(node)
        return self._locals[node]

    def span(self, node: ast.AST) -> Span:
        """Return the byte offsets of a node in this text."""
        starts = self._starts
        begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return begin, end

    def original_span(self, node: ast.AST) -> Span:
        """Return the byte offsets of a node in the original text."""
        begin, end = self.span(node)
        return self.original(begin), self.original(end)

    def original(self, offset: int) -> int:
        """Return the offset in the original text; text that an edit wrote is at the edit's start."""
        at = bisect.bisect_right(self._ends, offset)
        if at < len(self._new) and self._new[at][0] <= offset:
            return self.edits[at].start
        if not at:
            return offset
        return offset - self._new[at - 1][1] + self.edits[at - 1].end

    def now(self, offset: int) -> int:
        """Return the offset in this text of one in the original text that no edit replaced."""
        at = bisect.bisect_right(self.edits, offset, key=lambda edit: edit.end)
        return offset if not at else offset - self.edits[at - 1].end + self._new[at - 1][1]

    def _locate(self) -> None:
        """Assign each edit to the expressions within the text that it wrote, or to the innermost one around it."""
        if not self._new:
            return
        for node in self._near_edits():
            if not isinstance(node, (ast.expr, ast.keyword)) or not hasattr(node, "lineno"):
                continue
            span = self.span(node)
            at = self._writer(span)
            first, last = self._within(span)
            if first < last:
                parts = set(self._parts(node))
                elsewhere = [self._within(part) for part in parts]
                elsewhere += [(n, n + 1) for part in parts if (n := self._writer(part)) is not None]
                own = [n for n in _without(first, last, elsewhere) if n != at]
            else:
                own = []
            numbers = [self._new[n][2] for n in sorted({*own, *(() if at is None else (at,))})]
            if numbers:
                self._written[node] = self._written.get(node, NONE).union(numbers)

    def _writer(self, span: Span) -> int | None:
        """Return which edit wrote a whole span."""
        at = bisect.bisect_right(self._begins, span[0]) - 1
        return at if at >= 0 and span[0] < span[1] <= self._ends[at] else None

    def is_of_a_tensor(self, node: ast.Attribute) -> bool:
        """Return whether an edit wrote `x.device` in place of a choice that asked x where it is: x is a tensor.

        The edit for `x.get_device()` writes the last name alone.
        """
        start, end = span = self.span(node)
        named = self._writer((max(start, end - len(node.attr)), end))
        if named is not None and self.edits[named].text.lstrip(".") == node.attr:
            return True
        if node not in self._written:
            return False
        at = self._writer(span)
        text = self.text[slice(*span)].decode()
        if at is None:
            return False
        new = self.edits[at].text
        return new in (text, f"{text}.type") or new.endswith(f".device({text}.type)")

    def _within(self, span: Span) -> tuple[int, int]:
        """Return the first of the edits within a span, and the one after the last."""
        return bisect.bisect_left(self._begins, span[0]), bisect.bisect_right(self._ends, span[1])

    @property
    def written(self) -> list[Span]:
        """Return the spans of this text that edits wrote; where they removed lines, nothing is left to change."""
        spans = ((start, end) for start, end, _ in self._new)
        return [(start, end) for start, end in spans if start < end or not self._begins_line(start)]

    def _begins_line(self, offset: int) -> bool:
        return offset == 0 or self.text[offset - 1 : offset] == b"\n"

    def _near_edits(self) -> Iterator[ast.AST]:
        """Yield the nodes of this file, those of statements that no edit touches excepted."""
        stack: list[ast.AST] = [self.tree]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.stmt) and not getattr(node, "decorator_list", ()):
                start, end = self.span(node)
                at = bisect.bisect_left(self._ends, start)
                if at == len(self._new) or self._new[at][0] > end:
                    continue
            yield node
            stack += children(node)

    def _parts(self, node: ast.AST) -> Iterator[Span]:
        """Yield the spans of a node's children."""
        for child in children(node):
            if hasattr(child, "lineno"):
                yield self.span(child)
            elif isinstance(child, (ast.comprehension, ast.arguments)):
                yield from self._parts(child)

    def is_inserted(self, node: ast.AST) -> bool:
        """Return whether one edit wrote all of a node."""
        return bool(self._new) and self._writer(self.span(node)) is not None

    def edits_of(self, node: ast.AST) -> Edits:
        """Return the edits that wrote this expression itself."""
        return self._written.get(node, NONE) - self._known if self._written else NONE


def _without(first: int, last: int, ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield the numbers of a range that are in none of the others, in a time that does not grow with these."""
    for begin, end in sorted(ranges):
        yield from range(first, min(begin, last))
        first = max(first, end)
    yield from range(first, last)


Version = tuple[bytes, Sequence[Edit], int, Edits]


class Program:
    """A program is one version of all files that the check reads.

    `read` gives the text of a path, the edits that led to it, the number of the first of them, and the known ones.
    """

    def __init__(
        self,
        index: ImportIndex,
        read: Callable[[str], Version | None],
        other: Program | None = None,  # files without edits are shared with this version
        kept: dict[str, File] | None = None,  # files parsed before
    ) -> None:
        self.index, self._read, self._other = index, read, other
        self._kept = {} if kept is None else kept
        self._files: dict[str, File | None] = {}
        self._located: dict[tuple[str, int, str], str | None] = {} if other is None else other._located

    def file(self, path: str) -> File | None:
        """Return a file, parsed on first use; None if it cannot be."""
        if path not in self._files:
            self._files[path] = self._parse(path)
        return self._files[path]

    def _parse(self, path: str) -> File | None:
        given = self._read(path)
        if given is None:
            return None
        _, edits, _, known = given
        if self._other is not None and len(edits) == len(known):
            return self._other.file(path)
        try:
            if path not in self._kept:
                self._kept[path] = File(path, *given)
            return self._kept[path]
        except (SyntaxError, ValueError, RecursionError):
            return None

    def located(self, file: File, level: int, module: str) -> File | None:
        """Return the file of the project that `from module import ...` in a file means, or None."""
        path = self.path_of(file, level, module)
        return self.file(path) if path else None

    def path_of(self, file: File, level: int, module: str) -> str | None:
        """Return the path of what `located` returns; the file is not parsed."""
        key = file.path, level, module
        if key not in self._located:
            parts = tuple(p for p in module.split(".") if p)
            found = self.index.locate(file.path, level, parts) if level or parts else None
            self._located[key] = found[0] if found else None
        return self._located[key]


def text_of(index: ImportIndex, path: str) -> bytes | None:
    """Return the Python text of a file in UTF-8, that of all cells for a notebook, or None if there is none."""
    try:
        raw = index.read(path)
        return notebook.split(raw).source.utf8 if Path(path).suffix == ".ipynb" else encoding.decode(raw).utf8
    except (OSError, encoding.UnreadableSource, notebook.UnreadableNotebook):
        return None


def line_of(index: ImportIndex, path: str, text: bytes, offset: int) -> str:
    """Return a place in words, by its line; `text` is the file's, and that of all cells for a notebook."""
    if Path(path).suffix == ".ipynb":
        with contextlib.suppress(OSError, notebook.UnreadableNotebook):
            cell, line = notebook.split(index.read(path)).cell_of(offset)
            return f"cell {cell}, line {line}"
    number = text.count(b"\n", 0, offset) + 1
    return f"line {number}"


class Locals:
    """Locals are the names that a function binds itself; all others are its file's or an outer function's."""

    def __init__(self, node: ast.AST) -> None:
        self.names: set[str] = set()
        self.shared: set[str] = set()  # global, nonlocal
        self.yields = False
        args = getattr(node, "args", None)
        if isinstance(args, ast.arguments):
            self.names |= {*parameters_of(args)}
            self.names |= {a.arg for a in (args.vararg, args.kwarg) if a}
        self._visit(node)
        self.names -= self.shared

    def _visit(self, node: ast.AST) -> None:
        for child in children(node):
            match child:
                case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                    self.names.add(name)
                    continue
                case ast.Lambda():
                    continue
                case ast.Yield() | ast.YieldFrom():
                    self.yields = True
                case ast.Name(name, ast.Store() | ast.Del()):
                    self.names.add(name)
                case ast.Global(names) | ast.Nonlocal(names):
                    self.shared.update(names)
                case ast.alias(name, asname):
                    self.names.add(asname or name.partition(".")[0])
                case ast.ExceptHandler(_, name) if name:
                    self.names.add(name)
                case ast.MatchAs(_, name) | ast.MatchStar(name) if name:
                    self.names.add(name)
            self._visit(child)
