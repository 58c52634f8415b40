"""Write lines as people do: one variable for many calls of `accel.device()`, and tensors made where they are used.

Only calls that this run wrote are touched, and only where the program does the same. A variable is bound in the
innermost block that holds all its uses, above the first: never at the import of a library. Arguments that stood below
the first one stand there again, and lines that a run made longer than those of the project are broken.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchmigrate.rewriting.native_style import Written, helper_uses
from torchmigrate.semantic.dominance import know_parents
from torchmigrate.semantic.model import SemanticModel, query
from torchmigrate.semantic.references import helper_function, spell, spelled, strings_in
from torchmigrate.semantic.values import given_before, is_used_as_tensor
from torchmigrate.source.edits import Edit, compose
from torchmigrate.syntax.resolver import chain_of
from torchmigrate.syntax.scope import FUNCTIONS, Scope, first_line

_NAME, _TYPE = "device", "device_type"
_ENOUGH = 3  # calls that are worth a variable
_ENOUGH_NATIVE = 2  # of torch's own call, which takes half a line
# functions that fill their result with the same on every device; those that draw numbers do not
_FILLING = {
    f"torch.{name}"
    for name in (
        "zeros",
        "ones",
        "empty",
        "full",
        "eye",
        "tensor",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
    )
}
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
# arguments with which a tensor made on the device is another one, or that name a device already
_ELSEWHERE = {None, "device", "out", "requires_grad", "pin_memory", "layout"}
_KEEP_DEVICE = {
    "float",
    "double",
    "half",
    "long",
    "int",
    "view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "contiguous",
    "clone",
}
_MEMBER = re.compile(rf"(?!{_NAME}\b)[A-Za-z_]\w*\.(%s|[A-Za-z_]\w*)?$")
_LOOKS_INTO_SCOPES = {"globals", "locals", "vars", "eval", "exec"}
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_LENGTHS = (79, 88, 100, 120)  # of lines, that people keep to
_HABIT = 20  # lines of code that show what a file keeps to
_MOST_VARIABLES = 20  # of one scope that hold the device, and are asked for one to use
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Allowed = Callable[[int], bool]


def plainer(module: SemanticModel, spans: Sequence[Written], allowed: Allowed) -> tuple[Edit, ...]:
    """Return the next edits to a migrated module; `allowed` says whether text may be inserted at an offset."""
    if module.facts.own:
        return ()  # the project's own helper may answer otherwise from call to call
    know_parents(module)
    native = module.facts.writes_native  # torch's own call is long, and shorter in `x.to(...)`
    calls = [call for call in _device_calls(module, spans) if not _in_signature(module, call)]
    return (
        tuple(edit for own, call in _helper_calls(module, spans) for edit in _of_current(module, own, call))
        or tuple(edit for call in calls for edit in _unwrapped(module, call))
        or tuple(edit for call in calls if not native for edit in _made_there(module, call))
        or tuple(edit for call in calls for edit in _of_tested(module, call))
        or tuple(edit for own, call in _helper_calls(module, spans) for edit in _chosen(module, own, call, allowed))
        or tuple(edit for own, call in _helper_calls(module, spans) for edit in _known(module, own, call))
        or tuple(_bound_once(module, calls, _ENOUGH_NATIVE if native else _ENOUGH, allowed))
        or tuple(_bound_in_functions(module, spans, allowed))
    )


def _device_calls(module: SemanticModel, spans: Sequence[Written]) -> Iterator[ast.Call]:
    """Yield the calls `accel.device()` that this run wrote."""
    return (call for own, call in _helper_calls(module, spans) if own == _NAME and not call.args)


def _helper_calls(module: SemanticModel, spans: Sequence[Written]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of the helper's functions that this run wrote, but for those with keywords."""
    for node, own, _ in helper_uses(module, spans):
        call = module.parent(node)
        if isinstance(call, ast.Call) and call.func is node and not call.keywords:
            yield own, call


def _of_current(module: SemanticModel, own: str, call: ast.Call) -> Iterator[Edit]:
    """Yield the edit of `x.to(accel.current_device())`, and of `x.to(accel.device(accel.current_device()))`."""
    if own != "current_device" or call.args:
        return
    outer = module.parent(call)
    if isinstance(outer, ast.Call) and outer.args == [call] and helper_function(module, outer.func) == _NAME:
        call = outer
    if _takes_device(module, call) and not module.holds_comment(call):
        yield Edit(*module.span(call), spell(f"accel.{_NAME}()", spelled(module)))


def _in_signature(module: SemanticModel, call: ast.Call) -> bool:
    """Return whether a call is a default or a decorator, or an argument of one."""
    return isinstance(module.statement(call), _DEFINITIONS)


def _unwrapped(module: SemanticModel, call: ast.Call) -> Iterator[Edit]:
    """Yield the edit of `torch.device(accel.device())`, and of `str(accel.device())` where a device is taken."""
    outer = module.parent(call)
    if not isinstance(outer, ast.Call) or outer.args != [call] or outer.keywords or module.holds_comment(outer):
        return
    is_text = isinstance(outer.func, ast.Name) and outer.func.id == "str" and module.scope(call).find("str") is None
    if module.resolve(outer.func) == "torch.device" or (is_text and _takes_device(module, outer)):
        yield Edit(*module.span(outer), module.text(call))


