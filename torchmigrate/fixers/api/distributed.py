"""Fixers for several processes: groups of them, DistributedDataParallel, FSDP, shared tensors, how a Mac starts them.

The backend of a process group is "nccl" where one is chosen, compared, listed or asked for.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device import device_defaults
from torchmigrate.fixers.hazard.mps import names_device, where_cuda_is_named
from torchmigrate.helper.placement import runs_itself
from torchmigrate.project.class_hierarchy import Definition, Place
from torchmigrate.project.import_graph import BACKENDS, reached
from torchmigrate.project.process_facts import starts_nccl
from torchmigrate.semantic.device_expr import wrapped
from torchmigrate.semantic.dominance import called, know_parents, reads
from torchmigrate.semantic.library_use import asks_cuda, first_call
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.receiver import parallel_classes
from torchmigrate.semantic.references import (
    helper_function,
    identifiers,
    identifiers_in,
    reads_of,
    spell,
    spelled,
    strings_in,
    words_in,
)
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import argument_of, chain_of, last_name, leaves_block
from torchmigrate.syntax.scope import FUNCTIONS, Function, Scope, function_scope, given_defaults, parameter_of
from torchmigrate.torch_api.backends import COLLECTIVES, OF_HELPER, having
from torchmigrate.torch_api.names import STARTS_GROUP

_INDEX = re.compile(r"rank$|^gpu(_id)?$|^(device_)?(id|idx|index)$", re.I)
_OF_PROCESSES = ("world", "rank", "distrib", "ddp", "parallel", "process", "initialized")
_WORDS = (*_OF_PROCESSES, "gpu", "device")
_CHOICE = re.compile("|".join((*_WORDS, "accelerat", *having("helper"))), re.I)
_SEVERAL = re.compile("|".join(_WORDS), re.I)
_PROCESSES = re.compile("|".join(_OF_PROCESSES), re.I)
_NUMBERS = ("get_world_size", "get_rank")
_OF_PARALLEL = ("__new__", "__init__", "__call__", "forward")  # by which it is made and called
_PARALLEL = "DistributedDataParallel"
_UNCOUNTED = (
    "processes on the CPU count no device, so the module is not wrapped there, and each process would train its own: "
    "ask for the number of processes"
)
_NO_COLLECTIVE = (
    "MPS has no collectives, so `{}` raises there for a tensor on MPS, with one process too: "
    "where one process runs, leave it out; several that torchrun starts get the CPU"
)
_MPS = "MPS has no collectives and raises AttributeError"
_WITHOUT = 'FSDP asks for an accelerator: on the CPU it raises without `device_id=torch.device("cpu")`, and ' + _MPS


def sync_batch_norm(context: RuleContext) -> Iterator[Finding]:
    """Yield the fix for batch norms that are synchronized wherever the program runs."""
    if context.call is not None and context.module.facts.is_for_devices:
        yield context.replace(context.call.func, "accel.convert_sync_batchnorm", where_cuda_is_named(context.module))


def fsdp(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    name = (context.qualified or "").rpartition(".")[2]
    if call is None or (name != "fully_shard" and any(k.arg is None for k in call.keywords)):
        return
    if name == "ShardedGradScaler":
        if not call.args and not any(k.arg == "device" for k in call.keywords):
            yield context.note("its `device` is CUDA's: elsewhere it warns and scales nothing; name it, `device=...`")
        return
    given = next((k.value for k in call.keywords if k.arg == "device_id"), None)
    if name == "FullyShardedDataParallel" and given is not None:
        yield from _device_id(context, given)
    elif first_call(context.module, {context.qualified or ""}) is call:
        yield context.note(_WITHOUT if name == "FullyShardedDataParallel" else f"{_MPS}: leave `fully_shard` out there")


def parallel_class(context: RuleContext) -> Iterator[Finding]:
    """Rewrite a call of a class that inherits from DataParallel, and is made and called as it is."""
    call, chain = context.call, chain_of(context.call.func) if context.call else None
    if call is None or not chain or chain.startswith("super"):
        return
    if context.module.resolve(call.func, context.scope) in _AS_FUNCTION:
        yield _parallel_call(context, call) or context.note(_NO_FUNCTION)
        return
    classes = parallel_classes(context.module, context.scope, chain)
    if any(context.module.facts.hierarchy.overrides(found, _OF_PARALLEL) for found in classes):
        yield context.note(
            f"`{chain}` inherits from DataParallel, but is made or called in its own way: it is not rewritten"
        )
    elif classes:
        yield context.rewrite("$f($$args)", f"accel.data_parallel($$args, cls={chain})") or context.note()
    elif _may_be_parallel(context, call, chain):
        yield context.note(_PERHAPS_PARALLEL.format(chain))


_AS_FUNCTION = ("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
_NO_FUNCTION = "data_parallel() raises where there is no CUDA: call `accel.data_parallel(module, device_ids)(*inputs)`"


def _parallel_call(context: RuleContext, call: ast.Call) -> Finding | None:
    """Rewrite `data_parallel(net, x, ids)`, which takes one input or a tuple of them, where it is known which it is."""
    module = context.module
    match call:
        case ast.Call(func, [_, (ast.Name() | ast.Attribute() | ast.Tuple()) as given, *more], keywords):
            named = {keyword.arg for keyword in keywords}
        case _:
            return None
    is_known = isinstance(given, ast.Tuple) or _is_tested_for_tensor(module, given)
    if not is_known or len(more) > 3 or any(isinstance(a, ast.Starred) for a in more) or not named <= _OF_CALL:
        return None
    (_, start), (at, end) = module.span(call.args[0]), module.span(given)
    if module.source.utf8[start:at].strip() != b",":
        return None  # the input stands in parentheses, or a comment before it
    inputs = module.text(given) if isinstance(given, ast.Tuple) else f"({module.text(given)})"
    edits = [Edit(*module.span(func), spell("accel.data_parallel", spelled(module))), Edit(start, end, "")]
    after = module.span(call)[1]
    return context.fix([*edits, Edit(after, after, inputs)], message="data_parallel() raises where there is no CUDA")


_OF_CALL = {"device_ids", "output_device", "dim"}


def _is_tested_for_tensor(module: SemanticModel, node: ast.expr) -> bool:
    """Return whether a test around a value says that it is a tensor: `if isinstance(x.data, torch.FloatTensor):`."""
    chain = chain_of(node)
    tests = [up.test for up, below in module.around(node, ast.If) if below in up.body]
    tests += [up.test for up, below in module.around(node, ast.IfExp) if below is up.body]
    for part in (part for test in tests for part in ast.walk(test)):
        match part:
            case ast.Call(ast.Name("isinstance"), [asked, kinds], []) if chain_of(asked) in (chain, f"{chain}.data"):
                return any(last_name(kind).endswith("Tensor") for kind in ast.walk(kinds))
    return False


_PERHAPS_PARALLEL = (
    "`{}` cannot be read; if it inherits from DataParallel, it raises on XPU and NPU: leave it out there"
)


def _may_be_parallel(context: RuleContext, call: ast.Call, chain: str) -> bool:
    """Return whether a class that cannot be read may be a DataParallel: by its name, and by the devices it is given."""
    name = chain.rpartition(".")[2]
    if "DataParallel" not in name or "Distributed" in name or name == "DataParallel":
        return False
    if not any(k.arg == "device_ids" for k in call.keywords):
        return False
    if (context.qualified or "").startswith("torch."):
        return False
    meanings = context.module.facts.hierarchy.meanings(Place(str(context.module.path), context.scope), chain)
    return not any(isinstance(each, Definition) for each in meanings)


def _device_id(context: RuleContext, given: ast.expr) -> Iterator[Finding]:
    """Name the accelerator in `device_id=`. None means the device of the module, and must stay None."""
    edits = wrapped(context.module, given, "accel.device(")
    if _is_index(context.module, given):
        yield context.fix(edits)
    elif _INDEX.search((chain_of(given) or "").rpartition(".")[2]):
        why = f"{context.rule.message}; where `{context.module.text(given)}` is None, this moves what stayed"
        yield context.fix(edits, Safety.UNSAFE, why)


def _is_index(module: SemanticModel, node: ast.expr) -> bool:
    match node:
        case ast.Constant(int()):
            return True
        case ast.Call(func):
            own = chain_of(func) == spell("accel.current_device", spelled(module))
            return own or (module.resolve(func) or chain_of(func)) in ("int", "torch.cuda.current_device")
    return False


def mps(context: RuleContext) -> Iterator[Finding]:
    """Report a file's first DistributedDataParallel or collective that no test of processes or devices guards."""
    if context.call is None or not context.module.facts.is_for_devices:
        return
    name = (context.qualified or "").rpartition(".")[2]
    if _first_unguarded(context.module, tuple(context.rule.on)) is context.call:
        yield context.note("" if name == _PARALLEL else _NO_COLLECTIVE.format(name))
    elif name == _PARALLEL and _depends_on_devices(context.module, context.call):
        yield context.note(_UNCOUNTED, backends=("cpu",))
    elif _is_for_cuda(context.module, context.call):
        yield replace(context.note(), raises=True)


