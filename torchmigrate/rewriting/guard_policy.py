"""Guard policy: a guard and all that it guards change together, or neither does.

A region whose guarded code holds something only NVIDIA has keeps its guard; a ladder that names mps, xpu or npu beside
cuda is portable already.
"""

from __future__ import annotations

import ast
import bisect
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache, partial

from torchmigrate.diagnostics.finding import Finding, Status
from torchmigrate.project.called_operators import LOADERS, Position, name_in_class
from torchmigrate.project.class_hierarchy import Definition, Place
from torchmigrate.project.import_graph import EXTENSION
from torchmigrate.semantic import dominance, library_use
from torchmigrate.semantic.device_expr import moves_data
from torchmigrate.semantic.guard_regions import OTHERS, PORTABLE, GuardRegion, cover_branch, devices_asked, flags_set
from torchmigrate.semantic.guard_regions import regions as regions_of
from torchmigrate.semantic.library_use import asks_cuda, double_made, double_uses, first_call
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import reads_of, spelled, words_in
from torchmigrate.semantic.values import answers_moved, double_defaults, doubles_moved
from torchmigrate.source.edits import Around, Inside, Span
from torchmigrate.syntax.resolver import chain_of, is_same, last_name, makes_marks
from torchmigrate.syntax.scope import FUNCTIONS, Function
from torchmigrate.torch_api.libraries import CUDA_ONLY, ENGINES, knows_cuda_alone, row_of
from torchmigrate.torch_api.names import DEVICE, NCCL, STARTS_GROUP

_BOUND = "its guard also covers what stays bound to CUDA (line {})"
_DOUBLE = "float64 is put on its device (line {}), which MPS refuses"
_ANSWER = "what an environment gives goes to its device uncast (line {}): MPS refuses float64, which it may be"
_RAISES = "{}: the device comes to this, which raises on MPS"
_DOUBLES = "float64 is the default dtype (line {}), which MPS refuses"
_IDLE = "it may stay as it is: what it guards does no harm either way"


def decide(module: SemanticModel, findings: list[Finding]) -> list[Finding]:
    """Mark as LEFT the fixes in every region that must stay as it is, and tests that guard nothing that changes."""
    answers = reasons(module, findings)
    findings = [replace(_left(f, answers[f]), blocks=False) if f in answers else f for f in findings]
    kept = Around(_kept(module, findings))
    findings = [_settle(f, kept) for f in findings]
    regions = list(regions_of(module, findings))
    if regions:
        findings = _idle_left(module, _bound_left(module, findings, regions), regions)
    return findings


_SCRIPTED = "TorchScript compiles this function, and cannot compile the helper"
_OWN = "`{}` asks for CUDA alone, and stays"
_SIBLING = "`{}` is about CUDA, beside `{}`"
_LACKING = "it refuses what is implemented for CUDA alone"
_CUDA = ("cuda", "gpu")
_ASKED = {"cuda", "nccl"}  # words of a test for CUDA
_PLAIN = ("ref", "reference", "native", "naive", "python", "slow")  # what a kernel is compared with
_ANY = ("accelerator",)  # what is named for it asks for any of them
_PREDICATE = re.compile(r"(?i)^(is|has|have)_|(available|usable|present|enabled|supported)$")


