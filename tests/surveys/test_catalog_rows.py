"""The rows that ship: none is missing, what they name exists, what can be measured is measured, and they read well."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from functools import cache, reduce
from pathlib import Path

import pytest
import torch
from conftest import ROOT, Ran, cpu_seconds

from torchmigrate import runtime
from torchmigrate.diagnostics.finding import Safety
from torchmigrate.formats.catalog import NAMES, paragraph
from torchmigrate.rules import packs
from torchmigrate.surveys import api_catalog
from torchmigrate.surveys.api_catalog import (
    BACKENDS,
    DIFFERENT,
    HELPER,
    LEFT,
    MISSING,
    NO_OP,
    NO_TORCH,
    REWRITTEN,
    VERDICTS,
    WORKS,
    Row,
)

Cli = Callable[..., Ran]

MEASURED = torch.__version__.startswith("2.13.0") and torch.version.cuda is None and torch.version.hip is None
only_where_measured = pytest.mark.skipif(
    not MEASURED, reason=f"measured on torch 2.13.0 for the CPU, not {torch.__version__}"
)


SOURCE = re.compile(r"https://\S+|pytorch #\d+( .*)?|(torch|aten|c10|test|tools|docs)[/.]\S+( .*)?")


@cache
def rows() -> dict[str, Row]:
    return dict(api_catalog.load().rows)


@cache
def seen() -> tuple[dict[str, str], str]:
    """Names that must have a row and why, and the list of all names, by a process of its own: torch leaves traces."""
    walk = ROOT / "tests" / "support" / "catalog_walk.py"
    done = subprocess.run([sys.executable, str(walk)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows, names = json.loads(done.stdout.splitlines()[-1])
    return rows, names


def walked() -> dict[str, str]:
    return seen()[0]


def _at(row: Row) -> str:
    return f"{row.path.name}:{row.line}"


def missing(wanted: Iterable[str], there: Collection[str]) -> list[str]:
    return [name for name in wanted if name not in there]


# ---- none is missing


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="another torch has other names")
def test_every_public_name_about_devices_has_a_row() -> None:
    without = missing(walked(), rows())
    assert not without, "\n".join(f"{name}: {walked()[name]}" for name in without)


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="another torch has other names")
def test_the_list_of_public_names_is_torch_s() -> None:
    there = (ROOT / "torchmigrate" / "data" / "public_names.txt").read_text("utf-8")
    assert there == seen()[1], "`python tests/support/catalog_walk.py everything` writes it"


def test_what_a_typed_name_can_be() -> None:
    public = api_catalog.public
    assert public("torch.relu") == public("th.relu") == ["torch.relu"]
    assert public("F.relu") == ["torch.nn.functional.relu"]
    assert public("relu")[:2] == ["torch.relu", "torch.Tensor.relu"]
    assert public("nn.Linear") == public("torch.nn.Linear") == ["torch.nn.Linear"]
    assert public("scaled_dot_product_attention") == ["torch.nn.functional.scaled_dot_product_attention"]
    assert public("torch.nn.functional") == ["torch.nn.functional"]
    assert public("numpy.zeros") == public("zeroes") == public("torch.Tensor.frob") == []


@pytest.mark.parametrize(("name", "count"), [("device-functions", 369), ("torch-backends", 84), ("torch-library", 21)])
def test_every_listed_name_has_a_row(name: str, count: int) -> None:
    lines = (ROOT / "tests" / "support" / "catalog" / f"{name}.txt").read_text("utf-8").splitlines()
    names = [line for line in lines if not line.startswith("#")]
    assert len(names) == len(set(names)) == count
    assert not missing(names, rows())


def test_the_walk_sees_what_it_should() -> None:
    """A walk that finds nothing would let everything pass."""
    names = walked()
    assert len(names) > 1200
    for name in (
        "torch.cuda.nvtx.range_push", "torch.cuda.memory.caching_allocator_alloc", "torch.cuda.tunable.read_file",
        "torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.benchmark", "torch.backends.mkldnn.matmul",
        "torch.library.Library.impl", "torch.library.CustomOpDef.register_kernel", "torch.xpu.synchronize",
        "torch.mtia.memory_stats", "torch.mps.profiler.start", "torch.accelerator.current_accelerator",
        "torch.Tensor.cuda", "torch.Tensor.pin_memory", "torch.nn.Module.to_empty", "torch.load", "torch.zeros",
        "torch.nn.Linear", "torch.utils.data.DataLoader", "torch.distributed.init_device_mesh", "torch.autocast",
        "torch.utils.cpp_extension.CUDAExtension", "torch.nn.DataParallel", "torch.device", "torch.jit.load",
    ):  # fmt: skip
        assert name in names
    for name in ("torch.cuda.Any", "torch.cuda.os", "torch.cuda.Tensor", "torch.relu", "torch.nn.ReLU"):
        assert name not in names


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="another torch has other names")
def test_each_row_that_is_deleted_is_missed() -> None:
    wanted = {name: why for name, why in walked().items() if name in rows()}
    assert len(wanted) > 1200
    there = set(rows())
    for name in wanted:
        there.remove(name)
        assert missing(wanted, there) == [name]
        there.add(name)


def test_a_row_that_is_deleted_from_its_file_is_missed(tmp_path: Path) -> None:
    chosen = rows()["torch.cuda.memory_allocated"]
    head, *tables = chosen.path.read_text("utf-8").split("[[api]]")
    kept = [table for table in tables if f'name = "{chosen.name}"\n' not in table]
    assert len(kept) == len(tables) - 1
    shorter = tmp_path / chosen.path.name
    shorter.write_text("[[api]]".join([head, *kept]), encoding="utf-8")
    files = [shorter if path == chosen.path else path for path in {row.path for row in rows().values()}]
    assert chosen.name in missing(walked(), api_catalog.gather(files).rows)


# ---- what rows name


def test_every_rule_that_a_row_names_exists() -> None:
    ids = set(packs.load(cases=False).rules)
    unknown = {f"{_at(row)}: {rule}" for row in rows().values() for rule in row.rules if rule not in ids}
    assert not unknown


def test_every_rule_with_a_rewrite_is_named_by_a_row() -> None:
    rules = [rule for rule in packs.load(cases=False).rules.values() if rule.safety is not Safety.DISPLAY]
    rewriting = {rule.id for rule in rules if rule.on != ("string:environment",)}  # which names nothing of torch
    assert len(rewriting) > 25
    assert rewriting <= {rule for row in rows().values() if row.action == REWRITTEN for rule in row.rules}


def test_what_is_rewritten_is_rewritten_by_a_rule_that_can() -> None:
    known = packs.load(cases=False).rules
    cannot = {
        f"{_at(row)}: {row.name}: {rule}"
        for row in rows().values()
        for rule in row.rules[:1]
        if row.action == REWRITTEN and rule in known and known[rule].safety is Safety.DISPLAY
        and not any(rewrite.safety is not Safety.DISPLAY for rewrite in known[rule].rewrites)
    }  # fmt: skip
    assert not cannot


def test_what_is_left_alone_has_a_reason() -> None:
    left = [row for row in rows().values() if row.action == LEFT]
    assert len(left) > 100
    assert not [row.name for row in left if len(row.why.split()) < 3]


def test_every_row_has_all_verdicts_and_a_source() -> None:
    for row in rows().values():
        assert tuple(row.backends) == BACKENDS
        assert set(row.backends.values()) <= set(VERDICTS)
        assert row.backends["mlx"] == NO_TORCH
        assert SOURCE.fullmatch(row.source), f"{row.name}: {row.source}"


# ---- the helper


def exercised() -> set[str]:
    """What the tests of the helper's surface use of it: `accel.memory_allocated`, `accel.nvtx.mark`."""
    found = set()
    for file in (ROOT / "tests" / "runtime").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and (text := ast.unparse(node)).startswith("accel."):
                found.add(text.removeprefix("accel."))
    return found


