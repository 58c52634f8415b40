"""The fixer for `torch.cuda.is_available()`, which may ask for any accelerator if the code that it guards allows it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.dominance import decided_by, lacks_cuda_alone
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import words_in
from torchmigrate.syntax.resolver import SKIP_MARKS, chain_of, ends_program, last_name, leaves_block, skips_test
from torchmigrate.syntax.scope import FUNCTIONS, Binding, Function
from torchmigrate.torch_api.libraries import of_library

_TELLS = {"print", "info", "debug", "warning", "warn", "log", "write", "format", "append", "echo", "str"}
_CAPABILITY = re.compile(r"get_device_capability|^capability$|compute_capability")
_GENERATION = re.compile(r"(^|_)sm(_?\d|_at_least|_version)")  # of NVIDIA's devices: `is_sm_at_least_89()`
_FLAG = re.compile(r"cuda|gpu|fp16|bf16|tf32|half|(^|_)amp($|_)", re.I)
_SKIP = re.compile(r"^skip|Skip")
_NEEDS = re.compile(r"(?i)([\w -]+?) (?:requires?|needs?) (?:an? )?(?:nvidia )?cuda\b|([\w -]+?) is cuda[ -]only")
_TESTS = {"test", "tests", "this", "these", "it", "which", "cuda", "gpu", "gpus"}  # what says nothing of the code
_VENDOR = re.compile(r"^hip$|rocm|nvidia", re.I)


def is_available(context: RuleContext) -> Iterator[Finding]:
    if context.call is None:
        up = context.parent
        if not isinstance(up, (ast.Attribute, ast.Expr)):
            yield context.note("handed on as a function: it asks for CUDA alone")
        return
    if _told(context):
        yield context.left("its answer is only told")
        return
    if (line := _told_later(context)) is not None:
        yield replace(context.left(f"line {line} tells its answer under CUDA's name"), blocks=True)
        return
    if _pins(context):
        yield context.left("it decides over pinning, which MPS cannot")
        return
    if _compiles(context):
        yield context.left("it chooses how torch.compile compiles, and each backend has its own ways")
        return
    if _is_flag_of_library(context):
        yield context.left("another library's flag: what that does with another accelerator is not known")
        return
    refusal, said = _refusal(context)
    if library := _library_named(said or _told_around(context)):
        yield context.left(f"it refuses what {library} needs, which runs on NVIDIA's devices alone")
        return
    if subject := _needing_cuda(_said_by_skip(context)):
        yield replace(context.left(f'it skips a test, as "{subject}" needs CUDA'), blocks=True)
        return
    lifted = _is_lifted(context, refusal, said)
    asked = "is_usable" if lifted else "is_available"
    found = context.rewrite("torch.cuda.is_available()", f"accel.{asked}()") or context.note()
    backends = ("cpu", *found.backends) if lifted else found.backends
    yield replace(found, blocks=found.blocks or _asks_capability(context), backends=backends)


def _pins(context: RuleContext) -> bool:
    """Return whether the test decides over pinning memory, which MPS cannot do (pytorch #86060)."""
    for up in context.module.enclosing(context.node, ast.keyword, ast.BoolOp, ast.stmt):
        if isinstance(up, (ast.keyword, ast.BoolOp, ast.Assign)):
            named = [up.arg or ""] if isinstance(up, ast.keyword) else words_in(context.module, up)
            return any(name.startswith(("pin_memory", "pinmemory")) for name in named)
        break
    return False


def _compiles(context: RuleContext) -> bool:
    """Return whether the test decides how `torch.compile` works: `backend="inductor" if ... else "aot_eager"`."""
    module = context.module
    keyword = next(iter(module.enclosing(context.node, ast.keyword, ast.stmt)), None)
    call = module.parent(keyword) if isinstance(keyword, ast.keyword) else None
    return isinstance(call, ast.Call) and module.resolve(call.func) == "torch.compile"


def _is_flag_of_library(context: RuleContext) -> bool:
    """Return whether the test is a flag of another library: `easyocr.Reader(gpu=...)`, `TrainingArguments(fp16=..)`."""
    up, module = context.parent, context.module
    call = module.parent(up) if isinstance(up, ast.keyword) and _FLAG.search(up.arg or "") else None
    name = chain_of(call.func) if isinstance(call, ast.Call) else None
    found = module.scope(context.node).find(name.partition(".")[0]) if name else None
    return bool(found) and all(_is_library(module, binding) for binding in found[1])  # type: ignore[index]


def _is_library(module: SemanticModel, binding: Binding) -> bool:
    name = binding.qualified or ""
    local = binding.local or (0, name, "")
    known = name.partition(".")[0] in {"", "torch", *sys.stdlib_module_names}
    return not known and module.facts.index.find(str(module.path), *local) is None


def _asks_capability(context: RuleContext) -> bool:
    """Return whether the test belongs to one for a capability: elsewhere the capability (0, 0) would be "too old"."""
    if any(_asks_vendor(context.module, up) for up in context.module.enclosing(context.node, ast.BoolOp)):
        return True
    branch = context.module.nearest(context.node, ast.IfExp, ast.stmt)
    if not isinstance(branch, (ast.If, ast.IfExp, ast.Assign, ast.Return, ast.Assert)):
        return False
    return _compares_capability(context.module, branch)


@query
def _asks_vendor(module: SemanticModel, test: ast.AST) -> bool:
    """Return whether a test names NVIDIA or AMD, in code or a string, or asks for `torch.version.cuda` or cuDNN."""
    if any(map(_VENDOR.search, words_in(module, test))):
        return True
    asked = ((last_name(n.value), n.attr) for n in ast.walk(test) if isinstance(n, ast.Attribute))
    return any(pair in (("version", "cuda"), ("cudnn", "is_available")) for pair in asked)


@query
def _compares_capability(module: SemanticModel, branch: ast.AST) -> bool:
    """Return whether the branch compares an NVIDIA device's capability, itself or in a function that it calls."""
    return any(
        (isinstance(n, ast.Compare) and _is_about_capability(module, n))
        or (isinstance(n, ast.Call) and _GENERATION.search(last_name(n.func)))
        for n in ast.walk(branch)
    )


def _is_about_capability(module: SemanticModel, compared: ast.Compare) -> bool:
    words = words_in(module, compared)
    of_properties = "get_device_properties" in words and not words.isdisjoint(("major", "minor"))
    return of_properties or any(map(_CAPABILITY.search, words))


def _is_lifted(context: RuleContext, refusal: ast.stmt | None, said: Sequence[ast.AST]) -> bool:
    """Return whether the program ends for want of CUDA alone; migrated, it then runs without an accelerator.

    It goes on refusing the CPU if it does not say that CUDA is what it lacks, if it speaks of the CPU, if somebody may
    have chosen the device that is not there (the refusal depends on a test, or tells a value), and if it skips a test.
    """
    if refusal is None or _depends(context.module, refusal):
        return False
    inside = [node for part in said for node in ast.walk(part)]
    if any(isinstance(node, ast.FormattedValue) or _SKIP.search(last_name(node)) for node in inside):
        return False
    return lacks_cuda_alone(said)


def _library_named(said: Sequence[ast.AST]) -> str:
    """Return the library for NVIDIA's devices that a refusal names: "CUDA is required for apex", or ""."""
    texts = (n.value for part in said for n in ast.walk(part) if isinstance(n, ast.Constant))
    words = (word for text in texts if isinstance(text, str) for word in re.split(r"[^\w-]+", text))
    return next((word for word in words if of_library(word)), "")


def _said_by_skip(context: RuleContext) -> list[ast.AST]:
    """Return what skips a test for want of CUDA: the mark `unittest.skipUnless(test, "...")`, or a branch's body."""
    for up in context.module.enclosing(context.node, ast.Call, ast.stmt):
        if isinstance(up, ast.Call) and last_name(up.func) in SKIP_MARKS:
            return [up]
        if isinstance(up, ast.If) and skips_test(up.body):
            return [*up.body]
    return []


def _needing_cuda(said: Sequence[ast.AST]) -> str:
    """Return what a skip says needs CUDA, apart from the test: "the op" of "the op is CUDA-only", or ""."""
    inside = (node for part in said for node in ast.walk(part))
    texts = (node.value for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, str))
    subjects = (match[1] or match[2] for match in map(_NEEDS.match, texts) if match)
    return next((each for each in subjects if _TESTS.isdisjoint(each.lower().split())), "")


