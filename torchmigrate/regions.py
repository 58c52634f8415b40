"""Which code an availability or device-type test guards: branches, arms, flags, what follows a refusal."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from torchmigrate.edits import Finding
from torchmigrate.ladders import PORTABLE, portable_beside, portable_chain, portable_expression
from torchmigrate.module import Module
from torchmigrate.scope import chain_of

Span = tuple[int, int]


GUARD_RULES = {"device/is-available", "device/device-test", "device/device-idiom"}


@dataclass(slots=True)
class Region:
    """One test (or flag) and the spans that run only where it holds."""

    guards: list[Span] = field(default_factory=list)
    covered: list[Span] = field(default_factory=list)
    reason: str = ""
    branch: bool = False  # an `if` or `while`, whose body is all that the test is for
    refusal: bool = False  # the program ends where the test fails: what follows may change though the refusal stays

    def holds(self, finding: Finding, inside: bool = True) -> bool:
        spans = (*self.guards, *self.covered) if inside else self.guards
        return any(a <= finding.start and finding.end <= b for a, b in spans)


def regions(module: Module, findings: list[Finding]) -> Iterator[Region]:
    guards = [(f.start, f.end) for f in findings if f.rule in GUARD_RULES]
    if not guards:
        return
    tests = Tests(module)
    for start, end in guards:
        node = tests.nodes.get((start, end))
        if node is not None:
            yield _region_of(module, node, (start, end), tests)


class Tests:
    """The statements and expressions of a module that test something, and the outermost expression of each span."""

    def __init__(self, module: Module) -> None:
        self.branches = [s for s in module.scopes.statements if isinstance(s, (ast.If, ast.While))]
        self.expressions: list[ast.IfExp] = []
        self.nodes: dict[Span, ast.AST] = {}
        for node in list(module.scopes.parent):
            if isinstance(node, ast.IfExp):
                self.expressions.append(node)
            if isinstance(node, ast.expr):
                self.nodes.setdefault(module.span(node), node)


def _region_of(module: Module, guard: ast.AST, span: Span, tests: Tests) -> Region:
    region = Region([span])
    node = guard
    negated = isinstance(guard, ast.Compare) and isinstance(guard.ops[0], (ast.NotEq, ast.NotIn))
    for up in module.ancestors(guard):
        match up:
            case ast.UnaryOp(ast.Not()):
                negated = not negated
            case ast.BoolOp():
                region.covered.append(module.span(up))
            case ast.If() | ast.While() if up.test is node:
                cover_branch(module, up, negated, region)
                break
            case ast.IfExp() if up.test is node:
                arm = up.orelse if negated else up.body
                region.covered.append(module.span(arm))
                negated = False
                if portable_expression(module, up):
                    region.reason = PORTABLE
            case ast.Assign() | ast.AnnAssign():
                _cover_flag(module, up, region, tests)
                break
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node in up.decorator_list:
                region.covered.append(module.span(up))
                region.refusal = True  # a skipped test: what it would do may change though it stays skipped
                break
            case ast.Assert() if up.test is node:
                region.refusal = True
                region.guards.append(module.span(up))  # a count of devices beside it is asked of the same ones
                region.covered += [module.span(s) for s in _after(module, up)]
                break
            case ast.stmt():
                break
        node = up
    statement = module.statement(guard)
    if not region.reason and portable_beside(module, statement):
        region.reason = PORTABLE
    return region


def cover_branch(module: Module, node: ast.If | ast.While, negated: bool, region: Region) -> None:
    body = node.orelse if negated else node.body
    region.branch = True
    region.covered += [module.span(s) for s in body]
    region.covered.append(module.span(node.test))
    contrary = node.body if negated else node.orelse
    if _leaves(contrary):
        region.refusal = refuses(contrary)
        region.covered += [module.span(s) for s in _after(module, node)]
    if isinstance(node, ast.If) and portable_chain(module, node):
        region.reason = PORTABLE


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and (isinstance(body[-1], (ast.Return, ast.Continue, ast.Break, ast.Raise)) or _exits(body[-1]))


def _exits(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and (chain_of(call.func) or "") in ("exit", "quit", "sys.exit", "os._exit")


def refuses(body: list[ast.stmt]) -> bool:
    """Whether a branch ends the program (or the function, by an exception)."""
    return bool(body) and (isinstance(body[-1], ast.Raise) or _exits(body[-1]))


def _after(module: Module, node: ast.stmt) -> list[ast.stmt]:
    owner = module.parent(node)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(owner, name, None)
        if isinstance(block, list) and node in block:
            return block[block.index(node) + 1 :]
    return []


def _cover_flag(module: Module, node: ast.Assign | ast.AnnAssign, region: Region, tests: Tests) -> None:
    """All code of the file that runs only where the flag holds."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    flag = chain_of(target)
    if flag is None:
        return
    home = module.scope(node).find(flag) if "." not in flag else None
    for branch in tests.branches:
        polarity = _tests_flag(module, branch.test, flag, home)
        if polarity is not None:
            cover_branch(module, branch, not polarity, region)
            region.branch = False
    for expression in tests.expressions:
        polarity = _tests_flag(module, expression.test, flag, home)
        if polarity is not None:
            region.covered.append(module.span(expression.body if polarity else expression.orelse))


def _tests_flag(module: Module, test: ast.expr, flag: str, home: object) -> bool | None:
    """True where `test` needs the flag to hold, False where it needs the contrary, None where it does not ask."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            inner = _tests_flag(module, operand, flag, home)
            return None if inner is None else not inner
        case ast.BoolOp(_, values):
            return next((p for v in values if (p := _tests_flag(module, v, flag, home)) is not None), None)
        case ast.Compare(left, [_], [_]):
            return _tests_flag(module, left, flag, home)
    if chain_of(test) != flag:
        return None
    same = home is None or module.scope(test).find(flag) == home
    return True if same else None
