"""Calls followed over the files of a project: to operators that not every device has, and on from what is scripted.

The operators are those that libraries and the project compile, and what makes float64, which MPS refuses. What
torch.jit.script compiles can call no helper.
"""

from __future__ import annotations

import ast
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchmigrate.project.class_hierarchy import ClassHierarchy, Definition, Place
from torchmigrate.project.import_graph import (
    CUDA,
    DATA_POINTER,
    DOUBLE,
    EXTENSION,
    EXTENSION_OF_OLD,
    OF_KERNELS,
    SCRIPTING,
    module_stem,
    reached,
)
from torchmigrate.syntax.resolver import chain_of, demands, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Binding, Function, Scopes, children, own_nodes, walk
from torchmigrate.torch_api.libraries import KERNELS, OPERATORS, row_of
from torchmigrate.torch_api.names import DOUBLES, DTYPE_WORDS, KEEPING, NUMPY_FILLED, NUMPY_OF_NUMBERS, NUMPY_RANDOM

if TYPE_CHECKING:
    from torchmigrate.project.import_graph import ImportIndex

_FAR = 2  # steps: what is imported from further away is rarely called with the tensors at hand
_MANY = 100  # definitions
LOADERS = ("load", "load_inline")  # of torch.utils.cpp_extension


Position = tuple[str, int]  # path and line, 0 for a whole file


