"""Guard regions: the code that a device test guards, in branches, in arms, behind flags and after refusals."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import words_in
from torchmigrate.source.edits import Span
from torchmigrate.syntax.resolver import SKIP_MARKS, chain_of, ends_program, last_name, leaves_block, skips_test
from torchmigrate.syntax.scope import FUNCTIONS, Function, Scope, given_defaults
from torchmigrate.torch_api.backends import COLLECTIVES, having, types_of

Branch = ast.If | ast.While | ast.IfExp


@dataclass(slots=True, eq=False)
class GuardRegion:
    """One test (or flag) and the spans that run only if it holds."""

    guard: Span = (-1, -1)
    covered: list[Span] = field(default_factory=list)
    own: list[Span] = field(default_factory=list)  # of these, the branch of the test itself
    statement: Span | None = None  # of an assertion: a count of devices beside the test is about the same devices
    flag: GuardRegion | None = None  # the region of the variable that stores the test; shared by its assignments
    home: Function | None = None
    reason: str = ""
    branch: bool = False  # the test is that of an `if` or `while`, and has no other use
    skips: bool = False  # a test, or all of a file, is skipped if the test fails
    body_stays: bool = False  # what is skipped is itself bound to CUDA somewhere, and stays as it is
    refusal: bool = False  # the program ends if the test fails; the code after it may change while the test stays

    @property
    def spans(self) -> list[Span]:
        return [self.guard, *self.covered, *(self.flag.covered if self.flag else ())]

    def is_beside(self, at: int) -> bool:
        """Return whether an offset lies in the guard's test, but not in the guard: `cuda and capability >= 8`."""
        tests = ((a, b) for a, b in self.covered if a <= self.guard[0] < b)
        return not self.guard[0] <= at < self.guard[1] and any(a <= at < b for a, b in tests)

    def first_reached(self, uses: Mapping[Function | None, Sequence[int]], beside: bool) -> int | None:
        """Return the first of the offsets, by function, that the test covers or, if `beside`, that share its function.

        None for a refusal: the code after it may change while the test stays.
        """
        if self.refusal and not self.skips:
            return None
        covered = (at for found in uses.values() for at in found if any(a <= at < b for a, b in self.covered))
        return min((*covered, *(uses.get(self.home, ()) if beside and not self.skips else ())), default=None)

    def holds(self, finding: Finding) -> bool:
        return any(a <= finding.start and finding.end <= b for a, b in self.spans)


def regions(module: SemanticModel, findings: list[Finding]) -> Iterator[GuardRegion]:
    guards = dict.fromkeys((f.start, f.end) for f in findings if f.guards)
    if not guards:
        return
    tests = Tests(module)
    for guard in guards:
        node = tests.nodes.get(guard)
        if node is not None:
            yield _region_of(module, node, guard, tests)


class Tests:
    """The tests of a module by the names that they read, and the outermost expression of each span."""

    def __init__(self, module: SemanticModel) -> None:
        self.asking: dict[str, list[tuple[Branch, ast.expr, bool]]] = {}  # by name: branch, read, polarity
        self.nodes: dict[Span, ast.AST] = {}
        self.flags: dict[tuple[str, Scope | None], GuardRegion] = {}
        found: list[Branch] = [s for s in module.scopes.statements if isinstance(s, (ast.If, ast.While))]
        for node in list(module.scopes.parent):
            if isinstance(node, ast.IfExp):
                found.append(node)
            if isinstance(node, ast.expr):
                self.nodes.setdefault(module.span(node), node)
        self.decorated: dict[str, list[ast.stmt]] = {}  # functions and classes by the names that decorate them
        for statement in module.scopes.statements:
            for decorator in getattr(statement, "decorator_list", ()):
                for name in [chain_of(decorator) or "", *_needed(decorator)]:
                    self.decorated.setdefault(name, []).append(statement)
        for branch in found:
            for flag, place, polarity in _asked(branch.test):
                self.asking.setdefault(flag, []).append((branch, place, polarity))


