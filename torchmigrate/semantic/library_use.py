"""Libraries that a file uses: torch, and libraries that run on NVIDIA's devices alone."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from torchmigrate.base.system import syntax_tree
from torchmigrate.project.called_operators import LOADERS, CalledOperators, Position, is_handed_to_c
from torchmigrate.project.class_hierarchy import Definition, Meaning, Place
from torchmigrate.project.import_graph import DATA_POINTER, OF_KERNELS, reached
from torchmigrate.semantic.guard_regions import OTHERS, GuardRegion
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers_in
from torchmigrate.source.edits import Inside
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Binding, Function, own_nodes
from torchmigrate.torch_api.libraries import CUDA_ONLY, FRAMEWORKS, KERNELS, takes


def first_call(module: SemanticModel, names: Collection[str]) -> ast.Call | None:
    """Return the first call in the file of one of these qualified names."""
    return _first_call(module, frozenset(names))


@query
def _first_call(module: SemanticModel, names: frozenset[str]) -> ast.Call | None:
    calls = (n for n in module.nodes if isinstance(n, ast.Call))
    return min((c for c in calls if module.resolve(c.func) in names), key=module.span, default=None)


def asks_cuda(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether an expression calls a function of torch.cuda."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return any((module.resolve(func) or "").startswith("torch.cuda.") for func in calls)


@query
def uses_torch(module: SemanticModel) -> bool:
    """Return whether the file imports torch, something built on it, or a module of the project.

    A module of the project shows nothing where the file imports another framework, whose tensors have a `cuda()`, too.
    """
    known, is_other = module.facts.built_on_torch, not FRAMEWORKS.isdisjoint(module.scopes.module.libraries())
    for bindings in module.scopes.module.names.values():
        for binding in bindings:
            name = binding.qualified or ""
            if name.split(".")[0] in known:
                return True
            if binding.local and not is_other and _is_local(module, binding.local):
                return True
    nested = (b for scope in module.scopes for bindings in scope.names.values() for b in bindings)
    return bool(module.scopes.module.stars) or any(b.qualified == "torch" for b in nested)


def is_used_with_torch(module: SemanticModel) -> bool:
    """Return whether all that import this file, but tests, import torch, and it imports nothing with other devices."""
    index = module.facts.index
    if any(takes(library) is not None for library in module.scopes.module.libraries()):
        return False
    importers = index.importing(str(module.path))
    tops = [
        {i.module.partition(".")[0] for i in index.imports[path]}
        for path in importers
        if not module.facts.is_test(path)
    ]
    return bool(tops) and all("torch" in names for names in tops)


def _is_local(module: SemanticModel, local: tuple[int, str, str]) -> bool:
    return bool(local[0]) or module.facts.index.find(str(module.path), *local) is not None


@query
def is_read_as_settings(module: SemanticModel) -> bool:
    """Return whether a file only gives values to names, without torch, and no code imports it: it is read by its path.

    What reads it may take each of its names for a setting, also that of a module. Other settings may import it.
    """
    if len(module.facts.files) < 2 or module.path.suffix != ".py":
        return False
    todo: list[ast.stmt] = [*module.tree.body]
    is_given = False
    while todo:
        match todo.pop():
            case ast.With(_, body) | ast.If(_, body, []):
                todo += body
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant() | ast.Call(ast.Attribute(ast.Name()))):
                pass
            case ast.Assign(_, ast.Dict() | ast.Call(ast.Name("dict"))):
                is_given = True
            case ast.Assign() | ast.AnnAssign():
                pass
            case _:
                return False
    bindings = (b for found in module.scopes.module.names.values() for b in found)
    if not is_given or any((b.qualified or "").split(".")[0] in module.facts.built_on_torch for b in bindings):
        return False
    index = module.facts.index
    own, *importers = reached([str(module.path)], index.importing)
    is_package = any(path.endswith("__init__.py") for path in (own, *importers))
    return not is_package and not any(b"torch" in index.read_or_nothing(path) for path in importers)


def is_imported(module: SemanticModel) -> bool:
    """Return whether another file of the project imports this one. Its top level must not ask for a device then."""
    path = str(module.path)
    return bool(module.facts.index.importers.get(path)) or path.endswith("__init__.py")


def _imported_names(module: SemanticModel) -> set[str]:
    """Return the names that the file imports from libraries for NVIDIA's devices alone, or from a compiled `*_cuda`.

    A module that is built on some machines alone counts, too.
    """
    return {
        name
        for scope in module.scopes
        for name, bindings in scope.names.items()
        for b in bindings
        if isinstance(b.node, (ast.Import, ast.ImportFrom))
        and (_root(b) in CUDA_ONLY or _is_compiled(name) or _is_built_apart(module, b))
    }


def _is_built_apart(module: SemanticModel, binding: Binding) -> bool:
    """Return whether an import behind a test, with no other branch, is of a module that a package here lacks.

    `if torch.cuda.device_count() > 0: from encoding import gpu` is, where setup.py builds `encoding.gpu` with CUDA.
    """
    match module.parent(binding.node):
        case ast.If(orelse=[]) if binding.local and binding.local[2]:
            level, package, name = binding.local
        case _:
            return False
    index = module.facts.index
    home = index.find(str(module.path), level, package, name) or ""
    if os.path.basename(home) != "__init__.py" or index.under(os.path.dirname(home), (name,)):
        return False
    may_bind = name.encode(), b"import *", b"__getattr__", b"globals("
    raw = index.read_or_nothing(home)
    return not any(word in raw for word in may_bind)


_MAY_BE_BOUND = re.compile(rb"_cuda|_forward|_backward|-gpu|nvidia")  # a file without these has no such call
_MOVES = re.compile(r"\w*to_cuda|is_cuda|use_cuda")  # `utils.move_to_cuda(x)` calls no kernel
_KERNEL = re.compile(r"\w+_(for|back)ward\w*")
_OF_DRIVER = re.compile(r"(\w+_)?nvidia_smi(_\w+)?")  # what asks NVIDIA's driver, by its name
_PACKAGE = re.compile(r"(onnxruntime|paddlepaddle|tensorflow|faiss)-gpu\b")  # as pip calls it


class Uses:
    """The places where a file uses libraries or compiled kernels that run on NVIDIA's devices alone."""

    def __init__(self, module: SemanticModel) -> None:
        may_be_bound = _MAY_BE_BOUND.search(module.source.utf8) is not None
        bound = (*(_bound_to_cuda(module) if may_be_bound else ()), *_without_group(module))
        self._bound = Inside(map(module.span, bound))
        names = _imported_names(module)
        read = _reads_visible(module) if b"CUDA_VISIBLE_DEVICES" in module.source.utf8 else ()
        self._names = Inside(map(module.span, (*(_uses_of(module, names) if names else ()), *read)))
        self._module = module
        self._with_kernels: Inside | None = None

    def find(self, region: GuardRegion) -> int | None:
        """Return the offset of the first such use in a region, but no library's in code after a refusal; else None."""
        asked = ((self._bound, region.covered), (self._names, region.own if region.refusal else region.covered))
        found = (start for uses, spans in asked for span in spans for start, _ in uses.find(*span))
        return min(found, default=None)

    def kernel(self, region: GuardRegion) -> int | None:
        """Return the offset of the first call in a skipped test of what runs on NVIDIA's devices alone, or None."""
        found = (start for span in region.covered for start, _ in self._kernels.find(*span)) if region.skips else ()
        return min(found, default=None)

    def operator(self, region: GuardRegion, asks: bool) -> int | None:
        """Return the offset of a call of an operator that the project compiles, where a test decides on its device.

        The test covers it, or it asks torch for CUDA in the same function: without CUDA that ran on the CPU, or not.
        Or it refuses other devices before the call.
        """
        if region.refusal and not region.skips:
            after = (at for at in _operator_uses(self._module).get(region.home, ()) if at > region.guard[1])
            return min(after, default=None)
        return region.first_reached(_operator_uses(self._module), beside=asks and region.home is not None)

    @property
    def _kernels(self) -> Inside:
        """Return the code that must not run without its test.

        Such libraries, the project's own modules that begin with them, and what refuses devices that it does not name.
        """
        if self._with_kernels is None:
            names = _imported_names(self._module) | _names_of_kernels(self._module) | _refusing(self._module)
            self._with_kernels = Inside(map(self._module.span, _reads_of(self._module, names) if names else ()))
        return self._with_kernels


