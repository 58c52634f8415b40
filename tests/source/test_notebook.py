"""Notebooks: one module out of the cells, edits back into `source` values, nothing else touched."""

from __future__ import annotations

import ast
import json
from typing import Any

import nbformat
import pytest

from torchmigrate.rewriting import notebook_results
from torchmigrate.source.edits import Edit
from torchmigrate.source.json_text import splice
from torchmigrate.source.notebook import Notebook, UnreadableNotebook, split


def cell(source: str | list[str], kind: str = "code", **more: Any) -> dict[str, Any]:
    code = {"execution_count": 3, "outputs": [{"output_type": "stream", "name": "stdout", "text": ["x.cuda()\n"]}]}
    return {
        "cell_type": kind,
        "id": "abc",
        "metadata": {"tags": ["cuda"]},
        **(code if kind == "code" else {}),
        "source": source,
        **more,
    }


def notebook(*cells: dict[str, Any], language: str = "python", **style: Any) -> bytes:
    metadata = {"kernelspec": {"language": language, "name": language, "display_name": language}}
    data = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(data, **{"indent": 1, "ensure_ascii": False, **style}) + "\n").encode()


def replace(book: Notebook, old: str, new: str) -> bytes:
    """Replace all occurrences in the virtual module."""
    edits, at = [], book.source.utf8.find(old.encode())
    while at >= 0:
        edits.append(Edit(at, at + len(old.encode()), new))
        at = book.source.utf8.find(old.encode(), at + 1)
    assert edits
    return book.join(edits)


def test_what_has_no_line_of_its_own_is_told_at_the_first() -> None:
    book = split(notebook(cell("x = 1\n\0"), cell("y = 1")))
    assert [(c.number, c.line) for c in book.unread] == [(1, 1)]


@pytest.mark.parametrize(("others", "rest"), [((), ""), (("y = 1",), "; the other cells were read")])
def test_what_is_said_of_cells_that_are_no_python(others: tuple[str, ...], rest: str) -> None:
    one, two = cell("import torch\nx = ="), cell("torch..f")
    more = [cell(source) for source in others]
    said = notebook_results.unread(split(notebook(one, *more)), lambda raw: False)
    assert said == f"cell 1, line 2: not Python 3 (invalid syntax){rest}"
    said = notebook_results.unread(split(notebook(one, two, *more)), lambda raw: False)
    assert said == f"cells 1 and 2 cannot be read; cell 1, line 2: not Python 3 (invalid syntax){rest}"
    assert notebook_results.unread(split(notebook(cell("x = ="), *more)), lambda raw: False) == ""


def test_a_cell_that_another_program_runs_has_no_place_in_the_module() -> None:
    (found,) = notebook_results.foreign(
        split(notebook(cell("x = 1"), cell("%%bash\ncuda"))), lambda raw: b"cuda" in raw
    )
    assert (found.cell, found.start, found.end) == (2, 0, 0)
    assert (found.line, found.column, found.end_line, found.end_column) == (1, 1, 1, 7)


def sources(raw: bytes) -> list[str]:
    return ["".join(c["source"]) for c in json.loads(raw)["cells"]]


