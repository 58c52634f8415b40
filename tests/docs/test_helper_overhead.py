"""benchmarks/helper_overhead.py runs and says what is promised of it; no time is looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "helper_overhead.py"
PARTS = ("steps", "calls", "memory", "imports", "graph_breaks")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One round of every part, but not the counting of instructions, which takes minutes."""
    out = tmp_path_factory.mktemp("overhead") / "out.json"
    parts = [word for part in PARTS for word in ("--part", part)]
    argv = [sys.executable, str(BENCHMARK), "--rounds", "1", "--json", str(out), *parts]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return {**json.loads(out.read_text()), "printed": done.stdout}


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
