"""Edits: overlap, choice, composition, and the way back from an edited text to the original."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.diagnostics.finding import Changed, Finding, Fix, Safety, Unchanged, choose
from torchmigrate.source.edits import Edit, Touching, compose, flatten, original_offset

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def finding(*edits: tuple[int, int, str], rule: str = "a/b") -> Finding:
    return Finding(rule, Safety.SAFE, 0, 0, "", fix=Fix(tuple(Edit(*e) for e in edits), Safety.SAFE))


def apart(edits: list[Edit]) -> list[Edit]:
    """Those that a run may apply together, as `choose` picks them."""
    chosen, _ = choose([Finding("a/b", Safety.SAFE, 0, 0, "", fix=Fix((e,), Safety.SAFE)) for e in edits])
    return sorted({e for f in chosen for e in f.fix.edits})


@st.composite
def edits_of(draw: st.DrawFn, length: int = 26) -> list[Edit]:
    spans = draw(
        st.lists(st.tuples(st.integers(0, length), st.integers(0, 4), st.sampled_from(["", "X", "ÄY", "123456"])))
    )
    return apart([Edit(start, min(start + width, length), text) for start, width, text in spans])


# ---- compose
@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([], b"abcdef"),
        ([Edit(0, 0, "X")], b"Xabcdef"),
        ([Edit(6, 6, "X")], b"abcdefX"),
        ([Edit(0, 6, "")], b""),
        ([Edit(4, 5, "E"), Edit(1, 2, "B")], b"aBcdEf"),
        ([Edit(1, 2, "B"), Edit(2, 3, "C")], b"aBCdef"),
        ([Edit(1, 2, "B"), Edit(1, 2, "B")], b"aBcdef"),
        ([Edit(1, 2, "é")], "aécdef".encode()),
        ([Edit(1, 3, "X"), Edit(3, 3, "Y")], b"aXYdef"),
    ],
)
def test_compose(edits: list[Edit], expected: bytes) -> None:
    assert compose(b"abcdef", edits) == expected


@pytest.mark.parametrize("edits", [[Edit(0, 3, "x"), Edit(2, 4, "y")], [Edit(0, 6, "x"), Edit(3, 3, "y")]])
def test_compose_refuses_an_overlap(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="overlapping edits at byte"):
        compose(b"abcdef", edits)


# ---- choose
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([(0, 4, "x")], [(2, 6, "y")]),  # they cross
        ([(0, 6, "x")], [(2, 3, "y")]),  # one holds the other
        ([(2, 3, "x")], [(0, 6, "y")]),
        ([(3, 3, "x")], [(3, 3, "y")]),  # nobody can say which comes first
        ([(3, 3, "x")], [(3, 5, "y")]),
        ([(2, 5, "x")], [(3, 3, "y")]),  # an insertion in the middle of what is replaced
        ([(2, 5, "x")], [(2, 5, "y")]),  # one span, two texts
        ([(0, 1, "x"), (4, 5, "x")], [(2, 3, "y"), (4, 6, "y")]),  # the first edit fits; a fix is all or nothing
    ],
)
def test_what_collides_is_dropped_whole(first: list, second: list) -> None:
    a, b = finding(*first), finding(*second)
    assert choose([a, b]) == ([a], [b])
    assert choose([b, a]) == ([b], [a])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([(0, 2, "x")], [(2, 4, "y")]),
        ([(0, 2, "x")], [(2, 2, "y")]),
        ([(2, 5, "x")], [(2, 5, "x")]),  # the same edit from two rules
        ([(0, 1, "x"), (4, 5, "z")], [(4, 5, "z"), (8, 9, "y")]),
    ],
)
def test_what_fits_together_is_kept(first: list, second: list) -> None:
    a, b = finding(*first), finding(*second)
    assert choose([a, b]) == ([a, b], [])


def test_a_fix_that_overlaps_itself_is_dropped() -> None:
    broken = finding((0, 4, "x"), (2, 6, "y"))
    assert choose([broken]) == ([], [broken])


def test_a_dropped_fix_leaves_no_trace() -> None:
    kept, dropped, later = finding((4, 5, "x")), finding((0, 1, "y"), (4, 6, "y")), finding((0, 1, "z"))
    assert choose([kept, dropped, later]) == ([kept, later], [dropped])


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6), st.sampled_from("xyz"))))
def test_what_was_chosen_composes(spans: list[tuple[int, int, str]]) -> None:
    chosen = apart([Edit(start, start + width, text) for start, width, text in spans])
    compose(bytes(30), chosen)
    starts = [e.start for e in chosen]
    assert len(starts) == len(set(starts))


# ---- the way back
@given(edits_of())
def test_what_was_not_edited_is_found_again(edits: list[Edit]) -> None:
    text = ALPHABET.encode()
    after = compose(text, edits)
    for offset, letter in enumerate(after):
        if chr(letter) in ALPHABET:
            assert original_offset(edits, offset) == text.index(letter)


@given(edits_of(), st.integers(0, 120))
def test_the_way_back_never_leaves_the_text(edits: list[Edit], offset: int) -> None:
    after = compose(ALPHABET.encode(), edits)
    assert 0 <= original_offset(edits, min(offset, len(after))) <= len(ALPHABET)


def test_an_inserted_byte_comes_from_where_it_was_inserted() -> None:
    edits = [Edit(2, 2, "XYZ"), Edit(4, 6, "")]
    assert [original_offset(edits, i) for i in range(8)] == [0, 1, 2, 2, 2, 2, 3, 6]


@given(st.lists(st.integers(), max_size=4), st.data())
def test_flatten_does_in_one_pass_what_many_did(rounds: list[int], data: st.DataObject) -> None:
    text = ALPHABET.encode()
    passes = []
    for _ in rounds:
        # edits lie on byte offsets of the last pass's text; keep them off the middle of a letter
        ascii_only = [e for e in data.draw(edits_of(len(text))) if e.text.isascii()]
        passes.append(ascii_only)
        text = compose(text, ascii_only)
    flat = flatten(passes, len(ALPHABET))
    assert compose(ALPHABET.encode(), flat) == text
    assert flat == sorted(flat)


def test_flatten_of_nothing_is_nothing() -> None:
    assert flatten([], 10) == []
    assert flatten([[], []], 10) == []


def test_flatten_reaches_through_an_insertion() -> None:
    # `x.cuda()` -> `x.to(dev())` -> `x.to(accel.dev())`
    first, second = [Edit(2, 6, "to"), Edit(7, 7, "dev()")], [Edit(5, 5, "accel.")]
    assert flatten([first, second], 8) == [Edit(2, 6, "to"), Edit(7, 7, "accel.dev()")]
    assert compose(b"x.cuda()", flatten([first, second], 8)) == b"x.to(accel.dev())"


def test_a_finding_keeps_all_but_its_status() -> None:
    from torchmigrate.diagnostics.finding import Status

    before = finding((0, 1, "x"))
    after = before.with_status(Status.HELD)
    assert (after.status, after.fix, before.status) == (Status.HELD, before.fix, Status.OPEN)


def test_a_result_tells_of_no_cells_unless_it_has_some() -> None:
    assert Changed(Path("a.py"), b"x", b"y", ()).unread == Unchanged(Path("a.py")).unread == ""


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=12), st.integers(0, 30), st.integers(0, 6))
def test_spans_that_touch_another(made: list[tuple[int, int]], start: int, length: int) -> None:
    spans = sorted((a, a + size) for a, size in made)
    found = Touching((span, number) for number, span in enumerate(spans)).find(start, start + length)
    assert [span for span, _ in found] == [(a, b) for a, b in spans if a <= start + length and start <= b]
