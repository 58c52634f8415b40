"""Fixers for defaults that name CUDA: parameters, options, fields, constants. None may ask for a device at import."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.fixers.context import RuleContext
from torchmigrate.project.import_graph import reached
from torchmigrate.semantic.device_expr import Device, is_beside_cpu
from torchmigrate.semantic.library_use import is_imported
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import identifiers, identifiers_in, mentions, spell, spelled, strings_in, words_in
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import FUNCTIONS, Function, first_line, parameter_of
from torchmigrate.torch_api.backends import types_of

_AT_IMPORT = "it would ask for the device when the module is imported, which breaks fork and freezes the choice"


_FIELD = "a field's default names CUDA: give it `field(default_factory=...)`, which asks for the device late"


_DEVICES = {"", "cpu", "auto", *types_of("accelerator")}
_QUESTIONS = {"is_available", "device_count"}


def _is_device_name(name: str) -> bool:
    return any(word in name.lower() for word in ("dev", "loc", "cuda", "gpu"))


def runs_at_import(context: RuleContext, node: ast.AST) -> bool:
    """Return whether importing the module evaluates `node`, and the module is imported rather than run."""
    return _runs_with_module(context, node) and is_imported(context.module)


def _runs_with_module(context: RuleContext, node: ast.AST) -> bool:
    """Return whether a node stands in no function, and not under a test for the main program."""
    inner = (*FUNCTIONS, ast.Lambda)
    above = [node, *context.module.ancestors(node)]
    in_function = any(
        isinstance(up, inner) and above[i - 1] not in _evaluated_outside(up) for i, up in enumerate(above) if i
    )
    return not in_function and not _under_main(above)


def _evaluated_outside(function: ast.AST) -> list[ast.AST]:
    return [getattr(function, "args", function), *getattr(function, "decorator_list", [])]


def _under_main(above: list[ast.AST]) -> bool:
    return any(isinstance(up, ast.If) and _asks_for_main(up) for up in above)


def _asks_for_main(statement: ast.If) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(statement.test))


def probes_already(context: RuleContext) -> bool:
    """Return whether the module asks for CUDA at import already, itself or in what it calls of its own."""
    return _probes_at_import(context.module)


@query
def _probes_at_import(module: SemanticModel) -> bool:
    if _QUESTIONS.isdisjoint(identifiers(module)):
        return False
    defined = {s.name: s for s in module.tree.body if isinstance(s, (*FUNCTIONS, ast.ClassDef))}
    run = (s for s in module.tree.body if not isinstance(s, (*FUNCTIONS, ast.ClassDef)))
    run = (s for s in run if not (isinstance(s, ast.If) and _asks_for_main(s)))
    names = {name for statement in run for name in identifiers_in(module, statement)}
    return not _QUESTIONS.isdisjoint(
        reached(names, lambda name: identifiers_in(module, defined[name]) if name in defined else ())
    )


def _asks_already(context: RuleContext, node: ast.AST) -> bool:
    """Return whether a node is the device of a choice beside the CPU's, and no import comes to ask for it."""
    up = context.module.parent(node)
    if not is_beside_cpu(context.module, node) or not isinstance(up, ast.IfExp):
        return False
    asked = {last_name(n) for n in ast.walk(up.test)}
    return not asked.isdisjoint(_QUESTIONS) or not _runs_with_module(context, node) or probes_already(context)


def at_import_checked(context: RuleContext, node: ast.AST, template: str) -> Finding:
    """Replace a value. The fix is unsafe if importing the module would then ask for the device."""
    if runs_at_import(context, node) and not probes_already(context):
        return context.replace(node, template, Safety.UNSAFE, f"{context.rule.message}; {_AT_IMPORT}")
    return context.replace(node, template, Safety.SAFE)


_SENT_OFF = (
    "an option's default is CUDA; options are read where jobs are submitted, which may have no accelerator: "
    "make the default None, and take `accel.device()` for it where the job runs"
)