def _takes_device(module: SemanticModel, value: ast.AST) -> bool:
    """Return whether a value is the first argument of `x.to(...)`, or the `device=` of that or of a torch function."""
    match module.parent(value):
        case ast.Call(ast.Attribute(_, "to"), [first, *_]):
            return first is value
        case ast.keyword("device") as up:
            match module.parent(up):
                case ast.Call(ast.Attribute(_, "to"), []):
                    return True
                case ast.Call(func):
                    return (module.resolve(func) or "").startswith("torch.")
    return False


def _made_there(module: SemanticModel, call: ast.Call) -> Iterator[Edit]:
    """Yield the edits of `torch.zeros(n).to(accel.device())`, which is made on the device at once."""
    match module.parent(call):
        case ast.Call(ast.Attribute(ast.Call(func, args) as made, "to"), [only], []) as move if only is call and args:
            pass
        case _:
            return
    if module.resolve(func) not in _FILLING or any(k.arg in _ELSEWHERE for k in made.keywords):
        return
    if isinstance(args[0], ast.GeneratorExp) or module.holds_comment(move):
        return
    last = max(module.span(part)[1] for part in (*args, *made.keywords))
    end, text = module.span(made)[1], module.source.utf8
    comma = b"".join(text[last:end].split())[:-1]
    if comma in (b"", b",") and text[end : module.span(move)[1]].lstrip().startswith(b"."):
        added, indent = f"device={module.text(call)}", _indent_of_arguments(module, made, bool(comma))
        if indent:
            yield Edit(last, last + text[last:end].find(b",") + 1, f",{module.source.newline}{indent}{added},")
        elif not comma:
            yield Edit(last, last, f", {added}")
        if indent or not comma:
            yield Edit(end, module.span(move)[1], "")


def _indent_of_arguments(module: SemanticModel, call: ast.Call, is_exploded: bool) -> str:
    """Return the indent of a call's arguments where one more is to have a line of its own, else "".

    The call's brackets open and close lines, and a comma ends the arguments or the last one has several lines.
    """
    parts = sorted((*call.args, *(k.value for k in call.keywords)), key=module.span)
    head = module.source.line_at(module.span(parts[0])[0])
    indent = head[: len(head) - len(head.lstrip())].decode()
    is_open = parts[0].lineno > (call.func.end_lineno or 0) and (call.end_lineno or 0) > (parts[-1].end_lineno or 0)
    is_long = is_exploded or parts[-1].end_lineno != parts[-1].lineno
    return indent if is_open and is_long and call.args[0] is parts[0] else ""


def _of_tested(module: SemanticModel, call: ast.Call) -> Iterator[Edit]:
    """Yield the edit of `y.to(accel.device())` where a test has found that a tensor x is there: `y.to(x.device)`."""
    move = module.parent(call)
    if not (isinstance(move, ast.Call) and isinstance(move.func, ast.Attribute) and move.func.attr == "to"):
        return
    if b"is_accelerated" not in module.source.utf8:
        return
    for up, below in module.around(call, *_DEFINITIONS, ast.If, ast.IfExp, ast.BoolOp):
        if isinstance(up, _DEFINITIONS):
            return
        tested = _tested_above(module, up, below)
        if tested and move.args[:1] == [call] and is_used_as_tensor(module, tested, call) and not _binds(up, tested):
            whole = isinstance(up, ast.IfExp) and _stays_else(module, up, move)
            text = f"{module.text(move.func)}({tested}.device)" if whole else f"{tested}.device"
            yield Edit(*module.span(up if whole else call), text)
            return


def _chosen(module: SemanticModel, own: str, call: ast.Call, allowed: Allowed) -> Iterator[Edit]:
    """Yield the edit of a choice in statements, `device = "cpu"` and `accel.device_type()` behind `is_available()`.

    The helper's answer is the CPU where there is nothing else, so that the choice is one statement. Of devices it
    counts none there, so that `accel.device_count()` needs no `if accel.is_available() else 0`.
    """
    choice = module.parent(call)
    match choice:
        case ast.IfExp(test, ast.Call(func, [], []) as count, ast.Constant(0)) if (
            own == "is_available" and test is call
        ):
            if helper_function(module, func) == "device_count" and not module.holds_comment(choice):
                yield Edit(*module.span(choice), module.text(count))
    if own != "is_available" or not (isinstance(choice, ast.If) and choice.test is call and len(choice.body) == 1):
        return
    block, at = module.blocks.place(choice)
    made, beside = choice.body[0], choice.orelse
    if not beside:
        beside = block[at + 1 : at + 2] if isinstance(made, ast.Return) else block[max(at - 1, 0) : at]
    text = _in_one(module, made, beside[0]) if len(beside) == 1 else ""
    first = min([choice, *beside], key=lambda each: each.lineno)
    start, end = module.span(first)[0], max(module.span(each)[1] for each in (choice, *beside))
    if text and _opens_line(module, first) and b"#" not in module.source.utf8[start:end] and allowed(start):
        yield Edit(start, end, text)


def _in_one(module: SemanticModel, made: ast.stmt, fallback: ast.stmt) -> str:
    """Return the statement that gives what two do: one the helper's device, the other the CPU; "" if there is none."""
    match made, fallback:
        case ast.Assign([target], value), ast.Assign([other], cpu) if module.text(target) == module.text(other):
            head = f"{module.text(target)} ="
        case ast.Return(ast.expr() as value), ast.Return(ast.expr() as cpu):
            head = "return"
        case _:
            return ""
    return f"{head} {module.text(value)}" if _is_cpu_of(module, value, cpu) else ""


