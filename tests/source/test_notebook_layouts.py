"""Notebooks as files: whatever their layout, all but the edited lines stays, byte for byte; made up by hypothesis."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Unchanged
from torchmigrate.engine.worker import Job, Worker
from torchmigrate.project.context import ProjectContext
from torchmigrate.rules import packs
from torchmigrate.source import json_text
from torchmigrate.source.notebook import split

CODE = [
    "x = torch.ones(2).cuda()\n",
    "    y = x.cuda()  # é\n",
    "name = 'cuda <b> & é \\u2028 \U0001f600'\n",
    "z = x + 1\n",
    '# cuda, \\\\ and "quotes"\n',
    "\n",
    "%matplotlib inline\n",
    "!ls cuda \\\n   -l\n",
    "%time w = x.cuda()\n",
    "print('\t', 1.50)\n",
    "torch.cuda.synchronize()\r\n",
]
LINES = st.lists(st.sampled_from(CODE), max_size=6)
NUMBERS = ["1.0e5", "1E+2", "0.10", "-0.0", "12", "1e-07", "123456789012345678901234567890"]


class Number(str):
    """Written as it is spelled."""


def code(lines: list[str]) -> str:
    text = "".join("if x:\n" + line if line.startswith(" ") else line for line in lines)
    return text.removesuffix("\n")


@functools.cache
def worker() -> Worker:
    facts = ProjectContext(Path("/p"), Settings(root=Path("/p"), unsafe_fixes=True), files=("/p/a.ipynb",))
    return Worker(packs.load(cases=False), facts)


class Writer:
    """Writes JSON in a layout of its own: spaces, the order of keys, which characters are escaped."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.escaped = set(self.random.choice(["", "<>&'", "/", "é\U0001f600", "\u2028é"]))
        self.indent = self.random.choice([None, " ", "  ", "    ", "\t"])
        self.newline = self.random.choice(["\n", "\n", "\r\n"])
        self.messy = self.random.random() < 0.3
        self.colon = self.random.choice([":", ": ", " : "])

    def string(self, text: str) -> str:
        def one(character: str) -> str:
            if character == "/" and "/" in self.escaped:
                return "\\/"
            return json.dumps(character, ensure_ascii=character in self.escaped)[1:-1]

        escaped = "".join(f"\\u{ord(c):04x}" if c in self.escaped and c in "<>&'" else one(c) for c in text)
        return f'"{escaped}"'

    def space(self, depth: int) -> str:
        if self.messy:
            return self.random.choice(["", " ", "  ", self.newline, self.newline + " \t"])
        return "" if self.indent is None else self.newline + self.indent * depth

    def write(self, value: Any, depth: int = 1) -> str:
        if isinstance(value, Number):
            return value
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, list):
            parts = [self.write(item, depth + 1) for item in value]
            return self.joined("[", parts, "]", depth)
        if isinstance(value, dict):
            keys = list(value)
            self.random.shuffle(keys)
            return self.joined("{", [f'"{k}"{self.colon}{self.write(value[k], depth + 1)}' for k in keys], "}", depth)
        return json.dumps(value)

    def joined(self, begin: str, parts: list[str], end: str, depth: int) -> str:
        if not parts:
            return begin + end
        return begin + ",".join(self.space(depth) + part for part in parts) + self.space(depth - 1) + end


def source(text: str, seed: int) -> str | list[str]:
    """As a string, as lines, or cut anywhere."""
    how = random.Random(seed)
    kind = how.choice(["string", "lines", "lines", "pieces"])
    if kind == "string":
        return text
    if kind == "lines":
        return text.splitlines(keepends=True)
    cuts = sorted(how.sample(range(len(text) + 1), min(3, len(text))))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def notebook(cells: list[list[str]], seed: int) -> bytes:
    writer = Writer(seed)
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": Number("7"),
            "metadata": {"collapsed": False, "n": Number(writer.random.choice(NUMBERS)), "source": ["x.cuda()\n"]},
            "outputs": [
                {
                    "output_type": "display_data",
                    "data": {"text/plain": ["x.cuda() </b>\n", "é\u2028"], "application/json": Number("1.0e5")},
                    "metadata": {},
                }
            ],
            "source": source("import torch\n" + code(lines) if i == 0 else code(lines), seed + i),
        }
        for i, lines in enumerate(cells)
    ]
    text = {"cell_type": "markdown", "metadata": {}, "source": source("# `x.cuda()` </b>\n\né", seed)}
    made.insert(writer.random.randrange(len(made) + 1), text)
    kernel = {"display_name": "é", "language": "python", "name": "p"}
    data = {"nbformat": Number("4"), "nbformat_minor": Number("4"), "cells": made, "metadata": {"kernelspec": kernel}}
    bom = "\ufeff" * (writer.random.random() < 0.2)
    end = writer.random.choice(["", "\n", "\r\n", "\n\n "])
    return (bom + writer.write(data) + end).encode()


