"""Record exceptions with the tensors that took part, and find the suspects: those on an unexpected device."""

from __future__ import annotations

import ast
import itertools
import linecache
import re
import sys
import time
import types
from collections import Counter
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from . import provenance
from .frames import MISSING, Entry, evaluate, failed_expression, is_own, operands, parts, readable

_MOST = 2000  # tensors taken from one expression
_VISITED = 5000  # objects visited while looking for them
_WIDTH = 500  # items visited of one container
_LISTED, _SUSPECTED, _OUTWARD = 20, 5, 8


_LONGEST_MESSAGE = 2000  # characters


_LONGEST_EXPRESSION = 200  # characters


_MOST_FRAMES = 100  # at each end of a traceback


_DEEPEST_CONTAINER = 3  # levels of containers and objects; modules count no level
_WIDE = ("float64", "complex128")
_SAYS_WIDE = re.compile(r"float64|double|fp64", re.IGNORECASE)
_WANTS_HOST = re.compile(
    r"to numpy|should be a 1D CPU|must be on (the )?CPU|ByteTensor|cannot pin|dense CPU", re.IGNORECASE
)
_SAYS_CPU = re.compile(r"\bcpu\b")
_HOLDS_NONE = (str, bytes, int, float, type, types.ModuleType, types.FunctionType)
_OFF_DEVICE = ("cpu", "meta", "numpy")


class Found(NamedTuple):
    """A tensor, generator or array was found, with its text in the frame and the variable that led to it."""

    name: str
    root: str
    value: Any