def _kept(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the code in which the project keeps to CUDA by itself, with the reasons.

    These are the arms of its own ladders, what its own questions for CUDA guard, functions for CUDA beside those for
    other devices, refusals for want of an implementation, and what a test guards that the worlds check holds back.
    """
    fixes = Inside(_span(f) for f in findings if f.fix and f.status is Status.OPEN)
    held = Inside(_span(f) for f in findings if f.blocks and f.status is Status.LEFT)
    for statement in module.scopes.statements:
        if isinstance(statement, ast.If) and next(iter(fixes.find(*module.span(statement))), None):
            yield from _kept_arm(module, statement, held, fixes)
    for choice in _choices(module):
        if fixes.find(*module.span(choice.body)) and (at := next(iter(held.find(*module.span(choice.test))), None)):
            yield module.span(choice.body), _BOUND.format(module.source.position(at[0])[0])
    yield from _scripted(module, findings)
    for block in _blocks_of_names(module):
        for node, name, sibling in _for_cuda(block):
            yield module.span(node), _SIBLING.format(name, sibling)
    yield from _done_for_each(module)
    yield from _of_old_torch(module)
    yield from _of_one_library(module)
    yield from _of_one_build(module)
    yield from _of_one_shim(module)
    yield from _of_another_kernel(module)
    yield from _of_one_rank(module, findings)
    yield from _of_one_sum(module, findings)
    yield from _of_one_call(module, findings)
    yield from _of_cuda_alone(module, findings)
    yield from _of_one_method(module, findings)
    yield from _of_one_question(module, findings)
    yield from _of_nccl(module, findings)


_ONE_LIBRARY = "it imports {}, which runs on NVIDIA's devices alone"
_ONE_BUILD = "the file compiles kernels, and asks which of CUDA's devices they are for"
_ONE_SHIM = "line {} gives torch.cuda a function of the file's own, which the helper would call"
_NEW_KERNEL = "a statement above ends the notebook's kernel, and the helper with it"
_ONE_TEST = "it needs {}, which knows no accelerator but CUDA"
_ONE_RANK = "line {} says the same of `{}`, and stays bound to CUDA"
_ONE_METHOD = "line {} stays bound to CUDA, in the same `cuda()`"
_ONE_CLASS = "line {} of the same class stays bound to CUDA: torch.jit compiles it"
_ONE_CALL = "line {} asks the same for the same call, and stays bound to CUDA"
_CUDA_ALONE = "line {} hands it to `{}`, which runs on CUDA alone"
_ONE_QUESTION = "line {} asks the same in this function, and stays bound to CUDA"
_OLD_TORCH = "it is for a torch without torch.accelerator (before 2.6), which is asked wherever it is there"
_OF_NCCL = "it is about NCCL, which stays"
_ONE_SUM = "it is calculated with what stays bound to CUDA (line {})"


def _of_old_torch(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield what stands for `torch.accelerator` in a torch that has none, before 2.6, where the code asks for it."""
    if b"accelerator" not in module.source.utf8:
        return
    for branch in (*_branches(module), *_choices(module)):
        match branch.test:
            case ast.Call(ast.Name("hasattr"), [ast.Name("torch"), ast.Constant("accelerator")]) if branch.orelse:
                other = branch.orelse if isinstance(branch.orelse, list) else [branch.orelse]
                yield (module.span(other[0])[0], module.span(other[-1])[1]), _OLD_TORCH


def _of_one_library(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield the branches that import a library for NVIDIA's devices alone, with no way on where it is missing.

    A whole file stays for a library that makes programs for these devices, or a kernel; others have substitutes. Tests
    stay that are skipped without a library which knows no other accelerator.
    """
    whole = 0, len(module.source.utf8)
    for statement in module.scopes.statements:
        branch = module.parent(statement)
        for decorator in getattr(statement, "decorator_list", ()):
            made = module.resolve(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
            if library := row_of(made, ENGINES):
                yield whole, _ONE_LIBRARY.format(library)
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and isinstance(branch, (ast.If, ast.Module)):
            known = CUDA_ONLY if isinstance(branch, ast.If) else ENGINES
            names = [a.name for a in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
            library = next((name for name in names if row_of(name, known)), None)
            if library is None and isinstance(branch, ast.Module) and not {*names}.isdisjoint(_HOLDING_ENGINES):
                library = next(_engines_called(module), None)
            if library is not None and not getattr(statement, "level", 0):
                block, _ = module.blocks.place(statement)
                yield (module.span(block[0])[0], module.span(block[-1])[1]), _ONE_LIBRARY.format(library)
    for node in module.nodes if b"importorskip" in module.source.utf8 else ():
        match node:
            case ast.Call(func, [ast.Constant(str(name)), *_]) if last_name(func) == "importorskip":
                if knows_cuda_alone(name):
                    test = module.function(node)
                    yield module.span(test) if test else whole, _ONE_TEST.format(name)


_HOLDING_ENGINES = {engine.partition(".")[0] for engine in ENGINES if "." in engine}


def _engines_called(module: SemanticModel) -> Iterator[str]:
    """Yield what a file calls that makes programs for NVIDIA's devices: `cupy.cuda.compile_with_cache(...)`."""
    calls = (node.func for node in module.nodes if isinstance(node, ast.Call))
    yield from (engine for func in calls if (engine := row_of(module.resolve(func) or "", ENGINES)))


def _of_one_shim(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield all of a file that puts functions of its own in torch.cuda: `torch.cuda.synchronize = wait`.

    What the helper falls back to may be what the file makes of the helper.
    """
    for statement in module.scopes.statements if b"torch.cuda." in module.source.utf8 else ():
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and (module.resolve(target) or "").startswith("torch.cuda"):
                line = module.source.position(module.span(statement)[0])[0]
                yield (0, len(module.source.utf8)), _ONE_SHIM.format(line)
                return


def _of_another_kernel(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield what stands below a statement that ends a notebook's kernel, as a restart does on Colab."""
    for node in module.tree.body if module.path.suffix == ".ipynb" else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = module.resolve(node.value.func) or chain_of(node.value.func) or ""
            if name in _ENDING_KERNEL or last_name(node.value.func) == "do_shutdown":
                yield (module.span(node)[1], len(module.source.utf8)), _NEW_KERNEL
                return


_ENDING_KERNEL = ("os._exit", "os.kill", "exit", "quit")


def _of_one_build(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield the questions how a device is called, and what it can do, in a file that compiles kernels."""
    if EXTENSION in module.source.utf8 and first_call(module, _COMPILING):
        for node in module.nodes:
            if isinstance(node, ast.Call) and module.resolve(node.func) in _DESCRIBING:
                yield module.span(node), _ONE_BUILD


_COMPILING = {f"torch.utils.cpp_extension.{loader}" for loader in LOADERS}
_DESCRIBING = {f"torch.cuda.get_device_{of}" for of in ("name", "capability", "properties")}


def _of_one_rank(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield what a function says of the rank that it hands to `torch.cuda.set_device`, if a part of it stays.

    The device that is set, the one that is made, the count that it is held against and the process group's backend are
    one decision.
    """
    if b"set_device" not in module.source.utf8:
        return
    asked = Inside(_span(f) for f in findings)
    for call in (n for n in module.nodes if isinstance(n, ast.Call)):
        if module.resolve(call.func) != "torch.cuda.set_device":
            continue
        rank = chain_of(call.args[0]) if call.args else None
        owner = module.function(call)
        if rank is None or not next(iter(asked.find(*module.span(call))), None):
            continue
        members = [f for f in findings if _is_of_rank(module, f, rank, owner)]
        if stays := next((f for f in members if f.blocks and f.status is Status.LEFT), None):
            reason = _ONE_RANK.format(module.source.position(stays.start)[0], rank)
            yield from ((_span(f), reason) for f in members)


def _is_of_rank(module: SemanticModel, finding: Finding, rank: str, owner: ast.AST | None) -> bool:
    """Return whether a finding is about the device of a rank: it, or the comparison around it, reads the rank."""
    node = _expression(module, finding)
    if node is None or module.function(node) is not owner:
        return False
    up = module.parent(node)
    if isinstance(up, ast.keyword):
        up = module.parent(up)
    whole: ast.AST = node
    if isinstance(up, ast.Compare) or (isinstance(up, ast.Call) and module.resolve(up.func) == "torch.device"):
        whole = up
    starts = isinstance(up, ast.Call) and last_name(up.func) == "init_process_group"
    return starts or any(chain_of(inner) == rank for inner in ast.walk(whole))


def _of_one_sum(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the questions to `torch.cuda` whose answers are calculated with one that stays bound to CUDA."""
    told: list[tuple[Finding, ast.Call]] = []
    for finding in findings if any(f.fix is None and f.blocks for f in findings) else ():
        node = _expression(module, finding)
        if isinstance(node, ast.Call) and (module.resolve(node.func) or "").startswith("torch.cuda."):
            told.append((finding, node))
    stay = [(f, dominance.calculated_from(module, node)) for f, node in told if f.fix is None and f.blocks]
    for finding, node in told if stay else ():
        if finding.fix and finding.status is Status.OPEN:
            own = dominance.calculated_from(module, node)
            if other := next((f for f, sums in stay if own & sums), None):
                yield _span(finding), _ONE_SUM.format(module.source.position(other.start)[0])


def _of_nccl(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the parameters of tests that are NCCL, with the marks that say where it is: `pytest.param("nccl", ...)`.

    And the tests with marks that name NCCL where no edit changes it, or that a fixture gives it.
    """
    if b"nccl" not in module.source.utf8:
        return
    changed = {_span(f) for f in findings if f.fix and f.status is Status.OPEN}

    def names_nccl(node: ast.AST) -> bool:
        if isinstance(node, ast.arg):
            return "nccl" in node.arg.split("_")
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return is_text and bool(NCCL.fullmatch(node.value)) and module.span(node) not in changed  # type: ignore[attr-defined]

    for node in module.nodes:
        match node:
            case ast.Call(func, args, [_, *_]) if last_name(func) == "param" and any(map(names_nccl, args)):
                yield module.span(node), _OF_NCCL
            case ast.FunctionDef(name, decorator_list=[first, *_]) if name.startswith("test"):
                if any(map(names_nccl, (*ast.walk(node.args), *(n for s in node.body for n in ast.walk(s))))):
                    yield (module.span(first)[0], module.span(node)[1]), _OF_NCCL


def _of_one_call(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the questions among the arguments of a call, if one of them stays: `make(device=..., headless=...)`."""
    asked = [f for f in findings if f.guards]
    if not any(f.blocks and f.status is Status.LEFT for f in asked):
        return
    calls: dict[ast.Call, list[Finding]] = {}
    for finding in asked:
        if taker := _taker(module, finding):
            calls.setdefault(taker, []).append(finding)
    for together in calls.values():
        if stays := next((f for f in together if f.blocks and f.status is Status.LEFT), None):
            reason = _ONE_CALL.format(module.source.position(stays.start)[0])
            yield from ((_span(f), reason) for f in together)


def _of_cuda_alone(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the arguments of torch's functions for CUDA alone: `torch.cuda.comm.broadcast(x.cuda(), ...)`."""
    for finding in findings:
        if finding.blocks and finding.fix is None and finding.status is Status.OPEN:
            call = _expression(module, finding)
            if isinstance(call, ast.Call) and (module.resolve(call.func) or "").startswith("torch.cuda."):
                reason = _CUDA_ALONE.format(module.source.position(finding.start)[0], chain_of(call.func))
                yield from ((module.span(given), reason) for given in (*call.args, *call.keywords))


def _of_one_method(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the methods by which a class moves its objects to CUDA, `cuda()`, if a part of them stays bound to it."""
    for node in module.scopes.statements:
        if isinstance(node, ast.FunctionDef) and node.name == "cuda" and isinstance(module.parent(node), ast.ClassDef):
            start, end = module.span(node)
            inside = (f for f in findings if start <= f.start and f.end <= end)
            if stays := next((f for f in inside if _keeps(f) and _moves_itself(module, f)), None):
                yield (start, end), _ONE_METHOD.format(module.source.position(stays.start)[0])


def _moves_itself(module: SemanticModel, finding: Finding) -> bool:
    """Return whether a finding is about a move of the object that a method is called of, or of its parts."""
    match _expression(module, finding):
        case ast.Call(ast.Attribute(ast.Call(ast.Name("super")))):
            return True
        case ast.Call(ast.Attribute(owner)):
            return (chain_of(owner) or "").partition(".")[0] == "self"
    return False


def _of_one_question(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the tests of a function that ask the same as one that the worlds check holds back, and what they guard."""
    asked = [f for f in findings if f.guards]
    held = [f for f in asked if f.blocks and f.status is Status.LEFT]
    stay = {question: f for f in held if (question := _question(module, f))}
    for finding in asked if stay else ():
        test = _test(module, finding)
        other = stay.get(_question(module, finding) or ("", None))
        if other is None or test is None or not (finding.fix and finding.status is Status.OPEN):
            continue
        reason = _ONE_QUESTION.format(module.source.position(other.start)[0])
        yield module.span(test), reason
        match module.parent(test):
            case ast.If(guard, body) if guard is test:
                yield (module.span(body[0])[0], module.span(body[-1])[1]), reason
            case ast.IfExp(guard, chosen) if guard is test:
                yield module.span(chosen), reason


def _question(module: SemanticModel, finding: Finding) -> tuple[str, ast.AST | None] | None:
    """Return what a finding's test asks, without its places, and the function that asks it."""
    test = _test(module, finding)
    return None if test is None else (ast.dump(test), module.function(test))


def _test(module: SemanticModel, finding: Finding) -> ast.expr | None:
    """Return the comparison around a finding."""
    node = _expression(module, finding)
    up = module.parent(node) if node is not None else None
    return next((each for each in (node, up) if isinstance(each, ast.Compare)), None)


def _taker(module: SemanticModel, finding: Finding) -> ast.Call | None:
    """Return the call of which the answer to a finding's question is an argument, or chooses one."""
    node = _expression(module, finding)
    for up in module.ancestors(node) if node else ():
        if isinstance(up, ast.Call):
            return up if node is not up.func else None
        if not isinstance(up, (ast.keyword, ast.IfExp, ast.BoolOp, ast.UnaryOp)):
            return None
        node = up
    return None


def _expression(module: SemanticModel, finding: Finding) -> ast.AST | None:
    """Return the outermost expression that a finding is about; for a function that is called, the call."""
    node = _expressions(module).get(_span(finding))
    up = module.parent(node) if node else None
    return up if isinstance(up, ast.Call) and up.func is node else node


@query
def _expressions(module: SemanticModel) -> dict[Span, ast.AST]:
    found: dict[Span, ast.AST] = {}
    for node in module.nodes:
        if isinstance(node, ast.expr):
            found.setdefault(module.span(node), node)
    return found


def _kept_arm(module: SemanticModel, node: ast.If, held: Inside, fixes: Inside) -> Iterator[tuple[Span, str]]:
    """Yield the test and the body of an arm for CUDA that stays, and the arms of a ladder over many devices."""
    body = module.span(node.body[0])[0], module.span(node.body[-1])[1]
    test = module.span(node.test)
    others = devices_asked(module, node)
    match node.body[-1]:
        case ast.Raise(ast.Call(ast.Name("NotImplementedError")) | ast.Name("NotImplementedError")):
            yield test, _LACKING
    asked = {part for word in words_in(module, node.test) for part in word.lower().split("_")}
    if others and not asked.isdisjoint(_ASKED) and asked.isdisjoint(others):
        yield from ((span, PORTABLE) for span in (test, body))
    elif (predicate := _own_predicate(module, node.test)) and not _asks_anew(module, predicate, fixes):
        yield body, _OWN.format(predicate)
    elif at := next(iter(held.find(*test)), None):
        yield body, _BOUND.format(module.source.position(at[0])[0])
    if len(others) > 1:
        if asked.isdisjoint(_CUDA):
            yield body, PORTABLE
        if node.orelse and not isinstance(node.orelse[0], ast.If):
            yield (module.span(node.orelse[0])[0], module.span(node.orelse[-1])[1]), PORTABLE


def _own_predicate(module: SemanticModel, test: ast.expr) -> str:
    """Return the function named for CUDA, not torch's, that must say yes for a test to hold, or ""."""
    match test:
        case ast.BoolOp(ast.And(), values):
            return next(filter(None, (_own_predicate(module, value) for value in values)), "")
        case ast.Call(func) if "cuda" in (name := last_name(func)).lower() and _PREDICATE.search(name):
            return "" if (module.resolve(func) or "").startswith("torch.") else name
        case ast.Name(name) if found := module.scope(test).find(name):
            calls = [b.value for b in found[1] if isinstance(b.value, ast.Call)]
            return _own_predicate(module, calls[0]) if len(calls) == len(found[1]) == 1 else ""
    return ""


def _asks_anew(module: SemanticModel, predicate: str, fixes: Inside) -> bool:
    """Return whether what a function of the file asks is rewritten in it."""
    return any(fixes.find(*module.span(node)) for node in _functions(module).get(predicate, ()))


def _blocks_of_names(module: SemanticModel) -> Iterator[list[tuple[ast.stmt, str]]]:
    """Yield what each scope defines, and the module and classes assign, with the names."""
    found: dict[ast.AST, list[tuple[ast.stmt, str]]] = {}
    for statement in module.scopes.statements:
        home = module.scopes.scope_of[statement].node
        match statement:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                found.setdefault(home, []).append((statement, name))
            case ast.Assign([ast.Name(name)]) if not isinstance(home, FUNCTIONS):
                found.setdefault(home, []).append((statement, name))
    yield from found.values()


def _for_cuda(block: list[tuple[ast.stmt, str]]) -> Iterator[tuple[ast.stmt, str, str]]:
    """Yield what is named for CUDA as something else is for another device, for any, or for none, with both names.

    Of the decorators that skip tests one such pair speaks for all that begin with the same word.
    """
    named: dict[tuple[type, tuple[str, ...]], str] = {}
    for node, name in block:
        for pattern in _patterns(name, (*OTHERS, *_PLAIN, *_ANY) if isinstance(node, FUNCTIONS) else OTHERS):
            named.setdefault((type(node), pattern), name)
    of_cuda = [(node, name, patterns) for node, name in block if (patterns := [*_patterns(name, _CUDA)]) and named]
    pairs: dict[ast.stmt, str] = {}
    for node, _, patterns in of_cuda:
        if sibling := next(filter(None, (named.get((type(node), pattern)) for pattern in patterns)), None):
            pairs[node] = sibling
    speaking = [(name, pairs[node]) for node, name, _ in of_cuda if node in pairs and _makes_marks(node)]
    families = {name.partition("_")[0]: sibling for name, sibling in reversed(speaking)}
    for node, name, _ in of_cuda:
        family = families.get(name.partition("_")[0])
        if node in pairs:
            yield node, name, pairs[node]
        elif family and _makes_marks(node):
            yield node, name, family


def _makes_marks(node: ast.stmt) -> bool:
    return isinstance(node, FUNCTIONS) and makes_marks([node])


def _patterns(name: str, kinds: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Yield the words of a name, each time without one that is a kind of device."""
    words = name.split("_")
    for at, word in enumerate(words):
        if word.lower() in kinds:
            yield (*words[:at], "", *words[at + 1 :])


def _done_for_each(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield the statements that do for CUDA what others of their block do for other devices: `torch.xpu.f()`."""
    calls: dict[tuple[ast.AST | None, str], list[tuple[str, ast.stmt]]] = {}
    for statement in module.scopes.statements:
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Attribute(ast.Name("torch"), kind), done))):
                up = module.parent(statement)
                branch = isinstance(up, ast.If) and len(up.body) == 1 and not up.orelse
                outer = up if branch and up is not None else statement
                calls.setdefault((module.parent(outer), done), []).append((kind, statement))
    for found in calls.values():
        if any(kind in OTHERS for kind, _ in found):
            yield from ((module.span(statement), PORTABLE) for kind, statement in found if kind == "cuda")


def _bound_left(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> list[Finding]:
    keeps, uses = Inside(_span(f) for f in findings if _keeps(f)), library_use.Uses(module)

    @cache
    def bound(region: GuardRegion) -> int | None:
        """Return the offset of code in the region that stays bound to CUDA, or None."""
        found = [start for span in (region.guard, *region.covered) for start, _ in keeps.find(*span)]
        at = min(found, default=uses.find(region))
        if (kernel := uses.kernel(region)) is not None:
            at = kernel
        if at is None or region.skips:
            operator = uses.operator(region, _asks_for_cuda(module, region))
            at = at if operator is None else operator
        if at is None and region.flag:
            at = bound(region.flag)
        region.body_stays = at is not None and region.skips and not region.is_beside(at)
        return at

    mended = Around((_span(f), "") for f in findings if f.fix and f.status is Status.OPEN and f.backends == ("mps",))
    raising = cache(partial(_raisers, module, findings, mended))
    hindering = cache(partial(_for_mps_alone, findings))
    wrapping = cache(partial(_wrapping, module, findings))
    offers = cache(partial(_offers, module, findings))
    spared: dict[Span, tuple[str, str]] = {}  # what is not to lead to MPS: its text then, and the reason
    told: set[str] = set()  # reasons that the last line of a report gives
    for region in regions:
        if not region.reason and (at := bound(region)) is not None:
            region.reason = _BOUND.format(module.source.position(at)[0])
        elif not region.reason and (
            reason := _double(module, region, mended) or _raising(module, region, raising, hindering, wrapping)
        ):
            is_refusal = region.refusal and region.home not in _starting_groups(module)
            if not is_refusal and region.guard in offers():
                spared[region.guard] = offers()[region.guard], reason
                continue
            told.add(reason)
            region.reason, region.body_stays = reason, region.skips
    portable = {r.home for r in regions if r.reason == PORTABLE}
    for region in regions:
        if region.refusal and not region.reason and region.home in portable:
            region.reason = PORTABLE  # it refuses what the ladder would not take
    blocked = Around(_blocked(regions))
    return [_settle(f, blocked, told) for f in _without_mps(findings, spared)]


_OFFER = re.compile(r"(?P<helper>.+)\.(is_available\(\)|(?P<device>device\([^()]*\))|device_type\(\))")
_PLAIN_PLACES = (ast.Assign, ast.AnnAssign, ast.Return, ast.keyword, ast.Call)


def _offers(module: SemanticModel, findings: list[Finding]) -> dict[Span, str]:
    """Return what asks the helper for an accelerator or takes its device, each with its text where MPS is left out."""
    if module.facts.own is not None:
        return {}  # a helper of the project's own has no question that leaves MPS out
    found: dict[Span, str] = {}
    for finding in findings:
        edit = finding.fix.edits[0] if finding.fix and len(finding.fix.edits) == 1 else None
        match = _OFFER.fullmatch(edit.text) if edit and edit.start <= finding.start < finding.end <= edit.end else None
        if edit is None or match is None:
            continue
        text = f"{match['helper']}.is_complete()"
        if not edit.text.endswith(".is_available()"):
            node = _expressions(module).get((edit.start, edit.end))
            cpu = "'cpu'" if b"'cpu'" in module.source.utf8[edit.start : edit.end] else '"cpu"'
            otherwise = f"{spelled(module)['torch']}.device({cpu})" if match["device"] else cpu
            text = f"{edit.text} if {text} else {otherwise}"
            text = text if isinstance(node and module.parent(node), _PLAIN_PLACES) else f"({text})"
        found[_span(finding)] = text
    return found


def _without_mps(findings: list[Finding], spared: Mapping[Span, tuple[str, str]]) -> Iterator[Finding]:
    """Yield the findings with other texts at these spans: the code behind them raises on MPS, and runs elsewhere.

    A choice around such a question is not shortened to a device of the helper's, which may be MPS.
    """
    inside = Inside(spared)
    for finding in findings:
        if finding.fix and _span(finding) in spared:
            text, reason = spared[_span(finding)]
            edits = (replace(finding.fix.edits[0], text=text),)
            words = f"{finding.message}; MPS is left out, and what has no float64: {reason}"
            yield replace(finding, fix=replace(finding.fix, edits=edits), message=words)
        elif not (finding.fix and next(iter(inside.find(*_span(finding))), None)):
            yield finding


def _double(module: SemanticModel, region: GuardRegion, mended: Around[str]) -> str:
    """Return why float64 keeps a guard that chooses a device, or "": without CUDA it stayed on the CPU."""
    defaults = double_defaults(module)
    ways = {_DOUBLE: doubles_moved(module), _ANSWER: answers_moved(module)}
    if not (defaults or any(ways.values())) or not _asks_for_cuda(module, region):
        return ""
    found = {words: _first(region, moved, mended) for words, moved in ways.items()}
    reached = {region.home: [*defaults.get(region.home, ()), *defaults.get(None, ())]}
    found[_DOUBLES] = region.first_reached(reached, beside=True)
    told = (words.format(module.source.position(at)[0]) for words, at in found.items() if at is not None)
    return next(told, "")


def _first(region: GuardRegion, moved: Mapping[Function | None, Sequence[int]], mended: Around[str]) -> int | None:
    """Return the first of the moves that no fix mends and that the region's device comes to, or None."""
    left = {function: [at for at in places if mended.find(at, at) is None] for function, places in moved.items()}
    return region.first_reached(left, beside=True)


def _raising(
    module: SemanticModel,
    region: GuardRegion,
    raising: Callable[[], Sequence[tuple[Function | None, int]]],
    hindering: Callable[[], Sequence[int]],
    wrapping: Callable[[], Sequence[int]],
) -> str:
    """Return why a guard that chooses a device stays, or "": what this device comes to ran on the CPU, and would raise.

    That stands in the same function, in the class if its `__init__` chooses, or anywhere in a file with its own device.
    Where a function gives the device, all counts that is reported for MPS alone in its file. A process that wraps its
    model to compare it with others' keeps off MPS in the whole file.
    """
    if not _asks_for_cuda(module, region):
        return ""
    if wrapping() and not region.refusal:
        return _RAISES.format(f"line {module.source.position(wrapping()[0])[0]}")
    owner = module.parent(region.home) if region.home and region.home.name == "__init__" else None
    reached = [
        at
        for function, at in raising()
        if region.home in (None, function) or (isinstance(owner, ast.ClassDef) and function in owner.body)
    ]
    if hindering() and _returns_what_it_chooses(module, region):
        reached += hindering()
    if region.refusal and region.home in _starting_groups(module) and hindering():
        return _RAISES.format(f"line {module.source.position(hindering()[0])[0]}")
    at = region.first_reached({region.home: reached}, beside=True)
    made = double_made(module, at) if at is not None else _made_behind_the_answer(module, region)
    if made is None and at is not None:
        made = str(module.path), module.source.position(at)[0]
    if made is None:
        return ""
    path, line = made
    file = "" if path == str(module.path) else f"{os.path.relpath(path, module.facts.index.root)}, "
    return _RAISES.format(f"{file}line {line}")


@query
def _starting_groups(module: SemanticModel) -> set[Function | None]:
    """Return the functions that start a process group: MPS has nothing that groups are for."""
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    return {module.function(call) for call in calls if module.resolve(call.func) == STARTS_GROUP}


def _wrapping(module: SemanticModel, findings: list[Finding]) -> list[int]:
    """Return where functions that start a process group wrap a model that MPS then refuses to compare."""
    starting = _starting_groups(module)
    found = ((_expression(module, f), f.start) for f in findings if f.raises and f.backends == ("mps",) and starting)
    return [
        at
        for node, at in found
        if isinstance(node, ast.Call)
        and module.function(node) in starting
        and (module.resolve(node.func) or "").endswith(".DistributedDataParallel")
    ]


def _made_behind_the_answer(module: SemanticModel, region: GuardRegion) -> Position | None:
    """Return where float64 is made that other files lead to where they call the function which gives the device."""
    home = region.home
    if home is None or not isinstance(module.parent(home), ast.Module) or module.facts.settings.unsafe_fixes:
        return None
    gives = _last_return(module, home) > region.guard[0]
    return module.facts.doubles.made_beside(str(module.path), home.name) if gives and module.facts.files else None


@query
def _last_return(module: SemanticModel, function: Function) -> int:
    """Return where the last `return` in a function ends, or -1."""
    return max((module.span(n)[1] for n in ast.walk(function) if isinstance(n, ast.Return)), default=-1)


def _raisers(module: SemanticModel, findings: list[Finding], mended: Around[str]) -> list[tuple[Function | None, int]]:
    """Return what raises on MPS, nobody accepted and no fix of this pass mends, each with its function.

    Unsafe fixes make float64 on the CPU there, so a run that applies them has none left.
    """
    doubles = {} if module.facts.settings.unsafe_fixes else double_uses(module)
    found = [(function, at) for function, places in doubles.items() for at in places]
    for finding in findings:
        if finding.raises and (_is_to_do(finding) or (finding.status is Status.LEFT and finding.blocks)):
            node = _expression(module, finding)
            found.append((module.function(node) if node else None, finding.start))
    return [(function, at) for function, at in found if mended.find(at, at) is None]


def _returns_what_it_chooses(module: SemanticModel, region: GuardRegion) -> bool:
    """Return whether a function of the file returns in a branch of a test, or a name that the test decides."""
    if region.home is None or not isinstance(module.parent(region.home), ast.Module):
        return False
    inside, around = _deciding(module, region.home)
    return around.find(*region.guard) is not None or any(inside.find(*span) for span in region.covered)


@query
def _deciding(module: SemanticModel, function: Function) -> tuple[Inside, Around[bool]]:
    """Return where a function returns a value, and assigns to a name that it returns."""
    nodes = [*ast.walk(function)]
    returned = [n for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    names = {n.value.id for n in returned if isinstance(n.value, ast.Name)}
    assigns = [n for n in nodes if isinstance(n, ast.Assign)]
    to_names = [n for n in assigns if any(isinstance(t, ast.Name) and t.id in names for t in n.targets)]
    spans = [module.span(node) for node in (*returned, *to_names)]
    return Inside(spans), Around((span, True) for span in spans)


def _for_mps_alone(findings: list[Finding]) -> list[int]:
    """Return where something is reported that MPS alone cannot do, and that nothing mends in this run."""
    return [f.start for f in findings if f.backends == ("mps",) and _is_to_do(f)]


def _scripted(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield what torch.jit.script compiles, and what makes the object of such a method that is bound to CUDA."""
    names = module.facts.scripted.get(str(module.path), frozenset()) if module.facts.files else frozenset()
    ready = [f for f in findings if f.fix and f.status is Status.OPEN] if names else []
    fixes = Inside(map(_span, ready))
    for statement in module.scopes.statements if names else ():
        owner = module.parent(statement)
        if isinstance(statement, FUNCTIONS) and name_in_class(statement, owner) in names:
            span = module.span(statement.body[0])[0], module.span(statement)[1]
            yield span, _SCRIPTED
            if isinstance(owner, ast.ClassDef) and (at := next(iter(fixes.find(*span)), None)):
                made = (each for each in owner.body if isinstance(each, FUNCTIONS) and each.name == "__init__")
                yield from ((module.span(each), _ONE_CLASS.format(module.source.position(at[0])[0])) for each in made)


def _is_to_do(finding: Finding) -> bool:
    """Return whether nothing mends a finding in this run: it has no fix, or one that is unsafe and not asked for."""
    return finding.status is Status.HELD or (finding.fix is None and finding.status is Status.OPEN)


def _asks_for_cuda(module: SemanticModel, region: GuardRegion) -> bool:
    """Return whether a guard asks torch for CUDA's devices, and not a tensor or a name what device it is."""
    guard = _expressions(module).get(region.guard)
    return guard is not None and asks_cuda(module, guard)


def _blocked(regions: list[GuardRegion]) -> Iterator[tuple[Span, str]]:
    """Yield the spans that must stay, with the reasons; code under a flag once for all the flag's assignments."""
    flags: set[GuardRegion] = set()
    for region in (r for r in regions if r.reason):
        alone = region.refusal and not region.body_stays
        spans = [region.statement or region.guard] if alone else [region.guard, *region.covered]
        if region.flag and region.flag not in flags and not alone:
            flags.add(region.flag)
            spans += region.flag.covered
        yield from ((span, region.reason) for span in spans)


def _settle(finding: Finding, blocked: Around[str], told: Collection[str] = ()) -> Finding:
    reason = blocked.find(*_span(finding)) if finding.fix and finding.status is Status.OPEN else None
    if reason is None:
        return finding
    return replace(_left(finding, reason), held=reason if reason in told else "")


def _idle_left(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> list[Finding]:
    branches = {r.guard for r in regions if r.branch}
    idle: set[Finding] = set()
    while more := set(_idle(module, [f for f in findings if f not in idle], regions, branches)):
        idle |= more  # what they guard in turn may be idle now: the other half of `available and x.is_cuda`
    home = {r.guard: r.home for r in regions}
    # a function that asks twice must ask in the same way, so one test that is kept keeps the others
    kept = {home.get(_span(f)) for f in findings if f.fix and f.guards == "test" and f not in idle}
    stays = {f for f in findings if f in idle and (f.follows or home[_span(f)] not in kept)}
    asked = {_question(module, f) for f in findings if f.fix and f.guards and f not in stays}
    stays = {f for f in stays if (question := _question(module, f)) is None or question not in asked}
    stays |= _refusing_beside(module, findings, stays, regions)
    replaced = Around(((e.start, e.end), True) for f in findings if f.fix and f not in stays for e in f.fix.edits)
    gone = {f for f in stays if replaced.find(*_span(f))}  # `x.is_cuda` of a choice that becomes `x.device`
    return [_left(f, _IDLE) if f in stays else f for f in findings if f not in gone]


def _refusing_beside(
    module: SemanticModel, findings: list[Finding], stays: AbstractSet[Finding], regions: list[GuardRegion]
) -> set[Finding]:
    """Return the tests of a refusal that stand in one `and` with a test that stays, and guard nothing that changes."""
    nodes = [_expressions(module).get(_span(f)) for f in stays]
    tests = [up for n in nodes if n for up in module.ancestors(n) if isinstance(up, ast.BoolOp)]
    beside = Inside(_span(f) for f in findings if f.fix and f.guards and f not in stays)
    asked = {span for test in tests if isinstance(test.op, ast.And) for span in beside.find(*module.span(test))}
    fixes = Inside(_span(f) for f in findings if f.fix and f not in stays)
    changing = {r.guard for r in regions for span in r.covered if {*fixes.find(*span)} - asked}
    return {f for f in findings if f.fix and _span(f) in asked - changing}


def _idle(
    module: SemanticModel, findings: list[Finding], regions: list[GuardRegion], branches: set[Span]
) -> Iterator[Finding]:
    """Yield the tests that guard nothing which these findings change, and no use of a device that they change."""
    guarding = Around(_guarding(regions, findings))
    idle = [f for f in findings if f.fix and _only_follows(f, branches) and not guarding.find(*_span(f))]
    asked = {_span(f) for f in idle}
    of_idle = [r for r in regions if r.guard in asked]
    busy: set[Span] = set()
    if idle:
        busy = _using(module, findings, of_idle) | _joining(module, of_idle) | _leading(module, findings, of_idle)
        moving = {_span(f) for f in findings if f.fix and f.guards} - (asked - busy)
        made = [span for r in regions if r.guard in moving for span in r.covered]
        busy |= _reading(module, made, of_idle)
    yield from (f for f in idle if _span(f) not in busy)


def _guarding(regions: list[GuardRegion], findings: list[Finding]) -> Iterator[tuple[Span, bool]]:
    """Yield the tests that guard another place that is rewritten, and the tests that refuse to run."""
    fixes = Inside(_span(f) for f in findings if f.fix and not f.follows)

    @cache
    def covers(region: GuardRegion) -> set[Span]:
        found = {fix for span in region.covered for fix in fixes.find(*span)}
        return {*sorted(found | (covers(region.flag) if region.flag else set()))[:2]}

    return ((r.guard, True) for r in regions if r.refusal or covers(r) - {r.guard})


def _using(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> set[Span]:
    """Return the tests of a device that changes which guard a use of it: `if d.type == "cuda": model.to(d)`."""
    changed = [_expression(module, f) for f in findings if f.fix and not f.guards] if regions else []
    flow = dominance.flows_to(module, filter(None, changed))
    read = [n for n in flow if isinstance(n, (ast.Name, ast.Attribute))]
    uses = Inside(module.span(n) for n in read if moves_data(module, n))
    asked = Inside(map(module.span, read))
    found: set[Span] = set()
    for region in regions:
        tests = [s for s in region.covered if s[0] <= region.guard[0] < s[1]]
        guarded = (span for span in region.covered if span not in tests)
        if any(asked.find(*test) for test in tests) and any(uses.find(*span) for span in guarded):
            found.add(region.guard)
    return found


def _reading(module: SemanticModel, made: list[Span], regions: list[GuardRegion]) -> set[Span]:
    """Return the tests that guard a use of what is bound in these spans alone, where another test that changes holds.

    `if torch.cuda.is_available(): self.rng = Generator(device)`, and then `if ...: self.rng.manual_seed(1)`.
    """
    inside, places = Around((span, True) for span in made), dict[tuple[ast.AST | None, str], list[int]]()  # by owner
    for statement in module.scopes.statements if made else ():
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if chain := chain_of(target):
                places.setdefault((_home_of(module, target, chain), chain), []).append(module.span(target)[0])
    only = {key for key, bound in places.items() if all(inside.find(at, at) for at in bound)}
    reads = ((owner, r.node, chain) for owner, chain in only for r in reads_of(module, chain))
    read = Inside(module.span(node) for owner, node, chain in reads if _home_of(module, node, chain) is owner)
    return {r.guard for r in regions if any(read.find(*span) for span in r.covered if span != r.guard)}


def _home_of(module: SemanticModel, node: ast.AST, chain: str) -> ast.AST | None:
    """Return the function whose variable a name is, or the class whose attribute."""
    return module.nearest(node, ast.ClassDef) if chain.startswith("self.") else module.function(node)


def _joining(module: SemanticModel, regions: list[GuardRegion]) -> set[Span]:
    """Return the tests of a tensor that guard a move to where something is, or may: a call gets a list of devices.

    `if x.is_cuda: y = y.to(x.device)`; `if x.is_cuda: where = x.get_device()`, and then `y.to(where)`;
    `if x.is_cuda: data = scatter(data, [x.device])`. So do those that guard its own move to the CPU.
    """
    asked = {r.guard: _expressions(module).get(r.guard) for r in regions}
    asking = [r for r in regions if isinstance(node := asked[r.guard], ast.Attribute) and node.attr == "is_cuda"]
    if not asking:
        return set()
    homes = [n for n in module.nodes if isinstance(n, ast.Attribute) and n.attr == "device"]
    places = {*homes, *dominance.flows_to(module, homes)}
    moving = [node for node in places if moves_data(module, node) or _is_listed_for_call(module, node)]
    numbers = [n for n in module.nodes if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "get_device"]
    numbers = [n for n in numbers if not isinstance(module.parent(n), ast.IfExp)]  # device/device-idiom's
    moving += [n for n in numbers if any(moves_data(module, each) for each in dominance.flows_to(module, [n]))]
    uses = Inside(map(module.span, moving))
    brought = [(module.span(n)[0], tensor) for n in module.nodes if (tensor := _brought_to_cpu(n)) is not None]

    def brings(region: GuardRegion) -> bool:
        test = asked[region.guard]
        inside = (tensor for at, tensor in brought if any(a <= at < b for a, b in region.covered))
        return isinstance(test, ast.Attribute) and any(is_same(tensor, test.value) for tensor in inside)

    return {r.guard for r in asking if any(uses.find(*span) for span in r.spans) or brings(r)}


def _brought_to_cpu(node: ast.AST) -> ast.expr | None:
    """Return the tensor that a call brings to the CPU: `x.cpu()`, `torch.FloatTensor(x.size()).copy_(x)`; or None."""
    match node:
        case ast.Call(ast.Attribute(tensor, "cpu"), [], []):
            return tensor
        case ast.Call(ast.Attribute(ast.Call(ast.Attribute(attr=made)), "copy_"), [tensor]) if made.endswith("Tensor"):
            return tensor
    return None


def _is_listed_for_call(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a device is one of a list that a call gets: `scatter(data, [device])`."""
    listed = module.parent(node)
    return isinstance(listed, (ast.List, ast.Tuple)) and _call_with(module, listed) is not None


def _leading(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> set[Span]:
    """Return the tests that let functions of the project run which move data, or tell them: `move(x, d.is_cuda)`."""
    fixes = Inside(_span(f) for f in findings if f.fix and not f.guards and f.rule.startswith(("device/", "stream/")))
    calls = sorted(((*module.span(n), n) for n in module.nodes if isinstance(n, ast.Call)), key=lambda c: c[:2])

    def leads(region: GuardRegion) -> bool:
        answers = _answers(module, _expressions(module).get(region.guard))
        negated = any(isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.NotEq, ast.NotIn)) for n in answers)
        onward = dominance.flows_to(module, [*answers, *_flags_set(module, answers)])
        spans = region.spans + [span for node in onward.difference(answers) for span in _arms_on(module, node, negated)]
        spans = [span for span in spans if not span[0] <= region.guard[0] < span[1]]
        if any(_is_told_elsewhere(module, node) for node in onward):
            return True
        found = {call for node in onward if (call := _call_with(module, node)) is not None}
        for start, end in spans:
            if fixes.find(start, end):
                return True
            first, last = (bisect.bisect_left(calls, (at,), key=lambda c: c[:1]) for at in (start, end))
            found.update(call for _, _, call in calls[first:last])
        return any(_changes(module, call, fixes) for call in found)

    return {region.guard for region in regions if leads(region)}


def _answers(module: SemanticModel, node: ast.AST | None) -> list[ast.AST]:
    """Return the expressions that hold the answer to a question, of which a node is a part: `device.type == "cuda"`."""
    found = [node] if node is not None else []
    while found and isinstance(up := module.parent(found[-1]), (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        found.append(up)
    return found


def _flags_set(module: SemanticModel, answers: list[ast.AST]) -> list[ast.AST]:
    """Return the values of the flags that are set where an answer is yes: `if torch.cuda.is_available(): cuda = 1`."""
    up = module.parent(answers[-1]) if answers else None
    if not isinstance(up, ast.If) or up.test is not answers[-1]:
        return []
    return [s.value for s in flags_set(up.orelse if isinstance(up.test, ast.UnaryOp) else up.body)]


def _arms_on(module: SemanticModel, node: ast.AST, negated: bool) -> list[Span]:
    """Return what runs only if a value, or if `negated` its contrary, is true."""
    up, region = module.parent(node), GuardRegion()
    while isinstance(up, (ast.BoolOp, ast.UnaryOp)):
        negated ^= isinstance(up, ast.UnaryOp)
        node, up = up, module.parent(up)
    match up:
        case ast.If(test) | ast.While(test) if test is node:
            cover_branch(module, up, negated, region)
        case ast.IfExp(test, chosen, other) if test is node:
            region.covered.append(module.span(other if negated else chosen))
    return region.covered


def _call_with(module: SemanticModel, node: ast.AST) -> ast.Call | None:
    """Return the call of which a value is an argument."""
    up = module.parent(node)
    up = module.parent(up) if isinstance(up, ast.keyword) else up
    return up if isinstance(up, ast.Call) and node is not up.func else None


def _is_told_elsewhere(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a method of another file is told a value by a name that speaks of CUDA: `cuda_enabled=...`."""
    keyword, call = module.parent(node), _call_with(module, node)
    if call is None or not isinstance(keyword, ast.keyword) or "cuda" not in (keyword.arg or ""):
        return False
    func = call.func
    if not isinstance(func, ast.Attribute) or module.resolve(func) or dominance.called(module, func) is not None:
        return False
    taken = (node for each in module.facts.hierarchy.named(func.attr) for node in ast.walk(each.args))
    return any(isinstance(node, ast.arg) and node.arg == keyword.arg for node in taken)


def _changes(module: SemanticModel, call: ast.Call, fixes: Inside) -> bool:
    """Return whether a call leads to a function of the file with one of the fixes, or to one of another for CUDA.

    It calls that, or hands it on: `partial(cuda_timestamp, device=d)`.
    """
    handed = [f for arg in call.args if isinstance(arg, ast.Name) and (f := dominance.called(module, arg)) is not None]
    if any(fixes.find(*module.span(each)) for each in handed):
        return True
    own = dominance.called(module, call.func)
    named = _functions(module).get(last_name(call.func), ())
    called = [own] if own is not None else [f for f in named if isinstance(module.parent(f), ast.ClassDef)]
    if called:
        return any(fixes.find(*module.span(each)) for each in called)
    name, place = chain_of(call.func), Place(str(module.path), module.scope(call))
    meanings = module.facts.hierarchy.meanings(place, name) if name and module.facts.files else ()
    return any(isinstance(m, Definition) and m.place.path != place.path and _is_for_cuda(m) for m in meanings)


@query
def _functions(module: SemanticModel) -> dict[str, list[Function]]:
    """Return the functions and methods of the file by name."""
    found: dict[str, list[Function]] = {}
    for statement in module.scopes.statements:
        if isinstance(statement, FUNCTIONS):
            found.setdefault(statement.name, []).append(statement)
    return found


def _is_for_cuda(definition: Definition) -> bool:
    """Return whether a function, or one of its file that it calls, moves something to a device of CUDA's."""
    todo: list[ast.AST] = [definition.node]
    for function in todo:  # grows
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if _moves_to_cuda(call):
                return True
            found = definition.place.scope.find(call.func.id) if isinstance(call.func, ast.Name) else None
            todo += [b.node for b in found[1] if isinstance(b.node, FUNCTIONS) and b.node not in todo] if found else ()
    return False


def _moves_to_cuda(call: ast.Call) -> bool:
    given = [k.value for k in call.keywords if k.arg == "device"]
    given += call.args[:1] if last_name(call.func) in ("to", "device") else []
    names = any(isinstance(value, ast.Constant) and DEVICE.fullmatch(str(value.value)) for value in given)
    return names or getattr(call.func, "attr", "") == "cuda"


def _only_follows(finding: Finding, branches: set[Span]) -> bool:
    """Return whether a test is worth an edit only for what it guards: not before `print("use it")`."""
    return finding.follows or (finding.guards == "test" and _span(finding) in branches)


def _span(finding: Finding) -> Span:
    return finding.start, finding.end


def _left(finding: Finding, reason: str) -> Finding:
    return replace(finding, fix=None, status=Status.LEFT, message=f"{finding.message} (left alone: {reason})")


def _keeps(finding: Finding) -> bool:
    """Return whether the code of a finding stays bound to CUDA; the test that guards it must stay then, too."""
    if finding.follows:
        return False
    return finding.blocks or finding.status in (Status.HELD, Status.SUPPRESSED)


_Asks = Callable[[ast.AST], bool]
_MAY_ASK = re.compile(rb"is_nvidia|version|get_device_capability")  # a file without these does not
_MPS = {"mps", "is_mps"}


def reasons(module: SemanticModel, findings: list[Finding]) -> dict[Finding, str]:
    """Return the findings that ask for a test which is there already, each with the reason to leave it."""
    open_ones = [f for f in findings if f.status in (Status.OPEN, Status.HELD) and (f.fix is None or f.raises)]
    may_ask = bool(open_ones) and _MAY_ASK.search(module.source.utf8) is not None
    tests = ((_asks_nvidia, "behind a test for NVIDIA's devices"), (_asks_rocm, "behind a test for ROCm"))
    mps = _beside_mps(module) if any(f.backends == ("mps",) for f in open_ones) else ()
    beside = Around((span, "beside a test for MPS") for span in mps)
    behind = Around((span, reason) for asks, reason in tests if may_ask for span in _behind(module, asks))
    found = {f: beside.find(f.start, f.end) for f in open_ones if f.backends == ("mps",)}
    found |= {f: reason for f in open_ones if (reason := behind.find(f.start, f.end))}
    return {f: reason for f, reason in found.items() if reason}


def _behind(module: SemanticModel, asks: _Asks) -> Iterator[Span]:
    """Yield the code that tests for one vendor's devices guard, also as `x if ... else y`."""
    for statement in _branches(module):
        if (needed := _needs(statement.test, asks)) is not None:
            region = GuardRegion()
            cover_branch(module, statement, not needed, region)
            yield from (span for span in region.covered if span != module.span(statement.test))
    for choice in _choices(module):
        if (needed := _needs(choice.test, asks)) is not None:
            yield module.span(choice.body if needed else choice.orelse)
    for chain in (n for n in list(module.scopes.parent) if isinstance(n, ast.BoolOp)):
        asked = [_needs(value, asks) is isinstance(chain.op, ast.And) for value in chain.values]
        if True in asked:
            yield from map(module.span, chain.values[asked.index(True) + 1 :])


def _needs(test: ast.expr, asks: _Asks) -> bool | None:
    """Return True if the test holds on these devices alone, False if it fails on them alone, else None."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            inner = _needs(operand, asks)
            return None if inner is None else not inner
        case ast.BoolOp(op, values):
            wanted = isinstance(op, ast.And)
            return wanted if any(_needs(value, asks) is wanted for value in values) else None
    below = list(ast.walk(test))
    return True if any(map(asks, below)) and not any(map(_denies, below)) else None


def _asks_nvidia(node: ast.AST) -> bool:
    """Return whether a node is `accel.is_nvidia()`, `torch.version.cuda` or `torch.cuda.get_device_capability(...)`."""
    match node:
        case ast.Call(func, args, keywords):
            name = last_name(func)
            return name == "get_device_capability" or (name == "is_nvidia" and not args and not keywords)
        case ast.Attribute(ast.Attribute(value, "version"), "cuda"):
            return last_name(value) == "torch"
    return False


def _asks_rocm(node: ast.AST) -> bool:
    """Return whether a node is `torch.version.hip`."""
    match node:
        case ast.Attribute(ast.Attribute(value, "version"), "hip"):
            return last_name(value) == "torch"
    return False


def _denies(node: ast.AST) -> bool:
    """Return whether a part of a test may turn it round: `not`, `==`, `!=`, `is None`, but not `is not None`."""
    if isinstance(node, ast.Compare):
        for op, value in zip(node.ops, node.comparators, strict=True):
            is_none = isinstance(value, ast.Constant) and value.value is None
            if isinstance(op, (ast.Eq, ast.NotEq, ast.NotIn, ast.Is if is_none else ast.IsNot)):
                return True
    return isinstance(node, ast.Not)


def _beside_mps(module: SemanticModel) -> Iterator[Span]:
    """Yield both branches of each test for MPS, and the code after it if a branch leaves the block."""
    for statement in _branches(module):
        if not _MPS.isdisjoint(words_in(module, statement.test)):
            yield module.span(statement)
            region = GuardRegion()
            cover_branch(module, statement, True, region)
            cover_branch(module, statement, False, region)
            yield from region.covered
    yield from (module.span(c) for c in _choices(module) if not _MPS.isdisjoint(words_in(module, c.test)))


def _branches(module: SemanticModel) -> Iterator[ast.If | ast.While]:
    return (s for s in module.scopes.statements if isinstance(s, (ast.If, ast.While)))


def _choices(module: SemanticModel) -> Iterator[ast.IfExp]:
    return (n for n in list(module.scopes.parent) if isinstance(n, ast.IfExp))
