"""benchmarks/helper_overhead.py runs and says what is promised of it; no time is looked at."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from pathlib import Path

import pytest
import warm_torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PARTS = ("steps", "calls", "memory", "imports", "graph_breaks")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One round of every part, but not the counting of instructions, which takes minutes.

    What does not measure an import runs in a fork of a process that has imported torch."""
    out = tmp_path_factory.mktemp("overhead") / "out.json"
    parts = [word for part in PARTS for word in ("--part", part)]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.syspath_prepend(str(BENCHMARKS))
        overhead = importlib.import_module("helper_overhead")
        fresh = overhead.Place.run

        def run(place, part, options, prefix=(), folder="cached"):
            if part == "imports":
                return fresh(place, part, options, prefix, folder)
            environment = {**place.environment, "PYTHONPATH": str(place.folder / folder)}
            words = [str(overhead.WORKER), part, json.dumps({"kind": place.kind, **options})]
            done = warm_torch.run(words, place.folder, environment, warm_torch.TRAINING)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout.splitlines()[-1])

        patch.setattr(overhead.Place, "run", run)
        patch.setattr(sys, "argv", ["helper_overhead.py", "--rounds", "1", "--json", str(out), *parts])
        overhead.main()
    return {**json.loads(out.read_text()), "printed": printed.getvalue()}


def test_what_was_measured_where(found):
    assert (found["backend"], found["evidence"]) == ("cpu", "cpu")
    assert "### On cpu (cpu)" in found["printed"] and f"torch {found['torch']}" in found["printed"]


def test_steps_compute_the_same_with_and_without_the_helper(found):
    assert {row["program"]: row["equal"] for row in found["steps"]} == {"mlp": True, "cnn": True, "transformer": True}
    assert all(row["plain_us"] > 0 and "median" in row["helper_percent"] for row in found["steps"])


def test_the_helper_has_an_answer_to_every_call(found):
    helpers = [row for row in found["calls"] if row["side"] == "helper"]
    assert len(helpers) >= 30
    assert [row for row in helpers if "ns" not in row] == []
    assert "| `accel.synchronize()` | `pass` |" in found["printed"]


def test_the_helper_holds_no_tensors_and_imports_nothing_else(found):
    memory = found["memory"]
    assert memory["tensors_at_import"] == 0
    plain, helper = (memory["after_steps"][how]["tensors"] for how in ("plain", "helper"))
    assert plain > 0 and helper - plain in (0, 8)  # a GradScaler's two numbers, which torch.cuda's has on CUDA only
    assert found["imports"]["modules"] == ["accel"]


def test_no_graph_break_is_added(found):
    sides: dict[str, dict] = {}
    for row in found["graph_breaks"]:
        assert "uncompiled" not in row
        sides.setdefault(row["call"], {})[row["side"]] = row.get("breaks")
    assert sides["manual_seed"]["original"] == 1  # so that this can fail
    more = {name for name, of in sides.items() if of["helper"] > max(of["plain"], of.get("original") or 0)}
    assert more <= {"nvtx", "get_device_properties"}  # torch.cuda's raise on the CPU
