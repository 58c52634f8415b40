"""Which code an availability or device-type test guards: a guard and all that it guards change together, or neither.

A region whose guarded code holds something only NVIDIA has keeps its guard; a ladder that names mps, xpu or npu beside
cuda is portable already.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torchmigrate.edits import Finding, Status
from torchmigrate.module import Module
from torchmigrate.scope import FUNCTIONS, Binding, chain_of

Span = tuple[int, int]
GUARD_RULES = {"device/is-available", "device/device-test", "device/device-idiom"}
_OTHERS = re.compile(r"\b(mps|xpu|npu|hpu|mlu|musa|hip|accelerator)\b|is_(mps|xpu|npu|rocm|hip)\w*|\w*_(mps|xpu|npu|hip)\b|(mps|xpu|npu)_\w+")
_IDLE = "it guards nothing that would change"
_PORTABLE, _NVIDIA = "a ladder that is portable already", "its guard also covers what stays bound to CUDA (line {})"


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


def decide(module: Module, findings: list[Finding]) -> list[Finding]:
    """Mark as LEFT the fixes of every region that must stay as it is, and device-type tests that guard nothing."""
    regions = list(_regions(module, findings))
    library = _nvidia_names(module) if regions else None
    for region in regions:
        blocker = next((f for f in findings if _keeps(f) and region.holds(f)), None)
        at = blocker.start if blocker is not None else _library_use(module, region, library)
        if not region.reason and at is not None:
            region.reason = _NVIDIA.format(module.source.position(at)[0])
    _spread(regions)
    blocked = [r for r in regions if r.reason]
    out = [_settle(f, blocked) for f in findings]
    idle = [f for f in out if f.fix and _only_follows(f, regions) and not _guards_a_fix(f, regions, out)]
    kept = {_home(module, f) for f in out if f.fix and f.rule == "device/is-available" and f not in idle}
    return [_left(f, _IDLE) if f in idle and (f.follows or _home(module, f) not in kept) else f for f in out]


def _home(module: Module, finding: Finding) -> Span | None:
    """The function around a finding: what it asks twice must be asked in the same way."""
    spans = (module.span(s) for s in module.scopes.statements if isinstance(s, FUNCTIONS))
    return max((s for s in spans if s[0] <= finding.start and finding.end <= s[1]), default=None)


def _only_follows(finding: Finding, regions: list[Region]) -> bool:
    """A test that is worth an edit only for what it guards: `if torch.cuda.is_available(): print("use --cuda")` is not."""
    asks = finding.rule == "device/is-available" and any(r.branch and r.guards == [_span(finding)] for r in regions)
    return finding.follows or asks


def _span(finding: Finding) -> Span:
    return finding.start, finding.end


def _left(finding: Finding, reason: str) -> Finding:
    return replace(finding, fix=None, status=Status.LEFT, message=f"{finding.message} (left alone: {reason})")


def _keeps(finding: Finding) -> bool:
    """Whether the code of a finding stays bound to CUDA: then so must the test that guards it."""
    if finding.follows:
        return False
    return finding.blocks or finding.status in (Status.HELD, Status.SUPPRESSED)


def _nvidia_names(module: Module) -> re.Pattern[str] | None:
    """Names that this file imports from libraries that run on NVIDIA's devices alone, or from a compiled `*_cuda`."""
    found = {
        name
        for scope in {id(s): s for s in module.scopes.scope_of.values()}.values()
        for name, bindings in scope.names.items()
        for b in bindings
        if isinstance(b.node, (ast.Import, ast.ImportFrom)) and (_root(b) in _LIBRARIES or name.endswith("_cuda"))
    }
    return re.compile(rf"(?<![\w.])({'|'.join(sorted(map(re.escape, found)))})(?!\w)") if found else None


def _library_use(module: Module, region: Region, names: re.Pattern[str] | None) -> int | None:
    if names is None or region.refusal:
        return None
    for start, end in region.covered:
        found = names.search(module.source.utf8[start:end].decode())
        if found:
            return start
    return None


