"""Diagnose a failed run: the project's line, the rules that rewrote it, and the likely cause.

For a run whose work was done on the CPU it names the conditions about CUDA that are left.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchmigrate.base.system import syntax_tree
from torchmigrate.torch_api.backends import having
from torchmigrate.verify import migration
from torchmigrate.verify.diagnosis import causes, failures
from torchmigrate.verify.diagnosis.causes import Cause
from torchmigrate.verify.diagnosis.failures import Failure, Frame, Place, first_line
from torchmigrate.verify.migration import Origin

_INSTALLED = {"site-packages", "dist-packages"}
_ABOUT_CUDA = re.compile(r"cuda|nvidia|\bgpu", re.IGNORECASE)
_EXITS = ("sys.exit", "exit", "quit", "SystemExit", "os._exit")
_REFUSES = (ast.Raise, ast.Assert)
Origins = Callable[[str, int], Origin | None]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A diagnosis explains a failed run; `path` and `line` in the original are None if no line was involved."""

    path: str | None
    line: int | None
    rules: tuple[str, ...]
    cause: str
    exception: str = ""
    about: tuple[str, ...] = ()
    """The rules whose findings in other lines may name where it began."""

    @property
    def place(self) -> str:
        """Return the place as "train.py:12", or "" if no line of the project is known."""
        return "" if self.path is None else f"{self.path}:{self.line}"


def diagnose(reports: list[dict[str, Any]], origin: Origins, project: Path, stderr: str = "") -> Diagnosis | None:
    """Diagnose the first failure of a run; None if neither the reports nor `stderr` show an exception.

    `reports`: the reports of the run's processes (simulated/recorder). `origin`: maps a file and line of the copy that
    ran to the original, None for files outside the project. `project`: the root of that copy.
    """

    def is_own(frame: Frame) -> bool:
        installed = _INSTALLED & set(Path(frame.file).parts)
        return not installed and origin(frame.file, frame.line) is not None

    failure = failures.first(reports, is_own, stderr) or _find_refusal(stderr, project)
    if failure is None:
        return None
    frame = next(filter(is_own, reversed(failure.frames)), None)
    found = origin(frame.file, frame.line) if frame else None
    cause = _find_cause(failure, frame, _place_namer(origin))
    exception = f"{failure.kind}: {first_line(failure.message)}".rstrip(": ")
    if found is None:
        return Diagnosis(None, None, (), cause.words, exception, cause.rules)
    return Diagnosis(found.path, found.line, found.rules, cause.words, exception, cause.rules)


def _place_namer(origin: Origins) -> Place:
    def place(file: str, line: int) -> str:
        found = origin(file, line)
        return f"{found.path}:{found.line}" if found else f"{Path(file).name}:{line}"

    return place


def _find_cause(failure: Failure, frame: Frame | None, place: Place) -> Cause:
    """Return the first explanation: a refusal, a known exception, one being handled, the exception's own words."""
    code = str(failure.read("expression") or (linecache.getline(frame.file, frame.line).strip() if frame else ""))
    handled = failure.handled
    refusal = _explain_refusal(frame) if frame and frame == failure.frames[-1] else None
    return (
        (Cause(refusal) if refusal else None)
        or causes.explain(failure, code, place)
        or (causes.explain(handled, str(handled.read("expression") or ""), place) if handled else None)
        or Cause(_quote_exception(failure))
    )


def _quote_exception(failure: Failure) -> str:
    if failure.kind == "SystemExit" and failure.follows:
        return f"the program itself ends with exit status {failure.message}"
    return f"{failure.kind}: {first_line(failure.message)}".rstrip(": ")


def _explain_refusal(frame: Frame) -> str | None:
    """Explain a line of the project that raises, asserts or exits because CUDA is missing; else return None."""
    module = _tree(frame.file)
    around = [node for node in ast.walk(module) if isinstance(node, ast.stmt) and _spans(node, frame.line)]
    statement = max(around, key=lambda node: (node.lineno, node.col_offset), default=None)
    if statement is None or not (isinstance(statement, _REFUSES) or _exits(statement)):
        return None
    lacks = [node for node in around if _ABOUT_CUDA.search(_missing_test(node, frame.line))]
    if not lacks and not _ABOUT_CUDA.search(ast.unparse(statement)):
        return None
    test = f", whose test is `{first_line(_missing_test(lacks[-1], frame.line))}`" if lacks else ""
    return f"the program itself refuses to run without CUDA: a CUDA-only branch is left{test}"


def _missing_test(node: ast.stmt, line: int) -> str:
    """Return the test that leads to a line when something is missing: of `if not ...`, `else` or `assert`; else ""."""
    if isinstance(node, ast.Assert):
        return ast.unparse(node.test)
    if not isinstance(node, ast.If):
        return ""
    negated = isinstance(node.test, ast.UnaryOp) or bool(re.search(r"!=|\bnot\b|== False", ast.unparse(node.test)))
    in_body = any(_spans(inner, line) for inner in node.body)
    return ast.unparse(node.test) if in_body == negated else ""


def _exits(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    return isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _tree(file: str) -> ast.Module:
    try:
        return syntax_tree("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _find_refusal(stderr: str, project: Path) -> Failure | None:
    """Find the call that printed the last line of stderr; `raise SystemExit("text")` leaves no report."""
    last_line = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    if not last_line:
        return None
    for path in sorted(project.rglob("*.py")):
        if last_line in path.read_text(encoding="utf-8", errors="replace") and not _INSTALLED & set(path.parts):
            calls = (
                node
                for node in ast.walk(_tree(str(path)))
                if isinstance(node, ast.Call) and _exits_with(node, last_line)
            )
            if call := next(calls, None):
                return Failure("SystemExit", last_line, (Frame(str(path), call.lineno),))
    return None


def _exits_with(call: ast.Call, text: str) -> bool:
    return _exits(call) and any(isinstance(word, ast.Constant) and word.value == text for word in call.args)


_NAMES = (*having("cuda"), "nvidia")
_WORDS = (*_NAMES, "gpu")
_SHOWN = 3


def conditions_left(origins: migration.Origins, files: Iterable[str]) -> list[str]:
    """Return the conditions in these files of the rewritten project, as "train.py:12 `torch.version.cuda`".

    Those that name CUDA come first, before those that speak of a GPU.
    """
    found = [
        (not any(_holds(node, _NAMES) for node in ast.walk(test)), f"{origin.path}:{origin.line} `{text}`")
        for name in sorted(files)
        for test in _conditions(origins.root / name)
        if (origin := origins(str(origins.root / name), test.lineno)) and (text := first_line(ast.unparse(test)))
    ]
    return [shown for _, shown in sorted(dict.fromkeys(found), key=lambda each: each[0])][:_SHOWN]


def _conditions(path: Path) -> Iterator[ast.expr]:
    """Yield the tests about CUDA of statements and conditional expressions, and the flags that are set by one."""
    try:
        module = syntax_tree(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(module):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            tests = [node.test]
        elif isinstance(node, ast.Assign) and _is_question(node.value):
            tests = [node.value]
        else:
            continue
        yield from (test for test in tests if any(_holds(part, _WORDS) for part in ast.walk(test)))


def _is_question(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr.startswith(("is_", "has_")) or value.func.attr == "device_count"
    return isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp))


def _holds(node: ast.AST, words: Iterable[str]) -> bool:
    """Return whether a name or text holds one of the words."""
    name = {ast.Name: "id", ast.Attribute: "attr", ast.Constant: "value"}.get(type(node), "")
    text = getattr(node, name, None) if name else None
    return isinstance(text, str) and any(word in text.lower() for word in words)