class CalledOperators(ABC):
    """Follows names to certain operators, over the functions, classes and files of a project."""

    WORDS: tuple[bytes, ...]  # a project without one of them in any file has none of the operators

    def __init__(self, index: ImportIndex, hierarchy: ClassHierarchy) -> None:
        self._index, self._hierarchy = index, hierarchy
        self._known: dict[tuple[str, str], Position | None] = {}
        self._read: dict[ast.AST, list[str] | int] = {}

    @property
    def are_there(self) -> bool:
        """Return whether the project may have such operators at all; this reads all files."""
        return any(map(self._index.holding, self.WORDS))

    def called_by(self, place: Place, name: str) -> Position | None:
        """Return where an operator is that a global name of a file means or leads to, or None."""
        key = place.path, name
        if key not in self._known:
            self._known[key] = self._follow(place, name) if self.are_there else None
        return self._known[key]

    def may_lead_on(self, place: Place, name: str) -> bool:
        """Return whether a name may lead to definitions of the project; of members, those of its modules do."""
        module, _, member = name.partition(".")
        found = place.scope.find(module) if member else None
        bindings = found[1] if found else []
        return not member or any(b.local or (b.qualified and self._is_module(place, b.qualified)) for b in bindings)

    def _is_module(self, place: Place, qualified: str) -> bool:
        return self._index.locate(place.path, 0, tuple(qualified.split("."))) is not None

    def made_beside(self, path: str, name: str) -> Position | None:
        """Return where an operator is that code of any file leads to which also calls a function of this file."""
        importers = self._index.importing(path)
        for importer in (path, *sorted(importers - {path})) if self.are_there else ():
            scopes = self._hierarchy.scopes(importer)
            if scopes is None:
                continue
            calling = [p for p in _parts(scopes.module.node) if any(_is_call_of(name, node) for node in p)]
            definitions = [part[0] for part in calling if isinstance(part[0], (*FUNCTIONS, ast.ClassDef))]
            lines = (self._names(definition, importer) for definition in definitions)
            if (line := next((line for line in lines if isinstance(line, int)), None)) is not None:
                return importer, line
            names = sorted({node.id for part in calling for node in part if isinstance(node, ast.Name)})
            place = Place(importer, scopes.module)
            if found := next((at for each in names if (at := self.called_by(place, each))), None):
                return found
        return None

    @abstractmethod
    def _is_operator(self, node: ast.expr, path: str) -> bool:
        """Return whether a node of a definition in a file is such an operator."""

    def _are_apart(self, one: str, other: str) -> bool:
        """Return whether what a file imports from another is one step further away from the tensors at hand."""
        return os.path.dirname(one) != os.path.dirname(other)  # the modules of a package work on the same tensors

    def _is_bound(self, place: Place, binding: Binding) -> bool:
        """Return whether a name is bound to such an operator."""
        return False

    def _is_apart(self, node: ast.AST) -> bool:
        """Return whether the parts of a node do not count: it tells CUDA's tensors from others."""
        return _asks_about(node, "cuda")

    def _follow(self, place: Place, name: str) -> Position | None:
        todo = [(place, name, 0)]
        seen: set[tuple[str, str]] = set()
        known: set[ast.AST] = set()
        while todo:
            here, read, away = todo.pop()
            if (here.path, read) in seen or away > _FAR:
                continue
            seen.add((here.path, read))
            found = here.scope.find(read)
            if any(self._is_bound(here, binding) for binding in (found[1] if found else ())):
                return here.path, 0
            for node, home in self._meant(here, read):
                if node not in known and len(known) < _MANY:
                    known.add(node)
                    names = self._names(node, home.path)
                    if isinstance(names, int):
                        return home.path, names
                    now = away + self._are_apart(home.path, here.path)
                    todo += [(self._place_of(each, home), each, now) for each in names if self.may_lead_on(home, each)]
        return None

    def _place_of(self, name: str, home: Place) -> Place:
        """Return where a name is bound that a definition of a file reads."""
        return home

    def _names(self, node: ast.AST, path: str) -> list[str] | int:
        """Return the names that a definition or value reads, sorted, or the line where it calls an operator itself.

        Members are among them, as in `layers.Block`.
        """
        if node not in self._read:
            parts = list(self._reached(node))
            line = next((p.lineno for p in parts if isinstance(p, ast.expr) and self._is_operator(p, path)), 0)
            line = line or self._line_of_flow(node)
            names = {p.id for p in parts if isinstance(p, ast.Name)}
            members = (chain_of(p) for p in parts if isinstance(p, ast.Attribute) and isinstance(p.value, ast.Name))
            self._read[node] = line or sorted(names.union(filter(None, members)))
        return self._read[node]

    def _line_of_flow(self, node: ast.AST) -> int:
        """Return the line where a definition calls an operator by what flows there, or 0."""
        return 0

    def _reached(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the parts of a definition or value that count."""
        todo: list[ast.AST] = [node]
        while todo:
            part = todo.pop()
            yield part
            if not self._is_apart(part):
                todo += children(part)

    def _meant(self, place: Place, name: str) -> Iterator[tuple[ast.AST, Place]]:
        """Yield the definitions and values that a name stands for, each with the place where its names are bound."""
        found = place.scope.find(name)
        for binding in found[1] if found else ():
            if binding.value is not None:
                yield binding.value, place
            elif binding.local:
                yield from self._assigned_in(place.path, *binding.local)
        for meaning in self._hierarchy.meanings(place, name):
            if isinstance(meaning, Definition):
                yield meaning.node, meaning.place

    def _assigned_in(self, path: str, level: int, module: str, name: str) -> Iterator[tuple[ast.AST, Place]]:
        """Yield the values that another file gives to a name which this one imports: `align = _Align.apply`."""
        home = self._index.find(path, level, module, name)
        scopes = self._hierarchy.scopes(home) if home else None
        if scopes and home:
            place = Place(home, scopes.module)
            yield from ((b.value, place) for b in scopes.module.names.get(name, ()) if b.value is not None)


class LibraryKernels(CalledOperators):
    """Follows names to operators of libraries that have kernels for the CPU and CUDA alone, and to pointers for C."""

    WORDS = (DATA_POINTER, *OF_KERNELS)

    def __init__(self, index: ImportIndex, hierarchy: ClassHierarchy) -> None:
        super().__init__(index, hierarchy)
        self._imported_late: dict[str, dict[str, Place]] = {}

    def _place_of(self, name: str, home: Place) -> Place:
        """Return where a name is bound that a definition reads: at the head of the file, or in a function's import."""
        if home.path not in self._imported_late:
            scopes = self._hierarchy.scopes(home.path)
            late = [(n, s) for s in scopes or () for n, bound in s.names.items() if any(b.local for b in bound)]
            self._imported_late[home.path] = {n: Place(home.path, s) for n, s in late}
        return home if home.scope.find(name) else self._imported_late[home.path].get(name, home)

    def _is_bound(self, place: Place, binding: Binding) -> bool:
        """Return whether a name is of such a library."""
        return row_of(binding.qualified or "", KERNELS) is not None

    def _is_operator(self, node: ast.expr, path: str) -> bool:
        """Return whether a node points code in C to the memory of a tensor."""
        return is_handed_to_c(node)

    def in_models_of(self, path: str) -> Position | None:
        """Return where a module of torch's calls such an operator, in any file that a program imports, or None.

        A model may be chosen by its name, where no name of the program leads to it.
        """
        key = path, ""  # whatever its names lead to
        if key not in self._known:
            files = reached([path], self._index.imported_by) if self._models else ()
            self._known[key] = next(((file, self._models[file]) for file in files if file in self._models), None)
        return self._known[key]

    @cached_property
    def _models(self) -> dict[str, int]:
        """Return the files in which a module of torch's calls such a library that is always there, each with the line.

        It does so itself, or by a function of the file that imports the library.
        """
        found: dict[str, int] = {}
        for path in sorted(set().union(*map(self._index.holding, OF_KERNELS))):
            scopes = self._hierarchy.scopes(path)
            names = self._always_imported(Place(path, scopes.module)) if scopes is not None else set()
            if scopes is None or not names:
                continue
            parts = (part for part in _parts(scopes.module.node) if isinstance(part[0], FUNCTIONS))
            calling = {part[0] for part in parts if any(isinstance(n, ast.Name) and n.id in names for n in part)}
            for file in (path, *sorted(self._index.importing(path) - {path})) if calling else (path,):
                place = Place(file, inner.module) if (inner := self._hierarchy.scopes(file)) else None
                if place is not None and (line := self._line_in_module(place, names if file == path else (), calling)):
                    found.setdefault(file, line)
        return found

    def _always_imported(self, place: Place) -> set[str]:
        """Return the names of such libraries that a file imports at its head, in a `try` only if it demands them."""
        heads = {*children(place.scope.node)}
        for tried in [node for node in heads if isinstance(node, ast.Try)]:
            heads |= {*tried.body} if demands(tried, place.scope) else set()
        names = place.scope.names.items()
        return {name for name, bound in names if any(b.node in heads and self._is_bound(place, b) for b in bound)}

    def _line_in_module(self, place: Place, names: Collection[str], calling: Collection[ast.AST]) -> int:
        """Return where a module of torch's reads one of these names, or one that means such a function, or 0."""
        modules = {"Module"}  # and what inherits from it in this file
        for part in _parts(place.scope.node):
            match part[:1]:
                case [ast.ClassDef(own, bases)] if any(last_name(base) in modules for base in bases):
                    modules.add(own)
                    for read in (node for node in part if isinstance(node, ast.Name)):
                        if read.id in names or any(node in calling for node, _ in self._meant(place, read.id)):
                            return read.lineno
        return 0


class CompiledOperators(CalledOperators):
    """Follows names to operators that the project compiles, for CUDA and perhaps for the CPU."""

    WORDS = (EXTENSION, EXTENSION_OF_OLD)

    def _are_apart(self, one: str, other: str) -> bool:
        return one != other  # what is compiled may be for data on the CPU alone, as Cython's modules are

    def _is_bound(self, place: Place, binding: Binding) -> bool:
        """Return whether a name is of a compiled module: one that is loaded, or no file of a package."""
        path = place.path
        if isinstance(binding.value, ast.Call):
            given = {k.arg for k in binding.value.keywords}
            has_sources = not given.isdisjoint({"sources", "cuda_sources"})
            has_sources |= any(_names_sources(each) for each in binding.value.args[1:2])
            is_built = last_name(binding.value.func) in LOADERS and has_sources
            return is_built or self._is_imported_by(place, binding.value)
        if binding.local is None:
            return False
        level, module, name = binding.local
        parts = tuple(filter(None, module.split(".")))
        home = self._index.locate(path, level, parts)
        if self._index.locate(path, level, (*parts, name)) is not None:  # a file, perhaps of a folder without __init__
            return False
        if home is None:  # `from package._C import f`
            above = self._index.locate(path, level, parts[:-1]) if parts else None
            return above is not None and os.path.basename(above[0]) == "__init__.py"
        scopes = self._hierarchy.scopes(home[0]) if os.path.basename(home[0]) == "__init__.py" else None
        return scopes is not None and not scopes.module.stars and name not in scopes.module.names

    def _is_imported_by(self, place: Place, call: ast.Call) -> bool:
        """Return whether a function of the project imports the module that it is told, and that no file is called."""
        chain = chain_of(call.func)
        match call.args:
            case [ast.Constant(str(name)), *_] if chain:
                if any(module_stem(file).endswith(f"/{name}") for file in self._index.files):
                    return False
                found = (m.node for m in self._hierarchy.meanings(place, chain) if isinstance(m, Definition))
                return any(_imports_what_it_is_told(node) for definition in found for node in walk(definition))
        return False

    def _is_operator(self, node: ast.expr, path: str) -> bool:
        """Return whether a node is `torch.ops.ours.f`, an operator that is not torch's."""
        match node:
            case ast.Attribute(ast.Attribute(ast.Attribute(ast.Name("torch"), "ops"), namespace), _):
                return namespace not in OPERATORS
        return False


class DoubleMakers(CalledOperators):
    """Follows names to what makes float64 where its tensor is, as `preds.eq(labels).double()` does: MPS refuses it.

    An array that is moved and then cast is one that was float64. In a file that mentions CUDA a fix casts it first. MPS
    also refuses the name of its own type: `x.type(y.type())`. Parameters and buffers are moved with their module.
    """

    WORDS = DOUBLE

    def _line_of_flow(self, node: ast.AST) -> int:
        """Return the first line where a function moves arrays of NumPy's that hold float64, or 0."""
        inner = [each for each in walk(node) if isinstance(each, FUNCTIONS)]
        moved = (at for each in inner for at in moved_doubles(each.body, self._reached(each)))
        return min((at.lineno for at in moved), default=0)

    def _is_operator(self, node: ast.expr, path: str) -> bool:
        """Return whether a node makes float64 of what a method gives, or moves it; a name may hold a module."""
        match node:
            case ast.Call(ast.Attribute(made, "to" | "cuda")) if _is_calculated(made):
                return True
            case ast.Call(ast.Attribute(made, "float"), [], []) | ast.Call(
                ast.Attribute(made, "type"), [ast.Attribute(ast.Name("torch"), "float" | "float32")], []
            ):
                return _is_moved_tensor(made) or (_is_moved_array(made) and not self._index.holds(path, CUDA))
            case ast.Call(ast.Attribute(_, "type"), [ast.Call(ast.Attribute(_, "type"), [], [])], []):
                return not self._index.holds(path, CUDA)  # the name of a type, which MPS's is not; else a fix mends it
            case ast.Call(ast.Attribute(ast.Call(ast.Attribute(_, method)) as made, "double"), [], []):
                return method.islower() and not _is_on_cpu(made)
            case ast.Call(func, [value]) if last_name(func) == "Parameter":
                return self.is_held_as_double(value, path)
            case ast.Call(func, [_, value, *_]) if last_name(func) == "register_buffer":
                return self.is_held_as_double(value, path)
        return False

    def is_held_as_double(self, value: ast.expr, path: str) -> bool:
        """Return whether a parameter's or buffer's value is float64, as what a function of the project may return."""
        if _is_calculated(value) or is_double(value, frozenset()):
            return True
        made = value.args[0] if isinstance(value, ast.Call) and _keeps_its_array(value) else value
        scopes = self._hierarchy.scopes(path)
        called = chain_of(made.func) if isinstance(made, ast.Call) else None
        meant = self._meant(Place(path, scopes.module), called) if scopes and called else ()
        return any(isinstance(function, FUNCTIONS) and _returns_doubles(function) for function, _ in meant)

    def _is_apart(self, node: ast.AST) -> bool:
        """Return whether a node is for devices that the code itself tells apart, or made on the CPU as well."""
        match node:
            case ast.Attribute(ast.Call(ast.Attribute(_, "double")), "cpu" | "numpy" | "tolist"):
                return True
            case ast.BinOp() if is_of_bytes(node):
                return True
        return super()._is_apart(node) or _asks_about(node, "mps")


class RaisingCalls(CalledOperators):
    """Follows names to calls that raise on MPS and stay as they are, as those do in files that do not name CUDA."""

    WORDS = ()

    def __init__(self, index: ImportIndex, hierarchy: ClassHierarchy, lines: Mapping[str, frozenset[int]]) -> None:
        super().__init__(index, hierarchy)
        self._lines = lines

    @property
    def are_there(self) -> bool:
        """Return whether there are such calls."""
        return bool(self._lines)

    def _is_operator(self, node: ast.expr, path: str) -> bool:
        """Return whether a node is a call on such a line."""
        return isinstance(node, ast.Call) and node.lineno in self._lines.get(path, ())

    def _is_apart(self, node: ast.AST) -> bool:
        """Return whether a node is for devices that the code itself tells apart."""
        return super()._is_apart(node) or _asks_about(node, "mps")


def is_handed_to_c(node: ast.AST) -> bool:
    """Return whether a node makes a pointer of ctypes to a tensor's memory: code in C reads the CPU's or CUDA's."""
    match node:
        case ast.Call(func, [ast.Call(ast.Attribute(_, "data_ptr"), [], [])]):
            return last_name(func) in ("c_void_p", "from_address")
    return False


def _parts(module: ast.AST) -> Iterator[list[ast.AST]]:
    """Yield the nodes of each function and class of a file, then those of all its other statements together."""
    others: list[ast.AST] = []
    for statement in children(module):
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield [*walk(statement)]
        else:
            others += walk(statement)
    yield others


def _names_sources(node: ast.expr) -> bool:
    """Return whether an expression names files that a compiler reads."""
    texts = (part.value for part in walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return any(text.endswith((".cpp", ".cu", ".cc", ".c")) for text in texts)


def _keeps_its_array(call: ast.Call) -> bool:
    """Return whether a call makes a tensor of an array, with its dtype: `torch.from_numpy(a)`, `torch.tensor(a)`."""
    return last_name(call.func) in ("from_numpy", "tensor", "as_tensor") and len(call.args) == 1 and not call.keywords


def _returns_doubles(function: Function) -> bool:
    names = double_names(function.body)
    nodes = (node for statement in function.body for node in walk(statement))
    returned = (node.value for node in nodes if isinstance(node, ast.Return))
    return any(value is not None and is_double(value, names) for value in returned)


def moved_doubles(body: Sequence[ast.AST], parts: Iterable[ast.AST]) -> list[ast.Call]:
    """Return the calls among some parts of a function that move float64 to a device: arrays of NumPy's, not cast."""
    moves = [part for part in parts if isinstance(part, ast.Call) and _is_move(part)]
    names = double_names(body) if moves else frozenset()
    return [move for move in moves if isinstance(move.func, ast.Attribute) and is_double(move.func.value, names)]


def _is_calculated(node: ast.expr) -> bool:
    """Return whether a node is `torch.tensor(np.log(p) - np.log(q))`: mostly of numbers, which gives float64."""
    todo = node.args if isinstance(node, ast.Call) and last_name(node.func) == "tensor" and not node.keywords else []
    todo = [*todo] if len(todo) == 1 else []
    while todo:
        match todo.pop():
            case ast.BinOp(left, _, right):
                todo += [left, right]
            case ast.Call(func):
                home, _, name = (chain_of(func) or "").rpartition(".")
                if home in ("np", "numpy") and name in NUMPY_OF_NUMBERS:
                    return True
    return False


def _is_move(call: ast.Call) -> bool:
    """Return whether a call is `x.cuda()`, or `x.to(device)` without a dtype or the CPU."""
    match call:
        case ast.Call(ast.Attribute(_, "cuda" | "to"), args, keywords):
            given = [*args, *(k.value for k in keywords if k.arg == "device")]
            words = {(chain_of(each) or "").rpartition(".")[2] for each in given}
            is_told = any(k.arg == "dtype" for k in keywords) or not words.isdisjoint(DTYPE_WORDS)
            return not is_told and not any(_says(part, "cpu") for each in given for part in walk(each))
    return False


def double_names(body: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that hold arrays of NumPy's with float64, or tensors of these, in the statements of a function.

    A name that is given something cast, too, is none of them.
    """
    given: list[tuple[str, ast.expr]] = []
    for node in (each for statement in body for each in walk(statement)):
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AugAssign(ast.Name(name), _, value):
                given.append((name, value))
            case ast.Assign([ast.Tuple(elts)], value):
                values = value.elts if isinstance(value, ast.Tuple) else [value] * len(elts)
                given += ((each.id, one) for each, one in zip(elts, values, strict=False) if isinstance(each, ast.Name))
            case ast.Call(ast.Attribute(ast.Name(name), "append"), [value]):
                given.append((name, value))
    cast = {name for name, value in given if any(map(_is_of_dtype, walk(value))) or _makes_anew(value, name)}
    found: set[str] = set()
    todo, more = [(name, value) for name, value in given if name not in cast], True
    while more:
        before = len(found)
        found.update(name for name, value in todo if name not in found and is_double(value, found))
        more = len(found) > before
    return frozenset(found)


def _makes_anew(value: ast.expr, name: str) -> bool:
    """Return whether code that is not read makes something of a name: `image = util.to_tensor(image)` may cast it."""
    match value:
        case ast.Call(func, [ast.Name(given), *_]) if given == name:
            return (chain_of(func) or "").partition(".")[0] not in ("np", "numpy", "torch")
    return False


def _is_of_dtype(node: ast.AST) -> bool:
    match node:
        case ast.Call(ast.Attribute(_, "astype" | "type" | "float" | "half" | "int" | "long" | "bool")):
            return True
        case ast.Attribute(_, name):
            return name in DTYPE_WORDS and name not in ("float64", "double", "dtype")
    return False


def is_double(node: ast.expr, names: Collection[str]) -> bool:
    """Return whether an expression gives float64 where these names hold it: an array of NumPy's, or a tensor of one."""
    todo = [node]
    while todo:
        match todo.pop():
            case ast.Name(name) if name in names:
                return True
            case ast.BinOp(left, _, right):
                todo += [left, right]
            case ast.UnaryOp(_, value) | ast.Subscript(value) | ast.Starred(value) | ast.Attribute(value, "T"):
                todo.append(value)
            case ast.List(elts) | ast.Tuple(elts):
                todo += elts
            case ast.Call() as call:
                makes, given = _made_of(call)
                if makes:
                    return True
                todo += given
    return False


def _made_of(call: ast.Call) -> tuple[bool, Sequence[ast.expr]]:
    """Return whether a call makes float64 itself, and else of what it makes the same dtype."""
    home, name = (chain_of(call.func) or "").rpartition(".")[0], last_name(call.func)
    if kinds := [k.value for k in call.keywords if k.arg == "dtype"]:
        return home == "torch" and (chain_of(kinds[0]) or "") in (*DOUBLES, "float"), ()
    if (home, name) == ("torch", "DoubleTensor"):
        return True, ()
    if home in ("np.random", "numpy.random"):
        return name in NUMPY_RANDOM and bool(call.args or call.keywords), ()
    is_numpys = home in ("np", "numpy")
    if is_numpys or (home == "torch" and name in _ALIKE):
        return is_numpys and _makes_doubles(name, call.args), call.args if name in _ALIKE else ()
    if name in ("from_numpy", "tensor", "as_tensor"):
        return False, call.args if _keeps_its_array(call) else ()
    keeps = isinstance(call.func, ast.Attribute) and name in KEEPING
    return False, [call.func.value] if keeps and isinstance(call.func, ast.Attribute) else ()


_ALIKE = KEEPING.union(NUMPY_OF_NUMBERS)  # NumPy and torch give the dtype of what these are given, if it is a float's


def _makes_doubles(name: str, args: list[ast.expr]) -> bool:
    """Return whether a function of NumPy's gives float64 of such arguments, which name no dtype."""
    is_told = any(isinstance(each, ast.Constant) and isinstance(each.value, float) for each in args)
    if name == "arange":
        return is_told or any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) for each in args)
    if name in NUMPY_OF_NUMBERS:
        return is_told
    return name in NUMPY_FILLED and (len(args) == 1 or name == "linspace")


def _is_call_of(name: str, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == name


def _is_moved_array(node: ast.expr) -> bool:
    """Return whether a node is `torch.from_numpy(a).to(device)`, or an item of it; a comparison gives no numbers."""
    while isinstance(node, ast.Subscript):
        node = node.value
    match node:
        case ast.Call(ast.Attribute(ast.Call(maker, given), "to")):
            return last_name(maker) == "from_numpy" and not any(isinstance(each, ast.Compare) for each in given)
    return False


def is_of_bytes(node: ast.AST | None) -> bool:
    """Return whether a node divides by 255, which shows that it was bytes before it was cast: `x.float() / 255`."""
    match node:
        case ast.BinOp(_, ast.Div(), ast.Constant(number)):
            return number == 255
    return False


def _is_moved_tensor(node: ast.expr) -> bool:
    """Return whether a node is `x.to(device)` or `x["boxes"].to(device)`: a tensor that need not be float32."""
    match node:
        case ast.Call(ast.Attribute(ast.Name() | ast.Subscript(ast.Name()), "to"), [where, *_]):
            return (chain_of(where) or "").rpartition(".")[2] not in (*DTYPE_WORDS, "")
    return False


def _is_on_cpu(node: ast.expr) -> bool:
    """Return whether a chain of calls has the CPU in it, or begins with a function of torch's, which makes its own."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Attribute) and node.attr in ("cpu", "numpy"):
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "np", "numpy")


def _imports_what_it_is_told(node: ast.AST) -> bool:
    """Return whether a node is `importlib.import_module("package." + name)`."""
    return (
        isinstance(node, ast.Call)
        and last_name(node.func) == "import_module"
        and bool(node.args)
        and not isinstance(node.args[0], ast.Constant)
    )


def _asks_about(node: ast.AST, device: str) -> bool:
    """Return whether a node chooses by a test that names a device."""
    return isinstance(node, (ast.If, ast.IfExp)) and any(_says(part, device) for part in walk(node.test))


def _says(node: ast.AST, device: str) -> bool:
    match node:
        case ast.Name(word) | ast.Attribute(_, word) | ast.Constant(str(word)):
            return device in word.lower()
    return False


_SCRIPTS = {f"torch.jit.{name}" for name in ("script", "script_method", "script_if_tracing", "export")}
_NOT_COMPILED = {"torch.jit.ignore", "torch.jit.unused"}


class _Compiled(NamedTuple):
    """A function that is compiled, or a class whose object is, with the class around a method."""

    found: Definition
    owner: ast.ClassDef | None = None


def scripted(index: ImportIndex, hierarchy: ClassHierarchy) -> Mapping[str, frozenset[str]]:
    """Return the compiled functions of each file: `f`, `Model.forward`.

    They are decorated, or handed to torch.jit.script, or called by those, or written to be compiled by users. Of an
    object, `forward` is compiled, with the methods that it calls and the modules that its class makes.
    """
    found: dict[str, set[str]] = {}
    todo = [
        each
        for path in sorted(index.holding(SCRIPTING))
        if (scopes := hierarchy.scopes(path)) is not None
        for each in _named(hierarchy, path, scopes)
    ]
    for each in todo:  # grows
        definition, owner = each
        node = definition.node
        if isinstance(node, FUNCTIONS):
            if _has(hierarchy, definition, _NOT_COMPILED):
                continue
            found.setdefault(definition.place.path, set()).add(name_in_class(node, owner))
            onward = _called(hierarchy, definition, owner)
        else:
            onward = _of_object(hierarchy, definition)
        todo += [new for new in onward if new not in todo]
    for path, name in _written_for_it(index, hierarchy):  # what one calls may be for other runs
        found.setdefault(path, set()).add(name)
    return {path: frozenset(names) for path, names in found.items()}


def _written_for_it(index: ImportIndex, hierarchy: ClassHierarchy) -> Iterator[tuple[str, str]]:
    """Yield, by file, functions that ask whether they are being compiled, and those of the package that call one."""
    files = [path for path in sorted(index.holding(SCRIPTING)) if b"is_scripting" in index.read_or_nothing(path)]
    asking: dict[ast.AST, str] = {}
    for path in files:
        for name, found, calls in _functions(hierarchy, path):
            if any(_means(hierarchy, found.place, call.func, {"torch.jit.is_scripting"}) for call in calls):
                asking[found.node] = found.node.name
                yield path, name
    names = set(asking.values())
    users = [(path, use.importer) for path in files for use in index.importers.get(path, ())]
    beside = {user for path, user in users if index.top_of(user) == index.top_of(path)}
    for path in sorted(beside.union(files)):
        for name, found, calls in _functions(hierarchy, path):
            is_dynamic = any(isinstance(a, ast.Starred) for call in calls for a in call.args)  # TorchScript has none
            chains = {chain_of(call.func) for call in calls if last_name(call.func) in names} - {None}
            meant = (m for chain in chains if chain for m in hierarchy.meanings(found.place, chain))
            is_asker = any(isinstance(m, Definition) and m.node in asking for m in meant)
            if is_asker and not is_dynamic:
                yield path, name


def _functions(hierarchy: ClassHierarchy, path: str) -> Iterator[tuple[str, Definition, list[ast.Call]]]:
    """Yield the functions of a file by name, each with its calls."""
    if (scopes := hierarchy.scopes(path)) is not None:
        for node in (statement for statement in scopes.statements if isinstance(statement, FUNCTIONS)):
            name = name_in_class(node, _class_around(scopes, node))
            calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
            yield name, Definition(node, Place(path, scopes.scope_of[node])), calls


def name_in_class(function: Function, owner: ast.AST | None) -> str:
    """Return a function's name with that of the class around it: `Model.forward`."""
    return f"{owner.name}.{function.name}" if isinstance(owner, ast.ClassDef) else function.name


def _named(hierarchy: ClassHierarchy, path: str, scopes: Scopes) -> Iterator[_Compiled]:
    """Yield what a file decorates for the compiler, or hands to it."""
    for statement in scopes.statements:
        place = Place(path, scopes.scope_of[statement])
        if isinstance(statement, FUNCTIONS):
            decorated = Definition(statement, place)
            if _has(hierarchy, decorated, _SCRIPTS) or _may_compile(hierarchy, decorated):
                yield _Compiled(Definition(statement, place), _class_around(scopes, statement))
            continue
        for call in (n for n in own_nodes(statement) if isinstance(n, ast.Call) and n.args):
            if _means(hierarchy, place, call.func, _SCRIPTS):
                given = [*hierarchy.meanings(place, chain)] if (chain := chain_of(call.args[0])) else []
                given += hierarchy.instances(place, call.args[0])
                yield from (_Compiled(each) for each in given if isinstance(each, Definition))


def _class_around(scopes: Scopes, node: ast.stmt) -> ast.ClassDef | None:
    up = scopes.parent.get(node)
    return up if isinstance(up, ast.ClassDef) else None


def _has(hierarchy: ClassHierarchy, definition: Definition, decorators: set[str]) -> bool:
    """Return whether a function has one of these decorators."""
    listed = getattr(definition.node, "decorator_list", [])
    return any(_means(hierarchy, definition.place, getattr(d, "func", d), decorators) for d in listed)


def _may_compile(hierarchy: ClassHierarchy, definition: Definition) -> bool:
    """Return whether a function has a decorator of the project's that hands it to the compiler, be it under a test."""
    for decorator in getattr(definition.node, "decorator_list", []):
        chain = chain_of(getattr(decorator, "func", decorator))
        meant = hierarchy.meanings(definition.place, chain) if chain else ()
        for maker in (each for each in meant if isinstance(each, Definition) and isinstance(each.node, FUNCTIONS)):
            calls = (node.func for node in ast.walk(maker.node) if isinstance(node, ast.Call))
            if any(_means(hierarchy, maker.place, func, _SCRIPTS) for func in calls):
                return True
    return False


def _means(hierarchy: ClassHierarchy, place: Place, node: ast.expr, names: set[str]) -> bool:
    chain = chain_of(node)
    return chain is not None and any(m in names for m in hierarchy.meanings(place, chain) if isinstance(m, str))


def _called(hierarchy: ClassHierarchy, definition: Definition, owner: ast.ClassDef | None) -> Iterator[_Compiled]:
    """Yield the functions that a function calls, and the methods of its own object."""
    for call in (n for n in ast.walk(definition.node) if isinstance(n, ast.Call)):
        chain = chain_of(call.func) or ""
        if owner is not None and chain.startswith("self.") and chain.count(".") == 1:
            yield from _methods(owner, definition.place, chain.removeprefix("self."))
        elif chain:
            meant = (m for m in hierarchy.meanings(definition.place, chain) if isinstance(m, Definition))
            yield from (_Compiled(m) for m in meant if isinstance(m.node, FUNCTIONS))


def _of_object(hierarchy: ClassHierarchy, definition: Definition) -> Iterator[_Compiled]:
    """Yield `forward` of an object's class, and the classes of the project that its constructor makes objects of."""
    owner = definition.node
    if not isinstance(owner, ast.ClassDef):
        return
    yield from _methods(owner, definition.place, "forward")
    for start in _methods(owner, definition.place, "__init__"):
        for call in (n for n in ast.walk(start.found.node) if isinstance(n, ast.Call)):
            chain = chain_of(call.func)
            meant = hierarchy.meanings(definition.place, chain) if chain else ()
            yield from (_Compiled(m) for m in meant if isinstance(m, Definition) and isinstance(m.node, ast.ClassDef))


def _methods(owner: ast.ClassDef, place: Place, name: str) -> Iterator[_Compiled]:
    """Yield the methods of a class by a name."""
    for node in owner.body:
        if isinstance(node, FUNCTIONS) and node.name == name:
            yield _Compiled(Definition(node, place), owner)
