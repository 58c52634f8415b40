"""Fixers for device strings in lists, loops, tables and text: lists of devices are rewritten, all others reported."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.fixers.device import device_defaults
from torchmigrate.semantic.device_expr import DEVICE_NAME, Device, is_cpu, parse
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import helper_function, reads_of, spell, spelled, strings_in
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, ends_program, last_name, leaves_block
from torchmigrate.syntax.scope import FUNCTIONS
from torchmigrate.torch_api.backends import having
from torchmigrate.torch_api.libraries import knows_cuda_alone, takes

_LISTS = (ast.List, ast.Tuple, ast.Set, ast.Starred, ast.BinOp)
_MAPPED = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
ADDS = ("append", "extend", "insert", "add")
_ASKS = ("torch.cuda.is_available", "torch.cuda.device_count")
_ASKS_HELPER = ("is_available", "device_count", "is_usable")

_BESIDE_CPU = (
    '"cuda" stands in a list of devices beside "cpu", and nothing here asks whether it is there: what runs with it '
    "fails on other machines; people list `{accel}.device_type()` in its place, or skip it where it is not there"
)
_CHOICES = (
    "the option takes CUDA and the CPU alone, so `mps`, `xpu` and `npu` are refused on machines that have them: people "
    "add those names, or take any name and let torch.device judge"
)
_DEFAULT = (
    "a parameter's default lists CUDA: give it None, and list `{accel}.device_type()` inside the function, which asks "
    "for the device late"
)
_OTHERS = {*having("idiom"), "auto"}
_BUILT = "a device string built in a way that is not understood"


def element(context: RuleContext, whole: ast.AST, device: Device, up: ast.AST) -> Iterator[Finding]:
    """Yield the finding for an item of a list. A choice among devices, with "cpu" beside it, needs a test around it."""
    module = context.module
    items, taker = _list_around(module, up)
    if left := beside_others(context, up):
        yield left
    elif is_parameter(module, up) and _is_marked_for_cuda(module, up):
        yield context.left("its mark asks for CUDA by a name, and is not followed")
    elif (option := _option(module, items, taker)) is not None:
        yield _choice(context, whole, items, option)
    elif isinstance(taker, ast.Compare):
        yield _member(context, whole, items, taker)
    elif isinstance(taker, ast.arguments):
        yield context.note(_spelled(context, _DEFAULT), blocks=False)
    elif not (asked := _is_asked_for(module, whole)) and not _holds_devices(module, items, taker):
        yield context.left("nothing shows that it is a list of devices to use")
    elif _names_cpu(module, up) and not asked and _skips_by_itself(module, whole):
        yield context.left("the test that takes it asks whether it is there, and skips")
    elif _names_cpu(module, up) and not asked:
        yield context.note(_spelled(context, _BESIDE_CPU), blocks=False)
    else:
        yield device_defaults.at_import_checked(context, whole, device.as_type)


def beside_others(context: RuleContext, up: ast.AST | None) -> Finding | None:
    """Return the finding for an item of `up`, a list or `pytest.param`, if the list names another accelerator, too.

    Its mark, if it has one, asks for the same device, and stays with it.
    """
    module = context.module
    items = module.parent(up) if is_parameter(module, up) and up is not None else up
    if items is None or not _names_others(module, items):
        return None
    found = context.left("the list names other accelerators, too")
    return replace(found, blocks=is_parameter(module, up))


@query
def _names_others(module: SemanticModel, items: ast.AST) -> bool:
    return any(_name_in(module, item) in _OTHERS for item in getattr(items, "elts", ()))


def _name_in(module: SemanticModel, item: ast.AST) -> object:
    """Return the text that an item of a list is, perhaps in `pytest.param` or `torch.device`."""
    while isinstance(item, ast.Call) and item.args and (is_parameter(module, item) or last_name(item.func) == "device"):
        item = item.args[0]
    return getattr(item, "value", None)


def _is_marked_for_cuda(module: SemanticModel, parameter: ast.AST) -> bool:
    """Return whether a mark of `pytest.param` asks for CUDA by a name not bound to torch's answer in this file."""
    marks = [k.value for k in getattr(parameter, "keywords", ()) if k.arg == "marks"]
    names = (n for mark in marks for n in ast.walk(mark) if isinstance(n, ast.Name) and "cuda" in n.id.lower())
    return not asks(module, parameter) and any(map(partial(_is_imported, module), names))


