"""The tier without a compiler: what holds on a device in C++ holds on one in Python, but for what is listed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torchmigrate.verify.run import simulated_environment
from torchmigrate.verify.simulated import python_tier

PROGRAMS = Path(__file__).parent / "programs"

# Backward has one queue for a backend in Python, and crashes on a second device: so there is one, and it says so.
ONE_DEVICE = "invalid device index (npu:1 of 1 simulated"
ABSENT = {
    "placement": {"torch_names_it_the_accelerator": "expects two devices"},
    "training": {
        "a_transformer_s_fast_path_with_padding": "it has no nested tensors",
        "nested_tensors": "it has none",
    },
    "devices": {},
    "features": {
        "types_that_the_cpu_s_kernels_alone_lack": "it has the CPU's types",
        "sparse_tensors": "it has none",
        "sparse_gradients_of_an_embedding": "it has no sparse tensors",
    },
    "memory": {"a_storage_gives_its_memory_back": "torch resizes storages by a hook that Python cannot give it"},
    "random_numbers": {
        "states_of_all_devices": "expects two devices",
        "a_state_of_the_cpu_is_refused": "its states are the CPU's",
        "a_generator_of_the_device_is_refused_on_the_cpu": "it is a CPU generator inside",
    },
    "streams": {},
    "mixes": {"a_device_s_generator": "it is a CPU generator inside"},
    "python_tier": {},
}
MEMORY = {"memory": 64 << 20, "python_tier": 64 << 20}


def run(program: Path | str, *arguments: str, memory: int | None = None, **options: Any) -> Any:
    """A program, a file or its text, that sees the simulated device."""
    variables = {
        **simulated_environment("npu", tier="python", memory=memory),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, *((str(program),) if isinstance(program, Path) else ("-c", program)), *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Path]]:
    """Topic -> what its process said, and where its outcomes are: a process for all topics with as much memory."""
    found = {}
    for memory in {MEMORY.get(topic) for topic in ABSENT}:
        folder, topics = tmp_path_factory.mktemp("topics"), [topic for topic in ABSENT if MEMORY.get(topic) == memory]
        done = run(PROGRAMS / "serve.py", str(folder), *topics, memory=memory, cwd=folder)
        found |= {topic: (done.stderr, folder / f"{topic}.json") for topic in topics}
    return found


@pytest.mark.parametrize("topic", ABSENT)
def test_what_holds_in_cpp_holds_here(topic: str, served: dict[str, tuple[str, Path]]) -> None:
    """Each name in ABSENT does fail: one that holds by now has to go from there."""
    said, file = served[topic]
    assert f"{topic} ended with 0" in said, said
    outcomes = json.loads(file.read_text())
    wrong = {name: outcome for name, outcome in outcomes.items() if outcome and ONE_DEVICE not in outcome}
    assert wrong.keys() == ABSENT[topic].keys(), "\n".join(wrong[name] for name in wrong.keys() - ABSENT[topic])


NO_SPARSE = "no sparse tensors"
REFUSED_OPERATORS = {
    "sparse.sampled_addmm": NO_SPARSE,
    "sparse.mm.reduce": NO_SPARSE,
    "to_sparse": NO_SPARSE,
    "tensor_split": "torch wants its indices on the CPU, on every device",
}


@pytest.mark.parametrize(
    "step",
    [
        8,
        pytest.param(
            1,
            marks=pytest.mark.skipif(
                not os.environ.get("TORCHMIGRATE_FULL"), reason="all operators: 15 to 30 s; set TORCHMIGRATE_FULL=1"
            ),
        ),
    ],
)
def test_operators_give_the_cpu_s_results_and_gradients(step: int) -> None:
    done = run(PROGRAMS / "operators.py", str(step))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"].keys() <= REFUSED_OPERATORS.keys(), found["wrong"]
    if step == 1:
        assert found["wrong"].keys() == REFUSED_OPERATORS.keys()
        assert found["right"] > 600


def test_a_program_ends_quietly_with_tensors_alive() -> None:
    program = """
import torch
model = torch.nn.Linear(3, 2).to("npu")
model(torch.ones(4, 3, device="npu")).sum().backward()
class Late:
    kept = torch.ones(5, device="npu")
    def __del__(self):
        print("late", self.kept.shape[0])
late = Late()
print("loss")
"""
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "loss\nlate 5\n", "")


def test_an_uncaught_exception_is_the_program_s_own() -> None:
    done = run("import torch\ntorch.ones(3, 4, device='npu') @ torch.ones(4, 3)")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: Expected all tensors to be on the same device, but got")


@pytest.mark.parametrize(("name", "count", "why"), [("mps", 1, "C\\+\\+ compiler; npu can"), ("npu", 2, "not 2")])
def test_what_it_cannot_simulate_is_refused(name: str, count: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        python_tier.activate(name, count, 1 << 20)