def _needed(decorator: ast.expr) -> Iterator[str]:
    """Yield the flags that a mark needs to hold, or it skips a test: `USE_CUDA` of `skipIf(not USE_CUDA, "no GPU")`."""
    if isinstance(decorator, ast.Call) and (mark := last_name(decorator.func)) in SKIP_MARKS and decorator.args:
        for flag, _, polarity in _asked(decorator.args[0]):
            if polarity is (mark == "skipUnless"):
                yield flag


def _region_of(module: SemanticModel, guard: ast.AST, span: Span, tests: Tests) -> GuardRegion:
    region = GuardRegion(span, home=module.function(guard))
    node, is_other = guard, False
    negated = isinstance(guard, ast.Compare) and isinstance(guard.ops[0], (ast.NotEq, ast.NotIn))
    for up in module.ancestors(guard):
        match up:
            case ast.UnaryOp(ast.Not()):
                negated = not negated
            case ast.Compare(_, [ast.NotEq() | ast.NotIn()], _) if isinstance(node, ast.Constant):  # `!= "cuda"`
                negated = is_other = True
            case ast.Compare(left, [ast.Eq() | ast.Is()], [ast.Constant(0)]) if left is node:  # or False
                negated = not negated
            case ast.Compare(left, [ast.Lt()], [ast.Constant(int())]) if left is node:
                negated = not negated
            case ast.BoolOp():
                region.covered.append(module.span(up))
            case ast.If() | ast.While() if up.test is node:
                cover_branch(module, up, negated, region)
                region.covered += _whole(module, up.body) if is_other and not leaves_block(up.body) else ()
                region.covered += defaults_of(module, up) if isinstance(up, ast.If) else ()
                region.covered += _moved_to_kernels(module, guard)
                region.covered += _flagged(module, up.orelse if negated else up.body, tests)
                region.covered += _flagged(module, up.body if negated else up.orelse, tests, False)
                if negated and not up.orelse and not isinstance(up.test, ast.BoolOp):
                    region.covered += _corrected(module, up.body)
                break
            case ast.IfExp() if up.test is node:
                arm = up.orelse if negated else up.body
                region.covered.append(module.span(arm))
                negated = False
                if portable_expression(module, up):
                    region.reason = PORTABLE
            case ast.Call() if last_name(up.func) == "param":  # of pytest: a mark is about the values beside it
                region.covered += map(module.span, up.args)
            case ast.Assign() | ast.AnnAssign():
                _cover_flag(module, up, region, tests)
                break
            case ast.Return() if (function := module.function(guard)) is not None:
                _cover_calls(module, function, region, tests)
                break
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node in up.decorator_list:
                region.covered.append(module.span(up))
                region.skips = region.refusal = True  # a skipped test
                break
            case ast.Assert() if up.test is node:
                region.refusal = True
                region.reason = PORTABLE if mentions_others(module, up.test) else region.reason
                region.statement = module.span(up)
                region.covered += _after(module, up)
                break
            case ast.stmt():
                break
        node = up
    statement = module.statement(guard)
    if not region.reason and portable_beside(module, statement):
        region.reason = PORTABLE
    return region


def cover_branch(module: SemanticModel, node: ast.If | ast.While, negated: bool, region: GuardRegion) -> None:
    body = node.orelse if negated else node.body
    region.branch = True
    region.own = _whole(module, body)
    region.covered += region.own
    region.covered.append(module.span(node.test))
    contrary = node.body if negated else node.orelse
    if leaves_block(contrary):
        region.refusal = ends_program(contrary)
        region.covered += _after(module, node)
        region.covered += _constructed(module, node) if region.refusal else ()
        if skips_test(contrary):
            region.skips = True
            region.covered += _prepared(module, node)
    if isinstance(node, ast.If) and portable_chain(module, node):
        region.reason = PORTABLE


