"""Find what a device refused and a program got over: who caught the exception, and whether that answers it."""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torchmigrate.base.system import syntax_tree
from torchmigrate.verify.compare import shape
from torchmigrate.verify.diagnosis.failures import first_line
from torchmigrate.verify.migration import Origins

Block = Sequence[ast.stmt]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SUPPRESSES = {"suppress"}
_EXPECTS = {"raises", "assertRaises", "assertRaisesRegex"}  # of pytest and unittest
_SAYS = {
    *("print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log", "write", "flush"),
    *("print_exc", "print_exception", "print_stack"),
}


class End(Enum):
    """The end says what became of an exception: the program answers it, or not, or as the original does not.

    A number in place of what the device should have computed is no answer that shows anything.
    """

    ANSWERED = "the program's own handler says what to do"
    CONSTANT = "a handler puts a constant in its place"
    SILENT = "a handler drops it"
    ADDED = "a handler takes it that the original does not have"
    LEFT = "a handler leaves the device, which the original's does not"
    LOST = "no code of the program hears of it"


@dataclass(frozen=True, slots=True)
class Swallowed:
    """The device refused a call by this exception, and the program went on.

    `form`: its words without numbers and names of devices. `at` and `by`: the places of the call and of what caught it,
    in the original, or "".
    """

    form: str
    words: str
    at: str
    by: str
    end: End
    count: int


def swallowed(reports: Iterable[dict[str, Any]], origin: Origins) -> tuple[Swallowed, ...]:
    """Return what the processes of a run that came to its end were refused; `origin` maps lines of the copy that ran.

    What a library tries and answers by itself is left out, and so are what a test expects and memory that runs out,
    which depends on the machine.
    """
    found: dict[tuple[object, ...], Swallowed] = {}
    for record in (record for report in reports for record in report.get("refused") or ()):
        made = _follow(record, origin)
        if made is not None:
            key = (made.words, made.at, made.by, made.end)
            known = found.get(key)
            count = made.count + (known.count if known else 0)
            found[key] = Swallowed(made.form, made.words, made.at, made.by, made.end, count)
    return tuple(found.values())


def _follow(record: dict[str, Any], origin: Origins) -> Swallowed | None:
    """Follow an exception outwards from the call that was refused to the frame that catches it."""
    kind = str(record["type"])
    if "out of memory" in record["message"]:
        return None
    words = f"{kind}: {first_line(str(record['message']))}"
    at = ""
    perhaps: tuple[End | None, str] | None = None

    def made(end: End, by: str) -> Swallowed:
        return Swallowed(shape(words), words, at, by, end, int(record["count"]))

    for frame in reversed(record["frames"]):
        file, line = frame["file"], frame["line"]
        here = origin(file, line)
        at = at or (f"{here.path}:{here.line}" if here else "")
        for catch in _catches(file, frame["function"], frame["first"], line, kind):
            if catch.expected:
                return None
            if here is None and not catch.certain:
                continue  # a library's handler that raises it again
            if here is None:
                end, by = (End.LOST, "") if at else (None, "")
            else:
                found = origin(file, catch.line)
                end, by = _end_of(catch, file, origin), f"{found.path}:{found.line}" if found else ""
                if end is End.CONSTANT and _asks_the_machine(record["frames"]):
                    end = End.ANSWERED
            if catch.certain:
                return made(end, by) if end else None
            perhaps = perhaps or (end, by)
    if perhaps is not None:
        end, by = perhaps
        return made(end, by) if end else None
    return made(End.LOST, "") if at else None


@dataclass(frozen=True, slots=True)
class _Catch:
    """Return what catches an exception at `line`: a handler of `whole`, or a context manager.

    `refused`: the statement of the block that failed. `certain`: it does not raise it again, and takes the type.
    """

    line: int
    whole: ast.Try | ast.With | ast.AsyncWith
    handler: ast.ExceptHandler | None
    refused: int
    function: Block
    certain: bool = True
    expected: bool = False


def _catches(file: str, function: str, first: int, line: int, kind: str) -> Iterator[_Catch]:
    """Yield what catches an exception of this kind on a line, the innermost first."""
    module = _tree(file)
    body = None if module is None else _body(module, function, first, line)
    if module is None or body is None:
        return
    for statement in reversed(list(_around(body, line))):
        if isinstance(statement, ast.Try):
            at = next((i for i, each in enumerate(statement.body) if _spans(each, line)), None)
            if at is None:
                continue  # in a handler, or in `else`, where nothing of it catches
            for handler in statement.handlers:
                takes = _takes(handler.type, kind, module)
                if takes is not False:
                    again = any(isinstance(node, ast.Raise) for each in handler.body for node in _walk(each))
                    certain = takes is True and not again
                    yield _Catch(handler.lineno, statement, handler, at, body, certain)
                    break
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            at = next((i for i, each in enumerate(statement.body) if _spans(each, line)), None)
            for item in statement.items if at is not None else ():
                call = item.context_expr
                name = _last_name(call.func) if isinstance(call, ast.Call) else ""
                if name in _SUPPRESSES | _EXPECTS and isinstance(call, ast.Call):
                    each = [_takes(argument, kind, module) for argument in call.args]
                    if True in each or None in each:
                        expected = name in _EXPECTS
                        yield _Catch(statement.lineno, statement, None, at or 0, body, True in each, expected)