def _root(binding: Binding) -> str:
    name = binding.qualified or (binding.local[1] if binding.local else "")
    return name.partition(".")[0]


_LIBRARIES = {
    "apex", "flash_attn", "flash_attn_interface", "xformers", "triton", "bitsandbytes", "pynvml", "py3nvml", "nvidia_smi",
    "GPUtil", "cupy", "pycuda", "transformer_engine", "tensorrt", "torch2trt", "causal_conv1d", "mamba_ssm",
}  # fmt: skip


def _spread(regions: list[Region]) -> None:
    """A flag's region that must stay keeps the guards it shares with others."""
    for _ in regions:
        changed = False
        for region in regions:
            for other in regions:
                if other.reason and not region.reason and set(other.guards) & set(region.guards):
                    region.reason, changed = other.reason, True
        if not changed:
            return


def _settle(finding: Finding, blocked: list[Region]) -> Finding:
    region = next((r for r in blocked if finding.fix and r.holds(finding, inside=not r.refusal)), None)
    if region is None or finding.status is not Status.OPEN:
        return finding
    return _left(finding, region.reason)


def _guards_a_fix(finding: Finding, regions: list[Region], findings: list[Finding]) -> bool:
    mine = [r for r in regions if any(a <= finding.start and finding.end <= b for a, b in r.guards)]
    for region in mine:
        for other in findings:
            inside = any(a <= other.start and other.end <= b for a, b in region.covered)
            if inside and other.fix and not other.follows and _span(other) not in region.guards:
                return True
        if region.refusal:
            return True
    return False


def _regions(module: Module, findings: list[Finding]) -> Iterator[Region]:
    guards = [(f.start, f.end) for f in findings if f.rule in GUARD_RULES]
    if not guards:
        return
    tests = _Tests(module)
    for start, end in guards:
        node = tests.smallest(start, end)
        if node is not None:
            yield from _region_of(module, node, (start, end), tests)


class _Tests:
    """The statements and expressions of a module that test something, and the names they test."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.branches = [s for s in module.scopes.statements if isinstance(s, (ast.If, ast.While))]
        self.expressions: list[ast.IfExp] = []
        self.nodes: dict[Span, ast.AST] = {}
        for node in list(module.scopes.parent):
            if isinstance(node, ast.IfExp):
                self.expressions.append(node)
            if isinstance(node, ast.expr):
                self.nodes.setdefault(module.span(node), node)

    def smallest(self, start: int, end: int) -> ast.AST | None:
        return self.nodes.get((start, end))


def _region_of(module: Module, guard: ast.AST, span: Span, tests: _Tests) -> Iterator[Region]:
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
                _cover_branch(module, up, negated, region)
                break
            case ast.IfExp() if up.test is node:
                arm = up.orelse if negated else up.body
                region.covered.append(module.span(arm))
                negated = False
                if _portable_ladder(module, up, tests):
                    region.reason = _PORTABLE
            case ast.Assign() | ast.AnnAssign():
                _cover_flag(module, up, region, tests)
                break
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node in up.decorator_list:
                region.covered.append(module.span(up))
                break
            case ast.Assert() if up.test is node:
                region.refusal = True
                region.covered += [module.span(s) for s in _after(module, up)]
                break
            case ast.stmt():
                break
        node = up
    statement = module.statement(guard)
    if not region.reason and _ladder_beside(module, statement):
        region.reason = _PORTABLE
    yield region


def _cover_branch(module: Module, node: ast.If | ast.While, negated: bool, region: Region) -> None:
    body = node.orelse if negated else node.body
    region.branch = True
    region.covered += [module.span(s) for s in body]
    region.covered.append(module.span(node.test))
    contrary = node.body if negated else node.orelse
    if _leaves(contrary):
        region.refusal = refuses(module, contrary)
        region.covered += [module.span(s) for s in _after(module, node)]
    if isinstance(node, ast.If) and _portable_chain(module, node):
        region.reason = _PORTABLE


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and (isinstance(body[-1], (ast.Return, ast.Continue, ast.Break, ast.Raise)) or _exits(body[-1]))


def _exits(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and (chain_of(call.func) or "") in ("exit", "quit", "sys.exit", "os._exit")


def refuses(module: Module, body: list[ast.stmt]) -> bool:
    """Whether a branch ends the program (or the function, by an exception)."""
    return bool(body) and (isinstance(body[-1], ast.Raise) or _exits(body[-1]))


def _after(module: Module, node: ast.stmt) -> list[ast.stmt]:
    owner = module.parent(node)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(owner, name, None)
        if isinstance(block, list) and node in block:
            return block[block.index(node) + 1 :]
    return []


def _cover_flag(module: Module, node: ast.Assign | ast.AnnAssign, region: Region, tests: _Tests) -> None:
    """All code of the file that runs only where the flag holds."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    flag = chain_of(target)
    if flag is None:
        return
    home = module.scope(node).find(flag) if "." not in flag else None
    for branch in tests.branches:
        polarity = _tests_flag(module, branch.test, flag, home)
        if polarity is not None:
            _cover_branch(module, branch, not polarity, region)
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


