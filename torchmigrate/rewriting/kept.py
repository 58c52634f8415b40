"""Find the code in which a project keeps to CUDA by itself: arms of its ladders, twins for CUDA, kernels, shims."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator

from torchmigrate.diagnostics.finding import Finding, Status
from torchmigrate.project.called_operators import LOADERS, name_in_class
from torchmigrate.project.import_graph import EXTENSION
from torchmigrate.semantic import dominance
from torchmigrate.semantic.guard_regions import OTHERS, PORTABLE, defaults_of, devices_asked
from torchmigrate.semantic.library_use import asks_cuda, first_call
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import words_in
from torchmigrate.source.edits import Inside, Span
from torchmigrate.syntax.resolver import chain_of, last_name, makes_marks
from torchmigrate.syntax.scope import FUNCTIONS, Function
from torchmigrate.torch_api.libraries import ALONE, CUDA_ONLY, ENGINES, knows_cuda_alone, row_of
from torchmigrate.torch_api.names import NCCL

BOUND = "its guard also covers what stays bound to CUDA (line {})"
_SCRIPTED = "TorchScript compiles this function, and cannot compile the helper"
_OWN = "`{}` asks for CUDA alone, and stays"
_SIBLING = "`{}` is about CUDA, beside `{}`"
_LACKING = "it refuses what is implemented for CUDA alone"
_ONE_LIBRARY = "it imports {}, which runs on NVIDIA's devices alone"
_ONE_BUILD = "the file compiles kernels, and asks which of CUDA's devices they are for"
_ONE_SHIM = "line {} gives torch.cuda a function of the file's own, which the helper would call"
_ONE_ARCHIVE = "it is written for {}, whose code is packed and run without the rest of a project"
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
_REFUSED = "line {} asks for CUDA by this name, and other devices are refused there"
_CUDA = ("cuda", "gpu")
_ASKED = {"cuda", "nccl"}  # words of a test for CUDA
_PLAIN = ("ref", "reference", "native", "naive", "python", "slow")  # what a kernel is compared with
_ANY = ("accelerator",)  # what is named for it asks for any of them
_PREDICATE = re.compile(r"(?i)^(is|has|have)_|(available|usable|present|enabled|supported)$")


def kept_code(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the code in which the project keeps to CUDA by itself, with the reasons.

    These are the arms of its own ladders, what its own questions for CUDA guard, functions for CUDA beside those for
    other devices, refusals for want of an implementation, and what a test guards that the worlds check holds back.
    """
    fixes = Inside(span_of(f) for f in findings if f.fix and f.status is Status.OPEN)
    held = Inside(span_of(f) for f in findings if f.blocks and f.status is Status.LEFT)
    for statement in module.scopes.statements:
        if isinstance(statement, ast.If) and next(iter(fixes.find(*module.span(statement))), None):
            yield from _kept_arm(module, statement, held, fixes)
        if isinstance(statement, ast.Assert) and statement.msg:  # it tells what the assertion asks
            yield from _bound_to(module, statement.test, statement.msg, held)
    for choice in choices(module):
        if fixes.find(*module.span(choice.body)):
            yield from _bound_to(module, choice.test, choice.body, held)
    yield from _scripted(module, findings)
    for block in _blocks_of_names(module):
        for node, name, sibling in _for_cuda(block):
            yield module.span(node), _SIBLING.format(name, sibling)
    yield from _done_for_each(module)
    yield from _of_old_torch(module)
    yield from _of_states(module)
    yield from _of_one_library(module)
    yield from _of_one_build(module)
    yield from _of_one_shim(module)
    yield from _of_one_archive(module)
    yield from _of_another_kernel(module)
    yield from _of_one_rank(module, findings)
    yield from _of_one_sum(module, findings)
    yield from _of_one_call(module, findings)
    yield from _of_cuda_alone(module, findings)
    yield from _of_one_method(module, findings)
    yield from _of_one_question(module, findings)
    yield from _of_nccl(module, findings)


def _bound_to(module: SemanticModel, test: ast.expr, guarded: ast.expr, held: Inside) -> Iterator[tuple[Span, str]]:
    """Yield what a test guards or tells of, if part of the test is held back."""
    for start, _ in itertools.islice(held.find(*module.span(test)), 1):
        yield module.span(guarded), BOUND.format(module.source.position(start)[0])