def _refusal(context: RuleContext) -> tuple[ast.stmt | None, list[ast.AST]]:
    """Return the statement that ends the program where the test fails, and what it says; None if none does."""
    node: ast.AST = context.node
    up = context.parent
    negated = isinstance(up, ast.UnaryOp) and isinstance(up.op, ast.Not)
    if negated:
        node, up = up, context.module.parent(up)  # type: ignore[assignment, arg-type]
    match up:
        case ast.Assert() if up.test is node and not negated:
            return up, [up.msg] if up.msg else []
        case ast.If() if up.test is node and ends_program(ends := up.body if negated else up.orelse):
            return up, [*ends]
    return None, []


def _told_around(context: RuleContext) -> list[ast.AST]:
    """Return what a refusal says that asks for more than CUDA: `assert has_apex and torch.cuda.is_available(), ...`."""
    node: ast.AST = context.node
    up = context.parent
    while isinstance(up, (ast.BoolOp, ast.UnaryOp)):
        node, up = up, context.module.parent(up)
    match up:
        case ast.Assert(test, ast.expr() as said) if test is node:
            return [said]
        case ast.If(test, body) if test is node and ends_program(body):
            return [*body]
    return []


def _depends(module: SemanticModel, statement: ast.stmt) -> bool:
    """Return whether a statement depends on some other test, around it or before it: somebody may choose."""
    for up in (statement, *module.ancestors(statement)):
        if isinstance(up, ast.stmt) and not isinstance(up, FUNCTIONS):
            block, at = module.blocks.place(up)
            if any(isinstance(s, ast.If) and _returns(s) for s in block[:at]):
                return True
        if isinstance(up, FUNCTIONS):
            return False
        if up is statement:
            continue
        asked = up.subject if isinstance(up, ast.Match) else up.test if isinstance(up, (ast.If, ast.While)) else None
        words = words_in(module, asked) if asked else ()
        if words and "__name__" not in words:
            return True
    return False