def _is_imported(module: SemanticModel, name: ast.Name) -> bool:
    found = module.scope(name).find(name.id)
    return found is not None and any(isinstance(binding.node, (ast.Import, ast.ImportFrom)) for binding in found[1])


@query
def _names_cpu(module: SemanticModel, items: ast.AST) -> bool:
    return any(is_cpu(module, item) for item in getattr(items, "elts", ()))


def _option(module: SemanticModel, items: ast.AST, taker: ast.AST | None) -> ast.AST | None:
    """Return the call of the option whose values a list has, by argparse's `choices=` or by `click.Choice`."""
    is_keyword = isinstance(taker, ast.keyword) and taker.arg == "choices"
    call = module.parent(taker) if taker is not None and is_keyword else taker
    if isinstance(call, ast.Call) and last_name(call.func) == "Choice" and (is_keyword or items in call.args):
        typed = module.parent(call)
        return module.parent(typed) if isinstance(typed, ast.keyword) else None
    return call if is_keyword else None


def _choice(context: RuleContext, whole: ast.AST, items: ast.AST, call: ast.AST) -> Finding:
    """Return the finding for `choices=["cuda", "cpu"]`, once for an option that is a device."""
    if not isinstance(call, ast.Call) or not device_defaults.speaks_of_device(context.module, call):
        return context.left("nothing shows that the option is a device")
    if not _is_first(context.module, whole, items):
        return context.left("another item of the list is reported")
    return context.note(_CHOICES, blocks=False)


def _member(context: RuleContext, whole: ast.AST, items: ast.AST, compared: ast.Compare) -> Finding:
    """Return the finding for `assert device in ("cuda", "cpu")`: what refuses all others takes this machine's, too."""
    module = context.module
    listed = items.elts if isinstance(items, (ast.List, ast.Tuple, ast.Set)) else []
    if any(helper_function(module, e.func) == "device_type" for e in listed if isinstance(e, ast.Call)):
        return context.left("this machine's device is in the list")
    if not _refuses(module, compared) or compared.comparators != [items]:
        return context.left("what it is compared with is a list of names")
    if (
        not _is_device(compared.left)
        or not any(is_cpu(module, e) for e in listed)
        or not _is_first(module, whole, items)
    ):
        return context.left("nothing shows that a device is refused")
    if library := _foreign(module):
        return context.left(f"this file imports {library}, which knows no accelerator but CUDA")
    if device_defaults.runs_at_import(context, compared) and not device_defaults.probes_already(context):
        return context.note("refused when the module is imported: other machines' devices are not in the list")
    end = module.span(listed[-1])[1]
    found = context.fix([Edit(end, end, spell(", accel.device_type()", spelled(module)))])
    start, end = module.span(compared)
    return replace(found, start=start, end=end, guards="choice", follows=True)


@query
def _foreign(module: SemanticModel) -> str | None:
    """Return a library that a file imports and that no accelerator but CUDA is known to, or None."""
    for node in module.nodes:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if knows_cuda_alone(name):
                return name.partition(".")[0]
    return None


def _refuses(module: SemanticModel, compared: ast.Compare) -> bool:
    """Return whether the program ends where a membership does not hold."""
    match module.parent(compared), compared.ops:
        case ast.Assert(test), [ast.In()]:
            return test is compared
        case ast.If(test, body), [ast.NotIn()]:
            return test is compared and ends_program(body)
        case ast.If(test, _, orelse), [ast.In()]:
            return test is compared and ends_program(orelse)
    return False


def _is_device(subject: ast.expr) -> bool:
    inner = subject.value if isinstance(subject, ast.Attribute) and subject.attr == "type" else subject
    return bool(DEVICE_NAME.search(last_name(inner)))


