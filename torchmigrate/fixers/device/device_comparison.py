"""Fixers for tests of a device type: `x.is_cuda`, `device == "cuda"`, `"cuda" in str(device)`.

They are rewritten only together with code that they guard: a bare `fused = device == "cuda"` may mean NVIDIA.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.semantic.device_expr import DEVICE_NAME, in_fstring, makes_device
from torchmigrate.semantic.guard_regions import kernel_for_the_cpu
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers_in
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.torch_api.names import turns_half_on

Test = tuple[ast.AST, str, str]  # the whole test, its pattern, its template


def device_comparison(context: RuleContext) -> Iterator[Finding]:
    if not isinstance(context.ref, ast.Attribute):
        test = _string_test(context)
    elif isinstance(context.ref.ctx, ast.Load) and not _is_flag(context, context.ref.value):
        test = context.ref, "$x.is_cuda", "accel.is_accelerated($x)"
    else:
        return
    if test and _asks_for_a_prefix(context) and _is_only_made(context, test[0]):
        yield replace(context.left("a `torch.device` has no `startswith`"), blocks=True)
        return
    if test is None and (_asks_for_a_prefix(context) or isinstance(context.parent, ast.Compare)):
        # what a name says is a device keeps what the test guards for CUDA, too: `if kind_of(device) == "cuda"`
        words = identifiers_in(context.module, context.parent or context.node)
        left = context.left("what it asks is not known to be a device")
        yield replace(left, blocks=any(map(DEVICE_NAME.search, words)))
    if test and (line := kernel_for_the_cpu(context.module, test[0])) is not None:
        told = f"on other accelerators line {line} gets this tensor, and its kernel reads the memory as the CPU's"
        yield context.note(f"{told}: hand it a copy on the CPU (`x.cpu()`), and move the result back", blocks=True)
        return
    if test and any(map(turns_half_on, _told_to(context.module, test[0]))):
        yield context.left("a flag for half precision, which was tried on CUDA")
        return
    if test and _falls_back(context.module, test[0]):
        yield replace(context.left("a fallback for who asks for CUDA by name where it is not there"), blocks=True)
        return
    if test and '"' in test[2] and in_fstring(context.module, context.node):
        return  # before Python 3.12 an f-string cannot hold the quotes
    found = test and context.rewrite(test[1], test[2], test[0])
    if found and test:
        up = context.module.parent(test[0])
        option = isinstance(up, ast.keyword) and bool(re.fullmatch(r"(use_)?(gpu|cuda|accelerator)", up.arg or ""))
        yield found if option else replace(found, follows=True)


def half_flag(context: RuleContext) -> Iterator[Finding]:
    """Keep half precision where it was: `half = device.type != "cpu"` means CUDA in a project that knows no other."""
    match context.node:
        case ast.Compare(ast.Attribute(_, "type") as subject, [ast.NotEq()], [ast.Constant("cpu") as cpu]):
            if _is_device(context.module, subject) and any(map(turns_half_on, _told_to(context.module, context.node))):
                start, end = context.module.span(subject)[1], context.module.span(cpu)[1]
                text = context.module.source.utf8[start:end].decode()
                yield context.fix([Edit(start, end, text.replace("!=", "==").replace("cpu", "cuda"))])


def _told_to(module: SemanticModel, test: ast.AST) -> Iterator[str]:
    """Yield the names of the variables and the argument that a test is the value of, or a part of it."""
    for up in module.ancestors(test):
        match up:
            case ast.BoolOp() | ast.BinOp(_, ast.BitAnd()) | ast.IfExp():
                continue
            case ast.Assign(targets):
                yield from map(last_name, targets)
            case ast.AugAssign(target, ast.BitAnd()) | ast.AnnAssign(target) | ast.NamedExpr(target):
                yield last_name(target)
            case ast.keyword(str(name)):
                yield name
        return


def _asks_for_a_prefix(context: RuleContext) -> bool:
    """Return whether the string is the argument of a `startswith`, of any object."""
    up = context.parent
    return isinstance(up, ast.Call) and isinstance(up.func, ast.Attribute) and up.func.attr == "startswith"


def _is_only_made(context: RuleContext, test: ast.AST) -> bool:
    """Return whether `x.startswith(...)` asks a variable that holds nothing but what `torch.device(...)` made."""
    match test:
        case ast.Call(ast.Attribute(ast.Name(name), _)) if found := context.scope.find(name):
            held = [None if isinstance(b.node, ast.arg) else b.value for b in found[1]]
            return all(makes_device(context.module, value) for value in held)
    return False


def _falls_back(module: SemanticModel, test: ast.AST) -> bool:
    """Return whether a test is part of `device == "cuda" and not torch.cuda.is_available()`, right on any device."""
    up = module.parent(test)
    beside = up.values if isinstance(up, ast.BoolOp) and isinstance(up.op, ast.And) else []
    denied = (v.operand for v in beside if isinstance(v, ast.UnaryOp) and isinstance(v.op, ast.Not))
    return any(isinstance(n, ast.Call) and module.resolve(n.func) == "torch.cuda.is_available" for n in denied)


def _is_flag(context: RuleContext, owner: ast.expr) -> bool:
    """Return whether `is_cuda` is an attribute of the project's own: `self.is_cuda = ...`."""
    name = chain_of(owner) if isinstance(owner, (ast.Name, ast.Attribute)) else None
    if name is None:
        return False
    own = any(f".{given}".endswith(f".{name}") for given in _flagged(context.module))
    return own or name in ("self", "args", "opt", "cfg", "config")


