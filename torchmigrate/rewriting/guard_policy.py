"""Guard policy: a guard and all that it guards change together, or neither does.

A region whose guarded code holds something only NVIDIA has keeps its guard; a ladder that names mps, xpu or npu beside
cuda is portable already.
"""

from __future__ import annotations

import ast
import bisect
import builtins
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache, partial

from torchmigrate.diagnostics.finding import Finding, Status
from torchmigrate.project.called_operators import CalledOperators, Position
from torchmigrate.project.class_hierarchy import Definition, Place
from torchmigrate.rewriting.kept import (
    BOUND,
    branches,
    choices,
    expression_of,
    expressions,
    functions,
    keeps_its_guard,
    kept_code,
    question_of,
    refused_defaults,
    span_of,
)
from torchmigrate.semantic import dominance, library_use
from torchmigrate.semantic.device_expr import DEVICE_NAME, moves_data, moves_nothing
from torchmigrate.semantic.guard_regions import PORTABLE, GuardRegion, cover_branch, flags_set
from torchmigrate.semantic.guard_regions import regions as regions_of
from torchmigrate.semantic.library_use import asks_cuda, double_made, double_uses
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import calls_by_name, reads_of, spelled, words_in
from torchmigrate.semantic.values import answers_moved, double_defaults, doubles_moved
from torchmigrate.source.edits import Around, Inside, Span
from torchmigrate.syntax.resolver import chain_of, is_same, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Function, walk
from torchmigrate.torch_api.names import DEVICE, STARTS_GROUP

_DOUBLE = "float64 is put on its device (line {}), which MPS refuses"
_CALLED = "what it calls puts float64 on its device (line {}), which MPS refuses"
_ANSWER = "what an environment gives goes to its device uncast (line {}): MPS refuses float64, which it may be"
_RAISES = "{}: the device comes to this, which raises on MPS"
_COMPILED = "{}: the device comes to this, which has kernels for CUDA and perhaps the CPU alone"
_DOUBLES = "float64 is the default dtype (line {}), which MPS refuses"
_SETTINGS = "no file imports these settings, and what reads them may take an import for one: change them by hand"
_IDLE = "it may stay as it is: what it guards does no harm either way"
_FOR_CPU = "it sets the CPU in place of a device that is named elsewhere, and not rewritten there"


def decide(module: SemanticModel, findings: list[Finding]) -> list[Finding]:
    """Mark as LEFT the fixes in every region that must stay as it is, and tests that guard nothing that changes."""
    if library_use.is_read_as_settings(module):
        return [replace(f, fix=None, message=f"{f.message}; {_SETTINGS}") if f.fix else f for f in findings]
    answers = reasons(module, findings)
    findings = [replace(_left(f, answers[f]), blocks=False) if f in answers else f for f in findings]
    kept = Around(kept_code(module, findings))
    findings = [_settle(f, kept) for f in findings]
    regions = list(regions_of(module, findings))
    if regions:
        findings = _idle_left(module, _bound_left(module, findings, regions), regions)
        findings = _imported_left(module, findings, regions)
    refused = Around(refused_defaults(module, findings))
    return [_settle(f, refused) for f in findings]


