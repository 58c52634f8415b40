"""Transforms: what they read of the project's other files, their tables name by name, and a rule that is alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT, planned, texts_after, write_tree

from torchmigrate.engine.case_runner import migrate
from torchmigrate.fixers.api import compile
from torchmigrate.fixers.hazard import mps
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Ruleset

RULES = packs.load().rules
HELPER = (ROOT / "torchmigrate/runtime.py").read_text()
MAIN = "import torch\nimport conf\n"


def is_helped(name: str) -> bool:
    return bool(re.search(rf"^((def|class) )?{re.escape(name.partition('.')[0])}(?!\w)", HELPER, re.MULTILINE))


def told(code: str, rule: str, rules: DispatchTable) -> list[str]:
    """What the rule says of a file, with all rules on."""
    found = migrate(f"import torch\nimport os\nimport torch.distributed as dist\n{code}\n".encode(), rules)[1]
    return [f.message for f in found if f.rule == rule]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"main.py": MAIN, "conf.py": 'import torch\nDEVICE = "cuda"\n'}, None),
        ({"conf.py": 'import torch\nDEVICE = "cuda"\n'}, "DEVICE = accel.device_type()\n"),
        ({"main.py": MAIN, "conf.py": 'import torch\nON = torch.cuda.is_available()\nDEVICE = "cuda"\n'},
         "ON = accel.is_available()\nDEVICE = accel.device_type()\n"),
    ],
    ids=["imported", "a script", "imported, and asks already"],
)  # fmt: skip
def test_t14_no_probe_is_gained_at_import(files: dict[str, str], expected: str | None, tmp_path: Path) -> None:
    text = texts_after(write_tree(tmp_path, files)).get("conf.py")
    assert text == (expected and f"import torch\nimport accel\n{expected}")


def test_a_library_may_import_itself(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"apex/__init__.py": "import torch\n", "train.py": "import torch\nimport apex\n"})
    assert planned(tree)["train.py"].findings == ()  # type: ignore[union-attr]
    (tree / "apex/__init__.py").unlink()
    assert [f.rule for f in planned(tree)["train.py"].findings] == ["hazard/nvidia-library"]  # type: ignore[union-attr]


def test_fsdp_alone_knows_the_current_device() -> None:
    text = "import torch\nimport torch.distributed.fsdp as fsdp\nimport accel\n"
    call = "fsdp.FullyShardedDataParallel(net, device_id={})\n"
    rule = dispatch_table(Ruleset({"distributed/fsdp": RULES["distributed/fsdp"]}))
    given, _ = migrate((text + call.format("torch.cuda.current_device()")).encode(), rule)
    assert given.decode() == text + call.format("accel.device(torch.cuda.current_device())")


SAME = (
    "empty_cache", "synchronize", "Event", "Stream", "stream", "current_stream", "default_stream", "set_stream",
    "memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "memory_stats",
    "memory_summary", "mem_get_info", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "current_device",
    "set_device", "device_of", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "initial_seed", "set_per_process_memory_fraction",
)  # fmt: skip
VARIABLE = '"CUDA_VISIBLE_DEVICES"'


@pytest.mark.parametrize(
    "code",
    [
        *(f"{owner}[{VARIABLE}] = '0'" for owner in ("env", "envs", "my_env", "new_env", "current_env", "os.environ")),
        *(f"{name}({VARIABLE}, '0')" for name in ("os.getenv", "os.putenv", "patch.setenv", "os.unsetenv", "getenv")),
        f"{VARIABLE} in os.environ",
        f"{VARIABLE} not in os.environ",
        f"run(env={{{VARIABLE}: '0'}})",
        f"os.environ.update({{{VARIABLE}: '0'}})",
    ],
)
def test_an_environment_is_known(code: str, rules: DispatchTable) -> None:
    assert len(told(code, "hazard/environment", rules)) == 1


@pytest.mark.parametrize(
    "code", [f"names[{VARIABLE}]", f"show({VARIABLE})", f"{VARIABLE} in names", f"run(names={{{VARIABLE}: '0'}})"]
)
def test_what_is_no_environment(code: str, rules: DispatchTable) -> None:
    assert told(code, "hazard/environment", rules) == []


@pytest.mark.parametrize("name", ["manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state"])
def test_random_numbers_of_one_backend(name: str, rules: DispatchTable) -> None:
    (message,) = told(f"torch.xpu.{name}(1)", "device/other-backend", rules)
    assert message.startswith("random numbers of XPU alone")


@pytest.mark.parametrize("name", SAME)
def test_the_helper_has_what_another_backend_has(name: str, rules: DispatchTable) -> None:
    text, _ = migrate(f"import torch\nimport accel\nx = torch.xpu.{name}\n".encode(), rules, True)
    assert text.decode() == f"import torch\nimport accel\nx = accel.{name}\n"
    assert is_helped(name)


@pytest.mark.parametrize("name", ["is_available", "device_count", "is_initialized", "is_bf16_supported", "memory"])
def test_a_question_to_another_backend_does_no_harm(name: str, rules: DispatchTable) -> None:
    assert told(f"x = torch.xpu.{name}", "device/other-backend", rules) == []


@pytest.mark.parametrize("name", ["init_process_group", "new_group", "init_distributed", "new_subgroups"])
def test_what_starts_a_group(name: str, rules: DispatchTable) -> None:
    text = f'import torch.distributed as dist\nimport accel\ndist.{name}("nccl")\n'
    assert migrate(text.encode(), rules)[0].decode() == text.replace('"nccl"', "accel.dist_backend()")


def test_names_in_tables_are_names() -> None:
    assert {*RULES["hazard/mps-operator"].on} >= mps._ALONE_ON_CPU
    assert [n for n in (*compile.SKIPPED, *compile.ELSEWHERE) if not is_helped(n)] == []


def test_both_switches_of_tf32_in_one_file(rules: DispatchTable) -> None:
    code = 'torch.backends.cudnn.allow_tf32 = True\ntorch.backends.cuda.matmul.fp32_precision = "tf32"'
    (message,) = told(code, "backends/tf32", rules)
    assert "`torch.backends.cudnn.allow_tf32` in line 4" in message


HARMLESS = """amp nvtx memory random streams comm nccl profiler graphs sparse jiterator tunable gds green_contexts
    nccl.SUM profiler.DEFAULT_FLAGS CudaError DeferredCudaCallError cudaStatus is_initialized() is_tf32_supported()
    has_half has_magma is_bf16_supported() _is_compiled() _is_in_bad_fork() nccl.is_available()
    lru_cache() classproperty"""


@pytest.mark.parametrize("name", HARMLESS.split())
def test_what_is_on_every_build_does_no_harm(name: str, rules: DispatchTable) -> None:
    found = told(f"x = torch.cuda.{name}", "hazard/cuda-namespace", rules)
    assert [message for message in found if "left alone" not in message] == []


def test_only_a_device_is_an_idiom(rules: DispatchTable) -> None:
    text = 'import torch\nx = pick("cuda") if torch.cuda.is_available() else "cpu"\n'
    assert b'pick("cuda") if torch.cuda' in migrate(text.encode(), rules)[0]


def test_a_tensor_type_of_torch_that_a_star_import_gives_is_rewritten(tmp_path: Path) -> None:
    loss = "from helpers import *\ndef loss(o):\n    return o.index_select(2, torch.cuda.LongTensor([0])).cuda()\n"
    root = write_tree(tmp_path, {"helpers.py": "import torch\n", "loss.py": loss})
    after = texts_after(root)["loss.py"]
    assert "torch.tensor([0], dtype=torch.int64, device=accel.device())" in after
    assert "cuda" not in after


COMPUTED = """import torch
def f(x, device):
    with torch.autocast(device_type=device.type, enabled=False):
        return x.cuda()