def find(entries: list[Entry], message: str, project: str) -> dict[str, Any]:
    """Find the tensors of the failed expression in the project's innermost frame, and the suspects.

    `expression` and `tensors` are of that frame; `suspects` of that frame, its callers or torch's own. Each tensor has
    a name, device ("numpy" for an array), dtype ("torch.Generator" for a generator, "" if not known) and shape; a
    suspect also has the file and line of its frame, where it was `made`, and `guard`: the statement that would have put
    it elsewhere. `parts` is the number of tensors if a whole module or container is suspected.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not entries:
        return {"expression": None, "tensors": [], "suspects": []}
    try:
        with torch._C.DisableTorchFunctionSubclass():  # keeps the code of tensor subclasses from running
            return _find(entries, message, project)
    except Exception:
        return {"expression": None, "tensors": [], "suspects": []}


def _find(entries: list[Entry], message: str, project: str) -> dict[str, Any]:
    own = [i for i in range(len(entries)) if is_own(entries[i].file, project)][: -_OUTWARD - 1 : -1]
    found = {i: list(_tensors_at(entries[i])) for i in own}
    last = len(entries) - 1
    inner = found.get(last) or list(_tensors_at(entries[last]))
    listed = found[own[0]] if own else inner
    return {
        "expression": _source_text(entries[own[0]]) if own else None,
        "tensors": [_describe(each) for each in listed[:_LISTED]],
        "suspects": _suspects(entries, found, inner, message, project),
    }


def _suspects(
    entries: list[Entry], found: dict[int, list[Found]], inner: list[Found], message: str, project: str
) -> list[dict[str, Any]]:
    """Return the suspects of the innermost frame under the project's names, else those of the project's frames."""
    last, here = len(entries) - 1, next(iter(found), None)
    # variables first: a tensor inside a module or container may be on the CPU for good reason
    named = {} if here is None else {here: [each for each in found[here] if each.name == each.root]}
    suspects = _find_in_project(_find_odd(inner, message), found) or _first_odd(named, inner, message)
    if not suspects and here is not None and (unnamed := _find_unnamed(entries[here], message)):
        return [unnamed]
    suspects = suspects or _first_odd(found, inner, message) or [(last, each) for each in _find_odd(inner, message)]
    return [_suspect(*group, entries, project) for group in _group_by_variable(suspects, {last: inner, **found})]


def _find_unnamed(entry: Entry, message: str) -> dict[str, Any] | None:
    """Return the one operand without a name, as in `self.embed(torch.arange(3))`, if all others are in order."""
    node = failed_expression(entry)
    unnamed = [each for each in _single(operands(node)) if _is_unnamed(each, entry.frame)] if node else []
    if len(unnamed) != 1 or not _SAYS_CPU.search(message):
        return None
    place = {"file": entry.file, "line": unnamed[0].lineno}
    tensor = {
        "name": ast.unparse(unnamed[0])[:_LONGEST_EXPRESSION],
        "device": "cpu",
        "dtype": "",
        "shape": [],
        "parts": 1,
    }
    return {**tensor, **place, "made": place, "guard": None}


_ABOUT_SHAPE = ("shape", "size", "dim", "ndim", "numel", "dtype")  # which say nothing of a device


def _single(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    """Yield operands, and those in lists of them, as in `torch.cat([a, b], -1)`."""
    for node in nodes:
        if isinstance(node, (ast.List, ast.Tuple)):
            yield from _single(node.elts)
        else:
            yield node


def _is_unnamed(node: ast.expr, frame: types.FrameType) -> bool:
    """Return whether an operand cannot be read without running code, and uses no tensor on the device."""
    runs = any(isinstance(part, (ast.Call, ast.BinOp, ast.Subscript, ast.Attribute)) for part in ast.walk(node))
    if not runs or evaluate(node, frame) is not MISSING:
        return False
    return not any(_is_tensor(value) and str(value.device) not in _OFF_DEVICE for value in _used(node, frame))


def _used(node: ast.AST, frame: types.FrameType) -> Iterator[Any]:
    """Yield the values of names in an expression, but for those that are asked for their shape alone."""
    if isinstance(node, ast.Attribute) and node.attr in _ABOUT_SHAPE:
        return
    value = evaluate(node, frame)
    if value is not MISSING:
        yield value
        return
    for child in ast.iter_child_nodes(node):
        yield from _used(child, frame)


def _source_text(entry: Entry) -> str | None:
    node = failed_expression(entry)
    compound = isinstance(node, ast.stmt) and hasattr(node, "body")  # before Python 3.11
    if node is None or compound:
        return linecache.getline(entry.file, entry.line).strip()[:_LONGEST_EXPRESSION] or None
    return ast.unparse(node)[:_LONGEST_EXPRESSION]


def _find_in_project(odd: list[Found], found: dict[int, list[Found]]) -> list[tuple[int, Found]]:
    """Return the tensors of the innermost frame, which may be torch's, under the project's names for them."""
    names = ((i, known) for each in odd for i in found for known in found[i] if known.value is each.value)
    return list({id(known.value): (i, known) for i, known in reversed(list(names))}.values())[::-1]


def _first_odd(found: dict[int, list[Found]], inner: list[Found], message: str) -> list[tuple[int, Found]]:
    for i, tensors in found.items():
        inside = {id(each.value) for each in tensors}
        odd = [(i, each) for each in _find_odd([*tensors, *inner], message) if id(each.value) in inside]
        if odd:
            return odd
    return []


def _find_odd(tensors: list[Found], message: str) -> list[Found]:
    """Return the tensors that explain the message; one without dimensions, a number, may be on the CPU."""
    shown = [(each, _describe(each)) for each in tensors]
    if _SAYS_WIDE.search(message):
        return [each for each, described in shown if described["dtype"].rpartition(".")[2] in _WIDE]
    if "generator" in message:
        return [each for each, described in shown if described["dtype"] == "torch.Generator"]
    devices = Counter(described["device"] for _, described in shown if described["device"] not in _OFF_DEVICE)
    if _WANTS_HOST.search(message):
        return [each for each, described in shown if described["device"] in devices]
    if devices or "device" in message:
        on_host = [
            (each, described)
            for each, described in shown
            if described["device"] == "cpu" and described["dtype"] != "torch.Generator"
        ]
        if on_host:
            return [each for each, described in on_host if described["shape"]] or [each for each, _ in on_host]
    usual = max(devices, key=lambda device: devices[device], default="")
    return [each for each, described in shown if described["device"] in devices and described["device"] != usual]


def _group_by_variable(
    suspects: list[tuple[int, Found]], found: dict[int, list[Found]]
) -> list[tuple[int, Found, int]]:
    """Merge all tensors of a variable into one suspect if all of them are on the same device."""
    groups: dict[tuple[int, str], list[Found]] = {}
    for i, each in suspects:
        groups.setdefault((i, each.root), []).append(each)
    result: list[tuple[int, Found, int]] = []
    for (i, root), members in groups.items():
        all_of_it = [each for each in found[i] if each.root == root]
        whole = len(all_of_it) > 1 and len({(str(each.value.device), each.value.dtype) for each in all_of_it}) == 1
        first = Found(root, root, members[0].value)
        result += [(i, first, len(all_of_it))] if whole else [(i, member, 1) for member in members]
    return result[:_SUSPECTED]


def _suspect(i: int, each: Found, count: int, entries: list[Entry], project: str) -> dict[str, Any]:
    place = {"file": entries[i].file, "line": entries[i].line, "parts": count}
    return {**_describe(each), **place, **provenance.where(each.name, each.value, entries, i, project)}


def _describe(each: Found) -> dict[str, Any]:
    value, kind = each.value, type(each.value).__name__
    device = "numpy" if kind == "ndarray" else str(value.device)
    dtype = "torch.Generator" if kind == "Generator" else str(value.dtype)
    return {"name": each.name, "device": device, "dtype": dtype, "shape": [int(n) for n in getattr(value, "shape", ())]}


def _tensors_at(entry: Entry) -> Iterator[Found]:
    node = failed_expression(entry)
    if node is None:
        return
    seen: set[int] = set()
    values = ((text, value) for text, value in readable(node, entry.frame))
    found = (
        Found(name, text, tensor)
        for text, value in values
        for name, tensor in _tensors_in(text, value, _DEEPEST_CONTAINER, seen)
    )
    yield from itertools.islice(found, _MOST)


def _tensors_in(name: str, value: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if (
        len(seen) > _VISITED
        or id(value) in seen
        or isinstance(value, (str, bytes, int, float, type, types.ModuleType, types.FunctionType))
    ):
        return
    seen.add(id(value))
    if _is_tensor(value):
        yield name, value
    elif depth:
        module = _is_module(value)
        for text, part in _children(name, value, module):
            yield from _tensors_in(text, part, depth if module and _is_module(part) else depth - 1, seen)


def _is_tensor(value: Any) -> bool:
    torch, array = sys.modules["torch"], getattr(sys.modules.get("numpy"), "ndarray", None)
    return issubclass(type(value), (torch.Tensor, torch.Generator, *((array,) if array else ())))


def _is_module(value: Any) -> bool:
    return issubclass(type(value), sys.modules["torch"].nn.Module)


def _children(name: str, value: Any, module: bool) -> Iterator[tuple[str, Any]]:
    if issubclass(type(value), dict):
        items = itertools.islice(dict.items(value), _WIDTH)
        yield from ((f"{name}[{k!r}]" if isinstance(k, (str, int)) else f"{name}[...]", part) for k, part in items)
    elif type(value) in (list, tuple):
        yield from ((f"{name}[{k}]", part) for k, part in enumerate(value[:_WIDTH]))
    else:
        stored = itertools.islice(parts(value).items(), _WIDTH)
        yield from ((f"{name}[{k}]" if str(k).isdigit() and module else f"{name}.{k}", part) for k, part in stored)


_CAUSES = 5


def of_exception(error: BaseException, project: str, causes: int = _CAUSES) -> dict[str, Any]:
    """Return the record of an exception; `cause` is the record of the one it came "from" or while "handling"."""
    entries = list(_entries(error.__traceback__))
    raised_from, handled = error.__cause__, None if error.__suppress_context__ else error.__context__
    record = _record(type(error).__name__, _message(error), entries, project)
    if isinstance(error, SyntaxError) and error.filename:
        record["frames"].append({"file": error.filename, "line": error.lineno or 1, "function": "<module>"})
    cause = _cause(raised_from, "from", project, causes) or _cause(handled, "handling", project, causes)
    return {**record, "cause": cause}


def _cause(error: BaseException | None, where: str, project: str, causes: int) -> dict[str, Any] | None:
    return {**of_exception(error, project, causes - 1), "where": where} if error is not None and causes else None


def of_exit(status: Any, caller: FrameType, project: str) -> dict[str, Any]:
    """Return the record of sys.exit(status); its `cause` is the exception that was being handled."""
    record = _record("SystemExit", _status(status), list(_stack(caller)), project)
    return {**record, "cause": _cause(sys.exc_info()[1], "handling", project, _CAUSES)}


def _record(kind: str, message: str, entries: list[Entry], project: str) -> dict[str, Any]:
    shown = entries if len(entries) <= 2 * _MOST_FRAMES else entries[:_MOST_FRAMES] + entries[-_MOST_FRAMES:]
    return {
        "type": kind,
        "message": message[:_LONGEST_MESSAGE],
        "time": time.time(),
        "frames": [{"file": e.file, "line": e.line, "function": e.frame.f_code.co_name} for e in shown],
        **find(entries[-_MOST_FRAMES:], message, project),
        "cause": None,
    }


def _message(error: BaseException) -> str:
    try:
        return _status(error.code) if isinstance(error, SystemExit) else str(error)
    except Exception as unprintable:
        return f"(its text cannot be read: {type(unprintable).__name__})"


def _status(code: Any) -> str:
    return str(int(code)) if isinstance(code, bool) else str(code)  # unittest exits with True


def _entries(traceback: TracebackType | None) -> Iterator[Entry]:
    while traceback is not None:
        yield Entry(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti)
        traceback = traceback.tb_next


def _stack(frame: FrameType | None) -> Iterator[Entry]:
    """Yield a frame and its callers, outermost first."""
    if frame is not None:
        yield from _stack(frame.f_back)
        yield Entry(frame, frame.f_lineno, frame.f_lasti)