STYLES = [
    {"indent": 1},
    {"indent": 2},
    {"indent": 4},
    {"indent": None},
    {"indent": None, "separators": (",", ":")},
    {"indent": 1, "ensure_ascii": True},
    {"indent": "\t"},
    {"indent": 1, "sort_keys": True},
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("as_list", [True, False])
def test_join_changes_the_edited_lines_only(style: dict[str, Any], as_list: bool) -> None:
    text = 'import torch\nname = "héé \\u2028"\nx = x.cuda()  # ünchanged\ny = 1'
    first = cell(text.splitlines(keepends=True) if as_list else text)
    raw = notebook(cell(["# Título\n", "text"], "markdown"), first, cell("z = x.cuda()"), **style)
    book = split(raw)
    assert book.join([]) == raw
    joined = replace(book, "x.cuda()", "x.to(accel.device())")
    # by the encoder itself: byte for byte what a notebook program would have written
    expected = json.loads(raw)
    for target in expected["cells"][1:]:
        new = "".join(target["source"]).replace("x.cuda()", "x.to(accel.device())")
        target["source"] = new.splitlines(keepends=True) if isinstance(target["source"], list) else new
    assert joined == (json.dumps(expected, **{"ensure_ascii": False, **style}) + "\n").encode()


def test_a_layout_that_no_encoder_writes_survives() -> None:
    raw = b"""{ "nbformat":4, "metadata" : {},
    "cells": [ {"source"  : [ "import torch\\n" ,
      "caf\\u00e9 = '\\/'\\n", "x.cuda()" ], "outputs":[ 1.50, 1e3 ],
        "cell_type":"code"} ,  {"cell_type":"raw","source":[]} ] }"""
    joined = replace(split(raw), "x.cuda()", "x.to(d)")
    assert joined == raw.replace(b"x.cuda()", b"x.to(d)")


def test_lines_in_array_may_come_and_go() -> None:
    raw = notebook(cell(["import torch\n", "a = 1\n", "b = 2"]))
    book = split(raw)
    joined = book.join([Edit(13, 13, "import accel\n"), Edit(13, 19, "")])
    assert json.loads(joined)["cells"][0]["source"] == ["import torch\n", "import accel\n", "b = 2"]


def test_windows_line_ends_of_the_file_and_bom_survive() -> None:
    raw = b"\xef\xbb\xbf" + notebook(cell(["import torch\n", "x.cuda()"])).replace(b"\n", b"\r\n")
    assert replace(split(raw), "x.cuda()", "y") == raw.replace(b'"x.cuda()"', b'"y"')


def test_the_result_is_a_valid_notebook() -> None:
    joined = replace(split(notebook(cell("x.cuda()"))), "x.cuda()", "x.to(d)")
    nbformat.validate(nbformat.reads(joined.decode(), as_version=4))


@pytest.mark.parametrize(
    ("source", "virtual"),
    [
        ("%matplotlib inline\nimport torch", "0#################\nimport torch"),
        ("!pip install a \\\n   b\nx = 1", "0###############\n####\nx = 1"),
        ("if x:\n    !ls 'it\n    y", "if x:\n    0######\n    y"),
        ("files = !ls\nfiles", "files = 0##\nfiles"),
        ("t = %timeit -o f()\n", "t = 0#############\n"),
        ("torch.cuda?\n?x\nx??", "0##########\n0#\n0##"),
        ("%%time\nx.cuda()", "0#####\nx.cuda()"),
        ("%%timeit -n 3\nx", "0############\nx"),
        ("!é\nx", "0##\nx"),
        ("%timeit -n 10 -r3 f(x)\n", "0                ;f(x)\n"),
        ("%timeit -s a f(x)", "0################"),
        ("%time for x in y: pass", "0#####################"),
        ("pip install a\nls -l\nrun = 1\ncd ..", "0############\n0####\nrun = 1\n0####"),
        ("d['a = %b'] = 1\n!ls", "d['a = %b'] = 1\n0##"),
        ("d['a'] = b = !ls \"", "d['a'] = b = 0####"),
        ("f('x?')\n# why?\nx.y?", "f('x?')\n# why?\n0###"),
        ("s = '''\n!ls\n'''\n%cd x", "s = '''\n!ls\n'''\n0####"),
        ("%%capture a\n%%time\nx", "0##########\n0#####\nx"),
        ("\n\n%%time\r\nx", "\n\n0#####\r\nx"),
        ("%time x\r\ny\r\n", "0    ;x\r\ny\r\n"),
    ],
)
def test_magics_are_masked_with_the_same_length_and_come_back(source: str, virtual: str) -> None:
    raw = notebook(cell(source.splitlines(keepends=True)), cell("x.cuda()"))
    book = split(raw)
    text = book.source.text
    assert text.startswith(virtual + "\n")
    ast.parse(text)
    joined = replace(book, "x.cuda()", "moved")
    assert [s.replace("x.cuda()", "moved") for s in sources(raw)] == sources(joined)


def test_masking_takes_time_in_proportion() -> None:
    text = "!ls\n" + "%timeit" + " -a11111" * 5_000 + "\n" + "x = '\n" * 3_000 + '"' * 9_001 + "\n" * 9_000
    book = split(notebook(cell(text)))
    assert [c.number for c in book.unread] == [1]


def test_what_looks_like_a_magic_inside_an_expression_is_none() -> None:
    source = 'a = (b\n% c)\ns = """\n!ls\n%time\n"""\nd = 5 \\\n% 3'
    book = split(notebook(cell(source)))
    assert book.source.text == source + "\n0\n"


@pytest.mark.parametrize("magic", ["%%bash", "%%html", "%%writefile train.py", "%%javascript", "%%sql", "%%cython"])
def test_cells_in_another_language_are_not_read(magic: str) -> None:
    book = split(notebook(cell(f"{magic}\nx.cuda()"), cell("import torch")))
    assert book.source.text == "import torch\n0\n"
    assert book.cell_of(0) == (2, 1)


def test_a_notebook_of_another_language_has_no_python() -> None:
    assert split(notebook(cell("x.cuda()"), language="julia")).source.utf8 == b""


def test_a_cell_that_does_not_parse_is_left_out_and_named() -> None:
    raw = notebook(cell("import torch"), cell("print 'x'\nx.cuda()"), cell("x = x.cuda()"))
    book = split(raw)
    assert [(cell.number, cell.line, cell.magic) for cell in book.unread] == [(2, 1, None)]
    assert "print" not in book.source.text
    assert sources(replace(book, "x.cuda()", "y"))[1] == "print 'x'\nx.cuda()"


def test_offsets_map_to_one_cell_each() -> None:
    book = split(notebook(cell("import torch\nimport os"), cell("# text", "markdown"), cell("x\ny")))
    text = book.source.utf8
    assert book.cell_of(text.index(b"os")) == (1, 2)
    assert book.cell_of(text.index(b"y")) == (3, 2)
    assert book.cell_of(text.index(b"x")) == (3, 1)


@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_line_after_the_last_one_stays_in_its_cell(ending: str) -> None:
    book = split(notebook(cell("import torch" + ending), cell("x.cuda()")))
    after = book.source.utf8.index(b"torch") + len("torch\n")  # where the engine puts the import
    joined = book.join([Edit(after, after, "import accel\n")])
    assert sources(joined) == ["import torch\nimport accel" + ending, "x.cuda()"]


@pytest.mark.parametrize("between", [",\n  ", ", "])
def test_a_line_below_one_with_a_line_end_is_an_item_of_its_own(between: str) -> None:
    """Found in yolov7's instance.ipynb: two lines of code stood in one string of the cell's array."""
    raw = f'["import torch\\n"{between}"import cv2\\n"]'
    assert splice(raw, [(24, 24, "import accel")], False) == raw.replace("]", f'{between}"import accel"]')
    assert splice('"import cv2\\n"', [(11, 11, "import accel")], False) == '"import cv2\\nimport accel"'


def test_deleting_a_last_line_does_not_reach_the_next_cell() -> None:
    book = split(notebook(cell(["import os\n", "import torch"]), cell("x")))
    start = book.source.utf8.index(b"import torch")
    joined = book.join([Edit(start, start + len("import torch\n"), "")])
    assert [c["source"] for c in json.loads(joined)["cells"]] == [["import os\n"], "x"]


def test_new_text_is_spelled_as_the_cell_spells_it() -> None:
    raw = rb'{"cells": [{"cell_type": "code", "source": ["x.cuda\u0028\u0029  # \u00e9\n"]}]}'
    joined = replace(split(raw), "cuda", "to('é', d())")
    new = rb"to\u0028'\u00e9', d\u0028\u0029\u0029"
    assert joined == raw.replace(b"cuda", new)


def test_edits_over_a_cell_end_or_a_magic_are_refused() -> None:
    book = split(notebook(cell("%time x\na"), cell("b")))
    with pytest.raises(UnreadableNotebook, match="over the end of cell 1"):
        book.join([Edit(8, len(book.source.utf8), "")])
    with pytest.raises(UnreadableNotebook, match="magic in cell 1"):
        book.join([Edit(0, 9, "b")])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[]", "no notebook"),
        (b'{"a": 1}', "no notebook"),
        (b'{"worksheets": [{"cells": []}], "nbformat": 3}', "format 3"),
        (b'{"cells": 3}', "format 3"),
    ],
)
def test_what_is_no_notebook_says_why(raw: bytes, message: str) -> None:
    with pytest.raises(UnreadableNotebook, match=message):
        split(raw)


def test_odd_cells_do_no_harm() -> None:
    raw = notebook(
        cell(""), {"cell_type": "code"}, cell([]), cell("a = '\ud800'"), cell("import torch"), ensure_ascii=True
    )
    book = split(raw)
    assert book.source.text == "import torch\n0\n"
    assert replace(book, "torch", "os") == raw.replace(b"import torch", b"import os")