def _is_cpu_of(module: SemanticModel, value: ast.expr, fallback: ast.expr) -> bool:
    """Return whether the other value is what a call of the helper answers where there is no accelerator."""
    match value, fallback:
        case ast.Call(func, [], []), ast.Constant("cpu"):
            return helper_function(module, func) == _TYPE
        case ast.Call(func, [] | [ast.Constant(int())], []), ast.Call(maker, [ast.Constant("cpu")], []):
            return helper_function(module, func) == _NAME and module.resolve(maker) == "torch.device"
    return False


def _stays_else(module: SemanticModel, choice: ast.IfExp, move: ast.Call) -> bool:
    """Return whether `x.to(there) if test else x` moves a CPU tensor, which `x.to(y.device)` leaves there as well."""
    match choice, move:
        case ast.IfExp(ast.Call(), body, ast.Name(name)), ast.Call(ast.Attribute(ast.Name(moved), "to"), [_], []):
            given = given_before(module, name, module.statement(choice)) if body is move and name == moved else None
            is_on_cpu = bool(given) and all(_is_of_numpy(module, value) for value, _ in given or ())
            return is_on_cpu and not module.holds_comment(choice)
    return False


def _is_of_numpy(module: SemanticModel, value: ast.expr) -> bool:
    """Return whether a value is a tensor made by `torch.from_numpy`, which is on the CPU under any default device."""
    while isinstance(value, ast.Call):
        name = module.resolve(value.func) or ""
        if name == "torch.from_numpy":
            return True
        if name == "torch.autograd.Variable" and value.args:
            value = value.args[0]
        elif isinstance(value.func, ast.Attribute) and value.func.attr in _KEEP_DEVICE:
            value = value.func.value
        else:
            break
    return False


def _tested_above(module: SemanticModel, node: ast.AST, below: ast.AST) -> str:
    """Return the variable that a test in a node asks for, if the part below runs only where it is accelerated."""
    match node:
        case ast.If(test, body) if below in body:
            tests = [test]
        case ast.IfExp(test, body) if below is body:
            tests = [test]
        case ast.BoolOp(ast.And(), values) if below in values:
            tests = values[: values.index(below)]
        case _:
            return ""
    asked = [each for test in tests for each in (test.values if _is_and(test) else [test])]  # type: ignore[attr-defined]
    for each in asked:
        match each:
            case ast.Call(func, [ast.Name(name) | ast.Attribute(ast.Name(name), "device")], []) if (
                helper_function(module, func) == "is_accelerated"
            ):
                return name
    return ""


def _is_and(test: ast.expr) -> bool:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _binds(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(node))


def _known(module: SemanticModel, own: str, call: ast.Call) -> Iterator[Edit]:
    """Yield the edit of a call to a variable in scope that holds its result, or its type where that is the same."""
    if own not in (_NAME, _TYPE) or call.args or _in_signature(module, call):
        return
    steps = _steps(module, call)
    here = module.scope(steps[-1])
    hidden = _hidden(module, call)
    compared = _compared_type(module, call) if own == _TYPE else ""
    is_same = own == _NAME or _is_told(module, call) or bool(compared)
    kinds = {_NAME, _TYPE} if _takes_device(module, call) else {own} if is_same else set()
    for scope in here.up():
        for name, value, kind in _device_variables(module, scope)[:_MOST_VARIABLES]:
            if kind not in kinds or name in hidden or compared not in ("", name) or (found := here.find(name)) is None:
                continue
            if found[0] is scope and _is_before(module, module.statement(value), steps):
                yield Edit(*_compared_with(module, call, name), name)
                return


def _compared_type(module: SemanticModel, call: ast.Call) -> str:
    """Return the name that is compared with a device type beside the CPU's: `name == accel.device_type() != "cpu"`.

    "" for any other test, and in a file that may give the name another value by its text, as a configurator does.
    """
    match module.parent(call):
        case ast.Compare(ast.Name(name), [ast.Eq(), ast.NotEq()], [first, ast.Constant("cpu")]) if first is call:
            return "" if _looks_into_scopes(module, None) else name
    return ""


def _compared_with(module: SemanticModel, call: ast.Call, name: str) -> tuple[int, int]:
    """Return the span of a call, with the variable that is compared with it, if that one comes to stand for it."""
    start, end = module.span(call)
    match module.parent(call):
        case ast.Compare(ast.Name(left), [ast.Eq(), _], [first, _]) as up if left == name and first is call:
            return module.span(up.left)[0], end
        case ast.Compare(_, [_, ast.Eq()], [first, ast.Name(right) as last]) if right == name and first is call:
            return start, module.span(last)[1]
    return start, end


@query
def _is_told(module: SemanticModel, value: ast.AST) -> bool:
    """Return whether a value is a `device=`. Elsewhere a device type may be compared, or mean the type alone."""
    return isinstance(up := module.parent(value), ast.keyword) and up.arg == _NAME


@query
def _device_variables(module: SemanticModel, scope: Scope) -> list[tuple[str, ast.expr, str]]:
    """Return the variables of a scope that hold the helper's device or its type, with their values."""
    values = ((name, bound[0].value) for name, bound in scope.names.items() if len(bound) == 1 and not scope.is_class)
    kinds = ((name, value, _device_kind(module, value)) for name, value in values if value is not None)
    return [(name, value, kind) for name, value, kind in kinds if kind]


