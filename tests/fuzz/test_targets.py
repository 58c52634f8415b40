"""The fuzzers' targets on their seeds, without the fuzzer: `python tests/fuzz/run.py TARGET --seconds N` is that."""

from __future__ import annotations

import random

import pytest
from attack.mutations import mutated

from fuzz import targets
from fuzz.targets import TARGETS, seeds


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_break_nothing(name: str) -> None:
    found = seeds(name)
    assert found
    for raw in found:
        TARGETS[name].read(raw)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_seeds_break_nothing(name: str) -> None:
    draw = random.Random(7)
    found = seeds(name)
    for _ in range(150):
        raw = mutated(draw.choice(found), draw)
        TARGETS[name].read(raw)


def test_what_is_broken_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: object, cases: bool = True) -> object:
        raise KeyError("x")

    monkeypatch.setattr(targets.packs, "load_rule", fails)
    with pytest.raises(KeyError):
        TARGETS["pack"].read(seeds("pack")[0])
    monkeypatch.setattr(targets.notebook.Notebook, "join", lambda book, edits: b"")
    with pytest.raises(targets.Broken, match="not as it was"):
        TARGETS["notebook"].read(seeds("notebook")[0])
