"""distributed/nccl over the files of a project: one file starts the backend, another asks which it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import planned, texts_after, write_tree

STARTS = 'import torch.distributed as dist\n\n\ndef start():\n    dist.init_process_group("nccl")\n'
NAMES = 'BACKEND = "nccl"\n'
ASKS = "import torch.distributed as dist\n\n\ndef fast(group):\n    return {}\n"
TEST = 'dist.get_backend(group) == "nccl"'
LIST = 'dist.get_backend(group) in ["gloo", "nccl"]'
ASKED = {
    TEST: 'dist.get_backend(group) in ("nccl", "xccl", "hccl")',
    LIST: 'dist.get_backend(group) in ["gloo", "nccl", accel.dist_backend()]',
}


@pytest.mark.parametrize("starts", [STARTS, NAMES, STARTS.replace('"nccl"', "dist.Backend.NCCL")])
@pytest.mark.parametrize("test", ASKED)
def test_a_comparison_follows_the_file_that_starts(starts: str, test: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"launch.py": starts, "comm.py": ASKS.format(test)})
    assert ASKED[test] in texts_after(tree)["comm.py"]


@pytest.mark.parametrize("starts", [STARTS.replace("nccl", "gloo"), 'print("nccl")\n'])
@pytest.mark.parametrize("test", ASKED)
def test_a_comparison_stays_where_nothing_starts_nccl(starts: str, test: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"launch.py": starts, "comm.py": ASKS.format(test)})
    assert "comm.py" not in texts_after(tree)
    assert "left alone" in str([f.message for f in planned(tree)["comm.py"].findings])  # type: ignore[union-attr]


def test_a_second_run_decides_the_same(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"launch.py": STARTS, "comm.py": ASKS.format(TEST)})
    once = texts_after(tree)
    write_tree(tmp_path, once)
    (tmp_path / "other.py").write_text(ASKS.format(LIST))
    again = texts_after(tree)
    assert "comm.py" not in again
    assert ASKED[LIST] in again["other.py"]
