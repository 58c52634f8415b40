"""Saving, loading and copying tensors of a simulated device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.checks("serialization")
def test_serialization(passes: Callable[[], None]) -> None:
    passes()


SAVE = """
import sys, torch
net = torch.nn.Linear(3, 2).to(torch.accelerator.current_accelerator())
torch.save({"net": net.state_dict(), "weight": net.weight.detach().cpu()}, sys.argv[1])
"""
LOAD = """
import json, sys, torch
file, here = sys.argv[1], torch.accelerator.current_accelerator()
loaded = [torch.load(file, map_location=place) for place in ("cpu", here)]
same = [torch.equal(state["net"]["weight"].cpu(), state["weight"].cpu()) for state in loaded]
places = [state["net"]["weight"].device.type for state in loaded]
try:
    torch.load(file)
except Exception as e:
    print(json.dumps([same, places, type(e).__name__, str(e)]))
"""


@pytest.mark.parametrize(
    ("saved", "loaded", "words"),
    [
        ("cuda", "mps", "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False"),
        ("npu", "cuda", "don't know how to restore data location of torch.storage.UntypedStorage (tagged with npu:0)"),
    ],
)
def test_a_file_of_another_backend_needs_map_location(
    simulate: Callable, tmp_path: Path, saved: str, loaded: str, words: str
) -> None:
    file = str(tmp_path / "state.pt")
    assert simulate(saved, SAVE, file).status == 0
    same, places, error, told = simulate(loaded, LOAD, file).result
    assert (same, places) == ([True, True], ["cpu", loaded])
    assert error in ("RuntimeError", "AssertionError") and words in told