def _bound_left(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> list[Finding]:
    keeps, uses = Inside(span_of(f) for f in findings if keeps_its_guard(f)), library_use.Uses(module)

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

    mended = Around((span_of(f), "") for f in findings if f.fix and f.status is Status.OPEN and f.backends == ("mps",))
    raising = cache(partial(_raisers, module, findings, mended))
    hindering = cache(partial(_for_mps_alone, findings))
    wrapping = cache(partial(_wrapping, module, findings))
    offers = cache(partial(_offers, module, findings))
    ends = cache(partial(_ends_without_cuda, module, findings))
    spared: dict[Span, tuple[str, str]] = {}  # what is not to lead to MPS: its text then, and the reason
    sparing: dict[Function | None, str] = {}  # the functions that ask so: their other questions come out the same
    told: set[str] = set()  # reasons that the last line of a report gives
    for region in regions:
        if not region.reason and (at := bound(region)) is not None:
            region.reason = BOUND.format(module.source.position(at)[0])
        elif not region.reason and (
            place := _behind_the_answer(module, region, module.facts.compiled, module.facts.kernels)
            or _in_its_models(module, region)
        ):
            region.reason = _COMPILED.format(_told_place(module, place))
        elif not (region.reason or ends() or _only_tells(module, region)) and (
            reason := _double(module, region, mended) or _raising(module, region, raising, hindering, wrapping)
        ):
            is_refusal = region.refusal and region.home not in _starting_groups(module)
            question = None if is_refusal else _asked_before(module, region, offers())
            if question is not None:
                spared[question] = offers()[question], reason
                sparing[region.home] = reason
                continue
            told.add(reason)
            region.reason, region.body_stays = reason, region.skips or bool(region.refusal)
    portable = {r.home for r in regions if r.reason == PORTABLE}
    for region in regions:
        if region.refusal and not region.reason and region.home in portable:
            region.reason = PORTABLE  # it refuses what the ladder would not take
    for region in regions:
        if region.home in sparing and not region.reason and region.guard in offers():
            spared.setdefault(region.guard, (offers()[region.guard], sparing[region.home]))
    blocked = _blocked_at_last(module, findings, regions)
    if (why := module.facts.without_mps.get(str(module.path))) is not None:
        behind = Around((span, "") for r in regions if r.guard in offers() for span in r.covered)
        guards = {region.guard for region in regions}
        asked = (span for span in offers() if span in guards or behind.find(*span) is None)
        spared = {span: (offers()[span], why) for span in asked if blocked.find(*span) is None} | spared
    return [_settle(f, blocked, told) for f in _without_mps(findings, spared)]


def _asked_before(module: SemanticModel, region: GuardRegion, offers: Mapping[Span, str]) -> Span | None:
    """Return what is asked for an accelerator before a guard comes out: the guard, or one that `and` ties to it."""
    if region.guard in offers:
        return region.guard
    for up, below in module.around(expressions(module)[region.guard], ast.BoolOp):
        before = up.values[: [*map(id, up.values)].index(id(below))] if isinstance(up.op, ast.And) else []
        found = next((span for span in map(module.span, before) if span in offers), None)
        if found is not None:
            return found
    return None


def _only_tells(module: SemanticModel, region: GuardRegion) -> bool:
    """Return whether all that a test guards only tells of the device: `print(torch.cuda.max_memory_allocated())`."""
    owner = module.statement(expressions(module)[region.guard])
    if not region.branch or not isinstance(owner, ast.If):
        return False
    guarded = [*owner.body, *owner.orelse]
    nodes = [node for statement in guarded for node in walk(statement)]
    names_device = any(
        (isinstance(node, ast.Constant) and DEVICE.fullmatch(str(node.value)))
        or (isinstance(node, ast.keyword) and node.arg == "device")
        for node in nodes
    )
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    return all(map(_tells, guarded)) and not names_device and all(_asks(module, func) for func in calls)


def _tells(statement: ast.stmt) -> bool:
    """Return whether a statement is one call, or makes a text: `words = ", ".join([...])`."""
    match statement:
        case ast.Expr():
            return True
        case ast.Assign([ast.Name()], value):
            return isinstance(value, ast.JoinedStr) or (
                isinstance(value, ast.Call) and last_name(value.func) in ("join", "format")
            )
    return False


def _asks(module: SemanticModel, func: ast.expr) -> bool:
    """Return whether what is called moves nothing: a question of torch.cuda, or no code of torch or of the project."""
    name = module.resolve(func) or ""
    if name.startswith("torch."):
        return name.startswith("torch.cuda.") and last_name(func).islower() and not last_name(func).startswith("set_")
    if isinstance(func, ast.Name):
        _, bindings = module.scope(func).find(func.id) or (None, [])
        return all(b.value is not None and last_name(b.value) in _TELLING for b in bindings)
    is_own = last_name(func) in functions(module) or module.facts.hierarchy.named(last_name(func))
    return last_name(func) not in ("cuda", "to") and not is_own


# what tells, under whatever name a function has it: `say = logger.info`
_TELLING = ("print", "debug", "info", "warning", "write")
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
            node = expressions(module).get((edit.start, edit.end))
            cpu = "'cpu'" if b"'cpu'" in module.source.utf8[edit.start : edit.end] else '"cpu"'
            otherwise = f"{spelled(module)['torch']}.device({cpu})" if match["device"] else cpu
            text = f"{edit.text} if {text} else {otherwise}"
            text = text if isinstance(node and module.parent(node), _PLAIN_PLACES) else f"({text})"
        found[span_of(finding)] = text
    return found


def _ends_without_cuda(module: SemanticModel, findings: list[Finding]) -> bool:
    """Return whether a run of the file always comes to a `.cuda()` that a fix moves: it never ran on MPS."""
    fixable = (expression_of(module, f) for f in findings if f.fix and f.status is Status.OPEN and not f.guards)
    calls = (node for node in fixable if isinstance(node, ast.Call) and last_name(node.func) == "cuda")
    return any(dominance.always_runs(module, call) for call in calls if not moves_nothing(call))


def _without_mps(findings: list[Finding], spared: Mapping[Span, tuple[str, str]]) -> Iterator[Finding]:
    """Yield the findings with other texts at these spans: the code behind them raises on MPS, and runs elsewhere.

    A choice around such a question is not shortened to a device of the helper's, which may be MPS.
    """
    inside = Inside(spared)
    for finding in findings:
        if finding.fix and span_of(finding) in spared:
            text, reason = spared[span_of(finding)]
            edits = (replace(finding.fix.edits[0], text=text),)
            words = f"{finding.message}; MPS is left out, and what has no float64: {reason}"
            yield replace(finding, fix=replace(finding.fix, edits=edits), message=words)
        elif not (finding.fix and next(iter(inside.find(*span_of(finding))), None)):
            yield finding


def _double(module: SemanticModel, region: GuardRegion, mended: Around[str]) -> str:
    """Return why float64 keeps a guard that chooses a device, or "": without CUDA it stayed on the CPU."""
    defaults = double_defaults(module)
    ways = {_DOUBLE: doubles_moved(module), _ANSWER: answers_moved(module)}
    if not (defaults or any(ways.values())) or not _asks_for_cuda(module, region):
        return ""
    found = {words: _first(region, moved, mended) for words, moved in ways.items()}
    found[_CALLED] = region.first_reached(_calls_of_doubles(module), beside=False)
    reached = {region.home: [*defaults.get(region.home, ()), *defaults.get(None, ())]}
    found[_DOUBLES] = region.first_reached(reached, beside=True)
    told = (words.format(module.source.position(at)[0]) for words, at in found.items() if at is not None)
    return next(told, "")


@query
def _calls_of_doubles(module: SemanticModel) -> dict[Function | None, list[int]]:
    """Return where each function calls a function, or a method of its object, that has float64 on a device."""
    found: dict[Function | None, list[int]] = {}
    for name in {function.name for function in doubles_moved(module) if function is not None}:
        for call, _ in calls_by_name(module).get(name, ()):
            if chain_of(call.func) in (name, f"self.{name}"):
                found.setdefault(module.function(call), []).append(module.span(call)[0])
    return found


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
    made = double_made(module, at) if at is not None else None
    if at is None and not module.facts.settings.unsafe_fixes:  # which make float64 on the CPU
        made = _behind_the_answer(module, region, module.facts.doubles, module.facts.raisers)
    if made is None and at is not None:
        made = str(module.path), module.source.position(at)[0]
    return _RAISES.format(_told_place(module, made)) if made else ""


def _told_place(module: SemanticModel, position: Position) -> str:
    """Return a position in words: `line 3`, with its file where it is another."""
    path, line = position
    file = "" if path == str(module.path) else os.path.relpath(path, module.facts.index.root)
    return ", ".join(filter(None, (file, f"line {line}" if line else "")))


@query
def _starting_groups(module: SemanticModel) -> set[Function | None]:
    """Return the functions that start a process group: MPS has nothing that groups are for."""
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    return {module.function(call) for call in calls if module.resolve(call.func) == STARTS_GROUP}


def _wrapping(module: SemanticModel, findings: list[Finding]) -> list[int]:
    """Return where functions that start a process group wrap a model that MPS then refuses to compare."""
    starting = _starting_groups(module)
    found = ((expression_of(module, f), f.start) for f in findings if f.raises and f.backends == ("mps",) and starting)
    return [
        at
        for node, at in found
        if isinstance(node, ast.Call)
        and module.function(node) in starting
        and (module.resolve(node.func) or "").endswith(".DistributedDataParallel")
    ]


def _behind_the_answer(module: SemanticModel, region: GuardRegion, *operators: CalledOperators) -> Position | None:
    """Return where an operator is that code leads to which also calls the function that gives the device."""
    home = region.home
    if home is None or not isinstance(module.parent(home), ast.Module) or not _asks_for_cuda(module, region):
        return None
    if not module.facts.files or _last_return(module, home) < region.guard[0]:
        return None
    places = (each.made_beside(str(module.path), home.name) for each in operators)
    return next(filter(None, places), None)


def _in_its_models(module: SemanticModel, region: GuardRegion) -> Position | None:
    """Return where a module that the program has calls a library's kernels, which the CPU and CUDA alone have."""
    return module.facts.kernels.in_models_of(str(module.path)) if _asks_for_cuda(module, region) else None


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
        if finding.raises and (finding.is_to_do or (finding.status is Status.LEFT and finding.blocks)):
            node = expression_of(module, finding)
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
    return [f.start for f in findings if f.backends == ("mps",) and f.is_to_do]


def _asks_for_cuda(module: SemanticModel, region: GuardRegion) -> bool:
    """Return whether a guard asks torch for CUDA's devices, and not a tensor or a name what device it is."""
    guard = expressions(module).get(region.guard)
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


def _blocked_at_last(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> Around[str]:
    """Return what must stay; a test stays, too, where another test keeps what it guards: a default that both decide."""
    fixes = Inside(span_of(f) for f in findings if f.fix and f.status is Status.OPEN)
    while True:
        blocked, is_settled = Around(_blocked(regions)), True
        for region in (r for r in regions if not (r.reason or r.refusal)):
            reasons = (blocked.find(*fix) or PORTABLE for span in region.covered for fix in fixes.find(*span))
            if kept := next((reason for reason in reasons if reason != PORTABLE), ""):
                region.reason, is_settled = kept, False
        if is_settled:
            return blocked


def _settle(finding: Finding, blocked: Around[str], told: Collection[str] = ()) -> Finding:
    reason = blocked.find(*span_of(finding)) if finding.fix and finding.status is Status.OPEN else None
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
    kept = {home.get(span_of(f)) for f in findings if f.fix and f.guards == "test" and f not in idle}
    stays = {f for f in findings if f in idle and (f.follows or home[span_of(f)] not in kept)}
    asked = {question_of(module, f) for f in findings if f.fix and f.guards and f not in stays}
    stays = {f for f in stays if (question := question_of(module, f)) is None or question not in asked}
    stays |= _refusing_beside(module, findings, stays, regions)
    replaced = Around(((e.start, e.end), True) for f in findings if f.fix and f not in stays for e in f.fix.edits)
    gone = {f for f in stays if replaced.find(*span_of(f))}  # `x.is_cuda` of a choice that becomes `x.device`
    return [_left(f, _idle_reason(module, f)) if f in stays else f for f in findings if f not in gone]


def _idle_reason(module: SemanticModel, finding: Finding) -> str:
    """Return why a test may stay: where it sets the CPU, that is for a device that is named somewhere else."""
    node = expression_of(module, finding)
    branch = module.statement(node) if node is not None else None
    for statement in branch.body if isinstance(branch, ast.If) else ():
        match statement:
            case ast.Assign(_, ast.Constant("cpu")):
                return _FOR_CPU
    return _IDLE


def _imported_left(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> list[Finding]:
    """Leave the tests that guard reads of what is imported behind a test that stays: elsewhere it is not there."""
    stays = {span_of(f) for f in findings if f.status is Status.LEFT}
    covered = Around((span, True) for r in regions if r.guard in stays for span in r.covered)
    imports = [s for s in module.scopes.statements if isinstance(s, (ast.Import, ast.ImportFrom))]
    held = [s for s in imports if covered.find(*module.span(s))]
    if not held:
        return findings
    given = {alias.asname or alias.name for s in held for alias in s.names}
    known = {alias.asname or alias.name for s in imports if s not in held for alias in s.names}
    names = [n for n in module.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    read = Inside(module.span(n) for n in names if n.id in given - known or ("*" in given and _is_nowhere(module, n)))
    lost = {r.guard for r in regions if r.guard not in stays and any(read.find(*span) for span in r.covered)}
    line = module.source.position(module.span(held[0])[0])[0]
    reason = f"what it guards is imported behind a test that stays (line {line})"
    return [_left(f, reason) if f.fix and f.guards and span_of(f) in lost else f for f in findings]


def _is_nowhere(module: SemanticModel, name: ast.Name) -> bool:
    """Return whether nothing in the file binds a name: a `*` import brings it."""
    return module.scope(name).find(name.id) is None and not hasattr(builtins, name.id)


def _refusing_beside(
    module: SemanticModel, findings: list[Finding], stays: AbstractSet[Finding], regions: list[GuardRegion]
) -> set[Finding]:
    """Return the tests of a refusal that stand in one `and` with a test that stays, and guard nothing that changes."""
    nodes = [expressions(module).get(span_of(f)) for f in stays]
    tests = [up for n in nodes if n for up in module.ancestors(n) if isinstance(up, ast.BoolOp)]
    beside = Inside(span_of(f) for f in findings if f.fix and f.guards and f not in stays)
    asked = {span for test in tests if isinstance(test.op, ast.And) for span in beside.find(*module.span(test))}
    fixes = Inside(span_of(f) for f in findings if f.fix and f not in stays)
    changing = {r.guard for r in regions for span in r.covered if {*fixes.find(*span)} - asked}
    return {f for f in findings if f.fix and span_of(f) in asked - changing}


def _idle(
    module: SemanticModel, findings: list[Finding], regions: list[GuardRegion], branches: set[Span]
) -> Iterator[Finding]:
    """Yield the tests that guard nothing which these findings change, and no use of a device that they change."""
    guarding = Around(_guarding(regions, findings))
    idle = [f for f in findings if f.fix and _only_follows(f, branches) and not guarding.find(*span_of(f))]
    asked = {span_of(f) for f in idle}
    of_idle = [r for r in regions if r.guard in asked]
    busy: set[Span] = set()
    if idle:
        busy = _using(module, findings, of_idle) | _joining(module, of_idle) | _leading(module, findings, of_idle)
        moving = {span_of(f) for f in findings if f.fix and f.guards} - (asked - busy)
        made = [span for r in regions if r.guard in moving for span in r.covered]
        busy |= _reading(module, made, of_idle) | _completing(module, findings, of_idle)
    yield from (f for f in idle if span_of(f) not in busy)


def _completing(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> set[Span]:
    """Return the tests of what is moved where it is not on the device yet: `if not x.is_cuda: x = x.cuda()`."""
    asked = {region.guard for region in regions}
    moves = Inside(span_of(f) for f in findings if f.fix and f.rule == "device/tensor-cuda")
    found: set[Span] = set()
    for statement in branches(module):
        parts = (node for node in walk(statement.test) if isinstance(node, ast.expr))
        asking = [node for node in parts if module.span(node) in asked]
        if asking and any(moves.find(*module.span(inner)) for inner in statement.body):
            found |= {module.span(node) for node in asking if _fails_for(statement.test, node)}
    return found


def _fails_for(test: ast.expr, asked: ast.AST) -> bool:
    """Return whether a test fails where a part of it holds."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(_needs(part, lambda node: node is asked) is False for part in parts)


def _guarding(regions: list[GuardRegion], findings: list[Finding]) -> Iterator[tuple[Span, bool]]:
    """Yield the tests that guard another place that is rewritten, and the tests that refuse to run."""
    fixes = Inside(span_of(f) for f in findings if f.fix and not f.follows)

    @cache
    def covers(region: GuardRegion) -> set[Span]:
        found = {fix for span in region.covered for fix in fixes.find(*span)}
        return {*sorted(found | (covers(region.flag) if region.flag else set()))[:2]}

    return ((r.guard, True) for r in regions if r.refusal or covers(r) - {r.guard})


def _using(module: SemanticModel, findings: list[Finding], regions: list[GuardRegion]) -> set[Span]:
    """Return the tests of a device that changes which guard a use of it: `if d.type == "cuda": model.to(d)`.

    So do tests for CUDA which guard a use of a device that a function is given: `if is_available(): x.to(device)`.
    """
    changed = [expression_of(module, f) for f in findings if f.fix and not f.guards] if regions else []
    flow = dominance.flows_to(module, filter(None, changed))
    read = [n for n in flow if isinstance(n, (ast.Name, ast.Attribute))]
    uses = Inside(module.span(n) for n in read if moves_data(module, n))
    asked = Inside(map(module.span, read))
    found: set[Span] = set()
    for region in regions:
        tests = [s for s in region.covered if s[0] <= region.guard[0] < s[1]]
        guarded = [span for span in region.covered if span not in tests]
        moving = [uses] if any(asked.find(*test) for test in tests) else []
        moving += [_given_devices(module)] if _asks_for_cuda(module, region) else []
        if any(each.find(*span) for each in moving for span in guarded):
            found.add(region.guard)
    return found


@query
def _given_devices(module: SemanticModel) -> Inside:
    """Return where data are moved to a device that a function is given: `x.to(device)`."""
    dominance.know_parents(module)
    named = (n for n in module.nodes if isinstance(n, ast.Name) and DEVICE_NAME.search(n.id))
    moving = (node for node in named if moves_data(module, node))
    bound = ((node, module.scope(node).find(node.id)) for node in moving)
    is_given = ((node, found and all(isinstance(b.node, ast.arg) for b in found[1])) for node, found in bound)
    return Inside(module.span(node) for node, given in is_given if given)


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
    asked = {r.guard: expressions(module).get(r.guard) for r in regions}
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
    fixes = Inside(span_of(f) for f in findings if f.fix and not f.guards and f.rule.startswith(("device/", "stream/")))
    calls = sorted(((*module.span(n), n) for n in module.nodes if isinstance(n, ast.Call)), key=lambda c: c[:2])

    def leads(region: GuardRegion) -> bool:
        answers = _answers(module, expressions(module).get(region.guard))
        negated = any(isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.NotEq, ast.NotIn)) for n in answers)
        onward = dominance.flows_to(module, [*answers, *_flags_set(module, answers)])
        spans = region.spans + [span for node in onward.difference(answers) for span in _arms_on(module, node, negated)]
        spans = [span for span in spans if not span[0] <= region.guard[0] < span[1]]
        if any(_is_told_elsewhere(module, node) for node in onward) or _sets_number(module, answers):
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


def _sets_number(module: SemanticModel, answers: list[ast.AST]) -> bool:
    """Return whether an answer chooses a number that a comparison asks about, or that the project's functions get.

    `device_id = 0 if device == "cuda" else -1`, and then `train(args, device_id)`.
    """
    choice = module.parent(answers[-1]) if answers else None
    if not isinstance(choice, ast.IfExp) or choice.test is not answers[-1]:
        return False
    if not all(_is_number(arm) for arm in (choice.body, choice.orelse)):
        return False
    told = dominance.flows_to(module, [choice])
    calls = filter(None, (_call_with(module, node) for node in told))
    return any(isinstance(module.parent(n), ast.Compare) for n in told) or any(_is_own(module, call) for call in calls)


def _is_number(node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) and isinstance(value.value, int)


def _is_own(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call is of a function of the project, here or in another file."""
    return dominance.called(module, call.func) is not None or bool(_meanings(module, call))


def _meanings(module: SemanticModel, call: ast.Call) -> Iterable[Definition]:
    """Return the functions of the project that a call by name may be of."""
    name, place = chain_of(call.func), Place(str(module.path), module.scope(call))
    meanings = module.facts.hierarchy.meanings(place, name) if name and module.facts.files else ()
    return [m for m in meanings if isinstance(m, Definition)]


def _changes(module: SemanticModel, call: ast.Call, fixes: Inside) -> bool:
    """Return whether a call leads to a function of the file with one of the fixes, or to one of another for CUDA.

    It calls that, or hands it on: `partial(cuda_timestamp, device=d)`.
    """
    handed = [f for arg in call.args if isinstance(arg, ast.Name) and (f := dominance.called(module, arg)) is not None]
    if any(fixes.find(*module.span(each)) for each in handed):
        return True
    own = dominance.called(module, call.func)
    named = functions(module).get(last_name(call.func), ())
    called = [own] if own is not None else [f for f in named if isinstance(module.parent(f), ast.ClassDef)]
    if called:
        return any(fixes.find(*module.span(each)) for each in called)
    return any(m.place.path != str(module.path) and _is_for_cuda(m) for m in _meanings(module, call))


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
    return finding.follows or (finding.guards == "test" and span_of(finding) in branches)


def _left(finding: Finding, reason: str) -> Finding:
    return replace(finding, fix=None, status=Status.LEFT, message=f"{finding.message} (left alone: {reason})")


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
    for statement in branches(module):
        if (needed := _needs(statement.test, asks)) is not None:
            region = GuardRegion()
            cover_branch(module, statement, not needed, region)
            yield from (span for span in region.covered if span != module.span(statement.test))
    for choice in choices(module):
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
    for statement in branches(module):
        if not _MPS.isdisjoint(words_in(module, statement.test)):
            yield module.span(statement)
            region = GuardRegion()
            cover_branch(module, statement, True, region)
            cover_branch(module, statement, False, region)
            yield from region.covered
    yield from (module.span(c) for c in choices(module) if not _MPS.isdisjoint(words_in(module, c.test)))