def option_default(context: RuleContext, whole: ast.AST, device: Device, call: ast.Call) -> Iterator[Finding]:
    """Yield the finding for an option's default, evaluated at the call in argparse; click takes a function."""
    decorated = isinstance(context.module.parent(call), FUNCTIONS)
    if str(context.module.path) in context.module.facts.sent_off:
        yield context.note(_SENT_OFF)
    elif decorated and device.index is None:
        yield context.replace(whole, "accel.device_type", Safety.SAFE)
    elif speaks_of_device(context.module, call):
        yield at_import_checked(context, whole, device.as_type)
    else:
        yield context.replace(
            whole, device.as_type, Safety.UNSAFE, f"{context.rule.message}; this option may not be a device"
        )


def speaks_of_device(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether an option is called a device, or a word of its call is about one."""
    called = any(isinstance(a, ast.Constant) and "dev" in str(a.value) for a in call.args)
    return called or any("device" in word for word in words_in(module, call))


def parameter_default(
    context: RuleContext,
    whole: ast.AST,
    outer: ast.AST,
    device: Device,
    arguments: ast.arguments,
    typed: bool = False,
) -> Iterator[Finding]:
    """Yield the finding for `def f(device="cuda")`: the default becomes None, and the function asks for the device.

    A default that is `typed` is a `torch.device`.
    """
    function = context.module.parent(arguments)
    name = parameter_of(arguments, outer)
    if name and outer is not whole:
        if _asks_already(context, whole):
            yield context.replace(whole, device.as_type)
    elif not isinstance(function, FUNCTIONS) or not name:
        yield context.note("a lambda's default names CUDA; it cannot be made lazy in place")
    elif not _is_device_name(name) and (function.name, name) in _choosing_by_words(context.module):
        yield context.left(f"`{name}` chooses by words of which some name no device")
    elif not _is_device_name(name):
        yield context.replace(
            whole, device.as_type, Safety.UNSAFE, f"{context.rule.message}; `{name}` may not be a device"
        )
    else:
        yield _lazy(context, function, whole, name, device, typed)


@query
def _choosing_by_words(module: SemanticModel) -> set[tuple[str, str]]:
    """Return the functions and their parameters that choose by words of which one is no device: `impl="ref"`.

    So do those that hand such a parameter on.
    """
    functions = [node for node in module.nodes if isinstance(node, FUNCTIONS)]
    found = {(f.name, name) for f in functions for name, word in _words_asked(module, f) if word not in _DEVICES}
    handed = [
        ((function.name, keyword.value.id), (last_name(node.func), keyword.arg or ""))
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if isinstance(keyword.value, ast.Name)
    ]
    while fresh := {giver for giver, taker in handed if taker in found} - found:
        found |= fresh
    return found


def _words_asked(module: SemanticModel, function: Function) -> Iterator[tuple[str, str]]:
    """Yield the variables that a function compares with words, or takes for the key of a table, with each word."""
    tables: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign([ast.Name(name)], ast.Dict() as table):
                tables[name] = table
            case ast.Compare(ast.Name(name), _, others):
                yield from ((name, word.partition(":")[0]) for other in others for word in strings_in(module, other))
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value, ast.Name(name)):
                held = tables.get(value.id) if isinstance(value, ast.Name) else value
                for key in held.keys if isinstance(held, ast.Dict) else ():
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield name, key.value.partition(":")[0]


CLOSED = "its type, a `Literal`, allows no other: widen it, then ask for the device"


def is_closed(module: SemanticModel, up: ast.AST | None, value: ast.AST) -> bool:
    """Return whether the annotation of what gets a value allows a device of CUDA by name: `Literal["cuda", "cpu"]`."""
    match up:
        case ast.AnnAssign(annotation=annotation):
            found: ast.expr | None = annotation
        case ast.arguments():
            found = _annotation(up, parameter_of(up, value))
        case _:
            return False
    literals = (n for n in ast.walk(found) if isinstance(n, ast.Subscript)) if found is not None else ()
    return any(
        last_name(literal.value) == "Literal" and "cuda" in module.text(literal.slice).lower() for literal in literals
    )


def _annotation(arguments: ast.arguments, name: str) -> ast.expr | None:
    return next((n.annotation for n in ast.walk(arguments) if isinstance(n, ast.arg) and n.arg == name), None)


def _lazy(context: RuleContext, function: Function, whole: ast.AST, name: str, device: Device, typed: bool) -> Finding:
    module = context.module
    body = function.body
    rest = body[ast.get_docstring(function, clean=False) is not None :]
    stub = all(isinstance(s, ast.Pass) or isinstance(getattr(s, "value", None), ast.Constant) for s in rest)
    if stub or body[0].lineno == function.lineno:
        return context.note(f"the default of `{name}` names CUDA; ask for the device inside the function")
    if _is_unread(module, function, name):
        return context.fix([Edit(*module.span(whole), "None"), *_optional(module, function, name)], Safety.SAFE)
    first = rest[0]
    at = module.source.offset(first_line(first), 0)
    indent = module.source.line_at(at)[: first.col_offset].decode()
    if indent.strip():
        return context.note(f"the default of `{name}` names CUDA; ask for the device inside the function")
    at = module.source.offset(module.line_above(first), 0)
    step = indent[function.col_offset :]
    newline = module.source.newline
    of_amp, others = _of_amp(module, function, name)
    named = device.as_device if typed else device.as_type
    value = spell(named if device.index is not None or not of_amp or others else of_amp, spelled(module))
    text = f"{indent}if {name} is None:{newline}{indent}{step}{name} = {value}{newline}"
    if isinstance(first, (*FUNCTIONS, ast.ClassDef)):
        text += newline  # formatters want a blank line above a nested definition
    start, end = module.span(whole)
    edits = [Edit(start, end, "None"), Edit(at, at, text), *_optional(module, function, name)]
    if of_amp and others and not _moves_to(module, function, name):
        why = f"`{name}` goes to mixed precision, which is CUDA's on the CPU, and elsewhere"
        return context.fix(edits, Safety.UNSAFE, f"{context.rule.message}; {why}")
    if _none_means_something(module, function, name):
        return context.fix(edits, Safety.UNSAFE, f"{context.rule.message}; `{name}=None` may mean something else here")
    return context.fix(edits, Safety.SAFE)


def _is_unread(module: SemanticModel, function: Function, name: str) -> bool:
    """Return whether nothing in a function reads a parameter, nor all its variables together."""
    names = {word for statement in function.body for word in identifiers_in(module, statement)}
    return names.isdisjoint({name, "locals", "vars", "eval", "exec"})


def _optional(module: SemanticModel, function: Function, name: str) -> Iterator[Edit]:
    """Yield the edit that lets a parameter's annotation take None, where the file has a way to say so."""
    annotation = _annotation(function.args, name)
    if annotation is None or not {"None", "Optional", "Any"}.isdisjoint(words_in(module, annotation)):
        return
    if any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(annotation)):
        return
    start, end = module.span(annotation)
    names = module.scopes.module.names
    match annotation:
        case ast.BinOp(op=ast.BitOr()):
            yield Edit(end, end, " | None")
        case ast.Constant(str(text)) if " | " in text and module.text(annotation)[1:-1] == text:
            if "None" not in text:
                yield Edit(end - 1, end - 1, " | None")  # before the quotation mark
        case ast.Name() | ast.Attribute() | ast.Subscript():
            if any(b.qualified == "typing.Optional" for b in names.get("Optional", ())):
                yield Edit(start, end, f"Optional[{module.text(annotation)}]")
            elif any(b.qualified == "__future__.annotations" for b in names.get("annotations", ())):
                yield Edit(end, end, " | None")
            elif isinstance(annotation, ast.Subscript) and module.resolve(annotation.value) == "typing.Union":
                last = module.span(annotation.slice)[1]
                if isinstance(annotation.slice, ast.Tuple) and module.text(annotation.slice)[-1] not in ",)":
                    yield Edit(last, last, ", None")