def test_every_helper_that_a_row_names_exists_and_is_tested() -> None:
    used = {row.helper: row.name for row in rows().values() if row.helper}
    assert len(used) > 40
    tested = exercised()
    for helper, name in used.items():
        assert reduce(lambda thing, part: getattr(thing, part, None), helper.split("."), runtime) is not None, name
        assert helper in tested, f"{helper} (of {name}) is called by no test under tests/runtime"


def test_what_works_through_the_helper_is_rewritten_or_reported() -> None:
    """A call that nobody changes cannot go through the helper, but where a rule says how, or its argument does."""
    alone = [row.name for row in rows().values() if row.action == LEFT and row.backends["cuda"] == HELPER]
    assert not alone


# ---- what can be measured

_MEASURE = """
import ast, importlib, io, json, os, sys, contextlib, signal, warnings
warnings.simplefilter("ignore")
import torch
import torch._dynamo  # which many of them import

def modules_of(expression):
    for node in ast.walk(ast.parse(expression)):
        if isinstance(node, ast.Attribute):
            parts = ast.unparse(node).split(".")
            for end in range(2, len(parts) + 1):
                if parts[0] == "torch" and all(p.isidentifier() for p in parts[:end]):
                    with contextlib.suppress(Exception):
                        importlib.import_module(".".join(parts[:end]))

def measured(expression):
    try:
        modules_of(expression)
        value = eval(expression, {"torch": torch, "os": os, "io": io})
        empty = value is None or (not isinstance(value, torch.Tensor) and not value)
        return {"gives": repr(value), "raised": False, "empty": bool(empty)}
    except BaseException as error:
        return {"gives": type(error).__name__, "raised": True, "empty": False, "text": str(error)[:200]}

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for expression in json.load(sys.stdin):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:  # a process each: what one sets, no other sees
        signal.alarm(60)
        os.write(writing, json.dumps(measured(expression)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    died = {"gives": "nothing: its process died", "raised": True, "empty": False}
    print(answer.decode() or json.dumps(died), file=out, flush=True)
"""