def kernel_for_the_cpu(module: SemanticModel, test: ast.AST) -> int | None:
    """Return the line with a compiled kernel for the CPU that a test sets beside one for CUDA, or None."""
    branch = module.statement(test)
    calls = [n for n in ast.walk(branch) if isinstance(n, ast.Call)] if isinstance(branch, ast.If) else []
    homes = [(call.lineno, (chain_of(call.func) or "").split(".")[:-1]) for call in calls]  # the modules of functions
    is_pair = any(_FOR_CUDA.fullmatch(name) for _, home in homes for name in home)
    return next((line for line, home in homes if any(map(_FOR_CPU.fullmatch, home))), None) if is_pair else None


_FOR_CPU, _FOR_CUDA = re.compile(r"(.*_)?cpu"), re.compile(r"(.*_)?(gpu|cuda)")


def _moved_to_kernels(module: SemanticModel, guard: ast.AST) -> list[Span]:
    """Return how a variable that picks a kernel is set, and what that reads: the CPU's kernel takes all but CUDA's."""
    match guard:
        case ast.Attribute(ast.Name(name), "is_cuda") if kernel_for_the_cpu(module, guard) is not None:
            found = module.scope(guard).find(name)
            values = [binding.value for binding in found[1] if binding.value is not None] if found else []
            return [*map(module.span, values), *(span for value in values for span in _read_by(module, value))]
    return []


def _read_by(module: SemanticModel, value: ast.expr) -> Iterator[Span]:
    """Yield the values of the variables of the same function that an expression reads."""
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    for name in sorted(names):
        found = module.scope(value).find(name)
        if found and isinstance(found[0].node, FUNCTIONS):
            yield from (module.span(b.value) for b in found[1] if b.value is not None)


def defaults_of(module: SemanticModel, node: ast.If) -> list[Span]:
    """Return the defaults that name CUDA for what a ladder asks: `device == "cuda"`, `"cpu"`, and all others refused.

    They change together: a default that the ladder refuses is no default.
    """
    top = node
    while isinstance(up := module.parent(top), ast.If) and up.orelse == [top]:
        top = up
    asked = _refusing_ladder(top)
    return _cuda_defaults(module).get(asked, []) if asked else []


def _refusing_ladder(node: ast.If) -> str | None:
    """Return the last name of what a ladder compares with strings, if its `else` refuses whatever is left."""
    asked: set[str] = set()
    while True:
        match node.test:
            case ast.Compare(subject, [ast.Eq()], [_]):
                asked.add(last_name(subject))
            case _:
                return None
        if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
            return asked.pop() if len(asked) == 1 and ends_program(node.orelse) else None
        node = node.orelse[0]


def _corrected(module: SemanticModel, body: list[ast.stmt]) -> list[Span]:
    """Return the values that name CUDA for what a branch sets to the CPU: `device = "cuda"`, unless it is not there."""
    names = dict.fromkeys(
        name
        for statement in body
        for target, value in _assigned(statement)
        if (name := _name_set(module, target)) and any(getattr(n, "value", None) == "cpu" for n in ast.walk(value))
    )
    return [span for name in names for span in _cuda_values(module).get(name, ())]


@query
def _cuda_values(module: SemanticModel) -> dict[tuple[str, ast.AST | None], list[Span]]:
    """Return the values that name CUDA, by what gets them: a variable of a scope, an attribute, an option or a key."""
    found: dict[tuple[str, ast.AST | None], list[Span]] = {}
    for name, spans in _cuda_defaults(module).items():
        found[name, None] = [*spans]
    for node in module.nodes:
        pairs = [(_name_set(module, target), value) for target, value in _assigned(node)]
        if isinstance(node, ast.Dict):
            names = (str(getattr(key, "value", "")) for key in node.keys)
            pairs += [((name, None), value) for name, value in zip(names, node.values, strict=True)]
        for key, value in pairs:
            if key and (spans := _naming_cuda(module, value)):
                found.setdefault(key, []).extend(spans)
    return found


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets of an assignment with its value."""
    match node:
        case ast.Assign(targets, value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target, value=ast.expr() as value):
            yield target, value


def _name_set(module: SemanticModel, target: ast.expr) -> tuple[str, ast.AST | None] | None:
    """Return a variable with its scope, the last name of an attribute, or the key of `options["device"]`."""
    match target:
        case ast.Subscript(slice=ast.Constant(str(key))):
            return key, None
        case ast.Name(name) if found := module.scope(target).find(name):
            return name, found[0].node
    return (target.attr, None) if isinstance(target, ast.Attribute) else None


@query
def _cuda_defaults(module: SemanticModel) -> dict[str, list[Span]]:
    """Return the defaults of options, parameters and fields that name CUDA, by the name of what they are for."""
    found: dict[str, list[Span]] = {}
    for name, value in (pair for node in module.nodes for pair in _defaults(module, node)):
        if spans := _naming_cuda(module, value):
            found.setdefault(name, []).extend(spans)
    return found


def _naming_cuda(module: SemanticModel, value: ast.expr) -> list[Span]:
    """Return the texts in a value that name CUDA's devices."""
    texts = (part for part in ast.walk(value) if isinstance(part, ast.Constant))
    return [module.span(part) for part in texts if str(part.value).startswith("cuda")]


