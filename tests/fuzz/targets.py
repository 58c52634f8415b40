# ruff: noqa: E501 - its tables are read by columns
"""What is fuzzed: each target reads bytes, and raises where anything but a documented error comes out or a promise breaks.

A target's seeds are files of this tree and, in `tests/data/fuzz/<target>/`, the inputs that once broke it."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchmigrate.base.text import UserError
from torchmigrate.cli.migration import baseline
from torchmigrate.config import config_file
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Finding, Unchanged
from torchmigrate.engine.case_runner import migrate
from torchmigrate.rewriting.rewrite import RewriteError
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError, Ruleset
from torchmigrate.source import notebook
from torchmigrate.source.encoding import UnreadableSource, decode
from torchmigrate.source.notebook import UnreadableNotebook
from torchmigrate.surveys import api_catalog as catalog

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "tests" / "data" / "fuzz"
# names of files that text rules read, one of each manner of comments and tables
NAMES = (
    "requirements.txt", "environment.yml", "Dockerfile", "setup.cfg", "pyproject.toml", "run.sh", "run.bat",
    "config.json", "kernel.cu", ".github/workflows/test.yml", "tox.ini", "Makefile", "Pipfile", "docker-compose.yml",
)  # fmt: skip
SAMPLE = b"import torch\nx = torch.ones(2).cuda()\ntorch.cuda.synchronize(0)\nf = torch.f(x, y=1)\n"

warnings.simplefilter("ignore")  # `ast.parse` warns of escapes in what is generated


@dataclass(frozen=True, slots=True)
class Target:
    """`read` takes the bytes; `grows` are words that the fuzzer tries."""

    read: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    words: tuple[str, ...] = ()


class Broken(AssertionError):
    """A promise does not hold for these bytes."""


def holds(promise: object, what: str) -> None:
    if not promise:
        raise Broken(what)


@cache
def _folder() -> Path:
    """In memory where the system has that: these files are written thousands of times a second."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))


def _written(name: str, raw: bytes) -> Path:
    path = _folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def _says(error: Exception) -> None:
    """What the user is told: a sentence of its own, in no case a repr of nothing."""
    holds(str(error).strip(), f"an empty message of {type(error).__name__}")


def read_pack(raw: bytes) -> None:
    try:
        rule = packs.load_rule(_written("own/rule.toml", raw))
        rules = dispatch_table(Ruleset({rule.id: rule}))
    except PackError as error:
        _says(error)
        return
    try:
        migrate(SAMPLE, rules)
        migrate(SAMPLE, rules, True, "native")
    except RewriteError as error:
        holds(rule.id in str(error), "an error that does not name the rule")
    if rule.patterns:
        for name in NAMES[:3]:
            _text_findings(rules, name, b"torch==2.1\ncuda: 12\nRUN nvcc x\n")


def read_catalog(raw: bytes) -> None:
    try:
        catalog.read(_written("catalog.toml", raw))
    except PackError as error:
        _says(error)


def read_config(raw: bytes) -> None:
    """A `pyproject.toml`, and the same bytes as a file of its own."""
    for name in ("pyproject.toml", "torchmigrate.toml"):
        path = _written(name, raw)
        try:
            values = config_file.read(path)
        except UserError as error:
            _says(error)
            continue
        settings = Settings(**{"root": _folder(), **values})
        settings.ignored_in(_folder() / "a" / "b.py")
        at = config_file.places(path)
        lines = raw.count(b"\n") + raw.count(b"\r") + 1
        for key in values:
            number = int(at((key.replace("_", "-"),)).rpartition(":")[2])
            holds(1 <= number <= lines, f"line {number} of {lines}")


def read_notebook(raw: bytes) -> None:
    try:
        book = notebook.split(raw)
    except UnreadableNotebook as error:
        _says(error)
        return
    holds(book.join([]) == raw, "a notebook without edits is not as it was")
    for cell in book.cells:
        holds(book.cell_of(cell.start) == (cell.number, 1), "the first line of a cell is in another")
        holds(cell.end - cell.start == len(cell.text.encode()), "a masked cell has another length")


