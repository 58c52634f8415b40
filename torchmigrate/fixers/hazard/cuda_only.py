"""Fixers for what only CUDA has; they report uses that fail elsewhere, not those that do no harm."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project.import_graph import reached
from torchmigrate.semantic.guard_regions import OTHERS
from torchmigrate.semantic.library_use import first_call, is_imported
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import helper_bound, helper_names, identifiers_in, strings_in, words_in
from torchmigrate.semantic.values import is_annotation, type_test
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import ends_program, last_name
from torchmigrate.syntax.scope import FUNCTIONS
from torchmigrate.torch_api.backends import having
from torchmigrate.torch_api.libraries import CUDA_ONLY, ENGINES, KERNELS, VARIABLES, knows_cuda_alone, row_of

# types and modules that exist on every build: naming them does no harm
_NAMED = {
    "amp", "Stream", "Event", "OutOfMemoryError", "device", "nvtx", "memory", "random", "streams", "comm", "nccl",
    "profiler", "graphs", "sparse", "jiterator", "tunable", "gds", "green_contexts", "green_contexts.SUPPORTED",
    "nccl.SUM", "profiler.DEFAULT_FLAGS", "AcceleratorError", "CudaError", "DeferredCudaCallError", "cudaStatus",
    "DEVICE_REQUIREMENT", "PYTORCH_RELEASES_CODE_CC",
}  # fmt: skip
# names that torch.cuda imports for itself: the same on every build, also when called
_LEAKED = {"Any", "Callable", "Device", "NewType", "Optional", "TYPE_CHECKING", "cast", "classproperty", "lru_cache"}
# functions that give False, 0 or None off CUDA (measured)
_CALLED = {
    "is_initialized",
    "is_tf32_supported",
    "has_half",
    "has_magma",
    "is_bf16_supported",
    "_is_compiled",
    "_is_in_bad_fork",
    "nccl.is_available",
}

_CHOSEN = having("reported")  # without the CPU, which the other module is for


def cuda_namespace(context: RuleContext) -> Iterator[Finding]:
    if isinstance(context.node, ast.Import):
        yield from _two_modules(context, context.node)
        return
    assert context.qualified is not None
    name = context.qualified.removeprefix("torch.cuda.")
    named = context.call is None and (name in _NAMED or name.endswith("Storage"))
    if name in _LEAKED or isinstance(context.parent, ast.alias):
        return
    if context.qualified == "torch.cuda":
        yield from _module(context)
    elif is_annotation(context.module, context.ref) or type_test(context.module, context.ref):
        yield _harmless(context, "a type that is named: nothing of CUDA runs")
    elif named or context.qualified.startswith("torch.cuda.amp."):
        yield _harmless(context, "it is there in every build, and named only")
    elif name in _CALLED:
        yield _harmless(context, "without CUDA its answer is no")
    else:
        yield context.note(f"`{context.qualified}`: {context.rule.message}")


def _harmless(context: RuleContext, reason: str) -> Finding:
    """Return a finding for a name that is right as it is, without the rule's own message, which says the contrary."""
    return replace(context.left(reason), message=f"`{context.qualified}` names CUDA (left alone: {reason})")


def version(context: RuleContext) -> Iterator[Finding]:
    """Report what takes `torch.version.cuda` for a str; it is None elsewhere. What asks for it means CUDA's builds."""
    if context.call is not None and context.qualified == "torch.backends.cudnn.version":
        if _needs_str(context.parent, context.node):
            yield context.note(_OF_CUDNN)
        return
    node: ast.AST = context.ref
    up = context.module.parent(node)
    while isinstance(up, (ast.Attribute, ast.Subscript)) and up.value is node:
        node, up = up, context.module.parent(up)
    if context.call is None and (node is not context.ref or _needs_str(up, node) or _is_split(context.module, up)):
        yield context.note()
    else:
        found = _harmless(context, "it says what this build of torch was made for, and code that asks means that")
        yield replace(found, blocks=isinstance(up, ast.IfExp) and up.test is not node)  # a test before it is about CUDA


_OF_CUDNN = "`cudnn.version()` is None where torch has no cuDNN, and this takes it for a number: TypeError there"


def _is_split(module: SemanticModel, up: ast.AST | None) -> bool:
    """Return whether the text of a value is taken apart: `str(torch.version.cuda).split(".")[1]` of "None" raises."""
    match up, module.parent(up) if up else None:
        case ast.Call(ast.Name("str")), ast.Attribute(_, "split"):
            return True
    return False


def _needs_str(up: ast.AST | None, node: ast.AST) -> bool:
    """Return whether a value must be a str: it is parsed, added to, or compared with another str by its order."""
    match up:
        case ast.Call(func):
            return node is not func and last_name(func) in _PARSERS
        case ast.BinOp(left, op):
            return not (isinstance(op, ast.Mod) and left is not node)
        case ast.Compare(_, ops):
            return any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in ops)
    return False