def _device_kind(module: SemanticModel, value: ast.expr) -> str:
    """Return "device" or "device_type" for a value that is the result of the helper's function, else ""."""
    match value:
        case ast.Call(func, [], []) if (own := helper_function(module, func)) in (_NAME, _TYPE):
            return str(own)
        case ast.Call(func, [inner], []) if module.resolve(func) == "torch.device" and _device_kind(module, inner):
            return "device"
    return ""


def _hidden(module: SemanticModel, node: ast.AST) -> set[str]:
    """Return the names that lambdas and comprehensions around a node bind."""
    found: set[str] = set()
    for up in module.enclosing(node, ast.Lambda, *_COMPREHENSIONS):
        if isinstance(up, ast.Lambda):
            found |= {n.arg for n in ast.walk(up.args) if isinstance(n, ast.arg)}
        for each in getattr(up, "generators", ()):
            found |= {n.id for n in ast.walk(each.target) if isinstance(n, ast.Name)}
    return found


def _is_before(module: SemanticModel, binding: ast.stmt, steps: Sequence[ast.stmt]) -> bool:
    """Return whether a statement comes before code in its own block, so that the code cannot run without it."""
    block, at = module.blocks.place(binding)
    places = (module.blocks.place(step) for step in steps)
    return any(other is block and later > at for other, later in places)


def _steps(module: SemanticModel, node: ast.AST) -> list[ast.stmt]:
    """Return the statements that hold a node, the outermost first."""
    return [*module.enclosing(node, ast.stmt)][::-1]


def _bound_once(module: SemanticModel, calls: Sequence[ast.Call], enough: int, allowed: Allowed) -> Iterator[Edit]:
    """Yield the edits that bind a variable in each block with enough calls, and use it there."""
    if not _are_enough(module, calls, enough):
        return
    steps = {call: _steps(module, call) for call in calls}
    outer = {call: next((s for s in steps[call] if isinstance(s, FUNCTIONS)), None) for call in calls}
    groups = [] if _looks_into_scopes(module, None) else list(_of_script(module, calls, steps, outer, enough))
    functions = [] if groups else dict.fromkeys(outer.values())  # those below a global variable take that first
    for function in functions:
        own = [call for call in calls if outer[call] is function]
        if function is None or not _are_enough(module, own, enough) or _looks_into_scopes(module, function):
            continue
        if not _speaks_of(module, function, _NAME):
            base = steps[own[0]].index(function) + 1
            groups.append((own, _place(module, [steps[call] for call in own], base)))
    for group, place in groups:
        yield from _binding(module, _NAME, group, place, allowed)


def _are_enough(module: SemanticModel, calls: Sequence[ast.Call], enough: int) -> bool:
    """Return whether calls are worth a variable: so many, or two in comprehensions that share a line too long."""
    lines = [
        call.lineno for call in calls if isinstance(module.nearest(call, *_COMPREHENSIONS, ast.stmt), _COMPREHENSIONS)
    ]
    crowded = (line for line in {*lines} if lines.count(line) > 1)
    return len(calls) >= enough or any(len(_line(module, line)) > _LENGTHS[-1] for line in crowded)


@query
def _looks_into_scopes(module: SemanticModel, function: ast.AST | None) -> bool:
    """Return whether a function, or the file, may see its own variables by name; `vars(args)` sees those of an object.

    `globals()` shows no variable of a function.
    """
    nodes = module.nodes if function is None else ast.walk(function)
    looking = _LOOKS_INTO_SCOPES if function is None else _LOOKS_INTO_SCOPES - {"globals"}
    names = (n for n in nodes if isinstance(n, ast.Name) and n.id in looking)
    return not all(_looks_elsewhere(n, module.parent(n)) for n in names)


def _looks_elsewhere(name: ast.Name, up: ast.AST | None) -> bool:
    """Return whether a call looks into no scope, or for a member of another name: `eval("models.%s" % kind)`."""
    match up:
        case ast.Call(func, [first, *_]) if func is name:
            member = first.left if isinstance(first, ast.BinOp) else first
            text = member.values[0] if isinstance(member, ast.JoinedStr) and member.values else member
            is_member = isinstance(text, ast.Constant) and bool(_MEMBER.match(str(text.value)))
            return name.id == "vars" or (name.id == "eval" and is_member)
    return False


def _binding(
    module: SemanticModel, name: str, group: Sequence[ast.Call], place: ast.stmt | None, allowed: Allowed
) -> Iterator[Edit]:
    """Yield the edits that bind a variable above a statement and use it for these equal calls."""
    if place is None:
        return
    line = module.line_above(place)
    gap = module.source.newline if line < place.lineno and _is_blank(module, line - 1) else ""
    if gap and _is_bound_above(module, place, line - 2):
        line, gap = line - 1, ""  # beside it
    at = module.source.offset(line, 0)
    if allowed(at) and "CUDA_VISIBLE_DEVICES" not in strings_in(module, place):
        indent = module.source.line_at(module.source.offset(place.lineno, 0))[: place.col_offset].decode()
        yield Edit(at, at, f"{indent}{name} = {module.text(group[0])}{module.source.newline}{gap}")
        yield from (Edit(*module.span(call), name) for call in group)