def _of_old_torch(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield what stands for `torch.accelerator` in a torch that has none, before 2.6, where the code asks for it."""
    if b"accelerator" not in module.source.utf8:
        return
    for branch in (*branches(module), *choices(module)):
        match branch.test:
            case ast.Call(ast.Name("hasattr"), [ast.Name("torch"), ast.Constant("accelerator")]) if branch.orelse:
                other = branch.orelse if isinstance(branch.orelse, list) else [branch.orelse]
                yield (module.span(other[0])[0], module.span(other[-1])[1]), _OLD_TORCH


def _of_states(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield the code for CUDA's random state where the function has that of another accelerator beside it."""
    if b"rng_state" not in module.source.utf8:
        return
    named = {n: module.resolve(n) or "" for n in module.nodes if isinstance(n, ast.Attribute) and "rng_state" in n.attr}
    others = tuple(f"torch.{kind}." for kind in sorted(OTHERS))
    homes = {module.function(node) for node, name in named.items() if name.startswith(others)}
    for node, name in named.items():
        if name.startswith("torch.cuda.") and module.function(node) in homes:
            around = (up for up in module.enclosing(node, ast.If, ast.IfExp) if isinstance(up, (ast.If, ast.IfExp)))
            asking = (up for up in around if asks_cuda(module, up.test))
            yield module.span(next(asking, node)), PORTABLE


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
            names = _modules_of(statement)
            library = next((name for name in names if row_of(name, known)), None)
            if library is None and isinstance(branch, ast.Module) and not {*names}.isdisjoint(_HOLDING_ENGINES):
                library = next(_engines_called(module), None)
            if library is not None:
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
        if not isinstance(statement, ast.Assign) or isinstance(statement.value, ast.Constant):
            continue  # no function
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and (module.resolve(target) or "").startswith("torch.cuda"):
                line = module.source.position(module.span(statement)[0])[0]
                yield (0, len(module.source.utf8)), _ONE_SHIM.format(line)
                return


def _of_one_archive(module: SemanticModel) -> Iterator[tuple[Span, str]]:
    """Yield a whole file that is packed and run without the files beside it, and so without the helper."""
    for statement in module.scopes.statements:
        names = _modules_of(statement) if isinstance(statement, (ast.Import, ast.ImportFrom)) else []
        if name := next((name for name in names if row_of(name, ALONE)), None):
            yield (0, len(module.source.utf8)), _ONE_ARCHIVE.format(name)


def _modules_of(statement: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules that a statement imports, or imports from; those of the project's own package excepted."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module] if statement.module and not statement.level else []


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
    asked = Inside(span_of(f) for f in findings)
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
            yield from ((span_of(f), reason) for f in members)


def _is_of_rank(module: SemanticModel, finding: Finding, rank: str, owner: ast.AST | None) -> bool:
    """Return whether a finding is about the device of a rank: it, or the comparison around it, reads the rank."""
    node = expression_of(module, finding)
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
        node = expression_of(module, finding)
        if isinstance(node, ast.Call) and (module.resolve(node.func) or "").startswith("torch.cuda."):
            told.append((finding, node))
    stay = [(f, dominance.calculated_from(module, node)) for f, node in told if f.fix is None and f.blocks]
    for finding, node in told if stay else ():
        if finding.fix and finding.status is Status.OPEN:
            own = dominance.calculated_from(module, node)
            if other := next((f for f, sums in stay if own & sums), None):
                yield span_of(finding), _ONE_SUM.format(module.source.position(other.start)[0])


def _of_nccl(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the parameters of tests that are NCCL, with the marks that say where it is: `pytest.param("nccl", ...)`.

    And the tests with marks that name NCCL where no edit changes it, or that a fixture gives it.
    """
    if b"nccl" not in module.source.utf8:
        return
    changed = {span_of(f) for f in findings if f.fix and f.status is Status.OPEN}

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
            yield from ((span_of(f), reason) for f in together)


def _of_cuda_alone(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the arguments of torch's functions for CUDA alone: `torch.cuda.comm.broadcast(x.cuda(), ...)`."""
    for finding in findings:
        if finding.blocks and finding.fix is None and finding.status is Status.OPEN:
            call = expression_of(module, finding)
            if isinstance(call, ast.Call) and (module.resolve(call.func) or "").startswith("torch.cuda."):
                reason = _CUDA_ALONE.format(module.source.position(finding.start)[0], chain_of(call.func))
                yield from ((module.span(given), reason) for given in (*call.args, *call.keywords))


def _of_one_method(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the methods by which a class moves its objects to CUDA, `cuda()`, if a part of them stays bound to it."""
    for node in module.scopes.statements:
        if isinstance(node, ast.FunctionDef) and node.name == "cuda" and isinstance(module.parent(node), ast.ClassDef):
            start, end = module.span(node)
            inside = (f for f in findings if start <= f.start and f.end <= end)
            if stays := next((f for f in inside if keeps_its_guard(f) and _moves_itself(module, f)), None):
                yield (start, end), _ONE_METHOD.format(module.source.position(stays.start)[0])


def _moves_itself(module: SemanticModel, finding: Finding) -> bool:
    """Return whether a finding is about a move of the object that a method is called of, or of its parts."""
    match expression_of(module, finding):
        case ast.Call(ast.Attribute(ast.Call(ast.Name("super")))):
            return True
        case ast.Call(ast.Attribute(owner)):
            return (chain_of(owner) or "").partition(".")[0] == "self"
    return False


def _of_one_question(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the tests of a function that ask the same as one that the worlds check holds back, and what they guard."""
    asked = [f for f in findings if f.guards]
    held = [f for f in asked if f.blocks and f.status is Status.LEFT]
    stay = {question: f for f in held if (question := question_of(module, f))}
    for finding in asked if stay else ():
        test = test_of(module, finding)
        other = stay.get(question_of(module, finding) or ("", None))
        if other is None or test is None or not (finding.fix and finding.status is Status.OPEN):
            continue
        reason = _ONE_QUESTION.format(module.source.position(other.start)[0])
        yield module.span(test), reason
        match module.parent(test):
            case ast.If(guard, body) if guard is test:
                yield (module.span(body[0])[0], module.span(body[-1])[1]), reason
            case ast.IfExp(guard, chosen) if guard is test:
                yield module.span(chosen), reason


def question_of(module: SemanticModel, finding: Finding) -> tuple[str, ast.AST | None] | None:
    """Return what a finding's test asks, without its places, and the function that asks it."""
    test = test_of(module, finding)
    return None if test is None else (ast.dump(test), module.function(test))


def test_of(module: SemanticModel, finding: Finding) -> ast.expr | None:
    """Return the comparison around a finding."""
    node = expression_of(module, finding)
    up = module.parent(node) if node is not None else None
    return next((each for each in (node, up) if isinstance(each, ast.Compare)), None)


def _taker(module: SemanticModel, finding: Finding) -> ast.Call | None:
    """Return the call of which the answer to a finding's question is an argument, or chooses one."""
    node = expression_of(module, finding)
    for up in module.ancestors(node) if node else ():
        if isinstance(up, ast.Call):
            return up if node is not up.func else None
        if not isinstance(up, (ast.keyword, ast.IfExp, ast.BoolOp, ast.UnaryOp)):
            return None
        node = up
    return None


def expression_of(module: SemanticModel, finding: Finding) -> ast.AST | None:
    """Return the outermost expression that a finding is about; for a function that is called, the call."""
    node = expressions(module).get(span_of(finding))
    up = module.parent(node) if node else None
    return up if isinstance(up, ast.Call) and up.func is node else node


@query
def expressions(module: SemanticModel) -> dict[Span, ast.AST]:
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
        yield body, BOUND.format(module.source.position(at[0])[0])
    if len(others) > 1:
        if asked.isdisjoint(_CUDA):
            yield body, PORTABLE
        if node.orelse and not isinstance(node.orelse[0], ast.If):
            yield (module.span(node.orelse[0])[0], module.span(node.orelse[-1])[1]), PORTABLE


def refused_defaults(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield the defaults that a ladder would refuse if they named another device, as its test for CUDA stays."""
    left = Inside(span_of(f) for f in findings if f.guards and f.status is Status.LEFT)
    for ladder in (s for s in module.scopes.statements if isinstance(s, ast.If)):
        is_left = next(iter(left.find(*module.span(ladder.test))), None) is not None
        if is_left and (defaults := defaults_of(module, ladder)) and not devices_asked(module, ladder):
            yield from ((default, _REFUSED.format(ladder.lineno)) for default in defaults)


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
    return any(fixes.find(*module.span(node)) for node in functions(module).get(predicate, ()))


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


def _scripted(module: SemanticModel, findings: list[Finding]) -> Iterator[tuple[Span, str]]:
    """Yield what torch.jit.script compiles, and what makes the object of such a method that is bound to CUDA."""
    names = module.facts.scripted.get(str(module.path), frozenset()) if module.facts.files else frozenset()
    ready = [f for f in findings if f.fix and f.status is Status.OPEN] if names else []
    fixes = Inside(map(span_of, ready))
    for statement in module.scopes.statements if names else ():
        owner = module.parent(statement)
        if isinstance(statement, FUNCTIONS) and name_in_class(statement, owner) in names:
            span = module.span(statement.body[0])[0], module.span(statement)[1]
            yield span, _SCRIPTED
            if isinstance(owner, ast.ClassDef) and (at := next(iter(fixes.find(*span)), None)):
                made = (each for each in owner.body if isinstance(each, FUNCTIONS) and each.name == "__init__")
                yield from ((module.span(each), _ONE_CLASS.format(module.source.position(at[0])[0])) for each in made)


@query
def functions(module: SemanticModel) -> dict[str, list[Function]]:
    """Return the functions and methods of the file by name."""
    found: dict[str, list[Function]] = {}
    for statement in module.scopes.statements:
        if isinstance(statement, FUNCTIONS):
            found.setdefault(statement.name, []).append(statement)
    return found


def span_of(finding: Finding) -> Span:
    return finding.start, finding.end


def keeps_its_guard(finding: Finding) -> bool:
    """Return whether the code of a finding stays bound to CUDA; the test that guards it must stay then, too."""
    if finding.follows:
        return False
    return finding.blocks or finding.status in (Status.HELD, Status.SUPPRESSED)


def branches(module: SemanticModel) -> Iterator[ast.If | ast.While]:
    return (s for s in module.scopes.statements if isinstance(s, (ast.If, ast.While)))


def choices(module: SemanticModel) -> Iterator[ast.IfExp]:
    return (n for n in list(module.scopes.parent) if isinstance(n, ast.IfExp))