def _takes(wanted: ast.expr | None, kind: str, module: ast.Module) -> bool | None:
    """Return whether a handler for `wanted` takes an exception of this kind; None if that is not known."""
    if wanted is None:
        return True
    if isinstance(wanted, ast.Tuple):
        each = [_takes(part, kind, module) for part in wanted.elts]
        return True if True in each else (None if None in each else False)
    name = _last_name(wanted)
    known, raised = getattr(builtins, name, None), getattr(builtins, kind, RuntimeError)
    if isinstance(known, type) and issubclass(known, BaseException):
        return issubclass(raised, known)
    if isinstance(wanted, ast.Name):
        for statement in module.body:
            if isinstance(statement, ast.Assign) and any(_is_name(t, name) for t in statement.targets):
                return _takes(statement.value, kind, module) if not _is_name(statement.value, name) else None
    return False if name.endswith("OutOfMemoryError") else None


def _end_of(catch: _Catch, file: str, origin: Origins) -> End:
    """Return what a handler of the program makes of an exception."""
    before = _handler_before(catch, file, origin)
    if before is None:
        return End.ADDED
    if catch.handler is None:
        return End.ANSWERED if _notes_success(catch) else End.SILENT
    if _leaves_device(catch.handler) and not _leaves_device(before):
        return End.LEFT
    if _puts_constant(catch.handler.body, catch.whole):
        return End.CONSTANT
    if not _is_silent(catch.handler.body, catch.whole) or _notes_success(catch) or _tries_another_way(catch):
        return End.ANSWERED
    return End.SILENT


def _handler_before(catch: _Catch, file: str, origin: Origins) -> ast.AST | None:
    """Return the handler, or context manager, of the original in the place of one that ran; None if it has none."""
    own = catch.handler or catch.whole
    lines = origin.before(file)
    if lines is None:
        return own  # the file is the original's
    module = _parse(b"".join(lines))
    found = origin(file, catch.line)
    if module is None or found is None:
        return None
    for node in ast.walk(module):
        if type(node) is type(own) and getattr(node, "lineno", 0) == found.line and _same_types(node, own):
            return node
    return None


def _same_types(a: ast.AST, b: ast.AST) -> bool:
    def caught(node: ast.AST) -> list[ast.AST | None]:
        if isinstance(node, ast.ExceptHandler):
            return [node.type]
        return [item.context_expr for item in getattr(node, "items", ())]

    return [each and ast.dump(each) for each in caught(a)] == [each and ast.dump(each) for each in caught(b)]


def _leaves_device(handler: ast.AST) -> bool:
    """Return whether a handler speaks of the CPU: `.cpu()`, `.numpy()`, "cpu"."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in ("cpu", "numpy"))
        or (isinstance(node, ast.Constant) and node.value == "cpu")
        for node in ast.walk(handler)
    )


def _asks_the_machine(frames: Sequence[dict[str, Any]]) -> bool:
    """Return whether what was refused is a question about the device (its free memory): a constant answers that."""
    places = ((str(frame["file"]).replace("\\", "/"), frame["function"]) for frame in frames)
    return any("/torch/cuda/" in file and function != "_lazy_init" for file, function in places)


def _puts_constant(body: Block, whole: ast.stmt) -> bool:
    """Return whether a handler gives a number where the block gives what it has computed: to whom it gives that."""
    assert isinstance(whole, ast.Try)
    computed = {form for each in (*whole.body, *whole.orelse) for form, value in _given(each) if not _is_number(value)}
    return any(form in computed and _is_number(value) for each in body for form, value in _given(each))


def _given(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the values that a statement and those below it assign, return or append, and where each goes."""
    for node in _walk(statement):
        if isinstance(node, ast.Return) and node.value is not None:
            yield "return", node.value
        elif isinstance(node, ast.Assign):
            yield from ((ast.dump(target), node.value) for target in node.targets)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            yield ast.dump(node.target), node.value
        elif isinstance(node, ast.Call) and _last_name(node.func) == "append" and len(node.args) == 1:
            yield ast.dump(node.func), node.args[0]