def _names_of_kernels(module: SemanticModel) -> set[str]:
    """Return the names that the file imports from modules of the project that import a library for NVIDIA's devices."""
    index, path = module.facts.index, str(module.path)
    return {
        name
        for scope in module.scopes
        for name, bindings in scope.names.items()
        for b in bindings
        if b.local and (home := index.find(path, *b.local)) and _needs_library(index.read_or_nothing(home))
    }


def _refusing(module: SemanticModel) -> set[str]:
    """Return the names of the project's functions and classes that run on devices that they ask for one by one.

    As in `assert is_cuda_available() or is_npu_available()`: these functions keep their meaning.
    """
    if not module.facts.files:
        return set()
    home = Place(str(module.path), module.scopes.module)
    local = (name for name, bindings in home.scope.names.items() if any(b.local for b in bindings))
    return {name for name in local if any(_refuses(module, m) for m in module.facts.hierarchy.meanings(home, name))}


def _refuses(module: SemanticModel, meaning: Meaning) -> bool:
    """Return whether a function, or a class when an object is made, begins with such an assertion or a refusal."""
    if not isinstance(meaning, Definition):
        return False
    starts = [s for s in meaning.node.body if isinstance(s, FUNCTIONS) and s.name == "__init__"]
    body = starts[0].body if starts and isinstance(meaning.node, ast.ClassDef) else meaning.node.body
    for statement in body:
        match statement:
            case ast.Assert(test) | ast.If(test, [ast.Raise()], []):
                asked = (n.func for n in ast.walk(test) if isinstance(n, ast.Call))
                if any(_is_one_of_many(module, meaning.place, func) for func in asked):
                    return True
    return False