@query
def _flagged(module: SemanticModel) -> set[str]:
    """Return the objects whose `is_cuda` the file sets, as dotted names."""
    if "is_cuda" not in module.source.text:
        return set()
    flags = (n for n in module.nodes if isinstance(n, ast.Attribute) and n.attr == "is_cuda")
    return {chain for n in flags if isinstance(n.ctx, ast.Store) and (chain := chain_of(n.value))}


def _string_test(context: RuleContext) -> Test | None:
    text = context.node.value if isinstance(context.node, ast.Constant) else None
    up = context.parent
    match up:
        case ast.Compare(left, [op], [right]) if text == "cuda":
            return _compare(context.module, up, left if right is context.node else right, op, right is context.node)
        case ast.Call(ast.Attribute(subject, "startswith"), [argument], []) if (
            argument is context.node and text == "cuda"
        ):
            pattern, asked = _asked(subject)
            return (
                (up, f'{pattern}.startswith("cuda")', f"accel.is_accelerated({asked})")
                if _is_device(context.module, subject)
                else None
            )
    return None


def _compare(module: SemanticModel, node: ast.Compare, subject: ast.expr, op: ast.cmpop, is_left: bool) -> Test | None:
    pattern, asked = _asked(subject)
    if not _is_device(module, subject):
        return None
    match op:
        case ast.In() | ast.NotIn() if not is_left and not _is_plural(subject):
            positive = isinstance(op, ast.In)
            match = f'"cuda" {"in" if positive else "not in"} {pattern}'
        case ast.Eq() | ast.NotEq():
            positive = isinstance(op, ast.Eq)
            sign = "==" if positive else "!="
            match = f'{pattern} {sign} "cuda"' if is_left else f'"cuda" {sign} {pattern}'
            if not _is_type(subject):  # "cuda:0" == "cuda" is False, and no device equals a str
                if positive:
                    return node, match, f'{pattern} == accel.device_type() != "cpu"'
                other = f'{pattern} == "cpu" or {pattern} != accel.device_type()'
                return node, match, f"({other})" if isinstance(module.parent(node), ast.expr) else other
        case _:
            return None
    return node, match, f"{'' if positive else 'not '}accel.is_accelerated({asked})"


def _is_type(subject: ast.expr) -> bool:
    """Return whether the subject is `device.type` or a variable such as `device_type`, which hold no index."""
    return last_name(subject).endswith("type")


def _is_plural(subject: ast.expr) -> bool:
    return last_name(subject).endswith("s")


def _is_device(module: SemanticModel, subject: ast.expr) -> bool:
    """Return whether the subject is a device, its type or its text, and no message, name or backend."""
    match subject:
        case ast.Call(ast.Name("str"), [inner], []) | ast.Attribute(inner, "type"):
            return makes_device(module, inner) or _is_device(module, inner)
        case ast.Name(name) | ast.Attribute(_, name) | ast.Subscript(_, ast.Constant(str(name))):
            return bool(DEVICE_NAME.search(name))
    return False


def _asked(subject: ast.expr) -> tuple[str, str]:
    """Return the subject's pattern, and the object to ask: x for `str(x)` and `x.type`."""
    match subject:
        case ast.Call(ast.Name("str"), [_], []):
            return "str($x)", "$x"
        case ast.Attribute(_, "type"):
            return "$x.type", "$x"
    return "$x", "$x"