def _depends_on_devices(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call is in the branch of a test that asks for the number of CUDA's devices, or of any."""
    tests = [up.test for up, below in module.around(call, ast.If) if below in up.body]
    asking = (node.func for test in tests for node in ast.walk(test) if isinstance(node, ast.Call))
    return any("device_count" in (helper_function(module, func), last_name(func)) for func in asking)


def _is_for_cuda(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call is in the branch of a test for CUDA, and no test on the way asks for several processes."""
    below: ast.AST = call
    is_there = False
    for up in module.ancestors(call):
        if isinstance(up, (ast.If, ast.IfExp)) and up.test is not below:
            if any(isinstance(node, ast.Compare) for node in ast.walk(up.test)):  # a number of devices or processes
                return False
            if asks_cuda(module, up.test):
                is_there = is_there or below is up.body or (isinstance(up, ast.If) and below in up.body)
            elif _names(module, up.test, _SEVERAL):
                return False
        below = up
    return is_there


def gloo(context: RuleContext) -> Iterator[Finding]:
    """Report a process group of gloo, asked for by name and under no test, in a file that puts data on a device."""
    call, module = context.call, context.module
    if call is None or not module.facts.is_for_devices or _depends_on_processes(module, call):
        return
    given = argument_of(call, "backend", 0)
    if isinstance(given, ast.Constant) and str(given.value).lower() == "gloo" and _puts_on_device(module):
        yield context.note()


@query
def _puts_on_device(module: SemanticModel) -> bool:
    return any(isinstance(node, ast.Call) and names_device(node) for node in module.nodes)


@query
def _first_unguarded(module: SemanticModel, names: tuple[str, ...]) -> ast.Call | None:
    know_parents(module)
    if _has_cpu_for_gloo(module):
        names = tuple(name for name in names if name.endswith(_PARALLEL))  # others get tensors where gloo takes them
    calls = (n for n in module.nodes if isinstance(n, ast.Call) and module.resolve(n.func) in names)
    open_ones = (call for call in calls if not _depends_on_processes(module, call))
    # one that runs in any case says more than one that a test of something else leads to
    return min(open_ones, key=lambda call: (module.nearest(call, ast.If) is not None, module.span(call)), default=None)


def _has_cpu_for_gloo(module: SemanticModel) -> bool:
    """Return whether a file keeps on the CPU what gloo takes: `"cpu" if backend == "gloo" else "cuda"`."""
    for node in module.nodes:
        match node:
            case ast.IfExp(ast.Compare(_, [ast.Eq()], [ast.Constant("gloo")]), cpu, _) if "cpu" in strings_in(
                module, cpu
            ):
                return True
    return False


def _depends_on_processes(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a test about processes or devices decides if a call runs."""
    below: ast.AST = call
    for up in module.ancestors(call):
        if isinstance(up, (ast.If, ast.IfExp, ast.While)) and below is not up.test and _asks(module, up.test):
            return True
        if isinstance(up, ast.BoolOp) and any(_asks(module, value) for value in up.values if value is not below):
            return True
        before = module.blocks.before(below) if isinstance(below, ast.stmt) else ()
        if any(isinstance(s, ast.If) and leaves_block(s.body) and _asks(module, s.test) for s in before):
            return True
        below = up
    return False


def _asks(module: SemanticModel, test: ast.expr) -> bool:
    calls = (node.func for node in ast.walk(test) if isinstance(node, ast.Call))
    leaves_mps_out = any(helper_function(module, func) == "is_complete" for func in calls)
    return leaves_mps_out or _names(module, test, _CHOICE) or any(_counts(module, node) for node in ast.walk(test))


def _counts(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a part of a test is a number of processes, or calls a function of the file that asks for them."""
    if isinstance(node, ast.Call):
        function = called(module, node.func)
        return function is not None and any(_names(module, each, _PROCESSES) for each in function.body)
    return isinstance(node, (ast.Name, ast.Attribute)) and chain_of(node) in _numbers_of_processes(module)


@query
def _numbers_of_processes(module: SemanticModel) -> set[str | None]:
    """Return what the file binds to a number of processes, or to one's own: `self.size = dist.get_world_size()`."""
    found: set[str | None] = set()
    for node in module.nodes:
        match node:
            case ast.Assign(targets, ast.Call(func)) if last_name(func) in _NUMBERS:
                found.update(map(chain_of, targets))
    return found - {None}


def _names(module: SemanticModel, test: ast.AST, words: re.Pattern[str]) -> bool:
    return any(map(words.search, identifiers_in(module, test) | strings_in(module, test)))


def sharing(context: RuleContext) -> Iterator[Finding]:
    call = context.call
    if call is None or call.args or call.keywords or not isinstance(call.func, ast.Attribute):
        return
    if _on_device(context.module, call.func.value, call):
        yield context.note()


def _on_device(module: SemanticModel, node: ast.expr, call: ast.Call) -> bool:
    """Return whether a receiver is `x.cuda()` or a name that this function (or the module) moves to a device."""
    chain: ast.expr = node
    while isinstance(chain, (ast.Call, ast.Attribute)):
        if isinstance(chain, ast.Call) and names_device(chain):
            return True
        chain = chain.func if isinstance(chain, ast.Call) else chain.value
    return isinstance(node, ast.Name) and any(_moves(s, node.id) for s in _before(module, call))


def _before(module: SemanticModel, call: ast.Call) -> Iterator[ast.stmt]:
    home, end = module.function(call), module.span(call)[0]
    for statement in module.scopes.statements:
        if module.function(statement) is home and module.span(statement)[0] < end:
            yield statement


def _moves(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign([ast.Name(target)], ast.Call() as value):
            return target == name and any(isinstance(n, ast.Call) and names_device(n) for n in _chain(value))
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(owner))) as value):
            return owner == name and names_device(value)
    return False


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    while isinstance(node, (ast.Call, ast.Attribute)):
        yield node
        node = node.func if isinstance(node, ast.Call) else node.value


_BACKEND = re.compile(r"(^|_)backend$|dist_url_backend", re.I)
_STARTS = ("init_process_group", "new_group", "init_distributed", "new_subgroups", "init_device_mesh")
_HELPER = "accel.dist_backend()"
_NCCL = ("nccl", "NCCL")


_CHOICES = (
    "the option takes nccl and gloo alone: on machines whose backend is xccl (XPU) or hccl (NPU) people add those "
    "names, or leave `choices` out"
)
_TABLE = (
    "a table from device types to backends has no row for other accelerators: `{}` is this machine's (xccl on XPU, "
    "hccl on NPU, gloo on MPS and the CPU)"
)
_ASKED = (
    "asks whether torch was built with NCCL, and is False where the backend is xccl, hccl or gloo: `{}` is this "
    "machine's backend, whichever that is"
)
_WINDOWS = "CUDA on Windows has no NCCL, and gets gloo by this test alone"
_OTHERS = "it names the backends of other machines, too"


def nccl(context: RuleContext) -> Iterator[Finding]:
    """Replace "nccl" by the helper's backend where it is given to torch, kept as a backend, or compared with one."""
    node = context.node
    if isinstance(node, ast.Call):
        fixer = _asked if context.qualified == _ASKS else _handed_on
        yield from fixer(context, node)
        return
    if context.qualified == _ASKS:
        yield context.note("handed on as a function: it asks for NCCL alone")
        return
    if _only_tells(context.module):
        yield context.left("nothing here uses torch: it tells other programs, which may run on other machines")
        return
    found = list(_given_or_asked(context, node))
    yield from found
    if not found:
        yield from _left(context)


@query
def _only_tells(module: SemanticModel) -> bool:
    """Return whether a file is a program that uses torch nowhere, as one does that writes configurations."""
    index, path = module.facts.index, str(module.path)
    if index.importers.get(path) or path not in index.files or not runs_itself(index, path):
        return False
    imports = (item for file in reached([path], index.imported_by) for item in index.imports.get(file, ()))
    return not any(item.module.partition(".")[0] in module.facts.built_on_torch for item in imports if not item.level)


def _given_or_asked(context: RuleContext, node: ast.AST) -> Iterator[Finding]:
    plain = not isinstance(node, ast.Constant) or node.value in _NCCL
    outer, up = node, context.parent
    while isinstance(up, (ast.IfExp, ast.BoolOp)) and not (isinstance(up, ast.IfExp) and up.test is outer):
        outer, up = up, context.module.parent(up)
    if _is_behind_question(context.module, node):
        yield context.left("behind a test for NCCL, which answers for CUDA alone")
        return
    if _has_options(context.module.parent(up) if isinstance(up, ast.keyword) else up):
        yield context.left("the options beside it are NCCL's")
        return
    match up:
        case ast.Call() if outer in up.args and _callee(context, up) in _STARTS:
            yield context.replace(node, _HELPER) if plain else _composed(context)
        case ast.Call(args=[*_, ast.Constant(str(first)), last]) if last is outer and plain and _BACKEND.search(first):
            if _callee(context, up) in ("get", "getenv", "getattr", "pop", "setdefault"):
                yield context.replace(node, _HELPER)
        case ast.keyword(arg):
            yield from _keyword(context, node, outer, context.module.parent(up), arg or "", plain)
        case ast.Assign() | ast.AnnAssign() if plain:
            target = up.targets[0] if isinstance(up, ast.Assign) else up.target
            if _BACKEND.search(_target(target)) or _starts_groups(context, target):
                yield device_defaults.at_import_checked(context, node, _HELPER)
        case ast.Compare(_, [ast.Eq() | ast.NotEq()], _) if plain and not (
            isinstance(node, ast.Constant) and node.value == "NCCL"
        ):
            yield from _compared(context, up)
        case ast.List() | ast.Tuple() | ast.Set() if plain:
            yield from _listed(context, node, up)
        case ast.arguments() if _BACKEND.search(parameter_of(up, outer)):
            if _settled(context, up, outer):
                yield context.left("the helper is given it, and answers for this machine")
            else:
                yield context.note(
                    "a parameter's default is nccl: hand it to `accel.dist_backend(...)` inside the function"
                )
        case ast.Dict(keys, values) if plain and outer in values:
            key = keys[values.index(outer)]
            if isinstance(key, ast.Constant) and _BACKEND.search(str(key.value)):
                yield context.replace(
                    node,
                    _HELPER,
                    Safety.UNSAFE,
                    f"{context.rule.message}; the dict may be a configuration that is only read",
                )
            elif isinstance(key, ast.Constant) and key.value == "cuda":
                others = _others(context.module, up)
                yield context.left(_OTHERS) if others else context.note(_TABLE.format(_spelled(context)), blocks=False)


def _has_options(call: ast.AST | None) -> bool:
    """Return whether a call gives options of a backend, too: `new_group(ranks, backend="nccl", pg_options=options)`."""
    given = [k.value for k in call.keywords if k.arg == "pg_options"] if isinstance(call, ast.Call) else []
    return any(getattr(options, "value", options) is not None for options in given)


def _starts_groups(context: RuleContext, target: ast.expr) -> bool:
    """Return whether torch gets what an assignment binds as the backend of a process group."""
    module = context.module
    know_parents(module)
    for read in reads(module, target):
        up = module.parent(read)
        call = module.parent(up) if isinstance(up, ast.keyword) and up.arg == "backend" else up
        if isinstance(call, ast.Call) and argument_of(call, "backend", 0) is read and _callee(context, call) in _STARTS:
            return True
    return False


def _left(context: RuleContext) -> Iterator[Finding]:
    """Yield what is said of "nccl" where no backend is chosen."""
    match context.parent:
        case ast.Dict(keys) if context.node in keys:
            yield context.left("a key of a table")
        case ast.Compare():
            yield context.left("what it is compared with is chosen elsewhere, or not known to be a backend")
        case ast.Expr() | ast.Subscript():
            return
        case ast.Call(func) if last_name(func) in ("print", "getattr", "hasattr", "getLogger"):
            return
        case _:
            yield context.left("nothing shows that a backend is chosen here")


def _spelled(context: RuleContext) -> str:
    return spell(_HELPER, spelled(context.module))


_ASKS = "torch.distributed.is_nccl_available"


def _asked(context: RuleContext, call: ast.Call) -> Iterator[Finding]:
    """Yield the finding for `dist.is_nccl_available()`; `"nccl" if ... else "gloo"` is the helper's answer."""
    up = context.parent
    match up:
        case ast.IfExp(test, ast.Constant(str(first)), ast.Constant(str(second))) if test is call:
            if (first, second) == ("nccl", "gloo"):
                yield context.replace(up, _HELPER, Safety.UNSAFE, f"{context.rule.message}; {_WINDOWS}")
                return
    yield context.note(_ASKED.format(_spelled(context)))


def _is_behind_question(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether code runs only where `dist.is_nccl_available()` holds, or does not."""
    below = node
    for up in module.ancestors(node):
        if isinstance(up, (ast.If, ast.IfExp)) and up.test is not below and _asks_nccl(module, up.test):
            return True
        if isinstance(up, (*FUNCTIONS, ast.ClassDef)):
            return False
        below = up
    return False


@query
def _asks_nccl(module: SemanticModel, test: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and module.resolve(n.func) == _ASKS for n in ast.walk(test))


def _others(module: SemanticModel, tree: ast.AST) -> bool:
    """Return whether code names the backend of another accelerator: the project chooses among them itself."""
    return not COLLECTIVES.isdisjoint(strings_in(module, tree))


def _listed(context: RuleContext, node: ast.AST, items: ast.List | ast.Tuple | ast.Set) -> Iterator[Finding]:
    """Yield the finding for a list of backends: where one is looked for in it, this machine's belongs there, too."""
    module, up = context.module, context.module.parent(items)
    values = [getattr(e, "value", None) for e in items.elts]
    if _others(module, items) or any(_is_helper(module, e) for e in items.elts):
        yield context.left(_OTHERS)
    elif isinstance(up, ast.keyword) and up.arg == "choices":
        call = module.parent(up)
        is_backend = isinstance(call, ast.Call) and _speaks_of_backend(module, call)
        yield context.note(_CHOICES, blocks=False) if is_backend else context.left("no option for a backend")
    elif not isinstance(up, ast.Compare) or up.comparators != [items] or not _is_backend(up.left):
        return
    elif "gloo" not in values or not isinstance(node, ast.Constant):
        yield context.left("the list has no gloo, which is the CPU's and MPS's")
    elif device_defaults.runs_at_import(context, up) or _others(module, module.function(up) or module.tree):
        yield context.left("it is asked when the module is imported, or beside the backends of other machines")
    elif _is_chosen(module):
        end = module.span(items.elts[-1])[1]
        yield context.fix([Edit(end, end, f", {_spelled(context)}")])


def _is_helper(module: SemanticModel, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and helper_function(module, node.func) == "dist_backend"


def _callee(context: RuleContext, call: ast.Call) -> str:
    return (context.module.resolve(call.func) or "").rpartition(".")[2] or _last(call)


def _last(call: ast.Call) -> str:
    return str(chain_of(call.func) or getattr(call.func, "attr", "")).rpartition(".")[2]


def _target(target: ast.expr) -> str:
    match target:
        case ast.Name(name) | ast.Attribute(_, name) | ast.Subscript(_, ast.Constant(str(name))):
            return name
    return ""


_STORED = {
    "dict": "a configuration file may be run where the helper cannot be imported",
    "Namespace": "options may be stored, and read on another machine",
}


def _composed(context: RuleContext) -> Finding:
    here = spell('f"cpu:gloo,{accel.device_type()}:{accel.dist_backend()}"', spelled(context.module))
    return context.note(
        f'a composed backend: {here} is the same on CUDA and right on other accelerators; the CPU takes "gloo"'
    )


def _keyword(
    context: RuleContext, node: ast.AST, outer: ast.AST, call: ast.AST | None, arg: str, plain: bool
) -> Iterator[Finding]:
    last = _callee(context, call) if isinstance(call, ast.Call) else ""
    if not plain:
        if arg == "backend" and last in _STARTS:
            yield _composed(context)
    elif _BACKEND.search(arg):
        why = _STORED.get(last)
        facts = context.module.facts
        if why and (starter := facts.starter_of_given_backends):
            yield context.left(f"{os.path.relpath(starter, facts.index.root)} hands it to the helper")
            return
        yield context.replace(node, _HELPER, *((Safety.UNSAFE, f"{context.rule.message}; {why}") if why else ()))
    elif arg == "default" and isinstance(call, ast.Call) and _speaks_of_backend(context.module, call):
        yield from _option(context, node, call)


def _speaks_of_backend(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether the statement around an option has "backend" in a name or a string."""
    statement = module.statement(call)
    return any("backend" in word for word in identifiers_in(module, statement) | strings_in(module, statement))


def _option(context: RuleContext, node: ast.AST, call: ast.Call) -> Iterator[Finding]:
    """Replace an option's default: click takes a function, a dataclass has `default_factory`."""
    up = context.module.parent(node)
    if isinstance(context.module.parent(call), (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield context.replace(node, "accel.dist_backend")
    elif (
        context.module.resolve(call.func) in (None, "dataclasses.field")
        and _callee(context, call) == "field"
        and isinstance(up, ast.keyword)
    ):
        yield context.replace(up, "default_factory=accel.dist_backend")
    else:
        yield device_defaults.at_import_checked(context, node, _HELPER)


_LIKE_NCCL = "({})".format(", ".join(f'"{name}"' for name in ("nccl", *OF_HELPER)))


def _compared(context: RuleContext, up: ast.Compare) -> Iterator[Finding]:
    """Replace `backend == "nccl"` where the project starts nccl: this machine's backend may be xccl or hccl then.

    Whoever names nccl gets the same answer as before, and so does gloo, which is the CPU's and MPS's.
    """
    module = context.module
    right = up.comparators[0] is context.node
    if not _is_backend(up.left if right else up.comparators[0]) or not _is_chosen(module):
        return
    if _others(module, module.function(up) or module.tree):
        yield context.left(_OTHERS)
        return
    if module.facts.has_collectives:
        yield context.left("the project names the backends of other machines, too")
        return
    equal = isinstance(up.ops[0], ast.Eq)
    sign = "==" if equal else "!="
    match = f"$x {sign} $nccl" if right else f"$nccl {sign} $x"
    found = context.rewrite(match, f"$x {'in' if equal else 'not in'} {_LIKE_NCCL}", up)
    if found:
        start, end = module.span(up)
        yield replace(found, start=start, end=end, guards="choice")


def _is_backend(subject: ast.expr) -> bool:
    """Return whether a subject is a backend: `backend`, `args.dist_backend`, `get_backend(group)`, also `.lower()`."""
    match subject:
        case ast.Call(ast.Attribute(inner, "lower"), [], []):
            return _is_backend(inner)
    return bool(_BACKEND.search(_target(subject) or _last_of(subject)))


def _is_chosen(module: SemanticModel) -> bool:
    """Return whether this file, or another of the project, starts nccl or asks the helper for a backend.

    A library may start it, too: then a file asks torch which backend there is, and names CUDA for what it sends.
    """
    return _starts(module) or module.facts.starts_nccl or _asks_for_device(module)


@query
def _asks_for_device(module: SemanticModel) -> bool:
    calls = (node for node in module.nodes if isinstance(node, ast.Call))
    asks = any(module.resolve(call.func) == "torch.distributed.get_backend" for call in calls)
    return asks and "cuda" in strings_in(module, module.tree)


@query
def _starts(module: SemanticModel) -> bool:
    return starts_nccl(module.nodes)


def _last_of(node: ast.expr) -> str:
    return _last(node) if isinstance(node, ast.Call) else ""


def _settled(context: RuleContext, parameters: ast.arguments, default: ast.AST) -> bool:
    """Return whether this file hands the parameter to the helper, or to what `_handed_on` rewrites."""
    owner = context.module.parent(parameters)
    if not isinstance(owner, (*FUNCTIONS, ast.Lambda)):
        return False
    return _comes_to_start(context, owner, parameter_of(parameters, default))


def _comes_to_start(context: RuleContext, function: Function | ast.Lambda, name: str) -> bool:
    """Return whether a parameter is given to what starts process groups, here or in a function of this file."""
    module = context.module
    know_parents(module)
    todo: list[tuple[Function | ast.Lambda, str]] = [(function, name)]
    for owner, parameter in todo:  # grows
        for read in reads_of(module, parameter, function_scope(owner, context.scope)):
            if any(read.node is value for value in _backends_given(module)):
                return True
            handed = _handed_to(module, read.node)
            todo += [handed] if handed and handed not in todo else []
    return False


def _handed_to(module: SemanticModel, value: ast.AST) -> tuple[Function, str] | None:
    """Return the function of this file that is called with a value, and its parameter for it."""
    up = module.parent(value)
    call = module.parent(up) if isinstance(up, ast.keyword) else up
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    node = called(module, call.func)
    if node is None:
        return None
    if isinstance(up, ast.keyword):
        return (node, up.arg) if up.arg else None
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    at = call.args.index(value) if value in call.args else len(names)
    return (node, names[at]) if at < len(names) else None


@query
def _backends_given(module: SemanticModel) -> list[ast.expr]:
    """Return the backends that calls of `init_process_group` and of the helper's `dist_backend` are given."""
    found: list[ast.expr | None] = []
    for call in (n for n in module.nodes if isinstance(n, ast.Call)):
        if helper_function(module, call.func) == "dist_backend":
            found += call.args[:1]
        elif module.resolve(call.func) == STARTS_GROUP:
            found.append(argument_of(call, "backend", 0))
    return [given for given in found if given is not None]


@query
def _passes_nccl(module: SemanticModel) -> bool:
    """Return whether "nccl" is in a tuple, an argument or a default, as in `mp.spawn(run, args=(size, "nccl"))`."""
    for node in module.nodes:
        match node:
            case ast.Call(args=items) if _last(node) != "init_process_group":
                pass
            case ast.Tuple(elts=items):
                pass
            case ast.arguments():
                items = [value for parameter, value in given_defaults(node) if _BACKEND.search(parameter.arg)]
            case _:
                continue
        if any(isinstance(item, ast.Constant) and item.value in _NCCL for item in items):
            return True
    return False


def _handed_on(context: RuleContext, call: ast.Call) -> Iterator[Finding]:
    """Wrap the name in `init_process_group(backend)` if it may be "nccl"; the helper changes no other backend."""
    value = argument_of(call, "backend", 0)
    if isinstance(value, (ast.Name, ast.Attribute)) and _comes_from_elsewhere(context, value):
        yield context.replace(value, f"accel.dist_backend({context.module.text(value)})")
        return
    if not isinstance(value, ast.Name):
        return
    found = context.scope.find(value.id)
    owner = found[0].node if found and len(found[1]) == 1 else None
    if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)):
        mine = [default for parameter, default in given_defaults(owner.args) if parameter.arg == value.id]
        nccl = any(isinstance(d, ast.Constant) and d.value in _NCCL for d in mine)
        if nccl or (not mine and _passes_nccl(context.module)):
            yield context.replace(value, f"accel.dist_backend({value.id})")


@query
def _says_nccl(module: SemanticModel) -> bool:
    """Return whether a file names "nccl", or asks the helper in its place."""
    calls = (node.func for node in module.nodes if isinstance(node, ast.Call))
    return "nccl" in words_in(module, module.tree) or any(helper_function(module, f) == "dist_backend" for f in calls)


def _comes_from_elsewhere(context: RuleContext, value: ast.Name | ast.Attribute) -> bool:
    """Return whether a backend is a parameter or an option, and may be "nccl" by another file or a configuration."""
    module = context.module
    if _says_nccl(module) or where_cuda_is_named(module) is not Safety.SAFE:
        return False
    root = (chain_of(value) or "").partition(".")[0]
    home, bindings = context.scope.find(root) or (None, [])
    if root in ("self", "cls"):
        return False  # a class may be about one backend
    is_given = home is not None and isinstance(home.node, FUNCTIONS) and [b.value for b in bindings] == [None]
    is_option = isinstance(value, ast.Attribute) and bool(_BACKEND.search(value.attr))
    is_option = is_option and not _defaults_here(module, last_name(value))
    may_be = any(word in module.source.utf8 or module.facts.index.holding(word) for word in BACKENDS)
    return (is_given or is_option) and may_be


def _defaults_here(module: SemanticModel, option: str) -> bool:
    """Return whether a file gives an option of the command line its default: `--dist-backend`, with "gloo"."""
    made = (node for node in module.nodes if isinstance(node, ast.Call) and last_name(node.func) == "add_argument")
    named = (
        call
        for call in made
        if any(isinstance(arg, ast.Constant) and _is_named(arg.value, option) for arg in call.args)
    )
    defaults = (keyword.value for call in named for keyword in call.keywords if keyword.arg == "default")
    return any(isinstance(default, ast.Constant) and default.value is not None for default in defaults)


def _is_named(flag: object, option: str) -> bool:
    return isinstance(flag, str) and flag.lstrip("-").replace("-", "_") == option


# A file that speaks of these may start its processes in another way, or none on a Mac.
_OTHER_WAYS = {"set_start_method", "get_context", "multiprocessing_context", "platform", "system", "uname", "darwin"}
_GIVEN = ("collate_fn", "worker_init_fn")
_PASSED_BY = {"enumerate", "iter", "tqdm", "trange", "list", "tuple", "zip", "islice"}


def spawned(context: RuleContext) -> Iterator[Finding]:
    """Report workers and processes that cannot start where each of them imports the program anew."""
    call, module = context.call, context.module
    if call is None or not module.facts.is_for_devices or _chooses_start(module):
        return
    if context.qualified != "torch.utils.data.DataLoader":
        at_once = context.qualified == "torch.multiprocessing.Pool"
        if _is_at_import(module, call) and (at_once or _is_used_at_import(module, call, _starts_it)):
            yield context.note(_UNGUARDED)
        return
    options = {k.arg: k.value for k in call.keywords if k.arg}
    if _is_by_flag(context, call) and _is_unguarded(module, call) and _is_iterated(module, call):
        yield context.note(f"{_UNGUARDED}; without CUDA there was no worker")
        return
    if len(options) < len(call.keywords) or not _is_positive(context, options.get("num_workers")):
        return
    for name in _GIVEN:
        if name in options and _is_local(context, options[name]):
            yield context.note(_LOCAL.format(name=name), node=options[name])
            return
    if _is_at_import(module, call) and _is_used_at_import(module, call, _iterates):
        yield context.note(_UNGUARDED)


_LOCAL = (
    "a Mac starts workers anew and pickles what they are given, and this `{name}` cannot be pickled: "
    "write it as a function of the module"
)
_UNGUARDED = (
    "a Mac starts each process by importing the program anew, which comes here once more and dies: put what the "
    'program does under `if __name__ == "__main__":`'
)


@query
def _chooses_start(module: SemanticModel) -> bool:
    said = identifiers(module) | {text.lower() for text in strings_in(module, module.tree)}
    return bool(_OTHER_WAYS & said)


def _is_by_flag(context: RuleContext, call: ast.Call) -> bool:
    """Return whether a flag decides that there are workers: `**({"num_workers": 1} if cuda else {})`, or by a name."""
    for keyword in call.keywords:
        value: ast.AST | None = keyword.value
        if keyword.arg is None and isinstance(value, ast.Name) and (found := _only(context.scope, value.id)):
            value = found[1]
        match keyword.arg, value:
            case "num_workers", ast.IfExp(_, body, orelse):
                return _is_positive(context, body) != _is_positive(context, orelse)
            case None, ast.IfExp(_, ast.Dict(keys, values), ast.Dict([])):
                given = {
                    key.value: each for key, each in zip(keys, values, strict=True) if isinstance(key, ast.Constant)
                }
                return _is_positive(context, given.get("num_workers"))
    return False


def _is_positive(context: RuleContext, node: ast.expr | None) -> bool:
    """Return whether a number of workers is at least 1: written so, or a name of the module that is only that."""
    found = _only(context.scope, node.id) if isinstance(node, ast.Name) else None
    value = found[1] if found else node
    return isinstance(value, ast.Constant) and type(value.value) is int and value.value > 0


def _only(scope: Scope, name: str) -> tuple[Scope, ast.AST] | None:
    """Return what a name is bound to, and where, if it is bound once."""
    found = scope.find(name)
    if found is None or len(found[1]) != 1:
        return None
    return found[0], found[1][0].value or found[1][0].node


def _is_local(context: RuleContext, node: ast.expr) -> bool:
    """Return whether an expression is a lambda, or the name of one or of a function within a function."""
    if isinstance(node, ast.Lambda):
        return True
    found = _only(context.scope, node.id) if isinstance(node, ast.Name) else None
    if found is None:
        return False
    home, value = found
    return isinstance(value, ast.Lambda) or (
        isinstance(home.node, (*FUNCTIONS, ast.Lambda)) and isinstance(value, FUNCTIONS)
    )


def _is_at_import(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a script comes here whenever it is imported; a notebook is not."""
    if str(module.path).endswith(".ipynb"):
        return False
    blocks = (ast.Module, ast.Expr, ast.Assign, ast.AnnAssign, ast.For, ast.While, ast.With)
    inside = (ast.expr, ast.keyword, ast.withitem)
    kept = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.GeneratorExp)
    return all(
        (isinstance(up, (*blocks, *inside)) and not isinstance(up, kept))
        or (isinstance(up, ast.If) and isinstance(up.test, ast.Constant))
        for up in module.ancestors(node)
    )


def _is_unguarded(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a script may come here when it is imported: in no function, and under no test for `__main__`."""
    around = [*module.ancestors(node)]
    tests = (part for up in around if isinstance(up, ast.If) for part in ast.walk(up.test))
    is_main = any(isinstance(part, ast.Constant) and part.value == "__main__" for part in tests)
    is_in_function = any(isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)) for up in around)
    return not (is_main or is_in_function or str(module.path).endswith(".ipynb"))


def _is_used_at_import(module: SemanticModel, call: ast.Call, uses: Callable[[ast.AST, str], bool]) -> bool:
    """Return whether what a call makes is used so at once, or by the one name that it gets."""
    match module.parent(call):
        case ast.Assign([ast.Name(name)]) if _only(module.scopes.module, name):
            return any(uses(node, name) and _is_at_import(module, node) for node in module.nodes)
    return False


def _is_iterated(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a loader of a script is iterated where an import comes to, or in a function that it calls."""
    match module.parent(call):
        case ast.Assign([ast.Name(name)]):
            return any(_iterates(node, name) and _is_reached_at_import(module, node) for node in module.nodes)
    return False


def _is_reached_at_import(module: SemanticModel, node: ast.AST) -> bool:
    know_parents(module)
    function = module.function(node)
    return function.name in _called_at_import(module) if function is not None else _is_unguarded(module, node)


@query
def _called_at_import(module: SemanticModel) -> frozenset[str]:
    """Return the last names of what a script calls when it is imported, and of what that calls in the file."""
    inside: dict[str, set[str]] = {}  # what is called in the functions of a name
    first: set[str] = set()
    know_parents(module)
    for call in (node for node in module.nodes if isinstance(node, ast.Call)):
        function = module.function(call)
        if function is not None:
            inside.setdefault(function.name, set()).add(last_name(call.func))
        elif _is_unguarded(module, call):
            first.add(last_name(call.func))
    return frozenset(reached(sorted(first), lambda name: sorted(inside.get(name, ()))))


def _iterates(node: ast.AST, name: str) -> bool:
    match node:
        case ast.For(iter=iterated):
            while isinstance(iterated, ast.Call) and iterated.args and chain_of(iterated.func) in _PASSED_BY:
                iterated = iterated.args[0]
            return isinstance(iterated, ast.Name) and iterated.id == name
    return False


def _starts_it(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and chain_of(node.func) == f"{name}.start"