"""


@pytest.mark.parametrize(("floor", "is_told"), [("torch>=2.4", True), ("torch>=2.5", False), ("numpy", False)])
def test_autocast_of_a_computed_type_is_told_where_torch_may_be_too_old_for_mps(
    floor: str, is_told: bool, tmp_path: Path
) -> None:
    """Found in flair, which allows torch 1.13: its device becomes MPS, for which autocast raised, also disabled."""
    root = write_tree(tmp_path, {"a.py": COMPUTED, "requirements.txt": f"{floor}\n"})
    found = [f for f in planned(root, "check")["a.py"].findings if f.rule == "amp/autocast-device"]
    assert [(f.line, f.fix) for f in found] == ([(3, None)] if is_told else [])


@pytest.mark.parametrize("given", ["x.type()", "kind=x.type()"])
@pytest.mark.parametrize("casts", [True, False])
def test_a_types_name_is_told_where_a_function_of_another_file_casts_to_it(
    given: str, casts: bool, tmp_path: Path
) -> None:
    body = "torch.arange(2).type(kind)" if casts else "print(kind, torch.arange(2).type(torch.int32))"
    files = {
        "util.py": f"import torch\ndef grid(kind=None, name=None):\n    return {body}\n",
        "net.py": f"import torch\nfrom util import *\ndef f(x):\n    return grid({given})\n",
        "main.py": "import net\nimport torch\nnet.f(torch.ones(2).cuda())\n",
    }
    found = planned(write_tree(tmp_path, files), "check")["net.py"].findings
    assert [f.rule for f in found] == ["hazard/type-of-another"] * casts


@pytest.mark.parametrize(("uses", "is_told"), [("import torch", True), ("", True), ("import tensorflow as tf", False)])
def test_devices_that_are_hidden_from_another_library(uses: str, is_told: bool, tmp_path: Path) -> None:
    """A file of TensorFlow's in a package that uses torch, too, tells torch's helper nothing (voxelmorph)."""
    hiding = f"import os\n{uses}\nfrom net import layers\ndef setup():\n    os.environ[{VARIABLE}] = '-1'\n"
    files = {"net.py": "import torch\ndef layers(n):\n    return torch.zeros(n).cuda()\n", "setup_devices.py": hiding}
    text = texts_after(write_tree(tmp_path, files)).get("setup_devices.py", hiding)
    assert ("TORCH_ACCEL_DEVICE" in text) is is_told


OPTIONS = """import argparse
{more}
def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", help="where to run")
    return parser.parse_args()
"""


@pytest.mark.parametrize(
    ("more", "main", "changes"),
    [("", "import torch", True), ("import faiss", "import torch", False), ("", "import numpy", False)],
    ids=["files with torch import it", "it imports a library with devices of its own", "no torch anywhere near"],
)
def test_options_in_a_file_of_their_own(more: str, main: str, changes: bool, tmp_path: Path) -> None:
    """Found in open_clip: the command line's default stayed, and that of the function behind it was rewritten."""
    other = "import torch\nx = torch.ones(1).cuda()\n"
    program = f"{main}\nfrom options import parse\nargs = parse()\n"
    files = {"options.py": OPTIONS.format(more=more), "main.py": program, "other.py": other}
    text = texts_after(write_tree(tmp_path, files)).get("options.py", "")
    assert ('default=accel.device_type(), help="where' in text) is changes