_PARSERS = ("parse", "float", "int", "Version", "LooseVersion", "StrictVersion", "split")
_ASKS_BY_NAME = re.compile(
    r"(^|_)(requires?|needs?|only|skip\w*|unless)_?(\w+_)*(gpus?|cuda)($|_)|^(only|skip)\w*CUDA", re.I
)


def required(context: RuleContext) -> Iterator[Finding]:
    """Report a decorator of another library that skips a test without CUDA, by its name."""
    node = context.node
    if not isinstance(node, ast.ImportFrom):
        return
    for alias in node.names:
        name = alias.asname or alias.name
        if _ASKS_BY_NAME.search(alias.name) and name in _decorating(context.module):
            if context.module.facts.index.find(str(context.module.path), node.level, node.module or "", ""):
                yield context.left(f"`{alias.name}` is the project's own: the test in it decides")
            else:
                yield context.note(f"`{alias.name}` {context.rule.message}")


@query
def _decorating(module: SemanticModel) -> set[str]:
    """Return the names that stand in decorators of the file."""
    decorated = (s for s in module.scopes.statements if isinstance(s, (*FUNCTIONS, ast.ClassDef)))
    parts = (n for s in decorated for d in s.decorator_list for n in ast.walk(d))
    return {n.id for n in parts if isinstance(n, ast.Name)}


def _module(context: RuleContext) -> Iterator[Finding]:
    """Report `T = torch.cuda if use_cuda else torch`: in `T.FloatTensor`, T is not known until the program runs."""
    up = context.parent
    if isinstance(up, ast.IfExp) and context.node is not up.test:
        yield context.note(
            "a choice between the modules torch.cuda and torch: name the dtype and the device of each tensor instead",
            backends=_CHOSEN,
        )
    elif not isinstance(up, ast.Expr):
        yield _harmless(context, "the module itself: what is taken from it is not known here")


def _two_modules(context: RuleContext, node: ast.Import) -> Iterator[Finding]:
    """Report `import torch.cuda as T` in one branch and `import torch as T` in the other."""
    for alias in node.names:
        found = context.scope.find(alias.asname) if alias.asname and alias.name == "torch.cuda" else None
        if found and any(b.qualified == "torch" for b in found[1]):
            yield context.note(
                "torch.cuda and torch under one name: name the dtype and the device of each tensor instead",
                backends=_CHOSEN,
            )


_GUARDED = "it is imported only where it is asked for, in a `try`, under a condition or in a function"


def nvidia_library(context: RuleContext) -> Iterator[Finding]:
    for library in _new_here(context, _libraries):
        if advice := CUDA_ONLY.get(library, _KERNELS if library in ENGINES else ""):
            yield _imported(context, f"`{library}` needs NVIDIA's software: {advice}", _LATER)


def kernel_library(context: RuleContext) -> Iterator[Finding]:
    """Report the import of a library whose operators refuse tensors on other accelerators."""
    for library in _new_here(context, _with_kernels):
        yield _imported(context, f"`{library}` {_REFUSES}")


_KERNELS = "its kernels run on CUDA alone: keep a path in NumPy or plain torch beside them"
_LATER = "; import it where it is used, in a `try`"
_REFUSES = (
    "has kernels for the CPU and CUDA alone, which refuse tensors on other accelerators: keep those on the CPU, or a "
    "path in plain torch beside it"
)