def read_suppressions(raw: bytes) -> None:
    try:
        source = decode(raw)
        found = suppressions.find(source)
    except (UnreadableSource, SyntaxError, RecursionError, MemoryError):
        return
    last = len(source.line_starts)
    for ignore in found.ignores:
        holds(1 <= ignore.covers[0] <= ignore.covers[1] <= last, f"lines {ignore.covers} of {last}")
        holds(found.status(ignore.name, ignore.covers[0]), "a suppression that does not cover its own line")
    holds(all(1 <= line <= last for line, _, _ in found.unused({"device"}, {"device"})), "a line that is not there")


@cache
def _rules() -> DispatchTable:
    return dispatch_table(packs.load(cases=False))


def read_text(raw: bytes) -> None:
    """The first byte says which file it is."""
    name = NAMES[raw[0] % len(NAMES)] if raw else NAMES[0]
    _text_findings(_rules(), name, raw[1:])


def _text_findings(rules: DispatchTable, name: str, raw: bytes) -> None:
    result = rules.texts.inspect(_folder() / "texts" / name, raw)
    if isinstance(result, Unchanged):
        lines = len(raw.splitlines()) + raw.count(b"\r") + 1
        for finding in result.findings:
            inside(finding, 3 * len(raw), lines)  # a bad byte is read as one character of three bytes


def inside(finding: Finding, size: int, lines: int) -> None:
    holds(0 <= finding.start <= finding.end <= size, f"{finding.rule}: bytes {finding.start}-{finding.end} of {size}")
    holds(1 <= finding.line <= finding.end_line <= lines, f"{finding.rule}: line {finding.line} of {lines}")
    holds(finding.column >= 1, f"{finding.rule}: column {finding.column}")
    holds(finding.message, f"{finding.rule}: no message")


def read_baseline(raw: bytes) -> None:
    try:
        found = baseline.read(_written("baseline.json", raw))
    except UserError as error:
        _says(error)
        return
    again = baseline.read(_written("baseline.json", baseline.render(found)))
    holds(again == found, "a baseline that is written is another when read")


def _files(*globs: str, most: int = 20_000) -> Iterator[bytes]:
    for glob in globs:
        for path in sorted(ROOT.glob(glob)):
            if (raw := path.read_bytes()) and len(raw) <= most:
                yield raw


def _rule_files() -> Iterator[bytes]:
    """Without most of their cases, which are nine tenths of them and all alike."""
    for raw in _files("rules/*/*.toml"):
        head, *cases = raw.split(b"[[case]]")
        yield head + b"".join(b"[[case]]" + case for case in cases[:1])


def _text_cases() -> Iterator[bytes]:
    for rule in packs.load().rules.values():
        for number, case in enumerate(rule.cases if rule.patterns else ()):
            if case.file:
                kind = next((i for i, n in enumerate(NAMES) if n.rpartition("/")[2] == case.file), number % len(NAMES))
                yield bytes((kind,)) + case.before.lstrip("\n").encode()


def _suppressed() -> Iterator[bytes]:
    for raw in _files("rules/*/*.toml", "fixtures/*/*.py", most=6_000):
        if b"torch" in raw:
            yield raw.replace(b"\n", b"  # torchmigrate: ignore[device]\n", 3)
    yield b"import torch\n# torchmigrate: ignore[device/tensor-cuda] x\nif x: y = [\n 1,  # torchmigrate: ignore[a, b]\n]\n"
    yield b"# torchmigrate: skip-file\n"


def _configs() -> Iterator[bytes]:
    yield (ROOT / "pyproject.toml").read_bytes()
    yield from (
        b"[tool.torchmigrate]\nselect = ['device']\nexclude = [\n 'a',\n 'b/*',\n]\nunsafe-fixes = true\n",
        b"[tool.torchmigrate]\ntorch = '>=2.6'\nstyle = 'native'\nrule-paths = ['x']\nhelper = 'pkg.accel'\n",
        b"[tool.torchmigrate.per-file-ignores]\n'tests/*' = ['device']\n'!src/**' = ['hazard/generator']\n",
        b"select = ['memory']\nbackends = ['mps', 'xpu']\n[helper-map]\n'pkg.mod' = 'empty_cache'\n",
    )


