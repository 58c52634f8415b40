"""Every helper function that a rewrite writes is compiled beside the call whose place it takes: surface/compiled.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from runtime.surface.compiled import CASES

from torchmigrate import runtime
from torchmigrate.fixers import registry
from torchmigrate.fixers.api.compile import ELSEWHERE, SKIPPED
from torchmigrate.rules import packs

CASES_FILE = Path(__file__).parent / "surface" / "compiled.py"
_HELPED = re.compile(r"\baccel\.(\w+(?:\.\w+)?)")
# written where nothing is compiled, or where torch itself ends the process
NOT_COMPILED = {
    "is_complete": "chooses a program's device; dynamo cannot wrap the properties of an XPU",
    "data_parallel": "wraps a model before it is compiled",
    "convert_sync_batchnorm": "converts a model before it is compiled",
    "set_default_tensor_type": "sets up a program",
    "set_rng_state": "traced with a state, torch.mps.set_rng_state crashes inside torch (2.13)",
    "set_rng_state_all": "traced with a state, torch.cuda.set_rng_state_all crashes inside torch (2.13)",
}


def helped(text: str) -> set[str]:
    """`nvtx.range`, but `Event` of `accel.Event.record`."""
    names = {n if n.startswith("nvtx.") else n.partition(".")[0] for n in _HELPED.findall(text)}
    return {n for n in names if hasattr(runtime, n.partition(".")[0])}


def strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def written() -> set[str]:
    """By the templates of the rules, by their cases and by the transforms."""
    rules = packs.load().rules.values()
    texts = [r.template for rule in rules for r in rule.rewrites if r.template]
    texts += [case.after for rule in rules for case in rule.cases if case.after]
    for path in Path(registry.__file__).parent.glob("*.py"):
        texts += strings(path)
    return helped(" ".join(texts))


def test_every_rewrite_has_a_compiled_case() -> None:
    compiled = helped(CASES_FILE.read_text(encoding="utf-8"))
    assert written() - compiled == set(NOT_COMPILED)
    assert len(compiled) > 60


def test_what_breaks_elsewhere_is_what_the_rule_names() -> None:
    """compile/graph-break against what is measured: the calls that are compiled on CUDA and not on another device."""
    measured: dict[str, set[str]] = {}
    for name, case in CASES.items():
        if case.traces and case.breaks:
            measured.setdefault(_OF.get(name, name), set()).update(case.breaks)
    rule = {name: set(devices) for name, devices in ELSEWHERE.items() if name not in _SAME}
    assert {name: measured[name] for name in rule} == rule
    assert set(measured) - set(rule) == _REWRITTEN


def test_what_breaks_everywhere_is_what_the_rule_names() -> None:
    never = {_OF.get(name, name) for name, case in CASES.items() if not case.traces}
    assert SKIPPED - never == {"set_rng_state"}
    assert never - SKIPPED == {"pin", "no stream", "grad_scaler", "sparse_tensor"}


_OF = {
    "waiting for an Event": "Event", "wait_stream": "Stream", "ranges": "nvtx.range", "range_push": "nvtx.range_push",
    "range_pop": "nvtx.range_pop",
}  # fmt: skip
_SAME = {"device": "device_guard", "stream": "Stream"}
# parts of rewrites that nobody calls in what is compiled
_REWRITTEN = {"tensor_type", "reset_accumulated_memory_stats", "set_per_process_memory_fraction"}