def is_parameter(module: SemanticModel, node: ast.AST | None) -> bool:
    """Return whether a node is `pytest.param("cuda", ...)`, an item of `parametrize`."""
    return isinstance(node, ast.Call) and (module.resolve(node.func) or chain_of(node.func)) == "pytest.param"


def added(module: SemanticModel, call: ast.Call, given: Collection[str]) -> bool:
    """Return whether a call adds to a list of devices: `devices.append("cuda")`; `given` names other such lists."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in ADDS:
        return False
    name = last_name(func.value)
    return bool(DEVICE_NAME.search(name)) or (isinstance(func.value, ast.Name) and name in given)


def _spelled(context: RuleContext, message: str) -> str:
    return message.format(accel=spelled(context.module)["accel"])


def _list_around(module: SemanticModel, items: ast.AST) -> tuple[ast.AST, ast.AST | None]:
    """Return the outermost list that holds the items, also by `+`, `if ... else` and `pytest.param`, and its taker."""
    up = module.parent(items)
    while up is not None:
        chosen = isinstance(up, ast.IfExp) and up.test is not items
        if not (isinstance(up, _LISTS) or chosen or is_parameter(module, up)):
            break
        items, up = up, module.parent(up)
    return items, up


def _holds_devices(module: SemanticModel, items: ast.AST, taker: ast.AST | None) -> bool:
    """Return whether a list goes to a variable, loop, argument or parameter whose name says that it takes devices."""
    match taker:
        case ast.keyword(arg):
            return arg in ("args", "devices", "device") or _is_argvalues(module, taker, items)
        case ast.Assign(targets):
            return any(DEVICE_NAME.search(last_name(target)) for target in targets)
        case ast.AnnAssign(target) | ast.AugAssign(target):
            return bool(DEVICE_NAME.search(last_name(target)))
        case ast.For(target, iterated) | ast.comprehension(target, iterated) if iterated is items:
            return bool(DEVICE_NAME.search(last_name(target)))
        case ast.Call():
            return added(module, taker, ()) or _is_argvalues(module, taker, items)
        case ast.Return():
            function = module.function(taker)
            return function is not None and bool(DEVICE_NAME.search(function.name))
    return False


def _is_argvalues(module: SemanticModel, taker: ast.AST, items: ast.AST) -> bool:
    """Return whether a list is that of `pytest.mark.parametrize("device", [...])`."""
    call = module.parent(taker) if isinstance(taker, ast.keyword) else taker
    if not isinstance(call, ast.Call) or last_name(call.func) != "parametrize" or not call.args:
        return False
    given = call.args[1:2] or [k.value for k in call.keywords if k.arg == "argvalues"]
    names = {name.strip() for text in strings_in(module, call.args[0]) for name in text.split(",")}
    return given == [items] and any(map(DEVICE_NAME.search, names))


def _is_asked_for(module: SemanticModel, whole: ast.AST) -> bool:
    """Return whether the item is there only if a test holds: in an arm, under an `if`, or in a test that is skipped."""
    node = whole
    for up in module.ancestors(whole):
        if isinstance(up, (ast.If, ast.IfExp)) and node is not up.test and asks(module, up.test):
            return True
        if is_parameter(module, up) and asks(module, up):
            return True
        if isinstance(up, (*FUNCTIONS, ast.ClassDef)):
            if any(asks(module, d) for d in up.decorator_list):
                return True
            if node in up.decorator_list:
                return False
        node = up
    return False


def _skips_by_itself(module: SemanticModel, whole: ast.AST) -> bool:
    """Return whether the item is for a decorated function that asks for CUDA in a branch of its own, and leaves."""
    up = next((up for up in module.ancestors(whole) if isinstance(up, (*FUNCTIONS, ast.ClassDef))), None)
    body = up.body if isinstance(up, FUNCTIONS) else ()
    return any(isinstance(s, ast.If) and asks(module, s.test) and leaves_block(s.body) for s in body)


def asks(module: SemanticModel, tree: ast.AST) -> bool:
    """Return whether an expression asks for CUDA, or by the helper for any accelerator, itself or by a flag."""
    flags = (module.scope(n).find(n.id) for n in ast.walk(tree) if isinstance(n, ast.Name))
    values = (binding.value for flag in flags if flag for binding in flag[1])
    return any(_asks_itself(module, each) for each in (tree, *values) if each is not None)


def _asks_itself(module: SemanticModel, tree: ast.AST) -> bool:
    calls = (n.func for n in ast.walk(tree) if isinstance(n, ast.Call))
    return any(module.resolve(f) in _ASKS or helper_function(module, f) in _ASKS_HELPER for f in calls)


def _is_first(module: SemanticModel, node: ast.AST, items: ast.AST) -> bool:
    named = (n for n in ast.walk(items) if isinstance(n, ast.expr) and parse(module, n) is not None)
    return min(named, key=module.span, default=node) is node


def left(context: RuleContext, whole: ast.AST, outer: ast.AST, up: ast.AST | None) -> Iterator[Finding]:
    """Yield what is said of a device string that no rule takes for a device."""
    if up is not None and parse(context.module, whole) is None and _may_be_device(up, outer):
        yield context.note(_BUILT)
    elif reason := _reason(context.module, outer, up):
        # a test above it chooses what the string stands for, and must not say yes to another device
        is_added = isinstance(up, ast.Call) and last_name(up.func) in ("append", "add", "insert")
        is_given = is_added or isinstance(up, (ast.Assign, ast.AnnAssign, ast.Yield))
        is_read = not (is_added and _is_only_added_to(context, up))
        kept = is_given and is_read and parse(context.module, whole) is not None
        yield replace(context.left(reason), blocks=kept)


def _is_only_added_to(context: RuleContext, added: ast.AST | None) -> bool:
    """Return whether a call appends to a list that the code appends to, and does not read."""
    match added:
        case ast.Call(ast.Attribute(ast.Name(name))):
            home = context.scope.find(name)
            reads = reads_of(context.module, name, home[0]) if home is not None else ()
            return bool(reads) and all(read.chain == f"{name}.append" for read in reads)
    return False


def _may_be_device(up: ast.AST, outer: ast.AST) -> bool:
    """Return whether what takes a value is named for a device."""
    match up:
        case ast.keyword(arg):
            return bool(DEVICE_NAME.search(arg or ""))
        case ast.Assign([target]):
            return bool(DEVICE_NAME.search(last_name(target)))
        case ast.Call(func, [first, *_]):
            return first is outer and last_name(func) in ("to", "device")
    return False


def _reason(module: SemanticModel, outer: ast.AST, up: ast.AST | None) -> str | None:
    """Return why a string is left, or None for text that nobody takes for a device."""
    match up:
        case ast.Dict(keys) if outer in keys:
            return "a key of a table"
        case ast.Dict():
            return "nothing shows that this value of a table is a device to use"
        case ast.Compare():
            return "what it is compared with is not known to be a device"
        case ast.match_case() | ast.MatchValue() | ast.MatchOr():
            return "what it is matched with is not known to be a device"
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.AugAssign():
            return "nothing shows that the variable holds a device"
        case ast.Yield():
            return "nothing shows that a device is yielded"
        case ast.keyword():
            call = module.parent(up)
            if not isinstance(call, ast.Call):  # of a class: `class A(Base, device="cuda")`
                return f"nothing shows that `{up.arg}=` of this is a device"
            library = module.resolve(call.func) or ""
            if DEVICE_NAME.search(up.arg or "") and (taken := takes(library)) and "xpu" not in taken:
                return f"{library.partition('.')[0]} takes {' or '.join(sorted(taken))} only"
            return f"nothing shows that `{up.arg}=` of `{last_name(call.func)}` is a device"
        case ast.Call(func) if last_name(func) in ("getattr", "hasattr"):
            return "an attribute by that name, of what is not known"
        case ast.Call(func) if last_name(func) != "print":
            return "text: nothing shows that the call takes a device"
    return None