def _notebooks() -> Iterator[bytes]:
    yield from _files("fixtures/notebook/*.ipynb", most=60_000)
    yield (
        b'{"cells": [{"cell_type": "code", "source": ["%matplotlib inline\\n", "x = !ls\\n", "y.cuda()"]}, '
        b'{"cell_type": "code", "source": "%%time\\nx.cuda()"}, {"cell_type": "markdown", "source": "cuda"}], '
        b'"metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4}'
    )


def _baselines() -> Iterator[bytes]:
    yield baseline.render([baseline.Entry("a.py", "device/tensor-cuda", "00"), baseline.Entry("b", "c", "d")])


_TOML = ("[[", "]]", "'''", '"""', "\\u0000", "\\", " = ", "{", "}", "true", "1979-05-27", "nan", "#", "\r\n")
_RULE = (
    *_TOML, "[[rewrite]]", "[[case]]", "[[pattern]]", "[[where]]", "summary", "safety", "why", "match", "with", "native",
    "torch", "where", "fixer", "on", "files", "message", "literals", "backends", "$x", "$$a", "torch.cuda.f",
    "accel.", "string:device", "unless", "alternative", "siblings", "(?P<at>", "(?P<library>", "{match}", "{instead}",
    "safe", "unsafe", "display", "finding", "title", "before", "after", "beside", "under", "line", "blocks", "see",
)  # fmt: skip
_CONFIG = (
    *_TOML, "[tool.torchmigrate]", "select", "ignore", "per-file-ignores", "exclude", "extend-exclude", "unsafe-fixes",
    "rule-paths", "torch", "runtime", "style", "helper", "helper-map", "backends", "no-cache", "vendor", "native", ">=2.6",
)  # fmt: skip
_BOOK = (
    '"cells"', '"source"', '"cell_type"', '"code"', '"metadata"', '"kernelspec"', '"language"', '"worksheets"', "%%time",
    "%", "!ls", "?", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "null", "[", "{", "NaN", "\\\\\\n", "\\r",
)  # fmt: skip
_COMMENT = (
    "# torchmigrate: ", "ignore[", "skip-file", "]", "device/tensor-cuda", "\\\n", "\r", "\x0c", "match x:\n case 1: ",
    "@d\n", "if x: y", "'''", "f'{x}'", "# coding: latin-1\n", "lambda: 0", ";", "async def f(): ", "(", ")", "\t",
)  # fmt: skip
_TEXT = (
    "# torchmigrate: ignore[build]", "// torchmigrate: ", "\\\n", '"', "'", "torch==2.1+cu118", "--extra-index-url",
    "cu121", "nvidia/cuda:12.1", "FROM ", "RUN ", "ENV ", "cudatoolkit=11.3", "[tool.x]", "rem ", "\xff", "\0",
)  # fmt: skip

TARGETS: Mapping[str, Target] = {
    "pack": Target(read_pack, _rule_files, _RULE),
    "catalog": Target(
        read_catalog, lambda: _files("rules/catalog/*.toml", most=9_000), (*_TOML, "[[api]]", "[verdicts.")
    ),
    "config": Target(read_config, _configs, _CONFIG),
    "notebook": Target(read_notebook, _notebooks, _BOOK),
    "suppressions": Target(read_suppressions, _suppressed, _COMMENT),
    "text": Target(read_text, _text_cases, _TEXT),
    "baseline": Target(
        read_baseline, _baselines, ("format", "version", "findings", "file", "rule", "fingerprint", "\\ud800")
    ),
}


def seeds(name: str) -> list[bytes]:
    """Of the tree, and what once broke it."""
    found = [path.read_bytes() for path in sorted((SEEDS / name).glob("*"))]
    return [*found, *TARGETS[name].seeds()]