def _is_blank(module: SemanticModel, line: int) -> bool:
    return line > 0 and not module.source.line_at(module.source.offset(line, 0)).strip()


def _is_bound_above(module: SemanticModel, place: ast.stmt, line: int) -> bool:
    """Return whether the statement above, which ends in this line, binds what a call of the helper gives."""
    match module.blocks.before(place)[-1:]:
        case [ast.Assign([ast.Name()], ast.Call(func)) as above]:
            return above.end_lineno == line and helper_function(module, func) is not None
    return False


def _bound_in_functions(module: SemanticModel, spans: Sequence[Written], allowed: Allowed) -> Iterator[Edit]:
    """Yield the edits that bind a variable in each function with enough equal calls: of one index, or without any."""
    groups: dict[tuple[ast.stmt, str], dict[str, list[ast.Call]]] = {}
    for own, call in _helper_calls(module, spans):
        function = next((s for s in _steps(module, call) if isinstance(s, FUNCTIONS)), None)
        if own not in (_NAME, "non_blocking") or _looks_into_scopes(module, function):
            continue
        if function is not None and not _in_signature(module, call) and _is_fixed(module, own, call, function):
            groups.setdefault((function, own), {}).setdefault(module.text(call), []).append(call)
    for (owner, own), by_text in groups.items():
        group = max(by_text.values(), key=len)
        if len(group) >= _ENOUGH and not _speaks_of(module, owner, own):
            steps = [_steps(module, call) for call in group]
            place = _place(module, steps, steps[0].index(owner) + 1)
            is_number = not any(isinstance(argument, ast.Name) for argument in group[0].args)
            if is_number or any(_comes_to(path, place) for path in steps):
                yield from _binding(module, own, group, place, allowed)


def _comes_to(path: Sequence[ast.stmt], place: ast.stmt | None) -> bool:
    """Return whether a call is made wherever its function comes to a place: no branch stands between, only loops.

    Above a branch, an index would be asked for that the branch may exclude: `if gpu >= 0`.
    """
    between = path[path.index(place) : -1] if place in path else path
    return all(isinstance(each, (*_LOOPS, ast.With, ast.AsyncWith)) for each in between)


def _is_fixed(module: SemanticModel, own: str, call: ast.Call, function: ast.AST) -> bool:
    """Return whether a call's one argument is a number, or a parameter of the function that keeps its value."""
    match call.args:
        case []:
            return own == "non_blocking"
        case [ast.Constant(int())]:
            return True
        case [ast.Name(name)]:
            found = module.scope(call).find(name)
            return found is not None and found[0].node is function and len(found[1]) == 1 and not _binds(function, name)
    return False


def _of_script(
    module: SemanticModel,
    calls: Sequence[ast.Call],
    steps: dict[ast.Call, list[ast.stmt]],
    outer: dict[ast.Call, ast.FunctionDef | ast.AsyncFunctionDef | None],
    enough: int,
) -> Iterator[tuple[list[ast.Call], ast.stmt | None]]:
    """Yield the calls that may use one global variable, and the statement below it.

    The file is imported by nobody and moves things itself, or does so where it is started; otherwise there are none.
    """
    path = str(module.path)
    at_import = [call for call in calls if outer[call] is None]
    taken = (n for n in module.nodes if _NAME in _names_of(n))
    if not at_import or path.endswith(".ipynb"):
        return
    first = min((steps[call][0] for call in at_import), key=lambda s: s.lineno)
    if module.facts.index.importers.get(path) and not all(_is_of_main(steps[call]) for call in at_import):
        return
    if any(_is_global(module.scope(node)) for node in taken):
        return
    late: list[ast.Call] = []
    if not _asks_for_main(first):
        late = [c for c in calls if (f := outer[c]) is not None and not _speaks_of(module, f, _NAME)]
    if late and not _called_before(module, {steps[call][0] for call in late}, first):
        if _are_enough(module, [*at_import, *late], enough):
            yield [*at_import, *late], _opens_line(module, first)
    elif _are_enough(module, at_import, enough):
        yield at_import, _place(module, [steps[call] for call in at_import], 0)


def _is_global(scope: Scope) -> bool:
    """Return whether the name `device` of a scope is the module's, or nobody's."""
    found = scope.find(_NAME)
    return found is None or found[0].parent is None


def _asks_for_main(statement: ast.stmt) -> bool:
    """Return whether a statement runs only in the file that is started, not in the processes that import it anew."""
    return isinstance(statement, ast.If) and any(
        isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(statement.test)
    )


def _is_of_main(steps: Sequence[ast.stmt]) -> bool:
    """Return whether the outermost statement is `if __name__ == "__main__":`, and the next one is in its body."""
    match steps[0]:
        case ast.If(ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]), body):
            return len(steps) > 1 and steps[1] in body
    return False


def _called_before(module: SemanticModel, definitions: set[ast.stmt], first: ast.stmt) -> bool:
    """Return whether top-level code above `first` speaks of these definitions, also through others."""
    names = {getattr(each, "name", "") for each in definitions}
    body = module.tree.body
    words = {s: {n.id for n in ast.walk(s) if isinstance(n, ast.Name)} for s in body if isinstance(s, _DEFINITIONS)}
    before = 0
    while len(names) > before:
        before = len(names)
        names |= {s.name for s, used in words.items() if not names.isdisjoint(used)}
    early: list[ast.AST] = [s for s in body[: body.index(first)] if s not in words]
    early += [d for s in words for d in s.decorator_list]
    return "" in names or any(isinstance(n, ast.Name) and n.id in names for s in early for n in ast.walk(s))