def _returns(branch: ast.If) -> bool:
    """Return whether an arm of a branch leaves its block, but neither the program nor with an exception."""
    return any(leaves_block(arm) and not ends_program(arm) for arm in (branch.body, branch.orelse))


def _told(context: RuleContext) -> bool:
    """Return whether the answer is only printed: a report about CUDA stays one."""
    node: ast.AST = context.node
    for up in context.module.ancestors(node):
        match up:
            case ast.Call(func):
                return node is not func and getattr(func, "id", getattr(func, "attr", "")) in _TELLS
            case ast.JoinedStr() | ast.FormattedValue() | ast.Tuple():
                node = up
            case ast.BinOp(ast.Constant(str())):
                node = up
            case ast.Dict():
                return not _is_asked_for(context.module, up, node)
            case ast.Expr():
                return True
            case _:
                return _is_told_as_cudas(up)
    return False


def _is_asked_for(module: SemanticModel, table: ast.Dict, item: ast.AST) -> bool:
    """Return whether an item of a table decides something, in this file or in one that takes the table from it."""
    keys = (key for key, value in zip(table.keys, table.values, strict=True) if value is item)
    match next(keys, None):
        case ast.Constant(str(key)):
            if any(decided_by(module, read) is not None for read in _items(module).get(key, ())):
                return True
            spelled = tuple(text.encode() for text in (f".{key}", f'["{key}"]', f"['{key}']"))
            takers = module.facts.index.takers(str(module.path), _kept_as(module, table))
            texts = (module.facts.index.read_or_nothing(path) for path in takers)
            return any(words in text for text in texts for words in spelled)
    return False


@query
def _items(module: SemanticModel) -> Mapping[str, list[ast.expr]]:
    """Return the reads of attributes and items by name: `args.cuda`, `args["cuda"]`, `args.get("cuda")`."""
    found: dict[str, list[ast.expr]] = {}
    for node in module.nodes:
        match node:
            case ast.Attribute(_, name, ast.Load()) if not module.resolve(node):
                found.setdefault(name, []).append(node)
            case ast.Subscript(_, ast.Constant(str(name)), ast.Load()):
                found.setdefault(name, []).append(node)
            case ast.Call(ast.Attribute(_, "get"), [ast.Constant(str(name)), *_]):
                found.setdefault(name, []).append(node)
    return found


def _kept_as(module: SemanticModel, table: ast.Dict) -> str:
    """Return the name under which a file keeps a table, also one that is handed to a class, or ""."""
    for up in module.ancestors(table):
        match up:
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
                return name if module.function(up) is None else ""
            case ast.Call() | ast.keyword():
                continue
        break
    return ""


def _is_told_as_cudas(statement: ast.AST | None) -> bool:
    """Return whether a statement puts a value under a name of CUDA's: `report["CUDA available"] = ...`."""
    match statement:
        case ast.Assign([ast.Subscript(_, ast.Constant(str(name)))]):
            return "cuda" in name.lower()
    return False


def _told_later(context: RuleContext) -> int | None:
    """Return the line that puts the variable with the answer under a name of CUDA's, or None."""
    match context.parent:
        case ast.Assign([ast.Name(name)] as targets):
            return _told_as_cudas(context.module).get((context.module.function(targets[0]), name))
    return None


@query
def _told_as_cudas(module: SemanticModel) -> dict[tuple[Function | None, str], int]:
    """Return by function and variable the first line that puts it under a name of CUDA's."""
    found: dict[tuple[Function | None, str], int] = {}
    for statement in module.scopes.statements:
        if _is_told_as_cudas(statement) and isinstance(value := getattr(statement, "value", None), ast.Name):
            found.setdefault((module.function(statement), value.id), statement.lineno)
    return found
