"""torch.distributed on simulated devices: collectives, DistributedDataParallel, and the ways to launch it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchmigrate.runtime as helper

from .conftest import PROGRAMS, variables

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")


@pytest.mark.checks("collectives")
def test_collectives(passes: Callable[[], None]) -> None:
    passes()


@pytest.mark.checks("process_groups")
def test_process_groups(passes: Callable[[], None]) -> None:
    passes()


@pytest.mark.checks("data_parallel_training")
def test_data_parallel_training(passes: Callable[[], None]) -> None:
    passes()


def launched(library: str, folder: Path, how: str, kind: str) -> list[dict[str, Any]]:
    """What both ranks wrote after a training, launched in some way, on two devices of a type or on the CPU."""
    options = TORCHRUN if how == "torchrun" else ()
    command = [sys.executable, *options, str(PROGRAMS / "launched.py"), how, kind, helper.__file__]
    environment = variables(library, "cuda" if kind == "cpu" else kind, 2, None)
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"rank{i}.json").read_text()) for i in range(2)]


@pytest.fixture(scope="module")
def on_the_cpu(library: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return launched(library, tmp_path_factory.mktemp("cpu"), "torchrun", "cpu")


@pytest.mark.parametrize(
    "how, kind",
    [("torchrun", "cuda"), ("spawn", "xpu"), ("environment", "npu")],  # each way once, and each library
)
def test_launchers(how: str, kind: str, library: str, tmp_path: Path, on_the_cpu: list[dict[str, Any]]) -> None:
    actual = launched(library, tmp_path, how, kind)
    assert [rank["library"] for rank in actual] == [{"cuda": "nccl", "xpu": "xccl", "npu": "hccl"}[kind]] * 2
    for rank, expected in zip(actual, on_the_cpu, strict=True):
        assert expected["library"] == "gloo" and len(rank["losses"]) == 4
        assert (rank["losses"], rank["weights"]) == (expected["losses"], expected["weights"])
    assert actual[0]["losses"] != actual[1]["losses"] and actual[0]["weights"] == actual[1]["weights"]