def _defaults(module: SemanticModel, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Call(args=args, keywords=keywords):
            names = [str(a.value) for a in args if isinstance(a, ast.Constant)]
            for value in (k.value for k in keywords if k.arg == "default"):
                yield from ((name.lstrip("-").replace("-", "_"), value) for name in names if name.startswith("-"))
        case ast.arguments():
            yield from ((parameter.arg, value) for parameter, value in given_defaults(node))
        case ast.AnnAssign(target, value=ast.expr() as value) | ast.Assign([target], value):
            if isinstance(module.parent(node), (ast.ClassDef, ast.Module)):
                yield last_name(target), value


_PREPARES = ("setUp", "setUpClass", "asyncSetUp", "setup_method", "setup_class")  # of unittest and pytest


def _prepared(module: SemanticModel, node: ast.stmt) -> list[Span]:
    """Return the span of the class whose tests a method prepares, and skips."""
    function = module.function(node)
    owner = module.parent(function) if function and function.name in _PREPARES else None
    return [module.span(owner)] if isinstance(owner, ast.ClassDef) else []


def _constructed(module: SemanticModel, node: ast.stmt) -> list[Span]:
    """Return the spans of the methods of a class whose constructor refuses: no object is made to call them."""
    function = module.function(node)
    owner = module.parent(function) if function and function.name == "__init__" and node in function.body else None
    methods = [each for each in owner.body if isinstance(each, FUNCTIONS)] if isinstance(owner, ast.ClassDef) else []
    return [module.span(each) for each in methods if each is not function and not each.decorator_list]


def _after(module: SemanticModel, node: ast.stmt) -> list[Span]:
    block, at = module.blocks.place(node)
    return _whole(module, block[at + 1 : at + 2], block[-1])


def _whole(module: SemanticModel, body: list[ast.stmt], last: ast.stmt | None = None) -> list[Span]:
    """Return one span from the first statement to the last; none for an empty block."""
    return [(module.span(body[0])[0], module.span(last or body[-1])[1])] if body else []


def _cover_flag(module: SemanticModel, node: ast.Assign | ast.AnnAssign, region: GuardRegion, tests: Tests) -> None:
    """Add the code of the file that runs only if the flag holds."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    flag = chain_of(target)
    if flag is None:
        return
    region.flag = _asked_for(module, node, flag, tests)
    region.reason, region.refusal = region.flag.reason or region.reason, region.flag.refusal
    region.skips = region.flag.skips


def _asked_for(module: SemanticModel, node: ast.AST, flag: str, tests: Tests) -> GuardRegion:
    """Return what runs only if a flag holds that a statement sets."""
    found = module.scope(node).find(flag) if "." not in flag else None
    home = found[0] if found else None
    if (flag, home) not in tests.flags:
        tests.flags[flag, home] = _covered_by(module, flag, home, tests)
    return tests.flags[flag, home]


def _flagged(module: SemanticModel, body: list[ast.stmt], tests: Tests, to: bool = True) -> list[Span]:
    """Return what runs only if a flag holds that a branch sets or takes back: `if ...available(): use_cuda = True`."""
    found: list[Span] = []
    for statement in flags_set(body, to):
        if len(statement.targets) == 1 and (flag := chain_of(statement.targets[0])):
            found += _asked_for(module, statement, flag, tests).covered
    return found


def flags_set(body: list[ast.stmt], to: bool = True) -> list[ast.Assign]:
    """Return the statements of a branch that set a flag: `use_cuda = True`, `use_cuda = 1`, or take it back."""
    assigned = (s for s in body if isinstance(s, ast.Assign))
    return [s for s in assigned if isinstance(s.value, ast.Constant) and s.value.value == to]


def _cover_calls(module: SemanticModel, function: Function, region: GuardRegion, tests: Tests) -> None:
    """Add the code of the file that runs only if the function says so: `def is_cuda(self): return self.w.is_cuda`."""
    owner = "self." if isinstance(module.parent(function), ast.ClassDef) else ""
    asked = _covered_by(module, f"{owner}{function.name}()", None, tests)
    region.covered += [span for span in asked.covered if span != region.guard]


def _covered_by(module: SemanticModel, flag: str, home: Scope | None, tests: Tests) -> GuardRegion:
    region = GuardRegion()
    asked: dict[Branch, bool] = {}
    for branch, place, polarity in tests.asking.get(flag, ()):
        found = module.scope(place).find(flag) if home else None
        if home is None or (found and found[0] is home):
            asked.setdefault(branch, polarity)
    # a mark that skips tests: of a function or class, or of all in the file
    marked = [module.tree.body] if flag == "pytestmark" else [[s] for s in tests.decorated.get(flag, ())]
    region.covered += [span for body in marked for span in _whole(module, body)]
    region.skips = region.refusal = bool(marked)
    for branch, polarity in asked.items():
        if isinstance(branch, ast.IfExp):
            region.covered.append(module.span(branch.body if polarity else branch.orelse))
        else:
            cover_branch(module, branch, not polarity, region)
    return region


def _asked(test: ast.expr, polarity: bool = True) -> Iterator[tuple[str, ast.expr, bool]]:
    """Yield the names that a test reads, each with whether the test needs it to hold (True) or not to (False)."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            yield from _asked(operand, not polarity)
        case ast.BoolOp(_, values):
            for value in values:
                yield from _asked(value, polarity)
        case ast.Compare(left, [ast.Eq() | ast.Is()], [ast.Constant(0)]) | ast.Compare(
            left, [ast.Lt()], [ast.Constant(int())]
        ):
            yield from _asked(left, not polarity)
        case ast.Compare(left, [_], [_]):
            yield from _asked(left, polarity)
        case ast.Call(asked, [], []) if flag := chain_of(asked):
            yield f"{flag}()", test, polarity
        case _ if flag := chain_of(test):
            yield flag, test, polarity


PORTABLE = "a ladder that is portable already"
_LADDER, _NAMED = "|".join(types_of("ladder")), "|".join(having("idiom"))
_OTHER = re.compile(  # a word that is about another accelerator
    rf"^({_LADDER}|accelerator|(?i:macos|darwin))$"
    rf"|is_(rocm|hip)|_hip$|(?i:is_({_NAMED})|_({_NAMED})$|(?<![a-z])({_NAMED})_\w)"
)


@query
def mentions_others(module: SemanticModel, test: ast.AST) -> bool:
    """Return whether a test asks for another accelerator, itself or by the names that it reads."""
    if _names_others(module, test):
        return True
    for node in ast.walk(test):
        if isinstance(node, ast.Name):
            found = module.scope(test).find(node.id)
            if found and _stands_for_others(module, node.id, found[0]):
                return True
    return False


@query
def _stands_for_others(module: SemanticModel, name: str, scope: Scope) -> bool:
    values = (b.value for b in scope.names[name] if b.value is not None)
    return any(_names_others(module, value) for value in values)


@query
def _names_others(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a name or a string in this code is about another accelerator."""
    return any(map(_OTHER.search, words_in(module, node)))


def portable_chain(module: SemanticModel, node: ast.If) -> bool:
    """Return whether an `if/elif` chain asks for another accelerator in one of its tests, or its last arm takes one."""
    top: ast.AST = node
    while isinstance(up := module.parent(top), ast.If) and up.orelse == [top]:
        top = up
    return _portable_below(module, top)


@query
def _portable_below(module: SemanticModel, top: ast.AST) -> bool:
    while isinstance(top, ast.If):
        if mentions_others(module, top.test):
            return True
        if len(top.orelse) > 1 or not top.orelse or not isinstance(top.orelse[0], ast.If):
            return any(_is_for_others(module, n) for n in top.orelse)
        top = top.orelse[0]
    return False


def _is_for_others(module: SemanticModel, last: ast.stmt) -> bool:
    """Return whether a statement of the last arm asks for another accelerator, or chooses one without asking."""
    if isinstance(last, ast.If):
        return mentions_others(module, last.test)
    return isinstance(last, (ast.Assign, ast.Return)) and bool(_chosen(module, last)) and _names_others(module, last)


OTHERS = frozenset(types_of("accelerator")) - {"cuda"}
_ASKED = OTHERS | COLLECTIVES


def devices_asked(module: SemanticModel, node: ast.If) -> set[str]:
    """Return the accelerators other than CUDA, or their collectives, that the tests around an arm ask for."""
    top: ast.AST = node
    while isinstance(up := module.parent(top), ast.If) and up.orelse == [top]:
        top = up
    return _devices_below(module, top)


@query
def _devices_below(module: SemanticModel, top: ast.AST) -> set[str]:
    found: set[str] = set()
    arm: ast.AST | None = top
    while isinstance(arm, ast.If):
        found |= _ASKED & {part.lower() for word in words_in(module, arm.test) for part in word.split("_")}
        arm = arm.orelse[0] if len(arm.orelse) == 1 else None
    return found


def portable_expression(module: SemanticModel, node: ast.IfExp) -> bool:
    """Return whether a conditional expression asks for another accelerator in one of its tests."""
    chain = [node, *module.enclosing(node, ast.IfExp)]
    below = [n for n in ast.walk(chain[-1]) if isinstance(n, ast.IfExp)]
    return any(mentions_others(module, n.test) for n in below)


@query
def portable_beside(module: SemanticModel, statement: ast.stmt) -> bool:
    """Return whether a statement beside this one chooses another accelerator: `if cuda: return x; if mps: return y`."""
    branch = statement
    if not isinstance(statement, (ast.If, ast.Assign)) and not isinstance(module.parent(statement), ast.If):
        return False
    while True:
        owner, name = module.parent(branch), _chosen(module, branch)
        others = _others(module, module.blocks.place(branch)[0][0]).get(name, []) if name else []
        if any(other is not branch for other in others):
            return True
        if not isinstance(owner, ast.If):
            return False
        branch = owner


@query
def _chosen(module: SemanticModel, node: ast.AST) -> str | None:
    """Return the device variable, or the table, that a statement sets, "return" if it returns a device, or None."""
    match node:
        case ast.If(body=[ast.Assign([target], _)], orelse=[]):
            return _set_by(target)
    for inner in ast.walk(node):
        match inner:
            case ast.Assign([target], _) if re.search(r"dev", _set_by(target) or ""):
                return _set_by(target)
            case ast.Return(ast.Constant(str()) | ast.JoinedStr() | ast.BinOp()):
                return "return"
            case ast.Return(ast.Call() | ast.IfExp() | ast.List() | ast.ListComp()):
                return "return"
    return None


def _set_by(target: ast.expr) -> str | None:
    return chain_of(target.value if isinstance(target, ast.Subscript) else target)


@query
def _others(module: SemanticModel, first: ast.stmt) -> dict[str, list[ast.stmt]]:
    """Return the block's first two statements per variable that choose another accelerator."""
    found: dict[str, list[ast.stmt]] = {}
    for node in module.blocks.place(first)[0]:
        name = _chosen(module, node) if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) else None
        if name and len(found.get(name, [])) < 2 and _names_others(module, node):
            found.setdefault(name, []).append(node)
    return found