@cache
def measurements() -> dict[str, dict[str, object]]:
    """By API: what its expression gave here."""
    asked = {row.name: row.measure for row in rows().values() if row.measure}
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TORCH_ACCEL", "TORCHMIGRATE", "CUDA_"))}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE], input=json.dumps(list(asked.values())), capture_output=True, text=True,
        env=environment, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(asked, answers, strict=True))


@only_where_measured
def test_every_measured_row_gives_what_it_says() -> None:
    found = measurements()
    assert len(found) > 300
    wrong = [
        f"{_at(row)}: {row.measure} gives {found[name]['gives']} {found[name].get('text', '')}, not {row.gives}"
        for name, row in rows().items()
        if name in found and found[name]["gives"] != row.gives
    ]
    assert not wrong, "\n".join(wrong)


@only_where_measured
def test_every_measured_row_has_the_verdict_that_was_measured() -> None:
    pairs = [(rows()[name], found) for name, found in measurements().items()]
    wrong = [
        f"{_at(row)}: {row.measure} gives {found['gives']}; the verdict is {row.backends['cpu']}"
        for row, found in pairs
        if not fits(row, bool(found["raised"]), bool(found["empty"]))
    ]
    assert not wrong, "\n".join(wrong)


def fits(row: Row, raised: bool, empty: bool) -> bool:
    """Whether the verdict on the CPU is what was measured, which is the call as it stands in a project that is not
    migrated: what raises is missing, unless it is rewritten; what gives something is no no-op, unless it is a flag
    that may be set and read without effect, or the expression is about more than the call."""
    verdict = row.backends["cpu"]
    if raised:
        return verdict == MISSING or (row.action == REWRITTEN and verdict in (HELPER, NO_OP, WORKS, DIFFERENT))
    match ast.parse(row.measure, mode="eval").body:
        case ast.Call(called) if ast.unparse(called) == row.name and row.kind != "attribute":
            return verdict != MISSING and (empty or verdict != NO_OP)
    return verdict != MISSING


def test_what_fits() -> None:
    def row(verdict: str, action: str = "reported", kind: str = "function", measure: str = "torch.f()") -> Row:
        backends = dict.fromkeys(BACKENDS, verdict)
        return Row("torch.f", kind, backends, action, (), "", "", "", "", measure, "x", Path(), 1)

    assert fits(row(MISSING), raised=True, empty=False)
    assert fits(row(HELPER, REWRITTEN), raised=True, empty=False)
    assert fits(row(NO_OP), raised=False, empty=True)
    assert fits(row(WORKS), raised=False, empty=False)
    assert fits(row(NO_OP, kind="attribute"), raised=False, empty=False)
    assert fits(row(NO_OP, measure="str(torch.f())"), raised=False, empty=False)
    assert not fits(row(WORKS), raised=True, empty=False)
    assert not fits(row(HELPER), raised=True, empty=False)
    assert not fits(row(MISSING), raised=False, empty=True)
    assert not fits(row(NO_OP), raised=False, empty=False)