_AMP = {
    "torch.autocast": "accel.autocast_type()",
    "torch.amp.autocast": "accel.autocast_type()",
    "torch.is_autocast_enabled": "accel.autocast_type()",
    "torch.get_autocast_dtype": "accel.autocast_type()",
    "torch.amp.GradScaler": "accel.scaler_type()",
}


def _of_amp(module: SemanticModel, function: Function, name: str) -> tuple[str, bool]:
    """Return the helper's type for mixed precision if a parameter is one, and whether it is something else, too.

    On the CPU that type is "cuda": `GradScaler("cuda")` is disabled there, `GradScaler("cpu")` is not.
    """
    given: dict[ast.AST, str] = {}
    for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
        wanted = _AMP.get(module.resolve(call.func) or "")
        given |= {a: wanted for a in (*call.args, *(k.value for k in call.keywords)) if wanted}
    compared = (n for n in ast.walk(function) if isinstance(n, ast.Compare))
    asked = {part for compare in compared for part in (compare.left, *compare.comparators)}
    reads = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return next((given[n] for n in reads if n in given), ""), any(n not in given and n not in asked for n in reads)


def _moves_to(module: SemanticModel, function: Function, name: str) -> bool:
    """Return whether a function gives a parameter to torch as a device: with CUDA's it dies on the CPU."""
    for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
        to = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
        of_torch = to or (module.resolve(call.func) or "").startswith("torch.")
        given = [*(call.args[:1] if to else ()), *(k.value for k in call.keywords if of_torch and k.arg == "device")]
        if any(isinstance(value, ast.Name) and value.id == name for value in given):
            return True
    return False


