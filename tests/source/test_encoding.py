"""Bytes to text and back: what is refused, and that nothing else changes a byte."""

from __future__ import annotations

import ast
import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.source.encoding import Source, UnreadableSource, decode

BOM = codecs.BOM_UTF8


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"x = 1\0\n", "NUL byte at offset 5"),
        (b"# coding: klingon\nx = 1\n", "klingon"),
        (b"x = 'caf\xe9'\n", "declares no encoding"),
        (b"\n\nx = 'caf\xe9'\n", "line 3: byte 0xe9 is not utf-8; declare"),
        (b"ok = 1\nx = 2\n# \xff\n", "line 3"),
        (BOM + b"# coding: latin-1\nx = 1\n", "encoding"),
        (b"# coding: ascii\nx = '\xe9'\n", "0xe9"),
        (BOM + b"x = '\xe9'\n", "declares no encoding"),
    ],
)
def test_what_is_refused_and_why(raw: bytes, why: str) -> None:
    with pytest.raises(UnreadableSource, match=why):
        decode(raw)


def test_an_encoding_that_does_not_come_back_is_refused() -> None:
    """utf-7 has many spellings of one text."""
    with pytest.raises(UnreadableSource, match="does not give the same bytes back"):
        decode(b"# coding: utf-7\nx = '+AGE-'\n")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x = 1",
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\r",
        b"x = 1\r\ny = 2\nz = 3\r",
        BOM + b"x = 1\n",
        BOM,
        b"\tif\x0cx:\n",
        "é = 'ß'  # 漢字 🎉\n".encode(),
        b"# -*- coding: latin-1 -*-\nx = '\xe9\xff'\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        "# coding: euc-jp\nx = '漢字'\n".encode("euc-jp"),
        b"# coding: utf8\nx = 1\n",
        b"x = 1\n\n\n# coding: latin-1\n",  # a third line is no declaration
    ],
)
def test_round_trip(raw: bytes) -> None:
    source = decode(raw)
    assert source.encode(source.utf8) == raw


@given(st.binary(max_size=60))
def test_bytes_are_refused_or_come_back(raw: bytes) -> None:
    try:
        source = decode(raw)
    except UnreadableSource:
        return
    assert source.encode(source.utf8) == raw


def test_text_that_the_encoding_lacks_is_refused() -> None:
    source = decode(b"# coding: latin-1\nx = 1\n")
    with pytest.raises(UnreadableSource, match="iso-8859-1 has no '漢'"):
        source.encode("# coding: latin-1\nx = '漢'\n".encode())


@pytest.mark.parametrize(
    ("text", "newline"),
    [("", "\n"), ("x", "\n"), ("x\n", "\n"), ("x\r\ny\n", "\r\n"), ("x\ry\n", "\r"), ("\n\r\n", "\n")],
)
def test_the_newline_is_the_first_one(text: str, newline: str) -> None:
    assert Source(text.encode()).newline == newline


@given(st.text(alphabet="xé漢 \t\x0c\x1c\x85\u2028\r\n'#", max_size=30))
def test_lines_are_split_as_ast_splits_them(text: str) -> None:
    """Form feeds and Unicode's line separators end no line, whatever str.splitlines says."""
    body = "".join(c if c in "\r\n" else "a" for c in text)
    source = Source(text.encode())
    assert len(source.line_starts) == len(Source(body.encode()).line_starts)
    assert all(source.utf8[at - 1 : at] in (b"\n", b"\r") for at in source.line_starts[1:])


def test_ast_positions_are_offsets() -> None:
    text = "a = 'é\x0c'; b = 2\r\nif a:\r\n\tc = '漢'; d = 4\rx = 1"
    source = decode(text.encode())
    names = [n for n in ast.walk(ast.parse(source.text)) if isinstance(n, ast.Name)]
    assert {source.utf8[source.offset(n.lineno, n.col_offset) :][:1].decode() for n in names} == {
        "a",
        "b",
        "c",
        "d",
        "x",
    }
    for n in names:
        at = source.offset(n.lineno, n.col_offset)
        assert source.utf8[at : at + 1].decode() == n.id


def test_positions_count_characters() -> None:
    source = decode("é = 'ß'; x\ny".encode())
    assert source.position(source.utf8.index(b"x")) == (1, 10)
    assert source.position(len(source.utf8)) == (2, 2)
    assert source.position(0) == (1, 1)


def test_line_at() -> None:
    source = decode(b"one\r\ntwo\rthree")
    assert [source.line_at(source.utf8.index(w)) for w in (b"one", b"wo", b"ee")] == [b"one", b"two", b"three"]


def test_an_edit_never_reaches_into_a_helper_that_the_file_holds() -> None:
    source = decode(b"import torch\n\n\nclass accel:\n    # torchmigrate-runtime 2\n    x = 1\n")
    assert b"class accel" not in source.utf8 and source.restored(source.utf8).count(b"class accel:") == 1
    with pytest.raises(UnreadableSource, match="reaches into the helper"):
        source.restored(source.utf8.replace(b"import accel", b"import other"))