def _new_here(context: RuleContext, libraries: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[str]:
    """Yield the libraries that this import is the first in the file to name, unless the project is one of them."""
    imports = (s for s in context.module.scopes.statements if isinstance(s, (ast.Import, ast.ImportFrom)))
    before: set[str] = set()
    for statement in imports:
        found = libraries(_names(statement))
        if statement is context.node:
            yield from (each for each in dict.fromkeys(found) if each not in before and not _own(context, each))
            return
        before.update(found)


def _imported(context: RuleContext, what: str, advice: str = "") -> Finding:
    if _guarded(context):
        return replace(context.left(_GUARDED), message=f"{what} (left alone: {_GUARDED})")
    return context.note(what + advice)


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the full names of what is imported, and of the module that has it."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    home = node.module or ""
    return [] if node.level else [home, *(f"{home}.{alias.name}" for alias in node.names)]


def _libraries(names: Sequence[str]) -> list[str]:
    """Return the first parts of names, and whole ones that make kernels: `from numba import cuda`."""
    roots = [name.partition(".")[0] for name in names]
    engines = (n for n, root in zip(names, roots, strict=True) if n in ENGINES and root not in CUDA_ONLY)
    return [*roots, *engines]


def _with_kernels(names: Sequence[str]) -> list[str]:
    return sorted({row for name in names if (row := row_of(name, KERNELS))})


def _own(context: RuleContext, library: str) -> bool:
    """Return whether the project is that library."""
    module, root = context.module, library.partition(".")[0]
    return bool(module.facts.files) and module.facts.index.find(str(module.path), 0, root, "") is not None


def _guarded(context: RuleContext) -> bool:
    """Return whether an import is in a `try`, a condition or a function: its author expects it to be missing.

    A `try` whose handlers all end the program, `except ImportError: raise ...`, demands it.
    """
    return any(
        isinstance(up, (ast.If, *FUNCTIONS))
        or (isinstance(up, ast.Try) and not all(ends_program(handler.body) for handler in up.handlers))
        for up in context.module.ancestors(context.node)
    )


def environment(context: RuleContext) -> Iterator[Finding]:
    name = context.node.value if isinstance(context.node, ast.Constant) else ""
    text = VARIABLES.get(name) if isinstance(name, str) else None
    if not text or not _in_environment(context) or _is_told_of(context.module, _setting(context)):
        return
    if _telling(context) is None:  # else device/hidden-cuda tells the helper
        yield context.note(f"`{name!s}`: {text}")


def hidden_cuda(context: RuleContext) -> Iterator[Finding]:
    """Tell the helper, too, where a program hides CUDA's devices from itself, and where the function shows them again.

    A function that knows other accelerators says itself which one is meant, and one that hides the devices for a while
    is left: a user's own choice would be lost.
    """
    if (edit := _telling(context)) is not None:
        yield context.fix([edit])


def _telling(context: RuleContext) -> Edit | None:
    """Return the edit that tells the helper what a statement makes CUDA's devices, or None."""
    module, statement = context.module, _setting(context)
    if statement is None or _is_told_of(module, statement):
        return None
    if module.facts.writes_native or not (helper_bound(module) or helper_names(module) or _imports_asker(module)):
        return None  # nothing here asks the helper
    function = module.function(statement)
    if not words_in(module, function or statement).isdisjoint(OTHERS) or (
        function and _hides_for_a_while(module, function)
    ):
        return None
    code = module.source.utf8
    (start, end), (name, name_end), (value, _) = map(module.span, (statement, context.node, statement.value))
    indent = code[code.rfind(b"\n", 0, start) + 1 : start].decode()
    rest = code[end:].partition(b"\n")[0].rstrip(b"\r")
    if indent.strip() or rest.partition(b"#")[0].strip():
        return None  # it shares its line with other code
    of, between = code[start:name].decode(), code[name_end:value].decode()
    quote = code[name : name + 1].decode()
    if _hides(module, statement):
        told = f"{of}{quote}TORCH_ACCEL_DEVICE{quote}{between}{quote}cpu{quote}"
    elif function is not None and any(_hides(module, other) for other in _settings(module, function)):
        told = f"{of.rstrip().removesuffix('[')}.pop({quote}TORCH_ACCEL_DEVICE{quote}, None)"
    else:
        return None
    below = end + len(rest)
    return Edit(below, below, f"{module.source.newline}{indent}{told}")


@query
def _settings(module: SemanticModel, function: ast.AST) -> list[ast.Assign]:
    """Return the statements of a function that set CUDA_VISIBLE_DEVICES."""
    return [node for node in ast.walk(function) if isinstance(node, ast.Assign) and _sets(module, node)]


@query
def _hides_for_a_while(module: SemanticModel, function: ast.AST) -> bool:
    """Return whether a function hides the devices and then shows them: it need not mean torch, which asks once."""
    hiding = [node for node in _settings(module, function) if _hides(module, node)]
    showing = [node for node in _settings(module, function) if node not in hiding]
    arms = {node: {(up, below in up.body) for up, below in module.around(node, ast.If)} for node in hiding + showing}
    return any(
        hidden.lineno < shown.lineno and not any((up, not held) in arms[shown] for up, held in arms[hidden])
        for hidden in hiding
        for shown in showing
    )


def _imports_asker(module: SemanticModel) -> bool:
    """Return whether the file imports one that comes to ask the helper, directly or through others.

    A file that imports TensorFlow, and not torch, hides the devices from TensorFlow.
    """
    facts = module.facts
    if not facts.askers or facts.askers.isdisjoint(reached([str(module.path)], facts.index.imported_by)):
        return False
    libraries = set().union(*(scope.libraries() for scope in module.scopes))
    return not libraries.isdisjoint(facts.built_on_torch) or not any(map(knows_cuda_alone, libraries))


def _setting(context: RuleContext) -> ast.Assign | None:
    """Return the statement around a string that sets CUDA_VISIBLE_DEVICES in `os.environ` itself."""
    if getattr(context.node, "value", "") != "CUDA_VISIBLE_DEVICES":
        return None
    statement = context.module.parent(context.parent) if context.parent else None
    return statement if isinstance(statement, ast.Assign) and _sets(context.module, statement) else None


def _sets(module: SemanticModel, node: ast.AST) -> bool:
    match node:
        case ast.Assign([ast.Subscript(owner, ast.Constant("CUDA_VISIBLE_DEVICES"))]):
            return module.resolve(owner) == "os.environ"
    return False


def _hides(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a statement sets CUDA_VISIBLE_DEVICES to no device."""
    if not isinstance(node, ast.Assign) or not _sets(module, node):
        return False
    return module.text(node.value) in ("''", '""', "'-1'", '"-1"')


def _is_told_of(module: SemanticModel, statement: ast.Assign | None) -> bool:
    """Return whether the statement below one that hides CUDA's devices, or shows them, tells the helper so."""
    if statement is None:
        return False
    block, at = module.blocks.place(statement)
    return any("TORCH_ACCEL_DEVICE" in strings_in(module, below) for below in block[at + 1 : at + 2])


def _in_environment(context: RuleContext) -> bool:
    """Return whether a string names an environment variable: in `os.environ`, `os.getenv`, `env={...}`, `setenv`."""
    up = context.parent
    match up:
        case ast.Subscript(value) if context.node is up.slice:
            return _is_environment(context.module, value)
        case ast.Call(func, [first, *_]) if first is context.node:
            owner = func.value if isinstance(func, ast.Attribute) else func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            return name in ("getenv", "putenv", "setenv", "unsetenv") or _is_environment(context.module, owner)
        case ast.Compare(_, [ast.In() | ast.NotIn()], [right]):
            return _is_environment(context.module, right)
        case ast.Dict():
            above = context.module.parent(up)
            return (isinstance(above, ast.keyword) and above.arg == "env") or (
                isinstance(above, ast.Call) and _is_environment(context.module, above.func)
            )
    return False


_ENVIRONMENTS = ("env", "envs", "my_env", "new_env", "current_env")


def _is_environment(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether an expression has "environ" in a name or a string, or is a usual name of a copy of it."""
    if isinstance(node, ast.Name) and node.id in _ENVIRONMENTS:
        return True
    return any("environ" in word for word in identifiers_in(module, node) | strings_in(module, node))


def import_probe(context: RuleContext) -> Iterator[Finding]:
    if context.call is None:
        return
    below: ast.AST = context.node
    for up in context.module.ancestors(context.node):
        if isinstance(up, ast.Lambda) or (isinstance(up, FUNCTIONS) and below in up.body):
            return
        if isinstance(up, ast.If) and "__name__" in identifiers_in(context.module, up.test):
            return
        below = up
    if _is_imported(context.module):
        yield context.note()


@query
def _is_imported(module: SemanticModel) -> bool:
    """Return whether the file is there to be imported; one with a relative import is part of a package."""
    imports = (s for s in module.scopes.statements if isinstance(s, ast.ImportFrom))
    return is_imported(module) or any(s.level for s in imports)


_CUDA_WORDS = ("cuda_sources", "extra_cuda_cflags")


def cpp_extension(context: RuleContext) -> Iterator[Finding]:
    if isinstance(context.parent, ast.alias) or context.call is None:
        return
    if (context.qualified or "").endswith("CUDAExtension"):
        if _first(context):
            yield context.note()
    elif _has_kernels(context, context.call):
        yield context.note()


def _first(context: RuleContext) -> bool:
    """Return whether this is the file's first extension. A setup.py lists many, and one finding is enough for all."""
    return first_call(context.module, {context.qualified or ""}) is context.call


def _has_kernels(context: RuleContext, call: ast.Call) -> bool:
    """Return whether an extension has CUDA sources; C++ builds everywhere, and unknown sources may."""
    named = {k.arg: k.value for k in call.keywords}
    with_cuda = named.get("with_cuda")
    if isinstance(with_cuda, ast.Constant) and with_cuda.value is not None:
        return bool(with_cuda.value)
    if any(word in named for word in _CUDA_WORDS):
        return True
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.endswith(".cu") for n in ast.walk(call)
    )


_LIGHTNING = ("pytorch_lightning.", "lightning.")


def lightning_gpus(context: RuleContext) -> Iterator[Finding]:
    """Report a Trainer of Lightning's that is given a number of CUDA's devices, or their numbers."""
    given = next((k.value for k in context.call.keywords if k.arg == "gpus"), None) if context.call else None
    if context.call is None or given is None or (isinstance(given, ast.Constant) and not given.value):
        return
    name = context.module.resolve(context.call.func, context.scope) or ""
    if name.startswith(_LIGHTNING) and "Trainer" in name.split("."):
        yield context.note()