def _none_means_something(module: SemanticModel, function: Function, name: str) -> bool:
    """Return whether the function tests for None, or a call gives it: `map_location=None`, `x.to(None)` do nothing."""
    parameters = {n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)} - {name}
    if any(_asks_for_none(node, name, parameters) for node in ast.walk(function)):
        return True
    given = (n for n in module.nodes if isinstance(n, ast.keyword) and n.arg == name)
    return "location" in name or any(isinstance(n.value, ast.Constant) and n.value.value is None for n in given)


def _asks_for_none(node: ast.AST, name: str, others: set[str]) -> bool:
    """Return whether this is `name is None`, `x.name is None` or the contrary. Names that end so count: `map_device`.

    Other parameters of the function do not: they are asked about by themselves.
    """
    match node:
        case ast.Compare(ast.Name(other)) if other in others:
            return False
        case ast.Compare(asked, [ast.Is() | ast.IsNot(), *_], [ast.Constant(None), *_]):
            return last_name(asked).endswith(name)
    return False


def in_dataclass(context: RuleContext, node: ast.AST) -> bool:
    owner = context.module.parent(node)
    if not isinstance(owner, ast.ClassDef):
        return False
    names = (name for d in owner.decorator_list for name in identifiers_in(context.module, d))
    return any("dataclass" in name for name in names)


def dataclass_default(context: RuleContext, whole: ast.AST, device: Device, node: ast.AnnAssign) -> Iterator[Finding]:
    """Yield the finding for `device: str = "cuda"` in a dataclass: a default factory asks late."""
    field = _field_name(context)
    if not _is_device_name(chain_of(node.target) or ""):
        return
    if whole is not node.value and _asks_already(context, whole):
        yield context.replace(whole, device.as_type)
        return
    if whole is not node.value or field is None or device.index is not None or _read_off_class(context, node):
        yield context.note(_FIELD)
        return
    yield context.replace(whole, f"{field}(default_factory=accel.device_type)", Safety.SAFE)


def _read_off_class(context: RuleContext, node: ast.AnnAssign) -> bool:
    """Return whether the file reads `Config.device`: a default factory leaves no class attribute."""
    owner = context.module.parent(node)
    return isinstance(owner, ast.ClassDef) and mentions(context.module, f"{owner.name}.{chain_of(node.target)}")


def _field_name(context: RuleContext) -> str | None:
    for name, bindings in context.module.scopes.module.names.items():
        if any(b.qualified == "dataclasses.field" for b in bindings):
            return name
        if any(b.qualified == "dataclasses" for b in bindings):
            return f"{name}.field"
    return None


def is_field(call: ast.Call) -> bool:
    return getattr(call.func, "id", getattr(call.func, "attr", "")) in ("field", "Field")


def field_default(context: RuleContext, whole: ast.AST, device: Device, call: ast.Call) -> Iterator[Finding]:
    field = context.module.parent(call)
    if not (isinstance(field, ast.AnnAssign) and _is_device_name(chain_of(field.target) or "")):
        yield context.replace(
            whole, device.as_type, Safety.UNSAFE, f"{context.rule.message}; this field may not be a device"
        )
        return
    if device.index is not None or _read_off_class(context, field):
        yield context.note(_FIELD)
        return
    found = context.rewrite("$f(default=$old, $$rest)", "$f(default_factory=accel.device_type, $$rest)", call)
    yield found or context.note(_FIELD)