@query
def _speaks_of(module: SemanticModel, function: ast.AST, name: str) -> bool:
    """Return whether a function binds or reads a variable of this name."""
    return any(name in _names_of(node) for node in ast.walk(function))


def _names_of(node: ast.AST) -> tuple[str, ...]:
    """Return the variables that a node reads or binds by itself."""
    match node:
        case ast.Name(name) | ast.arg(name):
            return (name,)
        case ast.alias(name, asname):
            return (asname or name.partition(".")[0],)
        case ast.Global(names) | ast.Nonlocal(names):
            return tuple(names)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler():
            return (node.name or "",)
        case ast.MatchAs() | ast.MatchStar():
            return (node.name or "",)
        case ast.MatchMapping():
            return (node.rest or "",)
    return ()


def _place(module: SemanticModel, paths: Sequence[Sequence[ast.stmt]], base: int) -> ast.stmt | None:
    """Return the first statement of the innermost block that holds all paths, is in no loop, and takes a line."""
    depth = base
    while (
        all(len(path) > depth + 1 for path in paths)
        and len({id(path[depth]) for path in paths}) == 1
        and not isinstance(paths[0][depth], (*_LOOPS, ast.ClassDef))
        and len({id(module.blocks.place(path[depth + 1])[0]) for path in paths}) == 1
    ):
        depth += 1
    while depth >= base:
        first = min((path[depth] for path in paths), key=lambda s: (s.lineno, s.col_offset))
        if _opens_line(module, first):
            return first
        depth -= 1
    return None


def _opens_line(module: SemanticModel, statement: ast.stmt) -> ast.stmt | None:
    """Return the statement if a line can be added above it: not for `elif`, nor in `if x: statement`."""
    start = module.source.offset(first_line(statement), 0)
    text = module.source.utf8[start:]
    is_elif = isinstance(statement, ast.If) and text[statement.col_offset :].startswith(b"elif")
    return None if text[: statement.col_offset].strip() or is_elif else statement


def folded(module: SemanticModel, spans: Sequence[Written], allowed: Allowed) -> tuple[Edit, ...]:
    """Return the edits that break each line which this run made longer than the project's lines are."""
    if module.path.suffix == ".ipynb":
        return ()
    if moved := _realigned(module, spans, allowed):
        return moved
    text = module.source.utf8
    by_line: dict[int, list[Written]] = {}
    for span in (s for s in spans if b"\n" not in text[s.start : s.end]):
        by_line.setdefault(module.source.position(span.start)[0], []).append(span)
    long = [line for line in by_line if len(_line(module, line)) > _LENGTHS[0]]
    limit = _line_length(module, by_line) if long else 0
    before = limit if module.facts.line_length(module.path) else min(limit, _LENGTHS[-1])  # what was too long stays
    long = [
        line for line in long if len(_line(module, line)) > limit and _length_before(module, line, by_line) <= before
    ]
    calls: dict[int, list[ast.Call]] = {line: [] for line in long}
    for node in module.nodes if long else ():
        if isinstance(node, ast.Call) and node.lineno == node.end_lineno and node.lineno in calls:
            start, end = module.span(node)
            if not any(span.start <= start and end <= span.end for span in by_line[node.lineno]):  # what a rule wrote
                calls[node.lineno].append(node)
    around = _brackets(module) if long else []
    edits = (
        _broken_before_item(module, line, limit, by_line[line], around)
        or _broken(module, line, limit, calls[line], by_line[line])
        for line in long
    )
    return tuple(edit for each in edits if all(allowed(e.start) for e in each) for edit in each)


def _line(module: SemanticModel, line: int) -> str:
    return module.source.line_at(module.source.offset(line, 0)).decode(errors="replace")


def _length_before(module: SemanticModel, line: int, by_line: dict[int, list[Written]]) -> int:
    """Return how long a line was before this run."""
    before = sum(max(map(len, span.before.split(b"\n"))) for span in by_line.get(line, ()))
    return len(_line(module, line)) + before - sum(span.end - span.start for span in by_line.get(line, ()))


def _line_length(module: SemanticModel, by_line: dict[int, list[Written]]) -> int:
    """Return the line length that a tool of the project is told, else what all lines without a comment keep.

    Where these keep to no usual length, it is that of the longest.
    """
    if known := module.facts.line_length(module.path):
        return known
    lines = range(1, len(module.source.line_starts) + 1)
    lengths = [_length_before(module, line, by_line) for line in lines if "#" not in _line(module, line)]
    kept = _LENGTHS if sum(map(bool, lengths)) >= _HABIT else _LENGTHS[-1:]
    longest = max(lengths, default=0)
    return next((length for length in kept if longest <= length), longest)