def _is_one_of_many(module: SemanticModel, place: Place, func: ast.expr) -> bool:
    """Return whether a function is named for CUDA beside one that is named for another device."""
    name = last_name(func)
    words = name.split("_")
    if "cuda" not in words or not isinstance(func, ast.Name):
        return False
    others = ["_".join(other if word == "cuda" else word for word in words) for other in OTHERS]
    homes = (m.place.scope for m in module.facts.hierarchy.meanings(place, name) if isinstance(m, Definition))
    return any(not home.names.keys().isdisjoint(others) for home in homes)


@lru_cache(maxsize=256)
def _needs_library(raw: bytes) -> bool:
    """Return whether importing a file imports a library for NVIDIA's devices alone, without which it fails."""
    if not any(name.encode() in raw for name in CUDA_ONLY):
        return False
    try:
        todo: list[ast.stmt] = list(syntax_tree(raw).body)
    except (SyntaxError, ValueError, RecursionError):
        return False
    while todo:
        match todo.pop():
            case ast.Import(names) if any(a.name.partition(".")[0] in CUDA_ONLY for a in names):
                return True
            case ast.ImportFrom(str(home), _, 0) if home.partition(".")[0] in CUDA_ONLY:
                return True
            case ast.If(_, body, orelse):
                todo += [*body, *orelse]
    return False


def _reads_of(module: SemanticModel, names: Collection[str]) -> Iterator[ast.AST]:
    """Yield where the file reads one of these names."""
    return (n for n in module.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names)


@query
def _operator_uses(module: SemanticModel) -> dict[Function | None, list[int]]:
    """Return where each function reads what calls operators that the project compiles, or a library's kernels."""
    found = _uses_of_what_calls(module, module.facts.compiled, module.facts.kernels)
    words = (DATA_POINTER, *OF_KERNELS)
    for statement in module.scopes.statements if any(word in module.source.utf8 for word in words) else ():
        scope = module.scope(statement)
        for node in own_nodes(statement):
            of_library = isinstance(node, ast.Attribute) and module.resolve(node, scope) in KERNELS
            if of_library or is_handed_to_c(node):
                found.setdefault(module.function(statement), []).append(module.span(node)[0])
    return found


@query
def double_uses(module: SemanticModel) -> dict[Function | None, list[int]]:
    """Return where each function reads what makes float64, which MPS refuses, or raises there in another file."""
    return _uses_of_what_calls(module, module.facts.doubles, module.facts.raisers)


def double_made(module: SemanticModel, at: int) -> Position | None:
    """Return where float64 is made, or MPS raises, that what a function reads at an offset leads to, or None."""
    read = (n for n in module.nodes if isinstance(n, (ast.Name, ast.Attribute)) and module.span(n)[0] == at)
    place = Place(str(module.path), module.scopes.module)
    names = [*filter(None, map(chain_of, read))]
    followed = (module.facts.doubles, module.facts.raisers)
    return next((found for name in names for each in followed if (found := each.called_by(place, name))), None)


def _uses_of_what_calls(module: SemanticModel, *operators: CalledOperators) -> dict[Function | None, list[int]]:
    """Return where each function reads what calls certain operators: names, modules' members, and methods of `self`."""
    home = module.scopes.module
    place = Place(str(module.path), home)
    known = [each for each in operators if each.are_there] if module.facts.files else []

    def leads_there(name: str) -> bool:
        return any(each.may_lead_on(place, name) and each.called_by(place, name) for each in known)

    names = set(filter(leads_there, home.names))
    found: dict[Function | None, list[int]] = {}
    methods: dict[tuple[ast.AST | None, str], list[tuple[Function, int]]] = {}
    todo: list[tuple[Function | None, int]] = []
    for statement in module.scopes.statements if known else ():
        function = module.function(statement)
        for node in own_nodes(statement):
            match node:
                case ast.Name(name, ast.Load()) if name in names:
                    todo.append((function, module.span(node)[0]))
                case ast.Attribute(ast.Name(name), member) if name not in names and leads_there(f"{name}.{member}"):
                    todo.append((function, module.span(node)[0]))
                case ast.Attribute(ast.Name("self"), name) if function:
                    used = module.parent(function), name
                    methods.setdefault(used, []).append((function, module.span(node)[0]))
    for function, at in todo:  # grows
        found.setdefault(function, []).append(at)
        if function:
            todo += methods.pop((module.parent(function), function.name), ())
            todo += [(outer, at)] if (outer := module.function(function)) else []
    return found