def _mentions_others(module: Module, test: ast.AST) -> bool:
    if _OTHERS.search(module.text(test)):
        return True
    for node in ast.walk(test):
        if isinstance(node, ast.Name):
            found = module.scope(test).find(node.id)
            values = [b.value for b in found[1] if b.value is not None] if found else []
            if any(_OTHERS.search(module.text(v)) for v in values):
                return True
    return False


def _portable_chain(module: Module, node: ast.If) -> bool:
    """An `if/elif` chain that asks for another accelerator in one of its tests."""
    top: ast.AST = node
    while isinstance(up := module.parent(top), ast.If) and up.orelse == [top]:
        top = up
    while isinstance(top, ast.If):
        if _mentions_others(module, top.test):
            return True
        if len(top.orelse) > 1 or not top.orelse or not isinstance(top.orelse[0], ast.If):
            return any(isinstance(n, ast.If) and _mentions_others(module, n.test) for n in top.orelse)
        top = top.orelse[0]
    return False


def _portable_ladder(module: Module, node: ast.IfExp, tests: _Tests) -> bool:
    chain = [node, *(up for up in module.ancestors(node) if isinstance(up, ast.IfExp))]
    below = [n for n in ast.walk(chain[-1]) if isinstance(n, ast.IfExp)]
    return any(_mentions_others(module, n.test) for n in below)


def _ladder_beside(module: Module, statement: ast.stmt) -> bool:
    """Statements beside this one that choose another accelerator: `if cuda: return ...`, then `if mps: return ...`."""
    branch: ast.AST = statement
    while isinstance(up := module.parent(branch), ast.If) and (branch in up.orelse or branch in up.body):
        branch = up
    chooses = isinstance(branch, ast.If) or isinstance(statement, ast.Assign)
    if not chooses or not isinstance(branch, ast.stmt):
        return False
    owner = module.parent(branch)
    block = next((b for n in ("body", "orelse") if isinstance(b := getattr(owner, n, None), list) and branch in b), [])
    name = _chosen(branch)
    return name is not None and any(s is not branch and _chooses_other(module, s, name) for s in block)


def _chosen(node: ast.AST) -> str | None:
    """The device variable that a statement sets, or "return"."""
    for inner in ast.walk(node):
        match inner:
            case ast.Assign([target], _) if re.search(r"dev", chain_of(target) or ""):
                return chain_of(target)
            case ast.Return(ast.Call() | ast.Constant(str()) | ast.IfExp()):
                return "return"
    return None


def _chooses_other(module: Module, node: ast.stmt, name: str) -> bool:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)) or _chosen(node) != name:
        return False
    return bool(_OTHERS.search(module.text(node)))