def _broken(
    module: SemanticModel, line: int, limit: int, calls: Sequence[ast.Call], written: Sequence[Written]
) -> list[Edit]:
    """Return the edits that break a line in the arguments of a call, all on one line or each on its own.

    The calls around what this run wrote come first, and of these the outer ones.
    """
    text = _line(module, line)
    if "#" in text or text.endswith("\\"):  # a comment may be for a tool, which looks for it on its line
        return []
    indent = text[: len(text) - len(text.lstrip())]
    plain = [c for c in calls if module.nearest(c, ast.JoinedStr) is None]

    def rank(call: ast.Call) -> tuple[bool, int, int]:
        start, end = module.span(call)
        is_around = any(start <= span.start and span.end <= end for span in written)
        return not is_around, sum(1 for _ in module.enclosing(call, ast.Call)), -call.col_offset

    ways = [_one_by_one(module, module.statement(plain[0]), indent)] if plain else []
    ranked = sorted(plain, key=rank)
    moves = [call for call in ranked if _is_only_word(call)]
    if module.facts.line_length(module.path):  # a tool of the project would break the line there
        ranked = [*(call for call in ranked if call not in moves), *moves]
    else:
        called = {part for call in moves for part in ast.walk(call.func)}  # to break what is moved hides the move
        ranked = [call for call in ranked if call not in moves and call not in called]
    both = itertools.product(ranked, (True, False))
    for edits in itertools.chain(ways, (_spread(module, call, indent, is_whole) for call, is_whole in both)):
        if edits and max(map(len, _with_edits(module, line, edits).splitlines())) <= limit:
            return edits
    return []


def _is_only_word(call: ast.Call) -> bool:
    """Return whether all that a call is given is a name or a call of one, as in `x.to(accel.device())`."""
    match call:
        case ast.Call(args=[only], keywords=[]) | ast.Call(args=[], keywords=[ast.keyword(value=only)]):
            plain = only.func if isinstance(only, ast.Call) and not (only.args or only.keywords) else only
            return chain_of(plain) is not None
    return False


def _one_by_one(module: SemanticModel, statement: ast.stmt, indent: str) -> list[Edit]:
    """Return the edits that make two assignments of `a, b = a.to(d), b.to(d)`; [] if one needs what another binds."""
    match statement:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values) > 1:
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            moves = [
                v
                for v in values
                if isinstance(v, ast.Call) and isinstance(v.func, ast.Attribute) and v.func.attr == "to"
            ]
        case _:
            return []
    read = [{n.id for n in ast.walk(value) if isinstance(n, ast.Name)} for value in values[1:]]
    is_free = len({*names}) == len(values) and not any(used & {*names[: n + 1]} for n, used in enumerate(read))
    text, spans = module.source.utf8, [module.span(part) for part in (*targets, *values)]
    gaps = [text[a:b].strip() for (_, a), (b, _) in itertools.pairwise(spans)]
    commas = [b","] * (len(values) - 1)
    is_whole = _line(module, statement.lineno).strip().encode() == text[spans[0][0] : spans[-1][1]]
    if len(moves) < len(values) or not (is_free and is_whole and gaps == [*commas, b"=", *commas]):
        return []
    pairs = zip(names[1:], itertools.pairwise(spans[len(names) :]), strict=True)
    edits = [Edit(a, b, f"{module.source.newline}{indent}{name} = ") for name, ((_, a), (b, _)) in pairs]
    return [Edit(spans[0][1], spans[len(names)][0], " = "), *edits]


def _with_edits(module: SemanticModel, line: int, edits: Sequence[Edit]) -> str:
    start = module.source.offset(line, 0)
    moved = [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits]
    return compose(_line(module, line).encode(), moved).decode()


def _spread(module: SemanticModel, call: ast.Call, indent: str, is_whole: bool) -> list[Edit]:
    """Return the edits that give the arguments of a call lines of their own; [] if that is not simple."""
    text, newline = module.source.utf8, module.source.newline
    spans = sorted(module.span(part) for part in (*call.args, *call.keywords))
    end = module.span(call)[1] - 1
    start = text.find(b"(", module.span(call.func)[1]) + 1
    gaps = [text[a:b].strip() for (_, a), (b, _) in itertools.pairwise(spans)]
    is_simple = not text[start : spans[0][0]].strip() and not text[spans[-1][1] : end].strip() if spans else False
    if not is_simple or (not is_whole and (len(spans) == 1 or any(gap != b"," for gap in gaps))):
        return []
    inner = indent + _unit(module, call, indent)
    edits = [Edit(start, spans[0][0], newline + inner)]
    if not is_whole:
        edits += [Edit(a, b, f",{newline}{inner}") for (_, a), (b, _) in itertools.pairwise(spans)]
    return [*edits, Edit(spans[-1][1], end, f"{'' if is_whole else ','}{newline}{indent}")]


def _unit(module: SemanticModel, node: ast.AST, indent: str) -> str:
    """Return by how much the file indents a block: the one around a node, else its first."""
    if indent.startswith("\t"):
        return "\t"
    blocks = (n for n in (*module.ancestors(node), *module.nodes) if isinstance(n, (*_DEFINITIONS, ast.If, *_LOOPS)))
    steps = (n.body[0].col_offset - n.col_offset for n in blocks if n.body[0].lineno > n.lineno)
    return " " * next((step for step in steps if step > 0), 4)


@dataclass(frozen=True, slots=True)
class _Bracket:
    """A call or a display of several lines: its node, and the spans of its items in their order."""

    node: ast.expr
    items: tuple[tuple[int, int], ...]


def _brackets(module: SemanticModel) -> list[_Bracket]:
    """Return the calls, lists, tuples, sets and dicts that take several lines, the outer ones first."""
    nodes = (node for node in module.nodes if isinstance(node, ast.expr) and _has_lines(node))
    found = [_Bracket(node, items) for node in nodes if (items := _items(module, node))]
    return sorted(found, key=lambda each: (module.span(each.node)[0], -module.span(each.node)[1]))


