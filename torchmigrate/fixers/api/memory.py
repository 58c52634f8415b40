"""Fixers for streams (CUDA's own on CUDA, else the backend's or its one queue), memory and seeds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.api.amp import helper_class
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.hazard.mps import where_cuda_is_named
from torchmigrate.semantic.library_use import uses_torch
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import helper_function, identifiers_in, strings_in
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import own_blocks

_RAW = ("cuda_stream", "ptr")  # the handle that another CUDA library takes


def stream(context: RuleContext) -> Iterator[Finding]:
    name = (context.qualified or "").rpartition(".")[2]
    up = context.parent
    if isinstance(up, ast.Attribute) and up.attr in _RAW:
        yield context.note(f"`.{up.attr}` is CUDA's own handle, which other devices' streams do not have")
    elif name == "Stream":
        yield from helper_class(context)
    elif not isinstance(up, ast.alias):
        yield context.replace(context.ref, f"accel.{'stream' if name == 'StreamContext' else name}")


def record_stream(context: RuleContext) -> Iterator[Finding]:
    own = isinstance(context.ref, ast.Attribute) and _is_own(context.ref.value, "self")
    if context.call is not None and not own:
        yield context.rewrite("$x.record_stream($$s)", "accel.record_stream($x, $$s)") or context.note()


def _is_own(receiver: ast.expr, *names: str) -> bool:
    """Return whether a receiver is `super()` or one of these names, so that the method is the class's own."""
    match receiver:
        case ast.Name(name):
            return name in names
        case ast.Call(ast.Name("super"), [], []):
            return True
    return False


def pin_memory(context: RuleContext) -> Iterator[Finding]:
    if isinstance(context.ref, ast.Call):
        yield from _made_pinned(context, context.ref)
        return
    call = context.call
    if call is None or not isinstance(context.ref, ast.Attribute):
        return
    if _is_own(context.ref.value, "self", "cls"):
        return
    if call.args or call.keywords:
        yield context.note(
            "`pin_memory(device)` raises without an accelerator, and its argument is deprecated: leave it out"
        )
    elif _asks_for_pinned(context):
        yield context.left("an assertion behind it asks whether this is pinned")
    else:
        yield context.rewrite("$x.pin_memory()", "accel.pin($x)") or context.note()


def _made_pinned(context: RuleContext, call: ast.Call) -> Iterator[Finding]:
    """Rewrite the option of a function of torch's that makes a tensor: `torch.empty(8, pin_memory=True)`."""
    home, _, name = (context.module.resolve(call.func) or "").rpartition(".")
    for option in call.keywords if home == "torch" and name.islower() else ():
        if option.arg == "pin_memory" and isinstance(option.value, ast.Constant) and option.value.value is True:
            yield context.replace(option.value, "accel.pin_memory()", where_cuda_is_named(context.module))


def _asks_for_pinned(context: RuleContext) -> bool:
    """Return whether the function asserts that something is pinned: it is about pinning itself."""
    function = context.module.function(context.node)
    asserts = (n for n in ast.walk(function) if isinstance(n, ast.Assert)) if function is not None else ()
    return any("is_pinned" in identifiers_in(context.module, each.test) for each in asserts)


def non_blocking(context: RuleContext) -> Iterator[Finding]:
    if context.call is None or not uses_torch(context.module) or not context.module.facts.is_for_devices:
        return
    for keyword in context.call.keywords:
        if keyword.arg == "non_blocking" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
            yield context.replace(keyword.value, "accel.non_blocking()", where_cuda_is_named(context.module))


def manual_seed(context: RuleContext) -> Iterator[Finding]:
    assert context.qualified is not None
    name = context.qualified.rpartition(".")[2]
    if context.call is None:
        if not isinstance(context.parent, (ast.alias, ast.Attribute)):
            yield context.replace(context.ref, f"accel.{name}")
    elif seeded_beside(context, context.call) and not _behind_helper(context, context.call):
        yield context.left("torch.manual_seed beside it seeds every device with the same seed")
    else:
        yield context.rewrite(f"{context.qualified}($$args)", f"accel.{name}($$args)") or context.note()


def _behind_helper(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a test for any accelerator stands around the call: half of a decision would stay CUDA's."""
    module = context.module
    tests = (getattr(up, "test", up) for up in module.enclosing(call, ast.If, ast.IfExp))
    return any(helper_function(module, node) == "is_available" for test in tests for node in ast.walk(test))


def seeded_beside(context: RuleContext, call: ast.Call) -> bool:
    """Return whether `torch.manual_seed`, which seeds every device, certainly runs with the same seed."""
    module = context.module
    owner = module.function(call) or module.tree
    wanted = _values(call)
    for statement in module.scopes.statements:
        if module.function(statement) is not (owner if owner is not module.tree else None) or not _always(
            module, statement, call
        ):
            continue
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Call)
                and _values(node) == wanted
                and module.resolve(node.func, context.scope) == "torch.manual_seed"
            ):
                return True
    return False


def _values(call: ast.Call) -> list[str]:
    return [ast.dump(a) for a in (*call.args, *(k.value for k in call.keywords))]


def _always(module: SemanticModel, statement: ast.stmt, call: ast.Call) -> bool:
    """Return whether `statement`, a plain one, runs whenever the block of `call` does: it stands there or around it."""
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        return False
    here: ast.AST = module.statement(call)
    while here is not module.tree:
        up = module.parent(here)
        if up is None:
            break
        if any(here in block and statement in block for block in own_blocks(up)):
            return True
        here = up
    return False


_FULL = "out of memory"


def out_of_memory_text(context: RuleContext) -> Iterator[Finding]:
    """Report a test that looks for CUDA's message of memory that runs out, unless it looks for others' messages too."""
    module = context.module
    match context.node:
        case ast.Compare(ast.Constant(str(text)) as word, [ast.In() | ast.NotIn()], [right]):
            before, found, _ = text.lower().partition(_FULL)
            is_cudas = bool(found) and "cuda" in before and not isinstance(right, (ast.List, ast.Tuple, ast.Set))
        case _:
            return
    around = module.function(context.node) or module.tree
    others = (other.lower() for other in strings_in(module, around))
    if is_cudas and not any(_FULL in other and "cuda" not in other for other in others):
        at = module.span(word)[0]
        written = module.text(word).lower().encode()
        start = written.find(f"{before}{_FULL}".encode())
        if start < 0:
            yield context.note()  # it is written with escapes
        else:
            yield context.fix([Edit(at + start, at + start + len(before.encode()), "")])