@only_where_measured
def test_what_is_said_to_be_missing_on_the_cpu_is_measured() -> None:
    """All functions that can be called without arguments; most of the others are measured, too."""
    measured = {(row.path, row.line) for row in rows().values() if row.measure}  # other names have the same place
    lacking = [row for row in rows().values() if row.backends["cpu"] == MISSING and row.kind == "function"]
    unmeasured = [row for row in lacking if (row.path, row.line) not in measured]
    assert len(lacking) > 100
    assert len(unmeasured) < len(lacking) / 10
    assert not [f"{_at(row)}: {row.name}" for row in unmeasured if _takes_nothing(row.name)]


def _takes_nothing(name: str) -> bool:
    module, _, function = name.rpartition(".")
    try:
        inspect.signature(getattr(importlib.import_module(module), function)).bind()
    except (ImportError, AttributeError, TypeError, ValueError):  # not there, or not without arguments, or a builtin
        return False
    return True


def test_a_measurement_sees_values_errors_and_emptiness() -> None:
    """The measuring itself: each expression alone, in a process of its own."""
    asked = ["1 + 1", "torch.set_default_dtype(torch.float64)", "torch.get_default_dtype()", "torch.no_such_thing()"]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    two, nothing, unchanged, raised = [json.loads(line) for line in done.stdout.splitlines()]
    assert two == {"gives": "2", "raised": False, "empty": False}
    assert nothing == {"gives": "None", "raised": False, "empty": True}
    assert unchanged["gives"] == "torch.float32"
    assert (raised["gives"], raised["raised"]) == ("AttributeError", True)


# ---- how they read


STARTERS = {
    "The",
    "It",
    "This",
    "A",
    "An",
    "There",
    "These",
    "On",
    "In",
    "No",
    "Only",
    "What",
    "Off",
    "Each",
    "For",
    "Raises",
}


def sentence_faults(row: Row) -> list[str]:
    text = paragraph(row)
    faults = {
        "does not begin with the name": not text.startswith(f"`{row.name}` is a"),
        "has two spaces": "  " in text,
        "has two full stops": ".." in text.replace("...", ""),
        "has an empty name": "``" in text,
        "does not name its rules": not all(rule in text for rule in row.rules),
        "does not name a backend": not all(name in text for name in NAMES.values()),
        "does not end with its source": not text.endswith(f" Source: {row.source}"),
        "has no why": bool(row.why) and row.why.rstrip(".").removeprefix("because ") not in text,
        "has a why that begins like a sentence": row.why.split(" ")[0] in STARTERS,
    }
    return [f"{_at(row)}: {row.name}: {fault}" for fault, is_so in faults.items() if is_so]


def test_every_row_reads_as_sentences() -> None:
    faults = [fault for row in rows().values() for fault in sentence_faults(row)]
    assert not faults, "\n".join(faults)


def test_explain_for_ten_apis_drawn_at_random(cli: Cli) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    for name in random.Random(seed).sample(sorted(rows()), 10):
        row = rows()[name]
        ran = cli("explain", name)
        assert ran.status == 0, f"seed {seed}: {ran.err}"
        said = " ".join(ran.out.partition("\n\n")[0].split())
        assert said == " ".join(paragraph(row).split()), f"seed {seed}: {name}"
        assert all(rule in said for rule in row.rules) and (row.rules or "left alone because" in said), f"seed {seed}"
        assert all(backend in said for backend in NAMES.values()), f"seed {seed}: {name}"
        assert row.source in said


# ---- the command, over all rows


def test_all_rows_as_json(cli: Cli) -> None:
    ran = cli("catalog", "--output-format", "json")
    found = {row["api"]: row for row in json.loads(ran.out)}
    assert not missing(walked(), found)
    for row in found.values():
        assert tuple(row["backends"]) == BACKENDS
        assert row["action"] == LEFT or row["rule"]
        assert row["source"]


def test_all_rows_as_text_and_markdown(cli: Cli) -> None:
    text = cli("catalog").out.splitlines()
    assert len(text) == len(rows()) + 4
    assert sum(len(line) > 120 for line in text) < len(text) // 50
    table = cli("catalog", "--output-format", "markdown").out.splitlines()
    assert len(table) == len(rows()) + 2
    assert {line.replace("\\|", "").count("|") for line in table} == {15}


def test_loading_is_quick() -> None:
    assert min(cpu_seconds(api_catalog.load) for _ in range(3)) < 1  # 0.15 s, if the machine is quiet
