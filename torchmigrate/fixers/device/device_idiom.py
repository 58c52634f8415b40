"""`X if torch.cuda.is_available() else Y`, where X names CUDA and Y the CPU: the whole idiom is replaced.

So is `X if tensor.is_cuda else Y`: it becomes the tensor's device.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding, Fix, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device.device_defaults import CLOSED, is_closed
from torchmigrate.semantic.device_expr import is_cpu, parse, parse_device
from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import helper_function, reads_of, words_in
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.torch_api.backends import having

_FLAGS = ("cuda", "use_cuda", "no_cuda")
_NAMES_CUDA = {"cuda", "is_cuda"}
_OTHER = re.compile(rf"^(is_)?({'|'.join(having('idiom'))})$|accelerator")  # a word about another accelerator


def device_idiom(context: RuleContext) -> Iterator[Finding]:
    node = context.node
    assert isinstance(node, ast.IfExp)
    arms = _arms(context.module, node)
    if arms is None:
        asked = _asked(node.test)
        flag = last_name(asked.left if isinstance(asked, ast.Compare) else asked)
        if flag.lower() in _FLAGS and not any(_is_settled(context.module, side) for side in (node.body, node.orelse)):
            yield context.left("a choice by a flag of the project's, neither side of which names a device of CUDA's")
        return
    cuda, other = arms
    if _backend(cuda) == "nccl" and _backend(other) == "gloo":
        yield context.replace(node, "accel.dist_backend()")
        return
    if isinstance(cuda, ast.Constant) and cuda.value is None and _keeps_on_cpu(context.module, other):
        yield from _map_location(context, node)
        return
    device = parse_device(context.module, cuda)
    if device is None or not is_idiom(context.module, node):
        return
    whole, typed = _context(context, node, is_string=parse(context.module, cuda) is not None)
    if is_closed(context.module, context.module.parent(whole), whole):
        yield context.note(f"{context.rule.message}; {CLOSED}")
        return
    # the replaced code asked for CUDA at the same place, so importing the module asks no more than before
    template = device.as_device if typed else device.as_type
    if (tensor := _tensor(node)) is not None:
        is_device = typed or _is_told_torch(context.module, whole)
        template = f"{context.module.text(tensor)}.device" + ("" if is_device else ".type")
    found = context.replace(whole, template)
    yield replace(found, fix=_without_parentheses(context.module, whole, found.fix)) if found.fix else found


def _without_parentheses(module: SemanticModel, node: ast.AST, fix: Fix) -> Fix:
    """Return the fix with the parentheses around a value that is assigned or returned: they held its lines together."""
    text, (start, end) = module.source.utf8, module.span(node)
    while isinstance(module.parent(node), (ast.Assign, ast.AnnAssign, ast.Return)):
        before, after = text[:start].rstrip(), text[end:].lstrip()
        if not (before.endswith((b" (", b"((")) and after.startswith(b")")):
            break
        start, end = len(before) - 1, len(text) - len(after) + 1
    own = module.span(node)
    edits = tuple(Edit(start, end, e.text) if (e.start, e.end) == own else e for e in fix.edits)
    return replace(fix, edits=edits)


def _is_settled(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether other rules report a side (`x.cuda()`, "cuda:0", its own flag), or it calls the helper already."""
    if not _NAMES_CUDA.isdisjoint(words_in(module, node)):
        return True
    return any(helper_function(module, each) for each in ast.walk(node))


def is_idiom(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a whole idiom may be replaced: it has no comment, and no portable selection around it."""
    if not isinstance(node, ast.IfExp) or (arms := _arms(module, node)) is None:
        return False
    device = parse_device(module, arms[0])
    if device is None or not is_cpu(module, arms[1]):
        return False
    if (tensor := _tensor(node)) is not None and (device.index is not None or chain_of(tensor) is None):
        return False  # a call may give another tensor each time
    above = module.enclosing(node, ast.IfExp)
    return not module.holds_comment(node) and not any(_names_other(module, up.test) for up in above)


def _names_other(module: SemanticModel, test: ast.expr) -> bool:
    return any(map(_OTHER.search, words_in(module, test)))


def _arms(module: SemanticModel, node: ast.IfExp) -> tuple[ast.expr, ast.expr] | None:
    """Return (value with CUDA, value without) if the test asks for CUDA and nothing else; else None."""
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    asked = _asked(node.test)
    called = asked.func if isinstance(asked, ast.Call) and not asked.args else None
    if _tensor(node) is None and not (called and module.resolve(called) == "torch.cuda.is_available"):
        return None
    return (node.orelse, node.body) if negated else (node.body, node.orelse)


def _tensor(node: ast.IfExp) -> ast.expr | None:
    """Return x of a choice by `x.is_cuda`."""
    asked = _asked(node.test)
    return asked.value if isinstance(asked, ast.Attribute) and asked.attr == "is_cuda" else None


def _is_told_torch(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a value is the `device` of a torch function, which takes a `torch.device` as well as a `str`."""
    keyword = module.parent(node)
    call = module.parent(keyword) if isinstance(keyword, ast.keyword) and keyword.arg == "device" else None
    return isinstance(call, ast.Call) and (module.resolve(call.func) or "").startswith("torch.")


def _asked(test: ast.expr) -> ast.expr:
    """Return a test without the `not` before it."""
    return test.operand if isinstance(test, ast.UnaryOp) else test


def _backend(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _keeps_on_cpu(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether a value is `"cpu"` or `lambda storage, loc: storage`."""
    returned = isinstance(node, ast.Lambda) and isinstance(node.body, ast.Name) and node.args.args[:1]
    return is_cpu(module, node) or bool(returned and node.body.id == returned[0].arg)  # type: ignore[attr-defined]


def _map_location(context: RuleContext, node: ast.AST) -> Iterator[Finding]:
    """Yield the finding for `None if torch.cuda.is_available() else "cpu"`: MPS cannot load by None."""
    module, up = context.module, context.module.parent(node)
    loads = _loads_by(module, node)
    if isinstance(up, ast.Assign) and isinstance(target := up.targets[0], ast.Name) and len(up.targets) == 1:
        know_parents(module)
        reads = reads_of(module, target.id, module.scope(up))
        loads = bool(reads) and all(_loads_by(module, read.node) for read in reads)
    safety = Safety.SAFE if loads else Safety.UNSAFE
    why = "" if loads else f"{context.rule.message}; this may be used for something else than `map_location`"
    yield context.replace(node, "accel.map_location()", safety, why)


def _loads_by(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a value is the `map_location` of `torch.load`."""
    up = module.parent(node)
    call = module.parent(up) if isinstance(up, ast.keyword) and up.arg == "map_location" else up
    return isinstance(call, ast.Call) and module.resolve(call.func) == "torch.load" and call.args[:1] != [node]


def _context(context: RuleContext, node: ast.AST, is_string: bool) -> tuple[ast.AST, bool]:
    """Return the node to replace, and whether it may be a `torch.device`; a string that is searched stays one."""
    up = context.module.parent(node)
    if not is_string:
        return node, True
    if isinstance(up, ast.Call) and up.args == [node] and not up.keywords:
        name = context.module.resolve(up.func)
        if name == "torch.device":
            return up, True
        if isinstance(up.func, ast.Attribute) and up.func.attr == "to":
            return node, True
    return node, False