_READERS = ("os.getenv", "os.environ.get", "os.environ.pop")


def _reads_visible(module: SemanticModel) -> Iterator[ast.AST]:
    """Yield where the file calculates with `CUDA_VISIBLE_DEVICES`, which numbers CUDA's devices and no others."""
    for node in module.nodes:
        match node:
            case ast.Subscript(owner, ast.Constant("CUDA_VISIBLE_DEVICES"), ast.Load()):
                is_read = module.resolve(owner) == "os.environ"
            case ast.Call(func, [ast.Constant("CUDA_VISIBLE_DEVICES"), *_]):
                is_read = module.resolve(func) in _READERS
            case _:
                continue
        if is_read and not isinstance(module.parent(node), (ast.Call, ast.FormattedValue, ast.Expr, ast.BinOp)):
            yield node  # an argument of a call, or a part of a text, is only told


def _bound_to_cuda(module: SemanticModel) -> Iterator[ast.AST]:
    """Yield the calls of compiled kernels, and NVIDIA's packages: `roi_align.forward_cuda(...)`, `src.gpu.f(...)`."""
    for node in module.nodes:
        match node:
            case ast.Call(ast.Attribute(ast.Name(owner), name) as func):
                is_module = _is_compiled(owner) and not _is_variable(module, func, owner)
                is_named = owner == "gpu" or (owner.endswith("_gpu") and not _is_variable(module, func, owner))
                is_of_gpu = is_named and _KERNEL.fullmatch(name)
                if is_module or is_of_gpu or _is_compiled(name):
                    yield func
            case ast.Call(ast.Attribute(ast.Attribute(ast.Name(), "gpu" | "cuda"), name) as func):
                if _KERNEL.fullmatch(name):
                    yield func
            case ast.Call(func) if _OF_DRIVER.fullmatch(last_name(func)):
                yield func
            case ast.Constant(str(text)) if _PACKAGE.match(text):
                yield node


def _without_group(module: SemanticModel) -> Iterator[ast.AST]:
    """Yield the calls that need a process group, where no code of the project is seen to start the program's.

    A library starts it where CUDA is, and the test before the call asks for that.
    """
    if not module.facts.files or b"torch.distributed" not in module.source.utf8:
        return
    found: list[ast.AST] = []
    for node in module.nodes:
        match node:
            case ast.Call(ast.Attribute(_, name) as func) if name in _OF_GROUP:
                tests = (up.test for up in module.ancestors(node) if isinstance(up, (ast.If, ast.IfExp)))
                is_asked = any("is_initialized" in identifiers_in(module, test) for test in tests)
                if not is_asked and module.resolve(func) == f"torch.distributed.{name}":
                    found.append(func)
    if found and str(module.path) not in module.facts.in_groups:  # which reads all files
        yield from found


_OF_GROUP = {"get_rank", "get_world_size", "get_backend", "barrier"}


def _is_variable(module: SemanticModel, node: ast.AST, name: str) -> bool:
    """Return whether a name is a variable of a function that holds no module: `image_cuda = image.cuda()`."""
    home, bindings = module.scope(node).find(name) or (None, [])
    if home is None or home.parent is None or home.is_class:
        return False
    made = (last_name(b.value.func) for b in bindings if isinstance(b.value, ast.Call))
    is_imported = any(isinstance(b.node, (ast.Import, ast.ImportFrom)) for b in bindings)
    return not is_imported and _LOADS.isdisjoint(made)


_LOADS = {*LOADERS, "import_module", "__import__"}  # functions that give modules


def _is_compiled(name: str) -> bool:
    return name.endswith("_cuda") and name != "_cuda" and not _MOVES.match(name)


def _uses_of(module: SemanticModel, names: Collection[str]) -> Iterator[ast.AST]:
    """Yield the nodes where the file imports, binds or reads one of these names."""
    for node in module.nodes:
        match node:
            case ast.Name(name) | ast.arg(name) | ast.keyword(name):
                if name in names:
                    yield node
            case ast.alias(name, bound):
                if bound in names or name.partition(".")[0] in names:
                    yield node
            case ast.ImportFrom(str(home), _, 0) if home.partition(".")[0] in names:
                yield node


def _root(binding: Binding) -> str:
    name = binding.qualified or (binding.local[1] if binding.local else "")
    return name.partition(".")[0]