def outside(text: str) -> list[str]:
    """What lies between `source` values."""
    parts, at = [], 0
    for span in json_text.source_spans(text):
        assert span is not None
        parts.append(text[at : span[0]])
        at = span[1]
    return [*parts, text[at:]]


def strings(text: str) -> list[list[str]]:
    """The JSON strings of each `source` value as they are written."""
    found = []
    for span in json_text.source_spans(text):
        assert span is not None
        starts = [span[0]] if text[span[0]] == '"' else list(json_text.items(text, span[0]))
        found.append([text[at : json.JSONDecoder().raw_decode(text, at)[1]] for at in starts])
    return found


def sources(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


@settings(max_examples=60)
@given(st.lists(LINES, min_size=1, max_size=4), st.integers(0, 10**6))
def test_only_lines_of_source_change(cells: list[list[str]], seed: int) -> None:
    raw = notebook(cells, seed)
    assert split(raw).join([]) == raw
    result = worker()(Job("/p/a.ipynb", raw, "apply")).result
    wanted = any(".cuda()" in line or "synchronize" in line for lines in cells for line in lines)
    assert isinstance(result, Changed if wanted else Unchanged), result
    if not isinstance(result, Changed):
        return
    before, after = raw.decode("utf-8-sig"), result.after.decode("utf-8-sig")
    assert result.after.startswith(b"\xef\xbb\xbf") == raw.startswith(b"\xef\xbb\xbf")
    assert outside(before) == outside(after)
    for old, new, was, now in zip(sources(before), sources(after), strings(before), strings(after), strict=True):
        if old == new:
            assert was == now
        kept = [line for line in old.split("\n") if "cuda" not in line]
        assert [line for line in new.split("\n") if line in kept] == kept  # in order, none lost
        written = {json.loads(text): text for text in was}
        assert all(written.get(json.loads(text), text) == text for text in now)  # as it was spelled
        if len(was) > 1 and list(map(json.loads, was)) == old.splitlines(keepends=True):
            assert list(map(json.loads, now)) == new.splitlines(keepends=True)
    book = nbformat.reads(after, as_version=4)
    nbformat.validate(book)
    again = worker()(Job("/p/a.ipynb", result.after, "apply")).result
    assert isinstance(again, Unchanged)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_spelling_of_a_line_outside_an_edit_stays(seed: int) -> None:
    line = "f(x.cuda(), '<b> & é / \U0001f600', \"q\")"
    raw = notebook([[line + "\n", "z = 1\n"]], seed)
    result = worker()(Job("/p/a.ipynb", raw, "apply")).result
    assert isinstance(result, Changed)
    text = Writer(seed).string(line)[1:-1]
    written = strings(result.after.decode("utf-8-sig"))
    joined = "".join(text[1:-1] for cell in written for text in cell)
    assert text.replace("x.cuda()", "x.to(accel.device())") in joined


def test_an_array_cut_anywhere_keeps_its_cuts() -> None:
    raw = b'{"cells": [{"cell_type": "code", "source": ["imp", "ort torch\\nx.cu", "", "da(", ")\\n", "y"]}]}'
    result = worker()(Job("/p/a.ipynb", raw, "apply")).result
    assert isinstance(result, Changed)
    cut = b'["imp", "ort torch\\nimport accel\\n", "x.to(", "accel.device())\\n", "y"]'
    assert result.after == b'{"cells": [{"cell_type": "code", "source": ' + cut + b"}]}"


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_a_cell_may_end_as_it_likes(ending: str) -> None:
    cell = {"cell_type": "code", "source": [f"import torch{ending}", f"torch.ones(1).cuda(){ending}"]}
    result = worker()(Job("/p/a.ipynb", json.dumps({"cells": [cell]}).encode(), "apply")).result
    assert isinstance(result, Changed)
    lines = [f"import torch{ending}", f"import accel{ending}", f"torch.ones(1, device=accel.device()){ending}"]
    assert json.loads(result.after)["cells"][0]["source"] == lines