_MADE_OF_NUMBERS = {"float", "tensor", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like"}


def _is_number(value: ast.expr) -> bool:
    """Return whether an expression is a number, or a tensor or a tuple of such: `0.0`, `torch.zeros(3)`."""
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    if isinstance(value, (ast.Tuple, ast.List)):
        return bool(value.elts) and all(map(_is_number, value.elts))
    if isinstance(value, ast.Attribute):
        return value.attr in ("nan", "inf")
    return isinstance(value, ast.Call) and _last_name(value.func) in _MADE_OF_NUMBERS and not _names_data(value)


def _names_data(call: ast.Call) -> bool:
    """Return whether `torch.tensor(...)` or `float(...)` is given anything but constants."""
    if _last_name(call.func) not in ("float", "tensor"):
        return False
    first = call.args[0] if call.args else None
    return not (first is not None and (_is_number(first) or isinstance(first, ast.Constant)))


def _is_silent(body: Block, whole: ast.stmt) -> bool:
    """Return whether a handler's statements do nothing but go on, and speak of it."""
    returns = isinstance(whole, ast.Try) and any(
        isinstance(node, ast.Return) and node.value is not None for each in whole.body for node in _walk(each)
    )
    return all(_says_only(statement, returns) for statement in body)


def _says_only(statement: ast.stmt, returns: bool) -> bool:
    if isinstance(statement, (ast.Pass, ast.Continue, ast.Break, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(statement, ast.Return):
        # None is an answer where the function has others
        empty = statement.value is None or (isinstance(statement.value, ast.Constant) and statement.value.value is None)
        return empty and not (returns and statement.value is not None)
    if isinstance(statement, ast.Expr):
        call = statement.value
        return isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and _last_name(call.func) in _SAYS)
    if isinstance(statement, ast.If):
        return all(_says_only(each, returns) for each in (*statement.body, *statement.orelse))
    return False


def _notes_success(catch: _Catch) -> bool:
    """Return whether the block, after what was refused, sets or returns a constant: the program asks what there is."""
    rest = [*catch.whole.body[catch.refused + 1 :], *getattr(catch.whole, "orelse", ())]
    return any(
        isinstance(each, (ast.Assign, ast.AnnAssign, ast.Return)) and isinstance(each.value, ast.Constant)
        for each in rest
    )


def _tries_another_way(catch: _Catch) -> bool:
    """Return whether the block leaves where it goes well, and other code follows where it does not.

    A loop that tries the same again is no other way.
    """
    assert catch.handler is not None
    good, bad = [*catch.whole.body, *getattr(catch.whole, "orelse", ())][-1], catch.handler.body[-1]
    if isinstance(bad, ast.Return) or type(bad) is type(good):
        return False
    if isinstance(good, ast.Break):
        return _is_of_loop(catch)
    return isinstance(good, ast.Return) and any(each.lineno > (catch.whole.end_lineno or 0) for each in catch.function)


def _is_of_loop(catch: _Catch) -> bool:
    """Return whether the block works on what the loop around it goes through."""
    around = list(_around(catch.function, catch.whole.lineno))
    loop = next((each for each in reversed(around) if isinstance(each, (ast.For, ast.AsyncFor))), None)
    if loop is None:
        return False
    wanted = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    used = (node for each in catch.whole.body for node in ast.walk(each))
    return any(isinstance(node, ast.Name) and node.id in wanted for node in used)


def _around(body: Block, line: int) -> Iterator[ast.stmt]:
    """Yield the statements that hold a line, the outermost first, without those of inner functions."""
    for statement in body:
        if not _spans(statement, line):
            continue
        yield statement
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            return
        for child in ast.iter_child_nodes(statement):
            blocks = [child.body] if isinstance(child, (ast.ExceptHandler, ast.match_case)) else []
            for block in blocks:
                yield from _around(block, line)
        for name in ("body", "orelse", "finalbody"):
            yield from _around(getattr(statement, name, ()), line)


def _body(module: ast.Module, function: str, first: int, line: int) -> Block | None:
    """Return the statements of the function, or class, that begins on a line; None for lambdas and comprehensions.

    What torch.compile makes of a function has another name.
    """
    if function == "<module>":
        return module.body
    if function.startswith("<"):
        return None
    named = [node for node in ast.walk(module) if isinstance(node, (*_FUNCTIONS, ast.ClassDef))]
    exact = (node for node in named if node.name == function and first == _first_line(node))
    around = sorted((node for node in named if _spans(node, line)), key=lambda node: -node.lineno)
    found = next(exact, None) or next(iter(around), None)
    return found.body if found else None


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it, without those of inner functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_FUNCTIONS, ast.Lambda)):
            yield from _walk(child)


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _tree(file: str) -> ast.Module | None:
    try:
        path = Path(file)
        return _tree_of(file, path.stat().st_mtime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=64)
def _tree_of(file: str, changed: int) -> ast.Module | None:
    return _parse(Path(file).read_bytes())


def _parse(source: bytes) -> ast.Module | None:
    """Return the tree of some code, or None. Runs are read by several threads, which Python 3.11 may mix up."""
    for _ in range(_TRIES):
        try:
            return syntax_tree(source)
        except (SyntaxError, ValueError, RecursionError):
            return None
        except SystemError:  # "AST constructor recursion depth mismatch": two threads made trees at once
            continue
    return None


_TRIES = 5