def _has_lines(node: ast.AST) -> bool:
    return getattr(node, "lineno", 0) != getattr(node, "end_lineno", 0)


def _items(module: SemanticModel, node: ast.AST) -> tuple[tuple[int, int], ...]:
    match node:
        case ast.Call(args=args, keywords=keywords):
            parts: list[ast.AST] = [*args, *keywords]
        case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts):
            parts = [*elts]
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return tuple((module.span(key)[0], module.span(value)[1]) for key, value in pairs if key is not None)
        case _:
            return ()
    return tuple(sorted(module.span(part) for part in parts))


def _realigned(module: SemanticModel, spans: Sequence[Written], allowed: Allowed) -> tuple[Edit, ...]:
    """Return the edits that move lines which were aligned with an item, as far as this run has moved that item."""
    source = module.source
    changed: dict[int, list[Written]] = {}
    for span in spans:
        changed.setdefault(source.position(span.start)[0], []).append(span)
    grown = {n for n, own in changed.items() if any(len(s.before) != s.end - s.start for s in own)}
    if not any(isinstance(node, ast.expr) and _has_lines(node) and node.lineno in grown for node in module.nodes):
        return ()
    moves: dict[int, int] = {}
    held = _in_strings(module)
    for each in _brackets(module):
        line = source.position(each.items[0][0])[0]
        below = range(line + 1, (each.node.end_lineno or line) + 1)
        by = _moved(module, each.items[0][0], changed.get(line, ()))
        if by and held.isdisjoint(below) and _was_aligned(module, each, below, by):
            moves |= dict.fromkeys(below, moves.get(line, 0) + by)
    edits = (_shifted(module, line, by) for line, by in sorted(moves.items()) if by)
    return tuple(edit for edit in edits if edit and allowed(edit.start))


def _in_strings(module: SemanticModel) -> set[int]:
    """Return the lines that begin in a string."""
    strings = (n for n in module.nodes if isinstance(n, (ast.Constant, ast.JoinedStr)) and _has_lines(n))
    return {line for node in strings for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)}


def _moved(module: SemanticModel, item: int, spans: Sequence[Written]) -> int:
    """Return by how many columns this run has moved an item along its line; 0 if that cannot be said."""
    text = module.source.utf8
    before = [span for span in spans if span.start < item]
    if any(b"\n" in span.before or b"\n" in text[span.start : span.end] or span.end > item for span in before):
        return 0
    return sum(len(text[s.start : s.end].decode()) - len(s.before.decode()) for s in before)


def _was_aligned(module: SemanticModel, bracket: _Bracket, below: Iterable[int], by: int) -> bool:
    """Return whether an item of a later line stood below the first, and nothing of the bracket left of that column."""
    at = _column(module, bracket.items[0][0]) - by
    lines = [line for n in below if (line := _line(module, n)).strip()]
    if lines and lines[-1].lstrip()[0] in ")]}" and _width_of_indent(lines[-1]) == at - 1:
        lines.pop()  # the end of the bracket may stand below its beginning
    aligned = any(_is_head(module, start) and _column(module, start) == at for start, _ in bracket.items[1:])
    return aligned and all(_width_of_indent(line) >= at and "\t" not in line[:at] for line in lines)


def _shifted(module: SemanticModel, line: int, by: int) -> Edit | None:
    """Return the edit that moves a line by some columns."""
    if not _line(module, line).strip():
        return None
    start = module.source.offset(line, 0)
    return Edit(start, start, " " * by) if by > 0 else Edit(start, start - by, "")


def _broken_before_item(
    module: SemanticModel, line: int, limit: int, written: Sequence[Written], around: Sequence[_Bracket]
) -> list[Edit]:
    """Return the edit that breaks a line before an item of a bracket whose items have lines below each other."""
    text = _line(module, line)
    if "#" in text or text.endswith("\\"):
        return []
    for each in around:
        if (column := _column_of(module, each)) is None:
            continue
        pairs = [
            (end, start)
            for (_, end), (start, _) in itertools.pairwise(each.items)
            if module.source.position(end)[0] == line == module.source.position(start)[0]
            and module.source.utf8[end:start].strip() == b","
        ]
        pairs.sort(key=lambda gap: (not any(s.start == gap[0] for s in written), -gap[1]))  # before what was added
        for end, start in pairs:
            head = _column(module, end) + 1
            if head <= limit and column + len(text) - _column(module, start) <= limit:
                return [Edit(end, start, f",{module.source.newline}{' ' * column}")]
    return []


def _column_of(module: SemanticModel, bracket: _Bracket) -> int | None:
    """Return the column that all items of a bracket keep which begin a line, the first item too; None if there is none.

    A bracket with its first item on a line of its own keeps the column of that.
    """
    heads = {_column(module, start) for start, _ in bracket.items if _is_head(module, start)}
    keeps = {*heads, _column(module, bracket.items[0][0])}
    return keeps.pop() if heads and len(keeps) == 1 else None


def _is_head(module: SemanticModel, offset: int) -> bool:
    """Return whether only spaces stand before an offset on its line."""
    line_start = module.source.offset(module.source.position(offset)[0], 0)
    return not module.source.utf8[line_start:offset].strip(b" ")


def _column(module: SemanticModel, offset: int) -> int:
    return module.source.position(offset)[1] - 1


def _width_of_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
